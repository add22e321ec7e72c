"""Protection information: what the controller makes, keeps, checks and refuses."""

from __future__ import annotations

import pytest
from host import pattern, running, small

from tutti_hal.conformance_tests.oracle.nvme import (
    COMPARE,
    DATASET,
    LBA_RANGE,
    OK,
    READ,
    VERIFY,
    WRITE,
    WRITE_ZEROES,
    rw,
    sqe,
)
from tutti_hal.conformance_tests.oracle.protection import (
    APPLICATION_CHECK,
    CHECK_APPLICATION,
    CHECK_GUARD,
    CHECK_REFERENCE,
    GUARD_CHECK,
    INVALID_PROTECTION,
    PRACT,
    REFERENCE_CHECK,
    guard_of,
    metadata_of,
    reference_of,
)

LBA, BLOCKS = 9, 4
ALL = CHECK_GUARD | CHECK_APPLICATION | CHECK_REFERENCE
TAG, MASK = 0xA55A, 0xFF0F


def tagged(
    opcode: int, flags: int = 0, *, kind: int = 1, lba: int = LBA, reference: int | None = None, **rest
) -> bytes:
    """A command over BLOCKS blocks with the tags of the tests in dwords 14 and 15."""
    entry = bytearray(rw(opcode, lba, BLOCKS, flags=flags, **rest))
    entry[56:60] = (reference_of(kind, lba) if reference is None else reference).to_bytes(4, "little")
    entry[60:64] = (TAG | MASK << 16).to_bytes(4, "little")
    return bytes(entry)


def checks(kind: int) -> int:
    return ALL & ~CHECK_REFERENCE if kind == 3 else ALL


def wanted_metadata(kind: int, data: bytes, size: int, other: bytes, first: bool, shift: int) -> bytes:
    rest = size - 8
    return b"".join(
        metadata_of(
            data[i << shift : i + 1 << shift],
            other[i * rest : (i + 1) * rest],
            TAG,
            reference_of(kind, LBA + i if kind != 3 else 0),
            first=first,
        )
        for i in range(BLOCKS)
    )


