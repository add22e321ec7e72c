"""Submitting under back-pressure: what had no room is submitted again, and nothing is lost on the way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tutti_hal.errors import StorageTimeout
from tutti_hal.storage.records import result_dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.storage.runtime import StorageRuntime

_PAUSE_S = 0.000_2


def submit_all(runtime: StorageRuntime, requests: NDArray[np.void], timeout_s: float | None) -> NDArray[np.void]:
    """See `StorageRuntime.submit_all`."""
    import numpy as np

    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    results = np.zeros(len(requests), result_dtype())
    left = np.arange(len(requests))
    flying: list[tuple[int, NDArray[np.int64], NDArray[np.bool_]]] = []

    def take_oldest() -> None:
        io, which, accepted = flying[0]
        found = runtime.wait(io, _left(deadline))
        del flying[0]
        runtime.release(io)
        results[which[accepted]] = found[accepted]

    try:
        while len(left):
            said = runtime.submit(requests[left])
            again = said.again
            refused = ~said.accepted & ~again
            results["status"][left[refused]] = said.initial["status"][refused]
            results["reason"][left[refused]] = said.initial["reason"][refused]
            results["tag"][left[refused]] = requests["tag"][left[refused]]
            if said.io is not None:
                flying.append((said.io, left, said.accepted))
            left = left[again]
            if said.io is None and len(left):
                if flying:
                    take_oldest()
                else:
                    # Others have all the room; when they end, theirs is ours.
                    if deadline is not None and time.monotonic() >= deadline:
                        raise StorageTimeout(
                            "submit requests", f"{len(left)} found no room within {timeout_s} s", "Submit them again."
                        )
                    time.sleep(_PAUSE_S)
                    runtime.progress()
        while flying:
            take_oldest()
    finally:
        for io, _, _ in flying:
            runtime.abandon(io)
    return results


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
