"""Crash points, enumerated: what a store may be after its power was cut anywhere, and what it is.

The device records every block that is written and every flush. For each point of that record, any subset of what was
not flushed may be on the medium, in any order, each block old or new. An image is opened by the product as it is; what
may be seen is said by `Model`, which knows nothing of the product but the calls that were made and when they returned.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti_hal.errors import TuttiError
from tutti_hal.store import FormatOptions, MemoryDevice, Piece, Store, StoreOptions, Way

BLOCK = 512
BLOCKS = 104
LAYOUT = FormatOptions(segment_bytes=9 * BLOCK, objects=14, key_limit=40)
QUOTA = 6000
KEYS = tuple(f"key {n}".encode() for n in range(9))

Values = dict[bytes, bytes]


class RecordingDevice:
    """Blocks in memory behind a volatile cache; it writes down what would be needed to cut the power anywhere."""

    block_bytes = BLOCK
    volatile = True

    def __init__(self, image: NDArray[np.uint8]) -> None:
        self.inner = MemoryDevice(len(image) // BLOCK, BLOCK, image=image)
        self.blocks = self.inner.blocks
        self.events: list[tuple[str, object]] = []

    def read(self, pieces: Sequence[Piece]) -> None:
        self.inner.read(pieces)

    def write(self, pieces: Sequence[Piece]) -> None:
        self.inner.write(pieces)
        self.events.append(("write", self._blocks(pieces)))

    def write_durable(self, piece: Piece) -> None:
        assert piece.data.nbytes == BLOCK, "only one block is written at once or not at all"
        self.inner.write([piece])
        self.events.append(("durable", self._blocks([piece])))

    def flush(self) -> None:
        self.events.append(("flush", None))

    def close(self) -> None:
        pass

    @staticmethod
    def _blocks(pieces: Sequence[Piece]) -> list[tuple[int, bytes]]:
        return [
            (piece.lba + at // BLOCK, piece.data[at : at + BLOCK].tobytes())
            for piece in pieces
            for at in range(0, piece.data.nbytes, BLOCK)
        ]


@dataclass
class Model:
    """What keys may hold, from the calls alone: the values of acknowledged calls, and those of the call in flight."""

    values: OrderedDict[bytes, bytes]
    quota: int
    flying: dict[bytes, bytes | None] = field(default_factory=dict)

    def allowed(self) -> dict[bytes, set[bytes | None]]:
        allowed: dict[bytes, set[bytes | None]] = {key: {self.values.get(key)} for key in KEYS}
        for key, value in self.flying.items():
            allowed[key].add(value)
        return allowed

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Least recently used go first, until the quota holds what is put."""
        names = {key for key, _ in items}
        total = sum(len(v) for k, v in self.values.items() if k not in names) + sum(len(v) for _, v in items)
        for key, value in self.values.items():
            if not self.quota or total <= self.quota:
                break
            if key not in names:
                self.flying[key] = None
                total -= len(value)
        self.flying.update(items)

    def drop(self, keys: Sequence[bytes]) -> None:
        self.flying.update(dict.fromkeys(keys))

    def acknowledge(self) -> None:
        for key, value in self.flying.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
                self.values.move_to_end(key)
        self.flying = {}


@dataclass
class Recording:
    """A run: the image it began with, what reached the device, and what may be seen at each of its points."""

    base: NDArray[np.uint8]
    events: list[tuple[str, object]]


def empty_image() -> NDArray[np.uint8]:
    device = MemoryDevice(BLOCKS, BLOCK)
    Store.format(device, LAYOUT, store_id=bytes(range(16)))
    return device.image


