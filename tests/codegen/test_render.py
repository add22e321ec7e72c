"""Rendering: deterministic, strict about names, complete or refused, and made of opaque words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.codegen.conftest import record_of
from tutti_hal.codegen import gaps, render, require_complete
from tutti_hal.codegen.sources import SourceKeys
from tutti_hal.errors import GenerationError, RecordIncomplete
from tutti_hal.paths import include_dir, templates_dir
from tutti_hal.record import Record
from tutti_hal.toolchain import Toolchain

Kernel = Callable[..., Path]


def test_an_undefined_name_is_refused_with_its_line(kernel: Kernel) -> None:
    root = kernel("tt_sleep_ns({{ nap }});")
    with pytest.raises(GenerationError, match=r"kernels/t\.cu\.j2:2: 'nap' is undefined"):
        render(record_of("host"), "threads-w32", "t", templates=root)


def test_an_undefined_name_in_a_layer_is_refused(kernel: Kernel) -> None:
    root = kernel()
    layer = root / "layers" / "vendor.h.j2"
    layer.write_text(layer.read_text().replace("{{ vendor }}", "{{ vender }}", 1))
    with pytest.raises(GenerationError, match=r"layers/vendor\.h\.j2:\d+: 'vender' is undefined"):
        render(record_of("host"), "threads-w32", "t", templates=root)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{% call kernel('t') %}", "endcall"),
        ("{% if %}", "Expected an expression"),
        ("// nothing here\n", "declares no kernel"),
        ("{% call kernel('t t') %}{% endcall %}", "not a C name"),
        ("{% call kernel('t', [('n', 'int'), ('n', 'int')]) %}{% endcall %}", "two parameters"),
        ("{% call kernel('t') %}{% endcall %}{% call kernel('t') %}{% endcall %}", "already"),
        ("{% call kernel('t', max_threads=4096) %}{% endcall %}", "allows 1024"),
        ("{{ struct('nobody') }}", "nobody"),
        ("{% if capability('wave.balot') %}{% endif %}", r"wave\.balot"),
        ("{% include 'kernels/nothing.cuh.j2' %}", r"kernels/t\.cu\.j2 includes it"),
        ("{% include name %}", "literal"),
    ],
)
def test_a_bad_template_is_refused(templates: Path, text: str, word: str) -> None:
    (templates / "kernels" / "t.cu.j2").write_text(text)
    with pytest.raises(GenerationError, match=word):
        render(record_of("host"), "threads-w32", "t", templates=templates)


def test_findings_in_an_included_part_are_reported_there(kernel: Kernel) -> None:
    root = kernel(before='{% include "kernels/part.cuh.j2" %}\n')
    (root / "kernels" / "part.cuh.j2").write_text("// fine\nTT_DEVICE void f() { asm(); }\n")
    with pytest.raises(GenerationError, match=r"kernels/part\.cuh\.j2:2: asm"):
        render(record_of("host"), "threads-w32", "t", templates=root)


def test_an_unknown_arch_and_set_are_refused() -> None:
    with pytest.raises(GenerationError, match="threads-w32"):
        render(record_of("host"), "threads-w33", "saxpy")
    with pytest.raises(GenerationError, match=r"kernels/saxpy\.cu\.j2"):
        render(record_of("host"), "threads-w32", "saxby")


def test_the_contract_header_is_one_text_for_all() -> None:
    texts = {
        render(record, arch, "saxpy").headers["cuda_like.h"]
        for record in (record_of("host"), record_of("cuda"))
        for arch in record.archs
    }
    assert len(texts) == 1


def test_every_file_carries_its_licence(record: Record) -> None:
    rendered = render(record, next(iter(record.archs)), "probe_primitives")
    for text in (rendered.source, *rendered.headers.values()):
        assert text.startswith("// SPDX-License-Identifier: GPL-2.0-only\n")


def test_what_needs_ballot_is_absent_without_it() -> None:
    record = record_of("host")
    for arch, ballot in (("threads-w32", True), ("sim-w64", True), ("threads-w128", False)):
        rendered = render(record, arch, "saxpy")
        lowerings = rendered.headers["gpu_vendor/host_primitives.cuh"]
        vendor = rendered.headers["gpu_vendor/host.h"]
        assert ("tt_wave_ballot(" in lowerings) is ballot
        assert ("tt_mask;" in vendor) is ballot
        assert f"#define TT_HAS_WAVE_BALLOT {int(ballot)}\n" in vendor
        assert "tt_wave_sync(" in lowerings


_ONE = """
import sys
from tutti_hal.codegen import render
from tutti_hal.record import load_record
from tutti_hal.paths import package_file
for vendor in ("host", "cuda"):
    record = load_record(package_file("backends", vendor))
    for arch in record.archs:
        rendered = render(record, arch, "probe_primitives")
        print(vendor, arch, rendered.sha256)
        sys.stdout.write(rendered.source)
        for name, text in rendered.headers.items():
            print(name)
            sys.stdout.write(text)
