/* SPDX-License-Identifier: Apache-2.0
 *
 * The software NVMe controller: registers in memory, a full admin queue, namespaces over memory, files and block
 * devices, faults on demand. Strict: what the specification lets a drive reject is rejected, with the status it names.
 *
 * A controller is driven by threads of its own (tt_controller_start) or as an agent of a sim world
 * (tt_controller_run). It keeps its state between two runs. Every struct begins with its own size, so that a caller
 * built against an older header is understood.
 */
#ifndef TUTTI_CONTROLLER_H
#define TUTTI_CONTROLLER_H

#include "tutti/port.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_controller tt_controller;

/* ---- what went wrong: the return value of every int function below ---- */
enum {
    TT_CTRL_OK = 0,
    TT_CTRL_INVALID = 1, /* an argument or a field is out of its range; the message names it */
    TT_CTRL_NO_MEMORY = 2,
    TT_CTRL_BUSY = 3,          /* it runs, or I/O queues stand in the way */
    TT_CTRL_SYSTEM = 4,        /* a system call failed; system_errno says how */
    TT_CTRL_NS_MISSING = 5,    /* the namespace's file does not exist, or no namespace has that id */
    TT_CTRL_NS_SHORT = 6,      /* the file is shorter than what was declared */
    TT_CTRL_NS_UNEVEN = 7,     /* the file is not a whole number of blocks */
    TT_CTRL_NS_READ_ONLY = 8,  /* the file cannot be opened for writing */
    TT_CTRL_NS_NO_DIRECT = 9,  /* the file system does not do direct I/O on this file */
    TT_CTRL_NS_ALIGNMENT = 10, /* direct I/O needs larger blocks than the namespace has */
    TT_CTRL_NS_KIND = 11,      /* neither a regular file nor a block device */
};

typedef struct tt_controller_error {
    uint32_t code; /* TT_CTRL_* */
    int32_t system_errno;
    char message[240]; /* what was found, for a person */
} tt_controller_error;

/* ---- configuration ---- */
enum { TT_NS_MEMORY = 0, TT_NS_FILE = 1 };
enum {
    TT_DIRECT_REQUIRED = 0,  /* O_DIRECT, checked with F_GETFL and statx; else TT_CTRL_NS_NO_DIRECT */
    TT_DIRECT_PREFERRED = 1, /* O_DIRECT where it works, else buffered: tt_namespace_info says which */
    TT_DIRECT_OFF = 2,       /* buffered */
};

typedef struct tt_namespace_config {
    uint32_t struct_size;
    uint32_t nsid;      /* 1..0xFFFFFFFE; ids may have gaps */
    uint32_t kind;      /* TT_NS_* */
    uint32_t lba_shift; /* LBADS, 9..16 */
    uint64_t blocks;    /* NSZE; of a file 0 means: as many as it holds. Memory comes into being as it is written */
    uint32_t metadata_bytes;  /* MS: 0, 8, 64; after the data region of a file, from the next multiple of 4096 */
    uint32_t metadata_inline; /* 1: each block is followed by its metadata in the data buffer (FLBAS bit 4) */
    uint32_t format_index;    /* index of the format in use, 0..63 */
    uint32_t read_only;       /* writes are refused with 0/20h; a file is opened for reading only */
    uint32_t direct;          /* TT_DIRECT_*, of files */
    uint32_t protection;      /* DPS: type 0..3, + 8: protection information before the other metadata, not behind */
    const char *path;         /* of files */
} tt_namespace_config;

enum { TT_KIND_SOFTWARE = 0, TT_KIND_NULL = 1 /* I/O commands succeed at once and move nothing */ };
enum {
    TT_CACHE_NONE = 0,     /* every write is durable when it completes; files are opened with O_DSYNC */
    TT_CACHE_DECLARED = 1, /* VWC is set and Flush works; a power cut loses nothing, which a drive may do */
    TT_CACHE_MODELLED =
        2, /* what is not flushed is lost by tt_controller_power_cut; costs a copy of each first write */
};
enum { TT_ORDER_FIFO = 0, TT_ORDER_REVERSE = 1, TT_ORDER_RANDOM = 2, TT_ORDER_STARVE = 3 };

