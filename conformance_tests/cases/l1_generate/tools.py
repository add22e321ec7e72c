"""The compiler and the record that describes it: found or said to be missing, detected, and true to the headers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l0_record.planted import plant_record, table_in_force
from tutti_hal.conformance_tests.cases.l1_generate.workshop import Workshop, complaints, template_root
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.verdict import SkipReason

if TYPE_CHECKING:
    from tutti_hal.record import Numbers, Record

_PLAIN = '{% call kernel("planted", [("word", "tt_word32 *")]) %}\ntt_store_relaxed_sys_u32(word, 1u);\n{% endcall %}\n'

_VARIABLE = "TUTTI_CASE_COMPILER"
_DRIVERS = ("tutti-no-such-compiler", "tutti-nor-this-one")


@case("compile/missing_compiler", level="L1", clauses=("compile.missing_compiler.said",), per=Per.VENDOR)
def missing_compiler(run: Run) -> Observations:
    """With no compiler there, a build is refused with the names and the places that were looked at."""
    import os

    from tutti_hal.conformance_tests.observation import refusal
    from tutti_hal.toolchain import build

    root = template_root(run, "templates", {"planted.cu.j2": _PLAIN})
    record = run.profile.record
    # Nor is there one that compiles at run time, which a machine may have beside the SDK.
    chain = replace(record.toolchain, drivers=_DRIVERS, driver_env=(_VARIABLE,), subdirs=("bin", "tools"), rtc=None)
    without = replace(record, toolchain=chain, sdk=replace(record.sdk, env=(), default=(str(run.scratch),)))
    profile = replace(run.profile, record=without)
    run.closing.callback(os.environ.pop, _VARIABLE, None)

    def ask(named: str = "") -> dict[str, Any]:
        os.environ[_VARIABLE] = named
        return refusal(lambda: build(profile, "planted", templates=root))

    return {"root": str(run.scratch), "nothing": ask(), "named": ask("/nowhere/tutti-c++"), "torn": ask("c++ 'torn")}


@missing_compiler.judge
def _(seen: Seen) -> None:
    clause = "compile.missing_compiler.said"
    wanted = [f"{driver} on PATH" for driver in _DRIVERS]
    wanted += [f"{seen['root']}/{sub}/{driver}" for driver in _DRIVERS for sub in ("bin", "tools")]
    words = {"nothing": [f"${_VARIABLE}", *wanted], "named": [_VARIABLE, "/nowhere/tutti-c++"], "torn": [_VARIABLE]}
    for what, names in words.items():
        answer = seen[what]
        seen.refused(clause, f"{what}: a build without a compiler", answer, "CompilerMissing")
        seen.equal(clause, f"{what}: its id", answer.get("id"), "TT-COMPILER-MISSING")
        for name in names:
            seen.holds(clause, f"{what}: {name} is among what was looked for", name in answer.get("found", ""), answer)


@case("record/detection", level="L1", clauses=("record.detection.first_match",), per=Per.VENDOR, budget_s=60.0)
def detection(run: Run) -> Observations:
    """All installed records, tried in their order by the vendor's own compiler: which of them it answers to."""
    from tutti_hal.backend import discover

    shop = Workshop(run)
    # A simulated SDK has its vendor's record.
    records = {one.backend.record.vendor: one.backend.record for one in discover() if one.backend is not None}
    records[run.profile.record.vendor] = run.profile.record
    order = sorted(records.values(), key=lambda record: record.detection.rank)
    lines, word = [], "#if"
    for number, record in enumerate(order):
        condition = " || ".join(f"defined({name})" for name in record.detection.macros) or "1"
        lines += [f"{word} {condition}", f"#define TT_CASE_DETECTED {number}"]
        word = "#elif"
    lines += ["#else", "#define TT_CASE_DETECTED -1", "#endif"]
    # One assertion a record: the compiler refuses all but one.
    asked = {
        record.vendor: shop.unit(
            f"is-{record.vendor}",
            "\n".join([shop.base.source, *lines, f'static_assert(TT_CASE_DETECTED == {number}, "another");', ""]),
            shop.base.headers,
        )["compiled"]
        for number, record in enumerate(order)
    }
    ranks = [{"vendor": one.vendor, "rank": one.detection.rank, "macros": list(one.detection.macros)} for one in order]
    return {"order": ranks, "detected": asked, "own": run.profile.record.vendor}


