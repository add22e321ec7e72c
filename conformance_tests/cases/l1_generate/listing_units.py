"""How a case gets a listing: a unit built with the record and templates under test, and what its header says."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.cases.l0_record.planted import plant_record, table_in_force
from tutti_hal.conformance_tests.cases.l1_generate.listing_patterns import Family, family_of, instructions
from tutti_hal.conformance_tests.cases.l1_generate.workshop import Workshop
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Facts, Seen
from tutti_hal.conformance_tests.verdict import SkipReason

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.seen import Axis
    from tutti_hal.record import Record

#: Where e_machine and e_flags lie in the header of a 64-bit ELF file.
_MACHINE, _FLAGS = (18, "<H"), (48, "<I")


def tells_doorbells(axes: Mapping[str, Axis], facts: Facts) -> bool:
    """Whether orders, scopes and device stores can be read from a listing: not on a CPU, where they look alike.

    A simulated SDK's modules are a CPU's as well; there the case is planned, and skips with its reason.
    """
    del axes
    return facts.simulated or facts.kind != "host"


def listed(
    run: Run, shop: Workshop, kernel_set: str, root: Path, *kernels: str, record: Record | None = None
) -> dict[str, Any]:
    """The listings of some kernels of a kernel set, with what tells their instruction set.

    Args:
        run: the case's.
        shop: of the arch.
        kernel_set: which.
        root: the template root.
        kernels: whose listings.
        record: another than the one under test.
    """
    from dataclasses import replace

    import numpy as np

    from tutti_hal.codegen import render
    from tutti_hal.errors import CompilerMissing
    from tutti_hal.toolchain import build

    profile = replace(run.profile, record=record or shop.record)
    module = build(profile, kernel_set, arch=shop.arch.name, templates=root).path
    try:
        whole = shop.chain.listing(module)
    except CompilerMissing as error:
        run.skip(SkipReason.TOOL, error.found)
    rendered = render(profile.record, profile.record.archs[shop.arch.name], kernel_set, templates=root)
    header = module.read_bytes()[:64]
    found = {kernel: np.frombuffer(_kernel_of(whole, kernel).encode(), np.uint8) for kernel in kernels}
    return {
        "machine": struct.unpack_from(_MACHINE[1], header, _MACHINE[0])[0],
        "flags": struct.unpack_from(_FLAGS[1], header, _FLAGS[0])[0],
        "places": _places(rendered.headers[f"gpu_vendor/{shop.record.vendor}_primitives.cuh"]),
        "kernels": found,
        "whole_bytes": len(whole),
    }


def _places(header: str) -> dict[str, list[Any]]:
    """First and last line of the functions whose accesses have to be told apart, and what each is."""
    found: dict[str, list[Any]] = {}
    named = {
        "tt_mmio_store_u32": "mmio.store",
        "tt_store_relaxed_sys_u32x4": "store.vector",
        "tt_load_acquire_sys_u32": "load.system",
        "tt_load_relaxed_sys_u32": "load.system",
    }
    name = ""
    for number, line in enumerate(header.splitlines(), 1):
        match = re.match(r"TT_DEVICE TT_INLINE .*?\b(tt_\w+)\(", line)
        if match:
            name = match[1] if match[1] in named else ""
            if name:
                found[name] = [named[name], number, number]
        if name:
            found[name][2] = number
        if line.startswith("}"):
            name = ""
    return found


def _kernel_of(listing: str, kernel: str) -> str:
    """The lines from the label with the kernel's name up to the next function."""
    kept: list[str] = []
    for line in listing.splitlines():
        label = line.rstrip().endswith(":") and not line.startswith((".L", " ", "\t", ";"))
        if label and re.search(rf"(?<![A-Za-z0-9]){kernel}\b", line):
            kept.append(line)
        elif kept and (label or line.lstrip().startswith(".section")):
            break
        elif kept:
            kept.append(line)
    return "\n".join(kept)


def code_of(seen: Seen, found: Mapping[str, Any], kernel: str) -> tuple[Family, list[str]]:
    """For judges: the family of a listing, and a kernel's instructions."""
    family = family_of(found["machine"], seen.facts.simulated, found["flags"])
    places = [(what, first, last) for what, first, last in found["places"].values()]
    return family, instructions(family, bytes(found["kernels"][kernel]).decode(), places)


def record_with(run: Run, shop: Workshop, name: str, texts: Mapping[str, str]) -> Record:
    """The record under test with other lowerings.

    Args:
        run: the case's.
        shop: of the arch.
        name: tells apart what one case plants.
        texts: primitive id -> its new text.
    """
    from tutti_hal.record import load_record
    from tutti_hal.spec import load_spec

    table = table_in_force(run)
    arch = table["archs"][shop.arch.name]
    primitives = load_spec().primitives
    for key, text in texts.items():
        family = primitives[key].family
        lowering = arch.get("primitives", {}).get(family) or table["primitives"][family]
        lowering.setdefault("exceptions", {})[key] = "{% raw %}" + text + "{% endraw %}"
    return load_record(plant_record(run, name, table))


def lowered(shop: Workshop, primitive: str, **changed: str) -> str | None:
    """The text of the member of a primitive's family that has other values on some axes; None where there is none."""
    from tutti_hal.spec import load_spec

    spec = load_spec()
    one = spec.primitives[primitive]
    wanted = {**one.axes, **changed}
    for other in spec.families[one.family]:
        if dict(other.axes) == wanted:
            return shop.record.lower(other, shop.arch)
    return None
