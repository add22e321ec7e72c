"""The watch of the kernel's log: serious lines that came while a case ran, and no others."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.conformance.runs import FACTS, LIMITS, OPTIONS, TERMS, instances, wait_until
from tutti_hal.conformance_tests.judgement import judge
from tutti_hal.conformance_tests.runner.pool import run_instances
from tutti_hal.conformance_tests.runner.shop import Shop
from tutti_hal.conformance_tests.runner.watch import SERIOUS, KernelLog
from tutti_hal.conformance_tests.verdict import Verdict

OLD = "4,1,100,-;BUG: unable to handle page fault\n"
NEW = "3,2,200,-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci\n DEVICE=BUG: no line\n"
CALM = "6,3,300,-;nvme nvme0: 16/0/0 default/read/poll queues\n"


def write(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def test_lines_from_before_are_not_seen_and_calm_ones_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(OLD, encoding="utf-8")
    with KernelLog(log) as watch:
        mark = watch.mark()
        assert watch.since(mark) == ()
        write(log, CALM + NEW)
        assert watch.since(mark) == ("kernel: NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.",)
        assert watch.since(watch.mark()) == ()
        assert watch.said == "watched"


def test_every_case_in_flight_gets_the_line(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.touch()
    with KernelLog(log) as watch:
        early, late = watch.mark(), watch.mark()
        write(log, NEW)
        assert watch.since(early) == watch.since(late) != ()


def test_half_a_line_waits_for_its_rest(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.touch()
    with KernelLog(log) as watch:
        mark = watch.mark()
        write(log, "3,2,200,-;WARN")
        assert watch.since(mark) == ()
        write(log, "ING: CPU: 1 PID: 2 at x.c:3; a semicolon\n")
        assert watch.since(mark) == ("kernel: WARNING: CPU: 1 PID: 2 at x.c:3; a semicolon",)


def test_a_log_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    with KernelLog(tmp_path / "none") as watch:
        assert watch.since(watch.mark()) == ()
        assert watch.said.startswith("not watched (")
        assert "No such file" in watch.said


def test_a_log_that_cannot_be_sought_in_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with KernelLog(tmp_path / "pipe") as watch:
        assert "Illegal seek" in watch.said


@pytest.mark.parametrize(
    "line",
    [
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "WARNING: CPU: 3 PID: 77 at drivers/iommu/dma-iommu.c:1095",
        "Oops: 0002 [#1] PREEMPT SMP NOPTI",
        "Call Trace:",
        "general protection fault, probably for non-canonical address",
        "NVRM: GPU 0000:17:00.0: RmInitAdapter failed!",
        "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0",
        "DMAR: [DMA Write NO_PASID] Request device [01:00.0] fault addr 0xdead",
        "AMD-Vi: Event logged [IO_PAGE_FAULT device=01:00.0 domain=0x0001]",
        "nvme nvme0: I/O 24 QID 3 timeout, aborting",
        "nvme nvme0: controller is down; will reset: CSTS=0x3",
        "INFO: task tutti:77 blocked for more than 120 seconds.",
        "watchdog: BUG: soft lockup - CPU#2 stuck for 26s!",
        "BUG: KASAN: slab-out-of-bounds in x",
        "UBSAN: array-index-out-of-bounds in x.c:1:2",
    ],
)
def test_what_is_serious(line: str) -> None:
    assert SERIOUS.search(line)


@pytest.mark.parametrize(
    "line",
    [
        "nvme nvme0: pci function 0000:01:00.0",
        "pcieport 0000:00:01.0: AER: enabled with IRQ 24",
        "DMAR: IOMMU enabled",
        "iommu: Default domain type: Translated",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "debug: a line of no weight",
    ],
)
def test_what_is_not(line: str) -> None:
    assert not SERIOUS.search(line)


def test_a_line_while_a_case_runs_fails_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUTTI_PLANTED", str(tmp_path))
    log = tmp_path / "kmsg"
    log.write_text(OLD, encoding="utf-8")

    def speak() -> None:
        wait_until((tmp_path / "slow").exists)
        write(log, NEW)

    speaker = threading.Thread(target=speak)
    speaker.start()
    before, slow, after = instances("passes:n=0", "slow", "passes:n=1")
    found, watched = run_instances(OPTIONS, FACTS, TERMS, (before, slow, after), shop=Shop(LIMITS, 0, log))
    speaker.join()
    assert watched["kernel_log"] == "watched"
    judgements = {one.id: judge(one, found[one.id], FACTS[""], TERMS) for one in (before, slow, after)}
    assert judgements[slow.id].verdict is Verdict.FAIL
    assert "an unexpected line in the log: kernel: NVRM: Xid" in judgements[slow.id].reason
    assert judgements[before.id].verdict is judgements[after.id].verdict is Verdict.PASS
