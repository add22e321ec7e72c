"""The ring end to end on HOST `threads`, beside one doorbell for each command, in the same run.

    python benchmarks/bench_ring.py [--arch threads-w32] [--bytes 4096] [--commands 65536] [--depth 1024] [--rounds 5]

A software controller with its namespace in memory serves one queue in a thread of its own; the ring's lanes are one
wave. The baseline is the same rendered kernel with two lines changed: a lane submits one request at a time, and each
command has its doorbell. Every byte that was read is compared with the source.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tutti_hal.io_uring import Drive, Ring, RingOptions, succeeded
from tutti_hal.nvme.handle import ControllerHandle
from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, SoftwareController
from tutti_hal.paths import templates_dir
from tutti_hal.shim import Device

#: What makes the naive baseline: (template, pattern, instead).
NAIVE = (
    ("ring.cu.j2", r"RING_BURST = 8;", "RING_BURST = 1;"),
    (
        "ring_submit.j2",
        r"while \(tt_load_relaxed_dev_u64\(ring_word\(queue->marks, slot\)\)",
        r"if (tt_load_relaxed_dev_u64(ring_word(queue->marks, slot))",
    ),
)


def naive_templates(folder: Path) -> Path:
    """The templates with one doorbell for each command."""
    root = folder / "templates"
    shutil.copytree(templates_dir(), root)
    for name, pattern, instead in NAIVE:
        path = root / "kernels" / name
        text, count = re.subn(pattern, instead, path.read_text(encoding="utf-8"))
        if count != 1:
            raise SystemExit(f"the baseline's pattern {pattern!r} occurs {count} times in {name}")
        path.write_text(text, encoding="utf-8")
    return root


def measure(args: argparse.Namespace, templates: Path | None) -> dict[str, Any]:
    """Commands per second and doorbells per command of writes and reads."""
    device = Device(f"host:{args.arch}")
    options = RingOptions(
        depth=args.depth,
        batch_limit=args.commands,
        batches=1,
        lanes=args.lanes or device.wave_width,
        limit_ns=60 * 10**9,
    )
    blocks = args.commands * args.bytes // 512
    config = ControllerConfig(namespaces=(MemoryNamespace(blocks=blocks, lba_shift=9),), mdts=0)
    with SoftwareController(config) as drive:
        drive.start()
        with ControllerHandle.open(drive.registers, drive.dma) as handle:
            memory = drive.dma.allocate(args.commands * args.bytes)
            with Ring.init_queue(device, [Drive(handle=handle, dma=drive.dma)], options, templates=templates) as ring:
                result = _rounds(args, ring, memory)
            memory.close()
    return result


def _rounds(args: argparse.Namespace, ring: Ring, memory: Any) -> dict[str, Any]:
    import ctypes

    buffer = ring.register(memory)
    data = np.frombuffer((ctypes.c_uint8 * memory.nbytes).from_address(memory.address), np.uint8)
    source = np.random.default_rng(3).integers(0, 256, memory.nbytes, np.uint8)
    at = np.arange(args.commands)
    rates: dict[str, list[float]] = {"write": [], "read": []}
    for _ in range(args.rounds):
        for verb, found in rates.items():
            data[:] = source if verb == "write" else 0
            iocb = ring.get_iocb()
            getattr(iocb, verb)(ring.targets[0], at * (args.bytes // 512), args.bytes, buffer, at * args.bytes)
            begin = time.perf_counter()
            ring.issue_io(iocb)
            done = ring.wait_cqe(iocb)
            found.append(args.commands / (time.perf_counter() - begin))
            if not succeeded(done).all() or not (data == source).all():
                raise SystemExit(f"{verb}: wrong data or a failed command")
    counted = ring.statistics()
    return {
        "read_commands_per_s": round(statistics.median(rates["read"])),
        "write_commands_per_s": round(statistics.median(rates["write"])),
        "best_commands_per_s": round(max(rates["read"] + rates["write"])),
        "doorbells_per_command": round(counted.doorbells_per_command, 5),
        "cq_loads_per_command": round(counted.cq_loads_per_command, 3),
        "commands": counted.total("commands"),
        "verified": True,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="threads-w32")
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--commands", type=int, default=16384)
    parser.add_argument("--depth", type=int, default=1024)
    parser.add_argument("--lanes", type=int, default=0, help="0: one wave")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(json.dumps({"ring": vars(args)}))
    print(json.dumps({"ring": measure(args, None)}))
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({"one doorbell a command": measure(args, naive_templates(Path(folder)))}))


if __name__ == "__main__":
    main()
