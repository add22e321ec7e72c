"""One package, judged again: its product, its record, its terms, its instances, and each of its verdicts."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tutti_hal import __version__
from tutti_hal.backend import Backend, discover
from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.catalogue import Catalogue, catalogue
from tutti_hal.conformance_tests.errors import CaseUnknown, MachineUnknown
from tutti_hal.conformance_tests.judgement import Judgement, judge
from tutti_hal.conformance_tests.ladder import ladder
from tutti_hal.conformance_tests.machine import load_machine
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.package import jsontext, layout, product
from tutti_hal.conformance_tests.package.builds import check_builds
from tutti_hal.conformance_tests.package.evidence import Evidence, texts, verdict_line
from tutti_hal.conformance_tests.package.figures import carried
from tutti_hal.conformance_tests.package.findings import Findings, printable, shown
from tutti_hal.conformance_tests.package.limits import OutOfTime, cpu_limit
from tutti_hal.conformance_tests.package.parsed import Parsed
from tutti_hal.conformance_tests.package.rederived import compare_file, compare_verdicts, line_of
from tutti_hal.conformance_tests.package.waivers import parse_waivers
from tutti_hal.conformance_tests.package.writer import record_files
from tutti_hal.conformance_tests.package.yamlguard import guard
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.session import RunOptions, Session, chosen_instances
from tutti_hal.conformance_tests.subject import facts_of
from tutti_hal.conformance_tests.terms import ExpectedSkip, Terms, Waiver, plan
from tutti_hal.conformance_tests.verdict import SkipReason
from tutti_hal.errors import SpecError
from tutti_hal.expectations import Expectations, load_expectations
from tutti_hal.overlay import at_sdk
from tutti_hal.profile import Profile, parse
from tutti_hal.record import Record, load_record
from tutti_hal.simulated_sdk import SimulatedBackend
from tutti_hal.spec import load_spec
from tutti_hal.spec.nodes import Problem


def rejudge(parsed: Parsed, findings: Findings, cases: tuple[str, ...], today: datetime.date) -> Evidence | None:
    """Judge a package again and refuse whatever does not follow from its raw files.

    Args:
        parsed: its files.
        findings: where refusals go.
        cases: files of extra cases, named by the reader.
        today: the day on which waivers must still hold.

    Returns:
        What the package says, as it was worked out again; None where it cannot be.
    """
    return Again(parsed, findings, today).judged(cases)


class Again:
    """The steps, and what they share. What is asked of a package of an older product overrides some of them."""

    def __init__(self, parsed: Parsed, findings: Findings, today: datetime.date) -> None:
        self.parsed = parsed
        self.findings = findings
        self.today = today
        self.run: dict[str, Any] = parsed.documents[layout.RUN]
        self.options = RunOptions.from_json(self.run["options"])
        self.spec = load_spec()

    def judged(self, cases: tuple[str, ...]) -> Evidence | None:
        """The steps, in order; each needs what the one before it has found."""
        vendor = parse(self.options.subject.profile).vendor
        backend = next((one.backend for one in discover() if one.name == vendor and one.backend is not None), None)
        if backend is None:
            self._refuse_run("profile", f"vendor {vendor}", "a vendor whose backend is installed here")
            return None
        self._note_product()
        if not self._same_cases(cases):
            return None
        known = catalogue(cases)
        declared = self._declared(backend)
        if declared is None:
            return None
        facts, expected = declared
        instances = self._instances(known, facts)
        waivers = self._waivers(known)
        if instances is None or waivers is None or not self._plausible_times():
            return None
        terms = Terms(
            spec=self.spec,
            unsupported=expected.unsupported,
            expected_failures=expected.expected_failures,
            skips=self._skips(),
            waivers=waivers,
            today=datetime.date.fromisoformat(self.run["judged_on"]),
            verify_xfail=self.options.verify_xfail,
        )
        outcomes = self._outcomes(instances, facts, terms)
        judgements = self._judgements(instances, facts, terms, outcomes)
        if judgements is None:
            return None
        evidence = self._evidence(facts, instances, terms, outcomes, judgements)
        subject = self.options.subject
        same_kernels = not (subject.record or subject.templates)
        self._builds(evidence, backend.record if same_kernels else None)
        self._compare(evidence, {name: line for name, (line, _) in outcomes.items()})
        return evidence

    def _builds(self, evidence: Evidence, record: Record | None) -> None:
        check_builds(evidence.session, evidence.build, self.parsed.files[layout.BUILD], record, self.findings)

    def _refuse_run(self, key: str, found: str, wanted: str) -> None:
        self.findings.refuse(layout.RUN, line_of(self.parsed.files[layout.RUN], key), found, wanted)

    def _note_product(self) -> None:
        source = self.parsed.documents[layout.PRODUCT]["source"]
        if source and source["changed"]:
            self.findings.remark("the product was run from a checkout whose files differ from its commit")

    def _same_cases(self, cases: tuple[str, ...]) -> bool:
        said: dict[str, str] = self.parsed.documents[layout.PRODUCT]["cases"]
        named = ", ".join(map(printable, self.options.subject.cases))
        if named and not cases:
            self._refuse_run("cases", f"cases beside the suite's own: {named}", "their files, given by --cases")
            return False
        mine = product.case_sums(cases)
        if mine != said:
            found = ", ".join(f"{name} {total[:12]}" for name, total in sorted(said.items())) or "none"
            wanted = ", ".join(f"{name} {total[:12]}" for name, total in sorted(mine.items())) or "none"
            line = line_of(self.parsed.files[layout.PRODUCT], "cases")
            self.findings.refuse(layout.PRODUCT, line, f"extra cases {printable(found)}", f"those given: {wanted}")
        return mine == said

    def _declared(self, backend: Backend) -> tuple[dict[str, Facts], Expectations] | None:
        """Facts and expectations of the record that was used; it is the installed one, or nothing is certified."""
        copied = self.parsed.record
        if not self.options.subject.record:
            self._same_record(copied, backend.descriptor.folder)
            return self._facts(backend, backend.descriptor.folder)
        for name in layout.RECORD_FILES:
            unfit = guard(copied.get(name, b""), aliases=True)
            if unfit:
                self.findings.refuse(f"{layout.RECORD}/{name}", unfit[0], unfit[1], "a record")
                return None
        with tempfile.TemporaryDirectory(prefix="tutti-record-") as scratch:
            folder = Path(scratch, backend.descriptor.name)  # a record's folder has its vendor's name
            folder.mkdir()
            for name in layout.RECORD_FILES:
                (folder / name).write_bytes(copied.get(name, b""))
            try:
                return self._facts(backend, folder)
            except SpecError as error:
                self._refuse_record(error, folder)
                return None

    def _refuse_record(self, error: SpecError, folder: Path) -> None:
        for problem in error.problems:
            if isinstance(problem, Problem):
                place = f"{layout.RECORD}/{problem.file.name}"
                key = f"{problem.key}: " if problem.key else ""
                self.findings.refuse(place, problem.line, f"{key}{problem.text}", "a record that loads")
        if not error.problems:
            self.findings.refuse(layout.RECORD, 0, error.found.replace(f"{folder}/", ""), "a record that loads")

    def _same_record(self, copied: Mapping[str, bytes], folder: Path) -> None:
        ours = record_files(folder)
        for name in sorted({*copied, *ours}):
            place = f"{layout.RECORD}/{name}"
            if name not in ours:
                self.findings.refuse(place, 0, "a file of the record", "the installed record has no such file")
            elif name not in copied:
                self.findings.refuse(place, 0, "the file is missing", "the record as the product has it")
            else:
                compare_file(place, copied[name], ours[name], self.findings)

    def _facts(self, backend: Backend, folder: Path) -> tuple[dict[str, Facts], Expectations] | None:
        record = backend.record if folder == backend.descriptor.folder else load_record(folder)
        unknown = [arch for arch in self.options.archs if arch not in record.archs]
        if unknown:
            self._refuse_run("archs", f"arch {shown(unknown[0])}", f"one of the record: {', '.join(record.archs)}")
            return None
        named = parse(self.options.subject.profile)
        if isinstance(backend, SimulatedBackend):
            record = replace(record, kind=backend.record.kind)
        record = at_sdk(record, named.sdk)
        profile = Profile(backend.name, "", tuple(record.archs), named.sdk, record, backend, "argument", named)
        facts = {arch: facts_of(profile, arch) for arch in ("", *self.options.archs)}
        return facts, load_expectations(folder, self.spec)

    def _instances(self, known: Catalogue, facts: Mapping[str, Facts]) -> tuple[Instance, ...] | None:
        number, count = self.options.shard
        if number > count:
            self._refuse_run("shard", f"shard {number} of {count}", "a shard that is one of them")
            return None
        try:
            return chosen_instances(known, self.options, facts)
        except CaseUnknown as error:
            self._refuse_run("cases", error.found, "globs that match a case")
            return None

    def _skips(self) -> tuple[ExpectedSkip, ...]:
        given = tuple(ExpectedSkip(s["cases"], SkipReason(s["reason"]), s["why"]) for s in self.run["expected_skips"])
        machine, ours = self.options.machine, self._machine()
        if ours is None:
            return given
        strange = next((one for one in given if one not in ours), None)
        if strange is not None:
            said = f"an expected skip of {strange.cases} ({strange.reason})"
            self._refuse_run("expected_skips", said, f"machine class {machine} has no such skip")
        elif given != ours:
            self._refuse_run("expected_skips", "other expected skips", f"those of machine class {machine}")
        return given

    def _machine(self) -> tuple[ExpectedSkip, ...] | None:
        try:
            return load_machine(self.options.machine)
        except MachineUnknown as error:
            self._refuse_run("machine", f"machine class {shown(self.options.machine)}", error.fix)
            return None

    def _waivers(self, known: Catalogue) -> tuple[Waiver, ...] | None:
        found = parse_waivers(self.parsed.files[layout.WAIVERS], layout.WAIVERS, self.spec, known)
        for problem in found.problems:
            key = f"{problem.key}: " if problem.key else ""
            self.findings.refuse(layout.WAIVERS, problem.line, f"{key}{problem.text}", "a waiver file that loads")
        for waiver in found.waivers:
            if waiver.expires < self.today:
                line = int(waiver.place.rpartition(":")[2])
                said = f"a waiver that expired on {waiver.expires} ({waiver.approver}: {waiver.reason})"
                self.findings.refuse(layout.WAIVERS, line, said, f"waivers that hold on {self.today}")
        return None if found.problems else found.waivers

    def _plausible_times(self) -> bool:
        try:
            judged_on = datetime.date.fromisoformat(self.run["judged_on"])
            started = datetime.datetime.fromisoformat(self.run["started"])
        except ValueError as error:
            self._refuse_run("judged_on", f"{self.run['judged_on']}, {self.run['started']}: {error}", "days that exist")
            return False
        day = datetime.timedelta(days=1)
        if started.date() > self.today + day:
            self._refuse_run("started", f"started {self.run['started']}", f"not after {self.today}")
        # Terms are made when a run begins.
        if not started.date() <= judged_on <= started.date() + day:
            self._refuse_run("judged_on", f"judged on {judged_on}", f"the day of the start, {started.date()}")
        return True

    def _outcomes(
        self, instances: tuple[Instance, ...], facts: Mapping[str, Facts], terms: Terms
    ) -> dict[str, tuple[int, Outcome]]:
        """Instance id -> (line, outcome) of what belongs to the run; one for each instance that the plan lets run."""
        name = layout.OBSERVATIONS
        due = [one.id for one in instances if plan(one, facts[one.arch], terms).runs]
        seeds = {one.id: one.seed(self.options.seed) for one in instances}
        texts_of = self.parsed.files[name].split(b"\n")
        found: dict[str, tuple[int, Outcome]] = {}
        for line, row in self.parsed.lines[name]:
            outcome = Outcome.from_json(row)
            if outcome.id in found:
                self.findings.refuse(name, line, f"a second run of {outcome.id}", f"line {found[outcome.id][0]} has it")
                continue
            if outcome.id not in seeds or outcome.id not in due:
                wanted = "no such instance belongs to this run"
                wanted = "the plan does not let it run" if outcome.id in seeds else wanted
                self.findings.refuse(name, line, f"a run of {outcome.id}", wanted)
                continue
            if outcome.seed != seeds[outcome.id]:
                wanted = f"seed {self.options.seed} gives it {seeds[outcome.id]}"
                self.findings.refuse(name, line, f"{outcome.id}: seed {outcome.seed}", wanted)
            if outcome.end is End.NOT_RUN and not self.options.time_limit_s:
                self.findings.refuse(name, line, f"{outcome.id} was not run", "a run without a time limit runs all")
            if texts_of[line - 1].decode("utf-8") != jsontext.line(outcome.to_json()):
                self.findings.refuse(name, line, f"{outcome.id}: another spelling", "the line as certify writes it")
            found[outcome.id] = (line, outcome)
        before = 0
        for one in due:
            before += one in found
            if one not in found:
                self.findings.refuse(name, before + 1, f"no run of {one}", "every case that the plan does not skip")
        if list(found) != (order := [one for one in due if one in found]):
            wrong = next(a for a, b in zip(found, order, strict=True) if a != b)
            self.findings.refuse(
                name, found[wrong][0], f"{wrong} stands in another place", "the order of the instances"
            )
        return found

    def _judgements(
        self,
        instances: tuple[Instance, ...],
        facts: Mapping[str, Facts],
        terms: Terms,
        outcomes: Mapping[str, tuple[int, Outcome]],
    ) -> dict[str, Judgement] | None:
        found = {one.id: self._judged(one, outcomes.get(one.id), facts, terms) for one in instances}
        judgements = {name: one for name, one in found.items() if one is not None}
        return judgements if len(judgements) == len(instances) else None

    def _judged(
        self, one: Instance, known: tuple[int, Outcome] | None, facts: Mapping[str, Facts], terms: Terms
    ) -> Judgement | None:
        line, outcome = known or (0, None)
        try:
            with cpu_limit(layout.JUDGE_LIMIT_S):
                return judge(one, outcome, facts[one.arch], terms)
        except OutOfTime:
            said = f"{one.id}: not judged within {layout.JUDGE_LIMIT_S:g} s"
        except Exception as error:  # what a stranger wrote may break the judgement anywhere
            said = f"{one.id}: cannot be judged: {type(error).__name__}: {error}"
        self.findings.refuse(layout.OBSERVATIONS, line, said, "observations that can be judged")
        return None

    def _evidence(
        self,
        facts: Mapping[str, Facts],
        instances: tuple[Instance, ...],
        terms: Terms,
        outcomes: Mapping[str, tuple[int, Outcome]],
        judgements: Mapping[str, Judgement],
    ) -> Evidence:
        documents = self.parsed.documents
        theirs = documents[layout.PRODUCT]
        files = theirs["files"]
        session = Session(
            options=self.options,
            facts=facts,
            instances=instances,
            outcomes={name: outcome for name, (_, outcome) in outcomes.items()},
            judgements=judgements,
            ladder=ladder(instances, judgements, self.spec, self.options.levels),
            terms=terms,
            environment=documents[layout.ENVIRONMENT]["facts"],
            started=self.run["started"],
            seconds=self.run["seconds"],
            figures=carried(self.parsed, self.findings),
        )
        return Evidence(
            session=session,
            waivers=self.parsed.files[layout.WAIVERS],
            product={**theirs, "version": __version__, "sha256": product.sums_digest(files)},
            build=documents[layout.BUILD],
            record=self.parsed.record,
        )

    def _compare(self, evidence: Evidence, places: Mapping[str, int]) -> None:
        session = evidence.session
        rows = self.parsed.lines.get(layout.VERDICTS, [])
        split = self.parsed.files.get(layout.VERDICTS, b"").split(b"\n")
        spelled = {number: split[number - 1].decode("utf-8") for number, _ in rows}
        wanted = {one.id: verdict_line(session, one) for one in session.instances}
        compare_verdicts(rows, spelled, wanted, places, self.findings)
        skip = {layout.VERDICTS, layout.OBSERVATIONS}
        try:
            with cpu_limit(layout.JUDGE_LIMIT_S):
                again = texts(evidence)
        except (OutOfTime, Exception) as error:  # facts of a stranger may break a page
            said = f"its files cannot be made again: {type(error).__name__}: {error}"
            self.findings.refuse(layout.RUN, 0, said, "a run as certify writes it")
            return
        for name, data in again.items():
            if name not in skip and name in self.parsed.files:
                compare_file(name, self.parsed.files[name], data, self.findings)
