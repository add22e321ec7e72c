"""Terminal output: a person sees tables and a bar, a pipe sees plain lines, ``--json`` sees nothing."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from tutti_hal.cli.terminal import Terminal

_SCRIPT = """
import time
from tutti_hal.cli.terminal import Section, Terminal
t = Terminal(quiet=QUIET)
t.title("the title")
t.facts([("profile", "host"), ("note", "[not markup]")])
with t.progress("replaying", 8, "requests") as advance:
    for i in range(8):
        advance(1, f"{i} hits")
        time.sleep(0.02)
t.table([Section("bytes", [("read", "1 MiB", "a remark"), ("written", "2 MiB", "")])])
t.verdict(True, "VERIFIED")
"""


def _on_a_terminal(quiet: bool) -> tuple[str, str]:
    """Runs the script with a terminal as standard output and error; returns what came on each."""
    texts = []
    pairs = [pty.openpty(), pty.openpty()]
    script = _SCRIPT.replace("QUIET", str(quiet))
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    child = subprocess.Popen([sys.executable, "-c", script], stdout=pairs[0][1], stderr=pairs[1][1], env=env)
    for ours, theirs in pairs:
        os.close(theirs)
        data = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            data += piece
        os.close(ours)
        texts.append(data.decode())
    assert child.wait() == 0
    return texts[0], texts[1]


def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    exec(_SCRIPT.replace("QUIET", "False").replace("time.sleep(0.02)", "pass"), {})
    text = capsys.readouterr().out
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0] == "the title"
    assert "  note     [not markup]" in lines
    assert [line for line in lines if line.startswith("replaying")] == [
        f"replaying: {n}/8 requests, {n - 1} hits" for n in (2, 4, 6, 8)
    ]
    assert "bytes: read: 1 MiB (a remark)" in lines
    assert lines[-1] == "VERIFIED"


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    exec(_SCRIPT.replace("QUIET", "True").replace("time.sleep(0.02)", "pass"), {})
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_terminal_gets_a_bar_and_a_table() -> None:
    out, err = _on_a_terminal(quiet=False)
    assert err == ""
    assert "replaying" in out
    assert "━" in out
    assert "\x1b[" in out
    assert "1 MiB" in out


def test_quiet_on_a_terminal_has_its_bar_on_standard_error() -> None:
    out, err = _on_a_terminal(quiet=True)
    assert out == ""
    assert "replaying" in err
    assert "VERIFIED" not in err


def test_an_error_inside_passes_through_the_bar() -> None:
    def work() -> None:
        with Terminal(quiet=True).progress("x", 2, "y") as advance:
            advance(1)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        work()


def test_a_figure_that_was_not_measured_is_a_dash() -> None:
    from tutti_hal.cli.demo_replay import _number

    assert (_number(None, ".3f"), _number(0.5, ".1%")) == ("-", "50.0%")
