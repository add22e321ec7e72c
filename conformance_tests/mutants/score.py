"""What came of the mutants: one line for each, the score with its denominator, and which case killed what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tutti_hal.conformance_tests.mutants.mutant import Mutant


class State(StrEnum):
    """How a mutant ended."""

    #: A case does not pass with it, and passes without.
    KILLED = "killed"
    #: It does not load, render or compile: killed by L1, and counted apart, for no case had to look.
    STILLBORN = "killed by compilation"
    #: Every targeted case passed.
    SURVIVED = "survived"
    #: No case is targeted at it.
    NOT_COVERED = "not covered"
    #: Every targeted case passed, and the level whose cases are the ones to notice has none yet.
    NOT_YET = "not covered yet"
    #: Listed as one that nothing can notice, and nothing did.
    EQUIVALENT = "equivalent"
    #: Listed as one that nothing can notice, and a case did.
    NOT_EQUIVALENT = "killed, though listed as equivalent"
    #: Every targeted case passed, and the list of survivors says which case is missing. It stays in the denominator.
    KNOWN = "survived, as listed"
    #: Listed as a survivor, and a case noticed it.
    NOT_SURVIVOR = "killed, though listed as a survivor"


#: States that make a self-test fail.
BAD = frozenset({State.SURVIVED, State.NOT_COVERED, State.NOT_EQUIVALENT, State.NOT_SURVIVOR})


@dataclass(frozen=True)
class Result:
    """What came of one mutant.

    Attributes:
        mutant: which.
        state: how it ended.
        killer: id of the instance that noticed; empty where none did.
        verdict: of that instance.
        reason: of that verdict, or of the state.
        seconds: how long the test took.
        tried: how many instances were run.
        awaits: for NOT_YET, the level.
    """

    mutant: Mutant
    state: State
    killer: str = ""
    verdict: str = ""
    reason: str = ""
    seconds: float = 0.0
    tried: int = 0
    awaits: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the score's JSON holds it."""
        return {
            "id": self.mutant.id,
            "change": self.mutant.shown,
            "state": self.state.value,
            "killer": self.killer,
            "verdict": self.verdict,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "tried": self.tried,
            "awaits": self.awaits,
        }


@dataclass(frozen=True)
class Score:
    """The result of a self-test.

    Attributes:
        tested: one for each mutant of the sample, in order.
        generated: how many mutants there are in all.
        seed: from which the sample was drawn.
        sampled: whether it is a sample.
        idle: cases that were tried on a mutant and killed none, each with what it says of that (`no_mutant`).
        seconds: how long it took.
        options: what was run: profile, archs.
    """

    tested: tuple[Result, ...]
    generated: int
    seed: int
    sampled: bool
    idle: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def count(self, *states: State) -> int:
        """How many mutants ended so."""
        return sum(one.state in states for one in self.tested)

    @property
    def killed(self) -> int:
        """Mutants that were noticed, those killed by compilation among them."""
        return self.count(State.KILLED, State.STILLBORN)

    @property
    def denominator(self) -> int:
        """All that were tried, without equivalents."""
        return len(self.tested) - self.count(State.EQUIVALENT)

    @property
    def ok(self) -> bool:
        """Whether every mutant that is not equivalent was killed, or is listed: as of a level to come, as a survivor.

        The score itself forgives nothing: what is listed as a survivor was not killed.
        """
        return bool(self.tested) and not any(one.state in BAD for one in self.tested)

    @property
    def summary(self) -> str:
        """The score in one line, with its denominator."""
        part = 100 * self.killed / self.denominator if self.denominator else 0.0
        # 100 % is said of all of them only.
        shown = f"{part:.1f}" if self.killed == self.denominator else f"{min(part, 99.9):.1f}"
        words = [
            f"killed {self.killed} of {self.denominator} non-equivalent ({shown} %)",
            f"{self.count(State.EQUIVALENT)} equivalent",
            f"{self.count(State.STILLBORN)} killed by compilation",
        ]
        awaited = Counter(one.awaits for one in self.tested if one.state is State.NOT_YET)
        words += [f"{count} not covered yet ({level})" for level, count in sorted(awaited.items())]
        for state in (State.KNOWN, State.SURVIVED, State.NOT_COVERED, State.NOT_EQUIVALENT, State.NOT_SURVIVOR):
            if self.count(state):
                words.append(f"{self.count(state)} {state}")
        text = ", ".join(words)
        return f"{text}; sample {len(self.tested)} of {self.generated}, seed {self.seed}" if self.sampled else text

    def kills(self) -> dict[str, list[str]]:
        """Case name -> ids of the mutants that it killed first, in order."""
        found: dict[str, list[str]] = {}
        for one in self.tested:
            if one.killer:
                found.setdefault(one.killer.partition(":")[0], []).append(one.mutant.id)
        return dict(sorted(found.items()))

    def to_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return {
            "summary": self.summary,
            "ok": self.ok,
            "generated": self.generated,
            "sample": len(self.tested),
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "options": dict(self.options),
            "states": {state.value: self.count(state) for state in State},
            "mutants": [one.to_json() for one in self.tested],
            "kills": self.kills(),
            "idle_cases": dict(self.idle),
        }

    def table(self) -> str:
        """One line for each mutant, worst states first, as text."""
        return "\n".join(lines_of(sorted(self.tested, key=lambda one: (one.state not in BAD, one.mutant.id))))


def lines_of(tested: Iterable[Result]) -> list[str]:
    """A line for each: state, seconds, id, and by whom and how it was killed or what it changes."""
    lines = []
    for one in tested:
        by = f"{one.killer} {one.verdict}" if one.killer else one.reason or one.mutant.shown
        lines.append(f"{one.state.value:<22} {one.seconds:6.1f} s  {one.mutant.id}  {by}")
    return lines
