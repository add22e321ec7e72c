"""Backends as plugins: a broken one hinders nobody, and none is opened before it is chosen."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l0_record.planted import choose, plant_record, table_in_force
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Plugin -> how its module goes on after the imports; each is broken in its own way, but for the first.
_BODIES = {
    "sound": "DESCRIPTOR = Descriptor('sound', API_VERSION, FOLDER, __name__, lambda: Probe(True, 'sound is here'))",
    "raises": "raise RuntimeError('planted: the plugin raises')",
    "lacks": "import a_module_that_nobody_has",
    "nameless": "pass",
    "text": "DESCRIPTOR = 'planted: text'",
    "older": "DESCRIPTOR = Descriptor('older', API_VERSION + 1, FOLDER, __name__, PROBE)",
    "alias": "DESCRIPTOR = Descriptor('another', API_VERSION, FOLDER, __name__, PROBE)",
    "twice": "DESCRIPTOR = Descriptor('twice', API_VERSION, FOLDER, __name__, PROBE)",
    "wrongrecord": "DESCRIPTOR = Descriptor('wrongrecord', API_VERSION, FOLDER / 'x', __name__, PROBE)",
    "badprobe": "DESCRIPTOR = Descriptor('badprobe', API_VERSION, FOLDER, __name__, lambda: 1 / 0)",
}

#: Those that load, and show their fault only when they are asked.
_LATE = ("wrongrecord", "badprobe")

_HEAD = """
from pathlib import Path
from tutti_hal.backend import API_VERSION, Descriptor, Probe
FOLDER = Path({folder!r})
PROBE = lambda: Probe(True, "planted")
"""


def _plugins(run: Run) -> list[EntryPoint]:
    """Modules in the case's folder, which is put on the path for as long as the case runs."""
    from tutti_hal.backend import GROUP

    place = run.scratch / "plugins"
    place.mkdir()
    sys.path.insert(0, str(place))
    run.closing.callback(sys.path.remove, str(place))
    points = []
    for name, body in _BODIES.items():
        arch = next(iter(run.profile.record.archs))
        table = {**table_in_force(run), "vendor": name, "kind": "hardware", "default_arch": arch}
        folder = plant_record(run, "records", table, name)
        module = f"tutti_planted_{run.seed}_{name}"
        (place / f"{module}.py").write_text(_HEAD.format(folder=str(folder)) + body + "\n", encoding="utf-8")
        run.closing.callback(sys.modules.pop, module, None)
        points.append(EntryPoint(name, f"{module}:DESCRIPTOR", GROUP))
    points.append(EntryPoint("twice", f"tutti_planted_{run.seed}_sound:DESCRIPTOR", GROUP))
    return points


@case(
    "profile/plugins",
    level="L0",
    clauses=("profile.plugin.isolated",),
    per=Per.VENDOR,
    no_mutant="it judges how plugins are found, which no record or template reaches",
)
def plugins(run: Run) -> Observations:
    """Plugins broken in nine ways beside a sound one: each is named with the way to disable it, and hinders nobody."""
    from tutti_hal.backend import DISABLE_VARIABLE, discover
    from tutti_hal.profile import candidates

    points = _plugins(run)
    installed = {finding.name: finding.problem for finding in discover()}
    findings = discover(points, {})
    broken = ",".join(name for name in _BODIES if name != "sound")
    disabled = discover(points, {DISABLE_VARIABLE: broken})
    return {
        "found": {finding.name: finding.problem for finding in findings},
        "candidates": {one.vendor: {"usable": one.usable, "reason": one.reason} for one in candidates(findings)},
        "chosen": choose(findings),
        "named": choose(findings, "sound"),
        "named_broken": {name: choose(findings, name) for name in _BODIES if name != "sound"},
        "disabled": {finding.name: finding.problem for finding in disabled},
        "chosen_disabled": choose(disabled),
        "installed": installed,
    }


