"""Long life: many commands through young and old queues over the null controller; sums that must come out exactly."""

from __future__ import annotations

import json
import resource
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BenchError
from tutti_hal.nvme.device_memory import why_not_attached

if TYPE_CHECKING:
    from collections.abc import Callable

    from tutti_hal.profile import Profile

#: Version of the file that a soak resumes from.
FORMAT = 1

_BATCH = 4096
_BLOCK_BYTES = 4096
_READ = 2

#: Depths take turns: a power of two, none, and one where entries are few.
_DEPTHS = (1024, 1000, 257)

#: A queue's doorbell word is ``tail << 1 | held``: its 2^64 is the 2^63rd command, the end of a queue's life.
_END = 1 << 63

#: Memory that a process may grow by once each kind of slice has run.
_GROWTH_BYTES = 16 << 20


@dataclass(frozen=True)
class Slice:
    """One life of a queue.

    Attributes:
        start: what is special about where it begins.
        first_ticket: commands that are taken for gone before.
        depth: entries of the queue.
        commands: that it lives for.
    """

    start: str
    first_ticket: int
    depth: int
    commands: int


@dataclass(frozen=True)
class Life:
    """A slice that was run, every sum of it checked.

    Attributes:
        slice: what was asked.
        seconds: of wall clock.
        commands_per_s: its rate.
        resident_bytes: of the process afterwards.
        descriptors: files that the process has open afterwards.
    """

    slice: Slice
    seconds: float
    commands_per_s: float
    resident_bytes: int
    descriptors: int


