"""What a software controller is to be: frozen records, and their way into the C ABI's structs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class Direct(IntEnum):
    """Whether a file is read and written past the page cache."""

    #: O_DIRECT, verified (F_GETFL and what the kernel says of the file's alignment); else an error.
    REQUIRED = 0
    #: O_DIRECT where it works, else buffered; `NamespaceInfo.direct` says which it became.
    PREFERRED = 1
    #: Buffered.
    OFF = 2


class VolatileCache(IntEnum):
    """The volatile write cache."""

    #: None: every write is durable when it completes (files are opened with O_DSYNC).
    NONE = 0
    #: Declared in Identify, and Flush works; a simulated power cut loses nothing.
    DECLARED = 1
    #: Modelled: `SoftwareController.power_cut` loses what was not flushed. Costs a copy of every first write.
    MODELLED = 2


class CompletionOrder(IntEnum):
    """In which order the completions of a queue are posted."""

    FIFO = 0
    #: Windows of `order_window` completions, each backwards.
    REVERSE = 1
    #: Windows, each shuffled by the seed.
    RANDOM = 2
    #: `starved_queue` waits until no other queue of its thread has anything left.
    STARVE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """What namespaces have in common.

    Args:
        nsid: 1 to 0xFFFFFFFE; the ids of a controller may have gaps.
        lba_shift: log2 of the block size, 9 to 16.
        metadata_bytes: metadata of each block: 0, 8 or 64.
        metadata_inline: each block is followed by its metadata in the data buffer; else metadata go by MPTR.
        protection: protection information, type 1 to 3, in 8 bytes of the metadata; 0 is none. Blocks that were never
            written have zeroes there, zeroed ones all ones, which no check applies to.
        protection_first: it lies before the other metadata, not behind them.
        format_index: index of the LBA format in use, 0 to 63.
        read_only: writes end with "namespace is write protected".
    """

    nsid: int = 1
    lba_shift: int = 12
    metadata_bytes: int = 0
    metadata_inline: bool = False
    protection: int = 0
    protection_first: bool = False
    format_index: int = 0
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNamespace(Namespace):
    """A namespace in memory, all zeroes at first. Pages come into being as they are written.

    Args:
        blocks: NSZE; may be far beyond the machine's memory.
    """

    blocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNamespace(Namespace):
    """A namespace over a regular file or a block device.

    Args:
        path: the file; it must exist and be long enough.
        blocks: NSZE; 0 takes as many as the file holds. With metadata it must be given: they lie behind the data,
            from the next multiple of 4096 bytes.
        direct: past the page cache or not.
    """

    path: Path
    blocks: int = 0
    direct: Direct = Direct.REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """A software controller. Defaults are an ordinary drive without delays.

    Args:
        namespaces: any number up to 1024.
        seed: of random orders, latencies and fault rates.
        serial: at most 20 characters.
        version: VS.
        mqes: CAP.MQES, 0-based, 1 to 65535.
        dstrd: CAP.DSTRD, 0 to 8.
        mpsmin: CAP.MPSMIN, 0 to 4.
        mpsmax: CAP.MPSMAX, up to 8.
        mdts: MDTS; 0 is no limit.
        cqr: CAP.CQR: queues must be contiguous.
        timeout_500ms: CAP.TO: how long enabling and disabling may take. It is a thread of this machine that answers,
            and on a busy one that may be long after it could have.
        io_queues: I/O queue pairs granted at most, 1 to 1024.
        interrupt_vectors: vectors that Create CQ may name. Completions are polled.
        sgls: Identify's SGLS; bits 1:0, 16, 17, 18, 19 can be set.
        volatile_cache: see `VolatileCache`.
        aerl: asynchronous event requests that may wait, 0-based.
        need_queue_count: refuse I/O queues before Set Features, number of queues.
        order: of completions.
        order_window: completions that are reordered together.
        starved_queue: SQ id, for `CompletionOrder.STARVE`.
        cqe_batch: completions of a CQ that are posted together while more may come.
        hold_ns: how long an incomplete window or batch waits for more.
        sqhd_lag: entries by which the reported SQ head trails.
        fetch_batch: SQEs read at once, 1 to 64.
        latency_ns: of every I/O command, before its data move.
        slow_latency_ns: instead, of `slow_ppm` commands in a million.
        slow_ppm: see there.
        file_workers: threads for file namespaces.
        ready_delay_ns: between CC.EN and CSTS.RDY, both ways.
        shutdown_delay_ns: between CC.SHN and the end of the shutdown.
        cache_bytes: unflushed data that a modelled cache keeps; then all become durable.
    """

    namespaces: tuple[Namespace, ...] = ()
    seed: int = 0
    serial: str = "TUTTI0001"
    version: int = 0x0002_0000
    mqes: int = 1023
    dstrd: int = 0
    mpsmin: int = 0
    mpsmax: int = 4
    mdts: int = 5
    cqr: bool = True
    timeout_500ms: int = 10
    io_queues: int = 16
    interrupt_vectors: int = 17
    sgls: int = 0x000F_0001
    volatile_cache: VolatileCache = VolatileCache.DECLARED
    aerl: int = 3
    need_queue_count: bool = True
    order: CompletionOrder = CompletionOrder.FIFO
    order_window: int = 16
    starved_queue: int = 0
    cqe_batch: int = 1
    hold_ns: int = 0
    sqhd_lag: int = 0
    fetch_batch: int = 32
    latency_ns: int = 0
    slow_latency_ns: int = 0
    slow_ppm: int = 0
    file_workers: int = 2
    ready_delay_ns: int = 0
    shutdown_delay_ns: int = 0
    cache_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        # A list is what people write.
        object.__setattr__(self, "namespaces", tuple(self.namespaces))

    def but(self, **changes: Any) -> ControllerConfig:
        """The same with some fields changed."""
        return replace(self, **changes)


class FaultAction(IntEnum):
    """What a fault does to the command that it strikes."""

    #: Ends with the rule's status; no data move.
    STATUS = 1
    #: The data move, then it ends with the status.
    STATUS_LATE = 2
    #: Carried out, but its CQE never comes.
    LOST = 3
    #: Its CQE comes twice.
    DUPLICATE = 4
    #: Another CQE comes first, for a command that nobody sent.
    UNKNOWN_CID = 5
    #: It starts `delay_ns` later.
    DELAY = 6
    #: It never starts: abort, deletion of its queue or a reset ends it.
    STUCK = 7
    #: One bit of the data read is flipped, in byte `corrupt_byte` of the transfer; the status says success.
    CORRUPT = 8
    #: CSTS.CFS is set, commands are still served.
    FATAL = 9
    #: CSTS.CFS is set, nothing is served until a reset.
    FATAL_STOP = 10
    #: All registers read as ones, for ever.
    GONE = 11
    #: CSTS.RDY no longer follows CC.EN. Only `immediate`.
    READY_STUCK = 12
    #: Before its CQE comes another, which differs from it in the bits of `forge`.
    FORGED = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """Which commands are struck, and by what. Of several rules that match, the first added wins.

    Args:
        action: see `FaultAction`.
        immediate: now, and not on a command: FATAL, FATAL_STOP, GONE, READY_STUCK.
        opcode: only commands of this opcode.
        nsid: only commands with this namespace id.
        lbas: only commands that touch a block of this range, (first, last), both included.
        qid: only commands of this SQ; 0 is the admin queue. None: all I/O queues.
        cid: only commands of this id.
        nth: the first match that counts, from 1.
        count: strikes at most; 0 is no limit.
        rate: share of the matches that are struck, by the controller's seed.
        status: (SCT, SC), for the STATUS actions.
        dnr: "do not retry".
        crd: command retry delay index, 0 to 3.
        delay_ns: for DELAY.
        corrupt_byte: for CORRUPT.
        forge: for FORGED, double word 3 (bits 63:32; its phase stays) and double word 2 (bits 31:0) of a CQE.
    """

    action: FaultAction
    immediate: bool = False
    opcode: int | None = None
    nsid: int | None = None
    lbas: tuple[int, int] | None = None
    qid: int | None = None
    cid: int | None = None
    nth: int = 1
    count: int = 0
    rate: float = 1.0
    status: tuple[int, int] = (0, 6)
    dnr: bool = False
    crd: int = 0
    delay_ns: int = 0
    corrupt_byte: int = 0
    forge: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a controller has counted since it was made.

    Doorbell counts are exact in a sim world. With threads the registers are polled: writes that come between two looks
    count as one, so the figure is a lower bound of the writes.
    """

    threads: int
    admin_commands: dict[int, int] = field(repr=False)
    io_commands: dict[int, int]
    sqes_fetched: int
    fetches: int
    cqes_posted: int
    cqes_lost: int
    errors: int
    bytes_read: int
    bytes_written: int
    sq_doorbells: int
    cq_doorbells: int
    bad_doorbells: int
    cq_full_waits: int
    faults: int
    resets: int
    power_cuts: int
    restored_registers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounters:
    """Of one queue id since the last reset; `depth` 0: there is no such SQ now."""

    depth: int
    sq_doorbells: int
    cq_doorbells: int
    commands: int
    completions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceInfo:
    """How a namespace turned out.

    Attributes:
        direct: O_DIRECT is in force and verified.
        offset_alignment, memory_alignment: bytes that direct I/O needs.
        unflushed_blocks: in a modelled volatile cache.
    """

    direct: bool
    blocks: int
    allocated_bytes: int
    offset_alignment: int
    memory_alignment: int
    block_device: bool
    read_only: bool
    unflushed_blocks: int


