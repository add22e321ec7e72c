"""Software drives, their controllers, and one ring over all of them: the transport of the demo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tutti_hal.errors import RigError, TransportError, TuttiError
from tutti_hal.workload.media import Media, flip_byte_in_file, open_media
from tutti_hal.workload.summary import Setting
from tutti_hal.workload.transport import Completion, Direction, TransportStatistics

if TYPE_CHECKING:
    from tutti_hal.io_uring.batch import RegisteredBuffer
    from tutti_hal.io_uring.iocb import Iocb
    from tutti_hal.io_uring.ring import Ring
    from tutti_hal.nvme.software import ControllerConfig, SoftwareController
    from tutti_hal.profile import Profile
    from tutti_hal.shim import Stream

_LBA_SHIFT = 12
_PAGE = 4096
_NSID = 1
#: Queue classes of the ring: reads and writes have queue pairs of their own, so that neither waits behind the other.
_CLASS = {Direction.READ: 0, Direction.WRITE: 1}
_MAX_BATCH = 4096


@dataclass(frozen=True)
class RigOptions:
    """What to put together.

    Attributes:
        drives: how many.
        drive_bytes: capacity of each, at least.
        arena_bytes: device memory for data, at least.
        memory: drives in memory, no files.
        directory: where the files go; ``None``: a temporary folder.
        batch: transfers that are handed over in one piece, at most; longer ones are cut.
        depth: entries of each queue.
    """

    drives: int
    drive_bytes: int
    arena_bytes: int
    memory: bool = False
    directory: Path | None = None
    batch: int = _MAX_BATCH
    depth: int = 256


class Rig:
    """A `Transport` over real rings. Made by `open`; good only inside its block. Not thread safe."""

    def __init__(
        self,
        profile: Profile,
        media: Media,
        controllers: Sequence[SoftwareController],
        ring: Ring,
        arena: NDArray[np.uint8],
        buffer: RegisteredBuffer,
        streams: dict[Direction, Stream],
        batch: int,
    ) -> None:
        """Use `open`."""
        self._profile = profile
        self._media = media
        self._controllers = controllers
        self._ring = ring
        self._arena = arena
        self._buffer = buffer
        self._target_rows = np.array([ring.target(drive, _NSID).row for drive in range(len(controllers))], np.uint32)
        self._streams = streams
        self._batch = batch
        self._batches = 0
        self._own_calls = 0
        # Bring-up rang admin doorbells and called the host API; what counts begins here.
        self._begin = self._count()

    @classmethod
    @contextmanager
    def open(cls, profile: Profile, options: RigOptions) -> Iterator[Rig]:
        """Makes drives, controllers and ring; at the end of the block all of it is gone, whatever happened.

        Blocks for admin commands, and for the kernel's compiler when it was not built before.

        Raises:
            RigError: software controllers cannot serve this profile's memory.
            MediumError: no room for the drives' files.
            BuildError: the kernel cannot be built.
            TuttiError: a part of the rig refused.
        """
        _check_profile(profile)
        from tutti_hal.io_uring.options import Drive, RingOptions
        from tutti_hal.io_uring.ring import Ring
        from tutti_hal.nvme.device_memory import BufferMemory, attach
        from tutti_hal.nvme.software import SoftwareController
        from tutti_hal.shim import Device

        with ExitStack() as stack:
            device = Device(profile)
            media = stack.enter_context(
                open_media(options.drives, options.drive_bytes, memory=options.memory, directory=options.directory)
            )
            nbytes = -(-options.arena_bytes // _PAGE) * _PAGE
            controllers: list[SoftwareController] = []
            drives = []
            mappings: list[BufferMemory] = []
            for number in range(options.drives):
                controller = stack.enter_context(SoftwareController(_config(media, number)))
                controllers.append(controller)
                handle, dma = attach(device, controller, stack)
                drives.append(Drive(handle=handle, dma=dma))
                memory = mappings[0].through(controller.iommu) if mappings else dma.allocate(nbytes)
                stack.callback(memory.close)
                mappings.append(memory)
            ring_options = RingOptions(
                depth=options.depth, queues=(1, 1), batch_limit=options.batch, batches=2 * len(_CLASS), buffers=1
            )
            ring = stack.enter_context(Ring.init_queue(device, drives, ring_options))
            streams = {direction: stack.enter_context(device.create_stream()) for direction in Direction}
            arena = mappings[0].buffer.numpy(np.uint8, nbytes, offset=mappings[0].skip)
            yield cls(profile, media, controllers, ring, arena, ring.register(mappings), streams, options.batch)

    # ---- Transport

    @property
    def drives(self) -> int:
        """How many drives there are."""
        return len(self._controllers)

    @property
    def arena(self) -> NDArray[np.uint8]:
        """Device memory that every drive reaches, seen from the host."""
        return self._arena

    def submit(self, direction: Direction, transfers: NDArray[np.void]) -> _Flight:
        """Starts a batch; see `Transport.submit`. The first piece is under way when this returns."""
        return _Flight(self, direction, transfers.copy())

    def statistics(self) -> TransportStatistics:
        """The counters since the rig was made. What it costs itself in host calls is not counted."""
        return self._count().since(self._begin)

    def _count(self) -> TransportStatistics:
        device = self._ring.device
        before = device.host_calls.total()
        queues = self._ring.statistics()
        calls = before - self._own_calls
        self._own_calls += device.host_calls.total() - before
        counted = [controller.counters for controller in self._controllers]
        return TransportStatistics(
            batches=self._batches,
            commands=sum(sum(c.io_commands.values()) for c in counted),
            doorbells=queues.total("doorbells"),
            doorbells_seen=sum(c.sq_doorbells for c in counted),
            host_calls=calls,
            drive_read_bytes=tuple(c.bytes_read for c in counted),
            drive_written_bytes=tuple(c.bytes_written for c in counted),
        )

    # ---- what it is, and what it is made of

    def setting(self, seed: int) -> Setting:
        """What this is, in words and figures."""
        direct = bool(self._media.files) and all(c.namespace_info(_NSID).direct for c in self._controllers)
        where = f"files in {self._media.files[0].parent}, O_DIRECT" if self._media.files else "memory"
        return Setting(
            profile=str(self._profile),
            mode=_mode(self._profile),
            controller=(
                f"software controller, emulated: {self.drives} drives of {self._media.drive_bytes >> 20} MiB, {where}"
            ),
            emulated=True,
            medium="files" if self._media.files else "memory",
            direct_io=direct,
            drives=self.drives,
            seed=seed,
            notes=(self._media.note,) if self._media.note else (),
        )

    def medium_name(self, drive: int) -> str:
        """The drive's file, or ``memory``."""
        return self._media.name(drive)

    def medium_path(self, drive: int) -> Path | None:
        """The drive's file; ``None`` when it is memory."""
        return self._media.files[drive] if self._media.files else None

    def flip_byte(self, drive: int, offset: int) -> None:
        """Inverts a byte of a drive behind its controller's back. Only while nothing is in flight there."""
        path = self.medium_path(drive)
        if path is not None:
            flip_byte_in_file(path, offset)
            return
        controller = self._controllers[drive]
        (byte,) = controller.read_stored(_NSID, offset, 1)
        controller.write_stored(_NSID, offset, bytes([byte ^ 0xFF]))

    # ---- batches, for _Flight

    @property
    def batch_limit(self) -> int:
        """Transfers of one piece."""
        return self._batch

    def issue(self, direction: Direction, transfers: NDArray[np.void]) -> Iocb:
        """Hands one piece to the ring: one copy and one launch, whatever number of drives."""
        iocb = self._ring.get_iocb()
        try:
            fill = iocb.read if direction is Direction.READ else iocb.write
            fill(
                self._target_rows[transfers["drive"]],
                transfers["drive_offset"] >> _LBA_SHIFT,
                transfers["nbytes"],
                self._buffer,
                transfers["arena_offset"],
                queue_class=_CLASS[direction],
            )
        except BaseException:
            self._ring.put_iocb(iocb)
            raise
        self._ring.issue_io(iocb, self._streams[direction])
        self._batches += 1
        return iocb

    def finish(self, direction: Direction, iocb: Iocb, transfers: NDArray[np.void]) -> float:
        """Waits for one piece and returns its seconds on the device's clock."""
        from tutti_hal.io_uring.completion import succeeded

        done = self._ring.wait_cqe(iocb)
        good = succeeded(done)
        if not good.all():
            row = int(np.argmin(good))
            _raise_failure(direction, transfers[row], done[row], int((~good).sum()))
        return float(done["completed_ns"].max() - done["submitted_ns"].min()) / 1e9


