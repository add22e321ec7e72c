"""Is a package true? Every verdict is worked out again from what was observed; nothing of it is believed.

Neither a device nor the native library is touched, and no code of the package is run: cases come from the installed
product, whose files must be those that were certified.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.errors import NotAPackage
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.evidence import Evidence, counts
from tutti_hal.conformance_tests.package.findings import Findings, Refusal
from tutti_hal.conformance_tests.package.folder import is_package, read_folder
from tutti_hal.conformance_tests.package.manifest import check_manifest
from tutti_hal.conformance_tests.package.parsed import parse_files
from tutti_hal.conformance_tests.package.rejudged import rejudge
from tutti_hal.conformance_tests.package.shards import join
from tutti_hal.conformance_tests.session import Session, certifies, provenance


@dataclass(frozen=True)
class Verification:
    """What came of verifying one or several packages.

    Attributes:
        packages: the folders.
        refusals: everything that is not as it must be; empty: they are verified.
        remarks: what a reader should know and what refuses nothing.
        session: the run as it was judged again, of all shards; None where it could not be.
    """

    packages: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    remarks: tuple[str, ...]
    session: Session | None

    @property
    def certifies(self) -> str:
        """What the packages certify, in a sentence."""
        if self.refusals or self.session is None:
            return "refused: it certifies nothing"
        return certifies(self.session)

    def to_json(self) -> dict[str, Any]:
        """As ``verify --json`` prints it."""
        session = self.session if not self.refusals else None
        return {
            "schema": 1,
            "verified": not self.refusals,
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
) -> Verification:
    """Verify a package, or the shards of one run. Blocks for seconds, most of them in judges.

    Args:
        folders: the packages.
        cases: files and folders of extra cases, where the run had some: they are code, so the reader names them.
        today: the day on which waivers must still hold; today (UTC) when None.
        provenances: what the run may have been on (``hardware``, ``emulated``, ``simulated``); empty: any of them.

    Raises:
        NotAPackage: a folder is not there, or does not look like a package at all.
        CasesInvalid: the extra cases do not load.
    """
    day = today or datetime.datetime.now(datetime.UTC).date()
    for folder in folders:
        if not folder.is_dir() or not is_package(folder):
            found = "there is no run.json or manifest.sha256 in it" if folder.is_dir() else "there is no such folder"
            raise NotAPackage(f"verify {folder}", found, "Name a folder that certify --out wrote.")
    findings = [Findings(f"{folder}/" if len(folders) > 1 else "") for folder in folders]
    read = [_one(folder, own, tuple(cases), day) for folder, own in zip(folders, findings, strict=True)]
    together = Findings()
    session = join(read, findings, together)
    if session is not None and provenances and provenance(session) not in provenances:
        together.refuse(layout.RUN, 0, f"a run that was {provenance(session)}", f"one that was {_either(provenances)}")
    everything = [*findings, together]
    return Verification(
        packages=tuple(map(str, folders)),
        refusals=tuple(refusal for own in everything for refusal in own.refusals),
        remarks=tuple(dict.fromkeys(remark for own in everything for remark in own.remarks)),
        session=session,
    )


def _either(words: Sequence[str]) -> str:
    return " or ".join(words)


def _one(folder: Path, findings: Findings, cases: tuple[str, ...], today: datetime.date) -> Evidence | None:
    files = read_folder(folder, findings)
    if layout.MANIFEST in files:
        check_manifest(files, findings)
    parsed = parse_files(files, findings)
    return rejudge(parsed, findings, cases, today) if parsed is not None else None
