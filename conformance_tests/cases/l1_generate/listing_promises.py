"""What each primitive promises in instructions, on each instruction set that has a word for it.

Transcribed from the instruction sets' manuals and from the memory model of LLVM's AMDGPU back end (its user guide),
apart from any record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tutti_hal.conformance_tests.cases.l1_generate.listing_patterns import Family, Patterns

#: A wait for loads, and for stores where they are counted together.
_WAIT = r"^s_waitcnt\b.*\bvmcnt\(0\)"


def promised(family: Family, primitive: str, axes: Mapping[str, str]) -> Patterns | None:
    """The instructions of a primitive's kernel (see ``listing_template``), in order.

    Args:
        family: the instruction set.
        primitive: the family of primitives.
        axes: of the member.

    Returns:
        None where the suite has no table for the instruction set.
    """
    table = {"SASS": _sass, "gfx90a": _gcn, "gfx942": _gcn, "gfx1100": _gcn}.get(family.name)
    if table is None:
        return None
    return tuple(re.compile(one) for one in table(family.name, primitive, axes))


def tells(family: Family, primitive: str, axes: Mapping[str, str], weaker: Mapping[str, str]) -> bool:
    """Whether the instruction set has other instructions for a weaker member of a family of primitives."""
    # What may be made of compare and swap is told from a narrower one by the bits alone: as an add is.
    one, other = ({**each, "op": "add"} if each.get("op") == "or" else each for each in (axes, weaker))
    found = [promised(family, primitive, each) for each in (one, other)]
    texts = [[pattern.pattern for pattern in each or ()] for each in found]
    return texts[0] != texts[1]


def _sass(_: str, primitive: str, axes: Mapping[str, str]) -> tuple[str, ...]:
    scope = {"device": "GPU", "system": "SYS", "block": "CTA", "": ""}[axes.get("scope", "")]
    wide = r"\.64" if axes.get("bits") == "64" else ""
    store = rf"^STG?\.E{wide}\.STRONG\.{scope}\b"
    load = rf"^LDG?\.E{wide}\.STRONG\.{scope}\b"
    name = {"add": "ADD", "exchange": "EXCH", "or": "OR", "": "CAS"}[axes.get("op", "")]
    match primitive:
        case "fence":
            either = r"^STG?\.E\.STRONG\.SYS\b"
            return (either, rf"^MEMBAR\.SC\.{scope}\b", either)
        case "load":
            return (load, r"^CCTL\.IVALL\b") if axes["order"] == "acquire" else (load,)
        case "store":
            before = r"^STG?\.E\.STRONG\.GPU\b"
            return (before, rf"^MEMBAR\.(ALL|SC)\.{scope}\b", store) if axes["order"] == "release" else (store,)
        case "load.vector":
            return (rf"^LDG?\.E\.128\.STRONG\.{scope}\b",)
        case "store.vector":
            return (rf"^STG?\.E\.128\.STRONG\.{scope}\b",)
        case "mmio.load":
            return (r"^LDG?\.E\.MMIO\.SYS\b",)
        case "mmio.store":
            return (r"^STG?\.E\.MMIO\.SYS\b",)
        case _:
            return (rf"^ATOMG?\.E\.{name}{wide}\.STRONG\.{scope}\b",)


#: Of each processor and scope: what a release writes back, what it waits for, what an acquire forgets, and the bits of
#: a load, of a store, and of an atomic that returns the old value.
_GCN: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...], str, str, str]] = {
    ("gfx90a", "device"): ((_WAIT,), (r"^buffer_wbinvl1_vol\b",), r"\bglc\b", "", r"\bglc\b"),
    ("gfx90a", "system"): (
        (r"^buffer_wbl2\b", _WAIT),
        (r"^buffer_invl2\b", r"^buffer_wbinvl1_vol\b"),
        r"\bglc\b",
        "",
        r"\bglc\b",
    ),
    ("gfx942", "device"): (
        (r"^buffer_wbl2 sc1\b", _WAIT),
        (r"^buffer_inv sc1\b",),
        r"(?<!sc0) sc1\b",
        r"(?<!sc0) sc1\b",
        r"\bsc0\b(?! sc1)",
    ),
    ("gfx942", "system"): (
        (r"^buffer_wbl2 sc0 sc1\b", _WAIT),
        (r"^buffer_inv sc0 sc1\b",),
        r"\bsc0 sc1\b",
        r"\bsc0 sc1\b",
        r"\bsc0 sc1\b",
    ),
    ("gfx1100", "device"): (
        (r"^s_waitcnt_vscnt null, 0x0\b",),
        (r"^buffer_gl1_inv\b", r"^buffer_gl0_inv\b"),
        r"\bglc\b",
        "",
        r"\bglc\b",
    ),
}
_GCN["gfx1100", "system"] = _GCN["gfx1100", "device"]

#: Widths: gfx9 counts in words, gfx11 in bits.
_WIDTHS = {"32": "(dword|b32)", "64": "(dwordx2|b64)", "128": "(dwordx4|b128)"}


def _gcn(processor: str, primitive: str, axes: Mapping[str, str]) -> tuple[str, ...]:
    width = _WIDTHS[axes.get("bits", "32")]
    either = r"^(global|flat)_store_(dword|b32) "
    scope = axes.get("scope", "system")
    if scope == "block":
        # One compute unit, one first-level cache: the order of the stores is all.
        return (either, either)
    release, forget, loads, stores, atomics = _GCN[processor, scope]
    store = rf"^(global|flat)_store_{width} .*{stores}"
    load = rf"^(global|flat)_load_{width} .*{loads}"
    match primitive:
        case "fence":
            return (either, *release, *forget, either)
        case "load":
            return (load, _WAIT, *forget) if axes["order"] == "acquire" else (load,)
        case "store":
            return (either, *release, store) if axes["order"] == "release" else (store,)
        case "load.vector":
            return _vector("load", loads)
        case "store.vector":
            return _vector("store", stores)
        case "mmio.load":
            return (load,)
        case "mmio.store":
            return (store,)
        case _:
            # No bus has an atomic or: at system scope it may be made of compare and swap.
            either_or = "(or|cmpswap)" if scope == "system" else "or"
            name = {"add": "add", "exchange": "swap", "or": either_or, "": "cmpswap"}[axes.get("op", "")]
            ending = "(_x2|_[bu]64)" if axes["bits"] == "64" else "(_[bu]32)?"
            return (rf"^(global|flat)_atomic_{name}{ending} .*{atomics}",)


def _vector(verb: str, bits: str) -> tuple[str, ...]:
    """One access of 16 bytes, two of 8, or four of 4: a quad need not be one access."""
    return (rf"^(global|flat)_{verb}_(dwordx[24]|dword|b128|b64|b32) .*{bits}",)
