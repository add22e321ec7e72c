"""A share of the device's multiprocessors: kernels on its streams run on no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import launch_on, said
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from tutti_hal.shim import Stream

#: Room for a resource, whose layout is the vendor's own.
_RESOURCE_BYTES = 4096

#: Multiprocessors asked for: few, so that something is left of every device.
_LEAST = 8

#: Blocks that cannot all be there wait so long for each other, and then say so.
_PATIENCE_NS = 200_000_000


@contextmanager
def first_share(run: Run) -> Iterator[Stream]:
    """A stream on a share of at least :data:`_LEAST` multiprocessors, for as long as the block lasts."""
    from tutti_hal.shim import Stream, StreamOptions

    device, ffi = run.device, run.device.runtime.ffi
    whole, share, rest = (ffi.new("char[]", _RESOURCE_BYTES) for _ in range(3))
    groups, description, context = ffi.new("unsigned int *", 1), ffi.new("void **"), ffi.new("void **")
    handle = ffi.new("Stream *")
    with device.current():
        kind = device.runtime.constant("DevResourceType", "Sm")
        device.call("DeviceGetDevResource", device.vendor_ordinal, whole, kind)
        device.call("DevSmResourceSplitByCount", share, groups, whole, rest, 0, _LEAST)
        device.call("DevResourceGenerateDesc", description, share, 1)
        device.call("GreenCtxCreate", context, description[0], device.vendor_ordinal, 1)
        try:
            nonblocking = device.runtime.constant("StreamFlags", "NonBlocking")
            device.call("GreenCtxStreamCreate", handle, context[0], nonblocking, 0)
            with Stream(device, handle[0], StreamOptions()) as stream:
                yield stream
                stream.synchronize()
        finally:
            device.call("GreenCtxDestroy", context[0])


def _gathered(run: Run, stream: Stream, blocks: int, threads: int) -> int:
    """How many of the blocks saw all others; all of them where all are resident together."""
    count, met = run.buffer(4, "device"), run.buffer(4 * blocks, "device")
    kernel = run.kernel("probe_launch", "launch_gather")
    launch_on(stream, kernel, blocks, threads, count, met, _PATIENCE_NS)
    stream.synchronize()
    return int(run.read(met, np.uint32).sum())


@case(
    "host/partition.streams",
    level="L2",
    clauses=("host.partition.streams",),
    kernels=("probe_launch",),
    needs=("device.partition", "launch.occupancy"),
    budget_s=20.0,
    calls=(
        *("DeviceGetDevResource", "DeviceGetDevResource:InvalidDevice", "DevSmResourceSplitByCount"),
        *("DevSmResourceSplitByCount:InvalidValue", "DevResourceGenerateDesc", "DevResourceGenerateDesc:InvalidValue"),
        *("GreenCtxCreate", "GreenCtxCreate:InvalidValue", "GreenCtxStreamCreate", "GreenCtxStreamCreate:InvalidValue"),
        *("GreenCtxDestroy", "GreenCtxDestroy:InvalidValue"),
    ),
)
def streams(run: Run) -> Observations:
    """A grid that fills the share meets on its stream; one that fills the device does not, and meets on the whole."""
    device, ffi, threads = run.device, run.device.runtime.ffi, 1024
    each = run.kernel("probe_launch", "launch_gather").resident_blocks(threads)
    processors = device.attribute("MultiProcessorCount")
    kind, null = device.runtime.constant("DevResourceType", "Sm"), ffi.NULL
    room = ffi.new("char[]", _RESOURCE_BYTES)
    with device.current():
        refused = {
            "resource": said(run, "DeviceGetDevResource", 1 << 20, room, kind),
            "split": said(run, "DevSmResourceSplitByCount", room, null, room, null, 0, _LEAST),
            "description": said(run, "DevResourceGenerateDesc", null, room, 1),
            "context": said(run, "GreenCtxCreate", null, null, device.vendor_ordinal, 1),
            "stream": said(run, "GreenCtxStreamCreate", ffi.new("Stream *"), null, 1, 0),
            "end": said(run, "GreenCtxDestroy", null),
        }
    with first_share(run) as stream:
        fits = _gathered(run, stream, _LEAST * each, threads)
        over = _gathered(run, stream, processors * each, threads)
    return {
        "refused": refused,
        "fits": [fits, _LEAST * each],
        "over": [over, processors * each],
        "whole": _gathered(run, run.stream, processors * each, threads),
    }


@streams.judge
def _(seen: Seen) -> None:
    clause = "host.partition.streams"
    seen.equal(clause, "blocks that met in a share that holds them", *seen["fits"])
    over, blocks = seen["over"]
    seen.holds(clause, "a share does not hold the whole device's blocks together", over < blocks, seen["over"])
    seen.equal(clause, "blocks that met on the whole device", seen["whole"], blocks)
    for name, wanted in (
        ("resource", "InvalidDevice"),
        ("split", "InvalidValue"),
        ("description", "InvalidValue"),
        ("context", "InvalidValue"),
        ("stream", "InvalidValue"),
        ("end", "InvalidValue"),
    ):
        found = seen["refused"][name]
        # A share that is missing may be told as what it stands for.
        held = found == wanted or (name in ("stream", "end") and found == "DeviceUninitialized")
        seen.holds(clause, f"a call with a part missing: {name}: {wanted}", held, found)
