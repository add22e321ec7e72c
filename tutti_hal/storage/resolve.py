"""From a URI to places on drives. Nothing is moved on the way, but a file's dirty pages are sent to its drive."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti_hal.errors import StorageError, StripeInvalid, TargetMissing, TargetSizeWrong
from tutti_hal.spec.nodes import near_miss
from tutti_hal.storage import stripes
from tutti_hal.storage.extents import make_extents
from tutti_hal.storage.targets import Resolved, Watch
from tutti_hal.storage.uri import Uri, parse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring import Target
    from tutti_hal.storage.drives import StorageDrive


@dataclass(frozen=True)
class Place:
    """A drive as resolvers see it.

    Attributes:
        drive: the drive.
        target: the ring's target of its namespace.
    """

    drive: StorageDrive
    target: Target

    @property
    def nbytes(self) -> int:
        """Bytes of the namespace."""
        return self.target.blocks * self.target.lba_bytes


@dataclass(frozen=True)
class Leaf:
    """One member: its extents, length and block, and what watches over its file."""

    extents: NDArray[np.void]
    nbytes: int
    block: int
    watch: Watch | None = None


class Resolvers:
    """The resolvers over the drives of a runtime. Thread safe: it holds nothing that changes.

    Args:
        places: the drives, in their order.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = {place.drive.name: place for place in places}
        self._sources = {source: place for place in places if (source := place.drive.source) is not None}

    def resolve(self, text: str) -> Resolved:
        """What a URI leads to. The caller closes it, or hands it to a runtime.

        Raises:
            UriInvalid: it is none.
            TargetError: its subclass says why the target cannot be used.
        """
        uri = parse(text)
        with ExitStack() as opened:
            leaves = []
            for member in uri.members:
                leaf = self._file(uri, member) if uri.of_files else self._raw(uri, member)
                if leaf.watch is not None:
                    opened.callback(leaf.watch.close)
                leaves.append(leaf)
            resolved = self._put_together(uri, leaves)
            opened.pop_all()
        return resolved

    def resolve_all(self, texts: Sequence[str]) -> list[Resolved | StorageError]:
        """What URIs lead to, each for itself."""
        found: list[Resolved | StorageError] = []
        try:
            for text in texts:
                try:
                    found.append(self.resolve(text))
                except StorageError as error:
                    found.append(error)
        except BaseException:
            for one in found:
                if isinstance(one, Resolved):
                    one.close()
            raise
        return found

    def _put_together(self, uri: Uri, leaves: list[Leaf]) -> Resolved:
        layout = None
        size = leaves[0].nbytes
        if uri.scheme == "striped":
            unit, rotation = uri.number("unit", None), uri.number("rotation", 0)
            if unit is None:
                raise StripeInvalid(uri.doing, "no unit", "Give unit=, the bytes of one tensor.")
            assert rotation is not None
            layout = stripes.plan([leaf.nbytes for leaf in leaves], [leaf.block for leaf in leaves], unit, rotation)
            size = layout.size
        return Resolved(
            uri=uri.text,
            leaves=tuple(leaf.extents for leaf in leaves),
            layout=layout,
            size=size,
            block=max(leaf.block for leaf in leaves),
            writable=uri.writable,
            watches=tuple(leaf.watch for leaf in leaves if leaf.watch is not None),
        )

    def _raw(self, uri: Uri, name: str) -> Leaf:
        """A range of a namespace; by default all of it, in whole blocks."""
        place = self._places.get(name)
        if place is None:
            raise TargetMissing(
                uri.doing,
                f"no drive '{name}'{near_miss(name, self._places)}",
                f"The runtime has: {', '.join(self._places)}.",
            )
        block = place.target.block_bytes
        if place.target.block_bytes != place.target.lba_bytes:
            raise TargetSizeWrong(
                uri.doing,
                f"its blocks have {place.target.lba_bytes} bytes of data and metadata inline",
                "Use the ring itself, or a format without inline metadata.",
            )
        offset, size = uri.number("offset", 0), uri.number("size", None)
        assert offset is not None
        if size is None:
            size = max(place.nbytes - offset, 0)
        if size <= 0 or offset + size > place.nbytes:
            raise TargetSizeWrong(
                uri.doing, f"{size} bytes at {offset} of {place.nbytes}", "Stay inside the namespace."
            )
        if offset % block or size % block:
            raise TargetSizeWrong(
                uri.doing, f"{size} bytes at {offset}, and blocks of {block}", "Use multiples of the block."
            )
        return Leaf(make_extents([(0, offset, size)], place.target.row), size, block)

    def _file(self, uri: Uri, path: str) -> Leaf:
        from tutti_hal.storage.files import resolve_file

        return resolve_file(uri.doing, path, self._sources)
