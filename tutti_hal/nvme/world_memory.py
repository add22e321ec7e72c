"""Registers and memory of a controller that is an agent of a deterministic world: the host's side of it.

Every access goes through the world, where it is sequentially consistent at system scope; `pause` lets the world run on,
so that a handle's waits end in the world's own clock, the same way on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.errors import ControllerError, NvmeFieldRange
from tutti_hal.native import ffi_and_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tutti_hal.nvme.memory import Dma, DmaMemory
    from tutti_hal.nvme.prp import Run

_HOST_MEMORY = 1  # TT_MEM_HOST

#: Outcomes of a run after which waiting goes on: done (nothing is left to do but timers), or the budget is used up.
_GOES_ON = (0, 1)

#: Rounds of an idle world, of a microsecond each, that one pause takes at most.
_IDLE_ROUNDS = 63


class WorldRegisters:
    """`Registers` of a controller that was attached to a world.

    Args:
        world: a `tt_world *`. It must outlive this.
        address: host address of BAR0, as it was mapped into the world.
        pause_steps: scheduling steps that one `pause` lets the world take.
    """

    def __init__(self, world: Any, address: int, pause_steps: int = 256) -> None:
        self._ffi, self._lib = ffi_and_library()
        self._world = world
        self._address = address
        self._pause_steps = pause_steps
        self._report = self._ffi.new("tt_launch_report *")
        self._idle = 0

    @property
    def address(self) -> int:
        """Host address of register 0; kernels of the same world reach the doorbells there."""
        return self._address

    def load32(self, offset: int) -> int:
        """Reads the register at byte `offset`."""
        return int(self._lib.tt_world_host_load(self._world, self._ffi.cast("void *", self._address + offset), 4))

    def store32(self, offset: int, value: int) -> None:
        """Writes the register at byte `offset`."""
        self._lib.tt_world_host_store(self._world, self._ffi.cast("void *", self._address + offset), value, 4)

    def pause(self) -> None:
        """Runs the world for `pause_steps`, or until its clock has moved on because nothing was to be done.

        While nothing is ever to be done the clock moves by more each time, up to 64 microseconds, so that a long wait
        for what does not come costs little real time.

        Raises:
            ControllerError: a launch that runs beside ended badly; its report is in the message.
        """
        for _ in range(min(self._idle, _IDLE_ROUNDS) + 1):
            outcome = self._lib.tt_world_run(self._world, 0, self._pause_steps, self._report)
            if outcome not in _GOES_ON:
                found = self._ffi.string(self._report.message).decode(errors="replace")
                raise ControllerError(
                    "wait for a controller in a world", found or f"outcome {outcome}", "See the report."
                )
            if self._report.steps:
                self._idle = 0
                return
        self._idle += 1

    def now_ns(self) -> int:
        """The world's virtual clock."""
        return int(self._lib.tt_world_now_ns(self._world))


class WorldMemory:
    """`DmaMemory` that the host reaches through a world. Made by `WorldDma`."""

    def __init__(self, world: Any, inner: DmaMemory) -> None:
        self._ffi, self._lib = ffi_and_library()
        self._world = world
        self._inner = inner
        self._open = True

    @property
    def address(self) -> int:
        """Host virtual address."""
        return self._inner.address

    @property
    def nbytes(self) -> int:
        """Its length."""
        return self._inner.nbytes

    @property
    def runs(self) -> Sequence[Run]:
        """(bus address, bytes) of each contiguous piece."""
        return self._inner.runs

    def _check(self, offset: int, nbytes: int, unit: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes or offset % unit or nbytes % unit:
            raise NvmeFieldRange(
                "reach into a world's memory",
                f"{nbytes} bytes at {offset} of {self.nbytes}",
                f"Stay inside it, in multiples of {unit}.",
            )

    def _load(self, offset: int, nbytes: int) -> int:
        return int(self._lib.tt_world_host_load(self._world, self._ffi.cast("void *", self.address + offset), nbytes))

    def read(self, offset: int, nbytes: int) -> bytes:
        """Copies dwords out, the lowest first. Raises `NvmeFieldRange` outside the memory or off a dword."""
        self._check(offset, nbytes, 4)
        return b"".join(self._load(at, 4).to_bytes(4, "little") for at in range(offset, offset + nbytes, 4))

    def write(self, offset: int, data: bytes) -> None:
        """Copies dwords in, the lowest first. Raises `NvmeFieldRange` outside the memory or off a dword."""
        self._check(offset, len(data), 4)
        for k in range(0, len(data), 4):
            value = int.from_bytes(data[k : k + 4], "little")
            where = self._ffi.cast("void *", self.address + offset + k)
            self._lib.tt_world_host_store(self._world, where, value, 4)

    def load32(self, offset: int) -> int:
        """Reads one dword. Raises `NvmeFieldRange` outside the memory or off a dword."""
        self._check(offset, 4, 4)
        return self._load(offset, 4)

    def close(self) -> None:
        """Takes the memory out of the world and gives it back. The second call does nothing."""
        if self._open:
            self._open = False
            self._lib.tt_world_unmap(self._world, self._ffi.cast("void *", self.address))
            self._inner.close()


class WorldDma:
    """A `Dma` whose memory is host memory of a world.

    Args:
        world: a `tt_world *`. It must outlive all memory from here.
        inner: where the memory itself and its bus addresses come from.
    """

    def __init__(self, world: Any, inner: Dma) -> None:
        self._ffi, self._lib = ffi_and_library()
        self._world = world
        self._inner = inner

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = 4096) -> WorldMemory:
        """Memory of `inner`, mapped into the world.

        Raises:
            ControllerError: the world refused the range.
            TuttiError: whatever `inner` raises.
        """
        memory = self._inner.allocate(nbytes, contiguous=contiguous, alignment=alignment)
        where = self._ffi.cast("void *", memory.address)
        code = self._lib.tt_world_map(self._world, where, memory.nbytes, _HOST_MEMORY)
        if code != 0:
            memory.close()
            raise ControllerError(
                f"map {memory.nbytes} bytes into a world", f"it answered {code}", "Map each range of memory once."
            )
        return WorldMemory(self._world, memory)
