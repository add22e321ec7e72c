# SPDX-License-Identifier: Apache-2.0
"""Run by CMake from a source tree: check the profile to pin, and build its kernels ahead of time.

Needs jinja2 and PyYAML alone. ``check PROFILE`` judges the name; ``build PROFILE OUT`` writes ``OUT/pinned.json`` and,
where there is a compiler, ``OUT/aot/<vendor>/``.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# This tree and no other: the importer of an editable install would answer first, and from wherever that was made.
sys.meta_path[:] = [
    importlib.machinery.BuiltinImporter,
    importlib.machinery.FrozenImporter,
    importlib.machinery.PathFinder,
]
sys.path.insert(0, str(ROOT))

import tutti_hal  # noqa: E402

# As the installed package has it: backends and templates beside the modules, and the headers as `include`.
tutti_hal.__path__.extend([str(ROOT), str(ROOT / "native")])

from tutti_hal.errors import CompilerMissing, ProfileUnknown, TuttiError  # noqa: E402
from tutti_hal.profile import Name, parse  # noqa: E402
from tutti_hal.record import Arch, Record, load_record  # noqa: E402
from tutti_hal.spec.nodes import near_miss  # noqa: E402
from tutti_hal.toolchain.aot import write  # noqa: E402


def find(profile: str) -> tuple[Record, tuple[Arch, ...], str | None]:
    """The record of a profile to pin, the archs to build for, and the SDK that it asks for.

    Raises:
        ProfileUnknown: no such vendor or arch; with the near miss.
        SpecError: the record is broken.
    """
    name: Name = parse(profile, "TUTTI_PROFILE of the build")
    vendors = sorted(path.parent.name for path in (ROOT / "backends").glob("*/vendor.yaml"))
    if name.vendor not in vendors:
        raise ProfileUnknown(
            f"pin profile '{profile}'",
            f"no vendor '{name.vendor}'{near_miss(name.vendor, vendors)}",
            f"Name one of: {', '.join(vendors)}; or none, for an install that is not pinned.",
        )
    record = load_record(ROOT / "backends" / name.vendor)
    wanted = name.arch or record.default_arch
    if wanted is None:
        return record, tuple(record.archs.values()), name.sdk
    if wanted not in record.archs:
        raise ProfileUnknown(
            f"pin profile '{profile}'",
            f"vendor '{name.vendor}' has no arch '{wanted}'{near_miss(wanted, record.archs)}",
            f"Use one of: {', '.join(f'{name.vendor}:{arch}' for arch in record.archs)}.",
        )
    return record, (record.archs[wanted],), name.sdk


def pin(profile: str, out: Path) -> None:
    """Build what the profile pins. Without a compiler the install goes on, and its file says why nothing was built.

    Raises:
        TuttiError: the name is wrong, or a kernel does not compile.
    """
    record, archs, sdk = find(profile)
    chain = importlib.import_module(f"tutti_hal.backends.{record.vendor}.toolchain").toolchain(record)
    built, why = None, None
    try:
        version = chain.version(chain.find())
        if sdk is not None and not f"{version.split()[-1]}.".startswith(f"{sdk}."):
            raise CompilerMissing(f"pin profile '{profile}'", f"{version} was found, not {sdk}", f"Install SDK {sdk}.")
        jobs = len(os.sched_getaffinity(0))
        built = write(out / "aot" / record.vendor, chain, archs, ROOT / "kernels_templates", jobs)
    except CompilerMissing as error:
        why = f"{error.found}; {error.fix}"
        print(f"tutti-hal: profile {profile} is pinned, and nothing is built ahead of time: {why}", file=sys.stderr)
    table = {"profile": profile, "aot": built, "why_no_aot": why}
    out.mkdir(parents=True, exist_ok=True)
    (out / "pinned.json").write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """0, or 1 with the reason on standard error."""
    try:
        if arguments[0] == "check":
            find(arguments[1])
        else:
            pin(arguments[1], Path(arguments[2]))
    except TuttiError as error:
        print(f"tutti-hal: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
