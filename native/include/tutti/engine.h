/* SPDX-License-Identifier: Apache-2.0
 *
 * The HOST engine: runs rendered kernels on a CPU. Two modes, one kernel source:
 *   threads  blocks on OS threads, lanes as fibres; fast.
 *   sim      lanes, controllers and the host are agents of one seeded scheduler on one OS thread, over a memory model
 *            that shows every outcome the primitives' contracts allow; a run replays exactly from its seed.
 */
#ifndef TUTTI_ENGINE_H
#define TUTTI_ENGINE_H

#include "tutti/abi.h"
#include "tutti/port.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a compiled HOST kernel module exports ---- */

enum { TT_MODE_THREADS = 0, TT_MODE_SIM = 1 };

typedef struct tt_kernel_desc {
    const char *name;
    void (*entry)(void **args); /* args[i] points at the i-th parameter's value */
    uint32_t param_count;
    uint32_t max_block_threads; /* launch bound; 0: none */
    const uint32_t *param_sizes;
    const char *const *param_names;
} tt_kernel_desc;

typedef struct tt_module_desc {
    uint32_t abi_version;
    uint32_t mode;
    uint32_t wave_width;
    uint32_t kernel_count;
    const tt_kernel_desc *kernels;
    const char *content_hash; /* sha256 of the rendered source, hex */
} tt_module_desc;

struct tt_device_api; /* table of engine entry points for device code; see host_device.h */
typedef const tt_module_desc *(*tt_module_describe_fn)(void);       /* symbol tt_module_describe */
typedef void (*tt_module_bind_fn)(const struct tt_device_api *api); /* symbol tt_module_bind */

/* The table to bind a module of this mode with; NULL for an unknown mode. */
TT_EXPORT const struct tt_device_api *tt_engine_device_api(uint32_t mode);

/* ---- launches ---- */

typedef struct tt_launch_config {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t dynamic_shared_bytes;
    uint32_t reserved;
    uint64_t limit_ns; /* bound of the launch in the mode's clock; 0: the engine's default. There is always one. */
} tt_launch_config;

enum {
    TT_RUN_DONE = 0,
    TT_RUN_PENDING = 1,  /* sim: the step budget is used up; call again */
    TT_RUN_DEADLOCK = 2, /* nothing can ever run: no timer is set, and nobody is left who could store what is awaited */
    TT_RUN_LIMIT = 3,    /* the launch outran limit_ns */
    TT_RUN_TRAP = 4,     /* a lane called trap */
    TT_RUN_INVALID = 5,  /* the configuration cannot be launched */
    TT_RUN_NO_MEMORY = 6,
};

typedef struct tt_launch_report {
    uint32_t outcome;     /* TT_RUN_* */
    uint32_t stuck_lanes; /* lanes that have not ended; with TT_RUN_PENDING: see tt_world_run */
    uint64_t elapsed_ns;
    uint64_t steps;    /* sim: scheduling steps of the world; threads: lane switches */
    char message[512]; /* for a person: outcome, and each stuck lane's place (block, thread, primitive), cut to fit */
} tt_launch_report;

/* -- threads -- */
typedef struct tt_pool tt_pool;
/* `workers` OS threads, 0: one for each CPU that this process may use. NULL on out of memory. */
TT_EXPORT tt_pool *tt_pool_create(uint32_t workers);
TT_EXPORT void tt_pool_destroy(tt_pool *pool);
/* Runs one kernel to its end; blocks the caller. Thread safe: launches of several streams run side by side, and all
 * blocks of a launch that fit are resident together. Returns report->outcome. */
TT_EXPORT int tt_pool_launch(tt_pool *pool, const tt_module_desc *module, const tt_kernel_desc *kernel,
                             const tt_launch_config *config, void **args, tt_launch_report *report);

/* -- sim -- */
typedef struct tt_world tt_world;

enum {
    TT_SCHED_FAIR,
    TT_SCHED_LOCKSTEP,
    TT_SCHED_RANDOM,
    TT_SCHED_STARVE_ONE,
    TT_SCHED_PCT,
    TT_SCHED_SCRIPT,
    TT_SCHED_ONE_LANE
};
enum { TT_MEM_DEVICE = 0, TT_MEM_HOST = 1, TT_MEM_MMIO = 2 };

