"""Writing a package: whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.errors import PackageInTheWay, PackageUnwritable, WaiversInvalid
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.builds import builds
from tutti_hal.conformance_tests.package.evidence import Evidence, settled, texts
from tutti_hal.conformance_tests.package.manifest import manifest
from tutti_hal.conformance_tests.package.packing import packed
from tutti_hal.conformance_tests.package.product import product
from tutti_hal.conformance_tests.package.waivers import NO_WAIVERS, parse_waivers
from tutti_hal.conformance_tests.session import Session
from tutti_hal.conformance_tests.subject import profile_of
from tutti_hal.profile import parse


def write_package(folder: Path, session: Session, *, force: bool = False) -> Path:
    """Write the evidence of a run.

    It appears by one rename: whoever looks sees all of it or nothing. Kernels that the cache has lost are compiled
    again for ``build.json``; else it blocks for well under a second.

    Args:
        folder: where; it must not exist, or be empty, or, with ``force``, be a package of ours, which is replaced.
        session: the run. Its waivers are copied from the file that they were read from.
        force: see ``folder``.

    Returns:
        The folder.

    Raises:
        PackageInTheWay: the folder holds something that will not be replaced.
        PackageUnwritable: it cannot be written.
        WaiversInvalid: the waiver file is not what it was when the run began.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - `..` is taken out without following links
    check_target(folder, force=force)
    kept = settled(session)
    evidence = Evidence(
        session=kept,
        waivers=_waiver_text(session),
        product=product(parse(session.options.subject.profile).vendor, session.options.subject.cases),
        build=builds(session),
        record=record_files(profile_of(session.options.subject).record.folder),
    )
    files = packed(texts(evidence), (layout.OBSERVATIONS,))
    files[layout.MANIFEST] = manifest(files)
    try:
        _put(folder, files)
    except OSError as error:
        raise PackageUnwritable(
            f"write the package {folder}", error.strerror or str(error), "Free some space, or name another folder."
        ) from error
    return folder


def check_target(folder: Path, *, force: bool = False) -> None:
    """Refuse a folder in which :func:`write_package` would not write; worth asking before a long run.

    Raises:
        PackageInTheWay: it holds something that will not be replaced.
        PackageUnwritable: it, or its parent, cannot be written.
    """
    tried = f"write a package to {folder}"
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise PackageInTheWay(tried, "it is there and not a folder", "Name another.")
    if folder.is_dir() and any(folder.iterdir()):
        if not _is_ours(folder):
            raise PackageInTheWay(tried, "the folder is not empty, and no package of ours", "Name another folder.")
        if not force:
            raise PackageInTheWay(tried, "it holds the package of another run", "Name another folder, or remove it.")
    parent = folder.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise PackageUnwritable(tried, f"{parent} cannot be written", "Name another folder.")


def record_files(folder: Path) -> dict[str, bytes]:
    """Name -> contents of what describes a vendor: its record, what it expects, its overrides."""
    paths = [folder / name for name in layout.RECORD_FILES]
    paths += sorted(path for path in (folder / "overrides").rglob("*") if path.is_file())
    inside = {path.relative_to(folder).as_posix(): path for path in paths if "__pycache__" not in path.parts}
    return {name: path.read_bytes() for name, path in inside.items() if layout.NAME.fullmatch(name)}


def _is_ours(folder: Path) -> bool:
    try:
        run = json.loads((folder / layout.RUN).read_text(encoding="utf-8"))
        return isinstance(run, dict) and "format" in run and (folder / layout.MANIFEST).is_file()
    except (OSError, ValueError):
        return False


def _waiver_text(session: Session) -> bytes:
    given = session.terms.waivers
    if not given:
        return NO_WAIVERS
    path = given[0].place.rpartition(":")[0]
    tried = f"copy the waivers {path}"
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise WaiversInvalid(
            tried, error.strerror or str(error), "Leave the file where it was during a run."
        ) from error
    now = parse_waivers(data, path, session.terms.spec, catalogue(session.options.subject.cases)).waivers
    if now != given:
        raise WaiversInvalid(tried, "it was changed during the run", "Run again, and leave the file alone meanwhile.")
    return data


def _put(folder: Path, files: dict[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, data in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        fresh.chmod(0o755)
        with _set_aside(folder):
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextlib.contextmanager
def _set_aside(folder: Path) -> Iterator[None]:
    """What lies there is out of the way while the body runs: back again if it fails, gone if not."""
    if not folder.is_dir() or not any(folder.iterdir()):
        yield
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    old = aside / folder.name
    folder.rename(old)
    try:
        yield
    except OSError:
        old.rename(folder)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
