"""Compiled modules that are kept: used only while they are what would be compiled now, and whole for every builder."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l0_record.planted import plant_record, table_in_force
from tutti_hal.conformance_tests.cases.l1_generate.workshop import Workshop, template_root
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from pathlib import Path

    from tutti_hal.record import Record

_KERNEL = (
    '{% call kernel("planted", [("word", "tt_word32 *")]) %}\ntt_store_relaxed_sys_u32(word, 1u);\n{% endcall %}\n'
)

_NO_MUTANT = "it judges keys and the cache, which are code and no mutation sites; tests/conformance breaks them by hand"


@case(
    "compile/stale", level="L1", clauses=("compile.stale.refused",), per=Per.VENDOR, budget_s=60.0, no_mutant=_NO_MUTANT
)
def stale(run: Run) -> Observations:
    """A kernel built ahead of time is taken while nothing changed, and refused after any input did, by name."""
    from tutti_hal.codegen.sources import SourceKeys
    from tutti_hal.record import load_record
    from tutti_hal.toolchain import aot, toolchain_of

    shop = Workshop(run)
    root = template_root(run, "templates", {"planted.cu.j2": _KERNEL})
    folder = run.scratch / "objects"
    aot.write(folder, shop.chain, (shop.arch,), root, 1)

    def ask(templates: Path, record: Record | None = None, headers: tuple[Path, ...] | None = None) -> dict[str, Any]:
        found = aot.installed(run.profile.vendor, folder)
        assert found is not None
        chain = toolchain_of(replace(run.profile, record=record or run.profile.record))
        arch = chain.record.archs[shop.arch.name]
        keys = SourceKeys(chain.record, templates, chain.headers() if headers is None else headers)
        taken = found.usable("planted", arch, chain, keys)
        return {"taken": taken is not None, "why": found.why_not("planted", arch, keys) if taken is None else ""}

    def edited(name: str, file: str, old: str, new: str) -> Path:
        other = template_root(run, name, {"planted.cu.j2": _KERNEL})
        path = other / file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return other

    def other_record(name: str, change: Any) -> Record:
        table = table_in_force(run)
        change(table)
        return load_record(plant_record(run, name, table))

    extra = run.scratch / "extra.h"
    extra.write_text("// another header\n", encoding="utf-8")
    layer = "layers/unit.cu.j2"
    answers = {
        "unchanged": ask(root),
        "elsewhere": ask(template_root(run, "twin", {"planted.cu.j2": _KERNEL})),
        "kernel": ask(edited("kernel", "kernels/planted.cu.j2", "1u", "2u")),
        "kernel_comment": ask(edited("comment", "kernels/planted.cu.j2", "\n", "\n// a comment\n")),
        "layer": ask(edited("layer", layer, "//", "// changed")),
        "record": ask(root, other_record("body", lambda t: t["primitives"].update({"time.pause": {"body": "x"}}))),
        "flags": ask(root, other_record("flags", lambda t: t["toolchain"]["flags"].append("-DTT_CASE"))),
        "headers": ask(root, headers=(*shop.chain.headers(), extra)),
    }
    module = next(path for path in folder.rglob("*") if path.suffix == run.profile.record.toolchain.output)
    module.unlink()
    return {**answers, "gone": ask(root)}


@stale.judge
def _(seen: Seen) -> None:
    clause = "compile.stale.refused"
    for name in ("unchanged", "elsewhere"):
        seen.holds(clause, f"{name}: what was built is taken", seen[name]["taken"], seen[name])
    changed = {
        "kernel": "planted.cu.j2",
        "kernel_comment": "planted.cu.j2",
        "layer": "unit.cu.j2",
        "record": "vendor.yaml",
        "flags": "vendor.yaml",
        "headers": "extra.h",
        "gone": "gone",
    }
    for name, word in changed.items():
        seen.holds(clause, f"{name}: it is refused", not seen[name]["taken"], seen[name])
        seen.holds(clause, f"{name}: {word} is said to be why", word in seen[name]["why"], seen[name])


_BUILDERS = 3

_BUILD = """
import hashlib, json, sys
from pathlib import Path
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec
from tutti_hal.toolchain import build
spec, templates = SubjectSpec.from_json(json.loads(sys.argv[1])), Path(sys.argv[2])
profile = Subject(spec).profile
print("ready", flush=True)
sys.stdin.readline()
built = build(profile, "planted", arch=sys.argv[3], templates=templates)
data = built.path.read_bytes()
print(json.dumps({"origin": built.origin, "content": built.sha256, "module": hashlib.sha256(data).hexdigest(),
                  "bytes": len(data), "kernels": [k.name for k in built.kernels], "path": str(built.path)}))
