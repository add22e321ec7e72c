"""What tables and records name exists."""

from __future__ import annotations

import re
import shutil
from typing import Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l0_record.planted import (
    EXPECTATIONS_FILE,
    plant_record,
    problems_of,
    read_table,
    table_in_force,
    write_table,
)
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_TABLES = ("capabilities", "clauses", "primitives", "host_api")
_NOWHERE = "planted.nowhere"


@case("record/references", level="L0", clauses=("record.reference.known",), per=Per.VENDOR)
def references(run: Run) -> Observations:
    """All that the contract's tables, the record and its expectations name is there; what is not is refused by name."""
    from tutti_hal.expectations import load_expectations
    from tutti_hal.paths import package_file
    from tutti_hal.record import load_record
    from tutti_hal.spec import load_spec

    table, wrong = table_in_force(run), table_in_force(run)
    arch = next(iter(wrong["archs"].values()))
    wrong["capabilities"][_NOWHERE] = True
    arch["capabilities"][_NOWHERE] = True
    wrong["primitives"][_NOWHERE] = {"body": "x"}
    wrong["primitives"]["fence"] = {"body": "x", "exceptions": {_NOWHERE: "y"}}
    wrong["host_api"].setdefault("names", {})["PlantedNowhere"] = "planted"
    wrong["host_api"].setdefault("absent", {})["PlantedNowhere"] = "planted"
    folder = plant_record(run, "wrong", wrong)
    expectations = run.profile.record.folder / EXPECTATIONS_FILE
    lists = read_table(expectations) if expectations.is_file() else None
    _write_lists(folder / EXPECTATIONS_FILE)
    return {
        "tables": {name: read_table(package_file("spec", f"{name}.yaml")) for name in _TABLES},
        "primitive_ids": sorted(load_spec().primitives),
        "record": table,
        "expectations": lists,
        "wrong_record": [p["key"] for p in problems_of(lambda: load_record(folder))],
        "wrong_expectations": [p["key"] for p in problems_of(lambda: load_expectations(folder))],
        "wrong_tables": {name: _wrong_table(run, name) for name in ("primitives", "host_api")},
    }


def _write_lists(file: Any) -> None:
    file.write_text(f"version: 1\nunsupported:\n  {_NOWHERE}: No.\nexpected_failures: {{}}\n", encoding="utf-8")


def _wrong_table(run: Run, name: str) -> list[str]:
    """The keys at which a contract is refused whose table names a clause and a capability that do not exist."""
    from tutti_hal.paths import package_file
    from tutti_hal.spec import load_spec

    folder = run.scratch / f"contract-{name}"
    folder.mkdir()
    for one in _TABLES:
        shutil.copy(package_file("spec", f"{one}.yaml"), folder)
    table = read_table(folder / f"{name}.yaml")
    group = table["families"] if name == "primitives" else table["functions"]
    first = next(iter(group.values()))
    first["clauses"] = [_NOWHERE]
    first["capability"] = _NOWHERE
    write_table(folder / f"{name}.yaml", table)
    return [p["key"] for p in problems_of(lambda: load_spec(folder))]


@references.judge
def _(seen: Seen) -> None:
    clause = "record.reference.known"
    tables, record = seen["tables"], seen["record"]
    known = {
        "capability": set(tables["capabilities"]["capabilities"]),
        "clause": set(tables["clauses"]["clauses"]),
        "family": set(tables["primitives"]["families"]),
        "primitive": set(seen["primitive_ids"]),
        "function": set(tables["host_api"]["functions"]),
    }
    for kind, names in known.items():
        seen.holds(clause, f"the contract has a {kind}", names)
    used: list[tuple[str, str, str]] = []
    for where, group in (
        ("primitives", tables["primitives"]["families"]),
        ("host_api", tables["host_api"]["functions"]),
    ):
        for name, entry in group.items():
            used += [("clause", one, f"{where}.{name}") for one in entry["clauses"]]
            used += [("capability", entry["capability"], f"{where}.{name}")] if entry.get("capability") else []
            by_axis = entry.get("capability_of", {}).values()
            used += [("capability", one, f"{where}.{name}") for table in by_axis for one in table.values()]
    used += [("capability", name, "capabilities") for name in record["capabilities"]]
    for arch, entry in record["archs"].items():
        used += [("capability", name, f"archs.{arch}") for name in entry["capabilities"]]
        used += [("family", name, f"archs.{arch}") for name in entry.get("primitives", {})]
    for name, entry in record["primitives"].items():
        used.append(("family", name, "primitives"))
        used += [("primitive", one, f"primitives.{name}") for one in entry.get("exceptions", {})]
    used += [("function", n, "host_api") for part in ("names", "absent") for n in record["host_api"].get(part, {})]
    for part in ("unsupported", "expected_failures"):
        for name in (seen["expectations"] or {}).get(part, {}):
            prefix = name.removesuffix("*") if name.endswith(".*") else None
            hit = any(one.startswith(prefix) for one in known["clause"]) if prefix else name in known["clause"]
            seen.holds(clause, f"the expectations name a clause that exists: {name}", hit)
    gone = [f"{place} names {kind} {name}" for kind, name, place in used if name not in known[kind]]
    seen.holds(clause, "every name that is used exists", not gone, gone, used)
    for key in (
        rf"capabilities\.{_NOWHERE}",
        rf"archs\..*\.capabilities\.{_NOWHERE}",
        rf"primitives\.{_NOWHERE}",
        rf"primitives\.fence\.exceptions\.{_NOWHERE}",
        r"host_api\.names\.PlantedNowhere",
        r"host_api\.absent\.PlantedNowhere",
    ):
        hits = [found for found in seen["wrong_record"] if re.fullmatch(key, found)]
        seen.holds(clause, f"a record that names what is not there is refused at {key}", hits, seen["wrong_record"])
    seen.holds(
        clause,
        "expectations of a clause that is not there are refused",
        any(_NOWHERE in key for key in seen["wrong_expectations"]),
        seen["wrong_expectations"],
    )
    for name, keys in seen["wrong_tables"].items():
        for part in ("clauses", "capability"):
            hits = [key for key in keys if f".{part}" in key]
            seen.holds(clause, f"{name}.yaml with a {part} that is not there is refused there", hits, keys)
