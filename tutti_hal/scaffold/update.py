"""An update of a scaffold: what the contract asks for since, put in beside the answers; no line there changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tutti_hal.errors import AnswersInvalid
from tutti_hal.scaffold import answers
from tutti_hal.scaffold.document import entry, flow
from tutti_hal.scaffold.model import ANY_ARCH, Path_, leaves, model_table
from tutti_hal.scaffold.package import NAMESPACE
from tutti_hal.scaffold.questions import open_lines


@dataclass(frozen=True)
class Update:
    """What an update did, as places in the record.

    Attributes:
        added: written and marked.
        known: new, and there already.
        gone: asked for once, no longer in the model, and still in the record.
        open: marked lines of the record now.
    """

    added: tuple[str, ...]
    known: tuple[str, ...]
    gone: tuple[str, ...]
    open: int


def update(name: str, folder: Path, table: Mapping[str, Any] | None = None) -> Update:
    """Add to a scaffold's record what is new.

    Args:
        name: the vendor's.
        folder: the scaffold's.
        table: the model's record; the installed one when None.

    Raises:
        AnswersInvalid: there is no scaffold of this vendor, or its record cannot be read.
    """
    kept = answers.read(folder)
    tried = f"update the scaffold in {folder}"
    if kept.name != name:
        raise AnswersInvalid(tried, f"it is the scaffold of '{kept.name}', not of '{name}'", f"Name {kept.name}.")
    file = folder / NAMESPACE / name / "vendor.yaml"
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise AnswersInvalid(tried, f"its record cannot be read: {error}", "Put it back.") from error
    model = dict(leaves(table or model_table(name, kept.title)))
    added, known = [], []
    for place, value in model.items():
        if place in kept.asked:
            continue
        for one in _own(_load(text, tried), place):
            if _has(_load(text, tried), one):
                known.append(".".join(one))
            else:
                text = _insert(text, one, place, value)
                added.append(".".join(one))
    there = _load(text, tried)
    gone = [".".join(one) for p in sorted(kept.asked - set(model)) for one in _own(there, p) if _has(there, one)]
    file.write_text(text, encoding="utf-8")
    answers.write(folder, replace(kept, asked=kept.asked | set(model)))
    return Update(tuple(added), tuple(known), tuple(gone), open_lines(text))


def _load(text: str, tried: str) -> Mapping[str, Any]:
    import yaml

    try:
        table = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise AnswersInvalid(tried, f"its record is no YAML: {error}", "Mend it first.") from error
    if not isinstance(table, Mapping):
        raise AnswersInvalid(tried, "its record is no mapping", "Mend it first.")
    return table


def _own(table: Mapping[str, Any], place: Path_) -> list[Path_]:
    """A place of the model in the vendor's record: once for each arch that the vendor has."""
    if ANY_ARCH not in place:
        return [place]
    return [(place[0], str(arch), *place[2:]) for arch in table.get("archs", {})]


def _has(table: Any, place: Path_) -> bool:
    for key in place:
        if not isinstance(table, Mapping) or key not in table:
            return False
        table = table[key]
    return True


def _insert(text: str, own: Path_, asked: Path_, value: Any) -> str:
    """The text with a fact behind the last one of the mapping that it belongs to."""
    import yaml

    node: Any = yaml.compose(text)
    depth = 0
    while depth < len(own) - 1:
        found = next((v for k, v in node.value if k.value == own[depth]), None)
        if not isinstance(found, yaml.MappingNode):
            break
        node, depth = found, depth + 1
    missing: Any = value
    for key in reversed(own[depth + 1 :]):
        missing = {key: missing}
    last = max((v.end_mark.index for _, v in node.value), default=node.start_mark.index + 1)
    if node.flow_style:
        comma = "," if node.value and not text[last:].lstrip().startswith(",") else ""
        after = text[last:] if comma or not node.value else text[last:].lstrip().removeprefix(",")
        front = text[:last] + (comma or ("," if node.value else ""))
        return f"{front} {flow(own[depth])}: {flow(missing)}{'' if after.lstrip().startswith('}') else ','}{after}"
    indent = node.value[0][0].start_mark.column
    lines = "\n".join(entry(own[depth], missing, asked[: depth + 1] if missing is not value else asked, indent))
    end = _end_of_block(text, node)
    return f"{text[:end]}{lines}\n{text[end:]}"


def _end_of_block(text: str, node: Any) -> int:
    """Where the line behind a block mapping's last fact begins."""
    last = node.value[-1][1]
    at: int = last.end_mark.index
    if at > 0 and text[at - 1] == "\n":  # a block's mark lies behind what follows it
        return len(text[:at].rstrip()) + 1
    body = text[:at].rstrip()
    newline = text.find("\n", len(body))
    return len(text) if newline < 0 else newline + 1
