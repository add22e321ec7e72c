"""What a workload is made of: data that a file keeps, a generator draws, and a shrinker takes apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: How requests end, in the order of the numbers that an observation keeps.
STATES = ("NOT_RUN", "IN_FLIGHT", "COMPLETED", "TIMED_OUT", "GONE", "STOPPED", "REFUSED")
#: Why one was not run, likewise.
REASONS = ("UNREACHED", "QUEUE_FAILED", "STOPPED", "STARVED")

#: Verb -> opcode of the NVM command set.
OPCODES = {"flush": 0x00, "write": 0x01, "read": 0x02, "compare": 0x05, "write_zeroes": 0x08}

#: What a block holds where no write of ours is whole, and where nothing touched the memory.
TORN, SPOILT = -1, -2

#: Bytes that MDTS counts in: the drives' smallest page.
_PAGE = 4096


@dataclass(frozen=True)
class Ask:
    """One request.

    Attributes:
        verb: of :data:`OPCODES`.
        space: number of the namespace among all of the setting.
        lba: first block.
        blocks: how many; 0 for a flush.
        tags: of a write or compare, what each block shall hold: a number of its own, 0 for zeroes.
        gap: bytes of memory left free before its data.
        queue_class: of the ring.
    """

    verb: str
    space: int
    lba: int = 0
    blocks: int = 0
    tags: tuple[int, ...] = ()
    gap: int = 0
    queue_class: int = 0

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Ask:
        """The reverse of ``asdict``."""
        return cls(**{**table, "tags": tuple(table["tags"])})


@dataclass(frozen=True)
class Step:
    """One step of a workload.

    Attributes:
        kind: ``batch``; ``stopped``, a batch while the ring is stopped; ``refused``, requests that the ring must not
            take; ``fault`` and ``clear``, rules of a drive; ``recover``.
        asks: of a batch, stopped batch or refused one.
        drive: whose rules change.
        rule: fields of a fault rule, its action by name.
    """

    kind: str
    asks: tuple[Ask, ...] = ()
    drive: int = 0
    rule: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As a plain table."""
        return asdict(self)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Step:
        """The reverse of :meth:`to_json`."""
        rule = {key: tuple(one) if isinstance(one, list) else one for key, one in table["rule"].items()}
        return cls(table["kind"], tuple(map(Ask.from_json, table["asks"])), table["drive"], rule)


@dataclass(frozen=True)
class Space:
    """A namespace of a drive."""

    drive: int
    nsid: int
    lba_shift: int
    blocks: int

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return 1 << self.lba_shift


@dataclass(frozen=True)
class Setting:
    """What a workload runs on.

    Attributes:
        spaces: all namespaces, in the order of the ring's targets: by drive, then by number.
        drives: fields of each drive's configuration beside its namespaces.
        options: fields of the ring's.
        data_bytes: of the registered memory.
        timely: whether deadlines are so long that no command of a working drive misses them.
    """

    spaces: tuple[Space, ...]
    drives: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Any]
    data_bytes: int
    timely: bool

    def to_json(self) -> dict[str, Any]:
        """As a plain table."""
        return asdict(self)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Setting:
        """The reverse of :meth:`to_json`."""
        spaces = tuple(Space(**one) for one in table["spaces"])
        options = {key: tuple(one) if isinstance(one, list) else one for key, one in table["options"].items()}
        return cls(spaces, tuple(table["drives"]), options, table["data_bytes"], table["timely"])

    @property
    def queues_per_drive(self) -> int:
        """Queue pairs of each drive."""
        return sum(self.options.get("queues", (1,)))

    def parts(self, ask: Ask) -> int:
        """Commands that a request becomes: none is longer than its drive's MDTS."""
        space = self.spaces[ask.space]
        mdts = int(self.drives[space.drive].get("mdts", 0))
        if not ask.blocks or not mdts or ask.verb == "flush":
            return 1
        return -(-ask.blocks // ((_PAGE << mdts) >> space.lba_shift))


@dataclass(frozen=True)
class Workload:
    """A setting and what is done on it."""

    setting: Setting
    steps: tuple[Step, ...]

    def to_json(self) -> dict[str, Any]:
        """As a plain table."""
        return {"setting": self.setting.to_json(), "steps": [step.to_json() for step in self.steps]}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Workload:
        """The reverse of :meth:`to_json`."""
        return cls(Setting.from_json(table["setting"]), tuple(map(Step.from_json, table["steps"])))

    @property
    def commands(self) -> int:
        """Commands that it submits where nothing fails."""
        batches = (step for step in self.steps if step.kind == "batch")
        return sum(self.setting.parts(ask) for step in batches for ask in step.asks)
