"""The trace format: what is read, what is refused, and that a refusal names file, line, fault and fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.errors import TraceError
from tutti_hal.workload.trace import TraceRequest, parse_line, read_trace, write_trace

GOOD = '{"timestamp": 3000, "input_length": 1000, "output_length": 7, "hash_ids": [0, 9]}'


@st.composite
def requests(draw: st.DrawFn) -> TraceRequest:
    ids = tuple(draw(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=40, unique=True)))
    last = draw(st.integers(1, 512))
    return TraceRequest(draw(st.integers(0, 10**12)), (len(ids) - 1) * 512 + last, draw(st.integers(0, 10**6)), ids)


@given(st.lists(requests(), min_size=1, max_size=10))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, items: list[TraceRequest]) -> None:
    items.sort(key=lambda r: r.timestamp_ms)
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    write_trace(path, items)
    assert read_trace(path) == tuple(items)
    assert read_trace(path, limit=1) == tuple(items[:1])


def test_published_form_is_read_field_by_field(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(GOOD + "\n\n  \n" + GOOD)  # blank lines, no newline at the end
    assert read_trace(path) == (TraceRequest(3000, 1000, 7, (0, 9)),) * 2


@pytest.mark.parametrize(
    ("line", "found", "fix"),
    [
        ('{"timestamp": 0', "not JSON", "cut"),
        ("hello", "not JSON", "Repair"),
        ("[1, 2]", "a JSON list", "timestamp, input_length"),
        ('"text"', "a JSON str", "timestamp"),
        ("[" * 100_000, "not JSON", "Repair"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1}', "no field 'hash_ids'", "needs timestamp"),
        ('{"time": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}', "'time'", "needs timestamp"),
        (GOOD.replace("3000", '"3000"'), "timestamp is '3000'", "integer"),
        (GOOD.replace("3000", "-1"), "timestamp is -1", "between 0"),
        (GOOD.replace("3000", "true"), "timestamp is True", "integer"),
        (GOOD.replace("3000", "1.5"), "timestamp is 1.5", "integer"),
        (GOOD.replace("3000", "NaN"), "timestamp is nan", "integer"),
        (GOOD.replace("3000", "9" * 5000), "not JSON that can be read", "Repair"),
        (GOOD.replace("1000", "0"), "input_length is 0", "between 1"),
        (GOOD.replace("1000", "512"), "2 hash_ids for input_length 512", "Give 1"),
        (GOOD.replace("1000", "1025"), "2 hash_ids for input_length 1025", "Give 3"),
        (GOOD.replace("[0, 9]", '"0 9"'), "hash_ids is '0 9'", "list"),
        (GOOD.replace("[0, 9]", "[0, null]"), "hash_ids[1] is None", "integer"),
        (GOOD.replace("[0, 9]", "[0, -9]"), "hash_ids[1] is -9", "integer"),
        (GOOD.replace("[0, 9]", "[0, 9.0]"), "hash_ids[1] is 9.0", "integer"),
        (GOOD.replace("[0, 9]", "[0, 9223372036854775808]"), "hash_ids[1]", "2^63"),
        (GOOD.replace("[0, 9]", "[9, 9]"), "hash id 9 stands twice", "number it anew"),
    ],
)
def test_broken_line_is_refused_with_file_line_fault_and_fix(tmp_path: Path, line: str, found: str, fix: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n{GOOD}\n")
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert f"{path}:3" in caught.value.tried
    assert found in caught.value.found
    assert fix in caught.value.fix


@pytest.mark.parametrize("length", [513, 1024])
def test_neighbours_of_refused_lengths_are_good(length: int) -> None:
    assert parse_line(GOOD.replace("1000", str(length)), "x:1").input_length == length


@given(st.text(max_size=200))
def test_any_text_is_a_request_or_a_typed_refusal(line: str) -> None:
    try:
        parsed = parse_line(line, "x:1")
    except TraceError:
        return
    assert parse_line(parsed.to_json(), "x:1") == parsed


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["timestamp", "input_length", "output_length", "hash_ids", "x"]), inner, max_size=5
            )
        ),
    )
)
def test_any_json_is_a_request_or_a_typed_refusal(value: object) -> None:
    try:
        parse_line(json.dumps(value), "x:1")
    except TraceError as error:
        refused = error
    else:
        return
    assert refused.found
    assert refused.fix


def test_time_must_not_run_backwards(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(GOOD + "\n" + GOOD.replace("3000", "2999"))
    with pytest.raises(TraceError, match="2999 comes after 3000"):
        read_trace(path)


def test_lines_behind_the_limit_are_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(GOOD + "\nbroken\n")
    assert len(read_trace(path, limit=1)) == 1


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_empty_trace_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="no request"):
        read_trace(path)


def test_compressed_file_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD.encode() + b"\n\x1f\x8b\x08\xff\xfe")
    with pytest.raises(TraceError, match=r"t\.jsonl:2.*UTF-8.*compressed"):
        read_trace(path)


@pytest.mark.parametrize("name", ["absent.jsonl", "."])
def test_unreadable_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match="opening the trace"):
        read_trace(tmp_path / name)
