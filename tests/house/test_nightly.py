"""The long forms: what becomes of a part is written however it ends, and the age of it is told."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def nightly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    module = importlib.import_module("nightly")
    monkeypatch.setattr(module, "SUMMARY", tmp_path / "nightly.json")
    monkeypatch.setattr(module, "OUT", tmp_path / "out")
    return module


def part(module: ModuleType, code: str, **fields: Any) -> Any:
    given = {"name": "x", "budget_s": 30, "what": "a test", "counts": module._of_json("commands")} | fields
    return module.Part(command=(sys.executable, "-c", code), **given)


@pytest.mark.parametrize(
    ("code", "fields", "verdict"),
    [
        ("print('{\"commands\": 7}')", {}, "pass"),
        ("print('{\"commands\": 7}'); raise SystemExit(1)", {}, "FAIL"),
        ("print('{\"commands\": 7}'); raise SystemExit(2)", {}, "incomplete"),
        ("print('{\"commands\": 7}'); raise SystemExit(2)", {"strict": True}, "FAIL"),
        ("raise SystemExit(2)", {}, "FAIL"),
        ("print('nothing')", {}, "FAIL"),
        ("import time; time.sleep(60)", {"budget_s": 1}, "incomplete"),
        ("print('{\"commands\": 7}')", {"absent": lambda: "no tool"}, "not run"),
        ("print('{\"commands\": 7}')", {"on_request": "it is long"}, "not run"),
    ],
)
def test_a_part_is_written_however_it_ends(
    nightly: ModuleType, monkeypatch: pytest.MonkeyPatch, code: str, fields: dict[str, Any], verdict: str
) -> None:
    monkeypatch.setattr(nightly, "PARTS", (part(nightly, code, **fields),))
    monkeypatch.setattr(nightly, "_where", lambda: {"tree": "HEAD", "date": "2026-01-01T00:00:00+00:00"})
    assert nightly.main([]) == (1 if verdict == "FAIL" else 0)
    row = json.loads(nightly.SUMMARY.read_text())["parts"]["x"]
    assert row["verdict"] == verdict
    if verdict == "pass":
        assert row["counts"] == {"commands": 7}
    if verdict == "not run":
        assert row["reason"]
    assert "x " in nightly.age()


def test_other_rows_stay_and_a_named_part_runs(nightly: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    good = "print('{\"commands\": 7}')"
    parts = (part(nightly, good, name="a"), part(nightly, good, name="b", on_request="it is long"))
    monkeypatch.setattr(nightly, "PARTS", parts)
    monkeypatch.setattr(nightly, "_where", lambda: {"tree": "HEAD", "date": "2026-01-01T00:00:00+00:00"})
    assert nightly.main(["a"]) == 0
    assert nightly.main(["b"]) == 0
    rows = json.loads(nightly.SUMMARY.read_text())["parts"]
    assert {name: row["verdict"] for name, row in rows.items()} == {"a": "pass", "b": "pass"}
    assert nightly.main(["c"]) == 2


def test_a_part_is_told_to_end_in_time(nightly: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import json, sys; print(json.dumps({'commands': int(sys.argv[2])}))"
    monkeypatch.setattr(nightly, "PARTS", (part(nightly, code, time_limit_s=50),))
    monkeypatch.setattr(nightly, "_where", lambda: {"tree": "HEAD", "date": "2026-01-01T00:00:00+00:00"})
    for words, limit in (([], 50), (["--limit", "9"], 9), (["--limit", "900"], 50)):
        assert nightly.main(words) == 0
        assert json.loads(nightly.SUMMARY.read_text())["parts"]["x"]["counts"] == {"commands": limit}


def test_a_row_says_where_it_was_run_and_names_no_host(nightly: ModuleType) -> None:
    import platform

    where = nightly._where()
    assert len(where["tree"]) == 40
    assert len(where["product"]) == 64
    assert platform.node() not in json.dumps(where) or len(platform.node()) < 3
    assert set(where["machine"]) == {"cpu", "arch", "cpus", "memory_gib", "load_1min"}


def test_pytest_and_fuzzer_are_counted(nightly: ModuleType) -> None:
    assert nightly._of_pytest("== x\n3 passed, 1 skipped in 2.0s\n5 passed in 1.1s\n") == {"passed": 8, "skipped": 1}
    assert nightly._of_fuzzer("stat::number_of_executed_units: 12\nstat::new_units_added:   3\n") == {
        "number_of_executed_units": 12,
        "new_units_added": 3,
    }
