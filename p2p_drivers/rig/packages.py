"""Debian packages without installing: apt with lists and a cache of its own, and trees unpacked by dpkg-deb.

Nothing of the host's own apt or dpkg state is read or changed. A tree is unpacked beside its final name and renamed
when whole, so that an interrupted run leaves nothing that looks finished.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rig.errors import RigError
from rig.tools import Runner, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DOWNLOAD_TIMEOUT_S = 540.0


def cache_folder() -> Path:
    """Where everything downloaded is kept: $TUTTI_RIG_CACHE, else $XDG_CACHE_HOME/tutti-hal/rig."""
    chosen = os.environ.get("TUTTI_RIG_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tutti-hal" / "rig"


def mirror_of_host(etc: Path = Path("/etc/apt")) -> str:
    """The Debian mirror: $TUTTI_RIG_MIRROR, else the one that this machine uses; RigError when there is neither."""
    chosen = os.environ.get("TUTTI_RIG_MIRROR")
    if chosen:
        return chosen.rstrip("/")
    for name in ("sources.list.d/debian.sources", "sources.list"):
        file = etc / name
        if not file.is_file():
            continue
        found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?)\s+(https?://\S+)", file.read_text(), re.MULTILINE)
        if found:
            return found.group(1).rstrip("/")
    raise RigError("looking for a Debian mirror", f"{etc} names none", "export TUTTI_RIG_MIRROR=http://...")


@dataclass(frozen=True)
class Archive:
    """One suite of the Debian archive, read through apt with its state below ``cache``/apt/``suite``."""

    suite: str
    cache: Path
    mirror: str
    runner: Runner = field(default=run, repr=False)

    @property
    def state(self) -> Path:
        """Folder of this suite's lists, downloads and source file."""
        return self.cache / "apt" / self.suite

    def options(self) -> tuple[str, ...]:
        """What makes apt use this folder and nothing of the host."""
        return (
            *("-o", f"Dir::Etc::sourcelist={self.state / 'rig.sources'}"),
            *("-o", "Dir::Etc::sourceparts=/dev/null"),
            *("-o", f"Dir::State::Lists={self.state / 'lists'}"),
            *("-o", "Dir::State::status=/dev/null"),
            *("-o", f"Dir::Cache={self.state / 'cache'}"),
            *("-o", "APT::Sandbox::User=root"),
            *("-o", "Acquire::Languages=none"),
        )

    def update(self) -> None:
        """Fetch the package lists once; later calls find them. Delete the folder to look again."""
        stamp = self.state / "lists.done"
        if stamp.exists():
            return
        if not KEYRING.exists():
            raise RigError(
                f"reading Debian {self.suite}", f"{KEYRING} is absent", "sudo apt-get install debian-archive-keyring"
            )
        for folder in ("lists/partial", "cache/archives/partial"):
            (self.state / folder).mkdir(parents=True, exist_ok=True)
        (self.state / "rig.sources").write_text(
            f"Types: deb\nURIs: {self.mirror}\nSuites: {self.suite}\nComponents: main\nSigned-By: {KEYRING}\n"
        )
        self.runner(("apt-get", *self.options(), "-qq", "update"), timeout_s=DOWNLOAD_TIMEOUT_S)
        stamp.touch()

    def depends(self, package: str) -> tuple[str, ...]:
        """Names that ``package`` depends on directly; RigError when the suite has no such package."""
        text = self.runner(("apt-cache", *self.options(), "depends", "--important", package))
        return tuple(re.findall(r"^ *\|?Depends: ([^<\s]\S*)$", text, re.MULTILINE))

    def has(self, package: str) -> bool:
        """Whether the suite has a package of exactly this name."""
        return package in self.runner(("apt-cache", *self.options(), "pkgnames", package)).split()

    def unpack(self, tree: Path, packages: Sequence[str]) -> Path:
        """``tree`` with exactly ``packages`` unpacked in it; downloads only when it is not there already."""
        if tree.exists():
            return tree
        self.update()
        with self._downloads() as folder:
            self.runner(
                ("apt-get", *self.options(), "-qq", "download", *packages), cwd=folder, timeout_s=DOWNLOAD_TIMEOUT_S
            )
            self._unpack(tree, folder)
        return tree

    def unpack_closure(self, tree: Path, packages: Sequence[str]) -> Path:
        """``tree`` with ``packages`` and everything they depend on unpacked in it."""
        if tree.exists():
            return tree
        self.update()
        with self._downloads() as folder:
            install = ("install", "-qq", "-y", "--no-install-recommends", "--download-only")
            archives = ("-o", f"Dir::Cache::archives={folder}")
            (folder / "partial").mkdir()
            self.runner(("apt-get", *self.options(), *archives, *install, *packages), timeout_s=DOWNLOAD_TIMEOUT_S)
            self._unpack(tree, folder)
        return tree

    @contextmanager
    def _downloads(self) -> Iterator[Path]:
        folder = self.state / f"downloads.{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _unpack(self, tree: Path, folder: Path) -> None:
        archives = sorted(folder.glob("*.deb"))
        if not archives:
            raise RigError(f"downloading for {tree.name}", "apt brought no package", f"rm -r {self.state}; try again")
        part = tree.with_name(f"{tree.name}.part{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for archive in archives:
            self.runner(("dpkg-deb", "-x", str(archive), str(part)), timeout_s=300.0)
        (part / "packages.txt").write_text("".join(f"{archive.name}\n" for archive in archives))
        part.rename(tree)
