"""Drives that fail, submits that are cancelled or interrupted: what is told, and that nothing stays under DMA."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from storage_rig import MIB, Rig, noise

from tutti_hal.errors import RecoveryFailed, StorageBusy
from tutti_hal.nvme.software import FaultAction, FaultRule
from tutti_hal.storage import Operation, Reason, SoftwareDrive, Status, make_requests

pytestmark = pytest.mark.storage

READ, WRITE = Operation.READ, Operation.WRITE


def three() -> tuple[SoftwareDrive, ...]:
    """Drives that differ in size, block, and transfer limit."""
    return (
        SoftwareDrive(name="d0", nbytes=8 * MIB, lba_bytes=512, mdts=3),
        SoftwareDrive(name="d1", nbytes=16 * MIB, lba_bytes=4096, mdts=5),
        SoftwareDrive(name="d2", nbytes=24 * MIB, lba_bytes=512, mdts=0),
    )


def test_a_set_over_three_different_drives_in_one_launch() -> None:
    unit = 72 * 1024  # 64 tokens of an MLA layer, 18 KiB for 16
    with Rig(*three()) as rig:
        runtime = rig.runtime
        target = runtime.open(f"striped://d0,d1,d2?unit={unit}&rotation=1")
        info = runtime.target(target)
        rows = [nbytes * MIB // unit for nbytes in (8, 16, 24)]
        assert (info.size, info.block, info.drives) == (sum(rows) * unit, 4096, ("d0", "d1", "d2"))
        nbytes = 30 * unit
        memory = runtime.allocate(nbytes)
        memory.numpy()[:] = source = noise(nbytes, 9)
        calls = rig.device.host_calls.total()
        said = runtime.submit(make_requests(WRITE, target, nbytes=nbytes, memory=memory.handle))
        # One copy, one launch, one event, and two looks: whatever number of drives and commands.
        assert rig.device.host_calls.total() - calls <= 4
        assert said.io is not None
        done = runtime.wait(said.io)
        assert done["status"].tolist() == [Status.OK]
        assert int(done["done_bytes"][0]) == nbytes
        for number in range(30):
            member, row = (number + 1) % 3, number // 3
            stored = rig.stored(f"d{member}", row * unit, unit)
            assert stored == source[number * unit : (number + 1) * unit].tobytes()
        # Behind the end of the smallest drive the set goes on over the other two.
        last = make_requests(READ, target, nbytes=unit, target_offset=info.size - unit, memory=memory.handle)
        rig.controllers["d2"].write_stored(1, (rows[2] - 1) * unit, noise(unit, 10).tobytes())
        assert runtime.submit_all(last)["status"].tolist() == [Status.OK]
        assert (memory.numpy()[:unit] == noise(unit, 10)).all()


def test_one_failed_drive_fails_only_its_requests() -> None:
    with Rig(*three(), limit_ns=300_000_000) as rig:
        runtime = rig.runtime
        memory = runtime.allocate(12 * 4096)
        targets = [runtime.open(f"raw://d{number}") for number in range(3)]
        rig.controllers["d1"].inject(FaultRule(action=FaultAction.GONE, immediate=True))
        asked = make_requests(
            WRITE, np.tile(targets, 4), nbytes=4096, memory=memory.handle, memory_offset=np.arange(12) * 4096
        )
        done = runtime.submit_all(asked)
        assert done["status"].tolist() == [Status.OK, Status.DEVICE_ERROR, Status.OK] * 4
        assert set(done["reason"][1::3]) == {Reason.DRIVE_GONE}
        assert set(done["drive"][1::3]) == {1}
        # Then its queue takes nothing: those requests never run, the others do.
        done = runtime.submit_all(asked)
        assert not done["reason"][0::3].any()
        assert not done["reason"][2::3].any()
        assert set(done["reason"][1::3]) <= {Reason.DRIVE_FAILED, Reason.DRIVE_GONE}
        with pytest.raises(RecoveryFailed):
            runtime.recover("d1")
        # A drive that is gone might come back and move data: what it knew stays registered until the end.
        with pytest.raises(StorageBusy, match="shut down"):
            runtime.unregister(memory)


@pytest.mark.parametrize(
    ("status", "expected", "reason"),
    [
        ((2, 0x81), Status.DATA_LOSS, Reason.MEDIA_ERROR),
        ((2, 0x80), Status.DATA_LOSS, Reason.MEDIA_ERROR),
        ((0, 0x06), Status.DEVICE_ERROR, Reason.DRIVE_STATUS),
        ((2, 0x86), Status.DEVICE_ERROR, Reason.DRIVE_STATUS),
    ],
)
def test_a_drives_status_is_told(status: tuple[int, int], expected: Status, reason: Reason) -> None:
    """One of the 16 commands of a request fails: the request does, with the drive's own words."""
    with Rig() as rig:
        target, memory = rig.runtime.open("raw://d0"), rig.runtime.allocate(2 * MIB)
        rig.controllers["d0"].inject(FaultRule(action=FaultAction.STATUS, status=status, dnr=True, nth=5, count=1))
        (bad,) = rig.runtime.submit_all(make_requests(READ, target, nbytes=2 * MIB, memory=memory.handle))
        assert (bad["status"], bad["reason"], bad["drive"]) == (expected, reason, 0)
        assert (bad["sct"], bad["sc"], bool(bad["dnr"])) == (*status, True)
        (good,) = rig.runtime.submit_all(make_requests(READ, target, nbytes=2 * MIB, memory=memory.handle))
        assert good["status"] == Status.OK


