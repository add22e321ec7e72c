"""Layer B: memory, streams, events, modules and launches, written once for all vendors.

Shaped on the object layers that GPU users know: :class:`Device` makes the other nouns, each is a context manager, and
options are frozen dataclasses. Every noun is safe against being closed twice and refuses use after it was closed.
"""

from tutti_hal.shim.buffer import Buffer, BufferSlice, MemoryKind
from tutti_hal.shim.device import Device, LaunchReport, MemoryInfo
from tutti_hal.shim.event import Event
from tutti_hal.shim.ffi import CRuntime, HostCalls
from tutti_hal.shim.module import Kernel, Module, Parameter
from tutti_hal.shim.options import EventOptions, LaunchConfig, StreamOptions
from tutti_hal.shim.stream import Stream, launch

__all__ = [
    "Buffer",
    "BufferSlice",
    "CRuntime",
    "Device",
    "Event",
    "EventOptions",
    "HostCalls",
    "Kernel",
    "LaunchConfig",
    "LaunchReport",
    "MemoryInfo",
    "MemoryKind",
    "Module",
    "Parameter",
    "Stream",
    "StreamOptions",
    "launch",
]