class _Flight:
    """A batch in flight, cut into pieces that the ring takes; one piece at a time is under way."""

    def __init__(self, rig: Rig, direction: Direction, transfers: NDArray[np.void]) -> None:
        self._rig = rig
        self._direction = direction
        limit = rig.batch_limit
        self._left = [_by_drive(transfers[at : at + limit]) for at in range(0, len(transfers), limit)]
        self._now: tuple[Iocb, NDArray[np.void]] | None = None
        self._next()

    def _next(self) -> None:
        self._now = None
        if self._left:
            piece = self._left.pop(0)
            self._now = (self._rig.issue(self._direction, piece), piece)

    def wait(self) -> Completion:
        """See `Pending.wait`."""
        seconds = 0.0
        while self._now is not None:
            iocb, piece = self._now
            try:
                seconds += self._rig.finish(self._direction, iocb, piece)
            except TuttiError:
                self._now = None
                raise
            self._next()
        return Completion(seconds)


def _by_drive(transfers: NDArray[np.void]) -> NDArray[np.void]:
    """Neighbouring lanes take neighbouring requests: of one queue, they share its doorbell."""
    return transfers[np.argsort(transfers["drive"], kind="stable")]


def _check_profile(profile: Profile) -> None:
    from tutti_hal.nvme.device_memory import why_not_attached

    why_not = why_not_attached(profile)
    if why_not is not None:
        raise RigError(f"run the demo on {profile}", why_not, "Name --profile host.")


