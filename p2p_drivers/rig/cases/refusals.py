"""What the module must refuse, and say why."""

from __future__ import annotations

import errno
import os

from rig.case import Guest, case
from rig.cases.lab import FULL, LAB, ORDINARY, SHADOW


@case(LAB)
def no_spare_queue(guest: Guest) -> None:
    """A drive whose queue ids are all in use by the driver is refused a queue pair, and the driver goes on."""
    from rig import client as c
    from tutti_hal.nvme import p2p_uapi as uapi

    with c.loaded(), c.Client() as node:
        drive = c.drive(FULL)
        attached = node.attach(drive)
        guest.equal(attached.queues_granted, 2, "queues granted")
        ring = node.pin(c.HostMemory(c.GRANULE), [attached.controller])
        refused = None
        try:
            c.QueuePair(node, attached.controller, ring)
        except c.Refusal as why:
            refused = why.answer
        guest.check(isinstance(refused, uapi.QueueCreate), "a queue pair is refused")
        if isinstance(refused, uapi.QueueCreate):
            wanted = (uapi.Refused.NO_SPARE, uapi.Refused.NVME)
            guest.check(refused.refused in wanted, f"the cause is said: {uapi.Refused(refused.refused).name}")
        guest.equal(len(c.stock_read(drive.block_device(), 0, 4096)), 4096, "the driver still reads")


@case(LAB)
def shadow_doorbells(guest: Guest) -> None:
    """A drive with shadow doorbells would ignore ours: it is refused when it is attached."""
    from rig import client as c
    from tutti_hal.nvme import p2p_uapi as uapi

    with c.loaded(), c.Client() as node:
        drive = c.drive(SHADOW)
        answer = None
        try:
            node.attach(drive)
        except c.Refusal as why:
            answer = why
        guest.check(answer is not None, "the drive is refused")
        if answer is not None and isinstance(answer.answer, uapi.Attach):
            guest.equal(answer.answer.refused, uapi.Refused.SHADOW, "the cause")
            guest.equal(answer.number, errno.EOPNOTSUPP, "the error")


@case(LAB)
def another_drives_file(guest: Guest) -> None:
    """A file of one drive is no right to another; nor is a file that is no drive's, or only readable."""
    from rig import client as c
    from tutti_hal.nvme import p2p_uapi as uapi

    with c.loaded(), c.Client() as node:
        mine, other = c.drive(ORDINARY), c.drive(FULL)
        domain, bus, devfn = mine.devfn
        tries = (
            (f"/dev/{other.name}", os.O_RDWR),
            ("/dev/null", os.O_RDWR),
            (mine.block_device(), os.O_RDWR),
            (f"/dev/{mine.name}", os.O_RDONLY),
        )
        for path, mode in tries:
            fd = os.open(path, mode)
            request = uapi.Attach(domain=domain, bus=bus, devfn=devfn, nvme_fd=fd)
            number, answer = uapi.request(node.fd, request)
            os.close(fd)
            guest.equal((number, answer.refused), (errno.EOPNOTSUPP, uapi.Refused.FD), f"{path} for {mine.bdf}")
        guest.equal(node.refused(uapi.Attach(domain=domain, bus=bus, devfn=devfn, nvme_fd=-1)) != 0, True, "no file")
