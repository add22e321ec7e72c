"""What submit takes and what it refuses, request by request; what was refused never ran."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from storage_rig import MIB, Rig, noise

from tutti_hal.errors import (
    HandleInvalid,
    MemoryRefused,
    RequestsInvalid,
    StorageBusy,
    StorageStopped,
    StorageTimeout,
)
from tutti_hal.nvme.software import FaultAction, FaultRule
from tutti_hal.shim import Device
from tutti_hal.storage import (
    EXPLAINED,
    NO_DRIVE,
    Access,
    Flags,
    Operation,
    Reason,
    RingOptions,
    RuntimeOptions,
    RuntimeState,
    SoftwareDrive,
    Status,
    make_requests,
    request_dtype,
    result_dtype,
)

pytestmark = pytest.mark.storage

READ, WRITE, FLUSH = Operation.READ, Operation.WRITE, Operation.FLUSH


def test_records_have_their_layout() -> None:
    """The ABI: offsets and sizes are written here once more, by hand."""
    request, result = request_dtype(), result_dtype()
    assert (request.itemsize, result.itemsize) == (48, 48)
    assert {name: request.fields[name][1] for name in request.names} == {  # type: ignore[union-attr,index]
        "operation": 0,
        "flags": 1,
        "queue_class": 2,
        "reserved": 3,
        "tag": 4,
        "nbytes": 8,
        "memory": 16,
        "memory_offset": 24,
        "target": 32,
        "target_offset": 40,
    }
    assert {name: result.fields[name][1] for name in result.names} == {  # type: ignore[union-attr,index]
        "status": 0,
        "reason": 1,
        "sct": 2,
        "sc": 3,
        "dnr": 4,
        "reserved": 5,
        "tag": 8,
        "drive": 12,
        "commands": 16,
        "reserved_2": 20,
        "done_bytes": 24,
        "submitted_ns": 32,
        "completed_ns": 40,
    }
    assert set(EXPLAINED) == set(Reason)


def test_every_request_is_judged_for_itself() -> None:
    with Rig() as rig:
        runtime = rig.runtime
        target, small = runtime.open("raw://d0?size=64KiB"), runtime.open("raw://d0?offset=1MiB&size=64KiB&mode=r")
        memory = runtime.allocate(64 * 1024)
        reader = int(runtime.register_parts(memory.handle, 0, 4096, Access.DRIVE_READS)[0])
        good = {
            "operation": READ,
            "target": target,
            "memory": memory.handle,
            "nbytes": 4096,
            "target_offset": 0,
            "memory_offset": 0,
            "flags": 0,
            "queue_class": 0,
        }
        wrong = [
            ({"operation": 0}, Reason.OPERATION_UNKNOWN),
            ({"operation": 9}, Reason.OPERATION_UNKNOWN),
            ({"operation": WRITE, "flags": 2}, Reason.FLAGS_UNKNOWN),
            ({"flags": Flags.DURABLE}, Reason.FLAGS_UNKNOWN),
            ({"queue_class": 3}, Reason.QUEUE_CLASS_ABSENT),
            ({"memory": 0}, Reason.MEMORY_HANDLE),
            ({"memory": target}, Reason.MEMORY_HANDLE),
            ({"target": memory.handle}, Reason.TARGET_HANDLE),
            ({"nbytes": 0}, Reason.LENGTH_ZERO),
            ({"nbytes": 512}, Reason.LENGTH_UNALIGNED),
            ({"target_offset": 8}, Reason.TARGET_UNALIGNED),
            ({"memory_offset": 2}, Reason.MEMORY_UNALIGNED),
            ({"target_offset": 64 * 1024}, Reason.TARGET_BOUNDS),
            ({"nbytes": 68 * 1024}, Reason.TARGET_BOUNDS),
            ({"target_offset": (1 << 64) - 4096}, Reason.TARGET_BOUNDS),
            ({"memory_offset": 62 * 1024}, Reason.MEMORY_BOUNDS),
            ({"memory_offset": (1 << 64) - 4}, Reason.MEMORY_BOUNDS),
            ({"memory": reader}, Reason.MEMORY_ACCESS),
            ({"target": small, "operation": WRITE}, Reason.TARGET_READ_ONLY),
            ({}, Reason.NONE),
            ({"memory_offset": 4}, Reason.NONE),
            ({"operation": WRITE, "memory": reader}, Reason.NONE),
            ({"operation": WRITE, "flags": Flags.DURABLE}, Reason.NONE),
            ({"operation": FLUSH, "memory": 0, "nbytes": 0}, Reason.NONE),
            ({"target": small, "queue_class": 2}, Reason.NONE),
        ]
        rows = [{**good, **change} for change, _ in wrong]
        requests = make_requests(**{name: [row[name] for row in rows] for name in good})
        done = runtime.submit_all(requests)
        assert [Reason(int(found)) for found in done["reason"]] == [reason for _, reason in wrong]
        for (_, reason), row in zip(wrong, done, strict=True):
            assert row["status"] == EXPLAINED[reason].status
        assert done["tag"].tolist() == list(range(len(wrong)))
        ran = [reason is Reason.NONE for _, reason in wrong]
        assert (done["commands"] > 0).tolist() == ran
        # Reads, writes and flushes that the drive saw: those that were accepted, and no other.
        counted = rig.controllers["d0"].counters.io_commands
        assert counted == {2: 3, 1: 2, 0: 1}


def test_no_request_at_all_and_no_request_that_is_good() -> None:
    with Rig() as rig:
        said = rig.runtime.submit(make_requests([], [], nbytes=[]))
        assert (said.io, len(said.initial)) == (None, 0)
        said = rig.runtime.submit(make_requests(READ, 0, nbytes=4096))
        assert said.io is None
        assert not said.accepted.any()
        assert rig.runtime.in_flight == 0
        with pytest.raises(RequestsInvalid):
            rig.runtime.submit(np.zeros(3))  # type: ignore[arg-type]
        with pytest.raises(RequestsInvalid, match="nbytes is"):
            make_requests(READ, 0, nbytes=-1)
        with pytest.raises(RequestsInvalid, match="flags has 300"):
            make_requests(READ, 0, flags=300)


def test_partial_commit_and_its_resubmission() -> None:
    """A batch of 8 commands: of 20 requests the first 8 run, the rest never does, until it is submitted again."""
    with Rig(batch_limit=8, batches=2) as rig:
        runtime = rig.runtime
        target, memory = runtime.open("raw://d0"), runtime.allocate(20 * 4096)
        memory.numpy()[:] = source = noise(20 * 4096, 5)
        at = np.arange(20) * 4096
        requests = make_requests(WRITE, target, nbytes=4096, target_offset=at, memory=memory.handle, memory_offset=at)
        said = runtime.submit(requests)
        assert said.io is not None
        assert said.accepted.tolist() == [True] * 8 + [False] * 12
        assert said.again.tolist() == [False] * 8 + [True] * 12
        assert set(said.initial["reason"][8:]) == {Reason.BATCH_FULL}
        done = runtime.wait(said.io)
        assert done["status"].tolist() == [Status.OK] * 8 + [Status.RESOURCE_EXHAUSTED] * 12
        assert rig.stored("d0", 0, 8 * 4096) == source[: 8 * 4096].tobytes()
        assert rig.stored("d0", 8 * 4096, 12 * 4096) == bytes(12 * 4096)
        runtime.release(said.io)
        done = runtime.submit_all(requests)
        assert (done["status"] == Status.OK).all()
        assert done["tag"].tolist() == list(range(20))
        assert rig.stored("d0", 0, 20 * 4096) == source.tobytes()
        large = runtime.allocate(2 * MIB)
        too_many = runtime.submit(make_requests(WRITE, target, nbytes=2 * MIB, memory=large.handle))
        assert too_many.initial["reason"].tolist() == [Reason.COMMANDS_TOO_MANY]


def test_results_that_nobody_releases_hold_submits_up() -> None:
    with Rig(options=RuntimeOptions(max_results=2)) as rig:
        target, memory = rig.runtime.open("raw://d0"), rig.runtime.allocate(4096)
        one = make_requests(READ, target, nbytes=4096, memory=memory.handle)
        ios = [rig.runtime.submit(one).io for _ in range(2)]
        for io in ios:
            assert io is not None
            rig.runtime.wait(io)
        said = rig.runtime.submit(one)
        assert (said.io, said.initial["reason"][0]) == (None, Reason.RESULTS_HELD)
        assert ios[0] is not None
        rig.runtime.release(ios[0])
        io = rig.runtime.submit(one).io
        assert io is not None
        assert rig.runtime.wait(io)["status"].tolist() == [Status.OK]


def slow(rig: Rig, delay_ns: int, count: int = 1) -> None:
    rig.controllers["d0"].inject(FaultRule(action=FaultAction.DELAY, delay_ns=delay_ns, count=count))


def test_what_is_in_flight_cannot_be_taken_away() -> None:
    with Rig() as rig:
        runtime = rig.runtime
        target, memory = runtime.open("raw://d0"), runtime.allocate(8192)
        idle = runtime.allocate(4096)
        (part,) = runtime.register_parts(memory.handle, 4096, 4096)
        slow(rig, 300_000_000)
        io = runtime.submit(make_requests(READ, target, nbytes=4096, memory=int(part))).io
        assert io is not None
        for call, argument in ((runtime.close, target), (runtime.unregister, [int(part)]), (runtime.release, io)):
            with pytest.raises(StorageBusy):
                call(argument)  # type: ignore[operator]
        with pytest.raises(StorageBusy, match="1 parts of it are registered"):
            runtime.unregister(memory)
        assert not runtime.query(io).ended
        assert runtime.target(target).in_flight == 1
        with pytest.raises(StorageTimeout):
            runtime.wait(io, 0.0)
        with pytest.raises(StorageTimeout):
            runtime.shutdown(0.0)
        assert runtime.state is RuntimeState.DRAINING
        # Memory that nothing in flight uses may go all the same.
        runtime.unregister(idle)
        with pytest.raises(StorageStopped):
            runtime.submit(make_requests(READ, target, nbytes=4096, memory=int(part)))
        with pytest.raises(StorageStopped):
            runtime.open("raw://d0")
        assert runtime.wait(io)["status"].tolist() == [Status.OK]
        runtime.unregister([int(part)])
        runtime.unregister(memory)
        runtime.close(target)
        runtime.shutdown()
        runtime.shutdown()
        assert runtime.state is RuntimeState.STOPPED
        for call in (runtime.wait, runtime.release, runtime.query, runtime.close, runtime.target):
            with pytest.raises(StorageStopped):
                call(io)


def test_what_is_given_back_twice_is_refused_the_second_time() -> None:
    with Rig() as rig:
        runtime = rig.runtime
        target, memory = runtime.open("raw://d0"), runtime.allocate(4096)
        io = runtime.submit(make_requests(READ, target, nbytes=4096, memory=memory.handle)).io
        assert io is not None
        runtime.wait(io)
        for call, argument in ((runtime.release, io), (runtime.unregister, memory.handle), (runtime.close, target)):
            call(argument)
            with pytest.raises(HandleInvalid) as refused:
                call(argument)
            assert refused.value.fix
        with pytest.raises(HandleInvalid):
            runtime.wait(io)
        runtime.shutdown()
        with pytest.raises(StorageStopped):
            runtime.wait(io)


def test_memory_that_cannot_be_registered() -> None:
    with Rig(buffers=3) as rig:
        runtime = rig.runtime
        device = rig.device
        buffer = device.allocate(64 * 1024, "mapped")
        pages = np.zeros(3 * 4096, np.uint8)
        skip = -pages.ctypes.data % 4096
        handle = runtime.register(pages[skip : skip + 8192])
        with pytest.raises(MemoryRefused, match="already"):
            runtime.register(pages[skip : skip + 4096])
        with pytest.raises(MemoryRefused, match="drives use pages of 4096"):
            runtime.register(np.zeros(100, np.uint8))
        with pytest.raises(MemoryRefused, match="not a positive length"):
            runtime.allocate(0)
        buffer.close()
        with pytest.raises(MemoryRefused, match="closed"):
            runtime.register(buffer)
        with pytest.raises(MemoryRefused, match="given twice"):
            runtime.unregister([handle, handle])
        for offsets, nbytes in ((8192, 1), (0, 8193), (2, 4), (0, 0)):
            with pytest.raises(MemoryRefused):
                runtime.register_parts(handle, offsets, nbytes)
        runtime.allocate(4096)
        runtime.allocate(4096)
        with pytest.raises(MemoryRefused, match="3 are registered"):
            runtime.allocate(4096)
        runtime.unregister(handle)
        runtime.allocate(4096)
    other = Device("host:threads-w64")
    with Rig() as rig, pytest.raises(MemoryRefused, match="runtime's device is"):
        rig.runtime.register(other.allocate(4096, "mapped"))


def test_a_numpy_array_is_read_into() -> None:
    with Rig() as rig:
        raw = np.zeros(3 * 4096, np.uint8)
        array = raw[-raw.ctypes.data % 4096 :][:8192]
        handle = rig.runtime.register(array)
        rig.controllers["d0"].write_stored(1, 4096, noise(8192, 8).tobytes())
        target = rig.runtime.open("raw://d0")
        done = rig.runtime.submit_all(make_requests(READ, target, nbytes=8192, target_offset=4096, memory=handle))
        assert done["status"].tolist() == [Status.OK]
        assert (array == noise(8192, 8)).all()
        rig.runtime.unregister(handle)


def test_memory_that_is_closed_too_early_stays_until_it_is_unregistered() -> None:
    with Rig() as rig:
        buffer = rig.device.allocate(1 << 20, "mapped")
        base = -buffer.host_address % 4096
        if base:
            pytest.skip("this device does not give whole pages")
        handle = rig.runtime.register(buffer)
        slow(rig, 100_000_000)
        target = rig.runtime.open("raw://d0")
        io = rig.runtime.submit(make_requests(READ, target, nbytes=1 << 20, memory=handle)).io
        buffer.close()
        assert io is not None
        assert rig.runtime.wait(io)["status"].tolist() == [Status.OK]
        rig.runtime.unregister(handle)


def test_threads_submit_open_and_close_at_once() -> None:
    with Rig(batches=3) as rig:
        runtime = rig.runtime
        memory = runtime.allocate(8 * 65536)
        wrong: list[object] = []

        def work(number: int) -> None:
            try:
                (mine,) = runtime.register_parts(memory.handle, number * 65536, 65536)
                view = memory.numpy()[number * 65536 : (number + 1) * 65536]
                at = np.arange(16) * 4096
                for turn in range(6):
                    target = runtime.open(f"raw://d0?offset={number}MiB&size=64KiB")
                    view[:] = source = noise(65536, 100 * number + turn)
                    asked = {"nbytes": 4096, "target_offset": at, "memory": int(mine), "memory_offset": at}
                    done = runtime.submit_all(make_requests(WRITE, target, **asked))
                    view[:] = 0
                    back = runtime.submit_all(make_requests(READ, target, **asked))
                    if not ((done["status"] == Status.OK).all() and (back["status"] == Status.OK).all()):
                        wrong.append((number, turn, done["reason"], back["reason"]))
                    if not (view == source).all():
                        wrong.append((number, turn, "bytes"))
                    runtime.close(target)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wrong == []
        assert runtime.in_flight == 0


def test_drives_of_one_name_are_refused() -> None:
    from tutti_hal.errors import DrivesInvalid

    with pytest.raises(DrivesInvalid, match="the name d0"):
        Rig(SoftwareDrive(name="d0", nbytes=MIB), SoftwareDrive(name="d0", nbytes=MIB))
    with pytest.raises(DrivesInvalid, match="read_class=2"):
        RuntimeOptions(ring=RingOptions(queues=(1, 1)), read_class=2)
    with pytest.raises(DrivesInvalid, match="blocks of 1000"):
        SoftwareDrive(name="x", nbytes=MIB, lba_bytes=1000)
    assert NO_DRIVE == 0xFFFFFFFF


def test_device_memory_that_was_closed_is_not_named_to_a_drive() -> None:
    """No view can keep memory that the host does not see: so requests for it are refused."""
    with Rig() as rig:
        buffer = rig.device.allocate(64 * 1024, "device")
        if buffer.address % 4096:
            pytest.skip("this device does not give whole pages")
        handle, target = rig.runtime.register(buffer), rig.runtime.open("raw://d0")
        request = make_requests(READ, target, nbytes=4096, memory=handle)
        assert rig.runtime.submit_all(request)["status"].tolist() == [Status.OK]
        buffer.close()
        said = rig.runtime.submit(request)
        assert (said.io, said.initial["reason"][0]) == (None, Reason.MEMORY_CLOSED)
        rig.runtime.unregister(handle)
