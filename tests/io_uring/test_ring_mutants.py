"""Guards of the ring, each broken on purpose: some seed must notice, and the same seed must notice again.

A mutant changes the text of a template in one place, before it is rendered. The unchanged ring passes the same runs, so
what a mutant fails is its own fault. A failure prints the mutant and the seed that replays it.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from ring_rig import BLOCK, Rig, drive

from tutti_hal.backends.host.sim import SimOptions
from tutti_hal.errors import LaunchFailed
from tutti_hal.io_uring import RingOptions, State, succeeded
from tutti_hal.nvme.software import CompletionOrder, ControllerConfig, FaultAction, FaultRule
from tutti_hal.paths import templates_dir

pytestmark = [pytest.mark.ring, pytest.mark.slow]

#: Tried for each mutant, in this order.
SEEDS = range(300)
LIMIT_NS = 200_000


@dataclass(frozen=True)
class Setting:
    """A run: sizes, the drive's behaviour, its faults, and what an unbroken ring counts."""

    depth: int = 4
    count: int = 17
    options: dict[str, object] = field(default_factory=dict)
    drive: dict[str, object] = field(default_factory=dict)
    faults: tuple[FaultRule, ...] = ()
    strays: int = 0
    lost: int = 0


PLAIN = Setting()
TWO = Setting(depth=2)
#: Deep enough for two lanes of a group to take entries at once.
DEEP = Setting(depth=8)
TWICE = Setting(faults=(FaultRule(action=FaultAction.DUPLICATE, nth=2, count=6),), strays=6)
LOST = Setting(faults=(FaultRule(action=FaultAction.LOST, lbas=(3, 3), count=1),), lost=1)
WIDE = Setting(
    depth=3,
    options={"cq_depth": 32, "command_limit": 20},
    drive={"order": CompletionOrder.RANDOM, "hold_ns": 4000, "latency_ns": 3000},
)
#: Four waves of one lane and one command each, at once: what races, races here, and nothing comes after.
RACE = Setting(depth=8, count=4, options={"lanes": 4, "block": 1})
#: The same with bursts, of which each has many marks behind one fence.
BURSTS = Setting(depth=64, count=32, options={"lanes": 4, "block": 1})


@dataclass(frozen=True)
class Mutant:
    """One change: a pattern that occurs once in a template, and what stands there instead."""

    name: str
    template: str
    pattern: str
    instead: str
    setting: Setting = PLAIN


MUTANTS = (
    # The publish path.
    Mutant(
        "publish: no fence before the marks",
        "ring_submit.j2",
        r"(uint32_t count\) \{\n\s*)tt_fence_device\(\);",
        r"\1",
        BURSTS,
    ),
    Mutant("leader: no system fence", "ring_submit.j2", r"tt_fence_system\(\);", ""),
    Mutant("leader: fence at device scope", "ring_submit.j2", r"tt_fence_system\(\);", "tt_fence_device();"),
    Mutant(
        "leader: does not look again",
        "ring_submit.j2",
        r"if \(tt_load_relaxed_dev_u64\(ring_word\(queue->marks, slot\)\) != tail \+ 1\) \{",
        "if (true) {",
        RACE,
    ),
    Mutant(
        "publish: no fence between mark and knock",
        "ring_submit.j2",
        r"(tt_store_relaxed_dev_u64\(ring_word\(queue->marks.*?)tt_fence_device\(\);",
        r"\1",
        RACE,
    ),
    Mutant(
        "leader: no fence between unlock and look",
        "ring_submit.j2",
        r"(tail << 1\);\n\s*)tt_fence_device\(\);",
        r"\1",
        RACE,
    ),
    Mutant("leader: tail one too far", "ring_submit.j2", r"sq_doorbell\), slot\);", "sq_doorbell), slot + 1);"),
    Mutant(
        "leader: slot does not wrap",
        "ring_submit.j2",
        r"slot = ring_place_of\(tail, queue->sq_depth, queue->sq_reciprocal\)\.slot;",
        "slot = static_cast<uint32_t>(tail);",
    ),
    # Credits.
    Mutant(
        "credits: one too many",
        "ring_reap.j2",
        r"retired \+ queue->command_limit;",
        "retired + queue->command_limit + 1;",
        TWO,
    ),
    Mutant(
        "credits: none come back", "ring_reap.j2", r"tt_atomic_add_dev_u64\(&state->credits, allowed - granted\);", ""
    ),
    Mutant(
        "credits: a partial grant keeps the rest",
        "ring_submit.j2",
        r"tt_atomic_add_dev_u64\(&state->credits, wanted - granted\);",
        "",
    ),
    Mutant(
        "credits: the reported SQ head is ignored",
        "ring_reap.j2",
        r"allowed < room \? allowed : room",
        "allowed < room ? allowed : allowed",
        WIDE,
    ),
    # Completions.
    Mutant("dword 3: acquire to relaxed", "ring_reap.j2", r"tt_load_acquire_sys_u32", "tt_load_relaxed_sys_u32"),
    Mutant("phase: not flipped at the wrap", "ring_reap.j2", r"== \(~lap & 1\)", "== ((lap | 1) & 1)"),
    Mutant(
        "lanes beside the leader: no acquire",
        "ring_reap.j2",
        r"(if \(!leads\) \{.*?)tt_fence_device\(\);",
        r"\1",
        DEEP,
    ),
    Mutant(
        "completion word: unlock relaxed",
        "ring_reap.j2",
        r"tt_store_release_dev_u64\(&state->completion, head << 1\)",
        "tt_store_relaxed_dev_u64(&state->completion, head << 1)",
    ),
    Mutant("command word: not cleared", "ring_reap.j2", r"seen \^ RING_BUSY\)", "seen)", TWICE),
    Mutant("identifier: no new generation", "ring_reap.j2", r"queue->index_bits\) \+ 1;", "queue->index_bits);", TWO),
    Mutant("CQ doorbell: never written", "ring_reap.j2", r">= queue->cq_interval\)", ">= ~0ull)"),
    Mutant(
        "status: release to relaxed",
        "ring_reap.j2",
        r"tt_store_release_dev_u32\(&status->code",
        "tt_store_relaxed_dev_u32(&status->code",
    ),
    Mutant(
        "waiter: acquire to relaxed",
        "ring.cu.j2",
        r"tt_load_acquire_dev_u32\(&status->code\)",
        "tt_load_relaxed_dev_u32(&status->code)",
    ),
    # Deadlines and commands.
    Mutant("deadline: never", "ring.cu.j2", r"< limit_ns\)", "< ~0ull)", LOST),
    Mutant(
        "deadline: the queue is not marked", "ring.cu.j2", r"tt_atomic_or_dev_u32\(&state->health, health\);", "", LOST
    ),
    Mutant("command: blocks counted from one", "ring_command.j2", r"blocks \? blocks - 1 : 0", "blocks"),
    Mutant("command: identifier in the wrong place", "ring_command.j2", r"identifier << 16\)", "identifier << 15)"),
)


