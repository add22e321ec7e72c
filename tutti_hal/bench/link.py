"""Speed of the link between host memory and device: one large copy, copies of objects, batches of them, and ours.

Ours is the whole ring over the device controller: requests, doorbells, a kernel that moves the data, completions. All
figures of a run are of one machine, one piece of host memory and one of device memory.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BenchError, NotSupported

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring import RegisteredBuffer, Ring
    from tutti_hal.nvme.bus_memory import BusMemory
    from tutti_hal.nvme.device_controller import DeviceController
    from tutti_hal.profile import Profile
    from tutti_hal.shim import Device, Event, Stream

#: Bytes of an object.
SIZES = (4096, 65536, 524288)
#: Blocks of the device controller.
BLOCKS = (1, 2, 4, 8)
LARGE, OBJECTS, BATCHED, OURS = "one large copy", "a copy an object", "batched copies", "device controller"
#: Copies of one call of the vendor's batched copy.
BATCH = 4096
_QUEUES = 8
_SPOILT = 0xEE


@dataclass(frozen=True)
class LinkFigure:
    """One way to move all bytes once.

    Attributes:
        name: what moved them.
        object_bytes: of one object; of the large copy all bytes.
        blocks: of the device controller; 0 of a copy.
        sgl: commands had SGLs, else PRP lists; False of a copy.
        rounds: that were timed, behind one that was not.
        gb_per_s: median of the rounds, by the device's events: from before the requests are copied to behind the last
            completion.
        over_large: ratio to the large copy of the same run.
        over_batched: ratio to batched copies of the same size and run; None where there are none.
        commands_per_s: objects a second.
    """

    name: str
    object_bytes: int
    blocks: int
    sgl: bool
    rounds: int
    gb_per_s: float
    over_large: float
    over_batched: float | None
    commands_per_s: float


def measure_link(
    profile: Profile,
    *,
    nbytes: int = 0,
    write: bool = False,
    time_limit_s: float = 60.0,
    rounds: int = 5,
    sizes: tuple[int, ...] = SIZES,
    blocks: tuple[int, ...] = BLOCKS,
) -> dict[str, Any]:
    """Measures the link in one direction, every byte compared with its source behind the timing.

    Args:
        profile: of a device that maps host memory, and runs two kernels at once.
        nbytes: moved in a round; 0 takes 512 MiB, or 8 MiB where lanes are threads of this process.
        write: from the device to the host.
        time_limit_s: no way is begun behind it; what was left out is named.
        rounds: of each way.
        sizes: of objects.
        blocks: of the controller.

    Raises:
        BenchError: another profile, a command that did not end well, or wrong data.
        TuttiError: a part refused.
    """
    from tutti_hal.shim import Device

    simulation = profile.backend.simulation()
    engine = simulation is not None
    if simulation is not None and simulation.simulates(profile.record.archs[profile.arch]):
        raise BenchError(
            f"measure the link on {profile}", "mode sim has one thread for everything", "Name --profile host."
        )
    nbytes = nbytes or (8 << 20 if engine else 512 << 20)
    begin = time.monotonic()
    device = Device(profile)
    with ExitStack() as stack:
        bench = _Link(device, stack, nbytes, write, rounds, threads=2 * device.wave_width if engine else 1024)
        large = bench.large()
        figures = [LinkFigure(LARGE, nbytes, 0, False, rounds, large / 1e9, 1.0, None, large / nbytes)]
        left_out: list[str] = []

        batched: dict[int, float] = {}
        not_compared = ["direct copies from files: there is no file here"]

        def take(name: str, size: int, count: int = 0, sgl: bool = False) -> None:
            if time.monotonic() - begin > time_limit_s:
                left_out.append(f"{name}, {size} bytes, {count} blocks, {'SGL' if sgl else 'PRP'}")
                return
            if count:
                rate = bench.ours(size, count, sgl)
            elif name == OBJECTS:
                rate = bench.objects(size)
            else:
                rate = batched[size] = bench.batched(size)
            over = rate / batched[size] if size in batched else None
            figures.append(LinkFigure(name, size, count, sgl, rounds, rate / 1e9, rate / large, over, rate / size))

        try:
            for size in sizes:
                take(BATCHED, size)
        except NotSupported as error:
            not_compared.append(f"{BATCHED}: {error.found}")
        for size in sizes:
            take(OBJECTS, size)
        for sgl in (True, False):
            for count in blocks:
                for size in sizes:
                    take(OURS, size, count, sgl)
    return {
        "profile": str(profile),
        "device": device.name,
        "direction": "device to host" if write else "host to device",
        "bytes": nbytes,
        "rounds": rounds,
        "queues": _QUEUES,
        "verified": True,  # whatever is not, was raised
        "figures": [asdict(figure) for figure in figures],
        "left_out": left_out,
        "batch": BATCH,
        "not_compared": not_compared,
        "seconds": time.monotonic() - begin,
    }


class _Link:
    """The memory of a run, and the ways to move it."""

    def __init__(
        self, device: Device, stack: ExitStack, nbytes: int, write: bool, rounds: int, *, threads: int
    ) -> None:
        import numpy as np

        from tutti_hal.nvme.device_controller import DeviceController, DeviceControllerOptions

        self.device, self.nbytes, self.write, self.rounds = device, nbytes, write, rounds
        options = DeviceControllerOptions(threads=threads, queues=_QUEUES, limit_ns=20_000_000_000)
        self.controller: DeviceController = stack.enter_context(
            DeviceController(device, nbytes // options.lba_bytes, options)
        )
        self.memory: BusMemory = self.controller.dma().allocate(nbytes)
        stack.callback(self.memory.close)
        self.stream: Stream = stack.enter_context(device.create_stream())
        self.begin: Event = stack.enter_context(device.create_event())
        self.end: Event = stack.enter_context(device.create_event())
        pinned = stack.enter_context(device.allocate(nbytes, "pinned"))
        self.pinned = pinned
        self.media = self.controller.media.numpy()[:nbytes]
        self.source: NDArray[np.uint8] = (
            np.random.default_rng(5).integers(0, np.iinfo(np.uint64).max, nbytes // 8, np.uint64).view(np.uint8)
        )
        if write:
            pinned.numpy()[:nbytes] = self.source
            self._copy(self.memory.buffer.part(self.memory.skip, nbytes), pinned.part(0, nbytes))
        else:
            self.media[:] = self.source
        self._rings: dict[bool, tuple[ExitStack, Ring, RegisteredBuffer]] = {}
        self._stack = stack
        self._threads = threads

    def _copy(self, to: Any, source: Any) -> None:
        self.stream.copy(to, source)
        self.stream.synchronize()

    def _spoil(self) -> None:
        """Makes the destination wrong."""
        if self.write:
            self.media[:] = _SPOILT
        else:
            self.stream.fill(self.memory.buffer, _SPOILT)
            self.stream.synchronize()

    def _verify(self, name: str, size: int) -> None:
        import numpy as np

        if self.write:
            found = self.media
        else:
            self._copy(self.pinned.part(0, self.nbytes), self.memory.buffer.part(self.memory.skip, self.nbytes))
            found = self.pinned.numpy()[: self.nbytes]
        if not np.array_equal(found, self.source):
            raise BenchError(
                f"measure {name} of {size} bytes", "the data that was moved is not its source", "Report it."
            )

    def _rate(self, name: str, size: int, move: Callable[[], None]) -> float:
        """Bytes a second of the rounds' median; the destination is wrong before, and right behind."""
        self._spoil()
        times = []
        for turn in range(self.rounds + 1):
            self.stream.record(self.begin)
            move()
            self.stream.record(self.end)
            self.end.synchronize()
            if turn:
                times.append(self.end.elapsed_ms(self.begin) / 1e3)
        self._verify(name, size)
        return self.nbytes / statistics.median(times)

    def _ends(self) -> tuple[Any, Any]:
        """Whole destination and source, as buffers."""
        here = self.memory.buffer.part(self.memory.skip, self.nbytes)
        there = self.controller.media.part(0, self.nbytes)
        return (there, here) if self.write else (here, there)

    def large(self) -> float:
        """One copy of everything."""
        to, source = self._ends()
        return self._rate(LARGE, self.nbytes, lambda: self.stream.copy(to, source))

    def objects(self, size: int) -> float:
        """One call of the host API for each object; the pointers are made before."""
        device, ffi = self.device, self.device.runtime.ffi
        to, source = (end.copy_address for end in self._ends())
        kind = device.runtime.constant("MemcpyKind", "DeviceToHost" if self.write else "HostToDevice")
        calls = [
            (ffi.cast("void *", to + at), ffi.cast("void *", source + at), size, kind, self.stream.handle)
            for at in range(0, self.nbytes, size)
        ]

        def move() -> None:
            for call in calls:
                device.call("MemcpyAsync", *call)

        return self._rate(OBJECTS, size, move)

    def batched(self, size: int) -> float:
        """Calls of the vendor's batched copy, each for `BATCH` objects; the addresses are made before.

        Raises:
            NotSupported: the vendor has no such call.
        """
        import numpy as np

        device = self.device
        to, source = (end.copy_address for end in self._ends())
        calls = []
        for begin in range(0, self.nbytes, BATCH * size):
            at = np.arange(begin, min(begin + BATCH * size, self.nbytes), size, dtype=np.uint64)
            calls.append(
                device.runtime.batched_copy(
                    device.host_calls,
                    self.stream.handle,
                    at + np.uint64(to),
                    at + np.uint64(source),
                    np.full(len(at), size, np.uint64),
                )
            )

        def move() -> None:
            for call in calls:
                call()

        return self._rate(BATCHED, size, move)

    def _ring(self, sgl: bool) -> tuple[Ring, RegisteredBuffer]:
        """A ring over the controller. One at a time: its queues are the controller's."""
        from tutti_hal.io_uring import Drive, Ring, RingOptions

        if sgl not in self._rings:
            for made, _, _ in self._rings.values():
                made.close()
            self._rings.clear()
            made = ExitStack()
            self._stack.callback(made.close)
            options = RingOptions(
                depth=256,
                queues=(_QUEUES,),
                batch_limit=self.nbytes // min(SIZES),
                batches=1,
                buffers=1,
                lanes=min(self._threads * _QUEUES // 8, 1024),
                use_sgl=sgl,
            )
            drive = Drive(handle=self.controller.handle, dma=self.controller.dma())
            ring = made.enter_context(Ring.init_queue(self.device, [drive], options))
            self._rings[sgl] = made, ring, ring.register(self.memory)
        return self._rings[sgl][1:]

    def ours(self, size: int, blocks: int, sgl: bool) -> float:
        """Objects as commands of a ring, served by a kernel of so many blocks."""
        import numpy as np

        from tutti_hal.io_uring.completion import ended, succeeded

        ring, buffer = self._ring(sgl)
        place = np.arange(self.nbytes // size, dtype=np.uint64)

        times = []
        self._spoil()
        with self.controller.serve(blocks):
            for turn in range(self.rounds + 1):
                iocb = ring.get_iocb()
                fill = iocb.write if self.write else iocb.read
                fill(ring.targets[0], place * (size // 512), size, buffer, place * size)
                self.stream.record(self.begin)
                ring.issue_io(iocb, self.stream)
                self.stream.record(self.end)
                done = ring.wait_cqe(iocb)
                if not succeeded(done).all():
                    raise BenchError(f"measure {OURS} of {size} bytes", ended(done), "Report it.")
                self.end.synchronize()
                if turn:
                    times.append(self.end.elapsed_ms(self.begin) / 1e3)
        self._verify(OURS, size)
        return self.nbytes / statistics.median(times)
