"""Packages of strangers: whatever they hold is a refusal, and never a traceback, a hang or a full memory."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import resource
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import packages
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutti_hal.conformance_tests.observation import TOTAL_LIMIT_BYTES, ObservationInvalid, decode, encode
from tutti_hal.conformance_tests.package import folder as reader
from tutti_hal.conformance_tests.package import jsontext, layout
from tutti_hal.conformance_tests.package.findings import Refusal, printable
from tutti_hal.conformance_tests.package.limits import OutOfTime, cpu_limit
from tutti_hal.conformance_tests.package.verification import verify
from tutti_hal.conformance_tests.package.yamlguard import guard

pytestmark = pytest.mark.suite


def refusals(package: Path) -> list[str]:
    cases = [packages.PLANTED] if package.name.startswith("planted") else []
    return [str(refusal) for refusal in verify([package], cases=cases).refusals]


def one(package: Path, start: str, words: str) -> None:
    found = refusals(package)
    assert any(line.startswith(f"refused: {start}") and words in line for line in found), found


def put(package: Path, name: str, data: bytes) -> None:
    (package / name).write_bytes(data)
    packages.rebuild(package)


# --- the folder -------------------------------------------------------------------------------------------------


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_link, "a symbolic link"),
        (_dangling, "a symbolic link"),
        (os.mkfifo, "a pipe"),
        (Path.mkdir, "a folder that no package has"),
    ],
)
@pytest.mark.parametrize("name", [layout.REPORT, layout.OBSERVATIONS])
def test_what_is_not_a_plain_file_is_not_opened(
    package: Path, name: str, make: Callable[[Path], None], words: str
) -> None:
    (package / name).unlink()
    make(package / name)
    one(package, name, words)


def test_a_linked_folder_is_not_followed(package: Path, tmp_path: Path) -> None:
    (package / "record").rename(tmp_path / "elsewhere")
    (package / "record").symlink_to(tmp_path / "elsewhere")
    one(package, "record", "a symbolic link")


def test_a_deep_folder_and_strange_names(package: Path) -> None:
    deep = package / "record" / "/".join("abcdefghijkl")
    deep.mkdir(parents=True)
    (package / "record" / "\x1b[31mred\n").write_text("x")
    (package / "record" / os.fsdecode(b"\xff\xfe")).write_text("x")
    found = refusals(package)
    assert any("a folder that no package has" in line for line in found)
    assert sum("no name of a package's file" in line for line in found) == 2
    assert all(line.isprintable() for line in found)


def test_very_many_files(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "FILES_LIMIT", 10)
    one(package, "", "more than 10 files")


def test_very_large_files(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "FILE_LIMIT_BYTES", 10_000)
    one(package, layout.PRODUCT, "more than 10000 bytes")
    monkeypatch.undo()
    monkeypatch.setattr(reader, "TOTAL_LIMIT_BYTES", 30_000)
    assert any("more than" in line for line in refusals(package))


def test_a_sparse_file_of_a_terabyte_costs_no_memory(package: Path) -> None:
    os.truncate(package / layout.REPORT, 1 << 40)
    one(package, layout.REPORT, "more than")


def test_a_file_that_may_not_be_read(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).endswith(layout.RUN):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **more)

    monkeypatch.setattr(reader.os, "open", refuse)
    one(package, layout.RUN, "cannot be read: Permission denied")


# --- JSON -------------------------------------------------------------------------------------------------------

_DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"null\n", "not of type 'object'"),
        (b"\xff\xfe{}\n", "not UTF-8"),
        (b'{"format": 1, "format": 1}\n', "given twice"),
        (b'{"format": NaN}\n', "NaN is not JSON"),
        (b'{"format": -Infinity}\n', "-Infinity is not JSON"),
        (b'{"format": 1e999}\n', "not a finite number"),
        (b'{"format": ' + b"9" * 5000 + b"}\n", "digits"),
        (_DEEP, "nested more than"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested more than"),
        (b'"\\ud800"\n', "not of type 'object'"),
    ],
    ids=lambda value: str(value[:20]) if isinstance(value, bytes) else "",
)
@pytest.mark.parametrize("name", [layout.RUN, layout.PRODUCT, layout.OBSERVATIONS, layout.VERDICTS])
def test_texts_that_are_no_document(package: Path, name: str, data: bytes, words: str) -> None:
    if name.endswith(".jsonl"):
        data = data.strip() + b"\n" if data else b"\n"
    put(package, name, data)
    found = refusals(package)
    if name == layout.RUN and words.startswith("not of type"):
        words = "'object'"
    assert any(line.startswith(f"refused: {name}:") and words in line for line in found), found


def test_a_last_line_without_its_end(package: Path) -> None:
    put(package, layout.VERDICTS, (package / layout.VERDICTS).read_bytes()[:-1])
    one(package, f"{layout.VERDICTS}:1", "the last line has no end")


def test_lone_surrogates_and_control_codes_are_shown_safely(planted: Path) -> None:
    strange = "\ud800\x1b[2J\x00"
    packages.edit(planted, layout.VERDICTS, lambda row: row.update(reason=strange), line=4)
    found = refusals(planted)
    assert any(line.startswith(f"refused: {layout.VERDICTS}:4") for line in found)
    assert all(line.isprintable() for line in found)
    packages.edit(planted, layout.OBSERVATIONS, lambda row: row["observations"].update({strange: strange}), line=3)
    assert all(line.isprintable() and line.isascii() for line in refusals(planted))


def test_depth_is_allowed_up_to_the_limit() -> None:
    good = b"[" * jsontext.DEPTH_LIMIT + b"]" * jsontext.DEPTH_LIMIT
    assert jsontext.parse(good)
    with pytest.raises(jsontext.JsonInvalid, match="nested"):
        jsontext.parse(b"[" + good + b"]")


def test_what_a_terminal_is_shown_is_one_short_line() -> None:
    text = str(Refusal("a\nb", 3, "x" * 1000, "\x07"))
    assert text.startswith("refused: a\\nb:3: xxx")
    assert "(1000 characters); \\x07" in text
    assert printable("ä€😀") == "ä€😀"


# --- arrays -----------------------------------------------------------------------------------------------------


def table(**changes: Any) -> dict[str, Any]:
    import numpy as np

    good = encode(np.arange(4, dtype=np.uint32))["$array"]
    return {"$array": {**good, **changes}}


_BOMB = base64.b64encode(zlib.compress(bytes(1 << 28), 9)).decode()


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(table(zlib64=_BOMB), id="more than the shape says"),
        pytest.param(table(zlib64=_BOMB, shape=[1 << 26]), id="a large array"),
        pytest.param(table(shape=[1 << 60, 1 << 60]), id="a shape beyond everything"),
        pytest.param(table(shape=[-1]), id="a negative length"),
        pytest.param(table(shape=[4.0]), id="a fraction"),
        pytest.param(table(shape=[True, 4]), id="a truth"),
        pytest.param(table(shape="4"), id="a text"),
        pytest.param(table(shape=[3]), id="less than there is"),
        pytest.param(table(shape=[5]), id="more than there is"),
        pytest.param(table(dtype="O"), id="objects"),
        pytest.param(table(dtype="<O8"), id="more objects"),
        pytest.param(table(dtype=[["a", "O"]]), id="structured"),
        pytest.param(table(dtype="<u99"), id="no type"),
        pytest.param(table(dtype="<V0"), id="of no size"),
        pytest.param(table(zlib64="***"), id="not base64"),
        pytest.param(table(zlib64=base64.b64encode(b"nonsense").decode()), id="not zlib"),
        pytest.param(table(zlib64=base64.b64encode(zlib.compress(bytes(16)) + b"x").decode()), id="a tail"),
        pytest.param(table(zlib64=base64.b64encode(zlib.compress(bytes(16))[:-2]).decode()), id="cut off"),
        pytest.param(table(zlib64=7), id="a number"),
        pytest.param({"$array": {}}, id="empty"),
        pytest.param({"$array": []}, id="a list"),
        pytest.param({"$array": None}, id="nothing"),
    ],
)
def test_damaged_arrays_are_refused(planted: Path, value: Any) -> None:
    with pytest.raises(ObservationInvalid, match="a damaged array"):
        decode({"words": value})
    packages.edit(planted, layout.OBSERVATIONS, lambda row: row["observations"].update(words=value))
    found = refusals(planted)
    assert any("ObservationInvalid" in line for line in found), found


def test_many_arrays_are_bounded_together() -> None:
    import numpy as np

    large = encode(np.zeros(32 << 20, np.uint8))
    decode([large] * (TOTAL_LIMIT_BYTES // (32 << 20)))
    with pytest.raises(ObservationInvalid, match="more than an outcome may hold"):
        decode([large] * (TOTAL_LIMIT_BYTES // (32 << 20) + 1))


def test_a_bomb_costs_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        with pytest.raises(ObservationInvalid):
            decode(table(zlib64=_BOMB))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["$array", "dtype", "shape", "zlib64", "x"]), inner)
        ),
    )
)
def test_whatever_is_decoded_is_decoded_or_invalid(value: Any) -> None:
    with contextlib.suppress(ObservationInvalid):
        decode(value)


# --- what judges and patterns are fed ---------------------------------------------------------------------------


def test_a_pattern_that_never_ends_is_stopped(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "JUDGE_LIMIT_S", 0.2)
    packages.edit(
        planted, layout.OBSERVATIONS, lambda row: row.update(foreseen=["(a+)+$"], log=["a" * 60 + "!"]), line=1
    )
    began = time.process_time()
    one(planted, f"{layout.OBSERVATIONS}:1", "not judged within 0.2 s")
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    "change",
    [
        {"foreseen": ["("], "log": ["x"]},
        {"alone": {"failed_alone": False, "failed_again": True}, "observations": {"value": 9}},
        {"observations": {"value": {"$array": 1}}},
        {"observations": {}},
        {"detail": {"x": 1}},
        {"log": [1]},
        {"seconds": -1},
        {"seed": 2**70},
        {"id": "../../x"},
        {"end": "won"},
    ],
)
def test_lines_that_break_a_judge(planted: Path, change: dict[str, Any]) -> None:
    packages.edit(planted, layout.OBSERVATIONS, lambda row: row.update(change), line=3)
    found = refusals(planted)
    assert any(
        line.startswith((f"refused: {layout.OBSERVATIONS}:3", f"refused: {layout.VERDICTS}:4")) for line in found
    )


def test_the_clock_of_the_judge_is_put_back() -> None:
    import signal

    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(OutOfTime), cpu_limit(0.05):
        sum(iter(lambda: 1, 0))
    with cpu_limit(0.05):
        pass
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


# --- YAML -------------------------------------------------------------------------------------------------------

_LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (_LAUGHS, 6, "more than 200000 values"),
        ("a: &a [*a]\n", 1, "not complete yet"),
        ("\n" + "[" * 100, 2, "nested more than"),
        ("a: b: c\n", 1, "not YAML"),
        ("a\x00b", 1, "not YAML"),
        ("x\n\xff", 2, "not UTF-8"),
    ],
)
def test_yaml_that_would_cost(text: str, line: int, words: str) -> None:
    found = guard(text.encode("latin-1"), aliases=True)
    assert found is not None
    assert found[0] == line
    assert words in found[1]


def test_yaml_that_is_fit() -> None:
    assert guard(b"a: &a {x: 1}\nb: *a\n", aliases=True) is None
    assert guard(b"a: &a {x: 1}\nb: *a\n", aliases=False) == (2, "*a: an alias has no place here")
    assert guard(b"x" * (5 << 20), aliases=True) is not None


@pytest.mark.parametrize("text", [_LAUGHS, "[" * 50_000, "a: *b", "\t", "- - -", "!!python/object:os.system x", ""])
def test_waivers_of_strangers(package: Path, text: str) -> None:
    put(package, layout.WAIVERS, text.encode())
    assert any(line.startswith(f"refused: {layout.WAIVERS}:") for line in refusals(package))


# --- any bytes anywhere -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(planted_package: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    package = packages.copy(planted_package, tmp_path_factory.mktemp("flips") / "planted")
    return package, {name: (package / name).read_bytes() for name in packages.sums(package)}


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), rebuilt=st.booleans())
def test_flipped_bytes_are_refused_and_never_a_traceback(
    shared: tuple[Path, dict[str, bytes]], data: st.DataObject, rebuilt: bool
) -> None:
    package, good = shared
    name = data.draw(st.sampled_from(sorted(good)))
    text = bytearray(good[name])
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    try:
        (package / name).write_bytes(bytes(text))
        if rebuilt and name != layout.MANIFEST:
            packages.rebuild(package)
        found = refusals(package)
        assert found
        assert all(line.startswith("refused: ") and line.isprintable() for line in found)
    finally:
        (package / name).write_bytes(good[name])
        (package / layout.MANIFEST).write_bytes(good[layout.MANIFEST])


@pytest.mark.slow
def test_cut_files_are_refused(shared: tuple[Path, dict[str, bytes]]) -> None:
    package, good = shared
    draw = random.Random(7)
    for name, data in good.items():
        if not data:
            continue
        (package / name).write_bytes(data[: draw.randrange(len(data))])
        if name != layout.MANIFEST:
            packages.rebuild(package)
        found = refusals(package)
        (package / name).write_bytes(data)
        (package / layout.MANIFEST).write_bytes(good[layout.MANIFEST])
        assert found, name


# --- every key --------------------------------------------------------------------------------------------------

Path_ = tuple[str | int, ...]


def keys(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Every key, and the first element of each list; of a table of equal values (files, clauses) the first."""
    if isinstance(value, dict):
        plain = len(value) > 8 and not any(isinstance(one, dict | list) for one in value.values())
        equal = plain and len({type(one) for one in value.values()}) == 1
        for key in list(value)[: 1 if equal else None]:
            yield (*at, key)
            yield from keys(value[key], (*at, key))
    elif isinstance(value, list) and value:
        yield (*at, 0)
        yield from keys(value[0], (*at, 0))


