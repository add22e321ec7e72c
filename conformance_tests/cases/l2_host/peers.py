"""Peers: devices that reach each other's memory, once that is enabled."""

from __future__ import annotations

from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, out, second_device
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


def _can(device: Any, peer: Any) -> bool:
    can = out(device, "int *", 7)
    device.call("DeviceCanAccessPeer", can, device.vendor_ordinal, peer.vendor_ordinal)
    return bool(can[0])


@case(
    "host/peer.access",
    level="L2",
    clauses=("host.peer.access",),
    kernels=("probe_host",),
    needs=("peer.access",),
    calls=("DeviceCanAccessPeer", "DeviceEnablePeerAccess", "DeviceDisablePeerAccess"),
)
def access(run: Run) -> Observations:
    """A kernel reads and writes a peer's memory while that is enabled, and reaches nothing of it before and after.

    Before and after are left out where a kernel's failure ends the process.
    """
    import numpy as np

    from tutti_hal.shim import LaunchConfig

    device, peer = run.device, second_device(run)
    can = _can(device, peer)
    seen: dict[str, Any] = {"can": can, "self": _can(device, device)}
    count = 64
    far = peer.allocate(4 * count)
    beside = peer.create_stream()
    beside.copy(far, np.arange(count, dtype=np.uint32))
    beside.synchronize()

    def double() -> dict[str, Any]:
        """Whether a kernel of this device gets at it; a fault of the device is mended."""
        kernel = run.subject.kernel("probe_host", "host_double")
        with device.create_stream() as stream:

            def reach() -> None:
                # The address as a number: the shim lets no buffer of another device through.
                stream.launch(LaunchConfig(1, 64), kernel, far.address, count)
                stream.synchronize()

            reached = refusal(reach)
        if reached["refused"] and reached["error"] == "LaunchFailed":
            device.reset()
        return reached

    def read() -> np.ndarray[Any, Any]:
        data = np.zeros(count, np.uint32)
        beside.copy(data, far)
        beside.synchronize()
        return data

    recoverable = run.facts.capabilities["error.recoverable"]
    seen["before"] = [double(), read()] if recoverable else None
    seen["enabled"] = ask(device, "DeviceEnablePeerAccess", peer.vendor_ordinal, 0)
    if can:
        seen["while"] = [double(), read()]
        seen["disabled"] = ask(device, "DeviceDisablePeerAccess", peer.vendor_ordinal)
        seen["after"] = [double(), read()] if recoverable else None
    beside.close()
    far.close()
    return seen


@access.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause, words = "host.peer.access", np.arange(64, dtype=np.uint32)
    seen.equal(clause, "whether a device is its own peer", seen["self"], False)
    recoverable = seen.facts.capabilities["error.recoverable"]
    if recoverable:
        reached, data = seen["before"]
        seen.equal(clause, "whether a kernel was refused the memory before", reached["refused"], True)
        seen.equal(clause, "the memory before", data, words)
    if not seen["can"]:
        name = "PeerAccessUnsupported"
        seen.refused(clause, "enabling access that cannot be", seen["enabled"], "NotSupported", name)
        return
    seen.equal(clause, "enabling access", seen["enabled"], {"refused": False})
    reached, data = seen["while"]
    seen.equal(clause, "whether a kernel reached the memory meanwhile", reached, {"refused": False})
    seen.equal(clause, "the memory after a kernel doubled it", data, 2 * words)
    seen.equal(clause, "disabling access", seen["disabled"], {"refused": False})
    if recoverable:
        reached, data = seen["after"]
        seen.equal(clause, "whether a kernel was refused the memory afterwards", reached["refused"], True)
        seen.equal(clause, "the memory afterwards", data, 2 * words)


@case(
    "host/peer.twice",
    level="L2",
    clauses=("host.peer.enable_twice_refused",),
    needs=("peer.access",),
    calls=(
        *("DeviceEnablePeerAccess:PeerAccessAlreadyEnabled", "DeviceEnablePeerAccess:PeerAccessUnsupported"),
        "DeviceDisablePeerAccess:PeerAccessNotEnabled",
    ),
)
def twice(run: Run) -> Observations:
    """Enabling what is enabled and disabling what is not are refused; so is what no device can enable: itself."""
    device, peer = run.device, second_device(run)
    can = _can(device, peer)
    enable, disable = "DeviceEnablePeerAccess", "DeviceDisablePeerAccess"
    seen = {"never": ask(device, disable, peer.vendor_ordinal), "can": can}
    if can:
        seen["first"] = ask(device, enable, peer.vendor_ordinal, 0)
        seen["second"] = ask(device, enable, peer.vendor_ordinal, 0)
        seen["off"] = ask(device, disable, peer.vendor_ordinal)
        seen["off again"] = ask(device, disable, peer.vendor_ordinal)
        seen["on again"] = ask(device, enable, peer.vendor_ordinal, 0)
        ask(device, disable, peer.vendor_ordinal)
    else:
        seen["first"] = ask(device, enable, peer.vendor_ordinal, 0)
    return seen


@twice.judge
def _(seen: Seen) -> None:
    clause, fine = "host.peer.enable_twice_refused", {"refused": False}
    seen.refused(clause, "disabling what never was", seen["never"], "WrongDevice", "PeerAccessNotEnabled")
    if not seen["can"]:
        seen.refused(clause, "enabling what cannot be", seen["first"], "NotSupported", "PeerAccessUnsupported")
        return
    for name in ("first", "off", "on again"):
        seen.equal(clause, name, seen[name], fine)
    seen.refused(clause, "enabling twice", seen["second"], "RuntimeFailure", "PeerAccessAlreadyEnabled")
    seen.refused(clause, "disabling twice", seen["off again"], "WrongDevice", "PeerAccessNotEnabled")