typedef struct tt_controller_config {
    uint32_t struct_size;
    uint32_t kind;      /* TT_KIND_* */
    uint64_t seed;      /* of random orders, latencies and fault rates */
    const char *serial; /* at most 20 characters; NULL: "TUTTI0001" */

    /* what registers and Identify declare */
    uint32_t version;           /* VS, 0x00020000 for 2.0 */
    uint32_t mqes;              /* CAP.MQES, 0-based, 1..65535 */
    uint32_t dstrd;             /* CAP.DSTRD, 0..8 */
    uint32_t mpsmin;            /* CAP.MPSMIN, 0..4 */
    uint32_t mpsmax;            /* CAP.MPSMAX, mpsmin..8 */
    uint32_t mdts;              /* 0: no limit */
    uint32_t cqr;               /* 1: queues must be physically contiguous */
    uint32_t timeout_500ms;     /* CAP.TO, 1..255 */
    uint32_t io_queues;         /* I/O queue pairs that Set Features grants at most, 1..1024 */
    uint32_t interrupt_vectors; /* 1..2048; completions are polled, a vector is only checked */
    uint32_t sgls;              /* Identify SGLS: bits 1:0, 16, 17, 18, 19 can be set */
    uint32_t volatile_cache;    /* TT_CACHE_* */
    uint32_t aerl;              /* 0-based limit of outstanding asynchronous event requests, 0..255 */
    uint32_t need_queue_count;  /* 1: no I/O queue before Set Features, number of queues (0/0Ch) */

    /* how it behaves, within what the specification allows */
    uint32_t order;           /* TT_ORDER_* of completions */
    uint32_t order_window;    /* completions of a queue to shuffle at a time; 0: 16 */
    uint32_t starved_queue;   /* TT_ORDER_STARVE: the SQ that waits until the others have nothing left */
    uint32_t cqe_batch;       /* completions of a CQ to post at a time, while more may come; 0: 1 */
    uint64_t hold_ns;         /* how long an incomplete window or batch waits for more; 0: not at all */
    uint32_t sqhd_lag;        /* by how many entries the reported SQ head trails the true one */
    uint32_t fetch_batch;     /* SQEs to fetch with one read, 1..64; 0: 32 */
    uint64_t latency_ns;      /* added to each I/O command, before its data move */
    uint64_t slow_latency_ns; /* ... of every slow command */
    uint32_t slow_ppm;        /* share of slow commands, in a million */
    uint32_t file_workers;    /* threads for namespaces over files; 0: 2 */
    uint64_t ready_delay_ns;  /* from CC.EN to CSTS.RDY, both ways */
    uint64_t shutdown_delay_ns;
    uint64_t cache_bytes; /* TT_CACHE_MODELLED: unflushed data kept at most; then all become durable. 0: 64 MiB */

    const tt_namespace_config *namespaces;
    uint32_t namespace_count; /* up to 1024 */
    uint32_t reserved;
} tt_controller_config;

/* Fills in the defaults: MQES 1023, DSTRD 0, page size 4096 to 65536, MDTS 5, 16 queue pairs, SGL without alignment
 * rule, a volatile cache declared, FIFO, no latency. config->struct_size is set. */
TT_EXPORT void tt_controller_defaults(tt_controller_config *config);
TT_EXPORT void tt_namespace_defaults(tt_namespace_config *config);

/* Makes a controller that reaches memory through `iommu`, which must outlive it. The configuration is copied; files
 * are opened. Returns TT_CTRL_*; error (may be NULL) tells more. */
TT_EXPORT int tt_controller_create(const tt_controller_config *config, tt_iommu *iommu, tt_controller **controller,
                                   tt_controller_error *error);
/* Stops it, syncs and closes its files. Not while a sim world still runs it. */
TT_EXPORT void tt_controller_destroy(tt_controller *controller);

