"""Waivers: failures that somebody answers for, until a day. A YAML file, checked line by line."""

from __future__ import annotations

import datetime
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tutti_hal.conformance_tests.case import ARCH_AXIS, Instance, Per
from tutti_hal.conformance_tests.catalogue import Catalogue, matches
from tutti_hal.conformance_tests.errors import WaiverExpired, WaiversInvalid
from tutti_hal.conformance_tests.package.yamlguard import guard
from tutti_hal.conformance_tests.terms import Waiver
from tutti_hal.errors import SpecError
from tutti_hal.spec import Spec
from tutti_hal.spec.nodes import Node, Problem, Problems, near_miss, read
from tutti_hal.spec.schema import BAD, Int, ListOf, Struct, Text

#: The text of a package's waiver file where none was given.
NO_WAIVERS = b"# No waivers were given to this run.\nversion: 1\nwaivers: []\n"

#: A sentence: it begins with a capital, has several words, and ends.
_SENTENCE = r"(?s)\s*[A-Z]\S*(\s+\S+){2,}[.!?]\s*"

_LIST = ListOf(Text(), unique=True)
_WAIVER = Struct(
    {
        "vendor": Text(),
        "reason": Text(pattern=_SENTENCE, noun="sentence"),
        "link": Text(pattern=r"https?://\S+", noun="link"),
        "approver": Text(),
        "expires": Text(pattern=r"\d{4}-\d{2}-\d{2}", noun="day, such as 2031-12-31"),
    },
    {"devices": _LIST, "cases": _LIST, "clauses": _LIST},
)
_SCHEMA = Struct({"version": Int(1, 1), "waivers": ListOf(_WAIVER)})


@dataclass(frozen=True)
class WaiverFile:
    """What a text holds: the waivers that are well formed, and what is wrong with it."""

    waivers: tuple[Waiver, ...]
    problems: tuple[Problem, ...]


def load_waivers(
    path: Path, spec: Spec, catalogue: Catalogue, today: datetime.date | None = None
) -> tuple[Waiver, ...]:
    """The waivers of a file; none is expired.

    Args:
        path: a YAML file, as docs describe it.
        spec: the contract, whose clauses may be named.
        catalogue: the cases, which a glob must match at least once.
        today: the day that they must outlast; today (UTC) when None.

    Raises:
        WaiversInvalid: it cannot be read, or something in it is wrong; all of it is listed.
        WaiverExpired: the last day of one or more is over; all of them are listed.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise WaiversInvalid(f"read the waivers {path}", str(error.strerror), "Name another file.") from error
    found = parse_waivers(data, str(path), spec, catalogue)
    if found.problems:
        listing = "".join(f"\n  {problem}" for problem in found.problems)
        raise WaiversInvalid(f"load the waivers {path}", f"these lines are wrong:{listing}\n", "Correct them.")
    day = today or datetime.datetime.now(datetime.UTC).date()
    late = [waiver for waiver in found.waivers if waiver.expires < day]
    if late:
        listing = "".join(f"\n  {one.place}: expired on {one.expires} ({one.approver}: {one.reason})" for one in late)
        raise WaiverExpired(
            f"use the waivers {path}", f"{listing}\n", "Have them approved anew with a later day, or take them out."
        )
    return found.waivers


def parse_waivers(data: bytes, name: str, spec: Spec, catalogue: Catalogue) -> WaiverFile:
    """The waivers of a text, expired ones too, and everything that is wrong with it; ``name`` is what places say."""
    where = Path(name)
    unfit = guard(data, aliases=False)
    if unfit:
        return WaiverFile((), (Problem(where, unfit[0], "", unfit[1]),))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "waivers.yaml")
        copy.write_bytes(data)
        try:
            node = read(copy)
        except SpecError as error:
            return WaiverFile((), (Problem(where, 1, "", error.found.replace(str(copy), name)),))
    node = Node(node.raw, where, "")
    problems = Problems()
    table = _SCHEMA.check(node, problems)
    waivers: list[Waiver] = []
    if table is not BAD and node.is_map:
        rows = next((value for key, _, value in node.items(Problems()) if key == "waivers"), None)
        for row in rows.elements() if rows is not None and rows.is_list else ():
            waiver = _waiver(row, spec, catalogue, problems)
            if waiver is not None:
                waivers.append(waiver)
    unique = sorted(set(problems.found), key=lambda p: (p.line, p.key, p.text))
    return WaiverFile(tuple(waivers), tuple(unique))


def _waiver(row: Node, spec: Spec, catalogue: Catalogue, problems: Problems) -> Waiver | None:
    own = Problems()
    table = _WAIVER.check(row, own)
    if own.found or table is BAD:
        return None  # the schema of the whole has noted it
    places = {name: value for name, _, value in row.items(Problems())}
    cases, clauses = table.get("cases", ()), table.get("clauses", ())
    if not cases and not clauses:
        problems.add(row, "it waives nothing: name cases or clauses")
    for index, glob in enumerate(cases):
        if not _matches_some(glob, catalogue):
            names = sorted({case.name for case in catalogue.cases})
            problems.add(list(places["cases"].elements())[index], f"no case matches '{glob}'{near_miss(glob, names)}")
    for index, clause in enumerate(clauses):
        if clause not in spec.clauses:
            place = list(places["clauses"].elements())[index]
            problems.add(place, f"no clause '{clause}'{near_miss(clause, spec.clauses)}")
    try:
        expires = datetime.date.fromisoformat(table["expires"])
    except ValueError as error:
        problems.add(places["expires"], f"'{table['expires']}' is no day: {error}")
        return None
    return Waiver(
        vendor=table["vendor"],
        devices=tuple(table.get("devices", ())),
        cases=tuple(cases),
        clauses=tuple(clauses),
        reason=" ".join(table["reason"].split()),
        link=table["link"],
        approver=table["approver"],
        expires=expires,
        place=f"{row.file}:{row.line}",
    )


def _matches_some(glob: str, catalogue: Catalogue) -> bool:
    """Whether a glob matches an instance on some arch. Whatever arch it names is taken."""
    named = re.search(rf"\b{ARCH_AXIS}=([^,]*)", glob)
    arch = named[1] if named else "any"
    return any(
        matches(Instance(case, instance.axes, "" if case.per is Per.VENDOR else arch), glob)
        for case in catalogue.cases
        for instance in case.instances()
    )
