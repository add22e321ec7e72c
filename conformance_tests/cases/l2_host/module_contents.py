"""What a module tells of its kernels: their names, their parameters, what they need of the device."""

from __future__ import annotations

import itertools
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import said
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: The kernels of probe_launch, as its template declares them: name and bytes of each parameter.
DECLARED: dict[str, list[tuple[str, int]]] = {
    "launch_cells": [("cells", 8), ("rows", 8), ("total", 8)],
    "launch_arguments": [
        *[("a", 1), ("b", 8), ("c", 2), ("d", 4), ("e", 1), ("f", 4), ("g", 8), ("h", 1), ("i", 8), ("j", 2)],
        *[("words", 8), ("k", 1), ("single", 8), ("twice", 8), ("l", 4)],
    ],
    "launch_append": [("log", 8), ("value", 4), ("ns", 8)],
    "launch_meet": [("mine", 8), ("theirs", 8), ("met", 8), ("patience_ns", 8)],
    "launch_gather": [("count", 8), ("met", 8), ("patience_ns", 8)],
    "launch_rotate": [("from", 8), ("to", 8), ("count", 4), ("add", 4)],
    "launch_small": [("word", 8)],
    "launch_storage": [("word", 8)],
    "launch_clock": [("row", 8), ("ns", 8)],
    "claim_ballot": [("masks", 8)],
    "claim_system_atomic": [("sum", 8)],
    "claim_wave_order": [("words", 8), ("wrong", 8), ("rounds", 4)],
    "claim_block_order": [("words", 8), ("wrong", 8), ("rounds", 4)],
    "claim_lanes": [("flag", 8), ("seen", 8), ("patience_ns", 8)],
    "claim_clock": [("turn", 8), ("times", 8), ("patience_ns", 8)],
    "claim_sleep": [("row", 8), ("ns", 4)],
    "claim_print": [("number", 4)],
    "claim_store": [("word", 8), ("told", 8), ("end", 8), ("patience_ns", 8)],
}


@case(
    "host/module.parameters",
    level="L2",
    clauses=("host.module.parameters",),
    kernels=("probe_launch",),
    needs=("module.load", "module.introspection"),
    calls=(
        *("ModuleGetFunctionCount", "ModuleGetFunctionCount:InvalidResourceHandle"),
        *("ModuleEnumerateFunctions", "ModuleEnumerateFunctions:InvalidResourceHandle"),
        *("FuncGetName", "FuncGetName:InvalidResourceHandle"),
        *("FuncGetParamInfo", "FuncGetParamInfo:InvalidValue", "FuncGetParamInfo:InvalidResourceHandle"),
    ),
)
def parameters(run: Run) -> Observations:
    """A module lists the kernels of its template, and each kernel the sizes of its parameters, in order and apart."""
    device, ffi = run.device, run.device.runtime.ffi
    module = run.subject.module("probe_launch")
    offset, size = ffi.new("size_t *"), ffi.new("size_t *")
    found: dict[str, list[list[int]]] = {}
    ends = []
    with device.current():
        for name in module:
            rows: list[list[int]] = []
            while len(rows) < 64:
                code = said(run, "FuncGetParamInfo", module[name].handle, len(rows), offset, size)
                if code != "Success":
                    break
                rows.append([int(offset[0]), int(size[0])])
            found[name] = rows
            ends.append(code)
        handles = ffi.new("Function[]", [ffi.NULL] * 3)
        device.call("ModuleEnumerateFunctions", handles, 2, module.handle)
        null, count, text = ffi.NULL, ffi.new("unsigned int *"), ffi.new("const char **")
        none = [
            said(run, "ModuleGetFunctionCount", count, null),
            said(run, "ModuleEnumerateFunctions", handles + 2, 1, null),
            said(run, "FuncGetName", text, null),
            said(run, "FuncGetParamInfo", null, 0, offset, size),
        ]
        filled = [handle != null for handle in handles]
    return {"found": found, "ends": ends, "filled": filled, "none": none}


