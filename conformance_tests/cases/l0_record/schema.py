"""What a broken record is told: every fault at once, each with file, line and key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l0_record.planted import RECORD_FILE, plant_record, problems_of, table_in_force
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_ARCH = "planted-arch"

#: Fault -> (what is done to the record; the lines, each the first that starts so after the one before, that lead to
#: its place; its key; a word of what must be said).
_FAULTS: dict[str, tuple[Callable[[dict[str, Any]], object], tuple[str, ...], str, str]] = {
    "unknown-key": (lambda t: t.update(titel="x"), ("titel:",), "titel", "title"),
    "wrong-word": (lambda t: t.update(kind="hardwear"), ("kind:",), "kind", "hardwear"),
    "wrong-type": (lambda t: t["detection"].update(rank="many"), ("detection:", "rank:"), "detection.rank", "number"),
    "missing-key": (lambda t: t["p2p"].pop("granule_bytes"), ("p2p:", ""), "p2p", "granule_bytes"),
    "unknown-grade": (lambda t: t["p2p"].update(evidence="rumour"), ("p2p:", "evidence:"), "p2p.evidence", "rumour"),
    "unknown-place": (
        lambda t: t["placement"].update(doorbell="moon"),
        ("placement:", "doorbell:"),
        "placement.doorbell",
        "moon",
    ),
    "sdk-range": (
        lambda t: t["quirks"].insert(
            0, {"id": "a.quirk", "text": "x", "sdk": "newer", "source": "nobody knows", "evidence": "unknown"}
        ),
        ("quirks:", "sdk:"),
        "quirks[0].sdk",
        "newer",
    ),
    "wave-width": (
        lambda t: t["archs"][_ARCH].update(wave_width=24),
        ("archs:", f"{_ARCH}:", "wave_width:"),
        f"archs.{_ARCH}.wave_width",
        "24",
    ),
    "default-arch": (lambda t: t.update(default_arch="nowhere"), ("default_arch:",), "default_arch", "nowhere"),
    "two-quirks": (
        lambda t: t["quirks"].extend(
            {"id": "twin", "text": "x", "sdk": "*", "source": "nobody knows", "evidence": "unknown"} for _ in range(2)
        ),
        ("quirks:",),
        "quirks",
        "twin",
    ),
    "version-pattern": (
        lambda t: t["toolchain"].update(version_pattern="[0-9]+"),
        ("toolchain:", "version_pattern:"),
        "toolchain.version_pattern",
        "group",
    ),
}


def _text(table: dict[str, Any]) -> dict[str, Any]:
    """The record with an arch of our own, so that its faults have a place of their own."""
    first = next(iter(table["archs"].values()))
    table["archs"][_ARCH] = dict(first)
    table["default_arch"] = _ARCH
    return table


@case(
    "record/schema",
    level="L0",
    clauses=("record.schema.valid",),
    per=Per.VENDOR,
    no_mutant="a record that breaks the schema is refused before any case runs; the loader itself is no mutation site",
)
def schema(run: Run) -> Observations:
    """The record in force loads; copies of it with one fault each, and with all of them, are refused place by place."""
    from tutti_hal.record import load_record

    def refused(name: str, faults: list[str]) -> dict[str, Any]:
        table = _text(table_in_force(run))
        for fault in faults:
            _FAULTS[fault][0](table)
        folder = plant_record(run, name, table)
        return {
            "lines": (folder / RECORD_FILE).read_text(encoding="utf-8").splitlines(),
            "problems": problems_of(lambda: load_record(folder)),
        }

    return {
        "in_force": problems_of(lambda: load_record(run.profile.record.folder)),
        "unspoilt": refused("unspoilt", []),
        "single": {fault: refused(f"one{number}", [fault]) for number, fault in enumerate(_FAULTS)},
        "all": refused("all", list(_FAULTS)),
    }


@schema.judge
def _(seen: Seen) -> None:
    clause = "record.schema.valid"
    seen.equal(clause, "problems of the record in force", seen["in_force"], [])
    seen.holds(clause, "the record in force loads", not seen["in_force"])
    seen.holds(clause, "the copy loads before it is spoilt", not seen["unspoilt"]["problems"], seen["unspoilt"])
    for fault, (_, path, key, said) in _FAULTS.items():
        for where, found in (("alone", seen["single"][fault]), ("among others", seen["all"])):
            line = _line(found["lines"], path)
            hits = [p for p in found["problems"] if p["line"] == line and p["key"] == key and said in p["text"]]
            seen.holds(
                clause, f"{fault} {where} is named at line {line}, key {key}", hits, [str(p) for p in found["problems"]]
            )
            seen.holds(clause, f"{fault} {where} is printed with its file", all(p["printed"] for p in hits), hits)
        alone = seen["single"][fault]["problems"]
        seen.holds(clause, f"{fault} alone is one problem", len(alone) == 1, [str(p) for p in alone])


def _line(lines: list[str], path: tuple[str, ...]) -> int:
    """The 1-based line that a path of line beginnings leads to."""
    at = -1
    for depth, start in enumerate(path):
        at = next(
            i
            for i, line in enumerate(lines[at + 1 :], at + 1)
            if (line if depth == 0 else line.lstrip(" -")).startswith(start)
        )
    return at + 1
