"""What stands behind each function of ``tutti_storage.h``: judge the arguments, call the runtime, tell errors.

A function here has the name of the header's and its parameters but the last, which is where its error goes. It returns
nothing when it went well. Whatever it raises becomes a status, an id and a text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tutti_hal.errors import (
    ArgumentInvalid,
    BufferInvalid,
    HandleInvalid,
    InvalidArgument,
    MemoryRefused,
    NotSupported,
    OutOfMemory,
    ProfileError,
    RecoveryFailed,
    SpecError,
    StorageError,
    StorageStopped,
    TuttiError,
)
from tutti_hal.io_uring.layout import Access
from tutti_hal.storage.c_api.mapped import writable
from tutti_hal.storage.outcomes import RuntimeState
from tutti_hal.storage.records import initial_dtype, request_dtype, result_dtype
from tutti_hal.storage.runtime import StorageRuntime
from tutti_hal.storage.status import EXPLAINED, Reason, Status

#: The header's, which a configuration must name.
VERSION = 1
#: Of one array: more is a mistake, such as a negative number.
_LIMIT = 1 << 24
_STATES = (RuntimeState.RUNNING, RuntimeState.DRAINING, RuntimeState.STOPPED)
_KINDS = ("mapped", "device")
_BOTH = int(Access.DRIVE_READS | Access.DRIVE_WRITES)

#: The statuses of errors that are not of the storage layer; of several classes the first that fits.
_STATUSES: tuple[tuple[type[BaseException], Status], ...] = (
    (NotSupported, Status.UNSUPPORTED),
    (ProfileError, Status.UNSUPPORTED),
    (OutOfMemory, Status.RESOURCE_EXHAUSTED),
    (MemoryError, Status.RESOURCE_EXHAUSTED),
    (RecoveryFailed, Status.DEVICE_ERROR),
    (InvalidArgument, Status.INVALID_ARGUMENT),
    (BufferInvalid, Status.INVALID_ARGUMENT),
    (KeyboardInterrupt, Status.CANCELLED),
)


def status_of(error: BaseException) -> Status:
    """The status that stands for an error."""
    if isinstance(error, SpecError):
        return Status.INVALID_ARGUMENT
    if isinstance(error, StorageError):
        return Status[error.status]
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), Status.INTERNAL)


def install(ffi: Any) -> None:
    """Puts the functions behind the library's. Called once, when it starts Python.

    Args:
        ffi: the library's own.
    """
    calls = Calls(ffi)
    names = [name for name in vars(Calls) if not name.startswith("_")]
    for name in names:
        ffi.def_extern(f"py_{name}", error=int(Status.INTERNAL))(_guarded(ffi, getattr(calls, name)))


def _guarded(ffi: Any, call: Callable[..., None]) -> Callable[..., int]:
    def guarded(*args: Any) -> int:
        try:
            call(*args[:-1])
        except BaseException as error:
            return _told(ffi, error, args[-1])
        return int(Status.OK)

    return guarded


def _told(ffi: Any, error: BaseException, fault: Any) -> int:
    # A function of its own: a frame of the error's own traceback must not keep the error, nor it the caller's memory.
    ours = error if isinstance(error, TuttiError) else None
    _write(ffi, fault.id, (ours or TuttiError).id)
    _write(ffi, fault.text, str(ours) if ours else f"[{TuttiError.id}] {type(error).__name__}: {error}")
    return int(status_of(error))


def _write(ffi: Any, place: Any, text: str) -> None:
    """A text into an array of characters, cut between characters where it does not fit; always ends with 0."""
    room = ffi.sizeof(place) - 1
    raw = text.encode(errors="replace").replace(b"\0", b" ")[:room].decode(errors="ignore").encode()
    ffi.memmove(place, raw + b"\0", len(raw) + 1)


class Calls:
    """The runtimes of a process, and the header's functions over them. Thread safe.

    Args:
        ffi: the library's.
    """

    def __init__(self, ffi: Any) -> None:
        self._ffi = ffi
        self._lock = threading.Lock()
        self._runtimes: dict[int, StorageRuntime] = {}
        self._made = 0

    # ---- arguments ----

    def _given(self, doing: str, **pointers: Any) -> None:
        for name, pointer in pointers.items():
            if pointer == self._ffi.NULL:
                raise ArgumentInvalid(doing, f"{name} is NULL", "Pass an address.")

    def _text(self, doing: str, name: str, pointer: Any) -> str:
        self._given(doing, **{name: pointer})
        raw: bytes = self._ffi.string(pointer)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise ArgumentInvalid(doing, f"{name} is not UTF-8: {error.reason} at byte {error.start}", "") from None

    def _array(self, doing: str, name: str, pointer: Any, count: int, dtype: Any) -> Any:
        """An array of the caller's, as NumPy sees it; nothing is copied."""
        import numpy as np

        if not 0 <= count <= _LIMIT:
            raise ArgumentInvalid(doing, f"{count} {name}", f"Pass at most {_LIMIT}.")
        record = np.dtype(dtype)
        if not count:
            return np.zeros(0, record)
        self._given(doing, **{name: pointer})
        return np.frombuffer(self._ffi.buffer(pointer, count * record.itemsize), record)

    def _runtime(self, doing: str, number: int) -> StorageRuntime:
        with self._lock:
            found, made = self._runtimes.get(number), self._made
        if found is not None:
            return found
        if 0 < number <= made:
            raise StorageStopped(doing, f"runtime {number} has stopped", "Make another one.")
        raise HandleInvalid(doing, f"{number:#x} is no runtime", "Pass what tutti_storage_create gave.")

    # ---- a runtime ----

    def explain(self, status: int, reason: int, text: Any, room: int) -> None:
        """Words for numbers."""
        doing = "explain a status"
        self._given(doing, text=text)
        if not room:
            raise ArgumentInvalid(doing, "room for 0 bytes", "Pass an array.")
        try:
            words = f"{Status(status).name}: {EXPLAINED[Reason(reason)].text}"
        except ValueError as error:
            raise ArgumentInvalid(doing, str(error), "Pass what a record has.") from None
        _write(self._ffi, self._ffi.cast(f"char(*)[{min(room, 4096)}]", text)[0], words)

    def create(self, config: Any, runtime: Any) -> None:
        """From a configuration in YAML."""
        from tutti_hal.storage.config import default_application, open_runtime, read_application, read_deployment

        doing = "create a runtime"
        self._given(doing, config=config, runtime=runtime)
        runtime[0] = 0
        expected = self._ffi.sizeof("tutti_config")
        if config.struct_size != expected or config.version != VERSION:
            raise ArgumentInvalid(
                doing,
                f"a tutti_config of {config.struct_size} bytes, version {config.version}; "
                f"this library has {expected} bytes, version {VERSION}",
                "Set struct_size and version, and compile against this library's header.",
            )
        folder = Path(self._text(doing, "folder", config.folder) if config.folder else ".")
        machine = self._one_of(doing, config, "deployment", folder)
        if machine is None:
            raise ArgumentInvalid(doing, "neither deployment nor deployment_text", "Set one of them.")
        program = self._one_of(doing, config, "application", folder)
        deployment = read_deployment(*machine)
        application = default_application()
        if program is not None:
            application = read_application(program[0], deployment, text=program[1])
        made = open_runtime(deployment, application)
        with self._lock:
            self._made += 1
            self._runtimes[self._made] = made
            runtime[0] = self._made

    def _one_of(self, doing: str, config: Any, noun: str, folder: Path) -> tuple[Path, str | None] | None:
        path, text = getattr(config, noun), getattr(config, f"{noun}_text")
        if path and text:
            raise ArgumentInvalid(doing, f"both {noun} and {noun}_text", "Set one of them.")
        if path:
            return Path(self._text(doing, noun, path)), None
        return (folder / f"({noun})", self._text(doing, noun, text)) if text else None

    def shutdown(self, runtime: int, timeout_ns: int) -> None:
        """And forgets it."""
        try:
            found = self._runtime("shut a runtime down", runtime)
        except StorageStopped:
            return
        try:
            found.shutdown(_seconds(timeout_ns))
        finally:
            if found.state is RuntimeState.STOPPED:
                with self._lock:
                    self._runtimes.pop(runtime, None)

    def state(self, runtime: int, state: Any) -> None:
        """Of its life."""
        doing = "look at a runtime"
        self._given(doing, state=state)
        state[0] = 0
        try:
            state[0] = _STATES.index(self._runtime(doing, runtime).state)
        except StorageStopped:
            state[0] = _STATES.index(RuntimeState.STOPPED)

    def end(self) -> None:
        """The process ends: so do runtimes that are open."""
        with self._lock:
            left = list(self._runtimes.values())
            self._runtimes.clear()
        for one in left:
            one.shutdown()

    # ---- memory ----

    def register(self, runtime: int, kind: int, address: Any, nbytes: int, access: int, memory: Any) -> None:
        """The caller's memory, by address."""
        doing = f"register {nbytes} bytes"
        self._given(doing, memory=memory)
        memory[0] = 0
        self._given(doing, address=address)
        where = int(self._ffi.cast("uintptr_t", address))
        if _kind(doing, kind) == "device":
            doing = f"register {nbytes} bytes of the device"
        if not 0 < access <= _BOTH:
            raise ArgumentInvalid(doing, f"access {access:#x}", "Pass a sum of TUTTI_DRIVE_READS, TUTTI_DRIVE_WRITES.")
        found = self._runtime(doing, runtime)
        if not nbytes:
            raise MemoryRefused(doing, "no length", "Pass at least a page.")
        if not writable(where, nbytes):
            if kind:
                raise NotSupported(
                    doing,
                    f"these drives move bytes with the processor, which does not reach {where:#x}",
                    "Use memory of tutti_storage_allocate, or a profile whose memory the processor reaches.",
                    vendor=found.device.vendor,
                )
            raise MemoryRefused(doing, f"{where:#x} is not writable memory of this process", "Pass memory of it.")
        allowed = Access(access)
        if kind:
            memory[0] = found.register(found.device.adopt(where, nbytes), allowed)
        else:
            memory[0] = found.register(where, allowed, nbytes=nbytes)

    def allocate(self, runtime: int, kind: int, nbytes: int, memory: Any, host: Any, device: Any) -> None:
        """The runtime's own memory."""
        doing = f"allocate {nbytes} bytes"
        self._given(doing, memory=memory)
        memory[0] = 0
        for place in (host, device):
            if place:
                place[0] = self._ffi.NULL if place is host else 0
        name = _kind(doing, kind)
        found = self._runtime(doing, runtime)
        if nbytes >= 1 << 63:
            raise MemoryRefused(doing, "no memory is as long", "Ask for less.")
        if name == "device" and "software" in {label for one in found.drives for label in one.label.split(", ")}:
            self._check_reach(doing, found)
        made = found.allocate(nbytes, name)
        memory[0] = made.handle
        if device:
            device[0] = made.address
        if host and made.buffer.kind.host_visible:
            host[0] = self._ffi.cast("void *", made.buffer.host_address + made.skip)

    def _check_reach(self, doing: str, runtime: StorageRuntime) -> None:
        """Whether software drives reach the device's memory, by a page of it."""
        with runtime.device.allocate(4096) as probe:
            if writable(probe.address, probe.nbytes):
                return
        raise NotSupported(
            doing,
            "these drives move bytes with the processor, which does not reach the device's memory",
            "Use TUTTI_HOST_MEMORY, which kernels reach as well.",
            vendor=runtime.device.vendor,
        )

    def unregister(self, runtime: int, memory: Any, count: int) -> None:
        """All or none."""
        doing = "unregister memory"
        handles = self._array(doing, "memory", memory, count, "<u8")
        found = self._runtime(doing, runtime)
        if count:
            found.unregister(handles.copy())

    # ---- targets ----

    def open(self, runtime: int, uri: Any, target: Any) -> None:
        """One."""
        doing = "open a target"
        self._given(doing, target=target)
        target[0] = 0
        text = self._text(doing, "uri", uri)
        target[0] = self._runtime(doing, runtime).open(text)

    def open_batch(self, runtime: int, uris: Any, count: int, outcomes: Any) -> None:
        """Many, each for itself."""
        doing = f"open {count} targets"
        self._array(doing, "outcomes", outcomes, count, f"V{self._ffi.sizeof('tutti_outcome')}").view("u1")[:] = 0
        if count:
            self._given(doing, uris=uris)
        texts = [self._text(doing, f"uris[{index}]", uris[index]) for index in range(count)]
        opened = self._runtime(doing, runtime).open_batch(texts)
        for index, error in enumerate(opened.errors):
            self._tell(outcomes[index], int(opened.handles[index]), error)

    def _tell(self, outcome: Any, target: int, error: StorageError | None) -> None:
        outcome.target = target
        outcome.status = int(Status.OK if error is None else status_of(error))
        _write(self._ffi, outcome.id, "" if error is None else error.id)

    def target_info(self, runtime: int, target: int, info: Any) -> None:
        """Of one that is open."""
        doing = "look at a target"
        self._given(doing, info=info)
        info.size = info.block = info.writable = 0
        found = self._runtime(doing, runtime).target(target)
        info.size, info.block, info.writable = found.size, found.block, int(found.writable)

    def close(self, runtime: int, target: int) -> None:
        """One."""
        self._runtime("close a target", runtime).close(target)

    def close_batch(self, runtime: int, targets: Any, count: int, outcomes: Any) -> None:
        """Many, each for itself."""
        doing = f"close {count} targets"
        handles = self._array(doing, "targets", targets, count, "<u8").copy()
        errors = self._runtime(doing, runtime).close_batch(handles)
        if outcomes:
            for index, error in enumerate(errors):
                self._tell(outcomes[index], int(handles[index]), error)

    # ---- requests ----

    def submit(self, runtime: int, requests: Any, request_size: int, count: int, initial: Any, io: Any) -> None:
        """A batch."""
        doing = "submit requests"
        self._given(doing, io=io)
        io[0] = 0
        _size(doing, "request_size", request_size, request_dtype().itemsize)
        said = self._array(doing, "initial", initial, count, initial_dtype())
        said[:] = 0
        rows = self._array(doing, "requests", requests, count, request_dtype())
        submission = self._runtime(doing, runtime).submit(rows)
        said[:] = submission.initial
        io[0] = submission.io or 0

    def wait(self, runtime: int, io: int, timeout_ns: int, results: Any, result_size: int, room: int) -> None:
        """For its results."""
        doing = "wait for a submit"
        _size(doing, "result_size", result_size, result_dtype().itemsize)
        found = self._runtime(doing, runtime)
        count = found.query(io).requests
        if room < count:
            raise ArgumentInvalid(doing, f"room for {room} results of {count}", "Pass room for all.")
        rows = self._array(doing, "results", results, count, result_dtype())
        rows[:] = found.wait(io, _seconds(timeout_ns))

    def query(self, runtime: int, io: int, state: Any) -> None:
        """How it stands."""
        doing = "query a submit"
        self._given(doing, state=state)
        state.requests = state.accepted = state.ended = state.reserved = 0
        found = self._runtime(doing, runtime).query(io)
        state.requests, state.accepted, state.ended = found.requests, found.accepted, int(found.ended)

    def progress(self, runtime: int, limit: int, ended: Any) -> None:
        """Takes what ended."""
        if ended:
            ended[0] = 0
        count = self._runtime("make progress", runtime).progress(limit)
        if ended:
            ended[0] = count

    def release(self, runtime: int, io: int) -> None:
        """Forgets it."""
        self._runtime("release a submit", runtime).release(io)

    def cancel(self, runtime: int, cancelled: Any) -> None:
        """Everything in flight."""
        if cancelled:
            cancelled[0] = 0
        count = self._runtime("cancel submits", runtime).cancel()
        if cancelled:
            cancelled[0] = count

    def recover(self, runtime: int, drive: Any) -> None:
        """One drive, or all."""
        doing = "recover drives"
        name = self._text(doing, "drive", drive) if drive else None
        self._runtime(doing, runtime).recover(name)


def _seconds(timeout_ns: int) -> float | None:
    return None if timeout_ns < 0 else timeout_ns / 1e9


def _kind(doing: str, kind: int) -> str:
    if not 0 <= kind < len(_KINDS):
        raise ArgumentInvalid(doing, f"kind {kind}", "Pass TUTTI_HOST_MEMORY or TUTTI_DEVICE_MEMORY.")
    return _KINDS[kind]


def _size(doing: str, name: str, given: int, expected: int) -> None:
    if given != expected:
        raise ArgumentInvalid(
            doing, f"{name} is {given}, and this library's is {expected}", "Compile against this library's header."
        )
