"""``bench storage``: its figures are there, each beside its baseline."""

from __future__ import annotations

import json

import pytest

from tutti_hal.cli.main import main

pytestmark = pytest.mark.storage


def test_the_verb_tells_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "storage", "--profile", "host", "--files", "130", "--rounds", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["machine"]["cpus"] >= 1
    (opens,) = told["opens"]
    assert opens["files"] == 130
    assert "not_run" in opens or opens["loop_over_batch"] == opens["open_loop_ms"] / opens["open_batch_ms"]
    assert 0 < told["registration"]["part_us"] < 1000
    assert told["submit"]["requests"] == 4096
    assert told["throughput"]["runtime_over_ring"] > 0
