"""Makes a failing workload small: fewer steps, then fewer requests in each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tutti_hal.conformance_tests.campaign.steps import Workload

T = TypeVar("T")


def shrink(workload: Workload, fails: Callable[[Workload], bool], *, time_limit_s: float = 60.0) -> Workload:
    """The smallest workload found that still fails. Blocks for many runs, or until the time is over.

    Args:
        workload: that fails.
        fails: runs one; the same one must fail the same way each time, or less is taken away than could be.
        time_limit_s: after which what was reached is returned.
    """
    end = time.monotonic() + time_limit_s

    def still(candidate: Workload) -> bool:
        return time.monotonic() < end and fails(candidate)

    small = replace(workload, steps=fewer(workload.steps, lambda steps: still(replace(workload, steps=steps))))
    for number in reversed(range(len(small.steps))):
        step = small.steps[number]
        if len(step.asks) < 2 or step.kind == "refused":
            continue

        def with_asks(asks: tuple[object, ...], at: int = number, base: Workload = small) -> Workload:
            steps = list(base.steps)
            steps[at] = replace(steps[at], asks=asks)  # type: ignore[arg-type]
            return replace(base, steps=tuple(steps))

        small = with_asks(fewer(step.asks, lambda asks: still(with_asks(asks))))
    return small


def fewer(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Delta debugging: as few of the items, in order, as still fail; at least one."""
    kept = tuple(items)
    chunk = len(kept) // 2
    while chunk:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + chunk :]
            if fewer and fails(fewer):
                kept = fewer
            else:
                at += chunk
        chunk //= 2
    return kept
