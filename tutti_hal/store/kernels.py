"""The store's kernels as the host calls them: placement table, sums of payloads, paged KV caches to objects and back.

Nothing here touches a drive. The table is filled from what the log says is durable, so a key that a kernel finds has an
object; one that it does not find may have one all the same, and the host's index knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tutti_hal.errors import StoreFull, StoreOptionInvalid
from tutti_hal.store.records import EntryRow, Op

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.shim import Buffer, Device, Kernel, Stream

_LANES = 128
_GRID = 4096


def record_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a record that the store's kernels share, such as ``store_key``."""
    from tutti_hal.codegen import structs
    from tutti_hal.paths import templates_dir

    return structs.load_all(templates_dir())[name].dtype()


def hash_keys(keys: Iterable[bytes]) -> NDArray[np.void]:
    """128-bit hashes of keys, as ``store_key`` records: BLAKE2b, so that two keys do not share one by accident."""
    import numpy as np

    digests = b"".join(hashlib.blake2b(key, digest_size=16).digest() for key in keys)
    hashes = np.frombuffer(bytearray(digests), record_dtype("store_key"))
    hashes["low"][hashes["low"] == 0] = 1
    return hashes


def changes_of(entries: Sequence[EntryRow], lba_of: Any) -> NDArray[np.void]:
    """``store_change`` records of entries that are durable; ``lba_of`` gives the first block of an entry's payload."""
    import numpy as np

    hashes = hash_keys(entry.key for entry in entries)
    changes = np.zeros(len(entries), record_dtype("store_change"))
    changes["low"], changes["high"] = hashes["low"], hashes["high"]
    for row, entry in zip(changes, entries, strict=True):
        row["version"], row["present"] = entry.version, entry.op is Op.PUT
        if entry.op is Op.PUT:
            row["lba"], row["payload_bytes"], row["payload_crc"] = lba_of(entry), entry.payload_bytes, entry.payload_crc
    return changes


