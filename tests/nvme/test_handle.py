"""The controller handle against a small controller of the tests' own."""

from __future__ import annotations

import struct

import pytest
from fake_controller import MS, FakeController

from tutti_hal.errors import (
    CommandFailed,
    ControllerError,
    ControllerFatal,
    ControllerGone,
    ControllerTimeout,
    ControllerUnsupported,
    NamespaceInvalid,
    NvmeFieldRange,
    QueueInvalid,
    QueuesRefused,
)
from tutti_hal.nvme.handle import ControllerHandle, HandleOptions
from tutti_hal.nvme.memory import Dma, DmaMemory, Registers


def opened(fake: FakeController, **options: int) -> ControllerHandle:
    return ControllerHandle.open(fake, fake.bus, HandleOptions(**options))


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


def test_absent_controller() -> None:
    fake = FakeController()
    fake.gone = True
    with pytest.raises(ControllerGone, match="TT-NVME-GONE"):
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


# ---- admin commands ----


def test_more_commands_than_the_queue_is_deep() -> None:
    fake = FakeController()
    with opened(fake, admin_depth=2) as handle:
        for k in range(50):
            handle.set_feature(0x02, k)
            assert handle.get_feature(0x02) == k
    assert fake.bus.live == []


def test_error_status_is_typed() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        fake.failing[0x0A] = (0, 0x02, 1)
        with pytest.raises(CommandFailed, match=r"TT-NVME-STATUS.*invalid-field \(0/02h, DNR\)") as caught:
            handle.get_feature(0x55)
        assert (caught.value.status_type, caught.value.status_code, caught.value.do_not_retry) == (0, 2, True)
        fake.failing[0x0A] = (0, 0x21, 0)
        with pytest.raises(CommandFailed, match="may be tried again"):
            handle.get_feature(0x55)


def test_a_late_completion_is_counted_not_believed() -> None:
    fake = FakeController()
    with opened(fake, command_timeout_ns=20 * MS) as handle:
        fake.lost.add(0x0A)
        before = fake.now
        with pytest.raises(ControllerTimeout, match="get features"):
            handle.get_feature(0x02)
        assert 20 * MS <= fake.now - before <= 22 * MS
        fake.lost.clear()
        fake.features[2] = 7
        fake.complete(fake.withheld[0], result=0xBAD)
        assert handle.get_feature(0x02) == 7
        assert (handle.admin.late, handle.admin.unexpected) == (1, 0)
        fake.complete(0x4242, result=0xBAD)
        assert handle.get_feature(0x02) == 7
        assert handle.admin.unexpected == 1


def test_timed_out_identify_does_not_share_its_page() -> None:
    fake = FakeController(namespaces={1: FakeController.make_namespace(8)})
    with opened(fake, command_timeout_ns=20 * MS) as handle:
        fake.lost.add(0x06)
        with pytest.raises(ControllerTimeout):
            handle.namespace(1)
        fake.lost.clear()
        live = len(fake.bus.live)
        assert handle.namespace(1).capacity_lba == 8
        assert len(fake.bus.live) == live
    assert fake.bus.live == []


def test_timed_out_commands_fill_the_admin_queue() -> None:
    fake = FakeController()
    handle = opened(fake, admin_depth=4, command_timeout_ns=5 * MS)
    fake.lost.add(0x0A)
    for _ in range(3):
        with pytest.raises(ControllerTimeout):
            handle.get_feature(1)
    with pytest.raises(QueueInvalid, match="full"):
        handle.get_feature(1)
    handle.close()
    assert fake.bus.live == []


def test_removal_while_waiting() -> None:
    fake = FakeController()
    handle = opened(fake)
    fake.gone = True
    with pytest.raises(ControllerGone):
        handle.get_feature(2)
    handle.close()
    assert fake.bus.live == []
    with pytest.raises(ControllerError, match="closed"):
        handle.get_feature(2)


def test_cfs_while_waiting() -> None:
    fake = FakeController(lost={0x0A})
    handle = opened(fake)
    original = fake.serve

    def serve() -> None:
        original()
        fake.cfs = 1

    fake.serve = serve  # type: ignore[method-assign]
    with pytest.raises(ControllerFatal):
        handle.get_feature(2)
    with pytest.raises(ControllerFatal):
        handle.close()
    assert fake.bus.live == []


def test_abort_and_log_page() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        assert handle.abort(3, 17) is False
        assert fake.log[-1] == (0x08, 3 | 17 << 16)
        assert handle.log_page(2, 512) == b"\2" * 512
        for nbytes in (0, 3, 4100):
            with pytest.raises(NvmeFieldRange):
                handle.log_page(2, nbytes)


def test_events() -> None:
    fake = FakeController(aerl=1)
    with opened(fake) as handle:
        handle.request_event()
        handle.request_event()
        with pytest.raises(QueueInvalid, match="AERL"):
            handle.request_event()
        assert handle.take_events() == ()
        fake.serve()
        fake.event(0x0004_0002)
        (event,) = handle.take_events()
        assert (event.type, event.information, event.log_page) == (2, 0, 4)
        assert handle.take_events() == ()
        handle.request_event()
        # Commands go on beside outstanding requests.
        assert handle.get_feature(2) == 0
        fake.failing[0x0C] = (1, 5, 1)
    assert fake.bus.live == []


