"""Each vendor's memory, by the fake of its driver: runs, data both ways, and the memory freed while commands run."""

from __future__ import annotations

import errno
import os

from rig.case import Guest, case
from rig.cases.lab import LAB, ORDINARY, TRANSLATED
from rig.qemu import MIB

VENDORS = {"nvidia": "NVIDIA", "metax": "METAX", "musa": "MUSA", "gpu": "DMABUF"}


@case((LAB, TRANSLATED), timeout_s=120)
def data_by_each_provider(guest: Guest) -> None:
    """Data go to and from each vendor's memory and a dma-buf; a tail shorter than a page counts; nothing is kept."""
    from rig import client as c
    from tutti_hal.nvme import p2p_uapi as uapi

    for vendor, name in VENDORS.items():
        provider = uapi.Provider[name]
        with c.loaded(vendor), c.Client() as node:
            gpu = c.FakeGpu()
            drive = c.drive(ORDINARY)
            attached = node.attach(drive)
            ring = node.pin(c.HostMemory(c.GRANULE), [attached.controller])
            queue = c.QueuePair(node, attached.controller, ring)
            memory = c.VendorMemory(gpu, provider, 4 * c.GRANULE)
            if vendor == "metax":
                memory.length -= 5 * c.PAGE
            data = node.pin(memory, [attached.controller])
            guest.equal(sum(length for _, length in data.runs), memory.length, f"{vendor}: bytes in runs")
            device = drive.block_device()
            end = memory.length - 131072
            for at in (0, c.PAGE, end):
                sent = os.urandom(131072)
                c.stock_write(device, 3 * MIB, sent)
                status = queue.transfer(c.READ, 3 * MIB // 512, data, at, 131072, block=512, lists=ring)
                guest.equal(status, 0, f"{vendor}: status of a read to {at:#x}")
                guest.equal(memory.read(at, 131072), sent, f"{vendor}: bytes read to {at:#x}")
                sent = os.urandom(131072)
                memory.write(at, sent)
                status = queue.transfer(c.WRITE, 9 * MIB // 512, data, at, 131072, block=512, lists=ring)
                guest.equal(status, 0, f"{vendor}: status of a write")
                guest.equal(c.stock_read(device, 9 * MIB, 131072), sent, f"{vendor}: bytes written")
            queue.delete()
            node.unpin(data.handle)
            node.unpin(ring.handle)
            if memory.fd >= 0:
                os.close(memory.fd)
            memory.close()
            c.check_clean(guest, gpu, node)
            gpu.close()


@case((LAB, TRANSLATED), timeout_s=180)
def freed_under_load(guest: Guest) -> None:
    """Memory is freed while commands write to it: the owner waits, nothing lands in it later, the pin is stale."""
    from rig import client as c
    from tutti_hal.nvme import p2p_uapi as uapi

    for vendor in ("nvidia", "metax"):
        provider = uapi.Provider[VENDORS[vendor]]
        with c.loaded(vendor), c.Client() as node:
            gpu = c.FakeGpu()
            attached = node.attach(c.drive(ORDINARY))
            for turn in range(4):
                ring = node.pin(c.HostMemory(c.GRANULE), [attached.controller])
                memory = c.VendorMemory(gpu, provider, 4 * c.GRANULE)
                data = node.pin(memory, [attached.controller])
                queue = c.QueuePair(node, attached.controller, ring)
                guest.equal(queue.transfer(c.READ, 0, data, 0, 131072, block=512, lists=ring), 0, f"{vendor}: a read")
                calls = gpu.stats()["callbacks"]
                # Left in flight: none may land after the owner's free returned.
                for _ in range(3):
                    queue.submit(c.READ, 1, 0, 8, data.bus(0))
                gpu.free(memory.device_address)
                guest.equal(gpu.stats()["callbacks"], calls + 1, f"{vendor}: callbacks")
                guest.equal((gpu.stats()["holds"], gpu.stats()["mapped"]), (0, 0), f"{vendor}: holds, mappings")
                seen = {node.event().kind, node.event().kind}
                guest.equal(seen, {uapi.EventKind.PIN, uapi.EventKind.QUEUE}, f"{vendor}: events of turn {turn}")
                stale = node.refused(uapi.Runs(pin=data.handle, controller=attached.controller))
                guest.equal(stale, errno.ESTALE, f"{vendor}: the pin's runs")
                # The fake driver looks at freed memory when it gives it out again: who wrote to it is found here.
                again, _ = gpu.alloc(4 * c.GRANULE)
                gpu.free(again)
                queue.delete()
                node.unpin(data.handle)
                node.unpin(ring.handle)
                memory.close()
            c.check_clean(guest, gpu, node)
            gpu.close()


@case(LAB, timeout_s=90)
def kept_without_a_callback(guest: Guest) -> None:
    """A vendor without a callback keeps freed memory until it is unpinned; so does the persistent form."""
    from rig import client as c
    from tutti_hal.nvme import p2p_uapi as uapi

    for vendor, parameters in (("musa", ""), ("nvidia", "nvidia_persistent=1")):
        with c.loaded(vendor, parameters=parameters), c.Client() as node:
            gpu = c.FakeGpu()
            attached = node.attach(c.drive(ORDINARY))
            ring = node.pin(c.HostMemory(c.GRANULE), [attached.controller])
            memory = c.VendorMemory(gpu, uapi.Provider[VENDORS[vendor]], c.GRANULE)
            data = node.pin(memory, [attached.controller])
            queue = c.QueuePair(node, attached.controller, ring)
            gpu.free(memory.device_address)
            stats = gpu.stats()
            guest.equal((stats["zombies"], stats["holds"]), (1, 1), f"{vendor}: memory that is freed and held")
            guest.equal(queue.transfer(c.READ, 0, data, 0, 4096, block=512, lists=ring), 0, f"{vendor}: a read")
            node.unpin(data.handle)
            c.check_clean(guest, gpu)
            queue.delete()
            gpu.close()


@case(LAB)
def symbols_that_cannot_be_had(guest: Guest) -> None:
    """Without a vendor's driver, or with one that exports plainly, the provider says so, and a dma-buf still works."""
    from rig import client as c
    from tutti_hal.nvme import p2p_uapi as uapi

    with c.loaded(), c.Client() as node:
        attached = node.attach(c.drive(ORDINARY))
        for provider in (uapi.Provider.NVIDIA, uapi.Provider.METAX, uapi.Provider.MUSA):
            pages = c.HostMemory(c.GRANULE)
            pages.provider = provider
            try:
                node.pin(pages, [attached.controller])
                number = 0
            except c.Refusal as why:
                number = why.number
            guest.equal(number, errno.EOPNOTSUPP, f"{provider.name} without its driver")
    guest.expect_log("failing symbol_get of non-GPLONLY symbol")
    with c.loaded("musa", plain=True), c.Client() as node:
        gpu = c.FakeGpu()
        attached = node.attach(c.drive(ORDINARY))
        memory = c.VendorMemory(gpu, uapi.Provider.MUSA, c.GRANULE)
        try:
            node.pin(memory, [attached.controller])
            number = 0
        except c.Refusal as why:
            number = why.number
        guest.equal(number, errno.EOPNOTSUPP, "symbols that are exported plainly")
        buffer = c.VendorMemory(gpu, uapi.Provider.DMABUF, c.GRANULE)
        pinned = node.pin(buffer, [attached.controller])
        guest.equal(sum(length for _, length in pinned.runs), c.GRANULE, "bytes of the dma-buf")
        node.unpin(pinned.handle)
        os.close(buffer.fd)
        c.check_clean(guest, gpu, node)
        gpu.close()


@case(LAB)
def an_unknown_interface(guest: Guest) -> None:
    """A driver whose tables have another version is refused, and nothing stays held."""
    from pathlib import Path

    from rig import client as c
    from tutti_hal.nvme import p2p_uapi as uapi

    tries = (
        ("nvidia", "table_version", 0x00030000),
        ("nvidia", "dma_version", 0x00030000),
        ("musa", "table_version", 0x20000),
    )
    for vendor, parameter, value in tries:
        with c.loaded(vendor), c.Client() as node:
            Path(f"/sys/module/fake_{vendor}/parameters/{parameter}").write_text(str(value))
            gpu = c.FakeGpu()
            attached = node.attach(c.drive(ORDINARY))
            memory = c.VendorMemory(gpu, uapi.Provider[VENDORS[vendor]], c.GRANULE)
            try:
                node.pin(memory, [attached.controller])
                number = 0
            except c.Refusal as why:
                number = why.number
            guest.check(number, f"{vendor}, {parameter} {value:#x}: the pin is refused ({errno.errorcode.get(number)})")
            c.check_clean(guest, gpu, node)
            gpu.close()
