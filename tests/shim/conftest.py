"""Devices of both modes with a module of small rendered kernels."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tutti_hal.paths import templates_dir
from tutti_hal.profile import Profile, resolve
from tutti_hal.shim import Device, Module, Stream
from tutti_hal.toolchain import build

KERNELS = Path(__file__).parent / "kernels"
ARCHS = ("threads-w32", "sim-w32")


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("templates")
    shutil.copytree(templates_dir() / "layers", root / "layers")
    shutil.copytree(KERNELS, root / "kernels")
    (root / "structs").mkdir()
    return root


@pytest.fixture(scope="session")
def module_path(templates: Path) -> Callable[[str], Path]:
    def path(arch: str) -> Path:
        return build(resolve(f"host:{arch}"), "shim", templates=templates).path

    return path


@pytest.fixture(params=ARCHS)
def arch(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def profile(arch: str) -> Profile:
    return resolve(f"host:{arch}")


@pytest.fixture
def device(profile: Profile) -> Iterator[Device]:
    device = Device(profile)
    yield device
    device.reset()


@pytest.fixture
def stream(device: Device) -> Iterator[Stream]:
    with device.create_stream() as stream:
        yield stream


@pytest.fixture
def module(device: Device, arch: str, module_path: Callable[[str], Path]) -> Module:
    return device.load_module(module_path(arch))
