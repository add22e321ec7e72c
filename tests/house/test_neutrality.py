"""The core names no vendor, and the layers look only downwards."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENDOR = re.compile(r"\b(cuda|musa|maca|hip|nvcc|nvidia|moore|metax)\b", re.IGNORECASE)
ALLOWED = re.compile(r"cuda_like|__cuda_array_interface__")


def tracked(pattern: str) -> list[Path]:
    """The files of the repository that match a git pathspec, as they are in the working tree."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", pattern],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    found = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    assert found, f"no file matches {pattern}: the check would be vacuous"
    return found


def vendor_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if VENDOR.search(ALLOWED.sub("", line))]


def imported(path: Path) -> set[str]:
    """Every absolute module name that a Python file imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_core_names_no_vendor() -> None:
    guilty = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in tracked("tutti_hal/*.py")
        for line in vendor_lines(path.read_text(encoding="utf-8"))
    }
    assert not guilty, "\n".join(sorted(guilty))


def test_conformance_names_no_vendor() -> None:
    """The suite is the same for everybody; only transcribed vendors and certificates may name one."""
    guilty = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in tracked("conformance_tests/*.py")
        if path.relative_to(ROOT).parts[1] not in ("simulated", "registry")
        for line in vendor_lines(path.read_text(encoding="utf-8"))
    }
    assert not guilty, "\n".join(sorted(guilty))


@pytest.mark.parametrize("line", ["import cuda", "# on HIP this", "'nvcc'"])
def test_the_check_sees_a_vendor(line: str) -> None:
    assert vendor_lines(line)


@pytest.mark.parametrize("line", ["cuda_like.h", "__cuda_array_interface__", "the ship", "hipster"])
def test_the_check_lets_neutral_words_pass(line: str) -> None:
    assert not vendor_lines(line)


def test_core_imports_no_backend() -> None:
    guilty = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in tracked("tutti_hal/*.py")
        for name in imported(path)
        if name.startswith(("tutti_hal.backends", "tutti_hal.conformance_tests", "backends", "conformance_tests"))
    }
    assert not guilty, "\n".join(sorted(guilty))


def test_backends_import_only_the_core() -> None:
    guilty = set()
    for path in tracked("backends/*.py"):
        own = path.relative_to(ROOT).parts[1]
        for name in imported(path):
            if name.startswith("tutti_hal.backends.") and name.split(".")[2] != own:
                guilty.add(f"{path.relative_to(ROOT)} imports {name}")
            if name.startswith("tutti_hal.conformance_tests"):
                guilty.add(f"{path.relative_to(ROOT)} imports {name}")
    assert not guilty, "\n".join(sorted(guilty))


def test_no_vendor_name_and_no_raw_keyword_in_kernel_templates() -> None:
    raw = re.compile(r"__\w+__|\bthreadIdx\b|\bblockIdx\b|\batomic[A-Z]\w*|\basm\b|\bvolatile\b")
    guilty = set()
    for path in tracked("kernels_templates/kernels/*.j2"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = re.sub(r"//.*|/\*.*?\*/|\{#.*?#\}", "", line)
            if vendor_lines(code) or raw.search(code):
                guilty.add(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not guilty, "\n".join(sorted(guilty))