"""


def test_two_runs_with_two_hash_seeds_give_the_same_bytes() -> None:
    texts = {
        subprocess.run(
            [sys.executable, "-c", _ONE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "4711")
    }
    assert len(texts) == 1
    assert len(texts.pop()) > 100_000


def test_generation_imports_neither_numpy_nor_cffi() -> None:
    code = "import sys, tutti_hal.codegen, tutti_hal.toolchain, tutti_hal.backends.host.toolchain;"
    code += "print([m for m in ('numpy', 'cffi', 'jinja2') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_vendor_may_override_a_template_and_its_modules_have_another_key(kernel: Kernel, tmp_path: Path) -> None:
    root = kernel("tt_pause();", params="[]")
    plain = record_of("host")
    record = replace(plain, folder=tmp_path / "vendor")
    layer = tmp_path / "vendor" / "overrides" / "layers" / "unit.cu.j2"
    layer.parent.mkdir(parents=True)
    arch = record.archs["sim-w32"]
    assert render(record, arch, "t", templates=root).sha256 == render(plain, arch, "t", templates=root).sha256
    assert SourceKeys(record, root).key("t", arch, ()) == SourceKeys(plain, root).key("t", arch, ())
    layer.write_text((root / "layers" / "unit.cu.j2").read_text() + "\n// this vendor's own\n")
    assert "// this vendor's own" in render(record, arch, "t", templates=root).source
    assert SourceKeys(record, root).key("t", arch, ()) != SourceKeys(plain, root).key("t", arch, ())
    part = tmp_path / "vendor" / "overrides" / "kernels" / "t.cu.j2"
    part.parent.mkdir()
    part.write_text((root / "kernels" / "t.cu.j2").read_text().replace("tt_pause();", "asm();"))
    with pytest.raises(GenerationError, match=r"kernels/t\.cu\.j2:2: asm"):
        render(record, arch, "t", templates=root)


def test_kernel_templates_carry_their_licence() -> None:
    for path in sorted((templates_dir() / "kernels").glob("*.j2")):
        assert "SPDX-License-Identifier: GPL-2.0-only" in path.read_text().partition("\n")[0], path


# ---- completeness ----


def _without(record: Record, families: tuple[str, ...] = (), functions: tuple[str, ...] = ()) -> Record:
    primitives = MappingProxyType({k: v for k, v in record.primitives.items() if k not in families})
    absent = MappingProxyType({**record.host_api.absent, **dict.fromkeys(functions, "taken out by a test")})
    return replace(record, primitives=primitives, host_api=replace(record.host_api, absent=absent))


def test_our_records_are_complete(record: Record) -> None:
    assert gaps(record) == ()
    require_complete(record)


def test_every_gap_is_listed_in_one_go() -> None:
    from tutti_hal.spec import load_spec

    free = [f.name for f in load_spec().host_functions.values() if f.capability is None][:2]
    record = _without(record_of("host"), ("fence", "crc32c", "wave.ballot"), tuple(free))
    lines = gaps(record)
    wanted = [f"primitive fence.{scope} has no lowering on every arch" for scope in ("block", "device", "system")]
    wanted += [f"primitive crc32c.u{bits} has no lowering on every arch" for bits in (32, 64)]
    narrow = "threads-w32, threads-w64, sim-w32, sim-w64"
    wanted += [f"primitive wave.ballot has no lowering on {narrow}"]
    wanted += [f"host function {name} is not mapped" for name in free]
    assert sorted(lines) == sorted(wanted)
    with pytest.raises(RecordIncomplete) as caught:
        require_complete(record)
    assert all(line in str(caught.value) for line in wanted)


def test_an_incomplete_record_is_not_rendered() -> None:
    with pytest.raises(RecordIncomplete, match=r"barrier\.block"):
        render(_without(record_of("host"), ("barrier.block",)), "threads-w32", "saxpy")


def test_a_capability_declared_false_excuses_its_primitives() -> None:
    record = _without(record_of("host"), ("wave.ballot",))
    require_complete(record, record.archs["threads-w128"], host_functions=False)
    with pytest.raises(RecordIncomplete, match=r"wave\.ballot"):
        require_complete(record, record.archs["threads-w32"], host_functions=False)


# ---- words are opaque ----

_PLAIN = [
    "uint32_t v = *p;",
    "*p = 1u;",
    "uint32_t v = p->bits_;",
    "tt_word32 copy(*p);",
    "tt_word32 copy = p[1]; (void)copy;",
    "p[0] = p[1];",
    "if (*p == 0u) { }",
    "++*p;",
    "uint32_t *raw = p; (void)raw;",
    "uint32_t *raw = static_cast<uint32_t *>(p);",
    "uint32_t *raw = tt_address_as<uint32_t>(1u); (void)raw;",
    "TT_SHARED(uint32_t, raw, 4);",
]


def _compile(record: Record, arch: str, root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compiles past the lint: what is under test is the type."""
    from tutti_hal.codegen.render import _Renderer
    from tutti_hal.spec import load_spec

    rendered = _Renderer(record, record.archs[arch], root, load_spec()).unit("kernels/t.cu.j2")
    suffix = record.toolchain.suffix
    unit = rendered.write(folder, suffix)
    chain = Toolchain(record)
    command = [*chain.command(chain.find(), record.archs[arch], unit, folder / "out")]
    return subprocess.run([*command, f"-I{include_dir()}"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("body", _PLAIN)
def test_a_plain_access_does_not_compile_on_host(kernel: Kernel, tmp_path: Path, body: str) -> None:
    done = _compile(record_of("host"), "threads-w32", kernel(body), tmp_path / "out")
    assert done.returncode != 0
    assert "error:" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("body", _PLAIN)
def test_a_plain_access_does_not_compile_with_nvcc(kernel: Kernel, tmp_path: Path, body: str) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc: install the CUDA toolkit")
    done = _compile(record_of("cuda"), "sm_90", kernel(body), tmp_path / "out")
    assert done.returncode != 0
    assert "error" in done.stderr


def test_the_same_through_primitives_compiles(kernel: Kernel, tmp_path: Path) -> None:
    body = "TT_SHARED(tt_word32, s, 4);\ntt_store_release_sys_u32(p, tt_load_relaxed_dev_u32(s));"
    done = _compile(record_of("host"), "threads-w32", kernel(body), tmp_path / "out")
    assert done.returncode == 0, done.stderr


def test_a_struct_with_words_cannot_be_copied(kernel: Kernel, tmp_path: Path) -> None:
    before = "{{ struct('pair') }}\n\n"
    for body, fine in (("pair copy = *p; (void)copy;", False), ("(void)tt_load_relaxed_dev_u32(&p->a);", True)):
        root = kernel(body, before, '[("p", "pair *")]')
        (root / "structs" / "t.yaml").write_text("structs: {pair: {fields: [[a, word32], [b, u32]]}}\n")
        done = _compile(record_of("host"), "sim-w32", root, tmp_path / str(fine))
        assert (done.returncode == 0) is fine, done.stderr


# ---- keys ----


def test_a_key_changes_with_each_input_and_with_nothing_else(kernel: Kernel) -> None:
    record = record_of("host")
    arch = record.archs["sim-w32"]
    root = kernel(before='{% include "kernels/part.cuh.j2" %}\n')
    (root / "kernels" / "part.cuh.j2").write_text("// one\n")
    (root / "kernels" / "other.cu.j2").write_text("// not reached\n")

    def key(flags: tuple[str, ...] = ("-O2",), compiler: str = "a", which: str = "sim-w32") -> str:
        return SourceKeys(record, root).key("t", record.archs[which], flags, compiler)

    first = key()
    assert key() == first
    seen = {first, key(flags=("-O3",)), key(compiler="b"), key(which="sim-w64"), key(flags=(), compiler="-O2")}
    assert len(seen) == 5
    for name in ("kernels/part.cuh.j2", "kernels/t.cu.j2", "layers/vendor.h.j2"):
        before = key()
        (root / name).write_text((root / name).read_text() + "// more\n")
        assert key() != before
    before = key()
    (root / "kernels" / "other.cu.j2").write_text("// still not reached\n")
    assert key() == before
    (root / "structs" / "s.yaml").write_text("structs: {pair: {fields: [[a, u32]]}}\n")
    assert key() != before
    assert arch.name == "sim-w32"
