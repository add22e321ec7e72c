"""Where a case renders and compiles what it plants, with the templates, record and compiler under test."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.verdict import SkipReason

if TYPE_CHECKING:
    from tutti_hal.codegen import Rendered
    from tutti_hal.record import Arch, Record
    from tutti_hal.toolchain import Compiler, Toolchain

#: A kernel set of one small kernel, whose unit planted functions are put behind.
BASE = "base"
_BASE_TEMPLATE = """{% call kernel("base", [("word", "tt_word32 *")]) %}
tt_store_relaxed_sys_u32(word, 1u);
{% endcall %}
"""

#: Compilers at work at once, within one case.
_JOBS = 2


def template_root(run: Run, name: str, kernels: Mapping[str, str]) -> Path:
    """A template root with the layers and structs under test, and these files below ``kernels/``; the folder."""
    from tutti_hal.paths import templates_dir

    origin = run.subject.templates or templates_dir()
    root = run.scratch / name
    for part in ("layers", "structs"):
        shutil.copytree(origin / part, root / part)
    (root / "kernels").mkdir()
    for file, text in kernels.items():
        (root / "kernels" / file).write_text(text, encoding="utf-8")
    return root


def mutated_root(run: Run, name: str, file: str, old: str, new: str) -> Path | None:
    """A copy of the template root under test, with the last ``old`` in one file replaced; None where there is none."""
    from tutti_hal.paths import templates_dir

    root = run.scratch / name
    shutil.copytree(run.subject.templates or templates_dir(), root)
    path = root / file
    before, found, after = path.read_text(encoding="utf-8").rpartition(old)
    if not found:
        return None
    path.write_text(before + new + after, encoding="utf-8")
    return root


class Workshop:
    """Compiles planted text for one arch of the vendor under test. Skips the case where the compiler is not there.

    Args:
        run: the case's.
        arch: the arch's name; the run's when None.
    """

    def __init__(self, run: Run, arch: str | None = None) -> None:
        from tutti_hal.errors import CompilerMissing
        from tutti_hal.toolchain import toolchain_of

        self.run = run
        self.record: Record = run.profile.record
        self.arch: Arch = self.record.archs[arch or run.facts.arch or run.profile.arch]
        self.chain: Toolchain = toolchain_of(run.profile)
        try:
            self.compiler: Compiler = self.chain.find()
        except CompilerMissing as error:
            run.skip(SkipReason.TOOL, error.found)

    @cached_property
    def base(self) -> Rendered:
        """The unit that planted functions are put behind."""
        from tutti_hal.codegen import render

        root = template_root(self.run, f"templates-{self.arch.name}", {f"{BASE}.cu.j2": _BASE_TEMPLATE})
        return render(self.record, self.arch, BASE, templates=root)

    def unit(self, name: str, source: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Compile a text as a unit: whether it compiled, and all that the compiler printed."""
        from tutti_hal.codegen import Rendered
        from tutti_hal.errors import BuildError
        from tutti_hal.toolchain.compiler import compile_unit

        folder = self.run.scratch / f"{self.arch.name}-{name}"
        folder.mkdir()
        rendered = Rendered(f"kernels/{BASE}.cu.j2", source, headers, (), "")
        try:
            compile_unit(self.chain, self.compiler, self.arch, rendered, folder)
            compiled = True
        except BuildError:
            compiled = False
        log = folder / "build.log"
        return {"compiled": compiled, "log": log.read_text(encoding="utf-8") if log.is_file() else ""}

    def functions(self, planted: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        """Compile several texts side by side, each of whose lines is put behind the base unit on a line of its own.

        Returns:
            For each: ``compiled``, ``log`` and ``first``, the number of its first line.
        """
        base = self.base
        first = base.source.count("\n") + 2

        def one(item: tuple[str, Sequence[str]]) -> tuple[str, dict[str, Any]]:
            name, lines = item
            source = "\n".join([base.source, *lines, ""])
            return name, {**self.unit(name, source, base.headers), "first": first}

        with ThreadPoolExecutor(_JOBS) as pool:
            return dict(pool.map(one, planted.items()))


#: How a compiler names a line of the planted unit: ``base.x:12:``, ``base.x(12)``, or, of a template that the line
#: uses, ``at line 12``.
_PLACE = re.compile(rf"(?:\b{BASE}\.\w+[:(]|\bat line )(\d+)")

#: A message that is there only because warnings are errors: no refusal.
_MERE_WARNING = re.compile(r"\[-W|\bwarning\b|#\d+-D")


def complaints(found: Any, index: int) -> list[str]:
    """What a compiler said of one planted line, counted from 0, other than warnings. For judges.

    Args:
        found: observations with ``log`` and ``first``.
        index: of the line among the planted ones.
    """
    line = found["first"] + index
    said = [text for text in found["log"].splitlines() if str(line) in _PLACE.findall(text)]
    return [text for text in said if not _MERE_WARNING.search(text)]