/* BAR0: registers from byte 0, doorbells from 0x1000. Page aligned; lives as long as the controller. */
TT_EXPORT void *tt_controller_bar(tt_controller *controller, uint64_t *bytes);

/* ---- running ---- */

/* `threads` threads of its own, each with a plain port; thread 0 serves registers and the admin queue, and I/O queues
 * are spread by the number of their CQ. TT_CTRL_BUSY: it runs already, or I/O queues exist and the count changed. */
TT_EXPORT int tt_controller_start(tt_controller *controller, uint32_t threads, tt_controller_error *error);
/* Ends and joins all threads; commands that are being worked on are finished first. Does nothing if none runs. */
TT_EXPORT void tt_controller_stop(tt_controller *controller);
/* The main loop, until the port says TT_PORT_STOP: what tt_world_add_controller takes, with the controller as `arg`.
 * Files are read and written inside the loop, without threads. */
TT_EXPORT void tt_controller_run(void *arg, tt_port port);

/* As if the supply failed: commands in flight vanish, unflushed blocks are lost (each of them survives with a chance of
 * survive_ppm in a million, by seed), queues and register settings are gone, CSTS is 0. Done by the loop at its next
 * turn; while threads run this waits for it, else it is done at once (or by the world's next turn of the loop). */
TT_EXPORT int tt_controller_power_cut(tt_controller *controller, uint64_t seed, uint32_t survive_ppm);

/* ---- faults ---- */
enum {
    TT_FAULT_STATUS = 1,       /* ends with `status`; no data move */
    TT_FAULT_STATUS_LATE = 2,  /* the data move, then it ends with `status` */
    TT_FAULT_LOST = 3,         /* carried out; its CQE is never posted */
    TT_FAULT_DUPLICATE = 4,    /* its CQE is posted twice */
    TT_FAULT_UNKNOWN_CID = 5,  /* before its CQE comes another, for a command that is not outstanding */
    TT_FAULT_DELAY = 6,        /* starts delay_ns later */
    TT_FAULT_STUCK = 7,        /* never starts: abort, queue deletion or reset ends it */
    TT_FAULT_CORRUPT = 8,      /* one bit of the data read is flipped: at byte `corrupt_byte` of the transfer */
    TT_FAULT_FATAL = 9,        /* CSTS.CFS = 1, and commands are still served */
    TT_FAULT_FATAL_STOP = 10,  /* CSTS.CFS = 1, and nothing is served until a reset */
    TT_FAULT_GONE = 11,        /* every register reads as all ones, nothing is served; for ever */
    TT_FAULT_READY_STUCK = 12, /* CSTS.RDY does not follow CC.EN any more (immediate only) */
    TT_FAULT_FORGED = 13       /* before its CQE comes another that differs from it in the bits of `forge` */
};
enum { TT_MATCH_OPCODE = 1, TT_MATCH_NSID = 2, TT_MATCH_LBA = 4, TT_MATCH_QID = 8, TT_MATCH_CID = 16 };

typedef struct tt_fault_rule {
    uint32_t struct_size;
    uint32_t action;    /* TT_FAULT_* */
    uint32_t match;     /* TT_MATCH_* that must all hold. Without TT_MATCH_QID: the I/O queues; admin is QID 0 */
    uint32_t immediate; /* 1: now, not on a command; FATAL, FATAL_STOP, GONE, READY_STUCK */
    uint32_t opcode;
    uint32_t nsid;
    uint64_t lba_first; /* TT_MATCH_LBA: commands that touch a block of lba_first..lba_last */
    uint64_t lba_last;
    uint32_t qid;
    uint32_t cid;
    uint64_t nth;    /* the first match that counts, 1-based; 0: 1 */
    uint64_t count;  /* how often it strikes at most; 0: no limit */
    uint32_t ppm;    /* share of the matches that it strikes, in a million, by the controller's seed; 0: all */
    uint32_t status; /* SCT << 8 | SC */
    uint32_t dnr;
    uint32_t crd; /* 0..3 */
    uint64_t delay_ns;
    uint64_t corrupt_byte;
    uint64_t forge; /* bits of double words 3 (high half, without the phase) and 2 of a CQE */
} tt_fault_rule;

