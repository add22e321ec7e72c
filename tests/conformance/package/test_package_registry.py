"""The registry: what may enter, what is wrong with what may not, and that its index is true."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import packages
import pytest

from tutti_hal.certificates import Certificate, Index
from tutti_hal.cli.main import main
from tutti_hal.conformance_tests.ladder import Rung
from tutti_hal.conformance_tests.package import layout, registry, submission
from tutti_hal.conformance_tests.package.history import Known
from tutti_hal.conformance_tests.package.registry import add, how_old, page, place_of, read, root, slim, write
from tutti_hal.conformance_tests.package.submission import SIZE_LIMIT_BYTES, check_submission
from tutti_hal.conformance_tests.package.verification import Verification, verify

pytestmark = pytest.mark.suite

TODAY = packages.TODAY.isoformat()
PLACE = f"host/emulated-{TODAY}"


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes verification find a whole run of a clean commit that passed L2, with these changes; its files are real."""

    def found(stale: Any = None, clean: bool = True, **changes: Any) -> None:
        def checked(folders: list[Path]) -> Verification:
            real = verify(folders)
            assert real.session is not None
            session = real.session
            options = replace(session.options, cases=(), **changes.get("options", {}))
            levels = tuple(
                replace(one, state=Rung.PASSED) if one.name in changes.get("passed", ("L0", "L1", "L2")) else one
                for one in session.ladder.levels
            )
            session = replace(session, options=options, ladder=replace(session.ladder, levels=levels))
            return replace(real, session=session, stale=stale)

        monkeypatch.setattr(submission, "verify", checked)
        monkeypatch.setattr(submission, "known", lambda _: Known(clean, "commit 0, file by file", "0" * 40))

    return found


def cleaned(package: Path) -> Path:
    """A package of a clean commit, whatever the checkout of the tests is."""
    (package / layout.JUNIT).unlink()  # it names the commit, too
    packages.edit(package, layout.PRODUCT, lambda table: table.update(source={"commit": "0" * 40, "changed": False}))
    run = json.loads((package / layout.RUN).read_text())
    run["raw_files"][layout.PRODUCT] = sha256((package / layout.PRODUCT).read_bytes()).hexdigest()
    (package / layout.RUN).write_text(json.dumps(run, indent=1) + "\n")
    packages.rebuild(package)
    return package


def named(package: Path, place: str = PLACE) -> list[str]:
    return list(check_submission(package, place=place).problems)


def test_a_good_package_enters_and_is_told(package: Path, tmp_path: Path, whole: Callable[..., None]) -> None:
    whole()
    cleaned(package)
    own = tmp_path / "registry"
    own.mkdir()
    write(own, Index((), {"host": "not yet", "acme": "no device"}))
    certificate, problems = add(package, own)
    assert problems == ()
    assert certificate is not None
    assert (certificate.folder, certificate.level, certificate.provenance) == (PLACE, "L2", "emulated")
    index = read(own)
    assert index.certificates == (certificate,)
    assert dict(index.none_yet) == {"acme": "no device"}
    assert index.last("host") == certificate
    kept = {path.name for path in (own / PLACE).iterdir()}
    assert {f"{layout.OBSERVATIONS}.xz", f"{layout.VERDICTS}.xz"} <= kept
    assert layout.JUNIT not in kept
    assert not verify([own / PLACE]).refusals
    assert add(package, own)[1] == (f"folder: {PLACE} is there already",)
    assert f"`{PLACE}` | L2 | *emulated*" in page(index)
    assert "* **acme**: no device" in page(index)
    later = packages.TODAY + datetime.timedelta(days=3)
    assert how_old(certificate, own, later) == f"{PLACE}: L2, emulated, 3 days old; fresh"
    assert not certificate.is_stale()
    assert replace(certificate, sources="0" * 64).is_stale()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (f"acme/emulated-{TODAY}", "it lies in 'acme', and the vendor is host"),
        (f"host/board-{TODAY}", "it says 'board', and the run was emulated, on no device"),
        ("host/emulated-2020-01-01", "it says 2020-01-01, and the run began on"),
        ("host/Board 7", "is not DEVICE-YYYY-MM-DD"),
    ],
)
def test_a_folder_that_says_something_else(package: Path, whole: Callable[..., None], place: str, words: str) -> None:
    whole()
    assert any(words in one for one in named(cleaned(package), place)), named(package, place)


def test_what_is_wrong_with_a_run_is_named(package: Path, whole: Callable[..., None]) -> None:
    cleaned(package)
    whole(options={"quick": True})
    assert named(package) == ["run: a quick run: it certifies no level"]
    whole(passed=())
    assert named(package) == ["level: none is passed"]
    whole(clean=False)
    assert named(package) == ["product: commit 0, file by file"]
    assert named(package, "") != []


def test_a_selection_a_changed_product_and_a_wheel(package: Path) -> None:
    """As it is: a selection of cases."""
    assert any(one.startswith("run: a selection of cases") for one in named(package))
    packages.edit(package, layout.PRODUCT, lambda table: table.update(source=None))
    assert any("raw_files" in one or "product.json" in one for one in named(package))


def test_a_package_that_is_too_large_or_forged(
    package: Path, whole: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(submission, "SIZE_LIMIT_BYTES", 1000)
    assert any(one.startswith("size: ") for one in named(package))
    monkeypatch.undo()
    packages.edit(package, layout.VERDICTS, lambda row: row.update(verdict="FAIL"))
    assert any("verdicts.jsonl:1" in one for one in named(package))
    assert main(["verify", "--submission", str(package)]) == 1
    assert "not fit: refused: verdicts.jsonl:1" in capsys.readouterr().out


def test_place_and_slim(good_package: Path, tmp_path: Path) -> None:
    assert place_of(good_package) == PLACE
    assert place_of(good_package, "board") == f"host/board-{TODAY}"
    slim(good_package, tmp_path / "slim")
    assert not verify([tmp_path / "slim"]).refusals


@pytest.mark.timeout(600)
@pytest.mark.parametrize("one", read(root()).certificates, ids=lambda one: one.folder)
def test_a_certificate_is_true(one: Certificate) -> None:
    """It is there as the index says, verified as far as can be, and small."""
    folder = root() / one.folder
    assert sha256((folder / layout.MANIFEST).read_bytes()).hexdigest() == one.manifest
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) == one.nbytes <= SIZE_LIMIT_BYTES
    found = verify([folder], provenances=(one.provenance,))
    assert not found.refusals, [str(refusal) for refusal in found.refusals[:5]]
    assert one.folder == place_of(folder, one.folder.partition("/")[2][:-11])


def test_nothing_else_is_in_the_registry() -> None:
    index = read(root())
    folders = {path.parent.relative_to(root()).as_posix() for path in root().glob("*/*/manifest.sha256")}
    assert folders == {one.folder for one in index.certificates}
    assert all(index.none_yet.values())


def test_ages_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert registry.main(["age"]) == 0
    out = capsys.readouterr().out.splitlines()
    index = read(root())
    assert len(out) == len(index.certificates) + len(index.none_yet)
