"""The vectors are what the headers say: the generators are compiled again where the headers are installed."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from vector_names import KERNEL, LIBNVME, UAPI, VECTORS, vectors

# ---- the vectors themselves ----


def _regenerate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nvme_vectors_regenerate", VECTORS / "regenerate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["libnvme", "uapi", "kernel"])
def test_vectors_are_what_the_headers_say(name: str) -> None:
    """Compiles the generator again where the headers are installed; other versions must still agree."""
    module = _regenerate()
    try:
        fresh = getattr(module, name)()
    except module.Missing as missing:
        pytest.skip(f"the headers of {name}.json are not installed: {missing}")
    kept = vectors(name)
    assert fresh["structures"] == kept["structures"]
    assert fresh["constants"] == kept["constants"]
    assert fresh.get("commands") == kept.get("commands")


def test_vectors_name_their_source() -> None:
    assert LIBNVME["source"]["libnvme"]
    assert KERNEL["source"]["linux"]
    assert UAPI["source"]["linux"]
