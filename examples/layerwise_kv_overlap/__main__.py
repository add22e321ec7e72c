"""The reference workload: the KV cache of a long context moves layer by layer while the model computes.

    python examples/layerwise_kv_overlap --preset small --json

Reads of the next layer and writes of the one before go on beside the compute of this one. Compute is a stand-in: real
arithmetic on the host, as long as --compute-factor times the moving of one layer. Drives are software controllers in
memory (emulated). Stall is the wall clock without the compute; overlap is the share of the I/O's time (on the device's
clock) that nobody waited for; making and comparing tensors is not counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pipeline import Layer, Pipeline
from shape import Shape

from tutti_hal.machine import benchmark_facts
from tutti_hal.profile import select
from tutti_hal.shim import Device
from tutti_hal.storage import RingOptions, RuntimeOptions, SoftwareDrive, StorageRuntime, open_software_drives
from tutti_hal.workload.compute import ComputeStandIn
from tutti_hal.workload.shapes import MODELS

SMALL = {"layers": 8, "ctx_tokens": 4096, "chunk_tokens": 256, "tensor_kb": 32, "requests": 2, "drives": 2}
NUMBERS = ("layers", "ctx_tokens", "chunk_tokens", "hit_pct", "tensors", "tensor_kb", "requests", "drives")


def preset(name: str | None, chunk_tokens: int) -> dict[str, int]:
    """What a preset sets where the command line does not."""
    if name is None:
        return {}
    if name == "small":
        return SMALL
    model = MODELS[name]
    return {
        "layers": model.layers,
        "tensors": model.tensors_per_block,
        "tensor_kb": chunk_tokens * model.row_bytes >> 10,
    }


def arguments() -> argparse.Namespace:
    """The command line, with what the preset and the defaults add."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="host:threads-w32", help="vendor[:arch[@sdk]]")
    parser.add_argument(
        "--preset",
        choices=["small", *MODELS],
        metavar="NAME",
        help="sets what is not given: small is for two cores; a model has its layers and the size of its tensors, and "
        f"takes as much memory as its cache (--ctx-tokens makes it less): {', '.join(MODELS)}",
    )
    for name, usual, text in (
        ("layers", 80, "of the model"),
        ("ctx-tokens", 131072, "of the context"),
        ("chunk-tokens", 256, "of a chunk"),
        ("hit-pct", 90, "of the chunks that are on the drives already"),
        ("tensors", 2, "of a chunk and layer: K and V, or one latent of both"),
        ("tensor-kb", 512, "KiB of a tensor of a chunk and layer"),
        ("requests", 2, "one after the other"),
        ("drives", 4, "how many"),
    ):
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"{text} ({usual})")
        parser.set_defaults(**{f"usual_{name.replace('-', '_')}": usual})
    parser.add_argument("--compute-factor", type=float, default=1.2, metavar="F", help="of moving one layer (1.2)")
    parser.add_argument("--no-verify", action="store_true", help="compare no bytes")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the first request's timeline (.png .svg .pdf)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    args = parser.parse_args()
    chosen = preset(args.preset, args.chunk_tokens or args.usual_chunk_tokens)
    for name in NUMBERS:
        if getattr(args, name) is None:
            setattr(args, name, chosen.get(name, getattr(args, f"usual_{name}")))
        if getattr(args, name) < (0 if name == "hit_pct" else 1):
            parser.error(f"--{name.replace('_', '-')} {getattr(args, name)}: use 1 or more")
    if args.tensor_kb % 4:
        parser.error(
            f"tensors of {args.tensor_kb} KiB: use a multiple of 4, the drives' block (--tensor-kb, --chunk-tokens)"
        )
    if args.hit_pct > 100 or args.compute_factor < 0:
        parser.error("--hit-pct up to 100, --compute-factor 0 or more")
    if args.ctx_tokens < args.chunk_tokens:
        parser.error(f"--ctx-tokens {args.ctx_tokens} is less than one chunk of {args.chunk_tokens}")
    return args


