"""Commands against those that libnvme's own functions built, and SQE and CQE against the kernel driver's structures."""

from __future__ import annotations

from typing import Any

import pytest
from vector_names import KERNEL, LIBNVME, UAPI, constants

from tutti_hal.nvme import commands, opcodes, sgl
from tutti_hal.nvme.cqe import Cqe, cqe_dtype
from tutti_hal.nvme.prp import PrpPair
from tutti_hal.nvme.sqe import Fuse, Psdt, Sqe, sqe_dtype

# ---- commands that libnvme itself built ----


def _built() -> dict[str, Sqe]:
    data = PrpPair(prp1=0x1000)
    transfer = commands.transfer
    ops = opcodes.NvmOpcode
    nsid = 0x01020304
    return {
        "identify": commands.command(
            opcodes.AdminOpcode.IDENTIFY,
            commands.IdentifyDwords(cns=5, cntid=0xBEEF, cnssid=0x1234, csi=2, uuid_index=0x5A),
            nsid=0xA1B2C3D4,
        ),
        "get_log": commands.command(
            opcodes.AdminOpcode.GET_LOG_PAGE,
            commands.GetLogPageDwords(
                lid=0x0C,
                lsp=0x2D,
                rae=True,
                numd=0x00345678 // 4 - 1,
                lsi=0x4321,
                lpo=0x1122334455667788,
                uuid_index=0x33,
                ot=True,
                csi=2,
            ),
            nsid=7,
        ),
        "set_features": commands.command(
            opcodes.AdminOpcode.SET_FEATURES,
            commands.SetFeaturesDwords(
                fid=0xAB,
                save=True,
                value=0x11111111,
                cdw12=0x22222222,
                cdw13=0x33333333,
                uuid_index=0x41,
                cdw15=0x55555555,
            ),
            nsid=9,
        ),
        "get_features": commands.command(
            opcodes.AdminOpcode.GET_FEATURES,
            commands.GetFeaturesDwords(fid=0xCD, sel=3, cdw11=0xDEADBEEF, uuid_index=0x22),
            nsid=10,
        ),
        "format": commands.command(
            opcodes.AdminOpcode.FORMAT_NVM,
            commands.FormatDwords(lbaf_low=9, mset=True, pi=3, pil=True, ses=2, lbaf_high=2),
            nsid=1,
        ),
        "dsm": commands.deallocate(0x77, 3, data),
        "flush": commands.flush(0x99),
        "read": commands.command(
            ops.READ,
            commands.TransferDwords(
                slba=0x123456789ABCDEF0,
                nlb=0xFFFE,
                fua=True,
                lr=True,
                dsm=0x5A,
                dspec=0xC3C3,
                ref_tag=0x89ABCDEF,
                app_tag=0x1357,
                app_mask=0x2468,
            ),
            nsid=nsid,
        ),
        "write": transfer(
            ops.WRITE,
            nsid=nsid,
            slba=1,
            blocks=1,
            data=data,
            pract=True,
            check_guard=True,
            check_app=True,
            check_ref=True,
        ),
        "write-streams": commands.command(
            ops.WRITE,
            commands.TransferDwords(slba=1 << 63, nlb=0x8000, dtype=1, stc=True, dsm=1, dspec=0x8001),
            nsid=nsid,
        ),
        "write-zeroes": transfer(ops.WRITE_ZEROES, nsid=nsid, slba=1 << 32, blocks=65536, deallocate=True),
        "compare": transfer(
            ops.COMPARE, nsid=nsid, slba=2, blocks=4, check_ref=True, ref_tag=1, app_tag=2, app_mask=3, data=data
        ),
        "verify": transfer(ops.VERIFY, nsid=nsid, slba=4, blocks=6, check_app=True, ref_tag=6, app_tag=7, app_mask=8),
    }


@pytest.mark.parametrize("theirs", LIBNVME["commands"], ids=lambda c: c["call"])
def test_commands(theirs: dict[str, Any]) -> None:
    sqe = _built()[theirs["call"]]
    if theirs["call"] == "format":
        # libnvme says "first eight bytes" with PIL = 1.
        assert theirs["cdw"][0] >> 8 & 1 == 1
    words = [sqe.cdw10, sqe.cdw11, sqe.cdw12, sqe.cdw13, sqe.cdw14, sqe.cdw15]
    assert [hex(w) for w in words] == [hex(w) for w in theirs["cdw"]]
    assert (sqe.opcode, sqe.nsid, sqe.cdw2, sqe.cdw3) == tuple(theirs[k] for k in ("opcode", "nsid", "cdw2", "cdw3"))


