"""Carries wide batches out on a rig and says what was seen, as arrays; it expects nothing and checks nothing.

What is seen of a batch:

* ``ended``: a row for each request: state, why, type, code, dnr, crd, queue, commands.
* ``held``: the tags of the blocks of all reads' memory afterwards, in order.
* ``beside``: how many 32-bit words changed that belong to no read: sources of writes, what lies between, and the rest
  of the memory.
* ``counters``: as the batch left them. ``recovered``: the queues that :meth:`Ring.recover` made anew, and the counters
  then, where a request of the batch was not completed; else None. Memory is looked at after that.
* counters: ``fetched``, for each drive commands by opcode so far; ``hits``, for each rule so far; ``strays``, ``lates``
  and ``sick`` of each queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.campaign.executor import drives_of, rule_of
from tutti_hal.conformance_tests.campaign.steps import OPCODES, REASONS, SPOILT, STATES, TORN, Setting
from tutti_hal.conformance_tests.campaign.wide.tables import (
    COMPARE,
    FLUSH,
    READ,
    VERBS,
    WRITE,
    WRITE_ZEROES,
    WideBatch,
    WideStep,
    WideTrial,
    by_space,
)
from tutti_hal.conformance_tests.rig import SPOILT as SPOILT_BYTE
from tutti_hal.conformance_tests.rig import Rig
from tutti_hal.io_uring import State, Why

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.conformance_tests.run import Run

Seen = dict[str, Any]

_SPOILT_WORD = int.from_bytes(bytes([SPOILT_BYTE]) * 8, "little")


def execute_wide(run: Run, trial: WideTrial) -> Seen:
    """Carry a whole trial out: what was seen of each step, and what namespaces and memory hold in the end."""
    with WideExecutor(run, trial.setting) as executor:
        seen = [executor.do(step) for step in trial.steps]
        return {"steps": seen, "stored": executor.stored(), "untouched": executor.untouched()}


class WideExecutor:
    """One rig, and the steps done on it. A context manager.

    Args:
        run: whose device is used; the rig is closed with it at the latest.
        setting: of the trial.
    """

    def __init__(self, run: Run, setting: Setting) -> None:
        import numpy as np

        self.setting = setting
        self._rig = Rig(run, dict(setting.options), drives=drives_of(setting), data_bytes=setting.data_bytes)
        self._rules: list[tuple[int, int] | None] = []
        self._hits: list[int] = []
        self._block_bytes = by_space(setting, "block_bytes")
        #: What the memory should hold, where no read wrote since.
        self._image = np.full(setting.data_bytes // 4, _SPOILT_WORD & 0xFFFFFFFF, np.uint32)
        self._put(len(self._image))
        # The product's numbers as those of an observation.
        self._states = _translation(State, STATES)
        self._whys = _translation(Why, REASONS)

    def __enter__(self) -> WideExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self._rig.close()

    def do(self, step: WideStep) -> Seen:
        """Do a step; what was seen of it."""
        rig = self._rig
        match step.kind:
            case "batch":
                if step.batch is None:
                    raise ValueError("a step of kind batch has none")
                return self._batch(step.batch)
            case "fault":
                self._rules.append((step.drive, rig.controllers[step.drive].inject(rule_of(step.rule))))
                self._hits.append(0)
                return {}
            case "clear":
                self._look()
                rig.controllers[step.drive].clear_faults()
                self._rules = [None if rule is None or rule[0] == step.drive else rule for rule in self._rules]
                return {}
        raise ValueError(f"a wide trial has no step '{step.kind}'")

    def stored(self) -> NDArray[np.int64]:
        """The tags of all blocks of all namespaces, as the drives have them."""
        import numpy as np

        found = []
        for space in self.setting.spaces:
            data = self._rig.controllers[space.drive].read_stored(space.nsid, 0, space.blocks * space.block_bytes)
            found.append(tags_of(np.frombuffer(data, np.uint64).reshape(space.blocks, -1)))
        return np.concatenate(found)

    def untouched(self) -> int:
        """32-bit words of the whole memory that are not as they were left."""
        import numpy as np

        return int(np.count_nonzero(self._rig.get().view(np.uint32) != self._image))

    # ---- a batch ----

    def _batch(self, batch: WideBatch) -> Seen:
        rig = self._rig
        extent = self._prepare(batch)
        self._put(extent)
        iocb = rig.ring.get_iocb()
        try:
            order = self._fill(iocb, batch)
        except BaseException:
            rig.ring.put_iocb(iocb)
            raise
        rig.ring.issue_io(iocb)
        ended = self._ended(rig.ring.wait_cqe(iocb), order)
        counters = self._look()
        recovered = None
        if (ended[:, 0] != STATES.index("COMPLETED")).any() or any(counters["sick"]):
            rows = sorted(one.row for one in rig.ring.recover())
            recovered = {"queues": rows, **self._look()}
        held, beside = self._held(batch, extent)
        return {"ended": ended, "held": held, "beside": beside, "recovered": recovered, "counters": counters}

    def _put(self, words: int) -> None:
        rig = self._rig
        rig.stream.copy(rig.memory.buffer.part(rig.memory.skip, 4 * words), self._image[:words])
        rig.stream.synchronize()

    def _prepare(self, batch: WideBatch) -> int:
        """Make the image of the memory before the batch; how many words of it there are."""
        import numpy as np

        sizes = batch.column("blocks") * self._block_bytes[batch.column("space")]
        moves = np.isin(batch.column("verb"), (WRITE, READ, COMPARE))
        end = int((batch.column("offset") + sizes)[moves].max(initial=0)) // 4
        extent = min(end + 256, len(self._image))
        self._image[:extent] = _SPOILT_WORD & 0xFFFFFFFF
        for begins, rows, block_bytes in self._blocks(batch, (WRITE, COMPARE)):
            _windows(self._image, block_bytes)[begins] = pattern(batch.tags[rows], block_bytes).view(np.uint32)
        return extent

    def _blocks(
        self, batch: WideBatch, verbs: tuple[int, ...]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
        """Of each block size: in which word the blocks of those verbs begin, their numbers, and the size."""
        import numpy as np

        owners = batch.owners
        sizes = self._block_bytes[batch.column("space")][owners]
        wanted = np.isin(batch.column("verb"), verbs)[owners]
        begins = (batch.column("offset")[owners] + batch.within * sizes) // 4
        found = []
        for size in np.unique(sizes[wanted]).tolist():
            rows = np.flatnonzero(wanted & (sizes == size))
            found.append((begins[rows], rows, size))
        return found

    def _fill(self, iocb: Any, batch: WideBatch) -> NDArray[np.int64]:
        """Add the requests, those of one verb and class by one call; their numbers in order of addition."""
        import numpy as np

        rig, order = self._rig, []
        verb, queue_class = batch.column("verb"), batch.column("queue_class")
        sizes = batch.column("blocks") * self._block_bytes[batch.column("space")]
        for number, of_class in np.unique(np.stack([verb, queue_class], axis=1), axis=0).tolist():
            rows = np.flatnonzero((verb == number) & (queue_class == of_class))
            order.append(rows)
            if number == FLUSH:
                for space in batch.column("space")[rows].tolist():
                    iocb.flush(rig.ring.targets[space], queue_class=of_class)
                continue
            fields: dict[str, Any] = {
                "target": batch.column("space")[rows],
                "lba": batch.column("lba")[rows],
                "nbytes": sizes[rows],
                "queue_class": of_class,
            }
            if number != WRITE_ZEROES:
                fields["offset"] = batch.column("offset")[rows]
            rig.fill(iocb, VERBS[number], **fields)
        return np.concatenate(order)

    def _ended(self, done: NDArray[np.void], order: NDArray[np.int64]) -> NDArray[np.int64]:
        import numpy as np

        columns = [
            self._states[done["state"]],
            self._whys[done["why"]],
            *(done[name].astype(np.int64) for name in ("sct", "sc", "dnr", "crd", "queue", "commands")),
        ]
        ended = np.zeros((len(order), len(columns)), np.int64)
        ended[order] = np.stack(columns, axis=1)
        return ended

    def _held(self, batch: WideBatch, extent: int) -> tuple[NDArray[np.int64], int]:
        """The tags of all reads' blocks, and words beside them that changed."""
        import numpy as np

        after = self._rig.get(4 * extent).view(np.uint32)
        tags = np.zeros(len(batch.tags), np.int64)
        reads = (batch.column("verb") == READ)[batch.owners]
        for begins, rows, size in self._blocks(batch, (READ,)):
            found = _windows(after, size)[begins]
            _windows(self._image, size)[begins] = found
            tags[rows] = tags_of(found.view(np.uint64))
        changed = int(np.count_nonzero(self._image[:extent] != after))
        if changed:
            # Seen once is enough: later batches are judged by themselves.
            self._image[:extent] = after
        return tags[reads], changed

    def _look(self) -> Seen:
        """All counters."""
        rig = self._rig
        for number, rule in enumerate(self._rules):
            if rule is not None:
                self._hits[number] = rig.controllers[rule[0]].fault_hits(rule[1])
        queues = rig.ring.statistics().queues
        fetched = [one.counters.io_commands for one in rig.controllers]
        return {
            "fetched": [[table.get(code, 0) for code in OPCODES.values()] for table in fetched],
            "hits": list(self._hits),
            "strays": [queue.strays for queue in queues],
            "lates": [queue.lates for queue in queues],
            "sick": [bool(queue.health) for queue in queues],
        }