typedef struct tt_sim_options {
    uint32_t struct_size; /* of the caller's struct: fields beyond it are 0 */
    uint32_t policy;      /* TT_SCHED_* */
    uint64_t seed;
    uint32_t pct_depth;               /* TT_SCHED_PCT: number of priority changes */
    uint32_t staleness_reads;         /* K: a newest message is picked by a reader after at most K reads; 0: default */
    uint32_t device_stores_invisible; /* quirk: peers see device-memory stores only after the kernel ends */
    uint32_t barrier_orders_memory;   /* 1: block barrier joins views (default of the record) */
    uint32_t wave_sync_orders_memory; /* 1: wave sync joins views */
    uint32_t resident_blocks;         /* at most so many blocks are resident at once; 0: default */
    uint64_t max_steps;               /* a launch that takes more ends as TT_RUN_LIMIT; 0: default */
    const uint32_t *script;           /* TT_SCHED_SCRIPT: the choices to take first; then the first alternative */
    uint64_t script_length;
    uint32_t idle_pauses; /* a lane that paused so often while nothing changed, and read no clock, waits for a change;
                             0: default. An explorer sets it just above staleness_reads. */
    uint32_t preemptions; /* TT_SCHED_SCRIPT: offer fewer than this many pre-emptions in a run; 0: any number */
    uint32_t delays_only; /* TT_SCHED_SCRIPT: 1: any departure from round robin counts as a pre-emption */
    uint32_t
        stale_reads; /* TT_SCHED_SCRIPT: offer fewer than this many reads of an older value in a run; 0: any number */
} tt_sim_options;

/* One world: one virtual clock, one memory, one device. Not thread safe: one caller at a time. NULL on out of memory or
 * bad options. */
TT_EXPORT tt_world *tt_world_create(const tt_sim_options *options);
TT_EXPORT void tt_world_destroy(tt_world *world);
/* Only while nothing runs: forget all history, take new options (seed, policy, script); memory keeps its values. */
TT_EXPORT int tt_world_reset(tt_world *world, const tt_sim_options *options);

/* Tells the kind of [base, base + len). Memory that was never mapped counts as TT_MEM_DEVICE. 0, EINVAL, EEXIST. */
TT_EXPORT int tt_world_map(tt_world *world, const void *base, uint64_t len, uint32_t kind);
/* Forgets the kind and the history of the mapping that began at base; its memory may be freed afterwards. 0, EINVAL. */
TT_EXPORT int tt_world_unmap(tt_world *world, const void *base);

/* Adds the lanes of a launch as agents; does not run them. The arguments are copied. *launch names it; the kernel sees
 * all that the host and every kernel that has ended did before. Returns 0, or TT_RUN_INVALID. */
TT_EXPORT int tt_world_launch(tt_world *world, const tt_module_desc *module, const tt_kernel_desc *kernel,
                              const tt_launch_config *config, void **args, uint64_t *launch);
/* Runs the world until that launch ends (0: until every launch has ended), or budget_steps are used (0: no budget).
 * Returns report->outcome: of that launch, or with 0 the first that is not TT_RUN_DONE among those that ended
 * meanwhile. A launch that has ended can be asked for once. With 0 and no launch it runs the controllers until they all
 * wait; with a budget it also lets the virtual clock go on to their timers, and by a microsecond when there is none, so
 * that a host that polls sees time pass. Without a budget the host is not there to store anything meanwhile: lanes that
 * wait for a store which no agent can make are a deadlock. With a budget they are not, for the host may feed them after
 * this call: the rest of the budget passes as pauses of theirs, and the answer is TT_RUN_PENDING with their number in
 * stuck_lanes (0: somebody could still run). Lanes that wait only for one another, in barriers and collectives, are a
 * deadlock either way. */
TT_EXPORT int tt_world_run(tt_world *world, uint64_t launch, uint64_t budget_steps, tt_launch_report *report);

