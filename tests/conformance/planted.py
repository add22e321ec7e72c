"""Cases of every kind of badness, for the tests of the runner. Loaded by path, as a vendor's own cases are."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Case, Observations, Per, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.verdict import SkipReason

CLAUSE = "prim.crc.check_value"
BUDGET_S = 0.7

#: Folder in which a case leaves what outlives its process.
STATE = Path(os.environ.get("TUTTI_PLANTED", "/nonexistent"))


def _judge(seen: Seen) -> None:
    seen.equal(CLAUSE, "the value", seen["value"], 1)


def plant(name: str, judge: Callable[[Seen], None] = _judge, **options: Any) -> Callable[[Any], Case]:
    """A case about the vendor as a whole, unless it says otherwise, that claims one clause."""
    declare = case(f"plant/{name}", level="L3", clauses=(CLAUSE,), **{"per": Per.VENDOR, "budget_s": 10.0, **options})

    def make(observe: Any) -> Case:
        made = declare(observe)
        made.judge(judge)
        return made

    return make


@plant("passes", axes={"n": tuple(range(4))})
def passes(run: Run) -> Observations:
    """It passes, and says in which process."""
    return {"value": 1, "pid": os.getpid()}


@plant("fails")
def fails(run: Run) -> Observations:
    """It fails."""
    return {"value": 2}


@plant("flaky", axes={"key": ("a", "b")})
def flaky(run: Run) -> Observations:
    """It fails once."""
    been = STATE / f"flaky-{run.axes['key']}"
    first = not been.exists()
    been.touch()
    return {"value": 2 if first else 1}


@plant("spoils")
def spoils(run: Run) -> Observations:
    """It passes, and leaves its process spoiled."""
    os.environ["TUTTI_SPOILED"] = "1"
    return {"value": 1}


@plant("spoiled")
def spoiled(run: Run) -> Observations:
    """It fails in a spoiled process."""
    return {"value": 2 if "TUTTI_SPOILED" in os.environ else 1}


@plant("hangs_in_python", budget_s=BUDGET_S)
def hangs_in_python(run: Run) -> Observations:
    """It hangs between statements."""
    while True:
        time.sleep(0.01)


@plant("hangs_in_native", budget_s=BUDGET_S)
def hangs_in_native(run: Run) -> Observations:
    """It hangs in a call that holds the interpreter's lock."""
    ctypes.PyDLL(None).sleep(1000)
    return {"value": 1}


@plant("hangs_deaf", budget_s=BUDGET_S)
def hangs_deaf(run: Run) -> Observations:
    """It hangs with every signal blocked, beside a child of its own."""
    child = os.fork()
    if not child:
        time.sleep(1000)
    (STATE / "child").write_text(str(child), encoding="ascii")
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(1000)
    return {"value": 1}


@plant("hangs_in_kernel", budget_s=2.0, per=Per.ARCH, kernels=("probe_host",))
def hangs_in_kernel(run: Run) -> Observations:
    """Its kernel waits for a word that nobody writes."""
    words = run.buffer(12)
    at = words.address
    run.launch(run.kernel("probe_host", "host_await"), 1, 1, at, at + 4, at + 8, 0, 10**14)
    return {"value": 1}


@plant("leaves_a_thread")
def leaves_a_thread(run: Run) -> Observations:
    """It leaves a thread that keeps the process from ending."""
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return {"value": 1}


