"""The ring as the CPU sees it: make it, register memory, hand over batches, take completions, make failed queues anew.

A batch costs one copy and one launch, whatever it holds. Everything between the launch and the completions is the
device's work: see ``kernels_templates/kernels/ring.cu.j2`` and ``docs/ring.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from tutti_hal.errors import NamespaceAbsent, RingBusy, RingError
from tutti_hal.io_uring.batch import RegisteredBuffer, Target
from tutti_hal.io_uring.device_tables import DeviceTables
from tutti_hal.io_uring.iocb import Iocb, Stage
from tutti_hal.io_uring.layout import Access, dtype
from tutti_hal.io_uring.options import Drive, RingOptions
from tutti_hal.io_uring.recovery import QueueRecovery, Recovery, RecoveryLimits, rows_in_use
from tutti_hal.io_uring.registry import Registry
from tutti_hal.io_uring.setup import create_pairs, find_targets
from tutti_hal.io_uring.statistics import QueueStatistics, Statistics
from tutti_hal.io_uring.tables import first_places

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.nvme.memory import DmaMemory
    from tutti_hal.nvme.queues import QueuePair
    from tutti_hal.shim import Device, Event, Stream

#: Requests that a lane submits at once (RING_BURST of the kernel): fewer for each lane would waste collectives.
BURST = 8

_BOTH = Access.DRIVE_READS | Access.DRIVE_WRITES


class Ring:
    """Queue pairs on any number of drives, driven by GPU threads. A context manager. Not thread safe.

    Make it with `init_queue`. It owns its queue pairs, tables and lists of registered buffers; the device, the drives
    and the registered memory stay the caller's and must outlive it.
    """

    def __init__(
        self, device: Device, drives: Sequence[Drive], options: RingOptions, templates: Path | None = None
    ) -> None:
        """Use `init_queue`."""
        self._templates = templates
        self.device = device
        self.options = options
        self._drives = tuple(drives)
        self._stack = ExitStack()
        self._pairs: list[QueuePair] = []
        self._registry = Registry(self._drives, options)
        self._targets: list[Target] = []
        self._iocbs: list[Iocb] = []
        self._epoch = 0

    @classmethod
    def init_queue(
        cls,
        device: Device,
        drives: Sequence[Drive],
        options: RingOptions | None = None,
        *,
        templates: Path | None = None,
    ) -> Self:
        """Creates the queue pairs on every drive, the tables on the device, and loads the kernel (built if need be).

        Blocks for some admin commands per queue. Every active namespace of every drive becomes a target, unless
        `Drive.namespaces` names some.

        Args:
            device: where the ring's kernel runs.
            drives: the controllers, each brought up. Their registers must be reachable for the device's kernels.
            options: sizes and bounds.
            templates: another root of kernel templates than the installed one.

        Raises:
            DepthInvalid: a number of commands or an interval that does not fit the depth, or more commands than a drive
                works on at a time.
            QueueInvalid: a depth that a drive does not allow.
            QueuesRefused: a drive grants fewer queue pairs than `RingOptions.queues` asks for.
            NamespaceAbsent: no drive, or none with an active namespace, or not the one that was named.
            NamespaceInvalid: a namespace with protection information that the ring does not know, or whose block is
                larger than the drive's transfer limit.
            RingError: kernels cannot reach a drive's doorbells.
            BuildError: the kernel cannot be built for this profile.
        """
        ring = cls(device, drives, options or RingOptions(), templates)
        try:
            ring._make()
        except BaseException:
            ring.close()
            raise
        return ring

    # ---- making ----

    def _make(self) -> None:
        import numpy as np

        from tutti_hal.toolchain import build

        options = self.options
        # Refuse what cannot be before anything is made.
        for drive in self._drives:
            _ = options.commands_on(drive.handle.limits), options.completion_interval
        self._targets += find_targets(self._drives)
        for drive in self._drives:
            self._pairs += create_pairs(drive, options, self._stack)
        self._tables = DeviceTables(self.device, self._drives, options, self._targets, self._pairs)
        self._stack.callback(self._tables.close)
        self._statuses = self._stack.enter_context(
            self.device.allocate(options.batches * options.batch_limit * dtype("ring_status").itemsize)
        )
        self._epoch_word = self._stack.enter_context(self.device.allocate(4, kind="mapped"))
        self._epoch_word.numpy(np.uint32)[0] = 0
        built = build(self.device.profile, "ring", templates=self._templates)
        module = self._stack.enter_context(self.device.load_module(built.path, built.declared))
        self._kernel = module["ring_run"]
        # An attribute makes a vendor that loads lazily load it now: beside a resident kernel that could wait for ever.
        _ = self._kernel.max_block_threads
        self._wave_width = self.device.wave_width
        for number in range(options.batches):
            iocb = Iocb(self.device, options, number, self._targets, self._registry.buffers)
            self._stack.callback(iocb.close)
            self._iocbs.append(iocb)

    # ---- what there is ----

    @property
    def targets(self) -> tuple[Target, ...]:
        """Every active namespace of every drive, as of when the ring was made."""
        return tuple(self._targets)

    def target(self, drive: int, nsid: int) -> Target:
        """The target of a namespace.

        Raises:
            NamespaceAbsent: the drive has no active namespace of that number.
        """
        for target in self._targets:
            if (target.drive, target.nsid) == (drive, nsid):
                return target
        have = ", ".join(str(t.nsid) for t in self._targets if t.drive == drive) or "none"
        raise NamespaceAbsent(
            f"use namespace {nsid} of drive {drive}",
            f"its active namespaces are: {have}",
            "Use one of them.",
        )

    # ---- memory ----

    def register(
        self,
        mappings: DmaMemory | Sequence[DmaMemory],
        access: Access = _BOTH,
        *,
        metadata: DmaMemory | Sequence[DmaMemory] | None = None,
        piece: int | None = None,
    ) -> RegisteredBuffer:
        """Makes memory usable as data of requests, and builds its PRP lists or SGL descriptors, once.

        Args:
            mappings: the memory as each drive reaches it, in the order of the drives; all of one address and length.
                A ring over one drive may be given the mapping itself.
            access: what the drives may do with it.
            metadata: memory for the metadata of namespaces that keep them apart, likewise; one run on the bus. The
                metadata of the buffer's block n (of the namespace's size) begin at n times their size.
            piece: size of the objects in the buffer, in bytes, a power of two of at least the drives' page: no command
                crosses a multiple of it. A request that does becomes several commands if it begins at one. It makes
                descriptors few: one SGL descriptor for a piece, or PRP lists without a second one.

        Returns:
            What requests name. The memory must stay mapped until `unregister`.

        Raises:
            BufferInvalid: mappings that do not belong together or to the drives, pages that are not whole, metadata in
                several runs, a piece that is no power of two or less than a page, or no room.
        """
        return self._registry.add(mappings, access, self._tables, metadata=metadata, piece=piece)

    def unregister(self, buffer: RegisteredBuffer) -> None:
        """Forgets a buffer; its memory may be unmapped then.

        Raises:
            BufferInvalid: it is not registered.
            RingBusy: a batch in flight has requests for it, or a queue has commands whose end is not known: the drive
                might still move data. Wait, or `recover`, first.
        """
        import numpy as np

        self._registry.require(buffer)
        flying = [iocb for iocb in self._iocbs if iocb.stage is Stage.IN_FLIGHT]
        if any(bool(np.any(iocb.packed["buffer"] == buffer.row)) for iocb in flying):
            raise RingBusy("unregister a buffer", "a batch in flight has requests for it", "Wait for it: wait_cqe.")
        if any(queue.health for queue in self.statistics().queues):
            raise RingBusy(
                "unregister a buffer", "a queue has commands whose end is not known", "Call recover() first."
            )
        self._registry.remove(buffer, self._tables)

    # ---- batches ----

    def get_iocb(self) -> Iocb:
        """An empty batch to fill. It stays the caller's until `wait_cqe`, or `put_iocb`.

        Raises:
            RingBusy: all `RingOptions.batches` are taken.
        """
        for iocb in self._iocbs:
            if iocb.stage is Stage.FREE:
                iocb.clear()
                iocb.stage = Stage.FILLING
                return iocb
        raise RingBusy(
            "take a batch", f"all {len(self._iocbs)} are taken", "Wait for one, or raise RingOptions.batches."
        )

    def put_iocb(self, iocb: Iocb) -> None:
        """Gives back a batch that is not to be issued."""
        self._require_stage(iocb, Stage.FILLING, "give a batch back")
        iocb.stage = Stage.FREE

    def issue_io(self, iocb: Iocb, stream: Stream | None = None, *, around: tuple[Event, Event] | None = None) -> None:
        """Hands a batch to the device: one copy, one launch, one event. Does not block.

        Work enqueued on the stream before it is finished first; what the batch moved is there for work enqueued after.

        Args:
            iocb: of `get_iocb`, filled. An empty one costs nothing.
            stream: where to enqueue; None takes the ring's own.
            around: events to record right before and right behind the launch, for who measures it alone.

        Raises:
            RingError: it is not being filled.
        """
        import numpy as np

        self._require_stage(iocb, Stage.FILLING, "issue a batch")
        iocb.stage = Stage.IN_FLIGHT
        count = iocb.command_count
        if count == 0:
            return
        # No kernel has run: so every request says "not run" until one tells more.
        iocb.results[:count].view(np.uint8)[:] = 0
        where = stream or self._tables.stream
        where.copy(iocb.requests, iocb.staging, iocb.request_bytes)
        if around is not None:
            where.record(around[0])
        self._launch(iocb, where)
        if around is not None:
            where.record(around[1])
        where.record(iocb.done)

    def _launch(self, iocb: Iocb, stream: Stream) -> None:
        import numpy as np

        from tutti_hal.shim import LaunchConfig, launch

        options = self.options
        lanes = self._lanes(iocb.command_count)
        block = min(options.block, lanes)
        if int(self._epoch_word.numpy(np.uint32)[0]) != self._epoch:
            # One wave looks at the epoch before it does anything, the others by turns: when stopped, it is alone.
            lanes = block = min(block, self._wave_width)
        launch(
            stream,
            LaunchConfig(grid=-(-lanes // block), block=block),
            self._kernel,
            *self._tables.addresses,
            iocb.requests.address,
            self._statuses.address,
            iocb.mapped.address,
            iocb.number * options.batch_limit,
            iocb.command_count,
            options.limit_ns,
            self._epoch_word.address,
            self._epoch,
        )

    def _lanes(self, commands: int) -> int:
        """Whole waves, each lane with a burst to submit, and no more than allowed."""
        width = self._wave_width
        wanted = -(-commands // BURST)
        return max(min(-(-wanted // width) * width, self.options.lanes), 1)

    def query(self, iocb: Iocb) -> bool:
        """True when `wait_cqe` would not block. Does not block.

        Raises:
            RingError: it was not issued.
        """
        self._require_stage(iocb, Stage.IN_FLIGHT, "query a batch")
        return iocb.command_count == 0 or iocb.done.query()

    def wait_cqe(self, iocb: Iocb) -> NDArray[np.void]:
        """Waits for a batch and returns one completion for each of its requests, in their order.

        Ends in bounded time: the device gives every command `RingOptions.limit_ns`. A request that did not end well is
        no exception: look at ``state``, ``sct`` and ``sc`` (`completion_dtype`), or ask `succeeded`.

        Ctrl-C in the wait leaves the batch in flight: wait again, or `close` does, before its memory goes.

        Raises:
            RingError: it was not issued.
            TuttiError: the launch itself failed; then every request of the batch that has no other state is NOT_RUN.
        """
        self._require_stage(iocb, Stage.IN_FLIGHT, "wait for a batch")
        try:
            if iocb.command_count:
                iocb.done.synchronize()
            completions = iocb.completions(iocb.results[: iocb.command_count])
        except Exception:
            iocb.stage = Stage.FREE
            raise
        iocb.stage = Stage.FREE
        return completions

    # ---- trouble ----

    def stop(self) -> None:
        """Makes running kernels end soon: nothing more is submitted, what is in flight ends as STOPPED.

        Returns at once. The queues that had commands in flight must be recovered, then `resume` allows new batches.
        """
        import numpy as np

        self._epoch_word.numpy(np.uint32)[0] = (self._epoch + 1) & 0xFFFFFFFF

    def resume(self) -> None:
        """Allows batches again after `stop`.

        Raises:
            RingBusy: a batch is in flight.
        """
        import numpy as np

        self._require_idle("resume")
        self._epoch = int(self._epoch_word.numpy(np.uint32)[0])

    def recover(self, limits: RecoveryLimits | None = None, *, drive: int | None = None) -> tuple[QueueRecovery, ...]:
        """Makes every queue that is not well work again. Returns what became of each; nothing when all were well.

        Three steps, each in its own time, until one helps: the commands without an end are aborted; the queue pair is
        deleted and created again; the drive is reset. A command whose end was not known is over when its queue works:
        the drive moves none of its data any more. Batches may be in flight on other queues and go on meanwhile.

        A reset takes all queue pairs of the drive, also those that somebody else made on its handle, and its event
        requests. It needs that no batch in flight uses the drive.

        Args:
            limits: how long each step may take; None takes `RecoveryLimits`.
            drive: only the queues of this drive; None takes all.

        Raises:
            RingBusy: a batch in flight has requests for a queue that is not well.
            RecoveryFailed: no step helped some queue: the drive is gone, does not come back, or came back another
                one. Its ``results`` tell of all queues. Those that work go on; the others take no commands, and
                keep the registered buffers. It may be tried again.
        """
        busy: set[int] = set()
        for iocb in self._iocbs:
            if iocb.stage is Stage.IN_FLIGHT and iocb.command_count:
                busy |= rows_in_use(iocb.packed, self._targets, self.options)
        recovery = Recovery(self._drives, self.options, self._targets, self._pairs, self._tables)
        return recovery.run(frozenset(busy), limits or RecoveryLimits(), drive)

    def statistics(self) -> Statistics:
        """Counters of every queue. Copies them from the device, behind what is enqueued on the ring's own stream."""
        per_drive = self.options.queues_per_drive
        first, _ = first_places(self.options.first_ticket, self.options.depth, self.options.completion_depth)
        return Statistics(
            tuple(
                QueueStatistics.of(state, row // per_drive, self._pairs[row].qid, first)
                for row, state in enumerate(self._tables.read_states())
            )
        )

    # ---- the end ----

    def _require_stage(self, iocb: Iocb, stage: Stage, tried: str) -> None:
        if iocb.stage is not stage or self._iocbs[iocb.number] is not iocb:
            raise RingError(tried, f"it is {iocb.stage.value}", f"It must be {stage.value}: see Iocb.")

    def _require_idle(self, tried: str) -> None:
        busy = sum(iocb.stage is Stage.IN_FLIGHT for iocb in self._iocbs)
        if busy:
            raise RingBusy(tried, f"{busy} batches are in flight", "Wait for them: wait_cqe.")

    def close(self) -> None:
        """Waits for what is in flight, deletes the queue pairs, then gives the memory back. May be called twice.

        The drives abort what they still had of these queues, so that registered memory is the caller's again.

        Raises:
            ControllerError: a drive did not delete its queues.
        """
        busy = any(iocb.stage is Stage.IN_FLIGHT and iocb.command_count for iocb in self._iocbs)
        with ExitStack() as after:
            # The lists go last: a drive may read them until its queues are gone. All go, whatever the wait says.
            self._registry.release(after)
            after.push(self._stack)
            for iocb in self._iocbs:
                iocb.stage = Stage.FREE
            if busy:
                # Not the batches' own events: issuing one may have been interrupted before its event was recorded.
                self.device.synchronize()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
