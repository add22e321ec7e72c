"""Processes: what another one is told, and what the child of a fork is not given.

Both run once: a process is nothing of an arch, and starting one is dear.
"""

from __future__ import annotations

import json
import os
from typing import Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l2_host.apart import apart
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, device_count, out, pointer
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.subject import Subject


def first_look(subject: Subject, _: Any) -> dict[str, Any]:
    """In a fresh process: what the runtime says before anything was done with it."""
    device = subject.device
    version = out(device, "int *")
    device.call("RuntimeGetVersion", version)
    report: Any = None
    if subject.facts.capabilities["launch.bounded"]:
        report = ask(device, "DeviceGetLaunchReport", device.vendor_ordinal, out(device, "LaunchReport *"))
    return {"version": int(version[0]), "count": device_count(device), "report": report}


@case(
    "host/process.fresh",
    level="L2",
    clauses=("host.device.version", "host.device.count", "host.error.typed"),
    calls=("RuntimeGetVersion", "GetDeviceCount", "DeviceGetLaunchReport:NotReady"),
    per=Per.VENDOR,
    quick=False,
    budget_s=20.0,
)
def fresh(run: Run) -> Observations:
    """Another process is told the same version and count, and its runtime has no launch to report."""
    device = run.device
    version = out(device, "int *")
    versions = []
    for _ in range(2):
        device.call("RuntimeGetVersion", version)
        versions.append(int(version[0]))
    there = apart(run, f"{__name__}:first_look")
    return {"versions": versions, "count": device_count(device), "there": there}


@fresh.judge
def _(seen: Seen) -> None:
    there = seen["there"]["answer"]
    seen.equal("host.device.count", "exit code of the other process", seen["there"]["code"], 0)
    if there is None:
        return
    versions = [*seen["versions"], there["version"]]
    seen.holds("host.device.version", "the version is above zero", versions[0] > 0, versions)
    seen.equal("host.device.version", "the version: here, again, and elsewhere", versions, [versions[0]] * 3)
    seen.equal("host.device.count", "the device count elsewhere", there["count"], seen["count"])
    if seen.facts.capabilities["launch.bounded"]:
        clause = "host.error.typed"
        seen.refused(clause, "a report before any launch", there["report"], "RuntimeFailure", "NotReady")
    else:
        seen.equal("host.error.typed", "a report where none is kept", there["report"], None)


def fork_beside(subject: Subject, _: Any) -> dict[str, Any]:
    """In a process of its own: use the device, fork, let the child try, and go on."""
    import numpy as np

    device = subject.device
    before = np.arange(256, dtype=np.uint32)
    found = [np.zeros(256, np.uint32) for _ in range(2)]
    with device.create_stream() as stream, device.allocate(1024) as memory:
        stream.copy(memory, before)
        stream.copy(found[0], memory)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            tries = {
                "allocate": refusal(lambda: device.allocate(64)),
                "synchronize": refusal(stream.synchronize),
                "copy": refusal(lambda: stream.copy(memory, bytes(1024))),
                "free": ask_free(device, memory.address),
            }
            os.write(writing, json.dumps(tries).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            tries = json.loads(pipe.read() or "{}")
        _, status = os.waitpid(child, 0)
        stream.copy(found[1], memory)
        stream.fill(memory, 7)
        stream.synchronize()
        free = device.memory_info().free
    given_back = device.memory_info().free > free
    return {"tries": tries, "status": status, "found": [one.tolist() for one in found], "given_back": given_back}


def ask_free(device: Any, address: int) -> dict[str, Any]:
    """Free without asking which device is current, for that is refused too."""
    return refusal(lambda: device.call("Free", pointer(device, address)))


@case("host/process.fork", level="L2", clauses=("host.fork.child_refused",), per=Per.VENDOR, quick=False, budget_s=20.0)
def fork(run: Run) -> Observations:
    """A child of fork is refused whatever it asks of the device, at once, and its parent works on undisturbed."""
    return {"there": apart(run, f"{__name__}:fork_beside")}


@fork.judge
def _(seen: Seen) -> None:
    clause, there = "host.fork.child_refused", seen["there"]
    seen.holds(clause, "the parent ended well", there["code"] == 0 and there["answer"] is not None, there)
    if there["answer"] is None:
        return
    answer = there["answer"]
    seen.equal(clause, "how the child ended", answer["status"], 0)
    seen.equal(clause, "what the child tried", sorted(answer["tries"]), ["allocate", "copy", "free", "synchronize"])
    for name, one in answer["tries"].items():
        seen.refused(clause, f"the child's {name}", one, "RuntimeFailure", "InitializationError")
    for when, found in zip(("before", "after"), answer["found"], strict=True):
        seen.equal(clause, f"the parent's memory {when} the fork", found, list(range(256)))
    seen.equal(clause, "whether the parent's memory is given back", answer["given_back"], True)