@plant("segfaults")
def segfaults(run: Run) -> Observations:
    """It dies of a signal."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return {"value": 1}


@plant("leaves")
def leaves(run: Run) -> Observations:
    """It ends its process, with a child that holds everything open."""
    if not os.fork():
        time.sleep(1000)
    os._exit(7)


@plant("dies_afterwards")
def dies_afterwards(run: Run) -> Observations:
    """It is fine; its process dies a moment later."""
    threading.Timer(0.05, os._exit, (9,)).start()
    return {"value": 1}


@plant("slow")
def slow(run: Run) -> Observations:
    """It takes its time, and says where it is."""
    (STATE / "slow").write_text(str(os.getpid()), encoding="ascii")
    time.sleep(3)
    return {"value": 1}


@plant("waits", budget_s=100.0)
def waits(run: Run) -> Observations:
    """It waits deaf, beside a child."""
    child = os.fork()
    if not child:
        time.sleep(100)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    (STATE / "waits").write_text(f"{os.getpid()} {child} .", encoding="ascii")
    time.sleep(100)
    return {"value": 1}


@plant("lies")
def lies(run: Run) -> Observations:
    """It returns something else than its judge looks at."""
    return {"values": [1]}


@plant("returns_rubbish", axes={"n": (0, 1, 2)})
def returns_rubbish(run: Run) -> Observations:
    """It returns what no package can keep."""
    return ({"value": object()}, 5, {"value": float})[int(run.axes["n"])]  # type: ignore[return-value]


@plant("vacuous", judge=lambda seen: None)
def vacuous(run: Run) -> Observations:
    """Its judge looks at nothing."""
    return {"value": 1}


@plant("raises")
def raises(run: Run) -> Observations:
    """It has a fault of its own."""
    raise ZeroDivisionError("planted")


@plant("exits")
def exits(run: Run) -> Observations:
    """It takes itself for a program."""
    sys.exit(3)


@plant("skips")
def skips(run: Run) -> Observations:
    """It skips itself for what the machine lacks."""
    run.skip(SkipReason.MACHINE, "a second moon is not installed")


@plant("chatters", axes={"where": ("python", "native", "sanitizer", "late", "foreseen")})
def chatters(run: Run) -> Observations:
    """It writes to where nothing should be written."""
    match run.axes["where"]:
        case "python":
            print("chatter of Python")
        case "native":
            ctypes.CDLL(None).puts(b"chatter of C")
        case "sanitizer":
            os.write(2, b"==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\n")
        case "late":
            threading.Timer(0.05, os.write, (2, b"chatter of a thread\n")).start()
        case _:
            run.foresee("^chatter that was announced$")
            print("chatter that was announced")
    return {"value": 1}


@plant("traps", per=Per.ARCH, kernels=("probe_host",))
def traps(run: Run) -> Observations:
    """Its kernel fails, and it leaves the device so."""
    from tutti_hal.errors import LaunchFailed

    word = run.buffer(4)
    with contextlib.suppress(LaunchFailed):
        run.launch(run.kernel("probe_host", "host_trap"), 1, 1, word)
    run.closing.pop_all()  # nothing can be freed on a failed device
    return {"value": 1}


@plant("loses_the_device", per=Per.ARCH, kernels=("probe_host",))
def loses_the_device(run: Run) -> Observations:
    """Its kernel fails, and the device refuses its reset."""
    from tutti_hal.errors import LaunchFailed

    def refuse(*_: object) -> None:
        raise LaunchFailed("reset the device", "it does not answer", "Replace it.")

    type(run.device).reset = refuse  # type: ignore[method-assign,assignment]
    return traps.observe(run)


@plant("uses_the_device", per=Per.ARCH, kernels=("probe_host",))
def uses_the_device(run: Run) -> Observations:
    """It adds one on the device."""
    import numpy as np

    word = run.buffer(4)
    run.launch(run.kernel("probe_host", "host_tally"), 1, 1, word)
    return {"value": int(run.read(word, np.uint32)[0]), "pid": os.getpid()}


@plant("needs_ballot", per=Per.ARCH, needs=("wave.ballot",))
def needs_ballot(run: Run) -> Observations:
    """It needs what some archs lack."""
    return {"value": 1}


@plant("does_not_compile", kernels=("no_such_kernels",), per=Per.ARCH)
def does_not_compile(run: Run) -> Observations:
    """Its kernels do not exist."""
    return {"value": 1}
