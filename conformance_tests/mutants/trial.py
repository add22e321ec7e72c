"""The trial of a mutant: its cases, one after another, until one notices."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tutti_hal.conformance_tests.case import Case, Instance
from tutti_hal.conformance_tests.catalogue import Catalogue
from tutti_hal.conformance_tests.judgement import Judgement, judge
from tutti_hal.conformance_tests.mutants.apply import Product, make
from tutti_hal.conformance_tests.mutants.likely import Likely
from tutti_hal.conformance_tests.mutants.mutant import Mutant, Source
from tutti_hal.conformance_tests.mutants.score import Result, State
from tutti_hal.conformance_tests.mutants.tables import Tables
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.runner.process import WorkerProcess
from tutti_hal.conformance_tests.runner.shop import Shop
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms, plan
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.errors import TuttiError
from tutti_hal.toolchain import cache

#: A mutant's instance is killed after so many times what it takes with the product, and no sooner than the floor.
PATIENCE = 40
PATIENCE_FLOOR_S = 4.0

#: Verdicts that say that the product is not as it should be. An ERROR is the suite's: it looked, and could not tell.
_KILLS = frozenset({Verdict.FAIL, Verdict.TIMEOUT, Verdict.DEVICE_LOST})

#: A first look is at so many instances at least: on a busy machine each takes long, and the first few kill most.
_FIRST_LOOKS = 6

#: Errors that mean that there is nothing to run.
_STILLBORN = ("BuildError", "GenerationError", "RecordIncomplete")


@dataclass(frozen=True)
class Bench:
    """What all trials share.

    Attributes:
        product: the unchanged product.
        catalogue: the cases.
        tables: which cases are targeted at which mutants.
        terms: on what terms verdicts are made.
        facts: arch -> what the product declares, for all archs of the record and for the vendor (``""``).
        archs: the archs of the self-test, in the order in which they are tried.
        quick: only quick cases.
        seed: of the run; instances draw theirs from it.
        seconds: instance id -> what it took with the product.
        cache: folder with the product's compiled kernels.
        shop: where workers come from.
        likely: what is known of who kills what.
        hung: names of cases that hung on a mutant. They are tried last from then on, for that costs the most; whether
            a mutant is killed does not depend on it, only by which case.
    """

    product: Product
    catalogue: Catalogue
    tables: Tables
    terms: Terms
    facts: Mapping[str, Facts]
    archs: tuple[str, ...]
    quick: bool
    seed: int
    seconds: Mapping[str, float]
    cache: Path
    shop: Shop
    likely: Likely = dataclasses.field(default_factory=Likely)
    hung: set[str] = dataclasses.field(default_factory=set)

    def archs_of(self, mutant: Mutant) -> tuple[str, ...]:
        """The archs on which a mutant is tried: those of the self-test that it changes, else others that it does."""

        def fits(arch: str) -> bool:
            declared = self.facts[arch].capabilities
            return (not mutant.archs or arch in mutant.archs) and all(
                declared[name] == value for name, value in mutant.guard.items()
            )

        return tuple(filter(fits, self.archs)) or tuple(filter(fits, [arch for arch in self.facts if arch]))[:1]

    def cases_of(self, mutant: Mutant) -> tuple[Case, ...]:
        """The cases that are targeted at a mutant, in the order in which they are tried."""
        row = self.tables.target_of(mutant)
        if row is None:
            return ()
        found: dict[str, Case] = {}
        about = set(self._clauses_of(mutant)) if row.clauses else set()
        for case in self.catalogue.cases:
            if about & set(case.clauses):
                found[case.name] = case
        for glob in row.cases:
            found |= {case.name: case for case in self.catalogue.cases if fnmatchcase(case.name, glob)}
        return tuple(case for case in found.values() if case.quick or not self.quick)

    def _clauses_of(self, mutant: Mutant) -> tuple[str, ...]:
        spec = self.terms.spec
        if mutant.member in spec.primitives:
            return spec.primitives[mutant.member].clauses
        if mutant.member in spec.host_functions:
            return spec.host_functions[mutant.member].clauses
        return ()

    def instances_of(self, mutant: Mutant, facts: Mapping[str, Facts]) -> tuple[Instance, ...]:
        """The instances that are targeted at a mutant, in the order in which they are tried.

        What needs no device, then arch by arch; of an arch those first that cost the least by their chance to kill.
        The arch of the instance that killed it before comes before all others.
        """
        cases = self.cases_of(mutant)
        rank = {case.name: at for at, case in enumerate(cases)}
        archs = ("", *self.archs_of(mutant))
        found = Catalogue(cases).instances({arch: facts[arch] for arch in archs})
        before = {one.arch for one in found if one.id == self.likely.known(mutant)}

        def order(one: Instance) -> tuple[bool, int, bool, float, int]:
            hangs = one.case.name in self.hung and one.id != self.likely.known(mutant)
            price = self.likely.price(mutant, one, self.seconds.get(one.id, 0.0))
            return one.arch not in before, archs.index(one.arch), hangs, price, rank[one.case.name]

        return tuple(sorted(found, key=order))

    def awaited(self, mutant: Mutant) -> str:
        """The level that a mutant waits for, where that level has no case yet; else empty."""
        row = self.tables.target_of(mutant)
        level = row.awaits if row else ""
        return level if level and not any(case.level == level for case in self.catalogue.cases) else ""


def try_mutant(bench: Bench, mutant: Mutant, only: str = "", first_s: float | None = None) -> Result:
    """Run a mutant's instances until one says that the product is not as it should be. Blocks; for any thread.

    Args:
        bench: what trials share.
        mutant: which.
        only: name of the one case to run; empty for all that are targeted.
        first_s: run only the first instances, those that take so many seconds with the product and a few in any case;
            all when None. A mutant that they do not kill has not survived by that.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tutti-mutant-", ignore_cleanup_errors=True) as scratch:
        found = _Trial(bench, mutant, Path(scratch), only, first_s).run()
    killed = found.state in (State.KILLED, State.STILLBORN)
    if found.killer:
        bench.likely.learn(mutant, found.killer)
    if mutant.id in bench.tables.survivors:
        reason = found.reason if killed else bench.tables.survivors[mutant.id]
        found = dataclasses.replace(found, state=State.NOT_SURVIVOR if killed else State.KNOWN, reason=reason)
    elif mutant.id in bench.tables.equivalents:
        reason = found.reason if killed else bench.tables.equivalents[mutant.id]
        found = dataclasses.replace(found, state=State.NOT_EQUIVALENT if killed else State.EQUIVALENT, reason=reason)
    return dataclasses.replace(found, seconds=time.monotonic() - began)


