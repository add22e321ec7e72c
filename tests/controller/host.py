"""The suite's own host for judging the controller, and short ways to make one and a controller for it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tutti_hal.conformance_tests.oracle.host import Host, Memory, Queue
from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, SoftwareController

__all__ = ["Host", "Memory", "Queue", "pattern", "running", "small"]


@contextmanager
def running(config: ControllerConfig, *, threads: int = 1, queues: int = 1, depth: int = 64) -> Iterator[Host]:
    """A controller in threads, enabled, with `queues` I/O queue pairs of ids 1..queues."""
    with SoftwareController(config) as drive:
        host = Host(drive)
        drive.start(threads)
        try:
            host.enable()
            if queues:
                host.set_queue_count(queues)
            for qid in range(1, queues + 1):
                host.create_pair(qid, depth)
            yield host
        finally:
            drive.stop()


def small(**changes: Any) -> ControllerConfig:
    """One memory namespace of 4096 blocks of 512 bytes; fields of the namespace as `ns_...`."""
    of_namespace = {name[3:]: changes.pop(name) for name in list(changes) if name.startswith("ns_")}
    namespace = MemoryNamespace(**{"nsid": 1, "lba_shift": 9, "blocks": 4096, **of_namespace})
    return ControllerConfig(namespaces=(namespace,), **changes)


def pattern(nbytes: int, seed: int) -> bytes:
    """Bytes that differ from seed to seed and from place to place."""
    out = bytearray()
    state = (seed * 0x9E3779B97F4A7C15 + 1) & (2**64 - 1)
    while len(out) < nbytes:
        state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out += struct.pack("<Q", state ^ state >> 29)
    return bytes(out[:nbytes])
