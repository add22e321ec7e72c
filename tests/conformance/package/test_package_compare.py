"""Two packages side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import packages
import pytest

from tutti_hal.cli.main import main
from tutti_hal.conformance_tests.errors import NotAPackage
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.comparison import Change, compare
from tutti_hal.conformance_tests.session import Session

pytestmark = pytest.mark.suite

Write = Callable[[Session], Path]


def slower_and_worse(one: Any, found: Any) -> Any:
    if one.case.name == "plant/array" and one.axes["bits"] == 64:
        return replace(found, log=("a line that nobody foresaw",), seconds=found.seconds + 5)
    return found


def test_a_package_is_as_it_is(planted_package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(planted_package), str(planted_package)]) == 0
    assert capsys.readouterr().out == "0 worse, 0 better, 0 new, 0 gone\n"


def test_worse_and_better(planted_package: Path, written: Write, capsys: pytest.CaptureFixture[str]) -> None:
    other = written(
        packages.run(packages.planted_options(), waivers=packages.run_planted().terms.waivers, change=slower_and_worse)
    )
    found = compare(planted_package, other)
    name = "plant/array:arch=sim-w32,bits=64,on=true"
    assert [(c.name, c.kind, c.before, c.after) for c in found.cases] == [(name, "worse", "PASS", "FAIL")]
    assert "a line that nobody foresaw" in found.cases[0].reason
    assert name in [d.name for d in found.durations]
    assert main(["compare", str(planted_package), str(other)]) == 1
    out = capsys.readouterr().out
    assert f"worse: case {name}: PASS -> FAIL (an unexpected line in the log" in out
    assert f"seconds: {name}: " in out
    assert out.endswith("1 worse, 0 better, 0 new, 0 gone\n")
    assert main(["compare", str(other), str(planted_package), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["worse"] == 0
    assert table["cases"][0]["kind"] == "better"


def test_new_and_gone_and_clauses(good_package: Path, planted_package: Path) -> None:
    found = compare(good_package, planted_package)
    assert {c.kind for c in found.cases} == {"new", "gone"}
    assert Change("prim.crc.check_value", "PASS", "FAIL") in found.clauses
    assert {d.name for d in found.options} >= {"cases", "subject.cases"}
    assert "cases.planted_cases.py" in {d.name for d in found.product}


def test_other_options_machine_product_and_record(good_package: Path, package: Path) -> None:
    def change(table: dict[str, Any]) -> None:
        table["facts"]["cpu"]["model"] = "another"

    packages.edit(package, layout.ENVIRONMENT, change)
    packages.edit(package, layout.PRODUCT, lambda table: table["files"].update({"record.py": "0" * 64}))
    packages.edit(package, layout.RUN, lambda table: table["options"].update(seed=9))
    record = package / "record" / "vendor.yaml"
    record.write_text(record.read_text().replace("schema: 1", "schema: 2", 1))
    (package / "record" / "overrides" / "README.md").unlink()
    packages.rebuild(package)
    found = compare(good_package, package)
    assert [d.name for d in found.environment] == ["cpu.model"]
    assert [d.name for d in found.product] == ["files.record.py"]
    assert [(d.name, d.before, d.after) for d in found.options] == [("seed", 1, 9)]
    assert [d.name for d in found.record] == ["overrides/README.md", "vendor.yaml:2"]
    assert not found.worse


def test_what_is_damaged_is_not_compared(good_package: Path, package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / layout.RUN).write_text('{"format": 2}')
    with pytest.raises(NotAPackage, match=r"run\.json"):
        compare(good_package, package)
    assert main(["compare", str(good_package), str(package)]) == 2
    assert "it is damaged" in capsys.readouterr().err
    assert main(["compare", str(good_package), str(package / "absent")]) == 2
    assert "no such folder" in capsys.readouterr().err
