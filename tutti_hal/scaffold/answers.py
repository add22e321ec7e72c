"""``answers.yaml``: what a scaffold was told, and which facts it has asked for so far."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tutti_hal.errors import AnswersInvalid
from tutti_hal.scaffold.model import Path_

FILE = "answers.yaml"
_VERSION = 1
_HEAD = "# What new-backend was told and has asked. `tutti-hal new-backend {name} --update` needs it: keep it.\n"


@dataclass(frozen=True)
class Answers:
    """What is kept of a scaffold.

    Attributes:
        name: the vendor's.
        title: as reports call it.
        asked: places of the record that were written once; an update never writes one of them again.
    """

    name: str
    title: str
    asked: frozenset[Path_]


def write(folder: Path, answers: Answers) -> None:
    """Write ``answers.yaml`` into a scaffold's folder."""
    from tutti_hal.scaffold.document import flow

    groups: dict[Path_, list[str]] = {}
    for path in sorted(answers.asked):
        groups.setdefault(path[:-1], []).append(path[-1])
    lines = [f"version: {_VERSION}", f"name: {answers.name}", f"title: {flow(answers.title)}", "asked:"]
    for parent, names in groups.items():
        text = f"{flow('/'.join(parent) or '/')}: [{', '.join(flow(name) for name in names)}]"
        lines += textwrap.wrap(
            text, 118, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
    (folder / FILE).write_text(_HEAD.format(name=answers.name) + "\n".join(lines) + "\n", encoding="utf-8")


def read(folder: Path) -> Answers:
    """Read ``answers.yaml`` of a scaffold's folder.

    Raises:
        AnswersInvalid: it is not there, or not what :func:`write` wrote.
    """
    import yaml

    file = folder / FILE
    tried = f"update the scaffold in {folder}"
    try:
        table = yaml.safe_load(file.read_text(encoding="utf-8"))
        if table["version"] != _VERSION:
            raise ValueError(f"version {table['version']}, this is {_VERSION}")
        return Answers(str(table["name"]), str(table["title"]), frozenset(_asked(table["asked"].items())))
    except FileNotFoundError as error:
        raise AnswersInvalid(
            tried, f"there is no {file}", "Name the folder that new-backend made: --out DIR."
        ) from error
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise AnswersInvalid(tried, f"{file} is damaged: {error}", "Take it from version control again.") from error


def _asked(rows: Iterable[tuple[str, list[str]]]) -> Iterable[Path_]:
    for parent, names in rows:
        for name in names:
            yield (*(() if parent == "/" else tuple(parent.split("/"))), str(name))
