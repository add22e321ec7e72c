"""Bring-up, reset and shutdown of a controller, against a small one of the tests' own."""

from __future__ import annotations

import struct

import pytest
from fake_controller import MS, FakeController, opened

from tutti_hal.errors import (
    CommandFailed,
    ControllerError,
    ControllerFatal,
    ControllerGone,
    ControllerTimeout,
    ControllerUnsupported,
    QueueInvalid,
)
from tutti_hal.nvme.handle import ControllerHandle, HandleOptions
from tutti_hal.nvme.memory import Dma, DmaMemory, Registers


def test_the_fake_speaks_the_protocols() -> None:
    fake = FakeController()
    assert isinstance(fake, Registers)
    assert isinstance(fake.bus, Dma)
    assert isinstance(fake.bus.allocate(1), DmaMemory)


# ---- bring-up ----


def test_bring_up_order() -> None:
    fake = FakeController()
    with opened(fake, admin_depth=8) as handle:
        assert handle.controller.sn == "FAKE0001"
        assert str(handle.version) == "1.4.0"
        assert fake.aqa == 7 | 7 << 16
        offsets = [offset for offset, _ in fake.stores]
        # AQA, ASQ, ACQ before the store of CC that sets EN.
        enabling = next(i for i, (o, v) in enumerate(fake.stores) if o == 0x14 and v & 1)
        assert {0x24, 0x28, 0x2C, 0x30, 0x34} <= set(offsets[:enabling])
        assert handle.nvm_controller is None
    assert not fake.cc & 1
    assert fake.rdy == 0
    assert fake.bus.live == []


def test_takes_over_an_enabled_controller() -> None:
    fake = FakeController()
    fake.cc, fake.rdy = 0x0046_0001, 1
    with opened(fake):
        assert fake.rdy == 1


def test_takes_over_while_another_enable_is_under_way() -> None:
    """EN must not go to 0 before RDY followed it to 1: the specification leaves that undefined."""
    fake = FakeController(ready_after_ms=50)
    fake.store32(0x24, 0x0007_0007)
    fake.store32(0x14, 0x0046_0000)
    fake.store32(0x14, 0x0046_0001)
    fake.asq = fake.acq = 0x7_0000_0000
    seen: list[int] = []
    original = fake._configure

    def configure(value: int) -> None:
        if not value & 1 and fake.cc & 1:
            seen.append(fake.rdy)
        original(value)

    fake._configure = configure  # type: ignore[method-assign]
    with opened(fake):
        pass
    assert seen == [1, 1]


def test_takes_over_an_enable_that_never_ends() -> None:
    fake = FakeController(to=2, stuck_not_ready=True)
    fake.store32(0x14, 0x0046_0000)
    fake.store32(0x14, 0x0046_0001)
    original = fake._configure

    def configure(value: int) -> None:
        if not value & 1:
            fake.stuck_not_ready = False
        original(value)

    fake._configure = configure  # type: ignore[method-assign]
    with opened(fake):
        # CAP.TO is waited for, then the reset goes on.
        assert 1000 * MS <= fake.now < 1100 * MS


def test_an_enable_that_failed_is_not_waited_for() -> None:
    fake = FakeController(to=20)
    fake.cc, fake.cfs = 0x0046_0001, 1
    with opened(fake):
        assert fake.now < 100 * MS


def test_a_failed_controller_is_reset() -> None:
    fake = FakeController()
    fake.cc, fake.rdy, fake.cfs = 0x0046_0001, 1, 1
    with opened(fake):
        assert fake.cfs == 0


@pytest.mark.parametrize(("to", "crto", "expected_ms"), [(2, 0, 1000), (0, 0, 500), (1, 6, 3000), (8, 2, 4000)])
def test_ready_timeout_is_cap_to(to: int, crto: int, expected_ms: int) -> None:
    fake = FakeController(to=to, crto=crto, stuck_not_ready=True)
    with pytest.raises(ControllerTimeout, match=r"TT-NVME-TIMEOUT.*enable"):
        opened(fake)
    enabled_at, given_up_at = [t for (o, _), t in zip(fake.stores, fake.store_times, strict=True) if o == 0x14][-2:]
    assert given_up_at - enabled_at == expected_ms * MS
    assert fake.bus.live == []


def test_stuck_ready_keeps_no_memory_before_it_was_used() -> None:
    fake = FakeController(stuck_ready=True)
    fake.cc, fake.rdy = 1, 1
    with pytest.raises(ControllerTimeout, match="disable"):
        opened(fake)
    assert fake.bus.live == []


