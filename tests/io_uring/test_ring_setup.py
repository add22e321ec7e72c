"""What a ring takes from each drive when it is made: formats, commands at a time, and where queues lie."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from ring_rig import BLOCK, BufferDma, Rig, drive

from tutti_hal.errors import BufferInvalid, DepthInvalid, NamespaceAbsent, NamespaceInvalid, RequestInvalid
from tutti_hal.io_uring import Drive, Protect, RingOptions, State, succeeded
from tutti_hal.nvme.queues import NamespaceInfo
from tutti_hal.nvme.software import FaultAction, FaultRule, MemoryNamespace

pytestmark = pytest.mark.ring

SECOND = 1_000_000_000
ARCHS = ["threads-w32", "sim-w32"]


def options(**fields: object) -> RingOptions:
    return RingOptions(**{"depth": 32, "lanes": 64, "block": 64, "batch_limit": 64, "limit_ns": 20 * SECOND} | fields)


# ---- formats ----


def test_separate_metadata_need_memory_of_their_own() -> None:
    """Without it a drive would move them to and from address 0."""
    spaces = (MemoryNamespace(nsid=2, blocks=64, lba_shift=9, metadata_bytes=8),)
    with Rig("threads-w32", options(), drives=[drive(namespaces=spaces)]) as rig:
        iocb, (target,) = rig.ring.get_iocb(), rig.ring.targets
        with pytest.raises(BufferInvalid, match="8 bytes of metadata a block apart, and the buffer has no memory"):
            iocb.read(target, 0, 512, rig.buffer, 0)
        pieces = rig.dma.allocate(64 * 4096)
        assert len(pieces.runs) > 1
        with pytest.raises(BufferInvalid, match=r"runs of bus addresses: a command names metadata by one address"):
            rig.ring.register(rig.memory, metadata=pieces)
        beside = rig.dma.allocate(4096, contiguous=True)
        buffer = rig.ring.register(rig.memory, metadata=beside)
        for error, offset, count, message in (
            (RequestInvalid, 256, 1, "has offset 256, and its metadata lie apart"),
            (BufferInvalid, 512 * 512, 1, "up to byte 4104 of a metadata memory of 4096"),
            (BufferInvalid, 500 * 512, 13, "up to byte 4104 of a metadata memory of 4096"),
        ):
            with pytest.raises(error, match=message):
                iocb.read(target, 0, count * 512, buffer, offset)
        assert len(iocb) == 0
        with pytest.raises(RequestInvalid, match=r"asks for .*GUARD.*, and the namespace has no"):
            iocb.read(target, 0, 512, buffer, 0, protect=Protect.GUARD)


@pytest.mark.parametrize("told", [{"protection": 4}, {"protection": 1, "metadata_bytes": 0}])
def test_protection_information_of_no_known_kind_is_refused(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, int]
) -> None:
    honest = NamespaceInfo.of
    monkeypatch.setattr(NamespaceInfo, "of", lambda *a: replace(honest(*a), **told))
    with pytest.raises(NamespaceInvalid, match=f"protection information of type {told['protection']} in 0 bytes"):
        Rig("threads-w32", options())


def test_a_reference_tag_of_type_3_cannot_be_checked() -> None:
    spaces = (MemoryNamespace(nsid=1, blocks=64, lba_shift=9, metadata_bytes=8, metadata_inline=True, protection=3),)
    with (
        Rig("threads-w32", options(), drives=[drive(namespaces=spaces)]) as rig,
        pytest.raises(RequestInvalid, match="checks the reference tag, and the protection information is of type 3"),
    ):
        rig.ring.get_iocb().read(rig.ring.targets[0], 0, 520, rig.buffer, 0, protect=Protect.REFERENCE)


def test_tags_of_more_than_sixteen_bits_are_refused() -> None:
    with pytest.raises(RequestInvalid, match="application_tag=65536"):
        Rig("threads-w32", options(), adjust=lambda _, one: replace(one, application_tag=1 << 16))


# ---- pieces ----


def test_pieces_that_cannot_be_are_refused() -> None:
    with Rig("threads-w32", options()) as rig:
        for piece, message in ((0, "a piece of 0"), (12288, "a piece of 12288"), (2048, "the drive's page is 4096")):
            with pytest.raises(BufferInvalid, match=message):
                rig.ring.register(rig.memory, piece=piece)
        buffer = rig.ring.register(rig.memory, piece=16384)
        iocb, (target,) = rig.ring.get_iocb(), rig.ring.targets
        for offset, count in ((512, 32), (16384 - 512, 2)):
            with pytest.raises(RequestInvalid, match="of a buffer in pieces of 16384"):
                iocb.read(target, 0, 512 * count, buffer, offset)
        iocb.read(target, 0, 512 * 32, buffer, 16384)
        assert iocb.command_count == 1
        # At a piece, over three of them: one command each.
        iocb.read(target, 0, 512 * 70, buffer, 16384)
        assert iocb.packed["block_count"][1:].tolist() == [32, 32, 6]
        assert len(iocb) == 2


def test_inline_metadata_are_data_of_the_request() -> None:
    spaces = (MemoryNamespace(nsid=1, blocks=256, lba_shift=9, metadata_bytes=8, metadata_inline=True),)
    with Rig("threads-w32", options(), drives=[drive(namespaces=spaces)]) as rig:
        (target,) = rig.ring.targets
        assert target.block_bytes == 520
        source = np.random.default_rng(5).integers(0, 256, 40 * 520, np.uint8)
        for verb, before in (("write", source), ("read", np.uint8(0xEE))):
            rig.data[: len(source)] = before
            iocb = rig.ring.get_iocb()
            getattr(iocb, verb)(target, 3, len(source), rig.buffer, 0)
            assert succeeded(rig.run(iocb)).all()
        assert (rig.data[: len(source)] == source).all()


def test_a_drive_may_name_the_namespaces_to_use() -> None:
    spaces = (
        MemoryNamespace(nsid=1, blocks=64, lba_shift=9, metadata_bytes=8),
        MemoryNamespace(nsid=4, blocks=4096, lba_shift=9),
    )
    drives = [drive(namespaces=spaces)]
    with Rig("threads-w32", options(), drives=drives, adjust=lambda _, one: replace(one, namespaces=(4,))) as rig:
        assert [target.nsid for target in rig.ring.targets] == [4]
        assert rig.round_trip(20)[2]
    with pytest.raises(NamespaceAbsent, match="namespace 2 of drive 0: its active namespaces are: 1, 4"):
        Rig("threads-w32", options(), drives=drives, adjust=lambda _, one: replace(one, namespaces=(2,)))


# ---- MAXCMD ----


def at_most(count: int) -> Callable[[Rig, Drive], Drive]:
    """The drive's handle says so; the software controller itself has no such limit."""

    def adjust(_: Rig, one: Drive) -> Drive:
        one.handle.limits = replace(one.handle.limits, max_outstanding=count)
        return one

    return adjust


