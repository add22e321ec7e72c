"""Claims both ways: what a record declares true is shown, what it declares false is refused and does nothing."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.demonstrations import OF_ARCHS, small_launch
from tutti_hal.conformance_tests.cases.l2_host.demonstrations_host import OF_VENDORS
from tutti_hal.conformance_tests.cases.l2_host.gates import launch_on
from tutti_hal.conformance_tests.cases.l2_host.raw import out
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Facts, Seen

_DEMONSTRATIONS = {**OF_ARCHS, **OF_VENDORS}

#: Every capability of the contract; a test of ours keeps it so.
CAPABILITIES = tuple(_DEMONSTRATIONS)

#: Capabilities that are a property and no operation: where one is false there is nothing that could be asked for, and
#: the clause that kernels do not rely on it is tested by the litmus cases.
PROPERTIES = (
    *("wave.sync.orders_memory", "barrier.orders_memory", "memory.device_stores_visible_to_peers"),
    *("clock.global_ns", "time.sleep", "progress.lanes_independent", "engine.simulation"),
    *("copy.direction_checked", "handle.checked", "error.recoverable"),
)

#: Capability of an arch -> a statement that must not compile without it.
_STATEMENTS = {
    "wave.ballot": "(void)tt_wave_active();",
    "atomic.system": "(void)tt_atomic_add_sys_u32(word, 1u);",
    "debug.print": 'TT_PRINT("x\\n");',
}


def _declared(axes: Any, facts: Facts) -> bool:
    return bool(facts.capabilities.get(str(axes["capability"]), False))


def _skips(axes: Any, facts: Facts) -> bool:
    return axes["capability"] not in PROPERTIES and not _declared(axes, facts)


@case(
    "claims/true_is_shown",
    level="L2",
    clauses=("record.capability.true_is_shown",),
    kernels=("probe_launch", "probe_host"),
    axes={"capability": CAPABILITIES},
    only=_declared,
)
def true_is_shown(run: Run) -> Observations:
    """A small demonstration of a capability that is declared true works."""
    return {"shown": _DEMONSTRATIONS[str(run.axes["capability"])].show(run)}


@true_is_shown.judge
def _(seen: Seen) -> None:
    one = _DEMONSTRATIONS[str(seen.axes["capability"])]
    shown = seen["shown"]
    seen.holds("record.capability.true_is_shown", one.statement, one.holds(shown, seen.facts), shown)


def _operations(run: Run, done: list[int]) -> dict[str, Callable[[], object]]:
    """The shim's own operations that need the capability, with arguments that would do where it is there."""
    from tutti_hal.shim import StreamOptions

    device, capability = run.device, str(run.axes["capability"])
    match capability:
        case "memory.pinned" | "memory.mapped" | "memory.managed":
            return {"allocate": lambda: device.allocate(64, capability.removeprefix("memory.")).close()}
        case "memory.register" | "memory.register_mmio":
            pages = mmap.mmap(-1, 4096)
            run.closing.callback(pages.close)
            return {"register": lambda: device.register(pages, mmio=capability.endswith("mmio")).close()}
        case "stream.priority":
            return {"create a stream": lambda: device.create_stream(StreamOptions(priority=0)).close()}
        case "stream.host_function":
            return {"enqueue": lambda: run.stream.call(lambda: done.append(1))}
        case "launch.cooperative" | "launch.bounded":
            kernel, word = run.kernel("probe_launch", "launch_small"), run.buffer(4, "device")
            options: dict[str, Any] = (
                {"cooperative": True} if capability == "launch.cooperative" else {"limit_ns": 10**9}
            )
            return {"launch": lambda: launch_on(run.stream, kernel, 2, 16, word, **options)}
        case "launch.occupancy":
            kernel = run.kernel("probe_launch", "launch_small")
            return {"ask": lambda: done.append(kernel.resident_blocks(32))}
        case "module.introspection":
            return {"list": lambda: done.extend(len(name) for name in run.subject.module("probe_launch"))}
        case "module.kernel_resources":
            handle = run.kernel("probe_launch", "launch_storage").handle
            return {"ask": lambda: device.call("FuncGetAttribute", out(device, "int *"), _registers(run), handle)}
        case "ipc.memory":
            return {"event": lambda: device.call("EventCreateWithFlags", out(device, "Event *"), _interprocess(run))}
    return {}


