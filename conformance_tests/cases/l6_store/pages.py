"""Paged KV caches to objects and back, in both orders of heads and tokens. The oracle is NumPy's own indexing."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l6_store.layouts import PAGES, TENSOR
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_BLOCKS, _TOKENS, _HEADS = 6, 4, 3
#: (side, place in the list of blocks, tokens); the list names a block that the cache does not have.
_TENSORS = ((0, 0, 8), (1, 1, 6), (0, 3, 4), (1, 4, 8))
_NUMBERS = (5, 0, 3, 1, 2, 6)
_AXES = {"layout": ("nhd", "hnd"), "head_bytes": (16, 20)}


def _shape(layout: str, head_bytes: int) -> tuple[int, ...]:
    inner = (_TOKENS, _HEADS) if layout == "nhd" else (_HEADS, _TOKENS)
    return (2, _BLOCKS, *inner, head_bytes)


def _records(run: Run, cache: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The cache's layout, the tensors, and the bytes of staging memory in which the last one does not fit wholly."""
    head = int(run.axes["head_bytes"])
    pages = np.zeros(1, PAGES)
    pages["cache"], pages["heads"], pages["head_bytes"] = cache, _HEADS, head
    pages["block_tokens"], pages["blocks"] = _TOKENS, _BLOCKS
    pages["block_stride"] = _TOKENS * _HEADS * head
    pages["side_stride"] = _BLOCKS * _TOKENS * _HEADS * head
    nhd = run.axes["layout"] == "nhd"
    pages["token_stride"] = _HEADS * head if nhd else head
    pages["head_stride"] = head if nhd else _TOKENS * head
    tensors = np.zeros(len(_TENSORS), TENSOR)
    offset = 0
    for row, (side, first, tokens) in zip(tensors, _TENSORS, strict=True):
        row["offset"], row["block_first"], row["tokens"], row["side"] = offset, first, tokens, side
        offset += tokens * _HEADS * head
    return pages, tensors, offset - head * (4 * _HEADS + 1)


@case(
    "store/pages",
    level="L6",
    clauses=("store.gather.packs", "store.scatter.places", "store.move.refuses"),
    kernels=("store",),
    axes=_AXES,
)
def pages(run: Run) -> Observations:
    """Tensors out of a paged cache into objects, and into an empty cache; a block and some room are missing."""
    head = int(run.axes["head_bytes"])
    cache = run.random.integers(1, 256, _shape(str(run.axes["layout"]), head), np.uint8)
    memory = run.array(cache, "device")
    layout, tensors, room = _records(run, memory.address)
    staging = run.buffer(room + 256, "device", fill=0xEE)
    numbers = run.array(np.array(_NUMBERS, np.uint32), "device")
    refused = [run.buffer(4, "device") for _ in range(2)]
    rows = run.array(tensors, "device")
    count = len(tensors)
    gather, scatter = run.kernel("store", "store_gather"), run.kernel("store", "store_scatter")
    run.launch(gather, 2, 50, run.array(layout, "device"), rows, count, numbers, staging.address, room, refused[0])
    packed = run.read(staging, np.uint8)
    target = run.buffer(cache.nbytes, "device")
    layout["cache"] = target.address
    run.launch(scatter, 3, 32, run.array(layout, "device"), rows, count, numbers, staging.address, room, refused[1])
    return {
        "cache": cache,
        "packed": packed,
        "room": room,
        "back": run.read(target, np.uint8, cache.shape),
        "refused": [int(run.read(one, np.uint32)[0]) for one in refused],
    }


