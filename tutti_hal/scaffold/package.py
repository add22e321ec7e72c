"""A backend package of its own: the recipe's files, and a project file that offers it by entry point."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tutti_hal.backend import API_VERSION, discover
from tutti_hal.errors import FolderOccupied, VendorNameInvalid, VendorNameTaken
from tutti_hal.scaffold import answers
from tutti_hal.scaffold.document import document
from tutti_hal.scaffold.model import leaves, model_folder, model_table
from tutti_hal.scaffold.questions import MARK, open_lines

#: The Python package that backends outside the project share; a namespace, so that none owns it.
NAMESPACE = "tutti_hal_backends"

#: A vendor's name also is a Python module and a folder.
_NAME = re.compile(r"[a-z][a-z0-9_]*")

#: Files that are written from a text of their own.
_TEXTS = ("pyproject.toml", "__init__.py", "runtime.py", "README.md")


@dataclass(frozen=True)
class Scaffold:
    """A scaffold that was made.

    Attributes:
        folder: the project's.
        backend: the folder with ``vendor.yaml``.
        files: what was written, in order.
        open: marked lines: what is to be answered.
    """

    folder: Path
    backend: Path
    files: tuple[Path, ...]
    open: int


def check_name(name: str) -> None:
    """Refuse what cannot be a new vendor's name.

    Raises:
        VendorNameInvalid: its form.
        VendorNameTaken: a backend, or a simulated SDK, of the name is installed.
    """
    tried = f"make a backend called '{name}'"
    if not _NAME.fullmatch(name):
        lower = re.sub(r"[^a-z0-9_]", "_", name.lower())
        hint = f" For example: {lower}." if _NAME.fullmatch(lower) else ""
        raise VendorNameInvalid(
            tried, "a vendor's name is a lower-case letter, then lower-case letters, digits and _", f"Choose one.{hint}"
        )
    for finding in discover():
        if finding.name == name:
            raise VendorNameTaken(tried, f"{finding.package} offers it already", "Choose another name.")


def create(name: str, folder: Path, title: str = "") -> Scaffold:
    """Make a scaffold.

    Args:
        name: the vendor's.
        folder: of the new project; made if need be, and empty.
        title: as reports call the vendor; the name with a capital when empty.

    Raises:
        VendorNameInvalid, VendorNameTaken: see :func:`check_name`.
        FolderOccupied: the folder is not empty, or a file.
        ScaffoldError: there is no model to copy.
    """
    check_name(name)
    tried = f"make a scaffold in {folder}"
    if folder.exists() and not folder.is_dir():
        raise FolderOccupied(tried, "it is a file", "Name a folder: --out DIR.")
    if folder.is_dir() and any(folder.iterdir()):
        raise FolderOccupied(tried, "the folder is not empty", "Name another, or use --update on a scaffold.")
    title = title or name.capitalize()
    backend = folder / NAMESPACE / name
    written = []
    for place, text in _files(name, title).items():
        path = (folder if place in ("pyproject.toml",) else backend) / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    asked = frozenset(path for path, _ in leaves(model_table(name, title)))
    answers.write(folder, answers.Answers(name, title, asked))
    return Scaffold(
        folder,
        backend,
        (*written, folder / answers.FILE),
        sum(open_lines(path.read_text(encoding="utf-8")) for path in written),
    )


def _files(name: str, title: str) -> dict[str, str]:
    """Name -> text of every file but the answers."""
    words = {"NAME": name, "TITLE": title, "NAMESPACE": NAMESPACE, "API": str(API_VERSION), "MARK": MARK}
    found = {}
    for file in _TEXTS:
        text = files("tutti_hal").joinpath("scaffold", "files", f"{file}.in").read_text(encoding="utf-8")
        found[file] = re.sub(r"@([A-Z]+)@", lambda match: words[match[1]], text)
    model = model_folder()
    found["vendor.yaml"] = (
        f"# {title}, as a copy of the profile that runs on any CPU. A line that ends in `{MARK}` is not answered yet.\n"
        + document(model_table(name, title, model))
    )
    found["conformance.yaml"] = _expectations((model / "conformance.yaml").read_text(encoding="utf-8"), title)
    found["toolchain.py"] = _toolchain((model / "toolchain.py").read_text(encoding="utf-8"), name, title)
    return found


def _expectations(text: str, title: str) -> str:
    """The model's ``conformance.yaml``, each sentence marked."""
    lines = [f"# What {title} says beforehand that it will not pass, a sentence each."]
    for line in text.splitlines():
        if not line.startswith("#"):
            asks = line.startswith("  ") and line.strip()
            lines.append(f"{line}  {MARK} is it so with you [record.capability.false_is_refused]" if asks else line)
    return "\n".join(lines) + "\n"


def _toolchain(text: str, name: str, title: str) -> str:
    """The model's ``toolchain.py`` under the vendor's name, each method that overrides the record marked."""
    own = re.search(r"class (\w+)\(Toolchain\)", text)
    if own is not None:
        text = re.sub(rf"\b{own[1]}\b", f"{name.title().replace('_', '')}Toolchain", text)
    text = re.sub(r'^"""\w+', f'"""{title}', text, count=1)
    ask = f"  # {MARK} what your tools print; or delete it where the record says all [host.module.resources]"
    return re.sub(r"^(    def .*:)$", lambda found: found[1] + ask, text, flags=re.MULTILINE)
