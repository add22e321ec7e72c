"""The device controller on HOST's threads: bytes, statuses, order, bounds. The oracle is the source, or the rules."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from tutti_hal.errors import (
    DeviceControllerCrowded,
    DeviceControllerEnded,
    DeviceControllerOptionInvalid,
    DeviceControllerServing,
    NamespaceInvalid,
    QueueInvalid,
    QueuesRefused,
    RuntimeFailure,
)
from tutti_hal.io_uring import Drive, Ring, RingOptions
from tutti_hal.io_uring.completion import succeeded
from tutti_hal.nvme.bus_memory import BusMemory
from tutti_hal.nvme.device_controller import DeviceController, DeviceControllerOptions
from tutti_hal.nvme.queues import QueuePair
from tutti_hal.shim import Device

pytestmark = pytest.mark.ring

SPACE = 3 << 20
LIMIT_S = 20
OPTIONS = DeviceControllerOptions(blocks=2, threads=64, limit_ns=LIMIT_S * 10**9, max_transfer_bytes=1 << 20, queues=8)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("host:threads-w32")


@pytest.fixture
def controller(device: Device) -> Iterator[DeviceController]:
    with DeviceController(device, SPACE // 512, OPTIONS) as made:
        yield made


def noise(nbytes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


# ---- through the ring ----


@pytest.mark.parametrize("kind", ["device", "mapped"])
@pytest.mark.parametrize("sgl", [True, False], ids=["sgl", "prp"])
def test_every_byte_comes_and_goes(controller: DeviceController, sgl: bool, kind: str) -> None:
    options = RingOptions(depth=8, queues=(3,), lanes=128, use_sgl=sgl, limit_ns=LIMIT_S * 10**9)
    with ExitStack() as stack:
        memory = controller.dma(kind).allocate(SPACE)
        stack.callback(memory.close)
        drive = Drive(handle=controller.handle, dma=controller.dma(kind))
        ring = stack.enter_context(Ring.init_queue(controller.device, [drive], options))
        buffer = ring.register(memory)
        stack.enter_context(controller.serve())
        commands = 0
        # A block; a page; two pages; lists, of which one goes on in a second page: 512 entries name 2 MiB.
        for turn, size in enumerate((512, 4096, 8192, 12800, 131072)):
            count = min((1 << 19) // size, 50)
            place = np.arange(count)
            skip = (2 << 20) - 2 * size
            stored = noise(SPACE, turn)
            controller.write_stored(0, stored.tobytes())
            memory.write(0, bytes(SPACE))
            batch = ring.get_iocb()
            batch.read(ring.targets[0], place * (size // 512), size, buffer, skip + place * size)
            batch.flush(ring.targets[0])
            ring.issue_io(batch)
            assert succeeded(ring.wait_cqe(batch)).all()
            whole = count * size
            assert memory.read(0, SPACE) == bytes(skip) + stored[:whole].tobytes() + bytes(SPACE - whole - skip)

            sent = noise(SPACE, 100 + turn)
            memory.write(0, sent.tobytes())
            batch = ring.get_iocb()
            # Backwards, so that places in the buffer and in the namespace differ.
            batch.write(ring.targets[0], place[::-1] * (size // 512), size, buffer, skip + place * size)
            ring.issue_io(batch)
            assert succeeded(ring.wait_cqe(batch)).all()
            turned = sent[skip : skip + whole].reshape(count, size)[::-1].reshape(-1)
            assert controller.read_stored(0, SPACE) == turned.tobytes() + stored[whole:].tobytes()
            commands += 2 * count + 1
        controller.stop()
        assert sum(one.commands for one in controller.counts()) == commands
        assert all(one.rounds <= one.commands for one in controller.counts())
        assert ring.statistics().total("strays") == 0


@pytest.mark.parametrize("offset", [4, 512, 2048, 4092])
def test_a_range_may_begin_anywhere_in_a_page(controller: DeviceController, offset: int) -> None:
    with ExitStack() as stack:
        memory = controller.dma().allocate(1 << 20)
        stack.callback(memory.close)
        drive = Drive(handle=controller.handle, dma=controller.dma())
        ring = stack.enter_context(
            Ring.init_queue(controller.device, [drive], RingOptions(depth=8, lanes=32, use_sgl=False))
        )
        buffer = ring.register(memory)
        stored = noise(SPACE, offset)
        controller.write_stored(0, stored.tobytes())
        with controller.serve():
            for size in (512, 4096, 8192, 61440):
                memory.write(0, bytes(1 << 20))
                batch = ring.get_iocb()
                batch.read(ring.targets[0], 3, size, buffer, offset)
                ring.issue_io(batch)
                assert succeeded(ring.wait_cqe(batch)).all()
                found = memory.read(0, size + 8192)
                assert found == bytes(offset) + stored[1536 : 1536 + size].tobytes() + bytes(8192 - offset)


def test_it_goes_on_where_it_stopped(controller: DeviceController) -> None:
    with ExitStack() as stack:
        memory = controller.dma().allocate(1 << 16)
        stack.callback(memory.close)
        drive = Drive(handle=controller.handle, dma=controller.dma())
        ring = stack.enter_context(Ring.init_queue(controller.device, [drive], RingOptions(depth=4, lanes=32)))
        buffer = ring.register(memory)
        for life in range(3):
            with controller.serve():
                for turn in range(3):
                    stored = noise(5 * 4096, 10 * life + turn)
                    controller.write_stored(0, stored.tobytes())
                    batch = ring.get_iocb()
                    place = np.arange(5)
                    batch.read(ring.targets[0], place * 8, 4096, buffer, place * 4096)
                    ring.issue_io(batch)
                    assert succeeded(ring.wait_cqe(batch)).all()
                    assert memory.read(0, len(stored)) == stored.tobytes()
        assert [one.commands for one in controller.counts()] == [45]


def test_the_null_one_completes_and_moves_nothing(device: Device) -> None:
    options = DeviceControllerOptions(blocks=2, threads=64, limit_ns=LIMIT_S * 10**9, null=True)
    with DeviceController(device, 1024, options) as controller, ExitStack() as stack:
        memory = controller.dma().allocate(1 << 16)
        stack.callback(memory.close)
        drive = Drive(handle=controller.handle, dma=controller.dma())
        ring = stack.enter_context(Ring.init_queue(device, [drive], RingOptions(depth=16, queues=(4,), lanes=128)))
        buffer = ring.register(memory)
        controller.write_stored(0, noise(512 * 1024, 1).tobytes())
        with controller.serve():
            batch = ring.get_iocb()
            batch.read(ring.targets[0], np.arange(1000) % 1024, 512, buffer, 0)
            ring.issue_io(batch)
            assert succeeded(ring.wait_cqe(batch)).all()
        assert memory.read(0, 1 << 16) == bytes(1 << 16)
        assert sum(one.commands for one in controller.counts()) == 1000


# ---- entry by entry, as a host without a ring ----


class Line:
    """One queue pair, driven by hand."""

    def __init__(self, controller: DeviceController, depth: int = 4, cq_depth: int | None = None) -> None:
        self.controller = controller
        self.pair: QueuePair = controller.handle.create_queue_pair(depth, cq_depth=cq_depth)
        self.registers: BusMemory = controller.handle._registers
        self.tail = self.head = 0

    def send(self, *entries: bytes) -> None:
        for entry in entries:
            self.pair.sq_memory.write(64 * (self.tail % self.pair.depth), entry)
            self.tail += 1
        self.registers.write(self.pair.sq_tail_offset, (self.tail % self.pair.depth).to_bytes(4, "little"))

    def take(self, wait_s: float = LIMIT_S / 2) -> tuple[int, ...] | None:
        """The next completion's dwords; None when none comes."""
        lap, slot = divmod(self.head, self.pair.cq_depth)
        end = time.monotonic() + wait_s
        while time.monotonic() < end:
            if self.pair.cq_memory.load32(16 * slot + 12) >> 16 & 1 != lap & 1:
                self.head += 1
                raw = self.pair.cq_memory.read(16 * slot, 16)
                return tuple(int.from_bytes(raw[at : at + 4], "little") for at in range(0, 16, 4))
        return None

    def tell(self) -> None:
        self.controller.handle.write_cq_head(self.pair, self.head % self.pair.cq_depth)


