"""Every backend is the same recipe, and what it says beforehand fits what it claims."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutti_hal import paths, profile
from tutti_hal.errors import ProfileUnusable, RuntimeMissing, SpecError, WrongDevice
from tutti_hal.expectations import load_expectations
from tutti_hal.record import Evidence, Record, load_record
from tutti_hal.spec import load_spec

VENDORS = ["host", "cuda", "hip", "maca", "musa"]

#: The same names in each folder, so that two vendors can be read side by side.
RECIPE = {
    "vendor.yaml",
    "runtime.py",
    "toolchain.py",
    "conformance.yaml",
    "README.md",
    "overrides",
    "__init__.py",
}


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_recipe_is_whole(vendor: str) -> None:
    folder = paths.package_file("backends", vendor)
    names = {path.name for path in folder.iterdir()} - {"__pycache__"}
    assert names >= RECIPE


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_readme_has_its_sections(vendor: str) -> None:
    text = paths.package_file("backends", vendor, "README.md").read_text(encoding="utf-8")
    for heading in ("## Install", "## What is proved, and how", "## Limitations"):
        assert f"\n{heading}\n" in text


def test_a_backend_imports_no_other() -> None:
    for vendor in VENDORS:
        others = [f"backends.{other}" for other in VENDORS if other != vendor]
        for path in paths.package_file("backends", vendor).glob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not [other for other in others if other in text], path


@pytest.mark.parametrize("vendor", VENDORS)
def test_what_is_lacking_is_said_in_a_sentence(vendor: str) -> None:
    """A clause all of whose functions the vendor declares itself without needs its sentence."""
    record = load_record(paths.package_file("backends", vendor))
    said = load_expectations(record.folder)
    tested: dict[str, list[bool]] = {}
    for function in load_spec().host_functions.values():
        has = function.capability is None or record.capabilities[function.capability]
        for clause in function.clauses:
            tested.setdefault(clause, []).append(has)
    lacking = {clause for clause, has in tested.items() if not any(has)}
    assert lacking - set(said.unsupported) - set(said.expected_failures) == set()


def facts(record: Record) -> dict[str, Evidence | None]:
    found: dict[str, Evidence | None] = {
        "host_api": record.host_api.evidence,
        "errors": record.errors.evidence,
        "attributes": record.attributes.evidence,
        "p2p": record.p2p.evidence,
    }
    found.update({f"archs.{arch.name}": arch.evidence for arch in record.archs.values()})
    found.update({f"constants.{name}": numbers.evidence for name, numbers in record.constants.items()})
    found.update({f"quirks.{quirk.id}": quirk.evidence for quirk in record.quirks})
    return found


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_fact_says_where_it_is_from(vendor: str) -> None:
    record = load_record(paths.package_file("backends", vendor))
    for name, evidence in facts(record).items():
        assert evidence is not None, name
        assert len(evidence.source) > 8, name
    if vendor == "cuda":
        unmeasured = {evidence.grade for evidence in facts(record).values() if evidence is not None}
        assert unmeasured - {"hardware", "header", "vendor-doc", "vendor-source", "third-party", "inferred"} == set()


def test_cuda_without_a_device_is_refused_and_says_why() -> None:
    if any(node.name.removeprefix("nvidia").isdigit() for node in Path("/dev").glob("nvidia*")):
        pytest.skip("there is a CUDA device on this machine")
    chosen = profile.resolve("cuda:sm_90")
    with pytest.raises((RuntimeMissing, WrongDevice)):
        chosen.backend.runtime().open_runtime(chosen)
    with pytest.raises(ProfileUnusable, match="no device under /dev"):
        profile.select("cuda:sm_90", environ={})


def write(folder: Path, text: str) -> Path:
    (folder / "conformance.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("unsupported", "expected", "said"),
    [
        ("{host.ipc.memry: No.}", "{}", "no clause 'host.ipc.memry'; did you mean 'host.ipc.memory'?"),
        ("{host.nothing.*: No.}", "{}", "no clause 'host.nothing.*'"),
        ("{host.ipc.memory: No.}", "{host.ipc.memory: Not yet.}", "is unsupported for ever, too"),
        ("{host.ipc.memory: No., host.ipc.*: No.}", "{}", "already in this list"),
        ("{host.ipc.memory: never}", "{}", "not a well-formed sentence"),
        ("[]", "{}", "expected a mapping, found a list"),
    ],
)
def test_bad_expectations_are_refused(tmp_path: Path, unsupported: str, expected: str, said: str) -> None:
    text = f"version: 1\nunsupported: {unsupported}\nexpected_failures: {expected}\n"
    with pytest.raises(SpecError) as refused:
        load_expectations(write(tmp_path, text))
    assert said in str(refused.value)


def test_a_prefix_stands_for_all_its_clauses(tmp_path: Path) -> None:
    text = "version: 1\nunsupported: {}\nexpected_failures: {host.event.*: Not yet.}\n"
    said = load_expectations(write(tmp_path, text)).expected_failures
    assert set(said) == {clause for clause in load_spec().clauses if clause.startswith("host.event.")}
    assert len(said) > 3
