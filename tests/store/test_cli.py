"""``tutti-hal store``: what it says of sound stores and of others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tutti_hal.cli.main import main
from tutti_hal.store import FileDevice, FormatOptions, Store

pytestmark = pytest.mark.storage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    path.write_bytes(bytes(300 * 512))
    with FileDevice(path, block_bytes=512) as device:
        Store.format(device, FormatOptions(segment_bytes=16 * 512, objects=40, key_limit=64))
    with Store.open(FileDevice(path)) as store:
        store.put_many([("plain", b"p" * 1000), (b"\xff\x00", b"q" * 10)])
        store.put("gone", b"g")
        store.delete(["gone"])
    return path


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, object]]:
    code = main(["store", *argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_ls_and_stat(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = path.read_bytes()
    code, listing = said(capsys, "ls", str(path))
    assert code == 0
    assert [(row["key"], row["bytes"]) for row in listing["objects"]] == [("plain", 1000), ("0xff00", 10)]  # type: ignore[index, union-attr, attr-defined]
    code, status = said(capsys, "stat", str(path), "--scan")
    assert (code, status["objects"], status["object_bytes"], status["remembered"]) == (0, 2, 1010, 1)
    assert main(["store", "stat", str(path)]) == 0
    assert main(["store", "ls", str(path)]) == 0
    assert "2 objects, 1010 bytes" in capsys.readouterr().out
    assert path.read_bytes() == before


def test_fsck(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = said(capsys, "fsck", str(path))
    assert (code, report["sound"], report["objects"]) == (0, True, 2)
    data = bytearray(path.read_bytes())
    data[data.index(b"p" * 1000) + 7] ^= 1
    path.write_bytes(data)
    code, report = said(capsys, "fsck", str(path))
    assert (code, report["sound"]) == (1, False)
    assert "plain" in str(report["findings"])
    assert main(["store", "fsck", str(path)]) == 1
    assert "NOT sound" in capsys.readouterr().out


def test_fsck_of_a_broken_record_and_of_broken_checkpoints(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = path.read_bytes()
    data = bytearray(sound)
    data[data.index(b"TTOBJECT") + 40] ^= 1
    path.write_bytes(data)
    code, report = said(capsys, "fsck", str(path))
    assert code == 1
    assert "differ" in str(report["findings"])
    data = bytearray(sound.replace(b"TTCHKPNT", b"........"))
    path.write_bytes(data)
    assert said(capsys, "fsck", str(path))[0] == 1
    code, report = said(capsys, "fsck", str(path), "--scan")
    assert (code, report["objects"], report["recovered_by"]) == (0, 2, "scan")


def test_refusals(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FileDevice(path):
        assert main(["store", "ls", str(path)]) == 1
        assert "TT-STORE-LOCKED" in capsys.readouterr().err
    (tmp_path / "empty").write_bytes(bytes(8192))
    assert main(["store", "ls", str(tmp_path / "empty")]) == 1
    assert "TT-STORE-ABSENT" in capsys.readouterr().err
    data = np.frombuffer(bytearray(path.read_bytes()), np.uint8)
    for lba in (0, 299):
        data[lba * 512 + 8] = 9
    path.write_bytes(data.tobytes())
    assert main(["store", "fsck", str(path)]) == 1
    assert "version 9" in capsys.readouterr().err
