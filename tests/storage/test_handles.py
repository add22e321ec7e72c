"""Handles: good once, in one runtime, until what they name is closed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_rig import Rig

from tutti_hal.errors import HandleInvalid, StorageExhausted
from tutti_hal.storage import Operation, Reason, Status, make_requests
from tutti_hal.storage.handles import Kind, SlotTable, new_runtime_number

pytestmark = pytest.mark.storage


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 90)), max_size=30))
@settings(max_examples=40, deadline=None)
def test_no_handle_is_ever_given_twice(steps: list[tuple[bool, int]]) -> None:
    table = SlotTable(Kind.MEMORY, new_runtime_number(), {"x": "<u8"})
    live: list[int] = []
    seen: set[int] = set()
    dead: list[int] = []
    for give, count in steps:
        if give and live:
            gone, live = live[:count], live[count:]
            slots, good = table.find(np.array(gone, np.uint64))
            assert good.all()
            table.give(slots)
            dead += gone
        else:
            fresh = table.handles(table.take(count, "t")).tolist()
            assert not seen & set(fresh)
            assert 0 not in fresh
            seen |= set(fresh)
            live += fresh
    assert table.live == len(live) == len(table.live_slots)
    if live:
        assert table.find(np.array(live, np.uint64))[1].all()
    if dead:
        assert not table.find(np.array(dead, np.uint64))[1].any()


def test_a_slot_whose_generations_are_used_up_is_left() -> None:
    table = SlotTable(Kind.IO, 5, {}, limit=1)
    table.take(1, "t")
    table.rows["uses"][0] = (1 << 22) - 1
    table.give(np.array([0]))
    with pytest.raises(StorageExhausted):
        table.take(1, "t")


@pytest.mark.parametrize("wrong", [0, 1, -1, 1 << 64, (1 << 64) - 1])
def test_numbers_that_are_no_handles(wrong: int) -> None:
    table = SlotTable(Kind.TARGET, 5, {})
    table.take(3, "t")
    with pytest.raises(HandleInvalid, match="no target handle of this runtime"):
        table.require(wrong, "t")


def test_another_kind_and_another_runtime() -> None:
    tables = [SlotTable(kind, runtime, {}) for kind in (Kind.MEMORY, Kind.TARGET) for runtime in (5, 6)]
    handles = [int(table.handles(table.take(1, "t"))[0]) for table in tables]
    for at, table in enumerate(tables):
        assert table.find(np.array(handles, np.uint64))[1].tolist() == [n == at for n in range(len(tables))]


def test_handles_across_runtimes_and_after_close() -> None:
    with Rig() as one, Rig() as other:
        target, memory = one.runtime.open("raw://d0"), one.runtime.allocate(4096)
        their, own = other.runtime.open("raw://d0"), other.runtime.allocate(4096)
        requests = make_requests(
            Operation.READ, [target, their, their], nbytes=4096, memory=[own.handle, memory.handle, own.handle]
        )
        said = other.runtime.submit(requests)
        assert said.initial["reason"].tolist() == [Reason.TARGET_HANDLE, Reason.MEMORY_HANDLE, Reason.NONE]
        assert said.initial["status"].tolist() == [Status.NOT_FOUND, Status.NOT_FOUND, Status.PENDING]
        assert said.io is not None
        with pytest.raises(HandleInvalid):
            one.runtime.wait(said.io)
        other.runtime.wait(said.io)
        for call in (other.runtime.close, other.runtime.target, other.runtime.unregister, other.runtime.release):
            with pytest.raises(HandleInvalid):
                call(target)
        other.runtime.close(their)
        other.runtime.unregister(own)
        other.runtime.release(said.io)
        for call, handle in (
            (other.runtime.close, their),
            (other.runtime.unregister, own.handle),
            (other.runtime.release, said.io),
            (other.runtime.wait, said.io),
            (other.runtime.query, said.io),
        ):
            with pytest.raises(HandleInvalid, match="or what it named is closed"):
                call(handle)
        # The same slots are used again, under other handles.
        assert other.runtime.open("raw://d0") != their
        assert other.runtime.allocate(4096).handle != own.handle
