"""One small queue of the ring, its requests and the smallest drive, for a kernel to be explored over. No case is here.

Everything that changes lies in one piece of memory, so that each run begins with the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti_hal.errors import LaunchFailed
from tutti_hal.io_uring.layout import dtype
from tutti_hal.native import ffi_and_library
from tutti_hal.nvme.software import Iommu

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

#: What probe_ring_steps does in each step.
SUBMIT, REAP, SETTLE, WAIT = 1, 2, 4, 8
#: What the smallest drive does otherwise.
SILENT, TWICE, REVERSED = 1, 2, 4

#: Request n names the logical block LBA + n and carries BITS + n in dword 12: a torn entry has other pairs.
LBA, BITS = 0x100, 0x200

_PAGE, _PAGES = 4096, 3
_LAST = (1 << 64) - 1
_LIMIT_NS = 1 << 40
_QUEUE_ID = 3
#: Commands and tails that the smallest drive remembers.
_KEPT = 16
_COUNTS = ("doorbell", "credits", "ticket", "completion", "retired", "completions", "strays", "lates", "health")


@dataclass(frozen=True)
class Small:
    """Sizes and behaviour.

    Attributes:
        requests: how many; lane n takes n, n + lanes, ...
        what: the parts of the ring that take part (SUBMIT, REAP, ...).
        steps: how often at most.
        depth: of the submission queue; one command less is outstanding at most.
        cq_depth: of the completion queue, 0: the same.
        blocks: of lanes, each one wave.
        lanes: of a block.
        sent: so many requests, the first ones, are with the drive already.
        drive: what the drive does otherwise.
    """

    requests: int
    what: int
    steps: int = 1
    depth: int = 4
    cq_depth: int = 0
    blocks: int = 2
    lanes: int = 4
    sent: int = 0
    drive: int = 0


class SmallQueue:
    """Memory of a small queue, as it is before a run, and what is in it after one."""

    def __init__(self, run: Run, small: Small) -> None:
        self._run, self._small = run, small
        # The world is the process's: whoever comes next must not find the bounds of a search in it.
        run.closing.callback(run.subject.reset_world)
        self._ffi, self._library = ffi_and_library()
        self._view = run.buffer((_PAGES + 1) * _PAGE, "mapped").numpy(np.uint8)
        self._base = int(self._view.ctypes.data)
        self._used = -self._base % _PAGE
        self._start = self._used
        self._iommu = Iommu()
        run.closing.callback(self._iommu.close)
        self._bus = self._iommu.map(self._base + self._start, _PAGES * _PAGE, contiguous=True)[0][0]
        self._limit, self._cq_depth = small.depth - 1, small.cq_depth or small.depth
        self._at = {
            "sq": self._take(64 * small.depth),
            "cq": self._take(16 * self._cq_depth),
            "bells": self._take(256),
            "state": self._take(dtype("ring_queue_state").itemsize),
            "marks": self._take(8 * small.depth),
            "commands": self._take(8 * self._limit),
            "cells": self._take(8 * self._limit),
            "statuses": self._take(dtype("ring_status").itemsize * small.requests),
            "told": self._take(8 * small.requests),
        }
        self._tables = [run.array(one) for one in self._make_tables()]
        self._buffers = run.buffer(dtype("ring_buffer").itemsize)
        self._before = self._fill()
        self._drive = self._ffi.new("tt_small_drive *")
        self._drive_before = self._set_up_drive()

    def _take(self, nbytes: int) -> int:
        """The offset of a piece of the memory, on a line of its own."""
        at = -(-self._used // 128) * 128
        self._used = at + nbytes
        assert self._used <= self._start + _PAGES * _PAGE
        return at

    def _words(self, name: str, count: int, kind: Any = np.uint64) -> Any:
        return self._view[self._at[name] :][: count * np.dtype(kind).itemsize].view(kind)

    def _make_tables(self) -> tuple[Any, Any, Any]:
        """Target, queue and requests, as the host packs them."""
        small = self._small
        bits = max(1, (self._limit - 1).bit_length())
        queue = np.zeros(1, dtype("ring_queue"))
        for name in ("state", "sq", "cq", "marks", "commands", "cells"):
            queue[name] = self._base + self._at[name]
        queue["cq_state"], queue["cq_queues"] = queue["state"], 1
        for place, name in enumerate(("sq_doorbell", "cq_doorbell")):
            queue[name] = self._base + self._at["bells"] + 128 * place
        queue["sq_depth"], queue["cq_depth"], queue["command_limit"] = small.depth, self._cq_depth, self._limit
        for name, length in (("sq", small.depth), ("cq", self._cq_depth), ("command", self._limit)):
            queue[f"{name}_reciprocal"] = _LAST // length
        queue["index_bits"], queue["generations"] = bits, (1 << (16 - bits)) - 1
        queue["id"], queue["cq_interval"] = _QUEUE_ID, max(1, self._cq_depth // 2)
        target = np.zeros(1, dtype("ring_target"))
        target["nsid"], target["block_bytes"], target["page_shift"] = 1, 512, 12
        target["max_blocks"], target["block_limit"], target["classes"] = 1, 1 << 32, 1 << 16
        requests = np.zeros(small.requests, dtype("ring_request"))
        requests["first_lba"] = LBA + np.arange(small.requests)
        requests["command_bits"] = (BITS + np.arange(small.requests)) << 16
        return target, queue, requests

    def _fill(self) -> bytes:
        """Memory as it is after the requests that were sent were published and rung."""
        small, sent = self._small, self._small.sent
        state = self._words("state", 1, dtype("ring_queue_state"))
        state["credits"], state["allowed"], state["ticket"] = self._limit - sent, self._limit, sent
        state["doorbell"] = sent << 1
        tickets = np.arange(self._limit, dtype=np.uint64)
        self._words("cells", self._limit)[:] = tickets << np.uint64(16) | tickets
        statuses = self._words("statuses", small.requests, dtype("ring_status"))
        statuses["identifier"] = 0xFFFF
        for row in range(sent):
            entry = self._view[self._at["sq"] + 64 * row :][:64].view(np.uint32)
            entry[0], entry[1], entry[10], entry[12] = row << 16, 1, LBA + row, (BITS + row) << 16
            self._words("marks", small.depth)[row] = row + 1
            self._words("commands", self._limit)[row] = row << 32 | 1 << 16 | row
            statuses[row]["code"], statuses[row]["identifier"] = 1 << 24, row
        self._words("bells", 1, np.uint32)[0] = sent % small.depth
        return bytes(self._view.tobytes())

    def _set_up_drive(self) -> bytes:
        drive, bells = self._drive, self._base + self._at["bells"]
        drive.sq_doorbell, drive.cq_doorbell = (self._ffi.cast("uint32_t *", bells + 128 * place) for place in range(2))
        drive.sq, drive.cq = (self._bus + self._at[name] - self._start for name in ("sq", "cq"))
        drive.sq_depth, drive.cq_depth = self._small.depth, self._cq_depth
        drive.queue_id, drive.flags = _QUEUE_ID, self._small.drive
        return bytes(self._ffi.buffer(drive))

    @property
    def _kernel(self) -> Any:
        return self._run.kernel("probe_ring", "probe_ring_steps")

    @property
    def _arguments(self) -> tuple[Any, ...]:
        small, target, queue, requests = self._small, *self._tables
        places = (self._base + self._at[name] for name in ("statuses", "told"))
        counts = (small.sent, small.requests, small.steps, small.what, _LIMIT_NS)
        return (target, queue, self._buffers, requests, *places, *counts)

    def explore(self, preemptions: int, stale_reads: int, max_runs: int = 0) -> dict[str, Any]:
        """Every run with so many pre-emptions and reads of older values at most: what was covered, each ending."""
        simulation = self._run.profile.backend.simulation()
        assert simulation is not None, "a case of it needs engine.simulation"
        drive = int(self._ffi.cast("uintptr_t", self._drive))
        start = self._at["state"]
        scene = simulation.Scene(
            regions=((self._base, self._before), (drive, self._drive_before)),
            results=((self._base + start, self._used - start), (drive, len(self._drive_before))),
            drive=(self._library.tt_small_drive_run, self._drive, self._iommu.handle),
        )
        options = simulation.SimOptions(
            preemptions=preemptions + 1,
            delays_only=True,
            stale_reads=stale_reads + 1,
            idle_pauses=2,
            staleness_reads=1,
            max_steps=20_000,
        )
        blocks, lanes = self._small.blocks, self._small.lanes
        found = self._run.world.explore(self._kernel, blocks, lanes, self._arguments, scene, options, max_runs)
        counts = {name: getattr(found, name) for name in ("runs", "cuts", "states", "longest", "complete")}
        return counts | {"endings": [self._told(one, start) for one in found.endings]}

    def run_once(self, policy: str, seed: int) -> dict[str, Any]:
        """One run under a schedule of that seed: how it ended."""
        self._run.subject.reset_world(policy=policy, seed=seed, max_steps=200_000)
        ended = self.run_in_this_world()
        if ended["outcome"] != "done":
            self._run.subject.reset_world()
        return ended | {"seed": seed, "policy": policy}

    def run_in_this_world(self) -> dict[str, Any]:
        """One run under the options that the world has: how it ended."""
        self._view[:] = np.frombuffer(self._before, np.uint8)
        self._ffi.buffer(self._drive)[:] = self._drive_before
        world, outcome = self._run.world, "done"
        agent = world.add_controller("drive", self._library.tt_small_drive_run, self._drive, self._iommu.handle)
        try:
            self._run.launch(self._kernel, self._small.blocks, self._small.lanes, *self._arguments)
            world.run(10_000)
        except LaunchFailed as error:
            outcome = type(error).__name__
        finally:
            world.remove_controller(agent)
        return self._seen(self._drive) | {"outcome": outcome}

    def _told(self, ending: Any, start: int) -> dict[str, Any]:
        """An ending in plain values, with the script that leads there."""
        log = self._ffi.new("tt_small_drive *")
        size = self._ffi.sizeof("tt_small_drive")
        self._view[start : self._used] = np.frombuffer(ending.result[:-size], np.uint8)
        self._ffi.buffer(log)[:] = ending.result[-size:]
        told = {"outcome": ending.outcome, "message": ending.message, "script": _shortened(ending.script)}
        return self._seen(log) | told

    def _seen(self, log: Any) -> dict[str, Any]:
        small, kept = self._small, min(log.commands, _KEPT)
        state = self._words("state", 1, dtype("ring_queue_state"))[0]
        statuses = self._words("statuses", small.requests, dtype("ring_status"))
        return {
            **{name: int(state[name]) for name in _COUNTS},
            "tails": [int(log.tail[i]) for i in range(min(log.tails, _KEPT))],
            "bad_tails": int(log.bad_tails),
            "fetched": int(log.commands),
            "posted": int(log.posted),
            "commands": [[log.dword_0[i] >> 16, log.dword_10[i], log.dword_12[i] >> 16] for i in range(kept)],
            "told": self._words("told", 2 * small.requests, np.uint32).reshape(-1, 2).tolist(),
            "identifiers": statuses["identifier"].tolist(),
            "states": (statuses["code"] >> 24).tolist(),
            "results": statuses["result"].tolist(),
            "cells": self._words("cells", self._limit).tolist(),
        }


def _shortened(script: tuple[int, ...]) -> list[list[int]]:
    """The places in a script that are not the first alternative, with what is taken there."""
    return [[place, choice] for place, choice in enumerate(script) if choice]
