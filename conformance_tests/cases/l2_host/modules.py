"""Modules: what is loaded, what is refused, and what they tell of their kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import launch_on, peek, said
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.verdict import SkipReason

if TYPE_CHECKING:
    from tutti_hal.shim import Module

#: Room behind an image in memory, for who looks past its end to find out how long it is.
_SLACK = 65536


def _load_data(run: Run, image: bytes) -> Module:
    """A module of the case's own from an image in memory, which is overwritten once it is loaded."""
    from tutti_hal.shim import Module

    ffi, handle = run.device.runtime.ffi, run.device.runtime.ffi.new("Module *")
    room = ffi.new("unsigned char[]", image + bytes(_SLACK))
    with run.device.current():
        run.device.call("ModuleLoadData", handle, room)
    ffi.memmove(room, bytes(len(room)), len(room))
    return run.closing.enter_context(
        Module(run.device, handle[0], Path("memory"), run.subject.built("probe_launch").declared)
    )


@case(
    "host/module.load",
    level="L2",
    clauses=("host.module.load",),
    kernels=("probe_launch",),
    needs=("module.load",),
    axes={"source": ("file", "memory")},
    calls=("ModuleLoad", "ModuleLoadData", "ModuleGetFunction"),
)
def load(run: Run) -> Observations:
    """A module from a file, or from memory that is overwritten afterwards, gives its kernels, each doing its own."""
    path = run.subject.compile("probe_launch")
    if run.axes["source"] == "file":
        module = run.closing.enter_context(run.subject.load("probe_launch"))
    else:
        module = _load_data(run, path.read_bytes())
    small, log = run.buffer(4, "device"), run.buffer(16, "device")
    run.launch(module["launch_small"], 3, 32, small)
    run.launch(module["launch_append"], 1, 1, log, 12, 0)
    return {"small": run.read(small, np.uint32), "log": run.read(log, np.uint32)}


@load.judge
def _(seen: Seen) -> None:
    clause = "host.module.load"
    seen.equal(clause, "threads that the one kernel counted", seen["small"], np.array([96], np.uint32))
    seen.equal(clause, "the log that the other kernel wrote", seen["log"], np.array([1, 12, 0, 0], np.uint32))


#: Name of the axis value -> the canonical error of the contract.
_BAD = {
    "missing": "FileNotFound",
    "empty": "InvalidKernelImage",
    "text": "InvalidKernelImage",
    "magic": "InvalidKernelImage",
    "truncated": "InvalidKernelImage",
    "foreign": "InvalidKernelImage",
    "other_arch": "NoKernelImageForDevice",
}
#: What can be seen of an image without knowing where it ends.
_IN_MEMORY = ("text", "magic", "foreign", "other_arch")


