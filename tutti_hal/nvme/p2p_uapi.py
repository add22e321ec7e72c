"""The requests of the kernel module ``tutti_p2p``, as ``p2p_drivers/uapi/tutti_p2p.h`` lays them out.

One class for each structure, one constant for each number; a test compiles the header and compares. What a request
means, and what each error number says, is written there. `request` makes one; it opens nothing and keeps nothing.
"""

from __future__ import annotations

import dataclasses
import enum
import fcntl
import struct
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

VERSION = 1

#: Offsets for mmap: the watch page. A queue pair's doorbells are where `QueueCreate` says.
MMAP_WATCH = 0

_CODE = "p2p-code"
_IOC = 0xBA
_WRITE = 1
_READ = 2


class Provider(enum.IntEnum):
    """Kinds of memory that every machine may have.

    Vendors' own are found by their name (`DescribeProvider`). Another module may register more, from `FOREIGN` on.
    """

    HOST = 1
    SIM = 2
    DMABUF = 3
    FOREIGN = 256


class ProviderFlag(enum.IntFlag):
    """What `DescribeProvider.flags` says."""

    AVAILABLE = 1
    REVOKES = 2


class Feature(enum.IntFlag):
    """What `Negotiate.features` says."""

    DMABUF = 1
    RESET_WATCH = 2


class Refused(enum.IntEnum):
    """Why a drive or a queue pair was refused."""

    NOTHING = 0
    DRIVER = 1
    FD = 2
    ADMIN_QUEUE = 3
    SHADOW = 4
    STATE = 5
    ENTRY_SIZE = 6
    NO_SPARE = 7
    KERNEL = 8
    RING = 9
    NVME = 10


class UnpinFlag(enum.IntFlag):
    """For `Unpin.flags`."""

    IDLE = 1


class EventKind(enum.IntEnum):
    """What was lost."""

    PIN = 1
    QUEUE = 2
    CONTROLLER = 3


class Cause(enum.IntEnum):
    """Why it was lost."""

    REVOKED = 1
    RESET = 2
    REMOVED = 3


def _member(code: str, default: Any = 0) -> Any:
    return dataclasses.field(default=default, metadata={_CODE: code})


def _u64() -> Any:
    return _member("Q")


def _u32() -> Any:
    return _member("I")


def _s32(default: int = 0) -> Any:
    return _member("i", default)


def _reserved(code: str) -> Any:
    return _member(code, 0 if len(code) == 1 else (0,) * int(code[:-1]))


def _text(length: int) -> Any:
    return _member(f"{length}s", b"")


@dataclasses.dataclass(slots=True)
class Structure:
    """Members in the order of the header, without gaps."""

    @classmethod
    @cache
    def _layout(cls) -> struct.Struct:
        return struct.Struct("=" + "".join(each.metadata[_CODE] for each in dataclasses.fields(cls)))

    @classmethod
    def size(cls) -> int:
        """Bytes of the structure."""
        return cls._layout().size

    @classmethod
    def offsets(cls) -> dict[str, int]:
        """Where each member begins, by its name."""
        codes = [each.metadata[_CODE] for each in dataclasses.fields(cls)]
        return {
            each.name: struct.calcsize("=" + "".join(codes[:index]))
            for index, each in enumerate(dataclasses.fields(cls))
        }

    def encode(self) -> bytes:
        """The structure's bytes. A member that does not hold its value: `struct.error`."""
        values: list[Any] = []
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, tuple):
                values.extend(value)
            else:
                values.append(value)
        return self._layout().pack(*values)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """A structure from its bytes. Texts end before their first zero."""
        values = iter(cls._layout().unpack(data))
        members: dict[str, Any] = {}
        for each in dataclasses.fields(cls):
            code = each.metadata[_CODE]
            if code.endswith("s"):
                members[each.name] = next(values).split(b"\0", 1)[0]
            elif len(code) > 1:
                members[each.name] = tuple(next(values) for _ in range(int(code[:-1])))
            else:
                members[each.name] = next(values)
        return cls(**members)


@dataclasses.dataclass(slots=True)
class Request(Structure):
    """A structure that goes with an ioctl."""

    NUMBER: ClassVar[int]
    DIRECTION: ClassVar[int] = _READ | _WRITE

    @classmethod
    def command(cls) -> int:
        """The ioctl's number."""
        return cls.DIRECTION << 30 | cls.size() << 16 | _IOC << 8 | cls.NUMBER


@dataclasses.dataclass(slots=True)
class Negotiate(Request):
    """Agree on a version: comes first."""

    NUMBER = 0x00
    version_min: int = _u32()
    version_max: int = _u32()
    version: int = _u32()
    features: int = _u32()
    reserved: tuple[int, ...] = _reserved("2Q")


@dataclasses.dataclass(slots=True)
class DescribeProvider(Request):
    """The provider of memory at an index."""

    NUMBER = 0x01
    index: int = _u32()
    id: int = _u32()
    flags: int = _u32()
    reserved: int = _reserved("I")
    name: bytes = _text(16)


@dataclasses.dataclass(slots=True)
class Usage(Request):
    """What this user holds, and may hold (0 = no limit)."""

    NUMBER = 0x02
    pins: int = _u64()
    pins_limit: int = _u64()
    bytes: int = _u64()
    bytes_limit: int = _u64()
    queues: int = _u64()
    queues_limit: int = _u64()
    reserved: tuple[int, ...] = _reserved("2Q")


