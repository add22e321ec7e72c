"""The runtime of a vendor whose C library has the field's call shapes: found, checked and opened as its record says."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import RuntimeMissing, SymbolMissing, WaveWidthWrong
from tutti_hal.record import WAVE_WIDTHS
from tutti_hal.sdk import Root, find_root
from tutti_hal.shim.ffi import CRuntime, Current, HostCalls
from tutti_hal.shim.header_numbers import with_header_numbers

if TYPE_CHECKING:
    from tutti_hal.profile import Profile
    from tutti_hal.record import Record


class SdkRuntime(CRuntime):
    """A vendor's runtime. What the record says of its beginnings (``init``, ``wake``) is done here, once each."""

    def __init__(self, record: Record, libraries: Iterable[Path | str]) -> None:
        """Open the libraries, see that what every vendor must have is there, and initialise where the record says so.

        Raises:
            RuntimeMissing: no library could be opened.
            SymbolMissing: a function that the contract makes mandatory for everyone is in none of them.
            RuntimeFailure: the vendor's own initialisation failed; the subclass that its number stands for.
        """
        super().__init__(record, libraries)
        lacking = [
            f"{name} ({' or '.join(record.host_api.symbols(name)) or record.host_api.absent[name]})"
            for name, function in self._functions.items()
            if function.capability is None and not self.has(name)
        ]
        if lacking:
            unopened = f"; not opened: {'; '.join(self.unopened)}" if self.unopened else ""
            raise SymbolMissing(
                f"open the runtime of {self.vendor}",
                f"{', '.join(map(str, libraries))} lack {', '.join(lacking)}{unopened}",
                "Install what could not be opened, which may be the driver."
                if unopened
                else "Install a version of the SDK that has them, or correct the names in the record.",
                vendor=self.vendor,
            )
        self._awake = threading.local()
        if record.host_api.init:
            self._initialise(record.host_api.init)

    def _initialise(self, symbol: str) -> None:
        self.ffi.cdef(f"int {symbol}(unsigned int);", override=True)
        function = self._find(symbol)
        if function is None:
            raise SymbolMissing(
                f"initialise the runtime of {self.vendor}",
                f"its libraries have no {symbol}",
                "Install the driver: this function is of its library.",
                vendor=self.vendor,
            )
        code = int(function(0))
        if code:
            raise self.failure(symbol, code)

    def ordinals(self, arch: str) -> tuple[int, ...]:
        """The ordinals of the devices of an arch, told from the vendor's others by the attributes of its identity.

        Raises:
            WaveWidthWrong: a device of the arch has waves of another width than the record says.
        """
        counts, known = HostCalls(), self.record.archs[arch]
        found = [
            ordinal
            for ordinal in super().ordinals(arch)
            if all(self._attribute(counts, name, ordinal) == value for name, value in known.identity.items())
        ]
        for ordinal in found:
            width = self._attribute(counts, "WarpSize", ordinal)
            if width != known.wave_width:
                what = "" if width in WAVE_WIDTHS else f", and no kernel is written for anything but {WAVE_WIDTHS}"
                raise WaveWidthWrong(
                    f"use device {ordinal} of {self.vendor} as {arch}",
                    f"its waves have {width} lanes, the record says {known.wave_width}{what}",
                    "Name the device's own architecture, or correct the record.",
                    vendor=self.vendor,
                )
        return tuple(found)

    def _attribute(self, counts: HostCalls, name: str, ordinal: int) -> int:
        value = self.ffi.new("int *")
        self.call(counts, "DeviceGetAttribute", value, self.attribute(name), ordinal)
        return int(value[0])

    def current(self, counts: HostCalls, device: int) -> Current:
        """See :meth:`CRuntime.current`; the first time in a thread, and after a reset, the device is woken."""
        return _Waking(self, counts, device) if self.record.host_api.wake else super().current(counts, device)

    def awake(self, device: int) -> bool:
        """Whether the calling thread used the device since its last reset; from now on it did."""
        seen: dict[int, int] = self._awake.__dict__.setdefault("devices", {})
        life = self.generation(device) + 1
        before, seen[device] = seen.get(device), life
        return before == life


class _Waking(Current):
    """As :class:`Current`, for runtimes whose module and launch calls know a device only after its first use."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        runtime: Any = self._runtime
        if not runtime.awake(self._device):
            runtime.call(self._counts, "SetDevice", self._device)
            runtime.call(self._counts, "Free", runtime.ffi.NULL)


def libraries(record: Record, root: Root) -> tuple[Path | str, ...]:
    """What to open: of each library the first version that the root has, else the record's names for the loader."""
    groups: dict[str, list[str]] = {}
    for name in record.host_api.libraries:
        groups.setdefault(name.partition(".so")[0], []).append(name)
    chosen: list[Path | str] = []
    for names in groups.values():
        places = [root.path / folder / name for name in names for folder in record.sdk.lib]
        there = next((place for place in places if place.is_file()), None)
        chosen += [there] if there is not None else names
    return tuple(chosen)


@dataclass(frozen=True)
class _Source:
    """What decides which runtime is opened."""

    folder: Path
    root: Root
    record: Record = field(compare=False)


@cache
def _open(source: _Source) -> SdkRuntime:
    record = with_header_numbers(source.record, source.root)
    return SdkRuntime(record, libraries(record, source.root))


def open_runtime(profile: Profile) -> SdkRuntime:
    """The runtime of a profile; one for each SDK root, for the life of the process.

    Raises:
        SdkMissing, SdkForeign, SdkIncomplete, SdkDefective: see :func:`tutti_hal.sdk.find_root`.
        NumbersDiffer: the SDK's headers contradict the record.
        RuntimeMissing: its libraries cannot be loaded.
        SymbolMissing: they lack a function that every vendor must have.
    """
    record = profile.record
    root = find_root(record)
    if profile.sdk is not None and root.version is not None and not f"{root.version}.".startswith(f"{profile.sdk}."):
        raise RuntimeMissing(
            f"open the runtime of {profile}",
            f"SDK {root.version} is in {root.path}, the profile is for {profile.sdk}",
            "Select the profile again.",
            vendor=record.vendor,
        )
    return _open(_Source(record.folder, root, record))
