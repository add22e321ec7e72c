"""What a drive needs to know of a registered buffer: its record, PRP lists and SGL descriptors, in DMA memory."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti_hal.errors import BufferInvalid
from tutti_hal.io_uring import prp_list, sgl_list
from tutti_hal.io_uring.layout import Access, dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring.options import Drive
    from tutti_hal.nvme.memory import DmaMemory

#: log2 of the piece of a buffer that is one: no range crosses it.
_ONE_PIECE = 63


@dataclass(frozen=True)
class Descriptors:
    """A buffer for one drive.

    Attributes:
        row: its ``ring_buffer``.
        memory: what the record names; kept until no drive reads it any more.
    """

    row: NDArray[np.void]
    memory: tuple[DmaMemory, ...]

    @property
    def nbytes(self) -> int:
        """Bytes retained for the drive: DMA memory as it was allocated, the record on the device and in its image."""
        return sum(one.nbytes for one in self.memory) + 2 * int(self.row.dtype.itemsize)

    def close(self) -> None:
        """Gives the memory back."""
        for one in self.memory:
            one.close()


def describe(
    drive: Drive, memory: DmaMemory, access: Access, *, metadata: DmaMemory | None, piece: int, sgl: bool
) -> Descriptors:
    """Builds what requests look up. PRP lists only where SGL descriptors do not cover every range.

    Args:
        drive: whose page, and whose memory for the lists.
        memory: the data.
        access: what the drive may do with them.
        metadata: memory of their own, None where there is none.
        piece: bytes that no request crosses, a power of two; 0 for none.
        sgl: whether commands may have SGLs.

    Raises:
        BufferInvalid: pages that are not whole, too many, a piece that is no multiple of the page; metadata in
            several runs.
        TuttiError: no memory.
    """
    import numpy as np

    page_bytes = drive.handle.page_bytes
    pages = prp_list.page_addresses(memory.runs, page_bytes)
    if piece % page_bytes:
        raise BufferInvalid(
            "register a buffer in pieces",
            f"a piece of {piece} bytes, and the drive's page is {page_bytes}",
            "Use a power of two, not less than the page.",
        )
    row = np.zeros((), dtype("ring_buffer"))
    row["bytes"] = memory.nbytes
    row["bus"] = memory.runs[0][0]
    contiguous = bool((np.diff(pages) == page_bytes).all())
    row["contiguous"] = contiguous
    row["access"] = access
    row["piece_shift"] = piece.bit_length() - 1 if piece else _ONE_PIECE
    if metadata is not None:
        row["metadata"], row["metadata_bytes"] = _one_run(metadata), metadata.nbytes
    with ExitStack() as made:
        kept: list[DmaMemory] = []

        def keep(nbytes: int) -> DmaMemory:
            space = drive.dma.allocate(nbytes, alignment=page_bytes)
            made.callback(space.close)
            kept.append(space)
            return space

        covered = sgl and contiguous
        if sgl and piece and not contiguous:
            covered = _add_sgl(row, pages, page_bytes, piece, keep)
        row["sgl"] = sgl and (contiguous or bool(piece))
        if not covered:
            _add_prp(row, pages, page_bytes, piece, keep)
        made.pop_all()
    return Descriptors(row, tuple(kept))


def _one_run(metadata: DmaMemory) -> int:
    """The bus address of metadata, which a command names by it alone."""
    end = first = metadata.runs[0][0]
    for bus, nbytes in metadata.runs:
        if bus != end:
            raise BufferInvalid(
                "register metadata",
                f"{len(metadata.runs)} runs of bus addresses: a command names metadata by one address",
                "Allocate the metadata memory contiguous: dma.allocate(nbytes, contiguous=True).",
            )
        end += nbytes
    return first


def _add_sgl(
    row: NDArray[np.void], pages: NDArray[np.uint64], page_bytes: int, piece: int, keep: Callable[[int], DmaMemory]
) -> bool:
    """Descriptors of the pieces. True when they cover every range that a request may have."""
    layout = sgl_list.plan(pages, page_bytes, piece)
    space = keep(layout.nbytes)
    own = prp_list.page_addresses(space.runs, page_bytes)
    space.write(0, sgl_list.fill(layout, pages, page_bytes, own).tobytes())
    row["pieces"] = space.address
    return not layout.whole_pieces_only


def _add_prp(
    row: NDArray[np.void], pages: NDArray[np.uint64], page_bytes: int, piece: int, keep: Callable[[int], DmaMemory]
) -> None:
    """The lists, and behind them the bus addresses of their pages."""
    layout = prp_list.plan(len(pages), page_bytes, piece // page_bytes)
    lists = layout.pages * page_bytes
    space = keep(lists + 8 * layout.pages)
    list_pages = prp_list.page_addresses(space.runs, page_bytes)[: layout.pages]
    space.write(0, prp_list.fill(layout, pages, list_pages).tobytes())
    space.write(lists, list_pages.tobytes())
    row["entries"] = layout.entries
    row["list"] = space.address
    row["list_pages"] = space.address + lists
    row["skewed_pages"] = space.address + lists + 8 * layout.plain_pages
    row["skew"] = layout.skew
