"""The tutorial of docs/porting.md as steps, and a place where they are taken."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "porting.md"
_STEP = re.compile(r"(?:^<!-- (?P<what>[^\n]*) -->\n)?^```(?P<kind>console|yaml|py)\n(?P<text>.*?)^```$", re.M | re.S)
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-index", "--no-deps"]


@dataclass(frozen=True)
class Command:
    """A command and the lines that its output must begin with, each."""

    line: str
    shown: tuple[str, ...]
    slow: bool


@dataclass(frozen=True)
class Edit:
    """A text and where it goes: ``into`` (parts of a YAML file), ``under`` (a part of it), ``file`` (the whole)."""

    how: str
    file: str
    part: str
    text: str


def steps(page: str) -> Iterator[Command | Edit]:
    """The commands and edits of a page, in order. A block that is neither would be shown and never tried: refused."""
    for found in _STEP.finditer(page):
        if found["kind"] == "console":
            for one in re.split(r"^\$ ", found["text"], flags=re.M)[1:]:
                line, *shown = one.rstrip("\n").split("\n")
                yield Command(line, tuple(shown), found["what"] == "slow")
            continue
        how, _, where = (found["what"] or "").partition(": ")
        file, _, part = where.partition(" ")
        assert how in ("into", "under", "file"), f"a block says not where it goes: {found['text'][:60]}"
        yield Edit(how, file, part, found["text"])


class Workplace:
    """A folder to work in, and a folder of installed packages that stands before the others."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.site = folder, folder / "site"
        self.project = folder / "tutti-hal-acme"
        self.backend = self.project / "tutti_hal_backends" / "acme"
        here = Path(__file__).parent / "acme_sdk"
        shutil.copytree(here, self.site / "acme_sdk", ignore=shutil.ignore_patterns("__pycache__"))
        about = self.site / "acme_sdk-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-sdk\nVersion: 1.0\n", encoding="utf-8")
        offer = "[tutti_hal.simulated_sdks]\nacme = acme_sdk:ACME\n"
        (about / "entry_points.txt").write_text(offer, encoding="utf-8")

    def install(self) -> None:
        """Build the project's wheel and install it: no network, nothing beside it."""
        for old in (*self.site.glob("tutti_hal_acme-*"), self.site / "tutti_hal_backends"):
            shutil.rmtree(old, ignore_errors=True)
        command = [*_PIP, "--no-build-isolation", "--target", str(self.site), "--upgrade", str(self.project)]
        subprocess.run(command, check=True, timeout=100)

    def run(self, line: str, ends: tuple[int, ...] = (0,)) -> str:
        """What a command prints. It must end with one of the numbers."""
        words = shlex.split(line)
        if words[0] == "pip":
            self.install()
            return ""
        assert words[0] == "tutti-hal"
        if words[1] == "port-status":
            words += ["--within", "60"]  # a machine under load must not decide what is seen
        shown = {name: value for name, value in os.environ.items() if not name.startswith(("ACME", "TUTTI_PROFILE"))}
        paths = [str(self.site), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            [sys.executable, "-m", "tutti_hal", *words[1:]],
            cwd=self.folder,
            env={**shown, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode in ends, f"{line}: exit {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    def edit(self, one: Edit) -> None:
        """Change a file of the backend, and its installed copy, as an editable install has it."""
        file = self.backend / one.file
        text = file.read_text(encoding="utf-8")
        if one.how == "file":
            text = one.text
        elif one.how == "under":
            assert len(re.findall(rf"^{one.part}:$", text, flags=re.M)) == 1
            text = re.sub(rf"^{one.part}:\n", lambda match: match[0] + one.text, text, flags=re.M)
        else:
            names = re.findall(r"^(\w+):", one.text, flags=re.M)
            parts = re.split(r"^(?=\w+:)", text, flags=re.M)
            head, had = parts[0], {part.partition(":")[0]: part for part in parts[1:]}
            had.update({part.partition(":")[0]: part for part in re.split(r"^(?=\w+:)", one.text, flags=re.M) if part})
            assert len(had) >= len(names) > 0
            text = head + "".join(had.values())
        file.write_text(text, encoding="utf-8")
        shutil.copyfile(file, self.site / "tutti_hal_backends" / "acme" / one.file)
