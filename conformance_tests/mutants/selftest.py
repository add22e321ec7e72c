"""The self-test: the suite is run on mutants of the product, and each must be noticed."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.catalogue import Catalogue, catalogue
from tutti_hal.conformance_tests.errors import BaselineRed
from tutti_hal.conformance_tests.judgement import judge
from tutti_hal.conformance_tests.mutants.apply import copy_product
from tutti_hal.conformance_tests.mutants.ledger import Ledger, kept_table, read_rows
from tutti_hal.conformance_tests.mutants.likely import Likely
from tutti_hal.conformance_tests.mutants.mutant import Mutant
from tutti_hal.conformance_tests.mutants.sampling import draw
from tutti_hal.conformance_tests.mutants.score import Result, Score, State
from tutti_hal.conformance_tests.mutants.sites import all_mutants
from tutti_hal.conformance_tests.mutants.tables import Tables, check_equivalents, load_tables
from tutti_hal.conformance_tests.mutants.trial import Bench, try_mutant
from tutti_hal.conformance_tests.runner.nursery import Nursery
from tutti_hal.conformance_tests.runner.pool import run_instances
from tutti_hal.conformance_tests.runner.process import Limits
from tutti_hal.conformance_tests.runner.shop import Shop
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.session import RunOptions
from tutti_hal.conformance_tests.subject import facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.paths import templates_dir
from tutti_hal.toolchain import cache

#: A case that killed nothing is tried alone on at most so many mutants more.
SECOND_LOOKS = 12

#: A mutant gets the cases that are likely to kill it, so many seconds of them; then, when all had their turn, more of
#: them; and all of them when those did not. Who lives costs the most, and waits until the others have shown who kills.
LOOKS_S = (0.5, 4.0)

#: What a worker that hangs on a mutant gets for its last words, which nobody reads.
_GRACE_S = 0.1

OnMutant = Callable[[Result], None]


def self_test(
    options: RunOptions,
    sample: int | None = None,
    seed: int = 1,
    *,
    terms: Terms,
    on_mutant: OnMutant | None = None,
    on_baseline: Callable[[int], None] | None = None,
    tables: Tables | None = None,
    cases: Catalogue | None = None,
    chosen: Callable[[Mutant], bool] | None = None,
    table: Path | None = None,
    changed: bool = False,
    unlisted: bool = False,
) -> Score:
    """Measure the suite by mutants of the product. Blocks until all are tried, for minutes.

    The product itself is run first on every instance that is targeted at a mutant; a mutant is killed by FAIL,
    TIMEOUT or DEVICE_LOST, which the product then has nowhere. Nothing of the product is written to.

    Args:
        options: subject, archs, quick or not, jobs. Of the archs, one for each wave width is taken, simulated ones
            first.
        sample: how many mutants, of those that are in no list: what is listed as equivalent or as a survivor costs
            every case that might kill it, and is for whole runs. None for all, and then cases that killed none are
            looked at once more.
        seed: from which the sample and every instance's seed are drawn.
        terms: on what terms verdicts are made, those of a run with these options.
        on_mutant: called with each result, in the order in which trials end, from any thread.
        on_baseline: called with the number of instances before the product is run.
        tables: others than the suite's own.
        cases: other cases than the catalogue's.
        chosen: a predicate; mutants without it are left out, and the score is that of a sample.
        table: the kept table (:mod:`ledger`) that is read first and written as trials end; the suite's own is only read
            where None.
        changed: only mutants whose row is missing or does not hold.
        unlisted: none that is listed as equivalent or as a survivor.

    Raises:
        BaselineRed: the product does not pass its own cases.
        MutantsInvalid: a table of mutants is wrong.
        ProfileError, SpecError: the subject cannot be had.
    """
    began = time.monotonic()
    profile = profile_of(options.subject)
    tables = tables or load_tables()
    templates = Path(options.subject.templates) if options.subject.templates else templates_dir()
    everything = all_mutants(profile.record, templates, terms.spec, tables)
    check_equivalents(tables, everything)
    facts = {arch: facts_of(profile, arch) for arch in ("", *profile.record.archs)}
    hardware = profile.record.kind == "hardware"
    with _scratch() as folder, contextlib.ExitStack() as stack:
        product = copy_product(replace(options.subject, arch=""), profile.record, templates, folder)
        nursery = None if hardware else stack.enter_context(Nursery([product.spec(arch) for arch in facts]))
        shop = stack.enter_context(Shop(Limits(grace_s=_GRACE_S), reruns=0, nursery=nursery))
        bench = Bench(
            product=product,
            catalogue=cases or catalogue(options.subject.cases),
            tables=tables,
            terms=terms,
            facts=facts,
            archs=sensitive_archs({arch: facts[arch] for arch in options.archs}),
            quick=options.quick,
            seed=seed,
            seconds={},
            cache=folder / "cache",
            shop=shop,
        )
        ledger = Ledger(read_rows(table or kept_table()), bench.catalogue, templates, bench.cases_of)
        bench = replace(bench, likely=_history(ledger, everything))
        wanted = tuple(filter(chosen, everything))
        if changed:
            wanted = tuple(one for one in wanted if not ledger.holds(one))
        listed = {*tables.equivalents, *tables.survivors}
        if unlisted or sample is not None:
            wanted = tuple(one for one in wanted if one.id not in listed)
        drawn = wanted if sample is None else draw(wanted, sample, seed)
        # On hardware trials would share the device, and a mutant that breaks it would be blamed on another.
        jobs = options.jobs or (1 if hardware else len(os.sched_getaffinity(0)))
        bench = _with_baseline(bench, drawn, replace(options, jobs=jobs, seed=seed), on_baseline)

        def heard(result: Result) -> None:
            ledger.note(result, seed, bench.archs_of(result.mutant))
            if table is not None:
                ledger.save(table, everything)
            if on_mutant is not None:
                on_mutant(result)

        tested = _try_all(bench, drawn, jobs, heard)
        whole = sample is None and chosen is None and not changed and not unlisted
        idle = _second_look(bench, tested, jobs) if whole else {}
    return Score(
        tested=tuple(tested),
        generated=len(everything),
        seed=seed,
        sampled=len(drawn) < len(everything),
        idle=idle,
        seconds=time.monotonic() - began,
        options={"profile": options.subject.profile, "archs": list(bench.archs), "quick": options.quick, "jobs": jobs},
    )


def sensitive_archs(facts: Mapping[str, Facts]) -> tuple[str, ...]:
    """One arch for each wave width: a simulated one where there is one, for there a missing fence shows; narrow first.

    The widest comes second: where it lacks what the others have, it runs other code.
    """
    chosen: dict[int, str] = {}
    for arch in sorted(facts, key=lambda name: (not facts[name].simulated, facts[name].wave_width)):
        chosen.setdefault(facts[arch].wave_width, arch)
    ordered = [chosen[width] for width in sorted(chosen)]
    return (*ordered[:1], *ordered[:0:-1])


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for copies, caches and kernels; removed at the end."""
    with tempfile.TemporaryDirectory(prefix="tutti-mutants-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _with_baseline(
    bench: Bench, mutants: Sequence[Mutant], options: RunOptions, on_baseline: Callable[[int], None] | None
) -> Bench:
    """Run the product on all that is targeted; the bench with what each instance took.

    Raises:
        BaselineRed: something does not pass.
    """
    due = {one.id: one for mutant in mutants for one in bench.instances_of(mutant, bench.facts)}
    ordered: list[Instance] = sorted(due.values(), key=lambda one: (one.arch, one.case.kernels))
    if on_baseline is not None:
        on_baseline(len(ordered))
    bench.cache.mkdir(parents=True, exist_ok=True)
    with Shop(reruns=0, environment={cache.VARIABLE: str(bench.cache)}) as shop:
        whole = replace(options, subject=bench.product.spec())
        outcomes, _ = run_instances(whole, bench.facts, bench.terms, ordered, shop=shop)
    red = []
    for one in ordered:
        judged = judge(one, outcomes.get(one.id), bench.facts[one.arch], bench.terms)
        if judged.blocks:
            red.append(f"{judged.id}: {judged.verdict}: {judged.reason}")
    if red:
        raise BaselineRed(
            "run the unchanged product, before its mutants",
            f"{len(red)} of {len(ordered)} instances do not pass:\n  " + "\n  ".join(red[:20]),
            "Mend the product or the cases first: tutti-hal certify.",
        )
    return replace(bench, seconds={name: outcome.seconds for name, outcome in outcomes.items()})


