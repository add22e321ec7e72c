"""Every mutant that there is: of the templates, of a record, of controllers, and those made by hand."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tutti_hal.conformance_tests.errors import MutantsInvalid
from tutti_hal.conformance_tests.mutants.mutant import Mutant, Operator, Source, TextEdit
from tutti_hal.conformance_tests.mutants.operators import sites_of
from tutti_hal.conformance_tests.mutants.records import record_mutants
from tutti_hal.conformance_tests.mutants.tables import HandMade, Tables
from tutti_hal.conformance_tests.mutants.tokens import guard_of
from tutti_hal.record import Record
from tutti_hal.spec import Spec


def all_mutants(record: Record, templates: Path, spec: Spec, tables: Tables) -> tuple[Mutant, ...]:
    """Every mutant, in a fixed order: templates by name and place, the record by key, controllers, hand-made ones.

    Args:
        record: the vendor's.
        templates: the template root.
        spec: the contract.
        tables: which templates, which groups of constants, what was made by hand.

    Raises:
        MutantsInvalid: a hand-made mutant's pattern does not occur exactly once, two mutants share an id, or a constant
            that is said to tune is defined in none of the templates.
    """
    own = templates_of(templates, tables.templates)
    check_tuning(own, tables.tuning)
    found = [
        *itertools.chain.from_iterable(template_mutants(path, templates, tables) for path in own),
        *record_mutants(record, spec),
        *controller_mutants(),
        *(hand_made(one, templates) for one in tables.hand_made),
    ]
    twice = [name for name, count in Counter(one.id for one in found).items() if count > 1]
    if twice:
        raise MutantsInvalid("name the mutants", f"given twice: {', '.join(twice)}", "Mend the operators.")
    return tuple(found)


def templates_of(templates: Path, globs: Sequence[str]) -> tuple[Path, ...]:
    """The templates below a root that are the product's, in order; globs are relative to the root, ``!`` excludes."""
    chosen = []
    for path in sorted(templates.rglob("*.j2")):
        name = path.relative_to(templates).as_posix()
        if any(fnmatchcase(name, one) for one in globs if not one.startswith("!")) and not any(
            fnmatchcase(name, one[1:]) for one in globs if one.startswith("!")
        ):
            chosen.append(path)
    return tuple(chosen)


def template_mutants(path: Path, root: Path, tables: Tables) -> Iterator[Mutant]:
    """Every mutant of one template."""
    name = path.relative_to(root).as_posix()
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    seen: Counter[str] = Counter()
    for site in sites_of(text, tables.constants):
        token, edit = site.token, site.edit
        if _defined_in(lines[token.line - 1]) in tables.tuning:
            continue
        stem = f"template/{name}:{token.scope}:{_hash(lines[token.line - 1])}:{site.operator}"
        seen[stem] += 1
        yield Mutant(
            id=f"{stem}.{seen[stem]}",
            source=Source.TEMPLATE,
            operator=site.operator,
            file=name,
            line=token.line,
            before=_around(text, edit.start, edit.end),
            after=_around(text, edit.start, edit.end, edit.instead),
            place=f"{name}:{token.scope}",
            guard=guard_of(token, tables.macros),
            text=edit,
        )


def check_tuning(templates: Sequence[Path], tuning: Mapping[str, str]) -> None:
    """Refuse the name of a constant that no template defines: an excuse for nothing.

    Raises:
        MutantsInvalid: there is one.
    """
    defined = {_defined_in(line) for path in templates for line in path.read_text(encoding="utf-8").split("\n")}
    astray = [name for name in tuning if name not in defined]
    if astray:
        raise MutantsInvalid(
            "read the constants that only tune",
            f"no template defines {', '.join(astray)}",
            "Take them out of targets.yaml: tuning.",
        )


def _defined_in(line: str) -> str:
    """The constant that a line defines; empty where it defines none."""
    found = re.search(r"\bconstexpr\s+\w+\s+(\w+)\s*=", line)
    return found[1] if found else ""


def _hash(line: str) -> str:
    return hashlib.sha256(" ".join(line.split()).encode()).hexdigest()[:6]


def _around(text: str, start: int, end: int, instead: str | None = None) -> str:
    """What is edited, with the rest of its lines."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    middle = text[start:end] if instead is None else instead
    return f"{text[first:start]}{middle}{text[end : last if last >= 0 else len(text)]}".strip()


def controller_mutants() -> Iterator[Mutant]:
    """One for each mutation that the rig of the ring's cases knows."""
    for name, about in controller_mutations().items():
        yield Mutant(
            id=f"controller/{name}:{Operator.CONTROLLER}",
            source=Source.CONTROLLER,
            operator=Operator.CONTROLLER,
            file="",
            line=0,
            before="a drive that keeps to the specification",
            after=about,
            place=f"controller.{name}",
            controller=name,
        )


def controller_mutations() -> Mapping[str, str]:
    """Name -> sentence of each mutation of a controller; empty while no case drives one."""
    package = __name__.removesuffix(".mutants.sites")
    if importlib.util.find_spec(f"{package}.controller_mutations") is None:
        return {}
    table = importlib.import_module(f"{package}.controller_mutations").CONTROLLER_MUTATIONS
    return {name: str(one.says) for name, one in table.items()}


def hand_made(one: HandMade, templates: Path) -> Mutant:
    """The mutant of an entry of ``registry.yaml``.

    Raises:
        MutantsInvalid: its pattern does not occur exactly once in its file.
    """
    path = templates / one.file
    if not path.is_file():
        raise MutantsInvalid(f"make the mutant '{one.name}'", f"no template {one.file}", f"Mend {one.origin}.")
    text = path.read_text(encoding="utf-8")
    hits = list(re.finditer(one.pattern, text, re.S))
    if len(hits) != 1:
        raise MutantsInvalid(
            f"make the mutant '{one.name}'",
            f"its pattern occurs {len(hits)} times in {one.file}",
            f"Make it occur once: {one.origin}.",
        )
    hit = hits[0]
    instead = hit.expand(one.instead)
    return Mutant(
        id=f"hand/{one.name}",
        source=Source.TEMPLATE,
        operator=Operator.HAND,
        file=one.file,
        line=text.count("\n", 0, hit.start()) + 1,
        before=hit[0].strip(),
        after=instead.strip(),
        place=f"{one.file}:{one.name}",
        text=TextEdit(hit.start(), hit.end(), instead),
        about=one.about,
        cases=one.cases,
    )
