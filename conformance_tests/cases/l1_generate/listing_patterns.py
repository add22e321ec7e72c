"""What a listing looks like on each instruction set: the suite's own table, by which the evidence is judged.

Transcribed from the instruction sets' manuals, from the memory model of LLVM's AMDGPU back end (its user guide) and,
for the simulated world, from the engine's ABI header: never from a record, for the records are what is judged.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

Patterns = tuple[re.Pattern[str], ...]


@dataclass(frozen=True)
class Family:
    """One instruction set.

    Attributes:
        name: what it is called.
        instruction: a line that is an instruction; its first group is the instruction's text.
        store: a store to memory that is not the stack: of an entry or of a doorbell.
        entry: a store of a part of a submission entry.
        device: a store that can be nothing but one to a device register; None where it looks like any other.
        doorbell: the one store that a doorbell may be: 32 bits, with the bits that take it past every cache.
        release: the instructions that make all before them visible at system scope before what follows, in order.
        load: a load from memory that is not the stack; of a completion, of 32 bits at system scope.
        acquire: the instructions after an acquiring load at system scope, in order.
        apart: what is between two loads of one completion never.
        scope: where the release is a call, what must set its scope to system before it; None elsewhere.
        acquires: where a load is a call, all that sets its order to acquire and its scope to system; empty elsewhere.
        relay: what a lane that stored nothing has to do before its doorbell where that is less than a release: nothing,
            where every release waits until what it released is seen by all. None: a release.
        narrower: whether a release of device scope is another one than that of system scope.
        place: a line of the listing that says from which line of which file the following instructions are; None where
            the instructions tell a device store by themselves.
    """

    name: str
    instruction: re.Pattern[str]
    store: re.Pattern[str]
    entry: re.Pattern[str]
    device: re.Pattern[str] | None
    release: Patterns
    doorbell: re.Pattern[str] | None = None
    load: re.Pattern[str] | None = None
    acquire: Patterns = ()
    apart: re.Pattern[str] | None = None
    scope: re.Pattern[str] | None = None
    acquires: Patterns = ()
    relay: Patterns | None = None
    narrower: bool = True
    place: re.Pattern[str] | None = None


def _all(*patterns: str) -> Patterns:
    return tuple(re.compile(one) for one in patterns)


_OBJDUMP = re.compile(r"^\s+[0-9a-f]+:\s+(\S.*)$")

# x86-64. Stores are seen in order by all, but may pass in a buffer behind later loads: a full barrier is asked for, as
# the contract's fence is sequentially consistent.
_X86 = Family(
    "x86-64",
    _OBJDUMP,
    store=re.compile(r"^v?mov\w*\s+[%$][^,(]*,(?!.*%rsp)[^,]*\(.*\)\s*(#.*)?$"),
    entry=re.compile(r"^v?mov\w*\s+[%$][^,(]*,(?!.*%rsp)[^,]*\(.*\)\s*(#.*)?$"),
    device=None,
    release=_all(r"^(mfence|lock\s+(or|add|and|xor|sub|xadd|cmpxchg)|xchg\s+%\w+,.*\()"),
)

# AArch64. A store of one observer domain and beyond is ordered by a barrier over stores or over all accesses.
_ARM = Family(
    "aarch64",
    _OBJDUMP,
    store=re.compile(r"^st(l?r|p|lur|ur)\w*\s+(?!.*\[sp)"),
    entry=re.compile(r"^st(r|p|ur)\w*\s+(?!.*\[sp)"),
    device=None,
    release=_all(r"^dmb\s+(ish|ishst|sy|st|osh|oshst)\b"),
)

# SASS. The scope is in the instruction's name; an acquire empties the first-level cache after the load.
_SASS = Family(
    "SASS",
    re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\S.*?)\s*;"),
    store=re.compile(r"^STG?\.E\b"),
    entry=re.compile(r"^STG?\.E\.(128|64)\b"),
    device=re.compile(r"^STG?\.E\.MMIO\.SYS\b"),
    release=_all(r"^MEMBAR\.(SC|ALL)\.SYS\b"),
    doorbell=re.compile(r"^STG?\.E\.MMIO\.SYS\b"),
    load=re.compile(r"^LDG?\.E\.STRONG\.SYS\b"),
    acquire=_all(r"^CCTL\.IVALL\b"),
    apart=re.compile(r"^(MEMBAR|ATOM|RED|ST|BAR|WARPSYNC)"),
)

_GCN = re.compile(r"^\s+([a-z][a-z0-9]*_[a-z0-9_]+(?:\s[^;]*?)?)\s*(?:(?://|;).*)?$")
_GCN_PLACE = re.compile(r"^;\s(?P<file>\S*?):(?P<line>\d+)\s*$")
_GCN_STORE = re.compile(r"^(global|flat)_store_(dword|b)")


def _gcn(name: str, bits: str, release: Patterns, acquire: Patterns, register: str, narrower: bool = True) -> Family:
    """A family of AMD's. ``bits`` are those of an access at system scope; ``register`` those of a doorbell.

    A store to a device register is a store like others, and a load of a completion a load: they are told by the lines
    that they come from.
    """
    return Family(
        name,
        _GCN,
        store=_GCN_STORE,
        entry=re.compile(r"^(global|flat)_store_\S+ .* @store\.vector\b"),
        device=re.compile(r"^(global|flat)_store_\S+ .* @mmio\.store\b"),
        release=release,
        doorbell=re.compile(rf"^(global|flat)_store_(dword|b32) (?!.*\bnt\b)(?!.*\bslc\b).*{register}"),
        load=re.compile(rf"^(global|flat)_load_(dword|b32) .*{bits}.* @load\.system\b"),
        acquire=acquire,
        apart=re.compile(r"^((global|flat)_(atomic|store)|s_barrier|buffer_wbl2)"),
        relay=None if narrower else (),
        narrower=narrower,
        place=_GCN_PLACE,
    )


# A release writes the second-level cache back, where that may hold what the bus does not see, and waits until all that
# was stored, and the writing back, has arrived. On a part whose second level is coherent with the bus the wait is all.
# An acquire waits for its load, then forgets what the caches hold.
_GFX90A = _gcn(
    "gfx90a",
    r"\bglc\b",
    _all(r"^buffer_wbl2\b", r"^s_waitcnt\b.*\bvmcnt\(0\)"),
    _all(r"^s_waitcnt\b.*\bvmcnt\(0\)", r"^buffer_invl2\b", r"^buffer_wbinvl1_vol\b"),
    "",
)
_GFX942 = _gcn(
    "gfx942",
    r"\bsc0 sc1\b",
    _all(r"^buffer_wbl2 sc0 sc1\b", r"^s_waitcnt\b.*\bvmcnt\(0\)"),
    _all(r"^s_waitcnt\b.*\bvmcnt\(0\)", r"^buffer_inv sc0 sc1\b"),
    r"\bsc0 sc1\b",
)
_GFX1100 = _gcn(
    "gfx1100",
    r"\bglc\b",
    _all(r"^s_waitcnt_vscnt null, 0x0\b"),
    _all(r"^s_waitcnt\b.*\bvmcnt\(0\)", r"^buffer_gl1_inv\b", r"^buffer_gl0_inv\b"),
    "",
    narrower=False,
)

#: ELF machine -> its family, for code that runs on the machine itself.
MACHINES: dict[int, Family] = {62: _X86, 183: _ARM, 190: _SASS}

#: ELF machine -> the low byte of the header's flags, which says the processor -> its family.
PROCESSORS: dict[int, dict[int, Family]] = {224: {0x3F: _GFX90A, 0x4C: _GFX942, 0x41: _GFX1100}}

# The simulated world: each access is a call through the table of native/include/tutti/host_device.h. Two 32-bit words
# come first, then pointers of eight bytes: load is the 14th after them, store_quad the 17th, fence the 19th, mmio_store
# the 21st, each counted from 0. A load's order is its fourth argument, acquire is 1, and its scope the fifth; a fence's
# scope is its second; system is 2.
_LOAD, _STORE_QUAD, _FENCE, _MMIO_STORE = (8 + 8 * index for index in (14, 17, 19, 21))

#: ELF machine -> its family, for kernels of the simulated world.
SIMULATED: dict[int, Family] = {
    62: Family(
        "x86-64, simulated",
        _OBJDUMP,
        store=re.compile(rf"^(call|jmp)\s+\*0x({_STORE_QUAD:x}|{_MMIO_STORE:x})\(%\w+\)"),
        entry=re.compile(rf"^call\s+\*0x{_STORE_QUAD:x}\(%\w+\)"),
        device=re.compile(rf"^(call|jmp)\s+\*0x{_MMIO_STORE:x}\(%\w+\)"),
        release=_all(rf"^call\s+\*0x{_FENCE:x}\(%\w+\)"),
        doorbell=re.compile(rf"^(call|jmp)\s+\*0x{_MMIO_STORE:x}\(%\w+\)"),
        load=re.compile(rf"^call\s+\*0x{_LOAD:x}\(%\w+\)"),
        apart=re.compile(r"^call\b"),
        scope=re.compile(r"^mov\s+\$0x2,%esi\b"),
        acquires=_all(r"^mov\s+\$0x1,%ecx\b", r"^mov\s+\$0x2,%r8d\b"),
    ),
    183: Family(
        "aarch64, simulated",
        _OBJDUMP,
        store=re.compile(rf"^ldr\s+x\d+, \[x\d+, #({_STORE_QUAD}|{_MMIO_STORE})\]"),
        entry=re.compile(rf"^ldr\s+x\d+, \[x\d+, #{_STORE_QUAD}\]"),
        device=re.compile(rf"^ldr\s+x\d+, \[x\d+, #{_MMIO_STORE}\]"),
        release=_all(rf"^ldr\s+x\d+, \[x\d+, #{_FENCE}\]"),
        doorbell=re.compile(rf"^ldr\s+x\d+, \[x\d+, #{_MMIO_STORE}\]"),
        load=re.compile(rf"^ldr\s+x\d+, \[x\d+, #{_LOAD}\]"),
        scope=re.compile(r"^mov\s+w1, #0x2\b"),
        acquires=_all(r"^mov\s+w3, #0x1\b", r"^mov\s+w4, #0x2\b"),
    ),
}

#: A release further before its doorbell than so many instructions is not taken for it.
WINDOW = 64

#: A call, where arguments that were set before it are used up.
_CALL = re.compile(r"^(call|jmp\s+\*|blr|br)\b")

#: How near the scope is set: within so many instructions of the call, on either side where a load begins the call.
_ARGUMENTS = 6


def family_of(machine: int, simulated: bool, flags: int = 0) -> Family:
    """The family of a module.

    Args:
        machine: of its ELF header.
        simulated: whether it is for the simulated world.
        flags: of its ELF header, where the machine alone does not say the instruction set.

    Raises:
        LookupError: the suite has no table for it, so nothing can be said; extend this file.
    """
    table = SIMULATED if simulated else {**MACHINES, **_processors(flags)}
    if machine not in table:
        raise LookupError(
            f"no table of instructions for ELF machine {machine} ({flags:#x}); extend listing_patterns.py"
        )
    return table[machine]


def _processors(flags: int) -> dict[int, Family]:
    return {machine: kinds[flags & 0xFF] for machine, kinds in PROCESSORS.items() if flags & 0xFF in kinds}


#: What the lines of a function of the vendor's header of primitives are: what, first line, last line.
Place = tuple[str, int, int]


def instructions(family: Family, text: str, places: Sequence[Place] = ()) -> list[str]:
    """The instructions of a listing, in order, without addresses.

    Args:
        family: the listing's.
        text: the listing.
        places: functions of the vendor's header of primitives. Where the family's listing says the lines, an
            instruction from one of them ends in ``@`` and what that is.
    """
    code, at = [], ""
    for line in text.splitlines():
        place = family.place.match(line) if family.place else None
        if place is not None:
            at = _primitive_at(place["file"], int(place["line"]), places)
            continue
        found = family.instruction.match(line)
        if found:
            code.append(" ".join(found[1].split()) + at)
    return code


def _primitive_at(file: str, line: int, places: Sequence[Place]) -> str:
    if not file.endswith("_primitives.cuh"):
        return ""
    return next((f" @{what}" for what, first, last in places if first <= line <= last), "")


def fenced(family: Family, code: Sequence[str]) -> list[str]:
    """The code without what the lowering of a doorbell does itself before its store: the kernel's own fence is left.

    A check of a kernel whose fence was left out is made of this, for a doorbell that releases by itself hides it.
    """
    return [one for one in code if not one.endswith(" @mmio.store") or family.store.search(one)]


def follow(patterns: Patterns, code: Sequence[str]) -> bool:
    """Whether instructions that match the patterns are among these, in order."""
    left = iter(code)
    return all(any(pattern.search(one) for one in left) for pattern in patterns)


def straight(family: Family, code: Sequence[str]) -> tuple[int, bool]:
    """Of a kernel without branches that stores an entry, fences, and rings a doorbell last.

    Returns:
        How many stores there are before the last one, which is the doorbell's; and whether a release is between that
        and the one before.
    """
    stores = [index for index, one in enumerate(code) if family.store.search(one)]
    if len(stores) < 2:
        return max(len(stores) - 1, 0), False
    last, doorbell = stores[-2:]
    return len(stores) - 1, _released(family, code, last + 1, doorbell)


def relayed(family: Family, code: Sequence[str]) -> bool:
    """Whether a release comes before the only store, a doorbell's, of a kernel that rings for what others stored."""
    stores = [index for index, one in enumerate(code) if family.store.search(one)]
    if family.relay is not None:
        return len(stores) == 1 and follow(family.relay, code[: stores[0]])
    return len(stores) == 1 and _released(family, code, 0, stores[0])