@pytest.mark.parametrize("count", [1, 5, 31])
def test_no_more_commands_are_outstanding_than_the_drive_works_on(count: int) -> None:
    with Rig("threads-w32", options(), adjust=at_most(count)) as rig:
        rig.drives[0].inject(FaultRule(action=FaultAction.STUCK, opcode=2))
        iocb = rig.ring.get_iocb()
        iocb.read(rig.ring.targets[0], np.arange(64), BLOCK, rig.buffer, 0)
        rig.ring.issue_io(iocb)
        deadline = time.monotonic() + 10
        while rig.drives[0].counters.io_commands.get(2, 0) < count and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)  # one more would come at once
        assert rig.drives[0].counters.io_commands == {2: count}
        rig.ring.stop()
        states = rig.ring.wait_cqe(iocb)["state"]
        assert (np.count_nonzero(states == State.STOPPED), np.count_nonzero(states == State.NOT_RUN)) == (
            count,
            64 - count,
        )
        assert len(rig.ring.recover()) == 1
        rig.ring.resume()
        rig.drives[0].clear_faults()
        assert rig.round_trip(64)[2], "the queue made anew has the same bound"


def test_each_drive_has_its_own_bound() -> None:
    bounds = iter([3, None, 200])

    def adjust(_: Rig, one: Drive) -> Drive:
        one.handle.limits = replace(one.handle.limits, max_outstanding=next(bounds))
        return one

    with Rig("sim-w32", options(), drives=[drive(), drive(), drive()], adjust=adjust) as rig:
        assert rig.round_trip(60)[2]
        assert rig.ring.statistics().total("strays") == 0


