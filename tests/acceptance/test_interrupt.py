"""Signals in the worst places: while a batch is in flight, and of every kind that a terminal or a service sends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tutti_hal.io_uring import Drive, Ring, RingOptions, succeeded
from tutti_hal.nvme.handle import ControllerHandle
from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, SoftwareController
from tutti_hal.shim import Device

_SLOW_NS = 300_000_000


@pytest.fixture
def slow_ring() -> Iterator[tuple[Ring, SoftwareController]]:
    """A ring over a drive that takes 0.3 s for a command."""
    config = ControllerConfig(namespaces=(MemoryNamespace(blocks=1024, lba_shift=9),), latency_ns=_SLOW_NS)
    with ExitStack() as stack:
        controller = stack.enter_context(SoftwareController(config))
        controller.start()
        handle = stack.enter_context(ControllerHandle.open(controller.registers, controller.dma))
        drive = Drive(handle=handle, dma=controller.dma)
        ring = Ring.init_queue(Device("host:threads-w32"), [drive], RingOptions(depth=8, batches=1))
        stack.callback(ring.close)
        yield ring, controller


def test_ctrl_c_in_a_wait_leaves_the_batch_in_flight(slow_ring: tuple[Ring, SoftwareController]) -> None:
    ring, controller = slow_ring
    with closing(controller.dma.allocate(4096)) as memory:
        buffer = ring.register(memory)
        iocb = ring.get_iocb()
        iocb.read(ring.targets[0], 0, 512, buffer, 0)
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        ring.issue_io(iocb)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ring.wait_cqe(iocb)
        timer.join()
        # Its memory would be given back under the drive's hands, were it taken for free.
        assert succeeded(ring.wait_cqe(iocb)).all()
        ring.unregister(buffer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signum", "group", "code"),
    [
        (signal.SIGINT, True, 130),
        (signal.SIGTERM, True, 143),
        (signal.SIGHUP, False, 129),
    ],
)
def test_a_signal_during_the_waits_of_a_demo(tmp_path: Path, signum: signal.Signals, group: bool, code: int) -> None:
    """Nearly all of this run is waiting for batches, so that the signal comes in one."""
    command = [sys.executable, "-m", "tutti_hal", "demo", "--profile", "host", "--dir", str(tmp_path)]
    command += [
        "--requests",
        "3000",
        "--layers",
        "8",
        "--cache-mib",
        "64",
        "--compute-us",
        "0",
        "--budget-mib",
        "100000",
    ]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not list(tmp_path.glob("*/drive3.img")) and child.poll() is None:
            time.sleep(0.05)
        time.sleep(1.0)
        (os.killpg if group else os.kill)(child.pid, signum)
        _, err = child.communicate(timeout=30)
        assert child.returncode == code, err
        assert "Traceback" not in err
        assert list(tmp_path.iterdir()) == []
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
