"""Carries a workload out on a rig, and says what was seen; it expects nothing and checks nothing.

What is seen of a step is a table of plain values and small arrays:

* ``batch`` and ``stopped``: ``ended``, a row for each request (state, why, type, code, dnr, crd, queue, commands);
  ``held``, the tags of the blocks of each request's memory afterwards; ``beside``, how many bytes that belong to no
  request changed; ``recovered``, as ``recover``, where that had to be done first to have memory, else None; and the
  counters. A stopped batch has ``after``: the recovery after it.
* ``refused``: ``error``, the class of what was raised, and the counters.
* ``recover``: ``queues``, the numbers of those that were recovered, and the counters.
* counters: ``fetched``, for each drive commands by opcode so far; ``hits``, for each rule so far; ``strays``, ``lates``
  and ``sick`` of each queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.campaign.steps import (
    OPCODES,
    REASONS,
    SPOILT,
    STATES,
    TORN,
    Ask,
    Setting,
    Step,
    Workload,
)
from tutti_hal.conformance_tests.rig import SPOILT as SPOILT_BYTE
from tutti_hal.conformance_tests.rig import Rig, drive
from tutti_hal.errors import TuttiError
from tutti_hal.nvme.software import MemoryNamespace
from tutti_hal.nvme.software_config import CompletionOrder, FaultAction, FaultRule

if TYPE_CHECKING:
    import numpy as np

    from tutti_hal.conformance_tests.run import Run
    from tutti_hal.nvme.software_config import ControllerConfig

Seen = dict[str, Any]

#: Requests are added in this order: one call for each verb and class.
_VERBS = tuple(OPCODES)


def execute(run: Run, workload: Workload) -> dict[str, Any]:
    """Carry a whole workload out: what was seen of each step, and what the namespaces hold in the end."""
    with Executor(run, workload.setting) as executor:
        seen = [executor.do(step) for step in workload.steps]
        return {"steps": seen, "stored": executor.stored()}


class Executor:
    """One rig, and the steps done on it. A context manager.

    Args:
        run: whose device and world are used; the rig is closed with it at the latest.
        setting: of the workload.
    """

    def __init__(self, run: Run, setting: Setting) -> None:
        self.setting = setting
        self._rig = Rig(run, dict(setting.options), drives=drives_of(setting), data_bytes=setting.data_bytes)
        #: Drive and number of each rule that was injected, None once it is cleared; and its hits as last seen.
        self._rules: list[tuple[int, int] | None] = []
        self._hits: list[int] = []
        #: First and last byte of what a drive may still write or read.
        self._tainted: list[tuple[int, int]] = []

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        self._rig.close()

    def do(self, step: Step) -> Seen:
        """Do a step; what was seen of it."""
        match step.kind:
            case "batch":
                return self._batch(step.asks)
            case "stopped":
                self._rig.ring.stop()
                seen = self._batch(step.asks)
                seen["after"] = self._recover()
                self._rig.ring.resume()
                return seen
            case "refused":
                return self._refused(step.asks)
            case "fault":
                rule = rule_of(step.rule)
                self._rules.append((step.drive, self._rig.controllers[step.drive].inject(rule)))
                self._hits.append(0)
                return {}
            case "clear":
                self._look()
                self._rig.controllers[step.drive].clear_faults()
                self._rules = [None if rule is None or rule[0] == step.drive else rule for rule in self._rules]
                return {}
            case "recover":
                return self._recover()
        raise ValueError(f"a workload has no step '{step.kind}'")

    def stored(self) -> list[Any]:
        """The tags of all blocks of each namespace, as the drives have them."""
        return [
            _tags(
                _bytes(self._rig.controllers[space.drive].read_stored(space.nsid, 0, space.blocks * space.block_bytes)),
                space.block_bytes,
            )
            for space in self.setting.spaces
        ]

    # ---- batches ----

    def _batch(self, asks: tuple[Ask, ...]) -> Seen:
        import numpy as np

        rig = self._rig
        offsets = self._place(asks)
        recovered = None
        if offsets is None:
            recovered = self._recover()
            offsets = self._place(asks)
        if offsets is None:
            raise ValueError("a batch of this workload is larger than its memory")
        before = self._image(asks, offsets)
        rig.stream.copy(rig.memory.buffer.part(rig.memory.skip, len(before)), before)
        rig.stream.synchronize()
        iocb = rig.ring.get_iocb()
        try:
            order = self._fill(iocb, asks, offsets)
        except BaseException:
            rig.ring.put_iocb(iocb)
            raise
        rig.ring.issue_io(iocb)
        done = rig.finish(iocb)
        after = rig.get()
        columns = [
            [STATES.index(name) for name in done["state"]],
            [REASONS.index(name) for name in done["why"]],
            done["status"][:, 0],
            done["status"][:, 1],
            done["dnr"],
            done["crd"],
            done["queue"],
            done["commands"],
        ]
        ended = np.zeros((len(asks), len(columns)), np.int32)
        ended[order] = np.stack([np.asarray(column, np.int32) for column in columns], axis=1)
        held, beside = self._compare(asks, offsets, ended, before, after)
        return {"ended": ended, "held": held, "beside": beside, "recovered": recovered, **self._look()}

    def _recover(self) -> Seen:
        rows = sorted(one.row for one in self._rig.ring.recover())
        self._tainted.clear()
        return {"queues": rows, **self._look()}

    def _place(self, asks: tuple[Ask, ...]) -> list[int] | None:
        """Where the data of each request go: one behind the other, around what a drive may still use."""
        offsets, end = [], 0
        tainted = sorted(self._tainted)
        for ask in asks:
            size = self._bytes_of(ask)
            start = end + ask.gap
            for low, high in tainted:
                if start < high and start + size > low:
                    start = -(-high // 4) * 4 + ask.gap
            if start + size > self.setting.data_bytes:
                return None
            offsets.append(start)
            end = start + size if size else end
        return offsets

    def _bytes_of(self, ask: Ask) -> int:
        if ask.verb in ("flush", "write_zeroes") or ask.space >= len(self.setting.spaces):
            return 0
        return ask.blocks * self.setting.spaces[ask.space].block_bytes

    def _image(self, asks: tuple[Ask, ...], offsets: list[int]) -> np.ndarray[Any, Any]:
        """What the memory shall hold before a batch; what a drive may still use stays as it is."""
        import numpy as np

        image = np.full(self.setting.data_bytes, SPOILT_BYTE, np.uint8)
        if self._tainted:
            now = self._rig.get()
            for low, high in self._tainted:
                image[low:high] = now[low:high]
        for ask, offset in zip(asks, offsets, strict=True):
            if ask.tags:
                data = _pattern(ask.tags, self.setting.spaces[ask.space].block_bytes)
                image[offset : offset + len(data)] = data
        return image

    def _fill(self, iocb: Any, asks: tuple[Ask, ...], offsets: list[int]) -> list[int]:
        """Add the requests, those of one verb and class by one call; their numbers in order of addition."""
        rig, order = self._rig, []
        keys = sorted({(_VERBS.index(ask.verb), ask.queue_class) for ask in asks})
        for verb, queue_class in keys:
            rows = [row for row, ask in enumerate(asks) if ask.verb == _VERBS[verb] and ask.queue_class == queue_class]
            order += rows
            if _VERBS[verb] == "flush":
                for row in rows:
                    iocb.flush(rig.ring.targets[asks[row].space], queue_class=queue_class)
                continue
            spaces = [asks[row].space for row in rows]
            shifts = [self.setting.spaces[min(one, len(self.setting.spaces) - 1)].lba_shift for one in spaces]
            fields: dict[str, Any] = {
                "target": spaces,
                "lba": [asks[row].lba for row in rows],
                "nbytes": [asks[row].blocks << shift for row, shift in zip(rows, shifts, strict=True)],
                "queue_class": queue_class,
            }
            if _VERBS[verb] != "write_zeroes":
                fields["offset"] = [offsets[row] for row in rows]
            rig.fill(iocb, _VERBS[verb], **fields)
        return order

    def _compare(
        self,
        asks: tuple[Ask, ...],
        offsets: list[int],
        ended: np.ndarray[Any, Any],
        before: np.ndarray[Any, Any],
        after: np.ndarray[Any, Any],
    ) -> tuple[np.ndarray[Any, Any], int]:
        """The tags of each request's memory, and the bytes beside that changed; notes what a drive may still use."""
        import numpy as np

        changed = before != after
        for low, high in self._tainted:
            changed[low:high] = False
        pieces: dict[int, list[np.ndarray[Any, Any]]] = {}
        lengths: list[tuple[int, int]] = []
        completed = STATES.index("COMPLETED")
        for ask, offset, row in zip(asks, offsets, ended, strict=True):
            size = self._bytes_of(ask)
            if not size:
                continue
            changed[offset : offset + size] = False
            block_bytes = self.setting.spaces[ask.space].block_bytes
            pieces.setdefault(block_bytes, []).append(after[offset : offset + size])
            lengths.append((block_bytes, ask.blocks))
            if row[0] != completed and (row[0] != 0 or self.setting.parts(ask) > 1):
                self._tainted.append((offset, offset + size))
        # Blocks of one size together: what costs is the call.
        tags = {size: _tags(np.concatenate(found), size) for size, found in pieces.items()}
        at, held = dict.fromkeys(tags, 0), [np.empty(0, np.int64)]
        for block_bytes, blocks in lengths:
            held.append(tags[block_bytes][at[block_bytes] : at[block_bytes] + blocks])
            at[block_bytes] += blocks
        return np.concatenate(held), int(changed.sum())

    # ---- the rest ----

    def _refused(self, asks: tuple[Ask, ...]) -> Seen:
        iocb = self._rig.ring.get_iocb()
        error = ""
        offsets, end = [], 0
        for ask in asks:
            offsets.append(end + ask.gap)
            end += ask.gap + self._bytes_of(ask)
        try:
            self._fill(iocb, asks[:-1], offsets[:-1])
            self._fill(iocb, asks[-1:], offsets[-1:])
        except TuttiError as refused:
            error = type(refused).__name__
        self._rig.ring.put_iocb(iocb)
        return {"error": error, **self._look()}

    def _look(self) -> Seen:
        """All counters."""
        rig = self._rig
        rig.settle()
        for number, rule in enumerate(self._rules):
            if rule is not None:
                self._hits[number] = rig.controllers[rule[0]].fault_hits(rule[1])
        queues = rig.ring.statistics().queues
        fetched = [one.counters.io_commands for one in rig.controllers]
        return {
            "fetched": [{str(code): table.get(code, 0) for code in OPCODES.values()} for table in fetched],
            "hits": list(self._hits),
            "strays": [queue.strays for queue in queues],
            "lates": [queue.lates for queue in queues],
            "sick": [bool(queue.health) for queue in queues],
        }


