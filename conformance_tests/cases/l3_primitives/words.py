"""Loads and stores of words and of cells of four: values whole, in their place, and nothing beside them.

A pattern's upper half is the complement of its lower half, and no two patterns share a half: whatever is put together
from two of them is none.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l3_primitives.grids import Array, worlds
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Facts, Seen

#: Scopes by their names in the contract, and in the names of primitives.
SCOPES = {"device": "dev", "system": "sys"}

_GUARDS = 2


def reachable(axes: Mapping[str, Any], facts: Facts) -> bool:
    """Host memory is for the system's scope, on vendors that map it."""
    return axes["memory"] == "device" or (axes["scope"] == "system" and facts.capabilities["memory.mapped"])


def patterns(run: Run, count: int, bits: int) -> Array:
    """So many different patterns of that width."""
    half = bits // 2
    low = run.random.permutation(1 << 16)[:count].astype(np.uint64)
    if half == 32:
        low |= run.random.integers(0, 1 << 16, count, np.uint64) << np.uint64(16)
    mask = np.uint64((1 << half) - 1)
    return (low | (~low & mask) << np.uint64(half)).astype(f"u{bits // 8}")


def _crowd(run: Run) -> tuple[int, int, int]:
    """Blocks, threads of each, rounds: few where each step is chosen, more where chance must do it."""
    return (2, 6, 12) if run.world is not None else (4, 64, 48)


def _meetings(run: Run) -> tuple[tuple[int, int], ...]:
    """Ways in which both halves meet: threads that do the same side by side, and turns of which one is noted.

    Where each step is chosen, neighbours differ. Elsewhere lanes of a wave that differ may run one after the other, and
    a launch's blocks begin one after the other: so in a second way waves differ, and turn for long enough to meet. An
    odd number, so that notes do not all fall on one of two patterns.
    """
    return ((1, 1),) if run.world is not None else ((1, 1), (run.facts.wave_width, 61))


@case(
    "prim/word.move",
    level="L3",
    clauses=("prim.load.single_copy", "prim.store.single_copy"),
    axes={"bits": (32, 64), "scope": tuple(SCOPES), "order": ("relaxed", "ordered"), "memory": ("device", "mapped")},
    only=reachable,
    kernels=("probe_memory",),
    primitives=("load.*.u32", "load.*.u64", "store.*.u32", "store.*.u64"),
)
def word_move(run: Run) -> Observations:
    """Neighbouring words are copied at the same time, a thread each; the words around them stay as they were."""
    bits, memory = int(run.axes["bits"]), str(run.axes["memory"])
    count = 2 * run.facts.wave_width + 3
    values = run.random.integers(0, 1 << bits, count, f"u{bits // 8}")
    around = run.random.integers(0, 1 << bits, count + 2 * _GUARDS, values.dtype)
    source, target = run.array(values, memory), run.array(around, memory)
    inner = target[_GUARDS * values.itemsize : (count + _GUARDS) * values.itemsize]
    name = f"memory_move_{run.axes['order']}_{SCOPES[str(run.axes['scope'])]}_u{bits}"
    run.launch(run.kernel("probe_memory", name), 2, run.facts.wave_width + 2, source, inner, count)
    return {"values": values, "around": around, "after": run.read(target, values.dtype)}


@word_move.judge
def _(seen: Seen) -> None:
    values, after = seen["values"], seen["after"]
    inner = slice(_GUARDS, _GUARDS + len(values))
    seen.equal("prim.load.single_copy", "words that were loaded and stored again", after[inner], values)
    wanted = seen["around"].copy()
    wanted[inner] = values
    seen.equal("prim.store.single_copy", "the words stored, and those around them", after, wanted)


@case(
    "prim/word.contend",
    level="L3",
    clauses=("prim.load.single_copy", "prim.store.single_copy"),
    axes={"bits": (32, 64), "scope": tuple(SCOPES), "order": ("relaxed", "ordered"), "memory": ("device", "mapped")},
    only=reachable,
    kernels=("probe_memory",),
    primitives=("load.*.u32", "load.*.u64", "store.*.u32", "store.*.u64"),
)
def word_contend(run: Run) -> Observations:
    """Many store patterns to one word, each two in turn, while others read it."""
    bits, memory = int(run.axes["bits"]), str(run.axes["memory"])
    blocks, count, rounds = _crowd(run)
    made = patterns(run, 2 * blocks * count + 5, bits)
    around, stored = made[:5], made[5:]
    name = f"memory_contend_{run.axes['order']}_{SCOPES[str(run.axes['scope'])]}_u{bits}"
    seen, after, groups = [], [], []
    for _, meeting in itertools.product(worlds(run, each=2), _meetings(run)):
        # One word in the middle of five, so that a store of twice the width is seen on either side.
        cells = run.array(around, memory)
        notes = run.buffer(blocks * count * rounds * made.itemsize, "device")
        word = cells[2 * made.itemsize : 3 * made.itemsize]
        kernel = run.kernel("probe_memory", name)
        run.launch(kernel, blocks, count, word, run.array(stored, "device"), notes, rounds, *meeting)
        seen.append(run.read(notes, made.dtype, (blocks, count, rounds)))
        after.append(run.read(cells, made.dtype))
        groups.append(meeting[0])
    return {"around": around, "stored": stored, "seen": np.stack(seen), "after": np.stack(after), "groups": groups}


def _writes(blocks: int, count: int, group: int) -> Array:
    """Which threads of a contending launch write, by block and thread; the others read."""
    groups = np.arange(blocks * count).reshape(blocks, count) // group
    writes: Array = (groups + np.arange(blocks)[:, None]) % 2 == 0
    return writes


