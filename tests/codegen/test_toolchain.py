"""Compilers and the cache: what is missing is said, what is built is built once, what is damaged is not believed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codegen.conftest import record_of
from tutti_hal.errors import BuildError, CacheUnwritable, CompilerMissing, GenerationError
from tutti_hal.paths import templates_dir
from tutti_hal.profile import Profile, resolve
from tutti_hal.toolchain import Toolchain, build, build_all, cache, toolchain_of

Kernel = Callable[..., Path]


def test_a_module_is_compiled_once_then_cached(host: Profile, cache_dir: Path) -> None:
    first = build(host, "saxpy")
    second = build(host, "saxpy")
    assert (first.origin, second.origin) == ("compiled", "cached")
    assert replace(first, origin="", seconds=0.0) == replace(second, origin="", seconds=0.0)
    assert first.path.is_file()
    assert cache_dir in first.path.parents
    assert first.compiler
    assert [kernel.name for kernel in first.kernels] == ["saxpy"]
    assert [param.ctype for param in first.kernels[0].params] == ["uint64_t", "float", "const float *", "float *"]
    assert not [p for p in cache_dir.rglob(".*") if p.is_dir()], "a scratch folder was left behind"


def test_what_a_build_declares_is_what_a_module_is_loaded_with(host: Profile, cache_dir: Path, kernel: Kernel) -> None:
    params = '[("p", "tt_word32 *"), ("n", "uint16_t"), ("a", "double"), ("i", "int8_t")]'
    built = build(host, "t", templates=kernel("tt_store_relaxed_dev_u32(p, n + uint32_t(a) + i);", params=params))
    (declared,) = built.declared.values()
    assert [(one.name, one.nbytes) for one in declared] == [("p", 8), ("n", 2), ("a", 8), ("i", 1)]
    assert cache_dir.is_dir()


def test_archs_and_edited_templates_have_modules_of_their_own(host: Profile, cache_dir: Path, kernel: Kernel) -> None:
    root = kernel("tt_pause();", params="[]")
    built = [build(host, "t", templates=root), build(host, "t", arch="sim-w64", templates=root)]
    built += [build(host, "t", templates=kernel("tt_pause();\ntt_pause();", params="[]"))]
    built += [build(host, "t", templates=kernel("tt_pause();", params="[]"))]
    assert [one.origin for one in built] == ["compiled", "compiled", "compiled", "cached"]
    assert len({one.path for one in built}) == 3
    assert cache_dir.is_dir()


def _cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@pytest.mark.slow
def test_all_host_kernels_cold_and_warm(cache_dir: Path, host: Profile) -> None:
    """20 s cold on two cores, 50 ms warm. In CPU time, so that a busy machine does not decide; the best of three."""
    began = _cpu_seconds()
    build_all(host)
    assert _cpu_seconds() - began <= 2 * 20
    warm = []
    for _ in range(3):
        began = _cpu_seconds()
        assert {one.origin for one in build_all(host)} == {"cached"}
        warm.append(_cpu_seconds() - began)
    assert min(warm) <= 0.05
    assert cache_dir.is_dir()


# ---- compilers ----


@pytest.mark.parametrize("named", ["/nowhere/g++", "no-such-compiler -O2"])
def test_a_compiler_that_a_variable_names_and_that_is_not_there(
    host: Profile, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("TUTTI_HOST_CXX", named)
    with pytest.raises(CompilerMissing) as caught:
        build(host, "saxpy")
    assert f"TUTTI_HOST_CXX={named}" in caught.value.found
    assert "apt-get install g++" in caught.value.fix
    assert not cache_dir.exists()


def test_no_compiler_anywhere(host: Profile, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CompilerMissing, match=r"g\+\+ on PATH.*clang\+\+ on PATH"):
        build(host, "saxpy")
    assert not cache_dir.exists()


def test_a_cached_module_needs_the_compiler_it_was_made_by(
    host: Profile, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = build(host, "saxpy")
    other = tmp_path / "my-g++"
    other.write_text('#!/bin/sh\nexec g++ "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("TUTTI_HOST_CXX", str(other))
    second = build(host, "saxpy")
    assert second.origin == "compiled"
    assert second.path != first.path
    other.write_text('#!/bin/sh\nexec g++  "$@"\n')
    assert build(host, "saxpy").origin == "compiled"
    assert cache_dir.is_dir()


def test_a_variable_may_hold_a_launcher_and_flags(
    host: Profile, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launcher = tmp_path / "launch"
    launcher.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("TUTTI_HOST_CXX", f"{launcher} g++ -DOF_MY_OWN=1")
    built = build(host, "saxpy")
    assert built.compiler.endswith(_gcc_version())
    calls = (tmp_path / "calls").read_text().splitlines()
    assert any(call.startswith("g++ -DOF_MY_OWN=1 -std=c++20") for call in calls)
    monkeypatch.setenv("TUTTI_HOST_CXX", f"{launcher} g++ -DOF_MY_OWN=2")
    assert build(host, "saxpy").origin == "compiled"
    assert cache_dir.is_dir()


def _gcc_version() -> str:
    return subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()


def test_the_sdk_roots_are_searched_after_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = record_of("cuda")
    for variable in (*record.toolchain.driver_env, "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "sdk"))
    record = replace(record, sdk=replace(record.sdk, default=()))
    with pytest.raises(CompilerMissing, match="sdk/bin/nvcc"):
        Toolchain(record).find()
    driver = tmp_path / "sdk" / "bin" / "nvcc"
    driver.parent.mkdir(parents=True)
    driver.write_text("#!/bin/sh\n")
    driver.chmod(0o755)
    assert Toolchain(record).find().path == driver


def test_what_the_compiler_refuses_is_shown_with_its_command(host: Profile, cache_dir: Path, kernel: Kernel) -> None:
    root = kernel("this_is_no_function(1);")
    with pytest.raises(BuildError) as caught:
        build(host, "t", templates=root)
    assert "this_is_no_function" in caught.value.found
    assert "g++" in caught.value.fix
    assert [path.suffix for path in cache_dir.rglob("*") if path.is_file()] == [".lock"], "a failed build left files"


def test_a_compiler_that_states_no_version(
    host: Profile, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    odd = tmp_path / "odd"
    odd.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo none; exit 0; }\nexec g++ "$@"\n')
    odd.chmod(0o755)
    monkeypatch.setenv("TUTTI_HOST_CXX", str(odd))
    with pytest.raises(BuildError, match="version"):
        build(host, "saxpy")
    assert cache_dir.is_dir()


def test_stack_use_is_measured(host: Profile, cache_dir: Path, kernel: Kernel) -> None:
    body = "uint32_t big[512];\nfor (uint32_t i = 0; i < 512u; ++i) { big[i] = tt_load_relaxed_dev_u32(p + i); }\n"
    body += "tt_pause();\nfor (uint32_t i = 0; i < 512u; ++i) { tt_store_relaxed_dev_u32(p + i, big[i]); }"
    built = build(host, "t", templates=kernel(body))
    assert built.resources[0].local_bytes is not None
    assert built.resources[0].local_bytes >= 2048
    assert built.resources[0].registers is None
    assert cache_dir.is_dir()


def test_the_host_listing_names_the_kernel(host: Profile, cache_dir: Path) -> None:
    text = toolchain_of(host).listing(build(host, "saxpy").path)
    assert "<tt_module_bind>:" in text
    assert cache_dir.is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cuda_compiles_every_set_and_states_resources(cuda: Profile, cache_dir: Path, arch: str) -> None:
    for built in build_all(cuda, archs=[arch]):
        assert built.path.read_bytes()[:4] == b"\x7fELF"
        for need in built.resources:
            assert need.registers
            assert need.spill_bytes == 0, f"{need.kernel} spills"
        shared = {need.kernel: need.shared_bytes for need in built.resources}
        if built.kernel_set == "probe_primitives":
            assert shared["probe_block"] == 256 * 4 + 8
            assert shared["probe_mmio"] == 0
    assert cache_dir.is_dir()


def _doorbell_comes_last(listing: str) -> bool:
    """In `probe_mmio`: one store of what was seen, a full system fence, the one store to the device, in that order."""
    kernel = listing.partition(".text.probe_mmio:")[2].partition(".section")[0]
    names = re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\d+ )?([A-Z][\w.]+)", kernel)
    order = [name for name in names if re.match(r"STG?\.E|MEMBAR", name)]
    return (
        len(order) == 3
        and re.fullmatch(r"STG?\.E\.STRONG\.SYS", order[0]) is not None
        and order[1:] == ["MEMBAR.SC.SYS", "STG.E.MMIO.SYS"]
    )


@pytest.mark.slow
@pytest.mark.sass
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_doorbell_store_comes_after_the_system_fence(
    cuda: Profile, cache_dir: Path, tmp_path: Path, arch: str
) -> None:
    chain = toolchain_of(cuda)
    good = build(cuda, "probe_primitives", arch=arch)
    try:
        listing = chain.listing(good.path)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    assert _doorbell_comes_last(listing)
    templates = Path(shutil.copytree(templates_dir(), tmp_path / "templates"))
    unit = templates / "kernels" / "probe_primitives.cu.j2"
    text = unit.read_text()
    for sane, mutant in (
        ("tt_fence_system();\ntt_mmio_store_u32(reg, value);", "tt_mmio_store_u32(reg, value);"),
        ("tt_fence_system();\ntt_mmio", "tt_fence_device();\ntt_mmio"),
        (
            "tt_fence_system();\ntt_mmio_store_u32(reg, value);",
            "tt_mmio_store_u32(reg, value);\ntt_fence_system();",
        ),
    ):
        assert sane in text
        unit.write_text(text.replace(sane, mutant))
        broken = build(cuda, "probe_primitives", arch=arch, templates=templates)
        assert not _doorbell_comes_last(chain.listing(broken.path)), mutant
    assert cache_dir.is_dir()


# ---- the cache's folder ----


def test_the_folder_follows_the_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "named"))
    assert cache.folder() == tmp_path / "named"
    monkeypatch.delenv("TUTTI_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "tutti-hal"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "tutti-hal"


def test_a_file_in_the_way_is_named(host: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(CacheUnwritable) as caught:
        build(host, "saxpy")
    assert str(tmp_path / "file" / "cache") in caught.value.tried
    assert "TUTTI_CACHE_DIR" in caught.value.fix


_BUILD = "from tutti_hal.profile import resolve; from tutti_hal.toolchain import build;"
_BUILD += "print(build(resolve('host'), 'saxpy').origin)"


_AS_NOBODY = """
import os, sys
from tutti_hal.errors import CacheUnwritable
from tutti_hal.profile import resolve
from tutti_hal.toolchain import build
# Everything is imported first: nobody may not be allowed to read the interpreter's own files.
wanted = os.environ["TUTTI_CACHE_DIR"]
os.environ["TUTTI_CACHE_DIR"] = sys.argv[1]
build(resolve("host"), "saxpy")
os.environ["TUTTI_CACHE_DIR"] = wanted
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    print(build(resolve("host"), "saxpy").origin)
except CacheUnwritable as error:
    print(error)
