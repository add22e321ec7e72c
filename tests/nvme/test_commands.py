"""Commands and lists: what is refused, and what a data pointer says."""

from __future__ import annotations

import struct

import pytest

from tutti_hal.errors import NamespaceInvalid, NvmeFieldRange, NvmeSizeWrong
from tutti_hal.nvme import commands, features, namespace, registers
from tutti_hal.nvme.opcodes import NvmOpcode, Transfer, transfer_of
from tutti_hal.nvme.prp import PrpPair
from tutti_hal.nvme.sgl import SglDescriptor
from tutti_hal.nvme.sqe import Psdt, Sqe


@pytest.mark.parametrize("blocks", [-1, 0, 65537])
def test_transfer_length(blocks: int) -> None:
    with pytest.raises(NvmeFieldRange):
        commands.transfer(NvmOpcode.READ, nsid=1, slba=0, blocks=blocks)


def test_transfer_range() -> None:
    last = (1 << 64) - 1
    assert commands.transfer(NvmOpcode.READ, nsid=1, slba=last, blocks=1).cdw11 == 0xFFFF_FFFF
    with pytest.raises(NvmeFieldRange, match="wraps"):
        commands.transfer(NvmOpcode.READ, nsid=1, slba=last, blocks=2)
    with pytest.raises(NvmeFieldRange):
        commands.transfer(NvmOpcode.READ, nsid=1, slba=-1, blocks=1)
    with pytest.raises(NvmeFieldRange):
        commands.transfer(NvmOpcode.READ, nsid=1 << 32, slba=0, blocks=1)
    assert commands.transfer(NvmOpcode.READ, nsid=1, slba=0, blocks=65536).cdw12 == 0xFFFF


def test_commands_read_back() -> None:
    sqe = commands.transfer(NvmOpcode.WRITE, nsid=1, slba=1 << 40, blocks=8, fua=True)
    fields = commands.TransferDwords.of(sqe)
    assert (fields.slba, fields.nlb, fields.fua, fields.lr) == (1 << 40, 7, True, False)
    assert commands.CreateSqDwords.of(commands.create_sq(7, 9, PrpPair(prp1=0x1000), cqid=3)).qsize == 8


@pytest.mark.parametrize("depth", [-1, 0, 1, 65537])
def test_queue_depth(depth: int) -> None:
    with pytest.raises(NvmeFieldRange):
        commands.create_cq(1, depth, PrpPair(prp1=0x1000))
    with pytest.raises(NvmeFieldRange):
        commands.create_sq(1, depth, PrpPair(prp1=0x1000), cqid=1)


@pytest.mark.parametrize("count", [0, 257])
def test_dsm_ranges(count: int) -> None:
    with pytest.raises(NvmeFieldRange):
        commands.deallocate(1, count, PrpPair(prp1=0x1000))
    with pytest.raises(NvmeFieldRange):
        commands.encode_dsm_ranges([commands.DsmRange()] * count)


def test_dsm_range_bytes() -> None:
    blob = commands.encode_dsm_ranges([commands.DsmRange(slba=1 << 33, nlb=5), commands.DsmRange(attributes=1)])
    assert blob == struct.pack("<IIQIIQ", 0, 5, 1 << 33, 1, 0, 0)
    assert commands.DsmDwords.of(commands.deallocate(1, 256, PrpPair(prp1=0x1000))).nr == 255


def test_data_pointers() -> None:
    descriptor = SglDescriptor(address=0x123456789A, length=77, type=3)
    sqe = Sqe(opcode=2)
    as_sgl = sqe.with_data(descriptor)
    assert (as_sgl.psdt, as_sgl.data) == (Psdt.SGL, descriptor)
    assert as_sgl.encode()[1] == 0x40
    assert as_sgl.encode()[24:40] == struct.pack("<QI3xB", 0x123456789A, 77, 0x30)
    both = sqe.with_data(descriptor, metadata_sgl=True)
    assert both.encode()[1] == 0x80
    assert both.data == descriptor
    pair = PrpPair(prp1=0x1000, prp2=0x2000)
    assert as_sgl.with_data(pair).data == pair
    assert as_sgl.with_data(pair).psdt == Psdt.PRP
    with pytest.raises(NvmeFieldRange):
        sqe.with_data(pair, metadata_sgl=True)
    with pytest.raises(NvmeFieldRange, match="reserved"):
        _ = Sqe(psdt=3).data


def test_direction_of_opcodes() -> None:
    assert transfer_of(NvmOpcode.READ) is Transfer.CONTROLLER_TO_HOST
    assert transfer_of(NvmOpcode.WRITE) is Transfer.HOST_TO_CONTROLLER
    assert transfer_of(NvmOpcode.COMPARE) is Transfer.HOST_TO_CONTROLLER
    assert transfer_of(NvmOpcode.FLUSH) is Transfer.NONE


