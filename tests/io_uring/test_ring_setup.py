"""What a ring takes from each drive when it is made: formats, commands at a time, and where queues lie."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rig import BLOCK, BufferDma, Rig, drive

from tutti_hal.errors import DepthInvalid, NamespaceAbsent, NamespaceInvalid
from tutti_hal.io_uring import Drive, RingOptions, State, succeeded
from tutti_hal.nvme.queues import NamespaceInfo
from tutti_hal.nvme.software import FaultAction, FaultRule, MemoryNamespace

pytestmark = pytest.mark.ring

SECOND = 1_000_000_000
ARCHS = ["threads-w32", "sim-w32"]


def options(**fields: object) -> RingOptions:
    return RingOptions(**{"depth": 32, "lanes": 64, "block": 64, "batch_limit": 64, "limit_ns": 20 * SECOND} | fields)


# ---- formats ----


def test_separate_metadata_are_refused_before_any_queue_is_made() -> None:
    """Without MPTR a drive would move them to and from address 0."""
    spaces = (
        MemoryNamespace(nsid=1, blocks=4096, lba_shift=9),
        MemoryNamespace(nsid=2, blocks=64, lba_shift=9, metadata_bytes=8),
    )
    seen = []

    def remember(_: Rig, one: Drive) -> Drive:
        seen.append(one.handle)
        one.handle.create_queue_pair = pytest.fail  # type: ignore[method-assign]
        return one

    with pytest.raises(NamespaceInvalid, match="over drive 0: namespace 2 has 8 bytes of separate metadata"):
        Rig("threads-w32", options(), drives=[drive(namespaces=spaces)], adjust=remember)
    assert len(seen) == 1


def test_protection_information_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No software controller has it, so the handle is made to say so."""
    honest = NamespaceInfo.of
    monkeypatch.setattr(NamespaceInfo, "of", lambda *a: replace(honest(*a), protection=1))
    with pytest.raises(NamespaceInvalid, match="protection information of type 1"):
        Rig("threads-w32", options())


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
