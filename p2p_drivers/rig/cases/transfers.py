"""Data through extra queue pairs beside the stock driver: every place of rings and data, both ways."""

from __future__ import annotations

import os

from rig.case import Guest, case
from rig.cases.lab import EVERY_IOMMU, LAB, ORDINARY, SMALL
from rig.qemu import MIB


@case(EVERY_IOMMU, timeout_s=120)
def every_placement(guest: Guest) -> None:
    """Rings and data in host pages or in the bar: what the stock driver wrote is read, what is written it reads."""
    from rig import client as c

    with c.loaded(), c.Client() as node:
        drive = c.drive(ORDINARY)
        attached = node.attach(drive)
        kinds = {"host": c.HostMemory, "bar": c.BarMemory}
        for ring_kind, ring_class in kinds.items():
            for data_kind, data_class in kinds.items():
                what = f"rings in {ring_kind}, data in {data_kind}"
                ring_memory, data_memory = ring_class(c.GRANULE), data_class(4 * c.GRANULE)
                if ring_kind == data_kind == "bar":
                    data_memory = c.BarMemory(4 * c.GRANULE, offset=8 * c.GRANULE)
                ring = node.pin(ring_memory, [attached.controller])
                data = node.pin(data_memory, [attached.controller])
                queue = c.QueuePair(node, attached.controller, ring)
                for nsid in (1, 2):
                    device = drive.block_device(nsid)
                    block = c.block_bytes(device)
                    for length, at in ((4096, 0), (8192, c.PAGE), (131072, 0), (131072, c.PAGE)):
                        written = os.urandom(length)
                        c.stock_write(device, 2 * MIB, written)
                        data.memory.write(at, bytes(length))
                        slba = 2 * MIB // block
                        status = queue.transfer(c.READ, slba, data, at, length, block=block, nsid=nsid, lists=ring)
                        guest.equal(status, 0, f"{what}: status of a read of {length}")
                        guest.equal(data.memory.read(at, length), written, f"{what}: {length} bytes read")
                        sent = os.urandom(length)
                        data.memory.write(at, sent)
                        slba = 5 * MIB // block
                        status = queue.transfer(c.WRITE, slba, data, at, length, block=block, nsid=nsid, lists=ring)
                        guest.equal(status, 0, f"{what}: status of a write of {length}")
                        guest.equal(c.stock_read(device, 5 * MIB, length), sent, f"{what}: {length} bytes written")
                queue.delete()
                node.unpin(ring.handle)
                node.unpin(data.handle)
        usage = node.usage()
        guest.equal((usage.pins, usage.bytes, usage.queues), (0, 0, 0), "what the user is charged for at the end")


@case(LAB, timeout_s=60)
def small_mdts_and_ring(guest: Guest) -> None:
    """A drive of 4 KiB blocks that takes 8 KiB a command: larger is refused, the ring goes round many times."""
    from rig import client as c

    with c.loaded(), c.Client() as node:
        drive = c.drive(SMALL)
        attached = node.attach(drive)
        guest.equal(attached.max_entries, 32, "entries of a queue")
        ring = node.pin(c.HostMemory(c.GRANULE), [attached.controller])
        data = node.pin(c.BarMemory(c.GRANULE), [attached.controller])
        queue = c.QueuePair(node, attached.controller, ring, entries=3)
        device = drive.block_device()
        for turn in range(40):
            sent = os.urandom(8192)
            data.memory.write(0, sent)
            guest.equal(queue.transfer(c.WRITE, turn * 2, data, 0, 8192, block=4096, lists=ring), 0, "status")
            guest.equal(c.stock_read(device, turn * 8192, 8192), sent, f"bytes of turn {turn}")
        status = queue.transfer(c.READ, 0, data, 0, 16384, block=4096, lists=ring)
        guest.equal((status or 0) & 0x7FF, 0x02, "status of a transfer past MDTS (Invalid Field)")
        queue.delete()
