"""The replay: a trace's requests through the cache and the drives, layer by layer, and every byte read judged.

One request, as a serving engine would run it::

    read(0)
    for each layer L:  wait read(L) | start read(L+1) | compute(L) | start write(L)
    wait for the last write

Outside that timed pipeline, before it, the keys and values of missing blocks are made in the arena (on a GPU the
prefill makes them), and after it all bytes read are judged. Neither counts towards throughput.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti_hal.errors import TransportError, TuttiError
from tutti_hal.workload.cache import Entry, RequestPlan
from tutti_hal.workload.compute import ComputeStandIn
from tutti_hal.workload.oracle import Mismatch, Oracle, TensorName
from tutti_hal.workload.placement import Placement
from tutti_hal.workload.transport import TRANSFER, Direction, Pending, Transport


@dataclass(frozen=True)
class WrongTensor:
    """A tensor that came back wrong, and the slot that it was read from."""

    mismatch: Mismatch
    slot: int


@dataclass(frozen=True)
class RequestResult:
    """What one request did.

    Attributes:
        hits, misses, beyond, evicted: as in its plan.
        bytes_read, bytes_written: by its pipeline.
        begin_s: when the pipeline began, in seconds of pipeline time since the replay began.
        wall_s: the pipeline's length.
        compute_s: in the stand-in.
        stall_s: the pipeline waiting for reads.
        drain_s: the pipeline waiting for writes.
        read_s: batches of reads in flight, added up.
        write_s: batches of writes in flight, added up.
        generate_s, verify_s: spent outside the pipeline.
        wrong: tensors that came back wrong.
    """

    hits: int
    misses: int
    beyond: int
    evicted: int
    bytes_read: int
    bytes_written: int
    begin_s: float
    wall_s: float
    compute_s: float
    stall_s: float
    drain_s: float
    read_s: float
    write_s: float
    generate_s: float
    verify_s: float
    wrong: tuple[WrongTensor, ...]


@dataclass(frozen=True)
class LayerResult:
    """Sums over all requests for one layer, in seconds and bytes."""

    read_s: float
    stall_s: float
    compute_s: float
    write_s: float
    bytes_read: int
    bytes_written: int


@dataclass
class _LayerSums:
    read_s: float = 0.0
    stall_s: float = 0.0
    compute_s: float = 0.0
    write_s: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True)
class ReplayResult:
    """A whole replay, request by request and layer by layer."""

    requests: tuple[RequestResult, ...]
    layers: tuple[LayerResult, ...]

    @property
    def hits(self) -> int:
        """Hash ids read from the drives."""
        return sum(r.hits for r in self.requests)

    @property
    def misses(self) -> int:
        """Hash ids computed and written."""
        return sum(r.misses for r in self.requests)

    @property
    def bytes_read(self) -> int:
        """Bytes read by pipelines, every one of them judged."""
        return sum(r.bytes_read for r in self.requests)

    @property
    def bytes_written(self) -> int:
        """Bytes written by pipelines."""
        return sum(r.bytes_written for r in self.requests)

    @property
    def pipeline_s(self) -> float:
        """Seconds in pipelines: the denominator of throughput."""
        return sum(r.wall_s for r in self.requests)

    @property
    def wrong(self) -> tuple[WrongTensor, ...]:
        """Wrong tensors, once each, in order of first sight."""
        first: dict[TensorName, WrongTensor] = {}
        for request in self.requests:
            for wrong in request.wrong:
                first.setdefault(wrong.mismatch.name, wrong)
        return tuple(first.values())

    @property
    def read_overlap(self) -> float:
        """Share of the reads' time in flight that the pipeline did not wait for, 0 to 1; 0 when nothing was read."""
        in_flight = sum(r.read_s for r in self.requests)
        if not in_flight:
            return 0.0
        return min(1.0, max(0.0, 1.0 - sum(r.stall_s for r in self.requests) / in_flight))


@dataclass
class _Pipeline:
    """What one pipeline adds up while it runs."""

    compute_s: float = 0.0
    stall_s: float = 0.0
    drain_s: float = 0.0
    read_s: float = 0.0
    write_s: float = 0.0


