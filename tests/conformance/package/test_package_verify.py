"""Whoever tampers is refused, with file and line, also when he rebuilds the manifest."""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import packages
import pytest

from tutti_hal.cli.main import main
from tutti_hal.conformance_tests.cli import verify as verb
from tutti_hal.conformance_tests.errors import NotAPackage
from tutti_hal.conformance_tests.outcome import End
from tutti_hal.conformance_tests.package import layout, verification
from tutti_hal.conformance_tests.package.history import Known
from tutti_hal.conformance_tests.package.verification import Verification, verify
from tutti_hal.conformance_tests.session import Session
from tutti_hal.conformance_tests.subject import SubjectSpec
from tutti_hal.paths import package_file

pytestmark = pytest.mark.suite


def check(*folders: Path, **options: Any) -> Verification:
    return verify(folders, cases=(packages.PLANTED,) if "planted" in str(folders[0]) else (), **options)


def said(found: Verification) -> list[str]:
    return [str(refusal) for refusal in found.refusals]


def assert_refused(found: Verification, start: str, *words: str) -> None:
    """One refusal begins with this place and has these words."""
    hits = [line for line in said(found) if line.startswith(f"refused: {start}")]
    assert hits, said(found)
    for word in words:
        assert any(word in line for line in hits), (word, hits)


def test_good_packages_are_verified(good_package: Path, planted_package: Path) -> None:
    assert said(check(good_package)) == []
    found = check(planted_package)
    assert said(found) == []
    assert found.to_json()["counts"] == {"FAIL": 2, "ERROR": 1, "SKIP": 1, "WAIVED": 1, "PASS": 3}
    assert found.certifies.endswith("it certifies no level")


def test_a_run_on_something_else_than_asked_for_is_refused(
    good_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The planted profile's devices are an engine on the CPU."""
    assert said(check(good_package, provenances=("emulated",))) == []
    assert said(check(good_package, provenances=("hardware", "emulated"))) == []
    found = check(good_package, provenances=("hardware",))
    assert_refused(found, layout.RUN, "a run that was emulated", "one that was hardware")
    assert main(["verify", str(good_package), "--as", "hardware"]) == 1
    assert main(["verify", str(good_package), "--as", "emulated"]) == 0
    capsys.readouterr()


def test_the_verb(good_package: Path, package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(good_package)]) == 0
    out = capsys.readouterr().out
    assert "1 verdicts worked out again from 1 observations" in out
    assert "it certifies no level" in out
    packages.edit(package, layout.VERDICTS, lambda row: row.update(verdict="FAIL"))
    assert main(["verify", str(package)]) == 1
    out = capsys.readouterr().out
    assert "refused: verdicts.jsonl:1: prim/crc32c:arch=sim-w32: verdict FAIL; judged again it is PASS" in out
    assert out.rstrip().endswith("1 finding; it certifies nothing")
    assert main(["verify", "--json", str(package)]) == 1
    table = json.loads(capsys.readouterr().out)
    assert table["verified"] is False
    assert table["refusals"][0]["file"] == layout.VERDICTS
    assert table["refusals"][0]["line"] == 1
    assert main(["verify", str(package / "absent")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_refusals_beyond_fifty_are_counted(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = planted / layout.VERDICTS
    path.write_text(path.read_text() + "{}\n" * 60)
    packages.rebuild(planted)
    parser = argparse.ArgumentParser()
    verb.configure(parser)
    assert verb.run(parser.parse_args([str(planted), "--cases", str(packages.PLANTED)])) == 1
    out = capsys.readouterr().out
    assert out.count("refused: verdicts.jsonl") == 50
    assert "... and " in out


def test_what_is_no_package_is_no_package(tmp_path: Path) -> None:
    with pytest.raises(NotAPackage, match=r"no run\.json"):
        verify([tmp_path])


def test_neither_device_nor_native_library_is_needed(good_package: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from tutti_hal.conformance_tests.package.verification import verify\n"
        f"assert not verify([Path({str(good_package)!r})]).refusals\n"
        "maps = Path('/proc/self/maps').read_text()\n"
        "assert 'libtutti_native' not in maps, 'the native library is loaded'\n"
        "assert 'cffi' not in sys.modules, 'cffi is imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- the manifest -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", layout.FILES)
def test_a_changed_file_is_named(package: Path, name: str) -> None:
    with (package / name).open("ab") as file:
        file.write(b"\n")
    assert_refused(check(package), name)


@pytest.mark.parametrize(
    "name",
    [*(name for name in layout.FILES if name != layout.FIGURES), "record/vendor.yaml", "record/conformance.yaml"],
)
def test_a_missing_file_is_named(package: Path, name: str) -> None:
    (package / name).unlink()
    assert_refused(check(package), name, "the file is missing")
    packages.rebuild(package)
    if name not in (layout.MANIFEST, *layout.OPTIONAL):
        assert_refused(check(package), name, "the file is missing", "every package has one")


@pytest.mark.parametrize("name", ["extra.txt", ".hidden", "record/.hidden", "more/run.json", "record/new.yaml"])
def test_an_extra_file_is_named(package: Path, name: str) -> None:
    (package / name).parent.mkdir(exist_ok=True)
    (package / name).write_text("x")
    assert_refused(check(package), name.partition("/")[0] if name.startswith("more") else name)
    if name == "record/new.yaml":
        packages.rebuild(package)
        assert_refused(check(package), name, "the installed record has no such file")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "two blanks"),
        (f"{'0' * 64}  ../../etc/passwd", "a name inside the package"),
        (f"{'0' * 64}  /etc/passwd", "a name inside the package"),
        (f"{'0' * 64}  absent.json", "absent.json"),
        (f"{'0' * 64} *run.json", "two blanks"),
    ],
)
def test_a_manifest_with_a_strange_line(package: Path, line: str, words: str) -> None:
    path = package / layout.MANIFEST
    path.write_text(f"{path.read_text()}{line}\n")
    assert any(words in text for text in said(check(package)))


