"""PRPs: building them from bus runs, and walking them as a controller does.

Rules (NVM Express Base Specification, "Physical Region Page Entry and List"):

* PRP1 may start anywhere in a page, on a dword. The data then go on at offset 0 of every further page.
* PRP2 is unused when the data end in PRP1's page, a data page when they end in the next, else a list.
* The pointer to the first list is qword aligned and may start inside a page; the list goes to the end of that page.
  If entries remain, the page's last qword is a pointer to the next list page, which starts at offset 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti_hal.errors import PrpInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Status codes (SCT 0) that a controller answers when a rule is broken.
SC_INVALID_FIELD = 0x02
SC_PRP_OFFSET = 0x13

_ADDRESS_END = 1 << 64

#: (bus address, bytes).
Run = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrpPair:
    """PRP1 and PRP2 of a command."""

    prp1: int
    prp2: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrpPlan:
    """What `build` made: the pair for the SQE and what must be written where before the doorbell."""

    pair: PrpPair
    #: (bus address, contents) of each piece of list.
    lists: tuple[tuple[int, bytes], ...] = ()


def check_page(page_bytes: int) -> None:
    """Refuses what CC.MPS cannot select here: not a power of two, below 4 KiB, above 128 MiB.

    Raises:
        PrpInvalid: it is not a page size.
    """
    if page_bytes & (page_bytes - 1) or not 1 << 12 <= page_bytes <= 1 << 27:
        raise PrpInvalid("use a memory page size", f"{page_bytes} bytes", "Pass 4096 << MPS, as CC says.")


def _pages(runs: Iterable[Run], page_bytes: int) -> Iterator[int]:
    """The PRP entries of the runs: the first at its offset, the others at page starts."""
    ends_at: int | None = None
    for index, (bus, nbytes) in enumerate(runs):
        if nbytes <= 0 or bus < 0 or bus + nbytes > _ADDRESS_END:
            raise PrpInvalid("build PRPs", f"run {index}: {nbytes} bytes at {bus:#x}", "Pass non-empty 64-bit runs.")
        if index == 0:
            if bus & 3:
                raise PrpInvalid(
                    "build PRPs",
                    f"the data start at {bus:#x}",
                    "Align the buffer to 4 bytes.",
                    status_code=SC_PRP_OFFSET,
                )
        elif bus % page_bytes:
            raise PrpInvalid(
                "build PRPs",
                f"run {index} starts at {bus:#x}, inside a page of {page_bytes}",
                "Align every run but the first to the page, or use an SGL.",
                status_code=SC_PRP_OFFSET,
            )
        if ends_at is not None and ends_at % page_bytes:
            raise PrpInvalid(
                "build PRPs",
                f"run {index - 1} ends at {ends_at:#x}, inside a page of {page_bytes}",
                "End every run but the last at a page boundary, or use an SGL.",
                status_code=SC_PRP_OFFSET,
            )
        ends_at = bus + nbytes
        yield bus
        yield from range((bus // page_bytes + 1) * page_bytes, ends_at, page_bytes)


def entries(runs: Sequence[Run], page_bytes: int) -> tuple[int, ...]:
    """Every PRP entry that the runs need, in order.

    Raises:
        PrpInvalid: no run; an empty run; a start that is not dword aligned; a joint of runs inside a page.
    """
    check_page(page_bytes)
    found = tuple(_pages(runs, page_bytes))
    if not found:
        raise PrpInvalid("build PRPs", "no data", "A command without data has no PRPs.")
    return found


def list_bytes_needed(data_bytes: int, first_offset: int, page_bytes: int, list_offset: int = 0) -> int:
    """Bytes of list memory for a transfer: 0 when PRP1 and PRP2 are enough.

    Args:
        data_bytes: length of the transfer.
        first_offset: offset of its first byte in its page.
        page_bytes: the memory page size.
        list_offset: offset in its page at which the first list starts.

    Raises:
        PrpInvalid: the page size is none, or an offset lies outside a page.
    """
    check_page(page_bytes)
    if not 0 <= first_offset < page_bytes or not 0 <= list_offset < page_bytes or list_offset % 8 or data_bytes < 1:
        raise PrpInvalid(
            "size a PRP list",
            f"{data_bytes} bytes at offset {first_offset}, list at offset {list_offset}",
            "Offsets lie inside a page; the list's is a multiple of 8; the length is positive.",
        )
    pages = -(-(first_offset + data_bytes) // page_bytes)
    if pages <= 2:
        return 0
    left, room, total = pages - 1, (page_bytes - list_offset) // 8, 0
    while left > room:
        total += room * 8
        left -= room - 1
        room = page_bytes // 8
    return total + left * 8


def build(runs: Sequence[Run], page_bytes: int, list_space: Sequence[Run] = ()) -> PrpPlan:
    """Builds the PRPs of one transfer.

    Args:
        runs: the data, in order: (bus address, bytes) each.
        page_bytes: the memory page size that CC.MPS selects.
        list_space: bus memory for lists, in the order in which it is to be used. Each is used from its start to the
            end of its memory page at most; what crosses into further pages is used page by page. The first may start
            inside a page, on a qword; all further pages must be page aligned.

    Returns:
        The pair and the list contents. Nothing is written.

    Raises:
        PrpInvalid: the runs cannot be said with PRPs, or `list_space` is misplaced or too small.
    """
    needed = entries(runs, page_bytes)
    if len(needed) == 1:
        return PrpPlan(pair=PrpPair(prp1=needed[0]))
    if len(needed) == 2:
        return PrpPlan(pair=PrpPair(prp1=needed[0], prp2=needed[1]))
    lists: list[tuple[int, list[int]]] = []
    left = needed[1:]
    for number, (bus, room) in enumerate(_list_pieces(list_space, page_bytes)):
        if bus % (page_bytes if number else 8):
            raise PrpInvalid(
                "place a PRP list",
                f"{bus:#x}",
                "The first list is qword aligned, the others page aligned.",
                status_code=SC_PRP_OFFSET,
            )
        if lists:
            # The previous piece ended with a place kept for the pointer to this one.
            lists[-1][1].append(bus)
        if len(left) <= room:
            lists.append((bus, list(left)))
            left = ()
            break
        if (bus + room * 8) % page_bytes:
            raise PrpInvalid(
                "place a PRP list",
                f"{room * 8} bytes at {bus:#x} end inside a page, and {len(left)} entries remain",
                "A list that goes on must reach the end of its page.",
            )
        lists.append((bus, list(left[: room - 1])))
        left = left[room - 1 :]
    if left:
        raise PrpInvalid(
            "build PRPs",
            f"{len(needed)} pages, and the list space ends with {len(left)} entries to go",
            f"Give {list_bytes_needed(sum(n for _, n in runs), runs[0][0] % page_bytes, page_bytes)} bytes or more.",
        )
    return PrpPlan(
        pair=PrpPair(prp1=needed[0], prp2=lists[0][0]),
        lists=tuple((bus, b"".join(v.to_bytes(8, "little") for v in values)) for bus, values in lists),
    )


def _list_pieces(list_space: Sequence[Run], page_bytes: int) -> Iterator[Run]:
    """The list space cut at page ends: (bus address, entries)."""
    for start, nbytes in list_space:
        at, end = start, start + nbytes
        while at < end:
            stop = min((at // page_bytes + 1) * page_bytes, end)
            room = (stop - at) // 8
            if room:
                yield at, room
            at = stop


def walk(pair: PrpPair, nbytes: int, page_bytes: int, read: Callable[[int, int], bytes]) -> tuple[Run, ...]:
    """The bus runs that a pair names, as a strict controller finds them; one run per page.

    Args:
        pair: PRP1 and PRP2.
        nbytes: length of the transfer; 0 gives no runs.
        page_bytes: the memory page size that CC.MPS selects.
        read: reads (bus address, bytes) of list memory; it may raise.

    Raises:
        PrpInvalid: with the status that a controller answers: 0/13h for an offset that is not allowed, 0/02h for a
            zero entry where data are expected or an address that wraps.
    """
    check_page(page_bytes)
    if nbytes == 0:
        return ()
    _expect(pair.prp1, 3, "PRP1")
    first = min(nbytes, page_bytes - pair.prp1 % page_bytes)
    runs = [(pair.prp1, first)]
    left = nbytes - first
    if left == 0:
        return tuple(runs)
    if left <= page_bytes:
        _expect(pair.prp2, page_bytes - 1, "PRP2")
        return (*runs, (pair.prp2, left))
    _expect(pair.prp2, 7, "the PRP list pointer")
    at = pair.prp2
    while left:
        room = (page_bytes - at % page_bytes) // 8
        count = -(-left // page_bytes)
        chained = count > room
        blob = read(at, 8 * min(count, room))
        values = [int.from_bytes(blob[k : k + 8], "little") for k in range(0, len(blob), 8)]
        for index, page in enumerate(values[: room - 1] if chained else values):
            _expect(page, page_bytes - 1, f"entry {index} of the PRP list at {at:#x}")
            step = min(left, page_bytes)
            runs.append((page, step))
            left -= step
        if chained:
            _expect(values[-1], page_bytes - 1, f"the chain pointer of the PRP list at {at:#x}")
            at = values[-1]
    return tuple(runs)


def _expect(bus: int, low_bits: int, what: str) -> None:
    if bus & low_bits:
        raise PrpInvalid(
            "walk PRPs",
            f"{what} is {bus:#x}",
            f"The bits {low_bits:#x} must be zero.",
            status_code=SC_PRP_OFFSET,
        )
    if bus == 0:
        raise PrpInvalid("walk PRPs", f"{what} is zero", "An entry that is used names a page.")
