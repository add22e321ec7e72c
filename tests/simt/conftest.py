"""The engine, driven over its C ABI, with small hand-written kernel modules compiled on demand."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tutti_hal.native import ffi_and_library
from tutti_hal.paths import include_dir

KERNELS = Path(__file__).parent / "kernels"
OUTCOMES = ("done", "pending", "deadlock", "limit", "trap", "invalid", "no memory")
THREADS, SIM = 0, 1


def compiler() -> str:
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if not found:
        pytest.fail("the engine's tests compile kernels: no C++ compiler found")
    return found


@dataclass(frozen=True)
class Report:
    outcome: str
    stuck_lanes: int
    elapsed_ns: int
    steps: int
    message: str


@dataclass(frozen=True)
class KernelModule:
    """A loaded module and its kernels by name; the handle keeps the library open."""

    handle: Any
    desc: Any
    kernels: dict[str, Any] = field(default_factory=dict)


class Engine:
    """What the tests need of the engine: modules, and launches with plain Python arguments."""

    def __init__(self, folder: Path) -> None:
        self.ffi, self.lib = ffi_and_library()
        self._folder = folder
        self._modules: dict[tuple[Any, ...], KernelModule] = {}

    def module(self, name: str, mode: int, width: int = 32, defines: Sequence[str] = ()) -> KernelModule:
        key = (name, mode, width, tuple(defines))
        if key not in self._modules:
            self._modules[key] = self._load(self._build(name, mode, width, defines), mode)
        return self._modules[key]

    def _build(self, name: str, mode: int, width: int, defines: Sequence[str]) -> Path:
        tag = hashlib.sha256(repr((name, mode, width, tuple(defines))).encode()).hexdigest()[:12]
        out = self._folder / f"{name}-{tag}.so"
        flags = [
            "-std=c++20",
            "-O2",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-Wall",
            "-Wextra",
            "-Werror",
        ]
        flags += ["-fno-exceptions", "-fno-rtti", *os.environ.get("TUTTI_TEST_KERNEL_FLAGS", "").split()]
        macros = [f"-DTT_HOST_MODE={mode}", f"-DTT_WAVE_WIDTH={width}", *(f"-D{d}" for d in defines)]
        command = [compiler(), *flags, *macros, "-I", str(include_dir()), "-I", str(KERNELS)]
        done = subprocess.run(
            [*command, str(KERNELS / f"{name}.cpp"), "-o", str(out)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return out

    def _load(self, path: Path, mode: int) -> KernelModule:
        handle = ctypes.CDLL(str(path))
        handle.tt_module_describe.restype = ctypes.c_void_p
        handle.tt_module_bind.argtypes = [ctypes.c_void_p]
        desc = self.ffi.cast("const tt_module_desc *", handle.tt_module_describe())
        api = self.lib.tt_engine_device_api(mode)
        assert api != self.ffi.NULL
        handle.tt_module_bind(int(self.ffi.cast("uintptr_t", api)))
        rows = (self.ffi.addressof(desc.kernels[i]) for i in range(desc.kernel_count))
        return KernelModule(handle, desc, {self.ffi.string(row.name).decode(): row for row in rows})

    def arguments(self, kernel: Any, values: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Make an argument vector: NumPy arrays pass their address, integers themselves."""
        assert kernel.param_count == len(values)
        keep = []
        for index, value in enumerate(values):
            number = value if isinstance(value, int) else value.ctypes.data
            kind = {4: "uint32_t *", 8: "uint64_t *"}[kernel.param_sizes[index]]
            keep.append(self.ffi.new(kind, number))
        vector = self.ffi.new("void *[]", [self.ffi.cast("void *", cell) for cell in keep] or [self.ffi.NULL])
        return vector, keep

    def config(self, grid: int | tuple[int, ...], block: int | tuple[int, ...], limit_ns: int = 0) -> Any:
        def three(value: int | tuple[int, ...]) -> tuple[int, ...]:
            return (value, 1, 1) if isinstance(value, int) else value

        config = self.ffi.new("tt_launch_config *")
        config.grid = three(grid)
        config.block = three(block)
        config.limit_ns = limit_ns
        return config

    def report(self, raw: Any) -> Report:
        message = self.ffi.string(raw.message).decode()
        return Report(OUTCOMES[raw.outcome], raw.stuck_lanes, raw.elapsed_ns, raw.steps, message)


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def pool(engine: Engine) -> Iterator[Any]:
    pool = engine.lib.tt_pool_create(2)
    assert pool != engine.ffi.NULL
    yield pool
    engine.lib.tt_pool_destroy(pool)


