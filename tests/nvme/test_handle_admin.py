"""Admin commands and namespaces of the handle, against a small controller of the tests' own."""

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
    NamespaceInvalid,
    NvmeFieldRange,
    QueueInvalid,
)

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


def test_hints_and_atomicity() -> None:
    plain = bytearray(FakeController.make_namespace(8))
    struct.pack_into("<HH", plain, 64, 7, 3)
    struct.pack_into("<H", plain, 36, 31)
    told = bytearray(plain)
    told[24] = 1 << 1 | 1 << 4
    fake = FakeController(namespaces={1: bytes(plain), 2: bytes(told)})
    fake.identify = fake.make_identify(b528=struct.pack("<H", 15), b514=struct.pack("<H", 64))
    with opened(fake) as handle:
        first, second = handle.namespace(1), handle.namespace(2)
        assert (first.write_granularity_lba, first.write_alignment_lba, first.atomic_write_lba) == (1, 1, 16)
        assert (second.write_granularity_lba, second.write_alignment_lba, second.atomic_write_lba) == (8, 4, 32)
        assert handle.limits.max_outstanding == 64


def test_formats_with_metadata() -> None:
    make = FakeController.make_namespace
    protected = bytearray(make(8, 12, 8, inline=True))
    protected[29] = 1
    fake = FakeController(
        namespaces={1: make(8), 2: make(8, 12, 8, inline=True), 3: make(8, 12, 8), 4: bytes(protected)}
    )
    with opened(fake) as handle:
        found = [handle.namespace(nsid) for nsid in (1, 2, 3, 4)]
        assert [(n.metadata_bytes, n.metadata_inline, n.protection) for n in found] == [
            (0, False, 0),
            (8, True, 0),
            (8, False, 0),
            (8, True, 1),
        ]


def test_more_namespaces_than_one_list_takes() -> None:
    """Ids ascend over several lists; the second starts after the last of the first."""
    one = FakeController.make_namespace(8)
    fake = FakeController(namespaces=dict.fromkeys(range(2, 2500, 2), one))
    with opened(fake) as handle:
        assert handle.namespaces() == tuple(range(2, 2500, 2))
