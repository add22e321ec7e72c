"""Building the module and the fake vendor drivers for a kernel line, with the compiler that built its kernel.

5.10 and 6.1 are built by the host's gcc-12. Newer lines need a newer compiler, and header programs that need a newer C
library: those run in an unpacked tree by chroot, whose mounts live in a namespace of their own and vanish with it.
What was built is kept by the hash of its sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from rig.errors import RigError
from rig.kernels import Kernel, fetch_headers
from rig.packages import Archive
from rig.tools import Runner, require, run

MAKE_TIMEOUT_S = 400.0
TOOLS = ("make", "pahole", "libelf1t64", "bash", "coreutils", "dash", "sed", "grep", "gawk", "findutils", "binutils")

# Run in a namespace of mounts of its own: $1 the unpacked tree, $2 how many folders follow that must lie at the same
# place inside, then those, then the command.
ENTER = """
set -e
tree=$1; count=$2; shift 2
while [ "$count" -gt 0 ]; do
    mkdir -p "$tree$1"; mount --bind "$1" "$tree$1"; shift; count=$((count - 1))
done
mkdir -p "$tree/dev" "$tree/proc" "$tree/tmp"
mount --bind /dev "$tree/dev"; mount -t proc proc "$tree/proc"; mount -t tmpfs tmpfs "$tree/tmp"
exec chroot "$tree" "$@"
"""


class CannotBuild(RigError):
    """A line that cannot be built for here (not root); its cases are skipped with this reason."""


def sources_of(folder: Path) -> list[Path]:
    """Every file that the module in ``folder`` is built from, in a stable order, without the rig's own."""
    found = [path for path in folder.rglob("*") if path.is_file() and _counts(path.relative_to(folder))]
    return sorted(found)


def _counts(name: Path) -> bool:
    if name.parts[0] == "rig" or name.name.startswith("."):
        return False
    return name.suffix in (".c", ".h", ".mk") or name.name in ("Makefile", "Kbuild")


def digest(files: list[Path], base: Path, *words: str) -> str:
    """A name for what ``files`` hold, where they lie below ``base``, and ``words``."""
    found = hashlib.sha256(repr(words).encode())
    for file in files:
        found.update(f"{file.relative_to(base)}\0".encode())
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def toolchain(trixie_or_newer: Archive, compiler: str) -> Path:
    """The unpacked tree with ``compiler`` and what kernel builds need besides."""
    tree = trixie_or_newer.unpack_closure(trixie_or_newer.cache / "toolchain" / compiler, (compiler, *TOOLS))
    links = {"awk": "gawk", "gcc": f"{compiler}", "sh": "dash"}
    for name, target in links.items():
        link = tree / "usr/bin" / name
        if not link.exists() and not link.is_symlink():
            link.symlink_to(target)
    return tree


def modules(
    archive: Archive, kernel: Kernel, folder: Path, *, variables: tuple[str, ...] = (), runner: Runner = run
) -> Path:
    """Build the modules whose Makefile lies in ``folder`` for ``kernel``; returns where they lie, in the cache.

    Warnings fail the build (the Makefile's own flags). RigError with the compiler's last lines when it does not build;
    CannotBuild when the line needs a chroot and this is not root.
    """
    headers = fetch_headers(archive, kernel)
    files = sources_of(folder)
    name = digest(files, folder, kernel.release, *variables)
    built = archive.cache / "built" / f"{kernel.release}-{folder.name}-{name}"
    if not built.exists():
        if kernel.line.compiler and os.geteuid():
            raise CannotBuild(
                f"building for {kernel.line.name}",
                "its compiler runs in a chroot",
                "run the rig as root: sudo make ...",
            )
        part = built.with_name(f"{built.name}.part{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        for file in files:
            copy = part / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        make = ["make", "-s", "-C", str(headers), f"M={part}", *variables]
        if not kernel.line.compiler:
            require("gcc-12")
            runner([*make, "CC=gcc-12", "modules"], timeout_s=MAKE_TIMEOUT_S)
        else:
            tree = toolchain(archive, kernel.line.compiler)
            inside = [str(headers.parent.parent.parent), str(part.parent)]
            words = ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(tree), str(len(inside)), *inside]
            runner([*words, *make, f"CC={kernel.line.compiler}", "modules"], timeout_s=MAKE_TIMEOUT_S)
        part.rename(built)
    return built