def test_the_guard_is_that_of_the_specification() -> None:
    assert guard_of(b"123456789") == 0xD0DB
    assert guard_of(bytes(32)) == 0
    assert guard_of(b"\xff" * 32) == 0xA293, "the T10 document's own example"


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("shift", [9, 12])
@pytest.mark.parametrize(("size", "first"), [(8, False), (64, False), (64, True)])
@pytest.mark.parametrize("inline", [False, True])
def test_made_by_host_and_by_drive(kind: int, shift: int, size: int, first: bool, inline: bool) -> None:
    config = small(
        ns_lba_shift=shift,
        ns_metadata_bytes=size,
        ns_metadata_inline=inline,
        ns_protection=kind,
        ns_protection_first=first,
    )
    data, other = pattern(BLOCKS << shift, 3), pattern(BLOCKS * (size - 8), 4)
    metadata = wanted_metadata(kind, data, size, other, first, shift)
    each = 1 << shift

    def interleaved(meta: bytes) -> bytes:
        return b"".join(data[i * each : (i + 1) * each] + meta[i * size : (i + 1) * size] for i in range(BLOCKS))

    with running(config) as host:
        memory, beside = host.allocate(32768), host.allocate(4096)
        listed = host.allocate(4096)

        def send(opcode: int, flags: int, sent: int) -> tuple[int, int]:
            pages = memory.pages()[: -(-sent // 4096)]
            listed.put(0, b"".join(page.to_bytes(8, "little") for page in pages[1:]))
            second = 0 if len(pages) < 2 else pages[1] if len(pages) == 2 else listed.bus()
            return host.io(
                tagged(opcode, flags, kind=kind, prp1=pages[0], prp2=second, mptr=0 if inline else beside.bus())
            ).status

        whole = interleaved(metadata) if inline else data
        for made in (False, True):
            host.drive.write_stored_metadata(1, 0, bytes(64 * size))
            stripped = made and size == 8
            # What the host sends where the drive makes it: garbage in its place.
            spoilt = bytes(b ^ 0x5A for b in metadata)
            if size > 8:
                place = 0 if first else size - 8
                spoilt = b"".join(
                    metadata[i * size : i * size + place]
                    + b"\x77" * 8
                    + metadata[i * size + place + 8 : (i + 1) * size]
                    for i in range(BLOCKS)
                )
            sent = data if stripped else interleaved(spoilt if made else metadata) if inline else data
            memory.put(0, sent)
            beside.put(0, spoilt if made else metadata)
            assert send(WRITE, PRACT if made else checks(kind), len(sent)) == OK
            assert host.drive.read_stored(1, LBA << shift, len(data)) == data
            assert host.drive.read_stored_metadata(1, LBA * size, len(metadata)) == metadata
            assert host.drive.read_stored_metadata(1, (LBA - 1) * size, size) == bytes(size)
            assert host.drive.read_stored_metadata(1, (LBA + BLOCKS) * size, size) == bytes(size)
            memory.put(0, bytes(len(whole)))
            beside.put(0, bytes(len(metadata)))
            assert send(READ, checks(kind), len(whole)) == OK
            assert memory.get(0, len(whole)) == whole
            assert inline or beside.get(0, len(metadata)) == metadata
            assert send(COMPARE, checks(kind), len(whole)) == OK
            assert send(VERIFY, checks(kind), 1) == OK
            memory.put(0, b"\xcc" * 32768)
            assert send(READ, PRACT | checks(kind), len(data) if size == 8 else len(whole)) == OK
            back = data if size == 8 else whole
            assert memory.get(0, len(back)) == back
            assert memory.get(len(back), 16) == b"\xcc" * 16


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_what_does_not_fit_is_said(kind: int) -> None:
    config = small(ns_metadata_bytes=8, ns_protection=kind)
    data = pattern(BLOCKS * 512, 5)
    metadata = wanted_metadata(kind, data, 8, b"", False, 9)
    wrong = {
        (CHECK_GUARD, 1): GUARD_CHECK,
        (CHECK_APPLICATION, 2): APPLICATION_CHECK,
        (CHECK_APPLICATION, 3): OK,  # a nibble that the mask leaves out
        **({} if kind == 3 else {(CHECK_REFERENCE, 7): REFERENCE_CHECK}),
    }
    with running(config) as host:
        memory, beside = host.allocate(4096), host.allocate(4096)

        def send(opcode: int, flags: int, **rest: int) -> tuple[int, int]:
            return host.io(tagged(opcode, flags, kind=kind, prp1=memory.bus(), mptr=beside.bus(), **rest)).status

        memory.put(0, data)
        for (check, byte), status in wrong.items():
            bad = bytearray(metadata)
            bad[2 * 8 + byte] ^= 0x10
            beside.put(0, bad)
            assert send(WRITE, check) == status
            assert send(WRITE, ALL & ~check & ~CHECK_REFERENCE) == OK, "the others find nothing"
            for opcode in (READ, VERIFY, COMPARE):
                assert send(opcode, check) == status
            memory.put(0, data)
        # Tuples that say so are not checked.
        free = b"\x12\x34\xff\xff" + (b"\xff" * 4 if kind == 3 else b"\x00" * 4)
        beside.put(0, free * BLOCKS)
        assert send(WRITE, checks(kind)) == OK
        assert send(READ, checks(kind)) == OK
        if kind == 1:
            assert send(READ, CHECK_REFERENCE, reference=LBA + 1) == INVALID_PROTECTION
        if kind == 3:
            assert send(READ, CHECK_REFERENCE) == INVALID_PROTECTION
            beside.put(0, b"\x12\x34\xff\xff\x00\x00\x00\x00" * BLOCKS)
            assert send(WRITE, CHECK_GUARD) == GUARD_CHECK


def test_zeroed_blocks_have_tuples_too() -> None:
    with running(small(ns_metadata_bytes=8, ns_protection=1)) as host:
        memory = host.allocate(4096)
        assert host.io(tagged(WRITE_ZEROES)).status == OK
        assert host.drive.read_stored_metadata(1, LBA * 8, 32) == b"\xff" * 32
        assert host.io(tagged(WRITE_ZEROES, PRACT)).status == OK
        made = wanted_metadata(1, bytes(BLOCKS * 512), 8, b"", False, 9)
        assert host.drive.read_stored_metadata(1, LBA * 8, 32) == made
        ranges = b"".join(
            (0).to_bytes(4, "little") + n.to_bytes(4, "little") + at.to_bytes(8, "little")
            for at, n in ((LBA, 1), (LBA + 2, 1))
        )
        memory.put(0, ranges)
        assert host.io(sqe(DATASET, nsid=1, prp1=memory.bus(), dwords={10: 1, 11: 4})).status == OK
        assert host.drive.read_stored_metadata(1, LBA * 8, 32) == b"\xff" * 8 + made[8:16] + b"\xff" * 8 + made[24:]
        assert host.io(rw(WRITE_ZEROES, 4095, 2)).status == LBA_RANGE
