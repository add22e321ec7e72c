"""Read-modify-writes: none is lost, each gives what was there before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tutti_hal.conformance_tests.case import Case, Observations, case
from tutti_hal.conformance_tests.cases.l3_primitives.grids import Array, worlds
from tutti_hal.conformance_tests.cases.l3_primitives.words import SCOPES, reachable
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_AXES = {"bits": (32, 64), "scope": ("device",), "memory": ("device",)}

#: Attempts of a compare-and-swap after which a thread gives up: far more than all the others can spoil.
_TRIES = 1 << 15


def _to_the_system(case: Case) -> Case:
    """The same case for the system's scope, in memory of the device and of the host, where a vendor has that scope."""
    return replace(
        case,
        name=f"{case.name}.system",
        axes={**_AXES, "scope": ("system",), "memory": ("device", "mapped")},
        only=reachable,
        needs=("atomic.system",),
        primitives=tuple(glob.replace(".device.", ".system.") for glob in case.primitives),
    )


def _dtype(run: Run) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f"u{int(run.axes['bits']) // 8}")


def _name(run: Run, operation: str) -> str:
    return f"atomic_{operation}_{SCOPES[str(run.axes['scope'])]}_u{run.axes['bits']}"


def _crowd(run: Run) -> tuple[int, int, int]:
    """Blocks, threads of each, rounds: few where each step is chosen, more where chance must do it."""
    return (2, run.facts.wave_width + 1, 2) if run.world is not None else (4, 128, 16)