@dataclasses.dataclass(slots=True)
class Attach(Request):
    """Use a controller that the kernel's driver keeps."""

    NUMBER = 0x10
    domain: int = _u32()
    bus: int = _member("B")
    devfn: int = _member("B")
    reserved0: int = _reserved("H")
    nvme_fd: int = _s32(-1)
    flags: int = _u32()
    btf_admin_q: int = _u32()
    btf_admin_tagset: int = _u32()
    controller: int = _u32()
    refused: int = _u32()
    cap: int = _u64()
    version: int = _u32()
    page_size: int = _u32()
    doorbell_stride: int = _u32()
    max_entries: int = _u32()
    queues_granted: int = _u32()
    queues_stock: int = _u32()
    queues_ours: int = _u32()
    queues_spare: int = _u32()
    name: bytes = _text(32)
    reserved: tuple[int, ...] = _reserved("3Q")


@dataclasses.dataclass(slots=True)
class Detach(Request):
    """Leave a controller."""

    NUMBER = 0x11
    DIRECTION = _WRITE
    controller: int = _u32()
    flags: int = _u32()


@dataclasses.dataclass(slots=True)
class Pin(Request):
    """Hold memory and map it for controllers. `controllers` is the address of an array of 32-bit handles."""

    NUMBER = 0x20
    provider: int = _u32()
    flags: int = _u32()
    address: int = _u64()
    length: int = _u64()
    fd: int = _s32(-1)
    nr_controllers: int = _u32()
    controllers: int = _u64()
    pin: int = _u32()
    page_size: int = _u32()
    reserved: tuple[int, ...] = _reserved("2Q")


@dataclasses.dataclass(slots=True)
class Run(Structure):
    """A stretch that is contiguous on the bus."""

    bus: int = _u64()
    length: int = _u64()


@dataclasses.dataclass(slots=True)
class Runs(Request):
    """Where a pin lies on a controller's bus. `runs` is the address of an array of `Run`."""

    NUMBER = 0x21
    pin: int = _u32()
    controller: int = _u32()
    first: int = _u64()
    capacity: int = _u32()
    count: int = _u32()
    runs: int = _u64()
    total: int = _u64()


@dataclasses.dataclass(slots=True)
class Unpin(Request):
    """Give memory back."""

    NUMBER = 0x22
    DIRECTION = _WRITE
    pin: int = _u32()
    flags: int = _u32()


@dataclasses.dataclass(slots=True)
class QueueCreate(Request):
    """A queue pair with its rings in pins."""

    NUMBER = 0x30
    controller: int = _u32()
    flags: int = _u32()
    sq_pin: int = _u32()
    cq_pin: int = _u32()
    sq_offset: int = _u64()
    cq_offset: int = _u64()
    sq_entries: int = _u32()
    cq_entries: int = _u32()
    queue: int = _u32()
    qid: int = _u32()
    doorbell_offset: int = _u64()
    doorbell_bytes: int = _u32()
    sq_doorbell: int = _u32()
    cq_doorbell: int = _u32()
    refused: int = _u32()
    nvme_status: int = _u32()
    reserved0: int = _reserved("I")
    reserved: tuple[int, ...] = _reserved("2Q")


@dataclasses.dataclass(slots=True)
class QueueDelete(Request):
    """End a queue pair; none of its commands is in flight afterwards."""

    NUMBER = 0x31
    DIRECTION = _WRITE
    queue: int = _u32()
    flags: int = _u32()


@dataclasses.dataclass(slots=True)
class Notify(Request):
    """An eventfd that is signalled with each event; -1 for none."""

    NUMBER = 0x40
    DIRECTION = _WRITE
    eventfd: int = _s32(-1)
    flags: int = _u32()


@dataclasses.dataclass(slots=True)
class Event(Request):
    """Take the next event."""

    NUMBER = 0x41
    kind: int = _u32()
    handle: int = _u32()
    cause: int = _u32()
    reserved: int = _reserved("I")
    generation: int = _u64()


@dataclasses.dataclass(slots=True)
class Watch(Structure):
    """What the watch page begins with."""

    generation: int = _u64()
    settled: int = _u64()
    reserved: tuple[int, ...] = _reserved("6Q")


R = TypeVar("R", bound=Request)

#: Each structure by its name in the header, without ``tutti_p2p_``.
STRUCTURES: dict[str, type[Structure]] = {
    "negotiate": Negotiate,
    "provider": DescribeProvider,
    "usage": Usage,
    "attach": Attach,
    "detach": Detach,
    "pin": Pin,
    "run": Run,
    "runs": Runs,
    "unpin": Unpin,
    "queue_create": QueueCreate,
    "queue_delete": QueueDelete,
    "notify": Notify,
    "event": Event,
    "watch": Watch,
}


def request(fd: int, structure: R) -> tuple[int, R]:
    """Make one request of an open ``/dev/tutti_p2p``.

    Blocks as long as the kernel does. Returns 0 or a positive errno, and the structure as the kernel left it; causes
    such as `Attach.refused` are in it also when the request failed. `structure` itself is not changed.
    """
    data = bytearray(structure.encode())
    try:
        fcntl.ioctl(fd, structure.command(), data, True)
    except OSError as error:
        return error.errno or 0, type(structure).decode(bytes(data))
    return 0, type(structure).decode(bytes(data))
