"""The kept table as a page for people: the score with its denominator for each family of mutants, and what is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tutti_hal.conformance_tests.mutants.ledger import Row
from tutti_hal.conformance_tests.mutants.mutant import Mutant, Source
from tutti_hal.conformance_tests.mutants.score import State

#: The columns of the table, in order: heading, and the states that it counts.
_COLUMNS: tuple[tuple[str, frozenset[State]], ...] = (
    ("killed by a case", frozenset({State.KILLED, State.NOT_EQUIVALENT, State.NOT_SURVIVOR})),
    ("killed by compilation", frozenset({State.STILLBORN})),
    ("equivalent", frozenset({State.EQUIVALENT})),
    ("waits for a level", frozenset({State.NOT_YET})),
    ("survives", frozenset({State.SURVIVED, State.NOT_COVERED, State.KNOWN})),
)
_KILLED = _COLUMNS[0][1] | _COLUMNS[1][1]
_OPEN = _COLUMNS[3][1] | _COLUMNS[4][1]

#: How many cases are shown that killed the most.
_SHOWN = 15


def family_of(mutant: Mutant) -> str:
    """What a mutant counts to: a template, the record or the controllers. One made by hand counts to its template."""
    if mutant.source is Source.RECORD:
        return f"record: {mutant.place.partition('.')[0]}"
    return "controllers" if mutant.source is Source.CONTROLLER else mutant.file


def page(mutants: Sequence[Mutant], rows: Mapping[str, Row], reasons: Mapping[str, str]) -> str:
    """The page, as Markdown.

    Args:
        mutants: all that there are.
        rows: of the table, by id; a mutant without one was not tried.
        reasons: of the lists of equivalents and survivors, by id.
    """
    families: dict[str, list[Mutant]] = {}
    for one in mutants:
        families.setdefault(family_of(one), []).append(one)
    head = ["family", "mutants", "not tried", *(name for name, _ in _COLUMNS), "score"]
    lines = [
        "# Mutants",
        "",
        "What came of every mutant when it was last tried: `conformance_tests/mutants/table.jsonl`. The score is what",
        "was killed of all that are not equivalent; what was not tried counts as not killed.",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(_line(name, own, rows) for name, own in sorted(families.items())),
        _line("**all**", mutants, rows),
        "",
        "## Who kills",
        "",
        "The cases that killed the most. A trial ends at the first kill: a case may kill more than it is given here.",
        "",
        "| case | mutants |",
        "|---|---|",
    ]
    known = {one.id for one in mutants}
    kills = Counter(row.killer.partition(":")[0] for row in rows.values() if row.killer and row.id in known)
    most = sorted(kills.items(), key=lambda pair: (-pair[1], pair[0]))
    lines += [f"| `{name}` | {count} |" for name, count in most[:_SHOWN]]
    lines += ["", "## Open", "", "Mutants that nothing has noticed.", ""]
    open_ones = [one for one in mutants if one.id in rows and State(rows[one.id].state) in _OPEN]
    lines += ["| mutant | change | state |", "|---|---|---|"] if open_ones else ["None."]
    lines += [f"| `{one.id}` | `{_cell(one.shown)}` | {rows[one.id].state} |" for one in open_ones]
    lines += ["", "## Equivalent", "", "Mutants that nothing can notice, each with the reason.", ""]
    lines += ["| mutant | change | why |", "|---|---|---|"]
    equal = [one for one in mutants if one.id in rows and rows[one.id].state == State.EQUIVALENT]
    lines += [f"| `{one.id}` | `{_cell(one.shown)}` | {_cell(reasons.get(one.id, ''))} |" for one in equal]
    return "\n".join(lines) + "\n"


def _line(name: str, own: Sequence[Mutant], rows: Mapping[str, Row]) -> str:
    states = Counter(State(rows[one.id].state) for one in own if one.id in rows)

    def count(wanted: frozenset[State]) -> int:
        return sum(number for state, number in states.items() if state in wanted)

    killed, denominator = count(_KILLED), len(own) - states[State.EQUIVALENT]
    part = 100 * killed / denominator if denominator else 0.0
    # 100 % is said of all of them only.
    score = f"{killed} of {denominator} ({part if killed == denominator else min(part, 99.9):.1f} %)"
    cells = [name, len(own), len(own) - states.total(), *(count(wanted) for _, wanted in _COLUMNS), score]
    return f"| {' | '.join(map(str, cells))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("`", "'")
