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
