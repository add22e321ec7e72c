"""The PRP list of a registered buffer: built once, used by every request that lies in the buffer.

A transfer enters the list at the place of its second page. There are two layouts.

*Chained*, for any range: a list page holds page addresses and, in its last place, the bus address of the next list
page. The drive reads that place as a pointer only while more than one page is left to name; a transfer whose last page
comes just after a list page would have its pointer read as data. Such a transfer uses a second list, in which the same
pages lie ``skew`` places further on. A buffer whose pages fit one list page has no such transfer, and no second list.

*Whole*, for buffers in pieces of which a list page holds a whole number: no transfer crosses a piece, so none goes from
one list page to the next, and every place holds an address: 8 bytes a page and nothing besides.
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
    """How much list memory a buffer needs: pages of the plain and of the skewed list, and places in a page.

    Attributes:
        words: of 8 bytes in a list page.
        entries: page addresses in it: all words, or one less where the last is a pointer.
        skew: how much further on the second list has each page.
        plain_pages, skewed_pages: memory pages of the two.
    """

    words: int
    entries: int
    skew: int
    plain_pages: int
    skewed_pages: int

    @property
    def pages(self) -> int:
        """Memory pages that both lists take."""
        return self.plain_pages + self.skewed_pages


def plan(data_pages: int, page_bytes: int, piece_pages: int = 0) -> ListPlan:
    """The lists of a buffer.

    Args:
        data_pages: memory pages of the buffer.
        page_bytes: of the controller's page.
        piece_pages: pages of a piece, which no transfer crosses; 0 when there are none.

    Raises:
        BufferInvalid: more pages than the device counts.
    """
    # The device counts places in 32 bits.
    if data_pages >= 1 << 31:
        raise BufferInvalid(
            "list the pages of a buffer", f"{data_pages} pages", "Register it in pieces of less than 2^31 pages."
        )
    words = page_bytes // 8
    if piece_pages and words % piece_pages == 0:
        return ListPlan(words, words, 0, -(-data_pages // words), 0)
    entries = words - 1
    skew = entries // 2
    skewed_pages = -(-(data_pages + skew) // entries) if data_pages > entries else 0
    return ListPlan(words, entries, skew, -(-data_pages // entries), skewed_pages)


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
        ``(layout.pages, layout.words)`` words.
    """
    import numpy as np

    words = np.zeros((layout.pages, layout.words), np.uint64)
    for first, count, skew in ((0, layout.plain_pages, 0), (layout.plain_pages, layout.skewed_pages, layout.skew)):
        if count == 0:
            continue
        place = np.arange(len(pages)) + skew
        words[first + place // layout.entries, place % layout.entries] = pages
        if layout.entries < layout.words:
            words[first : first + count - 1, layout.entries] = list_pages[first + 1 : first + count]
    return words
