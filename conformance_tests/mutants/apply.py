"""A mutant made real: copies of the template root and of the vendor's folder, one of them with the fault in it.

The product itself is never written to.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.errors import MutantsInvalid
from tutti_hal.conformance_tests.mutants.mutant import Mutant, Source
from tutti_hal.conformance_tests.mutants.operators import applied
from tutti_hal.conformance_tests.mutants.records import edited, file_of, table_of, text_of
from tutti_hal.conformance_tests.subject import SubjectSpec
from tutti_hal.record import Record


@dataclass(frozen=True)
class Product:
    """The unchanged product, as copies: what is measured against differs from a mutant in the fault alone.

    Attributes:
        subject: as whom it runs; its arch is empty.
        templates: copy of the template root.
        record: copy of the vendor's folder, its record written anew without aliases.
        table: the record as a table.
    """

    subject: SubjectSpec
    templates: Path
    record: Path
    table: Mapping[str, Any]

    def spec(self, arch: str = "") -> SubjectSpec:
        """The subject that runs it on an arch."""
        return replace(self.subject, arch=arch, record=str(self.record), templates=str(self.templates))


def copy_product(subject: SubjectSpec, record: Record, templates: Path, folder: Path) -> Product:
    """Copies of a template root and of a vendor's folder below ``folder``."""
    table = lenient(table_of(record.file.read_text(encoding="utf-8")))
    made = Product(subject, folder / "templates", folder / record.vendor, table)
    shutil.copytree(templates, made.templates)
    shutil.copytree(record.folder, made.record, ignore=shutil.ignore_patterns("__pycache__"))
    file_of(made.record).write_text(text_of(table), encoding="utf-8")
    return made


def lenient(table: Mapping[str, Any]) -> dict[str, Any]:
    """A record's table whose compiler lets warnings pass, and, for no hardware, leaves out its optimiser.

    It is for cases to notice a mutant; and most of a mutant's time would go into making it quick. The product is
    compiled likewise, so that nothing but the fault differs.
    """
    chain = table["toolchain"]
    flags = [str(flag) for flag in chain["flags"]]
    # Some compilers want a word after it that says which warnings.
    strict = {at for at, flag in enumerate(flags) if flag.startswith("-Werror")}
    words = {at for at, flag in enumerate(flags) if not flag.startswith("-")}
    strict |= {at + 1 for at in strict if flags[at] == "-Werror"} & words
    kept = [flag for at, flag in enumerate(flags) if at not in strict]
    if table.get("kind") != "hardware":
        kept = ["-O0" if re.fullmatch("-O[1-3s]", flag) else flag for flag in kept]
    return {**table, "toolchain": {**chain, "flags": kept}}


def make(mutant: Mutant, product: Product, folder: Path) -> SubjectSpec:
    """Make a mutant below ``folder``, an empty one; the subject that runs it, with an empty arch.

    Raises:
        MutantsInvalid: the text that it changes is not there.
    """
    whole = product.spec()
    if mutant.source is Source.CONTROLLER:
        return replace(whole, controller=mutant.controller)
    if mutant.source is Source.RECORD:
        target = folder / product.record.name
        shutil.copytree(product.record, target)
        file_of(target).write_text(text_of(edited(product.table, mutant.record)), encoding="utf-8")
        return replace(whole, record=str(target))
    target = folder / "templates"
    shutil.copytree(product.templates, target)
    path = target / mutant.file
    text = path.read_text(encoding="utf-8")
    if mutant.text is None or mutant.text.end > len(text):
        raise MutantsInvalid(f"make {mutant.id}", f"{mutant.file} is not the text it was found in", "Find it again.")
    path.write_text(applied(text, mutant.text), encoding="utf-8")
    return replace(whole, templates=str(target))
