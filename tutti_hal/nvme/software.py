"""The software NVMe controller: a drive in this process.

    with SoftwareController(ControllerConfig(namespaces=[MemoryNamespace(blocks=1 << 16)])) as drive:
        drive.start()
        handle = ControllerHandle.open(drive.registers, drive.dma)

It answers like a strict drive, and goes wrong on demand. Threads of its own serve it (`start`), or the deterministic
engine steps it (`attach`).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self

from tutti_hal import errors
from tutti_hal.native import ffi_and_library
from tutti_hal.nvme.software_config import (
    CompletionOrder,
    ControllerConfig,
    Counters,
    Direct,
    FaultAction,
    FaultRule,
    FileNamespace,
    MemoryNamespace,
    Namespace,
    NamespaceInfo,
    QueueCounters,
    VolatileCache,
    fill_config,
    fill_rule,
)
from tutti_hal.nvme.software_memory import BarRegisters, HostDma, Iommu

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "BarRegisters",
    "CompletionOrder",
    "ControllerConfig",
    "Counters",
    "Direct",
    "FaultAction",
    "FaultRule",
    "FileNamespace",
    "HostDma",
    "Iommu",
    "MemoryNamespace",
    "Namespace",
    "NamespaceInfo",
    "NullController",
    "QueueCounters",
    "SoftwareController",
    "VolatileCache",
]

#: TT_CTRL_* of the C ABI: the class, and what to do about it.
_REFUSALS: dict[int, tuple[type[errors.SoftwareControllerError], str]] = {
    1: (errors.ControllerConfigInvalid, "Correct that field."),
    2: (errors.SoftwareControllerError, "Use fewer or smaller namespaces, or free memory."),
    3: (errors.ControllerBusy, "Stop it first."),
    4: (errors.SoftwareControllerError, "See what the system says."),
    5: (errors.NamespaceFileMissing, "Create the file first, for example with truncate."),
    6: (errors.NamespaceFileShort, "Make the file longer, or declare fewer blocks."),
    7: (errors.NamespaceFileUneven, "Make the file's length a multiple of the block size."),
    8: (errors.NamespaceFileReadOnly, "Make it writable, or pass read_only=True."),
    9: (
        errors.NamespaceFileNotDirect,
        "Put the file on a file system with direct I/O, or pass direct=Direct.PREFERRED.",
    ),
    10: (errors.NamespaceFileAlignment, "Use a larger lba_shift, or pass direct=Direct.PREFERRED."),
    11: (errors.NamespaceFileKind, "Name a regular file or a block device."),
}

_MEM_MMIO = 2


def _destroy(lib: Any, handle: Any, iommu: Iommu | None) -> None:
    lib.tt_controller_destroy(handle)
    if iommu is not None:
        iommu.close()


class SoftwareController:
    """A controller and its IOMMU. A context manager: leaving it stops its threads and closes its files.

    Args:
        config: what it is to be.
        iommu: one to share with other controllers; None makes one of its own, spread by `config.seed`.

    Raises:
        ControllerConfigInvalid: a field is out of its range.
        NamespaceFileError: a file cannot serve; its subclass says why.
        SoftwareControllerError: the system refused memory or a file.
    """

    _KIND = 0

    def __init__(self, config: ControllerConfig, iommu: Iommu | None = None) -> None:
        ffi, lib = ffi_and_library()
        self._ffi, self._lib = ffi, lib
        self.config = config
        own = Iommu(config.seed) if iommu is None else None
        self.iommu: Iommu = iommu if own is None else own  # type: ignore[assignment]
        keep: list[Any] = []
        struct = ffi.new("tt_controller_config *")
        out = ffi.new("tt_controller **")
        error = ffi.new("tt_controller_error *")
        try:
            try:
                fill_config(ffi, lib, struct, config, keep)
            except OverflowError as overflow:
                raise errors.ControllerConfigInvalid(
                    "make a software controller", str(overflow), "Correct that field."
                ) from overflow
            struct.kind = self._KIND
            lib.tt_controller_create(struct, self.iommu.handle, out, error)
            self._check("make a software controller", error)
        except BaseException:
            if own is not None:
                own.close()
            raise
        self._handle = out[0]
        # Also when nobody closes it: threads end and files are synced before the interpreter goes.
        self._finalizer = weakref.finalize(self, _destroy, lib, self._handle, own)
        nbytes = ffi.new("uint64_t *")
        self._bar = lib.tt_controller_bar(self._handle, nbytes)
        #: Host address of BAR0.
        self.bar_address = int(ffi.cast("uintptr_t", self._bar))
        #: Its length.
        self.bar_bytes = int(nbytes[0])
        #: Registers for `ControllerHandle.open`, in threads mode.
        self.registers = BarRegisters(self.bar_address, self.bar_bytes)
        #: Memory for `ControllerHandle.open`.
        self.dma = HostDma(self.iommu)
        self._agent: tuple[Any, int] | None = None

    def _check(self, tried: str, error: Any) -> None:
        code = int(error.code)
        if code != 0:
            kind, fix = _REFUSALS.get(code, (errors.SoftwareControllerError, "See what was found."))
            raise kind(tried, self._ffi.string(error.message).decode(errors="replace"), fix)

    @property
    def handle(self) -> Any:
        """The `tt_controller *`, owned by this object."""
        return self._handle

    # -- running --

    def start(self, threads: int = 1) -> None:
        """Serves from now on, in threads of its own; returns at once.

        Thread 0 serves registers and the admin queue; I/O queues are spread over all threads by the id of their CQ.

        Raises:
            ControllerBusy: it runs already, or I/O queues exist and the number of threads changed.
            ControllerConfigInvalid: not 1 to 64 threads.
        """
        error = self._ffi.new("tt_controller_error *")
        self._lib.tt_controller_start(self._handle, threads, error)
        self._check("start the controller", error)

    def stop(self) -> None:
        """Ends and joins its threads, commands on files first; state stays for the next start. Idempotent."""
        self._lib.tt_controller_stop(self._handle)

    def attach(self, world: Any, name: str = "controller") -> None:
        """Becomes an agent of a sim world, which must outlive this or be detached from first.

        Args:
            world: a `tt_world *`, or an object whose `world` attribute is one.
            name: of the agent, in reports.

        Raises:
            ControllerBusy: it runs already.
            SoftwareControllerError: the world refused.
        """
        if self._agent is not None or self.counters.threads:
            raise errors.ControllerBusy("attach the controller", "it runs already", "Stop or detach it first.")
        ffi, lib = self._ffi, self._lib
        pointer = getattr(world, "world", world)
        agent = ffi.new("uint64_t *")
        code = lib.tt_world_map(pointer, self._bar, self.bar_bytes, _MEM_MMIO)
        if code == 0:
            code = lib.tt_world_add_controller(
                pointer, name.encode(), lib.tt_controller_run, self._handle, self.iommu.handle, agent
            )
            if code != 0:
                lib.tt_world_unmap(pointer, self._bar)
        if code != 0:
            raise errors.SoftwareControllerError(
                "attach the controller", f"the world answered {code}", "Attach only between runs of the world."
            )
        self._agent = (pointer, int(agent[0]))

    def detach(self) -> None:
        """Leaves its world; the loop runs to its end first. Idempotent."""
        agent, self._agent = self._agent, None
        if agent is not None:
            self._lib.tt_world_remove_controller(*agent)
            self._lib.tt_world_unmap(agent[0], self._bar)

    def close(self) -> None:
        """Stops and frees it. Its BAR and, unless shared, its IOMMU are gone afterwards. Idempotent."""
        self.detach()
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- faults --

    def inject(self, rule: FaultRule) -> int:
        """Adds a rule and returns its id (0 for an immediate one). Takes effect on commands fetched from now on.

        Raises:
            ControllerConfigInvalid: a field is out of its range, or the action does not go with `immediate`.
        """
        struct = self._ffi.new("tt_fault_rule *")
        out = self._ffi.new("uint64_t *")
        try:
            fill_rule(self._ffi, struct, rule)
            code = self._lib.tt_controller_inject(self._handle, struct, out)
        except OverflowError:
            code = 1
        if code != 0:
            raise errors.ControllerConfigInvalid(
                f"inject {rule}", "a field is out of its range", "See FaultRule for what goes together."
            )
        return int(out[0])

    def fault_hits(self, rule_id: int) -> int:
        """How often the rule has struck.

        Raises:
            ControllerConfigInvalid: there is no such rule.
        """
        hits = int(self._lib.tt_controller_fault_hits(self._handle, rule_id))
        if hits == 2**64 - 1:
            raise errors.ControllerConfigInvalid(
                f"read the hits of rule {rule_id}", "there is no such rule", "Pass an id from inject."
            )
        return hits

    def clear_faults(self, rule_id: int = 0) -> None:
        """Removes one rule, or all with 0. What a rule did is not undone.

        Raises:
            ControllerConfigInvalid: there is no such rule.
        """
        if self._lib.tt_controller_clear_fault(self._handle, rule_id) != 0:
            raise errors.ControllerConfigInvalid(
                f"clear rule {rule_id}", "there is no such rule", "Pass an id from inject, or 0."
            )

    def power_cut(self, seed: int = 0, survive: float = 0.0) -> None:
        """As if the supply failed and came back: commands in flight, queues and registers are gone.

        With a modelled volatile cache every unflushed block is lost, but for a share `survive` of them by `seed`. Waits
        for it while threads run; in a world it happens at the controller's next turn.

        Raises:
            ControllerConfigInvalid: `survive` is not within 0 and 1.
        """
        if self._lib.tt_controller_power_cut(self._handle, seed, max(0, round(survive * 1_000_000))) != 0:
            raise errors.ControllerConfigInvalid("cut the power", f"survive={survive}", "Pass a share between 0 and 1.")

    # -- looking in --

    @property
    def counters(self) -> Counters:
        """What was counted so far. Does not stop the controller."""
        struct = self._ffi.new("tt_controller_counters *")
        struct.struct_size = self._ffi.sizeof("tt_controller_counters")
        self._lib.tt_controller_counters_read(self._handle, struct)
        by_opcode = {"admin_commands", "io_commands"}
        plain = {name: int(getattr(struct, name)) for name in Counters.__dataclass_fields__ if name not in by_opcode}
        admin, io = (
            {opcode: int(count) for opcode, count in enumerate(getattr(struct, name)) if count}
            for name in ("admin_commands", "io_commands")
        )
        return Counters(admin_commands=admin, io_commands=io, **plain)

    def queue_counters(self, qid: int) -> QueueCounters:
        """Of SQ and CQ `qid` since the last reset.

        Raises:
            ControllerConfigInvalid: above the number of queues.
        """
        struct = self._ffi.new("tt_queue_counters *")
        struct.struct_size = self._ffi.sizeof("tt_queue_counters")
        if self._lib.tt_controller_queue_counters_read(self._handle, qid, struct) != 0:
            raise errors.ControllerConfigInvalid(
                f"read the counters of queue {qid}", "there is no such queue", "Stay within io_queues."
            )
        return QueueCounters(**{name: int(getattr(struct, name)) for name in QueueCounters.__dataclass_fields__})

    def namespace_info(self, nsid: int) -> NamespaceInfo:
        """How that namespace turned out.

        Raises:
            NamespaceFileMissing: there is none of that id.
        """
        struct = self._ffi.new("tt_namespace_info *")
        struct.struct_size = self._ffi.sizeof("tt_namespace_info")
        if self._lib.tt_controller_namespace_info(self._handle, nsid, struct) != 0:
            raise errors.NamespaceFileMissing(
                f"look at namespace {nsid}", "there is none of that id", "Pass an nsid of the configuration."
            )
        flags = {name: bool(getattr(struct, name)) for name in ("direct", "block_device", "read_only")}
        numbers = {name: int(getattr(struct, name)) for name in NamespaceInfo.__dataclass_fields__ if name not in flags}
        return NamespaceInfo(**flags, **numbers)  # type: ignore[arg-type]

    def read_stored(self, nsid: int, offset: int, nbytes: int) -> bytes:
        """The stored bytes of a namespace's data region, past the queues.

        Raises:
            ControllerConfigInvalid: out of range, or not whole blocks of a file under direct I/O.
        """
        buffer = self._ffi.new("char[]", max(1, nbytes))
        code = self._lib.tt_controller_namespace_read(self._handle, nsid, offset, buffer, nbytes)
        self._check_stored("read", nsid, offset, nbytes, code)
        return bytes(self._ffi.buffer(buffer, nbytes))

    def write_stored(self, nsid: int, offset: int, data: bytes) -> None:
        """Overwrites stored bytes, past the queues: what decay of the medium looks like.

        Raises:
            ControllerConfigInvalid: out of range, or not whole blocks of a file under direct I/O.
        """
        code = self._lib.tt_controller_namespace_write(
            self._handle, nsid, offset, self._ffi.from_buffer(data), len(data)
        )
        self._check_stored("write", nsid, offset, len(data), code)

    def read_stored_metadata(self, nsid: int, offset: int, nbytes: int) -> bytes:
        """The stored bytes of a namespace's metadata region, past the queues: `Namespace.metadata_bytes` for a block.

        Raises:
            ControllerConfigInvalid: out of range.
        """
        buffer = self._ffi.new("char[]", max(1, nbytes))
        code = self._lib.tt_controller_namespace_metadata(self._handle, nsid, offset, buffer, nbytes, 0)
        self._check_stored("read", nsid, offset, nbytes, code)
        return bytes(self._ffi.buffer(buffer, nbytes))

    def write_stored_metadata(self, nsid: int, offset: int, data: bytes) -> None:
        """Overwrites stored metadata, past the queues.

        Raises:
            ControllerConfigInvalid: out of range.
        """
        code = self._lib.tt_controller_namespace_metadata(
            self._handle, nsid, offset, self._ffi.from_buffer(bytearray(data)), len(data), 1
        )
        self._check_stored("write", nsid, offset, len(data), code)

    def _check_stored(self, verb: str, nsid: int, offset: int, nbytes: int, code: int) -> None:
        if code != 0:
            raise errors.ControllerConfigInvalid(
                f"{verb} {nbytes} stored bytes at {offset} of namespace {nsid}",
                "out of range, or not whole blocks" if code == 1 else "the file answered with an error",
                "Stay inside the namespace; use whole blocks.",
            )


class NullController(SoftwareController):
    """Completes every I/O command at once, without looking at it and without data: for the speed of queues."""

    _KIND = 1
