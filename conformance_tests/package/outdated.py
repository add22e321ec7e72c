"""A package of an older product, judged by the product of today: what still counts, and what no longer can."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.package import jsontext, layout, product
from tutti_hal.conformance_tests.package.builds import other_kernels
from tutti_hal.conformance_tests.package.evidence import Evidence, environment_table, verdict_line
from tutti_hal.conformance_tests.package.findings import Findings, printable, shown
from tutti_hal.conformance_tests.package.history import Known
from tutti_hal.conformance_tests.package.parsed import Parsed
from tutti_hal.conformance_tests.package.rederived import compare_verdicts, line_of
from tutti_hal.conformance_tests.package.rejudged import Again
from tutti_hal.conformance_tests.package.staleness import Moved, Since, Stale
from tutti_hal.conformance_tests.package.stated import check_stated, stated_ladder
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.session import Session, certifies, provenance
from tutti_hal.conformance_tests.terms import ExpectedSkip, Terms, plan
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.record import Record

#: Files of a product that is no commit's that are named one by one; the rest is counted.
_FILES_TOLD = 20

#: What a line of ``verdicts.jsonl`` says that follows from the observations, whatever words today's rules use.
_MEANING = ("verdict", "code", "clauses", "waived", "blocks", "level", "arch", "axes")


class AgainLater(Again):
    """The steps for a package whose product is not the installed one.

    Args:
        parsed: its files.
        findings: where refusals go.
        today: the day on which waivers must still hold.
        files: the product files that differ.
        known: what is known of its product.
    """

    def __init__(
        self, parsed: Parsed, findings: Findings, today: datetime.date, files: tuple[Moved, ...], known: Known
    ) -> None:
        super().__init__(parsed, findings, today)
        must_pass = parsed.documents.get(layout.MUST_PASS, {})
        self.since = Since(files, must_pass.get("clauses", {}), self.spec.clauses)
        self.known = known
        self.not_judged: dict[str, str] = {}
        self.gone: dict[str, None] = {}
        self.rows: dict[str, tuple[int, dict[str, Any]]] = {}
        for line, row in parsed.lines.get(layout.VERDICTS, []):
            if row["id"] in self.rows:
                first = f"line {self.rows[row['id']][0]} has it"
                findings.refuse(layout.VERDICTS, line, f"a second verdict of {row['id']}", first)
            self.rows.setdefault(row["id"], (line, row))

    def judged(self, cases: tuple[str, ...]) -> Evidence | None:
        """As for a package of the installed product; what could not be judged again is with the evidence."""
        evidence = super().judged(cases)
        if evidence is None:
            return None
        session = evidence.session
        stale = Stale(
            files=self.since.files,
            known=self.known,
            version=str(self.parsed.documents[layout.PRODUCT]["version"]),
            certified=certifies(replace(session, ladder=stated_ladder(self.run))),
            not_judged={one.id: self.not_judged[one.id] for one in session.instances if one.id in self.not_judged},
            gone=tuple(self.gone),
            unchecked=(layout.JUNIT, layout.REPORT),
        )
        return replace(evidence, stale=stale)

    def _note_product(self) -> None:
        """An older product is one that there was: where there is a history to ask, it has to be found in it."""
        super()._note_product()
        said: dict[str, Any] = self.parsed.documents[layout.PRODUCT]
        data = self.parsed.files[layout.PRODUCT]
        if self.known.strange:
            self.findings.refuse(layout.PRODUCT, line_of(data, "commit"), self.known.said, "a product that there was")
        for name, wanted in list(self.known.astray.items())[:_FILES_TOLD]:
            found = f"{printable(name)} has SHA-256 {said['files'].get(name, 'none: it is missing')}"
            self.findings.refuse(
                layout.PRODUCT, line_of(data, name if name in said["files"] else "files"), found, wanted
            )
        if len(self.known.astray) > _FILES_TOLD:
            more = f"{len(self.known.astray) - _FILES_TOLD} more files differ"
            self.findings.refuse(layout.PRODUCT, line_of(data, "files"), more, f"those of commit {self.known.commit}")
        if said["sha256"] != (again := product.sums_digest(said["files"])):
            self.findings.refuse(
                layout.PRODUCT, line_of(data, "sha256"), f"sha256 {said['sha256']}", f"its files have {again}"
            )
        if said["version"] != self.run["suite"]:
            self._refuse_run("suite", f"suite {shown(self.run['suite'])}", f"its product is version {said['version']}")

    def _same_record(self, copied: Mapping[str, bytes], folder: Path) -> None:
        """The record that was used is the one of the product that was used."""
        files: dict[str, str] = self.parsed.documents[layout.PRODUCT]["files"]
        vendor = folder.name
        prefix = f"backends/{vendor}/" if f"backends/{vendor}/vendor.yaml" in files else f"backend/{vendor}/"
        for name, data in copied.items():
            if (total := sha256(data).hexdigest()) != files.get(f"{prefix}{name}"):
                wanted = f"{layout.PRODUCT} has {files.get(f'{prefix}{name}', 'no such file')} for {prefix}{name}"
                self.findings.refuse(f"{layout.RECORD}/{name}", 0, f"its SHA-256 is {total}", wanted)

    def _skips(self) -> tuple[ExpectedSkip, ...]:
        """Those of today's list: a skip that is no longer expected fails, whenever it was made."""
        if not self.since.file(f"conformance_tests/machines/{self.options.machine}.yaml"):
            return super()._skips()
        return self._machine() or ()

    def _outcomes(
        self, instances: tuple[Instance, ...], facts: Mapping[str, Facts], terms: Terms
    ) -> dict[str, tuple[int, Outcome]]:
        name = layout.OBSERVATIONS
        known = {one.id: one for one in instances}
        texts_of = self.parsed.files[name].split(b"\n")
        found: dict[str, tuple[int, Outcome]] = {}
        seen: dict[str, int] = {}
        for line, row in self.parsed.lines[name]:
            outcome = Outcome.from_json(row)
            if outcome.id in seen:
                self.findings.refuse(name, line, f"a second run of {outcome.id}", f"line {seen[outcome.id]} has it")
                continue
            seen[outcome.id] = line
            self._belongs(outcome.id, line, texts_of[line - 1])
            if outcome.end is End.NOT_RUN and not self.options.time_limit_s:
                self.findings.refuse(name, line, f"{outcome.id} was not run", "a run without a time limit runs all")
            if outcome.id not in known:
                self._gone(name, line, outcome.id)
                continue
            one = known[outcome.id]
            if outcome.seed != one.seed(self.options.seed):
                wanted = f"seed {self.options.seed} gives it {one.seed(self.options.seed)}"
                self.findings.refuse(name, line, f"{outcome.id}: seed {outcome.seed}", wanted)
            again = jsontext.line(outcome.to_json())
            if texts_of[line - 1].decode("utf-8") != again and not self.since.file("conformance_tests/outcome.py"):
                self.findings.refuse(name, line, f"{outcome.id}: another spelling", "the line as certify writes it")
            if plan(one, facts[one.arch], terms).runs:
                found[outcome.id] = (line, outcome)
            elif self.since.may_judge_otherwise:
                self.not_judged[outcome.id] = f"today it is not to be run ({self.since.kinds} changed since)"
            else:
                self.findings.refuse(name, line, f"a run of {outcome.id}", "the plan does not let it run")
        order = [one for one in self.rows if one in seen]
        if order != (mine := [one for one in seen if one in self.rows]):
            wrong = next(a for a, b in zip(mine, order, strict=True) if a != b)
            self.findings.refuse(name, seen[wrong], f"{wrong} stands in another place", f"as in {layout.VERDICTS}")
        for one_id, (line, row) in self.rows.items():
            if row["outcome"] and one_id not in seen:
                self.findings.refuse(layout.VERDICTS, line, f"{one_id}: outcome {row['outcome']}", f"none in {name}")
            if one_id not in known and one_id not in self.gone:
                self._gone(layout.VERDICTS, line, one_id)
        return found

    def _belongs(self, name: str, line: int, text: bytes) -> None:
        """A line of observations is the one that its verdict was made from, whoever can still judge it."""
        number, row = self.rows.get(name, (0, {}))
        total = sha256(text).hexdigest()
        if not number:
            self.findings.refuse(layout.VERDICTS, 0, f"no verdict of {name}", f"{layout.OBSERVATIONS}:{line} saw it")
        elif row["outcome"] != total:
            said = f"the line of {name} has SHA-256 {total}"
            self.findings.refuse(layout.OBSERVATIONS, line, said, f"{layout.VERDICTS}:{number} was made from another")

    def _gone(self, file: str, line: int, name: str) -> None:
        if self.since.may_have_other_instances:
            self.gone[name] = None
        else:
            self.findings.refuse(file, line, f"{name}", "no such instance belongs to this run")

    def _judged(
        self, one: Instance, known: tuple[int, Outcome] | None, facts: Mapping[str, Facts], terms: Terms
    ) -> Judgement | None:
        due = plan(one, facts[one.arch], terms).runs
        why = self.not_judged.get(one.id, "") or (self.since.why_not(one) if due else "")
        if not why and due and known is None:
            why = self._missing(one)
        if not why and one.id not in self.rows:
            why = self._missing(one)
        if why:
            return self._open(one, why)
        found = super()._judged(one, known, facts, terms)
        if found is None or not self.since.may_judge_otherwise:
            return found
        said = self.rows[one.id][1]
        line = {**found.to_json(), "level": one.case.level, "arch": one.arch, "axes": dict(one.axes)}
        other = [key for key in _MEANING if jsontext.line(said[key]) != jsontext.line(line[key])]
        if not other:
            return found
        key = other[0]
        was, now = (shown(table[key]) for table in (said, line))
        return self._open(one, f"today's {key} is {now}, then it was {was} ({self.since.kinds} changed since)")

    def _missing(self, one: Instance) -> str:
        """Why an instance of today's run is not in the package; one that was left out of it is refused."""
        if self.since.may_have_other_instances:
            return "it is new since, or was not to be run then"
        self.findings.refuse(layout.OBSERVATIONS, 0, f"no run of {one.id}", "every case that the plan does not skip")
        return "it was left out"

    def _open(self, one: Instance, why: str) -> Judgement:
        self.not_judged[one.id] = why
        clauses = dict.fromkeys(one.clauses, Verdict.NOT_TESTED)
        return Judgement(one.id, Verdict.NOT_TESTED, f"not judged again: {why}", "", clauses, blocks=True)

    def _builds(self, evidence: Evidence, record: Record | None) -> None:
        if not self.since.any_of("contract", "templates", "record", "rules", "runtime", "cases"):
            super()._builds(evidence, record)
            return
        for name, arch in other_kernels(evidence.build, record) if record is not None else ():
            self.findings.remark(f"the kernels {name} for {arch} render otherwise today, or not at all")

    def _compare(self, evidence: Evidence, places: Mapping[str, int]) -> None:
        session = evidence.session
        if not self.since.may_judge_otherwise:
            self._compare_verdicts(session, places)
        check_stated(self.parsed, self.rows, self.spec, self.since, self.findings)
        if self.run["provenance"] != provenance(session):
            self._refuse_run("provenance", f"provenance {shown(self.run['provenance'])}", provenance(session))
        environment = jsontext.document(environment_table(session))
        if environment != self.parsed.files[layout.ENVIRONMENT] and not self.since.file("machine.py"):
            self.findings.refuse(layout.ENVIRONMENT, 2, "another sum", "that of its facts, as certify writes it")

    def _compare_verdicts(self, session: Session, places: Mapping[str, int]) -> None:
        """Every word of the verdicts that were made again; those of the others are of no use."""
        wanted = {one.id: verdict_line(session, one) for one in session.instances if one.id not in self.not_judged}
        rows = [(line, row) for line, row in self.parsed.lines[layout.VERDICTS] if row["id"] in wanted]
        split = self.parsed.files[layout.VERDICTS].split(b"\n")
        compare_verdicts(rows, {n: split[n - 1].decode("utf-8") for n, _ in rows}, wanted, places, self.findings)
