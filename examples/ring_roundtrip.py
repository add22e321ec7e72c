"""Writes bytes through the ring to a drive in memory and reads them back. Runs on any machine with a C++ compiler."""

from tutti_hal.io_uring import Drive, Ring, succeeded
from tutti_hal.nvme.handle import ControllerHandle
from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, SoftwareController
from tutti_hal.shim import Device

device = Device("host")
with SoftwareController(ControllerConfig(namespaces=(MemoryNamespace(blocks=1024),))) as drive:
    drive.start()
    with ControllerHandle.open(drive.registers, drive.dma) as handle:
        memory = drive.dma.allocate(8192)  # the first half is sent, the second half receives
        memory.write(0, b"moved by a kernel, not by the CPU")
        with Ring.init_queue(device, [Drive(handle=handle, dma=drive.dma)]) as ring:
            target, buffer = ring.targets[0], ring.register(memory)

            batch = ring.get_iocb()
            batch.write(target, lba=7, nbytes=4096, buffer=buffer, offset=0)
            ring.issue_io(batch)  # one copy and one launch, however much is in the batch
            assert succeeded(ring.wait_cqe(batch)).all()

            batch = ring.get_iocb()
            batch.read(target, lba=7, nbytes=4096, buffer=buffer, offset=4096)
            ring.issue_io(batch)
            assert succeeded(ring.wait_cqe(batch)).all()
        print(memory.read(4096, 33).decode())
        memory.close()
