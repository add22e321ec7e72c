"""A record's numbers against the SDK's own headers, asked through the machine's C++ compiler once and remembered."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tutti_hal.errors import NumbersDiffer
from tutti_hal.sdk import Root
from tutti_hal.toolchain import cache

if TYPE_CHECKING:
    from tutti_hal.record import Numbers, Record

#: The compiler that reads headers; the machine's own where it is not set.
VARIABLE = "TUTTI_HOST_CXX"

#: Seconds after which the compiler is taken for hung.
LIMIT_S = 120

#: canonical group and name -> number; None where the headers have no such name.
Told = Mapping[str, int | None]


def with_header_numbers(record: Record, root: Root) -> Record:
    """The record with each number that the headers tell in place of its own; a number of its own must be theirs.

    Where the SDK has no headers, or the machine has no C++ compiler, the record is taken as it is. Blocks for about a
    second the first time.

    Raises:
        NumbersDiffer: a number is another one there, or an error or a constant has another name; lists each by name.
    """
    told = numbers_of(record, root)
    if told is None:
        return record
    wrong = list(_wrong(record, told))
    if wrong:
        raise NumbersDiffer(
            f"check the numbers of {record.vendor} against the headers of {root.path}",
            f"{len(wrong)} differ: " + "; ".join(wrong),
            "Correct the record, or add a quirk for this version of the SDK.",
        )
    return replace(
        record,
        errors=_told(record.errors, "errors", told),
        attributes=_told(record.attributes, "attributes", told),
        constants=MappingProxyType({name: _told(group, name, told) for name, group in record.constants.items()}),
    )


def tables(record: Record) -> Iterator[tuple[str, Numbers]]:
    """Every table of numbers with its name."""
    yield "errors", record.errors
    yield "attributes", record.attributes
    yield from record.constants.items()


def spellings(record: Record) -> dict[str, str]:
    """``group.Name`` -> how the vendor spells it, for every name of every table."""
    return {
        f"{group}.{name}": numbers.spelling(name)
        for group, numbers in tables(record)
        for name in dict.fromkeys((*numbers.values, *numbers.names))
        # A table bound by name holds what its names list; a name of any other without a number is of another version.
        if numbers.by_name or name in numbers.values
    }


def numbers_of(record: Record, root: Root) -> Told | None:
    """What the headers say of each name; None where there is no header, or no compiler to read it."""
    folders = [root.path / folder for folder in record.sdk.include]
    found = [next((f / name for f in folders if (f / name).is_file()), None) for name in record.host_api.headers]
    headers = [header for header in found if header is not None]
    compiler = os.environ.get(VARIABLE) or shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if compiler is None or not headers or len(headers) != len(found):
        return None
    state = [f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in headers]
    names = spellings(record)
    parts = [compiler, str(root.version), *state, *record.host_api.defines, *(f"{k}={v}" for k, v in names.items())]
    key = sha256("\0".join(["numbers", *parts]).encode()).hexdigest()
    with cache.building(key) as folder:
        if folder is not None:
            command = [compiler, "-std=c++17", "-w", "-fmax-errors=0" if "g++" in compiler else "-ferror-limit=0"]
            command = [word for word in command if "clang" not in compiler or word != "-fmax-errors=0"]
            command += [f"-D{define}" for define in record.host_api.defines] + [f"-I{place}" for place in folders]
            asked = _ask(record, names, command, folder)
            (folder / "numbers.json").write_text(json.dumps(asked), encoding="utf-8")
    told: Told = json.loads((cache.entry(key) / "numbers.json").read_text(encoding="utf-8"))
    return told


def _ask(record: Record, names: Mapping[str, str], command: list[str], folder: Path) -> dict[str, int | None]:
    """Compile a program that prints the numbers, without the names that the compiler does not know, and run it."""
    lines = [f"#include <{header}>" for header in record.host_api.headers]
    lines += ["#include <cstdio>", "int main() {"]
    first = len(lines) + 1
    lines += [f'std::printf("{name} %lld\\n", (long long)({spelling}));' for name, spelling in names.items()]
    source, program = folder / "numbers.cpp", folder / "numbers"
    source.write_text("\n".join([*lines, "}", ""]), encoding="utf-8")
    done = _run([*command, "-fsyntax-only", str(source)])
    strange = {int(number) - first for number in re.findall(r"numbers\.cpp:(\d+):\d+: error", done.stderr)}
    if (done.returncode and not strange) or any(index < 0 for index in strange):
        raise NumbersDiffer(
            f"read the headers of {record.vendor}",
            f"the compiler refused them: {done.stderr.strip()[:600]}",
            "Install the SDK again, or name another C++ compiler in " + VARIABLE + ".",
        )
    unknown = {name for index, name in enumerate(names) if index in strange}
    kept = [line for index, line in enumerate(lines) if index + 1 - first not in strange]
    source.write_text("\n".join([*kept, "}", ""]), encoding="utf-8")
    done = _run([*command, str(source), "-o", str(program)])
    if done.returncode == 0:
        done = _run([str(program)])
    if done.returncode:
        raise NumbersDiffer(
            f"read the headers of {record.vendor}",
            f"the program that prints their numbers failed: {done.stderr.strip()[:600]}",
            "Install the SDK again, or name another C++ compiler in " + VARIABLE + ".",
        )
    told: dict[str, int | None] = dict.fromkeys(sorted(unknown))
    for line in done.stdout.splitlines():
        name, _, number = line.partition(" ")
        told[name] = int(number)
    return told


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _wrong(record: Record, told: Told) -> Iterator[str]:
    for group, numbers in tables(record):
        for name, value in numbers.values.items():
            found = told.get(f"{group}.{name}")
            if found is None:
                # Vendors add attributes from version to version; errors and constants are what calls are made with.
                if group != "attributes" and not numbers.by_name:
                    yield f"{group}.{name}: the headers have no {numbers.spelling(name)}"
            elif found != value and not numbers.by_name:
                yield f"{group}.{name}: the record says {value}, {numbers.spelling(name)} is {found}"


def _told(numbers: Numbers, group: str, told: Told) -> Numbers:
    """The table with the headers' numbers; one bound by name keeps what it knows where they have no such name."""
    names = dict.fromkeys((*numbers.values, *numbers.names))
    found = {name: told.get(f"{group}.{name}") for name in names}
    if numbers.by_name:
        found = {name: numbers.values.get(name) if value is None else value for name, value in found.items()}
    return replace(numbers, values=MappingProxyType({k: v for k, v in found.items() if v is not None}))