@parameters.judge
def _(seen: Seen) -> None:
    clause, found = "host.module.parameters", seen["found"]
    seen.equal(clause, "the kernels that are listed", sorted(found), sorted(DECLARED))
    for name, declared in DECLARED.items():
        rows = found.get(name, [])
        seen.equal(clause, f"the sizes of {name}'s parameters", [row[1] for row in rows], [n for _, n in declared])
        apart = all(a[0] + a[1] <= b[0] for a, b in itertools.pairwise(rows))
        seen.holds(clause, f"the parameters of {name} lie in order and apart", apart, rows, max(len(rows), 1))
    seen.equal(clause, "what is said past the last parameter", set(seen["ends"]), {"InvalidValue"})
    seen.equal(clause, "places filled of three, with room for two", seen["filled"], [True, True, False])
    refused = [one in ("InvalidResourceHandle", "InvalidValue") for one in seen["none"]]
    seen.holds(clause, "no module and no kernel tell anything", refused == [True] * 4, seen["none"])


@case(
    "host/module.parameter_names",
    level="L2",
    clauses=("host.module.parameters",),
    kernels=("probe_launch",),
    needs=("module.load", "module.introspection", "module.parameter_names"),
    calls=("FuncGetParamName", "FuncGetParamName:InvalidValue", "FuncGetParamName:InvalidResourceHandle"),
)
def parameter_names(run: Run) -> Observations:
    """Each parameter is told under the name that the template gave it."""
    device, ffi = run.device, run.device.runtime.ffi
    module, text = run.subject.module("probe_launch"), run.device.runtime.ffi.new("const char **")
    found: dict[str, list[str]] = {}
    for name in module:
        told: Any = module[name].parameters
        found[name] = [parameter.name for parameter in told]
    kernel = module["launch_small"]
    with device.current():
        past = said(run, "FuncGetParamName", kernel.handle, 1, text)
        none = said(run, "FuncGetParamName", ffi.NULL, 0, text)
    return {"found": found, "past": past, "none": none}


@parameter_names.judge
def _(seen: Seen) -> None:
    clause = "host.module.parameters"
    for name, declared in DECLARED.items():
        wanted = [parameter for parameter, _ in declared]
        seen.equal(clause, f"the names of {name}'s parameters", seen["found"].get(name), wanted)
    seen.equal(clause, "the name past the last parameter", seen["past"], "InvalidValue")
    seen.equal(clause, "a name of no kernel", seen["none"], "InvalidResourceHandle")


@case(
    "host/module.resources",
    level="L2",
    clauses=("host.module.resources",),
    kernels=("probe_launch",),
    needs=("module.load", "module.kernel_resources"),
    calls=("FuncGetAttribute",),
)
def resources(run: Run) -> Observations:
    """Registers, shared and local bytes of each kernel are those that its compiler reported."""
    run.wants_silicon("the kernels must use registers of the device")
    from tutti_hal.toolchain import build

    runtime, value = run.device.runtime, run.device.runtime.ffi.new("int *")
    attributes = {"registers": "NumRegs", "shared_bytes": "SharedSizeBytes", "local_bytes": "LocalSizeBytes"}
    compiled: dict[str, dict[str, Any]] = {}
    told: dict[str, dict[str, int]] = {}
    for one in build(run.profile, "probe_launch", templates=run.subject.templates).resources:
        kernel = run.kernel("probe_launch", one.kernel)
        compiled[one.kernel] = {name: getattr(one, name) for name in attributes}
        told[one.kernel] = {}
        for name, attribute in attributes.items():
            run.device.call("FuncGetAttribute", value, runtime.constant("FuncAttribute", attribute), kernel.handle)
            told[one.kernel][name] = int(value[0])
    return {"compiled": compiled, "told": told}


@resources.judge
def _(seen: Seen) -> None:
    clause = "host.module.resources"
    seen.equal(clause, "the kernels of the compilation", sorted(seen["compiled"]), sorted(DECLARED))
    for name, compiled in seen["compiled"].items():
        seen.equal(clause, f"the resources of {name}", seen["told"][name], compiled)
    stored = seen["told"]["launch_storage"]["shared_bytes"]
    seen.holds(clause, "three hundred words of per-block storage are counted", stored >= 1200, stored)
