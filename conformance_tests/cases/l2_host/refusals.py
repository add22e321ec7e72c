"""Every error that the contract lists for a host function, provoked: one case for each table of provocations.

The functions of streams, events, modules and launches have theirs beside the cases about them.
"""

from __future__ import annotations

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.provocations import (
    BYTES,
    DETAIL,
    DEVICES,
    DMABUF,
    IPC,
    LOCKS,
    MANAGED,
    MAPPED,
    MEMORY,
    PCI,
    PEERS,
    PINNED,
    POINTERS,
    POOLS,
    REGISTER,
    REPORT,
    Bench,
    Table,
    calls_of,
)
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Axis, Seen

#: Canonical error -> the class as which the shim raises it; from the classes' own sentences.
ERROR_CLASSES = {
    "MemoryAllocation": "OutOfMemory",
    "InvalidValue": "InvalidArgument",
    "InvalidMemcpyDirection": "InvalidArgument",
    "HostMemoryAlreadyRegistered": "InvalidArgument",
    "HostMemoryNotRegistered": "InvalidArgument",
    "InvalidResourceHandle": "BadHandle",
    "InvalidDevice": "WrongDevice",
    "PeerAccessNotEnabled": "WrongDevice",
    "PeerAccessAlreadyEnabled": "RuntimeFailure",
    "PeerAccessUnsupported": "NotSupported",
    "NotReady": "RuntimeFailure",
}


#: What a vendor may say instead, for it means the same of that function.
ALSO = {
    ("Memcpy", "InvalidMemcpyDirection"): ("InvalidValue",),
    ("MemcpyAsync", "InvalidMemcpyDirection"): ("InvalidValue",),
    ("MemGetAddressRange", "InvalidValue"): ("SymbolNotFound",),
}


def provoke(run: Run, table: Table) -> Observations:
    """Provoke every error of one function; what came of each, and of the memory beside.

    Handles of what is no more are passed only to a vendor that checks them: elsewhere that is undefined.
    """
    bench = Bench(run)
    before = run.device.memory_info()
    asked = table[str(run.axes["function"])].items()
    checked = run.facts.capabilities["handle.checked"]
    errors = {error: how(bench) for error, how in asked if checked or error != "InvalidResourceHandle"}
    after = run.device.memory_info()
    untouched = run.read(bench.buffer, "u1")
    return {"errors": errors, "untouched": untouched, "free": [before.free, after.free]}


def judge_refusals(seen: Seen) -> None:
    """Each refusal has its own error, and nothing else came of the calls."""
    import numpy as np

    clause, function = "host.error.typed", seen.axes["function"]
    for error, found in seen["errors"].items():
        names = (error, *ALSO.get((str(function), error), ()))
        seen.refused(clause, f"{function} asked for {error}", found, ERROR_CLASSES[error], *names)
    seen.equal(clause, "memory beside the calls", seen["untouched"], np.full(BYTES, 0x5A, np.uint8))
    seen.equal(clause, "free memory after the calls", seen["free"][1], seen["free"][0])


def _axes(table: Table) -> dict[str, tuple[Axis, ...]]:
    return {"function": tuple(table)}


_CLAUSES = ("host.error.typed",)


@case("host/refusal.device", level="L2", clauses=_CLAUSES, axes=_axes(DEVICES), calls=calls_of(DEVICES))
def devices(run: Run) -> Observations:
    """Questions about a device that there is not, or about nothing, are refused as what they are."""
    return provoke(run, DEVICES)


@case("host/refusal.memory", level="L2", clauses=_CLAUSES, axes=_axes(MEMORY), calls=calls_of(MEMORY))
def memory(run: Run) -> Observations:
    """Allocations, frees, copies and fills with bad arguments are refused, each with its own error."""
    return provoke(run, MEMORY)


@case(
    "host/refusal.pinned",
    level="L2",
    clauses=_CLAUSES,
    needs=("memory.pinned",),
    axes=_axes(PINNED),
    calls=calls_of(PINNED),
)
def pinned(run: Run) -> Observations:
    """Page-locked allocations with bad arguments are refused."""
    return provoke(run, PINNED)