def _windows(words: NDArray[np.uint32], block_bytes: int) -> NDArray[np.uint32]:
    """Row n is the block that begins at word n: so blocks at any place are taken, or put, row by row."""
    import numpy as np

    length = block_bytes // 4
    return np.lib.stride_tricks.as_strided(words, (len(words) - length + 1, length), (4, 4))


def pattern(tags: NDArray[np.int64], block_bytes: int) -> NDArray[np.uint64]:
    """Blocks that hold their tags: every word names the tag and its place; 0 is a block of zeroes."""
    import numpy as np

    column = tags.astype(np.uint64)[:, None]
    words = np.arange(block_bytes // 8, dtype=np.uint64)[None, :]
    blocks: NDArray[np.uint64] = (column << np.uint64(16)) | words
    blocks[tags == 0] = 0
    return blocks


def tags_of(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The reverse: TORN of a block that no single write left, SPOILT of one that holds the byte of unused memory."""
    import numpy as np

    tags = (words[:, 0] >> np.uint64(16)).astype(np.int64)
    spoilt, empty = words[:, 0] == np.uint64(_SPOILT_WORD), words[:, 0] == 0
    wanted = pattern(tags, words.shape[1] * 8)
    wanted[spoilt] = np.uint64(_SPOILT_WORD)
    whole = (words == wanted).all(axis=1) & (spoilt | empty | ((tags > 0) & ~empty))
    found: NDArray[np.int64] = np.select([~whole, spoilt, empty], [TORN, SPOILT, 0], tags)
    return found


def _translation(numbers: type[State] | type[Why], names: tuple[str, ...]) -> NDArray[np.int64]:
    """Number of the product -> place of its name; a number without a name stays outside."""
    import numpy as np

    table = np.full(1 << 16, len(names), np.int64)
    for one in numbers:
        table[int(one)] = names.index(one.name)
    return table
