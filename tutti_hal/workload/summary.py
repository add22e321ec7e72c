"""What a run came to, in one record: the figures with what bounds them, and the verdict with its reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tutti_hal.workload.file_roundtrip import RoundTrip
from tutti_hal.workload.replay import ReplayResult
from tutti_hal.workload.transport import TransportStatistics


@dataclass(frozen=True)
class WrongObject:
    """A tensor, or a chunk of a file, that came back wrong: what it is and where it lies.

    Attributes:
        object: its name, such as ``hash 17 layer 3 K block 0``.
        drive: counted from 0.
        drive_offset: byte on the drive of the first byte that differs.
        medium: the drive's file, or ``memory``.
        expected_crc32, found_crc32: of the source data, and of what was read.
    """

    object: str
    drive: int
    drive_offset: int
    medium: str
    expected_crc32: int
    found_crc32: int

    def __str__(self) -> str:
        return (
            f"{self.object} on drive {self.drive} ({self.medium}) at byte offset {self.drive_offset}: "
            f"CRC-32 {self.found_crc32:08x}, the source has {self.expected_crc32:08x}"
        )


@dataclass(frozen=True)
class Ceilings:
    """What bounds the figures, measured in the same run, in GB/s; ``None`` where it could not be.

    Attributes:
        copy: one core copying memory: the link, where a controller is software.
        medium: one thread reading one drive's file directly, without controller or ring.
        one_drive: reads from a single drive through the ring, with no compute beside them.
        all_drives: the same from all drives.
    """

    copy: float | None
    medium: float | None
    one_drive: float | None
    all_drives: float | None


@dataclass(frozen=True)
class Verdict:
    """Whether every byte was right, and if not, why, a sentence each."""

    verified: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """What a run used: the part of the summary that is known before it begins."""

    profile: str
    mode: str
    controller: str
    emulated: bool
    medium: str
    direct_io: bool
    drives: int
    seed: int
    notes: tuple[str, ...]


def judge(result: ReplayResult, wrong: Sequence[WrongObject], planted: int) -> Verdict:
    """The verdict over a replay.

    Args:
        result: what the replay saw.
        wrong: its mismatches with their places.
        planted: objects spoilt on purpose; each must be among ``wrong``.
    """
    reasons = [str(w) for w in wrong]
    if not result.hits:
        reasons.append(
            "no hash id was hit, so nothing was read back and nothing is proved: "
            "take more requests, a larger --cache-mib, or a trace that shares prefixes"
        )
    if planted > len(wrong):
        reasons.append(f"{planted - len(wrong)} of {planted} objects spoilt on purpose were NOT noticed")
    return Verdict(not reasons, tuple(reasons))


def replay_summary(
    setting: Setting,
    verdict: Verdict,
    wrong: Sequence[WrongObject],
    result: ReplayResult,
    statistics: TransportStatistics,
    ceilings: Ceilings,
    *,
    trace: str,
    scaled: Sequence[str],
    elapsed_s: float,
    peak_rss_mib: float,
) -> dict[str, Any]:
    """The machine-readable summary of a replay; plain JSON types only. Throughput is over pipeline time.

    Nothing is divided by zero: a quotient without a denominator is ``None``.
    """
    requests = result.requests
    pipeline_s = result.pipeline_s
    ids = result.hits + result.misses
    return {
        "verified": verdict.verified,
        "reasons": list(verdict.reasons),
        "wrong_objects": [asdict(w) for w in wrong],
        **_setting(setting),
        "trace": trace,
        "scaled": list(scaled),
        "requests": len(requests),
        "hits": result.hits,
        "misses": result.misses,
        "beyond": sum(r.beyond for r in requests),
        "evicted": sum(r.evicted for r in requests),
        "hit_ratio": _ratio(result.hits, ids),
        "bytes_read": result.bytes_read,
        "bytes_written": result.bytes_written,
        "bytes_verified": result.bytes_read,
        "gb_per_s": _ratio((result.bytes_read + result.bytes_written) / 1e9, pipeline_s),
        "read_gb_per_s": _ratio(result.bytes_read / 1e9, sum(r.read_s for r in requests)),
        "write_gb_per_s": _ratio(result.bytes_written / 1e9, sum(r.write_s for r in requests)),
        "ceilings_gb_per_s": asdict(ceilings),
        **_counted(statistics, pipeline_s),
        "pipeline_s": pipeline_s,
        "compute_s": sum(r.compute_s for r in requests),
        "stall_s": sum(r.stall_s for r in requests),
        "read_overlap": result.read_overlap,
        "generate_s": sum(r.generate_s for r in requests),
        "verify_s": sum(r.verify_s for r in requests),
        "elapsed_s": elapsed_s,
        "peak_rss_mib": peak_rss_mib,
    }


def file_summary(
    setting: Setting,
    verdict: Verdict,
    wrong: Sequence[WrongObject],
    trip: RoundTrip,
    statistics: TransportStatistics,
    *,
    elapsed_s: float,
    peak_rss_mib: float,
) -> dict[str, Any]:
    """The machine-readable summary of a file's round trip; plain JSON types only."""
    return {
        "verified": verdict.verified,
        "reasons": list(verdict.reasons),
        "wrong_objects": [asdict(w) for w in wrong],
        **_setting(setting),
        "source": str(trip.source),
        "target": str(trip.target),
        "source_sha256": trip.source_sha256,
        "target_sha256": trip.target_sha256,
        "bytes_read": trip.size,
        "bytes_written": trip.size,
        "bytes_verified": trip.size,
        "read_gb_per_s": _ratio(trip.size / 1e9, trip.read_s),
        "write_gb_per_s": _ratio(trip.size / 1e9, trip.write_s),
        **_counted(statistics, trip.read_s + trip.write_s),
        "elapsed_s": elapsed_s,
        "peak_rss_mib": peak_rss_mib,
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {**asdict(setting), "notes": list(setting.notes)}


def _counted(statistics: TransportStatistics, seconds: float) -> dict[str, Any]:
    return {
        "commands": statistics.commands,
        "commands_per_s": _ratio(statistics.commands, seconds),
        "doorbells": statistics.doorbells,
        "doorbells_seen": statistics.doorbells_seen,
        "doorbells_per_command": _ratio(statistics.doorbells, statistics.commands),
        "batches": statistics.batches,
        "host_calls": statistics.host_calls,
        "host_calls_per_batch": _ratio(statistics.host_calls, statistics.batches),
        "drive_read_bytes": list(statistics.drive_read_bytes),
        "drive_written_bytes": list(statistics.drive_written_bytes),
    }


def _ratio(over: float, under: float) -> float | None:
    return over / under if under else None
