"""Whether a package can enter the registry: everything that is wrong with it, in words, before somebody has to ask."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tutti_hal.certificates import Certificate
from tutti_hal.conformance_tests.package import jsontext, layout
from tutti_hal.conformance_tests.package.findings import printable
from tutti_hal.conformance_tests.package.history import known
from tutti_hal.conformance_tests.package.verification import Verification, verify
from tutti_hal.conformance_tests.session import Session, certifies, provenance
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.product import sources_digest
from tutti_hal.profile import parse

#: A certificate is kept for ever, by everybody who clones. A quick run of HOST's three archs takes 4 MB; a whole one of
#: six should fit.
SIZE_LIMIT_BYTES = 16 << 20

#: What a folder is called where the run was not on a device of the vendor's.
WORDS = ("emulated", "simulated")

_NAME = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)-(\d{4}-\d{2}-\d{2})")


@dataclass(frozen=True)
class Submission:
    """What was found: what is wrong, and, where nothing is, the certificate that it would be."""

    problems: tuple[str, ...]
    certificate: Certificate | None
    verification: Verification


def check_submission(folder: Path, *, place: str = "", signers: Sequence[Path] = ()) -> Submission:
    """Look at a package that somebody wants in the registry. Blocks as long as :func:`verify` does.

    Args:
        folder: the package, named as the registry would name it: ``VENDOR/DEVICE-DATE``.
        place: that name where the folder lies elsewhere.
        signers: as of :func:`verify`.

    Raises:
        NotAPackage: it is none.
    """
    found = verify([folder], signers=signers) if signers else verify([folder])
    problems = [str(refusal) for refusal in found.refusals]
    resolved = folder.resolve()
    place = place or f"{resolved.parent.name}/{resolved.name}"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    if size > SIZE_LIMIT_BYTES:
        problems.append(f"size: {size} bytes, and a certificate may have {SIZE_LIMIT_BYTES}; leave {layout.JUNIT} out")
    session = found.session
    if session is None or found.refusals:
        return Submission(tuple(problems), None, found)
    table = jsontext.parse((folder / layout.PRODUCT).read_bytes())
    problems += _fresh(found, table)
    problems += _named(place, session)
    problems += _passed(session)
    if problems:
        return Submission(tuple(map(printable, problems)), None, found)
    certificate = Certificate(
        folder=place,
        vendor=parse(session.options.subject.profile).vendor,
        provenance=provenance(session),
        archs=session.options.archs,
        level=session.ladder.reached,
        date=session.started[:10],
        suite=str(table["version"]),
        commit=str(table["source"]["commit"]),
        sources=sources_digest(table["files"]),
        manifest=sha256((folder / layout.MANIFEST).read_bytes()).hexdigest(),
        nbytes=size,
    )
    return Submission((), certificate, found)


def _fresh(found: Verification, product: Mapping[str, Any]) -> list[str]:
    problems = []
    if found.stale is not None:
        problems.append(f"not fresh: {found.stale.how_far}; run it again with the product of today")
    source = product["source"]
    if source is None:
        problems.append("product: a wheel, whose commit is not known; certify from a checkout")
    elif source["changed"]:
        problems.append(
            f"product: commit {source['commit'][:12]} with changes of its own; certify from a clean checkout"
        )
    elif found.stale is None and not (which := known(product)).sure:
        problems.append(f"product: {which.said}")
    return problems


def _named(place: str, session: Session) -> list[str]:
    vendor, word = parse(session.options.subject.profile).vendor, provenance(session)
    above, _, name = place.rpartition("/")
    match = _NAME.fullmatch(name)
    problems = []
    if above != vendor:
        problems.append(f"folder: it lies in '{above}', and the vendor is {vendor}")
    if match is None:
        return [*problems, f"folder: '{name}' is not DEVICE-YYYY-MM-DD, such as {word}-{session.started[:10]}"]
    device, date = match.groups()
    if date != session.started[:10]:
        problems.append(f"folder: it says {date}, and the run began on {session.started[:10]}")
    if word in WORDS and device != word:
        problems.append(f"folder: it says '{device}', and the run was {word}, on no device: call it {word}-{date}")
    if word == "hardware" and any(one in device.split("-") for one in WORDS):
        problems.append(f"folder: it says '{device}', and the run was on hardware: name the device")
    return problems


def _passed(session: Session) -> list[str]:
    said = certifies(session)
    problems = []
    if said.endswith("certifies no level"):
        problems.append(f"run: {said}")
    elif not session.ladder.reached:
        first = session.ladder.first_red
        problems.append(f"level: none is passed{f'; the first red rung is {first.name}' if first else ''}")
    waived = [one.id for one in session.judgements.values() if one.verdict is Verdict.WAIVED]
    if waived:
        more = f" and {len(waived) - 1} more" if waived[1:] else ""
        problems.append(f"waivers: {waived[0]}{more}; somebody answers for these, and a certificate has none")
    if session.options.subject.cases:
        problems.append("run: cases beside the suite's own, which nobody else has")
    return problems
