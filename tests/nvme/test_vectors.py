"""The codecs against numbers that libnvme's and the kernel's headers gave when compiled (vectors/*.json)."""

from __future__ import annotations

import importlib.util
import json
import struct
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tutti_hal.nvme import commands, features, identify, namespace, opcodes, registers, sgl, status
from tutti_hal.nvme.cqe import Cqe, cqe_dtype
from tutti_hal.nvme.layout import Layout
from tutti_hal.nvme.prp import PrpPair
from tutti_hal.nvme.sqe import Fuse, Psdt, Sqe, sqe_dtype

VECTORS = Path(__file__).parent / "vectors"


@cache
def vectors(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


LIBNVME, KERNEL, UAPI = vectors("libnvme"), vectors("kernel"), vectors("uapi")


def constants(group: str) -> dict[str, int]:
    found: dict[str, int] = LIBNVME["constants"][group]
    return found


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


# ---- numbers ----

OPCODES = {
    "nvme_admin_get_log_page": "GET_LOG_PAGE",
    "nvme_admin_abort_cmd": "ABORT",
    "nvme_admin_async_event": "ASYNC_EVENT_REQUEST",
    "nvme_admin_ns_mgmt": "NAMESPACE_MANAGEMENT",
    "nvme_admin_fw_commit": "FIRMWARE_COMMIT",
    "nvme_admin_fw_activate": "FIRMWARE_COMMIT",
    "nvme_admin_fw_download": "FIRMWARE_DOWNLOAD",
    "nvme_admin_dev_self_test": "DEVICE_SELF_TEST",
    "nvme_admin_ns_attach": "NAMESPACE_ATTACHMENT",
    "nvme_admin_directive_recv": "DIRECTIVE_RECEIVE",
    "nvme_admin_virtual_mgmt": "VIRTUALIZATION_MANAGEMENT",
    "nvme_admin_nvme_mi_send": "MI_SEND",
    "nvme_admin_nvme_mi_recv": "MI_RECEIVE",
    "nvme_admin_capacity_mgmt": "CAPACITY_MANAGEMENT",
    "nvme_admin_dbbuf": "DOORBELL_BUFFER_CONFIG",
    "nvme_admin_security_recv": "SECURITY_RECEIVE",
    "nvme_admin_sanitize_nvm": "SANITIZE",
    "nvme_cmd_write_uncor": "WRITE_UNCORRECTABLE",
    "nvme_cmd_dsm": "DATASET_MANAGEMENT",
    "nvme_cmd_resv_register": "RESERVATION_REGISTER",
    "nvme_cmd_resv_report": "RESERVATION_REPORT",
    "nvme_cmd_resv_acquire": "RESERVATION_ACQUIRE",
    "nvme_cmd_resv_release": "RESERVATION_RELEASE",
    "nvme_cmd_io_mgmt_recv": "IO_MANAGEMENT_RECEIVE",
    "nvme_cmd_io_mgmt_send": "IO_MANAGEMENT_SEND",
    "nvme_zns_cmd_mgmt_send": "ZONE_MANAGEMENT_SEND",
    "nvme_zns_cmd_mgmt_recv": "ZONE_MANAGEMENT_RECEIVE",
    "nvme_zns_cmd_append": "ZONE_APPEND",
}
#: Commands of fabrics and discovery controllers only.
NO_OPCODES = {
    "nvme_admin_discovery_info_mgmt",
    "nvme_admin_fabric_zoning_recv",
    "nvme_admin_fabric_zoning_lookup",
    "nvme_admin_fabric_zoning_send",
}


def test_opcodes() -> None:
    admin, io = constants("nvme_admin_opcode"), constants("nvme_io_opcode")
    seen = set()
    for name, value in (admin | io).items():
        if name in NO_OPCODES:
            continue
        enum = (
            opcodes.AdminOpcode
            if name.startswith("nvme_admin_")
            else opcodes.ZonedOpcode
            if "zns" in name
            else opcodes.NvmOpcode
        )
        mine = OPCODES.get(name, name.removeprefix("nvme_admin_").removeprefix("nvme_cmd_").upper())
        assert enum[mine] == value, name
        seen.add(enum[mine])
    assert set(opcodes.AdminOpcode) | set(opcodes.NvmOpcode) | set(opcodes.ZonedOpcode) == seen


STATUS_NAMES = {
    # libnvme's name: (SCT, our name)
    "SUCCESS": (0, "success"),
    "INVALID_OPCODE": (0, "invalid-opcode"),
    "INVALID_FIELD": (0, "invalid-field"),
    "CMDID_CONFLICT": (0, "cid-conflict"),
    "DATA_XFER_ERROR": (0, "data-transfer-error"),
    "POWER_LOSS": (0, "power-loss-abort"),
    "INTERNAL": (0, "internal-error"),
    "ABORT_REQ": (0, "abort-requested"),
    "ABORT_QUEUE": (0, "aborted-sq-deleted"),
    "FUSED_FAIL": (0, "aborted-fused-failed"),
    "FUSED_MISSING": (0, "aborted-fused-missing"),
    "INVALID_NS": (0, "invalid-namespace-or-format"),
    "CMD_SEQ_ERROR": (0, "command-sequence-error"),
    "SGL_INVALID_LAST": (0, "sgl-segment-invalid"),
    "SGL_INVALID_COUNT": (0, "sgl-count-invalid"),
    "SGL_INVALID_DATA": (0, "sgl-data-length-invalid"),
    "SGL_INVALID_METADATA": (0, "sgl-metadata-length-invalid"),
    "SGL_INVALID_TYPE": (0, "sgl-type-invalid"),
    "CMB_INVALID_USE": (0, "cmb-use-invalid"),
    "PRP_INVALID_OFFSET": (0, "prp-offset-invalid"),
    "AWU_EXCEEDED": (0, "atomic-write-unit-exceeded"),
    "OP_DENIED": (0, "operation-denied"),
    "SGL_INVALID_OFFSET": (0, "sgl-offset-invalid"),
    "HOSTID_FORMAT": (0, "host-id-inconsistent"),
    "KAT_EXPIRED": (0, "keep-alive-expired"),
    "KAT_INVALID": (0, "keep-alive-invalid"),
    "CMD_ABORTED_PREMEPT": (0, "aborted-preempted"),
    "SANITIZE_FAILED": (0, "sanitize-failed"),
    "SANITIZE_IN_PROGRESS": (0, "sanitize-in-progress"),
    "SGL_INVALID_GRANULARITY": (0, "sgl-granularity-invalid"),
    "CMD_IN_CMBQ_NOT_SUPP": (0, "command-in-cmb-unsupported"),
    "NS_WRITE_PROTECTED": (0, "namespace-write-protected"),
    "CMD_INTERRUPTED": (0, "command-interrupted"),
    "TRAN_TPORT_ERROR": (0, "transient-transport-error"),
    "PROHIBITED_BY_CMD_AND_FEAT": (0, "prohibited-by-lockdown"),
    "ADMIN_CMD_MEDIA_NOT_READY": (0, "admin-media-not-ready"),
    "LBA_RANGE": (0, "lba-out-of-range"),
    "CAP_EXCEEDED": (0, "capacity-exceeded"),
    "NS_NOT_READY": (0, "namespace-not-ready"),
    "RESERVATION_CONFLICT": (0, "reservation-conflict"),
    "FORMAT_IN_PROGRESS": (0, "format-in-progress"),
    "CQ_INVALID": (1, "cq-invalid"),
    "QID_INVALID": (1, "qid-invalid"),
    "QUEUE_SIZE": (1, "queue-size-invalid"),
    "ABORT_LIMIT": (1, "abort-limit-exceeded"),
    "ASYNC_LIMIT": (1, "async-event-limit-exceeded"),
    "FIRMWARE_SLOT": (1, "firmware-slot-invalid"),
    "FIRMWARE_IMAGE": (1, "firmware-image-invalid"),
    "INVALID_VECTOR": (1, "interrupt-vector-invalid"),
    "INVALID_LOG_PAGE": (1, "log-page-invalid"),
    "INVALID_FORMAT": (1, "format-invalid"),
    "FW_NEEDS_CONV_RESET": (1, "firmware-needs-reset"),
    "INVALID_QUEUE": (1, "queue-deletion-invalid"),
    "FEATURE_NOT_SAVEABLE": (1, "feature-not-saveable"),
    "FEATURE_NOT_CHANGEABLE": (1, "feature-not-changeable"),
    "FEATURE_NOT_PER_NS": (1, "feature-not-namespace-specific"),
    "FW_NEEDS_SUBSYS_RESET": (1, "firmware-needs-subsystem-reset"),
    "FW_NEEDS_RESET": (1, "firmware-needs-controller-reset"),
    "FW_NEEDS_MAX_TIME": (1, "firmware-needs-more-time"),
    "FW_ACTIVATE_PROHIBITED": (1, "firmware-prohibited"),
    "OVERLAPPING_RANGE": (1, "overlapping-range"),
    "NS_INSUFFICIENT_CAP": (1, "namespace-capacity-insufficient"),
    "NS_ID_UNAVAILABLE": (1, "namespace-id-unavailable"),
    "NS_ALREADY_ATTACHED": (1, "namespace-already-attached"),
    "NS_IS_PRIVATE": (1, "namespace-private"),
    "NS_NOT_ATTACHED": (1, "namespace-not-attached"),
    "THIN_PROV_NOT_SUPP": (1, "thin-provisioning-unsupported"),
    "CTRL_LIST_INVALID": (1, "controller-list-invalid"),
    "SELF_TEST_IN_PROGRESS": (1, "self-test-in-progress"),
    "BP_WRITE_PROHIBITED": (1, "boot-partition-write-prohibited"),
    "INVALID_CTRL_ID": (1, "controller-id-invalid"),
    "INVALID_SEC_CTRL_STATE": (1, "secondary-controller-state-invalid"),
    "INVALID_CTRL_RESOURCES": (1, "controller-resources-invalid"),
    "INVALID_RESOURCE_ID": (1, "resource-id-invalid"),
    "PMR_SAN_PROHIBITED": (1, "sanitize-prohibited-by-pmr"),
    "ANA_GROUP_ID_INVALID": (1, "ana-group-invalid"),
    "ANA_ATTACH_FAILED": (1, "ana-attach-failed"),
    "INSUFFICIENT_CAP": (1, "capacity-insufficient"),
    "NS_ATTACHMENT_LIMIT_EXCEEDED": (1, "attachment-limit-exceeded"),
    "PROHIBIT_CMD_EXEC_NOT_SUPPORTED": (1, "lockdown-unsupported"),
    "IOCS_NOT_SUPPORTED": (1, "command-set-unsupported"),
    "IOCS_NOT_ENABLED": (1, "command-set-not-enabled"),
    "IOCS_COMBINATION_REJECTED": (1, "command-set-combination-rejected"),
    "INVALID_IOCS": (1, "command-set-invalid"),
    "ID_UNAVAILABLE": (1, "id-unavailable"),
    "BAD_ATTRIBUTES": (1, "conflicting-attributes"),
    "INVALID_PI": (1, "protection-invalid"),
    "READ_ONLY": (1, "write-to-read-only-range"),
    "CMD_SIZE_LIMIT_EXCEEDED": (1, "command-size-limit-exceeded"),
    "ZNS_INVALID_OP_REQUEST": (1, "zone-invalid-operation"),
    "ZNS_ZRWA_RESOURCES_UNAVAILABLE": (1, "zone-zrwa-unavailable"),
    "ZNS_BOUNDARY_ERROR": (1, "zone-boundary-error"),
    "ZNS_FULL": (1, "zone-full"),
    "ZNS_READ_ONLY": (1, "zone-read-only"),
    "ZNS_OFFLINE": (1, "zone-offline"),
    "ZNS_INVALID_WRITE": (1, "zone-invalid-write"),
    "ZNS_TOO_MANY_ACTIVE": (1, "zone-too-many-active"),
    "ZNS_TOO_MANY_OPENS": (1, "zone-too-many-open"),
    "ZNS_INVAL_TRANSITION": (1, "zone-invalid-transition"),
    "WRITE_FAULT": (2, "write-fault"),
    "READ_ERROR": (2, "unrecovered-read-error"),
    "GUARD_CHECK": (2, "guard-check-error"),
    "APPTAG_CHECK": (2, "application-tag-check-error"),
    "REFTAG_CHECK": (2, "reference-tag-check-error"),
    "COMPARE_FAILED": (2, "compare-failure"),
    "ACCESS_DENIED": (2, "access-denied"),
    "UNWRITTEN_BLOCK": (2, "deallocated-or-unwritten"),
    "STORAGE_TAG_CHECK": (2, "storage-tag-check-error"),
    "ANA_INTERNAL_PATH_ERROR": (3, "internal-path-error"),
    "ANA_PERSISTENT_LOSS": (3, "ana-persistent-loss"),
    "ANA_INACCESSIBLE": (3, "ana-inaccessible"),
    "ANA_TRANSITION": (3, "ana-transition"),
    "CTRL_PATH_ERROR": (3, "controller-path-error"),
    "HOST_PATH_ERROR": (3, "host-path-error"),
    "CMD_ABORTED_BY_HOST": (3, "aborted-by-host"),
}
#: Of fabrics and discovery, or (ABORT_MISSING) no longer in the specification.
NO_STATUS = [
    "MASK",
    "SHIFT",
    "CRD",
    "MORE",
    "DNR",
    "CONNECT_FORMAT",
    "CONNECT_CTRL_BUSY",
    "CONNECT_INVALID_PARAM",
    "CONNECT_RESTART_DISC",
    "CONNECT_INVALID_HOST",
    "DISCONNECT_INVALID_QTYPE",
    "DISCOVERY_RESTART",
    "AUTH_REQUIRED",
    "INVALID_DISCOVERY_INFO",
    "ZONING_DATA_STRUCT_LOCKED",
    "ZONING_DATA_STRUCT_NOTFND",
    "INSUFFICIENT_DISC_RES",
    "REQSTD_FUNCTION_DISABLED",
    "ZONEGRP_ORIGINATOR_INVLD",
    "ABORT_MISSING",
]


def test_status_codes() -> None:
    theirs = {
        name.removeprefix("NVME_SC_"): value
        for name, value in constants("nvme_status_field").items()
        if name.startswith("NVME_SC_")
    }
    assert set(theirs) - set(NO_STATUS) == set(STATUS_NAMES), "each of libnvme's codes is said to be ours or not"
    expected = {(sct, theirs[name]): mine for name, (sct, mine) in STATUS_NAMES.items()}
    assert {key: row.name for key, row in status.table().items()} == expected


def test_status_codes_of_the_kernel() -> None:
    """The kernel writes SCT and SC as one number, so it is a witness for the types that libnvme leaves out."""
    theirs = {
        value
        for name, value in KERNEL["constants"]["status"].items()
        if name not in ("NVME_SC_RESERVED", "NVME_SC_MASK", "NVME_SC_INVALID_IO_CMD_SET", "NVME_SC_ABORT_MISSING")
        and "CONNECT" not in name
        and "DISCOVERY" not in name
        and "AUTH" not in name
    }
    ours = {sct << 8 | sc for sct, sc in status.table()}
    assert theirs - ours == set()
    assert len(theirs) > 80


def test_status_field() -> None:
    field = constants("nvme_status_field")
    assert status.Status(dnr=True).field == field["NVME_SC_DNR"]
    assert status.Status(more=True).field == field["NVME_SC_MORE"]
    assert status.Status(crd=3).field == field["NVME_SC_CRD"]
    assert status.Status(sct=7).field == field["NVME_SCT_MASK"] << field["NVME_SCT_SHIFT"]
    for name, sct in (("GENERIC", 0), ("CMD_SPECIFIC", 1), ("MEDIA", 2), ("PATH", 3), ("VS", 7)):
        assert field[f"NVME_SCT_{name}"] == sct
    assert [t.value for t in status.StatusType] == [0, 1, 2, 3, 7]


FEATURES = {
    "ARBITRATION": "ARBITRATION",
    "POWER_MGMT": "POWER_MANAGEMENT",
    "LBA_RANGE": "LBA_RANGE_TYPE",
    "TEMP_THRESH": "TEMPERATURE_THRESHOLD",
    "ERR_RECOVERY": "ERROR_RECOVERY",
    "VOLATILE_WC": "VOLATILE_WRITE_CACHE",
    "NUM_QUEUES": "NUMBER_OF_QUEUES",
    "IRQ_COALESCE": "INTERRUPT_COALESCING",
    "IRQ_CONFIG": "INTERRUPT_VECTOR",
    "WRITE_ATOMIC": "WRITE_ATOMICITY",
    "ASYNC_EVENT": "ASYNC_EVENTS",
    "AUTO_PST": "AUTONOMOUS_POWER_STATES",
    "HOST_MEM_BUF": "HOST_MEMORY_BUFFER",
    "TIMESTAMP": "TIMESTAMP",
    "KATO": "KEEP_ALIVE",
    "HCTM": "THERMAL_MANAGEMENT",
    "NOPSC": "NON_OPERATIONAL_POWER",
    "RRL": "READ_RECOVERY_LEVEL",
    "PLM_CONFIG": "PREDICTABLE_LATENCY_CONFIG",
    "PLM_WINDOW": "PREDICTABLE_LATENCY_WINDOW",
    "LBA_STS_INTERVAL": "LBA_STATUS_INTERVAL",
    "HOST_BEHAVIOR": "HOST_BEHAVIOR",
    "SANITIZE": "SANITIZE_CONFIG",
    "ENDURANCE_EVT_CFG": "ENDURANCE_EVENTS",
    "IOCS_PROFILE": "COMMAND_SET_PROFILE",
    "SPINUP_CONTROL": "SPINUP",
    "SW_PROGRESS": "SOFTWARE_PROGRESS",
    "HOST_ID": "HOST_IDENTIFIER",
    "RESV_MASK": "RESERVATION_MASK",
    "RESV_PERSIST": "RESERVATION_PERSISTENCE",
    "WRITE_PROTECT": "WRITE_PROTECTION",
}


def test_features() -> None:
    theirs = constants("nvme_features_id")
    assert {f.name for f in features.Feature} == set(FEATURES.values())
    for name, mine in FEATURES.items():
        assert features.Feature[mine] == theirs[f"NVME_FEAT_FID_{name}"]
    select = constants("nvme_get_features_sel")
    assert {f"NVME_GET_FEATURES_SEL_{s.name}": s.value for s in features.Select} == select


FEATURE_FIELDS: dict[str, tuple[type[Layout], str]] = {
    "ARBITRATION_BURST": (features.Arbitration, "burst"),
    "ARBITRATION_LPW": (features.Arbitration, "low_weight"),
    "ARBITRATION_MPW": (features.Arbitration, "medium_weight"),
    "ARBITRATION_HPW": (features.Arbitration, "high_weight"),
    "ERROR_RECOVERY_TLER": (features.ErrorRecovery, "time_limit"),
    "ERROR_RECOVERY_DULBE": (features.ErrorRecovery, "deallocated_error"),
    "VWC_WCE": (features.VolatileWriteCache, "enable"),
    "NRQS_NSQR": (features.NumberOfQueues, "nsq"),
    "NRQS_NCQR": (features.NumberOfQueues, "ncq"),
    "IRQC_THR": (features.InterruptCoalescing, "threshold"),
    "IRQC_TIME": (features.InterruptCoalescing, "time"),
    "ICFG_IV": (features.InterruptVector, "vector"),
    "ICFG_CD": (features.InterruptVector, "coalescing_disable"),
    "WA_DN": (features.WriteAtomicity, "disable_normal"),
    "AE_SMART": (features.AsyncEvents, "smart"),
    "AE_NAN": (features.AsyncEvents, "namespace_attributes"),
    "AE_FW": (features.AsyncEvents, "firmware_activation"),
    "AE_TELEM": (features.AsyncEvents, "telemetry"),
    "AE_ANA": (features.AsyncEvents, "ana_change"),
    "AE_PLA": (features.AsyncEvents, "predictable_latency"),
    "AE_LBAS": (features.AsyncEvents, "lba_status"),
    "AE_EGA": (features.AsyncEvents, "endurance_group"),
}


def test_feature_fields() -> None:
    theirs = constants("nvme_feat")
    assert {n.removeprefix("NVME_FEAT_").removesuffix("_SHIFT") for n in theirs if n.endswith("_SHIFT")} == set(
        FEATURE_FIELDS
    )
    for name, (layout, field) in FEATURE_FIELDS.items():
        place = layout.places()[field]
        assert place.lsb == theirs[f"NVME_FEAT_{name}_SHIFT"], name
        assert (1 << place.width) - 1 == theirs[f"NVME_FEAT_{name}_MASK"], name


def test_identify_numbers() -> None:
    cns = constants("nvme_identify_cns")
    names = {
        "NS": "NAMESPACE",
        "CTRL": "CONTROLLER",
        "NS_ACTIVE_LIST": "ACTIVE_NAMESPACE_LIST",
        "NS_DESC_LIST": "NAMESPACE_DESCRIPTORS",
        "NVMSET_LIST": "NVM_SET_LIST",
        "CSI_NS": "COMMAND_SET_NAMESPACE",
        "CSI_CTRL": "COMMAND_SET_CONTROLLER",
        "CSI_NS_ACTIVE_LIST": "COMMAND_SET_ACTIVE_NAMESPACE_LIST",
        "CSI_INDEPENDENT_ID_NS": "INDEPENDENT_NAMESPACE",
        "ALLOCATED_NS_LIST": "ALLOCATED_NAMESPACE_LIST",
        "ALLOCATED_NS": "ALLOCATED_NAMESPACE",
        "NS_CTRL_LIST": "NAMESPACE_CONTROLLER_LIST",
        "CTRL_LIST": "CONTROLLER_LIST",
        "PRIMARY_CTRL_CAP": "PRIMARY_CONTROLLER_CAPABILITIES",
        "SECONDARY_CTRL_LIST": "SECONDARY_CONTROLLER_LIST",
        "NS_GRANULARITY": "NAMESPACE_GRANULARITY",
        "UUID_LIST": "UUID_LIST",
        "DOMAIN_LIST": "DOMAIN_LIST",
        "ENDURANCE_GROUP_ID": "ENDURANCE_GROUP_LIST",
        "COMMAND_SET_STRUCTURE": "COMMAND_SETS",
    }
    assert {c.name for c in opcodes.Cns} == set(names.values())
    for theirs, mine in names.items():
        assert opcodes.Cns[mine] == cns[f"NVME_IDENTIFY_CNS_{theirs}"]
    oacs = constants("nvme_id_ctrl_oacs")
    assert sorted(oacs.values()) == sorted(int(f) for f in identify.OptionalAdmin)
    assert oacs["NVME_CTRL_OACS_DBBUF_CFG"] == identify.OptionalAdmin.DOORBELL_BUFFER
    assert oacs["NVME_CTRL_OACS_NS_MGMT"] == identify.OptionalAdmin.NAMESPACE_MANAGEMENT
    oncs = constants("nvme_id_ctrl_oncs")
    assert sorted(oncs.values()) == sorted(int(f) for f in identify.OptionalNvm)
    for mine, name in (
        ("COMPARE", "COMPARE"),
        ("WRITE_ZEROES", "WRITE_ZEROES"),
        ("VERIFY", "VERIFY"),
        ("COPY", "COPY"),
    ):
        assert identify.OptionalNvm[mine] == oncs[f"NVME_CTRL_ONCS_{name}"]
    assert oncs["NVME_CTRL_ONCS_DSM"] == identify.OptionalNvm.DATASET_MANAGEMENT
    vwc = constants("nvme_id_ctrl_vwc")
    data = identify.IdentifyController(vwc=vwc["NVME_CTRL_VWC_PRESENT"] | vwc["NVME_CTRL_VWC_FLUSH"])
    assert data.volatile_write_cache
    assert data.flush_all_namespaces
    assert not identify.IdentifyController(vwc=0b101).flush_all_namespaces


def test_sgl_support() -> None:
    theirs = constants("nvme_id_ctrl_sgls")
    names = {
        "KEYED": "keyed",
        "BIT_BUCKET": "bit_bucket",
        "MPTR_BYTE_ALIGNED": "mptr_byte_aligned",
        "OVERSIZE": "excess_length",
        "MPTR_SGL": "mptr_sgl",
        "OFFSET": "offset",
        "TPORT": "transport",
    }
    for name, field in names.items():
        assert sgl.SglSupport(**{field: True}).value == theirs[f"NVME_CTRL_SGLS_{name}"]
    assert sgl.SglSupport(supported=3).value == theirs["NVME_CTRL_SGLS_SUPPORTED"]
    assert len(names) + 1 == len(theirs)


def test_namespace_numbers() -> None:
    flbas = constants("nvme_id_ns_flbas")
    low = namespace.IdentifyNamespace(flbas_low=15, flbas_extended=False).encode()[26]
    assert low == flbas["NVME_NS_FLBAS_LOWER_MASK"]
    assert namespace.IdentifyNamespace(flbas_extended=True).encode()[26] == flbas["NVME_NS_FLBAS_META_EXT"]
    assert namespace.IdentifyNamespace(flbas_high=3).encode()[26] == flbas["NVME_NS_FLBAS_HIGHER_MASK"]
    elbaf = constants("nvme_nvm_id_ns_elbaf")
    sts, pif = namespace.ExtendedLbaFormat.places()["sts"], namespace.ExtendedLbaFormat.places()["pif"]
    assert (sts.mask, pif.mask) == (elbaf["NVME_NVM_ELBAF_STS_MASK"], elbaf["NVME_NVM_ELBAF_PIF_MASK"])
    dps = constants("nvme_id_ns_dps")
    assert namespace.IdentifyNamespace(dps=dps["NVME_NS_DPS_PI_TYPE3"] | dps["NVME_NS_DPS_PI_FIRST"]).protection == 3


def test_event_numbers() -> None:
    kind = constants("nvme_ae_type")
    names = {"ERROR": "ERROR", "SMART": "SMART", "NOTICE": "NOTICE", "CSS": "COMMAND_SET", "VS": "VENDOR"}
    assert {features.EventType[m].value for m in names.values()} == set(kind.values())
    for theirs, mine in names.items():
        assert kind[f"NVME_AER_{theirs}"] == features.EventType[mine]
    assert sorted(constants("nvme_ae_info_error").values()) == [e.value for e in features.EventError]
    notices = set(constants("nvme_ae_info_notice").values()) - {0xF0}
    assert notices == {e.value for e in features.EventNotice}


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


# ---- the vectors themselves ----


def _regenerate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nvme_vectors_regenerate", VECTORS / "regenerate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["libnvme", "uapi", "kernel"])
def test_vectors_are_what_the_headers_say(name: str) -> None:
    """Compiles the generator again where the headers are installed; other versions must still agree."""
    module = _regenerate()
    try:
        fresh = getattr(module, name)()
    except module.Missing as missing:
        pytest.skip(f"the headers of {name}.json are not installed: {missing}")
    kept = vectors(name)
    assert fresh["structures"] == kept["structures"]
    assert fresh["constants"] == kept["constants"]
    assert fresh.get("commands") == kept.get("commands")


def test_vectors_name_their_source() -> None:
    assert LIBNVME["source"]["libnvme"]
    assert KERNEL["source"]["linux"]
    assert UAPI["source"]["linux"]
    assert struct.calcsize("<Q") == 8
