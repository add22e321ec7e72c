"""docs/porting.md, as it is printed: a port from nothing, outside the project, found by entry point."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.porting, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def _helper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("porting_tutorial", Path(__file__).with_name("tutorial.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tutorial = _helper()
STEPS = list(tutorial.steps(tutorial.PAGE.read_text(encoding="utf-8")))


def shows(printed: str, shown: str) -> bool:
    """Whether some line of what was printed begins with a line of the page."""
    return any(line.startswith(shown.rstrip()) for line in printed.splitlines())


@pytest.fixture(scope="module")
def ported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A workplace in which every step but the slow ones was taken; what each command of the page shows was printed."""
    before = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False)
    place = tutorial.Workplace(tmp_path_factory.mktemp("port"))
    for step in STEPS:
        if isinstance(step, tutorial.Edit):
            place.edit(step)
        elif not step.slow:
            printed = place.run(step.line)
            assert [line for line in step.shown if not shows(printed, line)] == [], f"$ {step.line}\n{printed}"
    after = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert before.stdout == after.stdout, "the port changed the project"
    return place


@pytest.mark.timeout(600)
def test_the_tutorial_does_what_it_shows(ported: Any) -> None:
    commands = [step for step in STEPS if isinstance(step, tutorial.Command)]
    assert len(commands) >= 9
    assert sum(step.line.startswith("tutti-hal port-status") for step in commands) >= 6
    assert ported.backend.is_dir()


def test_the_port_is_small(ported: Any) -> None:
    """At most 400 lines in 6 files beside ``pyproject.toml`` and ``__init__.py``."""
    files = [path for path in ported.project.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    counted = [path for path in files if path.name not in ("pyproject.toml", "__init__.py")]
    lines = {str(path.relative_to(ported.project)): len(path.read_text("utf-8").splitlines()) for path in counted}
    assert len(lines) <= 6, lines
    assert sum(lines.values()) <= 400, lines
    assert max(len(line) for path in counted for line in path.read_text("utf-8").splitlines()) <= 120


@pytest.mark.timeout(300)
def test_the_wheel_is_found_by_entry_point(ported: Any) -> None:
    """Installed again as a wheel, from nothing but the project's folder."""
    ported.install()
    assert not list(ported.site.glob("*.pth"))
    found = {row["vendor"]: row for row in json.loads(ported.run("tutti-hal profiles --json"))["candidates"]}
    assert found["acme"]["package"] == "tutti-hal-acme 0.1.0"
    assert (found["acme"]["kind"], found["acme"]["usable"]) == ("hardware", False)
    assert (found["acme-sim"]["kind"], found["acme-sim"]["usable"]) == ("simulated", True)


@pytest.mark.timeout(300)
def test_the_quirk_takes_effect_in_its_versions_alone(ported: Any) -> None:
    script = (
        "from tutti_hal.shim import Device\n"
        "print([Device(f'acme-sim:ax100@{v}').runtime.capable('memory.pools') for v in ('2.1.0', '1.0.0')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ported.site)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.strip() == "[True, False]", done.stderr


def reds(evidence: Path) -> dict[str, str]:
    """Id -> verdict and reason of what blocks a level in a package."""
    rows = [json.loads(line) for line in (evidence / "verdicts.jsonl").read_text("utf-8").splitlines()]
    return {row["id"]: f"{row['verdict']}: {row['reason']}" for row in rows if row["blocks"]}


@pytest.mark.suite
@pytest.mark.timeout(1200)
def test_the_port_is_green_up_to_the_ring(ported: Any) -> None:
    """The slow commands of the page. On few or busy cores nothing may contend, on HOST as here: that is no finding."""
    certify, status = [step for step in STEPS if isinstance(step, tutorial.Command) and step.slow]
    ported.run(certify.line, ends=(0, 1))
    evidence = ported.folder / "out" / "acme-sim"
    levels = {row["level"]: row for row in json.loads((evidence / "run.json").read_text("utf-8"))["ladder"]["levels"]}
    assert levels["L5"]["counts"]["PASS"] > 200
    red = reds(evidence)
    idle = {name for name, why in red.items() if why.startswith("INCONCLUSIVE") and "nothing contended" in why}
    assert set(red) - idle == set(), red
    printed = ported.run(status.line)
    if idle:
        assert f"L3 is incomplete ({len(idle)} INCONCLUSIVE)" in printed
    else:
        assert [line for line in status.shown if not shows(printed, line)] == [], printed
    assert f"kept in {Path('out') / 'acme-sim'}" in printed
