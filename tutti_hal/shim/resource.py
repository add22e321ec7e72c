"""What streams, events, buffers and modules have in common: they end once, and are refused afterwards."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tutti_hal.errors import LaunchFailed, UseAfterFree

if TYPE_CHECKING:
    from tutti_hal.shim.device import Device


class Resource:
    """Base of the nouns of a device.

    ``close`` may be called any number of times, from any thread. An object that is not closed is given back to its
    device when it is collected, at the device's next allocation, synchronisation or close of the process.
    """

    _noun = "object"

    def __init__(self, device: Device) -> None:
        self.device = device
        self._generation = device.generation
        self._lock = threading.Lock()
        self._open = True

    @property
    def closed(self) -> bool:
        """Whether it can no longer be used: it was closed, or its device was reset."""
        return not self._open or self._generation != self.device.generation

    def close(self) -> None:
        """End it. Does nothing the second time, and after a reset of the device.

        On a device that has failed the vendor gives nothing back until the failure is cleared: the device does it then,
        and the failure itself comes out of every other call. Likewise inside `Device.holding_releases`, behind it.

        Raises:
            RuntimeFailure: the vendor refused; the object counts as closed all the same.
        """
        with self._lock:
            live = not self.closed
            self._open = False
        if not live:
            return
        if self.device.holds_releases:
            self.device.adopt_orphan(self._release)
            return
        try:
            self._release()
        except LaunchFailed:
            self.device.adopt_orphan(self._release)

    def _release(self) -> None:
        raise NotImplementedError

    def check_open(self, tried: str) -> None:
        """Refuse a closed object.

        Raises:
            UseAfterFree: says whether it was closed or its device was reset.
        """
        if self.closed:
            found = f"the {self._noun} was closed" if not self._open else "its device was reset since"
            raise UseAfterFree(tried, found, f"Keep the {self._noun} open for as long as it is used.", call=tried)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A finaliser runs anywhere, also inside a callback of the runtime: the device ends the object later.
        if getattr(self, "_open", False) and not self.closed:
            self._open = False
            self.device.adopt_orphan(self._release)
