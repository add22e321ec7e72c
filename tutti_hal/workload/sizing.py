"""How much of the model a run stores: as much as a budget of bytes allows, and what was left out is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tutti_hal.errors import SizingError
from tutti_hal.workload.cache import RequestPlan, plan
from tutti_hal.workload.placement import Placement
from tutti_hal.workload.shapes import KvShape, scaling_note
from tutti_hal.workload.trace import TraceRequest


@dataclass(frozen=True)
class Sizing:
    """A workload cut to measure.

    Attributes:
        full: the model as it is.
        shape: what of it is stored.
        placement: where, on all drives together ``placement.slots`` hash ids.
        plans: what every request does.
        limit: hash ids of one request that take part.
        arena_bytes: device memory that the largest request needs.
        budget_bytes: what was to be moved at most.
    """

    full: KvShape
    shape: KvShape
    placement: Placement
    plans: tuple[RequestPlan, ...]
    limit: int
    arena_bytes: int
    budget_bytes: int

    @property
    def moved_bytes(self) -> int:
        """Bytes that the plans read and write."""
        return sum(len(p.hits) + len(p.misses) for p in self.plans) * self.shape.hash_bytes

    @property
    def notes(self) -> tuple[str, ...]:
        """What was scaled down or left out, a sentence each; empty for the whole model and every token."""
        notes = []
        if scaled := scaling_note(self.full, self.shape):
            notes.append(scaled)
        if self.moved_bytes > self.budget_bytes:
            notes.append(
                f"{self.moved_bytes >> 20:,} MiB are moved, over the budget of {self.budget_bytes >> 20:,}: "
                "fewer --requests or --layers take less time"
            )
        beyond = sum(p.beyond for p in self.plans)
        if beyond:
            longer = sum(p.beyond > 0 for p in self.plans)
            notes.append(
                f"{longer} request(s) longer than {self.limit} hash ids: the {beyond} ids at their ends left out"
            )
        return tuple(notes)


def fit(
    requests: Sequence[TraceRequest],
    full: KvShape,
    *,
    drives: int,
    cache_bytes: int,
    budget_bytes: int,
    layers: int | None = None,
    blocks_per_hash: int | None = None,
) -> Sizing:
    """Sizes a workload.

    Args:
        requests: the trace.
        full: the model.
        drives: how many drives share the cache.
        cache_bytes: capacity of all drives together.
        budget_bytes: at most about so many bytes are moved; layers are halved until that holds. Not looked at when
            ``layers`` is given.
        layers: layers to store; ``None``: as many as the budget allows.
        blocks_per_hash: blocks to store for each hash id; ``None``: one.

    Raises:
        ShapeError: layers or blocks out of range.
        SizingError: the cache does not hold two hash ids, or more layers than the model has were asked for.
    """
    if layers is not None and layers > full.layers:
        raise SizingError(
            f"storing {layers} layers", f"{full.model} has {full.layers}", f"Give --layers 1 to {full.layers}."
        )
    shape = full.scaled(layers=layers, blocks_per_hash=1 if blocks_per_hash is None else blocks_per_hash)
    while True:
        sizing = _size(requests, full, shape, drives, cache_bytes, budget_bytes)
        if layers is not None or sizing.moved_bytes <= budget_bytes or shape.layers == 1:
            return sizing
        shape = shape.scaled(layers=(shape.layers + 1) // 2)


def _size(
    requests: Sequence[TraceRequest], full: KvShape, shape: KvShape, drives: int, cache_bytes: int, budget_bytes: int
) -> Sizing:
    slots = cache_bytes // shape.hash_bytes
    if slots < 2:
        raise SizingError(
            f"a cache of {cache_bytes >> 20} MiB",
            f"one hash id weighs {shape.hash_bytes / 2**20:g} MiB ({shape.layers} layers, "
            f"{shape.blocks_per_hash} blocks), and it must hold two",
            "Raise --cache-mib, or lower --layers or --blocks-per-hash.",
        )
    # Half of the cache, so that the largest request does not turn all of it over.
    limit = min(slots // 2, max(len(r.hash_ids) for r in requests))
    plans = plan(requests, slots, limit)
    largest = max(len(p.hits) + len(p.misses) for p in plans)
    return Sizing(full, shape, Placement(shape, slots, drives), plans, limit, largest * shape.hash_bytes, budget_bytes)
