"""Compile, list and weigh every kernel of every vendor whose compiler is on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tutti_hal.conformance_tests.isa.baseline import Comparison, compare, load
from tutti_hal.conformance_tests.verdict import Verdict

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.judgement import Judgement
    from tutti_hal.profile import Profile
    from tutti_hal.toolchain import Built

#: The cases that judge what a compiler made.
CASES = ("compile/every_kernel_set", "compile/listing*", "compile/attributes", "compile/masks")


#: Of what a vendor lists as an expected failure. The list is a vendor's: a part of its archs may pass.
_EXPECTED = (Verdict.XFAIL, Verdict.XPASS)


@dataclass(frozen=True)
class Row:
    """One arch.

    Attributes:
        arch: its name.
        modules: how many kernel sets were compiled.
        kernels: how many kernels they have.
        judgements: of the cases.
    """

    arch: str
    modules: int
    kernels: int
    judgements: tuple[Judgement, ...]

    @property
    def bad(self) -> tuple[Judgement, ...]:
        """The judgements that are neither a pass nor what the vendor said beforehand."""
        return tuple(one for one in self.judgements if one.blocks and one.verdict not in _EXPECTED)

    @property
    def expected(self) -> tuple[Judgement, ...]:
        """The judgements of what the vendor said beforehand that it fails."""
        return tuple(one for one in self.judgements if one.verdict in _EXPECTED)


@dataclass(frozen=True)
class VendorMatrix:
    """What came of one vendor.

    Attributes:
        vendor: its name.
        absent: why nothing was run; empty where it was.
        failed: what the compiler refused; empty where nothing.
        compiler: its version.
        rows: one for each arch.
        resources: the figures against the baseline, None where there is no baseline to compare with.
        unweighed: why the figures were not compared; empty where they were.
        built: the modules.
        seconds: how long it took.
    """

    vendor: str
    absent: str = ""
    failed: str = ""
    compiler: str = ""
    rows: tuple[Row, ...] = ()
    resources: Comparison | None = None
    unweighed: str = ""
    built: tuple[Built, ...] = field(default=(), repr=False)
    seconds: float = 0.0

    @property
    def outlived(self) -> tuple[str, ...]:
        """Case names that the vendor expects to fail and that pass on every arch: the list is wrong of them."""
        found: dict[str, set[Verdict]] = {}
        for row in self.rows:
            for one in row.expected:
                found.setdefault(one.id.partition(":")[0], set()).add(one.verdict)
        return tuple(name for name, verdicts in found.items() if Verdict.XFAIL not in verdicts)

    @property
    def passed(self) -> bool:
        """Whether nothing failed; True also where it was not run."""
        grown = self.resources is not None and (self.resources.grown or self.resources.lacking)
        return not self.failed and not grown and not self.outlived and not any(row.bad for row in self.rows)


def vendors() -> tuple[str, ...]:
    """The vendors of hardware that are installed, by rank of detection."""
    from tutti_hal.backend import discover

    records = [one.backend.record for one in discover() if one.backend is not None]
    hardware = [one for one in records if one.kind == "hardware"]
    return tuple(one.vendor for one in sorted(hardware, key=lambda one: one.detection.rank))


def run_vendor(
    vendor: str,
    jobs: int,
    cases: Sequence[str] = CASES,
    archs: Iterable[str] = (),
    sets: Sequence[str] | None = None,
) -> VendorMatrix:
    """Compile, list and weigh one vendor's kernels. Blocks for a minute or so.

    Args:
        vendor: its name.
        jobs: compilers at work at once.
        cases: globs of the cases that judge.
        archs: of its record; all where empty.
        sets: kernel sets to compile and weigh; all where None.
    """
    from tutti_hal.errors import BuildError, CompilerMissing
    from tutti_hal.profile import resolve
    from tutti_hal.toolchain import build_all, toolchain_of

    began = time.perf_counter()
    profile = resolve(f"{vendor}:{archs_of(vendor)[0]}")
    names = tuple(archs) or tuple(profile.record.archs)
    try:
        toolchain_of(profile).find()
        built = build_all(profile, archs=names, sets=sets, jobs=jobs)
    except CompilerMissing as error:
        return VendorMatrix(vendor, absent=error.found)
    except BuildError as error:
        return VendorMatrix(vendor, failed=str(error))
    with ThreadPoolExecutor(jobs) as pool:
        judged = list(pool.map(lambda arch: judge_arch(vendor, arch, cases), names))
    rows = tuple(_row(arch, built, found) for arch, found in zip(names, judged, strict=True))
    compared, why = _weigh(profile, built)
    seconds = time.perf_counter() - began
    return VendorMatrix(vendor, "", "", built[0].compiler, rows, compared, why, built, seconds)


def archs_of(vendor: str) -> tuple[str, ...]:
    """The archs of a vendor's record, in its order."""
    from tutti_hal.backend import discover

    return next(tuple(one.backend.record.archs) for one in discover() if one.backend is not None and one.name == vendor)


def _row(arch: str, built: Sequence[Built], judged: tuple[Judgement, ...]) -> Row:
    own = [one for one in built if one.arch == arch]
    return Row(arch, len(own), sum(len(one.kernels) for one in own), judged)


def _weigh(profile: Profile, built: tuple[Built, ...]) -> tuple[Comparison | None, str]:
    baseline = load(profile.vendor)
    if baseline is None:
        return None, "there is no baseline; write one with --update-baseline"
    if baseline.compiler != built[0].compiler:
        return None, f"the baseline is of {baseline.compiler}, this compiler is {built[0].compiler}"
    return compare(baseline, built), ""


def judge_arch(vendor: str, arch: str, cases: Sequence[str]) -> tuple[Judgement, ...]:
    """Run and judge cases on one arch, in this process. No device is opened."""
    from tutti_hal.conformance_tests.catalogue import catalogue, select
    from tutti_hal.conformance_tests.execute import execute
    from tutti_hal.conformance_tests.judgement import judge
    from tutti_hal.conformance_tests.session import DEFAULT_SEED
    from tutti_hal.conformance_tests.subject import Subject, SubjectSpec
    from tutti_hal.conformance_tests.terms import Terms
    from tutti_hal.expectations import load_expectations
    from tutti_hal.spec import load_spec

    subject = Subject(SubjectSpec(f"{vendor}:{arch}", arch))
    expectations = load_expectations(subject.profile.record.folder)
    terms = Terms(load_spec(), expectations.unsupported, expectations.expected_failures, verify_xfail=True)
    found = []
    for instance in select(catalogue().instances({arch: subject.facts}), cases):
        outcome = execute(subject, instance, instance.seed(DEFAULT_SEED))
        found.append(judge(instance, outcome, subject.facts, terms))
    return tuple(found)
