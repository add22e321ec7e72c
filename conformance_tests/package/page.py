"""A plain page of a run, for where the report is not installed: the ladder, and every verdict with its repro line."""

from __future__ import annotations

from html import escape

from tutti_hal.conformance_tests.session import Session, certifies, repro_line
from tutti_hal.conformance_tests.verdict import ACCEPTED

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border-bottom:1px solid #ccc;padding:.2rem .6rem;text-align:left;"
    "vertical-align:top}code{overflow-wrap:anywhere}"
)


def page(session: Session) -> str:
    """The page, self-contained; a function of the session alone."""
    options = session.options
    head = (
        f"<p>{escape(certifies(session))}. Started {escape(session.started)}, {session.seconds:.1f} s,"
        f" seed {options.seed}, archs {escape(', '.join(options.archs))}.</p>"
    )
    levels = "".join(
        f"<tr><td>{level.name}<td>{escape(level.state.value)}<td>"
        + escape(", ".join(f"{number} {verdict}" for verdict, number in level.counts.items() if number))
        + f"<td>{len(level.untested)}"
        for level in session.ladder.levels
    )
    rows = []
    for instance in session.instances:
        judgement = session.judgements[instance.id]
        repro = "" if judgement.verdict in ACCEPTED else f"<br><code>{escape(repro_line(options, instance))}</code>"
        rows.append(
            f"<tr><td>{judgement.verdict}<td><code>{escape(instance.id)}</code><td>{escape(judgement.reason)}{repro}"
        )
    title = f"tutti-hal certify {escape(options.subject.profile)}"
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>\n<h1>{title}</h1>\n{head}\n'
        f"<table><tr><th>level<th>state<th>verdicts<th>clauses not tested{levels}</table>\n<h2>Cases</h2>\n"
        "<table><tr><th>verdict<th>case<th>why" + "\n".join(rows) + "</table>\n</html>\n"
    )