def entry(
    opcode: int,
    cid: int = 7,
    *,
    nsid: int = 1,
    first: int = 0,
    second: int = 0,
    lba: int = 0,
    blocks: int = 1,
    flags: int = 0,
) -> bytes:
    words = [opcode | flags << 8 | cid << 16, nsid]
    return (
        b"".join(word.to_bytes(4, "little") for word in words)
        + bytes(16)
        + first.to_bytes(8, "little")
        + second.to_bytes(8, "little")
        + lba.to_bytes(8, "little")
        + (blocks - 1).to_bytes(4, "little")
        + bytes(12)
    )


def test_completions_have_head_phase_and_identifier(controller: DeviceController) -> None:
    line = Line(controller, depth=3)
    with controller.serve():
        for number in range(11):
            line.send(entry(0, cid=number))
            found = line.take()
            assert found is not None
            lap = number // 3
            assert found[2] == line.pair.qid << 16 | (number + 1) % 3
            assert found[3] == number | (~lap & 1) << 16, "success has no other bit"
            line.tell()


def test_a_completion_queue_is_never_overrun(controller: DeviceController) -> None:
    line = Line(controller, depth=8, cq_depth=2)
    with controller.serve():
        line.send(*[entry(0, cid=number) for number in range(5)])
        for number in range(5):
            found = line.take()
            assert found is not None
            assert found[3] & 0xFFFF == number
            # There is one entry at a time, until the host says that it has read it.
            assert line.take(0.05) is None
            line.tell()


