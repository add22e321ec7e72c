"""One tree of errors: each has a stable id of its own, says what it is, and lives in one of two places."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tutti_hal import errors
from tutti_hal.conformance_tests import errors as suite_errors
from tutti_hal.errors import TuttiError

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "tutti_hal" / "errors"


def tree(root: type[TuttiError] = TuttiError) -> list[type[TuttiError]]:
    return [root, *(each for child in root.__subclasses__() for each in tree(child))]


#: The conformance suite's errors, which the core does not import.
SUITE = suite_errors.__name__

#: The package's own; a test may have subclasses of its own beside them.
EVERY = sorted({each for each in tree() if each.__module__.startswith("tutti_hal.")}, key=lambda each: each.__name__)
CLASSES = [each for each in EVERY if each.__module__ != SUITE]


@pytest.mark.parametrize("error", EVERY, ids=lambda error: error.__name__)
def test_each_says_what_it_is_and_carries_an_id_of_its_own(error: type[TuttiError]) -> None:
    assert re.fullmatch(r"TT(-[A-Z0-9]+)+", vars(error)["id"])
    assert (error.__dict__["__doc__"] or "").strip()


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_the_core_has_them_in_one_package(error: type[TuttiError]) -> None:
    assert error.__module__.startswith("tutti_hal.errors.")
    assert getattr(errors, error.__name__) is error
    assert error.__name__ in errors.__all__


def test_no_two_share_an_id() -> None:
    assert len(CLASSES) > 50
    assert len(EVERY) > len(CLASSES)
    assert [name for name, count in Counter(each.id for each in EVERY).items() if count > 1] == []


def test_what_is_exported_is_the_tree() -> None:
    assert sorted(errors.__all__) == [each.__name__ for each in CLASSES]


def test_no_other_file_defines_one() -> None:
    """By the source, so that a module which no test imports counts as well."""
    typed = {each.__name__ for each in EVERY}
    bare = {"Exception", "BaseException", "RuntimeError", "ValueError", "OSError"}
    guilty = []
    for folder in ("tutti_hal", "backends", "conformance_tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if PLACE in path.parents or path == ROOT / "conformance_tests" / "errors.py":
                continue
            # Inside, the suite has exceptions that end a run or a case, and that nobody outside meets.
            names = typed if folder == "conformance_tests" else typed | bare
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and {ast.unparse(base).split(".")[-1] for base in node.bases} & names:
                    guilty.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert not guilty


def test_text_has_id_what_was_tried_found_and_the_fix() -> None:
    assert str(errors.RingBusy("stop", "a batch flies", "Wait.")) == "[TT-RING-BUSY] stop: a batch flies. Wait."
