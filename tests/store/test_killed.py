"""Processes that are killed at random, and the store that the next one finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from killed import value_of

from tutti_hal.store import FileDevice, FormatOptions, Store
from tutti_hal.store.fsck import fsck

pytestmark = [pytest.mark.crash, pytest.mark.storage]

#: `make nightly` sets it to the issue's own number.
KILLS = int(os.environ.get("TUTTI_STORE_KILLS", "20"))


def kill_next(killer: subprocess.Popen[str]) -> list[str]:
    """What the next process said until it was killed, a whole line each."""
    assert killer.stdin is not None
    assert killer.stdout is not None
    killer.stdin.write("\n")
    killer.stdin.flush()
    lines = []
    while (line := killer.stdout.readline().rstrip("\n")) != "killed":
        assert line, "the killer itself ended"
        lines.append(line)
    return lines


@pytest.mark.timeout(120 + 5 * KILLS)
def test_a_store_outlives_kill_9(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "store"
    path.write_bytes(bytes(256 * 1024))
    with FileDevice(path, block_bytes=512) as device:
        Store.format(device, FormatOptions(segment_bytes=16 * 1024, objects=64, key_limit=64))
    known: dict[int, set[int | None]] = {key: {None} for key in range(8)}  # turns that may be found
    calls = 0
    script = Path(__file__).with_name("killed.py")
    killer = subprocess.Popen(
        [sys.executable, str(script), str(path), str(KILLS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    for _ in range(KILLS):
        lines = kill_next(killer)
        key, turn = -1, None
        for line in lines:
            if line == "end":
                known[key] = {turn}
                calls += 1
                continue
            key, turn = int(line.split()[1]), int(line.split()[2]) if not line.endswith("-1") else None
            known[key] = known[key] | {turn}
        with FileDevice(path) as device:
            assert fsck(device).sound
            store = Store.open(device)
            for key, turns in known.items():
                values = {None if turn is None else value_of(key, turn): turn for turn in turns}
                found = store.get(f"{key}") if f"{key}" in store else None
                assert found in values
                known[key] = {values[found]}
    killer.communicate(timeout=30)
    with capsys.disabled():
        print(f"\nkill -9: {KILLS} processes, {calls} acknowledged calls, none lost")
    assert calls > KILLS
