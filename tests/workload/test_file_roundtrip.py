"""Files through drives and back, over the in-memory fake."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.workload.fakes import FakeTransport
from tutti_hal.errors import FileError, TransportError
from tutti_hal.workload.file_roundtrip import default_target, round_trip
from tutti_hal.workload.transport import Direction

CHUNK = 32 * 1024
DRIVE = 2 * CHUNK


def _source(tmp_path: Path, size: int) -> Path:
    path = tmp_path / "source.bin"
    path.write_bytes(np.random.default_rng(size).bytes(size))
    return path


@pytest.mark.parametrize("size", [1, 511, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 6 * CHUNK, 6 * CHUNK + 1, 20 * CHUNK + 7])
def test_every_size_comes_back_the_same(tmp_path: Path, size: int) -> None:
    source = _source(tmp_path, size)
    transport = FakeTransport(3, DRIVE, 6 * CHUNK)
    done: list[int] = []
    trip = round_trip(source, default_target(source), transport, DRIVE, progress=done.append)
    copy = tmp_path / "source.bin.roundtrip"
    assert trip.verified
    assert trip.size == size == sum(done)
    assert copy.read_bytes() == source.read_bytes()
    assert trip.target_sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert sum(transport.read) == sum(transport.written) >= size
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source.bin", "source.bin.roundtrip"]


def test_a_flipped_byte_is_named_and_no_wrong_copy_is_left(tmp_path: Path) -> None:
    source = _source(tmp_path, 9 * CHUNK)
    transport = FakeTransport(3, DRIVE, 6 * CHUNK)

    def spoil(window: int, length: int, places: list[tuple[int, int, int]]) -> None:
        if window == 1:
            assert length == 3 * CHUNK
            drive, offset, _ = places[2]
            transport.media[drive][offset + 99] ^= 1

    trip = round_trip(source, default_target(source), transport, DRIVE, before_read=spoil)
    assert not trip.verified
    assert [(m.file_offset, m.drive, m.drive_offset, m.first_byte) for m in trip.mismatches] == [
        (8 * CHUNK + 99, 2, 0, 99)
    ]
    assert not default_target(source).exists()
    assert [p.name for p in tmp_path.iterdir()] == ["source.bin"]


def test_reads_that_do_nothing_are_found(tmp_path: Path) -> None:
    source = _source(tmp_path, 5)
    transport = FakeTransport(1, DRIVE, CHUNK)
    moved = transport.move
    transport.move = lambda d, t: None if d is Direction.READ else moved(d, t)  # type: ignore[method-assign]
    assert not round_trip(source, default_target(source), transport, DRIVE).verified


def test_an_older_copy_is_replaced_whole_or_kept(tmp_path: Path) -> None:
    source = _source(tmp_path, CHUNK)
    target = default_target(source)
    target.write_text("older")
    transport = FakeTransport(1, DRIVE, CHUNK)
    transport.refuse = lambda direction, _drive: direction is Direction.READ
    with pytest.raises(TransportError):
        round_trip(source, target, transport, DRIVE)
    assert target.read_text() == "older"
    transport.refuse = lambda _direction, _drive: False
    assert round_trip(source, target, transport, DRIVE).verified
    assert target.read_bytes() == source.read_bytes()


def test_ctrl_c_leaves_no_part_of_a_copy(tmp_path: Path) -> None:
    source = _source(tmp_path, CHUNK)

    def interrupt(_window: int, _length: int, _places: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        round_trip(source, default_target(source), FakeTransport(1, DRIVE, CHUNK), DRIVE, before_read=interrupt)
    assert [p.name for p in tmp_path.iterdir()] == ["source.bin"]


@pytest.mark.parametrize(
    ("make", "target", "found"),
    [
        (lambda _: None, "t", "no such file"),
        (lambda p: p.mkdir(), "t", "not a regular file"),
        (lambda p: p.touch(), "t", "empty"),
        (lambda p: p.write_text("x"), "source.bin", "the source itself"),
        (lambda p: p.write_text("x"), ".", "directory"),
        (lambda p: p.write_text("x"), "absent/t", "No such file"),
    ],
)
def test_files_that_cannot_be_sent_are_refused(tmp_path: Path, make: object, target: str, found: str) -> None:
    source = tmp_path / "source.bin"
    make(source)  # type: ignore[operator]
    with pytest.raises(FileError) as caught:
        round_trip(source, tmp_path / target, FakeTransport(1, DRIVE, CHUNK), DRIVE)
    assert found in caught.value.found
