"""The storage runtime's costs on software drives: opens, registrations, submits, throughput beside the raw ring."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BenchError
from tutti_hal.io_uring.completion import succeeded
from tutti_hal.io_uring.options import RingOptions
from tutti_hal.io_uring.ring import Ring
from tutti_hal.storage import (
    BlockSource,
    Operation,
    RuntimeOptions,
    SoftwareDrive,
    Status,
    StorageRuntime,
    make_requests,
    open_software_drives,
    path_uri,
)

if TYPE_CHECKING:
    from tutti_hal.profile import Profile
    from tutti_hal.shim import Device

_FILE_BYTES = 8192
_OBJECT_BYTES = 512 << 10
_POOL_BYTES = 64 << 20
_REQUESTS = 4096
_RING = RingOptions(depth=1024, queues=(1, 1), batch_limit=_REQUESTS, batches=2)


@dataclass(frozen=True)
class Load:
    """What is measured.

    Attributes:
        files: how many are opened at once, for each figure.
        parts: registrations of parts.
        rounds: of each figure; medians are told.
        folder: where files are made; None: the temporary folder.
    """

    files: tuple[int, ...] = (500, 10_000)
    parts: int = 100_000
    rounds: int = 5
    folder: Path | None = None


def measure_storage(profile: Profile, load: Load | None = None) -> dict[str, Any]:
    """Measures on software drives in memory. Bytes that were moved are compared.

    Raises:
        BenchError: bytes or statuses were not right.
        DrivesInvalid: software controllers cannot serve the profile.
    """
    from tutti_hal.shim import Device

    load = load or Load()
    device = Device(profile)
    return {
        "profile": str(profile),
        "drives": "software, emulated, in memory",
        "opens": [_opens(device, count, load) for count in load.files],
        "registration": _registration(device, load),
        "submit": _submit(device, load),
        "throughput": _throughput(device, load),
    }


def _median(rounds: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(rounds))


def _opens(device: Device, count: int, load: Load) -> dict[str, Any]:
    """``open_batch`` beside ``open`` in a loop, on real files; the drive in memory stands for their device."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tutti-hal-", dir=load.folder)))
        found = folder.stat().st_dev
        source = BlockSource("device", os.major(found), os.minor(found))
        size = Path(f"/sys/dev/block/{source.major}:{source.minor}/size")
        if not size.exists():
            return {"files": count, "not_run": f"{folder.parent} lies on no block device"}
        nbytes = int(size.read_text(encoding="ascii")) * 512
        drives = open_software_drives(device, [SoftwareDrive(name="d0", nbytes=nbytes)], stack)
        drives[0] = replace(drives[0], source=source)
        runtime = stack.enter_context(StorageRuntime.create(device, drives, RuntimeOptions(ring=_RING)))
        uris = []
        for number in range(count):
            path = folder / f"{number}.bin"
            path.write_bytes(bytes(_FILE_BYTES))
            uris.append(path_uri(str(path)))
        # The first time dirty pages are written back.
        outcome = runtime.open_batch(uris)
        if outcome.failed:
            error = next(one for one in outcome.errors if one is not None)
            return {"files": count, "not_run": str(error)}
        runtime.close_batch(outcome.handles)

        def batch() -> float:
            begin = time.perf_counter()
            opened = runtime.open_batch(uris)
            seconds = time.perf_counter() - begin
            runtime.close_batch(opened.handles)
            return seconds

        def loop() -> float:
            begin = time.perf_counter()
            handles = [runtime.open(uri) for uri in uris]
            seconds = time.perf_counter() - begin
            runtime.close_batch(handles)
            return seconds

        together, alone = _median(load.rounds, batch), _median(load.rounds, loop)
    return {
        "files": count,
        "open_batch_ms": together * 1e3,
        "open_loop_ms": alone * 1e3,
        "loop_over_batch": alone / together,
    }


