"""Launches a compiled HOST module over the C ABI of the engine, with nothing of the shim in between."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tutti_hal.native import ffi_and_library

DONE, TRAP = 0, 4


@dataclass(frozen=True)
class Module:
    desc: Any
    library: ctypes.CDLL

    @property
    def kernels(self) -> dict[str, Any]:
        ffi, _ = ffi_and_library()
        return {
            ffi.string(self.desc.kernels[i].name).decode(): self.desc.kernels[i] for i in range(self.desc.kernel_count)
        }


class Engine:
    """A pool for mode threads, a fresh world for each launch in mode sim."""

    def __init__(self) -> None:
        self.ffi, self.lib = ffi_and_library()
        self.pool = self.lib.tt_pool_create(2)
        assert self.pool != self.ffi.NULL

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lib.tt_pool_destroy(self.pool)

    def load(self, path: Path) -> Module:
        library = ctypes.CDLL(str(path))
        library.tt_module_describe.restype = ctypes.c_void_p
        library.tt_module_bind.argtypes = [ctypes.c_void_p]
        desc = self.ffi.cast("const tt_module_desc *", library.tt_module_describe())
        api = self.lib.tt_engine_device_api(desc.mode)
        assert api != self.ffi.NULL, f"the engine has no mode {desc.mode}"
        library.tt_module_bind(int(self.ffi.cast("uintptr_t", api)))
        return Module(desc, library)

    def launch(
        self, module: Module, kernel: str, grid: Sequence[int], block: Sequence[int], *args: Any, seed: int = 1
    ) -> tuple[int, str]:
        """Runs to the end; arrays are passed by address, numbers by value. The outcome, and its message."""
        ffi, lib = self.ffi, self.lib
        desc = module.kernels[kernel]
        values = []
        for i, arg in enumerate(args):
            value = arg.ctypes.data if isinstance(arg, np.ndarray) else arg
            size = desc.param_sizes[i]
            raw = np.float32(value).tobytes() if isinstance(value, float) else int(value).to_bytes(size, "little")
            values.append(ffi.new("char[]", raw))
        assert len(values) == desc.param_count
        pointers = ffi.new("void *[]", [ffi.cast("void *", value) for value in values] or 1)
        config = ffi.new("tt_launch_config *")
        config.grid, config.block = list(grid), list(block)
        config.limit_ns = 10_000_000_000
        report = ffi.new("tt_launch_report *")
        if module.desc.mode == lib.TT_MODE_THREADS:
            lib.tt_pool_launch(self.pool, module.desc, ffi.addressof(desc), config, pointers, report)
        else:
            options = ffi.new("tt_sim_options *", {"struct_size": ffi.sizeof("tt_sim_options"), "seed": seed})
            options.policy = lib.TT_SCHED_RANDOM
            options.barrier_orders_memory = 1
            world = lib.tt_world_create(options)
            assert world != ffi.NULL
            try:
                handle = ffi.new("uint64_t *")
                code = lib.tt_world_launch(world, module.desc, ffi.addressof(desc), config, pointers, handle)
                assert code == 0, code
                lib.tt_world_run(world, handle[0], 0, report)
            finally:
                lib.tt_world_destroy(world)
        return int(report.outcome), ffi.string(report.message).decode()
