"""``bench grid``: the ring beside the baseline ring, both over one controller that counts every command."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tutti_hal.bench import variants
from tutti_hal.bench.baseline import BaselineRing
from tutti_hal.bench.grid import GridLoad, measure_grid
from tutti_hal.cli.main import main
from tutti_hal.errors import BenchError
from tutti_hal.nvme.device_controller import DeviceController, DeviceControllerOptions
from tutti_hal.profile import select
from tutti_hal.shim import Device

pytestmark = pytest.mark.ring

QUICK = ["bench", "grid", "--profile", "host", "--lanes", "64", "--least", "512", "--rounds", "1", "--samples", "4"]
SECOND_NS = 1_000_000_000


@contextmanager
def baseline(
    folder: Path, profile: str, *, depth: int, queues: int = 2, blocks: int = 1024
) -> Iterator[tuple[DeviceController, BaselineRing]]:
    device = Device(profile)
    options = DeviceControllerOptions(threads=device.wave_width, queues=queues, null=True)
    with (
        DeviceController(device, blocks, options) as controller,
        BaselineRing(device, controller, queues=queues, depth=depth, folder=folder) as ring,
    ):
        yield controller, ring


def test_each_cell_has_both_rings_and_their_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "grid.svg"
    assert main([*QUICK, "--queues", "1,2", "--one-lane", "--reversed", "--json", "--plot", str(plot)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(cell["order"], cell["layout"], cell["queues"]) for cell in result["cells"]] == [
        (order, layout, queues)
        for order in ("in order", "reversed")
        for layout in ("full waves", "one lane a wave")
        for queues in (1, 2)
    ]
    for cell in result["cells"]:
        other = cell["baseline"]
        assert (cell["note"], other["note"], cell["lanes"]) == ("", "", 64)
        assert cell["over_baseline"] == pytest.approx(cell["commands_per_s"] / other["commands_per_s"])
        assert other["rounds"] == 1
        assert 0 < other["doorbells_per_command"] <= 1
    one, wave = result["latency"]
    assert (one["lanes"], wave["lanes"]) == (1, Device("host").wave_width)
    for each in (one, wave):
        assert 0 < each["p50_us"] <= each["p99_us"]
        assert 0 < each["baseline_p50_us"] <= each["baseline_p99_us"]
    assert "<svg" in plot.read_text(encoding="utf-8")


def test_a_person_gets_the_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--queues", "1"]) == 0
    said = capsys.readouterr().out
    assert "times the baseline's" in said
    assert "one wave" in said


@pytest.mark.parametrize(("profile", "depth", "commands"), [("host", 4, 512), ("host:threads-w64", 2, 128)])
def test_every_command_is_completed_once_however_small_the_queues(
    profile: str, depth: int, commands: int, tmp_path: Path
) -> None:
    with baseline(tmp_path, profile, depth=depth) as (controller, ring):
        with ring.queues(2), controller.serve(2):
            launched = [ring.launch(commands, 64, 32, 20 * SECOND_NS) for _ in range(2)]
            assert 0 < ring.doorbells() <= 2 * commands
        assert [one.completed for one in launched] == [commands] * 2
        assert sum(one.commands for one in controller.counts()) == 2 * commands


def test_an_entry_is_used_again_only_when_it_was_read(tmp_path: Path) -> None:
    # The baseline goes by the head that a completion tells of. One launch in ten met a controller that posted before
    # all its threads had read their entries.
    with baseline(tmp_path, "host", depth=16, queues=1) as (controller, ring):
        for _ in range(60):
            with ring.queues(1), controller.serve(1):
                assert ring.launch(256, 32, 32, 20 * SECOND_NS).completed == 256


def test_it_holds_under_the_memory_model_of_mode_sim(tmp_path: Path) -> None:
    with baseline(tmp_path, "host:sim-w32", depth=4) as (controller, ring):
        with ring.queues(2), controller.serve(2):
            launched = ring.launch(128, 64, 64, 60 * SECOND_NS, latencies=True)
        assert launched.completed == 128
        assert launched.latencies_ns is not None
        assert (launched.latencies_ns > 0).all()
        assert [one.commands for one in controller.counts()] == [64, 64]


def test_a_command_that_fails_is_no_figure(tmp_path: Path) -> None:
    # Half of the blocks that commands read are behind the namespace's end.
    with (
        baseline(tmp_path, "host", depth=16, blocks=64) as (controller, ring),
        ring.queues(1),
        controller.serve(1),
        pytest.raises(BenchError, match="64 of them with an error"),
    ):
        ring.launch(128, 32, 32, 20 * SECOND_NS)


def test_time_that_is_over_ends_a_launch(tmp_path: Path) -> None:
    with baseline(tmp_path, "host", depth=16) as (controller, ring), ring.queues(1), controller.serve(1):
        launched = ring.launch(4096, 64, 64, 1)
    assert launched.completed < launched.commands


def test_cells_that_take_too_long_are_named() -> None:
    load = GridLoad(rounds=1, queues=(1,), lanes=(64,), least=1 << 16, cell_limit_s=0.001, samples=0)
    measured = measure_grid(select("host"), load)
    assert measured["latency"] == []
    (cell,) = measured["cells"]
    assert cell["commands_per_s"] is None
    assert cell["over_baseline"] is None
    assert cell["note"] == "the cell's 0.001 s were over: 0 of 1 rounds"
    assert "were over" in cell["baseline"]["note"]


def test_a_depth_that_the_baseline_cannot_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    quick = [*QUICK, "--queues", "1", "--depth", "1000"]
    assert main(quick) == 1
    assert "power of two" in capsys.readouterr().err
    assert main([*quick, "--no-baseline", "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert cell["commands_per_s"] > 0
    assert cell["baseline"] is None


def test_the_reversed_controller_posts_the_last_one_first(tmp_path: Path) -> None:
    def identifiers(templates: Path | None) -> list[int]:
        options = DeviceControllerOptions(threads=32, queues=1, null=True)
        with DeviceController(Device("host"), 64, options, templates=templates) as controller:
            pair = controller.handle.create_queue_pair(16)
            for number in range(5):
                flush = (number << 16).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(56)
                pair.sq_memory.write(64 * number, flush)
            controller.handle._registers.write(pair.sq_tail_offset, (5).to_bytes(4, "little"))
            controller.start(1)
            # Its phase tells that the last one is there.
            end = time.monotonic() + 20
            while pair.cq_memory.load32(16 * 4 + 12) >> 16 == 0 and time.monotonic() < end:
                time.sleep(0.001)
            controller.stop()
            entries = [pair.cq_memory.read(16 * place, 16) for place in range(5)]
            # All tell of the same head: what was taken together.
            assert {int.from_bytes(entry[8:10], "little") for entry in entries} == {5}
            controller.handle.delete_queue_pair(pair)
            return [int.from_bytes(entry[12:14], "little") for entry in entries]

    assert identifiers(None) == [0, 1, 2, 3, 4]
    assert identifiers(variants.changed_templates(tmp_path, variants.REVERSED)) == [4, 3, 2, 1, 0]
