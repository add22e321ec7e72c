"""Layer C: kernel units and headers rendered from a vendor's record, the lint, the completeness check.

Imports neither NumPy nor cffi: the build that pins a profile runs this before anything is installed.
"""

from tutti_hal.codegen.complete import gaps, require_complete
from tutti_hal.codegen.kernels import KernelDecl, Param
from tutti_hal.codegen.lint import Finding, lint
from tutti_hal.codegen.render import Rendered, render
from tutti_hal.codegen.sources import kernel_sets
from tutti_hal.codegen.structs import Struct, load_structs, struct

__all__ = [
    "Finding",
    "KernelDecl",
    "Param",
    "Rendered",
    "Struct",
    "gaps",
    "kernel_sets",
    "lint",
    "load_structs",
    "render",
    "require_complete",
    "struct",
]
