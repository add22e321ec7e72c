"""One open file of the kernel module ``tutti_p2p``: its requests, with an error of a class where one is refused."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tutti_hal.errors import KernelControllerError, ModuleAbsent, ModuleRefused
from tutti_hal.nvme import p2p_uapi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tutti_hal.nvme.prp import Run

NODE = Path("/dev/tutti_p2p")

_WORD = struct.Struct("=QQ")
_RUN = struct.Struct("=QQ")
_RUNS_AT_ONCE = 4096

#: What helps against a cause that the module names.
_FIXES = {
    p2p_uapi.Refused.DRIVER: "Bind the function to the kernel's nvme driver.",
    p2p_uapi.Refused.FD: "Open the character device of the same controller for writing.",
    p2p_uapi.Refused.ADMIN_QUEUE: "This kernel's driver is laid out in an unknown way; report its version.",
    p2p_uapi.Refused.SHADOW: "Drives with shadow doorbells (OACS bit 8) cannot be shared; use another drive.",
    p2p_uapi.Refused.STATE: "Wait until the drive is live; see /sys/class/nvme/nvmeN/state.",
    p2p_uapi.Refused.ENTRY_SIZE: "The drive's queue entries are not of 64 and 16 bytes; use another drive.",
    p2p_uapi.Refused.NO_SPARE: "Load the nvme driver with more queues, such as poll_queues=4, and so leave some over.",
    p2p_uapi.Refused.KERNEL: "Use a kernel with CONFIG_KPROBES.",
    p2p_uapi.Refused.RING: "A ring must be contiguous on the bus and begin a page: use fewer entries, or an IOMMU.",
    p2p_uapi.Refused.NVME: "The drive refused the queue; see the status.",
}
#: What helps against an error number.
_HINTS = {
    errno.EPERM: "It needs CAP_SYS_ADMIN, and the process that opened the module.",
    errno.ENOMEM: "Raise RLIMIT_MEMLOCK (ulimit -l), or pin less.",
    errno.EDQUOT: "This user holds as much as the module's limits allow; see its parameters.",
    errno.ESTALE: "It was taken back by its owner; take the events, and make it again.",
    errno.EBUSY: "Delete the queue pairs that can reach it first.",
    errno.EREMOTEIO: "The drive cannot reach the memory: see IOMMU and switches in docs/p2p/operations.md.",
    errno.EOPNOTSUPP: "The vendor's driver that this needs is not loaded, or has not what is needed.",
    errno.ENODEV: "There is no such drive any more.",
    errno.EAGAIN: "The drive is being reset: try again.",
}


class KernelClient:
    """A client of the module. A context manager: everything it holds is given back when it is closed.

    Only the process that opened it may use it. Not thread safe.
    """

    def __init__(self, node: Path = NODE) -> None:
        """Open the module and agree on a version.

        Raises:
            ModuleAbsent: there is no module, the node may not be opened, or no version is known to both.
        """
        tried = "open the kernel module tutti_p2p"
        try:
            self.fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ModuleAbsent(
                tried, f"there is no {node}", "Build and load it: make -C p2p_drivers modules; insmod."
            ) from None
        except PermissionError:
            raise ModuleAbsent(
                tried, f"{node} may not be opened", "Join the group tutti, and install the udev rule."
            ) from None
        self._watch: mmap.mmap | None = None
        try:
            version = p2p_uapi.VERSION
            error, answer = p2p_uapi.request(self.fd, p2p_uapi.Negotiate(version_min=version, version_max=version))
            if error:
                said = errno.errorcode.get(error, str(error))
                raise ModuleAbsent(tried, f"it does not speak version {version} ({said})", "Build it of this release.")
            #: What the module can do here.
            self.features = p2p_uapi.Feature(answer.features)
            self._watch = mmap.mmap(self.fd, mmap.PAGESIZE, flags=mmap.MAP_SHARED, offset=p2p_uapi.MMAP_WATCH)
        except BaseException:
            self.close()
            raise

    def ask(self, request: p2p_uapi.R, tried: str) -> p2p_uapi.R:
        """One request; what the module answered. Blocks as long as the kernel does.

        Args:
            request: the question.
            tried: what it is for, in a few words.

        Raises:
            ModuleRefused: it was refused.
            KernelControllerError: the client is closed.
        """
        if self.fd < 0:
            raise KernelControllerError(tried, "the client is closed", "Open another one.")
        error, answer = p2p_uapi.request(self.fd, request)
        if error:
            cause = p2p_uapi.Refused(getattr(answer, "refused", 0))
            status = getattr(answer, "nvme_status", 0)
            said = errno.errorcode.get(error, str(error)) + (f", cause {cause.name}" if cause else "")
            said += f", status {status:#x}" if status else ""
            fix = _FIXES.get(cause) or _HINTS.get(error) or "See p2p_drivers/uapi/tutti_p2p.h for this request."
            raise ModuleRefused(tried, said, fix, error, cause.name, status)
        return answer

    # ---- memory ----

    def providers(self) -> dict[str, p2p_uapi.DescribeProvider]:
        """The kinds of memory that the module knows, by name."""
        found: dict[str, p2p_uapi.DescribeProvider] = {}
        while True:
            error, answer = p2p_uapi.request(self.fd, p2p_uapi.DescribeProvider(index=len(found)))
            if error:
                return found
            found[answer.name.decode()] = answer

    def pin(self, provider: int, address: int, nbytes: int, controllers: Sequence[int], fd: int = -1) -> int:
        """Hold memory in place and map it for controllers; its handle.

        Args:
            provider: kind of memory.
            address: as the provider means it: of the process, of the device, an offset.
            nbytes: its length, a multiple of the provider's page.
            controllers: handles of those that may reach it.
            fd: the dma-buf, for that provider.

        Raises:
            ModuleRefused: see ``PIN`` in the header for each error number.
        """
        array = (ctypes.c_uint32 * len(controllers))(*controllers)
        request = p2p_uapi.Pin(
            provider=provider,
            address=address,
            length=nbytes,
            fd=fd,
            nr_controllers=len(array),
            controllers=ctypes.addressof(array),
        )
        return self.ask(request, f"pin {nbytes:#x} bytes at {address:#x}").pin

    def runs(self, pin: int, controller: int) -> list[Run]:
        """(bus address, bytes) of each stretch of a pin that is contiguous for a controller, in order.

        Raises:
            ModuleRefused: no such pin (ENOENT), or it was taken back (ESTALE).
        """
        tried = f"ask where pin {pin} lies"
        found: list[Run] = []
        buffer = ctypes.create_string_buffer(_RUN.size * _RUNS_AT_ONCE)
        while True:
            request = p2p_uapi.Runs(
                pin=pin,
                controller=controller,
                first=len(found),
                capacity=_RUNS_AT_ONCE,
                runs=ctypes.addressof(buffer),
            )
            answer = self.ask(request, tried)
            found += _RUN.iter_unpack(buffer.raw[: _RUN.size * answer.count])
            if len(found) >= answer.total or not answer.count:
                return found

    def unpin(self, pin: int, *, idle: bool = False) -> None:
        """Give memory back.

        Args:
            pin: its handle.
            idle: the caller knows that no command in flight names it, although queue pairs could.

        Does nothing once the client is closed: that has given everything back.

        Raises:
            ModuleRefused: it is in use (EBUSY), or there is no such pin.
        """
        if self.fd < 0:
            return
        flags = p2p_uapi.UnpinFlag.IDLE if idle else 0
        self.ask(p2p_uapi.Unpin(pin=pin, flags=flags), f"give back pin {pin}")

    # ---- what is lost ----

    @property
    def generation(self) -> int:
        """The word that changes whenever anything of this client is lost."""
        return self._words()[0]

    @property
    def settled(self) -> int:
        """The generation up to which nothing that was lost is in use any more."""
        return self._words()[1]

    def _words(self) -> tuple[int, int]:
        if self._watch is None:
            raise KernelControllerError("look at the watch page", "the client is closed", "Open another one.")
        first, second = _WORD.unpack_from(self._watch)
        return first, second

    def events(self) -> list[p2p_uapi.Event]:
        """What was lost since the last call, and why. Never blocks."""
        found: list[p2p_uapi.Event] = []
        while True:
            error, event = p2p_uapi.request(self.fd, p2p_uapi.Event())
            if error:
                return found
            found.append(event)

    def usage(self) -> p2p_uapi.Usage:
        """What this user holds, and may hold."""
        return self.ask(p2p_uapi.Usage(), "ask what is held")

    # ---- the end ----

    def close(self) -> None:
        """Close the file. Queue pairs are deleted, then memory is released. The second call does nothing."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