def fill_namespace(ffi: Any, struct: Any, namespace: Namespace, keep: list[Any]) -> None:
    """Writes a namespace into a `tt_namespace_config`; what it points at is appended to `keep`."""
    struct.nsid = namespace.nsid
    struct.lba_shift = namespace.lba_shift
    struct.metadata_bytes = namespace.metadata_bytes
    struct.metadata_inline = namespace.metadata_inline
    struct.protection = namespace.protection | (8 if namespace.protection_first else 0)
    struct.format_index = namespace.format_index
    struct.read_only = namespace.read_only
    if isinstance(namespace, FileNamespace):
        path = ffi.new("char[]", str(namespace.path).encode())
        keep.append(path)
        struct.kind = 1
        struct.path = path
        struct.blocks = namespace.blocks
        struct.direct = int(namespace.direct)
    elif isinstance(namespace, MemoryNamespace):
        struct.kind = 0
        struct.blocks = namespace.blocks
    else:
        raise TypeError(f"a MemoryNamespace or FileNamespace, not {type(namespace).__name__}")


#: Fields of `ControllerConfig` that go into the struct of the same name as they are.
_NUMBERS = (
    "seed",
    "version",
    "mqes",
    "dstrd",
    "mpsmin",
    "mpsmax",
    "mdts",
    "cqr",
    "timeout_500ms",
    "io_queues",
    "interrupt_vectors",
    "sgls",
    "volatile_cache",
    "aerl",
    "need_queue_count",
    "order",
    "order_window",
    "starved_queue",
    "cqe_batch",
    "hold_ns",
    "sqhd_lag",
    "fetch_batch",
    "latency_ns",
    "slow_latency_ns",
    "slow_ppm",
    "file_workers",
    "ready_delay_ns",
    "shutdown_delay_ns",
    "cache_bytes",
)


