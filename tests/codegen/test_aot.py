"""A profile pinned at install: objects in the wheel, what makes them stale, and builds that must fail or go on."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.codegen.conftest import record_of
from tutti_hal.errors import BuildError
from tutti_hal.profile import resolve
from tutti_hal.toolchain import aot, toolchain_of
from tutti_hal.toolchain.aot import compare, installed, write

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "cmake" / "aot.py"


def _script(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **environ}
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


# ---- the script that CMake runs ----


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("cude", "did you mean 'cuda'"),
        ("cuda:sm_91", "did you mean 'sm_90'"),
        ("Host", "vendor[:arch[@sdk]]"),
        ("nobody", "Name one of: cuda, hip, host, maca, musa"),
    ],
)
def test_a_wrong_name_fails_with_the_near_miss(name: str, word: str) -> None:
    done = _script("check", name)
    assert done.returncode == 1
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_compiler_pins_and_says_why(tmp_path: Path) -> None:
    done = _script("build", "cuda", str(tmp_path), CUDACXX="/nowhere/nvcc", TUTTI_CUDA_NVCC="/nowhere/nvcc")
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "pinned.json").read_text())
    assert (table["profile"], table["aot"]) == ("cuda", None)
    assert "/nowhere/nvcc" in table["why_no_aot"]
    assert "CUDA toolkit" in table["why_no_aot"]
    assert "nothing is built ahead of time" in done.stderr
    assert not (tmp_path / "aot").exists()


def test_another_sdk_than_the_one_asked_for_builds_nothing(tmp_path: Path) -> None:
    sdk = tmp_path / "nvcc"
    sdk.write_text("#!/bin/sh\necho Cuda compilation tools, release 12.4, V12.4.1\n")
    sdk.chmod(0o755)
    done = _script("build", "cuda:sm_90@13.0", str(tmp_path / "out"), TUTTI_CUDA_NVCC=str(sdk))
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "out" / "pinned.json").read_text())
    assert table["aot"] is None
    assert "nvcc 12.4 was found, not 13.0" in table["why_no_aot"]


def test_a_kernel_that_does_not_compile_fails_the_build(tmp_path: Path) -> None:
    broken = tmp_path / "c++"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo c++ 1.0; exit 0; }\necho no such thing >&2; exit 1\n')
    broken.chmod(0o755)
    done = _script("build", "host", str(tmp_path / "out"), TUTTI_HOST_CXX=str(broken))
    assert done.returncode == 1
    assert "no such thing" in done.stderr
    assert not (tmp_path / "out" / "pinned.json").exists()


# ---- fresh and stale ----


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pinning `host` builds."""
    out = tmp_path_factory.mktemp("pin")
    done = _script("build", "host", str(out))
    assert done.returncode == 0, done.stderr
    table = json.loads((out / "pinned.json").read_text())
    assert table["aot"]["archs"] == ["threads-w32"]
    assert table["why_no_aot"] is None
    return out / "aot" / "host"


def _compare(folder: Path, templates: Path | None = None) -> aot.AotState:
    found = installed("host", folder)
    assert found is not None
    return compare("host", found, toolchain_of(resolve("host")), templates)


def _templates(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "kernels_templates", tmp_path / "templates"))


def test_a_source_tree_and_an_install_agree_on_what_is_fresh(objects: Path) -> None:
    state = _compare(objects)
    assert state.stale == ()
    assert "saxpy on threads-w32" in state.fresh
    assert state.summary.startswith("AOT fresh: ")
    modules = json.loads((objects / "manifest.json").read_text())["modules"]
    assert {module["kernel_set"] for module in modules} == {one.partition(" ")[0] for one in state.fresh}
    assert all((objects / module["file"]).read_bytes()[:4] == b"\x7fELF" for module in modules)


