"""The compile matrix: its baseline fails a kernel that grew, and its cases pass on one arch of each vendor here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutti_hal.codegen import KernelDecl
from tutti_hal.conformance_tests.errors import BaselineInvalid
from tutti_hal.conformance_tests.isa import __main__ as command
from tutti_hal.conformance_tests.isa import baseline, matrix
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.toolchain import Built, Resources

pytestmark = pytest.mark.isa


def built(kernel_set: str, *needs: Resources, arch: str = "a") -> Built:
    kernels = tuple(KernelDecl(need.kernel, (), 1) for need in needs)
    return Built(Path("m"), kernel_set, arch, kernels, "0", needs, "compiled", "cc 1", "", 0.0)


KNOWN = baseline.Baseline("cc 1", {("a", "ring/run"): (54, 0, 128, 0), ("a", "ring/gone"): (1, 0, 0, 0)})


@pytest.mark.parametrize(
    ("need", "grown"),
    [
        (Resources("run", 54, 0, 128, 0), ""),
        (Resources("run", 40, 0, 0, 0), ""),
        (Resources("run", 59, 0, 128, 0), ""),
        (Resources("run", 60, 0, 128, 0), "ring/run on a: registers 60, baseline 54, margin 5"),
        (Resources("run", 54, 4, 128, 0), "ring/run on a: spill_bytes 4, baseline 0, margin 0"),
        (Resources("run", 54, 0, 132, 0), "ring/run on a: shared_bytes 132, baseline 128, margin 0"),
        (Resources("run", 54, 0, 128, 8), "ring/run on a: local_bytes 8, baseline 0, margin 0"),
        (Resources("run", None, 0, 128, 0), "ring/run on a: registers was 54, and now the toolchain cannot tell"),
    ],
)
def test_growth_is_said_with_both_figures(need: Resources, grown: str) -> None:
    found = baseline.compare(KNOWN, [built("ring", need)])
    assert found.grown == ((grown,) if grown else ())
    assert found.compared == 4
    assert found.said == ("ring/gone on a: a baseline of no kernel",)


def test_a_product_kernel_must_have_a_baseline() -> None:
    needs = Resources("run", 54, 0, 128, 0), Resources("new", 1, 0, 0, 0)
    found = baseline.compare(KNOWN, [built("ring", *needs), built("probe_x", Resources("p", 1, 0, 0, 0))])
    assert found.lacking == ("ring/new on a: no baseline",)
    assert "probe_x/p on a: no baseline" in found.said


def test_a_probe_that_grew_is_only_said() -> None:
    known = baseline.Baseline("cc 1", {("a", "probe_x/p"): (8, 0, 0, 0)})
    found = baseline.compare(known, [built("probe_x", Resources("p", 20, 0, 0, 0))])
    assert (found.grown, found.said) == ((), ("probe_x/p on a: registers 20, baseline 8, margin 4",))


def test_an_expected_failure_that_passes_everywhere_is_a_finding() -> None:
    def row(arch: str, verdict: Verdict) -> matrix.Row:
        judgement = Judgement(f"compile/x:arch={arch}", verdict, "", blocks=True)
        return matrix.Row(arch, 1, 1, (judgement,))

    part = matrix.VendorMatrix("v", rows=(row("a", Verdict.XFAIL), row("b", Verdict.XPASS)))
    whole = matrix.VendorMatrix("v", rows=(row("a", Verdict.XPASS), row("b", Verdict.XPASS)))
    failed = matrix.VendorMatrix("v", rows=(row("a", Verdict.FAIL),))
    assert (part.passed, whole.passed, failed.passed) == (True, False, False)
    assert whole.outlived == ("compile/x",)


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "file_of", lambda vendor: tmp_path / f"{vendor}.yaml")
    modules = [built("ring", Resources("run", 54, 0, None, 0)), built("ring", Resources("run", 9, 0, 0, 0), arch="b")]
    baseline.write("v", modules)
    assert baseline.load("v") == baseline.Baseline(
        "cc 1", {("a", "ring/run"): (54, 0, None, 0), ("b", "ring/run"): (9, 0, 0, 0)}
    )
    assert baseline.load("w") is None
    (tmp_path / "v.yaml").write_text("compiler: x\narchs: {a: {k: [1, 2]}}\n")
    with pytest.raises(BaselineInvalid, match="damaged"):
        baseline.load("v")


def test_the_committed_baselines_are_whole() -> None:
    files = sorted(baseline.file_of("x").parent.glob("*.yaml"))
    assert files
    for file in files:
        found = baseline.load(file.stem)
        assert found is not None
        archs = matrix.archs_of(file.stem)
        assert {arch for arch, _ in found.kernels} == set(archs)
        assert all((arch, "ring/ring_run") in found.kernels for arch in archs)


def test_what_failed_is_printed_and_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grown = baseline.compare(KNOWN, [built("ring", Resources("run", 60, 0, 128, 0))])
    answers = {
        "one": matrix.VendorMatrix("one", compiler="cc 1", resources=grown),
        "two": matrix.VendorMatrix("two", absent="looked everywhere"),
    }
    monkeypatch.setattr(command, "vendors", lambda: tuple(answers))
    monkeypatch.setattr(command, "run_vendor", lambda vendor, _: answers[vendor])
    assert command.main([]) == 1
    said = capsys.readouterr().out
    assert "GROWN ring/run on a: registers 60, baseline 54, margin 5" in said
    assert "two: not run: looked everywhere" in said
    assert command.main(["--vendor", "two"]) == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("vendor", matrix.vendors())
def test_the_listing_cases_pass_where_the_compiler_is(vendor: str) -> None:
    arch = matrix.archs_of(vendor)[-1]
    found = matrix.run_vendor(vendor, 1, ("compile/listing", "compile/listing.record"), (arch,), sets=("saxpy",))
    if found.absent:
        pytest.skip(f"{vendor} cannot be compiled here: {found.absent}")
    assert not found.failed
    (row,) = found.rows
    assert [one.id for one in row.judgements] == [f"compile/listing:arch={arch}", f"compile/listing.record:arch={arch}"]
    assert not row.bad, [one.reason for one in row.bad]
