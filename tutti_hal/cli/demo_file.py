"""The demo's round trip of a file: to the drives, back, and compared."""

from __future__ import annotations

import argparse
import random
import resource
import time
from typing import TYPE_CHECKING, Any

from tutti_hal.cli.terminal import Section, Terminal
from tutti_hal.errors import FaultError
from tutti_hal.workload.file_roundtrip import CHUNK_BYTES, ChunkMismatch, check_source, default_target, round_trip
from tutti_hal.workload.rig import Rig, RigOptions
from tutti_hal.workload.summary import Verdict, WrongObject, file_summary

if TYPE_CHECKING:
    from tutti_hal.profile import Profile

_MIB = 1 << 20
_WINDOW_BYTES = 32 * _MIB


def run_file(args: argparse.Namespace, profile: Profile) -> dict[str, Any]:
    """Sends ``args.file`` through the drives and returns the summary.

    Raises:
        TuttiError: a file that cannot be read or written, no room, a drive that refuses.
    """
    begin = time.perf_counter()
    target = args.out or default_target(args.file)
    size = check_source(args.file, target)
    chunks = -(-size // CHUNK_BYTES)
    if args.corrupt > chunks:
        raise FaultError(f"spoiling {args.corrupt} objects", f"the file makes only {chunks} chunks", "Lower --corrupt.")
    spoilt = set(random.Random(args.seed).sample(range(chunks), args.corrupt))
    terminal = Terminal(quiet=args.json)
    window = min(_WINDOW_BYTES, chunks * CHUNK_BYTES)
    per_drive = -(-window // CHUNK_BYTES // args.drives) * CHUNK_BYTES
    options = RigOptions(args.drives, per_drive, window, args.memory, args.dir)
    with Rig.open(profile, options) as rig:
        setting = rig.setting(args.seed)
        terminal.title(f"tutti-hal demo: {args.file} through the drives and back")
        terminal.facts(
            [
                ("profile", f"{setting.profile}, mode {setting.mode}"),
                ("controller", setting.controller),
                *(("note", note) for note in setting.notes),
                (
                    "file",
                    f"{size:,} bytes in chunks of {CHUNK_BYTES // 1024} KiB, round-robin over {args.drives} drives",
                ),
            ]
        )

        def spoil(index: int, _length: int, places: list[tuple[int, int, int]]) -> None:
            for number, (drive, offset, _) in enumerate(places, start=index * (window // CHUNK_BYTES)):
                if number in spoilt:
                    rig.flip_byte(drive, offset)

        before = rig.statistics()
        with terminal.progress("sending", size / _MIB, "MiB") as advance:
            trip = round_trip(
                args.file, target, rig, per_drive, before_read=spoil, progress=lambda count: advance(count / _MIB)
            )
        statistics = rig.statistics().since(before)
        wrong = tuple(_named(args, one, rig) for one in trip.mismatches)
    reasons = [str(one) for one in wrong]
    if trip.source_sha256 != trip.target_sha256:
        reasons.append(f"sha256 {trip.target_sha256} came back, the file has {trip.source_sha256}; no copy was left")
    if len(wrong) < len(spoilt):
        reasons.append(f"{len(spoilt) - len(wrong)} of {len(spoilt)} chunks spoilt on purpose were NOT noticed")
    summary = file_summary(
        setting,
        Verdict(not reasons, tuple(reasons)),
        wrong,
        trip,
        statistics,
        elapsed_s=time.perf_counter() - begin,
        peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
    _show(terminal, summary)
    return summary


def _named(args: argparse.Namespace, one: ChunkMismatch, rig: Rig) -> WrongObject:
    return WrongObject(
        f"{args.file} at {one.file_offset}",
        one.drive,
        one.drive_offset + one.first_byte,
        rig.medium_name(one.drive),
        one.expected_crc32,
        one.found_crc32,
    )


def _show(terminal: Terminal, summary: dict[str, Any]) -> None:
    def rate(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f} GB/s"

    terminal.table(
        [
            Section(
                "file",
                [
                    ("written", f"{summary['bytes_written']:,} bytes", rate(summary["write_gb_per_s"])),
                    ("read back", f"{summary['bytes_read']:,} bytes", rate(summary["read_gb_per_s"])),
                    ("sha256", summary["source_sha256"][:16] + "...", "of the file, read once more after the trip"),
                ],
            ),
            Section(
                "ring",
                [
                    ("commands", f"{summary['commands']:,}", f"in {summary['batches']:,} batches"),
                    (
                        "doorbells",
                        f"{summary['doorbells_per_command'] or 0:.4f}",
                        "a command",
                    ),
                    ("host calls", f"{summary['host_calls_per_batch'] or 0:.2f}", "a batch"),
                    (
                        "whole run",
                        f"{summary['elapsed_s']:.1f} s",
                        f"at most {summary['peak_rss_mib']:.0f} MiB resident",
                    ),
                ],
            ),
        ]
    )
    if summary["verified"]:
        terminal.verdict(True, f"VERIFIED: {summary['target']} has the same sha256 as {summary['source']}")
        return
    terminal.verdict(False, "NOT VERIFIED")
    for reason in summary["reasons"][:20]:
        terminal.note(f"  {reason}")