def test_an_edited_template_makes_its_own_set_stale(objects: Path, tmp_path: Path) -> None:
    templates = _templates(tmp_path)
    assert _compare(objects, templates).stale == ()
    unit = templates / "kernels" / "saxpy.cu.j2"
    unit.write_text(unit.read_text().replace("a * x", "x * a"))
    state = _compare(objects, templates)
    assert len(state.stale) == 1
    assert "kernels_templates/kernels/saxpy.cu.j2" in state.stale[0]
    assert "stale AOT refused" in state.summary
    assert "saxpy on threads-w32" not in state.fresh
    assert "probe_primitives on threads-w32" in state.fresh


def test_an_edited_layer_makes_all_stale_and_a_new_set_is_not_there(objects: Path, tmp_path: Path) -> None:
    templates = _templates(tmp_path)
    shutil.copy(templates / "kernels" / "saxpy.cu.j2", templates / "kernels" / "another.cu.j2")
    assert _compare(objects, templates).stale == ("nothing was built at install for another on host:threads-w32",)
    layer = templates / "layers" / "unit.cu.j2"
    layer.write_text(layer.read_text() + "// more\n")
    assert _compare(objects, templates).fresh == ()


def test_a_lost_object_and_a_damaged_manifest_are_said(objects: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(objects, tmp_path / "objects"))
    (copy / "threads-w32" / "saxpy.so").unlink()
    assert _compare(copy).stale == ("what was built at install for saxpy on host:threads-w32 is gone",)
    manifest = copy / "manifest.json"
    good = json.loads(manifest.read_text())
    for bad in ({}, {**good, "format": 2}, {**good, "modules": [{}]}):
        manifest.write_text(json.dumps(bad))
        with pytest.raises(BuildError, match="damaged"):
            installed("host", copy)
    manifest.unlink()
    assert installed("host", copy) is None


def test_build_takes_a_fresh_object_and_refuses_a_stale_one(
    objects: Path, tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tutti_hal.toolchain import build
    from tutti_hal.toolchain import build as _  # noqa: F401

    copy = Path(shutil.copytree(objects, tmp_path / "objects"))
    real = installed
    monkeypatch.setattr(aot, "installed", lambda vendor: real(vendor, copy))
    fresh = build(resolve("host"), "saxpy")
    assert (fresh.origin, fresh.note) == ("aot", "")
    assert fresh.path == copy / "threads-w32" / "saxpy.so"
    assert not cache_dir.exists(), "nothing had to be compiled"
    manifest = copy / "manifest.json"
    table = json.loads(manifest.read_text())
    for module in table["modules"]:
        module["key"] = "0" * 64
        module["inputs"]["record.py"] = "0" * 64
    manifest.write_text(json.dumps(table))
    stale = build(resolve("host"), "saxpy")
    assert stale.origin == "compiled"
    assert "stale" in stale.note
    assert "record.py" in stale.note
    other = build(resolve("host:sim-w32"), "saxpy")
    assert other.note == "nothing was built at install for saxpy on host:sim-w32"


def test_writing_is_repeatable(tmp_path: Path) -> None:
    record = record_of("host")
    chain = toolchain_of(resolve("host"))
    archs = (record.archs["sim-w32"],)
    templates = _templates(tmp_path)
    for name in ("ring", "probe_primitives"):
        (templates / "kernels" / f"{name}.cu.j2").unlink()
    tables = [write(tmp_path / str(i), chain, archs, templates, jobs=1) for i in range(2)]
    assert tables[0] == tables[1]


# ---- the wheel ----


def _tree(target: Path) -> Path:
    """What an sdist holds, as far as a wheel needs it; of the native library the smallest part that still builds."""
    skip = shutil.ignore_patterns("__pycache__", "build", ".venv")
    for name in ("native", "cmake", "tutti_hal", "backends", "kernels_templates", "conformance_tests", "LICENSES"):
        shutil.copytree(ROOT / name, target / name, ignore=skip)
    for part in (target / "native").glob("*/CMakeLists.txt"):
        part.unlink()
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target / name)
    return target


