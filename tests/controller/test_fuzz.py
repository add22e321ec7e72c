"""Random bytes in queues and registers: whatever comes, the controller answers or stays silent, and lives."""

from __future__ import annotations

import random
import struct

import pytest
from host import running, small

from tutti_hal.conformance_tests.oracle.nvme import (
    CC,
    OK,
    PAGE,
    rw,
)
from tutti_hal.nvme.software import MemoryNamespace, VolatileCache


def entry(source: random.Random, addresses: list[int], *, admin: bool) -> bytes:
    words = [source.getrandbits(32) for _ in range(16)]
    if source.random() < 0.9:
        opcodes = [0, 1, 2, 4, 5, 6, 8, 9, 10, 12] if admin else [0, 1, 2, 5, 8, 9, 12]
        words[0] = source.choice(opcodes) | source.choice([0, 0, 0, 1, 2, 3]) << 14 | source.getrandbits(16) << 16
    if source.random() < 0.8:
        words[1] = source.choice([0, 1, 1, 1, 2, 3, 0xFFFFFFFF])
    for at in (4, 6, 8):
        if source.random() < 0.9:
            address = source.choice(addresses) + source.choice([0, 0, 0, 4, 8, 1, PAGE - 8, 2048])
            words[at], words[at + 1] = address & 0xFFFFFFFF, address >> 32
    if source.random() < 0.5:  # the second half of an SGL descriptor
        words[8] = source.choice([16, 32, 512, 4096, source.getrandbits(13)])
        words[9] = source.choice([0, 0, 0x10, 0x20, 0x30, source.getrandbits(8)]) << 24
    if source.random() < 0.8:
        words[10], words[11] = source.choice([0, 1, 5, 4095, 4096, source.getrandbits(12)]), source.choice([0, 0, 1])
        words[12] = source.choice([0, 1, 7, 63, 255, source.getrandbits(16)]) | source.choice([0, 0, 1 << 30, 1 << 25])
    return struct.pack("<16I", *words)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("metadata", [0, 8])
def test_random_commands(seed: int, metadata: int) -> None:
    source = random.Random(seed * 2 + metadata)
    second = MemoryNamespace(nsid=3, lba_shift=12, blocks=64, metadata_bytes=64, metadata_inline=True)
    config = small(
        ns_metadata_bytes=metadata, volatile_cache=VolatileCache.MODELLED, cqr=bool(seed % 2), mdts=seed % 4, mqes=255
    )
    config = config.but(namespaces=(*config.namespaces, second), seed=seed)
    with running(config, queues=2, depth=32) as host:
        memory = host.allocate(16 * PAGE, contiguous=True)
        guard = host.allocate(PAGE)
        guard.put(0, b"\xfe" * PAGE)
        addresses = [memory.bus(i * PAGE) for i in range(16)] + [0, 1 << 52, 2**64 - PAGE]
        for _ in range(40):
            # Lists and segments of random bytes and of addresses that are there.
            for at in range(0, 4 * PAGE, 8):
                value = source.choice(addresses) if source.random() < 0.8 else source.getrandbits(64)
                memory.put(at, value.to_bytes(8, "little"))
            for qid in (1, 2):
                cids = host.send(qid, [entry(source, addresses, admin=False) for _ in range(20)])
                done = host.collect(qid, 20)
                assert sorted(c.cid for c in done) == sorted(cids)
        assert guard.get(0, PAGE) == b"\xfe" * PAGE
        assert host.identify(1)[0].status == OK
        assert host.io(rw(2, 0, 1, prp1=memory.bus(0), mptr=memory.bus(PAGE))).status == OK


@pytest.mark.parametrize("seed", range(4))
def test_random_admin_commands_and_registers(seed: int) -> None:
    source = random.Random(seed)
    with running(small(cqr=bool(seed % 2), io_queues=4), queues=2) as host:
        memory = host.allocate(16 * PAGE, contiguous=True)
        addresses = [memory.bus(i * PAGE) for i in range(16)] + [0, 1 << 52]
        for _ in range(60):
            for at in range(0, PAGE, 8):
                memory.put(at, source.choice(addresses).to_bytes(8, "little"))
            host.send(0, [entry(source, addresses, admin=True)])
            host.collect(0, 1, 0.003)  # an event request has no answer
            if source.random() < 0.3:
                offset = source.choice([0x1000 + 4 * source.randrange(10), source.randrange(0, 0x80, 4)])
                if offset not in (CC, 0x1000, 0x1004):
                    host.store(offset, source.getrandbits(source.choice([3, 8, 16, 32])))
        host.enable()
        assert host.identify(1)[0].status == OK
        host.set_queue_count(1)
        host.create_pair(1, 8)
        assert host.io(rw(2, 0, 1, prp1=memory.bus(0))).status == OK


def test_random_control_values_end_in_ready_or_fatal() -> None:
    source = random.Random(9)
    with running(small(), queues=0) as host:
        for _ in range(60):
            host.store(CC, source.getrandbits(32))
            host.store(0x24, source.getrandbits(32))
            host.store(0x28, source.getrandbits(32))
        host.enable()
        assert host.identify(1)[0].status == OK
