"""SGLs: descriptors, building them from bus runs, and walking them as a controller does.

Rules (NVM Express Base Specification, "Scatter Gather List"): the SQE holds one descriptor: a data block for the whole
transfer, or a (last) segment that points to an array of descriptors. Only the last entry of a segment may be a segment
or last segment descriptor, and a last segment holds none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

from tutti_hal.errors import SglInvalid
from tutti_hal.nvme.layout import Layout, Register, bits, flag, uint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tutti_hal.nvme.prp import Run

#: Bytes of a descriptor.
DESCRIPTOR_BYTES = 16

#: Status codes (SCT 0) that a controller answers when a rule is broken.
SC_SEGMENT = 0x0D
SC_COUNT = 0x0E
SC_DATA_LENGTH = 0x0F
SC_METADATA_LENGTH = 0x10
SC_TYPE = 0x11
SC_OFFSET = 0x16
SC_GRANULARITY = 0x1E

_ADDRESS_END = 1 << 64
_LENGTH_MAX = (1 << 32) - 1


class SglType(IntEnum):
    """Descriptor type (upper half of byte 15)."""

    DATA_BLOCK = 0
    BIT_BUCKET = 1
    SEGMENT = 2
    LAST_SEGMENT = 3
    KEYED_DATA_BLOCK = 4
    TRANSPORT_DATA_BLOCK = 5
    VENDOR = 0xF


class SglSubtype(IntEnum):
    """Descriptor subtype (lower half of byte 15)."""

    ADDRESS = 0x0
    OFFSET = 0x1
    TRANSPORT = 0xA
    INVALIDATE = 0xF


@dataclass(frozen=True, kw_only=True, slots=True)
class SglDescriptor(Layout):
    """A descriptor, 16 bytes. Keyed descriptors have another middle: see `KeyedSglDescriptor`."""

    SIZE: ClassVar[int] = DESCRIPTOR_BYTES

    address: int = uint(0, 8)
    length: int = uint(8, 4)
    subtype: int = bits(120, 4)
    type: int = bits(124, 4)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedSglDescriptor(Layout):
    """A keyed data block, 16 bytes: a 24-bit length and a 32-bit key. Fabrics only; refused on PCIe."""

    SIZE: ClassVar[int] = DESCRIPTOR_BYTES

    address: int = uint(0, 8)
    length: int = uint(8, 3)
    key: int = uint(11, 4)
    subtype: int = bits(120, 4)
    type: int = bits(124, 4, default=int(SglType.KEYED_DATA_BLOCK))


@dataclass(frozen=True, kw_only=True, slots=True)
class SglSupport(Register):
    """SGLS of Identify Controller (byte 536)."""

    SIZE: ClassVar[int] = 4

    #: 0 none, 1 without alignment rule, 2 dword alignment and granularity, 3 reserved.
    supported: int = bits(0, 2)
    keyed: bool = flag(2)
    descriptor_threshold: int = bits(8, 8)
    bit_bucket: bool = flag(16)
    mptr_byte_aligned: bool = flag(17)
    excess_length: bool = flag(18)
    mptr_sgl: bool = flag(19)
    offset: bool = flag(20)
    transport: bool = flag(21)

    @property
    def usable(self) -> bool:
        """Whether NVM commands may use SGLs at all."""
        return self.supported in (1, 2)

    @property
    def granularity(self) -> int:
        """What data addresses and lengths must be a multiple of, in bytes."""
        return 4 if self.supported == 2 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SglPlan:
    """What `build` made: the descriptor for the SQE and what must be written where before the doorbell."""

    descriptor: SglDescriptor
    #: (bus address, contents) of each segment.
    segments: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a transfer: `bus` is None where a bit bucket swallows `nbytes` of a read."""

    bus: int | None
    nbytes: int


