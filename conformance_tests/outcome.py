"""How one run of one instance ended, raw: what `verify` starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class End(StrEnum):
    """How a run ended."""

    #: The case returned its observations.
    OBSERVED = "observed"
    #: A typed error of the product reached the runner.
    REFUSED = "refused"
    #: Another exception did: the suite's fault.
    RAISED = "raised"
    #: The worker process died.
    CRASHED = "crashed"
    #: The watchdog killed the worker.
    TIMED_OUT = "timed_out"
    #: The device failed and could not be brought back.
    LOST = "lost"
    #: The case asked to be skipped.
    SKIPPED = "skipped"
    #: It was not started: planned as a skip or an expected failure, deselected, or time ran out.
    NOT_RUN = "not_run"


@dataclass(frozen=True)
class Outcome:
    """The raw result of one instance.

    Attributes:
        id: of the instance.
        seed: the instance's own.
        end: how it ended.
        detail: what goes with the end: ``error``/``id``/``said``/``trace`` of an exception, ``signal`` or ``code`` of a
            crash, ``budget_s`` of a time-out, for both the ``phase`` (``compile``, ``case``, ``exit``),
            ``reason``/``why`` of a skip or of a run that was not started; ``spent`` where the case failed the device on
            purpose and nothing brings it back in that process.
        observations: as :func:`tutti_hal.conformance_tests.observation.encode` gives them.
        log: lines on standard output and error, of sanitizers and of the kernel's log while it ran.
        foreseen: patterns of log lines that the case declared as its own.
        seconds: how long it ran.
        alone: where it failed in a batch, what came of running it again: ``failed_alone`` (in a worker of its own),
            ``failed_again`` (after the same instances as before), those instances as ``after`` (none where it ran
            first), and, where a limit cut that short, ``left_out``: what was not run again.
    """

    id: str
    seed: int
    end: End
    detail: Mapping[str, Any] = field(default_factory=dict)
    observations: Mapping[str, Any] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    foreseen: tuple[str, ...] = ()
    seconds: float = 0.0
    alone: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As one line of ``observations.jsonl`` holds it."""
        return {
            "id": self.id,
            "seed": self.seed,
            "end": self.end.value,
            "detail": dict(self.detail),
            "observations": dict(self.observations),
            "log": list(self.log),
            "foreseen": list(self.foreseen),
            "seconds": round(self.seconds, 6),
            "alone": None if self.alone is None else dict(self.alone),
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Outcome:
        """The reverse.

        Raises:
            KeyError, ValueError, TypeError: a key is missing or of the wrong kind.
        """
        return cls(
            id=str(table["id"]),
            seed=int(table["seed"]),
            end=End(table["end"]),
            detail=dict(table["detail"]),
            observations=dict(table["observations"]),
            log=tuple(map(str, table["log"])),
            foreseen=tuple(map(str, table["foreseen"])),
            seconds=float(table["seconds"]),
            alone=None if table["alone"] is None else dict(table["alone"]),
        )
