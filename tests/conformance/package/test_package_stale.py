"""A package of an older product: what still counts, what is named, and nothing that a forger could hide behind it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import packages
import pytest

from tutti_hal.cli.main import main
from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.package import history, layout, verification
from tutti_hal.conformance_tests.package.history import Known
from tutti_hal.conformance_tests.package.staleness import Since, clause_sums, kind_of, moved
from tutti_hal.conformance_tests.package.verification import Verification, verify
from tutti_hal.conformance_tests.package.writer import write_package
from tutti_hal.conformance_tests.subject import SubjectSpec
from tutti_hal.spec import load_spec

pytestmark = pytest.mark.suite

CASE = "conformance_tests/cases/l3_primitives/checksum.py"
ID = "prim/crc32c:arch=sim-w32"
SURE = Known(True, "commit 000000000000, file by file", "0" * 40)

Today = Callable[..., None]


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> Today:
    """Makes the installed product one in which these files are others."""
    sums = verification.product.file_sums

    def change(*names: str, known: Known = SURE, gone: tuple[str, ...] = (), new: tuple[str, ...] = ()) -> None:
        def other(files: Any) -> dict[str, str]:
            found = {**sums(files), **dict.fromkeys((*names, *new), "0" * 64)}
            return {name: total for name, total in found.items() if name not in gone}

        monkeypatch.setattr(verification.product, "file_sums", other)
        monkeypatch.setattr(verification, "known", lambda _: known)

    return change


def check(folder: Path, extra: str = "", **options: Any) -> Verification:
    extra = extra or (packages.PLANTED if "planted" in str(folder) else "")
    return verify([folder], cases=(extra,) if extra else (), **options)


def said(found: Verification) -> list[str]:
    return [str(refusal) for refusal in found.refusals]


def refused(found: Verification, start: str, words: str) -> None:
    assert any(line.startswith(f"refused: {start}") and words in line for line in said(found)), said(found)


# --- what is stale ----------------------------------------------------------------------------------------------


def test_what_changed_is_told_by_kind(good_package: Path, today: Today, capsys: pytest.CaptureFixture[str]) -> None:
    today("kernels_templates/kernels/saxpy.cu.j2", "lib/libtutti_native.so", new=("shim/new.py",), gone=("sdk.py",))
    found = check(good_package)
    assert said(found) == []
    assert found.word == "verified, stale"
    assert found.stale is not None
    assert found.stale.counts == {"templates": 1, "native": 1, "runtime": 2}
    assert found.stale.not_judged == {}
    assert found.session is not None
    assert found.session.judgements[ID].verdict == "PASS"
    assert found.certifies.endswith("; stale")
    assert main(["verify", str(good_package)]) == 0
    out = capsys.readouterr().out
    assert "stale: product.json: 4 product files changed since (templates 1, native 1, runtime 2)" in out
    assert "stale: not checked, for only its own product makes them: junit.xml, report.html" in out
    assert "\nverified, stale: " in out
    assert main(["verify", str(good_package), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["word"] == "verified, stale"
    assert {"name": "sdk.py", "kind": "runtime", "how": "gone"} in table["stale"]["files"]


def test_stale_is_never_fresh(good_package: Path, today: Today, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(good_package, fresh=True).word == "verified"
    today("lib/libtutti_native.so")
    found = check(good_package, fresh=True)
    refused(found, layout.PRODUCT, "1 product file changed since (native 1)")
    assert found.word == "refused"
    assert main(["verify", str(good_package), "--fresh"]) == 1
    capsys.readouterr()


def test_another_build_of_the_same_sources_is_fresh(
    good_package: Path, today: Today, monkeypatch: pytest.MonkeyPatch
) -> None:
    today("lib/libtutti_native.so")
    monkeypatch.setattr(verification, "same_native", lambda _: True)
    found = check(good_package, fresh=True)
    assert found.word == "verified"
    assert "the native library is another build of the same sources" in found.remarks
    today("lib/libtutti_native.so", "record.py")
    assert check(good_package).word == "verified, stale"


def test_a_product_that_nobody_knows_is_said_to_be_one(good_package: Path, today: Today) -> None:
    today("record.py", known=Known(False, "version 0.1.0, a wheel; which one is not known here"))
    found = check(good_package)
    assert found.word == "verified, stale, of a product that is not known here"


def test_a_commit_that_there_never_was_is_refused(good_package: Path, today: Today) -> None:
    today("record.py", known=Known(False, "commit 123", "123", strange=True))
    refused(check(good_package), layout.PRODUCT, "a product that there was")


# --- what is not judged again -----------------------------------------------------------------------------------


def test_a_case_that_changed_is_not_judged_again(good_package: Path, today: Today) -> None:
    today(CASE)
    found = check(good_package)
    assert said(found) == []
    assert found.stale is not None
    assert found.stale.not_judged == {ID: f"its case changed since ({CASE})"}
    assert found.session is not None
    assert found.session.judgements[ID].verdict == "NOT_TESTED"
    assert found.session.judgements[ID].blocks
    assert any("not judged again: 1 of 1" in line for line in found.how_stale)
    page = good_package.parent / "again.html"
    assert main(["verify", str(good_package), "--report", str(page)]) == 0
    text = page.read_text()
    assert "<strong>stale</strong> <span>product.json: 1 product file changed since (cases 1)</span>" in text
    assert f"not judged again: its case changed since ({CASE})"[:60] in text
    page.unlink()


def test_a_case_changes_with_what_it_imports() -> None:
    names = {"ring/split": ("rig.py", "cases/l5_ring/splits.py", "oracle/nvme.py", "oracle/protection.py")}
    clauses = load_spec().clauses
    for case in catalogue().cases:
        for name in names.get(case.name, ()):
            since = Since(moved({f"conformance_tests/{name}": "1"}, {}), clause_sums(clauses), clauses)
            if name.startswith("oracle/protection"):
                continue
            assert since.why_not(case.instances()[0]), name
        frame = Since(moved({"conformance_tests/run.py": "1", "record.py": "1"}, {}), clause_sums(clauses), clauses)
        assert frame.why_not(case.instances()[0]) == ""


def test_a_clause_that_changed_is_not_judged_again(package: Path, today: Today) -> None:
    def change(table: dict[str, Any]) -> None:
        table["clauses"]["prim.crc.check_value"] = "0" * 64

    packages.edit(package, layout.MUST_PASS, change)
    today("spec/clauses.yaml")
    found = check(package)
    assert said(found) == []
    assert found.stale is not None
    assert found.stale.not_judged == {ID: "its clause prim.crc.check_value changed since"}


def test_what_is_new_since_is_named_and_not_tested(package: Path, today: Today) -> None:
    """The package has no line of it; the contract or the cases changed since, so nobody need have left it out."""
    _without(package)
    today("conformance_tests/cases/l3_primitives/other.py")
    found = check(package)
    assert said(found) == []
    assert found.stale is not None
    assert found.stale.not_judged == {ID: "it is new since, or was not to be run then"}
    today("lib/libtutti_native.so")
    refused(check(package), layout.OBSERVATIONS, f"no run of {ID}")


def test_what_is_gone_since_is_named(planted: Path, today: Today) -> None:
    path = planted / "other"
    today("conformance_tests/cases/l3_primitives/other.py")
    for name in (layout.OBSERVATIONS, layout.VERDICTS):
        path = planted / name
        path.write_text(path.read_text().replace("plant/lacking", "plant/departed"))
    _settle(planted)
    found = check(planted)
    assert found.stale is not None
    assert found.stale.gone == ("plant/departed:arch=sim-w32",)
    today("lib/libtutti_native.so")
    refused(check(planted), layout.OBSERVATIONS, "plant/departed:arch=sim-w32")


# --- what a forger could try ------------------------------------------------------------------------------------


def test_a_flipped_verdict_is_refused_where_nothing_that_judges_changed(planted: Path, today: Today) -> None:
    _flip(planted)
    today("lib/libtutti_native.so", "kernels_templates/kernels/saxpy.cu.j2", CASE)
    refused(check(planted), f"{layout.VERDICTS}:4", "plant/fails:arch=sim-w32: verdict PASS; judged again it is FAIL")


@pytest.mark.parametrize("name", ["conformance_tests/judgement.py", "spec/clauses.yaml", "record.py"])
def test_a_flipped_verdict_counts_for_nothing_where_the_rules_changed(planted: Path, today: Today, name: str) -> None:
    _flip(planted)
    today(name)
    found = check(planted)
    assert said(found) == []
    assert found.stale is not None
    why = found.stale.not_judged["plant/fails:arch=sim-w32"]
    assert why.startswith("today's verdict is FAIL, then it was PASS")
    assert found.session is not None
    assert found.session.judgements["plant/fails:arch=sim-w32"].verdict == "NOT_TESTED"


def test_observations_that_were_changed_are_refused_whatever_changed(planted: Path, today: Today) -> None:
    packages.edit(planted, layout.OBSERVATIONS, lambda row: row["observations"].update(value=4), line=3)
    today("conformance_tests/judgement.py", "conformance_tests/outcome.py", CASE)
    refused(check(planted), f"{layout.OBSERVATIONS}:3", "the line of plant/fails:arch=sim-w32")


def test_a_run_that_was_left_out_of_the_verdicts_is_refused(planted: Path, today: Today) -> None:
    path = planted / layout.VERDICTS
    path.write_text("".join(row for row in path.read_text().splitlines(True) if "plant/fails" not in row))
    _settle(planted)
    today("conformance_tests/judgement.py")
    refused(check(planted), layout.VERDICTS, "no verdict of plant/fails:arch=sim-w32")


def test_another_seed_is_refused(package: Path, today: Today) -> None:
    packages.edit(package, layout.OBSERVATIONS, lambda row: row.update(seed=row["seed"] + 1))
    today("conformance_tests/judgement.py")
    refused(check(package), f"{layout.OBSERVATIONS}:1", "seed 1 gives it")


def test_a_record_that_is_not_the_products_own(package: Path, today: Today) -> None:
    path = package / "record" / "vendor.yaml"
    path.write_text(path.read_text() + "# more\n")
    packages.rebuild(package)
    today("backends/host/vendor.yaml")
    refused(check(package), "record/vendor.yaml", "for backends/host/vendor.yaml")


@pytest.mark.parametrize(
    ("name", "change", "place"),
    [
        (layout.RUN, lambda t: t["ladder"].update(reached="L5"), "reached"),
        (layout.RUN, lambda t: t["ladder"]["levels"][3].update(state="passed"), "L3"),
        (layout.RUN, lambda t: t["ladder"]["levels"][0].update(untested=[]), "untested"),
        (layout.RUN, lambda t: t["ladder"]["clauses"].update({"prim.crc.composes": "PASS"}), "clauses"),
        (layout.RUN, lambda t: t["counts"].update(PASS=99), "counts"),
        (layout.RUN, lambda t: t.update(provenance="hardware"), "provenance"),
        (layout.RUN, lambda t: t.update(suite="9.9"), "suite"),
        (layout.RUN, lambda t: t["raw_files"].update({"build.json": "0" * 64}), "build.json"),
        (layout.PRODUCT, lambda t: t.update(sha256="0" * 64), "sha256"),
        (layout.PRODUCT, lambda t: t["files"].update({"conformance_tests/mustpass/L3.txt": "0" * 64}), "sha256"),
        (layout.MUST_PASS, lambda t: t["lists"].update({"L3.txt": "0" * 64}), "lists"),
        (layout.MUST_PASS, lambda t: t["expected"].append("prim/x"), "expected"),
        (layout.ENVIRONMENT, lambda t: t["facts"].update(cpu="other"), ""),
    ],
)
def test_a_package_must_agree_with_itself(
    planted: Path, today: Today, name: str, change: Callable[[Any], Any], place: str
) -> None:
    packages.edit(planted, name, change)
    today("conformance_tests/judgement.py", "spec/clauses.yaml", CASE)
    found = check(planted)
    hits = [refusal for refusal in found.refusals if refusal.file == name]
    assert any(place in str(refusal) for refusal in hits), said(found)
    assert all(refusal.line for refusal in hits)


def _flip(package: Path) -> None:
    def flip(row: dict[str, Any]) -> None:
        row.update(verdict="PASS", reason="", blocks=False, failed=[], clauses=dict.fromkeys(row["clauses"], "PASS"))

    packages.edit(package, layout.VERDICTS, flip, line=4)
    _settle(package)


def _without(package: Path) -> None:
    for name in (layout.OBSERVATIONS, layout.VERDICTS):
        (package / name).write_text("")
    _settle(package)


def _settle(package: Path) -> None:
    """Make what is derived agree with the verdicts again, as a careful forger would."""
    rows = [json.loads(row) for row in (package / layout.VERDICTS).read_text().splitlines()]
    order = list(verification_order())

    def counts(own: list[Any]) -> dict[str, int]:
        found = [row["verdict"] for row in own]
        return {one: found.count(one) for one in order if one in found}

    def run(table: dict[str, Any]) -> None:
        table["counts"] = counts(rows)
        ladder = table["ladder"]
        for clause in ladder["clauses"]:
            found = [row["clauses"][clause] for row in rows if clause in row["clauses"]]
            ladder["clauses"][clause] = min(found, key=order.index) if found else "NOT_TESTED"
        clauses = load_spec().clauses
        for level in ladder["levels"]:
            own = [row for row in rows if row["level"] == level["level"]]
            level["counts"] = counts(own)
            level["blocking"] = [row["id"] for row in own if row["blocks"]]
            level["untested"] = [
                one
                for one, verdict in ladder["clauses"].items()
                if verdict == "NOT_TESTED" and clauses[one].level == level["level"]
            ]
            failed = any(row["blocks"] and row["verdict"] not in ("NOT_TESTED", "INCONCLUSIVE") for row in own)
            state = "failed" if failed else "incomplete" if level["untested"] or not own else "passed"
            level["state"] = state
        ladder["first_red"] = next((one["level"] for one in ladder["levels"] if one["state"] == "failed"), "")

    def must_pass(table: dict[str, Any]) -> None:
        table["expected"] = [row["id"] for row in rows]
        text = "".join(f"{one}\n" for one in table["expected"])
        table["expected_sha256"] = hashlib.sha256(text.encode()).hexdigest()

    packages.edit(package, layout.RUN, run)
    packages.edit(package, layout.MUST_PASS, must_pass)


def verification_order() -> list[str]:
    from tutti_hal.conformance_tests.verdict import Verdict

    return [one.value for one in Verdict]


# --- what made a level *failed* once, and makes it *incomplete* today --------------------------------------------


@pytest.fixture
def failed_then(tmp_path: Path) -> Path:
    """A package whose L3 is said to have failed, by the rule of then, since a case of it is inconclusive."""
    subject = SubjectSpec("host", cases=(packages.DOUBTFUL,))
    wanted = packages.options(subject=subject, cases=("plant/doubts",), level="L3")
    package = packages.copy(write_package(tmp_path / "fresh", packages.run(wanted)), tmp_path / "then")
    assert check(package, extra=packages.DOUBTFUL).word == "verified"

    def older(table: dict[str, Any]) -> None:
        (level,) = (one for one in table["ladder"]["levels"] if one["level"] == "L3")
        assert (level["state"], level["counts"]) == ("incomplete", {"INCONCLUSIVE": 1})
        level["state"] = "failed"
        table["ladder"]["first_red"] = "L3"

    packages.edit(package, layout.RUN, older)
    return package


def test_what_was_inconclusive_is_judged_by_the_rule_of_today(failed_then: Path, today: Today) -> None:
    today("conformance_tests/ladder.py")
    found = check(failed_then, extra=packages.DOUBTFUL)
    assert said(found) == []
    (remark,) = (one for one in found.remarks if "L3" in one)
    assert "said to have failed, for what is inconclusive" in remark
    assert found.session is not None
    levels = {one.name: one.state for one in found.session.ladder.levels}
    assert levels["L3"] == "incomplete"
    assert found.session.ladder.first_red is None


def test_whoever_has_the_rule_of_today_has_to_follow_it(failed_then: Path, today: Today) -> None:
    today("conformance_tests/seen.py")
    refused(check(failed_then, extra=packages.DOUBTFUL), layout.RUN, "state failed; incomplete")


def test_the_older_rule_makes_nothing_pass(failed_then: Path, today: Today) -> None:
    def passed(table: dict[str, Any]) -> None:
        (level,) = (one for one in table["ladder"]["levels"] if one["level"] == "L3")
        level["state"] = "passed"
        table["ladder"]["first_red"] = ""

    packages.edit(failed_then, layout.RUN, passed)
    today("conformance_tests/ladder.py")
    refused(check(failed_then, extra=packages.DOUBTFUL), layout.RUN, "state passed; incomplete")


# --- kinds and history ------------------------------------------------------------------------------------------


def test_every_product_file_has_a_kind() -> None:
    names = ("spec/x.yaml", "codegen/a.py", "backend/acme/b", "lib/c", "conformance_tests/oracle/d", "shim/e.py")
    assert [kind_of(name) for name in names] == ["contract", "templates", "record", "native", "cases", "runtime"]
    assert kind_of("conformance_tests/seen.py") == "rules"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A repository that has the product's folders; commits files, and gives the commit."""
    root = tmp_path / "repository"
    root.mkdir()
    monkeypatch.setattr(history, "_root", lambda: root)

    def git(*words: str) -> str:
        named = ("-c", "user.name=x", "-c", "user.email=x@y")
        done = subprocess.run(["git", "-C", str(root), *named, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(files: dict[str, str], branch: str = "") -> str:
        if branch:
            git("checkout", "-q", "-b", branch)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", "x")
        found = git("rev-parse", "HEAD")
        if branch:
            git("checkout", "-q", "-")
        return found

    git("init", "-q")
    return commit


TREE = {
    "tutti_hal/record.py": "a",
    "backends/host/vendor.yaml": "b",
    "kernels_templates/x.j2": "c",
    "conformance_tests/case.py": "d",
    "conformance_tests/registry/y.json": "e",
    "native/z.cpp": "f",
}


def stated(commit: str, **changes: str) -> dict[str, Any]:
    files = {"record.py": "a", "backends/host/vendor.yaml": "b", "kernels_templates/x.j2": "c", "lib/l.so": "q"}
    files = {**files, "conformance_tests/case.py": "d", **changes}
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items() if text}
    return {"version": "0.1", "source": {"commit": commit, "changed": False}, "files": sums}


def test_a_product_is_looked_up_in_the_history(repository: Callable[..., str]) -> None:
    first = repository(TREE)
    repository({"tutti_hal/record.py": "other", "native/z.cpp": "other"})
    found = history.known(stated(first))
    assert (found.sure, found.commit, found.astray) == (True, first, {})
    assert not history.same_native(first)
    changed = history.known(stated(first, **{"record.py": "mine", "new.py": "n", "kernels_templates/x.j2": ""}))
    assert not changed.sure
    assert list(changed.astray) == ["kernels_templates/x.j2", "new.py", "record.py"]
    absent = history.known(stated("1" * 40))
    assert (absent.sure, absent.strange) == (False, True)
    elsewhere = history.known(stated(repository({"tutti_hal/record.py": "branch"}, branch="side")))
    assert (elsewhere.sure, elsewhere.strange) == (False, True)
    wheel = history.known({**stated(first), "source": None})
    assert (wheel.sure, wheel.strange) == (False, False)


def test_where_there_is_no_history_the_package_has_only_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_root", lambda: None)
    found = history.known(stated("1" * 40))
    assert (found.sure, found.strange) == (False, False)
    assert "no history here" in found.said