/* The first rule of the table that matches and strikes wins. Thread safe; *id (may be NULL) names the rule. */
TT_EXPORT int tt_controller_inject(tt_controller *controller, const tt_fault_rule *rule, uint64_t *id);
/* How often that rule has struck; UINT64_MAX when there is none of that id. */
TT_EXPORT uint64_t tt_controller_fault_hits(tt_controller *controller, uint64_t id);
/* Removes one rule, or all with id 0. What a rule did is not undone. */
TT_EXPORT int tt_controller_clear_fault(tt_controller *controller, uint64_t id);

/* ---- looking in, without stopping it ---- */
typedef struct tt_controller_counters {
    uint32_t struct_size;
    uint32_t threads;             /* that serve it now */
    uint64_t admin_commands[256]; /* fetched, by opcode */
    uint64_t io_commands[256];
    uint64_t sqes_fetched;
    uint64_t fetches; /* reads of SQ memory */
    uint64_t cqes_posted;
    uint64_t cqes_lost;  /* by a fault */
    uint64_t errors;     /* CQEs with a status other than 0 */
    uint64_t bytes_read; /* moved to the host by I/O commands */
    uint64_t bytes_written;
    uint64_t sq_doorbells; /* changes of a tail register that were seen: each write in `sim`; with threads writes */
    uint64_t cq_doorbells; /* that come between two looks count as one */
    uint64_t bad_doorbells;
    uint64_t cq_full_waits; /* turns in which a completion had to wait for room in its CQ */
    uint64_t faults;        /* rules that struck */
    uint64_t resets;
    uint64_t power_cuts;
    uint64_t restored_registers; /* writes to read-only registers that were undone */
} tt_controller_counters;
TT_EXPORT int tt_controller_counters_read(tt_controller *controller, tt_controller_counters *counters);

typedef struct tt_queue_counters {
    uint32_t struct_size;
    uint32_t depth; /* 0: there is no such SQ now */
    uint64_t sq_doorbells;
    uint64_t cq_doorbells;
    uint64_t commands;
    uint64_t completions;
} tt_queue_counters;
/* Of SQ `qid` and CQ `qid` since the last reset. */
TT_EXPORT int tt_controller_queue_counters_read(tt_controller *controller, uint32_t qid, tt_queue_counters *counters);

typedef struct tt_namespace_info {
    uint32_t struct_size;
    uint32_t direct; /* 1: O_DIRECT is in force, as F_GETFL and statx say */
    uint64_t blocks;
    uint64_t allocated_bytes;
    uint32_t offset_alignment; /* that direct I/O needs; 1 without */
    uint32_t memory_alignment;
    uint32_t block_device;
    uint32_t read_only;
    uint64_t unflushed_blocks; /* in the volatile cache */
} tt_namespace_info;
TT_EXPORT int tt_controller_namespace_info(tt_controller *controller, uint32_t nsid, tt_namespace_info *info);

/* The stored bytes of a namespace, past the queues: [offset, offset + len) of its data region. Races with commands on
 * the same blocks. TT_CTRL_INVALID out of range or (files under O_DIRECT) not whole blocks. */
TT_EXPORT int tt_controller_namespace_read(tt_controller *controller, uint32_t nsid, uint64_t offset, void *dst,
                                           uint64_t len);
TT_EXPORT int tt_controller_namespace_write(tt_controller *controller, uint32_t nsid, uint64_t offset, const void *src,
                                            uint64_t len);
/* The same for the metadata region: `metadata_bytes` for each block. Writes them where `write` is not 0. */
TT_EXPORT int tt_controller_namespace_metadata(tt_controller *controller, uint32_t nsid, uint64_t offset, void *bytes,
                                               uint64_t len, int write);

#ifdef __cplusplus
}
#endif

#endif
