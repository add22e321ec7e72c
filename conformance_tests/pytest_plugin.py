"""The suite in pytest: a vendor certifies from its own repository, case by case, beside its other tests.

    import pytest

    @pytest.mark.conformance(profile="acme", level="L3")
    def test_conformance(conformance_case):
        conformance_case.check()

makes one test of each instance, named by its id, so that ``-k crc32c`` and ``--lf`` work. The marker takes ``profile``
(``VENDOR[:ARCH]``; without an arch, every arch found here), ``level`` (up to and including; all by default), ``cases``
(ids, case names or globs), ``quick``, ``seed``, ``machine`` and ``extra`` (files or folders with cases of one's own).

A pass passes, an allowed skip skips with its code, an expected failure is an xfail, and everything else fails with the
reason and the one command that runs just that case again. Cases run in worker processes that the tests of a marker
share, under the same watchdog and log watch as ``tutti-hal certify``.

Nothing of the suite is imported until a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.case import Instance
    from tutti_hal.conformance_tests.outcome import Outcome
    from tutti_hal.conformance_tests.runner.shop import Shop
    from tutti_hal.conformance_tests.runner.slot import Question, Slot

_FIXTURE = "conformance_case"

_MARKER = (
    "conformance(profile, level=..., cases=[...], quick=False, seed=..., machine=..., extra=[...]): "
    "run the instances of tutti-hal's conformance suite through the fixture `conformance_case`"
)


@dataclass(frozen=True)
class Asked:
    """The words of a marker; see this module's text."""

    profile: str
    level: str | None = None
    cases: tuple[str, ...] = ()
    quick: bool = False
    seed: int | None = None
    machine: str = "default"
    extra: tuple[str, ...] = ()

    @classmethod
    def of(cls, marker: pytest.Mark, where: str) -> Asked:
        """The words of one marker.

        Raises:
            UsageError: there is no profile, or a word that is none of these.
        """
        words = dict(marker.kwargs)
        for name in ("cases", "extra"):
            words[name] = (words[name],) if isinstance(words.get(name), str) else tuple(words.get(name, ()))
        try:
            return cls(*marker.args, **words)
        except TypeError as error:
            raise pytest.UsageError(f"{where}: marker conformance: {error}") from None


class Bench:
    """The workers of one marker's tests, one for each arch."""

    def __init__(self, asked: Asked) -> None:
        from dataclasses import replace

        from tutti_hal.conformance_tests import certify
        from tutti_hal.conformance_tests.runner.slot import Question
        from tutti_hal.conformance_tests.session import DEFAULT_SEED, RunOptions
        from tutti_hal.conformance_tests.subject import profile_of
        from tutti_hal.spec.tables import LEVELS

        level = asked.level or LEVELS[-1]
        if level not in LEVELS:
            raise pytest.UsageError(f"marker conformance: no level '{level}'; known: {', '.join(LEVELS)}")
        profile = certify.profile_for(asked.profile, level)
        subject = replace(certify.subject_for(profile), cases=asked.extra)
        options = RunOptions(
            subject=subject,
            archs=certify.archs_for(profile, ":" in asked.profile),
            level=level,
            cases=asked.cases,
            quick=asked.quick,
            seed=DEFAULT_SEED if asked.seed is None else asked.seed,
            machine=asked.machine,
        )
        prepared = certify.prepare(options)
        self.instances = prepared.instances
        terms = certify.terms_for(prepared.options, profile_of(subject).record)
        self._question: Question = Question(prepared.options, prepared.facts, terms)
        self._shop: Shop | None = None
        self._slots: dict[str, Slot] = {}
        self._outcomes: dict[str, Outcome] = {}

    def check(self, instance: Instance, *, last: bool) -> None:
        """Run an instance and end the test accordingly; with ``last`` its worker leaves afterwards."""
        from tutti_hal.conformance_tests.judgement import judge
        from tutti_hal.conformance_tests.session import repro_line
        from tutti_hal.conformance_tests.terms import plan
        from tutti_hal.conformance_tests.verdict import ACCEPTED, Verdict

        question = self._question
        facts = question.facts[instance.arch]
        outcome = None
        if plan(instance, facts, question.terms).runs:
            outcome = self._run(instance, last=last)
        found = judge(instance, outcome, facts, question.terms)
        if found.verdict is Verdict.SKIP:
            pytest.skip(f"{found.code}: {found.reason}")
        if found.verdict is Verdict.XFAIL:
            pytest.xfail(found.reason)
        if found.verdict not in ACCEPTED:
            lines = [f"{found.verdict} {found.id}: {found.reason}"]
            lines += [f"  {c.clause}: {c.what}: found {c.found}, wanted {c.wanted}" for c in found.checks if not c.held]
            lines += [f"  log: {line}" for line in (outcome.log if outcome else ())]
            pytest.fail("\n".join([*lines, f"again: {repro_line(question.options, instance)}"]), pytrace=False)

    def close(self) -> None:
        """End the workers."""
        if self._shop is not None:
            self._shop.__exit__(None, None, None)

    def _run(self, instance: Instance, *, last: bool) -> Outcome:
        from tutti_hal.conformance_tests.runner.shop import Shop
        from tutti_hal.conformance_tests.runner.slot import Slot

        if self._shop is None:
            self._shop = Shop()
        slot = self._slots.get(instance.arch)
        if slot is None:
            slot = Slot(self._shop, self._question, on_start=_nothing, on_end=self._keep)
            self._slots[instance.arch] = slot
        slot.run(instance)
        if last:
            slot.leave()
        else:
            slot.settle()
        return self._outcomes.pop(instance.id)

    def _keep(self, instance: Instance, outcome: Outcome) -> None:
        self._outcomes[instance.id] = outcome


