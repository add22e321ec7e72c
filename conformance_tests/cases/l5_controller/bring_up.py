"""Bringing a controller up, and what the host half then takes from it: every wrong turn is a typed error."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.drives import serve
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.oracle.nvme import ACQ, AQA, ASQ, CC, CSTS
from tutti_hal.conformance_tests.rig import drive, make_controller
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.handle import ControllerHandle
from tutti_hal.nvme.memory import Registers
from tutti_hal.nvme.software import Iommu, MemoryNamespace, SoftwareController
from tutti_hal.nvme.software_config import ControllerConfig, FaultAction, FaultRule

_ADMIN_QUEUE = (AQA, ASQ, ASQ + 4, ACQ, ACQ + 4)


class _Recorded:
    """Registers that note what is stored, and CSTS whenever it is read."""

    def __init__(self, inner: Registers) -> None:
        self._inner = inner
        self.seen: list[list[int]] = []

    @property
    def address(self) -> int | None:
        return self._inner.address

    def load32(self, offset: int) -> int:
        value = self._inner.load32(offset)
        if offset == CSTS:
            self.seen.append([0, offset, value])
        return value

    def store32(self, offset: int, value: int) -> None:
        self.seen.append([1, offset, value])
        self._inner.store32(offset, value)

    def pause(self) -> None:
        self._inner.pause()

    def now_ns(self) -> int:
        return self._inner.now_ns()


def _served(run: Run, config: ControllerConfig, stack: ExitStack) -> tuple[SoftwareController, _Recorded]:
    iommu = stack.enter_context(Iommu(seed=run.seed))
    controller = stack.enter_context(make_controller(run, config, iommu))
    return controller, _Recorded(serve(run.device, run.world, controller, stack))


@case("nvme/bring_up", level="L5", clauses=("nvme.bring_up.order",))
def bring_up(run: Run) -> Observations:
    """A controller is disabled and seen not ready before its queues are set, and enabled only after; twice."""
    with ExitStack() as stack:
        controller, registers = _served(run, drive(ready_delay_ns=100_000), stack)
        # The first handle leaves it enabled: the second one finds it so.
        first = ControllerHandle.open(registers, controller.dma)
        before = len(registers.seen)
        with ControllerHandle.open(registers, controller.dma):
            seen = registers.seen[before:]
        first.close()
        return {"first": registers.seen[:before], "second": seen}


@bring_up.judge
def _(seen: Seen) -> None:
    clause = "nvme.bring_up.order"
    for name in ("first", "second"):
        steps = [tuple(one) for one in seen[name]]
        stores = {at: register for at, (stored, register, _) in enumerate(steps) if stored}
        enable = next((at for at in stores if stores[at] == CC and steps[at][2] & 1), -1)
        seen.holds(clause, f"it is enabled ({name} time)", enable >= 0, steps)
        queues = [at for at in stores if at < enable and stores[at] in _ADMIN_QUEUE]
        seen.equal(clause, f"admin queue registers set before that ({name} time)", len(queues), 5)
        ready = _ready(steps[: queues[0] if queues else 0])
        seen.holds(clause, f"it was seen not ready before they were set ({name} time)", ready[-1:] == [0], ready)
        after = _ready(steps[enable:])
        seen.holds(clause, f"it is used once it is ready ({name} time)", 1 in after, after)
    # Of a controller that was enabled.
    disables = [one for one in seen["second"] if one[0] and one[1] == CC]
    seen.equal(clause, "the first thing that is stored in CC the second time", disables[0][2] & 1, 0)


def _ready(steps: Sequence[tuple[int, ...]]) -> list[int]:
    return [value & 1 for store, register, value in steps if not store and register == CSTS]


@case(
    "nvme/bring_up.fails",
    level="L5",
    clauses=("nvme.bring_up.timeout", "nvme.bring_up.fatal"),
    axes={"how": ("stuck", "fatal", "gone", "gone_later")},
    # The declared half second is half a million turns of an idle world.
    only=lambda axes, facts: axes["how"] != "stuck" or not facts.simulated,
    narrow=lambda axes: ("nvme.bring_up.timeout",) if axes["how"] == "stuck" else ("nvme.bring_up.fatal",),
)
def bring_up_fails(run: Run) -> Observations:
    """A controller that never gets ready, is fatal, or is gone, is a typed error: in its own time, or at once."""
    how = str(run.axes["how"])
    action = {"stuck": FaultAction.READY_STUCK, "fatal": FaultAction.FATAL}.get(how, FaultAction.GONE)
    fault = FaultRule(action=action, immediate=True)
    with ExitStack() as stack:
        controller, registers = _served(run, drive(timeout_500ms=1), stack)
        if how in ("stuck", "gone"):
            controller.inject(fault)
            _let_it_happen(run)
            began = registers.now_ns()
            found = refusal(lambda: ControllerHandle.open(registers, controller.dma))
            return {"found": found, "took_ns": registers.now_ns() - began}
        # Once it works.
        handle = ControllerHandle.open(registers, controller.dma)
        controller.inject(fault)
        _let_it_happen(run)
        began = registers.now_ns()
        found = refusal(lambda: handle.identify(1))
        took = registers.now_ns() - began
        refusal(lambda: handle.close(abrupt=True))
        return {"found": found, "took_ns": took}


def _let_it_happen(run: Run) -> None:
    if run.world is not None:
        run.world.run(2000)
    else:
        time.sleep(0.005)


@bring_up_fails.judge
def _(seen: Seen) -> None:
    how, took = str(seen.axes["how"]), seen["took_ns"]
    error = {"stuck": "ControllerTimeout", "fatal": "ControllerFatal"}.get(how, "ControllerGone")
    clause = "nvme.bring_up.timeout" if how == "stuck" else "nvme.bring_up.fatal"
    seen.refused(clause, f"a controller that is {how}", seen["found"], error)
    if how == "stuck":
        # It declares half a second; a second more is for who looks.
        seen.holds(clause, "the error comes when the declared time is over", 500_000_000 <= took <= 3_000_000_000, took)
    else:
        seen.holds(clause, "the error comes at once", took <= 400_000_000, took)


@case(
    "nvme/identify",
    level="L5",
    clauses=("nvme.identify.namespace_list", "nvme.identify.lba_format", "nvme.identify.inactive"),
)
def identify(run: Run) -> Observations:
    """Namespaces come from the active list, formats from the one in force; an inactive one is absent."""
    spaces = (
        MemoryNamespace(nsid=2, blocks=1000, lba_shift=9),
        MemoryNamespace(nsid=3, blocks=77, lba_shift=12, format_index=37),
        MemoryNamespace(nsid=0xFF, blocks=50, lba_shift=9, metadata_bytes=8, metadata_inline=True, format_index=5),
        MemoryNamespace(nsid=0x1000, blocks=(1 << 33) + 1, lba_shift=12, metadata_bytes=64),
    )
    with ExitStack() as stack:
        controller, registers = _served(run, drive(namespaces=spaces), stack)
        with ControllerHandle.open(registers, controller.dma) as handle:
            found: dict[str, Any] = {}
            for nsid in handle.namespaces():
                one = handle.namespace(nsid)
                sizes = (one.capacity_lba, one.lba_bytes, one.metadata_bytes, one.transfer_bytes_per_block)
                found[str(nsid)] = [str(size) for size in sizes]
            absent = [refusal(partial(handle.namespace, nsid)) for nsid in (1, 4, 0xFE)]
    return {"found": found, "order": list(found), "absent": absent}


@identify.judge
def _(seen: Seen) -> None:
    wanted = {
        "2": ["1000", "512", "0", "512"],
        "3": ["77", "4096", "0", "4096"],
        "255": ["50", "512", "8", "520"],
        "4096": [str((1 << 33) + 1), "4096", "64", "4096"],
    }
    seen.equal("nvme.identify.namespace_list", "identifiers of the namespaces", seen["order"], list(wanted))
    for nsid, sizes in wanted.items():
        found = seen["found"].get(nsid)
        seen.equal(
            "nvme.identify.lba_format", f"blocks, block, metadata, bytes moved for a block of {nsid}", found, sizes
        )
    for one in seen["absent"]:
        seen.refused("nvme.identify.inactive", "a namespace that is not active", one, "NamespaceInvalid")


@case("nvme/queues", level="L5", clauses=("nvme.queues.count_first", "nvme.queues.depth"))
def queues(run: Run) -> Observations:
    """The number of queues is asked for first, and its answer kept to; depths are those that the controller allows."""
    with ExitStack() as stack:
        # This controller refuses queues before it was asked for their number.
        controller, registers = _served(run, drive(io_queues=3, mqes=62), stack)
        with ControllerHandle.open(registers, controller.dma) as handle:
            wrong = [refusal(partial(handle.create_queue_pair, depth)) for depth in (0, 1, 64)]
            pairs = [handle.create_queue_pair(depth) for depth in (2, 5, 63)[: controller.config.io_queues]]
            more = refusal(lambda: handle.create_queue_pair(8))
            late = refusal(lambda: handle.grant_queues(2))
            made = [[pair.qid, pair.depth, controller.queue_counters(pair.qid).depth] for pair in pairs]
            asked = dict(controller.counters.admin_commands)
        return {
            "wrong": wrong,
            "made": made,
            "more": more,
            "late": late,
            "asked": asked.get(9, 0),
            "errors": controller.counters.errors,
        }


@queues.judge
def _(seen: Seen) -> None:
    for one in seen["wrong"]:
        seen.refused("nvme.queues.depth", "a depth of 0, 1 or 64 where 63 is the most", one, "QueueInvalid")
    made = seen["made"]
    wanted = [[1, 2, 2], [2, 5, 5], [3, 63, 63]][: len(made)]
    seen.equal("nvme.queues.depth", "identifier and depth of each queue, as the drive has it", made, wanted)
    seen.refused("nvme.queues.count_first", "a queue more than was granted", seen["more"], "QueuesRefused")
    seen.refused("nvme.queues.count_first", "asking again once queues exist", seen["late"], "QueueInvalid")
    found = [seen["asked"], seen["errors"]]
    seen.holds(
        "nvme.queues.count_first", "it was asked once, and nothing was refused by the drive", found == [1, 0], found
    )
