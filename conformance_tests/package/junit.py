"""The verdicts as JUnit XML, which every CI reads."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.outcome import Outcome
from tutti_hal.conformance_tests.session import Session, repro_line
from tutti_hal.conformance_tests.verdict import Verdict

#: The element that stands for a verdict; JUnit knows no others. The verdict itself is its ``type``. What is open is an
#: ``error``: no check failed, and yet there is no result, so a CI must not show it as green, nor as a regression.
ELEMENTS = {
    Verdict.FAIL: "failure",
    Verdict.XPASS: "failure",
    Verdict.ERROR: "error",
    Verdict.TIMEOUT: "error",
    Verdict.DEVICE_LOST: "error",
    Verdict.INCONCLUSIVE: "error",
    Verdict.NOT_TESTED: "error",
    Verdict.XFAIL: "skipped",
    Verdict.SKIP: "skipped",
    Verdict.WAIVED: "skipped",
}

#: What XML 1.0 cannot hold.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_LOG_LIMIT_LINES = 200


def junit(session: Session, product: Mapping[str, Any]) -> bytes:
    """A suite for each level, a test case for each instance; waived and expected failures keep their own ``type``.

    Args:
        session: the run.
        product: as ``product.json`` holds it; each suite names it, and what was asked for.
    """
    source = product["source"]
    commit = f"{source['commit']}{' and changes' if source['changed'] else ''}" if source else "no checkout"
    about = {
        "product": f"{product['package']} {product['version']}, SHA-256 {product['sha256']}",
        "source": commit,
        "options": json.dumps(session.options.to_json()),
    }
    root = ET.Element("testsuites")
    levels = [level.name for level in session.ladder.levels]
    for level in levels:
        own = [instance for instance in session.instances if instance.case.level == level]
        if own:
            _suite(root, level, own, session, about)
    _count(root, [session.judgements[instance.id] for instance in session.instances])
    root.set("name", _text(f"tutti-hal certify {session.options.subject.profile}"))
    root.set("time", f"{session.seconds:.3f}")
    ET.indent(root, " ")
    body: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return body + b"\n"


def _suite(
    root: ET.Element, level: str, instances: Sequence[Instance], session: Session, about: Mapping[str, str]
) -> None:
    suite = ET.SubElement(root, "testsuite", name=level, timestamp=_text(session.started))
    _count(suite, [session.judgements[instance.id] for instance in instances])
    outcomes = [session.outcomes.get(instance.id) for instance in instances]
    suite.set("time", f"{sum(outcome.seconds for outcome in outcomes if outcome):.3f}")
    _properties(suite, about)
    for instance, outcome in zip(instances, outcomes, strict=True):
        _case(suite, instance, outcome, session)


def _case(suite: ET.Element, instance: Instance, outcome: Outcome | None, session: Session) -> None:
    judgement = session.judgements[instance.id]
    group = ".".join(instance.case.name.split("/")[:-1])
    seconds = outcome.seconds if outcome else 0.0
    case = ET.SubElement(
        suite, "testcase", name=instance.id, classname=f"{instance.case.level}.{group}", time=f"{seconds:.3f}"
    )
    properties = {
        "verdict": judgement.verdict.value,
        "clauses": " ".join(instance.clauses),
        "examined": str(judgement.examined),
        "repro": repro_line(session.options, instance),
    }
    if judgement.code:
        properties["code"] = judgement.code
    if judgement.waived:
        properties |= {"waived": judgement.waived.value, "waiver": judgement.waiver}
    _properties(case, properties)
    tag = ELEMENTS.get(judgement.verdict)
    if tag is not None:
        element = ET.SubElement(case, tag, type=judgement.verdict.value, message=_text(judgement.reason))
        failed = [check for check in judgement.checks if not check.held]
        element.text = "".join(
            _text(f"{check.clause}: {check.what}: found {check.found}, wanted {check.wanted}\n") for check in failed
        )
    if outcome and outcome.log:
        ET.SubElement(case, "system-err").text = "".join(f"{_text(row)}\n" for row in outcome.log[:_LOG_LIMIT_LINES])


def _count(element: ET.Element, judgements: Sequence[Judgement]) -> None:
    tags = [ELEMENTS.get(judgement.verdict) for judgement in judgements]
    element.set("tests", str(len(judgements)))
    element.set("failures", str(tags.count("failure")))
    element.set("errors", str(tags.count("error")))
    element.set("skipped", str(tags.count("skipped")))


def _properties(element: ET.Element, values: Mapping[str, str]) -> None:
    properties = ET.SubElement(element, "properties")
    for name, value in values.items():
        ET.SubElement(properties, "property", name=name, value=_text(value))


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