def _nothing(instance: Instance) -> None:
    """A start is told by pytest itself."""


@dataclass(frozen=True)
class ConformanceCase:
    """What the fixture gives: one instance, not run yet.

    Attributes:
        instance: which.
        bench: what runs it.
        last: whether no other test of the session needs its worker.
    """

    instance: Instance
    bench: Bench
    last: bool = False

    def check(self) -> None:
        """Run the instance in a worker, and pass, skip, xfail or fail the test by its verdict. Blocks.

        Raises:
            pytest.skip.Exception, pytest.xfail.Exception, pytest.fail.Exception: as the verdict says.
        """
        self.bench.check(self.instance, last=self.last)


_BENCHES = pytest.StashKey[dict[Asked, Bench]]()
_LAST = pytest.StashKey[frozenset[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_BENCHES] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the workers."""
    for bench in config.stash.get(_BENCHES, {}).values():
        bench.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each instance.

    Raises:
        UsageError: the marker is missing or wrong, or its profile cannot be used.
    """
    if _FIXTURE not in metafunc.fixturenames:
        return
    from tutti_hal.errors import TuttiError

    where = metafunc.definition.nodeid
    marker = metafunc.definition.get_closest_marker("conformance")
    if marker is None:
        raise pytest.UsageError(f"{where}: the fixture {_FIXTURE} needs the marker conformance(profile=...)")
    asked = Asked.of(marker, where)
    benches = metafunc.config.stash[_BENCHES]
    try:
        bench = benches.get(asked) or Bench(asked)
    except TuttiError as error:
        raise pytest.UsageError(f"{where}: {error}") from None
    benches[asked] = bench
    cases = [ConformanceCase(instance, bench) for instance in bench.instances]
    metafunc.parametrize(_FIXTURE, cases, indirect=True, ids=[one.instance.id for one in cases])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find the last test of each worker, so that how the worker leaves is still that test's."""
    last: dict[tuple[int, str], str] = {}
    for item, case in _cases_of(session.items):
        last[id(case.bench), case.instance.arch] = item.nodeid
    session.config.stash[_LAST] = frozenset(last.values())


def _cases_of(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, ConformanceCase]]:
    for item in items:
        callspec: Any = getattr(item, "callspec", None)
        case = callspec.params.get(_FIXTURE) if callspec is not None else None
        if isinstance(case, ConformanceCase):
            yield item, case


@pytest.fixture
def conformance_case(request: pytest.FixtureRequest) -> ConformanceCase:
    """One instance of the suite; the marker ``conformance`` says of which profile."""
    case: ConformanceCase = request.param
    return ConformanceCase(case.instance, case.bench, request.node.nodeid in request.config.stash[_LAST])
