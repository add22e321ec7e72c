"""The runtime in a deterministic world: time goes on in blocking calls, a deadline is exact, any seed replays."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
from storage_rig import noise

from tutti_hal.backends.host.sim import SimOptions, World
from tutti_hal.conformance_tests.drives import BLOCK, bring_up, drive
from tutti_hal.nvme.software import FaultAction, FaultRule, SoftwareController
from tutti_hal.shim import Device
from tutti_hal.storage import Operation, Reason, RingOptions, RuntimeOptions, Status, StorageRuntime, make_requests
from tutti_hal.storage.drives import StorageDrive, host_mapper

pytestmark = [pytest.mark.storage, pytest.mark.ring]


@pytest.mark.parametrize("arch", ["sim-w32", "sim-w128"])
def test_a_round_trip_over_two_drives_and_a_deadline(arch: str) -> None:
    from tutti_hal.io_uring import Drive

    device = Device(f"host:{arch}")
    device.reset()
    world = World(device)
    world.reset(SimOptions(policy="random"))
    with ExitStack() as stack:
        drives = []
        controllers = []
        for number in range(2):
            controller = stack.enter_context(SoftwareController(drive(blocks=4096)))
            controllers.append(controller)
            handle = bring_up(device, world, controller, stack)
            one = Drive(handle=handle, dma=controller.dma)
            drives.append(StorageDrive(name=f"d{number}", drive=one, map_memory=host_mapper(controller.iommu)))
        ring = RingOptions(depth=8, queues=(1, 1), batch_limit=64, batches=2, limit_ns=2_000_000)
        with StorageRuntime.create(device, drives, RuntimeOptions(ring=ring)) as storage:
            target = storage.open(f"striped://d0,d1?unit={3 * BLOCK}&size=64KiB")
            memory = storage.allocate(16 * BLOCK)
            memory.numpy()[:] = source = noise(16 * BLOCK, 3)
            asked = {"nbytes": 4 * BLOCK, "target_offset": np.arange(4) * 4 * BLOCK, "memory": memory.handle}
            asked["memory_offset"] = asked["target_offset"]
            done = storage.submit_all(make_requests(Operation.WRITE, target, **asked))
            assert done["status"].tolist() == [Status.OK] * 4
            for unit in range(5):
                stored = controllers[unit % 2].read_stored(1, unit // 2 * 3 * BLOCK, 3 * BLOCK)
                assert stored == source[unit * 3 * BLOCK : (unit + 1) * 3 * BLOCK].tobytes()
            memory.numpy()[:] = 0
            done = storage.submit_all(make_requests(Operation.READ, target, **asked))
            assert (memory.numpy() == source).all()
            controllers[1].inject(FaultRule(action=FaultAction.STUCK, count=1))
            done = storage.submit_all(make_requests(Operation.READ, target, **asked))
            assert Reason.NO_ANSWER in done["reason"]
            assert [one.works for one in storage.recover("d1")] == [True]
            done = storage.submit_all(make_requests(Operation.READ, target, **asked))
            assert done["status"].tolist() == [Status.OK] * 4
