"""What Identify tells of a controller and of its namespaces, whoever sends the command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from tutti_hal.errors import CommandFailed, NamespaceInvalid
from tutti_hal.nvme.identify import OptionalNvm
from tutti_hal.nvme.namespace import LIST_ENTRIES, IdentifyNamespace, decode_namespace_list
from tutti_hal.nvme.opcodes import Cns
from tutti_hal.nvme.queues import ControllerLimits, NamespaceInfo
from tutti_hal.nvme.sqe import NSID_ALL

if TYPE_CHECKING:
    from tutti_hal.nvme.identify import IdentifyController, IdentifyNvmController
    from tutti_hal.nvme.registers import Capabilities


class Inventory(ABC):
    """Namespaces of a controller that can be asked to identify itself."""

    controller: IdentifyController

    @abstractmethod
    def identify(self, cns: int, *, nsid: int = 0, cntid: int = 0, csi: int = 0) -> bytes:
        """The 4096 bytes of an Identify. Raises `CommandFailed` when the controller refuses it."""

    def namespaces(self) -> tuple[int, ...]:
        """The ids of all active namespaces, ascending; ids may be missing in between."""
        found: list[int] = []
        while True:
            part = decode_namespace_list(self.identify(Cns.ACTIVE_NAMESPACE_LIST, nsid=found[-1] if found else 0))
            if part and found and part[0] <= found[-1]:
                raise NamespaceInvalid(
                    "list the namespaces", f"id {part[0]} after {found[-1]}", "The drive must send ascending ids."
                )
            found += part
            if len(part) < LIST_ENTRIES:
                return tuple(found)

    def namespace(self, nsid: int) -> NamespaceInfo:
        """What a ring needs to know of one namespace.

        Raises:
            NamespaceInvalid: no such namespace, inactive, or a format that cannot be used.
        """
        tried = f"use namespace {nsid}"
        if not 1 <= nsid < NSID_ALL - 1:
            raise NamespaceInvalid(tried, f"{nsid:#x} is no id of one namespace", "Use an id of the active list.")
        try:
            data = self.identify(Cns.NAMESPACE, nsid=nsid)
        except CommandFailed as error:
            if (error.status_type, error.status_code) != (0, 0x0B):
                raise
            active = ", ".join(map(str, self.namespaces()[:16])) or "none"
            raise NamespaceInvalid(tried, "it does not exist", f"Active namespaces: {active}.") from error
        return NamespaceInfo.of(nsid, IdentifyNamespace.decode(data), self.controller)


def limits_of(
    controller: IdentifyController,
    nvm: IdentifyNvmController | None,
    capabilities: Capabilities,
    *,
    page_bytes: int,
    memory_buffer_bytes: int,
) -> ControllerLimits:
    """What a controller can take, by its CAP register and its two Identify structures.

    Args:
        controller: Identify Controller.
        nvm: Identify Controller of the NVM command set; None where the controller does not know it.
        capabilities: the CAP register.
        page_bytes: memory page size that CC.MPS selects.
        memory_buffer_bytes: of the controller memory buffer.
    """
    optional = controller.optional_nvm
    unit = capabilities.min_page_bytes
    return ControllerLimits(
        page_bytes=page_bytes,
        mdts_bytes=controller.max_transfer_bytes(unit),
        max_depth=capabilities.max_queue_entries,
        contiguous_queues=capabilities.cqr,
        dstrd=capabilities.dstrd,
        sgl=controller.sgl_support,
        volatile_write_cache=controller.volatile_write_cache,
        flush_all_namespaces=controller.flush_all_namespaces,
        compare=OptionalNvm.COMPARE in optional,
        write_zeroes=OptionalNvm.WRITE_ZEROES in optional,
        dataset_management=OptionalNvm.DATASET_MANAGEMENT in optional,
        verify=OptionalNvm.VERIFY in optional,
        shadow_doorbells=controller.shadow_doorbells,
        max_outstanding=controller.maxcmd or None,
        memory_buffer_bytes=memory_buffer_bytes,
        verify_bytes=unit << nvm.vsl if nvm is not None and nvm.vsl else None,
        write_zeroes_bytes=unit << nvm.wzsl if nvm is not None and nvm.wzsl else None,
    )