class _Trial:
    def __init__(self, bench: Bench, mutant: Mutant, scratch: Path, only: str, first_s: float | None) -> None:
        self.bench, self.mutant, self.only, self.first_s = bench, mutant, only, first_s
        self.scratch = scratch
        self.tried = 0
        self.unsure = ""

    def run(self) -> Result:
        mutant = self.mutant
        awaited = self.bench.awaited(mutant)
        if not self.bench.instances_of(mutant, self.bench.facts):
            reason = f"its cases belong to {awaited}" if awaited else "no case is targeted at it"
            return Result(mutant, State.NOT_YET if awaited else State.NOT_COVERED, reason=reason, awaits=awaited)
        try:
            whole = make(mutant, self.bench.product, self._folder("product"))
            facts = self._facts(whole)
        except TuttiError as error:
            return Result(mutant, State.STILLBORN, verdict="refused", reason=f"{error.id} {error.found}")
        instances = [
            one for one in self.bench.instances_of(mutant, facts) if not self.only or one.case.name == self.only
        ]
        for arch, due in _by_arch(self._first(instances)):
            found = self._on_arch(dataclasses.replace(whole, arch=arch), facts[arch], due)
            if found is not None:
                return found
        reason = f"no case tells: {self.unsure}" if self.unsure else "every targeted case passes"
        state = State.NOT_YET if awaited else State.SURVIVED
        return Result(mutant, state, reason=reason, tried=self.tried, awaits=awaited)

    def _first(self, instances: Sequence[Instance]) -> Sequence[Instance]:
        """Those that are to be run: all, or of the arch that comes first as many as there is time for."""
        if self.first_s is None:
            return instances
        arch = next((one.arch for one in instances if one.arch), "")
        left = self.first_s
        chosen: list[Instance] = []
        for one in instances:
            left -= self.bench.seconds.get(one.id, 0.0)
            if (left < 0 and len(chosen) >= _FIRST_LOOKS) or one.arch not in ("", arch):
                break
            chosen.append(one)
        return chosen

    def _facts(self, whole: SubjectSpec) -> Mapping[str, Facts]:
        if self.mutant.source is not Source.RECORD:
            return self.bench.facts
        profile = profile_of(whole)
        return {arch: facts_of(profile, arch) for arch in ("", *self.bench.archs_of(self.mutant))}

    def _folder(self, name: str) -> Path:
        folder = self.scratch / name
        folder.mkdir()
        return folder

    def _on_arch(self, spec: SubjectSpec, facts: Facts, instances: Sequence[Instance]) -> Result | None:
        """What the first instance that tells says; None where none does."""
        worker = None
        try:
            for one in instances:
                outcome, ran = None, False
                if plan(one, facts, self.bench.terms).runs:
                    if worker is None:
                        worker = self.bench.shop.start(spec, {cache.VARIABLE: str(self._cache())})
                    outcome, ran = self._run(worker, one)
                    self.tried += 1
                judged = judge(one, outcome, facts, self.bench.terms)
                if judged.blocks and worker is not None and ran and worker.alive():
                    # What happened once on a busy machine, and not again with the same seed, was not the mutant.
                    outcome, ran = self._run(worker, one)
                    judged = judge(one, outcome, facts, self.bench.terms)
                if judged.blocks:
                    if judged.verdict is Verdict.TIMEOUT:
                        self.bench.hung.add(one.case.name)
                    found = self._killed(judged, outcome, ran)
                    if found is not None:
                        return found
                if worker is not None and outcome is not None and outcome.end not in (End.OBSERVED, End.SKIPPED):
                    self.bench.shop.end(worker)
                    worker = None
        finally:
            if worker is not None:
                self.bench.shop.end(worker)
        return None

    def _run(self, worker: WorkerProcess, one: Instance) -> tuple[Outcome, bool]:
        """The outcome of an instance, and whether its case was started."""
        ended = worker.run(_patient(one, self.bench.seconds), one.seed(self.bench.seed))
        self.bench.shop.check()
        return dataclasses.replace(ended.outcome, log=tuple(worker.lines())), ended.ran

    def _killed(self, judged: Judgement, outcome: Outcome | None, ran: bool) -> Result | None:
        """What came of the mutant; None where the suite could not tell."""
        error = str(outcome.detail.get("error", "")) if outcome is not None else ""
        if not ran and error in _STILLBORN:
            return Result(self.mutant, State.STILLBORN, verdict="refused", reason=judged.reason, tried=self.tried)
        if judged.verdict not in _KILLS:
            self.unsure = self.unsure or f"{judged.id}: {judged.verdict}: {judged.reason}"
            return None
        return Result(self.mutant, State.KILLED, judged.id, judged.verdict.value, judged.reason, tried=self.tried)

    def _cache(self) -> Path:
        """A cache of the mutant's own that begins with what is compiled of the product."""
        folder = self.scratch / "cache"
        if not folder.exists():
            mirror(self.bench.cache, folder)
        return folder


def mirror(source: Path, folder: Path) -> None:
    """Make a cache's folder that holds links to the entries of another; what is built later goes to it alone."""
    for entry in source.glob("*/*/*"):
        if entry.is_dir() and not entry.name.startswith("."):
            link = folder / entry.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(entry)
    folder.mkdir(parents=True, exist_ok=True)


def _by_arch(instances: Sequence[Instance]) -> Iterator[tuple[str, list[Instance]]]:
    groups: dict[str, list[Instance]] = {}
    for one in instances:
        groups.setdefault(one.arch, []).append(one)
    yield from groups.items()


def _patient(one: Instance, seconds: Mapping[str, float]) -> Instance:
    """The instance with the time that a mutant gets: far more than the product takes, within its budget."""
    # Where others keep the machine busy, slowness is no sign of a hang.
    busy = max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))
    limit = min(one.case.budget_s, max(PATIENCE_FLOOR_S, PATIENCE * seconds.get(one.id, 0.0)) * busy)
    return Instance(dataclasses.replace(one.case, budget_s=limit), one.axes, one.arch)
