"""Drives, a ring over them, and one piece of registered memory, for a case to work with; of any profile.

    with Rig(run, {"depth": 8}, drives=[drive(mdts=1)]) as rig:
        done = rig.submit("read", lba=np.arange(8), offset=np.arange(8) * BLOCK)

In a simulated world the drives are agents of the world; elsewhere threads serve them. A rig keeps to the ablation and
the controller mutation in force. What comes back are plain values, for the judge to see.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from tutti_hal.conformance_tests.ablations import limits
from tutti_hal.conformance_tests.controller_mutations import CONTROLLER_MUTATIONS, mutation
from tutti_hal.conformance_tests.drives import BLOCK, BufferDma, BufferMemory, bring_up, drive, placements, serve
from tutti_hal.conformance_tests.oracle.host import Host
from tutti_hal.conformance_tests.oracle.nvme import CC, CSTS
from tutti_hal.errors import RuntimeFailure
from tutti_hal.io_uring import Drive, Iocb, Ring, RingOptions, State, Target, Why
from tutti_hal.nvme.software import Iommu, SoftwareController

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from tutti_hal.conformance_tests.run import Run
    from tutti_hal.nvme.handle import ControllerHandle
    from tutti_hal.nvme.software_config import ControllerConfig, FaultRule
    from tutti_hal.shim import Stream

__all__ = ["BLOCK", "CONTROLLER_MUTATIONS", "Rig", "drive", "make_controller", "placements", "raw_host"]

#: What data memory holds where nothing is put: a byte that no source has throughout.
SPOILT = 0xEE

#: Deadlines that no command of a drive in order meets: long in steps, short in the virtual clock; long in real time.
_AMPLE_NS = {True: 2_000_000, False: 20_000_000_000}

#: Seconds that the suite's own host waits for a drive, and steps of a world in each turn of the wait.
_PATIENCE_S = 3.0
_PAUSE_STEPS = 256

#: Deadlines that a case waits for.
_SHORT_NS = {True: 200_000, False: 400_000_000}


def make_controller(
    run: Run, config: ControllerConfig, iommu: Iommu, make: type[SoftwareController] = SoftwareController
) -> SoftwareController:
    """A controller as the case wants it, as far as ablation and controller mutation let it be so; not running yet.

    Raises:
        ControllerConfigInvalid: a field is out of its range.
        ControllerMutationUnknown: the subject names a mutation that does not exist.
    """
    most = limits(run.subject.spec.ablation)
    bounds = {name: min(value, getattr(config, name)) for name, value in most.items()}
    liar = mutation(run.subject.spec.controller)
    config = config.but(**bounds)
    if liar is None:
        return make(config, iommu)
    controller = make(liar.configured(config), iommu)
    liar.strike(controller)
    return controller


@contextmanager
def raw_host(
    run: Run,
    config: ControllerConfig,
    *,
    queues: int = 1,
    depth: int = 16,
    faults: Sequence[FaultRule] = (),
    make: type[SoftwareController] = SoftwareController,
) -> Iterator[Host]:
    """One drive and the suite's own host over it, enabled, with I/O queue pairs 1 to ``queues``; no ring.

    Args:
        run: the case's.
        config: of the drive.
        queues: how many are made; 0 does not even ask for any.
        depth: of each.
        faults: injected once the queues are there.
        make: the kind of controller.

    Raises:
        DriveSilent: it did not come up.
    """
    with ExitStack() as stack:
        iommu = stack.enter_context(Iommu(seed=run.seed))
        controller = stack.enter_context(make_controller(run, config, iommu, make))
        serve(run.device, run.world, controller, stack)
        host = Host(controller, **_through(run, controller), timeout=_PATIENCE_S)
        stack.callback(host.close)
        host.enable()
        if queues:
            host.set_queue_count(queues)
        for qid in range(1, queues + 1):
            host.create_pair(qid, depth)
        for rule in faults:
            controller.inject(rule)
        yield host
        # Its memory goes next: nothing may move any more.
        host.store(CC, 0)
        host.wait(lambda: host.load(CSTS) & 1 == 0, 1.0)


def _through(run: Run, controller: SoftwareController) -> dict[str, Any]:
    """How the suite's host reaches registers: plainly, or through the world, which tells the drive."""
    world = run.world
    if world is None:
        return {}
    bar = range(controller.bar_address, controller.bar_address + controller.bar_bytes)
    return {
        "load": lambda address: world.load(address) if address in bar else _plain_load(address),
        "store": world.store,
        "pause": lambda: world.run(_PAUSE_STEPS),
    }


