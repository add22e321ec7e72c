"""Compiled kernels: the compilers behind one interface, the cache, what was built at install."""

from tutti_hal.toolchain.build import Built, build, build_all, toolchain_of
from tutti_hal.toolchain.compiler import Compiler, Resources, Toolchain

__all__ = ["Built", "Compiler", "Resources", "Toolchain", "build", "build_all", "toolchain_of"]
