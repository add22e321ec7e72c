"""Structures and registers against offsets and masks that libnvme's and the kernel's headers gave when compiled."""

from __future__ import annotations

import pytest
from vector_names import KERNEL, LIBNVME, constants

from tutti_hal.nvme import commands, identify, namespace, registers
from tutti_hal.nvme.layout import Layout

# ---- structures ----

#: libnvme's structure -> ours, and fields that ours splits or names otherwise: libnvme's name -> ours, low part first.
STRUCTURES: dict[str, tuple[type[Layout], dict[str, tuple[str, ...]]]] = {
    "nvme_id_ctrl": (
        identify.IdentifyController,
        {"sqes": ("sqes_min", "sqes_max"), "cqes": ("cqes_min", "cqes_max")},
    ),
    "nvme_id_psd": (
        identify.PowerState,
        {"flags": ("mxps", "nops"), "apws": ("apw", "aps")},
    ),
    "nvme_id_ns": (namespace.IdentifyNamespace, {"flbas": ("flbas_low", "flbas_extended", "flbas_high")}),
    "nvme_lbaf": (namespace.LbaFormat, {"ds": ("lbads",)}),
    "nvme_id_ctrl_nvm": (identify.IdentifyNvmController, {}),
    "nvme_nvm_id_ns": (namespace.IdentifyNvmNamespace, {}),
    "nvme_dsm_range": (commands.DsmRange, {"cattr": ("attributes",)}),
}
#: libnvme puts the storage tag mask of CNS 05h behind the formats of CNS 00h; the kernel, like the specification,
#: begins the vendor's bytes there.
NOT_OURS = {"nvme_id_ns": {"lbstm", "vs"}}
#: Fields of less than their byte: (structure, ours) -> bits.
NARROW = {"rp", "rrt", "rrl", "rwt", "rwl", "ips"}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures(name: str) -> None:
    ours, renamed = STRUCTURES[name]
    theirs: dict[str, list[int]] = dict(LIBNVME["structures"][name])
    _, size = theirs.pop("")
    assert size == ours.SIZE
    places = ours.places()
    covered: set[str] = set()
    for field, (offset, length) in theirs.items():
        if field in NOT_OURS.get(name, ()):
            continue
        parts = [places[part] for part in renamed.get(field, (field,))]
        covered |= set(renamed.get(field, (field,)))
        low, high = parts[0].lsb, parts[-1].lsb + parts[-1].width
        assert 8 * offset <= low, field
        assert high <= 8 * (offset + length), field
        if field not in NARROW and field not in renamed:
            assert (low, high - low) == (8 * offset, 8 * length), field
    assert set(places) - covered == NOT_OURS.get(name, set()) & set(places)


KERNEL_STRUCTURES: dict[str, tuple[type[Layout], dict[str, str]]] = {
    "nvme_id_ctrl": (identify.IdentifyController, {"nvscc": "icsvscc", "ctrattr": "fcatt"}),
    "nvme_id_ns": (namespace.IdentifyNamespace, {}),
    "nvme_id_ctrl_nvm": (identify.IdentifyNvmController, {}),
    "nvme_id_ns_nvm": (namespace.IdentifyNvmNamespace, {}),
    "nvme_dsm_range": (commands.DsmRange, {"cattr": "attributes"}),
}


@pytest.mark.parametrize("name", KERNEL_STRUCTURES)
def test_structures_of_the_kernel(name: str) -> None:
    ours, renamed = KERNEL_STRUCTURES[name]
    theirs: dict[str, list[int]] = dict(KERNEL["structures"][name])
    assert theirs.pop("") == [0, ours.SIZE]
    for field, (offset, length) in theirs.items():
        if field in ("sqes", "cqes", "flbas"):
            continue
        place = ours.places()[renamed.get(field, field)]
        assert (place.lsb, place.width) == (8 * offset, 8 * length), field


def test_namespace_list() -> None:
    assert LIBNVME["structures"]["nvme_ns_list"]["ns"] == [0, 4 * namespace.LIST_ENTRIES]


# ---- registers ----