def _plain_load(address: int) -> int:
    return int(ctypes.c_uint32.from_address(address).value)


class Rig:
    """Drives and a ring. A context manager; what a case leaves open is closed when the case ends.

    Attributes:
        controllers: the drives themselves, to inject faults and to look at what they stored and counted.
        handles: how the host drives them.
        over: the drives as a ring takes them.
        ring: over all of them.
        iommus: the one that each drive is behind, the same for all of them unless they are apart.
        mappings: `memory` as each drive reaches it.
        memory: registered as `buffer`; reach it by :meth:`put` and :meth:`get`.
        beside: the memory for metadata that is registered with it; None where there is none.
    """

    def __init__(
        self,
        run: Run,
        options: Mapping[str, Any] | None = None,
        *,
        drives: Sequence[ControllerConfig] | None = None,
        faults: Sequence[FaultRule] = (),
        data_bytes: int = 1 << 15,
        contiguous: bool = False,
        places: Mapping[str, str] | None = None,
        stale: int = 0,
        apart: bool = False,
        lengths: Sequence[int] | None = None,
        piece: int | None = None,
        metadata_bytes: int = 0,
        tags: tuple[int, int] = (0, 0xFFFF),
    ) -> None:
        """Make one.

        Args:
            run: the case's.
            options: fields of `RingOptions` that differ from small ones with ample deadlines.
            drives: their configurations; one of :func:`drive` by default.
            faults: injected into drive 0 once the ring is made.
            data_bytes: of the registered memory.
            contiguous: whether that is one run on the bus.
            places: ``submission_queue``, ``completion_queue``, ``data`` -> ``host`` or ``device``, where other than
                the record has it.
            stale: what the memory of completion queues holds before the queues are made.
            apart: each drive is behind an IOMMU of its own, and so reaches the same memory at other bus addresses.
            lengths: of the runs of the registered memory, in pages, instead of `data_bytes` and `contiguous`.
            piece: as the memory is registered.
            metadata_bytes: of the memory for metadata that is registered with it; none when 0.
            tags: application tag and its mask.

        Raises:
            TuttiError: whatever the ring, a drive or the device refuses.
        """
        self.run = run
        self.world = run.world
        self._stack = ExitStack()
        # Should a case end in between, or forget it.
        run.closing.callback(self.close)
        drives = drives or [drive()]
        self.iommus = [self._stack.enter_context(Iommu(seed=run.seed + n)) for n in range(len(drives) if apart else 1)]
        self.iommus += self.iommus[:1] * (len(drives) - len(self.iommus))
        if apart:
            # Or else they would all give the first run the same address.
            for number, iommu in enumerate(self.iommus):
                taken = BufferDma(run.device, iommu, "mapped").allocate((1 + number) << 14, contiguous=True)
                self._stack.callback(taken.close)
        self._lengths, self._piece, self._metadata_bytes, self._tags = lengths, piece, metadata_bytes, tags
        self._make(options or {}, drives, data_bytes, contiguous, places or {}, stale)
        for rule in faults:
            self.controllers[0].inject(rule)

    def _make(
        self,
        options: Mapping[str, Any],
        drives: Sequence[ControllerConfig],
        data_bytes: int,
        contiguous: bool,
        places: Mapping[str, str],
        stale: int,
    ) -> None:
        run, stack = self.run, self._stack
        behind = list(zip(drives, self.iommus, strict=True))
        self.controllers = [stack.enter_context(make_controller(run, one, iommu)) for one, iommu in behind]
        self.handles: list[ControllerHandle] = [
            bring_up(run.device, self.world, one, stack) for one in self.controllers
        ]
        page = max(handle.page_bytes for handle in self.handles)
        first = self.iommus[0]
        dma = self._dma("data", places, first)
        if self._lengths is not None:
            self.memory = dma.scatter(self._lengths, alignment=page)
        else:
            self.memory = dma.allocate(data_bytes, contiguous=contiguous, alignment=page)
        stack.callback(self.memory.close)
        self.beside = None
        if self._metadata_bytes:
            self.beside = dma.allocate(self._metadata_bytes, contiguous=True, alignment=page)
            stack.callback(self.beside.close)
        self.mappings = [self.memory]
        for iommu in self.iommus[1:]:
            again = self.memory
            if iommu is not first:
                again = self.memory.through(iommu, contiguous=contiguous, alignment=page)
                stack.callback(again.close)
            self.mappings.append(again)
        self.over = [
            Drive(
                handle=handle,
                dma=BufferDma(run.device, iommu, "mapped"),
                sq_dma=self._dma("submission_queue", places, iommu),
                cq_dma=self._dma("completion_queue", places, iommu, stale),
                application_tag=self._tags[0],
                application_mask=self._tags[1],
            )
            for handle, iommu in zip(self.handles, self.iommus, strict=True)
        ]
        self.options = RingOptions(**self._sizes() | dict(options))
        self.make_ring()
        self.stream: Stream = stack.enter_context(run.device.create_stream())

    def _dma(self, what: str, places: Mapping[str, str], iommu: Iommu, stale: int = 0) -> BufferDma:
        place = places.get(what, self.run.profile.record.placement[what])
        kind = "device" if place == "device" and "device" in placements(self.run.profile.record) else "mapped"
        return BufferDma(self.run.device, iommu, kind, stale=stale)

    def _sizes(self) -> dict[str, Any]:
        # Two blocks of half a dozen lanes: two partial waves.
        return {
            "depth": 8,
            "lanes": 12,
            "block": 6,
            "batch_limit": 128,
            "buffers": 4,
            "limit_ns": _AMPLE_NS[self.world is not None],
        }

    def make_ring(self) -> None:
        """A ring over the drives; another one, once the one before is closed.

        Raises:
            TuttiError: whatever the ring or a drive refuses.
        """
        run = self.run
        self.ring = Ring.init_queue(run.device, self.over, self.options, templates=run.subject.templates)
        self._stack.callback(self.ring.close)
        self.buffer = self.ring.register(self.mappings, metadata=self.beside, piece=self._piece)

    @staticmethod
    def short_ns(run: Run) -> int:
        """A deadline for a case that waits for it."""
        return _SHORT_NS[run.world is not None]

    @staticmethod
    def latest_ns(run: Run, limit_ns: int) -> int:
        """When a wait of ``limit_ns`` by the device's clock has ended for certain, in real time.

        A clock that is not one for all blocks may show as little as a quarter of the time (``prim.clock.advances``):
        the wait ends late, and a completion that is to come after it has to come later still.
        """
        return limit_ns if run.facts.capabilities["clock.global_ns"] else 4 * limit_ns

    # ---- data ----

    def put(self, values: Any = b"", offset: int = 0, where: BufferMemory | None = None) -> None:
        """Spoil the whole memory, then put bytes or an array at ``offset``; of `memory`, or of `beside`."""
        import numpy as np

        memory = where or self.memory
        image = np.full(memory.nbytes, SPOILT, np.uint8)
        data = np.frombuffer(bytes(values), np.uint8)
        image[offset : offset + len(data)] = data
        self.stream.copy(memory.buffer.part(memory.skip, len(image)), image)
        self.stream.synchronize()

    def get(self, nbytes: int | None = None, where: BufferMemory | None = None) -> np.ndarray[Any, Any]:
        """The memory's first bytes; all of them by default."""
        import numpy as np

        memory = where or self.memory
        image = np.zeros(memory.nbytes if nbytes is None else nbytes, np.uint8)
        self.stream.copy(image, memory.buffer.part(memory.skip, len(image)))
        self.stream.synchronize()
        return image

    def entries(self) -> np.ndarray[Any, Any]:
        """The submission queue of the first drive's first queue, 16 double words an entry, as it lies in memory.

        Needs a queue that lies in host memory.
        """
        import numpy as np

        pair = self.handles[0].pairs[0]
        raw = pair.sq_memory.read(0, pair.depth * 64)
        return np.frombuffer(raw, np.uint32).reshape(-1, 16).copy()

    # ---- requests ----

    @property
    def target(self) -> Target:
        """The first namespace."""
        return self.ring.targets[0]

    def submit(self, verb: str, **fields: Any) -> dict[str, Any]:
        """One batch of one verb of `Batch`, start to end; see :meth:`finish` for what it returns.

        Args:
            verb: ``read``, ``write``, ``compare``, ``write_zeroes``.
            fields: ``lba``, ``nbytes``, ``offset``, ``target`` and whatever else the verb takes; by default one block
                of the first namespace.
        """
        iocb = self.fill(self.ring.get_iocb(), verb, **fields)
        self.ring.issue_io(iocb)
        return self.finish(iocb)

    def fill(self, iocb: Iocb, verb: str, **fields: Any) -> Iocb:
        """Add requests to a batch; as :meth:`submit`."""
        given = {"target": self.target, "lba": 0, "nbytes": BLOCK} | fields
        if verb != "write_zeroes":
            given = {"buffer": self.buffer, "offset": 0} | given
        getattr(iocb, verb)(**given)
        return iocb

    def finish(self, iocb: Iocb) -> dict[str, Any]:
        """Wait for a batch. Each request's end as plain values, in order, and the identifiers of its commands.

        Returns:
            ``state`` and ``why`` as names; ``status`` as (type, code) pairs; ``dnr``, ``crd``, ``more``; ``queue``;
            ``commands`` that the request became; ``took_ns``; ``identifiers`` of the commands.
        """
        import numpy as np

        count = iocb.command_count
        done = self.ring.wait_cqe(iocb)
        return {
            "state": [State(value).name for value in done["state"]],
            "why": [Why(value).name for value in done["why"]],
            "status": np.stack([done["sct"], done["sc"]], axis=1),
            "dnr": done["dnr"].copy(),
            "crd": done["crd"].copy(),
            "more": done["more"].copy(),
            "result": done["result"].copy(),
            "queue": done["queue"].copy(),
            "commands": done["commands"].copy(),
            "took_ns": done["completed_ns"].astype(np.int64) - done["submitted_ns"].astype(np.int64),
            "identifiers": iocb.results["identifier"][:count].copy(),
        }

    # ---- looking in ----

    def counted(self) -> dict[str, Any]:
        """What ring and drives have counted, side by side; in a world after the drives took their last doorbells."""
        self.settle()
        names = (
            *("commands", "completions", "doorbells", "cq_doorbells", "reaps", "cq_loads"),
            *("strays", "lates", "quarantined"),
        )
        queues = self.ring.statistics().queues
        seen = [self.controllers[queue.drive].queue_counters(queue.qid) for queue in queues]
        return {
            "ring": {name: sum(getattr(queue, name) for queue in queues) for name in names},
            "queues": [
                {
                    "commands": queue.commands,
                    "health": [flag.name for flag in queue.health],
                    "fetched": one.commands,
                    "posted": one.completions,
                    "sq_doorbells": one.sq_doorbells,
                    "cq_doorbells": one.cq_doorbells,
                }
                for queue, one in zip(queues, seen, strict=True)
            ],
            "drives": [_counters(one) for one in self.controllers],
        }

    def settle(self) -> None:
        """In a world, let the drives take what was written to their registers; elsewhere nothing."""
        if self.world is not None:
            self.world.run(2000)

    # ---- the end ----

    def close(self) -> None:
        """Take it apart. The second call does nothing."""
        stack, self._stack = self._stack, ExitStack()
        # A kernel that failed leaves its device refusing everything: the world must work again to be taken apart.
        if self.world is not None:
            with suppress(RuntimeFailure):
                self.run.subject.reset_world()
        stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _counters(controller: SoftwareController) -> dict[str, Any]:
    counted = controller.counters
    names = (*("cqes_lost", "errors", "bytes_read", "bytes_written", "faults", "bad_doorbells", "cq_full_waits"),)
    io = {str(opcode): count for opcode, count in counted.io_commands.items()}
    return {"io": io, **{name: getattr(counted, name) for name in names}}
