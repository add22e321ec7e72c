"""Each vendor's memory, by the fake of its driver: runs, data both ways, and the memory freed while commands run."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from rig.case import Guest, case
from rig.qemu import MIB, Iommu, Machine

# Provider's name by the fake driver that brings it; "" is the GPU alone, whose memory goes as a dma-buf.
VENDORS = {"nvidia": "NVIDIA", "metax": "METAX", "musa": "MUSA", "": "DMABUF"}
PLAIN, TRANSLATED = Machine(), Machine(iommu=Iommu.TRANSLATE)


@case((PLAIN, TRANSLATED), timeout_s=180)
def data_by_each_provider(guest: Guest) -> None:
    """Data go to and from each vendor's memory and a dma-buf; a tail shorter than a page counts; nothing is kept."""
    from rig import p2p, peer

    for vendor, name in VENDORS.items():
        with peer.drivers(*filter(None, [vendor])) as gpu, p2p.client(guest) as client:
            drive = client.attach()
            rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
            pair = client.queue(drive.controller, rings)
            memory = peer.VendorMemory(gpu, client.provider(name), 4 * p2p.GRANULE)
            if vendor == "metax":
                memory.length -= 5 * p2p.PAGE
            data = peer.pin(client, memory, drive.controller)
            guest.equal(sum(run.length for run in data.runs), memory.length, f"{name}: bytes in runs")
            guest.check(gpu.stats()["holds"], f"{name}: the GPU's driver knows of the pin")
            device = peer.block_device(0)
            for at in (0, p2p.PAGE, memory.length - 131072):
                sent = os.urandom(131072)
                peer.stock_write(device, 3 * MIB, sent)
                status = peer.transfer(pair, peer.READ, 3 * MIB // 512, data, at, 131072, block=512, lists=rings)
                guest.equal(status, 0, f"{name}: status of a read to {at:#x}")
                guest.check(memory.map[at : at + 131072] == sent, f"{name}: bytes read to {at:#x}")
                sent = os.urandom(131072)
                memory.map[at : at + 131072] = sent
                status = peer.transfer(pair, peer.WRITE, 9 * MIB // 512, data, at, 131072, block=512, lists=rings)
                guest.equal(status, 0, f"{name}: status of a write from {at:#x}")
                guest.check(peer.stock_read(device, 9 * MIB, 131072) == sent, f"{name}: bytes written from {at:#x}")
            client.must(client.uapi.QueueDelete(queue=pair.handle))
            client.must(client.uapi.Unpin(pin=data.handle))
            client.must(client.uapi.Unpin(pin=rings.handle))
            memory.close()
            peer.check_clean(guest, gpu, client)


@case((PLAIN, TRANSLATED), timeout_s=240)
def freed_under_load(guest: Guest) -> None:
    """Memory is freed while commands write to it: the owner waits, nothing lands in it later, the pin is stale."""
    from rig import p2p, peer

    for vendor, by_exit in (("nvidia", False), ("nvidia", True), ("metax", False), ("metax", True)):
        with peer.drivers(vendor) as gpu, p2p.client(guest) as client:
            kinds = client.uapi.EventKind
            drive = client.attach()
            for turn in range(3):
                # The second file is what a runtime's death closes, while this process goes on.
                owner = peer.FakeGpu()
                rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
                memory = peer.VendorMemory(owner, client.provider(VENDORS[vendor]), 4 * p2p.GRANULE)
                data = peer.pin(client, memory, drive.controller)
                pair = client.queue(drive.controller, rings, entries=64)
                status = peer.transfer(pair, peer.READ, 0, data, 0, 131072, block=512, lists=rings)
                guest.equal(status, 0, f"{vendor}: status of a read")
                calls = gpu.stats()["callbacks"]
                for _ in range(40):
                    peer.submit(pair, peer.READ, 1, 0, 8, data.bus(3 * p2p.GRANULE), 0)
                memory.close()
                if by_exit:
                    owner.close()
                else:
                    owner.free(memory.device_address)
                stats = gpu.stats()
                guest.equal(stats["callbacks"], calls + 1, f"{vendor}: callbacks")
                guest.equal((stats["holds"], stats["mapped"]), (0, 0), f"{vendor}: held and mapped after the free")
                wanted = {(int(kinds.PIN), data.handle), (int(kinds.QUEUE), pair.handle)}
                found = {(kind, handle) for kind, handle, _ in client.events(2)}
                guest.equal(found, wanted, f"{vendor}: events of turn {turn}")
                request = client.uapi.Runs(pin=data.handle, controller=drive.controller)
                client.refuse(request, errno.ESTALE, f"{vendor}: the pin's runs")
                time.sleep(0.1)
                # The fake driver looks at freed memory when it gives it out again: who wrote to it is found here.
                again, _ = gpu.alloc(4 * p2p.GRANULE)
                gpu.free(again)
                guest.equal(gpu.stats()["violations"], 0, f"{vendor}: writes to freed memory, and broken rules")
                client.must(client.uapi.QueueDelete(queue=pair.handle))
                client.must(client.uapi.Unpin(pin=data.handle))
                client.must(client.uapi.Unpin(pin=rings.handle))
                if not by_exit:
                    owner.close()
            peer.check_clean(guest, gpu, client)


@case(PLAIN, timeout_s=120)
def freed_while_released(guest: Guest) -> None:
    """A free and an unpin of the same memory meet, many times, in either order: no deadlock, nothing stays."""
    from rig import p2p, peer

    for vendor in ("nvidia", "metax"):
        with peer.drivers(vendor) as gpu, p2p.client(guest) as client:
            drive = client.attach()
            Path(f"/sys/module/fake_{vendor}/parameters/callback_ms").write_text("2")
            for turn in range(20):
                memory = peer.VendorMemory(gpu, client.provider(VENDORS[vendor]), p2p.GRANULE)
                data = peer.pin(client, memory, drive.controller)
                memory.close()
                child = os.fork()
                if child == 0:
                    time.sleep(turn % 5 * 0.001)
                    gpu.free(memory.device_address)
                    os._exit(0)
                client.must(client.uapi.Unpin(pin=data.handle))
                guest.equal(os.waitpid(child, 0)[1], 0, f"{vendor}: the free of turn {turn}")
                stats = gpu.stats()
                guest.equal((stats["holds"], stats["mapped"]), (0, 0), f"{vendor}: held and mapped after turn {turn}")
            while client.next_event() is not None:
                pass
            peer.check_clean(guest, gpu, client)


@case(PLAIN, timeout_s=90)
def a_buffer_that_moves(guest: Guest) -> None:
    """A dma-buf's exporter says that it moves: the pin ends, the queue pair too, and the buffer is not pinned."""
    from rig import p2p, peer

    with peer.drivers() as gpu, p2p.client(guest) as client:
        drive = client.attach()
        rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
        memory = peer.VendorMemory(gpu, client.uapi.Provider.DMABUF, 2 * p2p.GRANULE)
        data = peer.pin(client, memory, drive.controller)
        pair = client.queue(drive.controller, rings)
        status = peer.transfer(pair, peer.READ, 0, data, 0, 131072, block=512, lists=rings)
        guest.equal(status, 0, "status of a read")
        guest.equal(gpu.move(memory.fd), 0, "pins after the move")
        guest.equal(gpu.stats()["mapped"], 0, "mappings after the move")
        kinds = {kind for kind, _, _ in client.events(2)}
        guest.equal(kinds, {int(client.uapi.EventKind.PIN), int(client.uapi.EventKind.QUEUE)}, "events")
        client.must(client.uapi.QueueDelete(queue=pair.handle))
        client.must(client.uapi.Unpin(pin=data.handle))
        client.must(client.uapi.Unpin(pin=rings.handle))
        memory.close()
        peer.check_clean(guest, gpu, client)


@case(PLAIN, timeout_s=90)
def kept_without_a_callback(guest: Guest) -> None:
    """A vendor without a callback keeps freed memory until it is unpinned; so does the persistent form."""
    from rig import p2p, peer

    for vendor, persistent in (("musa", False), ("nvidia", True)):
        with peer.drivers(vendor) as gpu, p2p.client(guest) as client:
            Path("/sys/module/tutti_p2p/parameters/nvidia_persistent").write_text(str(int(persistent)))
            drive = client.attach()
            rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
            memory = peer.VendorMemory(gpu, client.provider(VENDORS[vendor]), p2p.GRANULE)
            data = peer.pin(client, memory, drive.controller)
            pair = client.queue(drive.controller, rings)
            memory.close()
            gpu.free(memory.device_address)
            stats = gpu.stats()
            guest.equal((stats["zombies"], stats["holds"]), (1, 1), f"{vendor}: freed by its user, and held")
            status = peer.transfer(pair, peer.READ, 0, data, 0, 4096, block=512, lists=rings)
            guest.equal(status, 0, f"{vendor}: status of a read after the free")
            client.must(client.uapi.QueueDelete(queue=pair.handle))
            client.must(client.uapi.Unpin(pin=data.handle))
            client.must(client.uapi.Unpin(pin=rings.handle))
            peer.check_clean(guest, gpu, client)


@case(PLAIN)
def symbols_that_cannot_be_had(guest: Guest) -> None:
    """Without a vendor's driver, or with one that exports plainly, the provider says so; a dma-buf still works."""
    from rig import p2p, peer

    with p2p.client(guest) as client:
        drive = client.attach()
        for name in ("NVIDIA", "METAX", "MUSA"):
            request, array = client.pin_request(p2p.Memory(p2p.GRANULE), [drive.controller])
            request.provider = client.provider(name)
            # Whole granules, so that only the missing driver is left to refuse.
            request.address -= request.address % p2p.GRANULE
            client.refuse(request, errno.EOPNOTSUPP, f"{name} without its driver")
            del array
    guest.expect_log("failing symbol_get of non-GPLONLY symbol mtgpu")
    with peer.drivers("musa", plain=True) as gpu, p2p.client(guest) as client:
        drive = client.attach()
        memory = peer.VendorMemory(gpu, client.provider("MUSA"), p2p.GRANULE)
        error, _ = peer.pin_request(client, memory, drive.controller)
        guest.equal(error, errno.EOPNOTSUPP, "symbols that are exported plainly")
        memory.close()
        buffer = peer.VendorMemory(gpu, client.uapi.Provider.DMABUF, p2p.GRANULE)
        data = peer.pin(client, buffer, drive.controller)
        guest.equal(sum(run.length for run in data.runs), p2p.GRANULE, "bytes of the dma-buf")
        client.must(client.uapi.Unpin(pin=data.handle))
        buffer.close()
        peer.check_clean(guest, gpu, client)


@case(PLAIN, timeout_s=90)
def an_unknown_interface(guest: Guest) -> None:
    """A driver whose tables have another version is refused, and nothing stays held."""
    from rig import p2p, peer

    tries = (
        ("nvidia", "table_version", 0x00030000),
        ("nvidia", "dma_version", 0x00030000),
        ("musa", "table_version", 0x20000),
    )
    for vendor, parameter, value in tries:
        with peer.drivers(vendor) as gpu, p2p.client(guest) as client:
            Path(f"/sys/module/fake_{vendor}/parameters/{parameter}").write_text(str(value))
            drive = client.attach()
            memory = peer.VendorMemory(gpu, client.provider(VENDORS[vendor]), p2p.GRANULE)
            error, _ = peer.pin_request(client, memory, drive.controller)
            guest.check(error, f"{vendor}, {parameter} {value:#x}: the pin is refused")
            memory.close()
            peer.check_clean(guest, gpu, client)
