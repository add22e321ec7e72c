"""Admin commands as methods: Identify, features, log pages, abort, events, namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti_hal.errors import (
    ControllerError,
    ControllerTimeout,
    NvmeFieldRange,
    QueueInvalid,
)
from tutti_hal.nvme import commands, prp
from tutti_hal.nvme.admin import AdminQueue, check, describe
from tutti_hal.nvme.features import AsyncEvent, Feature, Select
from tutti_hal.nvme.identify import IDENTIFY_BYTES
from tutti_hal.nvme.inventory import Inventory
from tutti_hal.nvme.queues import QueuePair
from tutti_hal.nvme.sqe import NSID_ALL, Sqe

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tutti_hal.nvme.bringup import RegisterAccess
    from tutti_hal.nvme.cqe import Cqe
    from tutti_hal.nvme.memory import Dma, DmaMemory
    from tutti_hal.nvme.prp import PrpPair


class AdminCommands(Inventory):
    """What an enabled controller can be asked over its admin queue.

    The lowest of the three layers of `handle.ControllerHandle`: this one, then I/O queues, then life and death.
    """

    def __init__(self, access: RegisterAccess, dma: Dma, command_timeout_ns: int) -> None:
        self._access = access
        self._dma = dma
        self._command_timeout_ns = command_timeout_ns
        self._memory: list[DmaMemory] = []
        self._pairs: dict[int, QueuePair] = {}
        self._events: list[int] = []
        self._open = False
        self._scratch: DmaMemory | None = None
        #: The memory page size that CC.MPS selects.
        self.page_bytes = 4096
        self.admin: AdminQueue

    def _require_open(self, tried: str) -> None:
        if not self._open:
            raise ControllerError(tried, "the handle is closed", "Open the controller again.")

    def within(self, timeout_ns: int) -> AbstractContextManager[None]:
        """Bounds all waits inside together, commands and resets alike, in the registers' clock.

        A wait that is cut short raises `ControllerTimeout`, as one that ran into its own deadline. May be nested.
        """
        return self._access.within(timeout_ns)

    @property
    def now_ns(self) -> int:
        """The registers' clock, in which all waits are measured."""
        return self._access.registers.now_ns()

    @property
    def deadline_ns(self) -> int:
        """When all waits end, in the registers' clock: inside `within` its end, else so long as a command may take."""
        return self._access.deadline_ns(self._command_timeout_ns)

    def _allocate(self, nbytes: int) -> DmaMemory:
        """Contiguous, page aligned memory that lives until it is released or the controller is disabled."""
        memory = self._dma.allocate(nbytes, contiguous=True, alignment=self.page_bytes)
        self._memory.append(memory)
        return memory

    def _release(self, owned: list[DmaMemory]) -> None:
        for memory in owned:
            self._memory.remove(memory)
            memory.close()

    def execute(self, sqe: Sqe) -> Cqe:
        """Runs one admin command; its CID is set here, its data memory is the caller's.

        Blocks until it completes or its deadline passes.
        """
        tried = describe(sqe)
        self._require_open(tried)
        return self.admin.execute(sqe, tried, self._command_timeout_ns)

    def identify(self, cns: int, *, nsid: int = 0, cntid: int = 0, csi: int = 0) -> bytes:
        """The 4096 bytes of an Identify."""
        data = self._scratch_pair()
        self._run_with_scratch(commands.identify(cns, data, nsid=nsid, cntid=cntid, csi=csi))
        assert self._scratch is not None
        return self._scratch.read(0, IDENTIFY_BYTES)

    def _scratch_pair(self) -> PrpPair:
        self._require_open("run an admin command")
        assert self._scratch is not None
        self._scratch.write(0, bytes(IDENTIFY_BYTES))
        return prp.build(((self._scratch.runs[0][0], IDENTIFY_BYTES),), self.page_bytes).pair

    def _run_with_scratch(self, sqe: Sqe) -> Cqe:
        try:
            return self.execute(sqe)
        except ControllerTimeout:
            # The controller may still write there. The old page stays allocated until it is disabled.
            self._scratch = self._allocate(IDENTIFY_BYTES)
            raise

    def get_feature(self, fid: int, *, select: Select = Select.CURRENT, cdw11: int = 0, nsid: int = 0) -> int:
        """The value of a feature that fits dword 0 of the completion."""
        return self.execute(commands.get_features(fid, select=select, cdw11=cdw11, nsid=nsid)).result

    def set_feature(self, fid: int, value: int, *, save: bool = False, nsid: int = 0) -> int:
        """Sets a feature that fits dword 11; returns dword 0 of the completion.

        Raises:
            QueueInvalid: the number of queues, after a queue exists: use `grant_queues`.
        """
        if fid == Feature.NUMBER_OF_QUEUES and self._pairs:
            raise QueueInvalid(
                "set the number of queues", f"{len(self._pairs)} pairs exist", "Set it once, before the first queue."
            )
        return self.execute(commands.set_features(fid, value, save=save, nsid=nsid)).result

    def log_page(self, lid: int, nbytes: int, *, offset: int = 0, retain: bool = False, nsid: int = NSID_ALL) -> bytes:
        """Up to 4096 bytes of a log page.

        Raises:
            NvmeFieldRange: length or offset are no multiples of 4, or the length is not 4 to 4096.
        """
        if nbytes > IDENTIFY_BYTES:
            raise NvmeFieldRange("read a log page", f"{nbytes} bytes", f"Read at most {IDENTIFY_BYTES} at a time.")
        sqe = commands.get_log_page(lid, nbytes, self._scratch_pair(), offset=offset, retain=retain, nsid=nsid)
        self._run_with_scratch(sqe)
        assert self._scratch is not None
        return self._scratch.read(0, nbytes)

    def abort(self, sqid: int, cid: int) -> bool:
        """Asks for one command to be aborted. True: it was; it completes (or has completed) with status 0/07h.

        False: it was not found or could not be aborted; it may still complete.
        """
        return self.execute(commands.abort(sqid, cid)).result & 1 == 0

    def request_event(self) -> None:
        """Puts one Asynchronous Event Request; `take_events` yields what it brings.

        Raises:
            QueueInvalid: the controller takes no more (AERL), or the admin queue is full.
        """
        self._require_open("request an event")
        if len(self._events) > self.controller.aerl:
            raise QueueInvalid(
                "request an event",
                f"{len(self._events)} requests are outstanding",
                f"This controller takes {self.controller.aerl + 1} (AERL).",
            )
        self._events.append(self.admin.submit(commands.async_event_request(), "request an event"))

    def take_events(self) -> tuple[AsyncEvent, ...]:
        """The events that came since the last call. Never blocks. Each used up one request.

        Raises:
            CommandFailed: a request was refused.
        """
        self._require_open("take events")
        found: list[AsyncEvent] = []
        for cid in list(self._events):
            cqe = self.admin.result(cid)
            if cqe is not None:
                self._events.remove(cid)
                found.append(AsyncEvent.from_value(check(cqe, "request an event").result & 0x00FF_FF07))
        return tuple(found)
