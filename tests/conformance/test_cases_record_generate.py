"""Each case of L0 and L1 fails on a product that breaks what it claims: a record, a template, or code of the core."""

from __future__ import annotations

import pkgutil
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.cases.l1_generate.listing_patterns import MACHINES, doorbells, instructions, straight
from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.execute import execute
from tutti_hal.conformance_tests.judgement import Judgement, judge
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec, facts_of
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.paths import package_file, templates_dir
from tutti_hal.spec import load_spec

pytestmark = pytest.mark.suite

THREADS, SIM, NO_BALLOT = "threads-w32", "sim-w32", "sim-w128"

Patch = pytest.MonkeyPatch


def verdict(name: str, arch: str = "", record: Path | None = None, templates: Path | None = None) -> Judgement:
    """Run and judge the one instance of a case on HOST."""
    case = next(one for one in catalogue().cases if one.name == name)
    spec = SubjectSpec("host", arch, record=str(record or ""), templates=str(templates or ""))
    subject = Subject(spec)
    instance = Instance(case, {}, arch)
    outcome = execute(subject, instance, instance.seed(1))
    return judge(instance, outcome, facts_of(subject.profile, arch), Terms(load_spec()))


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cache(cache_folder: Path, monkeypatch: Patch) -> None:
    """One cache for all: what is in it is known by its content."""
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(cache_folder))