def test_number_of_queues() -> None:
    request = features.NumberOfQueues.request(16, 8)
    assert request.value == 7 << 16 | 15
    assert features.NumberOfQueues.from_value(0x0003_0007).pairs == 4
    # FFFFh in either half is illegal: 65,535 is the most, 0-based FFFEh.
    assert features.NumberOfQueues.request(65535, 65535).value == 0xFFFE_FFFE
    for pair in ((0, 1), (1, 0), (65536, 1), (1, 65536)):
        with pytest.raises(NvmeFieldRange):
            features.NumberOfQueues.request(*pair)


def test_doorbells() -> None:
    assert registers.sq_tail_offset(0, 0) == 0x1000
    assert registers.cq_head_offset(0, 0) == 0x1004
    assert registers.sq_tail_offset(3, 4) == 0x1000 + 6 * 64
    assert registers.cq_head_offset(65535, 15) == 0x1000 + 131071 * (4 << 15)
    for qid, dstrd in ((-1, 0), (65536, 0), (1, -1), (1, 16)):
        with pytest.raises(NvmeFieldRange):
            registers.sq_tail_offset(qid, dstrd)


def test_queue_base() -> None:
    assert registers.QueueBase.at(0xABC000).value == 0xABC000
    assert registers.QueueBase.from_value(0xABC000).address == 0xABC000
    with pytest.raises(NvmeFieldRange):
        registers.QueueBase.at(0xABC800)


def test_namespace_lists() -> None:
    ids = (1, 3, 0xFFFF_FFFD)
    blob = namespace.encode_namespace_list(ids)
    assert len(blob) == 4096
    assert namespace.decode_namespace_list(blob) == ids
    full = tuple(range(1, 1025))
    assert namespace.decode_namespace_list(namespace.encode_namespace_list(full)) == full
    for wrong in ((0,), (2, 1), (1, 1), (0xFFFF_FFFE,), range(1, 1026)):
        with pytest.raises(NvmeFieldRange):
            namespace.encode_namespace_list(wrong)
    with pytest.raises(NvmeSizeWrong):
        namespace.decode_namespace_list(bytes(4095))
    with pytest.raises(NvmeFieldRange, match="ascending"):
        namespace.decode_namespace_list(struct.pack("<3I", 1, 5, 5).ljust(4096, b"\0"))


def formats(*pairs: tuple[int, int], index: int, extended: bool = False, nlbaf: int | None = None) -> bytes:
    """Identify Namespace by hand."""
    data = bytearray(4096)
    struct.pack_into("<QQQ", data, 0, 100, 100, 100)
    data[25] = len(pairs) - 1 if nlbaf is None else nlbaf
    data[26] = index & 15 | extended << 4 | (index >> 4) << 5
    for k, (ms, lbads) in enumerate(pairs):
        struct.pack_into("<HBB", data, 128 + 4 * k, ms, lbads, 0)
    return bytes(data)


def test_lba_formats() -> None:
    read = namespace.IdentifyNamespace.decode
    data = read(formats((0, 9), (8, 9), (0, 12), (64, 12), index=3, extended=True))
    assert (data.lba_bytes, data.metadata_bytes, data.metadata_inline) == (4096, 64, True)
    assert data.transfer_bytes_per_block == 4160
    data = read(formats((0, 9), (8, 9), index=1))
    assert (data.lba_bytes, data.metadata_bytes, data.metadata_inline) == (512, 8, False)
    assert data.transfer_bytes_per_block == 512
    # Without metadata there is nothing to be inline, whatever FLBAS says.
    assert not read(formats((0, 9), index=0, extended=True)).metadata_inline


def test_more_than_sixteen_formats() -> None:
    read = namespace.IdentifyNamespace.decode
    pairs = [(k, 9 + k % 4) for k in range(64)]
    for index in (0, 15, 16, 37, 63):
        data = read(formats(*pairs, index=index))
        assert data.format_index == index
        assert data.metadata_bytes == index
    # With 16 formats or fewer the upper bits say nothing.
    data = read(formats(*pairs[:16], index=16 + 5))
    assert data.format_index == 5


def test_formats_that_contradict() -> None:
    read = namespace.IdentifyNamespace.decode
    with pytest.raises(NamespaceInvalid, match="format 2 of 2"):
        _ = read(formats((0, 9), (0, 12), index=2)).lba_format
    with pytest.raises(NamespaceInvalid, match="LBADS"):
        _ = read(formats((0, 0), index=0)).lba_bytes
    with pytest.raises(NamespaceInvalid, match="inactive"):
        _ = read(bytes(4096)).lba_bytes
