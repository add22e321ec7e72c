"""The registers' half of a controller's life: find out, disable, configure, enable, shut down.

Every wait ends: with what was waited for, with a deadline in the registers' clock, or with a controller that is gone or
reports a fatal error.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tutti_hal.errors import ControllerFatal, ControllerGone, ControllerTimeout, ControllerUnsupported
from tutti_hal.nvme.registers import (
    GONE_32,
    TIMEOUT_UNIT_NS,
    AdminQueueAttributes,
    Capabilities,
    CommandSet,
    Configuration,
    ControllerStatus,
    MemoryBufferSize,
    Offset,
    QueueBase,
    ReadyTimeouts,
    ShutdownNotification,
    ShutdownStatus,
    Version,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tutti_hal.nvme.memory import Registers

#: The page size that is taken when the controller allows it.
PREFERRED_PAGE_BYTES = 4096

_GONE_FIX = "The drive was removed or its link is down; open it again when it is back."


class RegisterAccess:
    """The registers, with waits and typed failures. Not thread safe: one owner drives a controller.

    Raises (every method):
        ControllerGone: the registers read all ones.
    """

    def __init__(self, registers: Registers) -> None:
        self.registers = registers
        self._until_ns: int | None = None

    @contextmanager
    def within(self, timeout_ns: int) -> Iterator[None]:
        """Ends every wait inside after so long all in all, where its own deadline is later. May be nested."""
        outer = self._until_ns
        self._until_ns = self.deadline_ns(timeout_ns)
        try:
            yield
        finally:
            self._until_ns = outer

    def deadline_ns(self, timeout_ns: int) -> int:
        """When a wait that may take so long ends, in the registers' clock."""
        own = self.registers.now_ns() + timeout_ns
        return own if self._until_ns is None else min(own, self._until_ns)

    def load64(self, offset: int) -> int:
        """Reads a 64-bit register as two halves, low half first."""
        low = self.registers.load32(offset)
        return low | self.registers.load32(offset + 4) << 32

    def store64(self, offset: int, value: int) -> None:
        """Writes a 64-bit register as two halves, low half first."""
        self.registers.store32(offset, value & 0xFFFF_FFFF)
        self.registers.store32(offset + 4, value >> 32)

    def status(self, tried: str) -> ControllerStatus:
        """CSTS."""
        value = self.registers.load32(Offset.CSTS)
        if value == GONE_32:
            raise ControllerGone(tried, "CSTS reads all ones", _GONE_FIX)
        return ControllerStatus.from_value(value)

    def healthy_status(self, tried: str) -> ControllerStatus:
        """CSTS.

        Raises:
            ControllerFatal: CFS is set.
        """
        status = self.status(tried)
        if status.cfs:
            raise ControllerFatal(tried, "CSTS.CFS is set", "Reset the controller; what was outstanding is lost.")
        return status

    def capabilities(self) -> Capabilities:
        """CAP."""
        value = self.load64(Offset.CAP)
        if value == (1 << 64) - 1:
            raise ControllerGone("read CAP", "it reads all ones", _GONE_FIX)
        return Capabilities.from_value(value)

    def configuration(self) -> Configuration:
        """CC, whatever it reads."""
        return Configuration.from_value(self.registers.load32(Offset.CC))

    def version(self) -> Version:
        """VS."""
        return Version.from_value(self.registers.load32(Offset.VS))

    def memory_buffer(self, capabilities: Capabilities) -> MemoryBufferSize:
        """CMBSZ; it is reserved, and taken as zero, without CAP.CMBS. This package never turns the buffer on."""
        if not capabilities.cmbs:
            return MemoryBufferSize()
        return MemoryBufferSize.from_value(self.registers.load32(Offset.CMBSZ))

    def wait(
        self,
        tried: str,
        done: Callable[[ControllerStatus], bool],
        timeout_ns: int,
        *,
        fatal_ends: bool = True,
    ) -> ControllerStatus:
        """Waits until CSTS satisfies `done`.

        Raises:
            ControllerTimeout: not within `timeout_ns`.
            ControllerFatal: CFS was set meanwhile; not with `fatal_ends` False, as a reset clears it.
        """
        began = self.registers.now_ns()
        deadline = self.deadline_ns(timeout_ns)
        while True:
            # The clock is read first: a controller that became ready while this thread did not run is not late.
            late = self.registers.now_ns() >= deadline
            status = self.healthy_status(tried) if fatal_ends else self.status(tried)
            if done(status):
                return status
            if late:
                raise ControllerTimeout(
                    tried,
                    f"CSTS is still {status.value:#x} after {max(deadline - began, 0) / 1e9:g} s",
                    "Reset the drive (nvme reset, or power), then open it again.",
                )
            self.registers.pause()


