"""The judgement of a kernel log: what is trouble, what may be expected, and that an expectation must come true."""

from __future__ import annotations

import pytest
from rig import kernel_log

TROUBLE = {
    "bug": "BUG: unable to handle page fault for address: ffffc90000a5c000",
    "warning": "WARNING: CPU: 1 PID: 77 at drivers/nvme/host/pci.c:1204 nvme_poll+0x1/0x2 [nvme]",
    "oops": "Oops: 0002 [#1] PREEMPT SMP NOPTI",
    "iommu": "DMAR: [DMA Write NO_PASID] Request device [00:04.0] fault addr 0xe0020000 [fault reason 0x05] PTE Write",
    "sanitizer": "BUG: KASAN: slab-use-after-free in tutti_p2p_release+0x1a/0x40",
    "lockdep": "WARNING: possible circular locking dependency detected",
    "stall": "INFO: task python3:91 blocked for more than 120 seconds.",
    "refcount": "refcount_t: underflow; use-after-free.",
    "dma-debug": "DMA-API: nvme 0000:01:00.0: device driver frees DMA memory with different size",
    "drive": "nvme nvme0: I/O 12 QID 1 timeout, aborting",
    "fs": "EXT4-fs error (device nvme0n1): ext4_lookup:1813: inode #2",
    "symbol": "failing symbol_get of non-GPLONLY symbol mtgpu_p2p_get_pages.",
}
QUIET = (
    "nvme nvme0: 2/0/0 default/read/poll queues",
    "EXT4-fs (nvme0n1): mounted filesystem with ordered data mode. Quota mode: none.",
    "tutti_p2p: module verification failed: signature and/or required key missing - tainting kernel",
    "DMAR: IOMMU enabled",
    "debug: a word that holds BUGs",
)


@pytest.mark.parametrize("line", TROUBLE.values(), ids=TROUBLE)
def test_trouble_is_seen(line: str) -> None:
    assert [found.line for found in kernel_log.trouble_in([line])] == [line]
    assert kernel_log.judge([line], ())


@pytest.mark.parametrize("line", QUIET)
def test_ordinary_lines_are_no_trouble(line: str) -> None:
    assert kernel_log.judge([line], ()) == []


def test_an_expected_line_is_excused_and_only_that_one() -> None:
    lines = [TROUBLE["iommu"], TROUBLE["bug"]]
    faults = kernel_log.judge(lines, ["fault reason 0x05"])
    assert len(faults) == 1
    assert "BUG" in faults[0]


def test_an_expectation_that_nothing_matches_is_a_fault() -> None:
    assert kernel_log.judge(list(QUIET), ["fault reason"]) == ["kernel log lacks what was expected: fault reason"]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("6,339,5140900,-;NET: Registered\n SUBSYSTEM=net\n", "NET: Registered"),
        ("12,340,5140901,-;a line of user space\n", None),
        (" DEVICE=+pci", None),
        ("4,1,2,-;semi;colon\n", "semi;colon"),
    ],
)
def test_records_of_the_kernel_are_told_from_those_of_programs(raw: str, text: str | None) -> None:
    assert kernel_log.record(raw) == text
