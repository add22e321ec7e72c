"""A case of the rig: a function that runs in the guest, the machine that it wants, and how it reports.

The same module is imported on the host, which reads what each case wants, and in the guest, which runs it. So a case's
module imports the product inside the function.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from rig.qemu import Machine


class Failed(Exception):
    """A check of the case did not hold."""


class Skipped(Exception):
    """The case has no meaning on this kernel or machine; says why."""


class Asker(Protocol):
    """How a case asks the host for something that only the host can do."""

    def __call__(self, verb: str, **details: Any) -> Any:
        """Ask and wait for the answer."""
        ...


class Guest:
    """What a case is given: checks that are counted, words for the log, and the host's ear."""

    def __init__(self, ask: Asker, say: Callable[[str], None]) -> None:
        self.ask = ask
        self.say = say
        self.checks = 0
        self.expected: list[str] = []

    def check(self, holds: object, what: str) -> None:
        """Count a check; Failed with ``what`` when it does not hold."""
        self.checks += 1
        if not holds:
            raise Failed(what)

    def equal(self, found: object, wanted: object, what: str) -> None:
        """Count a check that two values are the same; Failed with both when they are not."""
        self.checks += 1
        if found != wanted:
            raise Failed(f"{what}: found {_short(found)}, wanted {_short(wanted)}")

    def expect_log(self, pattern: str) -> None:
        """The kernel will log trouble that matches ``pattern``; it must, and it is no fault of this case."""
        self.expected.append(pattern)

    def skip(self, why: str) -> NoReturn:
        """End here: the case has no meaning on this kernel or machine."""
        raise Skipped(why)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:120]} ... {text[-60:]}"


Body = Callable[[Guest], None]


@dataclass(frozen=True)
class Case:
    """One case, as its module declares it. ``module`` and ``name`` are where the guest finds it again."""

    body: Body
    machine: Machine
    timeout_s: float
    fresh: bool
    needs_module: bool

    @property
    def where(self) -> str:
        """``module:function``, as the protocol names it."""
        return f"{self.body.__module__}:{self.body.__name__}"

    @property
    def name(self) -> str:
        """``concept/function``, as people name it."""
        return f"{self.body.__module__.rsplit('.', 1)[-1]}/{self.body.__name__}"

    @property
    def sentence(self) -> str:
        """The first line of its docstring."""
        return (self.body.__doc__ or "").strip().split("\n", 1)[0]


def case(
    machine: Machine | tuple[Machine, ...] = Machine(),  # noqa: B008 (frozen)
    *,
    timeout_s: float = 60.0,
    fresh: bool = False,
    needs_module: bool = True,
) -> Callable[[Body], Body]:
    """Declare a case for ``machine``, or for each of several.

    ``timeout_s`` is for an emulated processor shared with others. ``fresh`` asks for a guest that no later case uses.
    ``needs_module`` is False for a case that runs without the kernel module.
    """
    machines = machine if isinstance(machine, tuple) else (machine,)

    def mark(body: Body) -> Body:
        body.__dict__["rig_cases"] = tuple(Case(body, each, timeout_s, fresh, needs_module) for each in machines)
        return body

    return mark


def all_cases() -> list[Case]:
    """Every case of ``rig.cases``, by module and then as written."""
    found: list[Case] = []
    package = importlib.import_module("rig.cases")
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"rig.cases.{info.name}")
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__:
                found += getattr(value, "rig_cases", ())
    return found


def body_of(where: str) -> Body:
    """The function that ``where`` (``module:function``) names; only a declared case is taken."""
    module, _, name = where.partition(":")
    body: Body = getattr(importlib.import_module(module), name)
    if not hasattr(body, "rig_cases"):
        raise LookupError(f"{where} is no case")
    return body
