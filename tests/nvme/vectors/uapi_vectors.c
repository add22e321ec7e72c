/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints, as JSON, the layout of the kernel's passthrough commands (linux/nvme_ioctl.h). Their first 64 bytes follow
 * the SQE up to dword 15 but for the data pointer. See regenerate.py.
 */
#include <linux/ioctl.h>
#include <linux/nvme_ioctl.h>

#include "print.h"

int main(void) {
    printf("{\n  \"structures\": {\n");
    structure("nvme_user_io", sizeof(struct nvme_user_io));
    F(nvme_user_io, opcode);
    F(nvme_user_io, flags);
    F(nvme_user_io, control);
    F(nvme_user_io, nblocks);
    F(nvme_user_io, metadata);
    F(nvme_user_io, addr);
    F(nvme_user_io, slba);
    F(nvme_user_io, dsmgmt);
    F(nvme_user_io, reftag);
    F(nvme_user_io, apptag);
    F(nvme_user_io, appmask);
    end();
    structure("nvme_passthru_cmd", sizeof(struct nvme_passthru_cmd));
    F(nvme_passthru_cmd, opcode);
    F(nvme_passthru_cmd, flags);
    F(nvme_passthru_cmd, nsid);
    F(nvme_passthru_cmd, cdw2);
    F(nvme_passthru_cmd, cdw3);
    F(nvme_passthru_cmd, metadata);
    F(nvme_passthru_cmd, addr);
    F(nvme_passthru_cmd, metadata_len);
    F(nvme_passthru_cmd, data_len);
    F(nvme_passthru_cmd, cdw10);
    F(nvme_passthru_cmd, cdw11);
    F(nvme_passthru_cmd, cdw12);
    F(nvme_passthru_cmd, cdw13);
    F(nvme_passthru_cmd, cdw14);
    F(nvme_passthru_cmd, cdw15);
    F(nvme_passthru_cmd, timeout_ms);
    F(nvme_passthru_cmd, result);
    end();
    structure("nvme_uring_cmd", sizeof(struct nvme_uring_cmd));
    F(nvme_uring_cmd, opcode);
    F(nvme_uring_cmd, flags);
    F(nvme_uring_cmd, nsid);
    F(nvme_uring_cmd, cdw2);
    F(nvme_uring_cmd, cdw3);
    F(nvme_uring_cmd, metadata);
    F(nvme_uring_cmd, addr);
    F(nvme_uring_cmd, metadata_len);
    F(nvme_uring_cmd, data_len);
    F(nvme_uring_cmd, cdw10);
    F(nvme_uring_cmd, cdw11);
    F(nvme_uring_cmd, cdw12);
    F(nvme_uring_cmd, cdw13);
    F(nvme_uring_cmd, cdw14);
    F(nvme_uring_cmd, cdw15);
    F(nvme_uring_cmd, timeout_ms);
    end();
    printf("\n  },\n  \"constants\": {\n");
    first = 1;
    begin("ioctl");
    C(NVME_IOCTL_ADMIN_CMD);
    C(NVME_IOCTL_IO_CMD);
    C(NVME_IOCTL_ADMIN64_CMD);
    C(NVME_IOCTL_IO64_CMD);
    C(NVME_URING_CMD_IO);
    C(NVME_URING_CMD_ADMIN);
    end();
    printf("\n  }\n}\n");
    return 0;
}
