"""The contract tables themselves, and tables that are wrong on purpose."""

from __future__ import annotations

import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutti_hal.errors import SpecError
from tutti_hal.paths import package_file
from tutti_hal.record import load_record
from tutti_hal.spec import load_spec

TABLES = ("capabilities.yaml", "clauses.yaml", "primitives.yaml", "host_api.yaml")

#: The device primitives of the contract, written down from its text: ids by family.
AXES_32_64 = ("u32", "u64")
SCOPES = ("device", "system")
EXPECTED_IDS = {
    *(f"load.{order}.{scope}.{bits}" for order in ("relaxed", "acquire") for scope in SCOPES for bits in AXES_32_64),
    *(f"store.{order}.{scope}.{bits}" for order in ("relaxed", "release") for scope in SCOPES for bits in AXES_32_64),
    *(f"atomic.{op}.{s}.{b}" for op in ("add", "cas", "exchange", "or") for s in SCOPES for b in AXES_32_64),
    *(f"{move}.vector.relaxed.{scope}.u32x4" for move in ("load", "store") for scope in SCOPES),
    *(f"fence.{scope}" for scope in ("block", *SCOPES)),
    *(f"geometry.{what}.{dim}" for what in ("thread", "block", "block_size", "grid_size") for dim in "xyz"),
    *(f"wave.{what}" for what in ("sync", "active", "ballot", "sync_mask", "elect")),
    *(f"wave.mask_{what}" for what in ("popcount", "first", "below")),
    *(f"wave.shuffle.{bits}" for bits in AXES_32_64),
    *(f"crc32c.{bits}" for bits in AXES_32_64),
    *(f"attribute.{what}" for what in ("device", "inline", "restrict", "launch_bounds", "entry", "shared")),
    "geometry.lane",
    "barrier.block",
    "mmio.store.u32",
    "mmio.load.u32",
    "time.clock",
    "time.sleep",
    "time.pause",
    "control.trap",
    "debug.print",
}


def test_the_primitives_are_those_of_the_contract() -> None:
    assert set(load_spec().primitives) == EXPECTED_IDS


@pytest.mark.parametrize(
    ("primitive", "signature"),
    [
        ("load.acquire.system.u32", "uint32_t tt_load_acquire_sys_u32(const tt_word32 *p)"),
        ("store.release.device.u64", "void tt_store_release_dev_u64(tt_word64 *p, uint64_t v)"),
        ("atomic.cas.system.u64", "uint64_t tt_atomic_cas_sys_u64(tt_word64 *p, uint64_t expected, uint64_t desired)"),
        ("load.vector.relaxed.system.u32x4", "tt_u32x4 tt_load_relaxed_sys_u32x4(const tt_quad *p)"),
        ("store.vector.relaxed.device.u32x4", "void tt_store_relaxed_dev_u32x4(tt_quad *p, tt_u32x4 v)"),
        ("fence.system", "void tt_fence_system(void)"),
        ("wave.shuffle.u64", "uint64_t tt_wave_shuffle_u64(tt_mask m, uint64_t v, uint32_t src_lane)"),
        ("mmio.store.u32", "void tt_mmio_store_u32(tt_mmio32 *p, uint32_t v)"),
        ("attribute.shared", "TT_SHARED(type, name, count)"),
        ("attribute.device", "TT_DEVICE"),
    ],
)
def test_signatures(primitive: str, signature: str) -> None:
    assert load_spec().primitives[primitive].signature == signature


def test_mask_primitives_and_only_they_need_a_ballot() -> None:
    needing = {p.id for p in load_spec().primitives.values() if p.capability == "wave.ballot"}
    assert needing == {i for i in EXPECTED_IDS if i.startswith("wave.")} - {"wave.sync"}


def test_clauses_are_sentences_under_plain_names() -> None:
    clauses = load_spec().clauses
    assert len(clauses) >= 150
    assert {clause.level for clause in clauses.values()} == {"L0", "L1", "L2", "L3", "L4", "L5", "L6", "L7"}
    texts = [clause.text for clause in clauses.values()]
    assert len(set(texts)) == len(texts)
    for clause in clauses.values():
        assert re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", clause.id), clause.id
        assert clause.text[0].isupper(), clause
        assert clause.text.endswith("."), clause
        assert 5 <= len(clause.text.split()) <= 45, clause


