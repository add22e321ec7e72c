"""The verdicts of a case, worst first, and the reasons for which a case may be skipped."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What came of a case, or of a clause. Declared worst first: of several the first declared wins."""

    #: A check did not hold, an error of the product was not foreseen, a log line was unexpected, or a skip was.
    FAIL = "FAIL"
    #: The suite itself failed: an exception in a case, or a case that checked nothing of what it claims.
    ERROR = "ERROR"
    #: The case outran its budget and was killed.
    TIMEOUT = "TIMEOUT"
    #: The device was lost, or had failed and could not be reset.
    DEVICE_LOST = "DEVICE_LOST"
    #: It passed, although it is listed as an expected failure.
    XPASS = "XPASS"
    #: Statistical, and its twin mutant was killed too seldom on this device for a pass to mean anything.
    INCONCLUSIVE = "INCONCLUSIVE"
    #: There is no case, or the case was not run.
    NOT_TESTED = "NOT_TESTED"
    #: Listed as an expected failure, and not shown to pass.
    XFAIL = "XFAIL"
    #: Not run for a reason that is allowed; see :class:`SkipReason`.
    SKIP = "SKIP"
    #: It would not have passed, and a waiver that has not expired covers it.
    WAIVED = "WAIVED"
    #: Every check held, and each clause that it claims was checked.
    PASS = "PASS"


class SkipReason(StrEnum):
    """Why a case was not run. The first two follow from what the vendor declares; the others need a machine's list."""

    #: It needs a capability that is declared false and is optional at the case's level.
    CAPABILITY = "capability"
    #: The vendor lists the clause as unsupported for ever, and its capability is declared false.
    UNSUPPORTED = "unsupported"
    #: The machine lacks something: a second device, memory, a privilege.
    MACHINE = "machine"
    #: A tool is not installed: a compiler, a disassembler.
    TOOL = "tool"


#: Skips that the vendor's declarations decide; `verify` works them out again.
DECLARED_REASONS = frozenset({SkipReason.CAPABILITY, SkipReason.UNSUPPORTED})

_ORDER = {verdict: rank for rank, verdict in enumerate(Verdict)}

#: Verdicts that keep a level from being passed although nothing failed: they say nothing of the port, for or against.
OPEN = frozenset({Verdict.INCONCLUSIVE, Verdict.NOT_TESTED})

#: Verdicts with which a level can still be passed.
ACCEPTED = frozenset({Verdict.PASS, Verdict.WAIVED, Verdict.SKIP})


def worst(verdicts: Iterable[Verdict], *, none: Verdict = Verdict.NOT_TESTED) -> Verdict:
    """The worst of several verdicts; ``none`` where there are none."""
    return min(verdicts, key=_ORDER.__getitem__, default=none)
