"""All mutants of the product: named, stable, each a change that can be made, none of which touches the product."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.errors import MutantsInvalid
from tutti_hal.conformance_tests.mutants.apply import copy_product, lenient, make
from tutti_hal.conformance_tests.mutants.lowerings import lowering_mutants
from tutti_hal.conformance_tests.mutants.mutant import Mutant, Operator, RecordEdit, Source
from tutti_hal.conformance_tests.mutants.records import edited, table_of, text_of
from tutti_hal.conformance_tests.mutants.sampling import draw
from tutti_hal.conformance_tests.mutants.sites import all_mutants, hand_made, template_mutants
from tutti_hal.conformance_tests.mutants.tables import HandMade, Tables, check_equivalents, load_tables
from tutti_hal.conformance_tests.subject import SubjectSpec, profile_of
from tutti_hal.paths import templates_dir
from tutti_hal.record import Record, load_record
from tutti_hal.spec import load_spec


@pytest.fixture(scope="module")
def record() -> Record:
    return profile_of(SubjectSpec("host")).record


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables()


@pytest.fixture(scope="module")
def mutants(record: Record, tables: Tables) -> tuple[Mutant, ...]:
    return all_mutants(record, templates_dir(), load_spec(), tables)


def digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            whole.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()


def test_every_kind_of_mutant_is_there_and_every_one_is_targeted(mutants: tuple[Mutant, ...], tables: Tables) -> None:
    kinds = {(one.source, one.operator) for one in mutants}
    ordering = (Operator.DROP, Operator.WEAKEN_ORDER, Operator.WEAKEN_SCOPE)
    for operator in (*ordering, Operator.PLUS_ONE, Operator.MINUS_ONE):
        assert {(Source.TEMPLATE, operator), (Source.RECORD, operator)} <= kinds
    assert {(Source.RECORD, one) for one in (Operator.LIE, Operator.SWAP, Operator.ABSENT, Operator.FLIP)} <= kinds
    assert {(Source.TEMPLATE, one) for one in (Operator.FLIP, Operator.SWAP_CONSTANT, Operator.HAND)} <= kinds
    assert [one.id for one in mutants if tables.target_of(one) is None] == []


def test_every_order_fence_and_store_of_the_ring_has_its_mutants(mutants: tuple[Mutant, ...]) -> None:
    text = (templates_dir() / "kernels" / "ring_submit.j2").read_text(encoding="utf-8")
    code = re.sub(r"\{#.*?#\}|//[^\n]*", "", text, flags=re.S)
    own = [one for one in mutants if one.file == "kernels/ring_submit.j2"]

    def count(operator: Operator) -> int:
        return sum(one.operator is operator for one in own)

    assert count(Operator.WEAKEN_ORDER) == len(re.findall(r"tt_(?:load_acquire|store_release)_\w+\(", code)) > 0
    fences = len(re.findall(r"tt_fence_(?:system|device)\(\)", code))
    assert count(Operator.WEAKEN_SCOPE) == fences + len(re.findall(r"tt_(?:load|store|atomic)_\w*_sys_\w+\(", code)) > 0
    dropped = [one for one in own if one.operator is Operator.DROP]
    assert sum("tt_fence" in one.before for one in dropped) == fences
    assert sum("tt_mmio_store" in one.before for one in dropped) == code.count("tt_mmio_store") > 0


def test_listings_are_no_mutants_judges(tables: Tables) -> None:
    """They are about optimised code, and mutants are compiled without the optimiser: the product itself would fail."""
    names = [case.name for case in catalogue(()).cases if case.name.startswith("compile/listing")]
    assert len(names) > 3
    globs = [glob for row in tables.targets for glob in row.cases]
    assert not [name for name in names for glob in globs if fnmatchcase(name, glob)]


def test_the_suites_own_kernels_are_no_sites(mutants: tuple[Mutant, ...]) -> None:
    files = {one.file for one in mutants if one.source is Source.TEMPLATE}
    assert "kernels/ring.cu.j2" in files
    assert "layers/cuda_like.h.j2" in files
    assert not [name for name in files if "probe" in name or "saxpy" in name]


def test_ids_are_stable_under_edits_elsewhere_and_change_with_the_line(tmp_path: Path, tables: Tables) -> None:
    root = tmp_path / "templates"
    shutil.copytree(templates_dir(), root)
    path = root / "kernels" / "ring_submit.j2"

    def names() -> dict[str, int]:
        return {one.id: one.line for one in template_mutants(path, root, tables)}

    before = names()
    text = path.read_text(encoding="utf-8")
    path.write_text("// A comment.\n\nTT_DEVICE TT_INLINE int other() { return 1 + 2; }\n" + text, encoding="utf-8")
    after = names()
    assert {name: line + 3 for name, line in before.items()}.items() <= after.items()
    assert {name.split(":")[1] for name in set(after) - set(before)} == {"other"}

    line = "tt_mmio_store_u32(tt_address_as<tt_mmio32>(queue->sq_doorbell), slot);"
    assert line in text
    path.write_text(text.replace(line, line.replace("slot", "slot + 0")), encoding="utf-8")
    gone = set(before) - set(names())
    assert {name.split(":")[1] for name in gone} == {"ring_doorbell"}
    assert len({name.split(":")[2] for name in gone}) == 1


def test_each_mutant_is_one_change_of_a_copy_and_the_product_stays(
    mutants: tuple[Mutant, ...], record: Record, tmp_path: Path
) -> None:
    product_before = digest(templates_dir()), digest(record.folder)
    product = copy_product(SubjectSpec("host"), record, templates_dir(), tmp_path / "product")
    copies = digest(product.templates), digest(product.record)
    plain = text_of(product.table)
    for index, one in enumerate(draw(mutants, 60, 3)):
        folder = tmp_path / str(index)
        folder.mkdir()
        spec = make(one, product, folder)
        if one.source is Source.TEMPLATE:
            assert spec.record == str(product.record)
            changed = (Path(spec.templates) / one.file).read_text(encoding="utf-8")
            assert changed != (product.templates / one.file).read_text(encoding="utf-8"), one.id
        elif one.source is Source.RECORD:
            assert spec.templates == str(product.templates)
            assert (Path(spec.record) / "vendor.yaml").read_text(encoding="utf-8") != plain, one.id
        else:
            assert spec.controller == one.controller
            assert (spec.record, spec.templates) == (str(product.record), str(product.templates))
    assert (digest(product.templates), digest(product.record)) == copies
    assert (digest(templates_dir()), digest(record.folder)) == product_before


def test_a_record_written_anew_means_the_same_and_an_edit_changes_one_place(record: Record, tmp_path: Path) -> None:
    table = table_of(record.file.read_text(encoding="utf-8"))
    folder = tmp_path / record.vendor
    folder.mkdir()
    (folder / "vendor.yaml").write_text(text_of(table), encoding="utf-8")
    again = load_record(folder)
    assert (again.archs, again.primitives, again.errors) == (record.archs, record.primitives, record.errors)

    changed = edited(table, [RecordEdit(("archs", "sim-w32", "capabilities", "wave.ballot"), False)])
    # The text shares one table between archs; the edit must not.
    assert changed["archs"]["sim-w64"] == table["archs"]["sim-w64"]
    assert table["archs"]["sim-w32"]["capabilities"]["wave.ballot"] is True


def test_lowerings_lose_their_order_their_scope_and_their_work(record: Record) -> None:
    made = {(one.primitive.id, one.operator, one.variant): one.after for one in lowering_mutants(record, load_spec())}
    assert "relaxed_sys" in made["load.acquire.system.u32", Operator.WEAKEN_ORDER, ""]
    assert "acquire_dev" in made["load.acquire.system.u32", Operator.WEAKEN_SCOPE, ""]
    assert "fence_device" in made["fence.system", Operator.WEAKEN_SCOPE, ""]
    assert "tt_host" not in made["fence.device", Operator.DROP, ""]
    assert "(void)p; (void)v;" in made["store.release.device.u32", Operator.DROP, ""]
    assert "index_y" in made["geometry.thread.x", Operator.SWAP, "y"]
    assert "expected = desired" in made["atomic.cas.device.u32", Operator.SWAP, "expected-desired"]
    assert ("load.relaxed.device.u32", Operator.WEAKEN_ORDER, "") not in made


def test_another_vendors_record_has_its_mutants_too(tables: Tables) -> None:
    # Any record in the tree: the operators know no vendor.
    others = [path.parent for path in Path(profile_of(SubjectSpec("host")).record.folder).parent.glob("*/vendor.yaml")]
    for folder in others:
        made = all_mutants(load_record(folder), templates_dir(), load_spec(), tables)
        assert {Operator.WEAKEN_ORDER, Operator.WEAKEN_SCOPE, Operator.DROP, Operator.LIE} <= {
            one.operator for one in made if one.source is Source.RECORD
        }


def test_every_entry_of_the_registry_occurs_once(tables: Tables) -> None:
    assert len(tables.hand_made) >= 25
    for entry in tables.hand_made:
        made = hand_made(entry, templates_dir())
        assert made.before != made.after
        assert made.about.endswith(".")
        assert made.cases


@pytest.mark.parametrize(("pattern", "times"), [("tt_fence_everywhere", 0), ("uint32_t", 2)])
def test_an_entry_that_does_not_occur_exactly_once_is_refused(pattern: str, times: int) -> None:
    entry = HandMade("bad", "kernels/ring_submit.j2", pattern, "", "It is bad.", ("ring/*",))
    with pytest.raises(MutantsInvalid, match=r"occurs \d+ times") as caught:
        hand_made(entry, templates_dir())
    assert ("occurs 0 times" in str(caught.value)) == (times == 0)


def test_every_glob_of_the_targets_is_of_a_case(tables: Tables) -> None:
    names = [case.name for case in catalogue().cases]
    aimed = {glob for row in tables.targets for glob in row.cases} | {g for one in tables.hand_made for g in one.cases}
    assert [glob for glob in sorted(aimed) if not any(fnmatchcase(name, glob) for name in names)] == []


def _tables(folder: Path, **texts: str) -> Path:
    whole = {
        "targets": "version: 1\ntemplates: []\nconstants: {}\ntuning: {}\ntargets: []\n",
        "registry": "version: 1\nmutants: {}\n",
        "equivalents": "version: 1\nequivalents: {}\n",
    }
    for name, text in (whole | texts).items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("targets", "version: 1\ntargets: []\n"),
        ("targets", "version: 1\ntemplates: []\nconstants: {}\ntuning: {}\ntargets: [{cases: [a]}]\n"),
        ("targets", "version: 1\ntemplates: []\nconstants: {}\ntuning: {}\ntargets: [{places: [a], typo: [b]}]\n"),
        ("registry", "version: 1\nmutants: {a: {file: b}}\n"),
        ("equivalents", "version: 1\nequivalents: {a: because}\n"),
        ("equivalents", "version: 1\nequivalents: {a: }\n"),
        ("survivors", "version: 1\nsurvivors: {a: because}\n"),
    ],
)
def test_a_table_that_is_wrong_is_refused(table: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(MutantsInvalid):
        load_tables(_tables(tmp_path, **{table: text}))


def test_equivalents_exist_and_are_few(mutants: tuple[Mutant, ...], tables: Tables, tmp_path: Path) -> None:
    check_equivalents(tables, mutants)
    unknown = load_tables(_tables(tmp_path, equivalents="version: 1\nequivalents: {gone: It is gone.}\n"))
    with pytest.raises(MutantsInvalid, match="gone"):
        check_equivalents(unknown, mutants)
    open_one = "version: 1\nsurvivors: {gone: A case is missing.}\n"
    with pytest.raises(MutantsInvalid, match="gone"):
        check_equivalents(load_tables(_tables(tmp_path, survivors=open_one)), mutants)
    (tmp_path / "survivors.yaml").unlink()
    listed = {one.id: "Nobody sees it." for one in mutants[: len(mutants) // 20 + 1]}
    many = load_tables(_tables(tmp_path, equivalents=yaml.safe_dump({"version": 1, "equivalents": listed})))
    with pytest.raises(MutantsInvalid, match="more than 5%"):
        check_equivalents(many, mutants)


def test_a_sample_is_the_seeds_and_holds_every_kind_that_there_is_room_for(mutants: tuple[Mutant, ...]) -> None:
    kinds = {(one.source, one.operator) for one in mutants}
    sample = draw(mutants, 60, 7)
    assert len(sample) == 60
    assert sample == draw(mutants, 60, 7) != draw(mutants, 60, 8)
    assert {(one.source, one.operator) for one in sample} == kinds
    order = {one.id: at for at, one in enumerate(mutants)}
    assert [order[one.id] for one in sample] == sorted(order[one.id] for one in sample)
    few = draw(mutants, 5, 7)
    assert len({(one.source, one.operator) for one in few}) == 5
    assert draw(mutants, len(mutants) + 1, 1) == mutants


def test_a_compiler_that_takes_warnings_for_errors_is_made_to_let_them_pass() -> None:
    def flags(*given: str) -> list[str]:
        table = {"kind": "hardware", "toolchain": {"flags": list(given)}}
        kept: list[str] = lenient(table)["toolchain"]["flags"]
        return kept

    assert flags("-O2", "-Wall", "-Werror") == ["-O2", "-Wall"]
    assert flags("-O3", "-Werror", "all-warnings", "-g") == ["-O3", "-g"]
    assert flags("-Werror=parentheses", "-O2") == ["-O2"]
    emulated = {"kind": "host", "toolchain": {"flags": ["-O2", "-g1", "-Og", "-O"]}}
    assert lenient(emulated)["toolchain"]["flags"] == ["-O0", "-g1", "-Og", "-O"]


def test_a_constant_that_only_tunes_is_no_site_and_must_exist(record: Record, tables: Tables) -> None:
    spec, free = load_spec(), replace(tables, tuning={})
    lines = [one for one in all_mutants(record, templates_dir(), spec, free) if "RING_BURST =" in one.before]
    assert {str(one.operator) for one in lines} == {"plus-one", "minus-one"}
    assert not [one for one in all_mutants(record, templates_dir(), spec, tables) if "RING_BURST =" in one.before]
    with pytest.raises(MutantsInvalid, match="no template defines RING_BRUST"):
        all_mutants(record, templates_dir(), spec, replace(tables, tuning={"RING_BRUST": "a slip"}))
