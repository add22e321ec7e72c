"""A device: where memory, streams, events and modules come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import InvalidArgument, LaunchFailed, WrongDevice
from tutti_hal.shim.buffer import Buffer, MemoryKind
from tutti_hal.shim.event import Event
from tutti_hal.shim.ffi import CRuntime, HostCalls
from tutti_hal.shim.memory import adopt, allocate, register
from tutti_hal.shim.module import Module, Parameter
from tutti_hal.shim.options import EventOptions, StreamOptions
from tutti_hal.shim.stream import Stream

if TYPE_CHECKING:
    from tutti_hal.profile import Profile

_OUTCOMES = ("done", "pending", "deadlock", "limit", "trap", "invalid", "no memory")
_NAME_ROOM = 64  # structs of slack behind the declared fields: vendors append to their properties


@dataclass(frozen=True)
class MemoryInfo:
    """Device memory in bytes."""

    free: int
    total: int


@dataclass(frozen=True)
class LaunchReport:
    """How a launch went: outcome (``done``, ``deadlock``, ``limit``, ``trap``, ...), lanes stuck, time, steps, text."""

    outcome: str
    stuck_lanes: int
    elapsed_ns: int
    steps: int
    message: str


class Device:
    """One device of a profile.

    Two objects for one device are equal and interchangeable. Thread safe.
    """

    def __init__(self, profile: Profile | str, ordinal: int = 0) -> None:
        """Open the vendor's runtime and pick a device.

        Args:
            profile: a selected profile, or its name (``vendor[:arch[@sdk]]``).
            ordinal: among the devices of the profile's architecture, from 0.

        Raises:
            ProfileError: the name is unknown or cannot be used here.
            RuntimeMissing: the vendor's libraries cannot be loaded.
            WrongDevice: there is no such device.
        """
        if isinstance(profile, str):
            from tutti_hal.profile import select

            profile = select(profile)
        self.profile = profile
        self.vendor = profile.vendor
        self.ordinal = ordinal
        self.runtime: CRuntime = profile.backend.runtime().open_runtime(profile)
        ordinals = self.runtime.ordinals(profile.arch)
        if not 0 <= ordinal < len(ordinals):
            raise WrongDevice(
                f"open device {ordinal} of {profile.vendor}:{profile.arch}",
                f"there are {len(ordinals)}",
                f"Use an ordinal from 0 to {len(ordinals) - 1}." if ordinals else "Use a machine that has one.",
                vendor=profile.vendor,
            )
        #: The vendor's own ordinal.
        self.vendor_ordinal = ordinals[ordinal]
        #: How often each host function was called through this object, by canonical name.
        self.host_calls = HostCalls()
        # Of the device, not of this object: what it leaves behind is ended through any other.
        left = self.runtime.left_behind(self.vendor_ordinal)
        self._orphans, self._holds = left.ends, left.holds

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Device) and self.runtime is other.runtime and self.vendor_ordinal == other.vendor_ordinal
        )

    def __hash__(self) -> int:
        return hash((id(self.runtime), self.vendor_ordinal))

    def __repr__(self) -> str:
        return f"<Device {self}>"

    def __str__(self) -> str:
        return f"{self.vendor}:{self.profile.arch}/{self.ordinal}"

    # ---- calls, for the nouns of this package

    def call(self, name: str, *args: Any) -> None:
        """Call a host function by canonical name, counted; see :meth:`CRuntime.call`."""
        self.runtime.call(self.host_calls, name, *args, device=self.vendor_ordinal)

    def code(self, name: str, *args: Any) -> int:
        """Call a host function and return the vendor's number, counted."""
        return self.runtime.code(self.host_calls, name, *args)

    def ready(self, name: str, *args: Any) -> bool:
        """Call a query: False where it says NotReady; raises on any other error."""
        code = self.code(name, *args)
        if code == 0:
            return True
        if self.runtime.is_error(code, "NotReady"):
            self.runtime.forget_error(self.host_calls)
            return False
        raise self.runtime.failure(name, code, self.vendor_ordinal, self.host_calls)

    def current(self) -> AbstractContextManager[None]:
        """Make this the calling thread's current device for a while."""
        return self.runtime.current(self.host_calls, self.vendor_ordinal)

    @property
    def generation(self) -> int:
        """How often the device was reset."""
        return self.runtime.generation(self.vendor_ordinal)

    def adopt_orphan(self, release: Callable[[], None]) -> None:
        """Take over the end of an object that could not be ended where it was dropped or closed."""
        self._orphans.append((self.generation, release))

    def end_orphans(self) -> None:
        """End the objects that were taken over, unless a reset has ended them, or the device has failed.

        Inside `holding_releases` it ends none.
        """
        while self._orphans and not self._holds:
            try:
                generation, release = self._orphans.popleft()
            except IndexError:  # another thread was quicker
                return
            if generation != self.generation:
                continue
            try:
                release()
            except LaunchFailed:
                self._orphans.appendleft((generation, release))
                return

    @property
    def holds_releases(self) -> bool:
        """Whether the end of objects waits for the end of `holding_releases`."""
        return bool(self._holds)

    @contextmanager
    def holding_releases(self) -> Iterator[None]:
        """For as long as a resident kernel runs: what is closed, or dropped, inside is given back behind it.

        Vendors wait for all kernels of a device when memory or a module is given back. So who keeps a kernel resident
        must not do it, nor may a garbage collection do it for him. It holds what belongs to the device, from any
        thread. May be nested. Behind it, the next allocation or synchronisation gives back what was held.
        """
        self._holds.append(None)
        try:
            yield
        finally:
            self._holds.pop()

    # ---- what it is

    @cached_property
    def name(self) -> str:
        """The vendor's name for the device."""
        properties = self.runtime.ffi.new("DeviceProperties[]", _NAME_ROOM)
        self.call("GetDeviceProperties", properties, self.vendor_ordinal)
        return bytes(self.runtime.ffi.string(properties[0].name)).decode(errors="replace")

    def attribute(self, name: str) -> int:
        """A device attribute by canonical name, such as ``MaxThreadsPerBlock``.

        Raises:
            NotSupported: the vendor has no number for it.
        """
        value = self.runtime.ffi.new("int *")
        self.call("DeviceGetAttribute", value, self.runtime.attribute(name), self.vendor_ordinal)
        return int(value[0])

    @cached_property
    def wave_width(self) -> int:
        """Lanes of a wave, as the device tells it."""
        return self.attribute("WarpSize")

    def memory_info(self) -> MemoryInfo:
        """Free and total device memory.

        Raises:
            LaunchFailed: the device failed.
        """
        free, total = self.runtime.ffi.new("size_t *"), self.runtime.ffi.new("size_t *")
        with self.current():
            self.call("MemGetInfo", free, total)
        return MemoryInfo(int(free[0]), int(total[0]))

    def launch_report(self) -> LaunchReport | None:
        """How the launch that ended last went, or the one that made the device fail. None: none has ended.

        Raises:
            NotSupported: the vendor keeps no report (``launch.bounded``).
        """
        report = self.runtime.ffi.new("LaunchReport *")
        if not self.ready("DeviceGetLaunchReport", self.vendor_ordinal, report):
            return None
        return LaunchReport(
            outcome=_OUTCOMES[report.outcome],
            stuck_lanes=int(report.stuck_lanes),
            elapsed_ns=int(report.elapsed_ns),
            steps=int(report.steps),
            message=bytes(self.runtime.ffi.string(report.message)).decode(errors="replace"),
        )

    # ---- memory

    def allocate(self, nbytes: int, kind: MemoryKind | str = MemoryKind.DEVICE) -> Buffer:
        """Allocate memory; its contents are undefined.

        Args:
            nbytes: at least 1.
            kind: ``device``, ``pinned``, ``mapped`` or ``managed``.

        Raises:
            OutOfMemory: it does not fit.
            InvalidArgument: nbytes or kind is none.
            NotSupported: the vendor lacks the kind (``memory.pinned``, ``memory.mapped``, ``memory.managed``).
            LaunchFailed: the device failed.
        """
        self.end_orphans()
        return allocate(self, nbytes, kind)

    def register(self, memory: Any, nbytes: int | None = None, *, mmio: bool = False) -> Buffer:
        """Register host memory, so that kernels reach it; the caller keeps the memory itself alive and mapped.

        Args:
            memory: an address, or an object with the writable buffer protocol, which is kept alive.
            nbytes: how much; needed with an address.
            mmio: it is a device's register page (needs ``memory.register_mmio``).

        Raises:
            InvalidArgument: the memory is not mapped, is registered already, or nbytes is missing.
            NotSupported: the vendor lacks ``memory.register`` or ``memory.register_mmio``.
        """
        return register(self, memory, nbytes, mmio=mmio)

    def adopt(self, address: int, nbytes: int) -> Buffer:
        """A buffer of this device's memory that somebody else allocated; closing it frees nothing.

        Args:
            address: the device's. Nobody checks that it is this device's memory; its owner keeps it for as long as the
                buffer is used.
            nbytes: at least 1.

        Raises:
            InvalidArgument: no address, or no length.
        """
        return adopt(self, address, nbytes)

    def from_dlpack(self, tensor: Any) -> Buffer:
        """Register the memory of a host tensor that speaks DLPack; nothing is copied.

        Raises:
            InvalidArgument: it is not contiguous and writable, or is registered already.
            NotSupported: the vendor lacks ``memory.register``.
        """
        import numpy as np

        array = np.from_dlpack(tensor)
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise InvalidArgument(
                "register a tensor", "it is not contiguous, or not writable", "Pass a contiguous, writable tensor."
            )
        return self.register(array.reshape(-1).view(np.uint8))

    # ---- streams, events, modules

    @cached_property
    def default_stream(self) -> Stream:
        """The vendor's default stream, ordered against every stream that is not ``nonblocking``."""
        return Stream(self, self.runtime.ffi.NULL, StreamOptions(nonblocking=False), owned=False)

    def create_stream(self, options: StreamOptions | None = None) -> Stream:
        """Make a stream.

        Raises:
            NotSupported: a priority without ``stream.priority``.
            LaunchFailed: the device failed.
        """
        wanted = options or StreamOptions()
        handle = self.runtime.ffi.new("Stream *")
        flags = self.runtime.constant("StreamFlags", "NonBlocking" if wanted.nonblocking else "Default")
        with self.current():
            if wanted.priority is None:
                self.call("StreamCreateWithFlags", handle, flags)
            else:
                self.runtime.require("stream.priority", "create a stream with a priority")
                self.call("StreamCreateWithPriority", handle, flags, wanted.priority)
        return Stream(self, handle[0], wanted)

    def create_event(self, options: EventOptions | None = None) -> Event:
        """Make an event.

        Raises:
            LaunchFailed: the device failed.
        """
        wanted = options or EventOptions()
        handle = self.runtime.ffi.new("Event *")
        flags = 0 if wanted.timing else self.runtime.constant("EventFlags", "DisableTiming")
        if wanted.blocking_sync:
            flags |= self.runtime.constant("EventFlags", "BlockingSync")
        with self.current():
            self.call("EventCreateWithFlags", handle, flags)
        return Event(self, handle[0], wanted)

    def load_module(self, path: Path | str, declared: Mapping[str, tuple[Parameter, ...]] | None = None) -> Module:
        """Load a compiled module.

        Args:
            path: the file.
            declared: parameters of its kernels. Where the vendor tells them, they must agree; where it does not, they
                are what arguments are checked against.

        Raises:
            ModuleInvalid: the file is missing, damaged or of another architecture.
        """
        handle = self.runtime.ffi.new("Module *")
        with self.current():
            self.call("ModuleLoad", handle, str(path).encode())
        return Module(self, handle[0], Path(path), declared)

    # ---- the whole device

    def synchronize(self) -> None:
        """Block until all work of the device has ended.

        Raises:
            LaunchFailed: a kernel failed.
        """
        with self.current():
            self.call("DeviceSynchronize")
        self.end_orphans()

    def reset(self) -> None:
        """Wait for the device's work, destroy everything on it, and clear a failure.

        Every buffer, stream, event and module of the device, of all objects for it, is closed thereby; a NumPy view of
        its memory must not be used again.
        """
        with self.current():
            self.call("DeviceReset")
        self._orphans.clear()
        self.__dict__.pop("default_stream", None)
        self.runtime.count_reset(self.vendor_ordinal)
