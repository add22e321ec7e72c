"""The doorbell catalogue: what a drive, or the host, sees of what a thread stored before it rang, and the reverse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutti_hal.conformance_tests.case import Determinism, Observations, case
from tutti_hal.conformance_tests.cases.l4_memory.forms import DOORBELLS, THREADS
from tutti_hal.conformance_tests.cases.l4_memory.observing import observe, observe_with_partner
from tutti_hal.conformance_tests.cases.l4_memory.scoring import score
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_OPTIONS: Mapping[str, Any] = {
    "level": "L4",
    "kernels": (DOORBELLS,),
    "budget_s": 60.0,
    "determinism": Determinism.STATISTICAL,
}
_SUBMIT = ("prim.fence.system.publishes", "prim.mmio.store.after_fence", "prim.vector.may_tear")
_LEADER = ("prim.fence.system.publishes", "prim.fence.cumulative", "prim.mmio.store.after_fence")


@case(
    "litmus/db.mp_submit",
    clauses=_SUBMIT,
    needs=("memory.mapped",),
    primitives=("store.vector.relaxed.system.*", "fence.system", "mmio.store.*"),
    **_OPTIONS,
)
def submit(run: Run) -> Observations:
    """DB-MP-SUBMIT: who sees the doorbell sees the entry. Twins: a fence that reaches the device alone; none."""
    return observe_with_partner(run, "submit_system", "submit_device", "submit_no")


@submit.judge
def _(seen: Seen) -> None:
    score(seen, _SUBMIT, "entry")


@case("litmus/db.isa2_leader", clauses=_LEADER, needs=("memory.mapped",), primitives=("fence.system",), **_OPTIONS)
def leader(run: Run) -> Observations:
    """DB-ISA2-LEADER: a leader rings for the entry of another. Twins: a device fence; a mark that releases nothing."""
    return observe_with_partner(run, "leader_system", "leader_device", "leader_unmarked")


@leader.judge
def _(seen: Seen) -> None:
    score(seen, _LEADER, "entry")


#: How the last word of a completion is taken -> the clauses that this rests on, and its twin.
_TAKES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "acquire_u32": (("prim.load.acquire.orders",), ("complete_relaxed_u32", "complete_device_u32")),
    "acquire_u64": (("prim.load.acquire.orders",), ("complete_relaxed_u64",)),
    "fence_u32": (("prim.fence.acquires",), ("complete_relaxed_u32",)),
    "fence_u64": (("prim.fence.acquires",), ("complete_relaxed_u64",)),
    "vector": (("prim.fence.acquires", "prim.vector.may_tear"), ("complete_relaxed_u32",)),
}


@case(
    "litmus/db.mp_complete",
    clauses=("prim.load.acquire.orders", "prim.fence.acquires", "prim.vector.may_tear"),
    axes={"take": tuple(_TAKES)},
    narrow=lambda axes: _TAKES[str(axes["take"])][0],
    needs=("memory.mapped",),
    primitives=("load.acquire.system.*", "load.relaxed.system.*", "load.vector.relaxed.system.*", "fence.system"),
    **_OPTIONS,
)
def complete(run: Run) -> Observations:
    """DB-MP-COMPLETE: who has taken the last word of a completion has its first. Twins: relaxed; at device scope."""
    take = str(run.axes["take"])
    return observe_with_partner(run, f"complete_{take}", *_TAKES[take][1])


@complete.judge
def _(seen: Seen) -> None:
    score(seen, _TAKES[str(seen.axes["take"])][0], "data")


@case(
    "litmus/db.mp_complete.atomic",
    clauses=("prim.atomic.relaxed", "prim.fence.acquires"),
    axes={"op": ("add", "exchange", "or", "cas"), "bits": (32, 64)},
    needs=("memory.mapped", "atomic.system"),
    primitives=("atomic.*.system.*",),
    **_OPTIONS,
)
def complete_atomic(run: Run) -> Observations:
    """The same, the last word taken by a read-modify-write with a system fence behind it. Twin: a relaxed load."""
    bits = run.axes["bits"]
    return observe_with_partner(run, f"complete_{run.axes['op']}_u{bits}", f"complete_relaxed_u{bits}")


@complete_atomic.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.atomic.relaxed", "prim.fence.acquires"), "data")


@case("litmus/db.corr_phase", clauses=("prim.load.coherent",), needs=("engine.simulation", "memory.mapped"), **_OPTIONS)
def phase(run: Run) -> Observations:
    """DB-CORR-PHASE: two looks at a phase that a drive turns. Twin: noted in reverse. Between threads: litmus/corr."""
    return observe_with_partner(run, "phase_right", "phase_twin")


@phase.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.load.coherent",), "phase")


@case(
    "litmus/db.coww_tail",
    clauses=("prim.mmio.store.in_order", "prim.fence.acquires"),
    needs=("memory.mapped",),
    **{**_OPTIONS, "kernels": (THREADS,)},
)
def tail(run: Run) -> Observations:
    """DB-COWW-TAIL: two leaders ring in turn, and the register rests on the last tail. Twin: without the lock."""
    return observe(run, "tail_locked", "tail_bare")


@tail.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.mmio.store.in_order", "prim.fence.acquires"), "tail")


#: How a flag for the host is stored -> the clauses that this rests on.
_TELLS: Mapping[str, tuple[str, ...]] = {
    "release": ("prim.store.release.orders", "prim.store.reaches_scope"),
    "fence": ("prim.fence.publishes", "prim.store.reaches_scope"),
}


@case(
    "litmus/db.mp_tell",
    clauses=("prim.store.release.orders", "prim.fence.publishes", "prim.store.reaches_scope"),
    axes={"link": tuple(_TELLS), "bits": (32, 64)},
    narrow=lambda axes: _TELLS[str(axes["link"])],
    needs=("memory.mapped",),
    primitives=("store.*.system.*",),
    **_OPTIONS,
)
def tell(run: Run) -> Observations:
    """MP to the host: data, then a flag in memory. Twin: a flag that releases nothing."""
    bits = run.axes["bits"]
    return observe_with_partner(run, f"tell_{run.axes['link']}_u{bits}", f"tell_relaxed_u{bits}")


@tell.judge
def _(seen: Seen) -> None:
    score(seen, _TELLS[str(seen.axes["link"])], "mp")


@case(
    "litmus/db.sb_wakeup",
    clauses=("prim.fence.total_order",),
    needs=("engine.simulation", "memory.mapped"),
    **_OPTIONS,
)
def wakeup(run: Run) -> Observations:
    """DB-SB-WAKEUP: a tail and a look at who sleeps, against a sleeper's look at the tail. Threads: litmus/sb."""
    return observe_with_partner(run, "wakeup_system", "wakeup_no", "wakeup_device")


@wakeup.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.fence.total_order",), "sb")


@case(
    "litmus/db.war_recycle",
    clauses=("prim.store.release.orders", "prim.fence.publishes"),
    axes={"link": ("release", "fence")},
    narrow=lambda axes: (_TELLS[str(axes["link"])][0],),
    needs=("memory.mapped",),
    **_OPTIONS,
)
def recycle(run: Run) -> Observations:
    """DB-WAR-RECYCLE: a buffer is read and given back, and the host fills it again. Twin: given back relaxed."""
    return observe_with_partner(run, f"recycle_{run.axes['link']}", "recycle_relaxed")


@recycle.judge
def _(seen: Seen) -> None:
    score(seen, (_TELLS[str(seen.axes["link"])][0],), "war")
