"""All runs of the ring's pieces: the engine's exploration leaves nothing out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tutti_hal.backends.host.sim import SimOptions, explore
from tutti_hal.conformance_tests.cases.l5_ring.small_queue import REAP, SILENT, SUBMIT, WAIT, Small, SmallQueue
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec

pytestmark = pytest.mark.ring

#: What is compared: all that the case's judge looks at.
_TOLD = ("outcome", "doorbell", "credits", "ticket", "completion", "retired", "completions", "strays", "tails")
_LISTS = ("commands", "told", "identifiers", "states", "cells")


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject(SubjectSpec("host", "sim-w32"))


def _key(ending: dict[str, Any]) -> str:
    return json.dumps([ending[name] for name in (*_TOLD, *_LISTS)], default=int)


@pytest.mark.parametrize(
    ("small", "preemptions", "stale_reads"),
    [
        (Small(2, SUBMIT, depth=3, lanes=1, drive=SILENT), 1, 0),
        (Small(2, SUBMIT, depth=3, lanes=1, drive=SILENT), 0, 1),
        (Small(2, SUBMIT, depth=3, lanes=1, drive=SILENT), 1, 1),
        (Small(2, REAP | WAIT, steps=8, depth=3, lanes=1, sent=2), 1, 0),
    ],
    ids=["publish-1+0", "publish-0+1", "publish-1+1", "completion-1+0"],
)
def test_nothing_is_left_out(
    subject: Subject, tmp_path: Path, small: Small, preemptions: int, stale_reads: int
) -> None:
    """Every ending that plain enumeration finds is found, and no other; with no more runs."""
    run = Run(subject, {}, 1, tmp_path)
    with run.closing:
        queue = SmallQueue(run, small)
        found = queue.explore(preemptions, stale_reads)
        options = SimOptions(
            preemptions=preemptions + 1, delays_only=True, stale_reads=stale_reads + 1, idle_pauses=2, staleness_reads=1
        )
        plain = [ending for _, ending in explore(subject.world, queue.run_in_this_world, options, limit=40_000)]
    assert found["complete"]
    assert len(plain) < 40_000
    assert {_key(one) for one in found["endings"]} == {_key(one) for one in plain}
    assert found["runs"] <= len(plain)


def test_a_search_that_was_cut_short_says_so(subject: Subject, tmp_path: Path) -> None:
    run = Run(subject, {}, 1, tmp_path)
    with run.closing:
        queue = SmallQueue(run, Small(2, SUBMIT, depth=3, lanes=1, drive=SILENT))
        assert not queue.explore(1, 1, max_runs=3)["complete"]


def test_the_world_has_its_own_bounds_again_after_a_search(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The world is the process's: a launch of somebody else would meet the bounds of the search."""
    resets: list[dict[str, object]] = []
    monkeypatch.setattr(Subject, "reset_world", lambda self, **options: resets.append(options))
    run = Run(subject, {}, 1, tmp_path)
    with run.closing:
        SmallQueue(run, Small(2, SUBMIT, depth=3, lanes=1, drive=SILENT)).explore(1, 1, max_runs=3)
        assert resets == []
    assert resets == [{}]
    monkeypatch.undo()
    subject.reset_world()
