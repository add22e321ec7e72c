/* SPDX-License-Identifier: Apache-2.0
 *
 * The storage runtime for programs in other languages: targets by URI, registered memory, batches of requests on one
 * ring over any number of drives. docs/storage.md explains targets, requests and failures; here stands what is C's.
 *
 * Handles   Numbers, never pointers; 0 names nothing. A handle of another runtime, of another kind, or of something
 * that was closed is refused with NOT_FOUND. No call follows a handle that is not good. Status    Every function that
 * can fail returns a tutti_status. TUTTI_STATUS_OK is 1, for zeroed memory must say that nothing ran. Any other value
 * is a failure, and then tutti_storage_error_id() and tutti_storage_error() tell more to the same thread, until its
 * next call. What a function gives back by a pointer is set to 0 first. Threads   Any function from any thread at any
 * time. Two calls may wait for one another, since the runtime holds an interpreter's lock for moments; nobody holds it
 * while it waits for a drive. Blocking  Only where it is said. The first tutti_storage_create of a process takes a
 * second or more. Memory    Strings and arrays that are passed in belong to the caller and are not kept. Registered
 * memory belongs to the caller as well, and must stay until tutti_storage_unregister or tutti_storage_shutdown has
 * returned OK. Signals   No handler is installed. What interrupts the program ends it; a process that ends is no danger
 * to memory of others. At exit() runtimes that are open are shut down. After fork() the child must not use the library.
 */
#ifndef TUTTI_STORAGE_H
#define TUTTI_STORAGE_H

#include <stddef.h>
#include <stdint.h>

/* Of this header. A library refuses a tutti_config of another version. */
#define TUTTI_STORAGE_VERSION 1u

#if defined(TUTTI_STORAGE_BUILDING)
#define TUTTI_STORAGE_API __attribute__((visibility("default")))
#else
#define TUTTI_STORAGE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t tutti_runtime;
typedef uint64_t tutti_memory;
typedef uint64_t tutti_target;
typedef uint64_t tutti_io;

/* How a call, a request or an item of a batch stands. */
typedef int32_t tutti_status;
enum {
    TUTTI_STATUS_NOT_RUN = 0,
    TUTTI_STATUS_OK = 1,
    TUTTI_STATUS_PENDING = 2, /* accepted; its end is not known yet */
    TUTTI_STATUS_INVALID_ARGUMENT = 3,
    TUTTI_STATUS_OUT_OF_RANGE = 4,
    TUTTI_STATUS_NOT_FOUND = 5, /* no such thing, or not any more */
    TUTTI_STATUS_PERMISSION_DENIED = 6,
    TUTTI_STATUS_UNSUPPORTED = 7,
    TUTTI_STATUS_NOT_READY = 8, /* the runtime or the drive takes nothing now */
    TUTTI_STATUS_BUSY = 9,
    TUTTI_STATUS_RESOURCE_EXHAUSTED = 10, /* no room at this moment: submit it again when something else has ended */
    TUTTI_STATUS_STALE = 11,              /* the file moved: open it again */
    TUTTI_STATUS_TIMEOUT = 12,            /* of a request: the drive may still move its data, until recover */
    TUTTI_STATUS_CANCELLED = 13,
    TUTTI_STATUS_DEVICE_ERROR = 14,
    TUTTI_STATUS_DATA_LOSS = 15,
    TUTTI_STATUS_INTERNAL = 16
};

/* Why a request stands so; tutti_storage_explain has words. */
enum {
    TUTTI_REASON_NONE = 0,
    /* refused by submit: it never ran */
    TUTTI_REASON_OPERATION_UNKNOWN = 1,
    TUTTI_REASON_FLAGS_UNKNOWN = 2,
    TUTTI_REASON_QUEUE_CLASS_ABSENT = 3,
    TUTTI_REASON_MEMORY_HANDLE = 4,
    TUTTI_REASON_TARGET_HANDLE = 5,
    TUTTI_REASON_LENGTH_ZERO = 6,
    TUTTI_REASON_LENGTH_UNALIGNED = 7,
    TUTTI_REASON_TARGET_UNALIGNED = 8,
    TUTTI_REASON_MEMORY_UNALIGNED = 9,
    TUTTI_REASON_TARGET_BOUNDS = 10,
    TUTTI_REASON_MEMORY_BOUNDS = 11,
    TUTTI_REASON_MEMORY_ACCESS = 12,
    TUTTI_REASON_MEMORY_CLOSED = 13,
    TUTTI_REASON_TARGET_READ_ONLY = 14,
    TUTTI_REASON_TARGET_MOVED = 15,
    TUTTI_REASON_COMMANDS_TOO_MANY = 16,
    /* refused by submit for the moment */
    TUTTI_REASON_BATCH_FULL = 32,
    TUTTI_REASON_BATCHES_TAKEN = 33,
    TUTTI_REASON_RESULTS_HELD = 34,
    /* accepted, and ended so */
    TUTTI_REASON_DRIVE_STATUS = 64,
    TUTTI_REASON_MEDIA_ERROR = 65,
    TUTTI_REASON_DRIVE_FAILED = 66,
    TUTTI_REASON_DRIVE_GONE = 67,
    TUTTI_REASON_NO_ANSWER = 68,
    TUTTI_REASON_STARVED = 69,
    TUTTI_REASON_STOPPED = 70,
    TUTTI_REASON_LAUNCH_FAILED = 71,
    TUTTI_REASON_REFUSED_BY_DEVICE = 72
};

