"""Which profile is taken, and that nothing stands in for what was named."""

from __future__ import annotations

import itertools
from typing import Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l0_record.planted import Market, choose, reason
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_NO_MUTANT = "it judges the selector, which no template and no number of a record reaches"


@case("profile/order", level="L0", clauses=("profile.order",), per=Per.VENDOR, no_mutant=_NO_MUTANT)
def order(run: Run) -> Observations:
    """Every combination of argument, variable, pin and number of usable hardware vendors, asked both ways."""
    observed = []
    named = Market(run)
    for name in ("argued", "variabled", "pinned"):
        named.vendor(name, kind="simulated")
    for hardware in (0, 1, 2):
        market = Market(run, f"with{hardware}-")
        for index in range(2):
            market.vendor(f"metal{index}", usable=index < hardware)
        market.findings += named.findings
        for explicit, variable, pin in itertools.product(("", "argued"), ("", "variabled"), ("", "pinned")):
            asked = {"hardware": hardware, "explicit": explicit, "variable": variable, "pin": pin}
            for resolving in (False, True):
                answer = choose(market.findings, explicit or None, variable, pin, resolving)
                observed.append({**asked, "resolving": resolving, "answer": answer})
    return {"asked": observed}


@order.judge
def _(seen: Seen) -> None:
    for one in seen["asked"]:
        answer = one["answer"]
        what = ", ".join(f"{key} {value!r}" for key, value in one.items() if key != "answer")
        named = one["explicit"] or one["variable"] or one["pin"]
        if not named and one["hardware"] != 1:
            seen.refused("profile.order", what, answer, "ProfileAmbiguous")
            continue
        by = "argument" if one["explicit"] else "variable" if one["variable"] else "pinned" if one["pin"] else ""
        wanted = {"vendor": named or "metal0", "chosen_by": by or "only usable hardware"}
        found = {key: answer.get(key) for key in wanted} if not answer["refused"] else answer
        seen.equal("profile.order", what, found, wanted)


@case("profile/named_only", level="L0", clauses=("profile.named_only",), per=Per.VENDOR)
def named_only(run: Run) -> Observations:
    """Vendors that are no hardware, and the one under test by its kind, are taken when named, never otherwise."""
    kind = run.profile.record.kind
    alone = Market(run)
    alone.vendor("cpu", kind="host")
    alone.vendor("pretence", kind="simulated")
    both = Market(run, "both")
    both.findings = list(alone.findings)
    both.vendor("metal")
    tested = Market(run)
    tested.findings = list(alone.findings)
    tested.findings.append(_own(run))
    return {
        "kind": kind,
        "own": run.profile.vendor,
        "unnamed": choose(alone.findings),
        "beside_hardware": choose(both.findings),
        "named": {name: choose(both.findings, name) for name in ("cpu", "pretence", "metal")},
        "by_variable": {name: choose(both.findings, None, name) for name in ("cpu", "pretence", "metal")},
        "tested_unnamed": choose(tested.findings),
        "tested_named": choose(tested.findings, run.profile.vendor),
    }


def _own(run: Run) -> Any:
    """The vendor under test with its record in force, and a probe that finds it usable."""
    from dataclasses import replace

    from tutti_hal.backend import Finding, Probe

    archs = tuple(run.profile.record.archs)[:1]
    descriptor = replace(
        run.profile.backend.descriptor,
        folder=run.profile.record.folder,
        probe=lambda: Probe(True, "found usable for the case", archs),
    )
    return Finding(run.profile.vendor, "under test", replace(run.profile.backend, descriptor=descriptor), "")


@named_only.judge
def _(seen: Seen) -> None:
    clause = "profile.named_only"
    seen.refused(clause, "nothing named, no hardware", seen["unnamed"], "ProfileAmbiguous")
    seen.equal(clause, "nothing named, one hardware vendor", seen["beside_hardware"].get("vendor"), "metal")
    for how in ("named", "by_variable"):
        for name, answer in seen[how].items():
            seen.equal(clause, f"{name} {how}", answer.get("vendor"), name)
    vendor, hardware = seen["own"], seen.facts.kind == "hardware"
    seen.equal(clause, "kind of the record in force", seen["kind"], seen.facts.kind)
    if hardware:
        seen.equal(clause, f"{vendor} unnamed, the only hardware", seen["tested_unnamed"].get("vendor"), vendor)
    else:
        seen.refused(clause, f"{vendor} unnamed", seen["tested_unnamed"], "ProfileAmbiguous")
    seen.equal(clause, f"{vendor} named", seen["tested_named"].get("vendor"), vendor)


#: What is named -> the error that answers; each beside a usable hardware vendor and a usable one of the CPU.
_REFUSED = {
    "idle": "ProfileUnusable",
    "wreck": "ProfileUnusable",
    "nobody": "ProfileUnknown",
    "metal:nowhere": "ProfileUnknown",
    "idle:nowhere": "ProfileUnknown",
    "Metal": "ProfileUnknown",
    "metal:": "ProfileUnknown",
}


