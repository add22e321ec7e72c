"""From a session to the page: one file, nothing loaded from elsewhere, everything escaped."""

from __future__ import annotations

import functools
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from tutti_hal.conformance_tests.report import content, words
from tutti_hal.conformance_tests.report.litmus import litmus
from tutti_hal.conformance_tests.report.matrix import matrix
from tutti_hal.conformance_tests.session import Session, certifies, provenance
from tutti_hal.conformance_tests.verdict import OPEN, Verdict
from tutti_hal.paths import package_file

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_TEMPLATE = "page.html.j2"


def render(session: Session, notes: Sequence[tuple[str, str]] = ()) -> str:
    """The report of a run: a function of the session alone, so that `verify` has it too.

    A browser is told to run no script and to apply no style but the page's own, each named by its hash, so what slips
    into a log stays text.

    Args:
        session: the run.
        notes: (mark, sentence) of what came after it, such as that it is stale; they stand first among its marks.

    Returns:
        An HTML document. It needs no script to be read, and loads nothing.
    """
    environment = _environment()
    found = content.failures(session)
    run = [one for one in found if one.judgement.verdict not in OPEN]
    full = run[: content.FULL_FAILURES]
    first_facts, other_facts = content.environment(session)
    style, script = _own("style.css"), _own("page.js")
    return environment.get_template(_TEMPLATE).render(
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        session=session,
        options=session.options,
        certifies=certifies(session),
        provenance=provenance(session),
        marks=(*notes, *content.marks(session.options)),
        rungs=content.rungs(session),
        total=Counter(one.verdict for one in session.judgements.values()),
        next=content.what_next(session, found),
        full=full,
        brief=run[content.FULL_FAILURES :],
        doubtful=[one for one in found if one.judgement.verdict is Verdict.INCONCLUSIVE],
        waiting=[one for one in found if one.judgement.verdict is Verdict.NOT_TESTED],
        matrix=matrix(session, {one.instance.id: one.anchor for one in found}),
        skips=content.groups(session, Verdict.SKIP),
        xfails=content.groups(session, Verdict.XFAIL),
        waivers=content.waivers(session),
        litmus=litmus(session),
        slowest=content.slowest(session),
        figures=content.figures(session),
        first_facts=first_facts,
        other_facts=other_facts,
        hashes=content.hashes(session),
        options_table=content.options_table(session.options),
        words=words,
        Verdict=Verdict,
    )


def _own(name: str) -> Markup:
    """A file of the report's own, which goes into the page as it is."""
    from markupsafe import Markup

    return Markup(package_file("conformance_tests", "report", name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(package_file("conformance_tests", "report")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=words.clean,
    )
    environment.filters["duration"] = words.duration
    environment.filters["tone"] = words.TONES.__getitem__
    return environment