def test_what_is_wrong_is_a_status_and_no_access(controller: DeviceController) -> None:
    memory = controller.dma().allocate(1 << 16)
    stranger = controller.device.allocate(8192, "mapped")  # the controller was told nothing of it
    line = Line(controller, depth=2)
    at, data = memory.address, 16 * 512
    last = SPACE // 512
    listing = memory.address + 4096
    cases = {
        "opcode": (entry(0x7F, first=at), 0x01),
        "fused": (entry(2, first=at, flags=1), 0x02),
        "namespace": (entry(2, first=at, nsid=2), 0x0B),
        "flush of all": (entry(0, nsid=0xFFFFFFFF), 0),
        "behind the last block": (entry(2, first=at, lba=last), 0x80),
        "over the last block": (entry(2, first=at, lba=last - 1, blocks=2), 0x80),
        "a block that wraps": (entry(2, first=at, lba=2**64 - 1, blocks=2), 0x80),
        "the last block": (entry(2, first=at, lba=last - 1), 0),
        "MDTS": (entry(2, first=at, blocks=(OPTIONS.max_transfer_bytes >> 9) + 1), 0x02),
        "PSDT": (entry(2, first=at, flags=2 << 6), 0x02),
        "SGL type": (entry(2, first=at, second=0x20 << 56 | 512, flags=1 << 6), 0x11),
        "SGL subtype": (entry(2, first=at, second=0x01 << 56 | 512, flags=1 << 6), 0x11),
        "SGL too short": (entry(2, first=at, second=511, flags=1 << 6), 0x0F),
        "SGL": (entry(2, first=at, second=512, flags=1 << 6), 0),
        "SGL to a stranger": (entry(2, first=stranger.address, second=512, flags=1 << 6), 0x04),
        "SGL over the end": (entry(2, first=at + (1 << 16) - 256, second=512, flags=1 << 6), 0x04),
        "PRP to a stranger": (entry(2, first=stranger.address + 4096), 0x04),
        "PRP to nothing": (entry(2, first=4096), 0x04),
        "PRP1 off a dword": (entry(2, first=at + 2), 0x13),
        "PRP2 in a page": (entry(2, first=at, second=at + 4096 + 8, blocks=16), 0x13),
        "PRP2 to a stranger": (entry(2, first=at, second=4096, blocks=16), 0x04),
        "list off a qword": (entry(2, first=at, second=listing + 4, blocks=24), 0x13),
        "list of a stranger": (entry(2, first=at, second=stranger.address, blocks=24), 0x04),
        "list of nothing": (entry(2, first=at, second=listing, blocks=24), 0x04),
    }
    stored = noise(SPACE, 3)
    controller.write_stored(0, stored.tobytes())
    stranger.numpy()[:] = before = noise(8192, 4)
    with controller.serve():
        for cid, (name, (sqe, status)) in enumerate(cases.items()):
            memory.write(0, bytes(1 << 16))
            line.send(sqe[:2] + cid.to_bytes(2, "little") + sqe[4:])
            found = line.take()
            assert found is not None, name
            assert (found[3] >> 17, found[3] & 0xFFFF) == (status, cid), name
            if status in (0x01, 0x0B, 0x80, 0x0F, 0x11):
                assert memory.read(0, data) == bytes(data), f"{name}: nothing moves"
            line.tell()
        assert controller.read_stored(0, SPACE) == stored.tobytes()
        assert (stranger.numpy() == before).all()
    stranger.close()
    controller.handle.delete_queue_pair(line.pair)
    memory.close()


