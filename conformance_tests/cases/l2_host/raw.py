"""What the host cases share: calls past the shim's own checks, and which kinds of memory are claimed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.verdict import SkipReason

if TYPE_CHECKING:
    from tutti_hal.shim import Device

#: More memory than any machine has, and less than overflows a size.
FAR_TOO_MUCH = 1 << 60

#: Kinds of memory that `Device.allocate` makes, and the capability that each needs ("": none).
KIND_NEEDS = {
    "device": "",
    "pinned": "memory.pinned",
    "mapped": "memory.mapped",
    "managed": "memory.managed",
}


def kinds_of(capabilities: Mapping[str, bool]) -> tuple[str, ...]:
    """The kinds of memory that are claimed, in order. A judge asks it too, so that none goes unobserved."""
    return tuple(kind for kind, need in KIND_NEEDS.items() if not need or capabilities[need])


def ask(device: Device, name: str, *args: Any) -> dict[str, Any]:
    """Ask the vendor itself, with arguments that the shim would not pass; what it was refused with.

    The device is the calling thread's current one meanwhile. The vendor's last error is taken away.
    """
    with device.current():
        return refusal(lambda: device.call(name, *args))


def pointer(device: Device, address: int) -> Any:
    """A number as the ``void *`` that host functions take."""
    return device.runtime.ffi.cast("void *", address)


def out(device: Device, ctype: str, value: Any = None) -> Any:
    """Room for one result."""
    ffi = device.runtime.ffi
    return ffi.new(ctype) if value is None else ffi.new(ctype, value)


def device_count(device: Device) -> int:
    """How many devices the vendor reports, of all archs."""
    count = out(device, "int *")
    device.call("GetDeviceCount", count)
    return int(count[0])


def locked_kib() -> int:
    """Memory of this process that the kernel counts as locked or pinned."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(("VmLck", "VmPin")))


def second_device(run: Run) -> Device:
    """Device 1 of the arch; skips the case on a machine that has only one."""
    if len(run.device.runtime.ordinals(run.facts.arch)) < 2:
        run.skip(SkipReason.MACHINE, f"there is one device of {run.facts.arch}, and the case needs two")
    return run.subject.open_device(1)
