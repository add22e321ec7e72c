"""Is a package true? Every verdict is worked out again from what was observed; nothing of it is believed.

Neither a device nor the native library is touched, and no code of the package is run: cases come from the installed
product, whose files must be those that were certified.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.errors import NotAPackage, SignatureInvalid
from tutti_hal.conformance_tests.package import layout, product
from tutti_hal.conformance_tests.package.evidence import Evidence, counts
from tutti_hal.conformance_tests.package.findings import Findings, Refusal
from tutti_hal.conformance_tests.package.folder import is_package, read_folder
from tutti_hal.conformance_tests.package.history import known, same_native
from tutti_hal.conformance_tests.package.manifest import check_manifest
from tutti_hal.conformance_tests.package.outdated import AgainLater
from tutti_hal.conformance_tests.package.packing import unpacked
from tutti_hal.conformance_tests.package.parsed import Parsed, parse_files
from tutti_hal.conformance_tests.package.rejudged import rejudge
from tutti_hal.conformance_tests.package.shards import join
from tutti_hal.conformance_tests.package.signature import check_signature
from tutti_hal.conformance_tests.package.staleness import Stale, describe, moved
from tutti_hal.conformance_tests.session import Session, certifies, provenance
from tutti_hal.product import BUILT
from tutti_hal.profile import parse


@dataclass(frozen=True)
class Verification:
    """What came of verifying one or several packages.

    Attributes:
        packages: the folders.
        refusals: everything that is not as it must be; empty: they are verified.
        remarks: what a reader should know and what refuses nothing.
        session: the run as it was judged again, of all shards; None where it could not be.
        stale: what has changed since the packages were made; None where nothing has.
    """

    packages: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    remarks: tuple[str, ...]
    session: Session | None
    stale: Stale | None = None

    @property
    def word(self) -> str:
        """``verified``; ``verified, stale``, perhaps ``of a product that is not known here``; or ``refused``."""
        if self.refusals or self.session is None:
            return "refused"
        if self.stale is None:
            return "verified"
        return f"verified, stale{'' if self.stale.known.sure else ', of a product that is not known here'}"

    @property
    def how_stale(self) -> tuple[str, ...]:
        """What a reader must know of what has changed since, a line each; empty where nothing has."""
        if self.stale is None:
            return ()
        return tuple(describe(self.stale, len(self.session.instances) if self.session else 0))

    @property
    def certifies(self) -> str:
        """What the packages certify, in a sentence."""
        if self.refusals or self.session is None:
            return "refused: it certifies nothing"
        said = certifies(self.session)
        return f"{said}; stale" if self.stale else said

    def to_json(self) -> dict[str, Any]:
        """As ``verify --json`` prints it."""
        session = self.session if not self.refusals else None
        return {
            "schema": 2,
            "verified": not self.refusals,
            "word": self.word,
            "stale": self.stale.to_json() if self.stale else None,
            "packages": list(self.packages),
            "refusals": [refusal.to_json() for refusal in self.refusals],
            "remarks": list(self.remarks),
            "certifies": self.certifies,
            "reached": session.ladder.reached if session else "",
            "counts": counts(session) if session else {},
        }


def verify(
    folders: Sequence[Path],
    *,
    cases: Sequence[str] = (),
    today: datetime.date | None = None,
    provenances: Sequence[str] = (),
    fresh: bool = False,
    signers: Sequence[Path] = (),
) -> Verification:
    """Verify a package, or the shards of one run. Blocks for seconds, most of them in judges.

    A package of an older product is judged by the one of today, as far as that can be: see :mod:`.staleness`.

    Args:
        folders: the packages.
        cases: files and folders of extra cases, where the run had some: they are code, so the reader names them.
        today: the day on which waivers must still hold; today (UTC) when None.
        provenances: what the run may have been on (``hardware``, ``emulated``, ``simulated``); empty: any of them.
        fresh: refuse a package of a product that is not the installed one.
        signers: files of public keys; refuse a package whose manifest none of them has signed. Empty: do not ask.

    Raises:
        NotAPackage: a folder is not there, or does not look like a package at all.
        KeyUnfit, SigningUnavailable: signatures cannot be checked.
        CasesInvalid: the extra cases do not load.
    """
    day = today or datetime.datetime.now(datetime.UTC).date()
    for folder in folders:
        if not folder.is_dir() or not is_package(folder):
            found = "there is no run.json or manifest.sha256 in it" if folder.is_dir() else "there is no such folder"
            raise NotAPackage(f"verify {folder}", found, "Name a folder that certify --out wrote.")
    findings = [Findings(f"{folder}/" if len(folders) > 1 else "") for folder in folders]
    read = [_one(folder, own, tuple(cases), day, signers) for folder, own in zip(folders, findings, strict=True)]
    together = Findings()
    session = join(read, findings, together)
    if session is not None and provenances and provenance(session) not in provenances:
        together.refuse(layout.RUN, 0, f"a run that was {provenance(session)}", f"one that was {_either(provenances)}")
    stale = next((one.stale for one in read if one is not None and one.stale is not None), None)
    if stale is not None and session is not None:
        not_judged = {name: why for one in read if one and one.stale for name, why in one.stale.not_judged.items()}
        gone = tuple(dict.fromkeys(name for one in read if one and one.stale for name in one.stale.gone))
        stale = replace(stale, not_judged=not_judged, gone=gone)
    if stale is not None and fresh:
        together.refuse(layout.PRODUCT, 0, stale.how_far, "a package of the installed product")
    everything = [*findings, together]
    return Verification(
        packages=tuple(map(str, folders)),
        refusals=tuple(refusal for own in everything for refusal in own.refusals),
        remarks=tuple(dict.fromkeys(remark for own in everything for remark in own.remarks)),
        session=session,
        stale=stale,
    )


def _either(words: Sequence[str]) -> str:
    return " or ".join(words)


def _one(
    folder: Path, findings: Findings, cases: tuple[str, ...], today: datetime.date, signers: Sequence[Path]
) -> Evidence | None:
    files = read_folder(folder, findings)
    if layout.MANIFEST in files:
        check_manifest(files, findings)
        if signers:
            _signed(folder, files[layout.MANIFEST], signers, findings)
    parsed = parse_files(unpacked(files, findings), findings)
    return _judged(parsed, findings, cases, today) if parsed is not None else None


def _signed(folder: Path, manifest: bytes, signers: Sequence[Path], findings: Findings) -> None:
    try:
        found = check_signature(folder, manifest, signers)
        findings.remark(f"{layout.MANIFEST} is signed by {found.fingerprint}")
    except SignatureInvalid as error:
        findings.refuse(layout.MANIFEST, 0, f"{error.id}: {error.found}", error.fix)


def _judged(parsed: Parsed, findings: Findings, cases: tuple[str, ...], today: datetime.date) -> Evidence | None:
    """By the installed product, which is the package's own or another."""
    theirs: dict[str, Any] = parsed.documents[layout.PRODUCT]
    vendor = parse(parsed.documents[layout.RUN]["options"]["subject"]["profile"]).vendor
    files = moved(theirs["files"], product.file_sums(product.product_files(vendor)))
    if not files:
        return rejudge(parsed, findings, cases, today)
    which = known(theirs)
    built = all(one.how == "changed" and one.name.startswith(BUILT) for one in files)
    if built and which.sure and same_native(which.commit):
        findings.remark("the native library is another build of the same sources")
        return rejudge(parsed, findings, cases, today)
    return AgainLater(parsed, findings, today, files, which).judged(cases)
