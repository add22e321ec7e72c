"""What the house promises of itself: documents that are there and true, and no path of a machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked_text() -> dict[Path, str]:
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    texts = {}
    for name in filter(None, names):
        path = ROOT / name
        if path.is_file():
            try:
                texts[path] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    assert len(texts) > 50
    return texts


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/gates.md",
        "docs/dependencies.md",
    ],
)
def test_the_documents_are_there(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8")) > 300


def test_architecture_fits_on_a_page() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 80


def test_no_path_of_a_machine_and_no_registry_host() -> None:
    hosts = "pypi\\.o" + "rg|debian\\.o" + "rg|pythonhoste" + "d"
    # A folder of that name below another one, as in a list of files, is no machine's.
    forbidden = re.compile("(?<![\\w>])/(?:wor" + "k|roo" + "t)/|/home/[a-z]|" + hosts)
    guilty = [f"{path.relative_to(ROOT)}" for path, text in tracked_text().items() if forbidden.search(text)]
    assert not guilty


def test_gates_page_is_the_table_that_runs() -> None:
    namespace: dict[str, object] = {"__name__": "gates", "__file__": str(ROOT / ".ci" / "gates.py")}
    import sys
    import types

    module = types.ModuleType("gates")
    sys.modules["gates"] = module
    module.__dict__.update(namespace)
    exec(compile((ROOT / ".ci/gates.py").read_text(encoding="utf-8"), "gates.py", "exec"), module.__dict__)
    page = (ROOT / "docs/gates.md").read_text(encoding="utf-8").split("## Long forms")[0]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (\d+) \|", page, flags=re.M))
    assert rows == {gate.name: str(gate.budget_s) for gate in module.GATES}


def test_every_direct_dependency_is_explained() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["project"]["dependencies"] + project["build-system"]["requires"]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    for requirement in wanted:
        name = re.split(r"[<>=\[; ]", requirement)[0]
        assert f"`{name}`" in page, f"docs/dependencies.md does not say why {name} was chosen"
        assert re.search(r"<\d", requirement), f"{requirement} has no upper bound"


def test_gates_page_is_the_table_of_long_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    nightly = importlib.import_module("nightly")
    page = (ROOT / "docs/gates.md").read_text(encoding="utf-8").split("## Long forms")[1]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (\d+) \|", page, flags=re.M))
    assert rows == {part.name: str(part.budget_s) for part in nightly.PARTS}