@plugins.judge
def _(seen: Seen) -> None:
    clause = "profile.plugin.isolated"
    broken = [name for name in _BODIES if name != "sound"]
    seen.equal(clause, "plugins that were found", sorted(seen["found"]), sorted(_BODIES))
    seen.equal(clause, "what is wrong with the sound one", seen["found"]["sound"], "")
    for name in broken:
        said = seen["found"].get(name, "")
        if name in _LATE:
            state = seen["candidates"][name]
            seen.holds(clause, f"{name} is unusable, with a reason", not state["usable"] and state["reason"], state)
        else:
            way = f"TUTTI_DISABLE_BACKENDS={name}"
            seen.holds(clause, f"{name} is named with {way}", way in said, said)
        answer = seen["named_broken"][name]
        seen.refused(clause, f"{name}, named", answer, "ProfileUnusable")
        why = seen["disabled"].get(name, "")
        seen.holds(clause, f"{name} can be disabled", "disabled" in why and "TUTTI_DISABLE_BACKENDS" in why, why)
    for how in ("chosen", "named", "chosen_disabled"):
        seen.equal(clause, f"the sound one {how}", seen[how].get("vendor"), "sound")
    seen.holds(clause, "the vendor under test loads", seen["installed"].get(seen.facts.vendor) == "", seen["installed"])


_LOOK = """
import json, sys
from pathlib import Path
def mapped():
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[5] for line in lines if len(line.split()) > 5 and ".so" in line.split()[5]})
vendor, arch = sys.argv[1:]
from tutti_hal.backend import discover
from tutti_hal import profile
seen = {}
findings = discover()
seen["backends"] = {f.name: f.backend.descriptor.module for f in findings if f.backend}
seen["listed"] = [c.vendor for c in profile.candidates(findings)]
chosen = profile.resolve(f"{vendor}:{arch}")
chosen.record
seen["before"] = {"modules": sorted(sys.modules), "mapped": mapped()}
try:
    chosen.backend.runtime()
    seen["opened"] = ""
except Exception as error:
    seen["opened"] = f"{type(error).__name__}: {error}"
seen["after"] = {"modules": sorted(sys.modules), "mapped": mapped()}
print(json.dumps(seen))
"""


@case(
    "profile/light",
    level="L0",
    clauses=("profile.selection.light",),
    per=Per.VENDOR,
    budget_s=60.0,
    no_mutant="it judges what is imported, which no record or template decides",
)
def light(run: Run) -> Observations:
    """In a fresh process: which modules and libraries are there before and after the vendor's runtime is asked for."""
    import subprocess

    from tutti_hal.backend import discover

    arch = next(iter(run.profile.backend.record.archs))
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, run.profile.vendor, arch],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    libraries = [lib for one in discover() if one.backend for lib in one.backend.record.host_api.libraries]
    seen: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    return {"rc": done.returncode, "stderr": done.stderr[-2000:], "libraries": libraries, **seen}


@light.judge
def _(seen: Seen) -> None:
    clause = "profile.selection.light"
    seen.equal(clause, "exit code of the process", seen["rc"], 0)
    if seen["rc"]:
        return
    backends, before, after = seen["backends"], seen["before"], seen["after"]
    heavy = [f"{module}.{layer}" for module in backends.values() for layer in ("runtime", "toolchain", "sim")]
    early = sorted(set(heavy) & set(before["modules"]))
    seen.holds(clause, "no backend's runtime, toolchain or simulation is imported", not early, early, heavy)
    named = {Path(library).name for library in seen["libraries"]}
    loaded = sorted(path for path in before["mapped"] if Path(path).name in named or "tutti_native" in path)
    seen.holds(clause, "no library of any vendor is mapped", not loaded, loaded, before["mapped"])
    outside = sorted(name for name in before["modules"] if name.partition(".")[0] in ("cffi", "numpy", "ctypes"))
    seen.holds(clause, "nothing that opens libraries is imported", not outside, outside, before["modules"])
    seen.holds(clause, "the probed vendors include the one under test", seen.facts.vendor in seen["listed"])
    # The look is not blind: once the runtime is asked for, it is there, or says what it lacks.
    own = f"{backends[seen.facts.vendor]}.runtime"
    seen.holds(clause, "asked for, the runtime is imported", own in after["modules"] or seen["opened"], seen["opened"])
    # A simulated SDK stands under its vendor's own backend.
    runtimes = {f"{module}.runtime" for module in backends.values()}
    others = sorted(runtimes - {own})
    strange = sorted(set(others) & set(after["modules"]))
    seen.holds(clause, "no other vendor's runtime is imported with it", not strange, strange, after["modules"])
