"""What the tests of the report share: sessions of every kind, made without a device, and a strict reader of pages."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any

from tutti_hal.conformance_tests.case import Case, Instance
from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.ladder import ladder
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.seen import Check
from tutti_hal.conformance_tests.session import RunOptions, Session
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms, Waiver
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.spec import load_spec

ARCHS = ("threads-w32", "threads-w64", "threads-w128", "sim-w32", "sim-w64", "sim-w128")
TODAY = datetime.date(2026, 3, 1)
PLACE = "waivers.yaml:3"

#: What somebody might put where text is shown.
HOSTILE = "</code></pre><script>alert('1')</script><img src=x onerror=\"alert(2)\">&amp;\x1b[31m\u202e\ud800"

Decide = Callable[[Instance], Verdict]


def make(
    decide: Decide, *, archs: tuple[str, ...] = ARCHS, extra: tuple[Instance, ...] = (), **options: Any
) -> Session:
    """A session of every case of the suite on these archs, with the verdicts that ``decide`` gives."""
    wanted = RunOptions(SubjectSpec("host"), archs, **options)
    facts = {arch: _facts(arch) for arch in ("", *archs)}
    levels = set(wanted.levels)
    instances = tuple(one for one in catalogue().instances(facts) if one.case.level in levels) + extra
    waiver = Waiver(
        "host",
        ("sim-*",),
        ("prim/*",),
        (),
        "The sum is late.",
        "https://tracker.example/7?a=1&b=2",
        "A. Approver",
        TODAY + datetime.timedelta(30),
        PLACE,
    )
    stale = replace(waiver, reason="It is over.", expires=TODAY - datetime.timedelta(1), place="waivers.yaml:9")
    judgements = {one.id: judgement(one, decide(one)) for one in instances}
    outcomes = {
        one.id: _outcome(one, judgements[one.id])
        for one in instances
        if judgements[one.id].verdict not in {Verdict.SKIP, Verdict.XFAIL, Verdict.NOT_TESTED}
    }
    terms = Terms(load_spec(), waivers=(waiver, stale), today=TODAY)
    return Session(
        options=wanted,
        facts=facts,
        instances=instances,
        outcomes=outcomes,
        judgements=judgements,
        ladder=ladder(instances, judgements, terms.spec, wanted.levels),
        terms=terms,
        environment={"cpu": {"model": "A processor", "count": 2}, "memory": {"total_bytes": 1 << 34}, "watched": {}},
        started="2026-03-01T10:00:00+00:00",
        seconds=153.3,
    )


def judgement(instance: Instance, verdict: Verdict) -> Judgement:
    """A judgement as the suite would give it."""
    clauses = dict.fromkeys(instance.clauses, verdict)
    match verdict:
        case Verdict.PASS:
            return Judgement(instance.id, verdict, clauses=clauses)
        case Verdict.SKIP:
            return Judgement(instance.id, verdict, "device.partition is declared false", "capability", clauses)
        case Verdict.WAIVED:
            return Judgement(
                instance.id, verdict, "waived", "", clauses, _checks(instance), Verdict.FAIL, PLACE, blocks=False
            )
        case Verdict.FAIL:
            return Judgement(
                instance.id, verdict, "the sum: found 3, wanted 4", "", clauses, _checks(instance), blocks=True
            )
    return Judgement(instance.id, verdict, f"it is {verdict} for a reason", "", clauses, blocks=True)


def green(_: Instance) -> Verdict:
    """All pass."""
    return Verdict.PASS


def mixed(instance: Instance) -> Verdict:
    """Every verdict there is, from L2 up."""
    if instance.case.level in {"L0", "L1"}:
        return Verdict.PASS
    return list(Verdict)[instance.seed(1) % 400] if instance.seed(1) % 400 < len(Verdict) else Verdict.PASS


def hostile() -> Session:
    """A run whose every text was chosen by somebody who wants to break the page."""
    word = HOSTILE.rstrip("\ud800")  # an id is hashed as UTF-8
    case = Case(f"x/{word}", "L3", ("prim.crc.check_value",), lambda _: {}, doc=HOSTILE)
    one = Instance(case, {word: word}, word)
    waived = Instance(case, {"a": word}, word)
    session = make(green, archs=("sim-w32",), level="L3", extra=(one, waived))
    check = Check("prim.crc.check_value", HOSTILE, False, 1, HOSTILE, HOSTILE)
    clauses = {"prim.crc.check_value": Verdict.FAIL}
    judgements = {
        **session.judgements,
        one.id: Judgement(one.id, Verdict.FAIL, HOSTILE, "", clauses, (check,), blocks=True),
        waived.id: Judgement(waived.id, Verdict.WAIVED, HOSTILE, "", clauses, (check,), Verdict.FAIL, PLACE),
    }
    outcome = Outcome(
        one.id, 1, End.RAISED, {"trace": [HOSTILE]}, log=(HOSTILE,), alone={"failed_alone": False, "after": [HOSTILE]}
    )
    waiver = replace(
        session.terms.waivers[0], reason=HOSTILE, link=f"javascript:{HOSTILE}", approver=HOSTILE, cases=(HOSTILE,)
    )
    options = replace(session.options, subject=SubjectSpec("host", record=HOSTILE, templates=HOSTILE), cases=(HOSTILE,))
    return replace(
        session,
        options=options,
        judgements=judgements,
        outcomes={**session.outcomes, one.id: outcome},
        ladder=ladder(session.instances, judgements, session.terms.spec, options.levels),
        terms=replace(session.terms, waivers=(waiver,)),
        environment={HOSTILE: {HOSTILE: HOSTILE}, "cpu": HOSTILE},
    )


def _checks(instance: Instance) -> tuple[Check, ...]:
    return tuple(Check(clause, "the sum", False, 1, "3", "4") for clause in instance.clauses)


def _outcome(instance: Instance, found: Judgement) -> Outcome:
    log = ("a line of the log",) if found.verdict is Verdict.FAIL else ()
    alone = {"failed_alone": False, "failed_again": True, "after": ["prim/other"]} if log else None
    return Outcome(instance.id, 1, End.OBSERVED, log=log, seconds=len(instance.id) / 100, alone=alone)


@functools.cache
def _facts(arch: str) -> Any:
    return facts_of(profile_of(SubjectSpec("host")), arch)


# ---------------------------------------------------------------- the reader

_VOID = {"meta", "link", "br", "hr", "img", "input", "base", "col", "embed", "source", "wbr", "area", "track"}


@dataclass
class Element:
    """One element: name, attributes, children in order (elements and text)."""

    name: str
    attributes: dict[str, str]
    parent: Element | None
    children: list[Element | str] = field(default_factory=list)
    by_id: dict[str, Element] = field(default_factory=dict)  # of the root: every element that has an id

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(one if isinstance(one, str) else one.text for one in self.children)

    @property
    def words(self) -> str:
        """Its text with single blanks."""
        return " ".join(self.text.split())

    def all(self, name: str = "", /, **attributes: str) -> Iterator[Element]:
        """The elements below it with this name and these attributes (``cls`` is one of the words of ``class``)."""
        cls = attributes.pop("cls", "")
        waiting = list(reversed(self.children))
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                continue
            held = name in {"", one.name} and all(one.attributes.get(key) == value for key, value in attributes.items())
            if held and (not cls or cls in one.attributes.get("class", "").split()):
                yield one
            waiting.extend(reversed(one.children))

    def only(self, name: str = "", /, **attributes: str) -> Element:
        """The one such element."""
        (found,) = self.all(name, **attributes)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self._at = Element("", {}, None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        one = Element(tag, {name: value or "" for name, value in attrs}, self._at)
        self._at.children.append(one)
        if "id" in one.attributes:
            assert one.attributes["id"] not in self.root.by_id, f"the id {one.attributes['id']} is given twice"
            self.root.by_id[one.attributes["id"]] = one
        if tag not in _VOID:
            self._at = one

    def handle_endtag(self, tag: str) -> None:
        assert self._at.name == tag, f"</{tag}> ends <{self._at.name}> at {self.getpos()}"
        assert self._at.parent is not None
        self._at = self._at.parent

    def handle_data(self, data: str) -> None:
        self._at.children.append(data)

    def unclosed(self) -> str:
        return self._at.name


def read(page: str) -> Element:
    """The page as a tree. Every element must be closed by its own end tag, in order, and no id given twice."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert not reader.unclosed(), f"<{reader.unclosed()}> is not closed"
    return reader.root
