"""The demo's replay of a trace: size, run, judge, show."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti_hal.cli.terminal import Section, Terminal
from tutti_hal.workload.cache import RequestPlan
from tutti_hal.workload.ceilings import measure_ceilings
from tutti_hal.workload.compute import ComputeStandIn
from tutti_hal.workload.faults import choose_spoils
from tutti_hal.workload.generator import generate_trace
from tutti_hal.workload.oracle import Oracle
from tutti_hal.workload.replay import Replay, ReplayResult, WrongTensor
from tutti_hal.workload.rig import Rig, RigOptions
from tutti_hal.workload.shapes import LLAMA_3_8B
from tutti_hal.workload.sizing import Sizing, fit
from tutti_hal.workload.summary import WrongObject, judge, replay_summary
from tutti_hal.workload.trace import TraceRequest, read_trace, write_trace

if TYPE_CHECKING:
    from tutti_hal.profile import Profile

#: Sized so that either takes well under a minute on two cores.
_GENERATED_REQUESTS, _TRACE_REQUESTS = 24, 200
_REASONS_SHOWN = 20
_MIB = 1 << 20


def run_replay(args: argparse.Namespace, profile: Profile) -> dict[str, Any]:
    """Replays the trace that ``args`` asks for and returns the summary.

    Raises:
        TuttiError: broken input, no room, a drive that refuses.
    """
    begin = time.perf_counter()
    requests, trace = _requests(args)
    sizing = fit(
        requests,
        LLAMA_3_8B,
        drives=args.drives,
        cache_bytes=args.cache_mib * _MIB,
        budget_bytes=args.budget_mib * _MIB,
        layers=args.layers,
        blocks_per_hash=args.blocks_per_hash,
    )
    spoils = choose_spoils(sizing.plans, sizing.placement, args.corrupt, args.seed)
    terminal = Terminal(quiet=args.json)
    options = RigOptions(args.drives, sizing.placement.drive_bytes, sizing.arena_bytes, args.memory, args.dir)
    with Rig.open(profile, options) as rig:
        _introduce(terminal, rig, sizing, trace)
        oracle = Oracle(sizing.shape, args.seed)
        replay = Replay(rig, sizing.placement, oracle, ComputeStandIn(args.compute_us))

        def spoil(index: int, _plan: RequestPlan) -> None:
            for one in spoils:
                if one.request == index:
                    rig.flip_byte(one.drive, one.drive_offset)

        replay.before_request = spoil
        before = rig.statistics()
        results = []
        with terminal.progress("replaying", len(sizing.plans), "requests") as advance:
            for done in replay.run(sizing.plans):
                results.append(done)
                hits = sum(r.hits for r in results)
                advance(1, f"{hits} hits, {sum(r.misses for r in results)} misses")
        statistics = rig.statistics().since(before)
        result = ReplayResult(tuple(results), replay.layers())
        wrong = _places(result.wrong, sizing, rig)
        verdict = judge(result, wrong, len(spoils))
        ceilings = measure_ceilings(rig, sizing.shape.tensor_bytes, sizing.placement.drive_bytes, rig.medium_path(0))
        setting = rig.setting(args.seed)
    summary = replay_summary(
        setting,
        verdict,
        wrong,
        result,
        statistics,
        ceilings,
        trace=trace,
        scaled=sizing.notes,
        elapsed_s=time.perf_counter() - begin,
        peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
    terminal.table(_sections(summary))
    if args.plot is not None:
        _plot(args, summary, result)
        terminal.note(f"plot: {args.plot}")
    _say_verdict(terminal, summary)
    return summary


def _requests(args: argparse.Namespace) -> tuple[tuple[TraceRequest, ...], str]:
    if args.trace is None:
        requests = generate_trace(args.seed, args.requests or _GENERATED_REQUESTS)
        text = f"generated with seed {args.seed}"
    else:
        wanted = args.requests or _TRACE_REQUESTS
        requests = read_trace(args.trace, wanted)
        text = f"the first of {args.trace}"
        if args.requests is not None and len(requests) < wanted:
            text = f"all of {args.trace} (it holds {len(requests)} of the {wanted} requests asked for)"
    if args.save_trace is not None:
        write_trace(args.save_trace, requests)
    return requests, text


def _places(wrong: Sequence[WrongTensor], sizing: Sizing, rig: Rig) -> tuple[WrongObject, ...]:
    found = []
    for one in wrong:
        name = one.mismatch.name
        drives, offsets = sizing.placement.locate(np.array([one.slot]), name.layer)
        drive = int(drives[0, name.index])
        at = int(offsets[0, name.index]) + one.mismatch.first_byte
        found.append(
            WrongObject(
                str(name), drive, at, rig.medium_name(drive), one.mismatch.expected_crc32, one.mismatch.found_crc32
            )
        )
    return tuple(found)


def _introduce(terminal: Terminal, rig: Rig, sizing: Sizing, trace: str) -> None:
    full, shape = sizing.full, sizing.shape
    setting = rig.setting(0)
    terminal.title("tutti-hal demo: a KV cache on drives, replayed from a request trace")
    terminal.facts(
        [
            ("profile", f"{setting.profile}, mode {setting.mode}"),
            ("controller", setting.controller),
            *(("note", note) for note in setting.notes),
            (
                "model",
                f"{full.model}: {full.layers} layers, {full.kv_heads} KV heads x {full.head_dim}, bf16, "
                f"{full.tokens_per_block}-token blocks; {shape.tensor_bytes // 1024} KiB a tensor",
            ),
            *(("scaled", note) for note in sizing.notes),
            ("trace", f"{len(sizing.plans)} requests, {trace}, replayed back to back"),
            (
                "cache",
                f"{sizing.placement.slots} hash ids of {shape.hash_bytes / _MIB:g} MiB, least recently used go first",
            ),
        ]
    )


def _sections(summary: dict[str, Any]) -> list[Section]:
    bounds = summary["ceilings_gb_per_s"]
    return [
        Section(
            "cache",
            [
                ("requests", f"{summary['requests']:,}", ""),
                ("hits", f"{summary['hits']:,}", f"hash ids read, {_number(summary['hit_ratio'], '.1%')} of all"),
                ("misses", f"{summary['misses']:,}", f"computed and written; {summary['evicted']:,} evicted for them"),
            ],
        ),
        Section(
            "bytes",
            [
                ("read", _mib(summary["bytes_read"]), "every byte judged against the source data, after the timing"),
                ("written", _mib(summary["bytes_written"]), ""),
                (
                    "throughput",
                    f"{_number(summary['gb_per_s'], '.3f')} GB/s",
                    f"both ways, over {summary['pipeline_s']:.2f} s of pipeline with compute in it",
                ),
                (
                    "in flight",
                    f"{_number(summary['read_gb_per_s'], '.3f')} GB/s",
                    f"reads while one is in flight; writes {_number(summary['write_gb_per_s'], '.3f')}",
                ),
                (
                    "ceilings",
                    f"{_number(bounds['all_drives'], '.3f')} GB/s",
                    f"all drives, reads only; one drive {_number(bounds['one_drive'], '.3f')}; its file without ring "
                    f"{_number(bounds['medium'], '.3f')}; memory copy, one core {_number(bounds['copy'], '.2f')}",
                ),
            ],
        ),
        Section(
            "ring",
            [
                ("commands", f"{summary['commands']:,}", f"{_number(summary['commands_per_s'], ',.0f')} a second"),
                (
                    "doorbells",
                    _number(summary["doorbells_per_command"], ".4f"),
                    f"a command; {summary['doorbells']:,} written, {summary['doorbells_seen']:,} seen by controllers",
                ),
                (
                    "host calls",
                    _number(summary["host_calls_per_batch"], ".2f"),
                    f"a batch, in {summary['batches']:,} batches",
                ),
            ],
        ),
        Section(
            "overlap",
            [
                (
                    "reads hidden",
                    _number(summary["read_overlap"], ".1%"),
                    f"of their time in flight; the pipeline waited {summary['stall_s']:.2f} s for reads",
                ),
                ("compute", f"{summary['compute_s']:.2f} s", "measured in the stand-in"),
                (
                    "whole run",
                    f"{summary['elapsed_s']:.1f} s",
                    f"source data {summary['generate_s']:.1f} s, judging {summary['verify_s']:.1f} s; "
                    f"at most {summary['peak_rss_mib']:.0f} MiB resident",
                ),
            ],
        ),
    ]


def _say_verdict(terminal: Terminal, summary: dict[str, Any]) -> None:
    if summary["verified"]:
        terminal.verdict(True, f"VERIFIED: {_mib(summary['bytes_verified'])} read, every byte as in the source data")
        return
    terminal.verdict(False, "NOT VERIFIED")
    shown = summary["reasons"][:_REASONS_SHOWN]
    for reason in shown:
        terminal.note(f"  {reason}")
    if len(summary["reasons"]) > len(shown):
        terminal.note(f"  ... and {len(summary['reasons']) - len(shown)} more; --json lists all")


def _plot(args: argparse.Namespace, summary: dict[str, Any], result: ReplayResult) -> None:
    from tutti_hal.workload.plot import PlotLabels, draw

    labels = PlotLabels(
        title=f"tutti-hal demo: {summary['requests']} requests on {summary['profile']}",
        subtitle=[summary["controller"], *summary["scaled"]],
        drives=[f"drive {number}" for number in range(summary["drives"])],
        drive_read_bytes=summary["drive_read_bytes"],
        drive_written_bytes=summary["drive_written_bytes"],
        one_drive_gb_s=summary["ceilings_gb_per_s"]["one_drive"] or 0.0,
    )
    draw(result, labels, args.plot)


def _mib(count: int) -> str:
    return f"{count / _MIB:,.1f} MiB"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
