"""Writing a package: whole or not at all, and never over what is somebody's."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import packages
import pytest

from tutti_hal.conformance_tests.errors import PackageInTheWay, PackageUnwritable
from tutti_hal.conformance_tests.outcome import End
from tutti_hal.conformance_tests.package import layout, writer
from tutti_hal.conformance_tests.package.evidence import settled
from tutti_hal.conformance_tests.package.junit import ELEMENTS, junit
from tutti_hal.conformance_tests.package.product import product, product_files
from tutti_hal.conformance_tests.package.writer import check_target, write_package
from tutti_hal.conformance_tests.session import RunOptions, Session
from tutti_hal.conformance_tests.verdict import Verdict

pytestmark = pytest.mark.suite


def test_every_file_is_there_and_sha256sum_agrees(good_package: Path) -> None:
    names = {*layout.FILES, layout.RECORD, f"{layout.OBSERVATIONS}.xz"} - {layout.OBSERVATIONS, layout.FIGURES}
    assert {path.name for path in good_package.iterdir()} == names
    done = subprocess.run(
        ["sha256sum", "--strict", "-c", layout.MANIFEST], cwd=good_package, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert len(done.stdout.splitlines()) == len(packages.sums(good_package)) - 1


def test_the_same_session_gives_the_same_bytes(good_session: Session, good_package: Path, tmp_path: Path) -> None:
    again = write_package(tmp_path / "again", good_session)
    assert packages.sums(again) == packages.sums(good_package)


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_with_something_else_is_refused(good_session: Session, tmp_path: Path, force: bool) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(PackageInTheWay, match="no package of ours"):
        write_package(tmp_path, good_session, force=force)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_package_is_replaced_only_when_asked(good_session: Session, package: Path) -> None:
    (package / layout.REPORT).write_text("old")
    with pytest.raises(PackageInTheWay, match="package of another run"):
        write_package(package, good_session)
    assert (package / layout.REPORT).read_text() == "old"
    write_package(package, good_session, force=True)
    assert (package / layout.REPORT).read_text() != "old"
    assert [path.name for path in package.parent.iterdir()] == [package.name]


def test_an_empty_folder_and_one_that_is_not_there_yet_are_taken(good_session: Session, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert (write_package(tmp_path / "empty", good_session) / layout.RUN).is_file()
    assert (write_package(tmp_path / "a" / "b", good_session) / layout.RUN).is_file()


def test_a_file_or_a_link_in_the_way(good_session: Session, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(PackageInTheWay, match="not a folder"):
            check_target(tmp_path / name)


def test_a_full_disk_leaves_nothing_and_keeps_what_was_there(
    good_session: Session, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = packages.sums(package)

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(PackageUnwritable, match="No space left"):
        write_package(package, good_session, force=True)
    monkeypatch.undo()
    assert packages.sums(package) == before
    assert [path.name for path in package.parent.iterdir()] == [package.name]


def test_a_rename_that_fails_brings_the_old_package_back(
    good_session: Session, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = packages.sums(package)
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if target == package and not self.parent.name.startswith(f".{package.name}.old."):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(PackageUnwritable, match="Input/output"):
        write_package(package, good_session, force=True)
    monkeypatch.undo()
    assert packages.sums(package) == before
    assert [path.name for path in package.parent.iterdir()] == [package.name]


def test_options_survive_their_text() -> None:
    wanted = packages.options(shard=(2, 3), quick=True, time_limit_s=4.5, machine="small", verify_xfail=True, jobs=3)
    assert RunOptions.from_json(wanted.to_json()) == wanted


def test_a_settled_session_is_settled(good_session: Session) -> None:
    once = settled(good_session)
    assert settled(once) == once


def test_nan_in_the_environment_is_no_package(good_session: Session, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_package(tmp_path / "nan", replace(good_session, environment={"load": float("nan")}))
    assert list(tmp_path.iterdir()) == []


def test_the_product_is_every_installed_file() -> None:
    names = product_files()
    for name in (
        "__init__.py",
        "spec/clauses.yaml",
        "backends/host/vendor.yaml",
        "kernels_templates/kernels/ring.cu.j2",
        "conformance_tests/case.py",
        "lib/libtutti_native.so",
        "include/tutti/abi.h",
    ):
        assert name in names
    assert not [name for name in names if "__pycache__" in name or "registry/" in name]
    assert all(path.is_file() for path in names.values())


def test_a_backend_from_elsewhere_is_part_of_the_product(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tutti_hal import product as module
    from tutti_hal.backend import API_VERSION, Backend, Descriptor, Finding, Probe

    (tmp_path / "vendor.yaml").write_text("x")
    backend = Backend(Descriptor("acme", API_VERSION, tmp_path, "acme", lambda: Probe(False, "none")))
    monkeypatch.setattr(module, "discover", lambda: [Finding("acme", "acme-hal 1", backend, "")])
    assert product_files("acme")["backend/acme/vendor.yaml"] == tmp_path / "vendor.yaml"
    assert "backend/acme/vendor.yaml" not in product_files("host")


def test_another_native_library_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = shutil.copy(product_files()["lib/libtutti_native.so"], tmp_path / "other.so")
    monkeypatch.setenv("TUTTI_NATIVE_LIBRARY", str(library))
    assert product_files()["lib/libtutti_native.so"] == Path(library)


@pytest.mark.parametrize(
    ("end", "detail", "verdict"),
    [
        (End.CRASHED, {"signal": "SIGSEGV"}, Verdict.FAIL),
        (End.RAISED, {"error": "KeyError", "said": "\x00\x1b[31m\ud800"}, Verdict.ERROR),
        (End.TIMED_OUT, {"budget_s": 10}, Verdict.TIMEOUT),
        (End.LOST, {"said": "gone"}, Verdict.DEVICE_LOST),
        (End.NOT_RUN, {"why": "time ran out"}, Verdict.NOT_TESTED),
    ],
)
def test_junit_says_how_each_end_looks(end: End, detail: dict[str, object], verdict: Verdict) -> None:
    session = packages.run(packages.options(), change=packages.broken(end, **detail))
    root = ET.fromstring(junit(session, product("host")))
    case = next(root.iter("testcase"))
    found = case.find(ELEMENTS[verdict])
    assert found is not None
    assert found.get("type") == verdict
    assert found.get("message")
    tallies = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    assert root.get(tallies[ELEMENTS[verdict]]) == "1"
    assert root.get("tests") == "1"
    repro = next(p.get("value") for p in case.iter("property") if p.get("name") == "repro")
    assert repro is not None
    assert repro.startswith("tutti-hal certify --profile host:sim-w32 --case prim/crc32c:arch=sim-w32")


def test_every_verdict_but_a_pass_has_an_element() -> None:
    assert set(ELEMENTS) == set(Verdict) - {Verdict.PASS}


def test_overrides_travel_with_the_record(tmp_path: Path) -> None:
    for name in ("vendor.yaml", "conformance.yaml", "runtime.py", "overrides/x/a.j2"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert writer.record_files(tmp_path) == {
        name: name.encode() for name in ("vendor.yaml", "conformance.yaml", "overrides/x/a.j2")
    }


def test_the_folder_of_the_shell(good_session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert write_package(Path(), good_session) == tmp_path / "here"
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
