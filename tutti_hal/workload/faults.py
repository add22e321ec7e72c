"""Bytes to be spoilt on purpose: objects that a later request is sure to read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti_hal.errors import FaultError
from tutti_hal.workload.cache import Entry, RequestPlan
from tutti_hal.workload.oracle import TensorName
from tutti_hal.workload.placement import Placement


@dataclass(frozen=True)
class Spoil:
    """One byte to be flipped on a drive before a request.

    Attributes:
        request: index of the request that reads the object next.
        name: the object.
        drive, drive_offset: where the byte lies.
    """

    request: int
    name: TensorName
    drive: int
    drive_offset: int


def choose_spoils(plans: Sequence[RequestPlan], placement: Placement, count: int, seed: int) -> tuple[Spoil, ...]:
    """``count`` distinct objects that are read, each with one byte in it, by seed; in order of request.

    Raises:
        FaultError: fewer objects than that are ever read.
    """
    reads: dict[int, list[tuple[int, Entry]]] = {}
    for index, plan in enumerate(plans):
        for entry in plan.hits:
            reads.setdefault(entry.hash_id, []).append((index, entry))
    shape = placement.shape
    available = len(reads) * shape.tensors_per_hash
    if count > available:
        raise FaultError(
            f"spoiling {count} objects", f"only {available} are ever read back", "Lower --corrupt, or raise --requests."
        )
    rng = random.Random(seed)
    hash_ids = sorted(reads)
    spoils = []
    for number in rng.sample(range(available), count):
        which, tensor = divmod(number, shape.tensors_per_hash)
        layer, tensor_index = divmod(tensor, shape.tensors_per_layer)
        request, entry = rng.choice(reads[hash_ids[which]])
        drive, offset = placement.locate(np.array([entry.slot]), layer)
        spoils.append(
            Spoil(
                request,
                TensorName(entry.hash_id, layer, tensor_index),
                int(drive[0, tensor_index]),
                int(offset[0, tensor_index]) + rng.randrange(shape.tensor_bytes),
            )
        )
    return tuple(sorted(spoils, key=lambda spoil: spoil.request))
