"""The container of a compiled module: what is wrapped comes back, and what is no container is refused."""

from __future__ import annotations

import pytest

from tutti_hal.conformance_tests.simulated.container import HEADER_BYTES, unwrap, wrap


def test_the_layout_is_what_the_readme_says() -> None:
    image = wrap("musa", "mp_31", b"\x7fELF...")
    assert HEADER_BYTES == 64
    assert image[:8] == b"TTSIMMOD"
    assert int.from_bytes(image[8:12], "little") == 1
    assert int.from_bytes(image[12:16], "little") == 64
    assert image[16:32] == b"musa".ljust(16, b"\0")
    assert image[32:56] == b"mp_31".ljust(24, b"\0")
    assert int.from_bytes(image[56:64], "little") == 7
    assert image[64:] == b"\x7fELF..."


def test_what_was_wrapped_comes_back() -> None:
    assert unwrap(wrap("maca", "xcore1000", b"payload") + b"slack") == ("maca", "xcore1000", b"payload")


@pytest.mark.parametrize(("vendor", "arch"), [("", "mp_31"), ("m" * 16, "a"), ("musa", "ä"), ("musa", "a" * 24)])
def test_a_name_that_does_not_fit_is_refused(vendor: str, arch: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        wrap(vendor, arch, b"")


@pytest.mark.parametrize(
    "image",
    [b"", b"\x7fELF" + bytes(80), wrap("musa", "mp_31", b"12345678")[:-1], b"TTSIMMOD\x02" + bytes(80)],
    ids=["empty", "elf", "cut", "version"],
)
def test_what_is_no_container_is_refused(image: bytes) -> None:
    with pytest.raises(ValueError, match=r"container|payload"):
        unwrap(image)
