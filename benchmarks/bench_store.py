"""The object store's figures: lookups on host and device, puts and gets beside the raw device at 512 KiB.

    python benchmarks/bench_store.py [--profile host:threads-w32] [--keys 131072] [--json]

Lookups are compared with the same keys in the store's own host index. The ratio to the raw ring is a figure only where
eight cores or more serve device, controller and caller: elsewhere it is *not run*, and said so.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from tutti_hal.shim import Device
from tutti_hal.store import FormatOptions, Piece, Store
from tutti_hal.store.kernels import StoreKernels, hash_keys, record_dtype
from tutti_hal.store.ring_device import open_ring_device

SIZE, COUNT, CORES = 512 * 1024, 64, 8


def lookups(device: Device, count: int) -> dict[str, float]:
    """Seconds of one pass over all keys, the best of three; hashing is told apart."""
    keys = [f"model/layer/{n}".encode() for n in range(count)]
    index = {key: n for n, key in enumerate(keys)}
    begin = time.perf_counter()
    hashes = hash_keys(keys)
    hashing = time.perf_counter() - begin
    rows = np.zeros(count, record_dtype("store_change"))
    rows["low"], rows["high"], rows["version"], rows["present"] = hashes["low"], hashes["high"], 1, 1
    with StoreKernels(device, count) as kernels:
        begin = time.perf_counter()
        kernels.commit(rows)
        filling = time.perf_counter() - begin
        on_host, on_device = [], []
        for _ in range(3):
            begin = time.perf_counter()
            found = sum(key in index for key in keys)
            on_host.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            places = kernels.lookup(hashes)
            on_device.append(time.perf_counter() - begin)
            assert found == places["found"].sum() == count
    return {
        "keys": count,
        "host_index_ms": min(on_host) * 1e3,
        "device_lookup_ms": min(on_device) * 1e3,
        "device_fill_ms": filling * 1e3,
        "hashing_ms": hashing * 1e3,
    }


def beside_the_ring(device: Device) -> dict[str, float]:
    """Bytes a second of raw batches and of the store, writes with their flush, reads verified by their sums."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        path.write_bytes(b"")
        os.truncate(path, 256 << 20)
        with open_ring_device(device, path, arena_bytes=COUNT * SIZE) as ring:
            pieces = [Piece(1024 + n * SIZE // 4096, ring.arena[n * SIZE : (n + 1) * SIZE]) for n in range(COUNT)]
            ring.arena[:] = np.random.default_rng(1).integers(0, 256, ring.arena.nbytes, np.uint8)
            took = {}

            def clocked(name: str, call: object) -> None:
                begin = time.perf_counter()
                call()  # type: ignore[operator]
                took[name] = COUNT * SIZE / (time.perf_counter() - begin) / 1e9

            clocked("raw_write_gb_s", lambda: (ring.write(pieces), ring.flush()))
            clocked("raw_read_gb_s", lambda: ring.read(pieces))
            Store.format(ring, FormatOptions(segment_bytes=48 << 20, objects=4096))
            store = Store.open(ring)
            items = [(f"{n}", pieces[n].data) for n in range(COUNT)]
            clocked("put_gb_s", lambda: store.put_many(items))
            names, targets = [name for name, _ in items], [piece.data for piece in pieces]
            clocked("get_gb_s", lambda: store.get_into(names, targets))
    took["put_ratio"] = took["put_gb_s"] / took["raw_write_gb_s"]
    took["get_ratio"] = took["get_gb_s"] / took["raw_read_gb_s"]
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="host:threads-w32")
    parser.add_argument("--keys", type=int, default=131072)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    device = Device(args.profile)
    cores = os.cpu_count() or 1
    result: dict[str, object] = {"profile": args.profile, "cores": cores, "lookup": lookups(device, args.keys)}
    result["beside_the_ring"] = (
        beside_the_ring(device) if cores >= CORES else f"not run: {cores} cores, and {CORES} are needed"
    )
    print(json.dumps(result, indent=2) if args.json else "\n".join(f"{k}: {v}" for k, v in result.items()))


if __name__ == "__main__":
    main()
