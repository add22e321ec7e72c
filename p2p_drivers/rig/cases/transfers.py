"""Data both ways through extra queue pairs, compared with what the stock driver reads and writes."""

from __future__ import annotations

import os

from rig.case import Guest, case
from rig.qemu import MIB, Drive, Machine, Namespace

# An ordinary drive with two block sizes, and one with 4 KiB blocks, short queues and transfers of at most 8 KiB.
UNLIKE = Machine((Drive((Namespace(64), Namespace(32, 4096))), Drive((Namespace(32, 4096),), mdts=1, entries=32)))


@case(UNLIKE, timeout_s=180)
def both_ways_in_every_placement(guest: Guest) -> None:
    """Rings and data in host pages or in the bar, 512 B and 4 KiB blocks, PRP lists: the same bytes both ways."""
    from rig import p2p, peer

    with p2p.client(guest) as client:
        drive = client.attach()
        for rings_in_bar in (False, True):
            rings = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=0 if rings_in_bar else None), drive.controller)
            for data_in_bar in (False, True):
                what = f"rings in bar: {rings_in_bar}, data in bar: {data_in_bar}"
                memory = p2p.Memory(4 * p2p.GRANULE, gpu_offset=MIB if data_in_bar else None)
                data = client.pin(memory, drive.controller)
                pair = client.queue(drive.controller, rings)
                for nsid, block in ((1, 512), (2, 4096)):
                    device = peer.block_device(0, nsid)
                    for length, at in ((4096, 0), (8192, p2p.PAGE), (131072, p2p.PAGE)):
                        sent = os.urandom(length)
                        peer.stock_write(device, 2 * MIB, sent)
                        memory.map[:] = bytes(memory.length)
                        status = peer.transfer(
                            pair, peer.READ, 2 * MIB // block, data, at, length, block=block, nsid=nsid, lists=rings
                        )
                        guest.equal(status, 0, f"{what}: status of a read of {length}")
                        wanted = bytes(at) + sent + bytes(memory.length - at - length)
                        guest.check(memory.map[:] == wanted, f"{what}: {length} bytes read, and no other")
                        sent = os.urandom(length)
                        memory.map[at : at + length] = sent
                        before = peer.stock_read(device, 5 * MIB + length, 4096)
                        status = peer.transfer(
                            pair, peer.WRITE, 5 * MIB // block, data, at, length, block=block, nsid=nsid, lists=rings
                        )
                        guest.equal(status, 0, f"{what}: status of a write of {length}")
                        found = peer.stock_read(device, 5 * MIB, length + 4096)
                        guest.check(found == sent + before, f"{what}: {length} bytes written, and no other")
                client.must(client.uapi.QueueDelete(queue=pair.handle))
                client.must(client.uapi.Unpin(pin=data.handle))
            client.must(client.uapi.Unpin(pin=rings.handle))


@case(UNLIKE)
def small_drive(guest: Guest) -> None:
    """A drive of 4 KiB blocks that takes 8 KiB a command: a ring of three goes round, more is refused by the drive."""
    from rig import p2p, peer

    with p2p.client(guest) as client:
        drive = client.attach(1)
        guest.equal(drive.max_entries, 32, "entries of a queue")
        rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
        data = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=0), drive.controller)
        pair = client.queue(drive.controller, rings, entries=3)
        device = peer.block_device(1)
        for turn in range(20):
            sent = os.urandom(8192)
            data.memory.map[:8192] = sent
            status = peer.transfer(pair, peer.WRITE, turn * 2, data, 0, 8192, block=4096, lists=rings)
            guest.equal(status, 0, f"status of turn {turn}")
            guest.check(peer.stock_read(device, turn * 8192, 8192) == sent, f"bytes of turn {turn}")
        status = peer.transfer(pair, peer.READ, 0, data, 0, 16384, block=4096, lists=rings)
        guest.equal((status or 0) & 0x7FF, 0x02, "status of a transfer past MDTS (Invalid Field)")
        error, _ = client.ask(client.queue_request(drive.controller, rings, entries=33))
        guest.check(error, "a ring longer than the drive's is refused")


@case(UNLIKE, timeout_s=120)
def two_drives_striped(guest: Guest) -> None:
    """One pin for two drives: stripes of one buffer are written to both, and each holds its own."""
    from rig import p2p, peer

    with p2p.client(guest) as client:
        drives = [client.attach(number) for number in (0, 1)]
        memory = p2p.Memory(4 * p2p.GRANULE, gpu_offset=0)
        request, array = client.pin_request(memory, [drive.controller for drive in drives])
        handle = client.must(request).pin
        del array
        stripe = 8192
        sent = os.urandom(memory.length)
        memory.map[:] = sent
        for number, drive in enumerate(drives):
            rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
            pair = client.queue(drive.controller, rings)
            data = p2p.Pinned(handle, memory, client.runs(handle, drive.controller))
            for turn in range(memory.length // stripe // 2):
                slba = turn * stripe // 4096
                at = (2 * turn + number) * stripe
                status = peer.transfer(
                    pair, peer.WRITE, slba, data, at, stripe, block=4096, nsid=2 - number, lists=rings
                )
                guest.equal(status, 0, f"drive {number}, stripe {turn}: status")
        halves = [peer.stock_read(peer.block_device(number, 2 - number), 0, memory.length // 2) for number in (0, 1)]
        joined = b"".join(
            halves[index % 2][index // 2 * stripe : (index // 2 + 1) * stripe]
            for index in range(memory.length // stripe)
        )
        guest.check(joined == sent, "the stripes joined again")
