"""Ablations: each takes something away from a record, what is left still loads and compiles, and limits are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tutti_hal.conformance_tests.ablations import ABLATIONS, Ablation, ablated, ablated_record, changed_record, limits
from tutti_hal.conformance_tests.drives import placements
from tutti_hal.conformance_tests.errors import AblationEmpty, AblationUnknown
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec, facts_of, profile_of
from tutti_hal.nvme.software_config import ControllerConfig
from tutti_hal.paths import templates_dir
from tutti_hal.record import Record, load_record

pytestmark = pytest.mark.suite

VENDORS = ("host", "cuda")
KERNEL_SETS = sorted(path.name.removesuffix(".cu.j2") for path in (templates_dir() / "kernels").glob("*.cu.j2"))


def own(vendor: str) -> Record:
    import importlib

    module = importlib.import_module(f"tutti_hal.backends.{vendor}")
    return load_record(Path(module.__file__ or "").parent)


def changed(vendor: str, name: str) -> Record:
    record = own(vendor)
    return load_record(ablated_record(name, record.folder))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A cache of the test's own, but not where kernels are compiled."""
    if "kernel_set" not in request.fixturenames:
        monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_record_that_is_written_out_again_says_the_same(vendor: str) -> None:
    source = own(vendor)

    def mark(table: dict[str, object]) -> None:
        table["title"] = "marked"

    again = load_record(changed_record(Ablation("mark", "Marked.", mark), source.folder))
    assert again.title == "marked"
    differing = {name for name in vars(source) if getattr(source, name) != getattr(again, name)}
    assert differing == {"title", "folder", "file"}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("name", "capability"), [("no-system-atomics", "atomic.system"), ("no-ballot", "wave.ballot")])
def test_a_capability_is_denied_on_every_arch_and_nothing_else_is(vendor: str, name: str, capability: str) -> None:
    before, after = own(vendor), changed(vendor, name)
    for arch, one in after.archs.items():
        was = dict(before.archs[arch].capabilities)
        assert not one.capabilities[capability]
        assert dict(one.capabilities) == {**was, capability: False}
        assert vars(one) | {"capabilities": 0} == vars(before.archs[arch]) | {"capabilities": 0}
    assert after.capabilities == before.capabilities


@pytest.mark.parametrize("vendor", VENDORS)
def test_queues_in_host_memory_alone(vendor: str) -> None:
    after = changed(vendor, "host-queues")
    assert {after.placement[name] for name in ("submission_queue", "completion_queue", "data")} == {"host"}
    assert placements(after) == ("host",)


def test_host_has_queues_on_either_side_without_the_ablation() -> None:
    assert placements(own("host")) == ("host", "device")


def test_one_queue_is_a_limit_of_the_drives() -> None:
    assert limits("one-queue") == {"io_queues": 1}
    assert limits("no-ballot") == limits("") == {}
    for one in ABLATIONS.values():
        assert all(hasattr(ControllerConfig(), name) for name in one.limits)


def test_an_unknown_ablation_names_the_near_miss() -> None:
    with pytest.raises(AblationUnknown, match="did you mean 'no-ballot'"):
        limits("no-balot")


def test_an_ablation_that_takes_nothing_away_is_refused() -> None:
    once = ablated_record("no-ballot", own("cuda").folder)
    with pytest.raises(AblationEmpty, match="claims none of them"):
        ablated_record("no-ballot", once)


def test_a_limit_leaves_the_record_as_it_is() -> None:
    assert ablated_record("one-queue", own("host").folder) == own("host").folder


def test_a_subject_has_other_facts_by_the_record() -> None:
    subject = ablated(SubjectSpec("host", "sim-w32"), "no-ballot")
    assert subject.ablation == "no-ballot"
    assert not facts_of(profile_of(subject), "sim-w32").capabilities["wave.ballot"]
    assert facts_of(profile_of(SubjectSpec("host")), "sim-w32").capabilities["wave.ballot"]


def test_the_copy_is_a_function_of_what_it_is_made_of(tmp_path: Path) -> None:
    folder = own("host").folder
    first = ablated_record("no-ballot", folder)
    assert first == ablated_record("no-ballot", folder)
    assert first != ablated_record("no-system-atomics", folder)
    assert not list(first.rglob("*.py"))
    other = tmp_path / "host"
    other.mkdir()
    table = yaml.safe_load((folder / "vendor.yaml").read_text(encoding="utf-8"))
    (other / "vendor.yaml").write_text(yaml.safe_dump({**table, "title": "another"}), encoding="utf-8")
    assert ablated_record("no-ballot", other) != first


@pytest.mark.slow
@pytest.mark.parametrize("kernel_set", KERNEL_SETS)
def test_kernels_compile_without_system_atomics(kernel_set: str) -> None:
    record = ablated_record("no-system-atomics", own("host").folder)
    subject = Subject(SubjectSpec("host", "threads-w32", record=str(record)))
    built = subject.compile(kernel_set)
    assert built.is_file()
    assert built != Subject(SubjectSpec("host", "threads-w32")).compile(kernel_set)
