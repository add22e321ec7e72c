"""What a unit declares: kernels and their parameters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Param:
    """One parameter of a kernel: its name and its C type."""

    name: str
    ctype: str


@dataclass(frozen=True)
class KernelDecl:
    """One kernel of a unit: the name that the host finds it by, its parameters in order, its launch bound.

    ``max_threads`` is the most threads a block may have; 0 when the kernel states none.
    """

    name: str
    params: tuple[Param, ...]
    max_threads: int = 0
