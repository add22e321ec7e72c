"""Compiled kernels: the compilers behind one interface, the cache, what was built at install."""

from tutti_hal.toolchain.aot import AotState, aot_state
from tutti_hal.toolchain.build import Built, build, build_all, toolchain_of
from tutti_hal.toolchain.compiler import Compiler, Resources, Toolchain

__all__ = [
    "AotState",
    "Built",
    "Compiler",
    "Resources",
    "Toolchain",
    "aot_state",
    "build",
    "build_all",
    "toolchain_of",
]
