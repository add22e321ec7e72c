"""Copies: every byte and no other, from any kind of memory to any, in the order of their stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import OPENED, held_stream
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, kinds_of, out, pointer, second_device
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    import numpy as np

    from tutti_hal.shim import Buffer

#: The program's own memory, beside the kinds that are allocated.
PLAIN = "plain"
_KINDS = ("device", "pinned", "mapped", "managed", PLAIN)
_BYTES = 2048


def _sides(capabilities: Any) -> tuple[str, ...]:
    return (*kinds_of(capabilities), PLAIN)


class _Side:
    """Memory of one kind, with the direction that a copy to or from it has."""

    def __init__(self, run: Run, kind: str, image: np.ndarray[Any, Any]) -> None:
        self.run = run
        self.on_device = kind in ("device", "managed")
        self.array = image.copy() if kind == PLAIN else None
        self.buffer: Buffer | None = None if kind == PLAIN else run.array(image, kind)

    @property
    def address(self) -> int:
        """Where it begins, for the vendor."""
        return self.buffer.copy_address if self.buffer is not None else int(self.array.ctypes.data)  # type: ignore[union-attr]

    def part(self, offset: int, nbytes: int) -> Any:
        """A part of it, for the shim."""
        if self.buffer is not None:
            return self.buffer[offset : offset + nbytes]
        return self.array[offset : offset + nbytes]  # type: ignore[index]

    def image(self) -> np.ndarray[Any, Any]:
        """All of it, afterwards."""
        return self.run.read(self.buffer, "u1") if self.buffer is not None else self.array.copy()  # type: ignore[union-attr]


def _direction(to: _Side, source: _Side) -> str:
    return f"{'Device' if source.on_device else 'Host'}To{'Device' if to.on_device else 'Host'}"


@case(
    "host/copy.exact",
    level="L2",
    clauses=("host.copy.exact", "host.copy.direction_checked"),
    axes={"how": ("async", "sync", "default")},
    calls=("Memcpy", "MemcpyAsync"),
)
def exact(run: Run) -> Observations:
    """Between any two kinds, at odd places and of odd sizes, a copy moves its bytes and touches none beside them."""
    import numpy as np

    device, how = run.device, run.axes["how"]
    images = run.random.integers(0, 256, (2, _BYTES), np.uint8)
    pairs = {}
    for to_kind in _sides(run.facts.capabilities):
        for from_kind in _sides(run.facts.capabilities):
            to, source = _Side(run, to_kind, images[0]), _Side(run, from_kind, images[1])
            kind = "Default" if how == "default" else _direction(to, source)
            number = device.runtime.constant("MemcpyKind", kind)
            moves = []
            for size in (1, 2, 3, 7, 8, 61, 64, 255, 1000):
                at, origin = (int(n) for n in run.random.integers(0, _BYTES - size + 1, 2))
                moves.append([at, origin, size])
                if how == "async":
                    run.stream.copy(to.part(at, size), source.part(origin, size))
                else:
                    into, since = pointer(device, to.address + at), pointer(device, source.address + origin)
                    with device.current():
                        device.call("Memcpy", into, since, size, number)
            run.stream.synchronize()
            pairs[f"{from_kind}-{to_kind}"] = {"moves": moves, "to": to.image(), "source": source.image()}
    return {"images": images, "pairs": pairs}


@exact.judge
def _(seen: Seen) -> None:
    sides = _sides(seen.facts.capabilities)
    clause, direction = "host.copy.exact", "host.copy.direction_checked"
    seen.equal(clause, "pairs of kinds", sorted(seen["pairs"]), sorted(f"{a}-{b}" for a in sides for b in sides))
    for name, pair in seen["pairs"].items():
        wanted = seen["images"][0].copy()
        for at, origin, size in pair["moves"]:
            wanted[at : at + size] = seen["images"][1][origin : origin + size]
        seen.equal(clause, f"destination of {name}", pair["to"], wanted)
        seen.equal(clause, f"source of {name}", pair["source"], seen["images"][1])
        if seen.axes["how"] == "default":
            seen.equal(direction, f"what the inferred direction moved from {name}", pair["to"], wanted)
        else:
            seen.equal(direction, f"what the right direction moved from {name}", pair["to"], wanted)


@case("host/copy.large", level="L2", clauses=("host.copy.exact",), calls=("MemcpyAsync",))
def large(run: Run) -> Observations:
    """A copy of a megabyte and a bit to the device and back, between guard bytes, is exact."""
    import numpy as np

    size = (1 << 20) + 4099
    data = _pattern(size)
    memory = run.closing.enter_context(run.device.allocate(size + 128))
    run.stream.fill(memory, 0xA5)
    run.stream.copy(memory[61 : 61 + size], data)
    found = np.zeros(size + 128, np.uint8)
    run.stream.copy(found, memory)
    run.stream.synchronize()
    return {"size": size, "found": found}


def _pattern(size: int) -> np.ndarray[Any, Any]:
    """Bytes in which no two nearby kilobytes are alike, and which pack well."""
    import numpy as np

    index = np.arange(size, dtype=np.uint32)
    return ((index & 0xFF) + (index >> 8) * 37).astype(np.uint8)


@large.judge
def _(seen: Seen) -> None:
    import numpy as np

    wanted = np.full(seen["size"] + 128, 0xA5, np.uint8)
    wanted[61 : 61 + seen["size"]] = _pattern(seen["size"])
    seen.equal("host.copy.exact", "the device's memory between its guards", seen["found"], wanted)


@case(
    "host/copy.direction",
    level="L2",
    clauses=("host.copy.direction_checked",),
    needs=("copy.direction_checked",),
    calls=("Memcpy:InvalidMemcpyDirection", "MemcpyAsync:InvalidMemcpyDirection"),
)
def direction(run: Run) -> Observations:
    """A direction that contradicts the addresses is refused, whichever call is used, and moves nothing."""
    import numpy as np

    device = run.device
    memory = run.buffer(64, "device", fill=0x11)
    other = run.buffer(64, "device", fill=0x22)
    plain = np.full(64, 0x33, np.uint8)
    more = np.full(64, 0x44, np.uint8)
    on_device, beside = pointer(device, memory.address), pointer(device, other.address)
    host, spare = pointer(device, plain.ctypes.data), pointer(device, more.ctypes.data)
    wrong = {
        "HostToDevice": [(host, spare), (on_device, beside), (host, on_device)],
        "DeviceToHost": [(on_device, host), (host, spare), (on_device, beside)],
        "DeviceToDevice": [(host, spare), (on_device, host), (host, on_device)],
        "HostToHost": [(on_device, host), (host, on_device), (on_device, beside)],
    }
    refusals = {}
    for name, pairs in wrong.items():
        number = device.runtime.constant("MemcpyKind", name)
        for index, (to, since) in enumerate(pairs):
            refusals[f"{name} {index}"] = ask(device, "Memcpy", to, since, 64, number)
            refusals[f"{name} {index} async"] = ask(device, "MemcpyAsync", to, since, 64, number, run.stream.handle)
    left = [run.read(memory, "u1"), run.read(other, "u1"), plain, more]
    return {"refusals": refusals, "left": left}


@direction.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause = "host.copy.direction_checked"
    seen.equal(clause, "how many were tried", len(seen["refusals"]), 24)
    for name, one in seen["refusals"].items():
        seen.refused(clause, name, one, "InvalidArgument", "InvalidMemcpyDirection", "InvalidValue")
    for found, byte in zip(seen["left"], (0x11, 0x22, 0x33, 0x44), strict=True):
        seen.equal(clause, "memory after the refusals", found, np.full(64, byte, np.uint8))


@case(
    "host/copy.asynchronous",
    level="L2",
    clauses=("host.copy.asynchronous", "host.copy.exact"),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("MemcpyAsync",),
)
def asynchronous(run: Run) -> Observations:
    """Behind a kernel that waits, a copy has not happened; then it has, with the bytes its source had.

    Beside that kernel, on another stream, an odd copy is exact too, and so is one of pageable memory, which is the
    caller's again when the call returns. Such a call may wait for what is before it.
    """
    import numpy as np

    size = 1021
    early, late = run.random.integers(0, 256, (2, size), np.uint8)
    plain = early.copy()
    # One end in the device's memory: between two places of the host's a vendor may copy at once.
    source, (to, from_plain, beside) = run.array(early, "device"), (run.buffer(size) for _ in range(3))
    with held_stream(run) as gate, run.device.create_stream() as free:
        ran = gate.runs()
        gate.stream.copy(to, source)
        mark = gate.stream.record()
        before = [gate.stream.query(), mark.query()]
        untouched = to.numpy().copy() if run.world is None else _look(run, to)
        free.copy(beside[3:700], source[9:706])
        free.copy(from_plain, plain)
        plain[:] = late
        free.synchronize()
        while_held = gate.answer
        gate.open()
        mark.synchronize()
        reached = to.numpy().copy()
        held = gate.answer
        mark.close()
    return {
        **{"ran": ran, "while_held": while_held, "held": held, "early": early, "before": before},
        **{"untouched": untouched, "reached": reached},
        **{"from_plain": run.read(from_plain, "u1"), "beside": run.read(beside, "u1")},
    }


def _look(run: Run, memory: Buffer) -> np.ndarray[Any, Any]:
    """What the host reads in mapped memory while a simulated kernel runs."""
    import numpy as np

    return np.array([run.world.load(memory.host_address + i, 1) for i in range(memory.nbytes)], np.uint8)


@asynchronous.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause, early = "host.copy.asynchronous", seen["early"]
    if not seen["ran"] or seen["while_held"] != 0 or seen["held"] != OPENED:
        seen.inconclusive("the stream was not held back")
    seen.equal(clause, "whether stream and event say that it has happened, while it waits", seen["before"], [False] * 2)
    seen.equal(clause, "the destination while the copy waits", seen["untouched"], np.zeros_like(early))
    seen.equal(clause, "the destination when the event was reached", seen["reached"], early)
    seen.equal(clause, "what came of pageable memory that changed after the call", seen["from_plain"], early)
    wanted = np.zeros_like(early)
    wanted[3:700] = early[9:706]
    seen.equal("host.copy.exact", "a copy beside a running kernel", seen["beside"], wanted)


@case(
    "host/copy.peer",
    level="L2",
    clauses=("host.copy.peer",),
    needs=("peer.access",),
    calls=("MemcpyPeerAsync", "DeviceCanAccessPeer"),
)
def peer(run: Run) -> Observations:
    """Bytes go from one device to another and back, on a stream of either, whether or not they reach each other."""
    import numpy as np

    here, there = run.device, second_device(run)
    can = out(here, "int *")
    here.call("DeviceCanAccessPeer", can, here.vendor_ordinal, there.vendor_ordinal)
    size = 5003
    data = run.random.integers(0, 256, size, np.uint8)
    first = run.array(data, "device")
    found = {}
    for name, device in (("source", here), ("destination", there)):
        with there.allocate(size + 64) as far, there.create_stream() as beside, device.create_stream() as stream:
            beside.fill(far, 0xC3)
            beside.synchronize()
            stream.copy(far[32 : 32 + size], first)
            stream.synchronize()
            image = np.zeros(size + 64, np.uint8)
            beside.copy(image, far)
            back = run.buffer(size, "device")
            stream.copy(back, far[32 : 32 + size])
            stream.synchronize()
            found[name] = [image, run.read(back, "u1")]
    return {"data": data, "found": found, "can": bool(can[0])}


@peer.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause, data = "host.copy.peer", seen["data"]
    wanted = np.full(len(data) + 64, 0xC3, np.uint8)
    wanted[32 : 32 + len(data)] = data
    for name, (image, back) in seen["found"].items():
        seen.equal(clause, f"memory of the other device, copied on a stream of the {name}", image, wanted)
        seen.equal(clause, f"the bytes that came back, on a stream of the {name}", back, data)
