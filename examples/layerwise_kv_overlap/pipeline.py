"""read(L+1) beside compute(L) beside write(L-1): one submit and one launch for each layer and direction."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from shape import Shape, tensors

from tutti_hal.storage import Memory, Operation, Status, StorageRuntime, make_requests
from tutti_hal.workload.compute import ComputeStandIn


@dataclass
class Layer:
    """What one layer of one request took, in seconds; what it moved, in bytes; spans for the timeline."""

    read_bytes: int = 0
    write_bytes: int = 0
    read_s: float = 0.0
    write_s: float = 0.0
    compute_s: float = 0.0
    wait_s: float = 0.0
    spans: list[tuple[str, float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Flight:
    """A submit under way: its handle, direction, layer, and when it was handed over."""

    io: int
    direction: str
    layer: int
    begin: float


class Pipeline:
    """Runs requests over a runtime.

    Args:
        storage: with drives d0 and on.
        shape: of every request.
        verify: compare every byte that is read.
    """

    def __init__(self, storage: StorageRuntime, shape: Shape, verify: bool) -> None:
        self.storage, self.shape, self.verify = storage, shape, verify
        self.targets = storage.open_batch([shape.uri(chunk) for chunk in range(shape.chunks)]).handles
        each = shape.tensors * shape.tensor_bytes
        # Two of each: while one layer is computed, another one moves.
        self.reads = [storage.allocate(max(shape.hits, 1) * each) for _ in range(2)]
        self.writes = [storage.allocate(max(shape.misses, 1) * each) for _ in range(2)]
        self.submits = self.read_tensors = self.written_tensors = self.compared_bytes = self.wrong_bytes = 0
        self.aside_s = 0.0

    def prepare(self) -> None:
        """Writes the chunks that requests will find."""
        for layer in range(self.shape.layers):
            view = self._rows(self.reads[0], self.shape.hits)
            for chunk in range(self.shape.hits):
                view[chunk] = tensors(self.shape, chunk, layer, 0)
            done = self.storage.submit_all(self._requests(Operation.WRITE, layer, 0, self.shape.hits, self.reads[0]))
            assert (done["status"] == Status.OK).all()

    def calibrate(self) -> float:
        """Seconds of moving one layer alone: what a compute of factor 1 takes."""
        flights = [self._start("read", 0), self._start("write", 0)]
        begin = min(flight.begin for flight in flights if flight is not None)
        scrap = Layer()
        for flight in flights:
            self._finish(flight, scrap)
        self.submits = self.read_tensors = self.written_tensors = 0
        self.compared_bytes, self.aside_s = 0, 0.0
        return time.perf_counter() - begin

    def run(self, number: int, compute: ComputeStandIn) -> tuple[list[Layer], float]:
        """One request. Returns its layers, and its wall clock without what the example does for itself.

        That is: making the tensors that a model would have made, and comparing bytes.
        """
        shape, layers = self.shape, [Layer() for _ in range(self.shape.layers)]
        before, begin = self.aside_s, time.perf_counter()
        reading = self._start("read", 0)
        writing: list[Flight | None] = [None, None]
        for layer in range(shape.layers):
            self._finish(reading, layers[layer])
            reading = self._start("read", layer + 1) if layer + 1 < shape.layers else None
            self._check(layer)
            at = time.perf_counter()
            layers[layer].compute_s = compute.run()
            layers[layer].spans.append(("compute", at, time.perf_counter()))
            # Its buffer is free once the write of two layers ago has ended.
            self._finish(writing[layer % 2], layers[max(layer - 2, 0)])
            self._make(layer, number)
            writing[layer % 2] = self._start("write", layer)
        for layer in range(max(shape.layers - 2, 0), shape.layers):
            self._finish(writing[layer % 2], layers[layer])
        return layers, time.perf_counter() - begin - (self.aside_s - before)

    def read_back(self, rounds: int) -> None:
        """Compares what the last request wrote, all layers of all its chunks."""
        shape = self.shape
        view = self._rows(self.writes[0], shape.misses)
        for layer in range(shape.layers) if shape.misses else ():
            asked = self._requests(Operation.READ, layer, shape.hits, shape.misses, self.writes[0])
            assert (self.storage.submit_all(asked)["status"] == Status.OK).all()
            for row in range(shape.misses):
                self._compare(view[row], tensors(shape, shape.hits + row, layer, rounds))

    # ---- one layer ----

    def _rows(self, memory: Memory, count: int) -> NDArray[np.uint64]:
        words = self.shape.tensors * self.shape.tensor_bytes // 8
        view: NDArray[np.uint64] = memory.numpy(np.uint8)[: count * words * 8].view(np.uint64).reshape(count, words)
        return view

    def _requests(self, verb: Operation, layer: int, first: int, count: int, memory: Memory) -> NDArray[np.void]:
        """The tensors of a layer of some chunks: a request each, so that a request is a stripe unit."""
        unit, tensors_each = self.shape.tensor_bytes, self.shape.tensors
        number = np.arange(tensors_each * count)
        return make_requests(
            verb,
            self.targets[first + number // tensors_each],
            nbytes=unit,
            target_offset=self.shape.offset(layer) + number % tensors_each * unit,
            memory=memory.handle,
            memory_offset=number * unit,
        )

    def _start(self, direction: str, layer: int) -> Flight | None:
        shape = self.shape
        if direction == "read":
            asked = self._requests(Operation.READ, layer, 0, shape.hits, self.reads[layer % 2])
            self.read_tensors += len(asked)
        else:
            asked = self._requests(Operation.WRITE, layer, shape.hits, shape.misses, self.writes[layer % 2])
            self.written_tensors += len(asked)
        if not len(asked):
            return None
        begin = time.perf_counter()
        said = self.storage.submit(asked)
        assert said.io is not None
        assert said.accepted.all(), "a layer is one submit: raise batch_limit"
        self.submits += 1
        return Flight(said.io, direction, layer, begin)

    def _finish(self, flight: Flight | None, layer: Layer) -> None:
        if flight is None:
            return
        begin = time.perf_counter()
        done = self.storage.wait(flight.io)
        end = time.perf_counter()
        self.storage.release(flight.io)
        assert (done["status"] == Status.OK).all()
        took = float(done["completed_ns"].max() - done["submitted_ns"].min()) / 1e9
        moved = int(done["done_bytes"].sum())
        layer.wait_s += end - begin
        layer.spans.append((flight.direction, flight.begin, end))
        if flight.direction == "read":
            layer.read_s, layer.read_bytes = took, moved
        else:
            layer.write_s, layer.write_bytes = took, moved

    def _make(self, layer: int, number: int) -> None:
        begin = time.perf_counter()
        view = self._rows(self.writes[layer % 2], self.shape.misses)
        for row in range(self.shape.misses):
            view[row] = tensors(self.shape, self.shape.hits + row, layer, number)
        self.aside_s += time.perf_counter() - begin

    def _check(self, layer: int) -> None:
        if not self.verify:
            return
        begin = time.perf_counter()
        view = self._rows(self.reads[layer % 2], self.shape.hits)
        for chunk in range(self.shape.hits):
            self._compare(view[chunk], tensors(self.shape, chunk, layer, 0))
        self.aside_s += time.perf_counter() - begin

    def _compare(self, found: NDArray[np.uint64], expected: NDArray[np.uint64]) -> None:
        self.compared_bytes += expected.nbytes
        self.wrong_bytes += int((found.view(np.uint8) != expected.view(np.uint8)).sum())
