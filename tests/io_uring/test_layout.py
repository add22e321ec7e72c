"""The two halves agree: numbers by name, sizes by the specification, division by every length."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.io_uring import options, ring
from tutti_hal.io_uring.layout import Health, State, Why, reciprocal, structs
from tutti_hal.paths import templates_dir

pytestmark = pytest.mark.ring


def numbers() -> dict[str, int]:
    text = "\n".join(path.read_text() for path in sorted((templates_dir() / "kernels").glob("ring*.j2")))
    return {name: int(value) for name, value in re.findall(r"constexpr uint32_t (RING_\w+) = (\d+);", text)}


def test_numbers_of_the_two_halves_agree() -> None:
    device = numbers()
    for state in State:
        assert device.pop(f"RING_{state.name}") == state
    for health in Health:
        assert device.pop(f"RING_HEALTH_{health.name}") == health
    for why in Why:
        if why is not Why.UNREACHED:
            assert device.pop(f"RING_WHY_{why.name}") == why
    assert device["RING_BURST"] == ring.BURST
    assert device["RING_CLASSES"] == options.MAX_CLASSES


def test_records_have_the_sizes_that_the_wire_and_the_caches_ask_for() -> None:
    sizes = {name: entry.size for name, entry in structs().items()}
    assert sizes["ring_cqe"] == 16
    assert sizes["ring_request"] == sizes["ring_status"] == 32
    assert sizes["ring_queue_state"] % 128 == 0
    offsets = structs()["ring_queue_state"].offsets
    lines = {name: offsets[name] // 128 for name in ("doorbell", "credits", "completion", "retired", "doorbells")}
    assert len(set(lines.values())) == len(lines)


@given(index=st.integers(0, 2**64 - 1), length=st.integers(1, 2**16))
def test_the_device_divides_exactly(index: int, length: int) -> None:
    """ring_place_of, step by step in 64 bits."""
    lap = index * reciprocal(length) >> 64
    slot = index - lap * length
    if slot >= length:
        slot -= length
        lap += 1
    assert (lap, slot) == divmod(index, length)


@pytest.mark.parametrize("a", [0, 1, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1])
@pytest.mark.parametrize("b", [0, 1, 2**32 - 1, 2**33 + 7, 2**64 - 1])
def test_the_high_half_of_a_product(a: int, b: int) -> None:
    """ring_multiply_high, step by step."""
    low, mask = 2**32 - 1, 2**64 - 1
    middle = ((a >> 32) * (b & low) + ((a & low) * (b & low) >> 32)) & mask
    rest = ((a & low) * (b >> 32) + (middle & low)) & mask
    assert ((a >> 32) * (b >> 32) + (middle >> 32) + (rest >> 32)) & mask == a * b >> 64