def verdict(setting: Setting, seed: int, templates: Path | None) -> str:
    """What was wrong in one run, "" when nothing was."""
    sizes: dict[str, object] = {"depth": setting.depth, "lanes": 8, "block": 4, "batch_limit": 64, "limit_ns": LIMIT_NS}
    config: ControllerConfig = drive(**setting.drive)
    how = SimOptions(policy="random" if seed % 3 else "pct", seed=seed, pct_depth=3, max_steps=400_000)
    try:
        with Rig(
            "sim-w32",
            RingOptions(**sizes | setting.options),  # type: ignore[arg-type]
            drives=[config],
            sim=how,
            data_bytes=1 << 15,
            templates=templates,
        ) as rig:
            return _judge(rig, setting)
    except LaunchFailed as error:
        return type(error).__name__


def _judge(rig: Rig, setting: Setting) -> str:
    for rule in setting.faults:
        rig.drives[0].inject(rule)
    count = setting.count
    source = np.random.default_rng(5).integers(0, 256, count * BLOCK, np.uint8)
    rig.data[: len(source)] = source
    at = np.arange(count)
    identifiers: list[int] = []
    for verb in ("write", "read"):
        iocb = rig.ring.get_iocb()
        getattr(iocb, verb)(rig.ring.targets[0], at, BLOCK, rig.buffer, at * BLOCK)
        done = rig.run(iocb)
        identifiers += iocb.results["identifier"][:count].tolist()
        timed_out = int((done["state"] == State.TIMED_OUT).sum())
        if setting.lost:
            health = rig.ring.statistics().queues[0].health
            return "" if timed_out == setting.lost and health else f"{timed_out} timed out, health {health!r}"
        if not succeeded(done).all():
            return f"{verb}: {np.unique(done['state']).tolist()}"
        if not (done["completed_ns"] >= done["submitted_ns"]).all() or done["result"].any():
            return f"{verb}: a status that belongs to nobody"
        if verb == "write":
            if rig.drives[0].read_stored(1, 0, len(source)) != source.tobytes():
                return "other bytes were stored"
            rig.data[:] = 0xEE
    if not (rig.data[: len(source)] == source).all() or not (rig.data[len(source) :] == 0xEE).all():
        return "other bytes were read"
    counted = rig.ring.statistics()
    if counted.total("strays") != setting.strays or counted.total("commands") != 2 * count:
        return f"counters: {counted.queues[0]}"
    if setting.depth == 2 and len(set(identifiers)) != 2 * count:
        return "an identifier was used twice"
    return "bad doorbells" if rig.drives[0].counters.bad_doorbells else ""


@cache
def _settings() -> tuple[Setting, ...]:
    found: list[Setting] = []
    for mutant in MUTANTS:
        if mutant.setting not in found:
            found.append(mutant.setting)
    return tuple(found)


def mutated(mutant: Mutant, folder: Path) -> Path:
    """A copy of the templates with the mutant in it."""
    root = folder / "templates"
    shutil.copytree(templates_dir(), root)
    path = root / "kernels" / mutant.template
    text, count = re.subn(mutant.pattern, mutant.instead, path.read_text(encoding="utf-8"), flags=re.S)
    assert count == 1, f"{mutant.name}: the pattern occurs {count} times"
    path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize("setting", _settings(), ids=lambda s: f"depth{s.depth}-count{s.count}-faults{len(s.faults)}")
def test_the_unbroken_ring_passes(setting: Setting) -> None:
    for seed in SEEDS[:60]:
        assert verdict(setting, seed, None) == "", f"seed {seed}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_a_mutant_is_found_and_its_seed_replays(mutant: Mutant, tmp_path: Path) -> None:
    root = mutated(mutant, tmp_path)
    for seed in SEEDS:
        found = verdict(mutant.setting, seed, root)
        if found:
            again = verdict(mutant.setting, seed, root)
            assert again == found, f"seed {seed} does not replay"
            print(f"mutant '{mutant.name}': seed {seed}: {found}")
            return
    pytest.fail(f"mutant '{mutant.name}' lived through {len(SEEDS)} seeds")