def test_a_manifest_in_another_order_or_with_a_file_twice(package: Path) -> None:
    path = package / layout.MANIFEST
    rows = path.read_text().splitlines()
    path.write_text("\n".join([rows[1], rows[0], *rows[2:], rows[3]]) + "\n")
    assert_refused(check(package), f"{layout.MANIFEST}:2", "in order of name")
    assert_refused(check(package), f"{layout.MANIFEST}:{len(rows) + 1}", "is listed on line 4, too")


# --- verdicts, with the manifest rebuilt ------------------------------------------------------------------------


def test_a_flipped_verdict_names_file_and_line(planted: Path) -> None:
    def flip(row: dict[str, Any]) -> None:
        row.update(verdict="PASS", reason="", blocks=False, failed=[], clauses=dict.fromkeys(row["clauses"], "PASS"))

    packages.edit(planted, layout.VERDICTS, flip, line=4)
    found = check(planted)
    assert_refused(found, f"{layout.VERDICTS}:4", "plant/fails:arch=sim-w32: verdict PASS; judged again it is FAIL")
    assert {refusal.line for refusal in found.refusals} == {4}
    assert found.certifies.startswith("refused")


def test_a_flipped_observation_names_its_line_too(planted: Path) -> None:
    packages.edit(planted, layout.OBSERVATIONS, lambda row: row["observations"].update(value=4), line=3)
    assert_refused(check(planted), f"{layout.OBSERVATIONS}:3", "the line of plant/fails:arch=sim-w32")
    assert_refused(check(planted), f"{layout.VERDICTS}:4", "judged again it is")