def test_no_anchor_is_the_start_of_another() -> None:
    """So that a prefix with a star never takes a clause itself for a group."""
    names = sorted(load_spec().clauses)
    assert not [(a, b) for a, b in pairwise(names) if b.startswith(f"{a}.")]


def test_every_primitive_clause_is_claimed_by_a_primitive() -> None:
    spec = load_spec()
    claimed = {clause for primitive in spec.primitives.values() for clause in primitive.clauses}
    general = {"prim.wave.no_ballot.absent", "prim.shared_word.plain_access_refused"}
    assert {clause for clause in spec.clauses if clause.startswith("prim.")} - claimed == general


def test_every_host_clause_is_claimed_or_is_about_the_whole() -> None:
    spec = load_spec()
    claimed = {clause for function in spec.host_functions.values() for clause in function.clauses}
    whole = {
        "host.error.typed",
        "host.calls.counted",
        "host.thread.safe",
        "host.fork.child_refused",
        "host.graph.replay",
        "host.module.resources",
        "host.peer.enable_twice_refused",
    }
    assert {clause for clause in spec.clauses if clause.startswith("host.")} - claimed <= whole


@pytest.mark.parametrize(
    ("capability", "level", "optional"),
    [
        ("wave.ballot", "L8", True),
        ("module.load", "L1", True),
        ("module.load", "L2", False),
        ("clock.global_ns", "L8", True),
        ("memory.register_mmio", "L6", True),
        ("memory.register_mmio", "L7", False),
    ],
)
def test_what_a_level_needs_is_not_optional_there(capability: str, level: str, optional: bool) -> None:
    assert load_spec().capabilities[capability].optional_at(level) is optional


@pytest.mark.parametrize("vendor", ["host", "cuda"])
def test_no_vendor_lacks_what_it_must_have(vendor: str) -> None:
    record = load_record(package_file("backends", vendor))
    required = [c for c in load_spec().capabilities.values() if not c.optional_at("L6")]
    assert len(required) >= 3
    for capability in required:
        if capability.scope == "vendor":
            assert record.capabilities[capability.id], capability.id
        else:
            assert all(arch.capabilities[capability.id] for arch in record.archs.values()), capability.id


def test_loading_is_done_once() -> None:
    assert load_spec() is load_spec()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in TABLES:
        shutil.copy(package_file("spec", name), tmp_path / name)
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_copy_loads_the_same(folder: Path) -> None:
    assert load_spec(folder) == load_spec()


