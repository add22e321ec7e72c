"""The host's half against a machine that is a small program: every end of a case, and of a guest, is told apart."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rig import build, kernels, run
from rig.case import Case, Failed, Guest, Skipped, all_cases, body_of, case
from rig.errors import RigError
from rig.guest import EmulatorCrashed, End, GuestDied, GuestProcess
from rig.host_side import answer
from rig.qemu import Files, Iommu, Machine

AGENT = """
import json, socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1]); server.listen()
peer, _ = server.accept()
lines = peer.makefile("r")
def send(**message): peer.sendall(json.dumps(message).encode() + b"\\n")
def take(): return json.loads(lines.readline())
"""


def nothing(guest: Guest) -> None:
    """A case that is never called here."""


CASE = Case(nothing, Machine(), 0.5, False, False)


def machine(tmp_path: Path, body: str, *, boot_timeout_s: float = 10.0) -> GuestProcess:
    files = Files(tmp_path / "g")
    script = tmp_path / "agent.py"
    script.write_text(AGENT + textwrap.dedent(body))
    argv = [sys.executable, "-I", str(script), str(files.channel)]
    return GuestProcess(argv, files, boot_timeout_s=boot_timeout_s, answer=answers)


def answers(verb: str, details: Mapping[str, Any], guest: GuestProcess) -> Any:
    assert guest.release == "9.9"
    if verb != "double":
        raise LookupError(verb)
    return details["value"] * 2


def test_a_case_is_run_what_it_says_is_passed_on_and_what_it_asks_is_answered(tmp_path: Path) -> None:
    body = """
        send(ready="9.9", log=["booted"])
        told = take()
        assert told["run"].endswith(":nothing"), told
        send(say="half way")
        send(ask="double", **{"with": {"value": 21}})
        good = take()
        send(ask="other", **{"with": {}})
        bad = take()
        send(end="pass", why=f"{good} {bad}", checks=3, log=["a line"], expects=[])
        take()
    """
    said: list[str] = []
    with machine(tmp_path, body) as guest:
        assert guest.boot_log == ("booted",)
        end = guest.run(CASE, said.append)
    assert said == ["half way"]
    assert end == End("pass", "{'answer': 42} {'refused': 'LookupError: other'}", 3, ("a line",), ())


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("send(ready='9.9', log=[]); take(); sys.exit(3)", GuestDied, "the guest ended"),
        ("send(ready='9.9', log=[]); take(); send(odd=1); take()", GuestDied, "odd"),
        (
            "send(ready='9.9', log=[]); take(); print('Assertion `x < y failed.', flush=True); sys.exit(3)",
            EmulatorCrashed,
            "Assertion",
        ),
    ],
)
def test_a_guest_that_ends_or_speaks_nonsense_is_told_with_its_last_words(
    tmp_path: Path, body: str, kind: type[GuestDied], words: str
) -> None:
    with machine(tmp_path, body) as guest, pytest.raises(GuestDied, match=words) as caught:
        guest.run(CASE, print)
    assert type(caught.value) is kind


def test_a_guest_that_says_nothing_is_ended_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rig.guest.GRACE_S", 0.3)
    start = time.monotonic()
    with (
        machine(tmp_path, "send(ready='9.9', log=[]); time.sleep(60)") as guest,
        pytest.raises(GuestDied, match="no word"),
    ):
        guest.run(CASE, print)
    assert time.monotonic() - start < 15


def test_a_machine_that_does_not_come_up_is_ended_in_time(tmp_path: Path) -> None:
    with pytest.raises(GuestDied, match="no word"), machine(tmp_path, "time.sleep(60)", boot_timeout_s=1.0):
        pass


def end(verdict: str, *, log: tuple[str, ...] = (), expects: tuple[str, ...] = ()) -> End:
    return End(verdict, "why", 1, log, expects)


def test_a_pass_with_trouble_in_the_log_is_no_pass() -> None:
    assert run.judge(end("pass")) == []
    assert run.judge(end("skip")) == []
    assert run.judge(end("fail")) == ["why"]
    assert "BUG" in run.judge(end("pass", log=("BUG: bad",)))[0]
    assert "BUG" in run.judge(end("skip", log=("BUG: bad",)))[0]
    assert run.judge(end("pass", log=("BUG: bad",), expects=("BUG: bad",))) == []
    assert run.judge(end("pass", expects=("BUG: bad",)))


def test_cases_of_one_machine_share_a_boot_and_a_fresh_one_is_alone() -> None:
    other = Machine(iommu=Iommu.TRANSLATE)
    cases = [Case(nothing, which, 1.0, fresh, False) for which, fresh in ((Machine(), False), (other, False))]
    cases += [Case(nothing, Machine(), 1.0, True, False), Case(nothing, Machine(), 1.0, False, False)]
    groups = list(run.by_machine(cases))
    assert [(group[0], len(group[1])) for group in groups] == [(Machine(), 2), (other, 1), (Machine(), 1)]


def test_every_case_says_what_it_shows_and_is_found_again_by_its_name() -> None:
    cases = all_cases()
    assert len(cases) > 10
    for each in cases:
        assert each.sentence.endswith("."), each.name
        assert body_of(each.where) is each.body
        assert 0 < each.timeout_s <= 600
    with pytest.raises(LookupError, match="no case"):
        body_of("rig.cases.stock:mmap")


def test_cases_are_chosen_by_name_and_an_unknown_one_lists_those_there_are() -> None:
    assert {each.name.split("/")[0] for each in run.chosen("vendors/")} == {"vendors"}
    assert not [each for each in run.chosen("", ["fuzz/"]) if "fuzz/" in each.name]
    with pytest.raises(RigError, match="stock/stock_driver_reads"):
        run.chosen("nonesuch")


def test_the_list_needs_no_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--list"]) == 0
    assert "stock/stock_driver_reads [plain]" in capsys.readouterr().out


def test_what_cannot_run_here_is_one_line_and_its_own_status(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run.main(["--python", str(tmp_path / "python")]) == 2
    out = capsys.readouterr().out
    assert out.startswith("rig: ")
    assert out.count("\n") == 1


def test_checks_are_counted_and_a_failed_one_says_what_was_found() -> None:
    guest = Guest(lambda verb, **_: verb, print)
    guest.check(True, "a")
    guest.equal(1, 1, "b")
    assert guest.checks == 2
    with pytest.raises(Failed, match="c: found 1, wanted 2"):
        guest.equal(1, 2, "c")
    with pytest.raises(Skipped, match="not here"):
        guest.skip("not here")


def test_a_case_may_want_several_machines() -> None:
    @case((Machine(), Machine(gpu_mib=0)), timeout_s=7)
    def declared(guest: Guest) -> None:
        """Two."""

    found = declared.__dict__["rig_cases"]
    assert [each.machine.gpu_mib for each in found] == [256, 0]
    assert {each.timeout_s for each in found} == {7}


@pytest.mark.parametrize("verb", ["", "shell", "__class__"])
def test_a_guest_cannot_ask_for_anything_else(tmp_path: Path, verb: str) -> None:
    with pytest.raises(LookupError, match="unplug"):
        answer(verb, {}, machine(tmp_path, ""))


def test_the_name_of_what_was_built_follows_the_sources_and_not_the_rig(tmp_path: Path) -> None:
    for name in ("Makefile", "core/a.c", "rig/fakes/f.c", "core/a.o", "notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    files = build.sources_of(tmp_path)
    assert [str(file.relative_to(tmp_path)) for file in files] == ["Makefile", "core/a.c"]
    before = build.digest(files, tmp_path, "6.1")
    assert build.digest(files, tmp_path, "6.12") != before
    (tmp_path / "core/a.c").write_text("changed")
    assert build.digest(files, tmp_path, "6.1") != before


def test_a_line_that_needs_root_is_told_apart_from_a_failed_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernels.Kernel(kernels.line("6.12"), "6.12.9-amd64", tmp_path / "kernel" / "trixie")
    monkeypatch.setattr(build, "fetch_headers", lambda *_: tmp_path / "headers")
    monkeypatch.setattr(build.os, "geteuid", lambda: 1000)
    archive: Any = type("FakeArchive", (), {"cache": tmp_path})()
    with pytest.raises(build.CannotBuild, match="sudo make"):
        build.modules(archive, kernel, tmp_path)


def fake_make(fails: bool) -> Callable[..., str]:
    def runner(argv: list[str], **_: object) -> str:
        assert argv[:2] == ["make", "-s"]
        folder = Path(next(word[2:] for word in argv if word.startswith("M=")))
        assert (folder / "a.c").read_text() == "int x;"
        if fails:
            raise RigError("running make", "exit 2: a.c:1: error: no", "run it by hand")
        (folder / "a.ko").write_text("built")
        return ""

    return runner


def test_modules_are_built_once_and_a_failed_build_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, cache = tmp_path / "source", tmp_path / "cache"
    source.mkdir()
    (source / "a.c").write_text("int x;")
    kernel = kernels.Kernel(kernels.line("6.1"), "6.9.0-1-amd64", cache / "kernel" / "bookworm")
    monkeypatch.setattr(build, "fetch_headers", lambda *_: cache / "headers")
    monkeypatch.setattr(build, "require", lambda name: name)
    archive: Any = type("FakeArchive", (), {"cache": cache})()
    with pytest.raises(RigError, match="no"):
        build.modules(archive, kernel, source, runner=fake_make(True))
    built = build.modules(archive, kernel, source, runner=fake_make(False))
    assert (built / "a.ko").read_text() == "built"
    assert build.modules(archive, kernel, source, runner=fake_make(True)) == built