class StoreKernels:
    """The kernel set ``store`` on a device, and a placement table. A context manager. Not thread safe.

    Args:
        device: where.
        keys: for how many the table is made. It has twice as many slots or more.
        templates: another root of kernel templates than the installed one.

    Raises:
        StoreOptionInvalid: no keys.
        BuildError: the kernels cannot be built for this profile.
    """

    def __init__(self, device: Device, keys: int, *, templates: Path | None = None) -> None:
        import numpy as np

        from tutti_hal.toolchain import build

        if keys < 1:
            raise StoreOptionInvalid("make a placement table", f"it is for {keys} keys", "Give 1 or more.")
        self.device = device
        self.slots = 1 << (2 * keys - 1).bit_length()
        self.taken = 0
        self._kernels: dict[str, Kernel] = {}
        with ExitStack() as made:
            built = build(device.profile, "store", templates=templates)
            self._module = made.enter_context(device.load_module(built.path, built.declared))
            self.stream: Stream = made.enter_context(device.create_stream())
            self.table: Buffer = made.enter_context(device.allocate(self.slots * record_dtype("store_slot").itemsize))
            self._powers: Buffer = made.enter_context(device.allocate(64 * 4))
            self.stream.fill(self.table, 0)
            self.stream.copy(self._powers, powers(64).view(np.uint8))
            self.stream.synchronize()
            self._stack = made.pop_all()

    # ---- small helpers ----

    def _launch(self, name: str, blocks: int, *args: Any) -> None:
        from tutti_hal.shim import LaunchConfig, launch

        kernel = self._kernels.get(name)
        if kernel is None:
            kernel = self._kernels[name] = self._module[name]
        launch(self.stream, LaunchConfig(grid=max(1, min(blocks, _GRID)), block=_LANES), kernel, *args)

    def _send(self, stack: ExitStack, values: NDArray[Any]) -> Buffer:
        import numpy as np

        data = np.ascontiguousarray(values)
        buffer = stack.enter_context(self.device.allocate(max(data.nbytes, 8)))
        if data.nbytes:
            self.stream.copy(buffer, data.view(np.uint8).reshape(-1), data.nbytes)
        return buffer

    def _fetch(self, buffer: Buffer, dtype: Any, count: int) -> NDArray[Any]:
        import numpy as np

        values = np.zeros(count, dtype)
        if values.nbytes:
            self.stream.copy(values.view(np.uint8).reshape(-1), buffer, values.nbytes)
        self.stream.synchronize()
        return values

    # ---- placement ----

    def commit(self, changes: NDArray[np.void]) -> None:
        """Makes changes visible to kernels: ``store_change`` records of transactions that are durable. Blocks.

        Args:
            changes: of each key at most one; several launches are made where hashes share their low half.

        Raises:
            StoreFull: the table has no room; the changes that had room are visible.
        """
        import numpy as np

        left = changes
        while len(left):
            _, first = np.unique(left["low"], return_index=True)
            chosen = np.zeros(len(left), bool)
            chosen[first] = True
            self._commit(left[chosen])
            left = left[~chosen]

    def _commit(self, changes: NDArray[np.void]) -> None:
        import numpy as np

        with ExitStack() as stack:
            given = self._send(stack, changes)
            outcome = stack.enter_context(self.device.allocate(12))
            self.stream.fill(outcome, 0)
            count = len(changes)
            self._launch(
                "store_commit",
                -(-count // _LANES),
                *(self.table.address, self.slots - 1, given.address, count, outcome.address),
            )
            _, full, _ = self._fetch(outcome, np.uint32, 3).tolist()
        if full:
            raise StoreFull(
                f"place {count} keys on the device",
                f"{full} found no room in a table of {self.slots} slots",
                "Make it for more keys, and fill it again from the store's entries: a slot keeps its key for ever.",
            )

    def lookup(self, keys: NDArray[np.void]) -> NDArray[np.void]:
        """Where keys lie: a ``store_place`` for each ``store_key``. May not find what is there. Blocks."""
        with ExitStack() as stack:
            given = self._send(stack, keys)
            dtype = record_dtype("store_place")
            places = stack.enter_context(self.device.allocate(max(8, len(keys) * dtype.itemsize)))
            self._launch(
                "store_lookup",
                -(-len(keys) // _LANES),
                *(self.table.address, self.slots - 1, given.address, len(keys), places.address),
            )
            return self._fetch(places, dtype, len(keys))

    def prefix(self, prompts: Sequence[NDArray[np.void]]) -> list[int]:
        """For each prompt, a list of ``store_key``, how many of its first keys are there. May say fewer. Blocks."""
        import numpy as np

        firsts = np.zeros(len(prompts) + 1, np.uint32)
        firsts[1:] = np.cumsum([len(prompt) for prompt in prompts])
        with ExitStack() as stack:
            keys = self._send(stack, np.concatenate(prompts) if prompts else np.zeros(0, record_dtype("store_key")))
            starts = self._send(stack, firsts)
            lengths = stack.enter_context(self.device.allocate(max(8, len(prompts) * 4)))
            self._launch(
                "store_prefix",
                len(prompts),
                *(self.table.address, self.slots - 1, keys.address, starts.address, len(prompts), lengths.address),
            )
            return [int(one) for one in self._fetch(lengths, np.uint32, len(prompts))]

    # ---- sums ----

    def checksums(self, memory: int, ranges: Sequence[tuple[int, int]]) -> list[int]:
        """CRC-32C of ranges of device memory. Blocks.

        Args:
            memory: address, a multiple of 8.
            ranges: offset, a multiple of 8, and bytes of each; readable up to the next multiple of 8.

        Raises:
            StoreOptionInvalid: an address or offset that is no multiple of 8.
        """
        import numpy as np

        rows = np.zeros(len(ranges), record_dtype("store_range"))
        for row, (offset, nbytes) in zip(rows, ranges, strict=True):
            row["offset"], row["bytes"] = offset, nbytes
        if memory % 8 or (rows["offset"] % 8).any():
            raise StoreOptionInvalid("sum device memory", "a range does not begin at a multiple of 8", "Align it.")
        with ExitStack() as stack:
            given = self._send(stack, rows)
            sums = stack.enter_context(self.device.allocate(max(8, len(ranges) * 4)))
            self._launch(
                "store_checksum",
                len(ranges),
                *(memory, given.address, len(ranges), self._powers.address, sums.address),
            )
            return [int(one) for one in self._fetch(sums, np.uint32, len(ranges))]

    # ---- paged caches ----

    def gather(
        self, pages: PagedCache, tensors: NDArray[np.void], blocks: NDArray[np.uint32], staging: int, nbytes: int
    ) -> int:
        """Copies keys or values from a paged cache into objects in staging memory. Blocks.

        Args:
            pages: the cache.
            tensors: ``store_tensor`` records.
            blocks: block numbers that the tensors name.
            staging: address of the staging memory.
            nbytes: of it.

        Returns:
            How many vectors had no place, in the cache or in the staging memory, and were left out.
        """
        return self._move("store_gather", pages, tensors, blocks, staging, nbytes)

    def scatter(
        self, pages: PagedCache, tensors: NDArray[np.void], blocks: NDArray[np.uint32], staging: int, nbytes: int
    ) -> int:
        """Copies objects in staging memory into a paged cache; as `gather`."""
        return self._move("store_scatter", pages, tensors, blocks, staging, nbytes)

    def _move(
        self, name: str, pages: PagedCache, tensors: NDArray[Any], blocks: NDArray[Any], staging: int, nbytes: int
    ) -> int:
        import numpy as np

        with ExitStack() as stack:
            layout = self._send(stack, pages.record())
            rows = self._send(stack, tensors)
            numbers = self._send(stack, blocks.astype(np.uint32, copy=False))
            refused = stack.enter_context(self.device.allocate(8))
            self.stream.fill(refused, 0)
            self._launch(
                name,
                len(tensors),
                *(layout.address, rows.address, len(tensors), numbers.address, staging, nbytes, refused.address),
            )
            return int(self._fetch(refused, np.uint32, 1)[0])

    # ---- the end ----

    def close(self) -> None:
        """Gives the memory back. Idempotent."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class PagedCache:
    """One layer of a paged KV cache, as vLLM lays it out.

    Attributes:
        address: of the keys of block 0.
        blocks: that the cache has.
        block_tokens: tokens of a block.
        heads: KV heads.
        head_bytes: of one head's vector; a multiple of 4.
        layout: ``NHD``: the heads of a token side by side; ``HND``: the tokens of a head.
    """

    address: int
    blocks: int
    block_tokens: int
    heads: int
    head_bytes: int
    layout: str = "NHD"

    @property
    def block_bytes(self) -> int:
        """Of the keys, or the values, of one block."""
        return self.block_tokens * self.heads * self.head_bytes

    @property
    def nbytes(self) -> int:
        """Of the whole layer: keys of all blocks, then their values."""
        return 2 * self.blocks * self.block_bytes

    def record(self) -> NDArray[np.void]:
        """The ``store_pages`` record.

        Raises:
            StoreOptionInvalid: another layout, or a vector that is no multiple of 4 bytes.
        """
        import numpy as np

        if self.layout not in ("NHD", "HND") or self.head_bytes % 4:
            raise StoreOptionInvalid("describe a paged cache", f"{self}", "Use NHD or HND, and vectors of whole words.")
        pages = np.zeros(1, record_dtype("store_pages"))
        pages["cache"], pages["heads"], pages["head_bytes"] = self.address, self.heads, self.head_bytes
        pages["block_tokens"], pages["blocks"] = self.block_tokens, self.blocks
        pages["side_stride"], pages["block_stride"] = self.blocks * self.block_bytes, self.block_bytes
        together = self.layout == "NHD"
        pages["token_stride"] = self.heads * self.head_bytes if together else self.head_bytes
        pages["head_stride"] = self.head_bytes if together else self.block_tokens * self.head_bytes
        return pages


def powers(count: int) -> NDArray[np.uint32]:
    """Powers of x, to 8 * 2^k, modulo the polynomial of CRC-32C, highest power in bit 0, for k from 0 on."""
    import numpy as np

    values = [1 << 23]
    for _ in range(1, count):
        values.append(_multiply(values[-1], values[-1]))
    return np.array(values, np.uint32)


def _multiply(a: int, b: int) -> int:
    product = 0
    for bit in range(32):
        if a >> (31 - bit) & 1:
            product ^= b
        b = b >> 1 ^ (0x82F63B78 if b & 1 else 0)
    return product