# ---- namespaces ----


def test_namespaces() -> None:
    make = FakeController.make_namespace
    fake = FakeController(
        namespaces={1: make(1 << 33), 3: make(1000, 9, 8), 4: bytes(4096), 255: make(10, 12, 64, inline=True)}
    )
    with opened(fake) as handle:
        assert handle.namespaces() == (1, 3, 255)
        first = handle.namespace(1)
        assert (first.lba_bytes, first.metadata_bytes, first.capacity_lba) == (4096, 0, 1 << 33)
        assert first.boundary_lba == 32
        assert handle.limits.max_blocks(first) == 32
        third = handle.namespace(3)
        assert (third.lba_bytes, third.metadata_bytes, third.metadata_inline) == (512, 8, False)
        assert third.transfer_bytes_per_block == 512
        last = handle.namespace(255)
        assert (last.metadata_bytes, last.metadata_inline, last.transfer_bytes_per_block) == (64, True, 4160)
        # 131072 // 4160: metadata count.
        assert handle.limits.max_blocks(last) == 31


@pytest.mark.parametrize(
    ("nsid", "why"), [(300, "does not exist"), (4, "inactive"), (0, "no id"), (0xFFFFFFFF, "no id")]
)
def test_namespace_refusals(nsid: int, why: str) -> None:
    fake = FakeController(namespaces={1: FakeController.make_namespace(8)})
    with opened(fake) as handle, pytest.raises(NamespaceInvalid, match=why):
        handle.namespace(nsid)


@pytest.mark.parametrize("lbads", [0, 8, 32, 255])
def test_block_sizes_that_cannot_be(lbads: int) -> None:
    fake = FakeController(namespaces={1: FakeController.make_namespace(8, lbads)})
    with opened(fake) as handle, pytest.raises(NamespaceInvalid, match="LBADS"):
        handle.namespace(1)


def test_block_larger_than_mdts() -> None:
    fake = FakeController(namespaces={1: FakeController.make_namespace(8, 16)})
    fake.identify = fake.make_identify(b77=b"\3")
    with opened(fake) as handle, pytest.raises(NamespaceInvalid, match="MDTS"):
        handle.limits.max_blocks(handle.namespace(1))


def test_more_namespaces_than_one_list_takes() -> None:
    """Ids ascend over several lists; the second starts after the last of the first."""
    one = FakeController.make_namespace(8)
    fake = FakeController(namespaces=dict.fromkeys(range(2, 2500, 2), one))
    with opened(fake) as handle:
        assert handle.namespaces() == tuple(range(2, 2500, 2))


# ---- I/O queues ----


@pytest.mark.parametrize("dstrd", [0, 1, 4, 15])
def test_queue_pair(dstrd: int) -> None:
    fake = FakeController(dstrd=dstrd, mqes=1022)
    with opened(fake) as handle:
        assert handle.grant_queues(4) == 4
        pair = handle.create_queue_pair(1023)
        stride = 4 << dstrd
        assert (pair.qid, pair.depth, pair.cq_depth) == (1, 1023, 1023)
        assert fake.base is not None
        assert pair.sq_tail_address == fake.base + 0x1000 + 2 * stride
        assert pair.cq_head_address == fake.base + 0x1000 + 3 * stride
        assert (pair.sqe_bytes, pair.cqe_bytes) == (64, 16)
        assert fake.bus.host(pair.sq_bus, 1023 * 64) == pair.sq_address
        assert fake.bus.host(pair.cq_bus, 1023 * 16) == pair.cq_address
        assert fake.sqs[1].cqid == 1
        second = handle.create_queue_pair(2, cq_depth=3)
        assert (second.qid, second.depth, second.cq_depth) == (2, 2, 3)
        handle.delete_queue_pair(pair)
        assert set(fake.sqs) == {0, 2}
        assert handle.create_queue_pair(16).qid == 1
        with pytest.raises(QueueInvalid, match="does not exist any more"):
            handle.delete_queue_pair(pair)
        deletions = [op for op, _ in fake.log if op in (0x00, 0x04)]
        assert deletions == [0x00, 0x04]
    assert fake.bus.live == []


def test_doorbells_out_of_reach() -> None:
    fake = FakeController(base=None)
    with opened(fake) as handle:
        pair = handle.create_queue_pair(4)
        assert pair.sq_tail_address is None
        assert pair.sq_tail_offset == 0x1008


@pytest.mark.parametrize("depth", [-1, 0, 1, 1025, 65537])
def test_depths_refused(depth: int) -> None:
    fake = FakeController()
    with opened(fake) as handle:
        live = len(fake.bus.live)
        with pytest.raises(QueueInvalid, match="TT-NVME-QUEUE"):
            handle.create_queue_pair(depth)
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(8, cq_depth=depth)
        assert len(fake.bus.live) == live
        assert not [op for op, _ in fake.log if op in (1, 5)]