@detection.judge
def _(seen: Seen) -> None:
    clause = "record.detection.first_match"
    order = seen["order"]
    wanted = {one["vendor"]: one["vendor"] == seen["own"] for one in order}
    seen.equal(clause, "records that the compiler answers to", seen["detected"], wanted)
    ranks = [one["rank"] for one in order]
    seen.holds(clause, "no two records have one rank", len(set(ranks)) == len(ranks), order, order)
    bare = [one["vendor"] for one in order if not one["macros"]]
    last = not bare or bare == [order[-1]["vendor"]]
    seen.holds(clause, "a record that every compiler answers to comes last", last, order, order)


def _groups(record: Record) -> dict[str, Numbers]:
    """The tables whose numbers the record states; of one bound by name the header's own are taken."""
    groups = {"errors": record.errors, "attributes": record.attributes, **record.constants}
    return {name: numbers for name, numbers in groups.items() if numbers.values and not numbers.by_name}


def _named(numbers: Numbers) -> str:
    """The headers that a table's source names, for readers of the evidence."""
    return " ".join(re.findall(r"[\w./-]+\.h\b", numbers.evidence.source if numbers.evidence else ""))


def _include(name: str, folders: list[Path]) -> str:
    """The directive for a header below one of the folders; empty where none has it."""
    found = next((folder / name for folder in folders if (folder / name).is_file()), None)
    return f'#include "{found}"' if found else ""


#: How compilers say that they do not know a name.
_UNDECLARED = re.compile(r"undeclared|undefined|not declared|was not declared")

#: Compilations until every name that a header lacks is found: a compiler stops after so many errors.
_ROUNDS = 8


