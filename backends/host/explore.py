"""Exhaustive exploration: every run that a bounded `sim` world can take, one script of choices at a time.

A run under the policy *script* takes the choices that it is given and then the first alternative of each further one,
and tells which choices it met. The tree of all runs is walked depth first with nothing kept but the last run: the next
script repeats it up to its last choice that has an alternative left, and takes that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Outcome = TypeVar("Outcome", bound=Hashable)

#: One run: takes a script, returns its choices as (taken, alternatives) and what came out.
Attempt = Callable[[Sequence[int]], tuple[Sequence[tuple[int, int]], Outcome]]


@dataclass(frozen=True)
class Exploration(Generic[Outcome]):
    """What was covered, and what came out.

    `complete` is true when every run within the world's own bounds (pre-emptions, staleness) was taken; `longest` is
    the largest number of choices in a run; `witness` holds, for each outcome, the first script that led to it.
    """

    runs: int
    complete: bool
    longest: int
    outcomes: Counter[Outcome]
    witness: dict[Outcome, tuple[int, ...]]


def explore(attempt: Attempt[Outcome], max_runs: int) -> Exploration[Outcome]:
    """Walk the tree of runs depth first, at most `max_runs` of them.

    The attempt must be deterministic: the same script, the same choices. Blocks until done; errors of the attempt pass
    through.
    """
    outcomes: Counter[Outcome] = Counter()
    witness: dict[Outcome, tuple[int, ...]] = {}
    script: list[int] = []
    longest = 0
    for run in range(1, max_runs + 1):
        choices, outcome = attempt(script)
        taken = [choice for choice, _ in choices]
        if taken[: len(script)] != script:
            raise ValueError(f"not deterministic: script {script} replayed as {taken[: len(script)]}")
        outcomes[outcome] += 1
        witness.setdefault(outcome, tuple(taken))
        longest = max(longest, len(taken))
        last = len(choices) - 1
        while last >= 0 and choices[last][0] + 1 >= choices[last][1]:
            last -= 1
        if last < 0:
            return Exploration(run, True, longest, outcomes, witness)
        script = [*taken[:last], taken[last] + 1]
    return Exploration(max_runs, False, longest, outcomes, witness)