@word_contend.judge
def _(seen: Seen) -> None:
    found, around, after = seen["seen"], seen["around"], seen["after"]
    _, blocks, count = found.shape[:3]
    writes = [_writes(blocks, count, group) for group in seen["groups"]]
    if not any(len(np.unique(one[~who])) > 1 for one, who in zip(found, writes, strict=True)):
        seen.inconclusive("every reader read one and the same value: nothing contended")
    # Every thread's patterns: those of the readers are stored by nobody, and equal none of the others.
    patterns_of = [seen["stored"].reshape(-1, 2)[who.reshape(-1)].reshape(-1) for who in writes]
    strange = np.concatenate(
        [np.setdiff1d(one, [around[2], *own]) for one, own in zip(found, patterns_of, strict=True)]
    )
    shown = [hex(int(one)) for one in strange[:4]]
    what = "every value read is one that was stored, whole"
    seen.holds("prim.load.single_copy", what, not len(strange), shown, int(found.size))
    seen.holds("prim.store.single_copy", what, not len(strange), shown, int(found.size))
    beside = np.delete(after, 2, axis=1)
    wanted = np.broadcast_to(np.delete(around, 2), beside.shape)
    seen.equal("prim.store.single_copy", "the words beside the contended one", beside, wanted)
    last = np.array([one[2] in own for one, own in zip(after, patterns_of, strict=True)])
    found_last = [hex(int(one)) for one in after[:, 2]]
    seen.holds("prim.store.single_copy", "the word ends as one that was stored", last.all(), found_last, last)


@case(
    "prim/vector.move",
    level="L3",
    clauses=("prim.vector.words_atomic",),
    axes={"scope": tuple(SCOPES), "memory": ("device", "mapped")},
    only=reachable,
    kernels=("probe_memory",),
    primitives=("load.vector.*", "store.vector.*"),
)
def vector_move(run: Run) -> Observations:
    """Neighbouring cells are copied at the same time, turned by a word; the cells around them stay as they were."""
    memory = str(run.axes["memory"])
    count = run.facts.wave_width + 3
    values = run.random.integers(0, 1 << 32, (count, 4), np.uint32)
    around = run.random.integers(0, 1 << 32, (count + 2, 4), np.uint32)
    source, target = run.array(values, memory), run.array(around, memory)
    kernel = run.kernel("probe_memory", f"vector_move_{SCOPES[str(run.axes['scope'])]}")
    run.launch(kernel, 2, run.facts.wave_width, source, target[16 : 16 * (count + 1)], count)
    return {"values": values, "around": around, "after": run.read(target, np.uint32, (-1, 4))}


@vector_move.judge
def _(seen: Seen) -> None:
    wanted = seen["around"].copy()
    wanted[1:-1] = np.roll(seen["values"], -1, axis=1)
    seen.equal("prim.vector.words_atomic", "cells turned by a word, and those around them", seen["after"], wanted)


@case(
    "prim/vector.contend",
    level="L3",
    clauses=("prim.vector.words_atomic",),
    axes={"scope": tuple(SCOPES), "memory": ("device", "mapped")},
    only=reachable,
    kernels=("probe_memory",),
    primitives=("load.vector.*", "store.vector.*"),
)
def vector_contend(run: Run) -> Observations:
    """Many store cells of four patterns to one cell while others read it; each word has patterns of its own."""
    memory = str(run.axes["memory"])
    blocks, count, rounds = _crowd(run)
    made = patterns(run, (2 * blocks * count + 3) * 4, 32).reshape(-1, 4)
    around, stored = made[:3], made[3:]
    seen, after, groups = [], [], []
    for _, meeting in itertools.product(worlds(run, each=2), _meetings(run)):
        cells = run.array(around, memory)
        notes = run.buffer(blocks * count * rounds * 16, "device")
        kernel = run.kernel("probe_memory", f"vector_contend_{SCOPES[str(run.axes['scope'])]}")
        run.launch(kernel, blocks, count, cells[16:32], run.array(stored, "device"), notes, rounds, *meeting)
        seen.append(run.read(notes, np.uint32, (blocks, count, rounds, 4)))
        after.append(run.read(cells, np.uint32, (-1, 4)))
        groups.append(meeting[0])
    return {"around": around, "stored": stored, "seen": np.stack(seen), "after": np.stack(after), "groups": groups}


@vector_contend.judge
def _(seen: Seen) -> None:
    clause, found, around, after = "prim.vector.words_atomic", seen["seen"], seen["around"], seen["after"]
    _, blocks, count = found.shape[:3]
    writes = [_writes(blocks, count, group) for group in seen["groups"]]
    if not any(len(np.unique(one[~who][..., 0])) > 1 for one, who in zip(found, writes, strict=True)):
        seen.inconclusive("every reader read one and the same value: nothing contended")
    for place in range(4):
        strange = np.concatenate(
            [
                np.setdiff1d(
                    one[..., place],
                    [around[1, place], *seen["stored"].reshape(-1, 2, 4)[who.reshape(-1)][..., place].reshape(-1)],
                )
                for one, who in zip(found, writes, strict=True)
            ]
        )
        what = f"word {place} of every cell read was stored to that place, whole"
        seen.holds(clause, what, not len(strange), [hex(int(one)) for one in strange[:4]], found[..., place].size)
    beside = np.delete(after, 1, axis=1)
    seen.equal(clause, "the cells beside it", beside, np.broadcast_to(np.delete(around, 1, axis=0), beside.shape))
