"""The reference model: which ends a request may have, and what blocks may hold then, from the contract's text alone.

It knows nothing of rings, queues' words or kernels. Of each block it keeps the set of what the block may hold; a write
that may still happen is a ghost until its queue was made anew. Of each drive it keeps the rules that were injected, in
order: the first one that strikes decides a command's end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti_hal.conformance_tests.campaign.steps import OPCODES, REASONS, SPOILT, STATES, Ask, Setting, Step, Workload

NOT_RUN, COMPLETED, TIMED_OUT, STOPPED = (
    STATES.index(name) for name in ("NOT_RUN", "COMPLETED", "TIMED_OUT", "STOPPED")
)
QUEUE_FAILED, WHY_STOPPED, STARVED = (REASONS.index(name) for name in ("QUEUE_FAILED", "STOPPED", "STARVED"))

#: (type, code) of what goes well, and of a compare that found a difference.
_GOOD, _DIFFERS = (0, 0x00), (2, 0x85)

#: Clauses that the model speaks of; a campaign claims them all, those of `_TROUBLE` where commands have no end.
CLAUSES = (
    "ring.request.exactly_once",
    "ring.request.status_reported",
    "ring.request.data_exact",
    "ring.request.refused_not_run",
    "ring.request.limits_checked",
    "ring.cq.duplicate_counted",
)
TROUBLE = ("ring.cq.late_counted", "ring.timeout.queue_marked", "ring.recovery.recreated_works")


@dataclass(frozen=True)
class Wrong:
    """Something that must not be.

    Attributes:
        step: its number in the workload; the number of steps for what was found at the end.
        clause: that it breaks.
        what: what was looked at.
        found: what was seen.
        wanted: what may be.
    """

    step: int
    clause: str
    what: str
    found: str
    wanted: str


class Model:
    """Follows a workload step by step.

    Args:
        setting: of the workload.
        simulated: whether time is virtual: then no command misses its deadline without a rule.

    Attributes:
        wrong: everything that was wrong so far.
        examined: clause -> values compared so far.
    """

    def __init__(self, setting: Setting, *, simulated: bool) -> None:
        self.setting = setting
        self._simulated = simulated
        self.wrong: list[Wrong] = []
        self.examined: Counter[str] = Counter()
        self._number = 0
        #: What each block may hold; a block that is not here holds zeroes.
        self._blocks: dict[tuple[int, int], frozenset[int]] = {}
        #: What a write whose end is not known may still put there.
        self._ghosts: dict[tuple[int, int], frozenset[int]] = {}
        #: Drive and rule, in the order of injection: those in force, and all that ever were.
        self._rules: list[tuple[int, Mapping[str, Any]]] = []
        self._history: list[tuple[int, Mapping[str, Any]]] = []
        #: Queues that must be marked, and drives of which one may be.
        self._marked: set[int] = set()
        self._doubted: set[int] = set()
        drives = len(setting.drives)
        self._fetched = [dict.fromkeys(map(str, OPCODES.values()), 0) for _ in range(drives)]
        self._unfetched: dict[tuple[int, str], int] = {}
        self._strays, self._lates = [0] * drives, [0] * drives
        self._last = {name: [0] * (drives * setting.queues_per_drive) for name in ("strays", "lates")}
        #: Strays that drives have sent by the end of the batch before, less those that died with their queue.
        self._owed = [0] * drives
        self._died = [0] * drives
        self._unended = [0] * drives

    def step(self, step: Step, seen: Mapping[str, Any]) -> None:
        """Judge what was seen of a step."""
        match step.kind:
            case "batch" | "stopped":
                self._batch(step.asks, seen, stopped=step.kind == "stopped")
            case "refused":
                self._refused(seen)
            case "fault":
                self._rules.append((step.drive, step.rule))
                self._history.append((step.drive, step.rule))
            case "clear":
                self._rules = [one for one in self._rules if one[0] != step.drive]
            case "recover":
                self._recovered(seen)
        self._number += 1

    def end(self, stored: Sequence[Iterable[int]]) -> None:
        """Judge what the namespaces hold when all is done."""
        for number, tags in enumerate(stored):
            for lba, tag in enumerate(tags):
                allowed = self._candidates((number, lba))
                self._check(
                    "ring.request.data_exact", int(tag) in allowed, f"block {lba} of space {number}", tag, allowed
                )

    # ---- a batch ----

    def _batch(self, asks: Sequence[Ask], seen: Mapping[str, Any], *, stopped: bool) -> None:
        ended = [tuple(map(int, row)) for row in seen["ended"]]
        held = [int(tag) for tag in seen["held"]]
        if seen["recovered"]:
            self._recovered(seen["recovered"])
        self._check("ring.request.exactly_once", len(ended) == len(asks), "ends of the batch", len(ended), len(asks))
        failing = {
            self._drive(ask)
            for ask, row in zip(asks, ended, strict=True)
            if row[0] in (TIMED_OUT, STOPPED) or (row[0] == NOT_RUN and self.setting.parts(ask) > 1)
        }
        # Requests of a batch run in any order: each may meet what any other one writes.
        moving: dict[tuple[int, int], set[int]] = {}
        for ask, row in zip(asks, ended, strict=True):
            if row[0] != NOT_RUN or self.setting.parts(ask) > 1:
                for place, tag in _written(ask):
                    moving.setdefault(place, set()).add(tag)
        at = 0
        for number, (ask, row) in enumerate(zip(asks, ended, strict=True)):
            count = 0 if ask.verb in ("flush", "write_zeroes") else ask.blocks
            data, at = held[at : at + count], at + count
            name = f"request {number} ({ask.verb} of {ask.blocks} at {ask.lba} of space {ask.space})"
            self._end_of(name, ask, row, failing, moving, stopped=stopped)
            self._data_of(name, ask, row, data, moving)
        self._check("ring.request.data_exact", at == len(held), "blocks of memory", len(held), at)
        self._check("ring.request.data_exact", seen["beside"] == 0, "bytes changed beside", seen["beside"], 0)
        self._settle(asks, ended)
        self._counters(asks, ended, seen)
        self._marks(asks, ended, seen, stopped=stopped)

    def _end_of(
        self,
        name: str,
        ask: Ask,
        row: Sequence[int],
        failing: set[int],
        moving: Mapping[tuple[int, int], set[int]],
        *,
        stopped: bool,
    ) -> None:
        """The state and status of a request."""
        state, why, sct, sc, dnr, crd, queue, commands = row
        drive, parts = self._drive(ask), self.setting.parts(ask)
        per = self.setting.queues_per_drive
        once = "ring.request.exactly_once"
        self._check(once, commands == parts, f"commands of {name}", commands, parts)
        if stopped:
            self._check(once, (state, why) == (NOT_RUN, WHY_STOPPED), f"end of {name}", _said(row), "NOT_RUN, STOPPED")
            return
        if state == NOT_RUN:
            sick = drive in failing or drive in self._doubted or bool(self._marked & self._queues(drive))
            # A lane waits for a place as long as for a command: where that is short, others may have had them all.
            fits = (sick and why == QUEUE_FAILED) or (not self.setting.timely and why == STARVED)
            self._check(once, fits, f"end of {name}", _said(row), "NOT_RUN where a queue failed alone")
            return
        self._check(once, queue // per == drive, f"drive that {name} went to", queue // per, drive)
        if queue in self._marked:
            self._check("ring.timeout.queue_marked", False, f"end of {name}", _said(row), "NOT_RUN: its queue failed")
            return
        statuses, endless = self._allowed(ask, moving)
        if state == TIMED_OUT:
            # In real time a machine may be late by itself.
            self._check(once, endless, f"end of {name}", _said(row), "COMPLETED: no rule keeps its completion back")
            return
        self._check(once, state == COMPLETED, f"end of {name}", _said(row), "COMPLETED")
        if state != COMPLETED:
            return
        bad = (sct, sc) not in (_GOOD, _DIFFERS)
        found = (sct, sc, dnr, crd) if bad else (sct, sc, None, None)
        # What a drive says beside a difference that a compare found is the drive's affair.
        fits = found in statuses or (sct, sc, dnr, crd) in statuses
        self._check("ring.request.status_reported", fits, f"status of {name}", found, statuses)

    def _allowed(self, ask: Ask, moving: Mapping[tuple[int, int], set[int]]) -> tuple[set[Any], bool]:
        """The statuses that a request may complete with, and whether it may have no end."""
        statuses: set[Any] = set()
        endless, sure = not (self.setting.timely or self._simulated), False
        for rule in self._matching(ask):
            action = rule["action"]
            if action in ("STATUS", "STATUS_LATE"):
                sct, sc = rule["status"]
                statuses.add((sct, sc, int(rule["dnr"]), rule["crd"]))
            elif action in ("LOST", "STUCK") or (action == "DELAY" and not self._short(rule)):
                endless = True
            else:
                statuses |= self._natural(ask, moving)
            sure = self.setting.parts(ask) == 1 and _always(rule)
            if sure:
                break
        if not sure:
            statuses |= self._natural(ask, moving)
        return statuses, endless

    def _natural(self, ask: Ask, moving: Mapping[tuple[int, int], set[int]]) -> set[Any]:
        """The statuses of a request that nothing strikes."""
        if ask.verb != "compare":
            return {(*_GOOD, None, None)}
        same, differs = True, False
        for index, tag in enumerate(ask.tags):
            place = (ask.space, ask.lba + index)
            may = self._candidates(place) | moving.get(place, set())
            same = same and tag in may
            differs = differs or bool(may - {tag})
        return ({(*_GOOD, None, None)} if same else set()) | ({(*_DIFFERS, None, None)} if differs else set())

    def _data_of(
        self,
        name: str,
        ask: Ask,
        row: Sequence[int],
        data: Sequence[int],
        moving: Mapping[tuple[int, int], set[int]],
    ) -> None:
        """The memory of a request."""
        clause = "ring.request.data_exact"
        if ask.verb in ("write", "compare"):
            fits = list(data) == list(ask.tags)
            self._check(clause, fits, f"memory of {name}", data, "as it was", max(len(data), 1))
            return
        if ask.verb != "read":
            return
        good, parts = _succeeded(row), self.setting.parts(ask)
        untouched = {SPOILT}
        if row[0] == NOT_RUN and parts == 1:
            self._check(
                "ring.request.refused_not_run",
                set(data) <= untouched,
                f"memory of {name}",
                data,
                "untouched",
                len(data),
            )
            return
        if row[0] != COMPLETED:
            return  # the drive may move data at this moment
        moved = good or parts > 1 or self._may_move(ask)
        for index, tag in enumerate(data):
            place = (ask.space, ask.lba + index)
            may = (self._candidates(place) | moving.get(place, set())) if moved else set()
            allowed = may if good else may | untouched
            self._check(clause, tag in allowed, f"block {index} of {name}", tag, allowed)

    def _settle(self, asks: Sequence[Ask], ended: Sequence[Sequence[int]]) -> None:
        """What blocks may hold after the batch."""
        sure: dict[tuple[int, int], set[int]] = {}
        maybe: dict[tuple[int, int], set[int]] = {}
        for ask, row in zip(asks, ended, strict=True):
            parts = self.setting.parts(ask)
            if _succeeded(row):
                target = sure
            elif parts == 1 and (row[0] == NOT_RUN or (row[0] == COMPLETED and not self._may_move(ask))):
                continue
            else:
                target = maybe
            if row[0] != COMPLETED:
                self._unended[self._drive(ask)] += parts
            for place, tag in _written(ask):
                target.setdefault(place, set()).add(tag)
                if row[0] != COMPLETED:
                    self._ghosts[place] = self._ghosts.get(place, frozenset()) | {tag}
        for place in set(sure) | set(maybe):
            before = frozenset() if place in sure else self._candidates(place)
            self._blocks[place] = before | frozenset(sure.get(place, ())) | frozenset(maybe.get(place, ()))

    # ---- counters ----

    def _counters(self, asks: Sequence[Ask], ended: Sequence[Sequence[int]], seen: Mapping[str, Any]) -> None:
        low: Counter[tuple[int, str]] = Counter()
        high: Counter[tuple[int, str]] = Counter()
        given_up: Counter[tuple[int, str]] = Counter()
        completed: Counter[int] = Counter()
        for ask, row in zip(asks, ended, strict=True):
            key, parts = (self._drive(ask), str(OPCODES[ask.verb])), self.setting.parts(ask)
            if row[0] == COMPLETED:
                low[key] += parts
                high[key] += parts
                completed[key[0]] += 1
            elif row[0] != NOT_RUN or parts > 1:
                high[key] += parts
                given_up[key] += parts
        for drive, table in enumerate(seen["fetched"]):
            for code, total in table.items():
                got = total - self._fetched[drive][code]
                least, most = low[drive, code], high[drive, code]
                # In real time a drive may fetch what was given up when that batch, and the next, had been looked at.
                late = 0 if self._simulated else self._unfetched.get((drive, code), 0)
                most += late
                self._unfetched[drive, code] = min(given_up[drive, code] + late, max(most - got, 0))
                self._check(
                    "ring.request.exactly_once" if most else "ring.request.refused_not_run",
                    least <= got <= most,
                    f"commands of opcode {code} that drive {drive} was given",
                    got,
                    f"{least} to {most}",
                )
                self._fetched[drive][code] = total
        self._count_strays(seen, completed)

    def _count_strays(self, seen: Mapping[str, Any], completed: Mapping[int, int]) -> None:
        per = self.setting.queues_per_drive
        self._take_counters(seen)
        for drive in range(len(self.setting.drives)):
            sent = sum(
                count
                for (owner, rule), count in zip(self._history, seen["hits"], strict=True)
                if owner == drive and rule["action"] in ("DUPLICATE", "UNKNOWN_CID") and self._has_room_for_strays()
            )
            most, found = sent, self._strays[drive]
            self._check("ring.cq.duplicate_counted", found <= most, f"strays of drive {drive}", found, f"<= {most}")
            if per == 1 and completed.get(drive):
                # What came before the completions that were taken was taken before them.
                least = self._owed[drive] - self._died[drive]
                self._check(
                    "ring.cq.duplicate_counted", found >= least, f"strays of drive {drive}", found, f">= {least}"
                )
            self._owed[drive] = sent
            if not self.setting.timely:
                late, unended = self._lates[drive], self._unended[drive]
                self._check("ring.cq.late_counted", late <= unended, f"lates of drive {drive}", late, f"<= {unended}")

    def _has_room_for_strays(self) -> bool:
        """Whether a completion queue ever holds a completion and a stray beside it; drives leave it out where not."""
        options = self.setting.options
        entries = options.get("cq_depth") or options["depth"]
        return int(entries) - 1 >= 2

    def _take_counters(self, seen: Mapping[str, Any]) -> None:
        """Add up what queues counted since the last look; those that were made anew begin at 0 again."""
        for name, sums in (("strays", self._strays), ("lates", self._lates)):
            for queue, now in enumerate(map(int, seen[name])):
                before = self._last[name][queue]
                sums[queue // self.setting.queues_per_drive] += now - before if now >= before else now
                self._last[name][queue] = now

    def _marks(
        self, asks: Sequence[Ask], ended: Sequence[Sequence[int]], seen: Mapping[str, Any], *, stopped: bool
    ) -> None:
        for ask, row in zip(asks, ended, strict=True):
            if row[0] in (TIMED_OUT, STOPPED):
                self._marked.add(row[6])
            if row[0] != COMPLETED and self.setting.parts(ask) > 1 and not stopped:
                self._doubted.add(self._drive(ask))
        for queue, sick in enumerate(seen["sick"]):
            if queue // self.setting.queues_per_drive in self._doubted and queue not in self._marked:
                if sick:
                    self._marked.add(queue)
                continue
            if self.setting.timely:
                self._check("ring.request.exactly_once", not sick, f"queue {queue} is marked", sick, False)
            else:
                must = queue in self._marked
                self._check("ring.timeout.queue_marked", sick == must, f"queue {queue} is marked", sick, must)
        if stopped:
            self._recovered(seen["after"])

    def _recovered(self, seen: Mapping[str, Any]) -> None:
        """Every queue that failed works again, and no command without an end moves data any more."""
        if not self.setting.timely:
            found, wanted = list(seen["queues"]), sorted(self._marked)
            self._check("ring.recovery.recreated_works", found == wanted, "queues recovered", found, wanted)
        self._check(
            "ring.recovery.recreated_works" if not self.setting.timely else "ring.request.exactly_once",
            not any(seen["sick"]),
            "queues that are marked after it",
            seen["sick"],
            "none",
        )
        for queue in self._marked:
            drive = queue // self.setting.queues_per_drive
            self._died[drive] = self._owed[drive] - self._strays[drive]
        self._take_counters(seen)
        for place, tags in self._ghosts.items():
            self._blocks[place] = self._candidates(place) | tags
        self._ghosts.clear()
        self._marked.clear()
        self._doubted.clear()

    def _refused(self, seen: Mapping[str, Any]) -> None:
        self._check(
            "ring.request.limits_checked",
            seen["error"] in ("RequestInvalid", "LbaOutOfRange", "NamespaceAbsent", "BufferInvalid"),
            "error of a request that does not fit",
            seen["error"],
            "a refusal",
        )
        for drive, table in enumerate(seen["fetched"]):
            self._check(
                "ring.request.refused_not_run",
                table == self._fetched[drive],
                f"commands that drive {drive} was given",
                table,
                self._fetched[drive],
                len(table),
            )

    # ---- helpers ----

    def _drive(self, ask: Ask) -> int:
        return self.setting.spaces[ask.space].drive

    def _queues(self, drive: int) -> set[int]:
        per = self.setting.queues_per_drive
        return set(range(drive * per, (drive + 1) * per))

    def _candidates(self, place: tuple[int, int]) -> frozenset[int]:
        return self._blocks.get(place, frozenset({0})) | self._ghosts.get(place, frozenset())

    def _matching(self, ask: Ask) -> list[Mapping[str, Any]]:
        drive, found = self._drive(ask), []
        for owner, rule in self._rules:
            if owner != drive:
                continue
            if rule["opcode"] is not None and rule["opcode"] != OPCODES[ask.verb]:
                continue
            if rule["lbas"] is not None:
                first, last = rule["lbas"]
                if ask.verb == "flush" or ask.lba > last or ask.lba + ask.blocks - 1 < first:
                    continue
            found.append(rule)
        return found

    def _may_move(self, ask: Ask) -> bool:
        """Whether a command that failed may have moved its data all the same."""
        return any(rule["action"] == "STATUS_LATE" for rule in self._matching(ask))

    def _short(self, rule: Mapping[str, Any]) -> bool:
        return int(rule["delay_ns"]) < int(self.setting.options.get("limit_ns", 1 << 62)) // 2

    def _check(self, clause: str, held: bool, what: str, found: Any, wanted: Any, examined: int = 1) -> None:
        self.examined[clause] += examined
        if not held:
            said = sorted(wanted, key=repr)[:8] if isinstance(wanted, set | frozenset) else wanted
            self.wrong.append(Wrong(self._number, clause, what, str(found)[:200], str(said)[:200]))


def judge(workload: Workload, seen: Mapping[str, Any], *, simulated: bool) -> Model:
    """The model after a whole workload."""
    model = Model(workload.setting, simulated=simulated)
    for step, one in zip(workload.steps, seen["steps"], strict=True):
        model.step(step, one)
    model.end(seen["stored"])
    return model


def _written(ask: Ask) -> Iterable[tuple[tuple[int, int], int]]:
    """Every block that a request writes, and what it puts there."""
    if ask.verb == "write":
        return (((ask.space, ask.lba + index), tag) for index, tag in enumerate(ask.tags))
    if ask.verb == "write_zeroes":
        return (((ask.space, ask.lba + index), 0) for index in range(ask.blocks))
    return ()


def _succeeded(row: Sequence[int]) -> bool:
    return row[0] == COMPLETED and (row[2], row[3]) == _GOOD


def _always(rule: Mapping[str, Any]) -> bool:
    """Whether a rule strikes each command that it matches."""
    return bool(rule["nth"] == 1 and rule["count"] == 0 and rule["rate"] == 1.0)


def _said(row: Sequence[int]) -> str:
    return f"{STATES[row[0]]}, {REASONS[row[1]]}, status {row[2]}/{row[3]:#x}, queue {row[6]}"
