"""The contract as data: host functions, device primitives, capabilities and clauses, validated when loaded."""

from tutti_hal.spec.tables import (
    Capability,
    Clause,
    HostFunction,
    Parameter,
    Primitive,
    Spec,
    load_spec,
)

__all__ = ["Capability", "Clause", "HostFunction", "Parameter", "Primitive", "Spec", "load_spec"]
