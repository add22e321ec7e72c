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

pytestmark = pytest.mark.ring

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


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_a_build_leaves_no_compiler_and_no_part(
    tmp_path: Path, signum: signal.Signals, code: int
) -> None:
    """To the command alone: its compilers end by themselves, and it waits for them."""
    compiler = tmp_path / "slow-g++"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && exec g++ --version\nsleep 1.5\n')
    compiler.chmod(0o755)
    cache = tmp_path / "cache"
    child = subprocess.Popen(
        [sys.executable, "-m", "tutti_hal", "build", "--profile", "host", "--arch", "all"],
        env={**os.environ, "TUTTI_HOST_CXX": str(compiler), "TUTTI_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not list(cache.rglob("*.cpp")) and child.poll() is None:
            time.sleep(0.02)
        time.sleep(0.3)
        child.send_signal(signum)
        _, err = child.communicate(timeout=30)
        assert child.returncode == code, err
        assert [path.name for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
        assert [path.name for path in cache.rglob(".*")] == []
        session = subprocess.run(
            ["ps", "-s", str(child.pid), "-o", "stat="], capture_output=True, text=True, check=False
        )
        assert [state for state in session.stdout.split() if not state.startswith("Z")] == []
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