def _registration(device: Device, load: Load) -> dict[str, Any]:
    import numpy as np

    with ExitStack() as stack:
        drives = open_software_drives(device, [SoftwareDrive(name="d0", nbytes=1 << 20)], stack)
        runtime = stack.enter_context(StorageRuntime.create(device, drives))
        begin = time.perf_counter()
        memory = runtime.allocate(_POOL_BYTES)
        first = time.perf_counter() - begin
        offsets = np.arange(load.parts, dtype=np.uint64) * np.uint64(_POOL_BYTES // load.parts // 4 * 4)

        def parts() -> float:
            begin = time.perf_counter()
            handles = runtime.register_parts(memory.handle, offsets, 4)
            seconds = time.perf_counter() - begin
            runtime.unregister(handles)
            return seconds

        each = _median(load.rounds, parts) / load.parts
    return {"pool_bytes": _POOL_BYTES, "pool_ms": first * 1e3, "parts": load.parts, "part_us": each * 1e6}


def _submit(device: Device, load: Load) -> dict[str, Any]:
    """What the caller waits for: judging and packing 4,096 requests of one block, and the launch."""
    import numpy as np

    at = np.arange(_REQUESTS, dtype=np.uint64) * np.uint64(4096)
    nbytes = _REQUESTS * 4096
    with ExitStack() as stack:
        drives = open_software_drives(device, [SoftwareDrive(name="d0", nbytes=nbytes)], stack)
        runtime = stack.enter_context(StorageRuntime.create(device, drives, RuntimeOptions(ring=_RING)))
        memory, target = runtime.allocate(nbytes), runtime.open("raw://d0")
        requests = make_requests(
            Operation.READ, target, nbytes=4096, target_offset=at, memory=memory.handle, memory_offset=at
        )
        ring, buffer = _raw_ring(device, nbytes, stack)

        def through_runtime() -> float:
            begin = time.perf_counter()
            said = runtime.submit(requests)
            seconds = time.perf_counter() - begin
            if said.io is None or not bool(said.accepted.all()):
                raise BenchError("submit", "requests were refused", "Report it: this is a fault of the runtime.")
            _require_ok(runtime.wait(said.io)["status"])
            runtime.release(said.io)
            return seconds

        def through_ring() -> float:
            begin = time.perf_counter()
            iocb = ring.get_iocb()
            iocb.read(ring.targets[0], at >> np.uint64(12), 4096, buffer, at)
            ring.issue_io(iocb)
            seconds = time.perf_counter() - begin
            _require_good(ring, iocb)
            return seconds

        through_runtime(), through_ring()
        pairs = [(through_runtime(), through_ring()) for _ in range(load.rounds)]
    mine, raw = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"requests": _REQUESTS, "runtime_us": mine * 1e6, "ring_us": raw * 1e6, "runtime_over_ring": mine / raw}


def _throughput(device: Device, load: Load) -> dict[str, Any]:
    """Reads of 512 KiB, from submit to result, beside the same reads through the ring alone."""
    import numpy as np

    count = _POOL_BYTES // _OBJECT_BYTES
    at = np.arange(count, dtype=np.uint64) * np.uint64(_OBJECT_BYTES)
    with ExitStack() as stack:
        controllers: list[Any] = []
        drives = open_software_drives(
            device,
            [SoftwareDrive(name="d0", nbytes=_POOL_BYTES)],
            stack,
            adjust=lambda _, controller: controllers.append(controller),
        )
        runtime = stack.enter_context(StorageRuntime.create(device, drives, RuntimeOptions(ring=_RING)))
        memory, target = runtime.allocate(_POOL_BYTES), runtime.open("raw://d0")
        source = np.random.default_rng(1).integers(0, 256, _POOL_BYTES, np.uint8)
        controllers[0].write_stored(1, 0, source.tobytes())
        requests = make_requests(
            Operation.READ, target, nbytes=_OBJECT_BYTES, target_offset=at, memory=memory.handle, memory_offset=at
        )
        ring, buffer = _raw_ring(device, _POOL_BYTES, stack)

        def through_runtime() -> float:
            begin = time.perf_counter()
            _require_ok(runtime.submit_all(requests)["status"])
            return time.perf_counter() - begin

        def through_ring() -> float:
            begin = time.perf_counter()
            iocb = ring.get_iocb()
            iocb.read(ring.targets[0], at >> np.uint64(12), _OBJECT_BYTES, buffer, at)
            ring.issue_io(iocb)
            _require_good(ring, iocb)
            return time.perf_counter() - begin

        through_runtime(), through_ring()
        pairs = [(through_runtime(), through_ring()) for _ in range(load.rounds)]
        if not bool((memory.numpy() == source).all()):
            raise BenchError("compare what was read", "bytes differ", "Report it: this is a fault of the runtime.")
    mine, raw = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {
        "object_bytes": _OBJECT_BYTES,
        "objects": count,
        "runtime_gb_per_s": _POOL_BYTES / mine / 1e9,
        "ring_gb_per_s": _POOL_BYTES / raw / 1e9,
        "runtime_over_ring": raw / mine,
    }


def _raw_ring(device: Device, nbytes: int, stack: ExitStack) -> tuple[Ring, Any]:
    """A ring of the same options over a drive of the same kind, and registered memory."""
    (drive,) = open_software_drives(device, [SoftwareDrive(name="raw", nbytes=nbytes)], stack)
    ring = stack.enter_context(Ring.init_queue(device, [drive.drive], _RING))
    memory = drive.drive.dma.allocate(nbytes)
    stack.callback(memory.close)
    # Before its memory goes: callbacks run backwards.
    stack.callback(ring.close)
    return ring, ring.register(memory)


def _require_ok(statuses: Any) -> None:
    if not bool((statuses == Status.OK).all()):
        raise BenchError("read", "requests did not end well", "Report it: this is a fault of the runtime.")


def _require_good(ring: Ring, iocb: Any) -> None:
    if not bool(succeeded(ring.wait_cqe(iocb)).all()):
        raise BenchError("read", "requests did not end well", "Report it: this is a fault of the ring.")
