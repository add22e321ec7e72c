"""Runs the instances of a run: several slots, each with a worker, take them by arch and kernel set."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.runner.shop import Shop, Stopped
from tutti_hal.conformance_tests.runner.slot import Question, Slot
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.session import RunOptions
from tutti_hal.conformance_tests.terms import Terms, plan

#: A second worker helps with a group only while it holds more instances than this.
_WORTH_A_WORKER = 8


def run_instances(
    options: RunOptions,
    facts: Mapping[str, Facts],
    terms: Terms,
    instances: Sequence[Instance],
    *,
    on_start: Callable[[Instance], None] | None = None,
    on_end: Callable[[Instance, Outcome], None] | None = None,
    shop: Shop | None = None,
) -> tuple[dict[str, Outcome], dict[str, Any]]:
    """Run the instances whose plan says so, each in a worker process. Blocks until all have ended.

    An exception, Ctrl-C among them, kills every worker and its process group first, and leaves no file.

    Args:
        options: what was asked for: seed, jobs, time limit, subject.
        facts: arch -> what is declared of it.
        terms: they decide what runs, and which failures are run again.
        instances: all of the run.
        on_start: called in this thread when an instance starts.
        on_end: called in this thread with its final outcome; for what the time limit left out, too.
        shop: another than the usual, for tests; it is closed.

    Returns:
        Instance id -> outcome, of all that the plan lets run; and what was watched, for the environment of the run.
    """
    due = [one for one in instances if plan(one, facts[one.arch], terms).runs]
    work = _Work(due, time.monotonic() + options.time_limit_s if options.time_limit_s else None)
    question = Question(options, facts, terms)
    outcomes: dict[str, Outcome] = {}
    events: SimpleQueue[tuple[str, Any, Any]] = SimpleQueue()
    jobs = min(options.jobs or _jobs(facts), len(due))
    with shop or Shop() as place:
        threads = [threading.Thread(target=_serve, args=(place, question, work, events)) for _ in range(jobs)]
        try:
            for thread in threads:
                thread.start()
            left = len(threads)
            while left:
                what, one, more = events.get()
                if what == "start" and on_start is not None:
                    on_start(one)
                elif what == "end":
                    outcomes[one.id] = more
                    if on_end is not None:
                        on_end(one, more)
                elif what == "done":
                    left -= 1
                    if one is not None:
                        raise one
        finally:
            place.stop()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        watched = {**place.watched(), "jobs": jobs}
    for one in due:
        if one.id not in outcomes:
            why = f"the time limit of {options.time_limit_s:g} s was reached"
            outcomes[one.id] = Outcome(one.id, one.seed(options.seed), End.NOT_RUN, {"why": why})
            if on_end is not None:
                on_end(one, outcomes[one.id])
    return {one.id: outcomes[one.id] for one in due}, watched


def _jobs(facts: Mapping[str, Facts]) -> int:
    """One for each CPU; on hardware one, for cases that share a device would measure each other."""
    if any(one.kind == "hardware" for one in facts.values()):
        return 1
    return len(os.sched_getaffinity(0))


def _serve(shop: Shop, question: Question, work: _Work, events: SimpleQueue[tuple[str, Any, Any]]) -> None:
    """A slot's thread: take instances until there are none."""
    error: BaseException | None = None
    try:
        slot = Slot(
            shop,
            question,
            on_start=lambda one: events.put(("start", one, None)),
            on_end=lambda one, outcome: events.put(("end", one, outcome)),
        )
        group: _Group | None = None
        while True:
            group, instance = work.take(group)
            if instance is None:
                slot.leave()
                break
            slot.run(instance)
    except Stopped:
        pass
    except BaseException as caught:  # it is raised again where the run waits
        error = caught
    events.put(("done", error, None))


class _Group:
    """Instances of one arch that launch the same kernel sets."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.instances: deque[Instance] = deque()
        self.hands = 0


class _Work:
    """What is still to be run; for any thread."""

    def __init__(self, due: Sequence[Instance], deadline: float | None) -> None:
        self._lock = threading.Lock()
        self._deadline = deadline
        groups: dict[tuple[str, tuple[str, ...]], _Group] = {}
        for one in due:
            groups.setdefault((one.arch, one.case.kernels), _Group(one.arch)).instances.append(one)
        self._groups = list(groups.values())

    def take(self, group: _Group | None) -> tuple[_Group | None, Instance | None]:
        """The next instance for a slot that has worked on ``group``, and its group; (None, None) at the end."""
        with self._lock:
            if self._deadline is not None and time.monotonic() >= self._deadline:
                return None, None
            if group is None or not group.instances:
                group = self._next(group.arch if group else None)
            return (group, group.instances.popleft()) if group else (None, None)

    def _next(self, arch: str | None) -> _Group | None:
        """A group that nobody works on, of the same arch if there is one; else the longest that is worth a worker."""
        open_groups = [group for group in self._groups if group.instances]
        fresh = [group for group in open_groups if not group.hands]
        if fresh:
            found = next((group for group in fresh if group.arch == arch), fresh[0])
        else:
            same = [g for g in open_groups if g.arch == arch]
            long = [g for g in open_groups if len(g.instances) > _WORTH_A_WORKER]
            if not same and not long:
                return None
            found = max(long or same, key=lambda group: len(group.instances))
        found.hands += 1
        return found
