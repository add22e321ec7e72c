"""What a case may ask the host for: things that only the machine's owner can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rig.guest import GuestProcess


def _unplug(details: Mapping[str, Any], guest: GuestProcess) -> None:
    """Ask the guest's kernel to let the device with QEMU's id ``device`` go, and wait until it is gone."""
    monitor = guest.monitor()
    try:
        monitor.command("device_del", id=str(details["device"]))
        monitor.wait_event("DEVICE_DELETED")
    finally:
        monitor.close()


def _gpu_bytes(details: Mapping[str, Any], guest: GuestProcess) -> str:
    """Bytes of the stand-in's memory as the host sees them, in hex: ``offset`` and ``length``."""
    with guest.files.gpu.open("rb") as memory:
        memory.seek(int(details["offset"]))
        return memory.read(int(details["length"])).hex()


VERBS: Mapping[str, Callable[[Mapping[str, Any], GuestProcess], Any]] = {
    "unplug": _unplug,
    "gpu_bytes": _gpu_bytes,
}


def answer(verb: str, details: Mapping[str, Any], guest: GuestProcess) -> Any:
    """Do what a case asked; LookupError for a verb that is not known."""
    if verb not in VERBS:
        raise LookupError(f"no verb {verb!r}: {' '.join(VERBS)}")
    return VERBS[verb](details, guest)
