"""A drive beside the kernel's own driver, as user space sees it: against a module that is played."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutti_hal.errors import (
    ControllerUnsupported,
    KernelControllerError,
    ModuleAbsent,
    ModuleRefused,
    NvmeFieldRange,
    QueueInvalid,
    QueuesRefused,
)
from tutti_hal.nvme import kernel_client, kernel_memory, p2p_uapi
from tutti_hal.nvme.identify import IdentifyController
from tutti_hal.nvme.inventory import limits_of
from tutti_hal.nvme.kernel_client import KernelClient
from tutti_hal.nvme.kernel_controller import KernelController, attach_request
from tutti_hal.nvme.kernel_memory import StandInPages
from tutti_hal.nvme.p2p_uapi import Provider, ProviderFlag, Refused
from tutti_hal.nvme.registers import Capabilities
from tutti_hal.profile import resolve
from tutti_hal.shim import Device

RUNS = [(0x1000 * n * 2, 0x1000) for n in range(1, 10_001)]


class Module:
    """Answers requests as the kernel module would; what it was asked is kept."""

    def __init__(self) -> None:
        self.asked: list[p2p_uapi.Request] = []
        self.refuses: dict[type, tuple[int, dict[str, Any]]] = {}
        self.lengths: dict[int, int] = {}
        self.scattered = False
        self.lies = 0
        self.events = [p2p_uapi.Event(kind=1, handle=7, cause=1, generation=1)]

    def request(self, _fd: int, structure: Any) -> tuple[int, Any]:
        self.asked.append(structure)
        kind = type(structure)
        if kind in self.refuses:
            error, members = self.refuses[kind]
            return error, replace(structure, **members)
        return getattr(self, f"_{kind.__name__.lower()}", lambda one: (0, one))(structure)

    def _describeprovider(self, one: p2p_uapi.DescribeProvider) -> tuple[int, Any]:
        known = [("host", Provider.HOST, ProviderFlag.AVAILABLE), ("sim", Provider.SIM, ProviderFlag.AVAILABLE)]
        if one.index >= len(known):
            return errno.ENOENT, one
        name, number, flags = known[one.index]
        return 0, replace(one, name=name.encode(), id=number, flags=flags)

    def _pin(self, one: p2p_uapi.Pin) -> tuple[int, Any]:
        self.lengths[5 + len(self.lengths)] = one.length
        return 0, replace(one, pin=4 + len(self.lengths), page_size=4096)

    def _queuecreate(self, one: p2p_uapi.QueueCreate) -> tuple[int, Any]:
        answer = replace(one, queue=31, qid=9, doorbell_offset=0, doorbell_bytes=4096)
        return 0, replace(answer, sq_doorbell=0x48, cq_doorbell=0x4C)

    def _runs(self, one: p2p_uapi.Runs) -> tuple[int, Any]:
        import ctypes

        known = RUNS
        if one.pin in self.lengths:
            length = self.lengths[one.pin]
            known = RUNS[: length // 4096] if self.scattered else [(0x7000, length + self.lies)]
        part = known[one.first : one.first + one.capacity]
        data = b"".join(struct.pack("=QQ", *run) for run in part)
        ctypes.memmove(one.runs, data, len(data))
        return 0, replace(one, count=len(part), total=len(known))

    def _event(self, one: p2p_uapi.Event) -> tuple[int, Any]:
        return (0, self.events.pop(0)) if self.events else (errno.EAGAIN, one)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Module:
    played = Module()
    monkeypatch.setattr(kernel_client.p2p_uapi, "request", played.request)
    return played


def descriptors() -> set[str]:
    return {one.name for one in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def client(module: Module, tmp_path: Path) -> Iterator[KernelClient]:
    assert not module.asked
    node = tmp_path / "node"
    node.write_bytes(struct.pack("=QQ", 3, 2).ljust(4096, b"\0"))
    with KernelClient(node) as opened:
        yield opened


def test_without_the_module_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModuleAbsent) as caught:
        KernelClient(tmp_path / "absent")
    assert "p2p_drivers" in caught.value.fix


def test_a_version_that_is_not_known_is_no_module(module: Module, tmp_path: Path) -> None:
    (tmp_path / "node").write_bytes(bytes(4096))
    module.refuses[p2p_uapi.Negotiate] = (errno.EPROTONOSUPPORT, {})
    before = descriptors()
    with pytest.raises(ModuleAbsent, match="EPROTONOSUPPORT"):
        KernelClient(tmp_path / "node")
    assert descriptors() == before


def test_the_watch_page_is_read_in_place(client: KernelClient) -> None:
    assert (client.generation, client.settled) == (3, 2)


def test_a_refusal_has_number_cause_and_status(client: KernelClient, module: Module) -> None:
    module.refuses[p2p_uapi.QueueCreate] = (errno.EREMOTEIO, {"refused": Refused.NVME, "nvme_status": 0x102})
    with pytest.raises(ModuleRefused) as caught:
        client.ask(p2p_uapi.QueueCreate(), "create")
    error = caught.value
    assert (error.errno, error.cause, error.nvme_status) == (errno.EREMOTEIO, "NVME", 0x102)
    assert "0x102" in error.found
    module.refuses[p2p_uapi.QueueCreate] = (errno.ENOSPC, {"refused": Refused.NO_SPARE})
    with pytest.raises(ModuleRefused) as caught:
        client.ask(p2p_uapi.QueueCreate(), "create")
    assert caught.value.cause == "NO_SPARE"
    assert "poll_queues" in caught.value.fix


def test_every_cause_has_a_fix() -> None:
    assert set(kernel_client._FIXES) == set(Refused) - {Refused.NOTHING}


def test_runs_come_in_parts_and_whole(client: KernelClient, module: Module) -> None:
    assert client.runs(5, 1) == RUNS
    assert len([one for one in module.asked if isinstance(one, p2p_uapi.Runs)]) == 3


def test_events_are_taken_until_there_is_none(client: KernelClient) -> None:
    assert [one.handle for one in client.events()] == [7]
    assert client.events() == []


def test_a_closed_client_refuses_and_has_nothing_to_give_back(client: KernelClient, module: Module) -> None:
    client.close()
    client.close()
    asked = len(module.asked)
    client.unpin(5)
    assert len(module.asked) == asked
    for use in (client.usage, lambda: client.generation):
        with pytest.raises(KernelControllerError):
            use()


@pytest.mark.parametrize(
    ("bdf", "wanted"),
    [
        ("0000:01:00.0", (0, 1, 0)),
        ("0001:af:1f.7", (1, 0xAF, 0xFF)),
        ("10000:01:02.3", (0x10000, 1, 0x13)),
    ],
)
def test_a_function_by_name(bdf: str, wanted: tuple[int, int, int]) -> None:
    request = attach_request(bdf, 9)
    assert (request.domain, request.bus, request.devfn) == wanted
    assert request.nvme_fd == 9


@pytest.mark.parametrize("bdf", ["", "01:00.0", "0000:01:00", "0000:xy:00.0", "/dev/nvme0"])
def test_what_is_no_function_is_refused(bdf: str) -> None:
    with pytest.raises(KernelControllerError, match="no PCI function"):
        attach_request(bdf, 9)


def test_ranges_of_the_stand_in_come_back(
    client: KernelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters, function = tmp_path / "parameters", tmp_path / "pci" / "0000:00:10.0"
    parameters.mkdir()
    function.mkdir(parents=True)
    (parameters / "sim").write_text("0000:00:10.0\n")
    (parameters / "sim_bar").write_text("2\n")
    with (function / "resource2").open("wb") as bar:
        bar.truncate(8 << 16)
    monkeypatch.setattr(kernel_memory, "_PARAMETERS", parameters)
    monkeypatch.setattr(kernel_memory, "_PCI", tmp_path / "pci")
    pages = StandInPages(client, 1, None)  # type: ignore[arg-type] (no range is mapped here)
    grain = StandInPages.GRANULE
    assert [pages._room(n * grain, grain) for n in (1, 3, 2)] == [0, grain, 4 * grain]
    pages._taken.pop(grain)
    assert pages._room(2 * grain, grain) == grain
    assert pages._room(2 * grain, grain) == 6 * grain
    with pytest.raises(KernelControllerError, match="are full"):
        pages._room(2 * grain, grain)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device(resolve("host:threads-w32"))


@pytest.fixture
def drive(client: KernelClient, device: Device) -> KernelController:
    """A drive that was attached and has identified itself; 14 pairs are left, of 16."""
    found = KernelController("0000:01:00.0", device, client)
    found.name, found.controller_handle, found.page_bytes = "nvme0", 1, 4096
    found.attached = p2p_uapi.Attach(queues_granted=16, queues_stock=2, queues_spare=14)
    found.limits = limits_of(
        IdentifyController(), None, Capabilities(mqes=1023, cqr=True), page_bytes=4096, memory_buffer_bytes=0
    )
    found.host_pages = kernel_memory.HostPages(client, 1, device)
    return found


def test_a_queue_pair_is_as_the_module_made_it(drive: KernelController, module: Module) -> None:
    assert drive.grant_queues(20) == 14
    pair = drive.create_queue_pair(16, qid=1)
    assert (pair.qid, pair.cqid, drive.queue_handle(pair)) == (9, 9, 31)
    assert pair.sq_tail_address is not None
    assert pair.cq_head_address == pair.sq_tail_address + 4
    drive.write_sq_tail(pair, 3)
    drive.write_cq_head(pair, 2)
    assert os.pread(drive.client.fd, 8, 0x48) == struct.pack("=II", 3, 2)
    drive.delete_queue_pair(pair)
    kinds = [type(one).__name__ for one in module.asked]
    # The queue goes before the memory of its rings.
    assert kinds[-3:] == ["QueueDelete", "Unpin", "Unpin"]
    assert drive.pairs == ()
    with pytest.raises(QueueInvalid):
        drive.write_cq_head(pair, 0)


def test_a_queue_that_is_refused_leaves_nothing_pinned(drive: KernelController, module: Module) -> None:
    module.refuses[p2p_uapi.QueueCreate] = (errno.ENOSPC, {"refused": Refused.NO_SPARE})
    with pytest.raises(QueuesRefused):
        drive.create_queue_pair(16)
    kinds = [type(one).__name__ for one in module.asked]
    assert kinds.count("Pin") == kinds.count("Unpin") == 2
    module.refuses[p2p_uapi.QueueCreate] = (errno.EREMOTEIO, {"refused": Refused.NVME, "nvme_status": 2})
    with pytest.raises(ModuleRefused):
        drive.create_queue_pair(16)


@pytest.mark.parametrize("wrong", [{"depth": 1}, {"depth": 1025}, {"depth": 8, "priority": 1}])
def test_a_queue_that_cannot_be_is_not_asked_for(
    drive: KernelController, module: Module, wrong: dict[str, int]
) -> None:
    asked = len(module.asked)
    with pytest.raises(QueueInvalid):
        drive.create_queue_pair(**wrong)
    assert len(module.asked) == asked


def test_rings_in_pieces_are_refused_with_what_helps(drive: KernelController, module: Module) -> None:
    module.scattered = True
    with pytest.raises(KernelControllerError) as caught:
        drive.create_queue_pair(1024)
    assert "nr_hugepages" in caught.value.fix
    kinds = [type(one).__name__ for one in module.asked]
    assert kinds.count("Pin") == kinds.count("Unpin")


def test_runs_that_do_not_cover_the_memory_leave_nothing_pinned(drive: KernelController, module: Module) -> None:
    module.lies = 4096
    with pytest.raises(NvmeFieldRange):
        drive.host_pages.allocate(4096)
    kinds = [type(one).__name__ for one in module.asked]
    assert kinds.count("Pin") == kinds.count("Unpin") == 1


def test_an_abrupt_close_leaves_the_queues_to_the_module(drive: KernelController, module: Module) -> None:
    drive.create_queue_pair(16)
    asked = len(module.asked)
    drive.close(abrupt=True)
    drive.close()
    assert len(module.asked) == asked
    assert drive.pairs == ()


def test_what_belongs_to_the_kernel_is_refused(drive: KernelController) -> None:
    assert drive.abort(1, 1) is False
    with pytest.raises(ControllerUnsupported):
        drive.reset()
