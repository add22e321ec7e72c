"""One class for every C runtime with the field's call shapes, driven by the vendor's record.

The contract gives the C signatures, the record the naming rule, its exceptions and the numbers. A function whose
symbol is not in the vendor's libraries is absent, and its capability with it: nothing is emulated here.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal import errors
from tutti_hal.spec import load_spec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.record import Record
    from tutti_hal.spec.tables import HostFunction, Spec

#: Canonical error name -> the exception it becomes. Everything else is a plain RuntimeFailure.
_EXCEPTIONS: dict[str, type[errors.RuntimeFailure]] = {
    "MemoryAllocation": errors.OutOfMemory,
    "InvalidValue": errors.InvalidArgument,
    "InvalidMemcpyDirection": errors.InvalidArgument,
    "InvalidDevicePointer": errors.InvalidArgument,
    "HostMemoryAlreadyRegistered": errors.InvalidArgument,
    "HostMemoryNotRegistered": errors.InvalidArgument,
    "InvalidResourceHandle": errors.BadHandle,
    "NoDevice": errors.WrongDevice,
    "InvalidDevice": errors.WrongDevice,
    "PeerAccessNotEnabled": errors.WrongDevice,
    "NotSupported": errors.NotSupported,
    "NotPermitted": errors.NotSupported,
    "PeerAccessUnsupported": errors.NotSupported,
    "CallRequiresNewerDriver": errors.NotSupported,
    "InvalidKernelImage": errors.ModuleInvalid,
    "NoKernelImageForDevice": errors.ModuleInvalid,
    "FileNotFound": errors.ModuleInvalid,
    "SymbolNotFound": errors.ModuleInvalid,
    "InvalidDeviceFunction": errors.ModuleInvalid,
    "InvalidConfiguration": errors.LaunchRefused,
    "LaunchOutOfResources": errors.LaunchRefused,
    "CooperativeLaunchTooLarge": errors.LaunchRefused,
    "IllegalAddress": errors.LaunchFailed,
    "LaunchFailure": errors.LaunchFailed,
    "LaunchTimeout": errors.LaunchTimeout,
}

#: What a canonical error of one function becomes, where that function means something else by it.
_OF_CALLS: dict[tuple[str, str], type[errors.RuntimeFailure]] = {
    ("LaunchKernel", "InvalidValue"): errors.LaunchRefused,
    ("LaunchCooperativeKernel", "InvalidValue"): errors.LaunchRefused,
    ("LaunchKernelLimit", "InvalidValue"): errors.LaunchRefused,
    ("MemGetAddressRange", "SymbolNotFound"): errors.InvalidArgument,
}

_FIXES: dict[type[errors.RuntimeFailure], str] = {
    errors.OutOfMemory: "Free memory, ask for less, or use another device.",
    errors.InvalidArgument: "Correct the argument.",
    errors.BadHandle: "Use an object that is open, on the device that it belongs to.",
    errors.WrongDevice: "Use an ordinal below the device count, and objects of one device together.",
    errors.NotSupported: "Use a device, a driver and an SDK that have it, or do without.",
    errors.ModuleInvalid: "Build the module for this profile and device, and name a kernel that it has.",
    errors.LaunchRefused: "Use a smaller grid, block or shared memory, within the device's limits.",
    errors.LaunchFailed: "Find the cause in the kernel, and reset the device before using it again.",
    errors.LaunchTimeout: "Raise the launch's limit or find what the kernel waits for, and reset the device.",
    errors.LaunchDeadlock: "Find what the stuck lanes wait for, and reset the device.",
}

#: What to do where a function says more of the cause than the error does: memory of the host, and what limits it.
_FIXES_OF_CALLS = {
    (name, error): (
        "Free page-locked memory or ask for less, and raise what limits it: `ulimit -l`, the container's memory limit."
    )
    for name in ("HostAlloc", "HostRegister", "MallocHost")
    for error in ("MemoryAllocation", "OperatingSystem")
}

_DETAIL_BYTES = 1024
#: TT_RUN_DEADLOCK of a launch report.
_OUTCOME_DEADLOCK = 2


class HostCalls(Counter[str]):
    """How often each host function was called, by canonical name. Adding is thread safe; ``total()`` sums up.

    ``copy()`` is a plain Counter, so that ``device.host_calls - before`` says what was called in between.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def copy(self) -> Counter[str]:  # type: ignore[override]
        """The counts so far."""
        with self._lock:
            return Counter(dict(self))

    def add(self, name: str) -> None:
        """Count one call."""
        with self._lock:
            self[name] += 1