@pytest.mark.parametrize(("depth", "mqes"), [(2, 1), (3, 2), (31, 30), (1024, 1023), (65536, 65535)])
def test_depths_up_to_the_limit(depth: int, mqes: int) -> None:
    fake = FakeController(mqes=mqes)
    with opened(fake) as handle:
        assert handle.create_queue_pair(depth).depth == depth
        assert fake.sqs[1].depth == depth
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(depth + 1)


def test_queue_count_comes_first_and_once() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        handle.create_queue_pair(8)
        ops = [op for op, _ in fake.log]
        assert ops.index(0x09) < ops.index(0x05) < ops.index(0x01)
        with pytest.raises(QueueInvalid, match="exist"):
            handle.grant_queues(2)
        with pytest.raises(QueueInvalid, match="exist"):
            handle.set_feature(7, 0)


@pytest.mark.parametrize(
    ("granted", "granted_cq", "wanted", "found"), [(8, None, 4, 4), (2, None, 4, 2), (1, None, 4, 1), (8, 3, 4, 3)]
)
def test_grants(granted: int, granted_cq: int | None, wanted: int, found: int) -> None:
    fake = FakeController(granted=granted, granted_cq=granted_cq)
    with opened(fake) as handle:
        assert handle.grant_queues(wanted) == found
        for qid in range(1, found + 1):
            assert handle.create_queue_pair(4).qid == qid
        with pytest.raises(QueuesRefused, match="all"):
            handle.create_queue_pair(4)
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(4, qid=found + 1)
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(4, qid=0)
        with pytest.raises(QueueInvalid, match="it exists"):
            handle.create_queue_pair(4, qid=1)


def test_queues_refused() -> None:
    fake = FakeController(refuse_queues=True)
    with opened(fake) as handle, pytest.raises(QueuesRefused, match="TT-NVME-QUEUES-REFUSED"):
        handle.create_queue_pair(8)
    fake = FakeController(granted=2)
    with opened(fake) as handle:
        with pytest.raises(QueuesRefused, match="2 granted, 3 needed"):
            handle.grant_queues(4, minimum=3)
        for wanted in (0, -1, 65536):
            with pytest.raises(NvmeFieldRange):
                handle.grant_queues(wanted)


def test_refused_submission_queue_leaves_nothing() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        handle.grant_queues(2)
        live = len(fake.bus.live)
        fake.failing[0x01] = (1, 2, 1)
        with pytest.raises(CommandFailed):
            handle.create_queue_pair(8)
        assert set(fake.cqs) == {0}
        assert len(fake.bus.live) == live
        assert handle.pairs == ()


def test_unanswered_creation_keeps_the_memory() -> None:
    """The controller may have created the queue: its memory must outlive it."""
    fake = FakeController(lost={0x01})
    handle = opened(fake, command_timeout_ns=5 * MS)
    handle.grant_queues(2)
    live = len(fake.bus.live)
    with pytest.raises(ControllerTimeout):
        handle.create_queue_pair(8)
    assert len(fake.bus.live) == live + 2
    handle.close()
    assert fake.bus.live == []


def test_queue_memory_of_the_caller() -> None:
    fake = FakeController()
    sq = fake.bus.allocate(8 * 64, contiguous=True)
    cq = fake.bus.allocate(8 * 16, contiguous=True)
    cq.write(0, b"\xff" * 128)
    with opened(fake) as handle:
        pair = handle.create_queue_pair(8, sq_memory=sq, cq_memory=cq)
        assert pair.sq_address == sq.address
        again = handle.recreate_queue_pair(pair)
        assert again == pair
        handle.delete_queue_pair(again)
        with pytest.raises(QueueInvalid, match="needed"):
            handle.create_queue_pair(65, sq_memory=sq, cq_memory=cq)
    assert fake.bus.live == [sq, cq]
    assert not sq.closed


@pytest.mark.parametrize("cqr", [0, 1])
def test_scattered_queue_memory(cqr: int) -> None:
    fake = FakeController(cqr=cqr)
    sq = fake.bus.allocate(256 * 64)
    cq = fake.bus.allocate(512 * 16)
    with opened(fake) as handle:
        if cqr:
            with pytest.raises(QueueInvalid, match="contiguous"):
                handle.create_queue_pair(256, cq_depth=512, sq_memory=sq, cq_memory=cq)
            return
        live = len(fake.bus.live)
        pair = handle.create_queue_pair(256, cq_depth=512, sq_memory=sq, cq_memory=cq)
        for slot in (0, 63, 64, 255):
            assert fake.bus.host(fake.sqs[1].address(slot * 64, 64), 64) == sq.address + slot * 64
        pair = handle.recreate_queue_pair(pair)
        handle.delete_queue_pair(pair)
        assert len(fake.bus.live) == live


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
