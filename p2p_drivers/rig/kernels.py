"""Kernel lines: which Debian suite has each, and the unpacked trees of its image and of its headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rig.errors import RigError
from rig.packages import Archive


@dataclass(frozen=True)
class Line:
    """A kernel line, the suite that ships it, and the compiler that builds for it ("": the host's gcc-12)."""

    name: str
    suite: str
    compiler: str


LINES = (
    Line("5.10", "bullseye", ""),
    Line("6.1", "bookworm", ""),
    Line("6.12", "trixie", "gcc-14"),
    Line("newest", "sid", "gcc-16"),
)


def line(name: str) -> Line:
    """The kernel line of this name; RigError lists those there are."""
    for known in LINES:
        if known.name == name:
            return known
    names = " ".join(known.name for known in LINES)
    raise RigError(f"choosing kernel {name!r}", "no such line", f"choose from: {names}")


@dataclass(frozen=True)
class Kernel:
    """One line's kernel, unpacked: ``release`` is what uname -r says in the guest."""

    line: Line
    release: str
    tree: Path

    @property
    def image(self) -> Path:
        """The compressed kernel; newer packages keep it beside the modules."""
        for path in (
            self.tree / "boot" / f"vmlinuz-{self.release}",
            self.tree / "usr/lib/modules" / self.release / "vmlinuz",
        ):
            if path.exists():
                return path
        raise RigError(f"kernel {self.release}", f"no vmlinuz below {self.tree}", f"rm -r {self.tree}; try again")

    @property
    def modules(self) -> Path:
        """Folder of this release's modules."""
        for below in ("lib/modules", "usr/lib/modules"):
            path = self.tree / below / self.release
            if (path / "kernel").is_dir():
                return path
        raise RigError(f"kernel {self.release}", f"no modules below {self.tree}", f"rm -r {self.tree}; try again")

    @property
    def headers(self) -> Path:
        """The build folder for modules of this release (present after ``with_headers``)."""
        return self.tree.with_name(f"{self.line.suite}-headers") / "usr/src" / f"linux-headers-{self.release}"


def release_of(archive: Archive) -> str:
    """The release that the suite's metapackage linux-image-amd64 stands for now, such as 6.1.0-50-amd64."""
    for name in archive.depends("linux-image-amd64"):
        found = re.fullmatch(r"linux-image-(\d\S*-amd64)", name)
        if found:
            return found.group(1)
    raise RigError(f"asking {archive.suite} for its kernel", "linux-image-amd64 names none", "is the suite right?")


def fetch(archive: Archive, kernel_line: Line) -> Kernel:
    """The line's kernel image and modules, unpacked below the cache; what is there already is used as it is.

    The release is the one that the suite had when the tree was made: the cache, not the archive, says what is tested.
    """
    tree = archive.cache / "kernel" / kernel_line.suite
    stamp = tree / "release.txt"
    if not stamp.exists():
        archive.update()
        release = release_of(archive)
        split = (f"linux-binary-{release}", f"linux-modules-{release}", f"linux-base-{release}")
        archive.unpack(tree, (f"linux-image-{release}", *(name for name in split if archive.has(name))))
        stamp.write_text(release + "\n")
    return Kernel(kernel_line, stamp.read_text().strip(), tree)


def fetch_headers(archive: Archive, kernel: Kernel) -> Path:
    """The build folder for out-of-tree modules of ``kernel``; its Makefile points into the unpacked tree."""
    tree = kernel.tree.with_name(f"{kernel.line.suite}-headers")
    if not tree.exists():
        archive.update()
        headers = f"linux-headers-{kernel.release}"
        needed = [name for name in archive.depends(headers) if re.match(r"linux-(headers-.*-common|kbuild-)", name)]
        archive.unpack(tree, (headers, *needed))
    makefile = kernel.headers / "Makefile"
    text = makefile.read_text()
    # The packages' own Makefile includes by absolute path: point it at this tree, again after a move of the cache.
    pointed = re.sub(r"(?<=[ =])\S*/usr/src/", f"{tree}/usr/src/", text)
    if pointed != text:
        makefile.write_text(pointed)
    return kernel.headers
