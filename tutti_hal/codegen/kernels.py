"""What a unit declares: kernels and their parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Param:
    """One parameter of a kernel: its name and its C type."""

    name: str
    ctype: str

    @property
    def nbytes(self) -> int:
        """Its size in bytes; 0 where its type is neither a pointer nor one of the plain ones."""
        if self.ctype.endswith("*"):
            return 8
        match = re.fullmatch(r"u?int(8|16|32|64)_t", self.ctype)
        return int(match[1]) // 8 if match else {"float": 4, "double": 8, "bool": 1}.get(self.ctype, 0)


@dataclass(frozen=True)
class KernelDecl:
    """One kernel of a unit: the name that the host finds it by, its parameters in order, its launch bound.

    ``max_threads`` is the most threads a block may have; 0 when the kernel states none.
    """

    name: str
    params: tuple[Param, ...]
    max_threads: int = 0