"""


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that everybody may enter; pytest takes such rights from its own at every start, also of another run."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        monkeypatch.setenv("TUTTI_CACHE_DIR", str(folder / "cache"))
        yield folder


def test_a_read_only_folder_is_named_and_still_read(open_folder: Path) -> None:
    """By a child that gives up root's rights, for root may write anywhere."""
    if os.geteuid() == 0 and not all(parent.stat().st_mode & 0o001 for parent in templates_dir().resolve().parents):
        pytest.skip("the repository lies in a folder that only root may enter, so nobody else can read the templates")
    cache_dir = open_folder / "cache"
    cache_dir.mkdir(mode=0o755)
    if os.geteuid() != 0:
        cache_dir.chmod(0o555)
    command = [sys.executable, "-c", _AS_NOBODY, str(open_folder / "other")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[TT-CACHE-UNWRITABLE]"), done.stdout
    assert str(cache_dir) in done.stdout
    assert "TUTTI_CACHE_DIR" in done.stdout
    # What is there already is used, and nothing is written for it.
    cache_dir.chmod(0o755)
    build(resolve("host"), "saxpy")
    if os.geteuid() != 0:
        cache_dir.chmod(0o555)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "cached"


def test_a_damaged_entry_is_not_believed(host: Profile, cache_dir: Path) -> None:
    first = build(host, "saxpy")
    description = first.path.parent / "build.json"
    good = description.read_text()
    for bad in ("", "{}", "[]", good[:-40], json.dumps({**json.loads(good), "file": "other.so"})):
        description.write_text(bad)
        with pytest.raises(BuildError, match="damaged"):
            build(host, "saxpy")
    description.write_text(good)
    assert build(host, "saxpy").origin == "cached"
    assert cache_dir.is_dir()


# ---- two builders ----


def test_two_processes_at_once_build_once(cache_dir: Path) -> None:
    children = [subprocess.Popen([sys.executable, "-c", _BUILD], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    origins = sorted(child.communicate(timeout=60)[0].strip() for child in children)
    assert origins == ["cached", "cached", "compiled"]
    assert cache_dir.is_dir()


def test_threads_of_one_process_build_once(host: Profile, cache_dir: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        origins = sorted(one.origin for one in pool.map(lambda _: build(host, "saxpy"), range(4)))
    assert origins == ["cached"] * 3 + ["compiled"]
    assert cache_dir.is_dir()


def test_the_lock_of_a_dead_builder_holds_nobody_up(cache_dir: Path) -> None:
    key = "ab" * 32
    holder = (
        "import time; from tutti_hal.toolchain import cache;"
        f"context = cache.building({key!r}); context.__enter__();"
        "print('held', flush=True); time.sleep(600)"
    )
    lock = cache.entry(key).with_suffix(".lock")
    with subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "held"
        with lock.open("rb") as probe, pytest.raises(BlockingIOError):
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        child.send_signal(signal.SIGKILL)
    assert lock.is_file(), "the file stays; only the lock is gone"
    began = time.monotonic()
    with cache.building(key) as folder:
        assert folder is not None
        (folder / "made").write_text("")
    assert time.monotonic() - began < 5
    assert (cache.entry(key) / "made").is_file()
    assert cache_dir.is_dir()


def test_a_full_disk_is_said_and_other_errors_pass(cache_dir: Path) -> None:
    def fail(error: OSError) -> None:
        with cache.building("ef" * 32) as folder:
            assert folder is not None
            (folder / "half").write_text("")
            raise error

    with pytest.raises(CacheUnwritable, match="No space left"):
        fail(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(FileNotFoundError):
        fail(FileNotFoundError(errno.ENOENT, "gone", "/somewhere/else"))
    assert not cache.entry("ef" * 32).exists()
    assert not [path for path in cache_dir.rglob(".*") if path.is_dir()]


def test_a_builder_that_fails_leaves_the_key_free(cache_dir: Path) -> None:
    key = "cd" * 32

    def fail() -> None:
        with cache.building(key) as folder:
            assert folder is not None
            (folder / "half").write_text("")
            raise GenerationError("a", "b", "c")

    with pytest.raises(GenerationError):
        fail()
    assert not cache.entry(key).exists()
    with cache.building(key) as folder:
        assert folder is not None
        assert list(folder.iterdir()) == []
    assert cache_dir.is_dir()


def test_resolve_gives_what_build_takes() -> None:
    assert build(resolve("host:threads-w64"), "saxpy").arch == "threads-w64"
