"""What a record says of a vendor: with a source, for every capability, and without contradiction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l0_record.planted import plant_record, problems_of, read_table, table_in_force
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: How far a fact can be trusted, as the contract words it.
_GRADES = ("hardware", "header", "binary", "vendor-source", "vendor-doc", "third-party", "inferred", "unknown")

#: Shorter than this, a source names nothing that somebody could look up.
_LEAST_SOURCE = 8


def facts(table: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of a record that states facts which are not obvious: its key and its table."""
    yield from ((f"archs.{name}", arch) for name, arch in table["archs"].items())
    yield from ((name, table[name]) for name in ("host_api", "placement", "p2p"))
    numbers = [("errors", table["errors"]), ("attributes", table["attributes"])]
    numbers += [(f"constants.{name}", value) for name, value in table.get("constants", {}).items()]
    yield from ((name, value) for name, value in numbers if value.get("values"))
    yield from ((f"quirks[{index}]", quirk) for index, quirk in enumerate(table["quirks"]))
    if table["detection"]["macros"]:
        yield "detection", table["detection"]
    if table["sdk"]["env"] or table["sdk"]["default"]:
        yield "sdk", table["sdk"]


@case("record/sources", level="L0", clauses=("record.fact.has_source",), per=Per.VENDOR)
def sources(run: Run) -> Observations:
    """Every fact of the record names a source and a grade; a copy without them is refused at each place."""
    from tutti_hal.record import load_record

    table = table_in_force(run)
    bare = table_in_force(run)
    for _, fact in facts(bare):
        fact.pop("source", None)
        fact.pop("evidence", None)
    folder = plant_record(run, "bare", bare)
    return {"record": table, "bare": problems_of(lambda: load_record(folder))}


@sources.judge
def _(seen: Seen) -> None:
    clause = "record.fact.has_source"
    places = dict(facts(seen["record"]))
    for place, fact in places.items():
        source, grade = str(fact.get("source", "")), fact.get("evidence")
        seen.holds(clause, f"{place} names a source", len(source.strip()) >= _LEAST_SOURCE, source)
        seen.holds(clause, f"{place} is graded by one of {', '.join(_GRADES)}", grade in _GRADES, grade)
    named = {problem["key"] for problem in seen["bare"]}
    # Detection and SDK roots may be obvious (there are none); all else must be refused when it is bare.
    for place in places:
        if place not in ("detection", "sdk"):
            seen.holds(clause, f"{place} without a source is refused", place in named, sorted(named))


@case("record/capabilities", level="L0", clauses=("record.capability.answered",), per=Per.VENDOR)
def capabilities(run: Run) -> Observations:
    """Each capability is answered, by the vendor or by each arch; a copy that lacks one is refused."""
    from tutti_hal.paths import package_file
    from tutti_hal.record import load_record

    contract = read_table(package_file("spec", "capabilities.yaml"))["capabilities"]
    unsaid = {name: one["unsaid"] for name, one in contract.items() if "unsaid" in one}
    table, short = table_in_force(run), table_in_force(run)
    left_out = [str(run.random.choice(sorted(short["capabilities"].keys() - unsaid)))]
    short["capabilities"].pop(left_out[0])
    for arch in short["archs"].values():
        left_out.append(str(run.random.choice(sorted(arch["capabilities"].keys() - unsaid))))
        arch["capabilities"].pop(left_out[-1])
    folder, applied = plant_record(run, "short", short), run.profile.record.applied
    return {
        "scopes": {name: one["scope"] for name, one in contract.items()},
        "unsaid": unsaid,
        "vendor": table["capabilities"],
        "archs": {name: arch["capabilities"] for name, arch in table["archs"].items()},
        "changes": [one.get("set", {}).get("capabilities", {}) for one in table["quirks"] if one["id"] in applied],
        "in_force": dict(run.profile.record.capabilities),
        "of_archs": {name: dict(arch.capabilities) for name, arch in run.profile.record.archs.items()},
        "left_out": left_out,
        "problems": problems_of(lambda: load_record(folder)),
    }


