"""Memory of the program's own, or of a device's registers, that is registered for kernels."""

from __future__ import annotations

import mmap

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, locked_kib, out, pointer
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.verdict import SkipReason

_PAGE = mmap.PAGESIZE


@case(
    "host/memory.register",
    level="L2",
    clauses=("host.memory.register", "host.memory.register_twice_refused"),
    kernels=("probe_host",),
    needs=("memory.register", "memory.mapped"),
    calls=(
        *("HostRegister", "HostRegister:InvalidValue", "HostRegister:HostMemoryAlreadyRegistered"),
        *("HostUnregister", "HostUnregister:HostMemoryNotRegistered", "HostGetDevicePointer:InvalidValue"),
    ),
)
def register(run: Run) -> Observations:
    """The program's own pages serve a kernel while they are registered, once; before and after they do not."""
    import numpy as np

    device = run.device
    pages = mmap.mmap(-1, 4 * _PAGE)
    data = np.frombuffer(pages, np.uint32)
    start = run.random.integers(0, 1 << 32, len(data), np.uint32)
    data[:] = start
    address = data.ctypes.data
    host, room = pointer(device, address), out(device, "void **")
    before = [ask(device, "HostGetDevicePointer", room, host, 0), ask(device, "HostUnregister", host)]
    locked = locked_kib()
    with device.register(address + _PAGE, 2 * _PAGE) as memory:
        count = 2 * _PAGE // 4
        run.launch(run.kernel("probe_host", "host_double"), 4, 64, memory, count)
        twice = [
            refusal(lambda: device.register(address + _PAGE, 2 * _PAGE)),
            refusal(lambda: device.register(address, 2 * _PAGE)),
            refusal(lambda: device.register(address + 2 * _PAGE, 2 * _PAGE)),
        ]
        inside = ask(device, "HostUnregister", pointer(device, address + 2 * _PAGE))
        run.launch(run.kernel("probe_host", "host_double"), 4, 64, memory, count)
    still_locked = locked_kib() - locked
    registered = pointer(device, address + _PAGE)
    after = [ask(device, "HostGetDevicePointer", room, registered, 0), ask(device, "HostUnregister", registered)]
    with run.device.allocate(_PAGE, "mapped") as own:
        known = refusal(lambda: device.register(own.host_address, 64))
    again = refusal(lambda: device.register(address, 4 * _PAGE).close())
    left = data.copy()
    return {
        **{"start": start, "left": left, "before": before, "twice": twice, "inside": inside},
        **{"after": after, "known": known, "again": again, "still_locked": still_locked},
    }


@register.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause, twice = "host.memory.register", "host.memory.register_twice_refused"
    wanted = seen["start"].copy()
    words = len(wanted) // 4
    wanted[words : 3 * words] *= np.uint32(4)
    seen.equal(clause, "the pages after two kernels that double the middle ones", seen["left"], wanted)
    seen.equal(clause, "KiB that stay locked after the registration", seen["still_locked"], 0)
    for when, (address, unregister) in (("before", seen["before"]), ("after", seen["after"])):
        seen.refused(clause, f"a device address {when} the registration", address, "InvalidArgument", "InvalidValue")
        name = "HostMemoryNotRegistered"
        seen.refused(twice, f"unregistering {when} the registration", unregister, "InvalidArgument", name)
    for which, one in zip(("whole", "first half", "second half"), seen["twice"], strict=True):
        name = "HostMemoryAlreadyRegistered"
        seen.refused(twice, f"registering again: {which}", one, "InvalidArgument", name)
    seen.equal(twice, "whether a registration ends at its middle", seen["inside"]["refused"], True)
    names = ("HostMemoryAlreadyRegistered", "InvalidValue")
    seen.refused(twice, "registering allocated memory", seen["known"], "InvalidArgument", *names)
    seen.equal(twice, "registering all of it after that", seen["again"], {"refused": False})


@case(
    "host/memory.register_mmio",
    level="L2",
    clauses=("host.memory.register_mmio",),
    kernels=("probe_host",),
    needs=("memory.register_mmio",),
    calls=("HostRegister",),
)
def register_mmio(run: Run) -> Observations:
    """A kernel's stores to a registered register page arrive at their registers and at no other."""
    import numpy as np

    # An engine takes ordinary pages for registers, under a simulated SDK too.
    if run.facts.kind == "hardware" and "process-memory" not in run.profile.record.p2p.mechanisms:
        run.skip(SkipReason.MACHINE, "no register page of a device is at hand here")
    values = [int(v) for v in run.random.integers(1, 1 << 32, 4)]
    places = [0, 12, 256, _PAGE - 4]
    pages = mmap.mmap(-1, _PAGE)
    address = np.frombuffer(pages, np.uint8).ctypes.data
    with run.device.register(address, _PAGE, mmio=True) as registers:
        for place, value in zip(places, values, strict=True):
            run.launch(run.kernel("probe_host", "host_ring"), 1, 1, registers[place : place + 4], value)
        run.device.synchronize()
        found = np.frombuffer(pages, np.uint32).copy()
    return {"places": places, "values": values, "found": found}


@register_mmio.judge
def _(seen: Seen) -> None:
    import numpy as np

    wanted = np.zeros(len(seen["found"]), np.uint32)
    wanted[np.array(seen["places"]) // 4] = seen["values"]
    seen.equal("host.memory.register_mmio", "the registers", seen["found"], wanted)