@case(
    "prim/atomic.add",
    level="L3",
    clauses=("prim.atomic.indivisible", "prim.atomic.returns_old", "prim.atomic.wraps"),
    axes=_AXES,
    kernels=("probe_memory",),
    primitives=("atomic.add.device.*",),
)
def atomic_add(run: Run) -> Observations:
    """All threads add an odd number to one word, again and again; half of the sums are beyond the word's width."""
    dtype, (blocks, count, rounds) = _dtype(run), _crowd(run)
    bits, total = int(run.axes["bits"]), blocks * count * rounds
    step = int(run.random.integers(1 << bits - 2, 1 << bits - 1)) | 1 if bits == 64 else 0x01000001
    start = (1 << bits) - step * (total // 2) % (1 << bits)
    guard = run.random.integers(0, 1 << bits, 3, dtype)
    guard[1] = start % (1 << bits)
    olds, after = [], []
    for _ in worlds(run):
        cells = run.array(guard, str(run.axes["memory"]))
        notes = run.buffer(total * dtype.itemsize, "device")
        word = cells[dtype.itemsize : 2 * dtype.itemsize]
        kernel = run.kernel("probe_memory", _name(run, "add"))
        run.launch(kernel, blocks, count, word, dtype.type(step), notes, rounds)
        olds.append(run.read(notes, dtype))
        after.append(run.read(cells, dtype))
    return {"step": step, "before": guard, "olds": np.stack(olds), "after": np.stack(after)}


@atomic_add.judge
def _(seen: Seen) -> None:
    step, before, olds, after = seen["step"], seen["before"], seen["olds"], seen["after"]
    size, total, start = 1 << int(seen.axes["bits"]), olds.shape[1], int(before[1])
    end = (start + step * total) % size
    # The step is odd, so that each multiple of it, to the width of the word, tells how many additions came before.
    inverse = pow(step, -1, size)
    for one, cells in zip(olds, after, strict=True):
        turn = sorted((int(old) - start) * inverse % size for old in one)
        seen.equal("prim.atomic.indivisible", "the sum of all additions", int(cells[1]), end)
        seen.equal("prim.atomic.returns_old", "additions before each, sorted", turn, list(range(total)))
        seen.equal("prim.atomic.wraps", "the sum and the words beside it", cells.tolist(), [before[0], end, before[2]])


@case(
    "prim/atomic.exchange",
    level="L3",
    clauses=("prim.atomic.indivisible", "prim.atomic.returns_old"),
    axes=_AXES,
    kernels=("probe_memory",),
    primitives=("atomic.exchange.device.*",),
)
def atomic_exchange(run: Run) -> Observations:
    """All threads put tokens into one word; each token comes out once, but for the last."""
    dtype, (blocks, count, rounds) = _dtype(run), _crowd(run)
    total = blocks * count * rounds
    tokens = run.random.permutation(1 << 16)[: total + 1].astype(dtype)
    # Different in the lower half and in the upper: a token cut short is no token.
    tokens = tokens << dtype.type(8 * dtype.itemsize - 16) | tokens
    olds, after = [], []
    for _ in worlds(run):
        word, notes = run.array(tokens[:1], str(run.axes["memory"])), run.buffer(total * dtype.itemsize, "device")
        kernel = run.kernel("probe_memory", _name(run, "exchange"))
        run.launch(kernel, blocks, count, word, run.array(tokens[1:], "device"), notes, rounds)
        olds.append(run.read(notes, dtype))
        after.append(int(run.read(word, dtype)[0]))
    return {"tokens": tokens, "olds": np.stack(olds), "after": after}


@atomic_exchange.judge
def _(seen: Seen) -> None:
    tokens = np.sort(seen["tokens"])
    for olds, after in zip(seen["olds"], seen["after"], strict=True):
        out = np.sort(np.append(olds, np.array(after, olds.dtype)))
        seen.equal("prim.atomic.indivisible", "tokens that came out, or stayed last", out, tokens)
        fresh = len(np.unique(olds)) == len(olds)
        seen.holds("prim.atomic.returns_old", "no token comes out twice", fresh, len(np.unique(olds)), olds)


@case(
    "prim/atomic.or",
    level="L3",
    clauses=("prim.atomic.indivisible", "prim.atomic.returns_old"),
    axes=_AXES,
    kernels=("probe_memory",),
    primitives=("atomic.or.device.*",),
)
def atomic_or(run: Run) -> Observations:
    """Each bit of some words is set by a thread of its own: the words as they were make a chain; then once more."""
    dtype, bits = _dtype(run), int(run.axes["bits"])
    words = 4
    olds, after, again, still = [], [], [], []
    for _ in worlds(run, each=2):
        cells = run.buffer((words + 1) * dtype.itemsize, str(run.axes["memory"]))
        notes = run.buffer(words * bits * dtype.itemsize, "device")
        kernel = run.kernel("probe_memory", _name(run, "or"))
        run.launch(kernel, 4, words * bits // 4, cells, notes)
        olds.append(run.read(notes, dtype, (words, bits)))
        after.append(run.read(cells, dtype))
        # Bits that are set already stay as they are: an addition would carry.
        run.launch(kernel, 4, words * bits // 4, cells, notes)
        again.append(run.read(notes, dtype, (words, bits)))
        still.append(run.read(cells, dtype))
    arrays = {"olds": olds, "after": after, "again": again, "still": still}
    return {name: np.stack(found) for name, found in arrays.items()}


@atomic_or.judge
def _(seen: Seen) -> None:
    full = (1 << int(seen.axes["bits"])) - 1
    for olds, after in zip(seen["olds"], seen["after"], strict=True):
        ends = [int(one) for one in after]
        seen.equal("prim.atomic.indivisible", "all bits of the words, none beside", ends, [full] * len(olds) + [0])
        for word in olds:
            clause, what = "prim.atomic.returns_old", "each found the bits of those before it, and not its own"
            seen.holds(clause, what, _is_chain([int(one) for one in word]), [hex(int(one)) for one in word], word)
    seen.equal(
        "prim.atomic.returns_old", "words whose bits were all set", seen["again"], np.full_like(seen["again"], full)
    )
    seen.equal("prim.atomic.indivisible", "the words after that", seen["still"], seen["after"])


def _is_chain(olds: list[int]) -> bool:
    """Whether values by owner of a bit are 0, then one bit more each, the bit being that of the one before."""
    value = 0
    for owner in sorted(range(len(olds)), key=lambda i: olds[i].bit_count()):
        if olds[owner] != value or value >> owner & 1:
            return False
        value |= 1 << owner
    return True


@case(
    "prim/atomic.cas",
    level="L3",
    clauses=("prim.atomic.indivisible", "prim.atomic.returns_old"),
    axes=_AXES,
    kernels=("probe_memory",),
    primitives=("atomic.cas.device.*",),
)
def atomic_cas(run: Run) -> Observations:
    """All threads count one word up by compare-and-swap, past its width: each number is replaced exactly once."""
    dtype, (blocks, count, rounds) = _dtype(run), _crowd(run)
    total = blocks * count * rounds
    start = (1 << int(run.axes["bits"])) - total // 2
    olds, after = [], []
    for _ in worlds(run):
        word = run.array(np.array([start], dtype), str(run.axes["memory"]))
        # A number that no thread can replace stands where a thread gave up.
        notes = run.array(np.full(total, start - 1, dtype), "device")
        run.launch(run.kernel("probe_memory", _name(run, "cas")), blocks, count, word, notes, rounds, _TRIES)
        olds.append(run.read(notes, dtype))
        after.append(int(run.read(word, dtype)[0]))
    return {"start": start, "olds": np.stack(olds), "after": after}


@atomic_cas.judge
def _(seen: Seen) -> None:
    start, size = seen["start"], 1 << int(seen.axes["bits"])
    for olds, after in zip(seen["olds"], seen["after"], strict=True):
        seen.equal("prim.atomic.indivisible", "the count", after, (start + len(olds)) % size)
        turn: Array = np.sort(olds - olds.dtype.type(start))
        what = "the numbers replaced, from the first, sorted"
        seen.equal("prim.atomic.returns_old", what, turn, np.arange(len(olds), dtype=olds.dtype))


@case(
    "prim/atomic.cas.exact",
    level="L3",
    clauses=("prim.atomic.cas.exact", "prim.atomic.returns_old"),
    axes=_AXES,
    kernels=("probe_memory",),
    primitives=("atomic.cas.device.*",),
)
def atomic_cas_exact(run: Run) -> Observations:
    """One attempt on each of many words, half of which hold what is expected, the others all but one bit of it."""
    dtype, bits = _dtype(run), int(run.axes["bits"])
    count = 4 * bits
    expected, desired = (run.random.integers(0, 1 << bits, count, dtype) for _ in range(2))
    flip = np.where(np.arange(count) % 2 == 0, 0, dtype.type(1) << (np.arange(count) // 2 % bits).astype(dtype))
    before = expected ^ flip.astype(dtype)
    words, olds = run.array(before, str(run.axes["memory"])), run.buffer(before.nbytes, "device")
    given = run.array(expected, "device"), run.array(desired, "device")
    run.launch(run.kernel("probe_memory", _name(run, "cas_once")), 2, count // 2, words, *given, olds, count)
    found = {"olds": run.read(olds, dtype), "after": run.read(words, dtype)}
    return {"before": before, "expected": expected, "desired": desired, **found}


@atomic_cas_exact.judge
def _(seen: Seen) -> None:
    before = seen["before"]
    wanted = np.where(before == seen["expected"], seen["desired"], before)
    seen.equal("prim.atomic.cas.exact", "stored where the word was as expected, else left", seen["after"], wanted)
    seen.equal("prim.atomic.returns_old", "the word before, whether stored or not", seen["olds"], before)


add_to_the_system = _to_the_system(atomic_add)
exchange_with_the_system = _to_the_system(atomic_exchange)
or_to_the_system = _to_the_system(atomic_or)
cas_with_the_system = _to_the_system(atomic_cas)
cas_exact_with_the_system = _to_the_system(atomic_cas_exact)