def _registers(run: Run) -> int:
    return run.device.runtime.constant("FuncAttribute", "NumRegs")


def _interprocess(run: Run) -> int:
    return sum(run.device.runtime.constant("EventFlags", name) for name in ("Interprocess", "DisableTiming"))


def _absent(run: Run) -> list[str]:
    """The contract's functions of the capability that the vendor does not have."""
    from tutti_hal.spec import load_spec

    functions, runtime = load_spec().host_functions.values(), run.device.runtime
    return [one.name for one in functions if one.capability == run.axes["capability"] and not runtime.has(one.name)]


def _compiles(run: Run, statement: str) -> bool:
    """Whether a kernel with one more statement compiles for the arch."""
    from tutti_hal.errors import BuildError, GenerationError
    from tutti_hal.paths import templates_dir
    from tutti_hal.toolchain import build

    root = run.subject.templates or templates_dir()
    copy = run.scratch / f"templates{len(statement)}"
    for folder in ("layers", "structs"):
        shutil.copytree(Path(root, folder), copy / folder)
    (copy / "kernels").mkdir()
    (copy / "kernels" / "claim_use.cu.j2").write_text(
        "{# SPDX-License-Identifier: GPL-2.0-only -#}\n"
        '{% call kernel("claim_use", [("word", "tt_word32 *")], max_threads=32) %}\n'
        f"{statement}\ntt_store_relaxed_dev_u32(word, 1u);\n{{% endcall %}}\n"
    )
    try:
        build(run.profile, "claim_use", templates=copy)
    except (BuildError, GenerationError):
        return False
    return True


@case(
    "claims/false_is_refused",
    level="L2",
    clauses=("record.capability.false_is_refused",),
    kernels=("probe_launch", "probe_host"),
    axes={"capability": CAPABILITIES},
    only=_skips,
    budget_s=30.0,
    calls=("EventCreateWithFlags:NotSupported", "FuncGetAttribute:NotSupported"),
)
def false_is_refused(run: Run) -> Observations:
    """What needs a capability that is declared false is a typed refusal, and leaves the device as it was."""
    capability = str(run.axes["capability"])
    if capability in _STATEMENTS:
        return {"plain": _compiles(run, ""), "used": _compiles(run, _STATEMENTS[capability])}
    device = run.device
    done: list[int] = []
    operations = _operations(run, done)
    run.stream.synchronize()
    free, calls = device.memory_info().free, device.host_calls.copy()
    refused = {f"call {name}": refusal(lambda n=name: device.call(n)) for name in _absent(run)}  # type: ignore[misc]
    refused |= {what: refusal(operation) for what, operation in operations.items()}
    refused["require"] = refusal(lambda: device.runtime.require(capability, "find out"))
    called = sorted((device.host_calls.copy() - calls).keys())
    run.stream.synchronize()
    return {
        "refused": refused,
        "done": done,
        "called": called,
        "free_bytes": free - device.memory_info().free,
        "works": small_launch(run),
    }


#: What may be asked of the vendor on the way to a refusal: nothing of these changes anything when it is refused.
_HARMLESS = (
    *("GetDevice", "SetDevice", "FuncGetAttribute", "EventCreateWithFlags"),
    *("GetErrorString", "GetLastError", "GetLastErrorDetail", "DeviceGetLaunchReport"),
)


@false_is_refused.judge
def _(seen: Seen) -> None:
    clause, capability = "record.capability.false_is_refused", str(seen.axes["capability"])
    if capability in _STATEMENTS:
        seen.equal(clause, "a kernel without the primitive compiles", seen["plain"], True)
        seen.equal(clause, "a kernel with the primitive compiles", seen["used"], False)
        return
    for what, found in seen["refused"].items():
        named = found.get("capability") == capability or found.get("canonical") == "NotSupported"
        typed = found["refused"] and found.get("error") == "NotSupported" and named
        seen.holds(clause, f"the refusal is typed and names the capability: {what}", typed, found)
    seen.equal(clause, "what was done all the same", seen["done"], [])
    other = [name for name in seen["called"] if name not in _HARMLESS]
    seen.equal(clause, "functions of the vendor that were called", other, [])
    seen.equal(clause, "device memory that is gone", seen["free_bytes"], 0)
    seen.equal(clause, "threads of a launch afterwards", seen["works"], 32)