def doorbells(family: Family, code: Sequence[str]) -> list[bool]:
    """For each store to a device register, whether walking back a release comes before any store of an entry.

    The walk goes by the listing's order and ends after :data:`WINDOW` instructions, or at another device store.
    """
    if family.device is None:
        raise LookupError("on this instruction set a doorbell looks like any other store")
    held = []
    for index, one in enumerate(code):
        if not family.device.search(one):
            continue
        first = max(index - WINDOW, 0)
        for at in range(index - 1, first - 1, -1):
            if family.entry.search(code[at]) or family.device.search(code[at]):
                first = at + 1
                break
        held.append(_released(family, code, first, index))
    return held


def acquired(family: Family, code: Sequence[str]) -> bool:
    """Whether two loads of a completion have an acquire between them, and nothing else that acquires."""
    if family.load is None:
        raise LookupError("on this instruction set an acquiring load looks like any other")
    loads = [index for index, one in enumerate(code) if family.load.search(one)]
    for first, second in itertools.pairwise(loads):
        between = code[first + 1 : second]
        if family.apart is not None and any(family.apart.search(one) for one in between):
            continue
        near = _arguments(code, first)
        ordered = all(any(pattern.search(one) for one in near) for pattern in family.acquires)
        if ordered and follow(family.acquire, between):
            return True
    return False


def _arguments(code: Sequence[str], at: int) -> Sequence[str]:
    """What sets the arguments of the call at or behind an instruction: all from the call before it."""
    begin = next((one + 1 for one in range(at - 1, -1, -1) if _CALL.match(code[one])), 0)
    end = next((one for one in range(at, len(code)) if _CALL.match(code[one])), len(code))
    return code[begin:end]


def _released(family: Family, code: Sequence[str], first: int, end: int) -> bool:
    """Whether a whole release is among code[first:end]."""
    if family.scope is None:
        return follow(family.release, code[first:end])
    called = [at for at in range(first, end) if family.release[0].search(code[at])]
    return any(_reaches_system(family, code, at) for at in called)


def _reaches_system(family: Family, code: Sequence[str], at: int) -> bool:
    near = code[max(at - _ARGUMENTS, 0) : at] if "call" in code[at] else code[max(at - _ARGUMENTS, 0) : at + _ARGUMENTS]
    return family.scope is None or any(family.scope.search(one) for one in near)
