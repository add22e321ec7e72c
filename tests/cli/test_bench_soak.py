"""``bench soak``: sums come out, boundaries are passed, it goes on where it stood, and a leak is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tutti_hal.bench import soak as module
from tutti_hal.bench.soak import Life, plan
from tutti_hal.cli.main import main
from tutti_hal.errors import BenchError

pytestmark = pytest.mark.ring

SMALL = ["bench", "soak", "--profile", "host", "--commands", "32768", "--slice", "8192"]


def test_the_plan_has_as_many_commands_and_passes_every_boundary() -> None:
    slices = plan(100_000_000)
    assert 100_000_000 <= sum(one.commands for one in slices) < 100_000_000 + 4096
    for name, edge in (("2^32", 1 << 32), ("2^48", 1 << 48)):
        ours = [one for one in slices if one.start == name]
        assert ours
        assert all(one.first_ticket < edge < one.first_ticket + one.commands for one in ours)
    last = [one for one in slices if one.start == "2^63"]
    assert last
    assert all(0 < (1 << 63) - one.first_ticket - one.commands <= 4096 for one in last)
    assert {one.depth for one in slices} == set(module._DEPTHS)


def test_it_goes_on_where_it_stood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "soak.json"
    assert main([*SMALL, "--json", "--state", str(state)]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["commands"], first["complete"], first["starts"]) == (32768, True, ["2^32", "2^48", "2^63", "young"])
    table = json.loads(state.read_text())
    table["lives"] = table["lives"][:3]
    state.write_text(json.dumps(table))
    assert main([*SMALL, "--json", "--state", str(state)]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["lives"][:3] == first["lives"][:3]
    assert again["lives"][3]["slice"] == first["lives"][3]["slice"]
    assert again["complete"]


def test_another_soak_is_not_gone_on_with(tmp_path: Path) -> None:
    state = tmp_path / "soak.json"
    state.write_text('{"format": 1, "slices": [], "lives": []}')
    assert main([*SMALL, "--state", str(state)]) != 0


def test_a_sum_that_is_off_by_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = plan(8192, 8192)[0]
    short = replace(asked, commands=asked.commands - 1)
    sums = module._check_sums
    monkeypatch.setattr(module, "_check_sums", lambda _, ring, controller: sums(short, ring, controller))
    from tutti_hal.profile import select

    with pytest.raises(BenchError, match="tickets: 8192, and it must be 8191"):
        module.soak(select("host"), (asked,))


def test_an_identifier_that_is_lost_is_noticed() -> None:
    import numpy as np

    asked = plan(8192, 8192)[0]
    module._check_identifiers(asked, 7, np.arange(7, dtype=np.uint32) + 8)
    with pytest.raises(BenchError, match="6 of 7"):
        module._check_identifiers(asked, 7, np.arange(6, dtype=np.uint32) + 8)


@pytest.mark.parametrize(("field", "more"), [("resident_bytes", 32 << 20), ("descriptors", 1)])
def test_a_process_that_grows_is_noticed(field: str, more: int) -> None:
    life = Life(plan(8192)[0], 1.0, 1.0, 100 << 20, 10)
    module._check_growth([life] * 20)
    with pytest.raises(BenchError):
        module._check_growth([life] * 20 + [replace(life, **{field: getattr(life, field) + more})])
