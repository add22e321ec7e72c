"""Figures of the HOST engine: lane switches, scheduling steps, memory of many live lanes. Prints JSON.

Each figure stands beside a baseline measured in the same run: a switch of glibc's ``swapcontext``, and the same loop of
plain function calls. Rates are per second of CPU time, so that other load on the machine does not count.

    python benchmarks/bench_engine.py [--seconds 1.0]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tutti_hal.machine import benchmark_facts
from tutti_hal.native import ffi_and_library
from tutti_hal.paths import include_dir

THREADS, SIM = 0, 1

KERNELS = r"""
#include "tutti/host_device.h"

static void switches(void **args) {
    const uint32_t rounds = *static_cast<uint32_t *>(args[0]);
    for (uint32_t i = 0; i < rounds; ++i)
        tt_host_pause();
}
/* A ring's mix: two loads, a store, an atomic, a fence now and then. */
static void steps(void **args) {
    const uint32_t rounds = *static_cast<uint32_t *>(args[0]);
    uint32_t *words = *static_cast<uint32_t **>(args[1]);
    const uint32_t me = tt_host_block_index_x() * tt_host_block_size_x() + tt_host_thread_index_x();
    for (uint32_t i = 0; i < rounds; ++i) {
        tt_host_load_acquire_dev_u32(words + (me + i) % 512);
        tt_host_store_relaxed_dev_u32(words + me % 512, i);
        tt_host_load_relaxed_dev_u32(words + (me * 7 + i) % 512);
        tt_host_atomic_add_dev_u32(words + 600, 1);
        if (i % 8 == 0)
            tt_host_fence_device();
    }
}
static void wait_all(void **args) {
    uint32_t *arrived = *static_cast<uint32_t **>(args[0]);
    const uint32_t all = tt_host_grid_size_x() * tt_host_block_size_x();
    tt_host_atomic_add_dev_u32(arrived, 1);
    while (tt_host_load_relaxed_dev_u32(arrived) != all)
        tt_host_pause();
}
static const uint32_t sizes[] = {4, 8};
static const uint32_t pointer_sizes[] = {8};
static const tt_kernel_desc kernels[] = {
    {"switches", switches, 1, 0, sizes, nullptr},
    {"steps", steps, 2, 0, sizes, nullptr},
    {"wait_all", wait_all, 1, 0, pointer_sizes, nullptr},
};
static const tt_module_desc module = {TT_ABI_VERSION, TT_HOST_MODE, TT_WAVE_WIDTH, 3, kernels, "bench"};
extern "C" TT_EXPORT const tt_module_desc *tt_module_describe(void) { return &module; }
extern "C" TT_EXPORT void tt_module_bind(const tt_device_api *api) { tt_host_bind(api); }
"""

BASELINE = r"""
#include <ucontext.h>
#include <vector>
static ucontext_t back, there;
static volatile bool run = true;
static void body() { while (run) swapcontext(&there, &back); }
extern "C" void swapcontext_pairs(unsigned n) {
    std::vector<char> stack(65536);
    getcontext(&there);
    there.uc_stack.ss_sp = stack.data();
    there.uc_stack.ss_size = stack.size();
    makecontext(&there, body, 0);
    for (unsigned i = 0; i < n; ++i) swapcontext(&back, &there);
}
__attribute__((noinline)) static unsigned call(unsigned i) { __asm__ volatile("" : "+r"(i)); return i; }
extern "C" unsigned plain_calls(unsigned n) {
    unsigned sum = 0;
    for (unsigned i = 0; i < n; ++i) sum += call(i);
    return sum;
}
"""


def compile_library(folder: Path, name: str, source: str, *flags: str) -> ctypes.CDLL:
    """Compile one source text to a shared library and load it."""
    path = folder / f"{name}.cpp"
    path.write_text(source)
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise SystemExit("bench_engine: no C++ compiler found; install g++ or set CXX")
    out = folder / f"{name}.so"
    command = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", *flags, str(path), "-o", str(out)]
    subprocess.run([*command, "-I", str(include_dir())], check=True)
    return ctypes.CDLL(str(out))


def resident_bytes() -> int:
    """Resident set of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Bench:
    """One module a mode, and launches of its kernels."""

    def __init__(self, folder: Path) -> None:
        self.ffi, self.lib = ffi_and_library()
        self._keep: list[Any] = []
        self.modules = {}
        for mode in (THREADS, SIM):
            flags = (f"-DTT_HOST_MODE={mode}", "-DTT_WAVE_WIDTH=32", "-fvisibility=hidden")
            handle = compile_library(folder, f"kernels{mode}", KERNELS, *flags)
            handle.tt_module_describe.restype = ctypes.c_void_p
            handle.tt_module_bind.argtypes = [ctypes.c_void_p]
            handle.tt_module_bind(int(self.ffi.cast("uintptr_t", self.lib.tt_engine_device_api(mode))))
            self._keep.append(handle)
            self.modules[mode] = self.ffi.cast("const tt_module_desc *", handle.tt_module_describe())

    def kernel(self, mode: int, name: str) -> Any:
        """Find a kernel of the mode's module."""
        desc = self.modules[mode]
        rows = [self.ffi.addressof(desc.kernels[i]) for i in range(desc.kernel_count)]
        return next(row for row in rows if self.ffi.string(row.name).decode() == name)

    def arguments(self, *cells: Any) -> Any:
        """Make an argument vector of pointers to values; both live as long as this object."""
        vector = self.ffi.new("void *[]", [self.ffi.cast("void *", cell) for cell in cells])
        self._keep.append((vector, cells))
        return vector

    def config(self, grid: int, block: int) -> Any:
        """Make a one-dimensional launch configuration."""
        config = self.ffi.new("tt_launch_config *")
        config.grid, config.block = (grid, 1, 1), (block, 1, 1)
        return config

    def lane_switches(self, grid: int, block: int, seconds: float) -> float:
        """Lane switches a second of one worker."""
        rounds = self.ffi.new("uint32_t *", 1000)
        report = self.ffi.new("tt_launch_report *")
        pool = self.lib.tt_pool_create(1)
        kernel, args = self.kernel(THREADS, "switches"), self.arguments(rounds)
        best, end = 0.0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.process_time()
            self.lib.tt_pool_launch(pool, self.modules[THREADS], kernel, self.config(grid, block), args, report)
            best = max(best, report.steps / (time.process_time() - start))
            assert report.outcome == 0
        self.lib.tt_pool_destroy(pool)
        return best

    def sim_steps(self, kernel_name: str, block: int, seconds: float) -> float:
        """Scheduling steps a second of a world."""
        options = self.ffi.new("tt_sim_options *")
        options.struct_size = self.ffi.sizeof("tt_sim_options")
        options.policy, options.barrier_orders_memory = 2, 1
        world = self.lib.tt_world_create(options)
        words = self.ffi.new("uint32_t[1024]")
        rounds = self.ffi.new("uint32_t *", 100_000 // block)
        pointer = self.ffi.new("uint32_t **", words)
        kernel = self.kernel(SIM, kernel_name)
        args = self.arguments(rounds, pointer)
        report, launch = self.ffi.new("tt_launch_report *"), self.ffi.new("uint64_t *")
        best, end = 0.0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.lib.tt_world_launch(world, self.modules[SIM], kernel, self.config(1, block), args, launch)
            start = time.process_time()
            self.lib.tt_world_run(world, launch[0], 0, report)
            best = max(best, report.steps / (time.process_time() - start))
            assert report.outcome == 0
        self.lib.tt_world_destroy(world)
        return best

    def live_lanes_bytes(self, lanes: int) -> int:
        """What the resident set grows by while so many lanes are alive at once: each waits for all the others."""
        arrived = self.ffi.new("uint32_t *")
        pointer = self.ffi.new("uint32_t **", arrived)
        report = self.ffi.new("tt_launch_report *")
        before = resident_bytes()
        pool = self.lib.tt_pool_create(0)
        kernel, args = self.kernel(THREADS, "wait_all"), self.arguments(pointer)
        self.lib.tt_pool_launch(pool, self.modules[THREADS], kernel, self.config(lanes // 256, 256), args, report)
        assert report.outcome == 0
        assert arrived[0] == lanes
        after = resident_bytes()  # stacks stay with the pool, so this is the peak of its lanes
        self.lib.tt_pool_destroy(pool)
        return after - before


def main() -> None:
    """Measure everything and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1.0, help="time of each measurement")
    parser.add_argument("--json", action="store_true", help="accepted as by the others: it prints JSON in any case")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(folder)
        baseline = compile_library(folder, "baseline", BASELINE)
        count = 1_000_000
        start = time.process_time()
        baseline.swapcontext_pairs(count)
        swapcontext = 2 * count / (time.process_time() - start)
        start = time.process_time()
        baseline.plain_calls(50 * count)
        calls = 50 * count / (time.process_time() - start)
        lanes = 8192
        figures = {
            "machine": benchmark_facts(),
            "lane_switches_per_s_per_core": {
                "block_32": bench.lane_switches(1, 32, seconds),
                "block_256": bench.lane_switches(1, 256, seconds),
                "8_blocks_of_1024": bench.lane_switches(8, 1024, seconds),
                "baseline_swapcontext": swapcontext,
                "baseline_plain_calls": calls,
                "goal": 20e6,
            },
            "sim_steps_per_s_per_core": {
                "pause_64_lanes": bench.sim_steps("switches", 64, seconds),
                "memory_mix_8_lanes": bench.sim_steps("steps", 8, seconds),
                "memory_mix_64_lanes": bench.sim_steps("steps", 64, seconds),
                "memory_mix_512_lanes": bench.sim_steps("steps", 512, seconds),
                "goal": 1e6,
            },
            "live_lanes": {"lanes": lanes, "resident_bytes": bench.live_lanes_bytes(lanes), "goal": 1 << 30},
        }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