@pytest.mark.parametrize("name", [layout.VERDICTS, layout.OBSERVATIONS])
@pytest.mark.parametrize("how", ["drop", "twice", "swap", "strange"])
def test_lines_that_are_gone_doubled_moved_or_made_up(planted: Path, name: str, how: str) -> None:
    path = planted / name
    rows = path.read_text().splitlines()
    made_up = rows[1].replace("plant/array", "plant/other")
    rows = {
        "drop": rows[:1] + rows[2:],
        "twice": [*rows, rows[1]],
        "swap": [rows[1], rows[0], *rows[2:]],
        "strange": [*rows, made_up],
    }[how]
    path.write_text("".join(f"{row}\n" for row in rows))
    packages.rebuild(planted)
    place, words = {
        "drop": (2, "no verdict of" if name == layout.VERDICTS else "no run of"),
        "twice": (len(rows), "a second"),
        "swap": (1, "another place"),
        "strange": (len(rows), "no such instance belongs to this run"),
    }[how]
    assert_refused(check(planted), f"{name}:{place}", words)


def test_a_mandatory_case_that_was_left_out_everywhere(planted: Path) -> None:
    """Out of observations, verdicts and the expected ids: what a run has to judge is worked out, not read."""
    for name in (layout.OBSERVATIONS, layout.VERDICTS):
        path = planted / name
        path.write_text("".join(row for row in path.read_text().splitlines(True) if "plant/fails" not in row))
    packages.edit(planted, layout.MUST_PASS, lambda table: table["expected"].remove("plant/fails:arch=sim-w32"))
    found = check(planted)
    assert_refused(found, f"{layout.OBSERVATIONS}:3", "no run of plant/fails:arch=sim-w32")
    assert_refused(found, f"{layout.VERDICTS}:4", "no verdict of plant/fails:arch=sim-w32")
    assert_refused(found, layout.MUST_PASS)


def test_a_mandatory_case_that_was_made_a_skip(planted: Path) -> None:
    def skip(row: dict[str, Any]) -> None:
        row.update(end="skipped", detail={"reason": "machine", "why": "no"}, observations={})

    packages.edit(planted, layout.OBSERVATIONS, skip, line=3)
    packages.edit(
        planted, layout.VERDICTS, lambda row: row.update(verdict="SKIP", code="machine", blocks=False), line=4
    )
    assert_refused(check(planted), f"{layout.VERDICTS}:4", "verdict SKIP; judged again it is FAIL")


def test_an_expected_skip_that_the_product_does_not_have(planted: Path) -> None:
    skips = [{"cases": "plant/*", "reason": "machine", "why": "Everything."}]
    packages.edit(planted, layout.RUN, lambda table: table.update(expected_skips=skips))
    assert_refused(check(planted), layout.RUN, "an expected skip of plant/* (machine)", "has no such skip")


def test_a_class_of_machines_that_the_product_does_not_have(planted: Path) -> None:
    packages.edit(planted, layout.RUN, lambda table: table["options"].update(machine="../../mine"))
    assert_refused(check(planted), layout.RUN, "machine class ../../mine")


def test_a_case_that_was_not_run(written: Callable[[Session], Path]) -> None:
    not_run = lambda _, found: replace(  # noqa: E731
        found, end=End.NOT_RUN, detail={"why": "late"}, observations={}, seconds=0.0
    )
    plain = written(packages.run(packages.options(), change=not_run))
    assert_refused(check(plain), f"{layout.OBSERVATIONS}:1", "was not run", "a run without a time limit runs all")
    limited = check(written(packages.run(packages.options(time_limit_s=5.0), change=not_run)))
    assert said(limited) == []
    assert "certifies no level" in limited.certifies


def test_another_seed_is_another_run(package: Path) -> None:
    packages.edit(package, layout.OBSERVATIONS, lambda row: row.update(seed=row["seed"] + 1))
    assert_refused(check(package), f"{layout.OBSERVATIONS}:1", "seed 1 gives it")


def test_another_spelling_of_a_line(package: Path) -> None:
    for name in (layout.OBSERVATIONS, layout.VERDICTS):
        path = package / name
        path.write_text(path.read_text().replace(": ", ":", 1))
    packages.rebuild(package)
    for name in (layout.OBSERVATIONS, layout.VERDICTS):
        assert_refused(check(package), f"{name}:1", "another spelling")


