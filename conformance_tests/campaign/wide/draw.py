"""Wide trials from a seed. The generator knows what may be asked, and nothing of what happens then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.campaign.steps import OPCODES, Setting, Space
from tutti_hal.conformance_tests.campaign.wide.tables import (
    COMPARE,
    FLUSH,
    READ,
    TAG_BITS,
    WRITE,
    WRITE_ZEROES,
    WideBatch,
    WideStep,
    WideTrial,
    bases,
    by_space,
    parts_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ORDERS = ("FIFO", "REVERSE", "RANDOM")
#: (type, code) that drives answer with. No two rules of a trial have the same status: so it tells which one struck.
_STATUSES = ((0, 0x04), (0, 0x06), (0, 0x22), (0, 0x82), (1, 0x80), (2, 0x80), (2, 0x81), (3, 0x71), (7, 0xC1))

#: Registered memory, and bytes of a batch in it at most.
_DATA_BYTES = 6 << 20
_BATCH_BYTES = 4 << 20
_BATCH_COMMANDS = 4096

#: Entries of a queue at most: the drives' MQES.
_MOST_ENTRIES = 1024

#: What a command may take in the mix where some have no end. Real time: long for a drive, short for who waits.
_LIMIT_NS = 300_000_000


def draw(arch: str, seed: int, mix: str, commands: int = 0) -> WideTrial:
    """The trial of a seed: about so many commands, 0 for as many as suit its queues."""
    import numpy as np

    generator = Generator(np.random.Generator(np.random.PCG64([seed, *mix.encode()])), mix)
    return WideTrial(arch, seed, mix, generator.setting, generator.steps(commands or generator.length))


class Generator:
    """Draws one trial.

    Args:
        random: source of everything.
        mix: ``clean``; ``faults``, which end each command; ``recovery``, where some have no end.
    """

    def __init__(self, random: np.random.Generator, mix: str) -> None:
        import numpy as np

        self._random, self._mix = random, mix
        self.setting = self._setting()
        self._bases = bases(self.setting)
        self._blocks = by_space(self.setting, "blocks")
        self._block_bytes = by_space(self.setting, "block_bytes")
        #: What was last sent to each block.
        self._sent = np.zeros(int(self._bases[-1]), np.int64)
        self._tag = 1
        self._statuses = [(*one, dnr, crd) for one in _STATUSES for dnr in (False, True) for crd in range(4)]
        random.shuffle(self._statuses)

    @property
    def length(self) -> int:
        """Commands of a trial: shallow queues are slow in real time."""
        depth = int(self.setting.options["depth"])
        return 1_000 if depth < 8 else 20_000 if depth < 64 else 150_000

    def steps(self, commands: int) -> tuple[WideStep, ...]:
        """About so many commands; in the end rules are gone, and two batches are as those of a drive in order."""
        steps: list[WideStep] = []
        left = commands
        while left > 0:
            if self._mix != "clean" and self._random.random() < 0.4:
                steps.append(self._fault() if self._random.random() < 0.7 else self._clear(self._number_of_drive()))
                continue
            batch = self._batch(int(self._pick((17, 200, 1000, 4000, 4000))))
            left -= int(parts_of(self.setting, batch).sum())
            steps.append(WideStep("batch", batch))
        steps += [self._clear(number) for number in range(len(self.setting.drives))]
        steps += [WideStep("batch", self._batch(200)) for _ in range(2)]
        return tuple(steps)

    def _pick(self, items: tuple[Any, ...]) -> Any:
        return items[int(self._random.integers(len(items)))]

    def _number_of_drive(self) -> int:
        return int(self._random.integers(len(self.setting.drives)))

    def _setting(self) -> Setting:
        pick = self._pick
        drives: list[dict[str, Any]] = []
        spaces: list[Space] = []
        for number in range(pick((1, 1, 2, 2, 3))):
            drives.append(
                {
                    "mdts": pick((1, 2, 5)),
                    "order": pick(_ORDERS),
                    "hold_ns": pick((0, 0, 2000)),
                    "cqe_batch": pick((1, 1, 4)),
                    "fetch_batch": pick((1, 4, 32)),
                    "seed": int(self._random.integers(1 << 31)),
                }
            )
            for nsid in range(1, pick((1, 1, 2)) + 1):
                spaces.append(Space(number, nsid, pick((9, 9, 9, 12)), pick((24, 96, 1024, 8192))))
        depth = pick((2, 3, 8, 33, 128, 500, 1024))
        options: dict[str, Any] = {
            "depth": depth,
            "queues": pick(((1,), (1,), (2,), (1, 1), (0, 2))),
            "lanes": pick((5, 40, 64, 256)),
            "block": pick((4, 32, 64)),
            "batch_limit": _BATCH_COMMANDS,
            "use_sgl": pick((True, False)),
        }
        if self._random.random() < 0.2 and 4 * depth <= _MOST_ENTRIES:
            options |= {"cq_depth": 4 * depth, "command_limit": 3 * depth}
        timely = self._mix != "recovery"
        if not timely:
            options["limit_ns"] = _LIMIT_NS
        return Setting(tuple(spaces), tuple(drives), options, _DATA_BYTES, timely)

    # ---- batches ----

    def _batch(self, count: int) -> WideBatch:
        import numpy as np

        random, spaces = self._random, self.setting.spaces
        verb = random.choice(
            np.array((WRITE, READ, COMPARE, WRITE_ZEROES, FLUSH)), count, p=(0.385, 0.435, 0.08, 0.09, 0.01)
        )
        space = random.integers(0, len(spaces), count)
        queues = self.setting.options["queues"]
        classes = np.array([index for index, number in enumerate(queues) if number])
        most = np.where(self._block_bytes == 512, 24, 3)[space]
        blocks = np.select(
            [random.random(count) < 0.7, random.random(count) < 0.7],
            [np.ones(count, int), random.integers(1, 4, count)],
        )
        blocks = np.where(blocks == 0, most, blocks)
        blocks = np.minimum(blocks, self._blocks[space])
        # A few blocks are met again and again; the last ones of the namespace are among them.
        last = self._blocks[space] - blocks
        lba = np.choose(
            random.choice(3, count, p=(0.2, 0.7, 0.1)),
            [random.integers(0, 24, count), random.integers(0, self._blocks[space]), last],
        )
        lba = np.minimum(lba, last)
        blocks, lba = (np.where(verb == FLUSH, 0, column) for column in (blocks, lba))
        sizes = np.where((verb == FLUSH) | (verb == WRITE_ZEROES), 0, blocks * self._block_bytes[space])
        gaps = np.where(sizes > 0, random.choice(np.array((0, 0, 4, 508)), count), 0)
        ends = np.cumsum(gaps + sizes)
        asks = np.stack([verb, space, random.choice(classes, count), lba, blocks, ends - sizes], axis=1)
        commands = np.cumsum(parts_of(self.setting, WideBatch(asks, np.zeros(0, np.int64))))
        fit = max(1, int(((ends <= _BATCH_BYTES) & (commands <= _BATCH_COMMANDS)).sum()))
        bare = WideBatch(asks[:fit].astype(np.int64), np.zeros(0, np.int64))
        return WideBatch(bare.asks, self._tags(bare))

    def _tags(self, batch: WideBatch) -> NDArray[np.int64]:
        """Writes hold tags of their own; compares what was last sent, and sometimes something else."""
        import numpy as np

        owners = batch.owners
        verb = batch.column("verb")[owners]
        place = self._bases[batch.column("space")[owners]] + batch.column("lba")[owners] + batch.within
        tags = np.zeros(len(owners), np.int64)
        written, compared = verb == WRITE, verb == COMPARE
        tags[written] = self._tag + np.arange(int(written.sum()))
        self._tag += int(written.sum())
        tags[compared] = self._sent[place[compared]]
        odd = compared & (self._random.random(len(owners)) < 0.1)
        tags[odd] = (1 << (TAG_BITS - 1)) + self._random.integers(0, 1 << 20, int(odd.sum()))
        sent = written | (verb == WRITE_ZEROES)
        self._sent[place[sent]] = tags[sent]
        return tags

    # ---- rules ----

    def _clear(self, drive: int) -> WideStep:
        return WideStep("clear", drive=drive)

    def _fault(self) -> WideStep:
        pick = self._pick
        actions = ["STATUS", "STATUS", "STATUS_LATE", "DUPLICATE", "UNKNOWN_CID", "DELAY"]
        if self._mix == "recovery":
            actions += ["LOST", "STUCK"]
        action = pick(tuple(actions)) if self._statuses else "DUPLICATE"
        endless = action in ("LOST", "STUCK")
        first = int(self._random.integers(24))
        rule: dict[str, Any] = {
            "action": action,
            "opcode": pick((None, *OPCODES.values())),
            "lbas": pick((None, (first, first + int(self._random.integers(8))))),
            "nth": pick((1, 1, 2, 7, 500)),
            "count": pick((1, 2)) if endless else pick((0, 1, 5, 300)),
            "rate": pick((1.0, 1.0, 0.25, 0.01)),
        }
        if action in ("STATUS", "STATUS_LATE"):
            sct, sc, dnr, crd = self._statuses.pop()
            rule |= {"status": (sct, sc), "dnr": dnr, "crd": crd}
        if action == "DELAY":
            rule["delay_ns"] = 2000
        return WideStep("fault", drive=self._number_of_drive(), rule=rule)
