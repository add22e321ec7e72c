"""What was compiled at install: where it is, and whether it is still what would be compiled now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BuildError, NativeError
from tutti_hal.paths import package_file

if TYPE_CHECKING:
    from tutti_hal.codegen.sources import SourceKeys
    from tutti_hal.record import Arch
    from tutti_hal.toolchain.compiler import Toolchain

#: Version of the manifest's shape.
FORMAT = 1

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Installed:
    """The objects of one vendor that came with the package.

    Attributes:
        vendor: the vendor.
        folder: where they lie.
        compiler: the version that compiled them.
        modules: (kernel set, arch) -> description, with ``key`` over its inputs and ``inputs`` by name.
    """

    vendor: str
    folder: Path
    compiler: str
    modules: Mapping[tuple[str, str], Mapping[str, Any]]

    def usable(self, kernel_set: str, arch: Arch, chain: Toolchain, keys: SourceKeys) -> Path | None:
        """The object of one kernel set on one arch, if it is what would be compiled now; else None."""
        module = self.modules.get((kernel_set, arch.name))
        if module is None or module["key"] != keys.key(kernel_set, arch, chain.flags(arch)):
            return None
        path = self.folder / str(module["file"])
        return path if path.is_file() else None

    def why_not(self, kernel_set: str, arch: Arch, keys: SourceKeys) -> str:
        """Why the object of one kernel set on one arch is not used: one clause, without a full stop."""
        module = self.modules.get((kernel_set, arch.name))
        if module is None:
            return f"nothing was built at install for {kernel_set} on {self.vendor}:{arch.name}"
        if not (self.folder / str(module["file"])).is_file():
            return f"what was built at install for {kernel_set} on {self.vendor}:{arch.name} is gone"
        now, then = keys.inputs(kernel_set), module["inputs"]
        changed = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
        what = ", ".join(changed[:4]) + (f" and {len(changed) - 4} more" if len(changed) > 4 else "")
        return f"what was built at install for {kernel_set} is stale, for these changed since: {what or 'flags'}"


def installed(vendor: str, folder: Path | None = None) -> Installed | None:
    """The objects of a vendor that came with the package; None when there are none.

    Args:
        vendor: the vendor.
        folder: another place than ``aot/<vendor>`` of the installed package.

    Raises:
        BuildError: the manifest is damaged.
    """
    try:
        place = folder or package_file("aot", vendor)
    except NativeError:
        return None
    manifest = place / MANIFEST
    if not manifest.is_file():
        return None
    try:
        table = json.loads(manifest.read_text(encoding="utf-8"))
        if table["format"] != FORMAT:
            raise ValueError(f"format {table['format']}, wanted {FORMAT}")
        modules = {(str(m["kernel_set"]), str(m["arch"])): m for m in table["modules"]}
        for module in modules.values():
            _ = module["key"], module["inputs"], module["file"]
        return Installed(vendor, place, str(table["compiler"]), modules)
    except (ValueError, KeyError, TypeError) as error:
        raise BuildError(f"read {manifest}", f"it is damaged: {error}", "Install the package again.") from error


@dataclass(frozen=True)
class AotState:
    """How what was built at install stands against the templates, the record and the headers of now.

    Attributes:
        profile: the profile that was pinned.
        compiler: the version that compiled the objects; empty when there are none.
        fresh: ``<kernel set> on <arch>`` of each object that is used.
        stale: why each other is not: one clause each.
        why_none: why nothing was built at install; empty when something was.
    """

    profile: str
    compiler: str
    fresh: tuple[str, ...]
    stale: tuple[str, ...]
    why_none: str

    @property
    def summary(self) -> str:
        """One line for a person."""
        if self.why_none:
            return f"no AOT, because {self.why_none}"
        if self.stale:
            more = f" (and {len(self.stale) - 1} more)" if len(self.stale) > 1 else ""
            return f"stale AOT refused: {self.stale[0]}{more}"
        return f"AOT fresh: {', '.join(self.fresh)}, by {self.compiler}"


def aot_state(*, templates: Path | None = None, folder: Path | None = None) -> AotState | None:
    """The state of what the pinned profile built at install; None for an install that is not pinned.

    Args:
        templates: another template root to compare with than the installed one.
        folder: another place of the objects than the installed package.

    Raises:
        BuildError: the manifest is damaged.
        ProfileError: the pinned profile cannot be read, or does not exist any more.
    """
    from tutti_hal.profile import pinned, resolve

    pin = pinned()
    if pin is None:
        return None
    profile = resolve(pin.profile)
    found = installed(profile.vendor, folder)
    if found is None:
        return AotState(pin.profile, "", (), (), pin.why_no_aot or "the objects are gone from the package")
    from tutti_hal.toolchain.build import toolchain_of

    return compare(pin.profile, found, toolchain_of(profile), templates)


def compare(profile: str, found: Installed, chain: Toolchain, templates: Path | None = None) -> AotState:
    """The state of given objects against a record's toolchain and a template root."""
    from tutti_hal.codegen.sources import SourceKeys, kernel_sets
    from tutti_hal.paths import templates_dir

    root = templates or templates_dir()
    keys = SourceKeys(chain.record, root, chain.headers())
    fresh: list[str] = []
    stale: list[str] = []
    archs = [arch for arch in chain.record.archs.values() if any(arch.name == built for _, built in found.modules)]
    for arch in archs:
        for name in kernel_sets(root):
            if found.usable(name, arch, chain, keys) is None:
                stale.append(found.why_not(name, arch, keys))
            else:
                fresh.append(f"{name} on {arch.name}")
    # An arch may have been renamed or dropped; its objects are of no use.
    stale += [
        f"{found.vendor} has no arch {arch} any more"
        for arch in sorted({arch for _, arch in found.modules} - set(chain.record.archs))
    ]
    return AotState(profile, found.compiler, tuple(fresh), tuple(stale), "")


