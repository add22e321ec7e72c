/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest drive: one queue pair, no registers but its two doorbells, no data. It fetches each entry that the
 * doorbell tells of, remembers a part of it, and completes it. It is as it is so that all runs of a kernel against it
 * can be explored; everything else that a drive does, the software controller does.
 */
#ifndef TUTTI_SMALL_DRIVE_H
#define TUTTI_SMALL_DRIVE_H

#include "tutti/port.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TT_SMALL_DRIVE_SILENT = 1u,   /* completes nothing */
    TT_SMALL_DRIVE_TWICE = 2u,    /* completes each command twice */
    TT_SMALL_DRIVE_REVERSED = 4u, /* of the commands that one doorbell told of, the last one first */
};

enum { TT_SMALL_DRIVE_KEPT = 16 };

typedef struct tt_small_drive {
    /* ---- how it is set up ---- */
    const uint32_t *sq_doorbell; /* registers of its own, written by others */
    const uint32_t *cq_doorbell;
    uint64_t sq; /* bus addresses */
    uint64_t cq;
    uint32_t sq_depth;
    uint32_t cq_depth;
    uint32_t queue_id;
    uint32_t flags;   /* TT_SMALL_DRIVE_* */
    uint32_t at_most; /* commands that it completes; 0: all */
    uint32_t reserved;

    /* ---- what it saw; counts go on past what is kept ---- */
    uint32_t tails;     /* values of the submission doorbell */
    uint32_t commands;  /* that it fetched */
    uint32_t posted;    /* completions that it wrote */
    uint32_t bad_tails; /* doorbells that told of more entries than there are */
    uint32_t tail[TT_SMALL_DRIVE_KEPT];
    uint32_t dword_0[TT_SMALL_DRIVE_KEPT]; /* of the entry as it was fetched */
    uint32_t dword_10[TT_SMALL_DRIVE_KEPT];
    uint32_t dword_12[TT_SMALL_DRIVE_KEPT];
} tt_small_drive;

/* Runs the drive (a tt_small_drive) on a port until that says stop. Result and status of a completion are 0x5000000 +
 * the number of the command, and 0. */
TT_EXPORT void tt_small_drive_run(void *drive, tt_port port);

#ifdef __cplusplus
}
#endif

#endif