@pytest.mark.parametrize("name", [layout.JUNIT, layout.REPORT])
def test_a_derived_page_that_says_something_else(planted: Path, name: str) -> None:
    path = planted / name
    path.write_bytes(path.read_bytes().replace(b"plant/fails", b"plant/holds", 1))
    packages.rebuild(planted)
    number = next(n for n, row in enumerate(path.read_text().splitlines(), 1) if "plant/holds" in row)
    assert_refused(check(planted), f"{name}:{number}", "plant/holds")


# --- product, record, terms -------------------------------------------------------------------------------------


def test_a_product_that_is_another_than_its_commit_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = verification.product.file_sums

    def other(files: Any) -> dict[str, str]:
        return {**sums(files), "codegen/lint.py": "0" * 64}

    monkeypatch.setattr(verification.product, "file_sums", other)
    astray = {"codegen/lint.py": "commit 0 has another", "new.py": "commit 0 has 111"}
    monkeypatch.setattr(verification, "known", lambda _: Known(False, "with changes", "0" * 40, astray=astray))
    found = check(package)
    rows = (package / layout.PRODUCT).read_text().splitlines()
    number = next(n for n, row in enumerate(rows, 1) if '"codegen/lint.py"' in row)
    assert_refused(found, f"{layout.PRODUCT}:{number}", "codegen/lint.py", "commit 0 has another")
    assert_refused(found, layout.PRODUCT, "new.py has SHA-256 none: it is missing")


def test_a_product_that_says_that_it_was_another(package: Path) -> None:
    packages.edit(package, layout.PRODUCT, lambda table: table["files"].update({"record.py": "0" * 64}))
    found = check(package)
    assert_refused(found, f"{layout.PRODUCT}:4", "sha256 ", "its files have")
    assert_refused(found, layout.RUN, "product.json")


@pytest.mark.parametrize("name", ["vendor.yaml", "conformance.yaml"])
def test_another_record_than_the_products(package: Path, name: str) -> None:
    path = package / "record" / name
    rows = path.read_text().splitlines(True)
    rows[2] = "# changed\n"
    path.write_text("".join(rows))
    packages.rebuild(package)
    assert_refused(check(package), f"record/{name}:3", "# changed")


def test_facts_that_the_record_does_not_state(package: Path) -> None:
    packages.edit(package, layout.RUN, lambda table: table["facts"]["sim-w32"].update(wave_width=64))
    assert_refused(check(package), layout.RUN, '"wave_width": 64', '"wave_width": 32')


def test_an_arch_that_the_record_does_not_have(package: Path) -> None:
    packages.edit(package, layout.RUN, lambda table: table["options"].update(archs=["sim-w512"]))
    assert_refused(check(package), layout.RUN, "arch sim-w512", "one of the record")


def test_a_vendor_that_is_not_installed(package: Path) -> None:
    packages.edit(package, layout.RUN, lambda table: table["options"]["subject"].update(profile="acme"))
    assert_refused(check(package), layout.RUN, "vendor acme")


def test_globs_that_match_nothing(package: Path) -> None:
    packages.edit(package, layout.RUN, lambda table: table["options"].update(cases=["prmi/*"]))
    assert_refused(check(package), layout.RUN, "no case of this run matches it")


def test_another_format(package: Path) -> None:
    packages.edit(package, layout.RUN, lambda table: table.update(format=1))
    assert_refused(check(package), f"{layout.RUN}:2", "format 1", "this version reads format 2")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"started": "2999-01-01T00:00:00+00:00", "judged_on": "2999-01-01"}, "not after"),
        ({"judged_on": "2020-01-01"}, "the day of the start"),
        ({"judged_on": "2020-02-31"}, "days that exist"),
    ],
)
def test_days_that_cannot_be(package: Path, changes: dict[str, str], words: str) -> None:
    packages.edit(package, layout.RUN, lambda table: table.update(changes))
    assert_refused(check(package), layout.RUN, words)


def test_a_waiver_that_has_expired_since(planted_package: Path) -> None:
    found = check(planted_package, today=datetime.date(3000, 1, 1))
    assert_refused(found, f"{layout.WAIVERS}:3", "expired on 2999-12-31", "The maintainer")
    assert said(check(planted_package, today=datetime.date(2999, 12, 31))) == []


