"""What the tests of generation share: records, a copy of the templates to spoil, a cache of their own, an engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.codegen.engine import Engine
from tutti_hal.paths import package_file, templates_dir
from tutti_hal.profile import Profile, resolve
from tutti_hal.record import Record, load_record

VENDORS = ("host", "cuda")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files of generation again")


def record_of(vendor: str) -> Record:
    return load_record(package_file("backends", vendor))


@pytest.fixture(params=VENDORS)
def record(request: pytest.FixtureRequest) -> Record:
    return record_of(request.param)


@pytest.fixture
def host() -> Profile:
    return resolve("host")


@pytest.fixture
def cuda() -> Profile:
    """The CUDA profile on a machine that has nvcc."""
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc: install the CUDA toolkit")
    return resolve("cuda")


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A copy of the layers, with no kernels and no structs."""
    root = tmp_path / "templates"
    shutil.copytree(templates_dir() / "layers", root / "layers")
    (root / "kernels").mkdir()
    (root / "structs").mkdir()
    return root


@pytest.fixture
def kernel(templates: Path) -> Callable[..., Path]:
    """Writes ``kernels/t.cu.j2`` with one kernel of the given body, and gives the template root."""

    def write(body: str = "tt_pause();", before: str = "", params: str = '[("p", "tt_word32 *")]') -> Path:
        text = f'{before}{{% call kernel("t", {params}, max_threads=64) %}}\n{body}\n{{% endcall %}}\n'
        (templates / "kernels" / "t.cu.j2").write_text(text, encoding="utf-8")
        return templates

    return write


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made
