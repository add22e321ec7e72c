"""Kernel log lines that mean something went wrong, and the judgement of a case's log.

A case may expect some of them: each pattern that it names excuses the lines that match it, and must match at least one,
so that an expectation cannot outlive what it was written for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Kind of trouble and how it begins, in the kernel's own words.
TROUBLE: tuple[tuple[str, str], ...] = (
    ("bug", r"\bBUG: |kernel BUG at|\bBUG \S+ \("),
    ("warning", r"\bWARNING: |------------\[ cut here \]"),
    ("oops", r"\bOops: |general protection fault|unable to handle (?:page fault|kernel)|Kernel panic|double fault"),
    ("iommu", r"DMAR: .*(?:fault|DMA (?:Read|Write))|AMD-Vi: .*(?:IO_PAGE_FAULT|fault)|arm-smmu.*fault"),
    ("sanitizer", r"\bKASAN: |\bKCSAN: |\bKFENCE: |UBSAN: |kmemleak: .*new suspected"),
    (
        "lockdep",
        r"possible (?:circular|recursive) locking|inconsistent lock state|suspicious RCU usage|held lock freed",
    ),
    ("stall", r"rcu: INFO: .*stall|blocked for more than|soft lockup|hard LOCKUP"),
    ("refcount", r"refcount_t: "),
    ("dma-debug", r"DMA-API: "),
    ("leak", r"Objects remaining in|tutti_p2p: .*leak"),
    ("symbol", r"failing symbol_get of non-GPLONLY symbol|Unknown symbol"),
    ("drive", r"nvme nvme\d+: (?:I/O .*timeout|controller is down|Abort status|Device not ready|Removing after probe)"),
    ("fs", r"EXT4-fs error|Buffer I/O error|I/O error, dev nvme|Aborting journal"),
)

# What marks Debian's unsigned or unpacked modules; harmless, and printed at every load.
HARMLESS = re.compile(r"module verification failed|loading out-of-tree module taints kernel|disagrees about version")

_FINDS = tuple((kind, re.compile(pattern)) for kind, pattern in TROUBLE)


@dataclass(frozen=True)
class Trouble:
    """A line of the kernel log, and which kind of trouble it tells of."""

    kind: str
    line: str


def trouble_in(lines: Iterable[str]) -> list[Trouble]:
    """The lines that tell of trouble, each once, by the first kind that fits."""
    found = []
    for line in lines:
        if HARMLESS.search(line):
            continue
        kind = next((kind for kind, find in _FINDS if find.search(line)), None)
        if kind is not None:
            found.append(Trouble(kind, line.strip()))
    return found


def judge(lines: Sequence[str], expects: Sequence[str]) -> list[str]:
    """Faults of a case's log, empty when it is as expected.

    ``expects`` are regular expressions: trouble that one of them matches is excused, and each must match a line.
    """
    patterns = [re.compile(pattern) for pattern in expects]
    faults = [
        f"kernel log ({trouble.kind}): {trouble.line}"
        for trouble in trouble_in(lines)
        if not any(pattern.search(trouble.line) for pattern in patterns)
    ]
    for pattern in patterns:
        if not any(pattern.search(line) for line in lines):
            faults.append(f"kernel log lacks what was expected: {pattern.pattern}")
    return faults


def record(raw: str) -> str | None:
    """The text of one /dev/kmsg record ("6,339,5140900,-;text"); None for a record of user space or a continuation."""
    head, semicolon, text = raw.partition(";")
    fields = head.split(",")
    if not semicolon or not fields[0].isdigit() or int(fields[0]) >> 3:
        return None
    return text.split("\n", 1)[0]