def _wheel(tree: Path, out: Path, profile: str | None) -> Path:
    isolated = [] if importlib.util.find_spec("scikit_build_core") else None
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--disable-pip-version-check"]
    command += ["--no-build-isolation"] if isolated is not None else []
    command += ["-w", str(out)]
    command += [f"--config-settings=cmake.define.TUTTI_PROFILE={profile}"] if profile else []
    done = subprocess.run([*command, str(tree)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    (wheel,) = out.glob("*.whl")
    return wheel


_STATE = """
import json, sys, tutti_hal
from dataclasses import asdict
from tutti_hal.toolchain import aot_state, build
from tutti_hal.profile import resolve
assert tutti_hal.__file__.startswith(sys.argv[1]), tutti_hal.__file__
state = aot_state()
one = build(resolve("cuda:sm_90"), "saxpy")
print(json.dumps({"state": asdict(state), "summary": state.summary, "origin": one.origin, "note": one.note}))
"""


def _state(site: Path, cache: Path) -> dict[str, Any]:
    """What a package unpacked from a wheel says, with the editable install of this tree out of the way."""
    code = "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in type(f).__module__];"
    code += "sys.path.insert(0, sys.argv[1])\n" + _STATE
    environment = {**os.environ, "TUTTI_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(site)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_wheel_pinned_to_cuda(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc: install the CUDA toolkit")
    tree = _tree(tmp_path / "tree")
    with pytest.raises(RuntimeError, match="did you mean 'cuda'"):
        _wheel(tree, tmp_path / "bad", "cude")
    wheel = _wheel(tree, tmp_path / "pinned", "cuda")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(site)
    for arch in ("sm_80", "sm_90"):
        assert f"tutti_hal/aot/cuda/{arch}/saxpy.cubin" in names
        assert (site / f"tutti_hal/aot/cuda/{arch}/saxpy.cubin").read_bytes()[:4] == b"\x7fELF"
    assert [name for name in names if name.endswith(".dist-info/tutti_pinned.json")]
    assert json.loads((site / "tutti_hal" / "pinned.json").read_text())["aot"]["archs"] == ["sm_80", "sm_90"]

    first = _state(site, tmp_path / "cache")
    assert (first["state"]["profile"], first["state"]["stale"]) == ("cuda", [])
    assert (first["origin"], first["note"]) == ("aot", "")

    unit = site / "tutti_hal" / "kernels_templates" / "kernels" / "saxpy.cu.j2"
    unit.write_text(unit.read_text().replace("a * x[i] + y[i]", "y[i] + a * x[i]"))
    second = _state(site, tmp_path / "cache")
    assert "saxpy.cu.j2" in second["summary"]
    assert "stale" in second["summary"]
    assert second["origin"] == "compiled"
    assert "stale" in second["note"]

    # A plain install from the same tree, with its build folder still there, is not pinned.
    plain = _wheel(tree, tmp_path / "plain", None)
    with zipfile.ZipFile(plain) as archive:
        assert not [name for name in archive.namelist() if "pinned.json" in name or "/aot/" in name]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_wheel_pinned_to_one_arch_of_hip(tmp_path: Path) -> None:
    """Code objects of that GPU, by what their headers say: the machine, and in its flags the processor."""
    if shutil.which("clang++-19") is None or shutil.which("ld.lld-19") is None:
        pytest.skip("needs clang-19 and lld-19")
    wheel = _wheel(_tree(tmp_path / "tree"), tmp_path / "pinned", "hip:gfx942")
    with zipfile.ZipFile(wheel) as archive:
        pinned = json.loads(archive.read("tutti_hal/pinned.json"))
        objects = {name: archive.read(name) for name in archive.namelist() if name.endswith(".hsaco")}
    assert pinned["aot"]["archs"] == ["gfx942"]
    assert {"ring", "store", "device_controller"} <= {Path(name).stem for name in objects}
    for name, image in objects.items():
        assert name.startswith("tutti_hal/aot/hip/gfx942/")
        assert image[:5] == b"\x7fELF\x02"
        machine, flags = int.from_bytes(image[18:20], "little"), int.from_bytes(image[48:52], "little")
        assert (machine, flags & 0xFF) == (224, 0x4C), name