def record(
    base: NDArray[np.uint8], steps: int, seed: int, store_class: type[Store] = Store, known: Values | None = None
) -> Recording:
    """Runs calls drawn by the seed: puts, overwrites, batches, deletions, evictions, checkpoints, compactions.

    Raises:
        AssertionError: at its end the store itself holds something else than the model.
    """
    device = RecordingDevice(base.copy())
    random = np.random.default_rng(seed)
    # In a second life nobody knows the order of use, which is not kept: so nothing is evicted for the quota.
    quota = 0 if known else QUOTA
    model = Model(OrderedDict(known or {}), quota)
    store = store_class.open(device, StoreOptions(quota_bytes=quota, eviction="lru", checkpoint_every=0))
    mark = device.events.append
    mark(("state", model.allowed()))
    for _ in range(steps):
        step = _step(random, model, store)
        mark(("state", model.allowed()))
        step()
        model.acknowledge()
        mark(("state", model.allowed()))
    if store_class is Store:
        assert {key: store.get(key) for key in KEYS if key in store} == dict(model.values)
    return Recording(base, device.events)


def _step(random: np.random.Generator, model: Model, store: Store) -> Callable[[], object]:
    """One call to come; the model knows of it already."""
    # Two segments that are freed without a flush between them need everything deleted first: drawing keys rarely does.
    kind = random.choice(["put", "put", "put", "batch", "delete", "evict", "clear", "checkpoint", "compact", "compact"])
    if kind in ("put", "batch"):
        names = random.choice(len(KEYS), 1 if kind == "put" else int(random.integers(2, 4)), replace=False)
        items = [(KEYS[name], random.bytes(int(random.choice([0, 100, 512, 700, 1024, 1500])))) for name in names]
        model.put(items)
        return lambda: store.put_many(items)
    if kind == "clear":
        model.drop(KEYS)
        return lambda: store.delete(KEYS)
    if kind in ("delete", "evict"):
        keys = [KEYS[name] for name in random.choice(len(KEYS), int(random.integers(1, 3)), replace=False)]
        model.drop(keys)
        return (lambda: store.delete(keys)) if kind == "delete" else (lambda: store.evict(keys))
    if kind == "checkpoint":
        return store.checkpoint
    segments = int(random.integers(1, 5))
    return lambda: store.compact(segments)


def crash_images(
    recording: Recording, random: np.random.Generator, each: int
) -> Iterator[tuple[NDArray[np.uint8], dict[bytes, set[bytes | None]]]]:
    """Images after a cut at every point, up to about ``each`` of them, and what may be seen there.

    A flush that does not return, and writes that do not, leave what any earlier point may leave: so the points behind
    each event are all points.
    """
    durable = recording.base.copy()
    pending: list[tuple[int, bytes]] = []
    allowed: dict[bytes, set[bytes | None]] | None = None
    for kind, what in recording.events:
        if kind == "state":
            allowed = what  # type: ignore[assignment]
        elif kind == "write":
            pending += what  # type: ignore[operator]
        elif kind == "durable":
            ((lba, data),) = what  # type: ignore[misc]
            # Whatever was cached of this block is older.
            pending = [one for one in pending if one[0] != lba]
            durable[lba * BLOCK : (lba + 1) * BLOCK] = np.frombuffer(data, np.uint8)
        else:
            _apply(durable, pending)
            pending = []
        if allowed is None:
            continue
        for chosen in _subsets(len(pending), random, each):
            image = durable.copy()
            _apply(image, [pending[at] for at in chosen])
            yield image, allowed


def _apply(image: NDArray[np.uint8], blocks: Sequence[tuple[int, bytes]]) -> None:
    for lba, data in blocks:
        image[lba * BLOCK : (lba + 1) * BLOCK] = np.frombuffer(data, np.uint8)


def _subsets(count: int, random: np.random.Generator, each: int) -> Iterator[Sequence[int]]:
    """All subsets where they are few; else none, all, all but one, one alone, and random ones.

    Two writes of one block count in the order in which they were made: a subset that leaves out the later one is the
    medium after they changed places.
    """
    if count <= 4:
        for bits in range(1 << count):
            yield [at for at in range(count) if bits >> at & 1]
        return
    yield []
    yield range(count)
    for one in range(count):
        yield [at for at in range(count) if at != one]
        yield [one]
    for _ in range(max(0, each - 2 * count - 2)):
        share = random.random()
        yield np.flatnonzero(random.random(count) < share).tolist()