enum { TUTTI_READ = 1, TUTTI_WRITE = 2, TUTTI_FLUSH = 3 };         /* operation */
enum { TUTTI_DURABLE = 1 };                                        /* flags: on the medium when it completes */
enum { TUTTI_DRIVE_READS = 1, TUTTI_DRIVE_WRITES = 2 };            /* access: for requests that write; that read */
enum { TUTTI_HOST_MEMORY = 0, TUTTI_DEVICE_MEMORY = 1 };           /* of allocate and register */
enum { TUTTI_RUNNING = 0, TUTTI_DRAINING = 1, TUTTI_STOPPED = 2 }; /* of tutti_storage_state */
#define TUTTI_NO_DRIVE UINT32_MAX                                  /* drive of a result that no drive failed */
#define TUTTI_FOREVER ((int64_t)-1)                                /* a timeout */

/* How a runtime is made. Zero it, then set the first two. */
typedef struct tutti_config {
    uint32_t struct_size; /* sizeof(tutti_config) */
    uint32_t version;     /* TUTTI_STORAGE_VERSION */
    /* What the machine has: the path of a YAML file, or its text. Exactly one of the two. */
    const char *deployment;
    const char *deployment_text;
    /* What the program wants: path or text; neither takes all drives and usual sizes. */
    const char *application;
    const char *application_text;
    /* Where relative paths of deployment_text begin; NULL: in the current folder. */
    const char *folder;
} tutti_config;

/* One request: `request_dtype`. */
typedef struct tutti_request {
    uint8_t operation;      /* TUTTI_READ, TUTTI_WRITE, TUTTI_FLUSH */
    uint8_t flags;          /* TUTTI_DURABLE */
    uint8_t queue_class;    /* 0: by direction; else a class of the ring, from 1 */
    uint8_t reserved;       /* 0 */
    uint32_t tag;           /* the caller's own; comes back */
    uint64_t nbytes;        /* a multiple of the target's block; 0 for TUTTI_FLUSH */
    tutti_memory memory;    /* 0 for TUTTI_FLUSH */
    uint64_t memory_offset; /* in bytes, a multiple of 4 */
    tutti_target target;
    uint64_t target_offset; /* in bytes, a multiple of the target's block */
} tutti_request;

/* How a request stands after submit: `initial_dtype`. PENDING if accepted; else it never ran, and reason says why. */
typedef struct tutti_initial {
    uint8_t status;
    uint8_t reason;
} tutti_initial;

/* How a request ended: `result_dtype`. */
typedef struct tutti_result {
    uint8_t status;
    uint8_t reason;
    uint8_t sct; /* status code type, status code, do not retry: of the drive that ended it worst */
    uint8_t sc;
    uint8_t dnr;
    uint8_t reserved[3];
    uint32_t tag;
    uint32_t drive;    /* the one that failed it; TUTTI_NO_DRIVE when all went well */
    uint32_t commands; /* into how many it was split */
    uint32_t reserved_2;
    uint64_t done_bytes;   /* completed without an error, in pieces that need not be its beginning */
    uint64_t submitted_ns; /* of its first and last command, in the device's clock */
    uint64_t completed_ns;
} tutti_result;

/* What became of one item of open_batch or close_batch. */
typedef struct tutti_outcome {
    tutti_target target; /* 0 where it could not be opened */
    tutti_status status;
    char id[36]; /* of the error, such as TT-STORAGE-MISSING; empty where it went well */
} tutti_outcome;

/* What is known of an open target. */
typedef struct tutti_target_info {
    uint64_t size;     /* bytes */
    uint32_t block;    /* bytes; lengths and offsets of requests are multiples of it */
    uint32_t writable; /* 0: opened with mode=r */
} tutti_target_info;

/* How a submit stands. */
typedef struct tutti_io_state {
    uint64_t requests; /* in all */
    uint64_t accepted; /* of them */
    uint32_t ended;    /* whether its results are there */
    uint32_t reserved;
} tutti_io_state;