def main() -> int:
    """Runs the workload and tells of it; 1 where bytes or counts are wrong."""
    args = arguments()
    chunks = args.ctx_tokens // args.chunk_tokens
    shape = Shape(args.layers, chunks, chunks * args.hit_pct // 100, args.tensor_kb << 10, args.drives, args.tensors)
    device = Device(select(args.profile))
    # MDTS 5 is 128 KiB: a tensor is that many commands, a layer of one direction one batch.
    commands = shape.tensors * shape.chunks * -(-shape.tensor_bytes // (128 << 10))
    ring = RingOptions(queues=(1, 1), batch_limit=max(commands, 64), batches=4)
    with ExitStack() as stack:
        specs = [SoftwareDrive(name=f"d{number}", nbytes=shape.drive_bytes) for number in range(shape.drives)]
        drives = open_software_drives(device, specs, stack)
        options = RuntimeOptions(ring=ring)
        with StorageRuntime.create(device, drives, options, owned=stack.pop_all()) as storage:
            pipeline = Pipeline(storage, shape, not args.no_verify)
            pipeline.prepare()
            compute = ComputeStandIn(pipeline.calibrate() * args.compute_factor * 1e6)
            requests = [pipeline.run(number + 1, compute) for number in range(args.requests)]
            moved = pipeline.submits, pipeline.read_tensors, pipeline.written_tensors
            if not args.no_verify:
                pipeline.read_back(args.requests)
    result = summary(args, shape, pipeline, requests, moved)
    if args.plot is not None:
        draw(requests[0][0], args.plot)
    if args.json:
        json.dump(result, sys.stdout, indent=2)
        print()
    else:
        show(result)
    return 0 if result["verified"] is not False and result["counts"]["right"] else 1


def summary(
    args: argparse.Namespace,
    shape: Shape,
    pipeline: Pipeline,
    requests: list[tuple[list[Layer], float]],
    moved: tuple[int, int, int],
) -> dict[str, Any]:
    """All figures, and whether the counts add up to what the shape says."""
    every = [layer for layers, _ in requests for layer in layers]
    wall = sum(seconds for _, seconds in requests)
    compute = sum(layer.compute_s for layer in every)
    io = sum(layer.read_s + layer.write_s for layer in every)
    rounds = shape.layers * len(requests)
    expected = (
        rounds * ((shape.hits > 0) + (shape.misses > 0)),
        shape.tensors * shape.hits * rounds,
        shape.tensors * shape.misses * rounds,
    )
    read, written = sum(layer.read_bytes for layer in every), sum(layer.write_bytes for layer in every)
    right = moved == expected and read == expected[1] * shape.tensor_bytes
    right = right and written == expected[2] * shape.tensor_bytes
    stall, waited = wall - compute, sum(layer.wait_s for layer in every)
    return {
        "machine": benchmark_facts(),
        "profile": args.profile,
        "drives": f"{shape.drives} software drives in memory, emulated",
        "shape": {
            "layers": shape.layers,
            "chunks": shape.chunks,
            "hits": shape.hits,
            "misses": shape.misses,
            "tensors": shape.tensors,
        },
        "tensor_bytes": shape.tensor_bytes,
        "counts": {"submits": moved[0], "read_tensors": moved[1], "written_tensors": moved[2], "right": right},
        "read_bytes": read,
        "written_bytes": written,
        "wall_s": wall,
        "compute_s": compute,
        "io_s": io,
        "stall_s": stall,
        "wait_s": waited,
        "overlap": max(0.0, 1.0 - waited / io) if io else 1.0,
        "compared_bytes": pipeline.compared_bytes,
        "wrong_bytes": pipeline.wrong_bytes,
        "verified": None if args.no_verify else pipeline.wrong_bytes == 0 and pipeline.compared_bytes > 0,
        "layers": [
            {
                "layer": number,
                "read_mb": sum(layers[number].read_bytes for layers, _ in requests) / 1e6,
                "write_mb": sum(layers[number].write_bytes for layers, _ in requests) / 1e6,
                **{
                    f"{name}_ms": sum(getattr(layers[number], f"{name}_s") for layers, _ in requests) * 1e3
                    for name in ("read", "write", "compute", "wait")
                },
            }
            for number in range(shape.layers)
        ],
    }


def show(result: dict[str, Any]) -> None:
    """The table for people."""
    shape = result["shape"]
    print(f"{result['profile']}; {result['drives']}")
    print(
        f"{shape['layers']} layers, {shape['chunks']} chunks: {shape['hits']} read, {shape['misses']} written;"
        f" of each in a layer {shape['tensors']} of {result['tensor_bytes']:,} bytes"
    )
    print("layer   read MB  write MB   read ms  write ms  compute ms  wait ms")
    for row in result["layers"]:
        print(
            f"{row['layer']:5} {row['read_mb']:9.2f} {row['write_mb']:9.2f} {row['read_ms']:9.2f}"
            f" {row['write_ms']:9.2f} {row['compute_ms']:11.2f} {row['wait_ms']:8.2f}"
        )
    counts = result["counts"]
    print(
        f"{counts['submits']} submits, {counts['read_tensors']} tensors read, {counts['written_tensors']} written:"
        f" {'as the shape says' if counts['right'] else 'NOT what the shape says'}"
    )
    print(
        f"wall {result['wall_s']:.3f} s = compute {result['compute_s']:.3f} + stall {result['stall_s']:.3f};"
        f" I/O {result['io_s']:.3f} s, waited for {result['wait_s']:.3f}, {result['overlap']:.0%} hidden"
    )
    said = {None: "not verified, as asked", True: "verified", False: "WRONG BYTES"}[result["verified"]]
    print(f"{said}: {result['compared_bytes']:,} bytes compared, {result['wrong_bytes']:,} wrong")


def draw(layers: list[Layer], path: Path) -> None:
    """A timeline: reads, compute and writes of every layer, one above the other."""
    from matplotlib.figure import Figure

    rows = {"read": 2, "compute": 1, "write": 0}
    begin = min(start for layer in layers for _, start, _ in layer.spans)
    figure = Figure(figsize=(10, 3), layout="constrained")
    axes = figure.add_subplot()
    for number, layer in enumerate(layers):
        for name, start, end in layer.spans:
            axes.barh(rows[name], (end - start) * 1e3, left=(start - begin) * 1e3, color=f"C{number % 10}", height=0.8)
    axes.set_yticks(list(rows.values()), list(rows))
    axes.set_xlabel("ms; one colour a layer")
    figure.savefig(path)


if __name__ == "__main__":
    raise SystemExit(main())
