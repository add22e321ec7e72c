"""``tutti-hal generate``: render a profile's kernels as source that stands on its own."""

from __future__ import annotations

import argparse
import difflib
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tutti_hal.codegen import Rendered, kernel_sets, render, require_complete
from tutti_hal.codegen.sources import template_name
from tutti_hal.errors import GenerationError
from tutti_hal.paths import templates_dir
from tutti_hal.profile import Profile, resolve
from tutti_hal.toolchain import Compiler, Toolchain, toolchain_of


@dataclass(frozen=True)
class Tree:
    """What is rendered for archs whose text is the same: relative path -> text, and where it goes."""

    archs: tuple[str, ...]
    folder: str
    files: Mapping[str, str]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this verb."""
    parser.add_argument("--profile", metavar="VENDOR[:ARCH]", help="what to render for (default: as all verbs choose)")
    parser.add_argument(
        "--arch", action="append", metavar="ARCH", help="an arch of the profile's vendor, or `all`; may be repeated"
    )
    parser.add_argument("--set", action="append", metavar="NAME", dest="sets", help="a kernel set; may be repeated")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write; made if need be")
    parser.add_argument(
        "--check", action="store_true", help="write nothing: compare with what is in DIR, and print the difference"
    )
    parser.epilog = (
        "Archs whose text is the same share one folder: DIR itself when there is one, else DIR/ARCH.\n\n"
        "examples:\n"
        "  tutti-hal generate --profile host --out out/host\n"
        "  tutti-hal generate --profile host --arch all --set ring --out out/ring\n"
        "  tutti-hal generate --profile host --out tests/codegen/golden/host --check"
    )


def run(args: argparse.Namespace) -> int:
    """Render, then write or compare.

    Returns:
        0; 1 when ``--check`` found a difference.

    Raises:
        GenerationError, RecordIncomplete: the record or a template is not fit to be rendered.
        ProfileError: no profile could be chosen.
    """
    profile = resolve(args.profile)
    trees = render_trees(profile, archs_of(profile, args.arch), args.sets)
    print(f"profile {profile.vendor} (chosen by {profile.chosen_by})")
    if args.check:
        return _compare(trees, args.out)
    chain = toolchain_of(profile)
    for tree in trees:
        folder = args.out / tree.folder
        for name, text in tree.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for header in chain.headers():
            path = folder / header.parent.name / header.name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(header, path)
        units = [name for name in tree.files if "/" not in name and name.endswith(profile.record.toolchain.suffix)]
        print(f"{', '.join(tree.archs)}: {len(units)} units and their headers in {folder}")
        for arch in tree.archs:
            print(f"  {_command(chain, arch, folder, units[0])}")
    return 0


def archs_of(profile: Profile, named: list[str] | None) -> tuple[str, ...]:
    """The archs that the options ask for: those named, all, or the profile's.

    Raises:
        GenerationError: the record has no such arch.
    """
    if named is None:
        return profile.archs
    if "all" in named:
        return tuple(profile.record.archs)
    for name in named:
        if name not in profile.record.archs:
            near = difflib.get_close_matches(name, profile.record.archs, n=1)
            raise GenerationError(
                f"generate for {profile.vendor}:{name}",
                "the record has no such arch" + (f"; did you mean '{near[0]}'?" if near else ""),
                f"Use one of {', '.join(profile.record.archs)}, or all.",
            )
    return tuple(dict.fromkeys(named))


def sets_of(named: list[str] | None) -> tuple[str, ...]:
    """The kernel sets that the options ask for: those named, or all.

    Raises:
        GenerationError: there is no such set.
    """
    known = kernel_sets(templates_dir())
    for name in named or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise GenerationError(
                f"find kernel set '{name}'",
                "there is none of that name" + (f"; did you mean '{near[0]}'?" if near else ""),
                f"Use one of {', '.join(known)}.",
            )
    return tuple(dict.fromkeys(named)) if named else known


def render_trees(profile: Profile, archs: tuple[str, ...], sets: list[str] | None = None) -> list[Tree]:
    """Every kernel set for every arch, archs of the same text together.

    Raises:
        GenerationError, RecordIncomplete: the record or a template is not fit to be rendered.
    """
    require_complete(profile.record)
    suffix = profile.record.toolchain.suffix
    same: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for arch in archs:
        files: dict[str, str] = {}
        for name in sets_of(sets):
            unit: Rendered = render(profile.record, arch, template_name(name))
            files |= {**unit.headers, f"{unit.name}{suffix}": unit.source}
        same.setdefault(tuple(sorted(files.items())), []).append(arch)
    return [Tree(tuple(names), "" if len(same) == 1 else names[0], dict(files)) for files, names in same.items()]


def _compare(trees: list[Tree], out: Path) -> int:
    """Print a unified difference for each file that is not as it would be rendered now."""
    differing = 0
    for tree in trees:
        folder = out / tree.folder
        there = {
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and path.suffix in {".h", ".cuh", ".cu", ".cpp"} and path.parent.name != "tutti"
        }
        for name in sorted(there | set(tree.files)):
            path = folder / name
            old = path.read_text(encoding="utf-8") if path.is_file() else ""
            new = tree.files.get(name, "")
            if old != new:
                differing += 1
                lines = difflib.unified_diff(
                    old.splitlines(keepends=True), new.splitlines(keepends=True), str(path), "rendered now"
                )
                sys.stdout.writelines(lines)
    print(f"{differing} files differ" if differing else "as rendered now")
    return 1 if differing else 0


def _command(chain: Toolchain, arch: str, folder: Path, unit: str) -> str:
    driver = Compiler(Path(chain.record.toolchain.drivers[0]), "")
    module = folder / (Path(unit).stem + chain.record.toolchain.output)
    return shlex.join(chain.command(driver, chain.record.archs[arch], folder / unit, module))
