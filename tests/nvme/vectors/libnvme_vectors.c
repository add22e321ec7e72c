/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints, as JSON, what libnvme's headers say: offsets and sizes of structures, values of
 * constants, and the command dwords that libnvme's own functions make of known arguments. Nothing of this package is
 * included. The last come from taking the place of ioctl(): no device is needed. See regenerate.py.
 */
#include <libnvme.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "print.h"

/* What the last libnvme call would have sent to the kernel. */
static struct nvme_passthru_cmd64 sent;

int ioctl(int fd, unsigned long request, ...) {
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    (void)fd;
    /* The two forms of the argument agree up to timeout_ms. */
    memcpy(&sent, argument, offsetof(struct nvme_passthru_cmd64, timeout_ms));
    return 0;
}

static void command(const char *name) {
    comma();
    printf("    {\"call\": \"%s\", \"opcode\": %u, \"flags\": %u, \"nsid\": %u, \"cdw2\": %u, \"cdw3\": %u, ", name,
           sent.opcode, sent.flags, sent.nsid, sent.cdw2, sent.cdw3);
    printf("\"data_len\": %u, \"cdw\": [%u, %u, %u, %u, %u, %u]}", sent.data_len, sent.cdw10, sent.cdw11, sent.cdw12,
           sent.cdw13, sent.cdw14, sent.cdw15);
    memset(&sent, 0, sizeof sent);
}

static char buffer[4096];

static void io(const char *name, __u8 opcode, __u64 slba, __u16 nlb, __u16 control, __u8 dsm, __u16 dspec, __u32 reftag,
               __u16 apptag, __u16 appmask) {
    struct nvme_io_args args = {
        .args_size = sizeof args,
        .fd = 3,
        .nsid = 0x01020304,
        .slba = slba,
        .nlb = nlb,
        .control = control,
        .dsm = dsm,
        .dspec = dspec,
        .reftag_u64 = reftag,
        .apptag = apptag,
        .appmask = appmask,
        .data = buffer,
        .data_len = sizeof buffer,
    };
    nvme_io(&args, opcode);
    command(name);
}

static void commands(void) {
    struct nvme_identify_args identify = {
        .args_size = sizeof identify,
        .fd = 3,
        .data = buffer,
        .cns = NVME_IDENTIFY_CNS_CSI_NS,
        .csi = NVME_CSI_ZNS,
        .nsid = 0xA1B2C3D4,
        .cntid = 0xBEEF,
        .cns_specific_id = 0x1234,
        .uuidx = 0x5A,
    };
    nvme_identify(&identify);
    command("identify");

    struct nvme_get_log_args log = {
        .args_size = sizeof log,
        .fd = 3,
        .log = buffer,
        .lid = NVME_LOG_LID_ANA,
        .len = 0x00345678,
        .nsid = 7,
        .csi = NVME_CSI_ZNS,
        .lsi = 0x4321,
        .lsp = 0x2D,
        .lpo = 0x1122334455667788,
        .uuidx = 0x33,
        .rae = true,
        .ot = true,
    };
    nvme_get_log(&log);
    command("get_log");

    struct nvme_set_features_args set = {
        .args_size = sizeof set,
        .fd = 3,
        .nsid = 9,
        .fid = 0xAB,
        .cdw11 = 0x11111111,
        .cdw12 = 0x22222222,
        .cdw13 = 0x33333333,
        .cdw15 = 0x55555555,
        .save = true,
        .uuidx = 0x41,
    };
    nvme_set_features(&set);
    command("set_features");

    struct nvme_get_features_args get = {
        .args_size = sizeof get,
        .fd = 3,
        .nsid = 10,
        .fid = 0xCD,
        .sel = NVME_GET_FEATURES_SEL_SUPPORTED,
        .cdw11 = 0xDEADBEEF,
        .uuidx = 0x22,
    };
    nvme_get_features(&get);
    command("get_features");

    struct nvme_format_nvm_args format = {
        .args_size = sizeof format,
        .fd = 3,
        .nsid = 1,
        .mset = NVME_FORMAT_MSET_EXTENDED,
        .pi = NVME_FORMAT_PI_TYPE3,
        .pil = NVME_FORMAT_PIL_FIRST,
        .ses = NVME_FORMAT_SES_CRYPTO_ERASE,
        .lbaf = 9,
        .lbafu = 2,
    };
    nvme_format_nvm(&format);
    command("format");

    struct nvme_dsm_range ranges[3];
    __u32 attributes[3] = {1, 2, 3}, lengths[3] = {4, 5, 6};
    __u64 starts[3] = {7, 8, 9};
    nvme_init_dsm_range(ranges, attributes, lengths, starts, 3);
    struct nvme_dsm_args dsm = {
        .args_size = sizeof dsm,
        .fd = 3,
        .dsm = ranges,
        .nsid = 0x77,
        .attrs = NVME_DSMGMT_AD,
        .nr_ranges = 3,
    };
    nvme_dsm(&dsm);
    command("dsm");

    nvme_flush(3, 0x99);
    command("flush");

    io("read", nvme_cmd_read, 0x123456789ABCDEF0, 0xFFFE, NVME_IO_FUA | NVME_IO_LR, 0x5A, 0xC3C3, 0x89ABCDEF, 0x1357,
       0x2468);
    io("write", nvme_cmd_write, 1, 0,
       NVME_IO_PRINFO_PRACT | NVME_IO_PRINFO_PRCHK_GUARD | NVME_IO_PRINFO_PRCHK_APP | NVME_IO_PRINFO_PRCHK_REF, 0, 0, 0,
       0, 0);
    io("write-streams", nvme_cmd_write, 1ull << 63, 0x8000, NVME_IO_DTYPE_STREAMS | NVME_IO_STC, 1, 0x8001, 0, 0, 0);
    io("write-zeroes", nvme_cmd_write_zeroes, 0x100000000, 0xFFFF, NVME_IO_DEAC, 0, 0, 0, 0, 0);
    io("compare", nvme_cmd_compare, 2, 3, NVME_IO_PRINFO_PRCHK_REF, 0, 0, 1, 2, 3);
    io("verify", nvme_cmd_verify, 4, 5, NVME_IO_PRINFO_PRCHK_APP, 0, 0, 6, 7, 8);
}