# ---- life ----


def test_while_it_serves_nothing_is_made_or_given_back(controller: DeviceController) -> None:
    memory = controller.dma().allocate(4096)
    line = Line(controller)
    with controller.serve():
        for refused in (
            lambda: controller.dma().allocate(4096),
            lambda: controller.handle.create_queue_pair(4),
            lambda: controller.handle.delete_queue_pair(line.pair),
            lambda: controller.handle.recreate_queue_pairs([line.pair]),
            controller.handle.reset,
            controller.start,
        ):
            with pytest.raises(DeviceControllerServing):
                refused()
        # What is dropped, or closed, waits for the kernel's end, and nobody waits for it: that would take LIMIT_S.
        begin = time.monotonic()
        controller.device.allocate(4096)
        controller.device.allocate(4096).close()
        gc.collect()
        memory.write(0, b"x" * 4096)
        assert time.monotonic() - begin < LIMIT_S * 3 / 4
    memory.close()
    assert not controller.device.holds_releases


def test_it_stops_soon_and_ends_by_itself(device: Device) -> None:
    with DeviceController(device, 64, OPTIONS) as controller:
        Line(controller)
        begin = time.monotonic()
        with controller.serve():
            pass
        assert time.monotonic() - begin < LIMIT_S * 3 / 4
    short = DeviceControllerOptions(blocks=1, threads=32, limit_ns=50_000_000)
    with DeviceController(device, 64, short) as controller:
        Line(controller)
        controller.start()
        time.sleep(1.0)
        with pytest.raises(DeviceControllerEnded):
            controller.stop()
        assert not controller.serving


def test_a_kernel_that_failed_leaves_it_stopped(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    with DeviceController(device, 64, OPTIONS) as controller:
        Line(controller)
        controller.start()
        failure = RuntimeFailure("query an event", "the kernel failed", "Look at it.")

        def query() -> bool:
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(controller._ended, "query", query)
            with pytest.raises(RuntimeFailure) as raised:
                controller.stop()
        assert raised.value is failure
        assert not controller.serving
        assert not device.holds_releases
        # What a device would have ended by itself.
        controller._stop_word.numpy(np.uint32)[0] += 1


def test_bad_options_are_refused(device: Device, controller: DeviceController) -> None:
    for wrong in ({"blocks": 0}, {"lba_bytes": 768}, {"lba_bytes": 256}, {"max_transfer_bytes": 5000}, {"queues": 0}):
        with pytest.raises(DeviceControllerOptionInvalid):
            DeviceControllerOptions(**wrong)
    with pytest.raises(DeviceControllerOptionInvalid, match="whole waves"):
        DeviceController(device, 64, DeviceControllerOptions(threads=48))
    with pytest.raises(DeviceControllerOptionInvalid):
        controller.start()
    assert not controller.serving
    many = DeviceControllerOptions(blocks=1 << 10, threads=1024, queues=64)
    with DeviceController(device, 64, many) as crowd:
        for _ in range(64):
            crowd.handle.create_queue_pair(2)
        with pytest.raises(DeviceControllerCrowded):
            crowd.start()


def test_the_handle_refuses_what_it_has_not(controller: DeviceController) -> None:
    handle = controller.handle
    with pytest.raises(NamespaceInvalid):
        handle.namespace(2)
    with pytest.raises(QueuesRefused):
        handle.grant_queues(9, minimum=9)
    first = handle.create_queue_pair(4)
    for wrong in ({"completes_to": first}, {"qid": first.qid}, {"qid": 9}, {"cq_depth": 1}):
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(4, **wrong)
    for _ in range(7):
        handle.create_queue_pair(4)
    with pytest.raises(QueuesRefused):
        handle.create_queue_pair(4)
    handle.delete_queue_pair(first)
    with pytest.raises(QueueInvalid):
        handle.delete_queue_pair(first)
    assert handle.abort(1, 0) is False
    handle.reset()
    assert handle.pairs == ()
