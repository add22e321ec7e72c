"""The reference model over whole batches, from the contract's text alone: ends of requests, and what blocks may hold.

It follows a trial as the narrow model does, with arrays for loops, and knows nothing of rings or kernels. Of each block
it keeps what it may hold: one tag where that is sure, else a set of keys, block number and tag in one. Each status that
a rule gives is that rule's alone, so a status tells which rule struck a command and whether its data moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.campaign.model import Wrong
from tutti_hal.conformance_tests.campaign.steps import OPCODES, REASONS, SPOILT, STATES, Setting
from tutti_hal.conformance_tests.campaign.wide.blocks import Blocks
from tutti_hal.conformance_tests.campaign.wide.rules import RuleBook
from tutti_hal.conformance_tests.campaign.wide.tables import (
    COMPARE,
    READ,
    WideStep,
    WideTrial,
)
from tutti_hal.conformance_tests.campaign.wide.view import View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOT_RUN, COMPLETED, TIMED_OUT = (STATES.index(name) for name in ("NOT_RUN", "COMPLETED", "TIMED_OUT"))
QUEUE_FAILED, STARVED = (REASONS.index(name) for name in ("QUEUE_FAILED", "STARVED"))
_STATE, _WHY, _SCT, _SC, _DNR, _CRD, _QUEUE, _COMMANDS = range(8)

#: (type, code) of a compare that found a difference.
_DIFFERS = (2, 0x85)

_ONCE, _STATUS, _DATA = "ring.request.exactly_once", "ring.request.status_reported", "ring.request.data_exact"
_REFUSED, _STRAY = "ring.request.refused_not_run", "ring.cq.duplicate_counted"
_LATE, _MARKED, _RECOVERED = "ring.cq.late_counted", "ring.timeout.queue_marked", "ring.recovery.recreated_works"

#: Of one kind of mistake in one batch, so many are told.
_TOLD = 3


class WideModel:
    """Follows a wide trial step by step.

    Args:
        setting: of the trial.

    Attributes:
        wrong: everything that was wrong so far, a few of each kind and step.
        examined: clause -> values compared so far.
        unexplained: requests that had no end though no rule keeps one back: in real time a machine may be late.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.wrong: list[Wrong] = []
        self.examined: Counter[str] = Counter()
        self.unexplained = 0
        self._number = 0
        self._blocks = Blocks(setting)
        self._rules = RuleBook(setting)
        drives = len(setting.drives)
        self._fetched = [[0] * len(OPCODES) for _ in range(drives)]
        self._unfetched: Any = 0  # given up in batches before, and not fetched by the drive yet
        self._strays, self._lates, self._unended = [0] * drives, [0] * drives, [0] * drives
        self._last = {name: [0] * (drives * setting.queues_per_drive) for name in ("strays", "lates")}
        #: Strays that drives had sent by the end of the batch before, and those of them that died with their queue.
        self._owed, self._died = [0] * drives, [0] * drives

    def step(self, step: WideStep, seen: Mapping[str, Any]) -> None:
        """Judge what was seen of a step."""
        if step.kind == "batch" and step.batch is not None:
            self._batch(View(self.setting, step.batch), seen)
        elif step.kind == "fault":
            self._rules.add(step.drive, step.rule)
        elif step.kind == "clear":
            self._rules.clear(step.drive)
        self._number += 1

    def end(self, stored: NDArray[np.int64], untouched: int) -> None:
        """Judge what the namespaces and the memory hold when all is done."""
        import numpy as np

        places = np.arange(len(stored))
        self._all(_DATA, self._blocks.may_hold(places, stored), "what block {} holds in the end", stored)
        self._one(_DATA, untouched == 0, "words of memory that changed since", untouched, 0)

    # ---- a batch ----

    def _batch(self, view: View, seen: Mapping[str, Any]) -> None:
        ended = seen["ended"]
        self._one(_ONCE, len(ended) == len(view), "ends of the batch", len(ended), len(view))
        if len(ended) != len(view):
            return
        self._all(_ONCE, ended[:, _COMMANDS] == view.parts, "commands of request {}", ended[:, _COMMANDS], view.parts)
        allowed = self._rules.allowed(view)
        moved, held = self._moved(view, ended, allowed)
        self._blocks.begin(view, moved)
        self._ends(view, ended, allowed)
        self._data(view, seen, moved, held)
        self._blocks.settle()
        self._counters(view, ended, seen["counters"], allowed)
        self._marks(view, ended, seen)

    def _moved(
        self, view: View, ended: NDArray[np.int64], allowed: Any
    ) -> tuple[tuple[NDArray[np.bool_], NDArray[np.bool_]], NDArray[np.bool_]]:
        """Of each block: whether its data surely moved, whether perhaps; and whether its request came to its end."""
        import numpy as np

        state, single = ended[:, _STATE], view.parts == 1
        done = state == COMPLETED
        good = done & (ended[:, _SCT] == 0) & (ended[:, _SC] == 0)
        struck = allowed.struck_by(ended)
        late = np.isin(struck, self._rules.numbers("STATUS_LATE"))
        sure = good | (done & single & late)
        never = single & ((state == NOT_RUN) | (done & ~good & ~late))
        return (sure[view.owners], (~sure & ~never)[view.owners]), done[view.owners]

    def _ends(self, view: View, ended: NDArray[np.int64], allowed: Any) -> None:
        """States and statuses."""
        import numpy as np

        state, why, queue = ended[:, _STATE], ended[:, _WHY], ended[:, _QUEUE]
        per = self.setting.queues_per_drive
        done, not_run, timed_out = state == COMPLETED, state == NOT_RUN, state == TIMED_OUT
        # A request of several commands that was not run may have had some that were given to the drive.
        failing = np.zeros(len(self.setting.drives), bool)
        failing[view.drive[timed_out | (not_run & (view.parts > 1))]] = True
        excused = ((why == QUEUE_FAILED) & failing[view.drive]) | (not self.setting.timely and why == STARVED)
        fits = done | (not_run & excused) | (timed_out & (allowed.endless | (not self.setting.timely)))
        self.unexplained += int((timed_out & ~allowed.endless).sum())
        self._all(_ONCE, fits, "state of request {}", state, done)
        ran = ~not_run
        first, count = self._classes()
        row = queue - view.drive * per - first[view.queue_class]
        self._all(_ONCE, ~ran | ((row >= 0) & (row < count[view.queue_class])), "queue of request {}", queue)
        codes = ended[:, _SCT] << 8 | ended[:, _SC]
        same, differs = self._compares(view, allowed)
        differing = (view.verb == COMPARE) & (codes == _DIFFERS[0] << 8 | _DIFFERS[1])
        struck = allowed.struck_by(ended)
        fits = np.select([codes == 0, differing], [same, differs], struck >= 0)
        self._all(_STATUS, ~done | fits, "status of request {}", codes)

    def _classes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first queue of each class, counted from the drive's first; and how many."""
        import numpy as np

        count = np.array(self.setting.options["queues"], np.int64)
        return np.cumsum(count) - count, count

    def _compares(self, view: View, allowed: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Of each request, whether it may end well, and whether it may as a compare that found a difference."""
        import numpy as np

        rows = np.flatnonzero((view.verb == COMPARE)[view.owners])
        equal, other = np.ones(view.commands, bool), np.zeros(view.commands, bool)
        if len(rows):
            may, more = self._blocks.may_be(view.places[rows], view.tags[rows])
            np.logical_and.at(equal, view.command_of_block[rows], may)
            np.logical_or.at(other, view.command_of_block[rows], more)
        return view.all_of(allowed.natural & equal), view.any_of(allowed.natural & other)

    def _data(
        self,
        view: View,
        seen: Mapping[str, Any],
        moved: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        ended: NDArray[np.bool_],
    ) -> None:
        """The memory of reads, and all other memory."""
        import numpy as np

        reads = np.flatnonzero((view.verb == READ)[view.owners])
        held, places = seen["held"], view.places[reads]
        self._one(_DATA, len(held) == len(reads), "blocks of memory", len(held), len(reads))
        self._one(_DATA, seen["beside"] == 0, "words changed beside", seen["beside"], 0)
        if len(held) != len(reads):
            return
        sure, maybe = (mask[reads] for mask in moved)
        fits = ((sure | maybe) & self._blocks.may_hold(places, held)) | (~sure & (held == SPOILT))
        where = np.stack([view.owners[reads], view.within[reads]], axis=1)
        for clause, mask in ((_DATA, sure | maybe | ended[reads]), (_REFUSED, ~(sure | maybe | ended[reads]))):
            if mask.any():
                self._all(clause, fits[mask], "memory of request and block {}", held[mask], names=where[mask])
        # What was read where nothing was being written is what the block holds: all who looked saw the same.
        self._all(_DATA, self._blocks.learn(places[sure], held[sure]), "what reads agree on, {}", held[sure])

    # ---- counters ----

    def _counters(self, view: View, ended: NDArray[np.int64], seen: Mapping[str, Any], allowed: Any) -> None:
        import numpy as np

        drives, opcodes = len(self.setting.drives), list(OPCODES)
        state = ended[:, _STATE]
        least, most = (np.zeros((drives, len(opcodes)), np.int64) for _ in range(2))
        done, perhaps = state == COMPLETED, (state != NOT_RUN) | (view.parts > 1)
        np.add.at(least, (view.drive[done], view.verb[done]), view.parts[done])
        np.add.at(most, (view.drive[perhaps], view.verb[perhaps]), view.parts[perhaps])
        found = np.array(seen["fetched"]) - np.array(self._fetched)
        # A drive that was slow beyond a deadline may fetch what it was given after that batch had been looked at.
        fits = (least <= found) & (found <= most + self._unfetched)
        given_up = np.zeros_like(most)
        out = perhaps & ~done
        np.add.at(given_up, (view.drive[out], view.verb[out]), view.parts[out])
        self._unfetched = np.minimum(given_up + self._unfetched, np.maximum(most + self._unfetched - found, 0))
        for clause, mask in ((_ONCE, most > 0), (_REFUSED, most == 0)):
            names = np.argwhere(mask)
            self._all(clause, fits[mask], "commands that drive and verb {} had", found[mask], most[mask], names=names)
        self._fetched = [list(row) for row in seen["fetched"]]
        for number, low, high in self._rules.strikes(view, ended, allowed, seen["hits"]):
            hits = seen["hits"][number]
            self._one(_STATUS, low <= hits <= high, f"strikes of rule {number}", hits, f"{low} to {high}")
        unended = np.bincount(view.drive[~done], view.parts[~done], minlength=drives)
        self._unended = [was + int(more) for was, more in zip(self._unended, unended, strict=True)]
        self._count_strays(ended, seen)

    def _count_strays(self, ended: NDArray[np.int64], seen: Mapping[str, Any]) -> None:
        per = self.setting.queues_per_drive
        self._take_counters(seen)
        used = set((ended[ended[:, _STATE] == COMPLETED][:, _QUEUE]).tolist())
        for drive in range(len(self.setting.drives)):
            sent = self._rules.strays_of(drive, seen["hits"])
            found = self._strays[drive]
            self._one(_STRAY, found <= sent, f"strays of drive {drive}", found, f"<= {sent}")
            if used >= set(range(drive * per, (drive + 1) * per)):
                # What came before the completions that were taken was taken before them.
                least = self._owed[drive] - self._died[drive]
                self._one(_STRAY, found >= least, f"strays of drive {drive}", found, f">= {least}")
            self._owed[drive] = sent
            if not self.setting.timely:
                late, most = self._lates[drive], self._unended[drive]
                self._one(_LATE, late <= most, f"lates of drive {drive}", late, f"<= {most}")

    def _take_counters(self, seen: Mapping[str, Any]) -> None:
        """Add up what queues counted since the last look; those that were made anew begin at 0 again."""
        for name, sums in (("strays", self._strays), ("lates", self._lates)):
            for queue, now in enumerate(seen[name]):
                before = self._last[name][queue]
                sums[queue // self.setting.queues_per_drive] += now - before if now >= before else now
                self._last[name][queue] = now

    def _marks(self, view: View, ended: NDArray[np.int64], seen: Mapping[str, Any]) -> None:
        """Queues that are marked, and their recovery."""
        per, state = self.setting.queues_per_drive, ended[:, _STATE]
        marked = set(ended[state == TIMED_OUT][:, _QUEUE].tolist())
        # Of a request of several commands only the worst one's queue is told.
        doubted = set(view.drive[(state != COMPLETED) & (view.parts > 1)].tolist())
        for queue, sick in enumerate(seen["counters"]["sick"]):
            fits = sick == (queue in marked) or (queue // per in doubted and sick)
            self._one(_MARKED if not self.setting.timely else _ONCE, fits, f"queue {queue} is marked", sick, not sick)
            if sick:
                marked.add(queue)
        if seen["recovered"] is None:
            return
        self._one(_RECOVERED, seen["recovered"]["queues"] == sorted(marked), "queues recovered", marked, "those marked")
        self._one(_RECOVERED, not any(seen["recovered"]["sick"]), "queues marked after it", marked, "none")
        for drive in {queue // per for queue in marked}:
            self._died[drive] = self._owed[drive] - self._strays[drive]
        self._take_counters(seen["recovered"])

    # ---- helpers ----

    def _one(self, clause: str, held: bool, what: str, found: Any, wanted: Any) -> None:
        self.examined[clause] += 1
        if not held:
            self.wrong.append(Wrong(self._number, clause, what, str(found)[:200], str(wanted)[:200]))

    def _all(
        self,
        clause: str,
        held: NDArray[np.bool_],
        what: str,
        found: NDArray[Any],
        wanted: NDArray[Any] | None = None,
        *,
        names: NDArray[np.int64] | None = None,
    ) -> None:
        """One look at each of many values; ``{}`` of ``what`` is the number or the name of one that does not hold."""
        import numpy as np

        self.examined[clause] += len(held)
        for row in np.flatnonzero(~held)[:_TOLD].tolist():
            name = row if names is None else names[row].tolist()
            may = "see the model" if wanted is None else str(wanted[row])
            self.wrong.append(Wrong(self._number, clause, what.format(name), str(found[row]), may))


def judge_wide(trial: WideTrial, seen: Mapping[str, Any]) -> WideModel:
    """The model after a whole trial."""
    model = WideModel(trial.setting)
    for step, one in zip(trial.steps, seen["steps"], strict=True):
        model.step(step, one)
    model.end(seen["stored"], seen["untouched"])
    return model


def clauses(setting: Setting) -> Sequence[str]:
    """Clauses that the model speaks of."""
    always = (_ONCE, _STATUS, _DATA, _REFUSED, _STRAY)
    return always if setting.timely else (*always, _LATE, _MARKED, _RECOVERED)
