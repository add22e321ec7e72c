"""How requests end: one completion for each, from the statuses of its commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.io_uring.layout import STATE_SHIFT, State, Why

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def completion_dtype() -> np.dtype[Any]:
    """The record of one request's end, as ``Ring.wait_cqe`` returns them.

    ``state`` is a `State`; ``why`` a `Why` when it is NOT_RUN; ``sct``, ``sc``, ``crd``, ``more``, ``dnr`` the status
    of the drive when it is COMPLETED; times are in nanoseconds of the device's clock; ``queue`` is the ring's number
    of the queue; ``commands`` tells into how many the request was split.
    """
    import numpy as np

    return np.dtype(
        [
            ("state", "u1"),
            ("sct", "u1"),
            ("sc", "u1"),
            ("crd", "u1"),
            ("more", "?"),
            ("dnr", "?"),
            ("why", "<u2"),
            ("result", "<u4"),
            ("queue", "<u4"),
            ("commands", "<u4"),
            ("submitted_ns", "<u8"),
            ("completed_ns", "<u8"),
        ]
    )


def succeeded(completions: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which requests were completed by the drive without an error."""
    good: NDArray[np.bool_] = (
        (completions["state"] == State.COMPLETED) & (completions["sct"] == 0) & (completions["sc"] == 0)
    )
    return good


def ended(completions: NDArray[np.void]) -> str:
    """How many ended in which way: ``4096 completed, 12 not run (starved), 1 failed (sct 2 sc 129)``."""
    from collections import Counter

    words: Counter[str] = Counter()
    for state, why, sct, sc in completions[["state", "why", "sct", "sc"]].tolist():
        word = State(state).name.lower().replace("_", " ")
        if state == State.NOT_RUN:
            word += f" ({Why(why).name.lower().replace('_', ' ')})"
        elif state == State.COMPLETED and (sct or sc):
            word = f"failed (sct {sct} sc {sc})"
        words[word] += 1
    return ", ".join(f"{count} {word}" for word, count in words.most_common())


def merge(owners: NDArray[np.uint32], count: int, results: NDArray[np.void]) -> NDArray[np.void]:
    """One completion for each of ``count`` requests, from one ``ring_status`` for each command.

    ``owners`` is the request of each command. A request of several commands is as bad as its worst: one that was not
    completed, before one that failed, before one that succeeded. ``submitted_ns`` is its first command's,
    ``completed_ns`` its last one's.
    """
    import numpy as np

    codes = results["code"]
    states = (codes >> STATE_SHIFT).astype(np.uint8)
    fields = np.where(states == State.COMPLETED, codes & 0x7FFF, 0).astype(np.uint16)
    # DNR, M and CRD say what to do about a failure; they do not make one.
    failed = (fields & 0x7FF) != 0
    badness = np.where(states != State.COMPLETED, 2, failed.astype(np.uint8))
    # Last wins below: the worst command of each request, and of equals the first.
    order = np.lexsort((-np.arange(len(owners)), badness))
    worst = np.zeros(count, np.int64)
    worst[owners[order]] = order
    done = np.zeros(count, completion_dtype())
    done["state"] = states[worst]
    done["why"] = np.where(states[worst] == State.NOT_RUN, codes[worst] & 0xFFFF, 0)
    field = fields[worst]
    done["sc"] = field & 0xFF
    done["sct"] = (field >> 8) & 7
    done["crd"] = (field >> 11) & 3
    done["more"] = (field >> 13) & 1
    done["dnr"] = (field >> 14) & 1
    done["result"] = results["result"][worst]
    done["queue"] = results["queue"][worst]
    done["commands"] = np.bincount(owners, minlength=count)
    first = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(first, owners, results["submitted_ns"])
    last = np.zeros(count, np.uint64)
    np.maximum.at(last, owners, results["completed_ns"])
    done["submitted_ns"], done["completed_ns"] = first, last
    return done