@pytest.fixture(scope="module")
def launch(engine: Engine, pool: Any) -> Callable[..., Report]:
    """Run one kernel of a module in mode threads."""

    def run(
        module: KernelModule,
        name: str,
        *values: Any,
        grid: int | tuple[int, ...] = 1,
        block: int | tuple[int, ...] = 1,
        limit_ns: int = 0,
    ) -> Report:
        kernel = module.kernels[name]
        vector, keep = engine.arguments(kernel, values)
        raw = engine.ffi.new("tt_launch_report *")
        config = engine.config(grid, block, limit_ns)
        outcome = engine.lib.tt_pool_launch(pool, module.desc, kernel, config, vector, raw)
        assert outcome == raw.outcome
        del keep
        return engine.report(raw)

    return run


class World:
    """A world of mode sim, with its options kept for a reset."""

    POLICIES = ("fair", "lockstep", "random", "starve_one", "pct", "script", "one_lane")

    def __init__(self, engine: Engine, **options: Any) -> None:
        self.engine = engine
        self._script: Any = None
        self._capacity = 4096
        self._pairs = engine.ffi.new("uint32_t[]", 2 * self._capacity)
        self.handle = engine.lib.tt_world_create(self.options(**options))
        assert self.handle != engine.ffi.NULL

    def options(self, policy: str = "random", script: Sequence[int] = (), **options: Any) -> Any:
        ffi = self.engine.ffi
        raw = ffi.new("tt_sim_options *")
        raw.struct_size = ffi.sizeof("tt_sim_options")
        raw.policy = self.POLICIES.index(policy)
        raw.barrier_orders_memory = 1
        self.set_script(raw, list(script))
        for name, value in options.items():
            setattr(raw, name, value)
        return raw

    def close(self) -> None:
        self.engine.lib.tt_world_destroy(self.handle)

    def set_script(self, raw: Any, script: Sequence[int]) -> None:
        self._script = self.engine.ffi.new("uint32_t[]", script)
        raw.script, raw.script_length = self._script, len(script)

    def reset(self, raw: Any) -> None:
        assert self.engine.lib.tt_world_reset(self.handle, raw) == 0

    def map(self, array: Any, kind: int) -> None:
        address = self.engine.ffi.cast("void *", array.ctypes.data)
        assert self.engine.lib.tt_world_map(self.handle, address, array.nbytes, kind) == 0

    def start(
        self,
        module: KernelModule,
        name: str,
        *values: Any,
        grid: int | tuple[int, ...] = 1,
        block: int | tuple[int, ...] = 1,
        limit_ns: int = 0,
    ) -> int:
        kernel = module.kernels[name]
        vector, keep = self.engine.arguments(kernel, values)
        launch = self.engine.ffi.new("uint64_t *")
        config = self.engine.config(grid, block, limit_ns)
        self.engine.lib.tt_world_launch(self.handle, module.desc, kernel, config, vector, launch)
        del keep
        return int(launch[0])

    def run(self, launch: int = 0, budget_steps: int = 0) -> Report:
        raw = self.engine.ffi.new("tt_launch_report *")
        outcome = self.engine.lib.tt_world_run(self.handle, launch, budget_steps, raw)
        assert outcome == raw.outcome
        return self.engine.report(raw)

    def launch(self, module: KernelModule, name: str, *values: Any, **config: Any) -> Report:
        return self.run(self.start(module, name, *values, **config))

    def choices(self) -> list[tuple[int, int]]:
        lib, ffi = self.engine.lib, self.engine.ffi
        count = lib.tt_world_choices(self.handle, self._pairs, self._capacity)
        if count > self._capacity:
            self._capacity = 2 * count
            self._pairs = ffi.new("uint32_t[]", 2 * self._capacity)
            lib.tt_world_choices(self.handle, self._pairs, self._capacity)
        flat = ffi.unpack(self._pairs, 2 * count) if count else []
        return list(zip(flat[::2], flat[1::2], strict=True))

    @property
    def steps(self) -> int:
        return int(self.engine.lib.tt_world_steps(self.handle))

    @property
    def now_ns(self) -> int:
        return int(self.engine.lib.tt_world_now_ns(self.handle))


@pytest.fixture
def make_world(engine: Engine) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(**options: Any) -> World:
        made.append(World(engine, **options))
        return made[-1]

    yield make
    for world in made:
        world.close()
