"""What a wide trial is made of: batches as columns, and rules between them; a file keeps it, a shrinker cuts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.campaign.steps import OPCODES, Ask, Setting, Step, Workload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Verbs by their number in a batch.
VERBS = tuple(OPCODES)
FLUSH, WRITE, READ, COMPARE, WRITE_ZEROES = (
    VERBS.index(verb) for verb in ("flush", "write", "read", "compare", "write_zeroes")
)

#: A tag is below this; a block's number among all spaces, shifted by as many bits, makes a key of both.
TAG_BITS = 40
MAX_BLOCKS = 1 << 22

_COLUMNS = ("verb", "space", "queue_class", "lba", "blocks", "offset")


@dataclass(frozen=True, eq=False)
class WideBatch:
    """Requests of one batch.

    Attributes:
        asks: a row for each request: verb, space, queue_class, lba, blocks, offset in memory; int64.
        tags: one for each block of each request, in order: what a write or compare holds there; 0 elsewhere.
    """

    asks: NDArray[np.int64]
    tags: NDArray[np.int64]

    def column(self, name: str) -> NDArray[np.int64]:
        """One column of the requests."""
        found: NDArray[np.int64] = self.asks[:, _COLUMNS.index(name)]
        return found

    @property
    def owners(self) -> NDArray[np.int64]:
        """The request of each block."""
        import numpy as np

        return np.repeat(np.arange(len(self.asks)), self.column("blocks"))

    @property
    def within(self) -> NDArray[np.int64]:
        """Each block's number in its request."""
        import numpy as np

        blocks = self.column("blocks")
        return np.arange(int(blocks.sum())) - np.repeat(np.cumsum(blocks) - blocks, blocks)

    def take(self, rows: NDArray[np.int64]) -> WideBatch:
        """Some of its requests, where they are in memory."""
        import numpy as np

        kept = np.zeros(len(self.asks), bool)
        kept[rows] = True
        return WideBatch(self.asks[kept], self.tags[kept[self.owners]])


@dataclass(frozen=True)
class WideStep:
    """A batch, or what happens between two.

    Attributes:
        kind: ``batch``; ``fault`` and ``clear``, rules of a drive.
        batch: of a batch.
        drive: whose rules change.
        rule: fields of a fault rule, its action by name.
    """

    kind: str
    batch: WideBatch | None = None
    drive: int = 0
    rule: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WideTrial:
    """A setting and what is done on it, on an arch.

    Attributes:
        arch: of the profile.
        seed: it was drawn from.
        mix: likewise.
        setting: drives, namespaces and ring.
        steps: in order.
    """

    arch: str
    seed: int
    mix: str
    setting: Setting
    steps: tuple[WideStep, ...]

    @property
    def commands(self) -> int:
        """Commands that it submits where nothing fails."""
        return sum(int(parts_of(self.setting, step.batch).sum()) for step in self.steps if step.batch is not None)

    def but(self, steps: tuple[WideStep, ...]) -> WideTrial:
        """The same with other steps."""
        return replace(self, steps=steps)

    def narrow(self) -> Workload:
        """The same requests and rules as a workload of the narrow form, which any arch can run."""
        steps = []
        for step in self.steps:
            if step.batch is None:
                steps.append(Step(step.kind, drive=step.drive, rule=step.rule))
                continue
            asks, at, end = [], 0, 0
            for verb, space, queue_class, lba, blocks, offset in step.batch.asks.tolist():
                tags = tuple(step.batch.tags[at : at + blocks].tolist()) if verb in (WRITE, COMPARE) else ()
                gap = 0
                if verb in (WRITE, COMPARE, READ):
                    # Where a request begins in its page is kept, how far from the one before it not.
                    gap = (offset - end) % 512
                    end += gap + blocks * self.setting.spaces[space].block_bytes
                asks.append(Ask(VERBS[verb], space, lba, blocks, tags, gap, queue_class))
                at += blocks
            steps.append(Step("batch", tuple(asks)))
            if not self.setting.timely:
                steps.append(Step("recover"))
        return Workload(self.setting, tuple(steps))

    def to_json(self) -> dict[str, Any]:
        """As a plain table."""
        steps = [
            {
                "kind": step.kind,
                "drive": step.drive,
                "rule": dict(step.rule),
                "asks": None if step.batch is None else step.batch.asks.tolist(),
                "tags": None if step.batch is None else step.batch.tags.tolist(),
            }
            for step in self.steps
        ]
        return {
            **{"arch": self.arch, "seed": self.seed, "mix": self.mix},
            **{"setting": self.setting.to_json(), "columns": list(_COLUMNS), "steps": steps},
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> WideTrial:
        """The reverse of :meth:`to_json`."""
        import numpy as np

        if table["columns"] != list(_COLUMNS):
            raise ValueError(f"columns {table['columns']}")
        steps = []
        for one in table["steps"]:
            rule = {key: tuple(value) if isinstance(value, list) else value for key, value in one["rule"].items()}
            batch = None
            if one["asks"] is not None:
                asks = np.array(one["asks"], np.int64).reshape(-1, len(_COLUMNS))
                batch = WideBatch(asks, np.array(one["tags"], np.int64))
            steps.append(WideStep(one["kind"], batch, one["drive"], rule))
        return cls(table["arch"], table["seed"], table["mix"], Setting.from_json(table["setting"]), tuple(steps))


def by_space(setting: Setting, name: str) -> NDArray[np.int64]:
    """A field of all spaces."""
    import numpy as np

    return np.array([getattr(space, name) for space in setting.spaces], np.int64)


def bases(setting: Setting) -> NDArray[np.int64]:
    """Number of each space's first block among those of all; then how many there are."""
    import numpy as np

    return np.concatenate([[0], np.cumsum(by_space(setting, "blocks"))]).astype(np.int64)


def most_of(setting: Setting) -> NDArray[np.int64]:
    """Blocks of a command at most, for each space."""
    import numpy as np

    mdts = np.array([int(setting.drives[space.drive].get("mdts", 0)) for space in setting.spaces], np.int64)
    most: NDArray[np.int64] = np.where(mdts > 0, (4096 << mdts) >> by_space(setting, "lba_shift"), 1 << 32)
    return most


def parts_of(setting: Setting, batch: WideBatch) -> NDArray[np.int64]:
    """Commands of each request."""
    import numpy as np

    most = most_of(setting)[batch.column("space")]
    parts: NDArray[np.int64] = np.maximum(-(-batch.column("blocks") // most), 1)
    return parts