def ready_timeout_ns(access: RegisterAccess, capabilities: Capabilities) -> int:
    """How long RDY may take: CAP.TO, or CRTO.CRWMT where that is declared and longer; at least one unit."""
    timeout = max(capabilities.timeout_ns, TIMEOUT_UNIT_NS)
    if capabilities.crwms or capabilities.crims:
        crto = ReadyTimeouts.from_value(access.registers.load32(Offset.CRTO))
        timeout = max(timeout, crto.crwmt * TIMEOUT_UNIT_NS)
    return timeout


def choose_page_bytes(capabilities: Capabilities, wanted: int | None) -> int:
    """The memory page size: `wanted`, else 4 KiB or the nearest that the controller allows.

    Raises:
        ControllerUnsupported: `wanted` is not a page size, or lies outside MPSMIN to MPSMAX.
    """
    low, high = capabilities.min_page_bytes, capabilities.max_page_bytes
    if low > high:
        raise ControllerUnsupported(
            "choose a page size",
            f"MPSMIN {capabilities.mpsmin} above MPSMAX {capabilities.mpsmax}",
            "The drive is broken.",
        )
    if wanted is None:
        return min(max(PREFERRED_PAGE_BYTES, low), high)
    if wanted & (wanted - 1) or not low <= wanted <= high:
        raise ControllerUnsupported(
            "choose a page size", f"{wanted} bytes", f"This controller takes powers of two from {low} to {high}."
        )
    return wanted


def choose_command_set(capabilities: Capabilities) -> CommandSet:
    """CC.CSS for the NVM command set.

    Raises:
        ControllerUnsupported: the controller has no NVM command set.
    """
    if capabilities.nvm_command_set:
        return CommandSet.NVM
    if capabilities.several_command_sets:
        return CommandSet.ALL_SUPPORTED
    raise ControllerUnsupported(
        "choose a command set", f"CAP.CSS is {capabilities.css:#04x}", "The drive has no NVM command set."
    )


def disable(access: RegisterAccess, timeout_ns: int, *, settle: bool = True) -> None:
    """Clears CC.EN and waits until RDY = 0. From then on the controller reaches no memory.

    Args:
        access: the registers.
        timeout_ns: how long RDY may take to follow.
        settle: let an enable that is under way come to its end first, and wait until a failure is cleared. EN may not
            go back to 0 while RDY has not yet followed it to 1; a controller that never becomes ready, or failed on
            the way, is disabled all the same. False where it only matters that no memory is reached any more.

    Raises:
        ControllerGone: the registers read all ones.
        ControllerTimeout: RDY stays 1: memory must not be given back.
    """
    tried = "disable the controller"
    # A drive that is gone is found by the waits: they read CSTS.
    configuration = access.configuration()
    if configuration.en:
        if settle:
            with suppress(ControllerTimeout):
                access.wait(tried, lambda s: s.rdy or s.cfs, timeout_ns, fatal_ends=False)
        access.registers.store32(Offset.CC, replace(configuration, en=False, shn=0).value)
    # A reset clears CFS too, but RDY may have been 0 all along: enabling again too early would find the old failure.
    access.wait(tried, lambda s: not s.rdy and not (settle and s.cfs), timeout_ns, fatal_ends=False)


def enable(
    access: RegisterAccess,
    *,
    page_bytes: int,
    command_set: CommandSet,
    sq_bus: int,
    cq_bus: int,
    admin_depth: int,
    timeout_ns: int,
) -> None:
    """Configures a disabled controller, sets CC.EN and waits until RDY = 1.

    Raises:
        ControllerFatal: CFS was set.
        ControllerTimeout: not ready in time.
        ControllerGone: the registers read all ones.
    """
    attributes = AdminQueueAttributes(asqs=admin_depth - 1, acqs=admin_depth - 1)
    access.registers.store32(Offset.AQA, attributes.value)
    access.store64(Offset.ASQ, QueueBase.at(sq_bus).value)
    access.store64(Offset.ACQ, QueueBase.at(cq_bus).value)
    configuration = Configuration(css=int(command_set), mps=page_bytes.bit_length() - 13, iosqes=6, iocqes=4)
    # Some controllers latch the other fields only while EN is 0: so they go first, by themselves, where they are new.
    if access.configuration() != configuration:
        access.registers.store32(Offset.CC, configuration.value)
    access.registers.store32(Offset.CC, replace(configuration, en=True).value)
    access.wait("enable the controller", lambda s: s.rdy, timeout_ns)


def shut_down(access: RegisterAccess, timeout_ns: int, *, abrupt: bool = False) -> None:
    """Sets CC.SHN and waits until the shutdown is complete. The controller is still enabled afterwards.

    Raises:
        ControllerTimeout: not complete in time.
        ControllerFatal: CFS is set; there is nothing left to shut down in order.
        ControllerGone: the registers read all ones.
    """
    tried = "shut the controller down"
    kind = ShutdownNotification.ABRUPT if abrupt else ShutdownNotification.NORMAL
    configuration = access.configuration()
    access.registers.store32(Offset.CC, replace(configuration, shn=int(kind)).value)
    access.wait(tried, lambda s: s.shst == ShutdownStatus.COMPLETE, timeout_ns)
