"""Where a vendor's run-time compiler is, and how the program around it is called (:mod:`.rtc_program`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.errors import BuildError

if TYPE_CHECKING:
    from tutti_hal.record import Record, Rtc

#: The program that compiles one unit with a run-time compiler.
PROGRAM = "tutti_hal.toolchain.rtc_program"


def find(record: Record, tried: list[str]) -> Path | None:
    """The record's run-time compiler: in its SDK's roots, then wherever the loader finds it. None: nowhere.

    Args:
        record: the vendor's record.
        tried: where to note each place that was looked at.
    """
    from ctypes.util import find_library

    from tutti_hal.sdk import roots

    if record.toolchain.rtc is None:
        return None
    for name in record.toolchain.rtc.libraries:
        for place, _ in roots(record):
            for folder in record.sdk.lib:
                tried.append(str(place / folder / name))
                if (place / folder / name).is_file():
                    return place / folder / name
        if Path(name).is_absolute():
            continue  # that one and no other
        stem = re.sub(r"^lib|\.so.*$", "", name)
        tried.append(f"{name} of the loader")
        if find_library(stem) == name:
            return Path(name)
    return None


def version(command: Sequence[str]) -> str:
    """What the library calls its version.

    Raises:
        BuildError: it does not say.
    """
    from tutti_hal.toolchain.compiler import run

    done = run([*command, "--version"], "ask a run-time compiler for its version")
    if done.returncode:
        raise BuildError("ask a run-time compiler for its version", done.stderr.strip()[:300], "Check that it loads.")
    return done.stdout.strip()


def arguments(rtc: Rtc, unit: Path, output: Path, flags: Sequence[str]) -> list[str]:
    """What follows library and prefix on the command line."""
    return [rtc.code, str(unit), str(output), *flags]
