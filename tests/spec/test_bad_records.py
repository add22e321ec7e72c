"""Records that are wrong, each in one way: the error names file, line, key and the near miss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tutti_hal.errors import GenerationError, SpecError
from tutti_hal.paths import package_file
from tutti_hal.record import Record, load_record
from tutti_hal.spec import load_spec

Edit = Callable[[str], str]


def text_of(vendor: str) -> str:
    return package_file("backends", vendor, "vendor.yaml").read_text(encoding="utf-8")


def write(folder: Path, text: str, vendor: str = "cuda") -> Path:
    place = folder / vendor
    place.mkdir(exist_ok=True)
    (place / "vendor.yaml").write_text(text, encoding="utf-8")
    return place


def problems(folder: Path, text: str, vendor: str = "cuda") -> list[str]:
    with pytest.raises(SpecError) as refused:
        load_record(write(folder, text, vendor))
    assert refused.value.id == "TT-SPEC"
    listed = [str(problem) for problem in refused.value.problems]
    for line in listed:
        assert line in str(refused.value)
    return listed


def replaced(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert text.count(old) >= 1, f"the record no longer holds {old!r}"
        return text.replace(old, new, 1)

    return edit


def line_of(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


@pytest.mark.parametrize(
    ("edit", "at", "key", "said"),
    [
        (replaced("title: NVIDIA", "titel: NVIDIA"), "titel:", "titel", "unknown key 'titel'; did you mean 'title'?"),
        (replaced("kind: hardware", "kind: hardwear"), "kind:", "kind", "no kind 'hardwear'; did you mean 'hardware'?"),
        (replaced("rank: 400", "rank: many"), "rank:", "detection.rank", "expected a whole number, found text"),
        (replaced("rank: 400", "rank: 4.5"), "rank:", "detection.rank", "found a number with a fraction"),
        (
            replaced("drivers: [nvcc, nvrtc]", "drivers: nvcc"),
            "drivers:",
            "toolchain.drivers",
            "expected a list, found text",
        ),
        (replaced("drivers: [nvcc, nvrtc]", "drivers: []"), "drivers:", "toolchain.drivers", "at least 1"),
        (replaced("suffix: .cu", "suffix: cu"), "suffix:", "toolchain.suffix", "not a well-formed suffix"),
        (replaced("wave_width: 32", "wave_width: 48"), "wave_width:", "archs.sm_80.wave_width", "neither 32, 64 nor"),
        (replaced("wave_width: 32", "wave_width: 16"), "wave_width:", "archs.sm_80.wave_width", "neither 32, 64 nor"),
        (replaced("mask_bits: 32", "mask_bits: 48"), "mask_bits:", "archs.sm_80.mask_bits", "neither 32 nor 64"),
        (
            replaced("wave_width: 32", "wave_width: 64"),
            "capabilities: &full",
            "archs.sm_80.capabilities",
            "wave.ballot is claimed, but a mask of 32 bits cannot name 64 lanes",
        ),
        (
            replaced("wave.ballot: true", "wave.balot: true"),
            "wave.balot",
            "archs.sm_80.capabilities.wave.balot",
            "no capability 'wave.balot'; did you mean 'wave.ballot'?",
        ),
        (
            replaced("wave.ballot: true", "wave.ballot: yes please"),
            "wave.ballot: yes",
            "archs.sm_80.capabilities.wave.ballot",
            "expected true or false, found text",
        ),
        (
            replaced("  memory.managed: true\n", ""),
            "\ncapabilities:",
            "capabilities",
            "the capability 'memory.managed' is not answered",
        ),
        (
            replaced("  evidence: vendor-source\n", "  evidence: rumour\n"),
            "evidence: rumour",
            "p2p.evidence",
            "no evidence 'rumour'",
        ),
        (
            replaced("  mechanisms: [get-pages-persistent", "  mechanism: [get-pages-persistent"),
            "mechanism:",
            "p2p.mechanism",
            "did you mean 'mechanisms'?",
        ),
        (
            replaced("    ModuleLoad: cuModuleLoad\n", "    ModuleLaod: cuModuleLoad\n"),
            "ModuleLaod",
            "host_api.names.ModuleLaod",
            "no host function 'ModuleLaod'; did you mean 'ModuleLoad",
        ),
        (replaced("\n  fence:\n", "\n  fense:\n"), "fense:", "primitives.fense", "did you mean 'fence'?"),
        (
            replaced("block: cta, device", "blok: cta, device"),
            "fence:",
            "primitives.fence",
            "vars.reach has no word for scope 'block'",
        ),
        (
            replaced("reach: {by: scope, block", "reach: {by: scoop, block"),
            "fence:",
            "primitives.fence",
            "vars.reach needs 'by', one of: scope",
        ),
        (
            replaced("arch=compute_{sm},code=sm_{sm}", "arch=compute_{sn},code=sm_{sm}"),
            "sm_80:",
            "archs.sm_80",
            "toolchain.arch_flags uses {sn}, which vars lacks",
        ),
        (replaced(r"'release (\d", r"'release (?:\d"), "version_pattern", "toolchain.version_pattern", "needs a group"),
        (replaced(r"'release (\d", r"'release ((\d"), "version_pattern", "toolchain.version_pattern", "regular"),
        (replaced('sdk: "*"', 'sdk: "newer"'), 'sdk: "newer"', "quirks[0].sdk", "not a well-formed SDK version range"),
        (replaced("vendor: cuda", "vendor: coda"), "vendor:", "vendor", "its folder is called 'cuda'"),
        (replaced("granule_bytes: 65536", "granule_bytes: 0"), "granule_bytes", "p2p.granule_bytes", "out of range"),
        (replaced("schema: 1", "schema: 2"), "schema:", "schema", "2 is out of range [1, 1]"),
        (replaced("  doorbell: device", "  doorbell: moon"), "doorbell:", "placement.doorbell", "no placement 'moon'"),
        (replaced("{Success: cudaSuccess}", "{Success: [1]}"), "Success: [1]", "errors.names.Success", "found a list"),
    ],
)
def test_one_fault_is_named_with_its_place(tmp_path: Path, edit: Edit, at: str, key: str, said: str) -> None:
    text = edit(text_of("cuda"))
    listed = problems(tmp_path, text)
    lines = [line for line in listed if said in line]
    assert lines, listed
    stripped = at.lstrip("\n")
    wanted = next(
        n for n, line in enumerate(text.splitlines(), 1) if (line.startswith(stripped) if at[0] == "\n" else at in line)
    )
    file = tmp_path / "cuda" / "vendor.yaml"
    assert any(line.startswith(f"{file}:{wanted}: {key}: ") for line in lines), (wanted, lines)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    text = replaced("  granule_bytes: 65536\n", "")(text_of("cuda"))
    [line] = problems(tmp_path, text)
    assert line.endswith("p2p: the key 'granule_bytes' is missing")


def test_a_duplicate_key_names_both_lines(tmp_path: Path) -> None:
    text = text_of("cuda") + "\nvendor: cuda\n"
    [line] = problems(tmp_path, text)
    first = line_of(text, "vendor: cuda")
    assert f"vendor: the key is already given on line {first}" in line
    assert f":{len(text.splitlines())}: " in line


def test_a_duplicate_number_of_a_flow_mapping_is_seen(tmp_path: Path) -> None:
    text = replaced("InvalidValue: 1,", "InvalidValue: 1, InvalidValue: 2,")(text_of("cuda"))
    [line] = problems(tmp_path, text)
    assert "errors.values.InvalidValue" in line


def test_all_faults_come_in_one_go(tmp_path: Path) -> None:
    text = text_of("cuda")
    for old, new in (
        ("title: NVIDIA", "titel: NVIDIA"),
        ("rank: 400", "rank: many"),
        ("granule_bytes: 65536", "granule_bytes: 0"),
        ("\n  fence:\n", "\n  fense:\n"),
    ):
        text = replaced(old, new)(text)
    listed = problems(tmp_path, text)
    assert len(listed) == 5  # the misspelt title is an unknown key and a missing one
    assert listed == sorted(listed, key=lambda line: int(line.split(":")[1]))


def test_a_fact_without_source_is_refused(tmp_path: Path) -> None:
    text = replaced("  source: NVIDIA open-gpu-kernel-modules 595.45.04, nv-p2p.h and nv-dmabuf.c\n", "")
    assert any("p2p: the key 'source' is missing" in line for line in problems(tmp_path, text(text_of("cuda"))))


def test_an_empty_source_is_refused(tmp_path: Path) -> None:
    text = replaced("source: nvcc 13.0 --help", "source: ''")(text_of("cuda"))
    assert any("toolchain.source: must not be empty" in line for line in problems(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("- a\n- b\n", "expected a mapping, found a list"),
        ("a: [1\n", ":2:1: "),
        ("a: b: c\n", ":1:5: "),
        ("a: !!python/object:os.system x\n", "unknown key 'a'"),
    ],
)
def test_what_is_no_record_at_all_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_record(write(tmp_path, text))
    assert said in str(refused.value)


def test_a_record_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="No such file"):
        load_record(tmp_path / "nobody")


def test_a_missing_lowering_loads_and_is_listed_whole(tmp_path: Path) -> None:
    """A record under construction loads; what it lacks is one list."""
    text = text_of("cuda")
    for family in ("  mmio.store: {body", "  control.trap: {body"):
        line = next(line for line in text.splitlines() if line.startswith(family))
        text = text.replace(line + "\n", "")
    record = load_record(write(tmp_path, text))
    missing = record.missing(record.archs["sm_90"])
    assert missing.primitives == ("mmio.store.u32", "control.trap")
    trap = load_spec().primitives["control.trap"]
    with pytest.raises(GenerationError, match=r"no lowering for family 'control\.trap'"):
        record.lower(trap, record.archs["sm_90"])


def test_a_function_that_a_claim_needs_may_not_be_absent(tmp_path: Path) -> None:
    old = "    GetLastErrorDetail: the runtime"
    text = replaced(old, "    PointerGetAttributes: we forgot\n" + old)(text_of("cuda"))
    record = load_record(write(tmp_path, text))
    assert record.missing(record.archs["sm_80"]).host_functions == ("PointerGetAttributes",)
    without_claim = replaced("memory.pointer_attributes: true", "memory.pointer_attributes: false")(text)
    record = load_record(write(tmp_path, without_claim))
    assert record.missing(record.archs["sm_80"]).host_functions == ()


def test_a_body_with_an_undefined_word_is_refused(tmp_path: Path) -> None:
    record = load_record(write(tmp_path, replaced("fence.sc.{{ reach }}", "fence.sc.{{ raech }}")(text_of("cuda"))))
    with pytest.raises(GenerationError, match="'raech' is undefined"):
        record.lower(load_spec().primitives["fence.system"], record.archs["sm_80"])


def lowered(record: Record, arch: str, primitive: str) -> str | None:
    return record.lower(load_spec().primitives[primitive], record.archs[arch])


def test_an_exception_and_an_override_win(tmp_path: Path) -> None:
    text = replaced(
        '  time.pause: {body: "__nanosleep(20u);"}',
        '  time.pause: {exceptions: {time.pause: "spin();"}}',
    )(text_of("cuda"))
    text = replaced("  sm_90:\n", '  sm_90:\n    primitives: {time.pause: {body: "rest();"}}\n')(text)
    record = load_record(write(tmp_path, text))
    assert lowered(record, "sm_80", "time.pause") == "spin();"
    assert lowered(record, "sm_90", "time.pause") == "rest();"


def test_an_exception_of_another_family_is_refused(tmp_path: Path) -> None:
    text = replaced(
        '  time.pause: {body: "__nanosleep(20u);"}',
        '  time.pause: {body: "x();", exceptions: {time.sleep: "y();"}}',
    )(text_of("cuda"))
    assert any("'time.sleep' is of family 'time.sleep'" in line for line in problems(tmp_path, text))


def test_a_primitive_without_its_capability_is_absent() -> None:
    host = load_record(package_file("backends", "host"))
    assert lowered(host, "sim-w128", "wave.ballot") is None
    assert lowered(host, "sim-w64", "wave.ballot") == "return tt_host_wave_ballot(m, p);"


def test_a_frozen_record_cannot_be_changed() -> None:
    record = load_record(package_file("backends", "host"))
    with pytest.raises(AttributeError):
        record.vendor = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        record.capabilities["memory.pinned"] = False  # type: ignore[index]
    with pytest.raises(TypeError):
        record.errors.values["Success"] = 1  # type: ignore[index]


def test_what_the_schema_sees_and_what_only_the_whole_shows_are_listed_together(tmp_path: Path) -> None:
    text = text_of("cuda")
    for old, new in (
        ("kind: hardware", "kind: hardwear"),
        ("wave_width: 32", "wave_width: 48"),
        ("  memory.managed: true\n", ""),
        ("wave.ballot: true", "wave.ballot: yes please"),
    ):
        text = replaced(old, new)(text)
    listed = problems(tmp_path, text)
    for said in ("no kind 'hardwear'", "48 is neither 32, 64", "'memory.managed' is not answered", "found text"):
        assert any(said in line for line in listed), (said, listed)
    assert not any("'wave.ballot' is not answered" in line for line in listed), "it is answered, though wrongly"