@case("profile/no_fallback", level="L0", clauses=("profile.no_fallback",), per=Per.VENDOR, no_mutant=_NO_MUTANT)
def no_fallback(run: Run) -> Observations:
    """What is named and cannot be used is refused, by whichever way it was named, though others stand ready."""
    market = Market(run)
    market.vendor("cpu", kind="host")
    market.vendor("metal", sdk="13.1")
    market.vendor("idle", usable=False)
    market.broken("wreck")
    arch = next(iter(run.profile.record.archs))
    answers = {
        name: {
            "argument": choose(market.findings, name),
            "variable": choose(market.findings, None, name),
            "pin": choose(market.findings, None, "", name),
            "argument over a good variable": choose(market.findings, name, "metal", "cpu"),
        }
        for name in _REFUSED
    }
    sdks = {
        version: choose(market.findings, f"metal:{arch}@{version}") for version in ("13.1", "13", "13.2", "1", "14")
    }
    builds = {name: choose(market.findings, name, resolving=True) for name in ("idle", "wreck", "nobody")}
    return {"answers": answers, "sdks": sdks, "builds": builds}


@no_fallback.judge
def _(seen: Seen) -> None:
    clause = "profile.no_fallback"
    for name, error in _REFUSED.items():
        for way, answer in seen["answers"][name].items():
            seen.refused(clause, f"'{name}' by {way}", answer, error)
    for version, answer in seen["sdks"].items():
        if version in ("13.1", "13"):
            seen.equal(clause, f"SDK {version} where 13.1 is found", answer.get("vendor"), "metal")
        else:
            seen.refused(clause, f"SDK {version} where 13.1 is found", answer, "ProfileUnusable")
    # To build for a vendor its device need not be there; its record must be.
    seen.equal(clause, "built for without its device", seen["builds"]["idle"].get("vendor"), "idle")
    seen.refused(clause, "built for without its record", seen["builds"]["wreck"], "ProfileUnusable")
    seen.refused(clause, "built for, and unknown", seen["builds"]["nobody"], "ProfileUnknown")


@case(
    "profile/refusals", level="L0", clauses=("profile.refusal.lists_candidates",), per=Per.VENDOR, no_mutant=_NO_MUTANT
)
def refusals(run: Run) -> Observations:
    """Refusals name every candidate with its reason, and the vendor or arch that a misspelt name is near to."""
    market = Market(run)
    market.vendor("cpu", kind="host")
    market.vendor("metal")
    market.vendor("ingot")
    market.vendor("idle", usable=False)
    market.broken("wreck")
    arch = next(iter(run.profile.record.archs))
    unusable = Market(run)
    unusable.findings = [one for one in market.findings if one.name in ("cpu", "idle", "wreck")]
    return {
        "arch": arch,
        "archs": list(run.profile.record.archs),
        "several": choose(market.findings),
        "none": choose(unusable.findings),
        "unusable": choose(market.findings, "idle"),
        "broken": choose(market.findings, "wreck"),
        "misspelt": choose(market.findings, "metla"),
        "arch_misspelt": choose(market.findings, f"metal:{arch[:-1]}x"),
        "case_misspelt": choose(market.findings, "METAL"),
        "nothing": choose([]),
    }


@refusals.judge
def _(seen: Seen) -> None:
    clause = "profile.refusal.lists_candidates"
    everyone = ("cpu", "metal", "ingot", "idle", "wreck")
    lists = {"several": everyone, "unusable": everyone, "broken": everyone, "misspelt": everyone}
    for what, names in {**lists, "none": ("cpu", "idle", "wreck")}.items():
        answer = seen[what]
        seen.holds(clause, f"{what}: refused", answer["refused"], answer)
        for name in names:
            lines = [line.strip() for line in answer.get("said", "").splitlines()]
            listed = any(line.startswith(f"{name}: ") for line in lines)
            seen.holds(clause, f"{what}: {name} is listed on a line of its own", listed, lines)
            seen.holds(clause, f"{what}: {name}'s reason is given", reason(name) in answer.get("said", ""), lines)
    said = {what: seen[what].get("said", "") for what in ("misspelt", "arch_misspelt", "case_misspelt", "nothing")}
    seen.holds(clause, "metla is near to metal", "did you mean 'metal'?" in said["misspelt"], said)
    near = any(f"did you mean '{arch}'?" in said["arch_misspelt"] for arch in seen["archs"])
    seen.holds(clause, "an arch that is nearly right is met by the right one", near, said)
    for arch in seen["archs"]:
        seen.holds(clause, f"a wrong arch is met by the list, with {arch}", arch in said["arch_misspelt"], said)
    seen.holds(clause, "METAL is near to metal", "did you mean 'metal'?" in said["case_misspelt"], said)
    seen.holds(clause, "nobody installed is said", "none is installed" in said["nothing"], said)
