"""``tutti-hal store``: look into an object store, in a file or on a block device. Changes nothing."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tutti_hal.store import FileDevice

_EXAMPLES = """\
examples:
  tutti-hal store ls PATH              each object: bytes, version, CRC-32C, key
  tutti-hal store stat PATH --json     what the store holds, and how full it is
  tutti-hal store fsck PATH            every structure and every payload
  tutti-hal store fsck PATH --scan     by the log alone, where no checkpoint is whole

exit: 0 sound; 1 a finding, no store, or one that somebody writes to; 2 wrong usage.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("ls", "list objects"),
        ("stat", "what the store holds, and how full it is"),
        ("fsck", "verify every structure and every payload"),
    ):
        one = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        one.add_argument("path", type=Path, metavar="PATH", help="a file, or a block device")
        one.add_argument("--scan", action="store_true", help="find the state by the log alone, without checkpoints")
        one.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else")


def run(args: argparse.Namespace) -> int:
    """Runs one action.

    Returns:
        0 when sound, else 1.

    Raises:
        TuttiError: no store, one that this build does not read, or one that somebody writes to.
    """
    from tutti_hal.store import FileDevice

    with FileDevice(args.path, read_only=True) as device:
        return {"ls": _ls, "stat": _stat, "fsck": _fsck}[args.action](args, device)


def _say(args: argparse.Namespace, summary: dict[str, Any], lines: list[str]) -> None:
    if args.json:
        json.dump(summary, sys.stdout, indent=2)
        print()
    else:
        print("\n".join(lines))


def _ls(args: argparse.Namespace, device: FileDevice) -> int:
    from tutti_hal.store import Store, StoreOptions, Way
    from tutti_hal.store.keys import printable

    way = Way.SCAN if args.scan else Way.CHECKPOINT
    entries = Store.open(device, StoreOptions(read_only=True, way=way)).entries()
    rows = [
        {
            "key": printable(entry.key),
            "bytes": entry.payload_bytes,
            "version": entry.version,
            "crc32c": f"{entry.payload_crc:08X}",
            "segment": entry.segment,
            "block": entry.block,
        }
        for entry in entries
    ]
    lines = [f"{row['bytes']:>12}  {row['version']:>8}  {row['crc32c']}  {row['key']}" for row in rows]
    _say(args, {"objects": rows}, [*lines, f"{len(rows)} objects, {sum(e.payload_bytes for e in entries)} bytes"])
    return 0


def _stat(args: argparse.Namespace, device: FileDevice) -> int:
    from tutti_hal.store import Store, StoreOptions, Way

    way = Way.SCAN if args.scan else Way.CHECKPOINT
    status = Store.open(device, StoreOptions(read_only=True, way=way)).status
    superblock = status.superblock
    summary = {
        "store_id": superblock.store_id.hex(),
        "block_bytes": superblock.block_bytes,
        "blocks": superblock.blocks,
        "segments": superblock.segments,
        "segment_bytes": superblock.segment_blocks * superblock.block_bytes,
        "key_limit": superblock.key_limit,
        **{
            name: value
            for name, value in dataclasses.asdict(status).items()
            if name not in ("superblock", "space", "quota_bytes", "recovered_by", "notes")
        },
        "recovered_by": status.recovered_by.value,
        "notes": list(status.notes),
    }
    width = max(map(len, summary))
    told = {**summary, "notes": "; ".join(status.notes) or "none"}
    _say(args, summary, [f"{name.replace('_', ' '):<{width}}  {value}" for name, value in told.items()])
    return 0


def _fsck(args: argparse.Namespace, device: FileDevice) -> int:
    from tutti_hal.store.fsck import fsck

    report = fsck(device, scan=args.scan)
    lines = [f"{'bad ' if finding.bad else 'note'}  {finding.text}" for finding in report.findings]
    lines.append(
        f"{'sound' if report.sound else 'NOT sound'}: {report.objects} objects, {report.object_bytes} bytes, found by "
        f"{report.way.value}"
    )
    summary = {
        "sound": report.sound,
        "objects": report.objects,
        "object_bytes": report.object_bytes,
        "recovered_by": report.way.value,
        "findings": [dataclasses.asdict(finding) for finding in report.findings],
    }
    _say(args, summary, lines)
    return 0 if report.sound else 1
