"""The storage runtime: open targets, register memory, submit requests, take results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti_hal.errors import DrivesInvalid
from tutti_hal.storage.outcomes import IoState, Submission
from tutti_hal.storage.pressure import submit_all
from tutti_hal.storage.records import check_requests
from tutti_hal.storage.runtime_base import RuntimeBase
from tutti_hal.storage.status import Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring import QueueRecovery, RecoveryLimits
    from tutti_hal.shim import Stream


class StorageRuntime(RuntimeBase):
    """Targets, memory and requests over one ring and any number of drives. A context manager. Thread safe.

    Made by `create`. Every method may be called from any thread. Requests of one submit run in any order, and so do
    submits. What the drives moved is there for the host after `wait`, and for the device in work that is enqueued on
    the submit's stream behind it.

    Handles are numbers. They are good in the runtime that gave them until what they name is closed, and are refused
    elsewhere and afterwards.
    """

    # ---- requests ----

    def submit(self, requests: NDArray[np.void], stream: Stream | None = None) -> Submission:
        """Hands requests to the drives: one copy and one launch, whatever targets and drives they name. Does not block.

        Each request is judged for itself. What is refused never runs and says why; what was refused only for the
        moment (`Submission.again`) must be submitted again, by `submit_all` or by the caller. An exception means that
        nothing was accepted; but when this is interrupted between launch and return, the batch is in flight without a
        handle, its memory stays in use until it ends, and `shutdown` waits for it.

        Args:
            requests: an array of `request_dtype`. It is copied.
            stream: where to enqueue: after the stream's earlier work, before its later work. None takes one of the
                runtime's own.

        Raises:
            RequestsInvalid: no such array.
            StorageStopped: the runtime is not running.
        """
        rows = check_requests(requests)
        with self._lock:
            self._require_running("submit requests")
            io, initial = self._flights.submit(rows, stream)
        return Submission(io, initial)

    def submit_all(self, requests: NDArray[np.void], *, timeout_s: float | None = None) -> NDArray[np.void]:
        """Submits requests, and again what had no room, until each was accepted or refused for good; waits for all.

        Under back-pressure it waits for the oldest batch, of this call or of others, then goes on with what is left.
        Releases what it submitted. Blocks.

        Args:
            requests: an array of `request_dtype`, any number.
            timeout_s: None waits as long as the drives may take.

        Returns:
            A result for each request, in order, by `result_dtype`.

        Raises:
            RequestsInvalid: no such array.
            StorageStopped: the runtime is not running.
            StorageTimeout: time is over. What was submitted goes on, and is released when it ends; the memory stays in
                use until then.
        """
        return submit_all(self, check_requests(requests), timeout_s)

    def wait(self, io: int, timeout_s: float | None = None) -> NDArray[np.void]:
        """Waits for a submit. Returns a result for each of its requests, in their order, by `result_dtype`.

        Requests that submit refused are among them, with the status that it gave. A request that did not end well is no
        exception: look at ``status``. May be called by several threads, and again until `release`.

        Ends in bounded time, for the device gives every command `RingOptions.limit_ns`. Ctrl-C leaves the submit in
        flight: wait again, or `cancel`.

        Args:
            io: of `submit`.
            timeout_s: 0 only looks; None waits to the end.

        Returns:
            A read-only array, which stays good after `release`.

        Raises:
            HandleInvalid: no such submit, or it is released.
            StorageTimeout: it has not ended; it goes on.
            StorageStopped: the runtime has stopped.
        """
        self._require_alive("wait for a submit")
        return self._flights.wait(io, timeout_s)

    def query(self, io: int) -> IoState:
        """How a submit stands, after one look at it. Does not block.

        Raises:
            HandleInvalid: no such submit, or it is released.
            StorageStopped: the runtime has stopped.
        """
        with self._lock:
            self._require_alive("query a submit")
            found = self._flights.look(io)
            accepted = int((found.initial["status"] == Status.PENDING).sum())
            return IoState(found.results is not None, len(found.initial), accepted)

    def progress(self, limit: int | None = None) -> int:
        """Takes the results of batches that ended, oldest first; returns of how many. Does not block.

        Nobody must call it: `submit`, `wait` and `query` do. It makes room for who only submits.

        Args:
            limit: batches at most; 0 does nothing, None takes all.

        Raises:
            StorageStopped: the runtime has stopped.
        """
        with self._lock:
            self._require_alive("make progress")
            return self._flights.progress(limit)

    def release(self, io: int) -> None:
        """Forgets a submit and its results.

        Raises:
            HandleInvalid: no such submit, or it is released.
            StorageBusy: it is in flight.
            StorageStopped: the runtime has stopped.
        """
        with self._lock:
            self._require_alive("release a submit")
            self._flights.release(io)

    def abandon(self, io: int) -> None:
        """Releases a submit now if it has ended, else as soon as it does. Does not block.

        Raises:
            HandleInvalid: no such submit, or it is released.
            StorageStopped: the runtime has stopped.
        """
        with self._lock:
            self._require_alive("abandon a submit")
            self._flights.abandon(io)

    # ---- trouble, and the end ----

    def cancel(self, limits: RecoveryLimits | None = None) -> int:
        """Ends everything in flight soon. When it returns, no drive moves data of this runtime. Returns of how many.

        Requests end as they may: well, or CANCELLED, and then they may have been carried out or not. Their results are
        there afterwards. Queues that had commands are recovered, see `Ring.recover`. Blocks for that.

        Raises:
            RecoveryFailed: a drive does not come back; its memory stays registered until `shutdown`.
            StorageStopped: the runtime has stopped.
        """
        with self._lock:
            self._require_alive("cancel submits")
            return self._flights.cancel(limits)

    def recover(self, drive: str | None = None, limits: RecoveryLimits | None = None) -> tuple[QueueRecovery, ...]:
        """Makes failed drives work again, and ends commands whose end is not known: see `Ring.recover`. Blocks for it.

        After a result of TIMEOUT the drive may still move the request's data; after this it does not.

        Args:
            drive: by name; None takes all.
            limits: how long each step may take.

        Raises:
            DrivesInvalid: no drive of that name.
            StorageBusy: requests in flight use a failed queue; wait for them.
            RecoveryFailed: no step helped some queue; others go on.
            StorageStopped: the runtime has stopped.
        """
        names = [one.name for one in self.drives]
        if drive is not None and drive not in names:
            raise DrivesInvalid("recover a drive", f"no drive '{drive}'", f"The runtime has: {', '.join(names)}.")
        with self._lock:
            self._require_alive("recover drives")
            return self._flights.recover(limits, None if drive is None else names.index(drive))