def plan(commands: int, slice_commands: int = 5_000_000) -> tuple[Slice, ...]:
    """The slices of a soak: young queues, and such as pass 2^32 and 2^48, or end just short of the end of a life.

    Args:
        commands: in all, rounded up to whole batches.
        slice_commands: of each slice at most, rounded up likewise.
    """
    batches, most = -(-commands // _BATCH), max(1, -(-slice_commands // _BATCH))
    slices: list[Slice] = []
    while batches:
        count = min(most, batches) * _BATCH
        number = len(slices)
        name, first = (
            ("young", 0),
            ("2^32", (1 << 32) - count // 2),
            ("2^48", (1 << 48) - count // 2),
            ("2^63", _END - count - 4 * max(_DEPTHS)),
        )[number % 4]
        slices.append(Slice(name, max(first, 0), _DEPTHS[number % len(_DEPTHS)], count))
        batches -= count // _BATCH
    return tuple(slices)


def soak(
    profile: Profile,
    slices: tuple[Slice, ...],
    *,
    state: Path | None = None,
    time_limit_s: float = 0.0,
    say: Callable[[int, int], None] = lambda _done, _all: None,
) -> dict[str, Any]:
    """Runs the slices that the state file does not have yet, one after the other.

    Args:
        profile: HOST in mode threads.
        slices: see `plan`.
        state: file that each finished slice is added to, and that a later call goes on from; None keeps nothing.
        time_limit_s: after which no further slice begins; 0 is none.
        say: called after some batches with commands done and to do, of all slices.

    Returns:
        ``commands`` done and ``asked``, whether it is ``complete``, and the ``lives``.

    Raises:
        BenchError: another profile, a state file of another soak, or a sum that does not come out.
        TuttiError: a part refused.
    """
    why_not = why_not_attached(profile)
    if why_not is not None:
        raise BenchError(f"soak the ring on {profile}", why_not, "Name --profile host.")
    lives = _resume(state, slices)
    asked, began = sum(one.commands for one in slices), time.monotonic()
    # A process of its own grows as it likes in the first round.
    here: list[Life] = []
    for one in slices[len(lives) :]:
        if time_limit_s and time.monotonic() - began > time_limit_s:
            break
        before = sum(life.slice.commands for life in lives)
        life = _live(profile, one, lambda done, before=before: say(before + done, asked))  # type: ignore[misc]
        lives.append(life)
        here.append(life)
        _check_growth(here)
        if state is not None:
            _keep(state, slices, lives)
    done = sum(life.slice.commands for life in lives)
    return {
        "profile": str(profile),
        "commands": done,
        "asked": asked,
        "complete": done == asked,
        "seconds": round(sum(life.seconds for life in lives), 2),
        "starts": sorted({life.slice.start for life in lives}),
        "lives": [asdict(life) for life in lives],
    }


def _live(profile: Profile, one: Slice, say: Callable[[int], None]) -> Life:
    import numpy as np

    from tutti_hal.io_uring.completion import succeeded
    from tutti_hal.io_uring.options import Drive, RingOptions
    from tutti_hal.io_uring.ring import Ring
    from tutti_hal.nvme.device_memory import attach
    from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, NullController
    from tutti_hal.shim import Device

    with ExitStack() as stack:
        device = Device(profile)
        config = ControllerConfig(namespaces=(MemoryNamespace(blocks=_BATCH),))
        controller = stack.enter_context(NullController(config))
        handle, dma = attach(device, controller, stack)
        memory = dma.allocate(_BATCH * _BLOCK_BYTES)
        stack.callback(memory.close)
        options = RingOptions(
            depth=one.depth,
            batch_limit=_BATCH,
            batches=2,
            buffers=1,
            lanes=device.wave_width,
            first_ticket=one.first_ticket,
        )
        ring = stack.enter_context(Ring.init_queue(device, [Drive(handle=handle, dma=dma)], options))
        buffer = ring.register(memory)
        place = np.arange(_BATCH)

        def issue() -> Any:
            iocb = ring.get_iocb()
            iocb.read(ring.targets[0], place, _BLOCK_BYTES, buffer, place * _BLOCK_BYTES)
            ring.issue_io(iocb)
            return iocb

        begin = time.perf_counter()
        batches, identifiers = one.commands // _BATCH, np.zeros(0, np.uint32)
        flying = issue()
        for number in range(batches):
            following = issue() if number + 1 < batches else None
            if not succeeded(ring.wait_cqe(flying)).all():
                raise _wrong(one, f"batch {number}", "a command did not end well", "all succeed")
            identifiers = flying.results["identifier"][:_BATCH].copy()
            flying = following
            say((number + 1) * _BATCH)
        seconds = time.perf_counter() - begin
        _check_sums(one, ring, controller)
        _check_identifiers(one, ring.options.commands, identifiers)
    return Life(one, round(seconds, 3), round(one.commands / seconds, 1), _resident(), _descriptors())


def _check_sums(one: Slice, ring: Any, controller: Any) -> None:
    """What the ring counted, what the drive counted, and what was asked are one number; nothing is left over."""
    (queue,) = ring.statistics().queues
    counted = controller.queue_counters(queue.qid)
    for what, found, wanted in (
        ("tickets", queue.commands, one.commands),
        ("completions", queue.completions, one.commands),
        ("commands that the drive fetched", counted.commands, one.commands),
        ("completions that it posted", counted.completions, one.commands),
        ("commands by opcode", controller.counters.io_commands, {_READ: one.commands}),
        ("strays", queue.strays, 0),
        ("lates", queue.lates, 0),
        ("quarantined", queue.quarantined, 0),
        ("health", int(queue.health), 0),
        ("doorbells that the drive refused", controller.counters.bad_doorbells, 0),
        ("credits", queue.credits, ring.options.commands),
    ):
        if found != wanted:
            raise _wrong(one, what, str(found), str(wanted))


def _check_identifiers(one: Slice, commands: int, identifiers: Any) -> None:
    """Every row of identifiers is still in use: the last batch is so long that each had its turn."""
    import numpy as np

    rows = np.unique(identifiers & np.uint32((1 << (commands - 1).bit_length()) - 1))
    if rows.tolist() != list(range(commands)):
        raise _wrong(one, "identifiers in use", f"{len(rows)} of {commands}", "all of them")


def _check_growth(lives: list[Life]) -> None:
    """Once each start and depth has been met, the process has what it needs, and grows no more."""
    warm = 4 * len(_DEPTHS)
    if len(lives) <= warm:
        return
    first, last = lives[warm - 1], lives[-1]
    grown = last.resident_bytes - first.resident_bytes
    if grown > _GROWTH_BYTES:
        raise _wrong(last.slice, "resident memory", f"{grown} bytes more than {warm} slices in", "a few pages")
    if last.descriptors > first.descriptors:
        raise _wrong(last.slice, "open files", str(last.descriptors), str(first.descriptors))


def _wrong(one: Slice, what: str, found: str, wanted: str) -> BenchError:
    return BenchError(
        f"soak a queue of depth {one.depth} from ticket {one.first_ticket}",
        f"{what}: {found}, and it must be {wanted}",
        "Run the ring's cases: tutti-hal certify --case 'ring/*'.",
    )


def _resident() -> int:
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _keep(state: Path, slices: tuple[Slice, ...], lives: list[Life]) -> None:
    table = {"format": FORMAT, "slices": [asdict(one) for one in slices], "lives": [asdict(life) for life in lives]}
    unfinished = state.with_name(state.name + ".part")
    state.parent.mkdir(parents=True, exist_ok=True)
    unfinished.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(state)


def _resume(state: Path | None, slices: tuple[Slice, ...]) -> list[Life]:
    if state is None or not state.exists():
        return []
    try:
        table = json.loads(state.read_text(encoding="utf-8"))
        known = tuple(Slice(**one) for one in table["slices"])
        lives = [replace(Life(**one), slice=Slice(**one["slice"])) for one in table["lives"]]
        if table["format"] != FORMAT or known != slices or [life.slice for life in lives] != list(slices[: len(lives)]):
            raise ValueError("it is of another soak")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"go on from {state}", str(error), "Name another file, or delete this one.") from error
    return lives
