"""``tutti-hal bench``: figures, each beside a baseline of the same run."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tutti_hal.cli.arguments import whole_number

#: Seconds between two lines of progress.
_PROGRESS_S = 10.0

_EXAMPLES = """\
examples:
  tutti-hal bench ring --profile host           4 KiB reads through the ring, beside three baselines
  tutti-hal bench ring --profile host --write --time-limit 20 --json
  tutti-hal bench link --json --plot link.svg                   the link, of the profile that TUTTI_PROFILE names
  tutti-hal bench grid --profile host --queues 1,4 --lanes 32 --least 512
  tutti-hal bench grid --one-lane --reversed --time-limit 180 --plot grid.svg          all of the grid
  tutti-hal bench storage --profile host --files 500 --json
  tutti-hal bench soak --profile host --commands 100000000 --state out/soak.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.epilog = _EXAMPLES
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    ring = what.add_parser(
        "ring",
        help="commands a second end to end on HOST",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ring.add_argument("--profile", help="vendor[:arch[@sdk]]; outranks TUTTI_PROFILE")
    ring.add_argument(
        "--batch", type=whole_number(1, 1 << 20), default=4096, metavar="N", help="commands handed over together (4096)"
    )
    ring.add_argument(
        "--depth", type=whole_number(2, 1 << 16), default=1024, metavar="N", help="entries of the queue (1024)"
    )
    ring.add_argument("--lanes", type=whole_number(0, 1 << 20), default=0, metavar="N", help="lanes (0: one wave)")
    ring.add_argument("--write", action="store_true", help="writes instead of reads")
    ring.add_argument(
        "--time-limit",
        type=whole_number(0, 86400),
        default=8,
        metavar="S",
        help="seconds of measuring, all figures together (8)",
    )
    ring.add_argument(
        "--faults", type=_share, default=0.0, metavar="RATE", help="also with so many commands of one ended in an error"
    )
    ring.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures (.png .svg .pdf)")
    ring.add_argument("--json", action="store_true", help="one JSON object on standard output")

    _configure_soak(what)
    _configure_link(what)
    _configure_grid(what)
    _configure_storage(what)


def _configure_link(what: Any) -> None:
    link = what.add_parser(
        "link",
        help="host memory to device, or back: one large copy, a copy an object, batched ones, the device controller",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    link.add_argument("--profile", help="vendor[:arch[@sdk]]; outranks TUTTI_PROFILE")
    link.add_argument("--write", action="store_true", help="from the device to the host")
    link.add_argument(
        "--mib", type=whole_number(0, 1 << 16), default=0, metavar="N", help="moved in a round (0: 512; 8 on HOST)"
    )
    link.add_argument("--blocks", type=_numbers, default=None, metavar="N,N", help="of the controller (1,2,4,8)")
    link.add_argument("--rounds", type=whole_number(1, 1000), default=5, metavar="N", help="of each way (5)")
    link.add_argument(
        "--time-limit", type=whole_number(0, 86400), default=60, metavar="S", help="begin no way behind it (60)"
    )
    link.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures (.png .svg .pdf)")
    link.add_argument("--json", action="store_true", help="one JSON object on standard output")


def _configure_grid(what: Any) -> None:
    grid = what.add_parser(
        "grid",
        help="the ring alone, over the device's null controller, beside a ring of tickets and locks",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    grid.add_argument("--profile", help="vendor[:arch[@sdk]]; outranks TUTTI_PROFILE")
    grid.add_argument("--queues", type=_numbers, default=None, metavar="N,N", help="queue pairs (1,4,16,32,128)")
    grid.add_argument(
        "--lanes",
        type=_numbers,
        default=None,
        metavar="N,N",
        help="of the kernels (32,256,1024,4096,16384,65536; with one lane a wave up to 4096)",
    )
    grid.add_argument(
        "--depth", type=whole_number(2, 1 << 16), default=1024, metavar="N", help="entries of a queue (1024)"
    )
    grid.add_argument(
        "--least", type=whole_number(1, 1 << 24), default=16384, metavar="N", help="commands of a launch (16384)"
    )
    grid.add_argument("--rounds", type=whole_number(1, 1000), default=3, metavar="N", help="of each cell (3)")
    grid.add_argument("--one-lane", action="store_true", help="also with one lane of each wave")
    grid.add_argument("--reversed", action="store_true", help="also with completions posted last one first")
    grid.add_argument("--no-baseline", action="store_true", help="the ring only; any depth")
    grid.add_argument(
        "--samples", type=whole_number(0, 200), default=200, metavar="N", help="of latencies (200; 0: none are taken)"
    )
    grid.add_argument(
        "--cell-limit", type=whole_number(1, 600), default=5, metavar="S", help="seconds of each ring in a cell (5)"
    )
    grid.add_argument(
        "--time-limit", type=whole_number(0, 86400), default=45, metavar="S", help="begin no cell behind it (45)"
    )
    grid.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures (.png .svg .pdf)")
    grid.add_argument("--json", action="store_true", help="one JSON object on standard output")


def _configure_storage(what: Any) -> None:
    storage = what.add_parser(
        "storage",
        help="the storage runtime: opens, registrations, submits, throughput beside the raw ring",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    storage.add_argument("--profile", help="vendor[:arch[@sdk]]; outranks TUTTI_PROFILE")
    storage.add_argument(
        "--files", type=_numbers, default=None, metavar="N,N", help="opened at once, a figure each (500,10000)"
    )
    storage.add_argument("--rounds", type=whole_number(1, 1000), default=5, metavar="N", help="of each figure (5)")
    storage.add_argument("--dir", type=Path, metavar="DIR", help="where the files are made (the temporary folder)")
    storage.add_argument("--json", action="store_true", help="one JSON object on standard output")


def _numbers(text: str) -> tuple[int, ...]:
    """Numbers of 1 or more."""
    values = tuple(int(part) for part in text.split(","))
    if min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text}: use numbers of 1 or more")
    return values


def _configure_soak(what: Any) -> None:
    soak = what.add_parser(
        "soak",
        help="long life on HOST: many commands over the null controller, sums that must come out exactly",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    soak.add_argument("--profile", help="vendor[:arch[@sdk]]; outranks TUTTI_PROFILE")
    soak.add_argument(
        "--commands", type=whole_number(1, 1 << 48), default=1_000_000, metavar="N", help="in all (1000000)"
    )
    soak.add_argument(
        "--slice", type=whole_number(1, 1 << 40), default=5_000_000, metavar="N", help="of one queue's life (5000000)"
    )
    soak.add_argument("--state", type=Path, metavar="FILE", help="keep finished slices there, and go on from them")
    soak.add_argument(
        "--time-limit", type=whole_number(0, 1 << 31), default=0, metavar="S", help="begin no slice after it (0: none)"
    )
    soak.add_argument("--json", action="store_true", help="one JSON object on standard output")


def _share(text: str) -> float:
    """A share from 0 to 1."""
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is no share from 0 to 1")
    return value


def run(args: argparse.Namespace) -> int:
    """Measures, prints, returns 0; 2 for a soak whose time was over before all commands.

    Raises:
        TuttiError: no profile, options out of range, or a command that did not end well.
    """
    return {"soak": _run_soak, "link": _run_link, "grid": _run_grid, "ring": _run_ring, "storage": _run_storage}[
        args.what
    ](args)


def _run_storage(args: argparse.Namespace) -> int:
    from tutti_hal.bench.storage import Load, measure_storage
    from tutti_hal.cli.terminal import Section, Terminal
    from tutti_hal.machine import benchmark_facts
    from tutti_hal.profile import select

    load = Load(files=args.files or Load.files, rounds=args.rounds, folder=args.dir)
    result = {"bench": "storage", "machine": benchmark_facts(), **measure_storage(select(args.profile), load)}
    if args.json:
        json.dump(result, sys.stdout, indent=2)
        print()
        return 0
    terminal = Terminal()
    terminal.title(f"storage on {result['profile']}; drives: {result['drives']}")
    opens = []
    for one in result["opens"]:
        if "not_run" in one:
            opens.append((f"{one['files']:,} files", "not run", one["not_run"]))
        else:
            said = f"ms; open() in a loop {one['open_loop_ms']:.1f} ms, {one['loop_over_batch']:.1f} times as long"
            opens.append((f"{one['files']:,} files", f"{one['open_batch_ms']:.1f}", said))
    pool, submit, moved = result["registration"], result["submit"], result["throughput"]
    terminal.table(
        [
            Section("open_batch", opens),
            Section(
                "registration",
                [
                    ("a pool", f"{pool['pool_ms']:.1f}", f"ms, {pool['pool_bytes'] >> 20} MiB"),
                    ("a part", f"{pool['part_us']:.3f}", f"us, of {pool['parts']:,}"),
                ],
            ),
            Section(
                "submit",
                [
                    (
                        f"{submit['requests']:,} requests",
                        f"{submit['runtime_us']:,.0f}",
                        f"us; the ring alone {submit['ring_us']:,.0f} us",
                    )
                ],
            ),
            Section(
                "reads of 512 KiB",
                [("GB/s", f"{moved['runtime_gb_per_s']:.2f}", f"{moved['runtime_over_ring']:.3f} of the ring alone")],
            ),
        ]
    )
    return 0


def _run_grid(args: argparse.Namespace) -> int:
    from tutti_hal.bench.grid import QUEUES, GridLoad, measure_grid
    from tutti_hal.machine import benchmark_facts
    from tutti_hal.profile import select

    if args.plot is not None:
        from tutti_hal.workload.plot import check

        check(args.plot)
    load = GridLoad(
        rounds=args.rounds,
        queues=args.queues or QUEUES,
        lanes=args.lanes,
        depth=args.depth,
        least=args.least,
        one_lane=args.one_lane,
        backwards=args.reversed,
        baseline=not args.no_baseline,
        cell_limit_s=args.cell_limit,
        samples=args.samples,
    )
    measured = measure_grid(select(args.profile), load, time_limit_s=args.time_limit)
    result = {"bench": "grid", "machine": benchmark_facts(), **measured}
    if args.plot is not None:
        from tutti_hal.bench.plot import draw_grid

        draw_grid(result, args.plot)
    if args.json:
        json.dump(result, sys.stdout, indent=2)
        print()
    else:
        _print_grid(result)
    return 0


def _print_grid(result: dict[str, Any]) -> None:
    from tutti_hal.cli.terminal import Section, Terminal

    terminal = Terminal()
    terminal.title(
        f"ring over the null controller of {result['device']} ({result['profile']}), depth {result['depth']}"
    )
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for cell in result["cells"]:
        rows = sections.setdefault(f"{cell['layout']}, {cell['order']}, {cell['queues']} queues", [])
        rows.append((f"{cell['lanes']} lanes", _millions(cell), _grid_remark(cell)))
    for one in result["latency"]:
        said = f"us at p50, {one['p99_us']:.2f} at p99"
        if one["baseline_p50_us"] is not None:
            said += f"; baseline {one['baseline_p50_us']:.2f} and {one['baseline_p99_us']:.2f}"
        sections.setdefault("latency", []).append((one["name"], f"{one['p50_us']:.2f}", said))
    terminal.table([Section(name, rows) for name, rows in sections.items()])
    terminal.note("million commands a second, of the launch alone; D: SQ doorbells a command")
    if result["latency"]:
        terminal.note(f"latency {result['latency_of']}; deadlines {result['deadlines']}")
    for cell in result["left_out"]:
        terminal.note(f"not measured, time was over: {cell}")


def _millions(rate: dict[str, Any]) -> str:
    return "-" if rate["commands_per_s"] is None else f"{rate['commands_per_s'] / 1e6:,.2f}"


def _doorbells(rate: dict[str, Any]) -> str:
    return "" if rate["doorbells_per_command"] is None else f"{rate['doorbells_per_command']:.4f} D"


def _grid_remark(cell: dict[str, Any]) -> str:
    said = [_doorbells(cell), f"{cell['commands_per_look']:.1f} found together", cell["note"]]
    other = cell["baseline"]
    if other is not None:
        ratio = "" if cell["over_baseline"] is None else f"{cell['over_baseline']:.1f} times the baseline's "
        said += [f"{ratio or 'baseline '}{_millions(other)}", _doorbells(other), other["note"]]
    return ", ".join(filter(None, said))


def _run_link(args: argparse.Namespace) -> int:
    from tutti_hal.bench.link import BLOCKS, measure_link
    from tutti_hal.machine import benchmark_facts
    from tutti_hal.profile import select

    if args.plot is not None:
        from tutti_hal.workload.plot import check

        check(args.plot)
    measured = measure_link(
        select(args.profile),
        nbytes=args.mib << 20,
        write=args.write,
        rounds=args.rounds,
        blocks=args.blocks or BLOCKS,
        time_limit_s=args.time_limit,
    )
    result = {"bench": "link", "machine": benchmark_facts(), **measured}
    if args.plot is not None:
        from tutti_hal.bench.plot import draw_link

        draw_link(result, args.plot)
    if args.json:
        json.dump(result, sys.stdout, indent=2)
        print()
    else:
        _print_link(result)
    return 0


def _print_link(result: dict[str, Any]) -> None:
    from tutti_hal.cli.terminal import Section, Terminal

    terminal = Terminal()
    terminal.title(
        f"link of {result['device']} ({result['profile']}): {result['direction']}, {result['bytes']:,} bytes"
    )
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for figure in result["figures"]:
        ways = f"{figure['blocks']} blocks, {'SGL' if figure['sgl'] else 'PRP'}" if figure["blocks"] else figure["name"]
        said = f"{figure['over_large']:.3f} of the large copy, {figure['commands_per_s']:,.0f} objects/s"
        if figure["blocks"] and figure["over_batched"] is not None:
            said += f", {figure['over_batched']:.2f} of batched copies"
        sections.setdefault(f"{figure['object_bytes']:,} bytes", []).append((ways, f"{figure['gb_per_s']:.2f}", said))
    terminal.table([Section(name, rows) for name, rows in sections.items()])
    terminal.note(f"GB/s; every byte verified; not compared: {'; '.join(result['not_compared'])}")
    for way in result["left_out"]:
        terminal.note(f"not measured, time was over: {way}")


def _run_soak(args: argparse.Namespace) -> int:
    from tutti_hal.bench.soak import plan, soak
    from tutti_hal.machine import benchmark_facts
    from tutti_hal.profile import select

    said = [time.monotonic()]

    def say(done: int, asked: int) -> None:
        if time.monotonic() - said[0] > _PROGRESS_S:
            said[0] = time.monotonic()
            print(f"soak: {done:,} of {asked:,} commands", file=sys.stderr)

    slices = plan(args.commands, args.slice)
    result = soak(select(args.profile), slices, state=args.state, time_limit_s=args.time_limit, say=say)
    if args.json:
        json.dump({"bench": "soak", "machine": benchmark_facts(), **result}, sys.stdout, indent=2)
        print()
    else:
        print(
            f"soak on {result['profile']}: {result['commands']:,} of {result['asked']:,} commands in"
            f" {len(result['lives'])} lives from {', '.join(result['starts'])}, {result['seconds']:.0f} s;"
            f" all sums are right"
        )
    return 0 if result["complete"] else 2


def _run_ring(args: argparse.Namespace) -> int:
    from tutti_hal.bench.ring import Load, measure_ring
    from tutti_hal.machine import benchmark_facts
    from tutti_hal.profile import select

    if args.plot is not None:
        from tutti_hal.workload.plot import check

        check(args.plot)
    load = Load(write=args.write, batch=args.batch, depth=args.depth, lanes=args.lanes, faults=args.faults)
    result = {
        "bench": "ring",
        "machine": benchmark_facts(),
        **measure_ring(select(args.profile), load, time_limit_s=args.time_limit),
    }
    if args.plot is not None:
        from tutti_hal.bench.plot import draw

        draw(result, args.plot)
    if args.json:
        json.dump(result, sys.stdout, indent=2)
        print()
    else:
        _print(result)
    return 0


def _print(result: dict[str, Any]) -> None:
    from tutti_hal.cli.terminal import Section, Terminal

    machine, ratios = result["machine"], result["ring_over"]
    terminal = Terminal()
    terminal.title(
        f"ring on {result['profile']}: 4 KiB {result['operation']}s, {result['batch']} a batch, depth {result['depth']}"
    )
    terminal.note(
        f"{machine['cpu']}, {machine['cpus']} CPUs, load {machine['load_1min']}; emulated drives, every byte verified"
    )
    terminal.table(
        [
            Section(
                figure["name"],
                [
                    ("commands/s", f"{figure['commands_per_s']:,.0f}", f"{figure['commands']:,} in all"),
                    ("GB/s", f"{figure['gb_per_s']:.3f}" if figure["gb_per_s"] else "-", "payload"),
                    ("doorbells", f"{figure['doorbells_per_command']:.4f}", "a command"),
                    ("CQ loads", f"{figure['cq_loads_per_command']:.2f}", "a command"),
                    ("host calls", f"{figure['host_calls_per_batch']:.2f}", "a batch"),
                ],
            )
            for figure in result["figures"]
        ]
    )
    for name, ratio in ratios.items():
        terminal.note(f"ring over {name}: {ratio:.2f}x")
    if result["faults"]:
        struck = result["faults"]
        terminal.note(f"with {struck['rate']:.2%} of errors: {struck['over_clean']:.2f}x of the clean ring")