def test_every_command_has_its_vector() -> None:
    assert {c["call"] for c in LIBNVME["commands"]} == set(_built())


# ---- SQE and CQE as the kernel's driver has them ----


def _byte(blob: bytes, where: list[int]) -> int:
    offset, size = where
    return int.from_bytes(blob[offset : offset + size], "little")


def test_sqe_layout() -> None:
    common = KERNEL["structures"]["nvme_common_command"]
    assert common[""][1] == Sqe.SIZE
    sqe = Sqe(
        opcode=0xA1,
        fuse=Fuse.SECOND,
        psdt=Psdt.SGL,
        cid=0xBEEF,
        nsid=0x11223344,
        cdw2=0x55,
        cdw3=0x66,
        mptr=0x7777_0000_1111,
        prp1=0x1234_5678_9ABC_DEF0,
        prp2=0x0FED_CBA9_8765_4321,
        cdw10=10,
        cdw11=11,
        cdw12=12,
        cdw13=13,
        cdw14=14,
        cdw15=15,
    )
    blob = sqe.encode()
    flags = KERNEL["constants"]["flags"]
    assert _byte(blob, common["opcode"]) == 0xA1
    assert _byte(blob, common["flags"]) == flags["NVME_CMD_FUSE_SECOND"] | flags["NVME_CMD_SGL_METABUF"]
    assert _byte(blob, common["command_id"]) == 0xBEEF
    assert _byte(blob, common["nsid"]) == 0x11223344
    assert _byte(blob, common["cdw2"]) == 0x55 | 0x66 << 32
    assert _byte(blob, common["metadata"]) == 0x7777_0000_1111
    assert _byte(blob, common["dptr"]) == 0x1234_5678_9ABC_DEF0 | 0x0FED_CBA9_8765_4321 << 64
    for k in range(10, 16):
        assert _byte(blob, common[f"cdw{k}"]) == k
    both = Sqe(psdt=Psdt.SGL_METADATA_SGL, fuse=Fuse.FIRST).encode()
    assert _byte(both, common["flags"]) == flags["NVME_CMD_SGL_METASEG"] | flags["NVME_CMD_FUSE_FIRST"]
    passthrough = UAPI["structures"]["nvme_passthru_cmd"]
    assert passthrough["cdw3"][0] == common["cdw2"][0] + 4
    for field in ("opcode", "flags", "nsid", "cdw2", "metadata"):
        assert passthrough[field][0] == common[field][0]
    for k in range(10, 16):
        assert passthrough[f"cdw{k}"] == common[f"cdw{k}"]


def test_read_write_layout() -> None:
    rw = KERNEL["structures"]["nvme_rw_command"]
    bits = KERNEL["constants"]["rw"]
    sqe = commands.transfer(
        opcodes.NvmOpcode.WRITE,
        nsid=5,
        slba=0x1_0000_0002,
        blocks=0x1235,
        fua=True,
        limited_retry=True,
        ref_tag=0xAABBCCDD,
        app_tag=0x1122,
        app_mask=0x3344,
        dsm=0x7F,
    )
    blob = sqe.encode()
    expected = {
        "opcode": 1,
        "nsid": 5,
        "slba": 0x1_0000_0002,
        "length": 0x1234,
        "control": bits["NVME_RW_FUA"] | bits["NVME_RW_LR"],
        "dsmgmt": 0x7F,
        "reftag": 0xAABBCCDD,
        "lbat": 0x1122,
        "lbatm": 0x3344,
    }
    assert {k: _byte(blob, rw[k]) for k in expected} == expected