def test_cfs_while_enabling() -> None:
    fake = FakeController(fail_on_enable=True)
    with pytest.raises(ControllerFatal, match="TT-NVME-FATAL"):
        opened(fake)
    assert fake.bus.live == []
    assert not fake.cc & 1


def test_a_failure_that_lingers_after_a_failed_enable_is_waited_out() -> None:
    """RDY was 0 all along, so only CFS tells that the reset is not over; enabling too early would find it again."""
    fake = FakeController(fail_on_enable=True)
    with pytest.raises(ControllerFatal):
        opened(fake)
    assert (fake.cc & 1, fake.rdy, fake.cfs) == (0, 0, 1), "the fake clears CFS a while after EN"
    fake.fail_on_enable = False
    with opened(fake) as handle:
        assert handle.controller.cntrltype == 1


def test_a_failure_that_never_clears_ends_in_time() -> None:
    fake = FakeController(to=4)
    fake.cfs = 1
    with pytest.raises(ControllerTimeout, match="disable the controller: CSTS is still 0x2 after 2 s"):
        opened(fake)
    assert 2000 * MS <= fake.now < 2010 * MS
    assert fake.bus.live == []


def test_absent_controller() -> None:
    fake = FakeController()
    fake.gone = True
    with pytest.raises(ControllerGone, match=r"TT-NVME-GONE.*read CAP"):
        opened(fake)
    assert fake.bus.live == []


@pytest.mark.parametrize(
    ("low", "high", "wanted", "found"),
    [(0, 4, None, 4096), (1, 4, None, 8192), (0, 4, 65536, 65536), (4, 4, None, 65536), (0, 0, 4096, 4096)],
)
def test_page_size(low: int, high: int, wanted: int | None, found: int) -> None:
    fake = FakeController(mpsmin=low, mpsmax=high)
    with ControllerHandle.open(fake, fake.bus, HandleOptions(page_bytes=wanted)) as handle:
        assert handle.limits.page_bytes == found
        assert 1 << 12 + (fake.cc >> 7 & 15) == found
        # MDTS counts in pages of MPSMIN, whatever CC.MPS says.
        assert handle.limits.mdts_bytes == (4096 << low) << 5


@pytest.mark.parametrize(
    ("low", "high", "wanted"), [(0, 1, 16384), (1, 2, 4096), (0, 4, 5000), (0, 4, 0), (3, 2, None)]
)
def test_page_size_refused(low: int, high: int, wanted: int | None) -> None:
    fake = FakeController(mpsmin=low, mpsmax=high)
    with pytest.raises(ControllerUnsupported, match="TT-NVME-UNSUPPORTED"):
        ControllerHandle.open(fake, fake.bus, HandleOptions(page_bytes=wanted))
    assert fake.stores == [], "a controller that cannot be used is not touched"


def test_command_set() -> None:
    fake = FakeController(css=0x40)
    with opened(fake):
        assert fake.cc >> 4 & 7 == 6
    with pytest.raises(ControllerUnsupported, match="command set"):
        opened(FakeController(css=0x80))


@pytest.mark.parametrize(
    ("patch", "why"), [({"b111": b"\2"}, "no I/O controller"), ({"b512": b"\x77"}, "64"), ({"b513": b"\x33"}, "64")]
)
def test_unusable_controllers(patch: dict[str, bytes], why: str) -> None:
    fake = FakeController()
    fake.identify = fake.make_identify(**patch)
    with pytest.raises(ControllerUnsupported, match=why):
        opened(fake)
    assert fake.bus.live == []
    assert not fake.cc & 1


@pytest.mark.parametrize("depth", [0, 1, 4097, -1])
def test_admin_depth(depth: int) -> None:
    with pytest.raises(QueueInvalid, match="TT-NVME-QUEUE"):
        HandleOptions(admin_depth=depth)


def test_scattered_admin_memory_is_refused() -> None:
    fake = FakeController()
    fake.bus.scatter = True
    with pytest.raises(QueueInvalid, match="contiguous"):
        opened(fake, admin_depth=128)
    assert fake.bus.live == []


def test_out_of_dma_memory() -> None:
    fake = FakeController()
    fake.bus.fail_after = 2
    with pytest.raises(MemoryError):
        opened(fake)
    assert fake.bus.live == []


def test_identify_never_answered() -> None:
    fake = FakeController(lost={0x06})
    with pytest.raises(ControllerTimeout, match="identify"):
        opened(fake, command_timeout_ns=50 * MS)
    assert fake.bus.live == []
    assert not fake.cc & 1


def test_nvm_identify_limits() -> None:
    fake = FakeController(nvm_identify=bytes((2, 3)).ljust(4096, b"\0"))
    with opened(fake) as handle:
        assert handle.limits.verify_bytes == 4096 << 2
        assert handle.limits.write_zeroes_bytes == 4096 << 3