def test_more_than_the_drive_works_on_is_refused_when_it_is_asked_for() -> None:
    with pytest.raises(DepthInvalid, match=r"the drive works on 5 at a time \(MAXCMD\)"):
        Rig("threads-w32", options(command_limit=6), adjust=at_most(5))
    with Rig("threads-w32", options(command_limit=5), adjust=at_most(5)) as rig:
        assert rig.round_trip(20)[2]


# ---- where queues lie ----


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("which", [("sq_dma",), ("cq_dma",), ("sq_dma", "cq_dma")])
def test_queues_lie_where_they_are_placed(arch: str, which: tuple[str, ...]) -> None:
    places: dict[str, BufferDma] = {}

    def adjust(rig: Rig, one: Drive) -> Drive:
        for name in which:
            places[name] = BufferDma(rig.device, rig.iommu)
        return replace(one, **places)

    limit_ns = SECOND // 2 if arch.startswith("threads") else 400_000
    with Rig(arch, options(queues=(2,), limit_ns=limit_ns), adjust=adjust) as rig:
        pairs = rig.handles[0].pairs
        assert len(pairs) == 2
        for name, addresses, nbytes in (
            ("sq_dma", {pair.sq_address for pair in pairs}, 32 * 64),
            ("cq_dma", {pair.cq_address for pair in pairs}, 32 * 16),
        ):
            if name in which:
                assert set(places[name].live) == addresses
                assert all(n >= nbytes for n in places[name].live.values())
        assert rig.round_trip(40)[2]
        # A queue that is made anew stays where it is.
        before = {name: dict(place.live) for name, place in places.items()}
        rig.drives[0].inject(FaultRule(action=FaultAction.LOST, lbas=(5, 5), count=1))
        iocb = rig.ring.get_iocb()
        iocb.read(rig.ring.targets[0], np.arange(8), BLOCK, rig.buffer, np.arange(8) * BLOCK)
        assert np.count_nonzero(rig.run(iocb)["state"] == State.TIMED_OUT) == 1
        assert len(rig.ring.recover()) == 1
        assert {name: place.live for name, place in places.items()} == before
        assert rig.round_trip(40)[2]
    assert all(not place.live for place in places.values()), "placed memory goes back when the ring is closed"


# ---- long life ----


def test_a_queue_that_begins_late_counts_its_own_commands_and_is_recovered_as_it_began() -> None:
    fault = FaultRule(action=FaultAction.LOST, opcode=2, count=1)
    late = options(depth=3, first_ticket=(1 << 32) - 5, limit_ns=SECOND // 1000)
    with Rig("sim-w32", late) as rig:
        rig.drives[0].inject(fault)
        for _ in range(2):
            iocb = rig.ring.get_iocb()
            iocb.read(rig.ring.targets[0], np.arange(20), BLOCK, rig.buffer, 0)
            done = rig.run(iocb)
            rig.ring.recover()
        assert succeeded(done).all()
        assert rig.ring.statistics().total("commands") == 20


def test_a_first_ticket_that_no_word_holds_is_refused() -> None:
    with pytest.raises(DepthInvalid, match="first_ticket=9223372036854775808"):
        options(first_ticket=1 << 63)
