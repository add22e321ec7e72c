"""The demo, its workload, and figures."""

from __future__ import annotations

from tutti_hal.errors.base import TuttiError


class DemoError(TuttiError):
    """Options of the demo that do not go together."""

    id = "TT-DEMO"


class ShapeError(TuttiError):
    """A KV shape that cannot exist or cannot be stored."""

    id = "TT-WORKLOAD-SHAPE"


class TraceError(TuttiError):
    """A trace could not be read, or a line of it breaks the format."""

    id = "TT-TRACE"


class CacheError(TuttiError):
    """A block cache that cannot work."""

    id = "TT-WORKLOAD-CACHE"


class SizingError(TuttiError):
    """The workload does not fit what it was given."""

    id = "TT-WORKLOAD-SIZE"


class MediumError(TuttiError):
    """There is no room, or no direct I/O, for the drives' files."""

    id = "TT-MEDIUM"


class RigError(TuttiError):
    """The demo's drives cannot be put together on this profile."""

    id = "TT-RIG"


class TransportError(TuttiError):
    """A drive answered a command with an error, or did not answer."""

    id = "TT-TRANSPORT"


class FaultError(TuttiError):
    """More objects are to be spoilt than are ever read."""

    id = "TT-WORKLOAD-FAULT"


class FileError(TuttiError):
    """A file cannot be sent, or its copy cannot be written."""

    id = "TT-FILE"


class PlotError(TuttiError):
    """A plot cannot be drawn."""

    id = "TT-PLOT"


class BenchError(TuttiError):
    """A figure cannot be measured here, or what was measured was not right."""

    id = "TT-BENCH"
