"""Markers of the tests: each that is declared marks something, and what belongs to the ring says so."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
DECLARED = [line.split(":")[0] for line in PROJECT["markers"]]


def marks(nodes: list[ast.AST]) -> set[str]:
    """Names that ``pytest.mark`` is asked for in some part of a module."""
    return {
        node.attr
        for top in nodes
        for node in ast.walk(top)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark"
    }


def module_marks(text: str) -> set[str]:
    """Names of the markers of every test of a module."""
    tree = ast.parse(text)
    return marks(
        [
            node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        ]
    )


def belongs_to_the_ring(path: Path, text: str) -> bool:
    inside = {"io_uring", "models"} & set(path.relative_to(ROOT).parts)
    return bool(inside) or re.search(r"^from tutti_hal\.io_uring", text, flags=re.M) is not None


def test_markers_are_strict() -> None:
    assert "--strict-markers" in PROJECT["addopts"]


def test_a_declared_marker_marks_some_test() -> None:
    """``pytest -m NAME`` that collects nothing would look like a pass to whoever reads only its last line."""
    used: set[str] = set()
    for path in TESTS:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        if tests:
            used |= marks([mark for test in tests for mark in test.decorator_list])
            used |= marks([node for node in tree.body if isinstance(node, ast.Assign)])
    assert [name for name in DECLARED if name not in used] == []


RING = [path for path in TESTS if path.name.startswith("test_")]


def test_what_belongs_to_the_ring_says_so() -> None:
    found = {path: path.read_text(encoding="utf-8") for path in RING}
    ours = {path: text for path, text in found.items() if belongs_to_the_ring(path, text)}
    assert len(ours) > 10
    assert [str(path.relative_to(ROOT)) for path, text in ours.items() if "ring" not in module_marks(text)] == []


def test_the_check_reads_both_forms() -> None:
    assert module_marks("pytestmark = pytest.mark.ring") == {"ring"}
    assert module_marks("pytestmark = [pytest.mark.slow, pytest.mark.timeout(3)]") == {"slow", "timeout"}
    assert module_marks("x = pytest.mark.ring") == set()
