"""From a URI to places on drives. Nothing is moved on the way, but a file's dirty pages are sent to its drive."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from tutti_hal.errors import StorageError, StripeInvalid, TargetMissing, TargetSizeWrong
from tutti_hal.spec.nodes import near_miss
from tutti_hal.storage import stripes
from tutti_hal.storage.extents import make_extents
from tutti_hal.storage.files import FileResolver
from tutti_hal.storage.places import Leaf, Place
from tutti_hal.storage.targets import Resolved
from tutti_hal.storage.uri import Uri, parse

#: Threads of a batch of opens at most, and items for which another thread pays.
_THREADS, _EACH = 8, 64


class Resolvers:
    """The resolvers over the drives of a runtime. Thread safe.

    Args:
        places: the drives, in their order.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = {place.drive.name: place for place in places}
        self._sources = {source: place for place in places if (source := place.drive.source) is not None}

    def resolve(self, text: str, files: FileResolver | None = None) -> Resolved:
        """What a URI leads to. The caller closes it, or hands it to a runtime.

        Args:
            text: the URI.
            files: what finds files; None makes one.

        Raises:
            UriInvalid: it is none.
            TargetError: its subclass says why the target cannot be used.
        """
        uri = parse(text)
        files = files or FileResolver(self._sources)
        with ExitStack() as opened:
            leaves = []
            for member in uri.members:
                leaf = files.resolve(uri.doing, member, uri.writable) if uri.of_files else self._raw(uri, member)
                if leaf.watch is not None:
                    opened.callback(leaf.watch.close)
                leaves.append(leaf)
            resolved = self._put_together(uri, leaves)
            opened.pop_all()
        return resolved

    def resolve_all(self, texts: Sequence[str]) -> list[Resolved | StorageError]:
        """What URIs lead to, each for itself; many are shared out among threads, which wait in system calls mostly."""
        files = FileResolver(self._sources)
        found: list[Resolved | StorageError | None] = [None] * len(texts)

        def work(indices: range) -> None:
            for index in indices:
                try:
                    found[index] = self.resolve(texts[index], files)
                except StorageError as error:
                    found[index] = error

        workers = min(_THREADS, len(texts) // _EACH)
        try:
            if workers < 2:
                work(range(len(texts)))
            else:
                with ThreadPoolExecutor(workers, "tutti-open") as pool:
                    for done in [pool.submit(work, range(first, len(texts), workers)) for first in range(workers)]:
                        done.result()
        except BaseException:
            for one in found:
                if isinstance(one, Resolved):
                    one.close()
            raise
        return [one for one in found if one is not None]

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
