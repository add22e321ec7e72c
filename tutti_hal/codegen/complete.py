"""Completeness: everything that a record should map and does not, in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti_hal.errors import RecordIncomplete
from tutti_hal.spec import Spec, load_spec

if TYPE_CHECKING:
    from tutti_hal.record import Arch, Record


def gaps(record: Record, spec: Spec | None = None) -> tuple[str, ...]:
    """One line for each primitive and host function that is mandatory and unmapped, over all archs of the record.

    A primitive or function whose capability is declared false is not a gap.
    """
    contract = spec or load_spec()
    wanting: dict[str, list[str]] = {}
    functions: tuple[str, ...] = ()
    for arch in record.archs.values():
        missing = record.missing(arch, contract)
        functions = missing.host_functions
        for primitive in missing.primitives:
            wanting.setdefault(primitive, []).append(arch.name)
    lines = []
    for primitive, archs in wanting.items():
        where = "every arch" if len(archs) == len(record.archs) else ", ".join(archs)
        lines.append(f"primitive {primitive} has no lowering on {where}")
    lines.extend(f"host function {name} is not mapped" for name in functions)
    return tuple(lines)


def require_complete(
    record: Record, arch: Arch | None = None, spec: Spec | None = None, *, host_functions: bool = True
) -> None:
    """Refuse a record with gaps.

    Args:
        record: the record to judge.
        arch: judge the primitives of this arch alone; all archs when None.
        spec: another contract than the installed one.
        host_functions: judge the host functions too; rendering does not need them.

    Raises:
        RecordIncomplete: it lists every gap.
    """
    contract = spec or load_spec()
    if arch is None:
        lines = gaps(record, contract)
        if not host_functions:
            lines = tuple(line for line in lines if line.startswith("primitive "))
    else:
        missing = record.missing(arch, contract)
        lines = tuple(f"primitive {name} has no lowering on {arch.name}" for name in missing.primitives)
        if host_functions:
            lines += tuple(f"host function {name} is not mapped" for name in missing.host_functions)
    if lines:
        raise RecordIncomplete(
            f"use the record {record.file}",
            f"{len(lines)} gap{'s' if len(lines) > 1 else ''}:\n  " + "\n  ".join(lines) + "\n",
            "Map each one, or declare the capability that it belongs to false.",
        )
