"""One package for all tests of a run; who tampers takes a copy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import packages

from tutti_hal.conformance_tests.package.writer import write_package
from tutti_hal.conformance_tests.session import Session


@pytest.fixture(scope="session")
def good_session() -> Session:
    """A run of one case on one arch."""
    return packages.run(packages.options())


@pytest.fixture(scope="session")
def good_package(good_session: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its package. Leave it alone."""
    return write_package(tmp_path_factory.mktemp("packages") / "good", good_session)


@pytest.fixture(scope="session")
def planted_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with every verdict that a run can show. Leave it alone."""
    return write_package(tmp_path_factory.mktemp("packages") / "planted", packages.run_planted())


@pytest.fixture
def planted(planted_package: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    return packages.copy(planted_package, tmp_path / "planted")


@pytest.fixture
def package(good_package: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    return packages.copy(good_package, tmp_path / "package")


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Session], Path]:
    """Writes a session's package into a folder of its own."""
    number = iter(range(100))
    return lambda session: write_package(tmp_path / f"written{next(number)}", session)
