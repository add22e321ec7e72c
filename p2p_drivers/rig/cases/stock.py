"""The machine itself: the kernel's own NVMe driver, the namespaces, and the product's Python in the guest."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from rig.case import Guest, case
from rig.qemu import MIB, stamp


@case(fresh=True, needs_module=False)
def stock_driver_reads(guest: Guest) -> None:
    """The kernel's own driver is bound, live, and reads what the image holds; numpy and the product import."""
    import numpy as np

    from tutti_hal.nvme import bus_memory

    state = Path("/sys/class/nvme/nvme0/state").read_text().strip()
    guest.equal(state, "live", "state of nvme0")
    driver = Path("/sys/class/nvme/nvme0/device/driver").resolve().name
    guest.equal(driver, "nvme", "driver of nvme0")
    fd = os.open("/dev/nvme0n1", os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 4096) as page:
            for mib in (0, 1, 17, 255):
                os.preadv(fd, [page], mib * MIB)
                found = np.frombuffer(page, np.uint8, 64).tobytes()
                guest.equal(found, stamp(0, 0, mib), f"first bytes of MiB {mib}")
    finally:
        os.close(fd)
    guest.check(bus_memory.__file__, "the product imports")
