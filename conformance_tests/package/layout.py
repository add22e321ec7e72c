"""Names of a package's files, and the limits within which `verify` reads one that may be hostile."""

from __future__ import annotations

import re

#: Version of the layout; `verify` refuses another.
FORMAT = 2

RUN = "run.json"
OBSERVATIONS = "observations.jsonl"
VERDICTS = "verdicts.jsonl"
JUNIT = "junit.xml"
ENVIRONMENT = "environment.json"
MUST_PASS = "mustpass.json"
WAIVERS = "waivers.yaml"
PRODUCT = "product.json"
BUILD = "build.json"
REPORT = "report.html"
FIGURES = "figures.json"
MANIFEST = "manifest.sha256"

#: Folder with the vendor's record as it was used.
RECORD = "record"

#: Every file that lies at the top of a package.
FILES = (RUN, OBSERVATIONS, VERDICTS, JUNIT, ENVIRONMENT, MUST_PASS, WAIVERS, PRODUCT, BUILD, REPORT, FIGURES, MANIFEST)

#: Files that may be packed (``NAME.xz``): `certify` packs the first, the registry both.
PACKED = (OBSERVATIONS, VERDICTS)

#: What the registry leaves out, for no CI reads it there.
LEFT_OUT = (JUNIT,)

#: What a package may lack: figures are there only where some were given.
OPTIONAL = (*LEFT_OUT, FIGURES)

#: What a record's folder must hold.
RECORD_FILES = ("vendor.yaml", "conformance.yaml")

#: A file's name in a package: plain words, no way out of the folder.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")

#: More files than this, and it is no package of ours.
FILES_LIMIT = 1000

#: Bytes of one file, and of all together.
FILE_LIMIT_BYTES = 1 << 30
TOTAL_LIMIT_BYTES = 2 << 30

#: CPU seconds that one judge may take in `verify`: observations of strangers must not keep it busy for ever.
JUDGE_LIMIT_S = 60.0