@case(
    "host/refusal.mapped",
    level="L2",
    clauses=_CLAUSES,
    needs=("memory.mapped",),
    axes=_axes(MAPPED),
    calls=calls_of(MAPPED),
)
def mapped(run: Run) -> Observations:
    """Questions about host memory that the runtime does not know are refused."""
    return provoke(run, MAPPED)


@case(
    "host/refusal.managed",
    level="L2",
    clauses=_CLAUSES,
    needs=("memory.managed",),
    axes=_axes(MANAGED),
    calls=calls_of(MANAGED),
)
def managed(run: Run) -> Observations:
    """Managed allocations with bad arguments are refused."""
    return provoke(run, MANAGED)


@case(
    "host/refusal.pools",
    level="L2",
    clauses=_CLAUSES,
    needs=("memory.pools",),
    axes=_axes(POOLS),
    calls=calls_of(POOLS),
)
def pools(run: Run) -> Observations:
    """Allocations in stream order with bad arguments are refused."""
    return provoke(run, POOLS)


@case(
    "host/refusal.register",
    level="L2",
    clauses=_CLAUSES,
    needs=("memory.register",),
    axes=_axes(REGISTER),
    calls=calls_of(REGISTER),
)
def register(run: Run) -> Observations:
    """Registrations of nothing, of what is registered, and their ends without a beginning are refused."""
    return provoke(run, REGISTER)


@case(
    "host/refusal.pointers",
    level="L2",
    clauses=_CLAUSES,
    needs=("memory.pointer_attributes",),
    axes=_axes(POINTERS),
    calls=calls_of(POINTERS),
)
def pointers(run: Run) -> Observations:
    """Questions about addresses with bad arguments are refused."""
    return provoke(run, POINTERS)


@case(
    "host/refusal.lock_state",
    level="L2",
    clauses=_CLAUSES,
    needs=("memory.lock_state",),
    axes=_axes(LOCKS),
    calls=calls_of(LOCKS),
)
def lock_state(run: Run) -> Observations:
    """The lock state of memory that the runtime does not know is refused."""
    return provoke(run, LOCKS)


@case(
    "host/refusal.detail",
    level="L2",
    clauses=_CLAUSES,
    needs=("error.detail",),
    axes=_axes(DETAIL),
    calls=calls_of(DETAIL),
)
def detail(run: Run) -> Observations:
    """A detail without room for it is refused."""
    return provoke(run, DETAIL)


@case(
    "host/refusal.report",
    level="L2",
    clauses=_CLAUSES,
    needs=("launch.bounded",),
    axes=_axes(REPORT),
    calls=calls_of(REPORT),
)
def report(run: Run) -> Observations:
    """The launch report of a device that there is not is refused."""
    return provoke(run, REPORT)


@case(
    "host/refusal.peer", level="L2", clauses=_CLAUSES, needs=("peer.access",), axes=_axes(PEERS), calls=calls_of(PEERS)
)
def peer(run: Run) -> Observations:
    """Peers that there are not are refused, and so are copies that name a wrong one."""
    return provoke(run, PEERS)


@case(
    "host/refusal.pci",
    level="L2",
    clauses=_CLAUSES,
    needs=("device.pci_address",),
    axes=_axes(PCI),
    calls=calls_of(PCI),
)
def pci(run: Run) -> Observations:
    """The PCI address of a device that there is not, or without room for it, is refused."""
    return provoke(run, PCI)


@case(
    "host/refusal.dmabuf",
    level="L2",
    clauses=_CLAUSES,
    needs=("memory.export_dmabuf",),
    axes=_axes(DMABUF),
    calls=calls_of(DMABUF),
)
def dmabuf(run: Run) -> Observations:
    """The export of an empty range is refused."""
    return provoke(run, DMABUF)


@case("host/refusal.ipc", level="L2", clauses=_CLAUSES, needs=("ipc.memory",), axes=_axes(IPC), calls=calls_of(IPC))
def ipc(run: Run) -> Observations:
    """Handles of foreign memory, and memory that is no mapping, are refused."""
    return provoke(run, IPC)


for _case in (
    *(devices, memory, pinned, mapped, managed, pools, register, pointers, lock_state),
    *(detail, report, peer, pci, dmabuf, ipc),
):
    _case.judge(judge_refusals)