def test_register_offsets() -> None:
    theirs = constants("nvme_register_offsets")
    for name, value in theirs.items():
        assert registers.Offset[name.removeprefix("NVME_REG_")] == value
    assert KERNEL["constants"]["registers"]["NVME_REG_DBS"] == registers.DOORBELL_BASE
    for name, value in KERNEL["constants"]["registers"].items():
        if name != "NVME_REG_DBS" and not name.endswith("PMRMSC"):
            assert registers.Offset[name.removeprefix("NVME_REG_")] == value


REGISTERS: dict[str, tuple[type[Layout], str, dict[str, str]]] = {
    "nvme_cap": (registers.Capabilities, "NVME_CAP_", {"nssrc": "nssrs"}),
    "nvme_vs": (registers.Version, "NVME_VS_", {"ter": "tertiary", "mnr": "minor", "mjr": "major"}),
    "nvme_cc": (registers.Configuration, "NVME_CC_", {}),
    "nvme_csts": (registers.ControllerStatus, "NVME_CSTS_", {}),
    "nvme_aqa": (registers.AdminQueueAttributes, "NVME_AQA_", {}),
    "nvme_cmbloc": (registers.MemoryBufferLocation, "NVME_CMBLOC_", {}),
    "nvme_cmbsz": (registers.MemoryBufferSize, "NVME_CMBSZ_", {}),
}


@pytest.mark.parametrize("group", REGISTERS)
def test_register_fields(group: str) -> None:
    ours, prefix, renamed = REGISTERS[group]
    theirs = constants(group)
    seen = set()
    for name, shift in theirs.items():
        if not name.endswith("_SHIFT"):
            continue
        field = name.removeprefix(prefix).removesuffix("_SHIFT")
        mask = theirs[f"{prefix}{field}_MASK"]
        if (group, field) == ("nvme_cap", "CRMS"):
            # One field of two bits there, two flags here.
            places = ours.places()
            assert (places["crwms"].lsb, places["crims"].lsb, mask) == (shift, shift + 1, 3)
            seen |= {"crwms", "crims"}
            continue
        mine = renamed.get(field.lower(), field.lower())
        place = ours.places()[mine]
        assert (place.lsb, (1 << place.width) - 1) == (shift, mask), name
        seen.add(mine)
    # Fields of later versions than the headers know.
    assert set(ours.places()) - seen <= {"cps", "nsss", "nsses", "st"}


def test_register_values() -> None:
    cc, csts = constants("nvme_cc"), constants("nvme_csts")
    assert cc["NVME_CC_CSS_NVM"] == registers.CommandSet.NVM
    assert cc["NVME_CC_CSS_CSI"] == registers.CommandSet.ALL_SUPPORTED
    assert cc["NVME_CC_CSS_ADMIN"] == registers.CommandSet.ADMIN_ONLY
    assert cc["NVME_CC_SHN_NORMAL"] == registers.ShutdownNotification.NORMAL
    assert cc["NVME_CC_SHN_ABRUPT"] == registers.ShutdownNotification.ABRUPT
    assert csts["NVME_CSTS_SHST_OCCUR"] == registers.ShutdownStatus.OCCURRING
    assert csts["NVME_CSTS_SHST_CMPLT"] == registers.ShutdownStatus.COMPLETE
    cap = constants("nvme_cap")
    only = registers.Capabilities(css=cap["NVME_CAP_CSS_NVM"])
    assert only.nvm_command_set
    assert not only.several_command_sets
    assert registers.Capabilities(css=cap["NVME_CAP_CSS_CSI"]).several_command_sets
    assert registers.MemoryBufferSize(sz=3, szu=constants("nvme_cmbsz")["NVME_CMBSZ_SZU_1M"]).nbytes == 3 << 20
    crto = constants("nvme_crto")
    value = registers.ReadyTimeouts(crwmt=0xFFFF).value
    assert value == crto["NVME_CRTO_CRWMT_MASK"]
    assert registers.ReadyTimeouts(crimt=0xFFFF).value == crto["NVME_CRTO_CRIMT_MASK"] & 0xFFFF_FFFF
