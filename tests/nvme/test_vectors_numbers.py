"""Opcodes, status codes, features and flags against the constants of libnvme's and the kernel's headers."""

from __future__ import annotations

from vector_names import FEATURES, KERNEL, NO_OPCODES, NO_STATUS, OPCODES, STATUS_NAMES, constants

from tutti_hal.nvme import features, identify, namespace, opcodes, sgl, status
from tutti_hal.nvme.layout import Layout

# ---- numbers ----


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
