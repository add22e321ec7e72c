"""Striped sets: units of any size, dealt out over any number of members of any sizes.

The set's units go round the members, beginning with member ``rotation`` of each *zone*. The first zone takes as many
rows as the smallest member holds; the next goes on over those that still have room, and so on: a large drive beside
small ones is used to its end. Unit k of a zone with m members lies in row k // m, at member (k + rotation) mod m.

Objects of one model layer lie at equal offsets of many sets. With a rotation of its own in each set (such as its
number) they spread over all drives; without one they would all lie on the same drive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import StripeInvalid
from tutti_hal.storage.extents import Pieces, cut

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Zone:
    """Units that go round the same members.

    Attributes:
        first_unit: of the set.
        units: how many.
        first_row: of each member: its units before this zone.
        members: their numbers in the set, ascending.
    """

    first_unit: int
    units: int
    first_row: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class StripeLayout:
    """How a set is laid out. Made by `plan`.

    Attributes:
        unit: bytes.
        rotation: member of each zone that has its first unit, modulo the members.
        zones: in order.
        size: bytes of the set.
    """

    unit: int
    rotation: int
    zones: tuple[Zone, ...]
    size: int


def plan(sizes: Sequence[int], blocks: Sequence[int], unit: int, rotation: int = 0) -> StripeLayout:
    """Lays a set out.

    Args:
        sizes: bytes of each member.
        blocks: bytes of each member's block.
        unit: bytes; a multiple of every block.
        rotation: 0 or more.

    Raises:
        StripeInvalid: no member, a unit that is not whole blocks, a negative rotation, or no room for one unit.
    """
    doing = f"stripe {len(sizes)} members by {unit} bytes"
    if not sizes:
        raise StripeInvalid(doing, "there is no member", "Name at least one.")
    uneven = [block for block in blocks if unit <= 0 or unit % block]
    if uneven:
        block = max(blocks)
        padded = -(-max(unit, 1) // block) * block
        raise StripeInvalid(
            doing,
            f"a member has blocks of {uneven[0]} bytes",
            f"Pad the unit, such as to {padded}, or use other blocks.",
        )
    if rotation < 0:
        raise StripeInvalid(doing, f"rotation {rotation}", "Use 0 or more.")
    rows = [size // unit for size in sizes]
    zones: list[Zone] = []
    first_unit = first_row = 0
    for level in sorted(set(rows)):
        members = tuple(number for number, room in enumerate(rows) if room > first_row)
        units = (level - first_row) * len(members)
        if units:
            zones.append(Zone(first_unit, units, first_row, members))
            first_unit, first_row = first_unit + units, level
    if not zones:
        raise StripeInvalid(doing, f"members hold {max(sizes)} bytes at most", "Use a smaller unit or larger members.")
    return StripeLayout(unit, rotation, tuple(zones), first_unit * unit)


def zone_dtype() -> np.dtype[Any]:
    """A zone in the table.

    Fields: ``position`` of its first byte, ``unit``, ``rotation``, ``row`` bytes before it in each member, ``members``
    how many, ``first`` of them in the list of bases.
    """
    import numpy as np

    return np.dtype(
        [
            ("position", "<u8"),
            ("unit", "<u8"),
            ("rotation", "<u8"),
            ("row", "<u8"),
            ("members", "<u8"),
            ("first", "<u8"),
        ]
    )


class StripeTable:
    """The zones of all striped targets, in a space of positions of their own. Not thread safe."""

    def __init__(self) -> None:
        import numpy as np

        self._zones = np.zeros(0, zone_dtype())
        self._count = 0
        self._bases = np.zeros(0, np.uint64)
        self._base_count = 0
        self._end = 0

    def add(self, layout: StripeLayout, bases: Sequence[int]) -> int:
        """Adds a set whose members are leaves of these bases in the table of extents. Returns the set's base."""
        import numpy as np

        rows = np.zeros(len(layout.zones), self._zones.dtype)
        listed: list[int] = []
        for index, zone in enumerate(layout.zones):
            rows[index] = (
                self._end + zone.first_unit * layout.unit,
                layout.unit,
                layout.rotation % len(zone.members),
                zone.first_row * layout.unit,
                len(zone.members),
                self._base_count + len(listed),
            )
            listed += [bases[member] for member in zone.members]
        self._zones = _put(self._zones, self._count, rows)
        self._bases = _put(self._bases, self._base_count, np.array(listed, np.uint64))
        self._count += len(rows)
        self._base_count += len(listed)
        base, self._end = self._end, self._end + layout.size
        return base

    def clear(self) -> None:
        """Forgets all sets: when none is open any more."""
        self._count = self._base_count = self._end = 0

    def spread(self, positions: NDArray[np.uint64], nbytes: NDArray[np.uint64]) -> Pieces:
        """Cuts ranges of open sets at units; ``physical`` of a piece is its position in the table of extents."""
        import numpy as np

        zones = self._zones[: self._count]
        if not len(positions):
            none = np.zeros(0, np.uint64)
            return Pieces(np.zeros(0, np.int64), none, none, np.zeros(0, np.uint32), none)
        # First at zones, so that a piece has one unit size; then at the units of its zone.
        by_zone, zone, first, last = cut(positions, nbytes, zones["position"])
        unit, begin = zones["unit"][zone], zones["position"][zone]
        low, high = (first - begin) // unit, (last - np.uint64(1) - begin) // unit
        counts = (high - low).astype(np.int64) + 1
        of = np.repeat(np.arange(len(by_zone)), counts)
        within = (np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)).astype(np.uint64)
        number = low[of] + within
        start = begin[of] + number * unit[of]
        piece_first = np.maximum(first[of], start)
        piece_last = np.minimum(last[of], start + unit[of])
        found = zones[zone[of]]
        member = (number + found["rotation"]) % found["members"]
        inside = found["row"] + number // found["members"] * found["unit"] + (piece_first - start)
        owner = by_zone[of]
        return Pieces(
            owner=owner,
            skip=piece_first - positions[owner],
            nbytes=piece_last - piece_first,
            row=np.zeros(len(of), np.uint32),
            physical=self._bases[(found["first"] + member).astype(np.int64)] + inside,
        )


def _put(table: NDArray[Any], count: int, rows: NDArray[Any]) -> NDArray[Any]:
    """The table with rows behind its first ``count``; it grows by doubling."""
    import numpy as np

    if count + len(rows) > len(table):
        wider = np.zeros(max(2 * len(table), count + len(rows), 16), table.dtype)
        wider[:count] = table[:count]
        table = wider
    table[count : count + len(rows)] = rows
    return table