@dataclass
class Tally:
    """What an enumeration found."""

    images: set[bytes] = field(default_factory=set)
    judged: int = 0
    violations: list[str] = field(default_factory=list)


class Judge:
    """Opens images and compares what they hold with what may be seen; each distinct image is opened once."""

    def __init__(self, store_class: type[Store] = Store, *, stop_at: int = 5) -> None:
        self.tally = Tally()
        self._store_class, self._stop_at = store_class, stop_at
        self._views: dict[bytes, Values | str] = {}

    def judge(self, image: NDArray[np.uint8], allowed: dict[bytes, set[bytes | None]]) -> Values | None:
        """Returns what a new image holds; None where it was seen before, or does not open."""
        digest = hashlib.blake2b(image.tobytes(), digest_size=16).digest()
        new = digest not in self._views
        if new:
            self._views[digest] = self._view(image)
            self.tally.images.add(digest)
        view = self._views[digest]
        self.tally.judged += 1
        if isinstance(view, str):
            self.tally.violations.append(view)
            return None
        for key, values in allowed.items():
            if view.get(key) not in values:
                sizes = sorted(-1 if v is None else len(v) for v in values)
                found = view.get(key)
                seen = "nothing" if found is None else f"{len(found)} bytes"
                self.tally.violations.append(f"{key!r} holds {seen}, which is none of the values (bytes: {sizes})")
        return view if new else None

    def _view(self, image: NDArray[np.uint8]) -> Values | str:
        """What the image holds, by both ways of recovery; a sentence where it does not open or they differ."""
        views = []
        for way in Way:
            device = MemoryDevice(BLOCKS, BLOCK, image=image.copy())
            try:
                store = self._store_class.open(device, StoreOptions(way=way))
                keys = [entry.key for entry in store.entries()]
                views.append({key: data.tobytes() for key, data in zip(keys, store.get_many(keys), strict=True)})
            except TuttiError as error:
                return f"by {way.value}: {error}"
        return views[0] if views[0] == views[1] else "the two ways of recovery differ"

    @property
    def full(self) -> bool:
        """Enough violations were found."""
        return len(self.tally.violations) >= self._stop_at


def enumerate_crashes(
    judge: Judge,
    *,
    images: int,
    seed: int = 1,
    steps: int = 60,
    each: int = 40,
    second: int = 60,
    store_class: type[Store] = Store,
) -> Tally:
    """Runs workloads until so many distinct images were judged, or enough violations found.

    Args:
        judge: what opens images.
        images: distinct ones.
        seed: of the first workload.
        steps: calls of a workload.
        each: images of a point.
        second: of so many new images one is the beginning of a short second workload, which crashes as well.
        store_class: what runs the workloads.
    """
    base = empty_image()
    while len(judge.tally.images) < images and not judge.full:
        random = np.random.default_rng(seed)
        _judge_run(judge, record(base, steps, seed, store_class), random, each, images, second, store_class)
        seed += 1
    return judge.tally


def _judge_run(
    judge: Judge,
    run: Recording,
    random: np.random.Generator,
    each: int,
    images: int,
    second: int,
    store_class: type[Store],
) -> None:
    for image, allowed in crash_images(run, random, each):
        view = judge.judge(image, allowed)
        if judge.full or len(judge.tally.images) >= images:
            return
        if view is not None and second and random.integers(second) == 0:
            # What was seen once stays: the second life begins with what the first recovery found.
            again = record(image, 4, int(random.integers(1 << 31)), store_class, known=view)
            _judge_run(judge, again, random, 10, images, 0, store_class)
