"""The PRP list of a registered buffer: built once, used by every request that lies in the buffer.

A list page holds page addresses and, in its last place, the bus address of the next list page. A transfer enters the
list at the place of its second page. The drive reads a list page's last place as a pointer only while more than one
page is left to name; a transfer whose last page comes just after a list page would have its pointer read as data. Such
a transfer uses a second list, in which the same pages lie ``skew`` places further on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti_hal.errors import BufferInvalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: (bus address, bytes).
Run = tuple[int, int]


@dataclass(frozen=True)
class ListPlan:
    """How much list memory a buffer needs: pages of the plain and of the skewed list, and places in a page."""

    entries: int
    skew: int
    plain_pages: int
    skewed_pages: int

    @property
    def pages(self) -> int:
        """Memory pages that both lists take."""
        return self.plain_pages + self.skewed_pages


def plan(data_pages: int, page_bytes: int) -> ListPlan:
    """The lists of a buffer of ``data_pages`` memory pages; ``page_bytes`` is the controller's page.

    Raises:
        BufferInvalid: more pages than the device counts.
    """
    # The device counts places in 32 bits.
    if data_pages >= 1 << 31:
        raise BufferInvalid(
            "list the pages of a buffer", f"{data_pages} pages", "Register it in pieces of less than 2^31 pages."
        )
    entries = page_bytes // 8 - 1
    skew = entries // 2
    return ListPlan(entries, skew, -(-data_pages // entries), -(-(data_pages + skew) // entries))


def page_addresses(runs: Sequence[Run], page_bytes: int) -> NDArray[np.uint64]:
    """The bus address of each memory page of a buffer that is mapped as ``runs``.

    Raises:
        BufferInvalid: a run does not begin and end on memory pages.
    """
    import numpy as np

    for bus, nbytes in runs:
        if bus % page_bytes or nbytes % page_bytes or nbytes <= 0:
            raise BufferInvalid(
                "list the pages of a buffer",
                f"a run of {nbytes} bytes at bus address {bus:#x}, and the drive's page is {page_bytes}",
                "Map the buffer in multiples of the drive's page.",
            )
    steps = [np.arange(bus, bus + nbytes, page_bytes, dtype=np.uint64) for bus, nbytes in runs]
    return np.concatenate(steps) if steps else np.empty(0, np.uint64)


def fill(layout: ListPlan, pages: NDArray[np.uint64], list_pages: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The contents of the list memory.

    Args:
        layout: of ``plan``.
        pages: bus address of each data page.
        list_pages: bus address of each page of list memory, the plain list's first.

    Returns:
        ``(layout.pages, layout.entries + 1)`` words.
    """
    import numpy as np

    words = np.zeros((layout.pages, layout.entries + 1), np.uint64)
    for first, count, skew in ((0, layout.plain_pages, 0), (layout.plain_pages, layout.skewed_pages, layout.skew)):
        place = np.arange(len(pages)) + skew
        words[first + place // layout.entries, place % layout.entries] = pages
        words[first : first + count - 1, layout.entries] = list_pages[first + 1 : first + count]
    return words