"""


@case(
    "compile/concurrent",
    level="L1",
    clauses=("compile.cache.concurrent",),
    per=Per.VENDOR,
    budget_s=120.0,
    quick=False,
    no_mutant=_NO_MUTANT,
)
def concurrent(run: Run) -> Observations:
    """Processes that build one kernel at the same moment, from an empty cache, and one that comes later."""
    from tutti_hal.codegen import render

    shop = Workshop(run)
    root = template_root(run, "templates", {"planted.cu.j2": _KERNEL})
    cache = run.scratch / "cache"
    spec = json.dumps(run.subject.spec.to_json())
    command = [sys.executable, "-c", _BUILD, spec, str(root), shop.arch.name]
    environment = {**os.environ, "TUTTI_CACHE_DIR": str(cache)}

    def start() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        child = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        run.closing.callback(_end, child)
        return child

    def result(child: subprocess.Popen[str]) -> dict[str, Any]:
        out, said = child.communicate("go\n", timeout=100)
        answer = json.loads(out.splitlines()[-1]) if child.returncode == 0 else {}
        return {"rc": child.returncode, "said": said[-1000:], **answer}

    children = [start() for _ in range(_BUILDERS)]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    together = [result(child) for child in children]
    later = result(start())
    # A builder of its own, alone: what the module must be.
    environment["TUTTI_CACHE_DIR"] = str(run.scratch / "alone")
    alone = result(start())
    files = sorted(path.name for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock")
    rendered = render(shop.record, shop.arch, "planted", templates=root).sha256
    # The cache makes a module in a folder called .KEY.RANDOM; an SDK that is made there has hidden folders as well.
    unfinished = sorted(path.name for path in cache.rglob(".*.*") if path.is_dir())
    return {
        "together": together,
        "later": later,
        "alone": alone,
        "rendered": rendered,
        "files": files,
        "unfinished": unfinished,
        "read": hashlib.sha256(_read(later)).hexdigest(),
    }


def _read(answer: dict[str, Any]) -> bytes:
    from pathlib import Path

    return Path(answer["path"]).read_bytes() if "path" in answer else b""


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        child.kill()
        child.communicate()


@concurrent.judge
def _(seen: Seen) -> None:
    clause = "compile.cache.concurrent"
    alone = seen["alone"]
    seen.equal(clause, "exit code of a builder alone", alone["rc"], 0)
    everyone = [*seen["together"], seen["later"]]
    seen.equal(clause, "builders", len(everyone), _BUILDERS + 1)
    for number, one in enumerate(everyone):
        seen.equal(clause, f"builder {number}: exit code ({one['said'][-200:]})", one["rc"], 0)
        for name in ("content", "module", "bytes", "kernels"):
            seen.equal(clause, f"builder {number}: {name}", one.get(name), alone.get(name))
    seen.equal(clause, "hash of what is rendered now", alone.get("content"), seen["rendered"])
    seen.equal(clause, "the module afterwards", seen["read"], alone.get("module"))
    origins = sorted(str(one.get("origin")) for one in seen["together"])
    seen.equal(clause, "how they came by it", origins, ["cached"] * (_BUILDERS - 1) + ["compiled"])
    seen.equal(clause, "unfinished folders that are left", seen["unfinished"], [])