#if defined(__cplusplus) && __cplusplus >= 201103L
#define TUTTI_STATIC_ASSERT_ static_assert
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define TUTTI_STATIC_ASSERT_ _Static_assert
#endif
#ifdef TUTTI_STATIC_ASSERT_
TUTTI_STATIC_ASSERT_(sizeof(void *) == 8, "64-bit programs only");
TUTTI_STATIC_ASSERT_(sizeof(tutti_config) == 48, "tutti_config");
TUTTI_STATIC_ASSERT_(sizeof(tutti_request) == 48, "tutti_request");
TUTTI_STATIC_ASSERT_(sizeof(tutti_initial) == 2, "tutti_initial");
TUTTI_STATIC_ASSERT_(sizeof(tutti_result) == 48, "tutti_result");
TUTTI_STATIC_ASSERT_(sizeof(tutti_outcome) == 48, "tutti_outcome");
TUTTI_STATIC_ASSERT_(sizeof(tutti_target_info) == 16, "tutti_target_info");
TUTTI_STATIC_ASSERT_(sizeof(tutti_io_state) == 24, "tutti_io_state");
#undef TUTTI_STATIC_ASSERT_
#endif

/* ---- what went wrong ---- */

/* The version of the library. Never fails. */
TUTTI_STORAGE_API uint32_t tutti_storage_version(void);

/* The id of what this thread's last call failed with, such as TT-STORAGE-HANDLE: stable, for programs. Empty when it
 * ended well. Never NULL; good until the thread's next call of any other function but these two. */
TUTTI_STORAGE_API const char *tutti_storage_error_id(void);

/* The same for people: the id, what was tried, what was found, what to do next. */
TUTTI_STORAGE_API const char *tutti_storage_error(void);

/* What a status and a reason mean, for people: at most `room` bytes with the final 0, cut where it does not fit.
 * INVALID_ARGUMENT: no text or no room, or numbers without a meaning. */
TUTTI_STORAGE_API tutti_status tutti_storage_explain(int32_t status, int32_t reason, char *text, size_t room);

/* ---- a runtime ---- */

/* Makes drives and a runtime over them; the handle comes in `runtime`. All or nothing. Blocks: drives come up, kernels
 * may be compiled.
 * INVALID_ARGUMENT: a NULL, another size or version of the record, both or neither of path and text, or YAML that is
 *   wrong (the text lists every mistake with file, line and key).
 * UNSUPPORTED: the profile cannot be used here. Others: a drive does not come up. */
TUTTI_STORAGE_API tutti_status tutti_storage_create(const tutti_config *config, tutti_runtime *runtime);

/* Takes nothing new, waits for what is in flight, then ends queues, registrations, targets and drives. Blocks. The
 * second call does nothing. From then on every other call says NOT_READY. TIMEOUT: something is still in flight. The
 * runtime drains and holds everything: call again. */
TUTTI_STORAGE_API tutti_status tutti_storage_shutdown(tutti_runtime runtime, int64_t timeout_ns);

/* TUTTI_RUNNING, TUTTI_DRAINING or TUTTI_STOPPED. NOT_FOUND: no such runtime was ever made. */
TUTTI_STORAGE_API tutti_status tutti_storage_state(tutti_runtime runtime, int32_t *state);

/* ---- memory ---- */

/* Makes the caller's memory usable in requests, for the access that is given (a sum of TUTTI_DRIVE_*).
 * `address`: whole pages of the drives, which are writable; of the host (kind TUTTI_HOST_MEMORY), or of the runtime's
 *   device, as its own allocator gave it (TUTTI_DEVICE_MEMORY).
 * INVALID_ARGUMENT: NULL, not in whole pages, not writable memory of this process, registered already, no such kind or
 *   access. UNSUPPORTED: the profile cannot register host memory, or drives do not reach this device's memory. */
TUTTI_STORAGE_API tutti_status tutti_storage_register(tutti_runtime runtime, int32_t kind, void *address,
                                                      uint64_t nbytes, uint32_t access, tutti_memory *memory);

/* Allocates memory that every drive reaches, and registers it; unregister frees it. Contents are undefined.
 * `host`: where the host reaches it; NULL comes back for TUTTI_DEVICE_MEMORY. `device`: where kernels reach it.
 * Either pointer may be NULL.
 * INVALID_ARGUMENT: no length, no such kind. RESOURCE_EXHAUSTED: no room. UNSUPPORTED: as register. */
TUTTI_STORAGE_API tutti_status tutti_storage_allocate(tutti_runtime runtime, int32_t kind, uint64_t nbytes,
                                                      tutti_memory *memory, void **host, uint64_t *device);