@dataclass
class Replay:
    """Runs plans over a transport. Not thread safe.

    The arena is laid out layer-major for each request: hits first, misses behind them.

    Attributes:
        transport: moves the bytes; its arena must hold the largest plan.
        placement: where tensors lie on the transport's drives.
        oracle: makes and judges the bytes.
        compute: the stand-in for each layer's compute.
        before_request: called with a request's index and plan before its pipeline; for whoever plants faults.
    """

    transport: Transport
    placement: Placement
    oracle: Oracle
    compute: ComputeStandIn
    before_request: Callable[[int, RequestPlan], None] | None = None
    _sums: list[_LayerSums] = field(init=False)

    def __post_init__(self) -> None:
        self._sums = [_LayerSums() for _ in range(self.placement.shape.layers)]

    def run(self, plans: Sequence[RequestPlan]) -> Iterator[RequestResult]:
        """Runs plans in order and yields each one's result; blocks in between.

        Raises:
            ValueError: a plan does not fit the arena.
            TransportError: a command failed. Nothing is left in flight.
        """
        shape = self.placement.shape
        clock = 0.0
        for index, plan in enumerate(plans):
            needed = (len(plan.hits) + len(plan.misses)) * shape.hash_bytes
            if needed > self.transport.arena.nbytes:
                raise ValueError(f"request {index} needs {needed} bytes of arena, not {self.transport.arena.nbytes}")
            if self.before_request is not None:
                self.before_request(index, plan)
            begin = time.perf_counter()
            self._generate(plan)
            generated = time.perf_counter()
            sums = self._pipeline(plan)
            piped = time.perf_counter()
            wrong = tuple(self._judge(plan))
            judged = time.perf_counter()
            yield RequestResult(
                hits=len(plan.hits),
                misses=len(plan.misses),
                beyond=plan.beyond,
                evicted=plan.evicted,
                bytes_read=len(plan.hits) * shape.hash_bytes,
                bytes_written=len(plan.misses) * shape.hash_bytes,
                begin_s=clock,
                wall_s=piped - generated,
                compute_s=sums.compute_s,
                stall_s=sums.stall_s,
                drain_s=sums.drain_s,
                read_s=sums.read_s,
                write_s=sums.write_s,
                generate_s=generated - begin,
                verify_s=judged - piped,
                wrong=wrong,
            )
            clock += piped - generated

    def layers(self) -> tuple[LayerResult, ...]:
        """Sums by layer over everything run so far."""
        return tuple(LayerResult(**vars(s)) for s in self._sums)

    def _tensors(self, plan: RequestPlan) -> NDArray[np.uint8]:
        """The arena as (layer, entry, index, byte) of this plan."""
        shape = self.placement.shape
        entries = len(plan.hits) + len(plan.misses)
        used = self.transport.arena[: entries * shape.hash_bytes]
        return used.reshape(shape.layers, entries, shape.tensors_per_layer, shape.tensor_bytes)

    def _transfers(self, entries: Sequence[Entry], first: int, total: int, layer: int) -> NDArray[np.void]:
        """One layer's transfers of ``entries``, which lie in the arena from entry ``first`` of ``total`` on."""
        shape = self.placement.shape
        slots = np.array([entry.slot for entry in entries], np.int64)
        drive, offset = self.placement.locate(slots, layer)
        transfers = np.empty(drive.size, TRANSFER)
        transfers["drive"] = drive.ravel()
        transfers["drive_offset"] = offset.ravel()
        transfers["nbytes"] = shape.tensor_bytes
        begin = (layer * total + first) * shape.layer_bytes
        transfers["arena_offset"] = begin + np.arange(drive.size) * shape.tensor_bytes
        return transfers

    def _generate(self, plan: RequestPlan) -> None:
        tensors = self._tensors(plan)
        for layer in range(self.placement.shape.layers):
            for row, entry in enumerate(plan.misses, start=len(plan.hits)):
                for index in range(self.placement.shape.tensors_per_layer):
                    self.oracle.fill(TensorName(entry.hash_id, layer, index), tensors[layer, row, index])
            # What a read should bring must not be there already, or a read that does nothing would pass.
            tensors[layer, : len(plan.hits)] = 0xA5

    def _pipeline(self, plan: RequestPlan) -> _Pipeline:
        layers = self.placement.shape.layers
        layer_bytes = self.placement.shape.layer_bytes
        hits, misses = len(plan.hits), len(plan.misses)
        sums = _Pipeline()
        flight = _Flight(self.transport)
        try:
            if hits:
                flight.start(Direction.READ, self._transfers(plan.hits, 0, hits + misses, 0))
            for layer in range(layers):
                of_layer = self._sums[layer]
                if hits:
                    waited, took = flight.finish(Direction.READ)
                    sums.stall_s += waited
                    sums.read_s += took
                    of_layer.stall_s += waited
                    of_layer.read_s += took
                    of_layer.bytes_read += hits * layer_bytes
                    if layer + 1 < layers:
                        flight.start(Direction.READ, self._transfers(plan.hits, 0, hits + misses, layer + 1))
                computed = self.compute.run()
                sums.compute_s += computed
                of_layer.compute_s += computed
                if misses:
                    if layer:
                        self._finish_write(flight, sums, layer - 1)
                    flight.start(Direction.WRITE, self._transfers(plan.misses, hits, hits + misses, layer))
                    of_layer.bytes_written += misses * layer_bytes
            if misses:
                self._finish_write(flight, sums, layers - 1)
        finally:
            flight.drain()
        return sums

    def _finish_write(self, flight: _Flight, sums: _Pipeline, layer: int) -> None:
        waited, took = flight.finish(Direction.WRITE)
        sums.drain_s += waited
        sums.write_s += took
        self._sums[layer].write_s += took

    def _judge(self, plan: RequestPlan) -> Iterator[WrongTensor]:
        tensors = self._tensors(plan)
        for layer in range(self.placement.shape.layers):
            for row, entry in enumerate(plan.hits):
                for index in range(self.placement.shape.tensors_per_layer):
                    name = TensorName(entry.hash_id, layer, index)
                    mismatch = self.oracle.check(name, tensors[layer, row, index])
                    if mismatch is not None:
                        yield WrongTensor(mismatch, entry.slot)


class _Flight:
    """At most one batch of each direction in flight."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pending: dict[Direction, Pending] = {}

    def start(self, direction: Direction, transfers: NDArray[np.void]) -> None:
        self._pending[direction] = self._transport.submit(direction, transfers)

    def finish(self, direction: Direction) -> tuple[float, float]:
        """Seconds waited here, and seconds that the batch took."""
        begin = time.perf_counter()
        try:
            took = self._pending[direction].wait().seconds
        except TransportError:
            del self._pending[direction]  # it has ended; on Ctrl-C it has not, and drain waits for it
            raise
        del self._pending[direction]
        return time.perf_counter() - begin, took

    def drain(self) -> None:
        """After an error or Ctrl-C: nothing stays in flight over an arena that is about to go."""
        while self._pending:
            _, pending = self._pending.popitem()
            # The error that brought us here is the one to show; and a signal that came between a batch's end and our
            # note of it leaves a batch that is nobody's to wait for.
            with contextlib.suppress(TuttiError):
                pending.wait()
