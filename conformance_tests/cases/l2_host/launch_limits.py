"""Launches that are refused, and launches that are ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import launch_on, said
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Facts, Seen

_LIMIT_NS = 400_000

#: What the contract lets a launch be refused with for its geometry.
_GEOMETRY = ("InvalidConfiguration", "InvalidValue", "LaunchOutOfResources", "CooperativeLaunchTooLarge")


def _geometries(run: Run) -> dict[str, tuple[Any, Any, int]]:
    """Name -> grid, block, dynamic shared bytes that no device runs, by the device's own attributes."""
    most = {
        name: run.device.attribute(name)
        for name in ("MaxThreadsPerBlock", "MaxBlockDimZ", "MaxGridDimY", "MaxGridDimZ", "MaxSharedMemoryPerBlock")
    }
    threads = most["MaxThreadsPerBlock"]
    return {
        "grid_x_zero": ((0, 1, 1), 1, 0),
        "grid_y_zero": ((1, 0, 1), 1, 0),
        "grid_z_zero": ((1, 1, 0), 1, 0),
        "block_x_zero": (1, (0, 1, 1), 0),
        "block_y_zero": (1, (1, 0, 1), 0),
        "block_z_zero": (1, (1, 1, 0), 0),
        "block_too_long": (1, threads + 1, 0),
        "block_too_deep": (1, (1, 1, most["MaxBlockDimZ"] + 1), 0),
        "block_product_too_large": (1, (threads // 2, 2, 2), 0),
        "grid_y_too_large": ((1, most["MaxGridDimY"] + 1, 1), 1, 0),
        "grid_z_too_large": ((1, 1, most["MaxGridDimZ"] + 1), 1, 0),
        "shared_too_large": (1, 1, most["MaxSharedMemoryPerBlock"] + 1),
        "shared_huge": (1, 1, 0xFFFFFFFF),
    }


_WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cooperative": {"cooperative": True},
    "bounded": {"limit_ns": 1_000_000_000},
}


def _way_is_there(axes: Any, facts: Facts) -> bool:
    return axes["way"] == "plain" or facts.capabilities[f"launch.{axes['way']}"]


@case(
    "host/launch.invalid_refused",
    level="L2",
    clauses=("host.launch.invalid_refused",),
    kernels=("probe_launch", "probe_host"),
    axes={"way": tuple(_WAYS)},
    only=_way_is_there,
    calls=(
        *("LaunchKernel:InvalidConfiguration", "LaunchKernel:InvalidValue", "LaunchKernel:LaunchOutOfResources"),
        *("LaunchCooperativeKernel:InvalidConfiguration", "LaunchCooperativeKernel:InvalidValue"),
        "LaunchCooperativeKernel:LaunchOutOfResources",
        *("LaunchKernelLimit:InvalidConfiguration", "LaunchKernelLimit:InvalidValue"),
        "LaunchKernelLimit:LaunchOutOfResources",
        *("FuncGetAttribute", "FuncGetAttribute:InvalidValue", "FuncGetAttribute:InvalidResourceHandle"),
    ),
)
def invalid_refused(run: Run) -> Observations:
    """Zero dimensions, too many threads, too much shared memory and a block beyond the kernel's bound run no thread."""
    word, row, kernel = run.buffer(4, "device"), run.buffer(16, "device"), run.kernel("probe_host", "host_where")
    small, options = run.kernel("probe_launch", "launch_small"), _WAYS[str(run.axes["way"])]
    found = {}
    for name, (grid, block, shared) in _geometries(run).items():
        found[name] = refusal(
            lambda g=grid, b=block, s=shared: launch_on(  # type: ignore[misc]
                run.stream, kernel, g, b, row, shared_bytes=s, **options
            )
        )
    bound = small.max_block_threads
    found["beyond_bound"] = refusal(lambda: launch_on(run.stream, small, 1, 65, word, **options))
    ran = [int(run.read(word, np.uint32)[0]), *(int(one) for one in run.read(row, np.uint32))]
    run.launch(small, 1, 64, word, **options)
    number, runtime = run.device.runtime.ffi.new("int *"), run.device.runtime
    attribute = runtime.constant("FuncAttribute", "MaxThreadsPerBlock")
    return {
        "found": found,
        "ran": ran,
        "bound": bound,
        "after": int(run.read(word, np.uint32)[0]),
        "no_kernel": said(run, "FuncGetAttribute", number, attribute, runtime.ffi.NULL),
        "no_place": said(run, "FuncGetAttribute", runtime.ffi.NULL, attribute, small.handle),
    }


@invalid_refused.judge
def _(seen: Seen) -> None:
    clause = "host.launch.invalid_refused"
    for name, found in seen["found"].items():
        typed = found.get("error") in ("LaunchRefused", "InvalidArgument") and found.get("canonical") in _GEOMETRY
        seen.holds(clause, f"the launch is refused for its geometry: {name}", found["refused"] and typed, found)
    seen.equal(clause, "what refused launches stored", seen["ran"], [0] * 5)
    seen.equal(clause, "the bound that the kernel was compiled with", seen["bound"], 64)
    seen.equal(clause, "threads of the launch at the bound", seen["after"], 64)
    seen.equal(clause, "the bound of no kernel", seen["no_kernel"], "InvalidResourceHandle")
    seen.equal(clause, "the bound, to no place", seen["no_place"], "InvalidValue")


@case(
    "host/launch.handles_refused",
    level="L2",
    clauses=("host.launch.invalid_refused",),
    kernels=("probe_launch",),
    axes={"way": tuple(_WAYS)},
    only=_way_is_there,
    calls=(
        "LaunchKernel:InvalidResourceHandle",
        "LaunchCooperativeKernel:InvalidResourceHandle",
        "LaunchKernelLimit:InvalidResourceHandle",
    ),
)
def handles_refused(run: Run) -> Observations:
    """A launch of no kernel is refused, and so is one with an argument too many, too few or too large; none runs."""
    device, word = run.device, run.buffer(4, "device")
    small, options = run.kernel("probe_launch", "launch_small"), _WAYS[str(run.axes["way"])]
    null = device.runtime.ffi.NULL
    name, tail = {
        "plain": ("LaunchKernel", [null]),
        "cooperative": ("LaunchCooperativeKernel", []),
        "bounded": ("LaunchKernelLimit", [1_000_000_000]),
    }[str(run.axes["way"])]
    with device.current():
        no_kernel = said(run, name, null, 1, 1, 1, 1, 1, 1, 0, run.stream.handle, null, *tail)
    sets: dict[str, tuple[Any, ...]] = {"none": (), "two": (word, word), "narrow": (np.uint16(1),)}
    arguments = {
        what: refusal(lambda args=args: launch_on(run.stream, small, 1, 1, *args, **options))  # type: ignore[misc]
        for what, args in sets.items()
    }
    return {"no_kernel": no_kernel, "arguments": arguments, "ran": int(run.read(word, np.uint32)[0])}


@handles_refused.judge
def _(seen: Seen) -> None:
    clause = "host.launch.invalid_refused"
    seen.equal(clause, "a launch of no kernel", seen["no_kernel"], "InvalidResourceHandle")
    for what, found in seen["arguments"].items():
        seen.refused(clause, f"a launch with wrong arguments: {what}", found, "InvalidArgument")
    seen.equal(clause, "threads that ran", seen["ran"], 0)


@case(
    "host/launch.bounded",
    level="L2",
    clauses=("host.launch.bounded",),
    kernels=("probe_host",),
    needs=("launch.bounded",),
    axes={"threads": (1, 40)},
    calls=(
        *("LaunchKernelLimit", "StreamSynchronize:LaunchTimeout", "DeviceGetLaunchReport"),
        "DeviceGetLaunchReport:InvalidDevice",
    ),
)
def bounded(run: Run) -> Observations:
    """A launch within its limit ends as ever; one that outruns it is reported as timed out, with its stuck lanes."""
    device, words, threads = run.device, run.buffer(12, "device"), int(run.axes["threads"])
    late = run.kernel("probe_host", "host_late")
    parts = (words[0:4], 1, 3)
    run.launch(late, 1, threads, *parts, 100_000, limit_ns=2_000_000_000)
    within = int(run.read(words, np.uint32)[0])
    launch_on(run.stream, late, 1, threads, *parts, 20_000_000_000, limit_ns=_LIMIT_NS)
    try:
        found = refusal(run.stream.synchronize)
        report = device.launch_report()
        again = refusal(run.stream.synchronize)
        room = device.runtime.ffi.new("LaunchReport *")
        nobody = said(run, "DeviceGetLaunchReport", 1 << 20, room)
    finally:
        device.reset()
    with device.allocate(4) as fresh, device.create_stream() as stream:
        stream.fill(fresh, 1)
        stream.synchronize()
    return {
        "within": within,
        "found": found,
        "again": again,
        "nobody": nobody,
        "outcome": report.outcome if report else "there is no report",
        "stuck": report.stuck_lanes if report else 0,
        "elapsed_ns": report.elapsed_ns if report else 0,
        "message": report.message if report else "",
    }


@bounded.judge
def _(seen: Seen) -> None:
    clause, threads = "host.launch.bounded", int(seen.axes["threads"])
    seen.equal(clause, "the word of a launch within its limit", seen["within"], 3)
    seen.refused(clause, "the wait for a launch beyond its limit", seen["found"], "LaunchTimeout", "LaunchTimeout")
    seen.refused(clause, "another wait before the reset", seen["again"], "LaunchTimeout", "LaunchTimeout")
    seen.equal(clause, "the report of a device that is not there", seen["nobody"], "InvalidDevice")
    seen.equal(clause, "the outcome in the report", seen["outcome"], "limit")
    held = _LIMIT_NS <= seen["elapsed_ns"] < 20_000_000_000
    seen.holds(clause, "it ended after its limit and before its own end", held, seen["elapsed_ns"])
    seen.holds(clause, "no more lanes are stuck than ran", 0 <= seen["stuck"] <= threads, seen["stuck"])
    if seen["stuck"]:
        seen.equal(clause, "the stuck lanes", seen["stuck"], threads)
        seen.holds(clause, "the report names the kernel", "host_late" in seen["message"], seen["message"])
