"""One kernel for each ordered primitive, with operands that the compiler does not know: what a listing is read from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutti_hal.spec import Primitive

#: The families whose instructions are promised: everything that has a scope, an order or a device register.
FAMILIES = ("fence", "load", "store", "load.vector", "store.vector", "atomic", "atomic.cas", "mmio.store", "mmio.load")


def kernel_name(primitive: str) -> str:
    """The kernel of a primitive, by the primitive's id. The last word ends the name: no name begins another."""
    return f"one_{primitive.replace('.', '_')}_only"


def kernel_text(primitive: Primitive) -> str:
    """The kernel of a primitive, in Jinja. It does nothing else but keep the result in memory.

    A fence stands between two stores, and a release store behind one, so that there is something to order.
    """
    parameters = [(one.name, one.ctype.replace("const ", "")) for one in primitive.params]
    call = f"{primitive.c_name}({', '.join(one.name for one in primitive.params)})"
    if primitive.family == "fence":
        parameters = [("before", "tt_word32 *"), ("after", "tt_word32 *"), ("v", "uint32_t")]
        lines = ["tt_store_relaxed_sys_u32(before, v);", f"{call};", "tt_store_relaxed_sys_u32(after, v);"]
    elif primitive.axes.get("order") == "release":
        parameters.append(("before", "tt_word32 *"))
        lines = ["tt_store_relaxed_dev_u32(before, 1u);", f"{call};"]
    elif primitive.returns == "void":
        lines = [f"{call};"]
    else:
        words = {"uint32_t": "u32", "uint64_t": "u64", "tt_u32x4": "u32x4"}[primitive.returns]
        parameters.append(("kept", {"u32": "tt_word32 *", "u64": "tt_word64 *", "u32x4": "tt_quad *"}[words]))
        lines = [f"tt_store_relaxed_dev_{words}(kept, {call});"]
    # A structure is handed over as its words.
    if any(ctype == "tt_u32x4" for _, ctype in parameters):
        parameters = [one for one in parameters if one[1] != "tt_u32x4"] + [(name, "uint32_t") for name in "abcd"]
        lines = ["const tt_u32x4 v = {a, b, c, d};", *lines]
    listed = ", ".join(f'("{name}", "{ctype}")' for name, ctype in parameters)
    head = f'{{% call kernel("{kernel_name(primitive.id)}", [{listed}], max_threads=1) %}}'
    return "\n".join([head, *lines, "{% endcall %}", ""])


def unit_text(primitives: Iterable[Primitive]) -> str:
    """A kernel set of one kernel for each."""
    return "\n".join(kernel_text(one) for one in primitives)
