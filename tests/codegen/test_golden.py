"""What is rendered is what was read and found good: golden files, which are formatted and stand on their own.

`make golden` writes them again; the difference is for a person to read.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.codegen.conftest import record_of
from tutti_hal.cli.main import main
from tutti_hal.codegen import render
from tutti_hal.paths import include_dir
from tutti_hal.profile import resolve
from tutti_hal.toolchain import toolchain_of

GOLDEN = Path(__file__).parent / "golden"
SETS = ("saxpy", "probe_primitives", "ring")
#: folder -> (vendor, archs that must all give this text, units); on a wave without a ballot the ring is the same text
TREES = {
    "cuda": ("cuda", ("sm_80", "sm_90"), SETS),
    "host-threads-w32": ("host", ("threads-w32",), SETS),
    "host-sim-w128": ("host", ("sim-w128",), SETS[:2]),
}


def _files(vendor: str, arch: str, units: tuple[str, ...]) -> dict[str, str]:
    record = record_of(vendor)
    files: dict[str, str] = {}
    for name in units:
        rendered = render(record, arch, name)
        files |= {**rendered.headers, f"{name}{record.toolchain.suffix}": rendered.source}
    return files


@pytest.mark.parametrize("folder", TREES)
def test_rendered_text_is_the_golden_text(folder: str, request: pytest.FixtureRequest) -> None:
    vendor, archs, units = TREES[folder]
    root = GOLDEN / folder
    if request.config.getoption("--update-golden", default=False):
        shutil.rmtree(root, ignore_errors=True)
        for name, text in _files(vendor, archs[0], units).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
    golden = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in root.rglob("*") if path.is_file()}
    for arch in archs:
        assert _files(vendor, arch, units) == golden, (
            f"{folder} differs on {arch}: `make golden`, then read the difference"
        )


def test_golden_files_are_formatted() -> None:
    # The one that is pinned for development, and not whichever is on PATH: versions format differently.
    package = importlib.util.find_spec("clang_format")
    assert package is not None, "clang-format is missing: pip install -e '.[dev]'"
    tool = str(Path(package.origin or "").parent / "data" / "bin" / "clang-format")
    files = sorted(str(path) for path in GOLDEN.rglob("*") if path.is_file())
    assert len(files) == sum(3 + len(units) for _, _, units in TREES.values()), "three headers and the units of each"
    style = f"--style=file:{GOLDEN.parents[2] / '.clang-format'}"
    done = subprocess.run([tool, style, "--dry-run", "-Werror", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_host_golden_files_compile(tmp_path: Path) -> None:
    chain = toolchain_of(resolve("host"))
    for folder in ("host-threads-w32", "host-sim-w128"):
        _, (arch,), units = TREES[folder]
        for name in units:
            unit = GOLDEN / folder / f"{name}.cpp"
            command = chain.command(chain.find(), chain.record.archs[arch], unit, tmp_path / "out.so")
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
            assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cuda_golden_files_compile_with_nothing_but_their_folder(arch: str, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc: install the CUDA toolkit")
    for name in SETS:
        unit = GOLDEN / "cuda" / f"{name}.cu"
        command = [nvcc, f"-arch={arch}", "-c", str(unit), "-o", str(tmp_path / "out.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


# ---- the verbs ----


def test_generate_writes_a_folder_that_stands_on_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["generate", "--profile", "host:sim-w32", "--set", "saxpy", "--out", str(out)]) == 0
    assert "1 units and their headers" in capsys.readouterr().out
    assert {path.name for path in (out / "tutti").iterdir()} == {"abi.h", "port.h", "engine.h", "host_device.h"}
    assert (out / "tutti" / "engine.h").read_text() == (include_dir() / "tutti" / "engine.h").read_text()
    command = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{out}", str(out / "saxpy.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_generate_for_several_archs_shares_what_is_the_same(tmp_path: Path) -> None:
    one = ["generate", "--set", "saxpy"]
    assert main([*one, "--profile", "cuda", "--out", str(tmp_path / "cuda")]) == 0
    assert (tmp_path / "cuda" / "saxpy.cu").is_file()
    assert main([*one, "--profile", "host", "--arch", "all", "--out", str(tmp_path / "host")]) == 0
    assert sorted(path.name for path in (tmp_path / "host").iterdir()) == sorted(record_of("host").archs)


def test_generate_check_finds_each_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--profile", "cuda", "--set", "saxpy", "--out", str(tmp_path)]
    assert main(command) == 0
    assert main([*command, "--check"]) == 0
    unit = tmp_path / "saxpy.cu"
    unit.write_text(unit.read_text().replace("y[i] = a", "y[i] = b"))
    (tmp_path / "stray.h").write_text("// nobody renders this\n")
    capsys.readouterr()
    assert main([*command, "--check"]) == 1
    printed = capsys.readouterr().out
    assert "-        y[i] = b * x[i] + y[i];\n+        y[i] = a * x[i] + y[i];" in printed
    assert "-// nobody renders this" in printed
    assert "2 files differ" in printed
    assert "y[i] = b" in unit.read_text(), "--check wrote"


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--profile", "hots"], "host"),
        (["--profile", "host", "--arch", "threads-w23"], "did you mean 'threads-w32'"),
        (["--profile", "host", "--set", "saxpi"], "did you mean 'saxpy'"),
    ],
)
@pytest.mark.parametrize("verb", ["generate", "build"])
def test_a_wrong_name_is_refused_with_the_near_miss(
    verb: str, more: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out")] if verb == "generate" else []
    assert main([verb, *more, *out]) == 1
    assert word in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_build_prints_a_table_and_json(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    command = ["build", "--profile", "host", "--set", "saxpy", "--arch", "threads-w32", "--arch", "sim-w64"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if line.startswith("saxpy")]
    assert [(row[1], row[2], row[-1]) for row in rows] == [
        ("threads-w32", "saxpy", "compiled"),
        ("sim-w64", "saxpy", "compiled"),
    ]
    assert main([*command, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert [module["origin"] for module in table["modules"]] == ["cached", "cached"]
    assert all(Path(module["path"]).is_file() for module in table["modules"])
    assert cache_dir.is_dir()