def drives_of(setting: Setting) -> list[ControllerConfig]:
    """The drives of a setting, as the software controller wants them."""
    made = []
    for number, fields in enumerate(setting.drives):
        spaces = tuple(
            MemoryNamespace(nsid=space.nsid, blocks=space.blocks, lba_shift=space.lba_shift)
            for space in setting.spaces
            if space.drive == number
        )
        made.append(drive(namespaces=spaces, **{**fields, "order": CompletionOrder[fields.get("order", "FIFO")]}))
    return made


def rule_of(fields: Any) -> FaultRule:
    """A fault rule of its fields."""
    return FaultRule(**{**fields, "action": FaultAction[fields["action"]]})


def _pattern(tags: tuple[int, ...], block_bytes: int) -> np.ndarray[Any, Any]:
    """Blocks that hold their tags: every word names the tag and its place; 0 is a block of zeroes."""
    import numpy as np

    words = np.arange(block_bytes // 8, dtype=np.uint64)
    column = np.array(tags, np.uint64)[:, None]
    blocks = np.where(column == 0, np.uint64(0), (column << np.uint64(16)) | words[None, :])
    data: np.ndarray[Any, Any] = blocks.astype("<u8").view(np.uint8).reshape(-1)
    return data


def _tags(data: np.ndarray[Any, Any], block_bytes: int) -> np.ndarray[Any, Any]:
    """The reverse: TORN of a block that no single write left, SPOILT of one that holds the byte of unused memory."""
    import numpy as np

    words = np.ascontiguousarray(data).view("<u8").reshape(-1, block_bytes // 8)
    tags = (words[:, 0] >> np.uint64(16)).astype(np.int64)
    places = np.arange(block_bytes // 8, dtype=np.uint64)
    whole = (words == ((words[:, :1] >> np.uint64(16) << np.uint64(16)) | places)).all(axis=1) & (tags > 0)
    spoilt = (words == np.uint64(int.from_bytes(bytes([SPOILT_BYTE]) * 8, "little"))).all(axis=1)
    empty = (words == 0).all(axis=1)
    found: np.ndarray[Any, Any] = np.select([empty, spoilt, whole], [0, SPOILT, tags], TORN)
    return found


def _bytes(data: bytes) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.frombuffer(data, np.uint8)
