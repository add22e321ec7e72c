"""The rig on real rings and controllers: cut batches, drives that refuse, and counters that add up."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from tutti_hal.errors import RigError, TransportError
from tutti_hal.nvme.software import FaultAction, FaultRule
from tutti_hal.profile import select
from tutti_hal.workload.rig import Rig, RigOptions
from tutti_hal.workload.transport import TRANSFER, Direction

pytestmark = pytest.mark.ring

UNIT = 32 * 1024
BATCH = 8


@pytest.fixture
def rig() -> Iterator[Rig]:
    options = RigOptions(drives=3, drive_bytes=16 * UNIT, arena_bytes=40 * UNIT, memory=True, batch=BATCH, depth=4)
    with Rig.open(select("host"), options) as opened:
        yield opened


def _transfers(count: int, drives: int) -> NDArray[np.void]:
    transfers = np.empty(count, TRANSFER)
    number = np.arange(count)
    transfers["drive"] = number % drives
    transfers["drive_offset"] = number // drives * UNIT
    transfers["arena_offset"] = (number * 7 % count) * UNIT  # not the order of the drives
    transfers["nbytes"] = UNIT
    return transfers


def test_batches_above_the_ring_and_the_queues_are_cut_and_come_back(rig: Rig) -> None:
    count = 2 * BATCH + 3
    transfers = _transfers(count, 3)
    source = np.random.default_rng(1).integers(0, 256, count * UNIT, np.uint8)
    rig.arena[: len(source)] = source
    written = rig.submit(Direction.WRITE, transfers).wait()
    rig.arena[:] = 0xEE
    read = rig.submit(Direction.READ, transfers).wait()
    assert (rig.arena[: len(source)] == source).all()
    assert (rig.arena[len(source) :] == 0xEE).all(), "nothing beyond what was asked for"
    assert 0 < written.seconds < 10
    assert 0 < read.seconds < 10
    counted = rig.statistics()
    assert counted.host_calls < 12 * 6
    assert counted.batches == 6, "three pieces each way"
    assert counted.commands == 2 * count
    assert counted.drive_read_bytes == counted.drive_written_bytes
    assert sum(counted.drive_read_bytes) == count * UNIT
    assert counted.doorbells_seen <= counted.doorbells <= counted.commands


def test_host_calls_do_not_grow_with_the_batch(rig: Rig) -> None:
    calls = []
    for count in (1, BATCH):
        before = rig.statistics()
        rig.submit(Direction.WRITE, _transfers(count, 3)).wait()
        calls.append(rig.statistics().since(before).host_calls)
    assert calls[0] == calls[1] > 0


@pytest.mark.parametrize("direction", list(Direction))
def test_a_drive_that_refuses_is_named_with_its_status(rig: Rig, direction: Direction) -> None:
    opcode = 1 if direction is Direction.WRITE else 2
    # 2/81h: unrecovered read error; 2/80h: write fault.
    status = (2, 0x80 if direction is Direction.WRITE else 0x81)
    rig._controllers[1].inject(FaultRule(action=FaultAction.STATUS, opcode=opcode, nth=2, count=1, status=status))
    transfers = _transfers(BATCH, 3)
    with pytest.raises(TransportError) as caught:
        rig.submit(direction, transfers).wait()
    assert "of drive 1" in caught.value.tried
    assert any(f"at byte {n * UNIT} " in caught.value.tried for n in range(3))
    assert f"{status[0]:x}/{status[1]:02X}h" in caught.value.found
    assert "1 of the batch" in caught.value.found
    # The rig goes on.
    assert rig.submit(direction, transfers).wait().seconds > 0


def test_a_byte_flipped_behind_the_controller_is_read(rig: Rig) -> None:
    transfers = _transfers(3, 3)
    rig.arena[:] = 0
    rig.submit(Direction.WRITE, transfers).wait()
    rig.flip_byte(2, 5)
    rig.submit(Direction.READ, transfers).wait()
    at = int(transfers["arena_offset"][2]) + 5
    assert rig.arena[at] == 0xFF
    assert np.flatnonzero(rig.arena).tolist() == [at]


def test_it_says_what_it_is(rig: Rig) -> None:
    setting = rig.setting(7)
    assert setting.controller == "software controller, emulated: 3 drives of 1 MiB, memory"
    assert (setting.mode, setting.medium, setting.direct_io, setting.seed) == ("threads", "memory", False, 7)
    assert (rig.medium_name(0), rig.medium_path(0)) == ("memory", None)


def test_mode_sim_is_refused_with_the_reason() -> None:
    def refused() -> None:
        with Rig.open(select("host:sim-w32"), RigOptions(1, UNIT, UNIT, memory=True)):
            pass

    with pytest.raises(RigError, match="mode sim has one thread"):
        refused()
