"""A controller's life as its host drives it: bring-up, Identify, queues, features, events, shutdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tutti_hal.errors import CommandFailed, ControllerError, ControllerGone, ControllerUnsupported
from tutti_hal.nvme import bringup
from tutti_hal.nvme.admin import MAX_ADMIN_DEPTH, AdminQueue, contiguous_bus
from tutti_hal.nvme.bringup import RegisterAccess
from tutti_hal.nvme.cqe import CQE_BYTES
from tutti_hal.nvme.identify import IDENTIFY_BYTES, IdentifyController, IdentifyNvmController
from tutti_hal.nvme.inventory import limits_of
from tutti_hal.nvme.opcodes import Cns, CommandSetId
from tutti_hal.nvme.queue_commands import QueueCommands
from tutti_hal.nvme.queues import check_depth
from tutti_hal.nvme.sqe import SQE_BYTES

if TYPE_CHECKING:
    from types import TracebackType

    from tutti_hal.nvme.memory import Dma, Registers

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleOptions:
    """How to open a controller.

    Args:
        page_bytes: memory page size; None takes 4 KiB or the nearest that the controller allows.
        admin_depth: entries of the admin queues, 2 to 4096.
        command_timeout_ns: how long an admin command may take.
        shutdown_timeout_ns: how long a shutdown may take where the controller does not say (RTD3E).
    """

    page_bytes: int | None = None
    admin_depth: int = 32
    command_timeout_ns: int = 10 * _SECOND_NS
    shutdown_timeout_ns: int = 10 * _SECOND_NS

    def __post_init__(self) -> None:
        check_depth(self.admin_depth, MAX_ADMIN_DEPTH, "the admin queue")


class ControllerHandle(QueueCommands):
    """An enabled controller. A context manager: leaving it shuts the controller down in order.

    Not thread safe. It owns its admin queue's memory and the memory that it allocated for I/O queues; the registers and
    the `Dma` stay the caller's and must outlive it. Every wait is bounded in the registers' clock. Memory is given back
    only when the controller is disabled or gone: a controller that cannot be stopped keeps it.

    Any method may raise `ControllerGone` (registers read all ones), `ControllerFatal` (CSTS.CFS), `ControllerTimeout`
    (an answer did not come in time) and `CommandFailed` (an error status).
    """

    def __init__(self, registers: Registers, dma: Dma, options: HandleOptions | None = None) -> None:
        """Use `open`: the constructor touches nothing."""
        self._options = options or HandleOptions()
        super().__init__(RegisterAccess(registers), dma, self._options.command_timeout_ns)
        self._ready_ns = 2 * _SECOND_NS
        self._touched = False

    @classmethod
    def open(cls, registers: Registers, dma: Dma, options: HandleOptions | None = None) -> Self:
        """Takes over a controller in any state and brings it up: disable, configure, enable, Identify.

        Raises:
            ControllerUnsupported: no NVM command set, no I/O controller, entry sizes or page size that do not fit.
            ControllerGone: the registers read all ones.
            ControllerFatal: CFS was set while enabling.
            ControllerTimeout: RDY did not follow EN within CAP.TO, or an Identify was not answered.
            QueueInvalid: the admin depth is out of range, or the memory for it is not contiguous.
        """
        handle = cls(registers, dma, options)
        handle._bring_up_or_abandon()
        return handle

    def _bring_up_or_abandon(self) -> None:
        try:
            self._bring_up()
        except BaseException as error:
            if (failure := self._abandon()) is not None:
                error.add_note(f"disabling the controller failed as well: {failure}")
            raise

    def _bring_up(self) -> None:
        access, options = self._access, self._options
        self.capabilities = access.capabilities()
        self.version = access.version()
        self._ready_ns = bringup.ready_timeout_ns(access, self.capabilities)
        command_set = bringup.choose_command_set(self.capabilities)
        self.page_bytes = bringup.choose_page_bytes(self.capabilities, options.page_bytes)
        self._touched = True
        bringup.disable(access, self._ready_ns)
        depth = options.admin_depth
        sq = self._allocate(depth * SQE_BYTES)
        cq = self._allocate(depth * CQE_BYTES)
        self._scratch = self._allocate(IDENTIFY_BYTES)
        self.admin = AdminQueue(access, sq, cq, depth, self.capabilities.dstrd)
        bringup.enable(
            access,
            page_bytes=self.page_bytes,
            command_set=command_set,
            sq_bus=contiguous_bus(sq, depth * SQE_BYTES, self.page_bytes, "the admin submission queue"),
            cq_bus=contiguous_bus(cq, depth * CQE_BYTES, self.page_bytes, "the admin completion queue"),
            admin_depth=depth,
            timeout_ns=self._ready_ns,
        )
        self._open = True
        self.controller = IdentifyController.decode(self.identify(Cns.CONTROLLER))
        self._check_controller()
        self.nvm_controller = self._identify_nvm_controller()
        self.limits = limits_of(
            self.controller,
            self.nvm_controller,
            self.capabilities,
            page_bytes=self.page_bytes,
            memory_buffer_bytes=access.memory_buffer(self.capabilities).nbytes,
        )

    def _check_controller(self) -> None:
        data = self.controller
        if data.cntrltype not in (0, 1):
            raise ControllerUnsupported(
                "use the controller", f"CNTRLTYPE is {data.cntrltype}", "It is no I/O controller."
            )
        if not data.sqes_min <= 6 <= data.sqes_max or not data.cqes_min <= 4 <= data.cqes_max:
            raise ControllerUnsupported(
                "use the controller",
                f"entries of 2^{data.sqes_min}..2^{data.sqes_max} and 2^{data.cqes_min}..2^{data.cqes_max} bytes",
                "SQEs of 64 and CQEs of 16 bytes are needed.",
            )

    def _identify_nvm_controller(self) -> IdentifyNvmController | None:
        # The data structure came with version 2.0; older controllers refuse its CNS.
        try:
            data = self.identify(Cns.COMMAND_SET_CONTROLLER, csi=CommandSetId.NVM)
        except CommandFailed:
            return None
        return IdentifyNvmController.decode(data)

    def reset(self) -> None:
        """Disables and enables again. All I/O queues are gone, their memory too where the handle allocated it.

        `epoch` goes up by one. Outstanding I/O is lost without completions; event requests must be made again.
        """
        self._require_open("reset the controller")
        bringup.disable(self._access, self._ready_ns)
        self._forget()
        self._bring_up_or_abandon()

    def _forget(self) -> None:
        """Gives all memory back; only when the controller is disabled or gone."""
        self._open = False
        self.epoch += 1
        self._pairs.clear()
        self._events.clear()
        self._granted = None
        self._scratch = None
        memory, self._memory = self._memory, []
        for piece in reversed(memory):
            piece.close()

    def _abandon(self) -> ControllerError | None:
        """Stops the controller without ceremony; keeps the memory when it cannot be stopped, and says why."""
        if not self._touched:
            return None
        try:
            # Whoever comes here has waited for the controller already.
            bringup.disable(self._access, self._ready_ns, settle=False)
        except ControllerGone:
            pass
        except ControllerError as error:
            self._open = False
            return error
        self._forget()
        return None

    def close(self, *, abrupt: bool = False) -> None:
        """Deletes the I/O queues, shuts down, disables, gives the memory back. The second call does nothing.

        Args:
            abrupt: ask for the quick shutdown, without deleting queues first.

        Raises:
            ControllerTimeout: the shutdown was not completed in time. The controller is disabled all the same; when
                even that fails, the memory stays allocated for good, as the controller may still write to it.
            ControllerFatal: CFS is set. The controller is disabled all the same.
        """
        if not self._open:
            return
        failure: ControllerError | None = None
        try:
            if not abrupt:
                failure = self._delete_all()
            bringup.shut_down(self._access, self._shutdown_ns(), abrupt=abrupt)
        except ControllerError as error:
            failure = failure or error
        failure = self._abandon() or failure
        if failure is not None and not isinstance(failure, ControllerGone):
            raise failure

    def _delete_all(self) -> CommandFailed | None:
        """Deletes every pair that can be deleted; the first refusal, which does not keep a shutdown from going on."""
        refusal: CommandFailed | None = None
        for pair in self.pairs:
            try:
                self.delete_queue_pair(pair)
            except CommandFailed as error:
                refusal = refusal or error
        return refusal

    def _shutdown_ns(self) -> int:
        return max(self.controller.rtd3e * 1000, self._options.shutdown_timeout_ns)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # What happened inside is the news; a failure of the clean-up must not hide it.
        try:
            self.close(abrupt=True)
        except ControllerError as failure:
            error.add_note(f"closing the controller failed as well: {failure}")
