"""From a URI to places on drives. Nothing is moved on the way, but a file's dirty pages are sent to its drive."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tutti_hal.errors import StorageError, StripeInvalid, TargetError, TargetMissing, TargetSizeWrong
from tutti_hal.spec.nodes import near_miss
from tutti_hal.storage import stripes
from tutti_hal.storage.extents import make_extents
from tutti_hal.storage.files import FileResolver, Wanted, close_all
from tutti_hal.storage.places import Leaf, Place
from tutti_hal.storage.targets import Resolved
from tutti_hal.storage.uri import Uri, parse


class Resolvers:
    """The resolvers over the drives of a runtime. Thread safe.

    Args:
        places: the drives, in their order.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = {place.drive.name: place for place in places}
        self._sources = {source: place for place in places if (source := place.drive.source) is not None}
        self._direct: set[tuple[int, int]] = set()

    def resolve_all(self, texts: Sequence[str]) -> list[Resolved | StorageError]:
        """What URIs lead to, each for itself: one that leads nowhere fails alone.

        All files of all URIs are opened together. The caller closes what was resolved, or hands it to a runtime.
        """
        found: list[Resolved | StorageError | None] = [None] * len(texts)
        uris: list[Uri | None] = [None] * len(texts)
        wanted: list[Wanted] = []
        for index, text in enumerate(texts):
            try:
                uri = parse(text)
                if uri.of_files:
                    wanted += [Wanted(member, uri, uri.writable) for member in uri.members]
                uris[index] = uri
            except StorageError as error:
                found[index] = error
        files = FileResolver(self._sources, direct=self._direct).resolve_all(wanted)
        try:
            at = 0
            for index, one in enumerate(uris):
                if one is None:
                    continue
                members = files[at : at + len(one.members)] if one.of_files else None
                at += len(members or ())
                found[index] = self._resolve(one, members)
        except BaseException:
            close_all(files)
            raise
        return [one for one in found if one is not None]

    def _resolve(self, uri: Uri, files: Sequence[Leaf | TargetError] | None) -> Resolved | StorageError:
        """What a URI leads to, given its files; or why it leads nowhere, and then its files are closed."""
        try:
            leaves: list[Leaf] = []
            for leaf in files if files is not None else map(partial(self._raw, uri), uri.members):
                if not isinstance(leaf, Leaf):
                    raise leaf
                leaves.append(leaf)
            return self._put_together(uri, leaves)
        except StorageError as error:
            close_all(files or ())
            return error

    def _put_together(self, uri: Uri, leaves: list[Leaf]) -> Resolved:
        if uri.scheme != "striped":
            (leaf,) = leaves
            watches = () if leaf.watch is None else (leaf.watch,)
            return Resolved(uri.text, (leaf.extents,), None, leaf.nbytes, leaf.block, uri.writable, watches)
        unit, rotation = uri.number("unit", None), uri.number("rotation", 0)
        if unit is None:
            raise StripeInvalid(uri.doing, "no unit", "Give unit=, the bytes of one tensor.")
        assert rotation is not None
        layout = stripes.plan([leaf.nbytes for leaf in leaves], [leaf.block for leaf in leaves], unit, rotation)
        return Resolved(
            uri=uri.text,
            leaves=tuple(leaf.extents for leaf in leaves),
            layout=layout,
            size=layout.size,
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
