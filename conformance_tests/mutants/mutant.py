"""A mutant as data: what it is called, where it stands, what it changes, and where it can be noticed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: Characters shown before a change.
_CONTEXT = 24


class Operator(StrEnum):
    """How a mutant is made. The value is the part of a mutant's id that names it."""

    #: A call that is a statement, or the work of a lowering, is left out.
    DROP = "drop"
    #: Acquire or release becomes relaxed.
    WEAKEN_ORDER = "weaken-order"
    #: System becomes device, device becomes block.
    WEAKEN_SCOPE = "weaken-scope"
    #: A number, a sum or a result is one too large.
    PLUS_ONE = "plus-one"
    #: A number, a sum or a result is one too small.
    MINUS_ONE = "minus-one"
    #: A condition, a comparison or a truth value is another one.
    FLIP = "flip"
    #: A constant of a group, such as a request's state, becomes the next one of its group.
    SWAP_CONSTANT = "swap-constant"
    #: Two names or numbers of a record are exchanged, or a member does what its neighbour does.
    SWAP = "swap"
    #: A capability is claimed that is not there, or one is denied that must be.
    LIE = "lie"
    #: Something that is there is declared absent, or the other way round.
    ABSENT = "absent"
    #: A controller behaves otherwise, through its hooks.
    CONTROLLER = "controller"
    #: Made by hand, in ``registry.yaml``.
    HAND = "hand"


class Source(StrEnum):
    """What is changed."""

    TEMPLATE = "template"
    RECORD = "record"
    CONTROLLER = "controller"


@dataclass(frozen=True)
class TextEdit:
    """Characters [start, end) of a template that are replaced."""

    start: int
    end: int
    instead: str


@dataclass(frozen=True)
class RecordEdit:
    """A value of a record that is replaced; ``remove`` takes the key away."""

    path: tuple[str, ...]
    value: Any = None
    remove: bool = False


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        id: stable: it names the file, the function or key, the line by a hash of its text, and the operator. An edit
            elsewhere does not rename it.
        source: what is changed.
        operator: how.
        file: the template's name below its root, ``vendor.yaml``, or empty for a controller.
        line: where it stands today, for people.
        before: the text that is changed.
        after: what stands there instead.
        place: what the targeting table matches: file and function, or the record's key.
        member: the primitive, or the host function, that a change of a record is about; empty for others.
        archs: the archs on which it changes anything; empty for all.
        guard: capability -> the value that an arch must declare for the text to be compiled at all.
        text: for a template.
        record: for a record.
        controller: name of the controller's mutation.
        about: for a mutant made by hand, what is wrong with it, in a sentence.
        cases: for a mutant made by hand, globs of the cases that must notice; targeted ones for the others.
    """

    id: str
    source: Source
    operator: Operator
    file: str
    line: int
    before: str
    after: str
    place: str
    member: str = ""
    archs: tuple[str, ...] = ()
    guard: Mapping[str, bool] = field(default_factory=dict)
    text: TextEdit | None = None
    record: tuple[RecordEdit, ...] = ()
    controller: str = ""
    about: str = ""
    cases: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """File, line and change in one line for people."""
        where = f"{self.file}:{self.line}" if self.file else self.controller
        before, after = " ".join(self.before.split()), " ".join(self.after.split())
        alike = _alike(before, after)
        start = max(0, alike - _CONTEXT)
        return f"{where}: {_cut(before, start)} -> {_cut(after, start) or 'nothing'}"


def _alike(one: str, other: str) -> int:
    """How many characters two texts have in common from the start."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _cut(text: str, start: int) -> str:
    """What stands around the change."""
    end = start + 2 * _CONTEXT + 16
    return f"{'...' if start else ''}{text[start:end]}{'...' if len(text) > end else ''}"
