"""What devices say of themselves, held against the record, against launches, and against the system."""

from __future__ import annotations

import re
from pathlib import Path

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.raw import out
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Attribute -> the capability that cannot be true where the attribute is 0.
_ABILITIES = {
    "CanMapHostMemory": "memory.mapped",
    "ManagedMemory": "memory.managed",
    "CooperativeLaunch": "launch.cooperative",
    "HostRegisterSupported": "memory.register",
    "MemoryPoolsSupported": "memory.pools",
    "StreamPrioritiesSupported": "stream.priority",
    "DmaBufSupported": "memory.export_dmabuf",
}

_YES_OR_NO = ("Integrated", "UnifiedAddressing", "HostNativeAtomicSupported", "ConcurrentManagedAccess")


@case(
    "host/device.attributes",
    level="L2",
    clauses=("host.device.attributes",),
    kernels=("probe_host",),
    calls=("DeviceGetAttribute", "GetDeviceProperties"),
)
def attributes(run: Run) -> Observations:
    """What the device says of itself is what the record says and what launches meet."""
    import numpy as np

    from tutti_hal.shim import LaunchConfig

    device = run.device
    known = {name: device.attribute(name) for name in run.profile.record.attributes.values}
    threads = known["MaxThreadsPerBlock"]
    row = run.buffer(16)
    where = run.kernel("probe_host", "host_where")
    run.launch(where, 2, threads, row)
    seen = run.read(row, np.uint32)
    sizes = {"x": known["MaxBlockDimX"], "y": known["MaxBlockDimY"], "z": known["MaxBlockDimZ"]}
    blocks = {}
    for axis, most in sizes.items():
        place = "xyz".index(axis)
        shape = [1, 1, 1]
        shape[place] = most
        fits = refusal(lambda shape=shape: run.launch(where, 1, tuple(shape), row))  # type: ignore[misc]
        shape[place] = most + 1
        blocks[axis] = [fits, refusal(lambda shape=shape: run.launch(where, 1, tuple(shape), row))]  # type: ignore[misc]
    grids = {}
    for axis in "xyz":
        shape = [1, 1, 1]
        shape["xyz".index(axis)] = known[f"MaxGridDim{axis.upper()}"] + 1
        config = LaunchConfig(tuple(shape), 1)
        grids[axis] = refusal(lambda config=config: run.stream.launch(config, where, row))  # type: ignore[misc]
    run.stream.synchronize()
    return {
        **{"known": known, "seen": seen, "blocks": blocks, "grids": grids, "name": device.name},
    }


@attributes.judge
def _(seen: Seen) -> None:
    clause, known, facts = "host.device.attributes", seen["known"], seen.facts
    width, threads, launched, waves = (int(v) for v in seen["seen"])
    seen.equal(clause, "wave width: told, and as a kernel has it", [known["WarpSize"], width], [facts.wave_width] * 2)
    seen.equal(clause, "threads of a block: told", known["MaxThreadsPerBlock"], facts.limits["block_threads"])
    seen.equal(clause, "threads of the largest block, as a kernel has them", threads, known["MaxThreadsPerBlock"])
    seen.equal(clause, "threads that ran in two of them", launched, 2 * known["MaxThreadsPerBlock"])
    seen.equal(clause, "waves that ran in two of them", waves * facts.wave_width, launched)
    shared = facts.limits["shared_bytes"]
    seen.equal(clause, "bytes of shared memory of a block", known["MaxSharedMemoryPerBlock"], shared)
    refused = ("LaunchRefused", "InvalidConfiguration", "InvalidValue")
    for axis, (fits, beyond) in seen["blocks"].items():
        seen.equal(clause, f"a block as large in {axis} as it is told", fits, {"refused": False})
        seen.refused(clause, f"a block larger in {axis} than it is told", beyond, *refused)
    for axis, beyond in seen["grids"].items():
        seen.refused(clause, f"a grid larger in {axis} than it is told", beyond, *refused)
    resident = known["MaxThreadsPerMultiProcessor"]
    seen.holds(clause, "a multiprocessor holds the largest block", resident >= known["MaxThreadsPerBlock"], resident)
    seen.holds(clause, "there is a multiprocessor", known["MultiProcessorCount"] >= 1, known["MultiProcessorCount"])
    for name, capability in _ABILITIES.items():
        if facts.capabilities[capability] and name in known:
            seen.equal(clause, f"{name}, for {capability} is claimed", known[name], 1)
    for name in sorted(known.keys() & {*_ABILITIES, *_YES_OR_NO}):
        seen.holds(clause, f"{name} is yes or no", known[name] in (0, 1), known[name])
    seen.holds(clause, "the device has a name", len(seen["name"]) >= 3, seen["name"])


@case(
    "host/device.tall_grid",
    level="L2",
    clauses=("host.device.attributes",),
    kernels=("probe_host",),
    only=lambda _, facts: not facts.simulated,  # a world takes a third of a millisecond for each of so many blocks
    quick=False,
)
def tall_grid(run: Run) -> Observations:
    """A grid as tall as the device says it may be runs each of its blocks."""
    import numpy as np

    most = run.device.attribute("MaxGridDimY")
    word = run.buffer(4)
    run.launch(run.kernel("probe_host", "host_tally"), (1, most, 1), 1, word)
    return {"most": most, "ran": int(run.read(word, np.uint32)[0])}


@tall_grid.judge
def _(seen: Seen) -> None:
    clause = "host.device.attributes"
    seen.holds(clause, "a grid may be taller than one block", seen["most"] > 1, seen["most"])
    seen.equal(clause, "blocks that ran", seen["ran"], seen["most"])


@case(
    "host/device.pci",
    level="L2",
    clauses=("host.device.pci_address",),
    needs=("device.pci_address",),
    calls=("DeviceGetPCIBusId",),
    no_mutant="no profile that runs here has a device behind a bus",
)
def pci(run: Run) -> Observations:
    """The address of the device is one in the system's bus tree."""
    run.wants_silicon("the device must lie on a bus")
    device = run.device
    room = out(device, "char[]", 64)
    device.call("DeviceGetPCIBusId", room, 64, device.vendor_ordinal)
    text = bytes(device.runtime.ffi.string(room)).decode()
    return {"text": text, "there": (Path("/sys/bus/pci/devices") / text.lower()).exists()}


@pci.judge
def _(seen: Seen) -> None:
    clause, form = "host.device.pci_address", r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
    seen.holds(clause, "the text is an address", re.fullmatch(form, seen["text"]), seen["text"])
    seen.equal(clause, f"whether the system has {seen['text']}", seen["there"], True)