def changed(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case list():
            return [*value, *(value[:1] or ["x"])]
        case dict():
            return {**value, "extra": 1}
    return "x"


def apply(row: Any, path: Path_, drop: bool) -> Any:
    made = json.loads(json.dumps(row))
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = changed(inner[path[-1]])
    return made


DOCUMENTS = (layout.RUN, layout.ENVIRONMENT, layout.MUST_PASS, layout.PRODUCT, layout.BUILD)

#: The facts about a machine are many and all alike: for them the upper keys do.
DEPTHS = {layout.ENVIRONMENT: 2}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [*DOCUMENTS, layout.OBSERVATIONS, layout.VERDICTS])
def test_every_key_counts(shared: tuple[Path, dict[str, bytes]], good_package: Path, tmp_path: Path, name: str) -> None:
    """Each key of each kind of line, changed and dropped, with the manifest rebuilt: there is no exception."""
    package, good = shared
    if name == layout.BUILD:  # the planted cases launch nothing
        package = packages.copy(good_package, tmp_path / "good")
        good = {name: (package / name).read_bytes() for name in packages.sums(package)}
    lines = good[name].decode().splitlines() if name.endswith(".jsonl") else [good[name].decode()]
    tried: set[tuple[Any, ...]] = set()
    missed = []
    try:
        for number, line in enumerate(lines):
            row = json.loads(line)
            for path in keys(row):
                shape = tuple("*" if isinstance(key, int) else key for key in path)
                if shape in tried or len(shape) > DEPTHS.get(name, 99):
                    continue
                tried.add(shape)
                for drop in (False, True):
                    text = json.dumps(apply(row, path, drop), indent=None if len(lines) > 1 else 1)
                    made = [*lines[:number], text, *lines[number + 1 :]]
                    put(package, name, "".join(f"{one}\n" for one in made).encode())
                    if not refusals(package):
                        missed.append((path, "dropped" if drop else "changed"))
    finally:
        put(package, name, good[name])
        (package / layout.MANIFEST).write_bytes(good[layout.MANIFEST])
    assert len(tried) > 3
    assert missed == []
