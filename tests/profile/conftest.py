"""Fake vendors: real entry points over real records, whose probes answer what a test wants."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tutti_hal import backend, profile
from tutti_hal.backend import Finding
from tutti_hal.paths import package_file

Plugin = Callable[..., EntryPoint]

_serial = itertools.count()

_MODULE = """
from pathlib import Path
from tutti_hal.backend import Descriptor, Probe
{before}
def probe():
    {probe}
DESCRIPTOR = Descriptor("{name}", {api}, Path(r"{folder}"), "{module}", probe)
"""


@pytest.fixture(autouse=True)
def _no_ambient_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the developer has set, or pinned at install, must not decide a test."""
    monkeypatch.delenv(profile.VARIABLE, raising=False)
    monkeypatch.delenv(backend.DISABLE_VARIABLE, raising=False)
    monkeypatch.setattr(profile, "pinned", lambda: None)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    """Makes an installed-looking backend and gives its entry point."""

    def make(
        name: str,
        *,
        usable: bool = True,
        kind: str = "hardware",
        archs: tuple[str, ...] = (),
        sdk: str | None = None,
        api: int = backend.API_VERSION,
        called: str | None = None,
        before: str = "",
        probe: str | None = None,
        record: Callable[[str], str] = lambda text: text,
    ) -> EntryPoint:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        text = package_file("backends", "cuda", "vendor.yaml").read_text(encoding="utf-8")
        text = text.replace("vendor: cuda", f"vendor: {name}").replace("kind: hardware", f"kind: {kind}")
        (folder / "vendor.yaml").write_text(record(text), encoding="utf-8")
        module = f"fake_{name}_{next(_serial)}"
        answer = probe or f"return Probe({usable}, 'the probe of {name}', {archs!r}, {sdk!r})"
        source = _MODULE.format(before=before, probe=answer, name=called or name, api=api, folder=folder, module=module)
        (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        return EntryPoint(name, f"{module}:DESCRIPTOR", backend.GROUP)

    return make


def found(*points: EntryPoint) -> list[Finding]:
    """Discover over these entry points alone."""
    return backend.discover(points, {})