@pytest.mark.parametrize(
    ("table", "old", "new", "said"),
    [
        ("clauses.yaml", "  prim.lane.below_width:", "  prim.lane.below32:", "not a well-formed clause"),
        ("clauses.yaml", "    level: L1\n", "    level: L9\n", "no level 'L9'; known: L0, L1"),
        ("clauses.yaml", "    level: L1\n", "    levle: L1\n", "unknown key 'levle'; did you mean 'level'?"),
        ("clauses.yaml", "of the arch.\n", "of the arch\n", "not a well-formed sentence"),
        ("clauses.yaml", "  prim.lane.below_width:", "  prim.lane.consecutive:", "already given on line"),
        ("primitives.yaml", "[prim.fence.publishes", "[prim.fence.publish", "no clause 'prim.fence.publish'; did you"),
        ("primitives.yaml", "clauses: [prim.trap.fails_launch]", "clauses: []", "at least 1"),
        ("primitives.yaml", "capability: debug.print", "capability: debug.prnit", "did you mean 'debug.print'?"),
        ("primitives.yaml", "scope: block\n", "scope: blok\n", "no scope 'blok'; did you mean 'block'?"),
        ("primitives.yaml", "order: seq_cst", "order: seqcst", "no memory order 'seqcst'; did you mean 'seq_cst'?"),
        ("primitives.yaml", 'id: "fence.{scope}"', "id: fence.any", "two primitives are called fence.any"),
        ("primitives.yaml", 'c_name: "tt_fence_{scope}"', "c_name: tt_trap", "tt_trap already names"),
        (
            "primitives.yaml",
            'c_name: "tt_fence_{scope}"',
            'c_name: "tt_{scoop}"',
            "names an axis that the family lacks",
        ),
        (
            "primitives.yaml",
            "c_name: tt_trap\n    returns: void",
            "c_name: tt_trap",
            "a function needs the key 'returns'",
        ),
        ("primitives.yaml", "[uint32_t, ns]", "[uint32_t ns]", "each parameter is a pair [type, name]"),
        ("primitives.yaml", "axes: {dim: [x, y, z]}", "axes: {dims: [x, y, z]}", "no axis 'dims'; did you mean 'dim'?"),
        ("capabilities.yaml", "scope: vendor", "scope: vender", "no scope 'vender'; did you mean 'vendor'?"),
        ("capabilities.yaml", "version: 1", "version: '1'", "expected a whole number, found text"),
        ("capabilities.yaml", "unsaid: false", "unsaid: no idea", "expected true or false, found text"),
        (
            "host_api.yaml",
            "clauses: [host.device.count]",
            "clauses: [host.device.cuont]",
            "did you mean 'host.device.count'",
        ),
        ("host_api.yaml", "capability: peer.access", "capability: peer.acess", "did you mean 'peer.access'?"),
        ("host_api.yaml", "blocking: Never.", "bloking: Never.", "did you mean 'blocking'?"),
        (
            "host_api.yaml",
            "signature: Error (int *count)",
            "signature: Eror (int *count)",
            "no type 'Eror'; did you mean 'Error'",
        ),
    ],
)
def test_one_fault_in_a_table_is_named(folder: Path, table: str, old: str, new: str, said: str) -> None:
    edit(folder / table, old, new)
    with pytest.raises(SpecError) as refused:
        load_spec(folder)
    assert said in str(refused.value)
    assert re.search(rf"{re.escape(str(folder / table))}:\d+: ", str(refused.value))


def test_faults_of_several_tables_come_in_one_go(folder: Path) -> None:
    edit(folder / "capabilities.yaml", "scope: vendor", "scope: vender")
    edit(folder / "clauses.yaml", "    level: L1\n", "    level: L9\n")
    edit(folder / "host_api.yaml", "blocking: Never.", "bloking: Never.")
    with pytest.raises(SpecError) as refused:
        load_spec(folder)
    assert [Path(problem.file).name for problem in refused.value.problems] == [
        "capabilities.yaml",
        "clauses.yaml",
        "host_api.yaml",
        "host_api.yaml",  # the misspelt key is unknown, and the right one missing
    ]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_is_not_there_is_refused(folder: Path, table: str) -> None:
    (folder / table).unlink()
    with pytest.raises(SpecError, match=re.escape(table)):
        load_spec(folder)


RECORD_LINES = package_file("backends", "cuda", "vendor.yaml").read_text(encoding="utf-8").splitlines()


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, len(RECORD_LINES) - 1),
    st.sampled_from(["drop", "double", "cut", "empty", "list", "number", "indent", "colon", "quote"]),
)
def test_any_spoilt_line_is_a_typed_error_or_harmless(tmp_path: Path, number: int, how: str) -> None:
    """Whatever is done to one line of a record, loading ends in a record or in a SpecError, and in nothing else."""
    lines = list(RECORD_LINES)
    line = lines[number]
    head = line.split(":")[0]
    lines[number : number + 1] = {
        "drop": [],
        "double": [line, line],
        "cut": [line[: len(line) // 2]],
        "empty": [f"{head}:"],
        "list": [f"{head}: [x, 1]"],
        "number": [f"{head}: 7"],
        "indent": [f"  {line}"],
        "colon": [line.replace(":", " :", 1) + ": x"],
        "quote": [line + '"'],
    }[how]
    folder = tmp_path / "cuda"
    folder.mkdir(exist_ok=True)
    (folder / "vendor.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        record = load_record(folder)
    except SpecError as error:
        said = str(error)
    else:
        said = str(record.file)
        for arch in record.archs.values():
            assert record.missing(arch) is not None
    assert str(folder) in said
