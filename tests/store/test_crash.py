"""The rule of durability at every point where the power can go: the store keeps it, and each mutant breaks it."""

from __future__ import annotations

from collections.abc import Callable

import crash
import pytest

from tutti_hal.store import Piece, Store, checkpoint
from tutti_hal.store.format import seal_segment
from tutti_hal.store.log import Log, Segment
from tutti_hal.store.records import Op, SegmentHeader
from tutti_hal.store.recovery import Recovered
from tutti_hal.store.space import Space

pytestmark = [pytest.mark.crash, pytest.mark.storage]

#: Distinct images: the issue's own number, and what a mutant may take to be noticed.
IMAGES, MUTANT_IMAGES = 10_000, 5_000


@pytest.mark.timeout(600)
def test_no_crash_breaks_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    tally = crash.enumerate_crashes(crash.Judge(), images=IMAGES)
    with capsys.disabled():
        print(f"\ncrash points: {len(tally.images)} distinct images, {tally.judged} judged, ", end="")
        print(f"{len(tally.violations)} violations")
    assert tally.violations == []
    assert len(tally.images) >= IMAGES


class NoFlush(Log):
    """Commits what is still in the drive's cache."""

    def _make_durable(self, headers: list[Piece], payloads: list[Piece], commit: Piece) -> None:
        self.device.write(headers + payloads)
        self.device.write_durable(commit)


class CommitLeftInCache(Log):
    """Acknowledges before the commit is durable."""

    def _make_durable(self, headers: list[Piece], payloads: list[Piece], commit: Piece) -> None:
        self.device.write(headers + payloads)
        self.device.flush()
        self.device.write([commit])


class HeaderBeforePayload(Log):
    """Vouches for payloads that come later."""

    def _make_durable(self, headers: list[Piece], payloads: list[Piece], commit: Piece) -> None:
        self.device.write(headers)
        self.device.flush()
        self.device.write_durable(commit)
        self.device.write(payloads)
        self.device.flush()


class AllAtOnce(Log):
    """One flush for headers, payloads and commit."""

    def _make_durable(self, headers: list[Piece], payloads: list[Piece], commit: Piece) -> None:
        self.device.write([*headers, *payloads, commit])
        self.device.flush()


class FreeLeftInCache(Log):
    """Takes a segment for free before the medium has it so: of two, the medium may free the newer one alone.

    Where that one had the deletion of what lies in the other, the object is back.
    """

    def free(self, segment: Segment) -> None:
        header = SegmentHeader(segment.sequence, segment.number, False)
        self.device.write([self._piece(segment, 0, seal_segment(self.superblock, header))])
        segment.in_use, segment.end, segment.live_blocks = False, 1, 0


class FreesFirst(Space):
    """Frees a segment, then moves what was live in it."""

    def _empty(self, segment: Segment) -> bool:
        free, self.log.free = self.log.free, lambda _: None  # type: ignore[method-assign]
        sequence = segment.sequence
        free(segment)
        segment.in_use, segment.sequence = True, sequence
        try:
            emptied = super()._empty(segment)
        finally:
            self.log.free = free  # type: ignore[method-assign]
        segment.in_use, segment.end, segment.live_blocks = False, 1, 0
        return emptied


class ForgetsDeletions(Space):
    """Forgets a deletion as soon as something else was freed, whatever the log still holds of the key."""

    def _oldest(self, without: Segment | None = None) -> int:  # noqa: ARG002
        return self.log.next_segment


class DropsUnlogged(Space):
    """Evicts without a record."""

    def drop(self, keys: list[bytes], op: Op, *_: object) -> None:  # type: ignore[override]
        if op is Op.DELETE:
            super().drop(keys, op)
            return
        for key in keys:
            entry = self.index.entries[key]
            self.log.segments[entry.segment].live_blocks -= self.log.entry_blocks(entry)
            self.index.policy.remove(key)
            self.index.forget(key)


def with_log(log: type[Log]) -> type[Store]:
    class Mutant(Store):
        def _make_log(self, state: Recovered) -> Log:
            return log(self.device, state.superblock, state.segments, state.next_transaction, state.next_segment)

    return Mutant


def with_space(space: type[Space]) -> type[Store]:
    class Mutant(Store):
        def _make_space(self) -> Space:
            return space(self._log, self._index, self.options.quota_bytes, True)

    return Mutant


def in_place(patch: pytest.MonkeyPatch) -> type[Store]:
    patch.setattr(checkpoint, "slot_of", lambda _: 1)
    return Store


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], type[Store]]] = {
    "no flush": lambda _: with_log(NoFlush),
    "commit left in the cache": lambda _: with_log(CommitLeftInCache),
    "header before payload": lambda _: with_log(HeaderBeforePayload),
    "all at once": lambda _: with_log(AllAtOnce),
    "free left in the cache": lambda _: with_log(FreeLeftInCache),
    "frees first": lambda _: with_space(FreesFirst),
    "forgets deletions": lambda _: with_space(ForgetsDeletions),
    "evicts without a record": lambda _: with_space(DropsUnlogged),
    "checkpoint in place": in_place,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_breaks_it(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    mutant = MUTANTS[name](monkeypatch)
    judge = crash.Judge(stop_at=1)
    tally = crash.enumerate_crashes(judge, images=MUTANT_IMAGES, store_class=mutant)
    with capsys.disabled():
        print(f"\nmutant: {name}: caught at image {len(tally.images)}: {tally.violations[:1]}")
    assert tally.violations
