"""Which product on which machine this is: repeated by every shard, so that all are seen to be of one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l0_record.planted import EXPECTATIONS_FILE, RECORD_FILE, read_table
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_SHA256 = re.compile(r"[0-9a-f]{64}")

#: What the device tells of itself; asked of every vendor alike.
_ATTRIBUTES = ("WarpSize", "MaxThreadsPerBlock", "MultiProcessorCount", "MaxSharedMemoryPerBlock")


def _digest(files: Iterable[tuple[str, Path]]) -> str:
    """SHA-256 over names and contents, in order of name."""
    whole = hashlib.sha256()
    for name, path in sorted(files):
        whole.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def _below(folder: Path) -> list[tuple[str, Path]]:
    return [(str(path.relative_to(folder)), path) for path in folder.rglob("*") if path.is_file()]


@case("identity/record", level="L0", clauses=("record.capability.answered",), per=Per.VENDOR, identity=True)
def record(run: Run) -> Observations:
    """The record in force and what the vendor expects to fail, by their digests, with every capability."""
    folder = run.profile.record.folder
    present = [name for name in (RECORD_FILE, EXPECTATIONS_FILE) if (folder / name).is_file()]
    table = read_table(folder / RECORD_FILE)
    return {
        "vendor": run.profile.record.vendor,
        "files": {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in present},
        "overrides": _digest(_below(folder / "overrides")),
        "capabilities": dict(run.facts.capabilities),
        "written": table["capabilities"],
        # What a version of the SDK changes, as the file has it.
        "quirks": [
            quirk.get("set", {}).get("capabilities", {})
            for quirk in table.get("quirks", ())
            if quirk["id"] in run.profile.record.applied
        ],
        "archs": {name: dict(arch.capabilities) for name, arch in run.profile.record.archs.items()},
    }


@record.judge
def _(seen: Seen) -> None:
    clause = "record.capability.answered"
    seen.holds(clause, "the record has a digest", _SHA256.fullmatch(seen["files"].get(RECORD_FILE, "")), seen["files"])
    seen.equal(clause, "vendor", seen["vendor"], seen.facts.vendor)
    written = dict(seen["written"])
    for changes in seen["quirks"]:
        written |= {name: value for name, value in changes.items() if name in written}
    seen.equal(clause, "capabilities in force, as the file has them", seen["capabilities"], written)
    seen.equal(clause, "capabilities that the plan of this run went by", dict(seen.facts.capabilities), written)
    answers = [*seen["written"].values(), *(v for arch in seen["archs"].values() for v in arch.values())]
    seen.holds(clause, "every answer is true or false", all(isinstance(v, bool) for v in answers), answers, answers)


@case("identity/product", level="L0", clauses=("record.reference.known",), per=Per.VENDOR, identity=True)
def product(run: Run) -> Observations:
    """Versions and digests of what judges and of what is judged: contract, templates, records, native library."""
    import platform
    from importlib.metadata import version

    from tutti_hal import paths
    from tutti_hal.spec import load_spec

    templates = run.subject.templates or paths.templates_dir()
    tables = paths.package_file("spec")
    spec = load_spec()
    return {
        "version": version("tutti-hal"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "tables": _digest((path.name, path) for path in tables.glob("*.yaml")),
        "templates": _digest(_below(templates)),
        "native": hashlib.sha256(paths.native_library().read_bytes()).hexdigest(),
        "loaded": {"capabilities": sorted(spec.capabilities), "clauses": sorted(spec.clauses)},
        "written": {name: sorted(read_table(tables / f"{name}.yaml")[name]) for name in ("capabilities", "clauses")},
    }


@product.judge
def _(seen: Seen) -> None:
    clause = "record.reference.known"
    for name in ("tables", "templates", "native"):
        seen.holds(clause, f"{name} have a digest", _SHA256.fullmatch(seen[name]), seen[name])
    for name, written in seen["written"].items():
        seen.holds(clause, f"the contract has {name}", written)
        seen.equal(clause, f"{name} in force, as the tables have them", seen["loaded"][name], written)


@case("identity/device", level="L0", clauses=("record.wave.mask_fits",), identity=True)
def device(run: Run) -> Observations:
    """The device of each arch: name, attributes, wave width; nothing where the run has none."""
    from tutti_hal.errors import TuttiError

    declared = run.profile.record.archs[run.facts.arch]
    said = {"width": declared.wave_width, "bits": declared.mask_bits, "ballot": declared.capabilities["wave.ballot"]}
    try:
        found = run.device
    except TuttiError as error:
        return {"declared": said, "device": None, "why": f"{error.id} {error.found}"}
    known = run.profile.record.attributes
    attributes = {n: found.attribute(n) for n in _ATTRIBUTES if known.by_name or n in known.values}
    return {
        "declared": said,
        "device": {"name": found.name, "wave_width": found.wave_width, "attributes": attributes},
        "why": "",
    }


@device.judge
def _(seen: Seen) -> None:
    clause = "record.wave.mask_fits"
    said = seen["declared"]
    seen.equal(clause, "wave width in force", said["width"], seen.facts.wave_width)
    fits = not said["ballot"] or said["bits"] >= said["width"]
    seen.holds(clause, "ballot is claimed only with a mask as wide as the wave", fits, said)
    if seen["device"] is not None:
        attributes = seen["device"]["attributes"]
        for name, width in (("the shim's", seen["device"]["wave_width"]), ("the attribute's", attributes["WarpSize"])):
            seen.equal(clause, f"{name} wave width of the device", width, said["width"])