def test_queue_commands_layout() -> None:
    flags = KERNEL["constants"]["queues"]
    cq = KERNEL["structures"]["nvme_create_cq"]
    blob = commands.create_cq(3, 1024, PrpPair(prp1=0xABC000), vector=9).encode()
    assert {k: _byte(blob, cq[k]) for k in ("prp1", "cqid", "qsize", "cq_flags", "irq_vector")} == {
        "prp1": 0xABC000,
        "cqid": 3,
        "qsize": 1023,
        "cq_flags": flags["NVME_QUEUE_PHYS_CONTIG"] | flags["NVME_CQ_IRQ_ENABLED"],
        "irq_vector": 9,
    }
    blob = commands.create_cq(3, 2, PrpPair(prp1=0x1000), contiguous=False).encode()
    assert _byte(blob, cq["cq_flags"]) == 0
    sq = KERNEL["structures"]["nvme_create_sq"]
    blob = commands.create_sq(4, 65536, PrpPair(prp1=0xDEF000), cqid=3, priority=3).encode()
    assert {k: _byte(blob, sq[k]) for k in ("prp1", "sqid", "qsize", "sq_flags", "cqid")} == {
        "prp1": 0xDEF000,
        "sqid": 4,
        "qsize": 65535,
        "sq_flags": flags["NVME_QUEUE_PHYS_CONTIG"] | flags["NVME_SQ_PRIO_LOW"],
        "cqid": 3,
    }
    delete, abort = KERNEL["structures"]["nvme_delete_queue"], KERNEL["structures"]["nvme_abort_cmd"]
    assert _byte(commands.delete_sq(7).encode(), delete["qid"]) == 7
    assert _byte(commands.delete_cq(8).encode(), delete["qid"]) == 8
    blob = commands.abort(6, 0xBEEF).encode()
    assert (_byte(blob, abort["sqid"]), _byte(blob, abort["cid"])) == (6, 0xBEEF)


def test_cqe_layout() -> None:
    cqe = KERNEL["structures"]["nvme_completion"]
    assert cqe[""][1] == Cqe.SIZE
    entry = Cqe(result=1, result_high=2, sqhd=3, sqid=4, cid=5, phase=True, sct=2, sc=0x81, dnr=True, crd=1, more=True)
    blob = entry.encode()
    assert _byte(blob, cqe["result"]) == 1 | 2 << 32
    assert (_byte(blob, cqe["sq_head"]), _byte(blob, cqe["sq_id"]), _byte(blob, cqe["command_id"])) == (3, 4, 5)
    field = constants("nvme_status_field")
    expected = 0x281 | field["NVME_SC_DNR"] | field["NVME_SC_MORE"] | 1 << 11
    assert _byte(blob, cqe["status"]) == expected << 1 | 1
    assert entry.status.field == expected


def test_sgl_descriptor_layout() -> None:
    theirs = KERNEL["structures"]["nvme_sgl_desc"]
    numbers = KERNEL["constants"]["sgl"]
    blob = sgl.SglDescriptor(address=1 << 40, length=0xABCDEF01, type=int(sgl.SglType.LAST_SEGMENT), subtype=1).encode()
    assert (_byte(blob, theirs["addr"]), _byte(blob, theirs["length"])) == (1 << 40, 0xABCDEF01)
    assert _byte(blob, theirs["type"]) == numbers["NVME_SGL_FMT_LAST_SEG_DESC"] << 4 | numbers["NVME_SGL_FMT_OFFSET"]
    assert numbers["NVME_SGL_FMT_SEG_DESC"] == sgl.SglType.SEGMENT
    assert numbers["NVME_SGL_FMT_TRANSPORT_A"] == sgl.SglSubtype.TRANSPORT
    assert numbers["NVME_SGL_FMT_INVALIDATE"] == sgl.SglSubtype.INVALIDATE
    keyed = KERNEL["structures"]["nvme_keyed_sgl_desc"]
    blob = sgl.KeyedSglDescriptor(address=7, length=0x123456, key=0x89ABCDEF, subtype=0xF).encode()
    assert (_byte(blob, keyed["length"]), _byte(blob, keyed["key"])) == (0x123456, 0x89ABCDEF)
    assert _byte(blob, keyed["type"]) == 0x4F


def test_numpy_views_agree_with_the_codecs() -> None:
    import numpy as np

    sqe = Sqe(opcode=2, psdt=2, fuse=1, cid=0x1234, nsid=5, cdw10=6, cdw11=7, mptr=8, prp1=9, prp2=10, cdw15=15)
    row = np.frombuffer(sqe.encode(), sqe_dtype())[0]
    assert (row["opcode"], row["flags"], row["cid"], row["nsid"]) == (2, 0x81, 0x1234, 5)
    assert (row["slba"], row["mptr"], row["prp1"], row["prp2"], row["cdw15"]) == (6 | 7 << 32, 8, 9, 10, 15)
    cqe = Cqe(result=1, sqhd=2, sqid=3, cid=4, phase=True, sct=1, sc=2)
    row = np.frombuffer(cqe.encode(), cqe_dtype())[0]
    assert (row["result"], row["sqhd"], row["sqid"], row["cid"], row["status"]) == (1, 2, 3, 4, 0x102 << 1 | 1)
    assert (sqe_dtype().itemsize, cqe_dtype().itemsize) == (64, 16)
