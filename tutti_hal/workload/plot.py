"""The demo's picture: throughput, hits, the pipeline by layer, and each drive's share. Needs the extra ``report``."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import PlotError
from tutti_hal.workload.replay import ReplayResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMATS = (".png", ".svg", ".pdf")
_READ, _WRITE, _COMPUTE, _STALL, _INK = "#1f6f8b", "#e08e45", "#9aa5ad", "#b23a48", "#2b2d33"


@dataclass(frozen=True)
class PlotLabels:
    """Text that the picture needs beside the figures.

    Attributes:
        title: one line: what ran.
        subtitle: at least one line below it: on what, and what was scaled.
        drives: a name for each drive.
        drive_read_bytes, drive_written_bytes: for each drive, as the controller counted.
        one_drive_gb_s: measured ceiling of one drive, reading; 0 leaves the line out.
    """

    title: str
    subtitle: Sequence[str]
    drives: Sequence[str]
    drive_read_bytes: Sequence[int]
    drive_written_bytes: Sequence[int]
    one_drive_gb_s: float


def check(path: Path) -> None:
    """Says before a long run, not after it, that its plot could not be drawn.

    Raises:
        PlotError: matplotlib is absent, the ending is not one of ``.png .svg .pdf``, or the folder does not exist.
    """
    if path.suffix.lower() not in _FORMATS:
        raise PlotError(
            f"plotting to {path}", f"unknown ending {path.suffix!r}", f"Name a file ending in {', '.join(_FORMATS)}."
        )
    if not path.parent.is_dir():
        raise PlotError(f"plotting to {path}", f"there is no folder {path.parent}", "Make it first.")
    if path.is_dir():
        raise PlotError(f"plotting to {path}", "it is a folder", "Name a file.")
    if importlib.util.find_spec("matplotlib") is None:
        raise PlotError(
            f"plotting to {path}",
            "matplotlib is not installed",
            "Run `pip install 'tutti-hal[report]'`, or leave out --plot.",
        )


def draw(result: ReplayResult, labels: PlotLabels, path: Path) -> None:
    """Draws one replay to ``path``; the ending says the format. Replaces the file.

    Raises:
        PlotError: as ``check``, or the file cannot be written.
    """
    check(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": _INK,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e6e8eb",
        "legend.frameon": False,
        "svg.hashsalt": "tutti-hal",
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(11, 7.2), layout="constrained")
        figure.suptitle(labels.title, x=0.012, ha="left", fontsize=13, fontweight="bold", color=_INK)
        # An invisible row of its own, so that the layout leaves room for it.
        axes = figure.subplot_mosaic(
            [["head", "head"], ["throughput", "hits"], ["layers", "drives"]],
            height_ratios=[0.045 * len(labels.subtitle), 1, 1],
        )
        head = axes["head"]
        head.set_axis_off()
        head.text(0, 0.5, "\n".join(labels.subtitle), fontsize=8.5, color="#5b6068", ha="left", va="center")
        _throughput(axes["throughput"], result, labels.one_drive_gb_s)
        _hits(axes["hits"], result)
        _by_layer(axes["layers"], result)
        _shares(axes["drives"], labels)
        try:
            figure.savefig(path, dpi=130)
        except OSError as error:
            raise PlotError(
                f"plotting to {path}", error.strerror or str(error), "Name a file that can be written."
            ) from None


def _throughput(axes: Axes, result: ReplayResult, one_drive_gb_s: float) -> None:
    edges = [0.0]
    read, written = [], []
    for request in result.requests:
        edges.append(request.begin_s + request.wall_s)
        length = max(request.wall_s, 1e-9)
        read.append(request.bytes_read / length / 1e9)
        written.append(request.bytes_written / length / 1e9)
    total = [r + w for r, w in zip(read, written, strict=True)]
    axes.stairs(total, edges, baseline=read, fill=True, color=_WRITE, alpha=0.85, label="written (misses)")
    axes.stairs(read, edges, fill=True, color=_READ, alpha=0.9, label="read (hits)")
    mean = (result.bytes_read + result.bytes_written) / max(result.pipeline_s, 1e-9) / 1e9
    axes.axhline(mean, color=_INK, linewidth=1, label=f"mean {mean:.3g} GB/s")
    if one_drive_gb_s:
        axes.axhline(
            one_drive_gb_s,
            color=_STALL,
            linewidth=1,
            linestyle="--",
            label=f"one drive, reads only: {one_drive_gb_s:.3g}",
        )
    axes.set(title="Throughput, request by request", xlabel="pipeline time [s]", ylabel="GB/s")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, max([*total, one_drive_gb_s]) * 1.35)
    axes.legend(loc="upper right", ncols=2, fontsize=8)


def _hits(axes: Axes, result: ReplayResult) -> None:
    number = range(1, len(result.requests) + 1)
    ratios, running = [], []
    hits = total = 0
    for request in result.requests:
        ids = request.hits + request.misses
        hits += request.hits
        total += ids
        ratios.append(100 * request.hits / ids if ids else 0.0)
        running.append(100 * hits / total if total else 0.0)
    axes.bar(number, ratios, width=0.9, color=_READ, alpha=0.35, label="of one request")
    axes.plot(number, running, color=_READ, linewidth=2, label=f"of all so far (end: {running[-1]:.1f} %)")
    axes.set(title="Hit ratio of the block cache", xlabel="request", ylabel="hash ids hit [%]", ylim=(0, 115))
    axes.set_xlim(0.4, len(result.requests) + 0.6)
    _whole_numbers(axes)
    axes.legend(loc="upper right", ncols=2, fontsize=8)


def _by_layer(axes: Axes, result: ReplayResult) -> None:
    number = range(len(result.layers))
    requests = max(1, len(result.requests))

    def ms(values: Sequence[float]) -> list[float]:
        return [1e3 * value / requests for value in values]

    stall = ms([layer.stall_s for layer in result.layers])
    hidden = ms([max(0.0, layer.read_s - layer.stall_s) for layer in result.layers])
    axes.bar(number, stall, width=0.8, color=_STALL, label="read, pipeline waits")
    axes.bar(number, hidden, width=0.8, bottom=stall, color=_READ, label="read, hidden behind compute and writes")
    axes.plot(
        number, ms([x.compute_s for x in result.layers]), color=_INK, marker=".", linewidth=1, label="compute stand-in"
    )
    axes.plot(
        number, ms([x.write_s for x in result.layers]), color=_WRITE, marker=".", linewidth=1, label="write in flight"
    )
    highest = max(
        [s + h for s, h in zip(stall, hidden, strict=True)]
        + ms([x.write_s for x in result.layers])
        + ms([x.compute_s for x in result.layers])
    )
    axes.set(title=f"Pipeline by layer ({result.read_overlap:.0%} of read time hidden)", xlabel="layer")
    axes.set_ylabel("mean of all requests [ms]")
    _whole_numbers(axes)
    axes.set_ylim(0, max(highest, 1e-6) * 1.35)
    axes.legend(loc="upper right", ncols=2, fontsize=8)


def _shares(axes: Axes, labels: PlotLabels) -> None:
    place = range(len(labels.drives))
    read = [value / 2**20 for value in labels.drive_read_bytes]
    written = [value / 2**20 for value in labels.drive_written_bytes]
    axes.barh(place, read, height=0.6, color=_READ, label="read")
    bars = axes.barh(place, written, height=0.6, left=read, color=_WRITE, label="written")
    whole = sum(read) + sum(written)
    shares = [f"{(r + w) / whole:.1%}" if whole else "" for r, w in zip(read, written, strict=True)]
    axes.bar_label(bars, labels=shares, padding=5, color=_INK)
    axes.set_yticks(list(place), list(labels.drives))
    axes.set(title="What each drive moved, as its controller counted", xlabel="MiB")
    axes.set_xlim(0, max([r + w for r, w in zip(read, written, strict=True)], default=1) * 1.25 or 1)
    axes.set_ylim(len(labels.drives) - 0.4, -1.1)
    axes.legend(loc="upper right", ncols=2, fontsize=8)
    axes.grid(axis="y", visible=False)


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
