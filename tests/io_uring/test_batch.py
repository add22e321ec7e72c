"""Packing, splitting, refusing; merging completions. The expected rows are worked out here, request by request."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.errors import BatchFull, BufferInvalid, LbaOutOfRange, NamespaceAbsent, RequestInvalid
from tutti_hal.io_uring.batch import Batch, RegisteredBuffer, Target
from tutti_hal.io_uring.completion import succeeded
from tutti_hal.io_uring.layout import Access, State, dtype

pytestmark = pytest.mark.ring

BOTH = Access.DRIVE_READS | Access.DRIVE_WRITES
TARGET = Target(row=0, drive=0, nsid=3, block_bytes=512, blocks=1 << 33, max_blocks=8)
BUFFER = RegisteredBuffer(row=0, address=0x1000, nbytes=1 << 20, access=BOTH)


def batch(limit: int = 64, target: Target = TARGET, buffer: RegisteredBuffer = BUFFER) -> tuple[Batch, np.ndarray]:
    rows = np.zeros(limit, dtype("ring_request"))
    rows.view(np.uint8)[:] = 0xA5  # what an earlier batch left
    return Batch([target], [buffer], rows), rows


def test_one_read_is_one_row() -> None:
    it, rows = batch()
    assert it.read(TARGET, (1 << 32) + 7, 1024, BUFFER, 4096) == range(1)
    row = rows[0]
    assert (row["opcode"], row["target"], row["block_count"], row["first_lba"]) == (2, 0, 2, (1 << 32) + 7)
    assert (row["buffer"], row["buffer_offset"], row["command_bits"], row["queue_class"]) == (0, 4096, 0, 0)


def test_force_unit_access_is_bit_30() -> None:
    it, rows = batch()
    it.write(TARGET, 0, 512, BUFFER, 0, force_unit_access=True)
    assert rows[0]["opcode"] == 1
    assert rows[0]["command_bits"] == 0x40000000


def test_write_zeroes_names_blocks_and_no_buffer() -> None:
    it, rows = batch()
    it.write_zeroes(TARGET, 5, 512 * 9)
    assert [(int(r["opcode"]), int(r["first_lba"]), int(r["block_count"])) for r in rows[:2]] == [(8, 5, 8), (8, 13, 1)]
    assert not rows[:2]["buffer"].any()


def test_a_class_has_queues_or_is_refused() -> None:
    rows = np.zeros(4, dtype("ring_request"))
    it = Batch([TARGET], [BUFFER], rows, classes=(2, 0, 1))
    it.read(TARGET, 0, 512, BUFFER, 0, queue_class=2)
    assert rows[0]["queue_class"] == 2
    for bad in (1, 3, -1):
        with pytest.raises(RequestInvalid):
            it.flush(TARGET, queue_class=bad)


def test_flush_moves_nothing() -> None:
    it, rows = batch()
    it.flush(TARGET)
    assert bytes(rows[0].tobytes()) == bytes(32)


@given(
    requests=st.lists(
        st.tuples(st.integers(0, 1000), st.integers(1, 40), st.integers(0, 1000)), min_size=1, max_size=8
    ),
    most=st.integers(1, 9),
)
def test_split_covers_each_request_exactly_once(requests: list[tuple[int, int, int]], most: int) -> None:
    target = Target(row=0, drive=0, nsid=1, block_bytes=512, blocks=2000, max_blocks=most)
    it, rows = batch(512, target)
    lba, count, dword = (np.array(column) for column in zip(*requests, strict=True))
    assert it.read(target, lba, count * 512, BUFFER, dword * 4) == range(len(requests))
    expected = []
    for first, blocks, offset in requests:
        done = 0
        while done < blocks:
            n = min(most, blocks - done)
            expected.append((first + done, n, offset * 4 + done * 512))
            done += n
    got = [(int(r["first_lba"]), int(r["block_count"]), int(r["buffer_offset"])) for r in rows[: it.command_count]]
    assert got == expected


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (RequestInvalid, (0, 0, 0)),
        (RequestInvalid, (0, 511, 0)),
        (RequestInvalid, (0, 513, 0)),
        (RequestInvalid, (0, 512, 2)),
        (RequestInvalid, (-1, 512, 0)),
        (RequestInvalid, (0.5, 512, 0)),
        (RequestInvalid, (1 << 64, 512, 0)),
        (LbaOutOfRange, (1 << 33, 512, 0)),
        (LbaOutOfRange, ((1 << 33) - 1, 1024, 0)),
        (LbaOutOfRange, ((1 << 64) - 1, 512, 0)),
        (LbaOutOfRange, (0, 512 * ((1 << 33) + 1), 0)),
        (BufferInvalid, (0, (1 << 20) + 512, 0)),
        (BufferInvalid, (0, 512, 1 << 20)),
        (BufferInvalid, (0, 1024, (1 << 20) - 512)),
        (BufferInvalid, (0, 512, (1 << 64) - 4)),
        (BatchFull, (0, 512 * 8 * 65, 0)),
    ],
)
def test_refuses_and_adds_nothing(error: type[Exception], arguments: tuple[int, int, int]) -> None:
    it, rows = batch()
    before = rows.tobytes()
    with pytest.raises(error):
        it.read(TARGET, arguments[0], arguments[1], BUFFER, arguments[2])
    assert (len(it), it.command_count, rows.tobytes()) == (0, 0, before)


def test_the_last_block_and_the_last_byte_are_usable() -> None:
    it, _ = batch()
    it.read(TARGET, (1 << 33) - 1, 512, BUFFER, (1 << 20) - 512)
    assert it.command_count == 1


def test_refuses_a_buffer_that_is_not_registered() -> None:
    it, _ = batch()
    stale = RegisteredBuffer(row=0, address=0x9000, nbytes=4096, access=BOTH)
    with pytest.raises(BufferInvalid, match="not registered"):
        it.read(TARGET, 0, 512, stale, 0)
    reads_only = RegisteredBuffer(row=0, address=0x1000, nbytes=4096, access=Access.DRIVE_READS)
    only, _ = batch(buffer=reads_only)
    only.write(TARGET, 0, 512, reads_only, 0)
    with pytest.raises(BufferInvalid, match="alone"):
        only.read(TARGET, 0, 512, reads_only, 0)


def test_refuses_a_target_of_another_ring() -> None:
    it, _ = batch()
    other = Target(row=0, drive=0, nsid=9, block_bytes=512, blocks=8, max_blocks=8)
    with pytest.raises(NamespaceAbsent):
        it.flush(other)


# ---- requests for many targets in one call ----

#: Each bounds requests in its own way, and none of their rows is their drive or namespace.
SMALL = Target(row=0, drive=2, nsid=4, block_bytes=512, blocks=100, max_blocks=4)
LARGE = Target(row=1, drive=0, nsid=7, block_bytes=4096, blocks=1000, max_blocks=2)
SKEWED = Target(row=2, drive=1, nsid=1, block_bytes=520, blocks=50, max_blocks=3)
MANY = (SMALL, LARGE, SKEWED)


def mixed(limit: int = 64) -> tuple[Batch, np.ndarray]:
    rows = np.zeros(limit, dtype("ring_request"))
    rows.view(np.uint8)[:] = 0xA5
    return Batch(MANY, [BUFFER], rows), rows


@given(
    requests=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(1, 9), st.integers(0, 1000)),
        min_size=1,
        max_size=10,
    )
)
def test_many_targets_in_one_call_are_the_rows_of_one_call_each(requests: list[tuple[int, int, int, int]]) -> None:
    """The oracle calls once for each request, with its target alone."""
    one_each, expected = mixed(256)
    for row, lba, count, dword in requests:
        one_each.read(MANY[row], lba, count * MANY[row].block_bytes, BUFFER, dword * 4)
    it, rows = mixed(256)
    row, lba, count, dword = (np.array(column) for column in zip(*requests, strict=True))
    nbytes = count * np.array([target.block_bytes for target in MANY])[row]
    assert it.read(row, lba, nbytes, BUFFER, dword * 4) == range(len(requests))
    assert rows.tobytes() == expected.tobytes()
    assert it.command_count == one_each.command_count
    results = np.zeros(it.command_count, dtype("ring_status"))
    results["code"] = code(2)
    assert (it.completions(results) == one_each.completions(results)).all()


def test_many_targets_split_each_at_its_own_limit() -> None:
    it, rows = mixed()
    it.write([1, 2, 0], [5, 6, 7], [3 * 4096, 3 * 520, 5 * 512], BUFFER, [0, 1 << 16, 1 << 17])
    names = ("target", "first_lba", "block_count", "buffer_offset")
    assert [tuple(int(row[name]) for name in names) for row in rows[: it.command_count]] == [
        (1, 5, 2, 0),
        (1, 7, 1, 8192),
        (2, 6, 3, 1 << 16),
        (0, 7, 4, 1 << 17),
        (0, 11, 1, (1 << 17) + 2048),
    ]


def test_one_request_for_each_target() -> None:
    it, rows = mixed()
    it.write_zeroes(np.arange(3), 1, [512, 4096, 520])
    assert rows["target"][:3].tolist() == [0, 1, 2]
    assert it.read(np.uint8(2), 0, 520, BUFFER, 0) == range(3, 4)
    assert rows["target"][3] == 2


@pytest.mark.parametrize(
    ("error", "said", "target", "lba", "nbytes", "offset"),
    [
        (NamespaceAbsent, "request 1 names target 3 of a ring that has 3", [0, 3], 0, 512, 0),
        (NamespaceAbsent, "request 0 names target 9", 9, 0, 512, 0),
        (RequestInvalid, "target has -1", [0, -1], 0, 512, 0),
        (RequestInvalid, "target has type float64", [0.0, 1.0], 0, 512, 0),
        (RequestInvalid, "shapes", [0, 1], [0, 0, 0], 512, 0),
        (RequestInvalid, r"request 1, for namespace 7 of drive 0, has 512 bytes.*4096", [0, 1], 0, 512, 0),
        (RequestInvalid, r"request 2, for namespace 1 of drive 1, has 512 bytes.*520", [0, 0, 2], 0, 512, 0),
        (RequestInvalid, r"request 1, for namespace 7 of drive 0, has offset 2", [0, 1], 0, [512, 4096], [0, 2]),
        (
            LbaOutOfRange,
            r"request 1, for namespace 4 of drive 2, takes 1 .* 100\..* has 100",
            [1, 0],
            100,
            [4096, 512],
            0,
        ),
        (BufferInvalid, r"request 1, for namespace 7 of drive 0, takes 8192", [0, 1], 0, [512, 8192], (1 << 20) - 4096),
        (BatchFull, "commands", [0, 1], 0, [512, 130 * 4096], 0),
    ],
)
def test_many_targets_refuse_and_add_nothing(
    error: type[Exception], said: str, target: object, lba: object, nbytes: object, offset: object
) -> None:
    it, rows = mixed()
    before = rows.tobytes()
    with pytest.raises(error, match=said):
        it.read(target, lba, nbytes, BUFFER, offset)
    assert (len(it), it.command_count, rows.tobytes()) == (0, 0, before)


def code(state: int, field: int = 0) -> int:
    return state << 24 | field


@pytest.mark.parametrize(
    ("codes", "state", "sct", "sc", "dnr"),
    [
        ((code(2), code(2), code(2)), State.COMPLETED, 0, 0, 0),
        ((code(2), code(2, 0x4281), code(2)), State.COMPLETED, 2, 0x81, 1),
        ((code(2, 0x281), code(2), code(2, 0x80)), State.COMPLETED, 2, 0x81, 0),
        ((code(2, 0x4281), code(3), code(2)), State.TIMED_OUT, 0, 0, 0),
        ((code(2), code(0, 1), code(0, 1)), State.NOT_RUN, 0, 0, 0),
    ],
)
def test_a_split_request_is_as_bad_as_its_worst_command(
    codes: tuple[int, ...], state: int, sct: int, sc: int, dnr: int
) -> None:
    it, _ = batch()
    it.read(TARGET, 0, 512, BUFFER, 0)
    it.read(TARGET, 0, 512 * 8 * len(codes), BUFFER, 0)
    results = np.zeros(1 + len(codes), dtype("ring_status"))
    results["code"] = (code(2), *codes)
    results["submitted_ns"] = (5, 30, 20, 40)
    results["completed_ns"] = (6, 90, 80, 70)
    done = it.completions(results)
    assert (done["state"][0], done["sc"][0], done["commands"][0]) == (State.COMPLETED, 0, 1)
    last = done[1]
    assert (last["state"], last["sct"], last["sc"], last["dnr"]) == (state, sct, sc, dnr)
    assert (last["submitted_ns"], last["completed_ns"], last["commands"]) == (20, 90, 3)
    assert list(succeeded(done)) == [True, state == State.COMPLETED and sc == 0]


def test_status_that_only_advises_is_no_failure() -> None:
    it, _ = batch()
    it.read(TARGET, 0, 512, BUFFER, 0)
    results = np.zeros(1, dtype("ring_status"))
    results["code"] = code(2, 1 << 13)
    assert list(succeeded(it.completions(results))) == [True]