def _history(ledger: Ledger, mutants: Sequence[Mutant]) -> Likely:
    """What the table knows of who kills what."""
    known = ledger.killers()
    likely = Likely(known)
    for one in mutants:
        if one.id in known:
            likely.learn(one, known[one.id])
    return likely


def _try_all(bench: Bench, mutants: Sequence[Mutant], jobs: int, on_mutant: OnMutant) -> list[Result]:
    """The results, in the mutants' order. Most die at once; what does not waits until those have shown who kills."""
    ended: dict[str, Result] = {}

    def look(mutant: Mutant, first_s: float | None) -> None:
        found = try_mutant(bench, mutant, first_s=first_s)
        if found.verdict or first_s is None:
            on_mutant(found)
            ended[mutant.id] = found

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for first_s in (*LOOKS_S, None):
                left = [one for one in mutants if one.id not in ended]
                list(pool.map(look, left, itertools.repeat(first_s)))
        except BaseException:
            # Waits for no trial: its worker dies, and it ends.
            bench.shop.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [ended[one.id] for one in mutants]


def _second_look(bench: Bench, tested: Sequence[Result], jobs: int) -> dict[str, str]:
    """Cases that killed no mutant, each with what it says of that, after they were tried alone on some more.

    A trial ends at the first kill, so a case that comes late may have had nothing to show.
    """
    killers = {one.killer.partition(":")[0] for one in tested if one.killer}
    killed = [one.mutant for one in tested if one.state is State.KILLED]

    def look(name: str, said: str) -> str | None:
        if said:
            return said
        aimed = [one for one in killed if any(case.name == name for case in bench.cases_of(one))]
        step = max(1, len(aimed) // SECOND_LOOKS)
        for mutant in aimed[::step][:SECOND_LOOKS]:
            if try_mutant(bench, mutant, only=name).state is State.KILLED:
                return None
        return f"it killed none of the {min(len(aimed), SECOND_LOOKS)} mutants that it was tried on alone"

    idle = [case for case in bench.catalogue.cases if case.name not in killers]
    with ThreadPoolExecutor(jobs) as pool:
        said = list(pool.map(lambda case: look(case.name, case.no_mutant), idle))
    return {case.name: why for case, why in zip(idle, said, strict=True) if why is not None}