/* An agent that is not a lane: a controller. fn runs as a fibre of the world, and reaches memory only through port. */
TT_EXPORT int tt_world_add_controller(tt_world *world, const char *name, void (*fn)(void *arg, tt_port port), void *arg,
                                      tt_iommu *iommu, uint64_t *agent);
/* Makes its port answer TT_PORT_STOP and runs it to its end. 0; ENOENT; ETIMEDOUT when it does not end. */
TT_EXPORT int tt_world_remove_controller(tt_world *world, uint64_t agent);

/* The host as an agent, while launches run. Loads and stores are sequentially consistent at system scope. */
TT_EXPORT uint64_t tt_world_host_load(tt_world *world, const void *address, uint32_t bytes);
TT_EXPORT void tt_world_host_store(tt_world *world, void *address, uint64_t value, uint32_t bytes);

TT_EXPORT uint64_t tt_world_now_ns(const tt_world *world);
TT_EXPORT uint64_t tt_world_steps(const tt_world *world);
/* Words that have a history now: bounded however long a run is (each store ages the others). */
TT_EXPORT uint64_t tt_world_live_words(const tt_world *world);

/* The choices since the world was created or reset, as pairs (taken, alternatives): what a script replays and an
 * explorer varies. Returns the number of pairs, and writes up to capacity of them; the first 16,777,216 are kept. */
TT_EXPORT uint64_t tt_world_choices(const tt_world *world, uint32_t *pairs, uint64_t capacity);

/* ---- all runs of a launch ---- */

typedef struct tt_explore_region { /* memory that each run begins with */
    void *address;
    const void *before;
    uint64_t bytes;
} tt_explore_region;

typedef struct tt_explore_task {
    uint32_t struct_size;
    uint32_t region_count;
    const tt_explore_region *regions;
    uint32_t result_count;
    uint32_t reserved;
    const tt_explore_region *results; /* what a run is known by, read after it has ended; `before` is not looked at */
    void (*drive)(void *arg, tt_port port); /* a controller that takes part in each run, or NULL */
    void *drive_arg;
    tt_iommu *drive_iommu;
    tt_sim_options options; /* policy and script are not looked at */
    uint64_t max_runs;      /* 0: no bound */
} tt_explore_task;

typedef struct tt_explore_report {
    uint64_t runs;     /* in all, those that were cut with them */
    uint64_t cuts;     /* runs that came to a state which an earlier one had come to */
    uint64_t states;   /* that were told apart */
    uint64_t longest;  /* choices of the run that had the most */
    uint64_t steps;    /* of all runs together */
    uint64_t endings;  /* outcomes and results that are different */
    uint32_t complete; /* 1: there is no other run within the bounds of the options */
    uint32_t reserved;
} tt_explore_report;

typedef struct tt_explore_ending {
    uint32_t outcome; /* TT_RUN_* */
    uint32_t reserved;
    uint64_t runs;          /* that ended so */
    const uint32_t *script; /* the choices of the first of them */
    uint64_t script_length;
    const void *result; /* the task's results, one behind the other */
    uint64_t result_bytes;
    const char *message; /* "" where the outcome is TT_RUN_DONE */
} tt_explore_ending;

/* Runs a launch again and again, until every run was taken that its options allow, and tells the ways in which it can
 * end. The kernel and the drive may depend on memory in the regions, on each other and on nothing else. The lanes'
 * clock stands at 0, for runs that differ in time only are taken for one; no deadline strikes, a lane that tries
 * without end waits for a change, and wave_active waits for company as long as any can come. A word counts as shared
 * when two agents touched it in any run, and one of them wrote. 0; EBUSY while anything is in the world; EINVAL. The
 * world is as after a reset then. */
TT_EXPORT int tt_world_explore(tt_world *world, const tt_module_desc *module, const tt_kernel_desc *kernel,
                               const tt_launch_config *config, void **args, const tt_explore_task *task,
                               tt_explore_report *report);
/* One ending of the last exploration; its pointers are good until the next one. 0, or EINVAL past the last. */
TT_EXPORT int tt_world_ending(const tt_world *world, uint64_t index, tt_explore_ending *ending);

#ifdef __cplusplus
}
#endif

#endif
