"""Histograms of litmus cases, as the page shows them: summed over archs and axes, every form apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.cases.l4_memory.scoring import model_of, pruned
from tutti_hal.conformance_tests.cases.l4_memory.shapes import SHAPES, Shape, key
from tutti_hal.conformance_tests.outcome import Outcome
from tutti_hal.conformance_tests.session import Session

#: Outcomes shown of a form; the weak ones first, then the most frequent.
_OUTCOMES = 8
#: Forms shown of a case at most: a package may hold anything.
_FORMS = 64


@dataclass
class FormRow:
    """A form of a case: what its instances ended with.

    Attributes:
        name: of the form; the right one has none before it.
        right: whether it is the right form.
        exact: whether a simulated world played it, one instance in many schedules.
        shape: what its outcomes mean.
        histogram: outcome -> instances.
        pruned: title of the model that forbids the weak outcome to it as well; empty where none does.
    """

    name: str
    right: bool
    exact: bool
    shape: Shape
    histogram: Counter[str] = field(default_factory=Counter)
    pruned: str = ""

    @property
    def instances(self) -> int:
        """All of them."""
        return self.histogram.total()

    @property
    def weak(self) -> int:
        """Those that ended weak."""
        return sum(self.histogram[key(one)] for one in self.shape.weak)

    @property
    def shown(self) -> tuple[tuple[str, int], ...]:
        """The outcomes to show, with their numbers."""
        weak = {key(one) for one in self.shape.weak}
        order = sorted(self.histogram.items(), key=lambda pair: (pair[0] not in weak, -pair[1], pair[0]))
        return tuple(order[:_OUTCOMES])

    @property
    def more(self) -> int:
        """How many outcomes are not shown."""
        return max(0, len(self.histogram) - _OUTCOMES)


@dataclass(frozen=True)
class LitmusCase:
    """A litmus case, what its outcomes' numbers are, and its forms."""

    name: str
    doc: str
    noted: str
    forms: tuple[FormRow, ...]


def litmus(session: Session) -> tuple[LitmusCase, ...]:
    """The litmus cases of a run that made observations. What is not as such an observation should be is left out."""
    rows: dict[str, dict[tuple[str, bool, bool], FormRow]] = {}
    docs: dict[str, str] = {}
    for instance in session.instances:
        outcome = session.outcomes.get(instance.id)
        shape = SHAPES.get(_text(outcome.observations.get("shape"))) if outcome else None
        if outcome is None or shape is None:
            continue
        own = rows.setdefault(instance.case.name, {})
        docs[instance.case.name] = instance.case.doc
        for name, right, histogram in _tallies(outcome):
            at = (name, right, session.facts[instance.arch].simulated)
            if at not in own and len(own) < _FORMS:
                own[at] = FormRow(
                    name, right, at[2], shape, pruned="" if right else _pruned(session, instance, outcome)
                )
            if at in own and own[at].shape is shape:
                own[at].histogram.update(histogram)
    return tuple(
        LitmusCase(name, docs[name], ", ".join(next(iter(own.values())).shape.noted), tuple(own.values()))
        for name, own in rows.items()
        if own
    )


def _tallies(outcome: Outcome) -> Iterator[tuple[str, bool, Mapping[str, int]]]:
    """Name, whether it is the right form, and histogram of each form that was observed."""
    twins = outcome.observations.get("twins")
    every = [(True, outcome.observations.get("right"))]
    every += [(False, one) for one in (twins.values() if isinstance(twins, dict) else ())]
    for right, tally in every:
        if not isinstance(tally, dict):
            continue
        histogram = tally.get("histogram")
        if isinstance(histogram, dict) and all(type(number) is int for number in histogram.values()):
            yield _text(tally.get("form")), right, histogram


def _pruned(session: Session, instance: Instance, outcome: Outcome) -> str:
    facts, cpu = session.facts[instance.arch], _text(outcome.observations.get("cpu"))
    model = model_of(facts, cpu)
    return model.title if model and pruned(facts, cpu, _text(outcome.observations.get("shape"))) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
