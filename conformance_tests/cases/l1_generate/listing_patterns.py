"""What a listing looks like on each instruction set: the suite's own table, by which the evidence is judged.

Transcribed from the instruction sets' manuals and, for the simulated world, from the engine's ABI header: never from a
record, for the records are what is judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """One instruction set.

    Attributes:
        instruction: a line that is an instruction; its first group is the instruction's text.
        store: a store to memory that is not the stack: of an entry or of a doorbell.
        entry: a store of a part of a submission entry.
        device: a store that can be nothing but one to a device register; None where it looks like any other.
        release: the instruction that makes all before it visible at system scope before what follows.
        scope: where the release is a call, what must set its scope to system before it; None elsewhere.
    """

    instruction: re.Pattern[str]
    store: re.Pattern[str]
    entry: re.Pattern[str]
    device: re.Pattern[str] | None
    release: re.Pattern[str]
    scope: re.Pattern[str] | None = None


_OBJDUMP = re.compile(r"^\s+[0-9a-f]+:\s+(\S.*)$")

#: ELF machine -> its family, for code that runs on the machine itself.
MACHINES: dict[int, Family] = {
    # x86-64. Stores are seen in order by all, but may pass in a buffer behind later loads: a full barrier is asked for,
    # as the contract's fence is sequentially consistent.
    62: Family(
        _OBJDUMP,
        store=re.compile(r"^v?mov\w*\s+[%$][^,(]*,(?!.*%rsp)[^,]*\(.*\)\s*(#.*)?$"),
        entry=re.compile(r"^v?mov\w*\s+[%$][^,(]*,(?!.*%rsp)[^,]*\(.*\)\s*(#.*)?$"),
        device=None,
        release=re.compile(r"^(mfence|lock\s+(or|add|and|xor|sub|xadd|cmpxchg)|xchg\s+%\w+,.*\()"),
    ),
    # AArch64. A store of one observer domain and beyond is ordered by a barrier over stores or over all accesses.
    183: Family(
        _OBJDUMP,
        store=re.compile(r"^st(l?r|p|lur|ur)\w*\s+(?!.*\[sp)"),
        entry=re.compile(r"^st(r|p|ur)\w*\s+(?!.*\[sp)"),
        device=None,
        release=re.compile(r"^dmb\s+(ish|ishst|sy|st|osh|oshst)\b"),
    ),
    # SASS. The scope is in the instruction's name.
    190: Family(
        re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\S.*?)\s*;"),
        store=re.compile(r"^STG?\.E\b"),
        entry=re.compile(r"^STG?\.E\.(128|64)\b"),
        device=re.compile(r"^STG?\.E\.MMIO\.SYS\b"),
        release=re.compile(r"^MEMBAR\.(SC|ALL)\.SYS\b"),
    ),
}

# The simulated world: each access is a call through the table of native/include/tutti/host_device.h. Two 32-bit words
# come first, then pointers of eight bytes: store_quad is the 17th after them, fence the 19th, mmio_store the 21st, each
# counted from 0. The scope is the fence's second argument; system is 2.
_STORE_QUAD, _FENCE, _MMIO_STORE = (8 + 8 * index for index in (17, 19, 21))

#: ELF machine -> its family, for kernels of the simulated world.
SIMULATED: dict[int, Family] = {
    62: Family(
        _OBJDUMP,
        store=re.compile(rf"^(call|jmp)\s+\*0x({_STORE_QUAD:x}|{_MMIO_STORE:x})\(%\w+\)"),
        entry=re.compile(rf"^call\s+\*0x{_STORE_QUAD:x}\(%\w+\)"),
        device=re.compile(rf"^(call|jmp)\s+\*0x{_MMIO_STORE:x}\(%\w+\)"),
        release=re.compile(rf"^call\s+\*0x{_FENCE:x}\(%\w+\)"),
        scope=re.compile(r"^mov\s+\$0x2,%esi\b"),
    ),
    183: Family(
        _OBJDUMP,
        store=re.compile(rf"^ldr\s+x\d+, \[x\d+, #({_STORE_QUAD}|{_MMIO_STORE})\]"),
        entry=re.compile(rf"^ldr\s+x\d+, \[x\d+, #{_STORE_QUAD}\]"),
        device=re.compile(rf"^ldr\s+x\d+, \[x\d+, #{_MMIO_STORE}\]"),
        release=re.compile(rf"^ldr\s+x\d+, \[x\d+, #{_FENCE}\]"),
        scope=re.compile(r"^mov\s+w1, #0x2\b"),
    ),
}

#: A release further before its doorbell than so many instructions is not taken for it.
WINDOW = 64

#: How near the scope is set: within so many instructions of the call, on either side where a load begins the call.
_ARGUMENTS = 6


def family_of(machine: int, simulated: bool) -> Family:
    """The family of a module.

    Raises:
        LookupError: the suite has no table for it, so nothing can be said; extend this file.
    """
    table = SIMULATED if simulated else MACHINES
    if machine not in table:
        raise LookupError(f"no table of instructions for ELF machine {machine}; extend listing_patterns.py")
    return table[machine]


def instructions(family: Family, text: str) -> list[str]:
    """The instructions of a listing, in order, without addresses."""
    found = (family.instruction.match(line) for line in text.splitlines())
    return [" ".join(match[1].split()) for match in found if match]


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
    return len(stores) - 1, any(_releases(family, code, at) for at in range(last + 1, doorbell))


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
        released = False
        for at in range(index - 1, max(index - 1 - WINDOW, -1), -1):
            released = _releases(family, code, at)
            if released or family.entry.search(code[at]) or family.device.search(code[at]):
                break
        held.append(released)
    return held


def _releases(family: Family, code: Sequence[str], at: int) -> bool:
    if not family.release.search(code[at]):
        return False
    near = code[max(at - _ARGUMENTS, 0) : at] if "call" in code[at] else code[max(at - _ARGUMENTS, 0) : at + _ARGUMENTS]
    return family.scope is None or any(family.scope.search(one) for one in near)