@pages.judge
def _(seen: Seen) -> None:
    cache, packed, room = seen["cache"], seen["packed"], seen["room"]
    plain = cache if seen.axes["layout"] == "nhd" else cache.transpose(0, 1, 3, 2, 4)
    head = plain.shape[-1]
    objects = np.full(packed.shape, 0xEE, np.uint8)
    back = np.zeros_like(plain)
    at = refused = 0
    for side, first, tokens in _TENSORS:
        for token in range(tokens):
            block = _NUMBERS[first + token // _TOKENS]
            for one in range(_HEADS):
                if block >= _BLOCKS or at + head > room:
                    refused += 1
                else:
                    vector = plain[side, block, token % _TOKENS, one]
                    objects[at : at + head] = vector
                    back[side, block, token % _TOKENS, one] = vector
                at += head
    seen.equal("store.gather.packs", "the objects", packed[:room], objects[:room])
    seen.equal("store.move.refuses", "the memory behind them", packed[room:], objects[room:])
    seen.equal("store.move.refuses", "vectors that were left out", seen["refused"], [refused, refused])
    found = seen["back"] if seen.axes["layout"] == "nhd" else seen["back"].transpose(0, 1, 3, 2, 4)
    seen.equal("store.scatter.places", "the cache that was filled", found, back)


#: Of a cache of one block: (offset in the object, side, block). A side that caches do not have, beginnings behind the
#: staging memory, a block behind the last one, and offsets at which nothing but words is aligned.
_EDGES = ((4, 0, 0), (1024, 2, 0), (1 << 40, 0, 0), (1 << 63, 1, 0), (512, 0, 1), (260, 1, 0))
_EDGE_BYTES = _TOKENS * _HEADS * 16


@case(
    "store/pages.edges",
    level="L6",
    clauses=("store.gather.packs", "store.scatter.places", "store.move.refuses"),
    kernels=("store",),
)
def edges(run: Run) -> Observations:
    """Tensors of a side or block that is none, behind the staging memory, and where only words are aligned."""
    cache = run.random.integers(1, 256, (2, 1, _TOKENS, _HEADS, 16), np.uint8)
    # Behind the two sides lies what a third one would read and write.
    memory = run.array(np.concatenate([cache.reshape(-1), np.full(_EDGE_BYTES, 0xEE, np.uint8)]), "device")
    layout = np.zeros(1, PAGES)
    layout["heads"], layout["head_bytes"], layout["block_tokens"], layout["blocks"] = _HEADS, 16, _TOKENS, 1
    layout["block_stride"] = layout["side_stride"] = _EDGE_BYTES
    layout["token_stride"], layout["head_stride"] = _HEADS * 16, 16
    tensors = np.zeros(len(_EDGES), TENSOR)
    for row, (offset, side, block) in zip(tensors, _EDGES, strict=True):
        row["offset"], row["tokens"], row["side"], row["block_first"] = offset, _TOKENS, side, block
    staging = run.buffer(2048, "device", fill=0xEE)
    numbers, rows = run.array(np.arange(2, dtype=np.uint32), "device"), run.array(tensors, "device")
    refused = [run.buffer(4, "device") for _ in range(2)]
    target = run.buffer(3 * _EDGE_BYTES, "device", fill=0xEE)
    for name, where, count in (("store_gather", memory, refused[0]), ("store_scatter", target, refused[1])):
        layout["cache"] = where.address
        kernel, given = run.kernel("store", name), run.array(layout, "device")
        run.launch(kernel, 2, 32, given, rows, len(tensors), numbers, staging.address, 2048, count)
    return {
        "cache": cache,
        "packed": run.read(staging, np.uint8),
        "back": run.read(target, np.uint8),
        "refused": [int(run.read(one, np.uint32)[0]) for one in refused],
    }


@edges.judge
def _(seen: Seen) -> None:
    sides = seen["cache"].reshape(2, _EDGE_BYTES)
    objects = np.full(2048, 0xEE, np.uint8)
    objects[4 : 4 + _EDGE_BYTES] = sides[0]
    objects[260 : 260 + _EDGE_BYTES] = sides[1]
    seen.equal("store.gather.packs", "the objects", seen["packed"], objects)
    seen.equal("store.scatter.places", "the cache that was filled", seen["back"][: 2 * _EDGE_BYTES], sides.reshape(-1))
    left = 4 * _TOKENS * _HEADS
    seen.equal("store.move.refuses", "vectors that were left out", seen["refused"], [left, left])
    behind = np.full(_EDGE_BYTES, 0xEE, np.uint8)
    seen.equal("store.move.refuses", "what lies behind the cache", seen["back"][2 * _EDGE_BYTES :], behind)
