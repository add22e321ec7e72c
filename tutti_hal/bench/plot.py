"""Figures of the ring as a picture: one bar for each way, with its ratio to the ring. Needs the extra ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tutti_hal.errors import PlotError
from tutti_hal.workload.plot import check


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws what `measure_ring` returned, with ``machine`` beside it, to ``path``. Replaces the file.

    Raises:
        PlotError: as `tutti_hal.workload.plot.check`, or the file cannot be written.
    """
    check(path)
    from matplotlib.figure import Figure

    figures = result["figures"]
    ring = figures[0]["commands_per_s"]
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    place = list(range(len(figures)))
    bars = axes.barh(place, [each["commands_per_s"] for each in figures], color=["#1f6f8b", *["#9aa5ad"] * 3])
    labels = [f"{each['commands_per_s']:,.0f}/s, {each['commands_per_s'] / ring:.2g} of the ring" for each in figures]
    axes.bar_label(bars, labels=labels, padding=4, fontsize=8)
    axes.set_yticks(place, [each["name"] for each in figures])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.4 * max(each["commands_per_s"] for each in figures))
    axes.set_xlabel(f"4 KiB {result['operation']}s a second; batches of {result['batch']}, depth {result['depth']}")
    axes.spines[["top", "right"]].set_visible(False)
    machine = result["machine"]
    axes.set_title(
        f"Ring on {result['profile']}, software controller: {machine['cpu']}, {machine['cpus']} CPUs",
        loc="left",
        fontsize=10,
    )
    _save(figure, path)


def draw_link(result: dict[str, Any], path: Path) -> None:
    """Draws what `measure_link` returned, with ``machine`` beside it: GB/s by object size, one line a way.

    Raises:
        PlotError: as `draw`.
    """
    check(path)
    from matplotlib.figure import Figure

    figures = result["figures"]
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    lines: dict[str, list[tuple[int, float]]] = {}
    for each in figures[1:]:
        name = f"ours, {each['blocks']} blocks, {'SGL' if each['sgl'] else 'PRP'}" if each["blocks"] else each["name"]
        lines.setdefault(name, []).append((each["object_bytes"], each["gb_per_s"]))
    for name, points in lines.items():
        x, y = zip(*sorted(points), strict=True)
        axes.plot(x, y, marker="o", linestyle="--" if name.endswith("PRP") else "-", label=name)
    axes.axhline(figures[0]["gb_per_s"], color="black", linewidth=1, label=figures[0]["name"])
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({each["object_bytes"] for each in figures[1:]}))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1024:g} KiB")
    axes.set_ylim(0, None)
    axes.set_ylabel("GB/s")
    axes.set_xlabel(f"bytes of an object; {result['bytes'] >> 20} MiB a round, {result['direction']}")
    axes.legend(fontsize=8)
    axes.set_title(f"Link of {result['device']}, {result['machine']['cpu']}", loc="left", fontsize=10)
    _save(figure, path)


def draw_grid(result: dict[str, Any], path: Path) -> None:
    """Draws what `measure_grid` returned, with ``machine`` beside it: rates by lanes, two lines a number of queues.

    Raises:
        PlotError: as `draw`.
    """
    check(path)
    from matplotlib.figure import Figure

    cells = result["cells"]
    kinds = list(dict.fromkeys((each["layout"], each["order"]) for each in cells))
    queues = sorted({each["queues"] for each in cells})
    figure = Figure(figsize=(9, 1 + 3.6 * max(len(kinds), 1)), layout="constrained")
    for axes, kind in zip(figure.subplots(max(len(kinds), 1), squeeze=False)[:, 0], kinds, strict=False):
        for number, count in enumerate(queues):
            mine = [each for each in cells if (each["layout"], each["order"], each["queues"]) == (*kind, count)]
            colour = f"C{number % 10}"
            for name, style, rates in (
                (f"ring, {count} queues", "-", mine),
                (f"baseline, {count} queues", "--", [each["baseline"] or {"commands_per_s": None} for each in mine]),
            ):
                points = [
                    (cell["lanes"], rate["commands_per_s"])
                    for cell, rate in zip(mine, rates, strict=True)
                    if rate["commands_per_s"]
                ]
                if points:
                    axes.plot(*zip(*points, strict=True), marker="o", linestyle=style, color=colour, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylabel("commands a second")
        axes.set_xlabel(f"lanes; {kind[0]}, completions {kind[1]}, depth {result['depth']}")
        axes.grid(alpha=0.3)
        if axes.has_data():
            axes.legend(fontsize=7, ncols=2, handlelength=4)
    figure.suptitle(f"Ring and baseline on {result['device']}, null controller", x=0.01, ha="left", fontsize=10)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=130)
    except OSError as error:
        raise PlotError(
            f"plotting to {path}", error.strerror or str(error), "Name a file that can be written."
        ) from None
