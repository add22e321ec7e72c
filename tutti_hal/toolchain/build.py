"""From a profile and a kernel set to a compiled module, doing as little as the answer needs.

The order: the object built at install, if its inputs are still the same; the cache; the compiler.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.codegen.kernels import KernelDecl, Param
from tutti_hal.codegen.sources import SourceKeys, kernel_sets
from tutti_hal.errors import BuildError, CompilerMissing
from tutti_hal.paths import templates_dir
from tutti_hal.toolchain import aot, cache
from tutti_hal.toolchain.compiler import Compiler, Resources, Toolchain, compile_unit

if TYPE_CHECKING:
    from tutti_hal.codegen.render import Rendered
    from tutti_hal.profile import Profile
    from tutti_hal.record import Arch
    from tutti_hal.shim.module import Parameter

#: What a cached folder is described by.
_DESCRIPTION = "build.json"


@dataclass(frozen=True)
class Built:
    """A compiled module.

    Attributes:
        path: the module's file, in the cache or in the installed package: not the caller's to change.
        kernel_set: the kernel set's name.
        arch: the arch it was compiled for.
        kernels: its kernels, in order.
        sha256: of the rendered unit and its headers; a module with a table holds the same there.
        resources: one for each kernel.
        origin: ``aot`` (built at install), ``cached`` or ``compiled`` (just now).
        compiler: the version that the compiler stated.
        note: why an object built at install was not used; empty when there is nothing to say.
        seconds: what this call took.
    """

    path: Path
    kernel_set: str
    arch: str
    kernels: tuple[KernelDecl, ...]
    sha256: str
    resources: tuple[Resources, ...]
    origin: str
    compiler: str
    note: str
    seconds: float

    @property
    def declared(self) -> dict[str, tuple[Parameter, ...]]:
        """The parameters of each kernel, for :meth:`tutti_hal.shim.Device.load_module`: some vendors tell none."""
        from tutti_hal.shim.module import Parameter

        return {
            kernel.name: tuple(Parameter(param.name, param.nbytes) for param in kernel.params)
            for kernel in self.kernels
            if all(param.nbytes for param in kernel.params)
        }


def toolchain_of(profile: Profile) -> Toolchain:
    """The toolchain of a profile's backend."""
    made = profile.backend.toolchain().toolchain(profile.record)
    if not isinstance(made, Toolchain):
        raise TypeError(f"toolchain() of backend {profile.vendor} gave {type(made).__name__}")
    return made


def build(profile: Profile, kernel_set: str, *, arch: str | None = None, templates: Path | None = None) -> Built:
    """The compiled module of one kernel set.

    Thread safe, and safe against other processes: a module is compiled once, by whoever comes first, and the others
    wait for it. Blocks for milliseconds when it is there, for seconds when it has to be compiled.

    Args:
        profile: vendor, arch and record.
        kernel_set: the name of a kernel set (``kernels/<name>.cu.j2``).
        arch: another arch of the record than the profile's.
        templates: another template root than the installed one; never answered from the objects built at install.

    Raises:
        CompilerMissing: something has to be compiled and there is no compiler.
        BuildError: the compiler refused the unit.
        CacheUnwritable: the cache's folder cannot be written.
        GenerationError: the unit cannot be rendered.
    """
    return _Builder(profile, templates).build(kernel_set, arch or profile.arch)


def build_all(
    profile: Profile,
    *,
    archs: Iterable[str] | None = None,
    sets: Iterable[str] | None = None,
    templates: Path | None = None,
    jobs: int | None = None,
) -> tuple[Built, ...]:
    """Several modules, side by side; in the order of archs, then sets.

    Args:
        profile: vendor, arch and record.
        archs: archs of the record; the profile's own when None.
        sets: kernel sets; all of them when None.
        templates: another template root than the installed one.
        jobs: compilers at work at once; as many as CPUs when None.

    Raises:
        CompilerMissing, BuildError, CacheUnwritable, GenerationError: as :func:`build`, for the first that fails.
    """
    builder = _Builder(profile, templates)
    names = tuple(sets) if sets is not None else kernel_sets(builder.templates)
    wanted = [(name, arch) for arch in (archs or (profile.arch,)) for name in names]
    ready = [builder.fresh(name, arch) for name, arch in wanted]
    if None not in ready:
        return tuple(built for built in ready if built is not None)
    with ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0))) as pool:
        made = pool.map(lambda pair: pair[1] or builder.build(*pair[0]), zip(wanted, ready, strict=True))
        return tuple(made)


