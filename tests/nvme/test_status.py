"""The status field, the retry classes, and what a host may do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.errors import NvmeFieldRange
from tutti_hal.nvme.cqe import Cqe
from tutti_hal.nvme.status import Retry, Status, table


@given(field=st.integers(0, (1 << 15) - 1))
def test_field_round_trip(field: int) -> None:
    status = Status.from_field(field)
    assert status.field == field
    assert status.ok == (field & 0x7FF == 0)
    # As a polling host sees it: dword 3 of the CQE, shifted by 17.
    dword3 = field << 17 | 1 << 16 | 0x1234
    cqe = Cqe.decode(bytes(12) + dword3.to_bytes(4, "little"))
    assert cqe.status == status
    assert cqe.phase
    assert cqe.cid == 0x1234


@pytest.mark.parametrize("value", [-1, 1 << 15, 0xFFFF])
def test_a_field_with_the_phase_still_in_it_is_refused(value: int) -> None:
    with pytest.raises(NvmeFieldRange):
        Status.from_field(value)


@pytest.mark.parametrize("parts", [{"sct": 8}, {"sc": 256}, {"crd": 4}, {"sct": -1}])
def test_parts_have_ranges(parts: dict[str, int]) -> None:
    with pytest.raises(NvmeFieldRange):
        Status(**parts)


# Facts: which statuses may be tried again, by hand.
AT_ONCE = {(0, 0x04), (0, 0x05), (0, 0x06), (0, 0x07), (0, 0x08), (0, 0x09), (0, 0x19), (0, 0x21), (0, 0x22)}
LATER = {(0, 0x1D), (0, 0x24), (0, 0x82), (0, 0x84), (1, 0x03), (1, 0x1D), (1, 0xB7), (1, 0xBD), (1, 0xBE)}


def test_retry_classes() -> None:
    for key, row in table().items():
        sct, sc = key
        if key == (0, 0):
            expected = Retry.NONE
        elif key in AT_ONCE:
            expected = Retry.IF_ALLOWED
        elif key in LATER:
            expected = Retry.LATER
        elif sct == 2:
            expected = Retry.DROP
        elif sct == 3:
            expected = Retry.PATH
        else:
            expected = Retry.NEVER
        assert row.retry is expected, row.name
        status = Status(sct=sct, sc=sc)
        assert status.may_retry == (key in AT_ONCE | LATER)
        assert not Status(sct=sct, sc=sc, dnr=True).may_retry


def test_rows_are_readable() -> None:
    names = [row.name for row in table().values()]
    assert len(set(names)) == len(names)
    for row in table().values():
        assert row.name == row.name.lower().replace("_", "-")
        assert row.text


def test_unknown_codes_have_a_name() -> None:
    assert Status(sct=7, sc=0x12).meaning.name == "vendor-7-12"
    assert Status(sct=0, sc=0xC3).meaning.name == "vendor-0-c3"
    assert Status(sct=2, sc=0x01).meaning.name == "unknown-2-01"
    assert not Status(sct=7, sc=1).may_retry


def test_text() -> None:
    assert str(Status(sct=2, sc=0x81, dnr=True, crd=1)) == "unrecovered-read-error (2/81h, DNR, CRD 1)"
    assert str(Status()) == "success (0/00h)"


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        table()[0, 0] = table()[0, 1]  # type: ignore[index]