@dataclass(frozen=True)
class LeftBehind:
    """Objects of a device that could not be ended where they were dropped or closed.

    Attributes:
        ends: the device's generation then, and how each is ended.
        holds: one entry for each reason to end none for now.
    """

    ends: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque)
    holds: list[None] = field(default_factory=list)


class CRuntime:
    """A vendor's runtime: its functions under canonical names, its numbers, its errors.

    Thread safe. Calls release the GIL.
    """

    def __init__(self, record: Record, libraries: Iterable[Path | str], spec: Spec | None = None) -> None:
        """Open the libraries and bind every function of the contract that they have.

        Args:
            record: the vendor's record.
            libraries: paths or names for the loader, in the order in which symbols are looked up. One that cannot be
                opened is passed over as long as another one can.
            spec: the contract; the installed one when None.

        Raises:
            RuntimeMissing: no library could be opened; lists each with the loader's reason.
        """
        import cffi

        contract = spec or load_spec()
        self.record = record
        self.vendor = record.vendor
        self.ffi: Any = cffi.FFI()
        self._functions = contract.host_functions
        for name, text in contract.host_types.items():
            self.ffi.cdef(f"typedef {text} {name};")
        for function in contract.host_functions.values():
            more = [ctype for ctype, _ in record.host_api.append.get(function.name, ())]
            for symbol in record.host_api.symbols(function.name):
                self.ffi.cdef(declaration(function, symbol, more), override=True)
        #: Why each library that could not be opened could not, in the loader's words.
        self.unopened: tuple[str, ...] = ()
        self._libraries = self._open(libraries)
        self._bound: dict[str, Callable[..., Any]] = {}
        for function in contract.host_functions.values():
            found = map(self._find, record.host_api.symbols(function.name))
            bound = next((one for one in found if one is not None), None)
            if bound is not None:
                values = [value for _, value in record.host_api.append.get(function.name, ())]
                self._bound[function.name] = _appending(bound, values) if values else bound
        self._generations: Counter[int] = Counter()
        self._generations_lock = threading.Lock()
        self._left_behind: dict[int, LeftBehind] = {}

    def _open(self, libraries: Iterable[Path | str]) -> list[Any]:
        opened, refused = [], []
        for library in libraries:
            try:
                opened.append(self.ffi.dlopen(str(library)))
            except OSError as error:
                refused.append(str(error))
        if not opened:
            raise errors.RuntimeMissing(
                f"open the runtime of {self.vendor}",
                "; ".join(refused) or "its record names no library",
                "Install the vendor's SDK, or set the variable that its record names.",
                vendor=self.vendor,
            )
        self.unopened = tuple(refused)
        return opened

    def _find(self, symbol: str) -> Callable[..., Any] | None:
        for library in self._libraries:
            try:
                found: Callable[..., Any] = getattr(library, symbol)
            except AttributeError:
                continue
            return found
        return None

    # ---- what there is

    def has(self, name: str) -> bool:
        """Whether the function is in the vendor's libraries."""
        return name in self._bound

    def capable(self, capability: str) -> bool:
        """Whether the record claims the capability and every function that it makes mandatory is there."""
        return self.record.capabilities.get(capability, False) and all(
            f.name in self._bound for f in self._functions.values() if f.capability == capability
        )

    def require(self, capability: str, tried: str) -> None:
        """Refuse unless :meth:`capable`.

        Raises:
            NotSupported: names the capability, and the functions that are missing for it.
        """
        if self.capable(capability):
            return
        lacking = [f.name for f in self._functions.values() if f.capability == capability and not self.has(f.name)]
        claimed = self.record.capabilities.get(capability, False)
        found = f"{self.vendor} lacks {', '.join(lacking)}" if claimed else f"{self.vendor} has no {capability}"
        raise errors.NotSupported(
            tried, found, "Use a device that has it, or do without.", capability=capability, vendor=self.vendor
        )

    def constant(self, group: str, name: str) -> int:
        """The vendor's number of a flag or kind.

        Raises:
            NotSupported: the record has no number for it.
        """
        numbers = self.record.constants.get(group)
        value = numbers.values.get(name) if numbers is not None else None
        if not isinstance(value, int):
            raise errors.NotSupported(
                f"look up {group}.{name}",
                f"the record of {self.vendor} has no number for it",
                "Add it to the record's constants.",
                vendor=self.vendor,
            )
        return value

    def attribute(self, name: str) -> int:
        """The vendor's number of a device attribute.

        Raises:
            NotSupported: the record has no number for it.
        """
        value = self.record.attributes.values.get(name)
        if not isinstance(value, int):
            raise errors.NotSupported(
                f"look up the device attribute {name}",
                f"the record of {self.vendor} has no number for it",
                "Add it to the record's attributes.",
                vendor=self.vendor,
            )
        return value

    def ordinals(self, arch: str) -> tuple[int, ...]:
        """The vendor's ordinals of the devices of an architecture, in order. Here: all devices.

        A backend whose devices differ overrides it.
        """
        del arch
        count = self.ffi.new("int *")
        self.call(HostCalls(), "GetDeviceCount", count)
        return tuple(range(count[0]))

    # ---- calls

    def code(self, counts: HostCalls, name: str, *args: Any) -> int:
        """Call a function and return the vendor's number.

        Raises:
            NotSupported: the vendor has no such function.
        """
        function = self._bound.get(name)
        if function is None:
            raise self._absent(name)
        counts.add(name)
        return int(function(*args))

    def call(self, counts: HostCalls, name: str, *args: Any, device: int = -1) -> None:
        """Call a function and raise unless it succeeds.

        Args:
            counts: where the call is counted.
            name: canonical name.
            args: cffi values, numbers and addresses, as the contract's signature says.
            device: the vendor's ordinal, so that a failed launch can be explained; -1 when there is none.

        Raises:
            RuntimeFailure: the subclass that the canonical error stands for.
            NotSupported: the vendor has no such function.
        """
        code = self.code(counts, name, *args)
        if code != 0:
            raise self.failure(name, code, device, counts)

    def batched_copy(
        self,
        counts: HostCalls,
        stream: Any,
        destinations: NDArray[np.uint64],
        sources: NDArray[np.uint64],
        sizes: NDArray[np.uint64],
    ) -> Callable[[], None]:
        """A function that enqueues many copies by one call of the vendor's own, as often as it is called.

        It is no part of the contract: benchmarks put it beside what the package does. A backend whose vendor has such a
        call overrides this.

        Args:
            counts: where the calls are counted, as ``MemcpyBatchAsync``.
            stream: the vendor's handle; not the default stream's.
            destinations: addresses, none of pageable memory. No copy may depend on another.
            sources: addresses, likewise.
            sizes: in bytes.

        Raises:
            NotSupported: the vendor has no such call, or it is not known here.
        """
        del counts, stream, destinations, sources, sizes
        raise errors.NotSupported(
            "enqueue many copies at once",
            f"no call of {self.vendor} is known that does",
            "Copy one after the other.",
            vendor=self.vendor,
        )

    def is_error(self, code: int, canonical: str) -> bool:
        """Whether a vendor's number is the error of that canonical name."""
        return self.record.errors.values.get(canonical) == code

    def failure(self, name: str, code: int, device: int = -1, counts: HostCalls | None = None) -> errors.RuntimeFailure:
        """The exception for a number that a function returned; takes it out of the thread's last error.

        The calls that explain the number are counted like any other, where ``counts`` is given.
        """
        canonical = self.record.errors.name_of(code) or ""
        symbol = self.record.host_api.symbol(name) or name
        counted = HostCalls() if counts is None else counts
        text = self.text(counted, "GetErrorString", code) or "no text"
        detail = self._detail(counted)
        self.forget_error(counted)
        kind = _OF_CALLS.get((name, canonical)) or _EXCEPTIONS.get(canonical, errors.RuntimeFailure)
        if kind is errors.LaunchFailed and self._deadlocked(device, counted):
            kind = errors.LaunchDeadlock
        spelled = self.record.errors.spelling(canonical) if canonical else self.text(counted, "GetErrorName", code)
        meaning = f"{canonical or 'not in the contract'}: {text}"
        found = f"{symbol} returned {code}{f' {spelled}' if spelled else ''} ({meaning})"
        return kind(
            f"call {name} of {self.vendor}",
            f"{found}: {detail}" if detail else found,
            _FIXES_OF_CALLS.get((name, canonical)) or _FIXES.get(kind, "See the vendor's documentation of this error."),
            vendor=self.vendor,
            call=name,
            code=code,
            canonical=canonical,
        )

    def text(self, counts: HostCalls, name: str, code: int) -> str:
        """What ``GetErrorName`` or ``GetErrorString`` says of a number; empty where it says nothing, or is absent."""
        if not self.has(name):
            return ""
        counts.add(name)
        text = self._bound[name](code)
        return "" if text == self.ffi.NULL else bytes(self.ffi.string(text)).decode(errors="replace")

    def forget_error(self, counts: HostCalls) -> None:
        """Take the calling thread's last error away, so that nobody else finds it."""
        if self.has("GetLastError"):
            self.code(counts, "GetLastError")

    def _detail(self, counts: HostCalls) -> str:
        if not self.has("GetLastErrorDetail"):
            return ""
        text = self.ffi.new("char[]", _DETAIL_BYTES)
        self.code(counts, "GetLastErrorDetail", text, _DETAIL_BYTES)
        return bytes(self.ffi.string(text)).decode(errors="replace")

    def _deadlocked(self, device: int, counts: HostCalls) -> bool:
        if device < 0 or not self.has("DeviceGetLaunchReport"):
            return False
        report = self.ffi.new("LaunchReport *")
        code = self.code(counts, "DeviceGetLaunchReport", device, report)
        return bool(code == 0 and report.outcome == _OUTCOME_DEADLOCK)

    def _absent(self, name: str) -> errors.NotSupported:
        function = self._functions.get(name)
        if function is None:
            raise KeyError(f"no host function '{name}' in the contract")
        why = self.record.host_api.absent.get(name)
        symbol = self.record.host_api.symbol(name)
        return errors.NotSupported(
            f"call {name} of {self.vendor}",
            why or f"its libraries have no symbol {symbol}",
            "Use a device that has it, or do without.",
            capability=function.capability or "",
            vendor=self.vendor,
            call=name,
        )

    # ---- the current device, and resets

    def current(self, counts: HostCalls, device: int) -> Current:
        """Make a device the calling thread's current one for a ``with`` block. It is set only where it differs."""
        return Current(self, counts, device)

    def generation(self, device: int) -> int:
        """How often the device was reset through this class: objects of an earlier generation are dead."""
        return self._generations[device]

    def left_behind(self, device: int) -> LeftBehind:
        """What all objects for a device left behind on it."""
        with self._generations_lock:
            return self._left_behind.setdefault(device, LeftBehind())

    def count_reset(self, device: int) -> None:
        """Declare all objects of the device dead."""
        with self._generations_lock:
            self._generations[device] += 1