int main(void) {
    printf("{\n  \"structures\": {\n");
    structure("nvme_id_ctrl", sizeof(struct nvme_id_ctrl));
    F(nvme_id_ctrl, vid);
    F(nvme_id_ctrl, ssvid);
    F(nvme_id_ctrl, sn);
    F(nvme_id_ctrl, mn);
    F(nvme_id_ctrl, fr);
    F(nvme_id_ctrl, rab);
    F(nvme_id_ctrl, ieee);
    F(nvme_id_ctrl, cmic);
    F(nvme_id_ctrl, mdts);
    F(nvme_id_ctrl, cntlid);
    F(nvme_id_ctrl, ver);
    F(nvme_id_ctrl, rtd3r);
    F(nvme_id_ctrl, rtd3e);
    F(nvme_id_ctrl, oaes);
    F(nvme_id_ctrl, ctratt);
    F(nvme_id_ctrl, rrls);
    F(nvme_id_ctrl, cntrltype);
    F(nvme_id_ctrl, fguid);
    F(nvme_id_ctrl, crdt1);
    F(nvme_id_ctrl, crdt2);
    F(nvme_id_ctrl, crdt3);
    F(nvme_id_ctrl, nvmsr);
    F(nvme_id_ctrl, vwci);
    F(nvme_id_ctrl, mec);
    F(nvme_id_ctrl, oacs);
    F(nvme_id_ctrl, acl);
    F(nvme_id_ctrl, aerl);
    F(nvme_id_ctrl, frmw);
    F(nvme_id_ctrl, lpa);
    F(nvme_id_ctrl, elpe);
    F(nvme_id_ctrl, npss);
    F(nvme_id_ctrl, avscc);
    F(nvme_id_ctrl, apsta);
    F(nvme_id_ctrl, wctemp);
    F(nvme_id_ctrl, cctemp);
    F(nvme_id_ctrl, mtfa);
    F(nvme_id_ctrl, hmpre);
    F(nvme_id_ctrl, hmmin);
    F(nvme_id_ctrl, tnvmcap);
    F(nvme_id_ctrl, unvmcap);
    F(nvme_id_ctrl, rpmbs);
    F(nvme_id_ctrl, edstt);
    F(nvme_id_ctrl, dsto);
    F(nvme_id_ctrl, fwug);
    F(nvme_id_ctrl, kas);
    F(nvme_id_ctrl, hctma);
    F(nvme_id_ctrl, mntmt);
    F(nvme_id_ctrl, mxtmt);
    F(nvme_id_ctrl, sanicap);
    F(nvme_id_ctrl, hmminds);
    F(nvme_id_ctrl, hmmaxd);
    F(nvme_id_ctrl, nsetidmax);
    F(nvme_id_ctrl, endgidmax);
    F(nvme_id_ctrl, anatt);
    F(nvme_id_ctrl, anacap);
    F(nvme_id_ctrl, anagrpmax);
    F(nvme_id_ctrl, nanagrpid);
    F(nvme_id_ctrl, pels);
    F(nvme_id_ctrl, domainid);
    F(nvme_id_ctrl, megcap);
    F(nvme_id_ctrl, sqes);
    F(nvme_id_ctrl, cqes);
    F(nvme_id_ctrl, maxcmd);
    F(nvme_id_ctrl, nn);
    F(nvme_id_ctrl, oncs);
    F(nvme_id_ctrl, fuses);
    F(nvme_id_ctrl, fna);
    F(nvme_id_ctrl, vwc);
    F(nvme_id_ctrl, awun);
    F(nvme_id_ctrl, awupf);
    F(nvme_id_ctrl, icsvscc);
    F(nvme_id_ctrl, nwpc);
    F(nvme_id_ctrl, acwu);
    F(nvme_id_ctrl, ocfs);
    F(nvme_id_ctrl, sgls);
    F(nvme_id_ctrl, mnan);
    F(nvme_id_ctrl, maxdna);
    F(nvme_id_ctrl, maxcna);
    F(nvme_id_ctrl, subnqn);
    F(nvme_id_ctrl, ioccsz);
    F(nvme_id_ctrl, iorcsz);
    F(nvme_id_ctrl, icdoff);
    F(nvme_id_ctrl, fcatt);
    F(nvme_id_ctrl, msdbd);
    F(nvme_id_ctrl, ofcs);
    F(nvme_id_ctrl, dctype);
    F(nvme_id_ctrl, psd);
    F(nvme_id_ctrl, vs);
    end();
    structure("nvme_id_psd", sizeof(struct nvme_id_psd));
    F(nvme_id_psd, mp);
    F(nvme_id_psd, flags);
    F(nvme_id_psd, enlat);
    F(nvme_id_psd, exlat);
    F(nvme_id_psd, rrt);
    F(nvme_id_psd, rrl);
    F(nvme_id_psd, rwt);
    F(nvme_id_psd, rwl);
    F(nvme_id_psd, idlp);
    F(nvme_id_psd, ips);
    F(nvme_id_psd, actp);
    F(nvme_id_psd, apws);
    end();
    structure("nvme_id_ns", sizeof(struct nvme_id_ns));
    F(nvme_id_ns, nsze);
    F(nvme_id_ns, ncap);
    F(nvme_id_ns, nuse);
    F(nvme_id_ns, nsfeat);
    F(nvme_id_ns, nlbaf);
    F(nvme_id_ns, flbas);
    F(nvme_id_ns, mc);
    F(nvme_id_ns, dpc);
    F(nvme_id_ns, dps);
    F(nvme_id_ns, nmic);
    F(nvme_id_ns, rescap);
    F(nvme_id_ns, fpi);
    F(nvme_id_ns, dlfeat);
    F(nvme_id_ns, nawun);
    F(nvme_id_ns, nawupf);
    F(nvme_id_ns, nacwu);
    F(nvme_id_ns, nabsn);
    F(nvme_id_ns, nabo);
    F(nvme_id_ns, nabspf);
    F(nvme_id_ns, noiob);
    F(nvme_id_ns, nvmcap);
    F(nvme_id_ns, npwg);
    F(nvme_id_ns, npwa);
    F(nvme_id_ns, npdg);
    F(nvme_id_ns, npda);
    F(nvme_id_ns, nows);
    F(nvme_id_ns, mssrl);
    F(nvme_id_ns, mcl);
    F(nvme_id_ns, msrc);
    F(nvme_id_ns, nulbaf);
    F(nvme_id_ns, anagrpid);
    F(nvme_id_ns, nsattr);
    F(nvme_id_ns, nvmsetid);
    F(nvme_id_ns, endgid);
    F(nvme_id_ns, nguid);
    F(nvme_id_ns, eui64);
    F(nvme_id_ns, lbaf);
    F(nvme_id_ns, lbstm);
    F(nvme_id_ns, vs);
    end();
    structure("nvme_lbaf", sizeof(struct nvme_lbaf));
    F(nvme_lbaf, ms);
    F(nvme_lbaf, ds);
    F(nvme_lbaf, rp);
    end();
    structure("nvme_id_ctrl_nvm", sizeof(struct nvme_id_ctrl_nvm));
    F(nvme_id_ctrl_nvm, vsl);
    F(nvme_id_ctrl_nvm, wzsl);
    F(nvme_id_ctrl_nvm, wusl);
    F(nvme_id_ctrl_nvm, dmrl);
    F(nvme_id_ctrl_nvm, dmrsl);
    F(nvme_id_ctrl_nvm, dmsl);
    end();
    structure("nvme_nvm_id_ns", sizeof(struct nvme_nvm_id_ns));
    F(nvme_nvm_id_ns, lbstm);
    F(nvme_nvm_id_ns, pic);
    F(nvme_nvm_id_ns, elbaf);
    end();
    structure("nvme_ns_list", sizeof(struct nvme_ns_list));
    F(nvme_ns_list, ns);
    end();
    structure("nvme_dsm_range", sizeof(struct nvme_dsm_range));
    F(nvme_dsm_range, cattr);
    F(nvme_dsm_range, nlb);
    F(nvme_dsm_range, slba);
    end();
    printf("\n  },\n  \"constants\": {\n");
    first = 1;
    begin("nvme_register_offsets");
    C(NVME_REG_CAP);
    C(NVME_REG_VS);
    C(NVME_REG_INTMS);
    C(NVME_REG_INTMC);
    C(NVME_REG_CC);
    C(NVME_REG_CSTS);
    C(NVME_REG_NSSR);
    C(NVME_REG_AQA);
    C(NVME_REG_ASQ);
    C(NVME_REG_ACQ);
    C(NVME_REG_CMBLOC);
    C(NVME_REG_CMBSZ);
    C(NVME_REG_BPINFO);
    C(NVME_REG_BPRSEL);
    C(NVME_REG_BPMBL);
    C(NVME_REG_CMBMSC);
    C(NVME_REG_CMBSTS);
    C(NVME_REG_CRTO);
    C(NVME_REG_PMRCAP);
    C(NVME_REG_PMRCTL);
    C(NVME_REG_PMRSTS);
    C(NVME_REG_PMREBS);
    C(NVME_REG_PMRSWTP);
    C(NVME_REG_PMRMSCL);
    C(NVME_REG_PMRMSCU);
    end();
    begin("nvme_cap");
    C(NVME_CAP_MQES_SHIFT);
    C(NVME_CAP_CQR_SHIFT);
    C(NVME_CAP_AMS_SHIFT);
    C(NVME_CAP_TO_SHIFT);
    C(NVME_CAP_DSTRD_SHIFT);
    C(NVME_CAP_NSSRC_SHIFT);
    C(NVME_CAP_CSS_SHIFT);
    C(NVME_CAP_BPS_SHIFT);
    C(NVME_CAP_MPSMIN_SHIFT);
    C(NVME_CAP_MPSMAX_SHIFT);
    C(NVME_CAP_PMRS_SHIFT);
    C(NVME_CAP_CMBS_SHIFT);
    C(NVME_CAP_CRMS_SHIFT);
    C(NVME_CAP_MQES_MASK);
    C(NVME_CAP_CQR_MASK);
    C(NVME_CAP_AMS_MASK);
    C(NVME_CAP_TO_MASK);
    C(NVME_CAP_DSTRD_MASK);
    C(NVME_CAP_NSSRC_MASK);
    C(NVME_CAP_CSS_MASK);
    C(NVME_CAP_BPS_MASK);
    C(NVME_CAP_MPSMIN_MASK);
    C(NVME_CAP_MPSMAX_MASK);
    C(NVME_CAP_PMRS_MASK);
    C(NVME_CAP_CMBS_MASK);
    C(NVME_CAP_CRMS_MASK);
    C(NVME_CAP_AMS_WRR);
    C(NVME_CAP_AMS_VS);
    C(NVME_CAP_CSS_NVM);
    C(NVME_CAP_CSS_CSI);
    C(NVME_CAP_CSS_ADMIN);
    C(NVME_CAP_CRWMS);
    C(NVME_CAP_CRIMS);
    end();
    begin("nvme_vs");
    C(NVME_VS_TER_SHIFT);
    C(NVME_VS_MNR_SHIFT);
    C(NVME_VS_MJR_SHIFT);
    C(NVME_VS_TER_MASK);
    C(NVME_VS_MNR_MASK);
    C(NVME_VS_MJR_MASK);
    end();
    begin("nvme_cc");
    C(NVME_CC_EN_SHIFT);
    C(NVME_CC_CSS_SHIFT);
    C(NVME_CC_MPS_SHIFT);
    C(NVME_CC_AMS_SHIFT);
    C(NVME_CC_SHN_SHIFT);
    C(NVME_CC_IOSQES_SHIFT);
    C(NVME_CC_IOCQES_SHIFT);
    C(NVME_CC_CRIME_SHIFT);
    C(NVME_CC_EN_MASK);
    C(NVME_CC_CSS_MASK);
    C(NVME_CC_MPS_MASK);
    C(NVME_CC_AMS_MASK);
    C(NVME_CC_SHN_MASK);
    C(NVME_CC_CRIME_MASK);
    C(NVME_CC_IOSQES_MASK);
    C(NVME_CC_IOCQES_MASK);
    C(NVME_CC_CSS_NVM);
    C(NVME_CC_CSS_CSI);
    C(NVME_CC_CSS_ADMIN);
    C(NVME_CC_AMS_RR);
    C(NVME_CC_AMS_WRRU);
    C(NVME_CC_AMS_VS);
    C(NVME_CC_SHN_NONE);
    C(NVME_CC_SHN_NORMAL);
    C(NVME_CC_SHN_ABRUPT);
    C(NVME_CC_CRWME);
    C(NVME_CC_CRIME);
    end();
    begin("nvme_csts");
    C(NVME_CSTS_RDY_SHIFT);
    C(NVME_CSTS_CFS_SHIFT);
    C(NVME_CSTS_SHST_SHIFT);
    C(NVME_CSTS_NSSRO_SHIFT);
    C(NVME_CSTS_PP_SHIFT);
    C(NVME_CSTS_RDY_MASK);
    C(NVME_CSTS_CFS_MASK);
    C(NVME_CSTS_SHN_MASK);
    C(NVME_CSTS_NSSRO_MASK);
    C(NVME_CSTS_PP_MASK);
    C(NVME_CSTS_SHST_NORMAL);
    C(NVME_CSTS_SHST_OCCUR);
    C(NVME_CSTS_SHST_CMPLT);
    C(NVME_CSTS_SHST_MASK);
    end();
    begin("nvme_aqa");
    C(NVME_AQA_ASQS_SHIFT);
    C(NVME_AQA_ACQS_SHIFT);
    C(NVME_AQA_ASQS_MASK);
    C(NVME_AQA_ACQS_MASK);
    end();
    begin("nvme_cmbloc");
    C(NVME_CMBLOC_BIR_SHIFT);
    C(NVME_CMBLOC_CQMMS_SHIFT);
    C(NVME_CMBLOC_CQPDS_SHIFT);
    C(NVME_CMBLOC_CDPLMS_SHIFT);
    C(NVME_CMBLOC_CDPCILS_SHIFT);
    C(NVME_CMBLOC_CDMMMS_SHIFT);
    C(NVME_CMBLOC_CQDA_SHIFT);
    C(NVME_CMBLOC_OFST_SHIFT);
    C(NVME_CMBLOC_BIR_MASK);
    C(NVME_CMBLOC_CQMMS_MASK);
    C(NVME_CMBLOC_CQPDS_MASK);
    C(NVME_CMBLOC_CDPLMS_MASK);
    C(NVME_CMBLOC_CDPCILS_MASK);
    C(NVME_CMBLOC_CDMMMS_MASK);
    C(NVME_CMBLOC_CQDA_MASK);
    C(NVME_CMBLOC_OFST_MASK);
    end();
    begin("nvme_cmbsz");
    C(NVME_CMBSZ_SQS_SHIFT);
    C(NVME_CMBSZ_CQS_SHIFT);
    C(NVME_CMBSZ_LISTS_SHIFT);
    C(NVME_CMBSZ_RDS_SHIFT);
    C(NVME_CMBSZ_WDS_SHIFT);
    C(NVME_CMBSZ_SZU_SHIFT);
    C(NVME_CMBSZ_SZ_SHIFT);
    C(NVME_CMBSZ_SQS_MASK);
    C(NVME_CMBSZ_CQS_MASK);
    C(NVME_CMBSZ_LISTS_MASK);
    C(NVME_CMBSZ_RDS_MASK);
    C(NVME_CMBSZ_WDS_MASK);
    C(NVME_CMBSZ_SZU_MASK);
    C(NVME_CMBSZ_SZ_MASK);
    C(NVME_CMBSZ_SZU_4K);
    C(NVME_CMBSZ_SZU_64K);
    C(NVME_CMBSZ_SZU_1M);
    C(NVME_CMBSZ_SZU_16M);
    C(NVME_CMBSZ_SZU_256M);
    C(NVME_CMBSZ_SZU_4G);
    C(NVME_CMBSZ_SZU_64G);
    end();
    begin("nvme_crto");
    C(NVME_CRTO_CRIMT_SHIFT);
    C(NVME_CRTO_CRIMT_MASK);
    C(NVME_CRTO_CRWMT_SHIFT);
    C(NVME_CRTO_CRWMT_MASK);
    end();
    begin("nvme_status_field");
    C(NVME_SCT_GENERIC);
    C(NVME_SCT_CMD_SPECIFIC);
    C(NVME_SCT_MEDIA);
    C(NVME_SCT_PATH);
    C(NVME_SCT_VS);
    C(NVME_SCT_MASK);
    C(NVME_SCT_SHIFT);
    C(NVME_SC_MASK);
    C(NVME_SC_SHIFT);
    C(NVME_SC_SUCCESS);
    C(NVME_SC_INVALID_OPCODE);
    C(NVME_SC_INVALID_FIELD);
    C(NVME_SC_CMDID_CONFLICT);
    C(NVME_SC_DATA_XFER_ERROR);
    C(NVME_SC_POWER_LOSS);
    C(NVME_SC_INTERNAL);
    C(NVME_SC_ABORT_REQ);
    C(NVME_SC_ABORT_QUEUE);
    C(NVME_SC_FUSED_FAIL);
    C(NVME_SC_FUSED_MISSING);
    C(NVME_SC_INVALID_NS);
    C(NVME_SC_CMD_SEQ_ERROR);
    C(NVME_SC_SGL_INVALID_LAST);
    C(NVME_SC_SGL_INVALID_COUNT);
    C(NVME_SC_SGL_INVALID_DATA);
    C(NVME_SC_SGL_INVALID_METADATA);
    C(NVME_SC_SGL_INVALID_TYPE);
    C(NVME_SC_CMB_INVALID_USE);
    C(NVME_SC_PRP_INVALID_OFFSET);
    C(NVME_SC_AWU_EXCEEDED);
    C(NVME_SC_OP_DENIED);
    C(NVME_SC_SGL_INVALID_OFFSET);
    C(NVME_SC_HOSTID_FORMAT);
    C(NVME_SC_KAT_EXPIRED);
    C(NVME_SC_KAT_INVALID);
    C(NVME_SC_CMD_ABORTED_PREMEPT);
    C(NVME_SC_SANITIZE_FAILED);
    C(NVME_SC_SANITIZE_IN_PROGRESS);
    C(NVME_SC_SGL_INVALID_GRANULARITY);
    C(NVME_SC_CMD_IN_CMBQ_NOT_SUPP);
    C(NVME_SC_NS_WRITE_PROTECTED);
    C(NVME_SC_CMD_INTERRUPTED);
    C(NVME_SC_TRAN_TPORT_ERROR);
    C(NVME_SC_PROHIBITED_BY_CMD_AND_FEAT);
    C(NVME_SC_ADMIN_CMD_MEDIA_NOT_READY);
    C(NVME_SC_LBA_RANGE);
    C(NVME_SC_CAP_EXCEEDED);
    C(NVME_SC_NS_NOT_READY);
    C(NVME_SC_RESERVATION_CONFLICT);
    C(NVME_SC_FORMAT_IN_PROGRESS);
    C(NVME_SC_CQ_INVALID);
    C(NVME_SC_QID_INVALID);
    C(NVME_SC_QUEUE_SIZE);
    C(NVME_SC_ABORT_LIMIT);
    C(NVME_SC_ABORT_MISSING);
    C(NVME_SC_ASYNC_LIMIT);
    C(NVME_SC_FIRMWARE_SLOT);
    C(NVME_SC_FIRMWARE_IMAGE);
    C(NVME_SC_INVALID_VECTOR);
    C(NVME_SC_INVALID_LOG_PAGE);
    C(NVME_SC_INVALID_FORMAT);
    C(NVME_SC_FW_NEEDS_CONV_RESET);
    C(NVME_SC_INVALID_QUEUE);
    C(NVME_SC_FEATURE_NOT_SAVEABLE);
    C(NVME_SC_FEATURE_NOT_CHANGEABLE);
    C(NVME_SC_FEATURE_NOT_PER_NS);
    C(NVME_SC_FW_NEEDS_SUBSYS_RESET);
    C(NVME_SC_FW_NEEDS_RESET);
    C(NVME_SC_FW_NEEDS_MAX_TIME);
    C(NVME_SC_FW_ACTIVATE_PROHIBITED);
    C(NVME_SC_OVERLAPPING_RANGE);
    C(NVME_SC_NS_INSUFFICIENT_CAP);
    C(NVME_SC_NS_ID_UNAVAILABLE);
    C(NVME_SC_NS_ALREADY_ATTACHED);
    C(NVME_SC_NS_IS_PRIVATE);
    C(NVME_SC_NS_NOT_ATTACHED);
    C(NVME_SC_THIN_PROV_NOT_SUPP);
    C(NVME_SC_CTRL_LIST_INVALID);
    C(NVME_SC_SELF_TEST_IN_PROGRESS);
    C(NVME_SC_BP_WRITE_PROHIBITED);
    C(NVME_SC_INVALID_CTRL_ID);
    C(NVME_SC_INVALID_SEC_CTRL_STATE);
    C(NVME_SC_INVALID_CTRL_RESOURCES);
    C(NVME_SC_INVALID_RESOURCE_ID);
    C(NVME_SC_PMR_SAN_PROHIBITED);
    C(NVME_SC_ANA_GROUP_ID_INVALID);
    C(NVME_SC_ANA_ATTACH_FAILED);
    C(NVME_SC_INSUFFICIENT_CAP);
    C(NVME_SC_NS_ATTACHMENT_LIMIT_EXCEEDED);
    C(NVME_SC_PROHIBIT_CMD_EXEC_NOT_SUPPORTED);
    C(NVME_SC_IOCS_NOT_SUPPORTED);
    C(NVME_SC_IOCS_NOT_ENABLED);
    C(NVME_SC_IOCS_COMBINATION_REJECTED);
    C(NVME_SC_INVALID_IOCS);
    C(NVME_SC_ID_UNAVAILABLE);
    C(NVME_SC_INVALID_DISCOVERY_INFO);
    C(NVME_SC_ZONING_DATA_STRUCT_LOCKED);
    C(NVME_SC_ZONING_DATA_STRUCT_NOTFND);
    C(NVME_SC_INSUFFICIENT_DISC_RES);
    C(NVME_SC_REQSTD_FUNCTION_DISABLED);
    C(NVME_SC_ZONEGRP_ORIGINATOR_INVLD);
    C(NVME_SC_BAD_ATTRIBUTES);
    C(NVME_SC_INVALID_PI);
    C(NVME_SC_READ_ONLY);
    C(NVME_SC_CMD_SIZE_LIMIT_EXCEEDED);
    C(NVME_SC_CONNECT_FORMAT);
    C(NVME_SC_CONNECT_CTRL_BUSY);
    C(NVME_SC_CONNECT_INVALID_PARAM);
    C(NVME_SC_CONNECT_RESTART_DISC);
    C(NVME_SC_CONNECT_INVALID_HOST);
    C(NVME_SC_DISCONNECT_INVALID_QTYPE);
    C(NVME_SC_DISCOVERY_RESTART);
    C(NVME_SC_AUTH_REQUIRED);
    C(NVME_SC_ZNS_INVALID_OP_REQUEST);
    C(NVME_SC_ZNS_ZRWA_RESOURCES_UNAVAILABLE);
    C(NVME_SC_ZNS_BOUNDARY_ERROR);
    C(NVME_SC_ZNS_FULL);
    C(NVME_SC_ZNS_READ_ONLY);
    C(NVME_SC_ZNS_OFFLINE);
    C(NVME_SC_ZNS_INVALID_WRITE);
    C(NVME_SC_ZNS_TOO_MANY_ACTIVE);
    C(NVME_SC_ZNS_TOO_MANY_OPENS);
    C(NVME_SC_ZNS_INVAL_TRANSITION);
    C(NVME_SC_WRITE_FAULT);
    C(NVME_SC_READ_ERROR);
    C(NVME_SC_GUARD_CHECK);
    C(NVME_SC_APPTAG_CHECK);
    C(NVME_SC_REFTAG_CHECK);
    C(NVME_SC_COMPARE_FAILED);
    C(NVME_SC_ACCESS_DENIED);
    C(NVME_SC_UNWRITTEN_BLOCK);
    C(NVME_SC_STORAGE_TAG_CHECK);
    C(NVME_SC_ANA_INTERNAL_PATH_ERROR);
    C(NVME_SC_ANA_PERSISTENT_LOSS);
    C(NVME_SC_ANA_INACCESSIBLE);
    C(NVME_SC_ANA_TRANSITION);
    C(NVME_SC_CTRL_PATH_ERROR);
    C(NVME_SC_HOST_PATH_ERROR);
    C(NVME_SC_CMD_ABORTED_BY_HOST);
    C(NVME_SC_CRD);
    C(NVME_SC_MORE);
    C(NVME_SC_DNR);
    end();
    begin("nvme_admin_opcode");
    C(nvme_admin_delete_sq);
    C(nvme_admin_create_sq);
    C(nvme_admin_get_log_page);
    C(nvme_admin_delete_cq);
    C(nvme_admin_create_cq);
    C(nvme_admin_identify);
    C(nvme_admin_abort_cmd);
    C(nvme_admin_set_features);
    C(nvme_admin_get_features);
    C(nvme_admin_async_event);
    C(nvme_admin_ns_mgmt);
    C(nvme_admin_fw_commit);
    C(nvme_admin_fw_activate);
    C(nvme_admin_fw_download);
    C(nvme_admin_dev_self_test);
    C(nvme_admin_ns_attach);
    C(nvme_admin_keep_alive);
    C(nvme_admin_directive_send);
    C(nvme_admin_directive_recv);
    C(nvme_admin_virtual_mgmt);
    C(nvme_admin_nvme_mi_send);
    C(nvme_admin_nvme_mi_recv);
    C(nvme_admin_capacity_mgmt);
    C(nvme_admin_discovery_info_mgmt);
    C(nvme_admin_fabric_zoning_recv);
    C(nvme_admin_lockdown);
    C(nvme_admin_fabric_zoning_lookup);
    C(nvme_admin_fabric_zoning_send);
    C(nvme_admin_dbbuf);
    C(nvme_admin_fabrics);
    C(nvme_admin_format_nvm);
    C(nvme_admin_security_send);
    C(nvme_admin_security_recv);
    C(nvme_admin_sanitize_nvm);
    C(nvme_admin_get_lba_status);
    end();
    begin("nvme_io_opcode");
    C(nvme_cmd_flush);
    C(nvme_cmd_write);
    C(nvme_cmd_read);
    C(nvme_cmd_write_uncor);
    C(nvme_cmd_compare);
    C(nvme_cmd_write_zeroes);
    C(nvme_cmd_dsm);
    C(nvme_cmd_verify);
    C(nvme_cmd_resv_register);
    C(nvme_cmd_resv_report);
    C(nvme_cmd_resv_acquire);
    C(nvme_cmd_io_mgmt_recv);
    C(nvme_cmd_resv_release);
    C(nvme_cmd_copy);
    C(nvme_cmd_io_mgmt_send);
    C(nvme_zns_cmd_mgmt_send);
    C(nvme_zns_cmd_mgmt_recv);
    C(nvme_zns_cmd_append);
    end();
    begin("nvme_identify_cns");
    C(NVME_IDENTIFY_CNS_NS);
    C(NVME_IDENTIFY_CNS_CTRL);
    C(NVME_IDENTIFY_CNS_NS_ACTIVE_LIST);
    C(NVME_IDENTIFY_CNS_NS_DESC_LIST);
    C(NVME_IDENTIFY_CNS_NVMSET_LIST);
    C(NVME_IDENTIFY_CNS_CSI_NS);
    C(NVME_IDENTIFY_CNS_CSI_CTRL);
    C(NVME_IDENTIFY_CNS_CSI_NS_ACTIVE_LIST);
    C(NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS);
    C(NVME_IDENTIFY_CNS_NS_USER_DATA_FORMAT);
    C(NVME_IDENTIFY_CNS_CSI_NS_USER_DATA_FORMAT);
    C(NVME_IDENTIFY_CNS_ALLOCATED_NS_LIST);
    C(NVME_IDENTIFY_CNS_ALLOCATED_NS);
    C(NVME_IDENTIFY_CNS_NS_CTRL_LIST);
    C(NVME_IDENTIFY_CNS_CTRL_LIST);
    C(NVME_IDENTIFY_CNS_PRIMARY_CTRL_CAP);
    C(NVME_IDENTIFY_CNS_SECONDARY_CTRL_LIST);
    C(NVME_IDENTIFY_CNS_NS_GRANULARITY);
    C(NVME_IDENTIFY_CNS_UUID_LIST);
    C(NVME_IDENTIFY_CNS_DOMAIN_LIST);
    C(NVME_IDENTIFY_CNS_ENDURANCE_GROUP_ID);
    C(NVME_IDENTIFY_CNS_CSI_ALLOCATED_NS_LIST);
    C(NVME_IDENTIFY_CNS_CSI_ID_NS_DATA_STRUCTURE);
    C(NVME_IDENTIFY_CNS_COMMAND_SET_STRUCTURE);
    end();
    begin("nvme_csi");
    C(NVME_CSI_NVM);
    C(NVME_CSI_KV);
    C(NVME_CSI_ZNS);
    end();
    begin("nvme_features_id");
    C(NVME_FEAT_FID_ARBITRATION);
    C(NVME_FEAT_FID_POWER_MGMT);
    C(NVME_FEAT_FID_LBA_RANGE);
    C(NVME_FEAT_FID_TEMP_THRESH);
    C(NVME_FEAT_FID_ERR_RECOVERY);
    C(NVME_FEAT_FID_VOLATILE_WC);
    C(NVME_FEAT_FID_NUM_QUEUES);
    C(NVME_FEAT_FID_IRQ_COALESCE);
    C(NVME_FEAT_FID_IRQ_CONFIG);
    C(NVME_FEAT_FID_WRITE_ATOMIC);
    C(NVME_FEAT_FID_ASYNC_EVENT);
    C(NVME_FEAT_FID_AUTO_PST);
    C(NVME_FEAT_FID_HOST_MEM_BUF);
    C(NVME_FEAT_FID_TIMESTAMP);
    C(NVME_FEAT_FID_KATO);
    C(NVME_FEAT_FID_HCTM);
    C(NVME_FEAT_FID_NOPSC);
    C(NVME_FEAT_FID_RRL);
    C(NVME_FEAT_FID_PLM_CONFIG);
    C(NVME_FEAT_FID_PLM_WINDOW);
    C(NVME_FEAT_FID_LBA_STS_INTERVAL);
    C(NVME_FEAT_FID_HOST_BEHAVIOR);
    C(NVME_FEAT_FID_SANITIZE);
    C(NVME_FEAT_FID_ENDURANCE_EVT_CFG);
    C(NVME_FEAT_FID_IOCS_PROFILE);
    C(NVME_FEAT_FID_SPINUP_CONTROL);
    C(NVME_FEAT_FID_FDP);
    C(NVME_FEAT_FID_FDP_EVENTS);
    C(NVME_FEAT_FID_ENH_CTRL_METADATA);
    C(NVME_FEAT_FID_CTRL_METADATA);
    C(NVME_FEAT_FID_NS_METADATA);
    C(NVME_FEAT_FID_SW_PROGRESS);
    C(NVME_FEAT_FID_HOST_ID);
    C(NVME_FEAT_FID_RESV_MASK);
    C(NVME_FEAT_FID_RESV_PERSIST);
    C(NVME_FEAT_FID_WRITE_PROTECT);
    end();
    begin("nvme_get_features_sel");
    C(NVME_GET_FEATURES_SEL_CURRENT);
    C(NVME_GET_FEATURES_SEL_DEFAULT);
    C(NVME_GET_FEATURES_SEL_SAVED);
    C(NVME_GET_FEATURES_SEL_SUPPORTED);
    end();
    begin("nvme_feat");
    C(NVME_FEAT_ARBITRATION_BURST_SHIFT);
    C(NVME_FEAT_ARBITRATION_BURST_MASK);
    C(NVME_FEAT_ARBITRATION_LPW_SHIFT);
    C(NVME_FEAT_ARBITRATION_LPW_MASK);
    C(NVME_FEAT_ARBITRATION_MPW_SHIFT);
    C(NVME_FEAT_ARBITRATION_MPW_MASK);
    C(NVME_FEAT_ARBITRATION_HPW_SHIFT);
    C(NVME_FEAT_ARBITRATION_HPW_MASK);
    C(NVME_FEAT_ERROR_RECOVERY_TLER_SHIFT);
    C(NVME_FEAT_ERROR_RECOVERY_TLER_MASK);
    C(NVME_FEAT_ERROR_RECOVERY_DULBE_SHIFT);
    C(NVME_FEAT_ERROR_RECOVERY_DULBE_MASK);
    C(NVME_FEAT_VWC_WCE_SHIFT);
    C(NVME_FEAT_VWC_WCE_MASK);
    C(NVME_FEAT_NRQS_NSQR_SHIFT);
    C(NVME_FEAT_NRQS_NSQR_MASK);
    C(NVME_FEAT_NRQS_NCQR_SHIFT);
    C(NVME_FEAT_NRQS_NCQR_MASK);
    C(NVME_FEAT_IRQC_THR_SHIFT);
    C(NVME_FEAT_IRQC_THR_MASK);
    C(NVME_FEAT_IRQC_TIME_SHIFT);
    C(NVME_FEAT_IRQC_TIME_MASK);
    C(NVME_FEAT_ICFG_IV_SHIFT);
    C(NVME_FEAT_ICFG_IV_MASK);
    C(NVME_FEAT_ICFG_CD_SHIFT);
    C(NVME_FEAT_ICFG_CD_MASK);
    C(NVME_FEAT_WA_DN_SHIFT);
    C(NVME_FEAT_WA_DN_MASK);
    C(NVME_FEAT_AE_SMART_SHIFT);
    C(NVME_FEAT_AE_SMART_MASK);
    C(NVME_FEAT_AE_NAN_SHIFT);
    C(NVME_FEAT_AE_NAN_MASK);
    C(NVME_FEAT_AE_FW_SHIFT);
    C(NVME_FEAT_AE_FW_MASK);
    C(NVME_FEAT_AE_TELEM_SHIFT);
    C(NVME_FEAT_AE_TELEM_MASK);
    C(NVME_FEAT_AE_ANA_SHIFT);
    C(NVME_FEAT_AE_ANA_MASK);
    C(NVME_FEAT_AE_PLA_SHIFT);
    C(NVME_FEAT_AE_PLA_MASK);
    C(NVME_FEAT_AE_LBAS_SHIFT);
    C(NVME_FEAT_AE_LBAS_MASK);
    C(NVME_FEAT_AE_EGA_SHIFT);
    C(NVME_FEAT_AE_EGA_MASK);
    end();
    begin("nvme_id_ctrl_oacs");
    C(NVME_CTRL_OACS_SECURITY);
    C(NVME_CTRL_OACS_FORMAT);
    C(NVME_CTRL_OACS_FW);
    C(NVME_CTRL_OACS_NS_MGMT);
    C(NVME_CTRL_OACS_SELF_TEST);
    C(NVME_CTRL_OACS_DIRECTIVES);
    C(NVME_CTRL_OACS_NVME_MI);
    C(NVME_CTRL_OACS_VIRT_MGMT);
    C(NVME_CTRL_OACS_DBBUF_CFG);
    C(NVME_CTRL_OACS_LBA_STATUS);
    C(NVME_CTRL_OACS_CMD_FEAT_LD);
    end();
    begin("nvme_id_ctrl_oncs");
    C(NVME_CTRL_ONCS_COMPARE);
    C(NVME_CTRL_ONCS_WRITE_UNCORRECTABLE);
    C(NVME_CTRL_ONCS_DSM);
    C(NVME_CTRL_ONCS_WRITE_ZEROES);
    C(NVME_CTRL_ONCS_SAVE_FEATURES);
    C(NVME_CTRL_ONCS_RESERVATIONS);
    C(NVME_CTRL_ONCS_TIMESTAMP);
    C(NVME_CTRL_ONCS_VERIFY);
    C(NVME_CTRL_ONCS_COPY);
    end();
    begin("nvme_id_ctrl_sgls");
    C(NVME_CTRL_SGLS_SUPPORTED);
    C(NVME_CTRL_SGLS_KEYED);
    C(NVME_CTRL_SGLS_BIT_BUCKET);
    C(NVME_CTRL_SGLS_MPTR_BYTE_ALIGNED);
    C(NVME_CTRL_SGLS_OVERSIZE);
    C(NVME_CTRL_SGLS_MPTR_SGL);
    C(NVME_CTRL_SGLS_OFFSET);
    C(NVME_CTRL_SGLS_TPORT);
    end();
    begin("nvme_id_ctrl_vwc");
    C(NVME_CTRL_VWC_PRESENT);
    C(NVME_CTRL_VWC_FLUSH);
    end();
    begin("nvme_id_ns_flbas");
    C(NVME_NS_FLBAS_LOWER_MASK);
    C(NVME_NS_FLBAS_META_EXT);
    C(NVME_NS_FLBAS_HIGHER_MASK);
    end();
    begin("nvme_id_ns_dps");
    C(NVME_NS_DPS_PI_NONE);
    C(NVME_NS_DPS_PI_TYPE1);
    C(NVME_NS_DPS_PI_TYPE2);
    C(NVME_NS_DPS_PI_TYPE3);
    C(NVME_NS_DPS_PI_MASK);
    C(NVME_NS_DPS_PI_FIRST);
    end();
    begin("nvme_nvm_id_ns_elbaf");
    C(NVME_NVM_ELBAF_STS_MASK);
    C(NVME_NVM_ELBAF_PIF_MASK);
    end();
    begin("nvme_lbaf_rp");
    C(NVME_LBAF_RP_BEST);
    C(NVME_LBAF_RP_BETTER);
    C(NVME_LBAF_RP_GOOD);
    C(NVME_LBAF_RP_DEGRADED);
    C(NVME_LBAF_RP_MASK);
    end();
    begin("nvme_ae_type");
    C(NVME_AER_ERROR);
    C(NVME_AER_SMART);
    C(NVME_AER_NOTICE);
    C(NVME_AER_CSS);
    C(NVME_AER_VS);
    end();
    begin("nvme_ae_info_error");
    C(NVME_AER_ERROR_INVALID_DB_REG);
    C(NVME_AER_ERROR_INVALID_DB_VAL);
    C(NVME_AER_ERROR_DIAG_FAILURE);
    C(NVME_AER_ERROR_PERSISTENT_INTERNAL_ERROR);
    C(NVME_AER_ERROR_TRANSIENT_INTERNAL_ERROR);
    C(NVME_AER_ERROR_FW_IMAGE_LOAD_ERROR);
    end();
    begin("nvme_ae_info_notice");
    C(NVME_AER_NOTICE_NS_CHANGED);
    C(NVME_AER_NOTICE_FW_ACT_STARTING);
    C(NVME_AER_NOTICE_TELEMETRY);
    C(NVME_AER_NOTICE_ANA);
    C(NVME_AER_NOTICE_PL_EVENT);
    C(NVME_AER_NOTICE_LBA_STATUS_ALERT);
    C(NVME_AER_NOTICE_EG_EVENT);
    C(NVME_AER_NOTICE_DISC_CHANGED);
    end();
    begin("nvme_io_control_flags");
    C(NVME_IO_DTYPE_STREAMS);
    C(NVME_IO_STC);
    C(NVME_IO_DEAC);
    C(NVME_IO_ZNS_APPEND_PIREMAP);
    C(NVME_IO_PRINFO_PRCHK_REF);
    C(NVME_IO_PRINFO_PRCHK_APP);
    C(NVME_IO_PRINFO_PRCHK_GUARD);
    C(NVME_IO_PRINFO_PRACT);
    C(NVME_IO_FUA);
    C(NVME_IO_LR);
    end();
    begin("nvme_dsm_attributes");
    C(NVME_DSMGMT_IDR);
    C(NVME_DSMGMT_IDW);
    C(NVME_DSMGMT_AD);
    end();
    begin("nvme_psd_flags");
    C(NVME_PSD_FLAGS_MXPS);
    C(NVME_PSD_FLAGS_NOPS);
    end();
    printf("\n  },\n  \"commands\": [\n");
    first = 1;
    commands();
    printf("\n  ]\n}\n");
    return 0;
}
