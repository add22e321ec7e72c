"""Rendering: the same bytes each time, and templates and records that are refused."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l0_record.planted import plant_record, table_in_force
from tutti_hal.conformance_tests.cases.l1_generate.workshop import template_root
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from pathlib import Path

    from tutti_hal.record import Record

_AGAIN = """
import json, sys
from pathlib import Path
from tutti_hal.conformance_tests.cases.l1_generate.rendering import digests
from tutti_hal.overlay import at_sdk
from tutti_hal.record import load_record
record = at_sdk(load_record(Path(sys.argv[1])), sys.argv[3] or None)
print(json.dumps(digests(record, Path(sys.argv[2]))))
"""


def digests(record: Record, templates: Path) -> dict[str, str]:
    """``arch/kernel set`` -> SHA-256 over the unit and its headers, as they would be written.

    Every kernel set for the first arch, and the smallest and the largest of them for every other.
    """
    from tutti_hal.codegen import kernel_sets, render

    def size(name: str) -> int:
        return (templates / "kernels" / f"{name}.cu.j2").stat().st_size

    found = {}
    names = sorted(kernel_sets(templates), key=size)
    for number, arch in enumerate(record.archs):
        for name in names if number == 0 else {names[0], names[-1]}:
            rendered = render(record, arch, name, templates=templates)
            digest = hashlib.sha256(rendered.source.encode())
            for header in sorted(rendered.headers):
                digest.update(f"\0{header}\0{rendered.headers[header]}".encode())
            found[f"{arch}/{name}"] = digest.hexdigest()
    return found


@case("generate/deterministic", level="L1", clauses=("generate.deterministic",), per=Per.VENDOR, budget_s=60.0)
def deterministic(run: Run) -> Observations:
    """Every kernel set, and every arch, rendered here and in a process of another hash seed, place and time zone."""
    from tutti_hal.paths import templates_dir

    templates, folder = run.subject.templates or templates_dir(), run.profile.record.folder

    def elsewhere(seed: str, zone: str) -> dict[str, Any]:
        import os

        done = subprocess.run(
            [sys.executable, "-c", _AGAIN, str(folder.resolve()), str(templates.resolve()), run.profile.sdk or ""],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": "C"},
            cwd=run.scratch,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return {"rc": done.returncode, "said": done.stderr[-2000:], "digests": json.loads(done.stdout or "{}")}

    return {"here": digests(run.profile.record, templates), "elsewhere": elsewhere("4242", "XYZ-11")}


@deterministic.judge
def _(seen: Seen) -> None:
    clause = "generate.deterministic"
    here, elsewhere = seen["here"], seen["elsewhere"]
    seen.holds(clause, "something is rendered", here)
    seen.equal(clause, "exit code of the other process", elsewhere["rc"], 0)
    seen.equal(clause, "digests in the other process", elsewhere["digests"], here)


def _kernel(body: str) -> str:
    return f'{{% call kernel("planted", [("word", "tt_word32 *"), ("n", "uint32_t")]) %}}\n{body}\n{{% endcall %}}\n'


_STORE = "tt_store_relaxed_dev_u32(word, n);"

#: What is wrong -> (kernel template; an included one, or nothing; file and line to be named).
_UNDEFINED = {
    "value": (_kernel(f"{_STORE}\n{{{{ nobody }}}}"), "", "planted.cu.j2:3"),
    "in_text": (_kernel("tt_store_relaxed_dev_u32(word, n + {{ nobody }}u);"), "", "planted.cu.j2:2"),
    "call": (_kernel(f"{_STORE}\n\n{{{{ nobody(3) }}}}"), "", "planted.cu.j2:4"),
    "attribute": (_kernel(f"{_STORE}\n{{{{ limits.nobody }}}}"), "", "planted.cu.j2:3"),
    "item": (_kernel(f"{_STORE}\n{{{{ limits['nobody'] }}}}"), "", "planted.cu.j2:3"),
    "condition": (_kernel(f"{{% if nobody %}}\n{_STORE}\n{{% endif %}}"), "", "planted.cu.j2:2"),
    "loop": (_kernel(f"{{% for one in nobody %}}\n{_STORE}\n{{% endfor %}}"), "", "planted.cu.j2:2"),
    "parameter": (_kernel(_STORE).replace('"uint32_t"', "nobody"), "", "planted.cu.j2:1"),
    "included": (
        '{% include "kernels/part.j2" %}\n' + _kernel(_STORE),
        "// a part\n\n// {{ nobody }}\n",
        "part.j2:3",
    ),
}


@case("generate/undefined", level="L1", clauses=("generate.undefined.refused",), per=Per.VENDOR)
def undefined(run: Run) -> Observations:
    """Templates that use a name nobody defined, in each place where one can stand, are refused with file and line."""
    from tutti_hal.codegen import render
    from tutti_hal.conformance_tests.observation import refusal

    arch = next(iter(run.profile.record.archs))

    def ask(name: str, kernel: str, part: str) -> dict[str, Any]:
        root = template_root(run, name, {"planted.cu.j2": kernel, **({"part.j2": part} if part else {})})
        return refusal(lambda: render(run.profile.record, arch, "planted", templates=root))

    return {
        "sound": ask("sound", '{% include "kernels/part.j2" %}\n' + _kernel(_STORE), "// a part\n"),
        **{name: ask(name, kernel, part) for name, (kernel, part, _) in _UNDEFINED.items()},
    }


@undefined.judge
def _(seen: Seen) -> None:
    clause = "generate.undefined.refused"
    seen.equal(clause, "a template that defines what it uses is refused", seen["sound"], {"refused": False})
    for name, (_, _, place) in _UNDEFINED.items():
        answer = seen[name]
        seen.refused(clause, f"an undefined name as {name}", answer, "GenerationError")
        named = re.search(rf"\b{re.escape(place)}\b", answer.get("found", "")) and "nobody" in answer.get("found", "")
        seen.holds(clause, f"{name}: {place} and the name are said", named, answer)


#: Family that is dropped -> the primitives that then have no lowering, and whether only an arch with ballot needs them.
_FAMILIES = {
    "fence": (("fence.block", "fence.device", "fence.system"), False),
    "geometry.thread": (("geometry.thread.x", "geometry.thread.y", "geometry.thread.z"), False),
    "mmio.store": (("mmio.store.u32",), False),
    "barrier.block": (("barrier.block",), False),
    "crc32c": (("crc32c.u32", "crc32c.u64"), False),
    "attribute.shared": (("attribute.shared",), False),
    "wave.shuffle": (("wave.shuffle.u32", "wave.shuffle.u64"), True),
    "wave.elect": (("wave.elect",), True),
}

#: Functions that no capability excuses, and one with the capability that does.
_FUNCTIONS = ("Malloc", "Free", "MemcpyAsync", "StreamCreateWithFlags", "EventRecord", "GetErrorString")
_EXCUSED = ("MallocManaged", "memory.managed")


@case("generate/complete", level="L1", clauses=("generate.complete",), per=Per.VENDOR)
def complete(run: Run) -> Observations:
    """Lowerings and host functions dropped from the record, some at random: all gaps are listed, and no others are."""
    from tutti_hal.codegen import gaps, render
    from tutti_hal.conformance_tests.observation import refusal
    from tutti_hal.overlay import at_sdk
    from tutti_hal.record import load_record

    def listed(name: str, families: list[str], functions: list[str], managed: bool) -> dict[str, Any]:
        table = table_in_force(run)
        for family in families:
            table["primitives"].pop(family)
            for arch in table["archs"].values():
                arch.get("primitives", {}).pop(family, None)
        for function in functions:
            table["host_api"].get("names", {}).pop(function, None)
            table["host_api"].setdefault("absent", {})[function] = "dropped by the case"
        table["capabilities"][_EXCUSED[1]] = managed
        record = at_sdk(load_record(plant_record(run, name, table)), run.profile.sdk)
        ask = refusal(lambda: render(record, next(iter(record.archs)), "planted", templates=root))
        return {"families": families, "functions": functions, "gaps": list(gaps(record)), "rendered": ask}

    root = template_root(run, "templates", {"planted.cu.j2": _kernel(_STORE)})
    some = sorted(str(one) for one in run.random.choice(sorted(_FAMILIES), 3, replace=False))
    few = sorted(str(one) for one in run.random.choice(_FUNCTIONS, 2, replace=False))
    return {
        "archs": {name: arch.capabilities["wave.ballot"] for name, arch in run.profile.record.archs.items()},
        "in_force": list(gaps(run.profile.record)),
        "all": listed("all", sorted(_FAMILIES), sorted(_FUNCTIONS), True),
        "some": listed("some", some, few, True),
        "needed": listed("needed", [], [_EXCUSED[0]], True),
        "excused": listed("excused", [], [_EXCUSED[0]], False),
    }


@complete.judge
def _(seen: Seen) -> None:
    clause = "generate.complete"
    seen.holds(clause, "the record in force has no gaps", not seen["in_force"], seen["in_force"])
    for what in ("all", "some", "needed", "excused"):
        one = seen[what]
        wanted = set() if what == "excused" else {f"host function {name} is not mapped" for name in one["functions"]}
        first = next(iter(seen["archs"]))
        for family in one["families"]:
            members, masked = _FAMILIES[family]
            archs = [name for name, ballot in seen["archs"].items() if ballot or not masked]
            where = "every arch" if len(archs) == len(seen["archs"]) else ", ".join(archs)
            wanted |= {f"primitive {member} has no lowering on {where}" for member in members} if archs else set()
        seen.equal(clause, f"{what}: gaps", sorted(one["gaps"]), sorted(wanted))
        seen.holds(clause, f"{what}: compared", True, examined=len(wanted) + 1)
        lost = [m for f in one["families"] for m in _FAMILIES[f][0] if seen["archs"][first] or not _FAMILIES[f][1]]
        answer = one["rendered"]
        seen.equal(clause, f"{what}: rendering is refused", answer["refused"], bool(lost))
        for member in lost:
            seen.holds(clause, f"{what}: {member} is listed when rendering", f" {member} " in answer["found"], answer)
