"""YAML as a tree that remembers where each value stands, and the list of what is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tutti_hal.errors import SpecError

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTRUCTOR = yaml.constructor.SafeConstructor()

_KINDS = {
    "tag:yaml.org,2002:str": "text",
    "tag:yaml.org,2002:int": "a whole number",
    "tag:yaml.org,2002:float": "a number with a fraction",
    "tag:yaml.org,2002:bool": "true or false",
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:timestamp": "a date",
}


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a file: where (1-based line, dotted key) and what."""

    file: Path
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key or '(top)'}: {self.text}"


@dataclass
class Problems:
    """Gathers everything wrong with a set of files, so that all of it is reported in one go."""

    found: list[Problem] = field(default_factory=list)

    def add(self, node: Node, text: str) -> None:
        """Note that ``node`` is wrong."""
        self.found.append(Problem(node.file, node.line, node.key, text))

    def raise_if_any(self, tried: str) -> None:
        """Raise one :class:`SpecError` that lists every problem, in file and line order; or return.

        The error's ``problems`` attribute holds them as :class:`Problem` records.
        """
        if not self.found:
            return
        unique = sorted(set(self.found), key=lambda p: (str(p.file), p.line, p.key, p.text))
        count = "1 problem" if len(unique) == 1 else f"{len(unique)} problems"
        listing = "".join(f"\n  {problem}" for problem in unique)
        fix = "Correct the lines named above; all problems are listed."
        raise SpecError(tried, f"{count}:{listing}\n", fix, tuple(unique))


@dataclass(frozen=True)
class Node:
    """One YAML node with its file, line and dotted key from the top of the file."""

    raw: yaml.Node
    file: Path
    key: str

    @property
    def line(self) -> int:
        """The 1-based line on which the node starts."""
        return int(self.raw.start_mark.line) + 1

    @property
    def is_map(self) -> bool:
        """Whether the node is a mapping."""
        return isinstance(self.raw, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        """Whether the node is a sequence."""
        return isinstance(self.raw, yaml.SequenceNode)

    @property
    def kind(self) -> str:
        """What the node is, in words for an error message."""
        if self.is_map:
            return "a mapping"
        if self.is_list:
            return "a list"
        return _KINDS.get(self.raw.tag, f"a value of type {self.raw.tag}")

    def scalar(self) -> object:
        """The Python value of a scalar (str, int, float, bool, None); a mapping or a list gives None."""
        if not isinstance(self.raw, yaml.ScalarNode):
            return None
        if self.raw.tag not in _KINDS or self.raw.tag.endswith("timestamp"):
            return str(self.raw.value)
        value: object = _CONSTRUCTOR.construct_object(self.raw)
        return value

    def items(self, problems: Problems) -> Iterator[tuple[str, Node, Node]]:
        """The (name, key node, value node) of a mapping; a duplicate or non-scalar key is a problem, and left out.

        What a merge key (``<<: *other``) brings comes last, without the names that the mapping gives itself.
        """
        first: dict[str, int] = {}
        merged: list[Node] = []
        assert isinstance(self.raw, yaml.MappingNode)
        for raw_key, raw_value in self.raw.value:
            if raw_key.tag == "tag:yaml.org,2002:merge" and isinstance(raw_value, yaml.MappingNode):
                merged.append(Node(raw_value, self.file, self.key))
                continue
            if not isinstance(raw_key, yaml.ScalarNode):
                problems.add(Node(raw_key, self.file, self.key), "a key must be a single word")
                continue
            name = str(raw_key.value)
            path = f"{self.key}.{name}" if self.key else name
            key_node = Node(raw_key, self.file, path)
            if name in first:
                problems.add(key_node, f"the key is already given on line {first[name]}")
                continue
            first[name] = key_node.line
            yield name, key_node, Node(raw_value, self.file, path)
        for other in merged:
            for name, key_node, value_node in other.items(problems):
                if name not in first:
                    first[name] = key_node.line
                    yield name, key_node, value_node

    def at(self, *path: str) -> Node:
        """The key node of the last name of ``path``; of as much of the path as exists."""
        here: Node = self
        for depth, name in enumerate(path, 1):
            pairs = here.items(Problems()) if here.is_map else ()
            found = next(((key, value) for word, key, value in pairs if word == name), None)
            if found is None:
                return here
            here = found[0] if depth == len(path) else found[1]
        return here

    def elements(self) -> Iterator[Node]:
        """The nodes of a sequence."""
        assert isinstance(self.raw, yaml.SequenceNode)
        for index, raw in enumerate(self.raw.value):
            yield Node(raw, self.file, f"{self.key}[{index}]")


def read(file: Path, text: str | None = None) -> Node:
    """The node graph of a YAML file; nothing is constructed from tags.

    Args:
        file: which; with a text, what it is called.
        text: what stands in it; None reads the file.

    Raises:
        SpecError: the file cannot be read, is empty, or is not YAML (with line and column).
    """
    if text is None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"read {file}", str(error), "Check the path and that the file is UTF-8 text.") from error
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        raise SpecError(f"parse {file}", f"{where}: {error.problem}", "Correct the YAML at that place.") from error
    except yaml.YAMLError as error:
        raise SpecError(f"parse {file}", str(error), "Correct the YAML.") from error
    if root is None:
        raise SpecError(f"parse {file}", f"{file}:1: the file is empty", "Write the table, or restore the file.")
    return Node(root, file, "")


def near_miss(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` when a known word is close to ``word``, else an empty string."""
    close = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
