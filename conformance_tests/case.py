"""A case of the suite: what it claims, what it needs, how it looks, and how it is judged.

A case is a function that observes and a second one that judges::

    @case("prim/crc32c", level="L3", clauses=("prim.crc.check_value",), kernels=("probe_crc",), axes={"bits": (32, 64)})
    def crc32c(run: Run) -> Observations:
        \"\"\"The sum of a text whose CRC-32C is known.\"\"\"
        ...
        return {"sum": value}

    @crc32c.judge
    def _(seen: Seen) -> None:
        seen.equal("prim.crc.check_value", "CRC-32C of the nine digits", seen["sum"], 0xE3069283)

The observing half touches the product and checks nothing. The judging half checks and touches nothing; it is run again
by whoever verifies the package.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from tutti_hal.conformance_tests.seen import Axis, Seen

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

Observations = Mapping[str, Any]

_NAME = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+(\.[a-z0-9_]+)*)+")
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")

#: Name of the axis that says which arch an instance ran on; the plan adds it, no case declares it.
ARCH_AXIS = "arch"


class Determinism(StrEnum):
    """What a second run with the same seed shows."""

    #: The same verdict, always.
    EXACT = "exact"
    #: The same verdict with a stated probability, within a stated budget.
    STATISTICAL = "statistical"


class Per(StrEnum):
    """What a case is run for."""

    #: Once: it is about tables, records, tools.
    VENDOR = "vendor"
    #: Once for every arch of the run.
    ARCH = "arch"


class Observe(Protocol):
    """The observing half of a case."""

    def __call__(self, run: Run, /) -> Observations:
        """Look at the product and return what was seen."""
        ...


Judge = Callable[[Seen], None]


@dataclass
class Case:
    """One case, with all values of its axes.

    Attributes:
        name: query path, such as ``prim/atomic.add``: groups by slashes, the last part is the case.
        level: where on the ladder it counts, ``L0`` to ``L8``.
        clauses: what it claims to test; each must be checked in every instance that runs, unless ``narrow`` says that
            an instance tests fewer.
        axes: name -> values; an instance is one value of each.
        needs: capabilities without which it is skipped.
        per: what it is run for.
        kernels: kernel sets that it launches, compiled before its budget starts; instances that share them share
            a worker.
        budget_s: seconds after which it is killed.
        determinism: see :class:`Determinism`.
        quick: whether it belongs to the quick run.
        identity: whether every shard repeats it, to prove that all come from one product on one machine.
        only: which instances make sense: a predicate over axes and facts of the arch (``wave_width``, ``simulated``).
        narrow: the clauses that an instance tests, where they depend on its axes.
        calls: what it shows of the host functions: ``Malloc`` where it calls that function and looks at what it did,
            ``Malloc:MemoryAllocation`` where it provokes that error of its contract.
        primitives: ids of the device primitives whose results it looks at, or globs of them.
        since: version of the suite in which it entered.
        fails_device: whether a kernel of it fails on purpose. Where a reset does not bring the device back
            (``error.recoverable``), the process that ran it is spent, and that is no fault.
        no_mutant: why no mutant can be killed by it; empty where one is.
        doc: first line of its docstring: what it shows, in a sentence.
        source: file and line.
    """

    name: str
    level: str
    clauses: tuple[str, ...]
    observe: Observe
    axes: Mapping[str, tuple[Axis, ...]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    per: Per = Per.ARCH
    kernels: tuple[str, ...] = ()
    budget_s: float = 10.0
    determinism: Determinism = Determinism.EXACT
    quick: bool = True
    identity: bool = False
    only: Callable[[Mapping[str, Axis], Any], bool] | None = None
    narrow: Callable[[Mapping[str, Axis]], tuple[str, ...]] | None = None
    calls: tuple[str, ...] = ()
    primitives: tuple[str, ...] = ()
    since: str = "0.1"
    fails_device: bool = False
    no_mutant: str = ""
    doc: str = ""
    source: str = ""
    judged: Judge | None = None

    def judge(self, function: Judge) -> Judge:
        """Register the judging half; a decorator."""
        if self.judged is not None:
            raise ValueError(f"case {self.name} has two judges")
        self.judged = function
        return function

    @property
    def module(self) -> str:
        """The name of the module in which its observing half is written."""
        return self.observe.__module__

    def instances(self) -> tuple[Instance, ...]:
        """Every combination of its axes, in order; the arch is not among them yet."""
        names = list(self.axes)
        return tuple(
            Instance(self, dict(zip(names, values, strict=True)))
            for values in itertools.product(*(self.axes[name] for name in names))
        )


@dataclass(frozen=True)
class Instance:
    """A case with one value of each of its axes, and, where it runs on a device, an arch."""

    case: Case
    axes: Mapping[str, Axis]
    arch: str = ""

    @property
    def id(self) -> str:
        """The stable id: ``name`` or ``name:axis=value,...``; the arch comes first among the axes."""
        pairs = ([f"{ARCH_AXIS}={self.arch}"] if self.arch else []) + [f"{k}={_word(v)}" for k, v in self.axes.items()]
        return f"{self.case.name}:{','.join(pairs)}" if pairs else self.case.name

    @property
    def clauses(self) -> tuple[str, ...]:
        """The clauses that this instance tests."""
        return self.case.narrow(self.axes) if self.case.narrow else self.case.clauses

    def seed(self, base: int) -> int:
        """The instance's own seed, 63 bits: a function of the run's seed and of its id."""
        digest = hashlib.sha256(f"{base}:{self.id}".encode()).digest()
        return int.from_bytes(digest[:8], "little") >> 1


def _word(value: Axis) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def case(name: str, *, level: str, clauses: tuple[str, ...], **options: Any) -> Callable[[Observe], Case]:
    """Declare a case; see :class:`Case` for the options. The function's docstring says what the case shows.

    Raises:
        ValueError: the name, an axis or an axis value is not well formed, or there is no clause or docstring.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}' is not a case name such as prim/atomic.add")
    if not clauses:
        raise ValueError(f"case {name} claims no clause")
    for axis, values in options.get("axes", {}).items():
        if axis == ARCH_AXIS or not _WORD.fullmatch(axis) or not values:
            raise ValueError(f"case {name}: axis '{axis}' is reserved, not a word, or empty")
        for value in values:
            if not _WORD.fullmatch(_word(value)):
                raise ValueError(f"case {name}: {axis}={value!r} is not a word")

    def declare(observe: Observe) -> Case:
        doc = " ".join((observe.__doc__ or "").strip().split("\n\n")[0].split())
        if not doc:
            raise ValueError(f"case {name} does not say what it shows")
        code = getattr(observe, "__code__", None)
        source = f"{code.co_filename}:{code.co_firstlineno}" if code else ""
        return Case(name, level, clauses, observe, doc=doc, source=source, **options)

    return declare
