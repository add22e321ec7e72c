"""The cache of compiled kernels: one folder for each content key, put in place whole, by one builder at a time.

A folder appears under its key by one rename, so a reader sees all of it or nothing. Builders of one key take turns by a
lock that the kernel drops when its holder dies: a killed builder leaves nothing that another would wait for.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tutti_hal.errors import CacheUnwritable

#: Names the cache's folder.
VARIABLE = "TUTTI_CACHE_DIR"

#: What a full or read-only disk says.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

#: Changes when the layout of a cached folder does.
_LAYOUT = "v1"


def folder() -> Path:
    """The cache's folder: ``TUTTI_CACHE_DIR``, else ``tutti-hal`` in the user's cache folder. Creates nothing.

    Raises:
        CacheUnwritable: no variable is set, and this user has no home.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "tutti-hal"
    try:
        return Path.home() / ".cache" / "tutti-hal"
    except RuntimeError as error:
        raise CacheUnwritable(
            "find the cache of compiled kernels", f"user {os.getuid()} has no home", f"Set {VARIABLE} to a folder."
        ) from error


def entry(key: str) -> Path:
    """Where the folder of ``key`` is, or will be."""
    return folder() / _LAYOUT / key[:2] / key


def _unwritable(error: OSError) -> CacheUnwritable:
    return CacheUnwritable(
        f"write to the cache {folder()}",
        error.strerror or str(error),
        f"Make that folder writable, or set {VARIABLE} to one that is.",
    )


@contextlib.contextmanager
def building(key: str) -> Iterator[Path | None]:
    """The right to build ``key``: yields a fresh folder to fill, or None when another builder finished first.

    Blocks while another process or thread builds the same key. When the body ends, the folder is put in place; when it
    raises, the folder is removed and nothing changes.

    Raises:
        CacheUnwritable: the cache's folder cannot be written, or is full.
    """
    target = entry(key)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(target.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise _unwritable(error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:  # a file system without locks
            raise _unwritable(error) from error
        if target.is_dir():
            yield None
            return
        try:
            fresh = Path(tempfile.mkdtemp(prefix=f".{key[:16]}.", dir=target.parent))
        except OSError as error:
            raise _unwritable(error) from error
        try:
            yield fresh
            fresh.chmod(0o755)
            fresh.rename(target)
        except OSError as error:
            if error.errno in _NO_ROOM or (error.filename is not None and fresh in Path(error.filename).parents):
                raise _unwritable(error) from error
            raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    finally:
        os.close(lock)
