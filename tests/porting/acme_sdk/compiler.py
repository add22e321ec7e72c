"""Acme's compiler stand-in: how ``acmecc`` is called and what it defines."""

from __future__ import annotations

from tutti_hal.conformance_tests.simulated.standin.dialects import Dialect

ACME = Dialect(
    vendor="acme",
    driver="acmecc",
    languages=("acme",),
    suffixes=(".acme",),
    foreign="unknown target {arch}: the language is not acme",
    arch_flags=("--arch",),
    root_flags=("--acme-path",),
    both={"__ACMECC__": "1"},
    device={"__ACME_ARCH__": "{number}"},
    device_only=("--device-only",),
    clock_khz=1_000_000,
    version="acmecc version {sdk} (simulated)",
)
