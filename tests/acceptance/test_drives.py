"""A user's ring over drives that are too small, too large, full or mean: an error or a status, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tutti_hal.errors import DepthInvalid, NamespaceAbsent, QueueInvalid, QueuesRefused, RequestInvalid
from tutti_hal.io_uring import Drive, Ring, RingOptions, succeeded
from tutti_hal.nvme.handle import ControllerHandle
from tutti_hal.nvme.software import ControllerConfig, FileNamespace, MemoryNamespace, SoftwareController
from tutti_hal.shim import Device

pytestmark = pytest.mark.ring

Open = Callable[..., tuple[Ring, SoftwareController]]

_SMALL = MemoryNamespace(blocks=1024, lba_shift=9)


@pytest.fixture
def open_ring() -> Iterator[Open]:
    """Makes a ring over one drive; options of the ring by name, those of the drive as a mapping."""
    with ExitStack() as stack:

        def make(drive: dict[str, Any] | None = None, **options: Any) -> tuple[Ring, SoftwareController]:
            config = ControllerConfig(**{"namespaces": (_SMALL,)} | (drive or {}))
            controller = stack.enter_context(SoftwareController(config))
            controller.start()
            handle = stack.enter_context(ControllerHandle.open(controller.registers, controller.dma))
            over = [Drive(handle=handle, dma=controller.dma)]
            ring = Ring.init_queue(Device("host:threads-w32"), over, RingOptions(**options))
            stack.callback(ring.close)
            return ring, controller

        yield make


def batch(ring: Ring, verb: str, *arguments: object) -> np.ndarray:
    """One batch of one call, to its end."""
    iocb = ring.get_iocb()
    getattr(iocb, verb)(ring.targets[0], *arguments)
    ring.issue_io(iocb)
    return ring.wait_cqe(iocb)


@pytest.mark.parametrize("depth", [2, 3, 7])
def test_small_and_odd_depths_move_whole_laps(open_ring: Open, depth: int) -> None:
    ring, controller = open_ring(depth=depth)
    source = np.random.default_rng(depth).bytes(60 * 512)
    with closing(controller.dma.allocate(1 << 16)) as memory:
        buffer = ring.register(memory)
        memory.write(0, source)
        at = np.arange(60)
        assert succeeded(batch(ring, "write", at, 512, buffer, at * 512)).all()
        assert controller.read_stored(1, 0, len(source)) == source
        memory.write(0, bytes(len(source)))
        assert succeeded(batch(ring, "read", at, 512, buffer, at * 512)).all()
        assert memory.read(0, len(source)) == source
        ring.unregister(buffer)


def test_what_a_drive_cannot_give_is_refused(open_ring: Open) -> None:
    with pytest.raises(DepthInvalid, match="Use a depth of 2 or more"):
        open_ring(depth=1)
    with pytest.raises(QueueInvalid, match="At most 31 entries"):
        open_ring({"mqes": 30}, depth=32)
    with pytest.raises(QueuesRefused, match="1 granted, 2 needed"):
        open_ring({"io_queues": 1}, queues=(1, 1))
    with pytest.raises(NamespaceAbsent, match="none has an active namespace"):
        open_ring({"namespaces": ()})
    ring, _ = open_ring({"mqes": 30, "io_queues": 1}, depth=31)
    for nsid in (0, 2, 0xFFFFFFFF):
        with pytest.raises(NamespaceAbsent, match="its active namespaces are: 1"):
            ring.target(0, nsid)


def test_arrays_of_different_lengths_are_refused(open_ring: Open) -> None:
    ring, controller = open_ring()
    with closing(controller.dma.allocate(4096)) as memory:
        buffer = ring.register(memory)
        iocb = ring.get_iocb()
        with pytest.raises(RequestInvalid, match=r"have the shapes \(\), \(3,\), \(4,\), \(\)"):
            iocb.read(ring.targets[0], np.arange(3), np.full(4, 512), buffer, 0)
        assert len(iocb) == 0
        ring.put_iocb(iocb)
        ring.unregister(buffer)


def test_a_block_past_two_to_the_32_is_that_block_of_the_file(open_ring: Open, tmp_path: Path) -> None:
    """The file is sparse. A driver that cuts the number to 32 bits would write block 5."""
    far, near = (1 << 32) + 5, 5
    path = tmp_path / "far.img"
    with path.open("wb") as file:
        file.truncate((1 << 32) * 512 + (1 << 20))
    ring, controller = open_ring({"namespaces": (FileNamespace(path=path, lba_shift=9),)})
    with closing(controller.dma.allocate(1 << 14)) as memory:
        buffer = ring.register(memory)
        memory.write(0, b"far!" * 128)
        memory.write(4096, b"\xee" * 1024)
        assert succeeded(batch(ring, "write", far, 512, buffer, 0)).all()
        assert succeeded(batch(ring, "read", np.array([near, far]), 512, buffer, np.array([4096, 4608]))).all()
        assert memory.read(4096, 1024) == bytes(512) + b"far!" * 128
        assert succeeded(batch(ring, "flush")).all()
        ring.unregister(buffer)
    with path.open("rb") as file:
        file.seek(far * 512)
        assert file.read(512) == b"far!" * 128


def test_a_disk_that_is_full_in_the_middle_is_a_status_and_reads_go_on(tiny_disk: Path, open_ring: Open) -> None:
    path = tiny_disk / "sparse.img"
    with path.open("wb") as file:
        file.truncate(64 << 20)
    ring, controller = open_ring({"namespaces": (FileNamespace(path=path, lba_shift=9),)})
    with closing(controller.dma.allocate(1 << 17)) as memory:
        buffer = ring.register(memory)
        memory.write(0, b"\x5a" * (1 << 17))
        done = batch(ring, "write", np.arange(100) * 256, 1 << 17, buffer, 0)
        good = succeeded(done)
        assert 0 < good.sum() < 64, "8 MiB do not hold 64 times 128 KiB"
        assert {(int(d["sct"]), int(d["sc"])) for d in done[~good]} == {(0, 0x81)}, "Capacity Exceeded"
        kept = int(np.argmax(good))
        memory.write(0, bytes(1 << 17))
        assert succeeded(batch(ring, "read", kept * 256, 1 << 17, buffer, 0)).all()
        assert memory.read(0, 1 << 17) == b"\x5a" * (1 << 17)
        ring.unregister(buffer)