def test_limits() -> None:
    fake = FakeController(mqes=1022, dstrd=3, cqr=0)
    with opened(fake) as handle:
        limits = handle.limits
        assert (limits.max_depth, limits.dstrd, limits.contiguous_queues) == (1023, 3, False)
        assert limits.sgl.usable
        assert limits.sgl.bit_bucket
        assert limits.volatile_write_cache
        assert limits.flush_all_namespaces
        assert (limits.compare, limits.dataset_management, limits.write_zeroes, limits.verify) == (True,) * 4
        assert not limits.shadow_doorbells


def test_no_transfer_limit() -> None:
    fake = FakeController(namespaces={1: FakeController.make_namespace(1 << 40)})
    fake.identify = fake.make_identify(b77=b"\0", b256=struct.pack("<H", 1 << 8))
    with opened(fake) as handle:
        assert handle.limits.mdts_bytes is None
        assert handle.limits.shadow_doorbells
        assert handle.limits.max_blocks(handle.namespace(1)) == 65536


# ---- the end ----


def test_close_order() -> None:
    fake = FakeController()
    handle = opened(fake)
    handle.create_queue_pair(8)
    mark = len(fake.stores)
    handle.close()
    cc = [v for o, v in fake.stores[mark:] if o == 0x14]
    assert [v >> 14 & 3 for v in cc] == [1, 0]
    assert [v & 1 for v in cc] == [1, 0]
    assert [op for op, _ in fake.log][-2:] == [0x00, 0x04]
    handle.close()
    assert fake.bus.live == []


def test_stuck_shutdown_is_reported_and_disables() -> None:
    fake = FakeController(stuck_shutdown=True)
    handle = opened(fake, shutdown_timeout_ns=30 * MS)
    with pytest.raises(ControllerTimeout, match="shut"):
        handle.close()
    assert not fake.cc & 1
    assert fake.bus.live == []


def test_shutdown_time_of_the_controller_counts() -> None:
    fake = FakeController(shutdown_after_ms=80)
    fake.identify = fake.make_identify(b88=struct.pack("<I", 100_000))
    with opened(fake, shutdown_timeout_ns=30 * MS):
        pass
    assert fake.bus.live == []


def test_memory_stays_when_the_controller_cannot_be_stopped() -> None:
    fake = FakeController()
    handle = opened(fake)
    handle.create_queue_pair(8)
    fake.stuck_ready = True
    live = len(fake.bus.live)
    with pytest.raises(ControllerTimeout, match="disable"):
        handle.close()
    # What the deleted queue pair used is free; the admin queues and the page are not.
    assert len(fake.bus.live) == live - 2 == 3


def test_an_exception_inside_is_not_hidden() -> None:
    fake = FakeController(stuck_shutdown=True)
    with pytest.raises(ZeroDivisionError) as caught, opened(fake, shutdown_timeout_ns=30 * MS):
        raise ZeroDivisionError
    assert any("closing the controller failed" in note for note in caught.value.__notes__)
    assert [v >> 14 & 3 for o, v in fake.stores if o == 0x14][-2:] == [2, 0]


def test_a_refused_deletion_does_not_keep_the_shutdown_from_going_on() -> None:
    fake = FakeController()
    handle = opened(fake)
    handle.create_queue_pair(8)
    handle.create_queue_pair(8)
    fake.failing[0x00] = (0, 6, 0)
    mark = len(fake.stores)
    with pytest.raises(CommandFailed, match="internal-error"):
        handle.close()
    assert [v >> 14 & 3 for o, v in fake.stores[mark:] if o == 0x14] == [1, 0]
    assert [op for op, _ in fake.log][-2:] == [0x00, 0x00]
    assert fake.bus.live == []


def test_reset_that_fails_leaves_nothing() -> None:
    fake = FakeController()
    handle = opened(fake)
    handle.create_queue_pair(8)
    fake.stuck_not_ready = True
    with pytest.raises(ControllerTimeout, match="enable"):
        handle.reset()
    assert fake.bus.live == []
    with pytest.raises(ControllerError, match="closed"):
        handle.create_queue_pair(8)
    handle.close()


def test_reset_starts_a_new_epoch() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        pair = handle.create_queue_pair(8)
        handle.reset()
        assert handle.epoch == pair.epoch + 1
        assert handle.pairs == ()
        with pytest.raises(QueueInvalid, match="exist"):
            handle.delete_queue_pair(pair)
        assert handle.create_queue_pair(8).epoch == handle.epoch
    assert fake.bus.live == []