@case("record/numbers", level="L1", clauses=("record.number.matches_header",), per=Per.VENDOR, budget_s=120.0)
def numbers(run: Run) -> Observations:
    """The compiler compares every number of the record with the headers that the record names for its host API."""
    from tutti_hal.sdk import roots

    shop = Workshop(run)
    record = run.profile.record
    folders = [root / folder for root, _ in roots(record) for folder in record.sdk.include]
    folders += shop.chain.include_folders()
    here = {name: _include(name, folders) for name in record.host_api.headers}
    if not all(here.values()):
        absent = ", ".join(name for name, line in here.items() if not line)
        run.skip(SkipReason.TOOL, f"{absent}: not below {', '.join(map(str, folders))}")
    words = [define.partition("=") for define in record.host_api.defines]
    top = [line for name, _, value in words for line in (f"#ifndef {name}", f"#define {name} {value or 1}", "#endif")]
    top += [*here.values(), *shop.base.source.splitlines()]
    claims = [
        (group, name, f"(long long)({table.spelling(name)}) == {value}LL")
        for group, table in _groups(record).items()
        for name, value in table.values.items()
    ]

    def compare(name: str, asserted: list[str]) -> dict[str, Any]:
        found = shop.unit(name, "\n".join([*top, *asserted, ""]), shop.base.headers)
        return {**found, "first": len(top) + 1, "lines": asserted}

    # Vendors add attributes from version to version: one that these headers do not know is set aside, and said.
    unknown: list[str] = []
    for attempt in range(_ROUNDS):
        lines = [f'static_assert({text}, "{group}.{name}");' for group, name, text in claims]
        right = compare(f"right-{attempt}", lines)
        strange = {
            index
            for index, (group, _, _) in enumerate(claims)
            if group == "attributes" and any(_UNDECLARED.search(said) for said in complaints(right, index))
        }
        if not strange:
            break
        unknown += [f"{claims[index][0]}.{claims[index][1]}" for index in sorted(strange)]
        claims = [one for index, one in enumerate(claims) if index not in strange]
    wrong = [line.replace(" == ", " - 1 == ", 1) for line in lines[:: max(len(lines) // 8, 1)]]
    return {
        "headers": list(here),
        "groups": {group: _named(table) for group, table in _groups(record).items()},
        "graded": {g: t.evidence.grade if t.evidence else "" for g, t in _groups(record).items()},
        "claims": [f"{group}.{name}" for group, name, _ in claims],
        "unknown": unknown,
        "right": right,
        "wrong": compare("wrong", wrong),
    }


@numbers.judge
def _(seen: Seen) -> None:
    clause = "record.number.matches_header"
    for group, grade in seen["graded"].items():
        named = seen["groups"][group]
        seen.holds(clause, f"{group}, read from a header, names it", bool(named) or grade != "header", named)
    # One bound by its numbers' meaning alone would leave nothing to compare.
    seen.holds(clause, "the record names the headers of its host API", bool(seen["headers"]), seen["headers"])
    known = len(seen["claims"])
    seen.holds(clause, "the headers know most of the names", known > len(seen["unknown"]), seen["unknown"])
    right, wrong = seen["right"], seen["wrong"]
    for index, name in enumerate(seen["claims"]):
        said = complaints(right, index)
        seen.holds(clause, f"{name} is the header's", not said, said)
    seen.holds(clause, "all of them compile", right["compiled"], right["log"])
    # The comparison is not blind: a number that is one off is refused.
    for index, line in enumerate(wrong["lines"]):
        seen.holds(clause, f"one off is refused: {line}", complaints(wrong, index), wrong["log"])


_VERSIONS = ("3", "4.1", "4.2", "4.2.0", "4.2.1", "4.3.3", "4.10", "5", "5.0.0", "5.1", "12.9", "13.0", "13.0.1")
_RANGES = ("*", "<4.2", "<=4.2", "==4.2", ">=4.2", ">4.2", ">=4.2,<5", ">4.2,<=5.0", "==13", "<4.10")


@case("record/quirks", level="L1", clauses=("record.quirk.applies",), per=Per.VENDOR)
def quirks(run: Run) -> Observations:
    """For every quirk of the record, and for planted ones of each form: the versions at which it takes effect."""
    from tutti_hal.record import load_record

    table = table_in_force(run)
    table["quirks"] = [
        {"id": f"planted.r{number}", "text": "Planted.", "sdk": one, "source": "the case", "evidence": "unknown"}
        for number, one in enumerate(_RANGES)
    ]
    planted = load_record(plant_record(run, "planted", table))

    def effect(record: Record) -> list[dict[str, Any]]:
        at = {version: {quirk.id for quirk in record.quirks_for(version)} for version in _VERSIONS}
        unknown = {quirk.id for quirk in record.quirks_for(None)}
        return [
            {
                "id": quirk.id,
                "sdk": quirk.sdk,
                "versions": [version for version in _VERSIONS if quirk.id in at[version]],
                "unknown": quirk.id in unknown,
            }
            for quirk in record.quirks
        ]

    return {"own": effect(run.profile.record), "planted": effect(planted), "written": table_in_force(run)["quirks"]}


@quirks.judge
def _(seen: Seen) -> None:
    clause = "record.quirk.applies"
    own = [(one["id"], one["sdk"]) for one in seen["own"]]
    seen.equal(clause, "quirks in force", own, [(one["id"], one["sdk"]) for one in seen["written"]])
    seen.equal(clause, "planted ranges", [one["sdk"] for one in seen["planted"]], list(_RANGES))
    for one in [*seen["own"], *seen["planted"]]:
        wanted = [version for version in _VERSIONS if _within(version, one["sdk"])]
        seen.equal(clause, f"{one['id']} ({one['sdk']}): versions", one["versions"], wanted)
        seen.equal(clause, f"{one['id']}: where the version is not known", one["unknown"], True)


def _within(version: str, sdk: str) -> bool:
    """Whether a version is in a range: comparisons joined by commas, number by number, a missing one being 0."""
    if sdk == "*":
        return True
    return all(_compare(version, term) for term in sdk.split(","))


def _compare(version: str, term: str) -> bool:
    match = re.fullmatch(r"([<>=]+)([\d.]+)", term)
    if match is None:
        raise ValueError(f"{term} is no comparison")
    a, b = ([int(part) for part in text.split(".")] for text in (version, match[2]))
    length = max(len(a), len(b))
    a, b = a + [0] * (length - len(a)), b + [0] * (length - len(b))
    return {"<": a < b, "<=": a <= b, "==": a == b, ">=": a >= b, ">": a > b}[match[1]]
