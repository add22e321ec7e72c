"""Events: marks in a stream that others wait for, with the time at which they were reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.errors import InvalidArgument
from tutti_hal.shim.options import EventOptions
from tutti_hal.shim.resource import Resource

if TYPE_CHECKING:
    from tutti_hal.shim.device import Device


class Event(Resource):
    """Made by :meth:`Device.create_event`; recorded by :meth:`Stream.record`."""

    _noun = "event"

    def __init__(self, device: Device, handle: Any, options: EventOptions) -> None:
        super().__init__(device)
        self.handle = handle
        self.options = options

    def _release(self) -> None:
        self.device.call("EventDestroy", self.handle)

    def synchronize(self) -> None:
        """Block until the latest record is reached. An event that was never recorded counts as reached.

        Raises:
            LaunchFailed: the device failed.
            UseAfterFree: the event is closed.
        """
        self.check_open("wait for an event")
        self.device.call("EventSynchronize", self.handle)

    def query(self) -> bool:
        """Whether the latest record is reached. Never blocks; a simulated device runs a bounded slice.

        Raises:
            LaunchFailed: the device failed.
            UseAfterFree: the event is closed.
        """
        self.check_open("query an event")
        return self.device.ready("EventQuery", self.handle)

    def elapsed_ms(self, earlier: Event) -> float:
        """Milliseconds of the device's clock between an earlier event and this one.

        Raises:
            InvalidArgument: one of them has no timing, is not recorded, or is not reached yet.
            UseAfterFree: one of them is closed.
        """
        self.check_open("take the time between events")
        earlier.check_open("take the time between events")
        if not (self.options.timing and earlier.options.timing):
            raise InvalidArgument(
                "take the time between events",
                "one of them was created without timing",
                "Create both with EventOptions(timing=True).",
            )
        runtime = self.device.runtime
        value = runtime.ffi.new("float *")
        code = runtime.code(self.device.host_calls, "EventElapsedTime", value, earlier.handle, self.handle)
        for canonical, found in (
            ("NotReady", "one of them is not reached yet"),
            ("InvalidResourceHandle", "one of them was never recorded, or they belong to two devices"),
        ):
            if runtime.is_error(code, canonical):
                runtime.forget_error(self.device.host_calls)
                raise InvalidArgument(
                    "take the time between events",
                    found,
                    "Record both on one device and synchronize before asking.",
                    vendor=runtime.vendor,
                    call="EventElapsedTime",
                    code=code,
                    canonical=canonical,
                )
        if code != 0:
            raise runtime.failure("EventElapsedTime", code, self.device.vendor_ordinal, self.device.host_calls)
        return float(value[0])

    def __sub__(self, earlier: Event) -> float:
        """Milliseconds since an earlier event; see :meth:`elapsed_ms`."""
        return self.elapsed_ms(earlier)