/* Ends registrations, all or none; what allocate gave is freed.
 * NOT_FOUND: one is not registered. BUSY: requests in flight use one, or a drive may still move its data (recover). */
TUTTI_STORAGE_API tutti_status tutti_storage_unregister(tutti_runtime runtime, const tutti_memory *memory,
                                                        size_t count);

/* ---- targets ---- */

/* Opens a target by URI: file:///path?mode=r|rw, raw://drive?offset=&size=, striped://a,b?unit=. Blocks while a file's
 * dirty pages are written back. The status and id of the error tell why a target cannot be used. */
TUTTI_STORAGE_API tutti_status tutti_storage_open(tutti_runtime runtime, const char *uri, tutti_target *target);

/* Opens many together. One that cannot be opened fails alone: OK says that each has its outcome. Blocks.
 * INVALID_ARGUMENT: a NULL. RESOURCE_EXHAUSTED: no room for all that could be opened; then none is open. */
TUTTI_STORAGE_API tutti_status tutti_storage_open_batch(tutti_runtime runtime, const char *const *uris, size_t count,
                                                        tutti_outcome *outcomes);

/* What is known of an open target. NOT_FOUND: it is not open. */
TUTTI_STORAGE_API tutti_status tutti_storage_target_info(tutti_runtime runtime, tutti_target target,
                                                         tutti_target_info *info);

/* Closes a target. NOT_FOUND: it is not open. BUSY: requests in flight use it. */
TUTTI_STORAGE_API tutti_status tutti_storage_close(tutti_runtime runtime, tutti_target target);

/* Closes many, each for itself. Each outcome has the target that was given. `outcomes` may be NULL. */
TUTTI_STORAGE_API tutti_status tutti_storage_close_batch(tutti_runtime runtime, const tutti_target *targets,
                                                         size_t count, tutti_outcome *outcomes);

/* ---- requests ---- */

/* Hands requests to the drives: one copy and one launch. Does not block. OK says that each request was judged:
 * `initial` has one record for each. What is not PENDING there was refused and never ran; RESOURCE_EXHAUSTED was
 * refused only for the moment, and may be submitted again as it is. `io` is 0 exactly when none was accepted; else
 * release it. `request_size` is sizeof(tutti_request). INVALID_ARGUMENT: a NULL, another size, too many. NOT_READY: the
 * runtime drains or has stopped. */
TUTTI_STORAGE_API tutti_status tutti_storage_submit(tutti_runtime runtime, const tutti_request *requests,
                                                    size_t request_size, size_t count, tutti_initial *initial,
                                                    tutti_io *io);

/* Waits for a submit, then writes a result for each of its requests, in order, refused ones among them. Requests that
 * did not end well are no failure of the call: look at each. Blocks up to the timeout; 0 only looks. May be called
 * again until release. `result_size` is sizeof(tutti_result), `room` how many fit. TIMEOUT: it has not ended; it goes
 * on. NOT_FOUND: no such submit. INVALID_ARGUMENT: a NULL, another size, not room for all: nothing was written.
 * NOT_READY: the runtime has stopped. */
TUTTI_STORAGE_API tutti_status tutti_storage_wait(tutti_runtime runtime, tutti_io io, int64_t timeout_ns,
                                                  tutti_result *results, size_t result_size, size_t room);

/* How a submit stands, after one look. Does not block. NOT_FOUND: no such submit. */
TUTTI_STORAGE_API tutti_status tutti_storage_query(tutti_runtime runtime, tutti_io io, tutti_io_state *state);

/* Takes what ended, of `limit` submits at most, so that there is room again; submit, wait and query do it as well.
 * `ended` may be NULL. Does not block. */
TUTTI_STORAGE_API tutti_status tutti_storage_progress(tutti_runtime runtime, size_t limit, size_t *ended);

/* Forgets a submit and its results. NOT_FOUND: no such submit. BUSY: it is in flight. */
TUTTI_STORAGE_API tutti_status tutti_storage_release(tutti_runtime runtime, tutti_io io);

/* Ends everything in flight soon: when it returns, no drive moves data of this runtime. Blocks for that.
 * `cancelled` counts submits and may be NULL. DEVICE_ERROR: a drive does not come back. */
TUTTI_STORAGE_API tutti_status tutti_storage_cancel(tutti_runtime runtime, size_t *cancelled);

/* Makes failed drives work again; after it, requests that ended with TIMEOUT move no data. `drive` is a name; NULL
 * takes all. Blocks. BUSY: requests in flight use a failed queue. DEVICE_ERROR: no step helped. */
TUTTI_STORAGE_API tutti_status tutti_storage_recover(tutti_runtime runtime, const char *drive);

#ifdef __cplusplus
}
#endif

#endif
