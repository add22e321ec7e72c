"""What a machine can lack or have wrong, met from the command line: exit 1, an id, what was found, what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tutti_hal.errors import CacheUnwritable
from tutti_hal.toolchain import cache


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with these variables set."""
    environ = {name: value for name, value in os.environ.items() if name not in ("TUTTI_PROFILE", "CXX")} | variables
    return subprocess.run(
        [sys.executable, "-m", "tutti_hal", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_compiler_variable_with_an_open_quote(tmp_path: Path) -> None:
    done = run("build", "--profile", "host", TUTTI_HOST_CXX="g++ '-O2", TUTTI_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert "[TT-COMPILER-MISSING]" in done.stderr
    assert "TUTTI_HOST_CXX is no command line: g++ '-O2 (no closing quotation)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "cache").exists()


def test_the_doctor_goes_on_past_a_broken_compiler_variable() -> None:
    done = run("doctor", TUTTI_HOST_CXX="'")
    assert done.returncode == 1
    assert "fail  compiler.host" in done.stdout
    assert "checks: " in done.stdout.splitlines()[-1]


def test_a_compiler_that_makes_nothing_is_said(tmp_path: Path) -> None:
    done = run(
        "build", "--profile", "host", "--set", "saxpy", TUTTI_HOST_CXX="/bin/true", TUTTI_CACHE_DIR=str(tmp_path)
    )
    assert done.returncode == 1
    assert "[TT-BUILD]" in done.stderr
    assert "exit 0 and no saxpy.so" in done.stderr
    assert "The command was: /bin/true" in done.stderr


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container under a number that no account has."""
    for name in ("TUTTI_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(CacheUnwritable, match="has no home") as caught:
        cache.folder()
    assert "TUTTI_CACHE_DIR" in caught.value.fix


def test_no_compiler_stops_the_demo_before_it_makes_files(tmp_path: Path) -> None:
    for name in ("bin", "drives"):
        (tmp_path / name).mkdir()
    where = {"PATH": str(tmp_path / "bin"), "TUTTI_CACHE_DIR": str(tmp_path / "cache")}
    done = run("demo", "--profile", "host", "--requests", "4", "--dir", str(tmp_path / "drives"), **where)
    assert done.returncode == 1
    assert "[TT-COMPILER-MISSING]" in done.stderr
    assert "apt-get install g++" in done.stderr
    assert list((tmp_path / "drives").iterdir()) == []
    assert not (tmp_path / "cache").exists()


def test_a_broken_record_reads_well_in_the_list(tmp_path: Path) -> None:
    """A vendor that comes as a package of its own, whose record says something that it cannot."""
    vendor = tmp_path / "acme"
    vendor.mkdir()
    (vendor / "vendor.yaml").write_text("schema: 1\nvendor: acme\nvendor: acme\n", encoding="utf-8")
    (vendor / "__init__.py").write_text(
        "from pathlib import Path\n"
        "from tutti_hal.backend import API_VERSION, Descriptor, Probe\n"
        'DESCRIPTOR = Descriptor("acme", API_VERSION, Path(__file__).parent, "acme", lambda: Probe(True, "here"))\n',
        encoding="utf-8",
    )
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[tutti_hal.backends]\nacme = acme:DESCRIPTOR\n", encoding="utf-8")
    done = run("build", "--profile", "acme", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "[TT-PROFILE-UNUSABLE]" in done.stderr
    assert done.stderr.count(f"{vendor / 'vendor.yaml'}:3: vendor: the key is already given on line 2") == 1
    assert "acme: not usable: as said above" in done.stderr
    assert "host: usable when named" in done.stderr
    listed = run("profiles", PYTHONPATH=str(tmp_path))
    assert listed.returncode == 0
    assert "acme: its record is broken" in listed.stdout
