"""What was compiled at install: where it is, and whether it is still what would be compiled now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BuildError, NativeError
from tutti_hal.paths import package_file

if TYPE_CHECKING:
    from tutti_hal.codegen.sources import SourceKeys
    from tutti_hal.record import Arch

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

    def why_not(self, kernel_set: str, arch: Arch, keys: SourceKeys) -> str:
        """Why the object of one kernel set on one arch may not be used: one sentence."""
        module = self.modules.get((kernel_set, arch.name))
        if module is None:
            return f"nothing was built at install for {kernel_set} on {self.vendor}:{arch.name}"
        now, then = keys.inputs(kernel_set), module["inputs"]
        changed = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
        what = ", ".join(changed[:4]) + (f" and {len(changed) - 4} more" if len(changed) > 4 else "")
        return f"what was built at install is stale: changed since: {what or 'flags'}"


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