class _Builder:
    """What the builds of one profile share: keys, compiler, the state of what was built at install."""

    def __init__(self, profile: Profile, templates: Path | None) -> None:
        self.profile = profile
        self.record = profile.record
        self.templates = templates or templates_dir()
        self.chain = toolchain_of(profile)
        self.keys = SourceKeys(self.record, self.templates, self.chain.headers())
        # Another template root is somebody's experiment: what was built at install has no say in it.
        self.installed = None if templates else aot.installed(self.record.vendor)
        self._compiler: Compiler | CompilerMissing | None = None

    def compiler(self) -> Compiler:
        """The compiler, looked for once."""
        if self._compiler is None:
            try:
                self._compiler = self.chain.find()
            except CompilerMissing as error:
                self._compiler = error
        if isinstance(self._compiler, CompilerMissing):
            raise self._compiler
        return self._compiler

    def build(self, kernel_set: str, arch_name: str) -> Built:
        """As :func:`build`."""
        began = time.perf_counter()
        built = self.fresh(kernel_set, arch_name)
        if built is not None:
            return built
        from tutti_hal.codegen.render import render, resolve_arch

        arch = resolve_arch(self.record, arch_name)
        note = self._stale(kernel_set, arch)
        try:
            compiler = self.compiler()
        except CompilerMissing as error:
            if note:
                raise CompilerMissing(error.tried, f"{error.found}; {note}", error.fix) from error
            raise
        key = self._key(kernel_set, arch, compiler)
        with cache.building(key) as folder:
            if folder is not None:
                rendered = render(self.record, arch, kernel_set, templates=self.templates)
                module = compile_unit(self.chain, compiler, arch, rendered, folder)
                log = (folder / "build.log").read_text(encoding="utf-8")
                needs = self.chain.resources(rendered.kernels, module, log)
                version = self.chain.version(compiler)
                table = describe_module(kernel_set, arch.name, module.name, rendered, version, needs)
                (folder / _DESCRIPTION).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        target = cache.entry(key)
        built = self._cached(target, "cached" if folder is None else "compiled")
        if built is None:
            raise BuildError(
                f"read the compiled {kernel_set} in {target}",
                "the folder is damaged",
                f"Delete it, or point {cache.VARIABLE} elsewhere.",
            )
        return replace(built, note=note, seconds=time.perf_counter() - began)

    def fresh(self, kernel_set: str, arch_name: str) -> Built | None:
        """The module if nothing need be compiled for it, else None. Renders nothing, writes nothing."""
        began = time.perf_counter()
        arch = self.record.archs.get(arch_name)
        if arch is None:
            return None
        note = ""
        if self.installed is not None:
            path = self.installed.usable(kernel_set, arch, self.chain, self.keys)
            built = path and _restored(self.installed.modules[kernel_set, arch.name], path, "aot")
            if built:
                return replace(built, seconds=time.perf_counter() - began)
            note = self._stale(kernel_set, arch)
        try:
            compiler = self.compiler()
        except CompilerMissing:
            return None
        built = self._cached(cache.entry(self._key(kernel_set, arch, compiler)), "cached")
        return built and replace(built, note=note, seconds=time.perf_counter() - began)

    def _key(self, kernel_set: str, arch: Arch, compiler: Compiler) -> str:
        return self.keys.key(kernel_set, arch, self.chain.flags(arch), compiler.identity)

    def _stale(self, kernel_set: str, arch: Arch) -> str:
        if self.installed is None:
            return ""
        return self.installed.why_not(kernel_set, arch, self.keys)

    @staticmethod
    def _cached(folder: Path, origin: str) -> Built | None:
        try:
            table = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
            return _restored(table, folder / str(table["file"]), origin)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def describe_module(
    kernel_set: str, arch: str, file: str, rendered: Rendered, compiler: str, resources: tuple[Resources, ...]
) -> dict[str, Any]:
    """A module as JSON keeps it; ``file`` is relative to the folder of the JSON."""
    return {
        "kernel_set": kernel_set,
        "arch": arch,
        "file": file,
        "sha256": rendered.sha256,
        "compiler": compiler,
        "kernels": [asdict(kernel) for kernel in rendered.kernels],
        "resources": [asdict(one) for one in resources],
    }


def _restored(table: Mapping[str, Any], path: Path, origin: str) -> Built | None:
    """A module from its JSON, or None when that or the file is not whole."""
    try:
        if not path.is_file():
            return None
        return Built(
            path=path,
            kernel_set=str(table["kernel_set"]),
            arch=str(table["arch"]),
            kernels=tuple(
                KernelDecl(k["name"], tuple(Param(**p) for p in k["params"]), k["max_threads"])
                for k in table["kernels"]
            ),
            sha256=str(table["sha256"]),
            resources=tuple(Resources(**one) for one in table["resources"]),
            origin=origin,
            compiler=str(table["compiler"]),
            note="",
            seconds=0.0,
        )
    except (KeyError, TypeError):
        return None
