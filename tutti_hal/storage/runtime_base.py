"""What a runtime has, and its life: a ring over drives, registered memory, open targets; its beginning and end."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from tutti_hal.errors import DrivesInvalid, HandleInvalid, StorageBusy, StorageError, StorageStopped
from tutti_hal.io_uring.layout import Access
from tutti_hal.io_uring.ring import Ring
from tutti_hal.storage.flights import Flights
from tutti_hal.storage.handles import new_runtime_number
from tutti_hal.storage.memory import Memory, MemoryTable
from tutti_hal.storage.options import RuntimeOptions
from tutti_hal.storage.outcomes import OpenOutcome, RuntimeState
from tutti_hal.storage.places import Place
from tutti_hal.storage.resolve import Resolvers
from tutti_hal.storage.targets import TargetInfo, TargetTable

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from tutti_hal.io_uring.statistics import Statistics
    from tutti_hal.shim import Device
    from tutti_hal.storage.drives import StorageDrive
    from tutti_hal.storage.targets import Resolved

_BOTH = Access.DRIVE_READS | Access.DRIVE_WRITES


class _Holdings:
    """What a runtime holds, in the order in which it ends: also when nobody shuts the runtime down."""

    def __init__(self, ring: Ring, owned: ExitStack) -> None:
        self.ring, self.owned = ring, owned
        self.memory: MemoryTable | None = None
        self.targets: TargetTable | None = None

    def close(self) -> None:
        """Queues first, so that no drive moves data any more; then mappings and memory, files, and owned drives."""
        with self.owned:
            if self.targets is not None:
                self.owned.callback(self.targets.release_files)
            if self.memory is not None:
                self.owned.callback(self.memory.close)
            self.ring.close()


class RuntimeBase:
    """A runtime without its requests: see `StorageRuntime`."""

    def __init__(self) -> None:
        """Use `create`."""
        raise StorageError("make a StorageRuntime", "it is made by create()", "Call StorageRuntime.create(...).")

    @classmethod
    def create(
        cls,
        device: Device,
        drives: Sequence[StorageDrive],
        options: RuntimeOptions | None = None,
        *,
        owned: ExitStack | None = None,
    ) -> Self:
        """Makes a runtime: a ring over the drives, and empty tables. All or nothing.

        Args:
            device: where the ring's kernel runs.
            drives: what it may use; they must outlive it.
            options: sizes and bounds.
            owned: closed at the end of the runtime, such as the stack that holds the drives. It is closed as well when
                this raises.

        Raises:
            DrivesInvalid: no drive, two of one name or of one source.
            TuttiError: as `Ring.init_queue`.
        """
        options = options or RuntimeOptions()
        with owned or ExitStack() as undo:
            _check_drives(drives)
            ring = Ring.init_queue(device, [one.drive for one in drives], options.ring)
            runtime = cls.__new__(cls)
            runtime._begin(device, drives, options, _Holdings(ring, undo.pop_all()))
        return runtime

    def _begin(
        self, device: Device, drives: Sequence[StorageDrive], options: RuntimeOptions, holdings: _Holdings
    ) -> None:
        self.device, self.options, self.drives = device, options, tuple(drives)
        self._holdings, self._ring = holdings, holdings.ring
        # Whoever forgets the runtime leaves no memory under DMA.
        self._finalizer = weakref.finalize(self, holdings.close)
        number = new_runtime_number()
        self._memory = holdings.memory = MemoryTable(device, self._ring, drives, number)
        self._targets = holdings.targets = TargetTable(number)
        self._places = [Place(one, self._ring.target(index, one.nsid)) for index, one in enumerate(drives)]
        self._resolvers = Resolvers(self._places)
        streams = [holdings.owned.enter_context(device.create_stream()) for _ in range(options.ring.batches)]
        simulation = device.profile.backend.simulation()
        simulated = simulation is not None and simulation.simulates(device.profile.record.archs[device.profile.arch])
        self._lock = threading.RLock()
        self._flights = Flights(
            number, self._ring, options, self._memory, self._targets, streams, simulated, self._lock
        )
        self._state = RuntimeState.RUNNING

    # ---- what it is ----

    @property
    def state(self) -> RuntimeState:
        """RUNNING, DRAINING or STOPPED."""
        return self._state

    @property
    def in_flight(self) -> int:
        """Submits that have not ended."""
        return len(self._flights)

    def statistics(self) -> Statistics:
        """Counters of the ring's queues; see `Ring.statistics`.

        Raises:
            StorageStopped: the runtime has stopped.
        """
        with self._lock:
            self._require_alive("read statistics")
            return self._ring.statistics()

    def _require_running(self, doing: str) -> None:
        if self._state is not RuntimeState.RUNNING:
            raise StorageStopped(doing, f"the runtime is {self._state.value}", "Make another one.")

    def _require_alive(self, doing: str) -> None:
        if self._state is RuntimeState.STOPPED:
            raise StorageStopped(doing, "the runtime is stopped", "Make another one.")

    # ---- memory ----

    def allocate(self, nbytes: int, kind: str = "mapped") -> Memory:
        """Allocates memory of the device that every drive reaches, and registers it. Contents are undefined.

        Args:
            nbytes: at least 1; rounded up to whole pages.
            kind: of `MemoryKind`; ``device`` only where the drives reach it.

        Raises:
            MemoryRefused: no length, or no room in the ring's table (`RingOptions.buffers`).
            StorageStopped: the runtime is not running.
            TuttiError: the device has no such memory, or a drive does not reach it.
        """
        with self._lock:
            self._require_running("allocate memory")
            return self._memory.allocate(nbytes, kind)

    def register(self, memory: Any, access: Access = _BOTH, *, nbytes: int | None = None) -> int:
        """Makes the caller's memory usable in requests. Returns its handle.

        The memory stays the caller's. It must not be closed before `unregister`; host-visible memory that is closed all
        the same stays allocated until then, and other memory is refused by submit.

        Args:
            memory: a `Buffer` of the device, or a writable array of the host, or an address of the host's, which the
                caller keeps mapped; the latter two are registered with the device. Whole pages of the drives.
            access: what drives may do with it: DRIVE_WRITES for requests that read, DRIVE_READS for those that write.
            nbytes: of an address; else None.

        Raises:
            MemoryRefused: of another device, closed, not in whole pages, registered already, or no room.
            StorageStopped: the runtime is not running.
            TuttiError: a drive does not reach it.
        """
        with self._lock:
            self._require_running("register memory")
            return self._memory.register(memory, access, nbytes)

    def register_parts(
        self, handle: int, offsets: ArrayLike, nbytes: ArrayLike, access: Access | None = None
    ) -> NDArray[np.uint64]:
        """Handles of parts of registered memory, one for each offset: bounds within which a request stays.

        A row in a table each: cheap, and any number by one call. Memory is unregistered after its parts.

        Args:
            handle: of the memory, or of a part of it.
            offsets: in bytes, multiples of 4.
            nbytes: a length for each, or one for all.
            access: None takes the memory's; never more than that.

        Raises:
            HandleInvalid: no such memory.
            MemoryRefused: a part outside, empty, or of more access.
            StorageExhausted: no room in the table.
            StorageStopped: the runtime is not running.
        """
        with self._lock:
            self._require_running("register parts of memory")
            return self._memory.register_parts(handle, offsets, nbytes, access)

    def unregister(self, handles: ArrayLike | Memory) -> None:
        """Ends registrations, all or none. The memory is the caller's again; what `allocate` gave is freed.

        Raises:
            HandleInvalid: one that is not registered (any more).
            MemoryRefused: one is given twice.
            StorageBusy: requests in flight use it, parts of it are registered, or a drive may still move its data:
                wait, or `recover`.
            StorageStopped: the runtime has stopped; it ended all registrations.
        """
        import numpy as np

        given = handles.handle if isinstance(handles, Memory) else handles
        with self._lock:
            self._require_alive("unregister memory")
            self._memory.unregister(np.atleast_1d(np.asarray(given, np.uint64)).ravel())

    # ---- targets ----

    def open(self, uri: str) -> int:
        """Opens a target. Returns its handle.

        ``file:///path?mode=r|rw``: a file, by its extents on a drive, or a file that is a drive's image.
        ``raw://drive?offset=&size=&mode=``: a range of a namespace.
        ``striped://a,b,c?unit=512KiB&rotation=0&mode=``: over drives (``offset=``, ``size=`` of each) or files.

        Blocks while the file's dirty pages are written back. The file stays open until `close`.

        Raises:
            UriInvalid: it is none of these.
            TargetError: its subclass says why the target cannot be used.
            StorageExhausted: `RuntimeOptions.max_targets` are open.
            StorageStopped: the runtime is not running.
        """
        outcome = self.open_batch([uri])
        if outcome.errors[0] is not None:
            raise outcome.errors[0]
        return int(outcome.handles[0])

    def open_batch(self, uris: Sequence[str]) -> OpenOutcome:
        """Opens targets; one that cannot be opened fails alone. Outside the lock, all files by one native call.

        Raises:
            StorageExhausted: there is no room for all that could be opened; then none is open.
            StorageStopped: the runtime is not running.
        """
        import numpy as np

        with self._lock:
            self._require_running("open targets")
        found = self._resolvers.resolve_all(uris)
        handles = np.zeros(len(found), np.uint64)
        good = [index for index, one in enumerate(found) if not isinstance(one, StorageError)]
        resolved: list[Resolved] = [found[index] for index in good]  # type: ignore[misc]
        try:
            with self._lock:
                self._require_running("open targets")
                handles[good] = self._targets.add(resolved)
        except BaseException:
            for one in resolved:
                one.close()
            raise
        return OpenOutcome(handles, tuple(one if isinstance(one, StorageError) else None for one in found))

    def target(self, handle: int) -> TargetInfo:
        """What is known of an open target.

        Raises:
            HandleInvalid: it is not open.
            StorageStopped: the runtime has stopped.
        """
        with self._lock:
            self._require_alive("look at a target")
            slot = self._targets.slots.require(handle, "look at a target")
            opened = self._targets.opened(slot)
            below = [place for place in self._places if place.target.row in opened.rows]
            return TargetInfo(
                uri=opened.resolved.uri,
                size=opened.resolved.size,
                block=opened.resolved.block,
                writable=opened.resolved.writable,
                drives=tuple(place.drive.name for place in sorted(below, key=lambda place: place.target.row)),
                extents=sum(len(leaf) for leaf in opened.resolved.leaves),
                in_flight=int(self._targets.slots.rows["users"][slot]),
                atomic_bytes=min(place.target.lba_bytes for place in below),
                volatile=any(place.drive.drive.handle.limits.volatile_write_cache for place in below),
            )

    def close(self, handle: int) -> None:
        """Closes a target and lets its file go.

        Raises:
            HandleInvalid: it is not open.
            StorageBusy: requests in flight use it.
            StorageStopped: the runtime has stopped; it closed all targets.
        """
        import numpy as np

        with self._lock:
            self._require_alive("close a target")
            self._targets.close(np.array([self._targets.slots.require(handle, "close a target")]))

    def close_batch(self, handles: ArrayLike) -> tuple[StorageError | None, ...]:
        """Closes targets, each for itself. Returns what went wrong with each; None where it is closed.

        Raises:
            StorageStopped: the runtime has stopped.
        """
        import numpy as np

        given = np.atleast_1d(np.asarray(handles, np.uint64)).ravel()
        outcome: list[StorageError | None] = [None] * len(given)
        with self._lock:
            self._require_alive("close targets")
            slots, good = self._targets.slots.find(given)
            good &= self._targets.slots.rows["users"][slots] == 0 if len(self._targets.slots.rows) else False
            # Of a handle that is given twice the first one.
            good[np.setdiff1d(np.arange(len(given)), np.unique(given, return_index=True)[1])] = False
            self._targets.close(slots[good])
            for index in np.flatnonzero(~good).tolist():
                try:
                    self.close(int(given[index]))
                except (HandleInvalid, StorageBusy) as error:
                    outcome[index] = error
        return tuple(outcome)

    # ---- the end ----

    def shutdown(self, timeout_s: float | None = None) -> None:
        """Takes nothing new, waits for what is in flight, then ends queues, registrations, memory, targets and drives.

        The second call does nothing. What `submit` gave cannot be waited for afterwards.

        Args:
            timeout_s: None waits as long as the drives may take.

        Raises:
            StorageTimeout: something is still in flight. The runtime stays DRAINING and holds everything; call again.
            TuttiError: a drive did not delete its queues; the rest is ended all the same.
        """
        with self._lock:
            if self._state is RuntimeState.STOPPED:
                return
            self._state = RuntimeState.DRAINING
        self._flights.drain(timeout_s)
        with self._lock:
            self._state = RuntimeState.STOPPED
            self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception) and self._state is not RuntimeState.STOPPED:
            # Ctrl-C: do not wait for a batch that takes its time. Queues end with the ring, whatever they still had.
            self._ring.stop()
        self.shutdown()


def _check_drives(drives: Sequence[StorageDrive]) -> None:
    doing = f"make a runtime over {len(drives)} drives"
    if not drives:
        raise DrivesInvalid(doing, "there is none", "Give at least one.")
    for noun, values in (
        ("name", [one.name for one in drives]),
        ("source", [str(one.source) for one in drives if one.source is not None]),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise DrivesInvalid(doing, f"two have the {noun} {twice[0]}", f"Give each a {noun} of its own.")
    bad = [one.name for one in drives if not one.name or any(sign in one.name for sign in "/,?#%&: ")]
    if bad:
        raise DrivesInvalid(doing, f"a drive is called '{bad[0]}'", "Use a name without / , ? # % & : and blanks.")
