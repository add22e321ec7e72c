"""Order between threads of one device: what a flag, a fence or a barrier puts before what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tutti_hal.conformance_tests.case import Determinism, Observations, case
from tutti_hal.conformance_tests.cases.l4_memory.forms import THREADS
from tutti_hal.conformance_tests.cases.l4_memory.observing import observe
from tutti_hal.conformance_tests.cases.l4_memory.scoring import score
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Axis, Seen

#: How a link is made -> the clauses that it rests on.
_LINKS: Mapping[str, tuple[str, ...]] = {
    "release": ("prim.store.release.orders", "prim.load.acquire.orders"),
    "fence": ("prim.fence.publishes", "prim.fence.acquires"),
}
_OPTIONS: Mapping[str, Any] = {
    "level": "L4",
    "kernels": (THREADS,),
    "budget_s": 60.0,
    "determinism": Determinism.STATISTICAL,
}


def _of_link(more: Mapping[str, tuple[str, ...]]) -> Callable[[Mapping[str, Axis]], tuple[str, ...]]:
    return lambda axes: more[str(axes["link"])]


_MP = {
    ("release", 32): "release_acquire_u32",
    ("release", 64): "release_acquire_u64",
    ("fence", 32): "fence_fence_u32",
    ("fence", 64): "fence_fence_u64",
}


@case(
    "litmus/mp",
    clauses=(*_LINKS["release"], *_LINKS["fence"]),
    axes={"link": tuple(_LINKS), "bits": (32, 64)},
    narrow=_of_link(_LINKS),
    primitives=("load.*.device.u32", "load.*.device.u64", "store.*.device.u32", "store.*.device.u64", "fence.device"),
    **_OPTIONS,
)
def passing(run: Run) -> Observations:
    """MP: data, then a flag; whoever has seen the flag sees the data. Twin: relaxed."""
    bits = int(run.axes["bits"])
    right = _MP[str(run.axes["link"]), bits]
    return observe(run, f"mp_{right}", f"mp_relaxed_relaxed_u{bits}")


@passing.judge
def _(seen: Seen) -> None:
    score(seen, _LINKS[str(seen.axes["link"])], "mp")


@case(
    "litmus/mp.within",
    clauses=_LINKS["fence"],
    primitives=("fence.block",),
    **_OPTIONS,
)
def passing_within(run: Run) -> Observations:
    """MP within a block, by fences that reach no further. Twin: without them."""
    return observe(run, "mp_within_block", "mp_within_relaxed")


@passing_within.judge
def _(seen: Seen) -> None:
    score(seen, _LINKS["fence"], "mp")


@case(
    "litmus/mp.half",
    clauses=(*_LINKS["release"], *_LINKS["fence"]),
    axes={"link": tuple(_LINKS)},
    narrow=_of_link(_LINKS),
    needs=("engine.simulation",),
    **{**_OPTIONS, "determinism": Determinism.EXACT},
)
def passing_half(run: Run) -> Observations:
    """MP across blocks. Twins: the writer's half alone, the reader's half alone; fences that reach the block alone."""
    if run.axes["link"] == "release":
        return observe(run, "mp_release_acquire_u32", "mp_release_relaxed_u32", "mp_relaxed_acquire_u32")
    return observe(run, "mp_fence_fence_u32", "mp_block_block_u32", "mp_fence_relaxed_u32", "mp_relaxed_fence_u32")


@passing_half.judge
def _(seen: Seen) -> None:
    score(seen, _LINKS[str(seen.axes["link"])], "mp")


_LEADER: Mapping[str, tuple[str, ...]] = {
    "release": _LINKS["release"],
    "fence": ("prim.fence.cumulative", *_LINKS["fence"]),
}


@case(
    "litmus/isa2",
    clauses=(*_LEADER["release"], *_LEADER["fence"]),
    axes={"link": tuple(_LEADER)},
    narrow=_of_link(_LEADER),
    primitives=("fence.device",),
    **_OPTIONS,
)
def leader(run: Run) -> Observations:
    """ISA2: a leader has seen a flag and raises another; whoever sees that has the data too. Twin: an idle leader."""
    if run.axes["link"] == "release":
        return observe(run, "isa2_release_acquire_release_acquire", "isa2_relaxed_relaxed_relaxed_relaxed")
    return observe(run, "isa2_fence_fence_relaxed_acquire", "isa2_fence_relaxed_relaxed_acquire")


@leader.judge
def _(seen: Seen) -> None:
    score(seen, _LEADER[str(seen.axes["link"])], "isa2")


@case(
    "litmus/sb",
    clauses=("prim.fence.total_order",),
    axes={"scope": ("device", "system")},
    primitives=("fence.device", "fence.system"),
    **_OPTIONS,
)
def store_buffering(run: Run) -> Observations:
    """SB: each of two stores and then looks at the other's word. Twins: no fence; a release and an acquire instead."""
    return observe(run, "sb_fence" if run.axes["scope"] == "device" else "sb_system", "sb_relaxed", "sb_ordered")


@store_buffering.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.fence.total_order",), "sb")


@case(
    "litmus/war",
    clauses=(*_LINKS["release"], *_LINKS["fence"]),
    axes={"link": tuple(_LINKS)},
    narrow=_of_link(_LINKS),
    **_OPTIONS,
)
def recycle(run: Run) -> Observations:
    """WAR: a slot is read and given back; whoever has seen that fills it again. Twin: relaxed."""
    return observe(run, f"war_{run.axes['link']}", "war_relaxed")


@recycle.judge
def _(seen: Seen) -> None:
    score(seen, _LINKS[str(seen.axes["link"])], "war")


@case(
    "litmus/barrier",
    clauses=("prim.barrier.orders_memory",),
    primitives=("barrier.block",),
    **_OPTIONS,
)
def barrier(run: Run) -> Observations:
    """What was stored before a block barrier is read after it. Twin: threads that wait for each other, and no more."""
    return observe(run, "barrier_right", "barrier_twin")


@barrier.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.barrier.orders_memory",), "barrier")
