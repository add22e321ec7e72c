"""What a judge gets, and the checks that it makes of it.

A judge is a pure function of a case's observations, axes, seed and the arch's facts. It imports nothing of the product:
what it expects it works out from the text of the contract. So the same judge runs beside the device and, later, in
`verify` at somebody else's desk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

Axis = str | int | bool

_TEXT_LIMIT = 400


@dataclass(frozen=True)
class Check:
    """One thing that was judged.

    Attributes:
        clause: the clause that it speaks for.
        what: what was looked at, in words.
        held: whether it was as it must be.
        examined: how many values were compared; 0 makes the case an error, for it shows nothing.
        found: what was seen, in words; empty where it held.
        wanted: what should have been seen, likewise.
    """

    clause: str
    what: str
    held: bool
    examined: int
    found: str = ""
    wanted: str = ""


@dataclass(frozen=True)
class Facts:
    """What a judge may know of the arch beside the observations.

    Attributes:
        vendor: name in the record.
        kind: kind in the record: ``hardware``, ``host``...
        arch: name of the arch; empty for a case about the whole vendor.
        wave_width: lanes of a wave; 0 likewise.
        mask_bits: bits of a lane mask; 0 likewise.
        simulated: whether the arch has a world with a scheduler and a clock of its own.
        capabilities: those of the vendor, and of the arch where there is one, as declared.
        limits: of the arch.
    """

    vendor: str
    kind: str
    arch: str
    wave_width: int
    mask_bits: int
    simulated: bool
    capabilities: Mapping[str, bool]
    limits: Mapping[str, int]


class Seen:
    """Observations of one case, with the checks made of them so far."""

    def __init__(
        self, observations: Mapping[str, Any], axes: Mapping[str, Axis], seed: int, facts: Facts, clauses: Sequence[str]
    ) -> None:
        self._observations = observations
        #: The case's own axes, by name.
        self.axes = axes
        #: The case's seed, from which it drew whatever was random.
        self.seed = seed
        #: What is declared of the arch.
        self.facts = facts
        self._clauses = tuple(clauses)
        self.checks: list[Check] = []
        #: Set by :meth:`inconclusive`.
        self.doubt = ""

    def __getitem__(self, name: str) -> Any:
        """One observation, arrays decoded. KeyError where the case did not make it."""
        return self._observations[name]

    def __contains__(self, name: str) -> bool:
        return name in self._observations

    def equal(self, clause: str, what: str, found: Any, wanted: Any) -> None:
        """Check that two values, or two arrays element by element, are equal in value and shape."""
        import numpy as np

        if isinstance(found, np.ndarray) or isinstance(wanted, np.ndarray):
            a, b = np.asarray(found), np.asarray(wanted)
            same = a.shape == b.shape
            wrong = np.flatnonzero(np.ravel(a != b)) if same else np.array([0])
            if same and not len(wrong):
                self._add(clause, what, True, int(b.size), "", "")
                return
            said = f"shape {a.shape}" if not same else _first_wrong(a, wrong)
            meant = f"shape {b.shape}" if not same else _first_wrong(b, wrong)
            self._add(clause, what, False, int(max(a.size, b.size, 1)), said, meant)
            return
        examined = len(wanted) if isinstance(wanted, list | tuple | dict) else 1
        held = isinstance(found, bool) is isinstance(wanted, bool) and found == wanted
        self._add(clause, what, bool(held), examined, _text(found), _text(wanted))

    def holds(self, clause: str, what: str, condition: object, found: Any = None, examined: int | Sized = 1) -> None:
        """Check a condition that was worked out; ``what`` says in words what must be so.

        Args:
            clause: one of the case's.
            what: the statement, true where the product is right.
            condition: its truth.
            found: what to show when it is false.
            examined: how many values it speaks of, or the collection of them.
        """
        number = examined if isinstance(examined, int) else len(examined)
        self._add(clause, what, bool(condition), number, _text(found), what)

    def refused(self, clause: str, what: str, found: Mapping[str, Any], error: str, *canonical: str) -> None:
        """Check that a call was refused with an error of one class (and, where given, one of these canonical names)."""
        held = found.get("refused") is True and found.get("error") == error
        if canonical:
            held = held and found.get("canonical") in canonical
        names = f" ({' or '.join(canonical)})" if canonical else ""
        wanted = f"refused with {error}{names}"
        self._add(clause, what, held, 1, _text(dict(found)), wanted)

    def inconclusive(self, why: str) -> None:
        """Say that the observations do not suffice for a pass: the verdict becomes INCONCLUSIVE if no check failed."""
        self.doubt = self.doubt or why

    def _add(self, clause: str, what: str, held: bool, examined: int, found: str, wanted: str) -> None:
        if clause not in self._clauses:
            raise ValueError(f"the case does not claim clause '{clause}'; it claims {', '.join(self._clauses)}")
        self.checks.append(Check(clause, what, held, examined, "" if held else found, "" if held else wanted))


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}... ({len(text)} characters)"


def _first_wrong(array: Any, wrong: Any) -> str:
    flat = array.reshape(-1)
    shown = ", ".join(f"[{int(i)}]={flat[int(i)]}" for i in wrong[:4])
    return f"{shown}{f' and {len(wrong) - 4} more' if len(wrong) > 4 else ''} of {array.size}"