@capabilities.judge
def _(seen: Seen) -> None:
    clause = "record.capability.answered"
    scopes = seen["scopes"]
    answers = {"vendor": ("vendor", seen["vendor"])}
    answers |= {f"arch {name}": ("arch", answered) for name, answered in seen["archs"].items()}
    for who, (scope, answered) in answers.items():
        wanted = sorted(name for name, one in scopes.items() if one == scope)
        said = {**{name: value for name, value in seen["unsaid"].items() if scopes[name] == scope}, **answered}
        seen.equal(clause, f"capabilities that {who} answers", sorted(said), wanted)
        odd = [name for name, value in answered.items() if not isinstance(value, bool)]
        seen.holds(clause, f"{who} answers with true or false", not odd, odd, answered)
    # The quirks of the SDK's version may change an answer, in their order.
    changed = {k: v for one in seen["changes"] for k, v in one.items() if k in seen["vendor"]}
    seen.equal(clause, "what the record in force answers", seen["in_force"], {**seen["vendor"], **changed})
    for name, answered in seen["archs"].items():
        unsaid = {one: value for one, value in seen["unsaid"].items() if scopes[one] == "arch" and one not in answered}
        in_force = {one: seen["of_archs"][name][one] for one in unsaid}
        seen.equal(clause, f"what arch {name} does not say", in_force, unsaid)
    places = ["capabilities", *(f"archs.{name}" for name in seen["archs"])]
    for place, name in zip(places, seen["left_out"], strict=True):
        hits = [p for p in seen["problems"] if p["key"] == place and f"'{name}'" in p["text"]]
        seen.holds(clause, f"{name} left out at {place} is refused there", hits, [str(p) for p in seen["problems"]])


def _shape(width: int, bits: int, ballot: bool) -> str:
    return f"w{width}-m{bits}-{'ballot' if ballot else 'none'}"


_SHAPES = tuple((w, b, ballot) for w in (32, 64, 128) for b in (32, 64) for ballot in (True, False))


@case("record/wave_mask", level="L0", clauses=("record.wave.mask_fits",), per=Per.VENDOR)
def wave_mask(run: Run) -> Observations:
    """No arch claims ballot with a mask narrower than its wave; planted ones that do are refused, others are not."""
    from tutti_hal.record import load_record

    table = table_in_force(run)
    first = next(iter(table["archs"].values()))
    table["archs"] = {
        _shape(width, bits, ballot): {
            **first,
            "wave_width": width,
            "mask_bits": bits,
            "capabilities": {**first["capabilities"], "wave.ballot": ballot},
        }
        for width, bits, ballot in _SHAPES
    }
    table.pop("default_arch", None)
    folder = plant_record(run, "shapes", table)
    return {
        "archs": {
            name: {"width": arch.wave_width, "bits": arch.mask_bits, "ballot": arch.capabilities["wave.ballot"]}
            for name, arch in run.profile.record.archs.items()
        },
        "planted": sorted({problem["key"] for problem in problems_of(lambda: load_record(folder))}),
    }


@wave_mask.judge
def _(seen: Seen) -> None:
    clause = "record.wave.mask_fits"
    for name, arch in seen["archs"].items():
        fits = not arch["ballot"] or arch["bits"] >= arch["width"]
        seen.holds(clause, f"{name} claims ballot only with a mask as wide as its wave", fits, arch)
    for width, bits, ballot in _SHAPES:
        wanted = ballot and bits < width
        found = f"archs.{_shape(width, bits, ballot)}.capabilities" in seen["planted"]
        what = f"{width} lanes, {bits} mask bits, ballot {ballot}: {'refused' if wanted else 'accepted'}"
        seen.holds(clause, what, found == wanted, seen["planted"])
