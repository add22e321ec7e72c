"""What each kernel needed of the device when it was last looked at, and how much more it may need now.

One file a vendor, ``baseline/<vendor>.yaml``, written by ``python -m tutti_hal.conformance_tests.isa
--update-baseline``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.conformance_tests.errors import BaselineInvalid

if TYPE_CHECKING:
    from tutti_hal.toolchain import Built, Resources

#: The figures of a kernel, in the order of the file. All may only shrink, registers may grow a little.
FIGURES = ("registers", "spill_bytes", "shared_bytes", "local_bytes")

#: Registers of a lane that a kernel may need more than its baseline: this share of it, and at least so many.
REGISTER_SHARE, REGISTER_FLOOR = 0.1, 4

#: Kernel sets whose kernels are the suite's own: one without a baseline, or that grew, is only said.
PROBES = ("probe_", "litmus")

Figures = tuple[int | None, ...]


@dataclass(frozen=True)
class Baseline:
    """The committed figures of one vendor.

    Attributes:
        compiler: the version that the figures are of.
        kernels: (arch, ``set/kernel``) -> figures; None where the toolchain could not tell.
    """

    compiler: str
    kernels: Mapping[tuple[str, str], Figures]


@dataclass(frozen=True)
class Comparison:
    """What came of comparing.

    Attributes:
        grown: a sentence for each figure beyond its margin, with both figures.
        lacking: product kernels that have no baseline.
        said: what is no failure: kernels of probes that grew or have no baseline, baselines without a kernel.
        compared: how many figures were.
    """

    grown: tuple[str, ...]
    lacking: tuple[str, ...]
    said: tuple[str, ...]
    compared: int


def file_of(vendor: str) -> Path:
    """Where the baseline of a vendor lies."""
    from tutti_hal.paths import package_file

    return package_file("conformance_tests", "isa") / "baseline" / f"{vendor}.yaml"


def load(vendor: str) -> Baseline | None:
    """The baseline of a vendor, None where there is none.

    Raises:
        BaselineInvalid: the file is damaged.
    """
    import yaml

    file = file_of(vendor)
    if not file.is_file():
        return None
    try:
        table = yaml.safe_load(file.read_text(encoding="utf-8"))
        kernels = {
            (str(arch), str(kernel)): _figures(figures)
            for arch, found in table["archs"].items()
            for kernel, figures in found.items()
        }
        return Baseline(str(table["compiler"]), kernels)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise BaselineInvalid(
            f"read the baseline {file}", f"it is damaged: {error!r}", "Write it again with --update-baseline."
        ) from error


def _figures(values: Iterable[int | None]) -> Figures:
    found = tuple(None if one is None else int(one) for one in values)
    if len(found) != len(FIGURES):
        raise ValueError(f"{len(found)} figures, wanted {len(FIGURES)}")
    return found


def figures_of(need: Resources) -> Figures:
    """A kernel's figures."""
    return tuple(getattr(need, name) for name in FIGURES)


def compare(baseline: Baseline, modules: Iterable[Built]) -> Comparison:
    """Modules against the baseline. Only archs that were built are looked at."""
    grown: list[str] = []
    lacking: list[str] = []
    said: list[str] = []
    compared = 0
    seen = set()
    built = tuple(modules)
    for module in built:
        for need in module.resources:
            key = (module.arch, f"{module.kernel_set}/{need.kernel}")
            seen.add(key)
            known = baseline.kernels.get(key)
            if known is None:
                (said if module.kernel_set.startswith(PROBES) else lacking).append(f"{key[1]} on {key[0]}: no baseline")
                continue
            found = said if module.kernel_set.startswith(PROBES) else grown
            for name, was, now in zip(FIGURES, known, figures_of(need), strict=True):
                if was is None:
                    continue
                compared += 1
                if now is None:
                    found.append(f"{key[1]} on {key[0]}: {name} was {was}, and now the toolchain cannot tell")
                elif now > was + _margin(name, was):
                    found.append(f"{key[1]} on {key[0]}: {name} {now}, baseline {was}, margin {_margin(name, was)}")
    archs = {module.arch for module in built}
    gone = sorted(key for key in baseline.kernels if key[0] in archs and key not in seen)
    said += [f"{kernel} on {arch}: a baseline of no kernel" for arch, kernel in gone]
    return Comparison(tuple(grown), tuple(lacking), tuple(said), compared)


def _margin(name: str, was: int) -> int:
    return max(REGISTER_FLOOR, int(was * REGISTER_SHARE)) if name == "registers" else 0


def write(vendor: str, modules: Iterable[Built]) -> Path:
    """Write the baseline of a vendor from modules of all its archs; the file."""
    built = tuple(modules)
    lines = [
        "# What each kernel needs: registers of a lane, spilled bytes, shared bytes of a block, stack bytes of a lane.",
        "# Written by `python -m tutti_hal.conformance_tests.isa --update-baseline`; look at the difference.",
        f"compiler: {built[0].compiler}",
        "archs:",
    ]
    for arch in dict.fromkeys(module.arch for module in built):
        lines.append(f"  {arch}:")
        for module in sorted((one for one in built if one.arch == arch), key=lambda one: one.kernel_set):
            for need in module.resources:
                words = ["null" if one is None else str(one) for one in figures_of(need)]
                lines.append(f"    {module.kernel_set}/{need.kernel}: [{', '.join(words)}]")
    file = file_of(vendor)
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
