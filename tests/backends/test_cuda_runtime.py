"""What CUDA's runtime layer does on its own account, without a device."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tutti_hal.backends.cuda.runtime import CudaRuntime, _cut_off
from tutti_hal.errors import NotSupported, RuntimeFailure
from tutti_hal.paths import package_file
from tutti_hal.record import load_record
from tutti_hal.shim.ffi import CRuntime, HostCalls


def test_a_whole_elf_file_is_not_cut_off() -> None:
    assert not _cut_off(Path(sys.executable).resolve())


@pytest.mark.parametrize("part", [0.001, 0.3, 0.9, 0.999])
def test_a_part_of_one_is(tmp_path: Path, part: float) -> None:
    image = Path(sys.executable).resolve().read_bytes()
    file = tmp_path / "part"
    file.write_bytes(image[: int(len(image) * part)])
    assert _cut_off(file)


def test_what_is_no_elf_file_is_left_to_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b".version 8.0 of something")
    assert not _cut_off(file)
    assert not _cut_off(tmp_path / "none")


# ---- the batched copy, on libraries made up for it ----

#: A runtime that copies at once, and fails unless everything is as CUDA's header says.
MADE_UP = """
#include <stddef.h>
#include <string.h>
struct location { int type; int id; };
struct attributes { int order; struct location source, destination; unsigned flags; };
int cudaRuntimeGetVersion(int *version) { *version = VERSION; return 0; }
const char *cudaGetErrorString(int error) { (void)error; return "made up"; }
int cudaMemcpyBatchAsync(void **to, void **from, size_t *sizes, size_t count, struct attributes *attributes,
                         size_t *first, size_t groups, INDEX void *stream) {
    if (groups != 1 || first[0] != 0 || attributes->order != 1 || attributes->flags || stream != (void *)0x5150)
        return 1;
    for (size_t i = 0; i < count; ++i)
        memcpy(to[i], from[i], sizes[i]);
    return 0;
}
"""


class MadeUpRuntime(CudaRuntime):
    """Of a library without the rest of CUDA's."""

    def __init__(self, library: Path) -> None:
        CRuntime.__init__(self, load_record(package_file("backends", "cuda")), [library])


def made_up(folder: Path, version: int) -> MadeUpRuntime:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the made-up library cannot be made")
    source, library = folder / "runtime.c", folder / f"libcudart-{version}.so"
    source.write_text(MADE_UP, encoding="utf-8")
    index = "size_t *failed," if version < 13000 else ""
    defines = (f"-DVERSION={version}", f"-DINDEX={index}")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, *defines, source], check=True, timeout=60)
    return MadeUpRuntime(library)


@pytest.mark.parametrize("version", [12080, 12090, 13000, 13010])
def test_a_batch_of_copies_is_one_call_of_either_signature(tmp_path: Path, version: int) -> None:
    runtime, counts = made_up(tmp_path, version), HostCalls()
    source = np.random.default_rng(1).integers(0, 256, 64, np.uint8)
    destination = np.zeros(64, np.uint8)
    at = np.array([0, 8, 40], np.uint64)
    sizes = np.array([3, 32, 24], np.uint64)
    stream = runtime.ffi.cast("Stream", 0x5150)
    to, since = (np.uint64(array.ctypes.data) for array in (destination, source))
    move = runtime.batched_copy(counts, stream, at + to, at + since, sizes)
    assert not destination.any()
    move()
    wanted = np.zeros(64, np.uint8)
    for begin, size in ((0, 3), (8, 32), (40, 24)):
        wanted[begin : begin + size] = source[begin : begin + size]
    assert destination.tolist() == wanted.tolist()
    assert counts["MemcpyBatchAsync"] == 1


def test_a_batch_that_is_refused_raises(tmp_path: Path) -> None:
    runtime = made_up(tmp_path, 13000)
    none = np.zeros(1, np.uint64)
    move = runtime.batched_copy(HostCalls(), runtime.ffi.cast("Stream", 0), none, none, none)
    with pytest.raises(RuntimeFailure, match="MemcpyBatchAsync"):
        move()


def test_a_runtime_from_before_it_says_so(tmp_path: Path) -> None:
    runtime = made_up(tmp_path, 12060)
    none = np.zeros(1, np.uint64)
    with pytest.raises(NotSupported, match=r"the runtime is 12\.6, cudaMemcpyBatchAsync came with 12\.8"):
        runtime.batched_copy(HostCalls(), runtime.ffi.cast("Stream", 1), none, none, none)
