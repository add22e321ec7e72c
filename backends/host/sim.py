"""Control of a device in mode ``sim``: its schedule, its clock, its memory while kernels run, and exploration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tutti_hal.errors import InvalidArgument
from tutti_hal.native import ffi_and_library
from tutti_hal.spec.nodes import near_miss

if TYPE_CHECKING:
    from tutti_hal.record import Arch
    from tutti_hal.shim import Device, Kernel

#: The schedulers, in the order of their numbers.
POLICIES = ("fair", "lockstep", "random", "starve-one", "pct", "script", "one-lane")

T = TypeVar("T")


def simulates(arch: Arch) -> bool:
    """Whether the devices of an arch have a world; the others run in real threads."""
    return arch.defines.get("TT_HOST_MODE") == "1"


@dataclass(frozen=True)
class SimOptions:
    """How a world is scheduled and what its memory may do. Zero stands for the engine's default.

    Attributes:
        policy: one of :data:`POLICIES`.
        seed: of everything random; one seed, one run.
        pct_depth: priority changes of ``pct``.
        staleness_reads: a reader sees the newest value after at most so many reads.
        device_stores_invisible: peers see stores to device memory only after the kernel has ended.
        barrier_orders_memory: the block barrier orders memory.
        wave_sync_orders_memory: the wave sync orders memory.
        resident_blocks: at most so many blocks at once.
        max_steps: a launch that takes more ends as a timeout.
        script: choices to take first under ``script``; then always the first alternative.
        idle_pauses: a lane that pauses so often while nothing changes waits for a change.
        preemptions: under ``script``, offer fewer than this many pre-emptions.
        delays_only: under ``script``, any departure from round robin counts as a pre-emption.
        stale_reads: under ``script``, offer fewer than this many reads of an older value; 0: any number.
    """

    policy: str = "fair"
    seed: int = 1
    pct_depth: int = 0
    staleness_reads: int = 0
    device_stores_invisible: bool = False
    barrier_orders_memory: bool = True
    wave_sync_orders_memory: bool = False
    resident_blocks: int = 0
    max_steps: int = 0
    script: tuple[int, ...] = ()
    idle_pauses: int = 0
    preemptions: int = 0
    delays_only: bool = False
    stale_reads: int = 0

    def to_native(self, raw: Any) -> None:
        """Write all but policy and script into a `tt_sim_options`."""
        for name in (
            *("seed", "pct_depth", "staleness_reads", "device_stores_invisible", "barrier_orders_memory"),
            *("wave_sync_orders_memory", "resident_blocks", "max_steps", "idle_pauses", "preemptions", "delays_only"),
            "stale_reads",
        ):
            setattr(raw, name, int(getattr(self, name)))


@dataclass(frozen=True)
class Ending:
    """One way in which the runs of an exploration ended.

    Attributes:
        outcome: how the launch ended, by its name in :data:`OUTCOMES`.
        result: the bytes that the runs are known by.
        runs: how many of them there were.
        script: the choices of the first.
        message: what the engine says of a launch that did not end by itself.
    """

    outcome: str
    result: bytes
    runs: int
    script: tuple[int, ...]
    message: str


@dataclass(frozen=True)
class Explored:
    """What was covered, and what came out.

    Attributes:
        runs: in all; ``cuts`` of them ended where an earlier one had been.
        cuts: runs that came to a state which an earlier run had come to, with as much left of its bounds.
        states: that were told apart.
        longest: choices of the run that had the most.
        steps: of all runs together.
        complete: there is no other run within the bounds of the options.
        endings: the different ones.
    """

    runs: int
    cuts: int
    states: int
    longest: int
    steps: int
    complete: bool
    endings: tuple[Ending, ...]


@dataclass(frozen=True)
class Scene:
    """What a kernel is explored in.

    Attributes:
        regions: (address, bytes) of memory that each run begins with.
        results: (address, size) of what a run is known by, read after it has ended.
        drive: C function, argument and IOMMU of a controller that takes part, as :meth:`World.add_controller` has it.
    """

    regions: tuple[tuple[int, bytes], ...]
    results: tuple[tuple[int, int], ...]
    drive: tuple[Any, Any, Any] | None = None


#: How a launch can end, in the order of the engine's numbers.
OUTCOMES = ("done", "pending", "deadlock", "limit", "trap", "invalid", "no memory")


@dataclass(frozen=True)
class Choice:
    """One decision of a run: which alternative was taken, of how many."""

    taken: int
    alternatives: int


class World:
    """The world of a simulated device. It is the device's: any number of these may look at it."""

    def __init__(self, device: Device) -> None:
        """Look at a device's world.

        Raises:
            NotSupported: the device is not simulated.
        """
        self.device = device
        self._ordinal = device.vendor_ordinal
        self._ffi, self._library = ffi_and_library()
        self._number("SimNow", "uint64_t *")

    def _call(self, name: str, *args: Any) -> None:
        code = getattr(self._library, f"ttrt{name}")(self._ordinal, *args)
        if code != 0:
            raise self.device.runtime.failure(name, code, self._ordinal)

    def _number(self, name: str, kind: str) -> int:
        value = self._ffi.new(kind)
        self._call(name, value)
        return int(value[0])

    def reset(self, options: SimOptions | None = None) -> None:
        """Forget all history and a failure, and take new options; memory, streams and modules stay.

        Raises:
            InvalidArgument: an option is out of range.
            RuntimeFailure: work is queued: synchronize first.
        """
        wanted = options or SimOptions()
        if wanted.policy not in POLICIES:
            raise InvalidArgument(
                "reset a simulated world",
                f"no policy '{wanted.policy}'{near_miss(wanted.policy, POLICIES)}",
                f"Use one of: {', '.join(POLICIES)}.",
            )
        script = self._ffi.new("uint32_t[]", list(wanted.script) or [0])
        raw = self._ffi.new("tt_sim_options *")
        raw.struct_size = self._ffi.sizeof("tt_sim_options")
        raw.policy = POLICIES.index(wanted.policy)
        raw.script = script
        raw.script_length = len(wanted.script)
        wanted.to_native(raw)
        self._call("SimReset", raw)

    @property
    def now_ns(self) -> int:
        """The virtual clock."""
        return self._number("SimNow", "uint64_t *")

    @property
    def steps(self) -> int:
        """Scheduling steps since the world was made or reset."""
        return self._number("SimSteps", "uint64_t *")

    def choices(self) -> list[Choice]:
        """Every decision since the world was made or reset, in order."""
        count = self._ffi.new("uint64_t *")
        self._call("SimChoices", self._ffi.NULL, 0, count)
        pairs = self._ffi.new("uint32_t[]", 2 * int(count[0]) or 1)
        self._call("SimChoices", pairs, count[0], count)
        return [Choice(pairs[2 * i], pairs[2 * i + 1]) for i in range(count[0])]

    def run(self, budget_steps: int) -> bool:
        """Run at most so many steps: the queued work, or the controllers where there is none. False: work is left.

        Raises:
            LaunchFailed: a kernel failed.
        """
        code = self._library.ttrtSimRun(self._ordinal, budget_steps)
        if code == 0:
            return True
        failure = self.device.runtime.failure("SimRun", code, self._ordinal)
        if self.device.runtime.is_error(code, "NotReady"):
            return False
        raise failure

    def load(self, address: int, nbytes: int = 4) -> int:
        """What the host reads now at an aligned address, of 1, 2, 4 or 8 bytes; also while kernels run.

        Raises:
            InvalidArgument: size or alignment is wrong.
        """
        value = self._ffi.new("uint64_t *")
        self._call("SimHostLoad", self._ffi.cast("void *", address), nbytes, value)
        return int(value[0])

    def store(self, address: int, value: int, nbytes: int = 4) -> None:
        """Let the host store now at an aligned address; also while kernels run. A register's device is told.

        Raises:
            InvalidArgument: size or alignment is wrong.
        """
        self._call("SimHostStore", self._ffi.cast("void *", address), value, nbytes)

    def explore(
        self,
        kernel: Kernel,
        grid: int,
        block: int,
        args: tuple[Any, ...],
        scene: Scene,
        options: SimOptions | None = None,
        max_runs: int = 0,
    ) -> Explored:
        """Run a kernel once for each schedule that the options allow; blocks until done.

        The lanes' clock stands at 0: no deadline strikes. A pre-emption is offered only where the next step may meet
        another agent's, and a run is cut where an earlier one has been; neither leaves an ending out. The world is as
        after a reset with these options, under the fair schedule.

        Args:
            kernel: of this device; it, and the drive, depend on the scene's regions and on each other alone.
            grid: how many blocks.
            block: lanes of each block.
            args: the kernel's arguments.
            scene: memory, result and drive.
            options: bounds; policy and script are not looked at.
            max_runs: end after so many, 0: never.

        Raises:
            RuntimeFailure: work is queued, or a controller is attached.
        """
        ffi = self._ffi
        params, kept = kernel.pack(args)
        theirs = kernel.module.device.runtime.ffi
        vector = ffi.new("void *[]", [ffi.cast("void *", int(theirs.cast("uintptr_t", one))) for one in params])
        images = [ffi.from_buffer(image) for _, image in scene.regions]
        regions = ffi.new("tt_explore_region[]", len(images))
        for region, (address, _), image in zip(regions, scene.regions, images, strict=True):
            region.address, region.before, region.bytes = ffi.cast("void *", address), image, len(image)
        task = ffi.new("tt_explore_task *")
        task.struct_size, task.region_count, task.regions = ffi.sizeof("tt_explore_task"), len(images), regions
        results = ffi.new("tt_explore_region[]", len(scene.results))
        for result, (address, nbytes) in zip(results, scene.results, strict=True):
            result.address, result.bytes = ffi.cast("void *", address), nbytes
        task.result_count, task.results = len(results), results
        if scene.drive is not None:
            task.drive, task.drive_arg, task.drive_iommu = scene.drive
        task.options.struct_size = ffi.sizeof("tt_sim_options")
        (options or SimOptions()).to_native(task.options)
        task.max_runs = max_runs
        report = ffi.new("tt_explore_report *")
        function = ffi.cast("ttrtFunction_t", int(theirs.cast("uintptr_t", kernel.handle)))
        self._call("SimExplore", function, grid, block, vector, task, report)
        del kept
        counts = {name: int(getattr(report, name)) for name in ("runs", "cuts", "states", "longest", "steps")}
        endings = tuple(self._ending(index) for index in range(report.endings))
        return Explored(**counts, complete=bool(report.complete), endings=endings)

    def _ending(self, index: int) -> Ending:
        raw = self._ffi.new("tt_explore_ending *")
        self._call("SimEnding", index, raw)
        script = tuple(self._ffi.unpack(raw.script, raw.script_length)) if raw.script_length else ()
        message = self._ffi.string(raw.message).decode(errors="replace")
        result = bytes(self._ffi.buffer(self._ffi.cast("char *", raw.result), raw.result_bytes))
        return Ending(OUTCOMES[raw.outcome], result, int(raw.runs), script, message)

    def add_controller(self, name: str, function: Any, argument: Any, iommu: Any) -> int:
        """Make a controller (C: ``void (*)(void *, tt_port)``) an agent of the world; gives its number.

        The function is C code, never a Python callback: it runs on a fibre, which leaves and comes back in its middle.
        Function, argument and iommu are cffi values of :func:`tutti_hal.native.ffi_and_library`, and live until the
        controller is removed.
        """
        agent = self._ffi.new("uint64_t *")
        self._call("SimAddController", name.encode(), function, argument, iommu, agent)
        return int(agent[0])

    def remove_controller(self, agent: int) -> None:
        """Let a controller end, and take it out of the world.

        Raises:
            BadHandle: there is none of that number.
        """
        self._call("SimRemoveController", agent)


def explore(
    world: World, run: Callable[[], T], options: SimOptions, limit: int | None = None
) -> Iterator[tuple[tuple[int, ...], T]]:
    """Run a scenario once for every schedule that the options allow, depth first.

    Args:
        world: reset before each run.
        run: prepares memory, launches, synchronizes, and returns what was observed; must not depend on anything else.
        options: policy and script are replaced.
        limit: end after so many runs.

    Yields:
        The script that replays the run, and what it returned.
    """
    script: tuple[int, ...] | None = ()
    count = 0
    while script is not None and (limit is None or count < limit):
        world.reset(replace(options, policy="script", script=script))
        result = run()
        choices = world.choices()
        yield tuple(choice.taken for choice in choices), result
        script = _next(choices)
        count += 1


def _next(choices: list[Choice]) -> tuple[int, ...] | None:
    """The script of the next schedule in order: the last decision that has another alternative takes it."""
    for index in range(len(choices) - 1, -1, -1):
        choice = choices[index]
        if choice.taken + 1 < choice.alternatives:
            return (*(c.taken for c in choices[:index]), choice.taken + 1)
    return None
