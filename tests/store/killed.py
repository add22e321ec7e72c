"""Processes that put objects until they are killed: ``killed.py PATH KILLS``.

Each child says on its pipe what it begins, and that it ended; the parent kills it at random and hands on what it said.
A line on standard input starts the next one, so that somebody may look at the store in between.
"""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from tutti_hal.store import FileDevice, Store, StoreOptions


def value_of(key: int, turn: int) -> bytes:
    """What a key holds after its turn-th put: said by both sides, kept by neither."""
    size = (key * 977 + turn * 311) % 6000
    return np.random.default_rng([key, turn]).bytes(size)


def work(path: Path, seed: int) -> None:
    """Calls without an end."""
    random = np.random.default_rng(seed)
    store = Store.open(FileDevice(path), StoreOptions(checkpoint_every=7))
    for turn in range(seed * 10_000, seed * 10_000 + 10_000):
        key = int(random.integers(8))
        drop = random.random() < 0.2
        print("begin", key, -1 if drop else turn, flush=True)
        if drop:
            store.delete([f"{key}"])
        else:
            store.put(f"{key}", value_of(key, turn))
        print("end", flush=True)
        if turn % 13 == 0:
            store.compact()


def kill_one(path: Path, seed: int, seconds: float) -> str:
    """What a child said until it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        try:
            work(path, seed)
        finally:
            os._exit(1)
    os.close(writer)
    said = os.read(reader, 1 << 16)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader) as rest:
        return said.decode() + rest.read()


def main() -> None:
    path, kills = Path(sys.argv[1]), int(sys.argv[2])
    random = np.random.default_rng(11)
    value_of(0, 0)
    for seed in range(1, kills + 1):
        sys.stdin.readline()
        said = kill_one(path, seed, float(random.random()) * 0.1)
        # What was cut off in a line was never said.
        print(*said.split("\n")[:-1], "killed", sep="\n", flush=True)


if __name__ == "__main__":
    main()