def record_with(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    place = folder / "host"
    shutil.copytree(package_file("backends", "host"), place, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    table = yaml.safe_load((place / "vendor.yaml").read_text(encoding="utf-8"))
    table = yaml.safe_load(yaml.dump(table, Dumper=_Plain))
    change(table)
    (place / "vendor.yaml").write_text(yaml.dump(table, Dumper=_Plain, sort_keys=False), encoding="utf-8")
    return place


class _Plain(yaml.SafeDumper):
    """Writes anchors out, so that a change of one arch is no change of another."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def small_templates(folder: Path) -> Path:
    """The templates with one kernel set, so that compiling all of them costs little."""
    root = folder / "templates"
    shutil.copytree(templates_dir(), root)
    for path in (root / "kernels").glob("*.cu.j2"):
        if path.name != "saxpy.cu.j2":
            path.unlink()
    return root


def templates_with(folder: Path, file: str, old: str, new: str) -> Path:
    root = small_templates(folder) if file == "kernels/saxpy.cu.j2" else folder / "templates"
    if not root.is_dir():
        shutil.copytree(templates_dir(), root)
    text = (root / file).read_text(encoding="utf-8")
    assert old in text, f"{file} no longer holds {old!r}"
    (root / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    return root


# ---- records ----

RECORDS: dict[str, tuple[str, str, Callable[[dict[str, Any]], object]]] = {
    "a source that says nothing": ("record/sources", "", lambda t: t["p2p"].update(source="x")),
    "a reserve of every compiler that comes first": (
        "record/detection",
        "",
        lambda t: t["detection"].update(rank=1),
    ),
    "a record that answers to no compiler": (
        "record/detection",
        "",
        lambda t: t["detection"].update(macros=["TT_NO_SUCH_MACRO"]),
    ),
    "an error that is one off": ("record/numbers", "", lambda t: t["errors"]["values"].update(NotReady=601)),
    "an attribute under another's name": (
        "record/numbers",
        "",
        lambda t: t["attributes"].setdefault("names", {}).update(WarpSize="ttrtDevAttrIntegrated"),
    ),
    "numbers of a header that is not named": (
        "record/numbers",
        "",
        lambda t: t["errors"].update(source="somebody told us"),
    ),
    "an attribute that is no keyword": (
        "compile/attributes",
        THREADS,
        lambda t: t["primitives"]["attribute.restrict"].update(body="no_such_keyword"),
    ),
    "block storage with a misspelt name": (
        "compile/attributes",
        THREADS,
        lambda t: t["primitives"]["attribute.shared"].update(body="TT_HOST_SHARED(type, another, count)"),
    ),
    "a lowering that does not compile": (
        "compile/every_kernel_set",
        THREADS,
        lambda t: t["primitives"]["crc32c"].update(body="return nothing_at_all;"),
    ),
    "a compiler told to warn of nothing": (
        "compile/every_kernel_set",
        THREADS,
        lambda t: t["toolchain"].update(flags=[f for f in t["toolchain"]["flags"] if not f.startswith("-W")]),
    ),
    "a dropped system fence, in instructions": (
        "compile/listing",
        THREADS,
        lambda t: t["primitives"]["fence"].update(body=""),
    ),
    "a system fence of device scope, in the simulated world": (
        "compile/listing",
        SIM,
        lambda t: t["primitives"]["fence"].update(body="tt_host_fence_device();"),
    ),
    "a dropped lowering": ("generate/complete", "", lambda t: t["primitives"].pop("time.pause")),
}  # fmt: skip


@pytest.mark.parametrize("what", RECORDS)
def test_a_broken_record_fails_its_case(what: str, tmp_path: Path) -> None:
    name, arch, change = RECORDS[what]
    root = small_templates(tmp_path) if name == "compile/every_kernel_set" else None
    found = verdict(name, arch, record=record_with(tmp_path, change), templates=root)
    assert found.verdict is Verdict.FAIL, (found.verdict, found.reason)


# ---- templates ----

TEMPLATES = {
    "a primitive under another signature": (
        "generate/neutral_header", "", "layers/cuda_like.h.j2",
        "{{ declaration }}", "{{ declaration|replace('uint64_t tt_clock_ns', 'uint32_t tt_clock_ns') }}",
    ),
    "a primitive that is not guarded": (
        "generate/neutral_header", "", "layers/cuda_like.h.j2", "{% if group.guard %}\n#if", "{% if true %}\n#if 1 || ",
    ),
    "a header that differs between archs": (
        "generate/neutral_header", "", "layers/cuda_like.h.j2", "#include <stdint.h>",
        "#include <stdint.h>\n// {{ wave_width }}",
    ),
    "text that chance decides": (
        "generate/deterministic", "", "kernels/saxpy.cu.j2", "{% call", "// {{ range(1000000)|random }}\n{% call",
    ),
    "words that can be copied": (
        "compile/shared_words", THREADS, "layers/cuda_like.h.j2",
        "    {{ word.name }}(const {{ word.name }} &) = delete;\n"
        "    {{ word.name }} &operator=(const {{ word.name }} &) = delete;\n", "",
    ),
    "words that are open": ("compile/shared_words", SIM, "layers/cuda_like.h.j2", "  private:\n", ""),
    "words that turn into values": (
        "compile/shared_words", THREADS, "layers/cuda_like.h.j2", "  private:\n",
        "    operator bool() const { return true; }\n  private:\n",
    ),
    "plain storage for a block": (
        "compile/shared_words", THREADS, "layers/cuda_like.h.j2",
        "static constexpr bool value = false;", "static constexpr bool value = true;",
    ),
    "masks declared everywhere": (
        "compile/masks", NO_BALLOT, "layers/vendor.h.j2", "// Attributes.", "typedef uint64_t tt_mask;\n// Attributes.",
    ),
    "a kernel under another name": (
        "compile/attributes", THREADS, "layers/module_host.j2", "{{ row }}", "{{ row|replace('\"case', '\"kase') }}",
    ),
    "a kernel that does not compile": (
        "compile/every_kernel_set", THREADS, "kernels/saxpy.cu.j2", "{% endcall %}", "nothing;\n{% endcall %}",
    ),
    "a ring without its fence": (
        "compile/listing.ring", SIM, "kernels/ring_submit.j2", "tt_fence_system();\n            tt_mmio", "tt_mmio",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TEMPLATES)
def test_a_broken_template_fails_its_case(what: str, tmp_path: Path) -> None:
    name, arch, file, old, new = TEMPLATES[what]
    found = verdict(name, arch, templates=templates_with(tmp_path, file, old, new))
    assert found.verdict is Verdict.FAIL, (found.verdict, found.reason)


# ---- code of the core ----


@dataclass(frozen=True)
class Sabotage:
    """A change of the core, for as long as one test."""

    case: str
    place: str
    name: str
    make: Callable[[Any], Any]


def _last_problem_only(real: Any) -> Any:
    def raise_one(self: Any, tried: str) -> None:
        self.found = self.found[-1:]
        real(self, tried)

    return raise_one


def _first(real: Any) -> Any:
    return lambda *args, **named: real(*args, **named)[:1]


def _fall_back(real: Any) -> Any:
    from tutti_hal.errors import ProfileUnusable

    def select(explicit: str | None = None, **named: Any) -> Any:
        try:
            return real(explicit, **named)
        except ProfileUnusable:
            return real(None, **{**named, "environ": {}})

    return select


def _variable_first(real: Any) -> Any:
    def choose(explicit: str | None, findings: Any, environ: Any) -> Any:
        return real(None if (environ or {}).get("TUTTI_PROFILE") else explicit, findings, environ)

    return choose


SABOTAGE = {
    "one problem at a time": Sabotage(
        "record/schema", "tutti_hal.spec.nodes.Problems", "raise_if_any", _last_problem_only
    ),
    "no whole-record checks": Sabotage(
        "record/capabilities", "tutti_hal.spec.record_schema", "check_whole", lambda _: lambda *_: None
    ),
    "any mask for any wave": Sabotage(
        "record/wave_mask", "tutti_hal.spec.record_schema", "_check_arch", lambda _: lambda *_: None
    ),
    "whatever clause": Sabotage("record/references", "tutti_hal.expectations", "_expand", lambda _: lambda *_: None),
    "the variable before the argument": Sabotage("profile/order", "tutti_hal.profile", "_choose", _variable_first),
    "pretence taken unnamed": Sabotage(
        "profile/named_only", "tutti_hal.profile.Candidate", "needs_naming", lambda _: property(lambda _self: False)
    ),
    "a silent fall-back": Sabotage("profile/no_fallback", "tutti_hal.profile", "select", _fall_back),
    "a refusal without its candidates": Sabotage(
        "profile/refusals", "tutti_hal.profile", "_listing", lambda _: lambda what, _everyone: what
    ),
    "no near miss": Sabotage("profile/refusals", "tutti_hal.profile", "near_miss", lambda _: lambda *_: ""),
    "a plugin without a way out": Sabotage(
        "profile/plugins",
        "tutti_hal.backend",
        "_finding",
        lambda real: lambda *args: replace(real(*args), problem=real(*args).problem.partition(";")[0]),
    ),
    "undefined names that vanish": Sabotage("generate/undefined", "jinja2", "StrictUndefined", lambda _: _lenient()),
    "a lint that stops at the first": Sabotage("generate/lint", "tutti_hal.codegen.render", "lint_all", _first),
    "a lint that sees nothing": Sabotage(
        "generate/lint", "tutti_hal.codegen.render", "lint_all", lambda _: lambda *_, **__: []
    ),
    "gaps one at a time": Sabotage("generate/complete", "tutti_hal.codegen", "gaps", _first),
    "a quirk for every version": Sabotage(
        "record/quirks", "tutti_hal.record.Quirk", "applies", lambda _: lambda *_: True
    ),
    "versions as text": Sabotage(
        "record/quirks", "tutti_hal.versions", "_parts", lambda _: lambda version: version.split(".")
    ),
    "stale objects taken": Sabotage(
        "compile/stale",
        "tutti_hal.toolchain.aot.Installed",
        "usable",
        lambda _: lambda self, name, arch, _chain, _keys: self.folder / self.modules[name, arch.name]["file"],
    ),
    "a compiler that is just missing": Sabotage(
        "compile/missing_compiler",
        "tutti_hal.toolchain.compiler.Toolchain",
        "_missing",
        lambda real: lambda self, _tried: real(self, ["somewhere"]),
    ),
}  # fmt: skip


def _lenient() -> Any:
    import jinja2

    return jinja2.Undefined


@pytest.mark.parametrize("what", SABOTAGE)
def test_a_broken_core_fails_its_case(what: str, monkeypatch: Patch) -> None:
    one = SABOTAGE[what]
    target = pkgutil.resolve_name(one.place)
    monkeypatch.setattr(target, one.name, one.make(getattr(target, one.name)))
    found = verdict(one.case)
    assert found.verdict is Verdict.FAIL, (found.verdict, found.reason)


@pytest.fixture
def broken_package(tmp_path: Path, monkeypatch: Patch) -> Path:
    """A folder whose ``sitecustomize`` child processes load first, to break the core for them."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_a_cache_without_a_lock_fails_its_case(broken_package: Path) -> None:
    (broken_package / "sitecustomize.py").write_text(
        "import contextlib, tutti_hal.toolchain.cache as cache\n"
        "@contextlib.contextmanager\n"
        "def building(key):\n"
        "    place = cache.entry(key)\n"
        "    place.mkdir(parents=True, exist_ok=True)\n"
        "    yield place\n"
        "cache.building = building\n",
        encoding="utf-8",
    )
    found = verdict("compile/concurrent")
    assert found.verdict is Verdict.FAIL, (found.verdict, found.reason)


def test_selection_that_opens_a_runtime_fails_its_case(broken_package: Path) -> None:
    (broken_package / "sitecustomize.py").write_text(
        "import tutti_hal.profile as profile\n"
        "real = profile.candidates\n"
        "def candidates(*args):\n"
        "    import tutti_hal.backends.host.runtime\n"
        "    return real(*args)\n"
        "profile.candidates = candidates\n",
        encoding="utf-8",
    )
    found = verdict("profile/light")
    assert found.verdict is Verdict.FAIL, (found.verdict, found.reason)


# ---- the table of instructions, on listings written by hand ----


def test_an_arm_listing() -> None:
    arm = MACHINES[183]
    text = """
 100:\tstp\tx1, x2, [x0]
 104:\tstp\tx1, x2, [x0, #16]
 108:\tstp\tx29, x30, [sp, #-32]!
 10c:\tdmb\tish
 110:\tstr\tw3, [x4]
"""
    assert straight(arm, instructions(arm, text)) == (2, True)
    assert straight(arm, instructions(arm, text.replace("dmb\tish", "nop"))) == (2, False)


def test_a_device_listing() -> None:
    device = MACHINES[190]
    lines = ["ST.E.128.STRONG.SYS desc[UR4][R2.64], R8", "MEMBAR.SC.SYS", "ERRBAR", "@P0 STG.E.MMIO.SYS [R12], R16"]
    text = "\n".join(f"        /*{16 * index:04x}*/       {line} ;" for index, line in enumerate(lines))
    assert doorbells(device, instructions(device, text)) == [True]
    assert doorbells(device, instructions(device, text.replace("SC.SYS", "SC.GPU"))) == [False]
    swapped = (
        text.replace("MEMBAR.SC.SYS", "x").replace("ST.E.128.STRONG.SYS", "MEMBAR.SC.SYS").replace("x ;", "ST.E.128 ;")
    )
    assert doorbells(device, instructions(device, swapped)) == [False]