def _mode(profile: Profile) -> str:
    """How kernels run: of HOST its mode, elsewhere ``hardware``."""
    return profile.arch.split("-", 1)[0] if profile.record.kind == "host" else profile.record.kind


def _config(media: Media, number: int) -> ControllerConfig:
    from tutti_hal.nvme.software import ControllerConfig, FileNamespace, MemoryNamespace

    blocks = media.drive_bytes >> _LBA_SHIFT
    namespace = (
        FileNamespace(path=media.files[number], lba_shift=_LBA_SHIFT, blocks=blocks)
        if media.files
        else MemoryNamespace(lba_shift=_LBA_SHIFT, blocks=blocks)
    )
    return ControllerConfig(namespaces=(namespace,), serial=f"TUTTIDEMO{number}", seed=number)


def _raise_failure(direction: Direction, transfer: np.void, done: np.void, count: int) -> None:
    from tutti_hal.io_uring.layout import State, Why
    from tutti_hal.nvme.status import Status

    state = State(int(done["state"]))
    if state is State.COMPLETED:
        found = str(Status(sct=int(done["sct"]), sc=int(done["sc"]), dnr=bool(done["dnr"])))
    elif state is State.NOT_RUN:
        found = f"not run ({Why(int(done['why'])).name.lower().replace('_', ' ')})"
    else:
        found = state.name.lower().replace("_", " ")
    nbytes, drive, offset = (int(transfer[name]) for name in ("nbytes", "drive", "drive_offset"))
    raise TransportError(
        f"{direction.value} {nbytes} bytes at byte {offset} of drive {drive}",
        f"{found}; {count} of the batch did not end well",
        "A drive of this demo fails only when its file does: is the disk full or faulty?",
    )
