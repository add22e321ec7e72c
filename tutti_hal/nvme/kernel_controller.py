"""The `kernel` kind of controller: a drive that the kernel's nvme driver keeps, driven beside it.

    with KernelController.open("0000:01:00.0", device) as drive:
        with Ring.init_queue(device, [Drive(handle=drive, dma=drive.host_pages)]) as ring:
            ...

The module ``tutti_p2p`` makes queue pairs beside the driver's, with their rings where we want them; file systems on the
drive stay mounted. The drive is asked who it is through the driver's own node.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tutti_hal.errors import (
    CommandFailed,
    ControllerError,
    ControllerUnsupported,
    KernelControllerError,
    ModuleRefused,
    QueueInvalid,
    QueuesRefused,
)
from tutti_hal.nvme import p2p_uapi
from tutti_hal.nvme.cqe import CQE_BYTES
from tutti_hal.nvme.identify import IDENTIFY_BYTES, IdentifyController, IdentifyNvmController
from tutti_hal.nvme.inventory import Inventory, limits_of
from tutti_hal.nvme.kernel_client import KernelClient
from tutti_hal.nvme.kernel_memory import HostPages, PinnedMemory, StandInPages
from tutti_hal.nvme.opcodes import AdminOpcode, Cns, CommandSetId
from tutti_hal.nvme.queues import QueuePair, check_depth
from tutti_hal.nvme.registers import Capabilities, cq_head_offset, sq_tail_offset
from tutti_hal.nvme.sqe import SQE_BYTES
from tutti_hal.nvme.status import Status

if TYPE_CHECKING:
    from tutti_hal.nvme.memory import DmaMemory
    from tutti_hal.shim import Buffer, Device

_PCI = Path("/sys/bus/pci/devices")
# struct nvme_passthru_cmd of linux/nvme_ioctl.h, 72 bytes, and its ioctl _IOWR('N', 0x41, ...).
_PASSTHRU = struct.Struct("<BBHIIIQQIIIIIIIIII")
_ADMIN_CMD = 3 << 30 | _PASSTHRU.size << 16 | ord("N") << 8 | 0x41
_WAIT_NS = 10_000_000_000


@dataclass
class _Live:
    """What goes with a queue pair: the module's handle, its doorbells, and the memory that was allocated here."""

    pair: QueuePair
    queue: int
    doorbells: Buffer
    sq_word: ctypes.c_uint32
    cq_word: ctypes.c_uint32
    closing: ExitStack