def write(folder: Path, chain: Toolchain, archs: tuple[Arch, ...], templates: Path, jobs: int) -> dict[str, Any]:
    """Compile every kernel set for the given archs into ``folder``, with a manifest. Blocks for seconds.

    Returns:
        What the pinned profile's file says of it: vendor, compiler, archs, kernel sets, the manifest's sha256.

    Raises:
        CompilerMissing: there is no compiler.
        BuildError: the compiler refused a unit.
        GenerationError: a unit cannot be rendered.
    """
    import tempfile
    from concurrent.futures import ThreadPoolExecutor

    from tutti_hal.codegen.render import render
    from tutti_hal.codegen.sources import SourceKeys, kernel_sets
    from tutti_hal.toolchain.build import describe_module
    from tutti_hal.toolchain.compiler import compile_unit

    compiler = chain.find()
    version = chain.version(compiler)
    keys = SourceKeys(chain.record, templates, chain.headers())
    sets = kernel_sets(templates)

    def one(pair: tuple[Arch, str]) -> dict[str, Any]:
        arch, name = pair
        rendered = render(chain.record, arch, name, templates=templates)
        with tempfile.TemporaryDirectory() as scratch:
            module = compile_unit(chain, compiler, arch, rendered, Path(scratch))
            log = Path(scratch, "build.log").read_text(encoding="utf-8")
            needs = chain.resources(rendered.kernels, module, log)
            target = folder / arch.name / module.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(module.read_bytes())
        return {
            **describe_module(name, arch.name, f"{arch.name}/{target.name}", rendered, version, needs),
            "object_sha256": sha256(target.read_bytes()).hexdigest(),
            "key": keys.key(name, arch, chain.flags(arch)),
            "inputs": dict(keys.inputs(name)),
        }

    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        modules = list(pool.map(one, [(arch, name) for arch in archs for name in sets]))
    table = {"format": FORMAT, "vendor": chain.record.vendor, "compiler": version, "modules": modules}
    text = json.dumps(table, indent=1, sort_keys=True) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    return {
        "vendor": chain.record.vendor,
        "compiler": version,
        "archs": [arch.name for arch in archs],
        "kernel_sets": list(sets),
        "manifest_sha256": sha256(text.encode()).hexdigest(),
    }
