"""What a launch runs, with which arguments, and what of it others see."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import OPENED, PATIENCE_NS, Gate, launch_on, said
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Name of the axis value -> grid and block, x y z.
_SHAPES = {
    "one": ((1, 1, 1), (1, 1, 1)),
    "line": ((7, 1, 1), (64, 1, 1)),
    "plane": ((3, 5, 1), (9, 7, 1)),
    "cube": ((2, 3, 4), (5, 3, 2)),
    "odd": ((3, 1, 2), (33, 1, 1)),
    "tall": ((1, 2, 1), (1, 64, 4)),
    "full": ((2, 1, 1), (1024, 1, 1)),
}
_GUARD = 64


@case(
    "host/launch.runs_grid",
    level="L2",
    clauses=("host.launch.runs_grid",),
    kernels=("probe_launch",),
    axes={"shape": tuple(_SHAPES)},
    calls=("LaunchKernel",),
)
def runs_grid(run: Run) -> Observations:
    """Every thread of every block counts itself once in its own cell, and nobody counts beside the grid."""
    grid, block = _SHAPES[str(run.axes["shape"])]
    threads = int(np.prod(grid) * np.prod(block))
    cells, rows, total = (run.buffer(4 * n, "device") for n in (threads + _GUARD, 6 * (threads + _GUARD), 1))
    run.launch(run.kernel("probe_launch", "launch_cells"), grid, block, cells, rows, total)
    return {
        "cells": run.read(cells, np.uint32),
        "rows": run.read(rows, np.uint32, (-1, 6)),
        "total": int(run.read(total, np.uint32)[0]),
    }


@runs_grid.judge
def _(seen: Seen) -> None:
    clause = "host.launch.runs_grid"
    grid, block = _SHAPES[str(seen.axes["shape"])]
    # x is the fastest, blocks outside, threads inside.
    places = [
        (bx, by, bz, tx, ty, tz)
        for bz in range(grid[2])
        for by in range(grid[1])
        for bx in range(grid[0])
        for tz in range(block[2])
        for ty in range(block[1])
        for tx in range(block[0])
    ]
    seen.equal(clause, "threads that ran", seen["total"], len(places))
    once = np.array([1] * len(places) + [0] * _GUARD, np.uint32)
    seen.equal(clause, "how often each thread ran", seen["cells"], once)
    rows = np.array(places + [(0,) * 6] * _GUARD, np.uint32)
    seen.equal(clause, "block and thread indices of each", seen["rows"], rows)


#: Parameters of launch_arguments in order: name, bytes, whether it is one of the pointers.
_PARAMETERS = (
    *(("a", 1), ("b", 8), ("c", 2), ("d", 4), ("e", 1), ("f", 4), ("g", 8), ("h", 1), ("i", 8), ("j", 2)),
    *(("words", 0), ("k", 1), ("single", 0), ("twice", 0), ("l", 4)),
)
#: Where each integer is stored.
_STORED = ("a", "b", "c", "d", "e", "g", "h", "j", "k", "l")
_TYPES = {"a": "u1", "b": "u8", "c": "u2", "d": "i4", "e": "u1", "g": "i8", "h": "u1", "j": "i2", "k": "i1", "l": "u4"}


def _values(random: np.random.Generator, pattern: str) -> dict[str, int]:
    """The bits of each parameter that is no pointer."""
    fill = {"zeros": 0x00, "ones": 0xFF, "signs": 0x80}
    found = {}
    for name, nbytes in _PARAMETERS:
        if nbytes:
            raw = random.bytes(nbytes) if pattern == "random" else bytes([fill[pattern]] * nbytes)
            found[name] = int.from_bytes(raw, "little")
    return found


@case(
    "host/launch.arguments",
    level="L2",
    clauses=("host.launch.arguments",),
    kernels=("probe_launch",),
    axes={"pattern": ("zeros", "ones", "signs", "random")},
    calls=("LaunchKernel",),
)
def arguments(run: Run) -> Observations:
    """Parameters of one to eight bytes, mixed, reach the kernel with every bit, NaNs and the highest bit among them."""
    words, single, twice = run.buffer(80, fill=0xA5), run.buffer(4, fill=0xA5), run.buffer(8, fill=0xA5)
    pointers = {"words": words, "single": single, "twice": twice}
    sent, found = [], []
    for _ in range(16 if run.axes["pattern"] == "random" else 1):
        bits = _values(run.random, str(run.axes["pattern"]))
        args = []
        for name, nbytes in _PARAMETERS:
            raw = bits.get(name, 0).to_bytes(nbytes, "little")
            args.append(np.frombuffer(raw, _TYPES.get(name, f"f{nbytes}"))[0] if nbytes else pointers[name])
        run.launch(run.kernel("probe_launch", "launch_arguments"), 1, 32, *args)
        sent.append([bits[name] for name in (*_STORED, "f", "i")])
        stored = [int(word) for word in run.read(words, np.uint64)]
        found.append([*stored, int(run.read(single, np.uint32)[0]), int(run.read(twice, np.uint64)[0])])
    return {"sent": sent, "found": found}


@arguments.judge
def _(seen: Seen) -> None:
    # The kernel stores a signed value as an unsigned one of its own size, so the bits come back as they were sent.
    for sent, found in zip(seen["sent"], seen["found"], strict=True):
        seen.equal("host.launch.arguments", "the bits of a, b, c, d, e, g, h, j, k, l, f, i", found, sent)


@case(
    "host/launch.asynchronous",
    level="L2",
    clauses=("host.launch.asynchronous",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("LaunchKernel",),
)
def asynchronous(run: Run) -> Observations:
    """A launch returns although its kernel waits for a word that the host stores afterwards."""
    gate = Gate(run, run.stream)
    returned = gate.answer
    gate.open()
    run.stream.synchronize()
    return {"returned": returned, "ended": gate.answer}


@asynchronous.judge
def _(seen: Seen) -> None:
    clause = "host.launch.asynchronous"
    seen.equal(clause, "the kernel's answer when the launch had returned", seen["returned"], 0)
    seen.equal(clause, "its answer after the host's store", seen["ended"], OPENED)


_COUNT, _ROUNDS = 1031, 5


@case(
    "host/launch.publishes",
    level="L2",
    clauses=("host.launch.publishes",),
    kernels=("probe_launch", "probe_host"),
    axes={"kind": ("device", "mapped")},
    only=lambda axes, facts: axes["kind"] == "device" or facts.capabilities["memory.mapped"],
    calls=("LaunchKernel",),
)
def publishes(run: Run) -> Observations:
    """Each kernel of a chain reads what other blocks of the one before stored; the host reads the end of it."""
    rotate, kind = run.kernel("probe_launch", "launch_rotate"), str(run.axes["kind"])
    start = run.random.integers(0, 1 << 31, _COUNT, np.uint32)
    a, b = run.array(start, kind), run.buffer(4 * _COUNT, kind)
    for round_ in range(_ROUNDS):
        run.launch(rotate, 5, 128, a, b, _COUNT, round_ + 1, wait=False)
        a, b = b, a
    found = {"start": start, "copied": run.read(a, np.uint32)}
    if kind == "mapped":
        run.launch(run.kernel("probe_host", "host_late"), 2, 64, b, _COUNT, 1717, 2_000)
        found["seen_by_host"] = b.numpy(np.uint32).copy()
    return found


@publishes.judge
def _(seen: Seen) -> None:
    clause = "host.launch.publishes"
    wanted = np.roll(seen["start"], -_ROUNDS) + np.uint32(sum(range(1, _ROUNDS + 1)))
    seen.equal(clause, "the words after all kernels of the chain", seen["copied"], wanted)
    if seen.axes["kind"] == "mapped":
        stored = np.full(_COUNT, 1717, np.uint32)
        seen.equal(clause, "what the host reads after the wait", seen["seen_by_host"], stored)


@case(
    "host/launch.cooperative",
    level="L2",
    clauses=("host.launch.cooperative",),
    kernels=("probe_launch",),
    needs=("launch.cooperative", "launch.occupancy"),
    axes={"threads": (64, 256, 1024)},
    calls=("LaunchCooperativeKernel", "LaunchCooperativeKernel:CooperativeLaunchTooLarge"),
)
def cooperative(run: Run) -> Observations:
    """All blocks of the largest cooperative grid meet; a grid that is larger by one is refused and runs nothing."""
    threads = int(run.axes["threads"])
    kernel = run.kernel("probe_launch", "launch_gather")
    fit = run.device.attribute("MultiProcessorCount") * kernel.resident_blocks(threads)
    count, met = run.buffer(4, "device"), run.buffer(4 * (fit + 1), "device")
    args = (count, met, PATIENCE_NS)
    larger = refusal(lambda: launch_on(run.stream, kernel, fit + 1, threads, *args, cooperative=True))
    ran = int(run.read(count, np.uint32)[0])
    run.launch(kernel, fit, threads, *args, cooperative=True)
    return {"fit": fit, "larger": larger, "ran": ran, "met": run.read(met, np.uint32)}


@cooperative.judge
def _(seen: Seen) -> None:
    clause = "host.launch.cooperative"
    seen.refused(clause, "one block more", seen["larger"], "LaunchRefused", "CooperativeLaunchTooLarge")
    seen.equal(clause, "blocks that ran of the refused grid", seen["ran"], 0)
    seen.holds(clause, "at least one block fits", seen["fit"] >= 1, seen["fit"])
    met = np.array([1] * seen["fit"] + [0], np.uint32)
    seen.equal(clause, "the blocks that met all others", seen["met"], met)


@case(
    "host/occupancy.blocks",
    level="L2",
    clauses=("host.occupancy.blocks",),
    kernels=("probe_launch",),
    needs=("launch.occupancy",),
    axes={"threads": (32, 96, 512)},
    calls=(
        "OccupancyMaxActiveBlocksPerMultiprocessor",
        "OccupancyMaxActiveBlocksPerMultiprocessor:InvalidValue",
        "OccupancyMaxActiveBlocksPerMultiprocessor:InvalidResourceHandle",
    ),
)
def occupancy(run: Run) -> Observations:
    """As many blocks as are told for all multiprocessors really are there together; they meet."""
    threads, device = int(run.axes["threads"]), run.device
    kernel = run.kernel("probe_launch", "launch_gather")
    each = kernel.resident_blocks(threads)
    blocks = device.attribute("MultiProcessorCount") * each
    count, met = run.buffer(4, "device"), run.buffer(4 * blocks, "device")
    run.launch(kernel, blocks, threads, count, met, PATIENCE_NS)
    name, number = "OccupancyMaxActiveBlocksPerMultiprocessor", device.runtime.ffi.new("int *")
    with device.current():
        none = said(run, name, number, kernel.handle, 0, 0)
        unknown = said(run, name, number, device.runtime.ffi.NULL, threads, 0)
    return {
        "each": each,
        "met": run.read(met, np.uint32),
        "threads_each": device.attribute("MaxThreadsPerMultiProcessor"),
        "none": none,
        "unknown": unknown,
    }


@occupancy.judge
def _(seen: Seen) -> None:
    clause, threads = "host.occupancy.blocks", int(seen.axes["threads"])
    each, most = seen["each"], seen["threads_each"]
    seen.holds(
        clause, "some block is resident, and no more threads than there is room for", 1 <= each <= most // threads, each
    )
    seen.equal(clause, "the blocks that met all others", seen["met"], np.ones(len(seen["met"]), np.uint32))
    seen.equal(clause, "blocks of no threads", seen["none"], "InvalidValue")
    seen.equal(clause, "no kernel", seen["unknown"], "InvalidResourceHandle")
