"""PRPs and SGLs: what is taken, what is refused, and that bytes go where the specification says."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterator

import pytest
from host import Host, Memory, pattern, running, small
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti_hal.conformance_tests.oracle.nvme import (
    DATA_TRANSFER,
    INVALID_FIELD,
    OK,
    PAGE,
    PRP_OFFSET,
    SGL_COUNT,
    SGL_DATA_LENGTH,
    SGL_GRANULARITY,
    SGL_METADATA_LENGTH,
    SGL_SEGMENT,
    SGL_TYPE,
    block_descriptor,
    rw,
)

WRITE, READ = 1, 2
ALL_SGLS = 0x000F0001
BLOCKS = 4096


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with running(small(mdts=0, sgls=ALL_SGLS)) as running_host:
        running_host.drive.write_stored(1, 0, pattern(BLOCKS * 512, 5))
        yield running_host


def stored(host: Host, slba: int, nbytes: int) -> bytes:
    return host.drive.read_stored(1, slba * 512, nbytes)


# ---- PRP ----


def prp_list(memory: Memory, start: int, entries: list[int]) -> int:
    """Writes a list that begins at byte `start` and goes on, page after page, in `memory`. Its bus address."""
    pages = memory.pages()
    first = memory.bus(start)
    page, at = divmod(start, PAGE)
    left = list(entries)
    while left:
        room = (PAGE - at) // 8
        if len(left) > room:
            chunk, left = [*left[: room - 1], pages[page + 1]], left[room - 1 :]
        else:
            chunk, left = left, []
        memory.put(page * PAGE + at, struct.pack(f"<{len(chunk)}Q", *chunk))
        page, at = page + 1, 0
    return first


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.integers(1, 1400),
    offset=st.integers(0, PAGE // 4 - 1).map(lambda words: words * 4),
    list_at=st.integers(0, PAGE // 8 - 1).map(lambda qwords: qwords * 8),
    slba=st.integers(0, BLOCKS - 1400),
    write=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_prps_reach_every_byte(
    host: Host, blocks: int, offset: int, list_at: int, slba: int, write: bool, seed: int
) -> None:
    """Any dword offset, any length, a list that starts anywhere in its page and chains."""
    nbytes = blocks * 512
    count = (offset + nbytes + PAGE - 1) // PAGE
    memory, lists = host.allocate((count + 2) * PAGE), host.allocate(6 * PAGE)
    order = list(range(count + 2))
    random.Random(seed).shuffle(order)
    order = order[:count]
    pages = memory.pages()
    used = [pages[i] for i in order]
    prp2 = 0 if count == 1 else used[1] if count == 2 else prp_list(lists, list_at, used[1:])

    def spread(data: bytes) -> None:
        left, at = data, offset
        for i in order:
            part, left = left[: PAGE - at], left[PAGE - at :]
            memory.put(i * PAGE + at, part)
            at = 0

    def gather() -> bytes:
        whole = b"".join(memory.get(i * PAGE, PAGE) for i in order)
        return whole[offset : offset + nbytes]

    memory.put(0, b"\xcc" * memory.nbytes)
    if write:
        data = pattern(nbytes, seed)
        spread(data)
        before = memory.get(0, memory.nbytes)
        assert host.io(rw(WRITE, slba, blocks, prp1=used[0] + offset, prp2=prp2)).status == OK
        assert stored(host, slba, nbytes) == data
        assert memory.get(0, memory.nbytes) == before
    else:
        assert host.io(rw(READ, slba, blocks, prp1=used[0] + offset, prp2=prp2)).status == OK
        assert gather() == stored(host, slba, nbytes)
        touched = sum(1 for byte in memory.view if byte == 0xCC)
        assert touched >= memory.nbytes - nbytes  # nothing outside the transfer
        outside = [i for i in range(count + 2) if i not in order]
        assert all(memory.get(i * PAGE, PAGE) == b"\xcc" * PAGE for i in outside)
        assert memory.get(order[0] * PAGE, offset) == b"\xcc" * offset
    for used_memory in (memory, lists):
        used_memory.close()
        host.memory.remove(used_memory)


def test_prp_refusals(host: Host) -> None:
    memory, lists = host.allocate(8 * PAGE), host.allocate(2 * PAGE)
    pages = memory.pages()

    def status(blocks: int, prp1: int, prp2: int = 0) -> tuple[int, int]:
        return host.io(rw(READ, 0, blocks, prp1=prp1, prp2=prp2)).status

    assert [status(1, pages[0] + bad) for bad in (1, 2, 3)] == [PRP_OFFSET] * 3
    assert status(1, pages[0] + 4) == OK
    assert status(1, 0) == INVALID_FIELD
    assert status(8, pages[0], 0xDEAD) == OK  # PRP2 is not used
    assert status(8, pages[0] + 4, 0) == INVALID_FIELD
    assert status(8, pages[0] + 4, pages[1]) == OK
    assert status(16, pages[0], pages[1]) == OK
    assert status(16, pages[0], pages[1] + 4) == PRP_OFFSET
    # offset + length = two pages and a bit: a list, although only 8192 bytes move
    lists.put(0, struct.pack("<2Q", pages[1], pages[2]))
    assert status(16, pages[0] + 4, lists.bus(0)) == OK
    assert status(16, pages[0] + 4, lists.bus(0) + 4) == PRP_OFFSET
    assert status(16, pages[0] + 4, 0x9000) == DATA_TRANSFER
    lists.put(0, struct.pack("<2Q", pages[1], pages[2] + 8))
    assert status(16, pages[0] + 4, lists.bus(0)) == PRP_OFFSET
    lists.put(0, struct.pack("<2Q", pages[1], 0))
    assert status(16, pages[0] + 4, lists.bus(0)) == INVALID_FIELD
    lists.put(0, struct.pack("<2Q", pages[1], 0x9000))
    assert status(16, pages[0] + 4, lists.bus(0)) == DATA_TRANSFER
    # entries that fill their page to its end: the last one is data, no pointer
    lists.put(PAGE - 16, struct.pack("<2Q", pages[1], pages[2]))
    memory.put(0, bytes(3 * PAGE))
    assert status(16, pages[0] + 4, lists.bus(PAGE - 16)) == OK
    assert memory.get(2 * PAGE, 4) == stored(host, 15, 512)[-4:]
    # a chain pointer with an offset, and one that leads nowhere
    lists.put(PAGE - 16, struct.pack("<2Q", pages[1], lists.pages()[1] + 8))
    assert status(24, pages[0] + 4, lists.bus(PAGE - 16)) == PRP_OFFSET
    lists.put(PAGE - 16, struct.pack("<2Q", pages[1], 0x9000))
    assert status(24, pages[0] + 4, lists.bus(PAGE - 16)) == DATA_TRANSFER


# ---- SGL ----


def sgl_io(host: Host, opcode: int, blocks: int, descriptor: bytes, slba: int = 0) -> tuple[int, int]:
    return host.io(rw(opcode, slba, blocks, psdt=1, sgl=descriptor)).status


class Chain:
    """Descriptors in memory, in segments."""

    def __init__(self, host: Host) -> None:
        self.memory = host.allocate(16 * PAGE, contiguous=True)
        self._at = 0

    def segment(self, entries: list[bytes]) -> tuple[int, int]:
        """(bus address, bytes) of one segment."""
        data = b"".join(entries)
        at = self._at
        self.memory.put(at, data)
        self._at += len(data) + 16
        return self.memory.bus(at), len(data)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), blocks=st.integers(1, 64), write=st.booleans(), seed=st.integers(0, 1000))
def test_sgls_reach_every_byte(host: Host, data: st.DataObject, blocks: int, write: bool, seed: int) -> None:
    """Any cut into pieces at any byte address, empty ones too, in any cut into segments."""
    nbytes = blocks * 512
    cuts = sorted(data.draw(st.lists(st.integers(0, nbytes), max_size=20)))
    lengths = [b - a for a, b in itertools.pairwise([0, *cuts, nbytes])]
    buckets = [not write and data.draw(st.integers(0, 5)) == 0 for _ in lengths]
    memory = host.allocate(2 * nbytes + 40 * 8, contiguous=True)
    memory.put(0, b"\xcc" * memory.nbytes)
    places, at = [], 0
    for length in lengths:
        at += data.draw(st.integers(0, 7))
        places.append(at)
        at += length
    kinds = [1 if bucket else 0 for bucket in buckets]
    entries = [
        block_descriptor(0 if kind else memory.bus(place), length, kind)
        for place, length, kind in zip(places, lengths, kinds, strict=True)
    ]
    chain = Chain(host)
    if len(entries) == 1 and data.draw(st.booleans()):
        first = entries[0]
    else:
        rest, kind = entries, 3
        tail = data.draw(st.integers(1, len(rest)))
        address, length = chain.segment(rest[-tail:])
        rest = rest[:-tail]
        first = block_descriptor(address, length, kind)
        while rest:
            tail = data.draw(st.integers(1, len(rest)))
            address, length = chain.segment([*rest[-tail:], first])
            rest = rest[:-tail]
            first = block_descriptor(address, length, 2)
    if write:
        content = pattern(nbytes, seed)
        at = 0
        for place, length in zip(places, lengths, strict=True):
            memory.put(place, content[at : at + length])
            at += length
        assert sgl_io(host, WRITE, blocks, first) == OK
        assert stored(host, 0, nbytes) == content
    else:
        assert sgl_io(host, READ, blocks, first) == OK
        content = stored(host, 0, nbytes)
        wanted = bytearray(b"\xcc" * memory.nbytes)
        at = 0
        for place, length, bucket in zip(places, lengths, buckets, strict=True):
            if not bucket:
                wanted[place : place + length] = content[at : at + length]
            at += length
        assert memory.get(0, memory.nbytes) == wanted
    for used in (memory, chain.memory):
        used.close()
        host.memory.remove(used)


def test_sgl_types(host: Host) -> None:
    memory = host.allocate(PAGE, contiguous=True)
    bus = memory.bus(0)
    assert sgl_io(host, READ, 1, block_descriptor(bus, 512)) == OK
    for kind in (4, 5, 6, 7, 0xE, 0xF):
        assert sgl_io(host, READ, 1, block_descriptor(bus, 512, kind)) == SGL_TYPE, kind
    for subtype in (1, 0xA, 0xF):
        assert sgl_io(host, READ, 1, block_descriptor(bus, 512, 0, subtype)) == SGL_TYPE, subtype
    chain = Chain(host)
    inner = chain.segment([block_descriptor(bus, 512, 4)])
    assert sgl_io(host, READ, 1, block_descriptor(*inner, 3)) == SGL_TYPE


def test_sgl_segments(host: Host) -> None:
    memory = host.allocate(PAGE, contiguous=True)
    half = [block_descriptor(memory.bus(0), 256), block_descriptor(memory.bus(256), 256)]
    chain = Chain(host)
    address, length = chain.segment(half)
    assert sgl_io(host, READ, 1, block_descriptor(address, length, 3)) == OK
    for bad in (0, 8, 24, length + 1):
        assert sgl_io(host, READ, 1, block_descriptor(address, bad, 3)) == SGL_SEGMENT, bad
    assert sgl_io(host, READ, 1, block_descriptor(address + 4, 16, 3)) == SGL_SEGMENT
    assert sgl_io(host, READ, 1, block_descriptor(0x5000, 32, 3)) == DATA_TRANSFER
    assert sgl_io(host, READ, 1, block_descriptor(address, length, 2)) == SGL_SEGMENT  # names no next segment
    tail = block_descriptor(*chain.segment(half[1:]), 3)
    good = chain.segment([half[0], tail])
    assert sgl_io(host, READ, 1, block_descriptor(*good, 2)) == OK
    assert sgl_io(host, READ, 1, block_descriptor(*good, 3)) == SGL_SEGMENT  # the last one holds a segment
    early = chain.segment([half[0], tail, half[1]])
    assert sgl_io(host, READ, 1, block_descriptor(*early, 2)) == SGL_COUNT


def test_a_chain_that_bites_its_tail_ends(host: Host) -> None:
    chain = Chain(host)
    address = chain.memory.bus(0)
    chain.segment([block_descriptor(chain.memory.bus(PAGE), 0), block_descriptor(address, 32, 2)])
    assert sgl_io(host, READ, 1, block_descriptor(address, 32, 2)) == SGL_COUNT
    assert host.identify(1)[0].status == OK


def test_sgl_lengths(host: Host) -> None:
    memory = host.allocate(PAGE, contiguous=True)
    bus = memory.bus(0)
    assert sgl_io(host, READ, 2, block_descriptor(bus, 1023)) == SGL_DATA_LENGTH
    assert sgl_io(host, READ, 2, block_descriptor(bus, 0)) == SGL_DATA_LENGTH
    memory.put(0, b"\xcc" * PAGE)
    assert sgl_io(host, READ, 2, block_descriptor(bus, 1500)) == OK  # SGLS bit 18
    assert memory.get(1024, 476) == b"\xcc" * 476
    assert sgl_io(host, READ, 2, block_descriptor(2**64 - 512, 1024)) == SGL_DATA_LENGTH
    assert sgl_io(host, READ, 2, block_descriptor(0x5000, 1024)) == DATA_TRANSFER
    # A bucket takes the bytes of a read; a write passes it over.
    chain = Chain(host)
    both = chain.segment([block_descriptor(0, 512, 1), block_descriptor(bus, 512)])
    assert sgl_io(host, READ, 2, block_descriptor(*both, 3)) == OK
    assert memory.get(0, 512) == stored(host, 1, 512)
    assert sgl_io(host, WRITE, 1, block_descriptor(*both, 3), slba=9) == OK
    assert stored(host, 9, 512) == memory.get(0, 512)
    assert sgl_io(host, WRITE, 2, block_descriptor(*both, 3)) == SGL_DATA_LENGTH


@pytest.mark.parametrize("sgls", [0, 0x00000001, 0x00000002, 0x000B0001])
def test_what_sgls_does_not_declare_is_refused(sgls: int) -> None:
    with running(small(sgls=sgls)) as host:
        memory = host.allocate(PAGE, contiguous=True)
        bus = memory.bus(0)
        if sgls == 0:
            for psdt in (1, 2):
                cqe = host.io(rw(READ, 0, 1, psdt=psdt, sgl=block_descriptor(bus, 512)))
                assert cqe.status == INVALID_FIELD
            return
        assert sgl_io(host, READ, 1, block_descriptor(bus, 512)) == OK
        if not sgls >> 18 & 1:
            assert sgl_io(host, READ, 1, block_descriptor(bus, 516)) == SGL_DATA_LENGTH
        bucket = sgl_io(host, READ, 1, block_descriptor(0, 512, 1))
        assert bucket == (OK if sgls >> 16 & 1 else SGL_TYPE)
        if not sgls >> 19 & 1:
            assert host.io(rw(READ, 0, 1, psdt=2, sgl=block_descriptor(bus, 512))).status == INVALID_FIELD
        odd_address = sgl_io(host, READ, 1, block_descriptor(bus + 1, 512))
        chain = Chain(host)
        pieces = chain.segment([block_descriptor(bus, 510), block_descriptor(bus + 512, 2)])
        odd_length = sgl_io(host, READ, 1, block_descriptor(*pieces, 3))
        assert {odd_address, odd_length} == ({SGL_GRANULARITY} if sgls & 3 == 2 else {OK})


def test_metadata_by_sgl() -> None:
    config = small(sgls=ALL_SGLS, ns_metadata_bytes=8)
    with running(config) as host:
        data, extra = host.allocate(PAGE, contiguous=True), host.allocate(PAGE, contiguous=True)
        chain = Chain(host)
        content, metadata = pattern(1024, 1), pattern(16, 2)
        data.put(0, content)
        extra.put(1, metadata[:5])
        extra.put(100, metadata[5:])

        def io(opcode: int, descriptor: bytes, shift: int = 0) -> tuple[int, int]:
            address, _ = chain.segment([descriptor])
            command = rw(opcode, 0, 2, psdt=2, mptr=address + shift, sgl=block_descriptor(data.bus(0), 1024))
            return host.io(command).status

        pieces = chain.segment([block_descriptor(extra.bus(1), 5), block_descriptor(extra.bus(100), 11)])
        assert io(WRITE, block_descriptor(*pieces, 3)) == OK
        extra.put(0, bytes(PAGE))
        assert io(READ, block_descriptor(extra.bus(40), 16)) == OK
        assert extra.get(40, 16) == metadata
        assert io(READ, block_descriptor(extra.bus(40), 15)) == SGL_METADATA_LENGTH
        assert io(READ, block_descriptor(extra.bus(40), 16), shift=4) == INVALID_FIELD
        # PSDT 01: MPTR is a buffer, at any byte where SGLS bit 17 is set
        command = rw(READ, 0, 2, psdt=1, mptr=extra.bus(201), sgl=block_descriptor(data.bus(0), 1024))
        assert host.io(command).status == OK
        assert extra.get(201, 16) == metadata
        # ... and the last address of all is one like any other that is not mapped, not a place to throw bytes away
        for opcode in (READ, WRITE):
            command = rw(opcode, 0, 2, psdt=1, mptr=2**64 - 1, sgl=block_descriptor(data.bus(0), 1024))
            assert host.io(command).status == DATA_TRANSFER