def test_a_timeout_holds_memory_until_recovery() -> None:
    with Rig(limit_ns=100_000_000) as rig:
        runtime = rig.runtime
        target, memory = runtime.open("raw://d0"), runtime.allocate(4096)
        rig.controllers["d0"].inject(FaultRule(action=FaultAction.STUCK, count=1))
        (done,) = runtime.submit_all(make_requests(READ, target, nbytes=4096, memory=memory.handle))
        assert (done["status"], done["reason"]) == (Status.TIMEOUT, Reason.NO_ANSWER)
        with pytest.raises(StorageBusy):
            runtime.unregister(memory)
        (done,) = runtime.submit_all(make_requests(READ, target, nbytes=4096, memory=memory.handle))
        assert (done["status"], done["reason"]) == (Status.NOT_READY, Reason.DRIVE_FAILED)
        assert [one.works for one in runtime.recover("d0")] == [True]
        (done,) = runtime.submit_all(make_requests(READ, target, nbytes=4096, memory=memory.handle))
        assert done["status"] == Status.OK
        runtime.unregister(memory)


def test_cancel_ends_what_is_stuck_and_gives_the_memory_back() -> None:
    with Rig(*three()) as rig:
        runtime = rig.runtime
        memory = runtime.allocate(2 * 4096)
        stuck, fine = runtime.open("raw://d0"), runtime.open("raw://d1")
        rig.controllers["d0"].inject(FaultRule(action=FaultAction.STUCK, count=1))
        said = runtime.submit(
            make_requests(WRITE, [stuck, fine], nbytes=4096, memory=memory.handle, memory_offset=[0, 4096])
        )
        assert said.io is not None
        time.sleep(0.05)
        began = time.monotonic()
        assert runtime.cancel() == 1
        assert time.monotonic() - began < 5.0  # far below the 10 s that a command may take
        done = runtime.wait(said.io)
        assert done["reason"].tolist() == [Reason.STOPPED, Reason.NONE]
        assert done["status"].tolist() == [Status.CANCELLED, Status.OK]
        # Nothing moves any more: memory goes, and the drive works.
        runtime.unregister(memory)
        again = runtime.allocate(4096)
        assert runtime.submit_all(make_requests(WRITE, stuck, nbytes=4096, memory=again.handle))["status"] == Status.OK
        assert runtime.cancel() == 0


def interrupt_soon(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_ctrl_c_in_wait_leaves_it_in_flight_and_the_end_leaves_nothing() -> None:
    rig = Rig()
    memory = rig.runtime.allocate(4096)
    target = rig.runtime.open("raw://d0")
    rig.controllers["d0"].inject(FaultRule(action=FaultAction.STUCK, count=1))
    io = rig.runtime.submit(make_requests(READ, target, nbytes=4096, memory=memory.handle)).io
    assert io is not None

    def wait_inside() -> None:
        with rig.runtime:
            interrupt_soon(0.2)
            try:
                rig.runtime.wait(io)
            except KeyboardInterrupt:
                assert not rig.runtime.query(io).ended
                raise

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        wait_inside()
    assert time.monotonic() - began < 5.0
    assert rig.runtime.state.name == "STOPPED"


def test_an_interrupted_launch_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between launch and event: nobody has the handle, and the memory stays in use until the batch ended."""
    with Rig() as rig:
        runtime = rig.runtime
        memory, target = runtime.allocate(4096), runtime.open("raw://d0")
        rig.controllers["d0"].inject(FaultRule(action=FaultAction.DELAY, delay_ns=200_000_000, count=1))
        stream_type = type(rig.device.create_stream())
        record = stream_type.record

        def torn(*_: Any) -> Any:
            monkeypatch.setattr(stream_type, "record", record)
            raise KeyboardInterrupt

        monkeypatch.setattr(stream_type, "record", torn)
        with pytest.raises(KeyboardInterrupt):
            runtime.submit(make_requests(READ, target, nbytes=4096, memory=memory.handle))
        assert runtime.in_flight == 1
        with pytest.raises(StorageBusy, match="in flight"):
            runtime.unregister(memory)
        while runtime.in_flight:
            runtime.progress()
            time.sleep(0.001)
        runtime.unregister(memory)
        assert rig.controllers["d0"].counters.io_commands == {2: 1}


def test_who_forgets_the_runtime_leaves_no_queues() -> None:
    """The batch ends before its memory and its drive do."""
    rig = Rig()
    controller = rig.controllers["d0"]
    memory, target = rig.runtime.allocate(4096), rig.runtime.open("raw://d0")
    controller.inject(FaultRule(action=FaultAction.DELAY, delay_ns=100_000_000, count=1))
    assert rig.runtime.submit(make_requests(READ, target, nbytes=4096, memory=memory.handle)).io
    ended: list[tuple[dict[int, int], int]] = []
    close = controller.close

    def look_and_close() -> None:
        # Its I/O queues were deleted before: by as many commands as there were queues.
        ended.append((controller.counters.io_commands, controller.counters.admin_commands[0]))
        close()

    controller.close = look_and_close  # type: ignore[method-assign]
    del rig.runtime, memory
    gc.collect()
    assert ended == [({2: 1}, 2)]


def test_a_read_ahead_is_abandoned() -> None:
    with Rig() as rig:
        runtime = rig.runtime
        memory, target = runtime.allocate(4096), runtime.open("raw://d0")
        rig.controllers["d0"].inject(FaultRule(action=FaultAction.DELAY, delay_ns=100_000_000, count=1))
        io = runtime.submit(make_requests(READ, target, nbytes=4096, memory=memory.handle)).io
        assert io is not None
        runtime.abandon(io)
        runtime.shutdown(10.0)