class KernelController(Inventory):
    """A drive beside the kernel's own driver. A context manager; a `DriveHandle` for a ring. Not thread safe.

    Attributes:
        client: the module's client that it is attached by.
        controller_handle: the module's handle of the drive.
        name: as the kernel calls it, such as ``nvme0``.
        attached: what the module said of the drive when it was attached.
        host_pages: a `Dma` of pages of this process.
    """

    def __init__(self, bdf: str, device: Device, client: KernelClient) -> None:
        """Use `open`."""
        self._device = device
        self._pairs: dict[int, _Live] = {}
        self._granted: int | None = None
        self._deadline_ns: int | None = None
        self._node = -1
        self._stand_in: StandInPages | None = None
        self.client = client
        self.bdf = bdf
        self.epoch = 0
        self.name = ""

    @classmethod
    def open(cls, bdf: str, device: Device, *, client: KernelClient | None = None) -> Self:
        """Attach a drive that is bound to the kernel's nvme driver, and ask it who it is.

        Args:
            bdf: its PCI function, such as ``0000:01:00.0``.
            device: whose kernels are to drive it.
            client: attaches it; one of its own by default. Closed with the controller either way.

        Raises:
            ModuleAbsent: the module is not there.
            ModuleRefused: it refused the drive; `cause` says why.
            KernelControllerError: there is no such drive, or its node may not be opened.
            ControllerUnsupported: it is no I/O controller.
            CommandFailed: it refused to identify itself.
        """
        self = cls(bdf, device, client or KernelClient())
        try:
            self._attach()
            self._identify_all()
        except BaseException:
            self.close()
            raise
        return self

    def _attach(self) -> None:
        tried = f"attach the drive {self.bdf}"
        try:
            self.name = next((_PCI / self.bdf / "nvme").iterdir()).name
        except (OSError, StopIteration):
            raise KernelControllerError(
                tried, "the kernel's nvme driver has no such drive", "See `lspci -D`; bind it to nvme."
            ) from None
        try:
            self._node = os.open(f"/dev/{self.name}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise KernelControllerError(tried, f"/dev/{self.name}: {error.strerror}", "It needs root.") from None
        self.attached = self.client.ask(attach_request(self.bdf, self._node), tried)
        self.controller_handle = self.attached.controller
        self.page_bytes = self.attached.page_size
        self.host_pages = HostPages(self.client, self.controller_handle, self._device)

    def _identify_all(self) -> None:
        self.controller = IdentifyController.decode(self.identify(Cns.CONTROLLER))
        if self.controller.cntrltype not in (0, 1):
            raise ControllerUnsupported(
                "use the controller", f"CNTRLTYPE is {self.controller.cntrltype}", "It is no I/O controller."
            )
        nvm = None
        with suppress(CommandFailed):
            # Came with version 2.0; older controllers refuse it.
            nvm = IdentifyNvmController.decode(self.identify(Cns.COMMAND_SET_CONTROLLER, csi=CommandSetId.NVM))
        self.capabilities = Capabilities.from_value(self.attached.cap)
        self.limits = limits_of(
            self.controller, nvm, self.capabilities, page_bytes=self.page_bytes, memory_buffer_bytes=0
        )

    def stand_in(self) -> StandInPages:
        """Memory of the rig's stand-in for a GPU, for this drive. Raises `NotSupported` where there is none."""
        if self._stand_in is None:
            self._stand_in = StandInPages(self.client, self.controller_handle, self._device)
        return self._stand_in

    def identify(self, cns: int, *, nsid: int = 0, cntid: int = 0, csi: int = 0) -> bytes:
        """The 4096 bytes of an Identify, which the kernel's driver sends.

        Raises:
            CommandFailed: the controller refused it.
            KernelControllerError: the kernel did; it needs CAP_SYS_ADMIN.
        """
        data = ctypes.create_string_buffer(IDENTIFY_BYTES)
        command = bytearray(_PASSTHRU.size)
        words = (cns | cntid << 16, csi << 24, 0, 0, 0, 0)
        _PASSTHRU.pack_into(
            command,
            0,
            AdminOpcode.IDENTIFY,
            0,
            0,
            nsid,
            0,
            0,
            0,
            ctypes.addressof(data),
            0,
            IDENTIFY_BYTES,
            *words,
            0,
            0,
        )
        tried = f"identify (CNS {cns:02x}h) {self.name}"
        try:
            answer = fcntl.ioctl(self._node, _ADMIN_CMD, command, True)
        except OSError as error:
            raise KernelControllerError(
                tried, f"{error.strerror}", "It needs CAP_SYS_ADMIN and a live drive."
            ) from None
        if answer:
            status = Status.from_field(answer & 0x7FFF)
            raise CommandFailed(
                tried,
                f"{status}: {status.meaning.text}",
                "The same command would fail again.",
                status_type=status.sct,
                status_code=status.sc,
                do_not_retry=status.dnr,
            )
        return data.raw

    # ---- queue pairs ----

    @property
    def pairs(self) -> tuple[QueuePair, ...]:
        """The I/O queue pairs that were made here. Those of the kernel's driver are its own."""
        return tuple(live.pair for live in self._pairs.values())

    def queue_handle(self, pair: QueuePair) -> int:
        """The module's handle of a queue pair, as its events name it."""
        return self._require(pair, f"name queue pair {pair.qid}").queue

    def grant_queues(self, wanted: int, *, minimum: int = 1) -> int:
        """How many queue pairs may be made: what the kernel's driver leaves of those that the drive granted it.

        Others may take some of them meanwhile.

        Raises:
            QueueInvalid: queues exist already.
            QueuesRefused: fewer than `minimum` are left.
        """
        tried = f"ask for {wanted} I/O queue pairs"
        if self._pairs:
            raise QueueInvalid(tried, f"{len(self._pairs)} pairs exist", "Ask once, before the first queue.")
        granted = min(wanted, self.attached.queues_spare)
        if granted < minimum:
            raise QueuesRefused(
                tried,
                f"{granted} of {self.attached.queues_granted} are left beside the kernel's driver, {minimum} needed",
                "Load the nvme driver with more queues, such as poll_queues=4.",
            )
        self._granted = granted
        return granted

    def create_queue_pair(
        self,
        depth: int,
        *,
        qid: int | None = None,
        cq_depth: int | None = None,
        sq_memory: DmaMemory | None = None,
        cq_memory: DmaMemory | None = None,
        priority: int = 0,
        completes_to: QueuePair | None = None,
    ) -> QueuePair:
        """Creates a queue pair beside the kernel's own.

        Args:
            depth: entries of the submission queue.
            qid: means nothing: the module chooses among the ids that are left. See the pair's own.
            cq_depth: entries of the completion queue; None takes `depth`.
            sq_memory: pinned for this drive, in one run; None allocates pages of this process.
            cq_memory: likewise; it is zeroed here.
            priority: 0: the kernel's driver decides on arbitration.
            completes_to: None: completion queues are not shared here.

        Raises:
            QueueInvalid: a depth or memory that does not fit, a priority, or a shared completion queue.
            QueuesRefused: no queue id is left, or this user may have no more.
            ModuleRefused: anything else; `cause` and `nvme_status` say what.
        """
        del qid
        tried = "create a queue pair beside the kernel's"
        if completes_to is not None or priority:
            raise QueueInvalid(tried, "a shared completion queue or a priority", "Use queues_per_cq=1 and priority 0.")
        cq_depth = depth if cq_depth is None else cq_depth
        check_depth(depth, self.limits.max_depth, "a submission queue")
        check_depth(cq_depth, self.limits.max_depth, "a completion queue")
        with ExitStack() as stack:
            sq = self._ring(sq_memory, depth * SQE_BYTES, stack)
            cq = self._ring(cq_memory, cq_depth * CQE_BYTES, stack)
            live = self._create(depth, cq_depth, sq, cq, stack)
        self._pairs[live.queue] = live
        return live.pair

    def _ring(self, memory: DmaMemory | None, nbytes: int, stack: ExitStack) -> PinnedMemory:
        if memory is None:
            memory = self.host_pages.allocate(nbytes, contiguous=True, alignment=self.page_bytes)
            stack.callback(memory.close)
        if not isinstance(memory, PinnedMemory):
            raise QueueInvalid("place a ring", "its memory is not pinned by the module", "Allocate it of this drive.")
        if memory.nbytes < nbytes:
            raise QueueInvalid("place a ring", f"{memory.nbytes} bytes for {nbytes}", "Give more memory.")
        return memory

    def _create(self, depth: int, cq_depth: int, sq: PinnedMemory, cq: PinnedMemory, stack: ExitStack) -> _Live:
        tried = "create a queue pair beside the kernel's"
        cq.write(0, bytes(cq_depth * CQE_BYTES))
        request = p2p_uapi.QueueCreate(
            controller=self.controller_handle, sq_pin=sq.pin, cq_pin=cq.pin, sq_entries=depth, cq_entries=cq_depth
        )
        try:
            made = self.client.ask(request, tried)
        except ModuleRefused as error:
            if error.cause == "NO_SPARE":
                raise QueuesRefused(tried, error.found, error.fix) from error
            raise
        delete = p2p_uapi.QueueDelete(queue=made.queue)
        stack.callback(self._unless_closed, delete, f"delete queue pair {made.qid}")
        page = mmap.mmap(self.client.fd, made.doorbell_bytes, flags=mmap.MAP_SHARED, offset=made.doorbell_offset)
        mmio = self._device.runtime.capable("memory.register_mmio")
        doorbells = stack.enter_context(self._device.register(page, mmio=mmio))
        dstrd = self.limits.dstrd
        pair = QueuePair(
            qid=made.qid,
            cqid=made.qid,
            depth=depth,
            cq_depth=cq_depth,
            priority=0,
            sq_address=sq.address,
            cq_address=cq.address,
            sq_bus=sq.runs[0][0],
            cq_bus=cq.runs[0][0],
            sq_tail_offset=sq_tail_offset(made.qid, dstrd),
            cq_head_offset=cq_head_offset(made.qid, dstrd),
            sq_tail_address=doorbells.address + made.sq_doorbell,
            cq_head_address=doorbells.address + made.cq_doorbell,
            epoch=self.epoch,
            sq_memory=sq,
            cq_memory=cq,
        )
        words = [ctypes.c_uint32.from_buffer(page, at) for at in (made.sq_doorbell, made.cq_doorbell)]
        return _Live(pair, made.queue, doorbells, words[0], words[1], stack.pop_all())

    def _unless_closed(self, request: p2p_uapi.Request, tried: str) -> None:
        if self.client.fd >= 0:
            self.client.ask(request, tried)

    def _require(self, pair: QueuePair, tried: str) -> _Live:
        for live in self._pairs.values():
            if live.pair == pair:
                return live
        raise QueueInvalid(tried, "it is no pair of this drive any more", "Use one of `pairs`.")

    def delete_queue_pair(self, pair: QueuePair) -> None:
        """Deletes a queue pair: on return none of its commands is in flight. One that was lost before is let go of.

        Memory that was allocated here is given back; the caller's stays the caller's.

        Raises:
            QueueInvalid: there is no such pair.
        """
        live = self._require(pair, f"delete queue pair {pair.qid}")
        del self._pairs[live.queue]
        live.closing.close()

    def recreate_queue_pairs(self, pairs: Sequence[QueuePair]) -> list[QueuePair]:
        """Deletes pairs and creates them again over the same memory; their ids may be others.

        Raises:
            QueueInvalid: there is no such pair, or its memory was not the caller's.
            QueuesRefused, ModuleRefused: a pair could not be made again; those that could not are gone.
        """
        for pair in pairs:
            self._require(pair, f"create queue pair {pair.qid} again")
        fresh = []
        for pair in pairs:
            self.delete_queue_pair(pair)
            fresh.append(
                self.create_queue_pair(
                    pair.depth, cq_depth=pair.cq_depth, sq_memory=pair.sq_memory, cq_memory=pair.cq_memory
                )
            )
        return fresh

    def write_cq_head(self, pair: QueuePair, slot: int) -> None:
        """Tells the controller that the completions before a slot were taken. Raises `QueueInvalid`: no such pair."""
        self._require(pair, f"take completions of queue pair {pair.qid}").cq_word.value = slot

    def write_sq_tail(self, pair: QueuePair, slot: int) -> None:
        """Tells the controller of commands before a slot: for a host that sends them itself.

        Raises:
            QueueInvalid: there is no such pair.
        """
        self._require(pair, f"send commands on queue pair {pair.qid}").sq_word.value = slot

    # ---- what recovery asks for ----

    def abort(self, sqid: int, cid: int) -> bool:
        """Never: the kernel's driver sends no Abort for others. Deleting the queue pair is what ends its commands."""
        del sqid, cid
        return False

    def reset(self) -> None:
        """Refused: the drive is the kernel's, and a reset would end its own commands too.

        Raises:
            ControllerUnsupported: always.
        """
        raise ControllerUnsupported(
            f"reset {self.name}",
            "the kernel's driver keeps it, with its file systems",
            f"echo 1 > /sys/class/nvme/{self.name}/reset_controller, if nothing else helps.",
        )

    @contextmanager
    def within(self, timeout_ns: int) -> Iterator[None]:
        """Bounds waits inside, in this process's clock. What the module itself waits for is the kernel's to bound."""
        before, end = self._deadline_ns, self.now_ns + timeout_ns
        self._deadline_ns = end if before is None else min(before, end)
        try:
            yield
        finally:
            self._deadline_ns = before

    @property
    def now_ns(self) -> int:
        """The clock of this process."""
        return time.monotonic_ns()

    @property
    def deadline_ns(self) -> int:
        """When waits end."""
        return self.now_ns + _WAIT_NS if self._deadline_ns is None else self._deadline_ns

    def pause(self) -> None:
        """Lets a moment pass."""
        time.sleep(0.0001)

    # ---- the end ----

    def close(self, *, abrupt: bool = False) -> None:
        """Delete the queue pairs, leave the drive, close the client. The second call does nothing.

        Args:
            abrupt: close the client with the queue pairs as they are: the module deletes them, once no mapping of
                their doorbells is left.

        Raises:
            ModuleRefused: a queue pair could not be deleted; the client is closed all the same, which deletes it.
        """
        failure: ControllerError | None = None
        if abrupt:
            self.client.close()
        for pair in self.pairs:
            try:
                self.delete_queue_pair(pair)
            except ControllerError as error:
                failure = failure or error
        self.client.close()
        if self._node >= 0:
            os.close(self._node)
            self._node = -1
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def attach_request(bdf: str, nvme_fd: int) -> p2p_uapi.Attach:
    """The request that attaches the drive at a PCI function, shown by an open file of a controller.

    Raises:
        KernelControllerError: the text is no PCI function.
    """
    try:
        domain, bus, rest = bdf.split(":")
        slot, function = rest.split(".")
        return p2p_uapi.Attach(
            domain=int(domain, 16), bus=int(bus, 16), devfn=int(slot, 16) << 3 | int(function, 16), nvme_fd=nvme_fd
        )
    except ValueError:
        raise KernelControllerError(
            f"attach the drive {bdf!r}", "that is no PCI function", "Write it as lspci -D does: 0000:01:00.0."
        ) from None
