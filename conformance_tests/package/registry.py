"""The registry of certificates: entering one, and telling how old each is.

python -m tutti_hal.conformance_tests.package.registry add DIR [--device NAME]    a package of certify --out
python -m tutti_hal.conformance_tests.package.registry age                        a line for each certificate
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tutti_hal.certificates import Certificate, Index, read_index
from tutti_hal.conformance_tests.errors import ConformanceError
from tutti_hal.conformance_tests.package import jsontext, layout
from tutti_hal.conformance_tests.package.findings import Findings
from tutti_hal.conformance_tests.package.folder import read_folder
from tutti_hal.conformance_tests.package.manifest import manifest
from tutti_hal.conformance_tests.package.packing import packed, unpacked
from tutti_hal.conformance_tests.package.product import file_sums, product_files
from tutti_hal.conformance_tests.package.staleness import moved
from tutti_hal.conformance_tests.package.submission import check_submission
from tutti_hal.paths import package_file
from tutti_hal.product import BUILT
from tutti_hal.profile import parse

INDEX = "index.json"


def root() -> Path:
    """The folder of the registry."""
    return package_file("conformance_tests", "registry")


def place_of(package: Path, device: str = "") -> str:
    """Where a package belongs: vendor, then device or word, and the day of the run."""
    run = jsontext.parse((package / layout.RUN).read_bytes())
    vendor = parse(run["options"]["subject"]["profile"]).vendor
    return f"{vendor}/{device or run['provenance']}-{run['started'][:10]}"


def slim(package: Path, to: Path) -> None:
    """A copy as the registry keeps it: what is long is packed, what is for a CI is left out."""
    files = unpacked(read_folder(package, Findings()), Findings())
    kept = packed({n: data for n, data in files.items() if n not in (*layout.LEFT_OUT, layout.MANIFEST)}, layout.PACKED)
    for name, data in {**kept, layout.MANIFEST: manifest(kept)}.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(data)


def add(package: Path, registry: Path, device: str = "") -> tuple[Certificate | None, tuple[str, ...]]:
    """Enter a package into the registry and its index; or say what is wrong with it, and change nothing.

    Args:
        package: as ``certify --out`` wrote it.
        registry: the folder.
        device: on which it was run; empty where it was on none.

    Raises:
        NotAPackage: it is none.
    """
    place = place_of(package, device)
    with tempfile.TemporaryDirectory(prefix="tutti-registry-") as scratch:
        copy = Path(scratch, "package")
        slim(package, copy)
        found = check_submission(copy, place=place)
        if found.certificate is None:
            return None, found.problems
        target = registry / place
        if target.exists():
            return None, (f"folder: {place} is there already",)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(copy, target)
    index = read(registry)
    rows = sorted([*index.certificates, found.certificate], key=lambda one: one.folder)
    none_yet = {name: why for name, why in index.none_yet.items() if name != found.certificate.vendor}
    write(registry, Index(tuple(rows), none_yet))
    return found.certificate, ()


def read(registry: Path) -> Index:
    """The index of a registry."""
    return read_index(registry / INDEX)


def write(registry: Path, index: Index) -> None:
    """Replace the index of a registry."""
    (registry / INDEX).write_text(json.dumps(index.to_json(), indent=1) + "\n", encoding="utf-8")


def how_old(one: Certificate, registry: Path, today: datetime.date) -> str:
    """Days, and product files that changed since; what a build makes is left out."""
    days = (today - datetime.date.fromisoformat(one.date)).days
    then = jsontext.parse((registry / one.folder / layout.PRODUCT).read_bytes())["files"]
    files = [own for own in moved(then, file_sums(product_files(one.vendor))) if not own.name.startswith(BUILT)]
    kinds = ", ".join(
        f"{kind} {sum(own.kind == kind for own in files)}" for kind in dict.fromkeys(f.kind for f in files)
    )
    changed = f"{len(files)} product files changed since ({kinds})" if files else "fresh"
    return f"{one.folder}: {one.level}, {one.provenance}, {days} days old; {changed}"


def page(index: Index) -> str:
    """The registry as a page of the documentation."""
    lines = [
        "# Certificates",
        "",
        "Written from `conformance_tests/registry/index.json`; [Registry](../registry.md) says",
        "",
    ]
    lines[-2] += " what a certificate covers. How stale each is, `tutti-hal verify` says, and each run of CI."
    lines += ["| certificate | level | run on | archs | day | commit | bytes |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| `{one.folder}` | {one.level} | *{one.provenance}* | {', '.join(one.archs)} | {one.date} | "
        f"`{one.commit[:12]}` | {one.nbytes} |"
        for one in index.certificates
    ]
    lines += ["", "None yet:", "", *(f"* **{name}**: {why}" for name, why in index.none_yet.items()), ""]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Enter a package, or tell ages; 1 where a package is not fit."""
    parser = argparse.ArgumentParser(prog="registry", description="The registry of certificates.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    adding = verbs.add_parser("add", help="enter a package")
    adding.add_argument("package", type=Path, metavar="DIR")
    adding.add_argument("--device", default="", metavar="NAME", help="on which it was run, for hardware")
    verbs.add_parser("age", help="how stale each certificate is; never a failure")
    args = parser.parse_args(argv)
    if args.verb == "age":
        today = datetime.datetime.now(datetime.UTC).date()
        index = read(root())
        for one in index.certificates:
            print(f"certificate {how_old(one, root(), today)}")
        for name, why in index.none_yet.items():
            print(f"certificate {name}: none yet: {why}")
        return 0
    try:
        certificate, problems = add(args.package, root(), args.device)
    except ConformanceError as error:
        print(f"registry: {error}", file=sys.stderr)
        return 2
    for problem in problems:
        print(f"not fit: {problem}")
    if certificate is not None:
        print(
            f"entered: {certificate.folder}: {certificate.level}, {certificate.provenance}, {certificate.nbytes} bytes"
        )
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
