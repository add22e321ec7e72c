"""Workloads from a seed. The generator knows what may be asked, and nothing of what happens then."""

from __future__ import annotations

import random
from typing import Any

from tutti_hal.conformance_tests.campaign.steps import OPCODES, Ask, Setting, Space, Step, Workload

MIXES = ("clean", "faults", "recovery")

_ORDERS = ("FIFO", "REVERSE", "RANDOM")
#: (type, code) that drives answer with: generic, command specific, media, path, vendor.
_STATUSES = ((0, 0x04), (0, 0x06), (0, 0x22), (0, 0x82), (1, 0x80), (2, 0x80), (2, 0x81), (3, 0x71), (7, 0xC1))

#: What a recovery workload's deadlines are in a virtual clock and in a real one.
_SHORT_NS = {True: 200_000, False: 300_000_000}


class Generator:
    """Draws one workload.

    Args:
        seed: of everything.
        mix: ``clean``; ``faults``, which end each command; ``recovery``, where some have no end.
        simulated: whether time is virtual, so that a deadline costs nothing.
    """

    def __init__(self, seed: int, mix: str, *, simulated: bool) -> None:
        self._random = random.Random(f"campaign {seed} {mix}")
        self._mix, self._simulated = mix, simulated
        self._tag = 0
        #: (space, lba) -> the tag that was last sent there.
        self._sent: dict[tuple[int, int], int] = {}
        self.setting = self._setting()

    def workload(self, commands: int) -> Workload:
        """A workload of about as many commands; it ends recovered, with steps of every harmless kind."""
        steps: list[Step] = []
        left = commands
        while left > 0:
            step = self.step()
            steps.append(step)
            left -= sum(self.setting.parts(ask) for ask in step.asks) if step.kind == "batch" else 0
        steps += [Step("clear", drive=number) for number in range(len(self.setting.drives))]
        steps += [Step("recover"), self.refused(), self.batch(16), self.batch(16)]
        return Workload(self.setting, tuple(steps))

    # ---- setting ----

    def _setting(self) -> Setting:
        pick = self._random.choice
        drives: list[dict[str, Any]] = []
        spaces: list[Space] = []
        for number in range(pick((1, 1, 2, 2, 3))):
            drives.append(
                {
                    "mdts": pick((1, 2, 5)),
                    "order": pick(_ORDERS),
                    "hold_ns": pick((0, 0, 2000)),
                    "latency_ns": pick((0, 0, 1500)),
                    "cqe_batch": pick((1, 1, 4)),
                    "fetch_batch": pick((1, 4, 32)),
                    "seed": self._random.randrange(1 << 31),
                }
            )
            for nsid in range(1, pick((1, 1, 2)) + 1):
                spaces.append(Space(number, nsid, pick((9, 9, 12)), pick((24, 96, 4096))))
        depth = pick((2, 3, 4, 5, 8, 16, 33))
        options: dict[str, Any] = {
            "depth": depth,
            "queues": pick(((1,), (1,), (2,), (1, 1), (0, 2))),
            "lanes": pick((1, 5, 12, 40)),
            "block": pick((1, 4, 6, 32)),
            "batch_limit": 256,
            "use_sgl": pick((True, False)),
        }
        if self._random.random() < 0.2:
            # More commands than entries: places come back by the reported head.
            options |= {"cq_depth": 4 * depth, "command_limit": 3 * depth}
        timely = self._mix != "recovery"
        if not timely:
            options["limit_ns"] = _SHORT_NS[self._simulated]
        return Setting(tuple(spaces), tuple(drives), options, 1 << 19, timely)

    # ---- steps ----

    def step(self) -> Step:
        """The next step."""
        roll = self._random.random()
        if roll < 0.03:
            return self.refused()
        if self._mix != "clean":
            if roll < 0.20:
                return self.fault()
            if roll < 0.25:
                return Step("clear", drive=self._random.randrange(len(self.setting.drives)))
        if self._mix == "recovery":
            if roll < 0.40:
                return Step("recover")
            if roll < 0.43:
                return Step("stopped", self._asks(self._random.randint(1, 20)))
        return self.batch(self._random.choice((1, 3, 17, 40, 100, 200)))

    def batch(self, count: int) -> Step:
        """A batch of so many requests."""
        return Step("batch", self._asks(count))

    def _asks(self, count: int) -> tuple[Ask, ...]:
        asks: list[Ask] = []
        room, commands = self.setting.data_bytes // 2, 0
        for _ in range(count):
            ask = self.ask()
            room -= ask.blocks * self.setting.spaces[ask.space].block_bytes + ask.gap
            commands += self.setting.parts(ask)
            if asks and (room < 0 or commands > self.setting.options["batch_limit"]):
                break
            asks.append(ask)
        return tuple(asks)

    def ask(self) -> Ask:
        """A request that the ring takes."""
        pick, randrange = self._random.choice, self._random.randrange
        number = randrange(len(self.setting.spaces))
        space = self.setting.spaces[number]
        queues = self.setting.options["queues"]
        queue_class = pick([index for index, count in enumerate(queues) if count])
        verb = self._random.choices(("write", "read", "compare", "write_zeroes", "flush"), (38, 42, 8, 8, 4))[0]
        if verb == "flush":
            return Ask(verb, number, queue_class=queue_class)
        most = 24 if space.lba_shift == 9 else 4
        blocks = min(pick((1, 1, 1, 2, 3, most)), space.blocks)
        # A few blocks are met again and again; the last ones of the namespace are among them.
        lba = pick((randrange(24), randrange(space.blocks), space.blocks - blocks))
        lba = min(lba, space.blocks - blocks)
        gap = pick((0, 0, 4, 508))
        places = [(number, lba + index) for index in range(blocks)]
        if verb == "write":
            tags = tuple(range(self._tag + 1, self._tag + 1 + blocks))
            self._tag += blocks
        elif verb == "compare":
            tags = tuple(self._sent.get(place, 0) for place in places)
            if self._random.random() < 0.2:
                tags = (*tags[:-1], (1 << 40) + randrange(1 << 20))
        else:
            tags = ()
        if verb in ("write", "write_zeroes"):
            self._sent.update(zip(places, tags or (0,) * blocks, strict=True))
        return Ask(verb, number, lba, blocks, tags, 0 if verb == "write_zeroes" else gap, queue_class)

    def refused(self) -> Step:
        """One request that the ring must refuse, among others that it would take."""
        good = self._asks(3)
        space = self.setting.spaces[0]
        bad = self._random.choice(
            (
                Ask("read", 0, space.blocks, 1),
                Ask("read", 0, space.blocks - 1, 2),
                Ask("read", 0, 0, 0),
                Ask("read", len(self.setting.spaces), 0, 1),
                Ask("read", 0, 0, 1, queue_class=len(self.setting.options["queues"])),
                Ask("read", 0, 0, 1, gap=2),
            )
        )
        return Step("refused", (*good, bad))

    def fault(self) -> Step:
        """A rule for some drive."""
        pick = self._random.choice
        actions = ["STATUS", "STATUS_LATE", "DUPLICATE", "UNKNOWN_CID", "DELAY"]
        if self._mix == "recovery":
            actions += ["LOST", "STUCK", "LOST", "STUCK", "DELAY"]
        action = pick(actions)
        endless = action in ("LOST", "STUCK")
        first = self._random.randrange(24)
        rule: dict[str, Any] = {
            "action": action,
            "opcode": pick((None, *OPCODES.values())),
            "lbas": pick((None, (first, first + self._random.randrange(8)))),
            "nth": pick((1, 1, 2, 7)),
            "count": pick((1, 2)) if endless else pick((0, 1, 5)),
            "rate": pick((1.0, 1.0, 0.25)),
        }
        if action in ("STATUS", "STATUS_LATE"):
            rule |= {"status": pick(_STATUSES), "dnr": pick((True, False)), "crd": pick((0, 0, 1, 3))}
        if action == "DELAY":
            late = self._mix == "recovery" and self._random.random() < 0.5
            limit = int(self.setting.options.get("limit_ns", 0))
            rule |= {"delay_ns": 3 * limit if late else 2000, "count": 1 if late else rule["count"]}
        return Step("fault", drive=self._random.randrange(len(self.setting.drives)), rule=rule)