def test_a_waiver_that_was_written_afterwards(package: Path) -> None:
    (package / layout.WAIVERS).write_text("version: 1\nwaivers:\n  - vendor: host\n    clause: [x]\n")
    packages.rebuild(package)
    assert_refused(check(package), f"{layout.WAIVERS}:4", "unknown key 'clause'; did you mean 'clauses'?")
    assert_refused(check(package), f"{layout.WAIVERS}:3", "'expires' is missing")


def test_a_longer_waiver_shows_in_the_verdict(planted: Path) -> None:
    path = planted / layout.WAIVERS
    path.write_text(path.read_text().replace("2999-12-31", "3999-12-31"))
    packages.rebuild(planted)
    assert_refused(check(planted), f"{layout.VERDICTS}:7", "waived until 3999-12-31")


def test_extra_cases_must_be_named_and_the_same(planted_package: Path, tmp_path: Path) -> None:
    assert_refused(verify([planted_package]), layout.RUN, "cases beside the suite's own", "given by --cases")
    other = tmp_path / "planted_cases.py"
    other.write_text(Path(packages.PLANTED).read_text() + "\n")
    assert_refused(verify([planted_package], cases=[str(other)]), layout.PRODUCT, "extra cases planted_cases.py")
    same = tmp_path / "again" / "planted_cases.py"
    same.parent.mkdir()
    same.write_text(Path(packages.PLANTED).read_text())
    assert said(verify([planted_package], cases=[str(same)])) == []


def test_extra_cases_that_were_not_used(good_package: Path) -> None:
    assert_refused(verify([good_package], cases=[packages.PLANTED]), layout.PRODUCT, "extra cases none")


def test_another_record_in_force_certifies_nothing(written: Callable[[Session], Path], tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "host"
    shutil.copytree(package_file("backends", "host"), folder, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    record = folder / "vendor.yaml"
    record.write_text(record.read_text().replace("kind: host", "kind: simulated", 1))
    subject = SubjectSpec("host", record=str(folder), ablation="no-such-ability")
    package = written(packages.run(packages.options(subject=subject)))
    shutil.rmtree(folder)
    found = check(package)
    assert said(found) == []
    assert "ablated (no-such-ability)" in found.certifies
    assert found.certifies.endswith("it certifies no level")
    (package / "record" / "vendor.yaml").write_text("a: &a [*a]\n")
    packages.rebuild(package)
    assert_refused(check(package), "record/vendor.yaml:1", "not complete yet")
    (package / "record" / "vendor.yaml").write_text("schema: 1\nvendro: host\n")
    packages.rebuild(package)
    assert_refused(check(package), "record/vendor.yaml:2", "unknown key 'vendro'; did you mean 'vendor'?")


# --- builds -----------------------------------------------------------------------------------------------------


def test_kernels_that_are_not_the_products(package: Path) -> None:
    name = _kernel_set(package)
    packages.edit(package, layout.BUILD, lambda table: table["modules"][0].update(unit_sha256="0" * 64))
    assert_refused(check(package), f"{layout.BUILD}:5", f"{name} for sim-w32", "the product's kernels render to")


def _kernel_set(package: Path) -> str:
    """The one that the run of the package launched."""
    (module,) = json.loads((package / layout.BUILD).read_text(encoding="utf-8"))["modules"]
    return str(module["kernel_set"])


@pytest.mark.parametrize("how", ["drop", "twice", "other"])
def test_modules_that_are_gone_doubled_or_made_up(package: Path, how: str) -> None:
    def change(table: dict[str, Any]) -> None:
        (module,) = table["modules"]
        other = {**module, "kernel_set": "ring"}
        table["modules"] = {"drop": [], "twice": [module, module], "other": [module, other]}[how]

    name = _kernel_set(package)
    packages.edit(package, layout.BUILD, change)
    words = {"drop": f"nothing about {name}", "twice": "once", "other": "ring for sim-w32"}[how]
    assert_refused(check(package), layout.BUILD, words)