def fill_config(ffi: Any, lib: Any, struct: Any, config: ControllerConfig, keep: list[Any]) -> None:
    """Writes a configuration into a `tt_controller_config`; what it points at is appended to `keep`."""
    lib.tt_controller_defaults(struct)
    for name in _NUMBERS:
        setattr(struct, name, int(getattr(config, name)))
    serial = ffi.new("char[]", config.serial.encode())
    namespaces = ffi.new("tt_namespace_config[]", len(config.namespaces))
    keep += [serial, namespaces]
    struct.serial = serial
    for index, namespace in enumerate(config.namespaces):
        lib.tt_namespace_defaults(ffi.addressof(namespaces, index))
        fill_namespace(ffi, namespaces[index], namespace, keep)
    struct.namespaces = namespaces
    struct.namespace_count = len(config.namespaces)


def fill_rule(ffi: Any, struct: Any, rule: FaultRule) -> None:
    """Writes a fault rule into a `tt_fault_rule`."""
    struct.struct_size = ffi.sizeof("tt_fault_rule")
    struct.action = int(rule.action)
    struct.immediate = rule.immediate
    for bit, name in ((1, "opcode"), (2, "nsid"), (8, "qid"), (16, "cid")):
        value = getattr(rule, name)
        if value is not None:
            struct.match |= bit
            setattr(struct, name, value)
    if rule.lbas is not None:
        struct.match |= 4
        struct.lba_first, struct.lba_last = rule.lbas
    struct.nth = rule.nth
    struct.count = rule.count
    # 0 would mean "always"; a rate too small to count is still not that.
    struct.ppm = 0 if rule.rate >= 1.0 else max(1, round(rule.rate * 1_000_000))
    struct.status = rule.status[0] << 8 | rule.status[1]
    struct.dnr = rule.dnr
    struct.crd = rule.crd
    struct.delay_ns = rule.delay_ns
    struct.corrupt_byte = rule.corrupt_byte
    struct.forge = rule.forge