def merge(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Joins neighbouring runs that touch, so that each contiguous run costs one descriptor.

    Runs longer than a descriptor's 32-bit length are cut at a multiple of 4 KiB.

    Raises:
        SglInvalid: an empty run, or one outside 64-bit addresses.
    """
    joined: list[list[int]] = []
    for index, (bus, nbytes) in enumerate(runs):
        if nbytes <= 0 or bus < 0 or bus + nbytes > _ADDRESS_END:
            raise SglInvalid(
                "build an SGL",
                f"run {index}: {nbytes} bytes at {bus:#x}",
                "Pass non-empty 64-bit runs.",
                status_code=SC_DATA_LENGTH,
            )
        if joined and joined[-1][0] + joined[-1][1] == bus:
            joined[-1][1] += nbytes
        else:
            joined.append([bus, nbytes])
    cut = _LENGTH_MAX & ~0xFFF
    return tuple((bus + done, min(cut, nbytes - done)) for bus, nbytes in joined for done in range(0, nbytes, cut))


def build(runs: Sequence[Run], support: SglSupport, segment_space: Sequence[Run] = ()) -> SglPlan:
    """Builds the SGL of one transfer: one descriptor in the SQE when the data are contiguous, else segments.

    Args:
        runs: the data, in order: (bus address, bytes) each.
        support: what the controller says it can.
        segment_space: bus memory for segments, 16-byte pieces of which are used in order. Every piece but the last
            one used ends with a descriptor of the next.

    Raises:
        SglInvalid: SGLs are not supported; no data; a run breaks the granularity; the space is misaligned or too small.
    """
    if not support.usable:
        raise SglInvalid("build an SGL", f"SGLS is {support.value:#x}", "Use PRPs.", status_code=0x02)
    data = merge(runs)
    if not data:
        raise SglInvalid("build an SGL", "no data", "A command without data has no SGL.", status_code=SC_DATA_LENGTH)
    for bus, nbytes in data:
        if bus % support.granularity or nbytes % support.granularity:
            raise SglInvalid(
                "build an SGL",
                f"{nbytes} bytes at {bus:#x}",
                f"This controller wants multiples of {support.granularity}.",
                status_code=SC_GRANULARITY,
            )
    blocks = [SglDescriptor(address=bus, length=nbytes, type=int(SglType.DATA_BLOCK)) for bus, nbytes in data]
    if len(blocks) == 1:
        return SglPlan(descriptor=blocks[0])
    chunks = _chunks(blocks, segment_space)
    segments: list[tuple[int, bytes]] = []
    following: SglDescriptor | None = None
    for bus, chunk in reversed(chunks):
        content = b"".join(d.encode() for d in (*chunk, *(() if following is None else (following,))))
        kind = SglType.LAST_SEGMENT if following is None else SglType.SEGMENT
        following = SglDescriptor(address=bus, length=len(content), type=int(kind))
        segments.append((bus, content))
    assert following is not None
    return SglPlan(descriptor=following, segments=tuple(reversed(segments)))


def _chunks(blocks: list[SglDescriptor], space: Sequence[Run]) -> list[tuple[int, list[SglDescriptor]]]:
    chunks: list[tuple[int, list[SglDescriptor]]] = []
    left = blocks
    for bus, nbytes in space:
        if bus % 8:
            raise SglInvalid("place an SGL segment", f"{bus:#x}", "Align it to 8 bytes.", status_code=SC_SEGMENT)
        room = min(nbytes, _LENGTH_MAX) // DESCRIPTOR_BYTES
        if room == 0:
            continue
        if len(left) <= room:
            return [*chunks, (bus, left)]
        if room == 1:
            # It could hold nothing but the descriptor of the next one.
            continue
        chunks.append((bus, left[: room - 1]))
        left = left[room - 1 :]
    raise SglInvalid(
        "build an SGL",
        f"{len(blocks)} runs, and the segment space ends with {len(left)} to go",
        f"Give {DESCRIPTOR_BYTES * len(blocks)} contiguous bytes or more.",
        status_code=SC_COUNT,
    )


def walk(
    descriptor: SglDescriptor,
    nbytes: int,
    support: SglSupport,
    read: Callable[[int, int], bytes],
    *,
    to_host: bool,
    metadata: bool = False,
    max_descriptors: int = 1 << 20,
) -> tuple[Piece, ...]:
    """The pieces that an SGL names, as a strict PCIe controller finds them.

    Args:
        descriptor: the one of the SQE.
        nbytes: length of the transfer.
        support: what the controller declares; undeclared forms are refused.
        read: reads (bus address, bytes) of segment memory; it may raise.
        to_host: the command reads from the drive: a bit bucket swallows data. For writes it is skipped.
        metadata: the SGL names metadata; a wrong length then is 0/10h.
        max_descriptors: a chain longer than this is refused with 0/0Eh, so that a loop ends.

    Raises:
        SglInvalid: with the status that a controller answers.
    """
    if not support.usable:
        raise SglInvalid("walk an SGL", f"SGLS is {support.value:#x}", "Use PRPs.", status_code=0x02)
    short = SC_METADATA_LENGTH if metadata else SC_DATA_LENGTH
    pieces: list[Piece] = []
    left, seen = nbytes, 0
    segment: list[SglDescriptor] = [descriptor]
    in_last = False
    while segment:
        following: SglDescriptor | None = None
        for index, entry in enumerate(segment):
            _check_kind(entry, support)
            if entry.type in (SglType.SEGMENT, SglType.LAST_SEGMENT):
                if in_last:
                    raise _broken("a segment descriptor in a last segment", SC_SEGMENT)
                if index + 1 != len(segment):
                    raise _broken(f"a segment descriptor at entry {index} of {len(segment)}", SC_COUNT)
                following = entry
                continue
            left = _take(entry, left, support, to_host, short, pieces)
        # A segment that is announced as not the last and holds no next one ends the list here, as in QEMU: whether
        # the list is complete is judged by its length.
        if following is None:
            break
        if following.length == 0 or following.length % DESCRIPTOR_BYTES or following.address % 8:
            raise _broken(f"a segment of {following.length} bytes at {following.address:#x}", SC_SEGMENT)
        if following.address + following.length > _ADDRESS_END:
            raise _broken(f"a segment that wraps at {following.address:#x}", SC_SEGMENT)
        count = following.length // DESCRIPTOR_BYTES
        seen += count
        if seen > max_descriptors:
            raise _broken(f"more than {max_descriptors} descriptors", SC_COUNT)
        blob = read(following.address, following.length)
        segment = [SglDescriptor.decode(blob[16 * k : 16 * k + 16]) for k in range(count)]
        in_last = following.type == SglType.LAST_SEGMENT
    if left:
        raise _broken(f"descriptors for {nbytes - left} of {nbytes} bytes", short)
    return tuple(pieces)


def _take(entry: SglDescriptor, left: int, support: SglSupport, to_host: bool, short: int, pieces: list[Piece]) -> int:
    """Consumes one data descriptor; returns how many bytes of the transfer remain."""
    if entry.type == SglType.BIT_BUCKET:
        if not to_host:
            return left
        bus = None
    else:
        if entry.address % support.granularity or entry.length % support.granularity:
            raise _broken(f"{entry.length} bytes at {entry.address:#x}", SC_GRANULARITY)
        if entry.address + entry.length > _ADDRESS_END:
            raise _broken(f"{entry.length} bytes that wrap at {entry.address:#x}", short)
        bus = entry.address
    if entry.length > left and not support.excess_length:
        raise _broken(f"{entry.length - left} bytes more than the transfer", short)
    used = min(entry.length, left)
    if used:
        pieces.append(Piece(bus=bus, nbytes=used))
    return left - used


def _check_kind(entry: SglDescriptor, support: SglSupport) -> None:
    known = entry.type in (SglType.DATA_BLOCK, SglType.BIT_BUCKET, SglType.SEGMENT, SglType.LAST_SEGMENT)
    if not known or (entry.type == SglType.BIT_BUCKET and not support.bit_bucket):
        raise _broken(f"a descriptor of type {entry.type:X}h", SC_TYPE)
    if entry.subtype == SglSubtype.OFFSET and support.offset:
        # An offset is into the controller memory buffer, and this package refuses to use one.
        raise _broken("an offset into the controller memory buffer", SC_OFFSET)
    if entry.subtype != SglSubtype.ADDRESS:
        raise _broken(f"a descriptor of subtype {entry.subtype:X}h", SC_TYPE)


def _broken(found: str, status_code: int) -> SglInvalid:
    return SglInvalid("walk an SGL", found, "See the rules of SGL segments.", status_code=status_code)
