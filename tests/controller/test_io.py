"""I/O commands over memory: data, formats, statuses."""

from __future__ import annotations

import struct

import pytest
from host import Host, Memory, pattern, running, small

from tutti_hal.conformance_tests.oracle.nvme import (
    COMPARE_FAILURE,
    DATA_TRANSFER,
    INVALID_FIELD,
    INVALID_NAMESPACE,
    INVALID_OPCODE,
    LBA_RANGE,
    OK,
    PAGE,
    WRITE_PROTECTED,
    Cqe,
    rw,
    sqe,
)
from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, SoftwareController, VolatileCache

FLUSH, WRITE, READ, COMPARE, ZEROES, DSM, VERIFY = 0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0C
FUA = 1 << 30
DEALLOCATE = 1 << 25


def prps(host: Host, memory: Memory, nbytes: int) -> dict[str, int]:
    """PRP1 and PRP2 for the first bytes of `memory`, with a list where one is needed."""
    pages = memory.pages()[: (nbytes + PAGE - 1) // PAGE]
    if len(pages) <= 2:
        return {"prp1": pages[0], "prp2": pages[1] if len(pages) == 2 else 0}
    entries = pages[1:]
    lists = host.allocate((len(entries) // 511 + 1) * PAGE)
    places = lists.pages()
    at = 0
    for number, place in enumerate(places):
        rest = len(entries) - at
        chunk = entries[at:] if rest <= 512 else [*entries[at : at + 511], places[number + 1]]
        lists.put(number * PAGE, struct.pack(f"<{len(chunk)}Q", *chunk))
        at += len(chunk) - (rest > 512)
        if rest <= 512:
            break
        assert place
    return {"prp1": pages[0], "prp2": places[0]}


def move(host: Host, opcode: int, slba: int, blocks: int, memory: Memory, nbytes: int, **rest: int) -> Cqe:
    return host.io(rw(opcode, slba, blocks, **prps(host, memory, nbytes), **rest))


@pytest.mark.parametrize("shift", [9, 12, 16])
@pytest.mark.parametrize("kib", [64, 128])
def test_write_then_read(shift: int, kib: int) -> None:
    with running(small(ns_lba_shift=shift, ns_blocks=1 << 12)) as host:
        nbytes = kib << 10
        blocks = nbytes >> shift
        source, target = host.allocate(nbytes), host.allocate(nbytes)
        data = pattern(nbytes, shift)
        source.put(0, data)
        assert move(host, WRITE, 5, blocks, source, nbytes).status == OK
        assert host.drive.read_stored(1, 5 << shift, nbytes) == data
        assert move(host, READ, 5, blocks, target, nbytes).status == OK
        assert target.get(0, nbytes) == data
        counters = host.drive.counters
        assert counters.bytes_read == counters.bytes_written == nbytes
        assert counters.io_commands == {WRITE: 1, READ: 1}


@pytest.mark.parametrize("metadata", [8, 64])
@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("shift", [9, 12])
def test_metadata(metadata: int, inline: bool, shift: int) -> None:
    config = small(ns_lba_shift=shift, ns_metadata_bytes=metadata, ns_metadata_inline=inline)
    with running(config) as host:
        blocks = 12
        each = (1 << shift) + (metadata if inline else 0)
        data, extra = pattern(blocks * each, 1), pattern(blocks * metadata, 2)
        source, target = host.allocate(16 * PAGE), host.allocate(16 * PAGE)
        meta_out, meta_in = host.allocate(PAGE), host.allocate(PAGE)
        source.put(0, data)
        meta_out.put(4, extra)
        write = move(host, WRITE, 7, blocks, source, blocks * each, mptr=0 if inline else meta_out.bus(4))
        assert write.status == OK
        stored = host.drive.read_stored(1, 7 << shift, blocks << shift)
        wanted = b"".join(data[i * each : i * each + (1 << shift)] for i in range(blocks))
        assert stored == wanted
        read = move(host, READ, 7, blocks, target, blocks * each, mptr=0 if inline else meta_in.bus(8))
        assert read.status == OK
        assert target.get(0, blocks * each) == data
        if not inline:
            assert meta_in.get(8, blocks * metadata) == extra
            assert meta_in.get(8 + blocks * metadata, 16) == bytes(16)
            bad = move(host, READ, 7, blocks, target, blocks * each, mptr=meta_in.bus(2))
            assert bad.status == INVALID_FIELD
            gone = move(host, READ, 7, blocks, target, blocks * each, mptr=0x4000)
            assert gone.status == DATA_TRANSFER
        compare = move(host, COMPARE, 7, blocks, source, blocks * each, mptr=0 if inline else meta_out.bus(4))
        assert compare.status == OK
        if inline:
            source.view[each - 1] ^= 1
        else:
            meta_out.view[4 + metadata - 1] ^= 1
        compare = move(host, COMPARE, 7, blocks, source, blocks * each, mptr=0 if inline else meta_out.bus(4))
        assert compare.status == COMPARE_FAILURE
        assert host.io(rw(ZEROES, 8, 2)).status == OK
        assert move(host, READ, 7, blocks, target, blocks * each, mptr=0 if inline else meta_in.bus(8)).status == OK
        if inline:
            assert target.get(each, 2 * each) == bytes(2 * each)
        else:
            assert meta_in.get(8 + metadata, 2 * metadata) == bytes(2 * metadata)


def test_namespaces_are_apart() -> None:
    spaces = [MemoryNamespace(nsid=n, lba_shift=9, blocks=64) for n in (1, 3, 0xFF)]
    with running(ControllerConfig(namespaces=spaces)) as host:
        memory = host.allocate(PAGE)
        for nsid in (1, 3, 0xFF):
            memory.put(0, bytes([nsid]) * 512)
            assert host.io(rw(WRITE, 9, 1, nsid=nsid, prp1=memory.bus(0))).status == OK
        for nsid in (1, 3, 0xFF):
            assert host.io(rw(READ, 9, 1, nsid=nsid, prp1=memory.bus(0))).status == OK
            assert memory.get(0, 512) == bytes([nsid]) * 512
        for nsid in (0, 0x100, 0xFFFFFFFE, 0xFFFFFFFF):
            cqe = host.io(rw(READ, 0, 1, nsid=nsid, prp1=memory.bus(0)))
            assert (cqe.status, cqe.dnr) == (INVALID_NAMESPACE, True), nsid
        assert host.io(rw(READ, 0, 1, nsid=2, prp1=memory.bus(0))).status == INVALID_FIELD
        assert host.io(sqe(FLUSH, nsid=0xFFFFFFFF)).status == OK
        assert host.io(sqe(FLUSH, nsid=0)).status == INVALID_NAMESPACE
        assert host.io(sqe(FLUSH, nsid=2)).status == INVALID_FIELD


def test_lba_range_also_past_two_to_the_32() -> None:
    blocks = (1 << 32) + 1000
    with running(small(ns_blocks=blocks)) as host:
        memory = host.allocate(PAGE)
        assert int.from_bytes(host.identify(0, 1)[1][:8], "little") == blocks
        memory.put(0, b"far" * 170)
        assert host.io(rw(WRITE, blocks - 1, 1, prp1=memory.bus(0))).status == OK
        memory.put(0, bytes(512))
        assert host.io(rw(READ, blocks - 1, 1, prp1=memory.bus(0))).status == OK
        assert memory.get(0, 510) == b"far" * 170
        assert host.io(rw(READ, 999, 1, prp1=memory.bus(0))).status == OK
        assert memory.get(0, 512) == bytes(512)  # not the low half of that address
        for opcode in (READ, WRITE, COMPARE, ZEROES, VERIFY):
            for slba, count in ((blocks, 1), (blocks - 1, 2), (blocks - 7, 8), (2**64 - 1, 1), (2**64 - 1, 2)):
                cqe = host.io(rw(opcode, slba, count, prp1=memory.bus(0)))
                assert (cqe.status, cqe.dnr) == (LBA_RANGE, True), (opcode, slba, count)


@pytest.mark.parametrize("mdts", [0, 3, 5, 7])
def test_transfer_limit(mdts: int) -> None:
    with running(small(mdts=mdts, ns_blocks=1 << 14), depth=8) as host:
        limit = 4096 << mdts if mdts else 2 << 20
        memory = host.allocate(limit + PAGE)
        memory.put(0, pattern(limit, mdts))
        assert move(host, WRITE, 0, limit // 512, memory, limit).status == OK
        assert host.drive.read_stored(1, 0, limit) == memory.get(0, limit)
        if mdts:
            for opcode in (READ, WRITE, COMPARE):
                over = move(host, opcode, 0, limit // 512 + 1, memory, limit + 512)
                assert (over.status, over.dnr) == (INVALID_FIELD, True)
            assert host.io(rw(ZEROES, 0, limit // 512 + 1)).status == OK  # moves no data
            assert host.io(rw(VERIFY, 0, limit // 512 + 1)).status == OK


def test_transfer_limit_counts_in_minimum_pages() -> None:
    with SoftwareController(small(mdts=1, mpsmin=1)) as drive:
        host = Host(drive)
        drive.start()
        host.enable(mps=2)  # pages of 16 KiB; the limit is 2 of 8 KiB all the same
        host.set_queue_count(1)
        host.create_pair(1, 4)
        memory = host.allocate(32 << 10, contiguous=True, alignment=16 << 10)
        assert host.io(rw(READ, 0, 32, prp1=memory.bus(0))).status == OK
        over = host.io(rw(READ, 0, 33, prp1=memory.bus(0), prp2=memory.bus(16 << 10)))
        assert over.status == INVALID_FIELD


def test_inline_metadata_counts_towards_the_limit() -> None:
    with running(small(mdts=1, ns_metadata_bytes=8, ns_metadata_inline=True)) as host:
        memory = host.allocate(4 * PAGE)
        assert move(host, READ, 0, 15, memory, 15 * 520).status == OK  # 7,800 of 8,192 bytes
        assert move(host, READ, 0, 16, memory, 16 * 520).status == INVALID_FIELD


def test_refusals_of_reserved_fields_and_opcodes() -> None:
    with running(small()) as host:
        memory = host.allocate(PAGE)
        for opcode in (0x04, 0x0D, 0x0E, 0x11, 0x15, 0x19, 0x79, 0x7F, 0x80, 0x82, 0xFF):
            cqe = host.io(rw(opcode, 0, 1, prp1=memory.bus(0)))
            assert (cqe.status, cqe.dnr) == (INVALID_OPCODE, True), hex(opcode)
        for fuse in (1, 2, 3):
            assert host.io(rw(READ, 0, 1, fuse=fuse, prp1=memory.bus(0))).status == INVALID_FIELD
        assert host.io(rw(READ, 0, 1, psdt=3, prp1=memory.bus(0))).status == INVALID_FIELD
        assert host.io(rw(WRITE, 0, 1, flags=1 << 20, prp1=memory.bus(0))).status == INVALID_FIELD  # directive
        assert host.drive.counters.errors == 16


def test_write_zeroes_deallocate_and_verify() -> None:
    with running(small()) as host:
        memory = host.allocate(64 * PAGE)
        data = pattern(128 << 10, 3)
        memory.put(0, data)
        assert move(host, WRITE, 0, 256, memory, 128 << 10).status == OK
        assert host.io(rw(ZEROES, 3, 5)).status == OK
        assert host.io(rw(ZEROES, 40, 64, flags=DEALLOCATE)).status == OK
        wanted = bytearray(data)
        wanted[3 * 512 : 8 * 512] = bytes(5 * 512)
        wanted[40 * 512 : 104 * 512] = bytes(64 * 512)
        assert host.drive.read_stored(1, 0, 128 << 10) == wanted
        ranges = [(110, 1), (0, 0), (120, 30), (4095, 1)]
        memory.put(0, b"".join(struct.pack("<IIQ", 0, count, slba) for slba, count in ranges))
        assert host.io(sqe(DSM, nsid=1, prp1=memory.bus(0), dwords={10: 3, 11: 0})).status == OK  # hints only
        assert host.drive.read_stored(1, 0, 128 << 10) == wanted
        assert host.io(sqe(DSM, nsid=1, prp1=memory.bus(0), dwords={10: 3, 11: 4})).status == OK
        for slba, count in ranges[:3]:
            wanted[slba * 512 : (slba + count) * 512] = bytes(count * 512)
        assert host.drive.read_stored(1, 0, 128 << 10) == wanted
        for slba, count in ((4095, 2), (4096, 1), (2**64 - 1, 2)):
            memory.put(16, struct.pack("<IIQ", 0, count, slba))
            assert host.io(sqe(DSM, nsid=1, prp1=memory.bus(0), dwords={10: 1, 11: 4})).status == LBA_RANGE
        assert host.io(sqe(DSM, nsid=1, prp1=0x4000, dwords={10: 0, 11: 4})).status == DATA_TRANSFER
        assert host.io(rw(VERIFY, 0, 256)).status == OK


def test_256_ranges_from_two_pages() -> None:
    with running(small()) as host:
        host.drive.write_stored(1, 0, b"\x55" * (4096 * 512))
        memory = host.allocate(4 * PAGE)
        pages = memory.pages()
        entries = b"".join(struct.pack("<IIQ", 0, 1, 2 * i) for i in range(256))
        memory.put(PAGE - 256, entries[:256])
        memory.put(2 * PAGE, entries[256:])
        command = sqe(DSM, nsid=1, prp1=pages[0] + PAGE - 256, prp2=pages[2], dwords={10: 255, 11: 4})
        assert host.io(command).status == OK
        stored = host.drive.read_stored(1, 0, 600 * 512)
        assert all(
            stored[i * 512 : i * 512 + 512] == (b"\0" if i < 512 and i % 2 == 0 else b"\x55") * 512 for i in range(600)
        )


def test_compare_finds_one_bit() -> None:
    with running(small(mdts=0)) as host:
        nbytes = 600 << 10  # more than the controller compares at a time
        memory = host.allocate(nbytes)
        memory.put(0, pattern(nbytes, 9))
        assert move(host, WRITE, 0, nbytes // 512, memory, nbytes).status == OK
        for at in (0, nbytes // 2 + 3, nbytes - 1):
            assert move(host, COMPARE, 0, nbytes // 512, memory, nbytes).status == OK
            memory.view[at] ^= 0x10
            cqe = move(host, COMPARE, 0, nbytes // 512, memory, nbytes)
            assert (cqe.status, cqe.dnr) == (COMPARE_FAILURE, True)
            memory.view[at] ^= 0x10


def test_read_only_namespace() -> None:
    with running(small(ns_read_only=True)) as host:
        memory = host.allocate(PAGE)
        assert host.identify(0, 1)[1][99] & 1 == 1
        for opcode in (WRITE, ZEROES):
            assert host.io(rw(opcode, 0, 1, prp1=memory.bus(0))).status == WRITE_PROTECTED
        assert host.io(sqe(DSM, nsid=1, prp1=memory.bus(0), dwords={10: 0, 11: 4})).status == WRITE_PROTECTED
        assert host.io(rw(READ, 0, 1, prp1=memory.bus(0))).status == OK
        assert host.io(sqe(FLUSH, nsid=1)).status == OK


def test_addresses_outside_mapped_memory_move_nothing() -> None:
    with running(small()) as host:
        memory = host.allocate(2 * PAGE)
        host.drive.write_stored(1, 0, b"\x77" * 8192)
        bus = memory.pages()
        for prp1 in (0x1000, memory.address, 1 << 52, 2**63, 2**64 - 4096):
            for opcode in (READ, WRITE, COMPARE):
                cqe = host.io(rw(opcode, 0, 8, prp1=prp1))
                assert cqe.status == DATA_TRANSFER, hex(prp1)
        cqe = host.io(rw(READ, 0, 16, prp1=bus[0], prp2=0x7000))
        assert cqe.status == DATA_TRANSFER
        assert host.drive.read_stored(1, 0, 8192) == b"\x77" * 8192


def test_memory_the_drive_may_only_read() -> None:
    with running(small()) as host:
        memory = host.allocate(PAGE)
        host.drive.iommu.unmap(memory.address)
        [(bus, _)] = host.drive.iommu.map(memory.address, PAGE, writable=False)
        assert host.io(rw(WRITE, 0, 1, prp1=bus)).status == OK
        assert host.io(rw(READ, 0, 1, prp1=bus)).status == DATA_TRANSFER


# ---- the volatile cache ----


def write_block(host: Host, memory: Memory, lba: int, byte: int, flags: int = 0) -> None:
    memory.put(0, bytes([byte]) * 512)
    assert host.io(rw(WRITE, lba, 1, prp1=memory.bus(0), flags=flags)).status == OK


def stored(host: Host, lba: int) -> int:
    block = host.drive.read_stored(1, lba * 512, 512)
    assert len(set(block)) == 1
    return block[0]


def test_power_cut_loses_what_was_not_flushed() -> None:
    with running(small(volatile_cache=VolatileCache.MODELLED)) as host:
        memory = host.allocate(PAGE)
        write_block(host, memory, 1, 11)
        write_block(host, memory, 2, 12)
        assert host.io(sqe(FLUSH, nsid=1)).status == OK
        write_block(host, memory, 2, 22)
        write_block(host, memory, 3, 23)
        write_block(host, memory, 4, 24, FUA)
        write_block(host, memory, 5, 25)
        assert host.io(rw(ZEROES, 1, 1)).status == OK
        assert host.drive.namespace_info(1).unflushed_blocks == 4  # 1, 2, 3, 5
        assert host.io(rw(READ, 2, 1, prp1=memory.bus(0))).status == OK
        assert memory.get(0, 1) == bytes([22])  # the cache answers
        host.drive.power_cut()
        assert [stored(host, lba) for lba in range(1, 6)] == [11, 12, 0, 24, 0]
        assert host.load(0x1C) == 0
        assert host.load(0x14) == 0
        assert host.load(0x28) == 0
        host.enable()
        assert host.drive.counters.power_cuts == 1


def test_power_cut_may_spare_some() -> None:
    survivors = []
    for seed in (1, 1, 2):
        with running(small(volatile_cache=VolatileCache.MODELLED)) as host:
            memory = host.allocate(PAGE)
            for lba in range(64):
                write_block(host, memory, lba, 200)
            host.drive.power_cut(seed=seed, survive=0.5)
            survivors.append([stored(host, lba) for lba in range(64)])
    assert survivors[0] == survivors[1] != survivors[2]
    assert 10 < survivors[0].count(200) < 54


def test_cache_switched_off_writes_through() -> None:
    with running(small(volatile_cache=VolatileCache.MODELLED)) as host:
        memory = host.allocate(PAGE)
        write_block(host, memory, 1, 1)
        assert host.admin(sqe(0x09, dwords={10: 6, 11: 0})).status == OK
        write_block(host, memory, 2, 2)
        host.drive.power_cut()
        assert [stored(host, lba) for lba in (1, 2)] == [1, 2]


def test_shutdown_and_full_cache_are_durable() -> None:
    with running(small(volatile_cache=VolatileCache.MODELLED, cache_bytes=4096)) as host:
        memory = host.allocate(PAGE)
        for lba in range(9):
            write_block(host, memory, lba, 100 + lba)
        host.drive.power_cut()
        assert [stored(host, lba) for lba in range(9)] == [*range(100, 108), 0]
        host.enable()
        host.set_queue_count(1)
        host.create_pair(1, 16)
        write_block(host, memory, 20, 20)
        host.store(0x14, host.load(0x14) | 1 << 14)
        assert host.wait(lambda: host.load(0x1C) >> 2 & 3 == 2)
        host.drive.power_cut()
        assert stored(host, 20) == 20
