"""What a case may ask the host for: things that only the machine's owner can do."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
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


def _keep(details: Mapping[str, Any], guest: GuestProcess) -> None:
    """Append ``data`` (base64) to the file ``name`` of the run's folder ``kept``; ``first`` begins it anew."""
    name = Path(str(details["name"])).name
    folder = guest.files.folder.parent / "kept"
    folder.mkdir(exist_ok=True)
    with (folder / name).open("wb" if details.get("first") else "ab") as file:
        file.write(base64.b64decode(str(details["data"]), validate=True))


VERBS: Mapping[str, Callable[[Mapping[str, Any], GuestProcess], Any]] = {
    "unplug": _unplug,
    "gpu_bytes": _gpu_bytes,
    "keep": _keep,
}


def answer(verb: str, details: Mapping[str, Any], guest: GuestProcess) -> Any:
    """Do what a case asked; LookupError for a verb that is not known."""
    if verb not in VERBS:
        raise LookupError(f"no verb {verb!r}: {' '.join(VERBS)}")
    return VERBS[verb](details, guest)
