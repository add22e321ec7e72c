"""The outer command line: verbs, near misses, exit codes, and that a verb's module is imported only for that verb."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from types import ModuleType

import pytest

from tutti_hal import __version__
from tutti_hal.cli import main as cli
from tutti_hal.errors import ProfileUnknown


def _verb(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    """Adds a verb ``probe`` whose module is made here."""
    module = ModuleType("probe_verb")
    module.configure = lambda parser: parser.add_argument("--number", type=int, default=0)  # type: ignore[attr-defined]
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "probe_verb", module)
    monkeypatch.setitem(cli.VERBS, "probe", cli.Verb("probe_verb", "tries the command line"))


def test_help_lists_every_verb_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for name, verb in cli.VERBS.items():
        assert f"  {name} " in text
        assert verb.summary in text
    assert "tutti-hal demo --profile host" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"tutti-hal {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "name a verb"),
        (["dmo"], "did you mean 'demo'"),
        (["zzz"], "there are profiles, collect"),
        (["--wrong"], "unrecognized arguments"),
    ],
)
def test_wrong_usage_says_what_is_right_and_leaves_with_2(
    capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(argv)
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_no_verb_module_is_imported_for_the_outer_help() -> None:
    code = (
        "import sys, contextlib\nfrom tutti_hal.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "print(*[m for m in sys.modules if m.startswith('tutti_hal')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "tutti_hal.cli.main" in loaded
    assert not {verb.module for verb in cli.VERBS.values()} & loaded
    assert "tutti_hal.profile" not in loaded


@pytest.mark.parametrize("name", list(cli.VERBS))
def test_every_verb_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(cli.VERBS[name].module)
    assert callable(module.run)
    with pytest.raises(SystemExit) as left:
        cli.main([name, "--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: tutti-hal {name}" in text
    assert f"tutti-hal {name}" in text.split("usage:", 1)[1].split("\n", 1)[1], "an example"


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(args: argparse.Namespace) -> int:
        if args.number == 1:
            raise ProfileUnknown("select profile 'hots'", "no such vendor", "Name host.")
        if args.number == 2:
            raise KeyboardInterrupt
        return int(args.number)

    _verb(monkeypatch, run)
    assert cli.main(["probe"]) == 0
    assert cli.main(["probe", "--number", "7"]) == 7
    assert cli.main(["probe", "--number", "1"]) == 1
    assert "tutti-hal probe: [TT-PROFILE-UNKNOWN] select profile 'hots'" in capsys.readouterr().err
    assert cli.main(["probe", "--number", "2"]) == 130
    assert "interrupted" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        cli.main(["probe", "--number", "x"])
    assert left.value.code == 2


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    script = (
        "import sys, types\nfrom tutti_hal.cli import main as cli\n"
        "m = types.ModuleType('probe_verb'); m.configure = lambda p: None\n"
        "m.run = lambda a: [print('x' * 1000) for _ in range(1000)] and 0\n"
        "sys.modules['probe_verb'] = m; cli.VERBS['probe'] = cli.Verb('probe_verb', 'probe')\n"
        "sys.exit(cli.main(['probe']))"
    )
    shell = f'"{sys.executable}" -c "$0" | head -c 10 >/dev/null; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", shell, script], check=False, capture_output=True, text=True)
    assert done.returncode == 141
    assert done.stderr == ""


def test_python_m_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tutti_hal", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tutti-hal {__version__}\n"