def _bad_image(run: Run, kind: str) -> bytes:
    whole = run.subject.compile("probe_launch").read_bytes()
    if kind == "other_arch":
        return _of_another_arch(run)
    if kind == "foreign":
        import sys

        return Path(sys.executable).resolve().read_bytes()  # an object of the host's, with nothing for a device in it
    return {
        "empty": b"",
        "text": b"This is a text and no module.\n" * 200,
        "magic": bytes(4) + whole[4:],
        "truncated": whole[: len(whole) // 2],
    }[kind]


def _of_another_arch(run: Run) -> bytes:
    """The last declared arch is the newest: what is built for it runs on no older one, and the first not on it."""
    from tutti_hal.errors import CompilerMissing
    from tutti_hal.toolchain import build

    profile = run.profile
    archs = list(profile.record.archs)
    other = archs[-1] if profile.arch != archs[-1] else archs[0]
    if other == profile.arch:
        run.skip(SkipReason.MACHINE, f"{profile.vendor} declares one arch, and there is no module of another")
    try:
        built = build(profile, "saxpy", arch=other)
    except CompilerMissing as error:
        run.skip(SkipReason.TOOL, f"nothing is built for {other}: {error.found}")
    return built.path.read_bytes()


@case(
    "host/module.bad_image_refused",
    level="L2",
    clauses=("host.module.bad_image_refused",),
    kernels=("probe_launch",),
    needs=("module.load",),
    axes={"image": tuple(_BAD), "source": ("file", "memory")},
    only=lambda axes, _: axes["source"] == "file" or axes["image"] in _IN_MEMORY,
    calls=(
        *("ModuleLoad:FileNotFound", "ModuleLoad:InvalidKernelImage", "ModuleLoad:NoKernelImageForDevice"),
        *("ModuleLoadData:InvalidKernelImage", "ModuleLoadData:NoKernelImageForDevice"),
    ),
)
def bad_image_refused(run: Run) -> Observations:
    """What is no module of this arch is refused, each in its own way, and a sound module then loads."""
    kind = str(run.axes["image"])
    if run.axes["source"] == "memory":
        image = _bad_image(run, kind)
        found = refusal(lambda: _load_data(run, image))
    else:
        path = run.scratch / "module"
        if kind != "missing":
            path.write_bytes(_bad_image(run, kind))
        found = refusal(lambda: run.closing.enter_context(run.device.load_module(path)))
    word = run.buffer(4, "device")
    with run.subject.load("probe_launch") as sound:
        run.launch(sound["launch_small"], 1, 8, word)
    return {"found": found, "after": run.read(word, np.uint32)}


@bad_image_refused.judge
def _(seen: Seen) -> None:
    clause, kind = "host.module.bad_image_refused", str(seen.axes["image"])
    seen.refused(clause, f"the module: {kind}", seen["found"], "ModuleInvalid", _BAD[kind])
    seen.equal(clause, "threads of a sound module afterwards", seen["after"], np.array([8], np.uint32))


@case(
    "host/module.unknown_kernel_refused",
    level="L2",
    clauses=("host.module.unknown_kernel_refused",),
    kernels=("probe_launch",),
    needs=("module.load",),
    calls=("ModuleGetFunction:SymbolNotFound", "ModuleGetFunction:InvalidResourceHandle"),
)
def unknown_kernel_refused(run: Run) -> Observations:
    """Names that are nearly a kernel's, and one that nothing has, are refused as not found."""
    module = run.subject.module("probe_launch")
    names = ("launch_smal", "launch_small2", "Launch_small", "small", "no_such_kernel", "x" * 5000)
    found = {name[:20]: refusal(lambda name=name: module[name]) for name in names}  # type: ignore[misc]
    ffi = run.device.runtime.ffi
    none = said(run, "ModuleGetFunction", ffi.new("Function *"), ffi.NULL, ffi.new("char[]", b"launch_small"))
    return {"found": found, "known": module["launch_small"].name, "none": none}


@unknown_kernel_refused.judge
def _(seen: Seen) -> None:
    clause = "host.module.unknown_kernel_refused"
    for name, found in seen["found"].items():
        seen.refused(clause, f"the kernel {name}", found, "ModuleInvalid", "SymbolNotFound")
    seen.equal(clause, "the kernel that is there", seen["known"], "launch_small")
    seen.equal(clause, "a kernel of no module", seen["none"], "InvalidResourceHandle")


@case(
    "host/module.unload",
    level="L2",
    clauses=("host.module.unload",),
    kernels=("probe_host",),
    needs=("module.load", "memory.mapped"),
    calls=("ModuleUnload", "ModuleUnload:InvalidResourceHandle"),
)
def unload(run: Run) -> Observations:
    """A module is unloaded under a slow kernel that is enqueued: it ends, and the module's kernels are refused."""
    words = run.buffer(8)
    module = run.closing.enter_context(run.subject.load("probe_host"))
    kernel = module["host_late"]
    run.launch(kernel, 1, 1, words[0:4], 1, 5, 2_000_000, wait=False)
    run.launch(kernel, 1, 1, words[4:8], 1, 6, 0, wait=False)
    module.close()
    run.stream.synchronize()
    ended = [peek(run, words, 0), peek(run, words, 4)]
    uses = {
        "launch": lambda: launch_on(run.stream, kernel, 1, 1, words, 1, 7, 0),
        "find": lambda: module["host_late"],
        "bound": lambda: kernel.max_block_threads,
    }
    refused = {name: refusal(use) for name, use in uses.items()}
    run.stream.synchronize()
    none = said(run, "ModuleUnload", run.device.runtime.ffi.NULL)
    return {"ended": ended, "refused": refused, "after": peek(run, words), "none": none}


@unload.judge
def _(seen: Seen) -> None:
    clause = "host.module.unload"
    seen.equal(clause, "what the enqueued kernels stored", seen["ended"], [5, 6])
    for name, found in seen["refused"].items():
        seen.refused(clause, f"{name} after the unload", found, "UseAfterFree")
    seen.equal(clause, "the word after the refused launch", seen["after"], 5)
    seen.equal(clause, "the unload of no module", seen["none"], "InvalidResourceHandle")
