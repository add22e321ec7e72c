"""Streams: work in order, and launches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import InvalidArgument, WrongDevice
from tutti_hal.shim.buffer import Buffer, BufferSlice, MemoryKind
from tutti_hal.shim.event import Event
from tutti_hal.shim.options import EventOptions, LaunchConfig, StreamOptions
from tutti_hal.shim.resource import Resource

if TYPE_CHECKING:
    from tutti_hal.shim.device import Device
    from tutti_hal.shim.module import Kernel

#: (destination on the device, source on the device) -> canonical copy kind.
_COPY_KINDS = {
    (False, False): "HostToHost",
    (True, False): "HostToDevice",
    (False, True): "DeviceToHost",
    (True, True): "DeviceToDevice",
}


@dataclass(frozen=True)
class _Side:
    """One side of a copy."""

    pointer: Any
    nbytes: int
    on_device: bool
    device: Device | None


class Stream(Resource):
    """Work that runs in the order in which it was enqueued.

    Made by :meth:`Device.create_stream`, or :attr:`Device.default_stream`. Closing returns at once; work that is
    already in the stream still runs.
    """

    _noun = "stream"

    def __init__(self, device: Device, handle: Any, options: StreamOptions, owned: bool = True) -> None:
        super().__init__(device)
        self.handle = handle
        self.options = options
        self._owned = owned
        self._callbacks: dict[int, Any] = {}
        self._callback_errors: list[BaseException] = []
        self._callback_lock = threading.Lock()

    def _release(self) -> None:
        if self._owned:
            self.device.call("StreamDestroy", self.handle)

    def _here(self) -> AbstractContextManager[None]:
        """The handle says whose stream it is, except for the default stream: that is the current device's."""
        return nullcontext() if self._owned else self.device.current()

    # ---- work

    def launch(self, config: LaunchConfig, kernel: Kernel, *args: Any) -> None:
        """Enqueue a kernel. Returns at once; the arguments are copied, buffers are passed by address.

        Raises:
            LaunchRefused: the device cannot run this geometry.
            InvalidArgument: the arguments do not match the kernel's parameters, or the configuration is malformed.
            WrongDevice: stream, kernel and buffers are not of one device.
            NotSupported: limit_ns without ``launch.bounded``, or cooperative without ``launch.cooperative``.
            LaunchFailed: an earlier kernel made the device fail.
            UseAfterFree: the stream, the module or a buffer is closed.
        """
        tried = f"launch {kernel.name}"
        self.check_open(tried)
        kernel.module.check_open(tried)
        device = self.device
        if kernel.module.device != device:
            raise WrongDevice(
                tried,
                f"the kernel is on {kernel.module.device}, the stream on {device}",
                "Load the module on the stream's device.",
            )
        try:
            extents = config.extents
        except ValueError as error:
            raise InvalidArgument(tried, str(error), "Correct the launch configuration.") from error
        pointers, storage = kernel.pack(args)
        head = (kernel.handle, *extents, config.shared_bytes, self.handle, pointers)
        with device.current():
            if config.cooperative:
                if config.limit_ns is not None:
                    raise InvalidArgument(tried, "cooperative and bounded at once", "Choose one of them.")
                device.runtime.require("launch.cooperative", tried)
                device.call("LaunchCooperativeKernel", *head)
            elif config.limit_ns is not None:
                device.runtime.require("launch.bounded", tried)
                device.call("LaunchKernelLimit", *head, config.limit_ns)
            else:
                device.call("LaunchKernel", *head, device.runtime.ffi.NULL)
        del storage  # until here the pointers pointed into it

    def copy(self, dst: Any, src: Any, nbytes: int | None = None) -> None:
        """Enqueue a copy between buffers, parts of buffers and host arrays (anything with the buffer protocol).

        A host array is pageable memory: a source has been read when the call returns, and a destination makes the call
        block until the bytes are there. Host-visible buffers must stay unchanged until the copy has ended.

        Args:
            dst: where to; writable.
            src: where from.
            nbytes: how many bytes from the beginning of both; None: both must have the same size.

        Raises:
            InvalidArgument: the sizes differ, nbytes is larger than one of them, or an array is not contiguous.
            WrongDevice: both are device memory, of two devices without ``peer.access``.
            LaunchFailed: an earlier kernel made the device fail.
            UseAfterFree: the stream or a buffer is closed.
        """
        self.check_open("copy")
        to, source = self._side(dst, writable=True), self._side(src, writable=False)
        count = to.nbytes if nbytes is None else nbytes
        if (nbytes is None and to.nbytes != source.nbytes) or not 0 <= count <= min(to.nbytes, source.nbytes):
            raise InvalidArgument(
                "copy",
                f"{source.nbytes} bytes to {to.nbytes}" + ("" if nbytes is None else f", {nbytes} asked for"),
                "Pass sides of one size, or a count that fits both.",
            )
        device = self.device
        if to.device is not None and source.device is not None and to.device != source.device:
            device.runtime.require("peer.access", "copy between two devices")
            device.call(
                "MemcpyPeerAsync",
                *(to.pointer, to.device.vendor_ordinal, source.pointer, source.device.vendor_ordinal),
                *(count, self.handle),
            )
            return
        for side in (to, source):
            if side.device is not None and side.device != device:
                raise WrongDevice(
                    "copy", f"memory of {side.device} on a stream of {device}", "Use a stream of that device."
                )
        kind = device.runtime.constant("MemcpyKind", _COPY_KINDS[to.on_device, source.on_device])
        with self._here():
            device.call("MemcpyAsync", to.pointer, source.pointer, count, kind, self.handle)

    def fill(self, dst: Buffer | BufferSlice, value: int, nbytes: int | None = None) -> None:
        """Enqueue a fill of kernel-visible memory with a byte.

        Raises:
            InvalidArgument: value is no byte, or nbytes does not fit.
            WrongDevice: the memory belongs to another device.
            UseAfterFree: the stream or the buffer is closed.
        """
        self.check_open("fill")
        count = dst.nbytes if nbytes is None else nbytes
        buffer = dst if isinstance(dst, Buffer) else dst.buffer
        if not 0 <= value <= 255 or not 0 <= count <= dst.nbytes:
            raise InvalidArgument(
                "fill", f"value {value}, {count} bytes of {dst.nbytes}", "Use a byte, and stay inside the buffer."
            )
        if buffer.device != self.device:
            raise WrongDevice(
                "fill", f"memory of {buffer.device} on a stream of {self.device}", "Use a stream of that device."
            )
        pointer = self.device.runtime.ffi.cast("void *", dst.address)
        with self._here():
            self.device.call("MemsetAsync", pointer, value, count, self.handle)

    def call(self, function: Callable[[], object]) -> None:
        """Enqueue a Python function. It must not use the device; what it raises comes out of ``synchronize``.

        Raises:
            NotSupported: the vendor lacks ``stream.host_function``.
            UseAfterFree: the stream is closed.
        """
        self.check_open("enqueue a host function")
        runtime = self.device.runtime
        runtime.require("stream.host_function", "enqueue a host function")

        def run(_: Any) -> None:
            try:
                function()
            except BaseException as error:  # nothing may be raised into C
                with self._callback_lock:
                    self._callback_errors.append(error)

        callback = runtime.ffi.callback("void(void *)", run)
        with self._callback_lock:
            self._callbacks[id(callback)] = callback
        with self._here():
            self.device.call("LaunchHostFunc", self.handle, callback, runtime.ffi.NULL)

    # ---- order

    def record(self, event: Event | None = None, options: EventOptions | None = None) -> Event:
        """Mark this place of the stream with an event, a new one when None.

        Raises:
            WrongDevice: the event belongs to another device.
            UseAfterFree: the stream or the event is closed.
        """
        self.check_open("record an event")
        mark = event if event is not None else self.device.create_event(options)
        mark.check_open("record an event")
        if mark.device != self.device:
            raise WrongDevice(
                "record an event", f"an event of {mark.device} on a stream of {self.device}", "Use one device's."
            )
        with self._here():
            self.device.call("EventRecord", mark.handle, self.handle)
        return mark

    def wait(self, awaited: Event | Stream) -> None:
        """Let what follows on this stream wait for an event's latest record, or for all work of another stream now.

        Raises:
            NotSupported: the two devices cannot wait for each other.
            UseAfterFree: the stream or what it waits for is closed.
        """
        self.check_open("wait for an event")
        if isinstance(awaited, Stream):
            with awaited.record(options=EventOptions(timing=False)) as mark:
                self.wait(mark)
            return
        awaited.check_open("wait for an event")
        with self._here():
            self.device.call("StreamWaitEvent", self.handle, awaited.handle, 0)

    def synchronize(self) -> None:
        """Block until all work of the stream has ended.

        Raises:
            LaunchFailed: a kernel failed; LaunchTimeout and LaunchDeadlock say how where the vendor does.
            UseAfterFree: the stream is closed.
        """
        self.check_open("synchronize a stream")
        with self._here():
            self.device.call("StreamSynchronize", self.handle)
        with self._callback_lock:
            self._callbacks.clear()
            errors, self._callback_errors = self._callback_errors, []
        self.device.end_orphans()
        if errors:
            raise errors[0]

    def query(self) -> bool:
        """Whether all work of the stream has ended. Never blocks; a simulated device runs a bounded slice.

        Raises:
            LaunchFailed: a kernel failed.
            UseAfterFree: the stream is closed.
        """
        self.check_open("query a stream")
        with self._here():
            return self.device.ready("StreamQuery", self.handle)

    # ---- sides of a copy

    def _side(self, thing: Any, *, writable: bool) -> _Side:
        ffi = self.device.runtime.ffi
        if isinstance(thing, Buffer | BufferSlice):
            buffer = thing if isinstance(thing, Buffer) else thing.buffer
            on_device = buffer.kind in (MemoryKind.DEVICE, MemoryKind.MANAGED)
            pointer = ffi.cast("void *", thing.copy_address)
            return _Side(pointer, thing.nbytes, on_device, buffer.device if on_device else None)
        try:
            pointer = ffi.from_buffer("char[]", thing, require_writable=writable)
        except (TypeError, ValueError, BufferError) as error:
            raise InvalidArgument(
                "copy",
                f"{type(thing).__name__}: {error}",
                "Pass a buffer, a part of one, or contiguous host memory, writable where it is the destination.",
            ) from error
        return _Side(pointer, len(pointer), False, None)


def launch(stream: Stream, config: LaunchConfig, kernel: Kernel, *args: Any) -> None:
    """Enqueue a kernel on a stream; see :meth:`Stream.launch`."""
    stream.launch(config, kernel, *args)
