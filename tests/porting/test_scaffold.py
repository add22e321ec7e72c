"""``new-backend``: a scaffold is a copy that works, asks for every fact, and is updated without losing an answer."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tutti_hal.cli.main import main
from tutti_hal.errors import AnswersInvalid, FolderOccupied, VendorNameInvalid, VendorNameTaken
from tutti_hal.expectations import load_expectations
from tutti_hal.record import load_record
from tutti_hal.scaffold import answers, create, update
from tutti_hal.scaffold.document import document
from tutti_hal.scaffold.model import leaves, model_folder, model_table
from tutti_hal.scaffold.questions import question
from tutti_hal.spec import load_spec

pytestmark = pytest.mark.porting


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """The ``vendor.yaml`` of a fresh scaffold in ``tmp_path/acme``."""
    return create("acme", tmp_path / "acme").backend / "vendor.yaml"


def test_the_record_is_the_models_under_another_name(record: Path) -> None:
    table, model = yaml.safe_load(record.read_text("utf-8")), model_table("acme", "Acme")
    assert table == model
    loaded, original = load_record(record.parent), load_record(model_folder())
    assert loaded.capabilities == original.capabilities
    assert loaded.primitives == original.primitives
    assert load_expectations(record.parent).unsupported == load_expectations(model_folder()).unsupported


def test_every_fact_is_marked_with_a_clause_that_exists(record: Path) -> None:
    spec = load_spec()
    asked = {path: question(path) for path, _ in leaves(model_table("acme", "Acme"))}
    assert [path for path, (ask, _) in asked.items() if not ask] == [("schema",), ("vendor",)]
    assert {check for _, check in asked.values() if check} - set(spec.clauses) == set()
    open_facts = [line for line in record.read_text("utf-8").splitlines() if re.search(r"#\? .+ \[[\w.]+\]$", line)]
    grouped = sum(len(v) for p, v in model_groups().items())
    assert len(open_facts) == len(asked) - 2 - grouped + len(model_groups())


def model_groups() -> dict[tuple[str, ...], list[str]]:
    """Tables of numbers, which have one marker for all of them."""
    found: dict[tuple[str, ...], list[str]] = {}
    for path, _ in leaves(model_table("acme", "Acme")):
        if path[-2:-1] == ("values",):
            found.setdefault(path[:-1], []).append(path[-1])
    return found


@pytest.mark.parametrize("name", ["Acme", "a-b", "9gpu", "", "a b", "acmé"])
def test_a_name_that_no_vendor_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(VendorNameInvalid):
        create(name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_refusal_of_capitals_says_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(VendorNameInvalid, match=r"For example: acme_gpu\."):
        create("Acme-GPU", tmp_path / "out")


@pytest.mark.parametrize("name", ["host", "musa"])
def test_a_name_that_is_taken_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(VendorNameTaken, match="tutti-hal"):
        create(name, tmp_path / "out")


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FolderOccupied, match="not empty"):
        create("acme", tmp_path)
    with pytest.raises(FolderOccupied, match="a file"):
        create("acme", tmp_path / "kept.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_the_command_says_what_it_made_and_refuses_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-backend", "acme", "--out", str(tmp_path / "a")]) == 0
    assert "a working copy in" in capsys.readouterr().out
    assert main(["new-backend", "acme", "--out", str(tmp_path / "a")]) == 1
    assert "TT-SCAFFOLD-FOLDER" in capsys.readouterr().err
    assert main(["new-backend", "acme", "--out", str(tmp_path / "a"), "--update"]) == 0
    assert "nothing to add" in capsys.readouterr().out


def grown() -> dict[str, Any]:
    """The model as a later contract would have it: new facts in every kind of place, and one that is gone."""
    table = copy.deepcopy(model_table("acme", "Acme"))
    table["capabilities"]["memory.telepathy"] = False
    table["archs"]["threads-w32"]["capabilities"]["wave.folds"] = True
    table["errors"]["values"]["Tired"] = 4711
    table["primitives"]["wave.fold"] = {"body": "return tt_fold({{ args }});"}
    table["placement"]["log"] = "host"
    table["clocks"] = {"rate_mhz": 1000}
    del table["p2p"]["note"]
    return table


def test_an_update_adds_what_is_new_and_changes_no_answer(record: Path, tmp_path: Path) -> None:
    text = record.read_text("utf-8")
    text = re.sub(r"^  threads-w32:$", "  a1:", text, flags=re.M).replace(
        "default_arch: threads-w32", "default_arch: a1"
    )
    text = re.sub(r"^kind: host.*$", "kind: hardware    # measured on the bench", text, flags=re.M)
    text = re.sub(r"^  memory.managed: true.*\n", "", text, flags=re.M)  # deleted on purpose: not asked again
    text = re.sub(r"^  data: device.*$", "  data: host\n  log: device", text, flags=re.M)  # known before it is asked
    record.write_text(text, encoding="utf-8")
    before = yaml.safe_load(text)
    done = update("acme", tmp_path / "acme", grown())
    after_text = record.read_text("utf-8")
    after = yaml.safe_load(after_text)
    assert set(done.added) == {
        "capabilities.memory.telepathy",
        "archs.a1.capabilities.wave.folds",
        "errors.values.Tired",
        "primitives.wave.fold",
        "clocks.rate_mhz",
    }
    assert done.known == ("placement.log",)
    assert done.gone == ("p2p.note",)
    lines = after_text.splitlines()
    lost = [line for line in text.splitlines() if line not in lines]
    assert len(lost) <= 1  # a table of numbers on lines of its own got one more
    assert "kind: hardware    # measured on the bench" in lines
    for place in (("capabilities", "memory.telepathy"), ("placement", "log"), ("errors", "values", "Tired")):
        got: Any = after
        for key in place:
            got = got.pop(key) if key == place[-1] else got[key]
    assert after["archs"]["a1"]["capabilities"].pop("wave.folds") is True
    assert after["primitives"].pop("wave.fold") == {"body": "return tt_fold({{ args }});"}
    assert after.pop("clocks") == {"rate_mhz": 1000}
    before["placement"].pop("log")
    assert after == before
    assert update("acme", tmp_path / "acme", grown()).added == ()


def test_an_update_finds_block_tables_too(record: Path, tmp_path: Path) -> None:
    """An author may have written the numbers a line each."""
    table = model_table("acme", "Acme")
    record.write_text(yaml.safe_dump(table, sort_keys=False), encoding="utf-8")
    done = update("acme", tmp_path / "acme", grown())
    assert "errors.values.Tired" in done.added
    assert yaml.safe_load(record.read_text("utf-8"))["errors"]["values"]["Tired"] == 4711


def test_an_update_without_answers_is_refused(record: Path, tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    with pytest.raises(AnswersInvalid, match="not of 'other'"):
        update("other", folder)
    record.write_text("a: [", encoding="utf-8")
    with pytest.raises(AnswersInvalid, match="no YAML"):
        update("acme", folder, grown())
    (folder / answers.FILE).write_text("version: 7", encoding="utf-8")
    with pytest.raises(AnswersInvalid, match="damaged"):
        update("acme", folder)
    (folder / answers.FILE).unlink()
    with pytest.raises(AnswersInvalid, match=r"there is no .*answers\.yaml"):
        update("acme", folder)


def test_a_document_reads_back_as_the_table() -> None:
    for table in (grown(), model_table("acme", "A: title #? that 'bites'")):
        assert yaml.safe_load(document(table)) == table


@pytest.mark.slow
def test_the_scaffold_works_as_it_is(tmp_path: Path) -> None:
    """Installed as a wheel, found by entry point: a ring moves data on it."""
    folder = create("acme", tmp_path / "acme").folder
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--disable-pip-version-check", "--target", site, folder], check=True, timeout=100)
    shutil.rmtree(folder)
    script = (Path(__file__).parents[2] / "examples" / "ring_roundtrip.py").read_text("utf-8")
    assert '"host"' in script
    done = subprocess.run(
        [sys.executable, "-c", script.replace('"host"', '"acme"')],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(site), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
