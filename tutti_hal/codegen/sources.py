"""What a compiled module is made of: the templates that a kernel set reaches, and a key over all inputs.

The key is taken over the inputs and not over the rendered text, so that asking whether a module is fresh costs a few
file reads and no rendering. It depends on contents and on names inside the package, never on where the package lies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.errors import GenerationError
from tutti_hal.paths import package_file

if TYPE_CHECKING:
    from tutti_hal.record import Arch, Record

#: Suffix of a template that is a whole unit; the rest of the name is its kernel set.
UNIT_SUFFIX = ".cu.j2"

_REFERENCE = re.compile(r"\{%-?\s*(?:include|import|from|extends)\s+(\S+)")
_LITERAL = re.compile(r"\"[^\"]+\"|'[^']+'")


def kernel_sets(templates: Path) -> tuple[str, ...]:
    """The names of all kernel sets below a template root: one for each ``kernels/*.cu.j2``."""
    return tuple(
        sorted(path.name.removesuffix(UNIT_SUFFIX) for path in (templates / "kernels").glob(f"*{UNIT_SUFFIX}"))
    )


def template_name(kernel_set: str) -> str:
    """The template of a kernel set; a name with a folder in it is a template's already."""
    return kernel_set if "/" in kernel_set else f"kernels/{kernel_set}{UNIT_SUFFIX}"


def roots_of(record: Record, templates: Path) -> tuple[Path, ...]:
    """Where a vendor's templates are looked for, in order: its own overrides, then what is common."""
    return (record.folder / "overrides", templates)


def reached(template: str, roots: Sequence[Path]) -> dict[str, str]:
    """Name -> text of a kernel template and of all that it includes, in sorted order; the first root that has one wins.

    Raises:
        GenerationError: one is missing, or a reference is not a literal name.
    """
    found: dict[str, str] = {}
    wanted = [(template, "")]
    while wanted:
        name, origin = wanted.pop()
        if name in found:
            continue
        path = next((root / name for root in roots if (root / name).is_file()), None)
        if path is None:
            known = sorted({f"kernels/{p.name}" for root in roots for p in root.glob("kernels/*.j2")})
            raise GenerationError(
                f"read template {name}",
                f"there is no such file below {' or '.join(map(str, roots))}"
                + (f"; {origin} includes it" if origin else ""),
                f"The kernel templates are: {', '.join(known) or 'none'}.",
            )
        found[name] = path.read_text(encoding="utf-8")
        for reference in _REFERENCE.findall(found[name]):
            if not _LITERAL.fullmatch(reference):
                raise GenerationError(f"read template {name}", f"it includes {reference}", "Include by a literal name.")
            wanted.append((reference[1:-1], name))
    return dict(sorted(found.items()))


class SourceKeys:
    """Keys over everything that decides what a module is, the compiler excepted."""

    def __init__(self, record: Record, templates: Path, headers: Iterable[Path] = ()) -> None:
        self._record = record
        self._templates = templates
        self._headers = tuple(headers)

    @cached_property
    def common(self) -> Mapping[str, str]:
        """Name -> sha256 of each input that every kernel set has."""
        roots = roots_of(self._record, self._templates)
        files = {f"kernels_templates/layers/{p.name}": p for root in roots[::-1] for p in root.glob("layers/*.j2")}
        files |= {f"kernels_templates/structs/{p.name}": p for p in self._templates.glob("structs/*.yaml")}
        files |= {f"spec/{name}": package_file("spec", name) for name in ("primitives.yaml", "capabilities.yaml")}
        files |= {f"codegen/{p.name}": p for p in package_file("codegen").glob("*.py")}
        files |= {f"include/{p.name}": p for p in self._headers}
        files["record.py"] = package_file("record.py")
        files[f"backends/{self._record.vendor}/vendor.yaml"] = self._record.file
        found = {name: sha256(path.read_bytes()).hexdigest() for name, path in sorted(files.items())}
        if self._record.applied:
            # What an SDK's version changes is part of the record, and not of its file alone.
            found["quirks in force"] = sha256("\n".join(self._record.applied).encode()).hexdigest()
        return found

    def inputs(self, kernel_set: str) -> Mapping[str, str]:
        """Name -> sha256 of each input of one kernel set.

        Raises:
            GenerationError: a template is missing.
        """
        texts = reached(template_name(kernel_set), roots_of(self._record, self._templates))
        own = {f"kernels_templates/{name}": sha256(text.encode()).hexdigest() for name, text in texts.items()}
        return {**self.common, **own}

    def key(self, kernel_set: str, arch: Arch, flags: Iterable[str], *more: str) -> str:
        """The key of one kernel set on one arch with these flags, and whatever else decides (a compiler).

        Raises:
            GenerationError: a template is missing.
        """
        digest = sha256()
        for part in (kernel_set, arch.name, *flags, "", *more, ""):
            digest.update(part.encode() + b"\0")
        for name, value in sorted(self.inputs(kernel_set).items()):
            digest.update(f"{name}={value}\n".encode())
        return digest.hexdigest()