class Current:
    """The calling thread's current device for a ``with`` block; the one from before is restored."""

    __slots__ = ("_before", "_counts", "_device", "_runtime")

    def __init__(self, runtime: CRuntime, counts: HostCalls, device: int) -> None:
        self._runtime = runtime
        self._counts = counts
        self._device = device
        self._before = device

    def __enter__(self) -> None:
        found = self._runtime.ffi.new("int *")
        self._runtime.call(self._counts, "GetDevice", found)
        self._before = int(found[0])
        if self._before != self._device:
            self._runtime.call(self._counts, "SetDevice", self._device)

    def __exit__(self, *_: object) -> None:
        if self._before != self._device:
            self._runtime.call(self._counts, "SetDevice", self._before)


def _appending(function: Callable[..., Any], values: list[int]) -> Callable[..., Any]:
    """A vendor's function whose parameters beyond the contract's are always the same."""
    return lambda *args: function(*args, *values)


def declaration(function: HostFunction, symbol: str, more: Sequence[str] = ()) -> str:
    """The C declaration of a vendor's symbol, from the contract's signature ``returns (parameters)``.

    Args:
        function: the contract's function.
        symbol: the vendor's.
        more: types of the parameters that the vendor has behind the contract's.
    """
    returns, parenthesis, parameters = function.signature.partition("(")
    if more:
        parameters = ", ".join([parameters.rsplit(")", 1)[0], *more]) + ")"
    return f"{returns}{symbol}{parenthesis}{parameters};"
