/* SPDX-License-Identifier: Apache-2.0
 *
 * The HOST runtime: a vendor SDK like any other, with CUDA's call shapes under the prefix `ttrt`, over the HOST engine.
 * Numbers (errors, flags, attributes) are CUDA's. What a name of CUDA's means is what it means here; what HOST cannot
 * do is absent, not faked.
 *
 * Devices. A machine has, for each arch in the order of ttrtArch, the same number of virtual devices (2, or
 * TUTTI_HOST_DEVICES), so the mode is a property of the ordinal: ordinal = arch * per_arch + index. A module runs only
 * on a device of its own mode and wave width (else ttrtErrorNoKernelImageForDevice).
 *
 * Streams. Work of one stream runs in order; streams run side by side. Mode `threads`: one worker thread per stream.
 * Mode `sim`: nothing runs until somebody waits: the synchronising and querying calls run the device's world in the
 * calling thread, a query only a bounded slice of it. The null stream (or handle 1) is the legacy default stream: its
 * work waits for all earlier work of the device's blocking streams, and they wait for it. Handle 2 is the calling
 * thread's own default stream, a blocking stream.
 *
 * Errors. Every call returns a ttrtError; the last one that was not success is kept per thread. A kernel that fails
 * (trap, deadlock, time limit, wild access) makes its device fail: every later call on the device returns that error
 * until ttrtDeviceReset (or, in `sim`, ttrtSimReset). After a fork the child gets ttrtErrorInitializationError.
 *
 * Handles are not pointers: a stale one is refused with ttrtErrorInvalidResourceHandle, never followed.
 * Every function is thread safe unless it says otherwise.
 */
#ifndef TUTTI_HOST_RUNTIME_H
#define TUTTI_HOST_RUNTIME_H

#include "tutti/abi.h"
#include "tutti/engine.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ttrtError {
    ttrtSuccess = 0,
    ttrtErrorInvalidValue = 1,
    ttrtErrorMemoryAllocation = 2,
    ttrtErrorInitializationError = 3,
    ttrtErrorInvalidConfiguration = 9,
    ttrtErrorInvalidDevicePointer = 17,
    ttrtErrorInvalidMemcpyDirection = 21,
    ttrtErrorInvalidDeviceFunction = 98,
    ttrtErrorNoDevice = 100,
    ttrtErrorInvalidDevice = 101,
    ttrtErrorInvalidKernelImage = 200,
    ttrtErrorNoKernelImageForDevice = 209,
    ttrtErrorPeerAccessUnsupported = 217,
    ttrtErrorFileNotFound = 301,
    ttrtErrorInvalidResourceHandle = 400,
    ttrtErrorSymbolNotFound = 500,
    ttrtErrorNotReady = 600,
    ttrtErrorIllegalAddress = 700,
    ttrtErrorLaunchOutOfResources = 701,
    ttrtErrorLaunchTimeout = 702,
    ttrtErrorPeerAccessAlreadyEnabled = 704,
    ttrtErrorPeerAccessNotEnabled = 705,
    ttrtErrorHostMemoryAlreadyRegistered = 712,
    ttrtErrorHostMemoryNotRegistered = 713,
    ttrtErrorLaunchFailure = 719,
    ttrtErrorCooperativeLaunchTooLarge = 720,
    ttrtErrorNotPermitted = 800,
    ttrtErrorNotSupported = 801,
    ttrtErrorUnknown = 999
} ttrtError;

typedef struct ttrtStream_st *ttrtStream_t;
typedef struct ttrtEvent_st *ttrtEvent_t;
typedef struct ttrtModule_st *ttrtModule_t;
typedef struct ttrtFunction_st *ttrtFunction_t;

enum ttrtArch {
    ttrtArchThreadsW32 = 0,
    ttrtArchThreadsW64 = 1,
    ttrtArchThreadsW128 = 2,
    ttrtArchSimW32 = 3,
    ttrtArchSimW64 = 4,
    ttrtArchSimW128 = 5
};

enum ttrtMemcpyKind {
    ttrtMemcpyHostToHost = 0,
    ttrtMemcpyHostToDevice = 1,
    ttrtMemcpyDeviceToHost = 2,
    ttrtMemcpyDeviceToDevice = 3,
    ttrtMemcpyDefault = 4
};
enum ttrtStreamFlags { ttrtStreamDefault = 0, ttrtStreamNonBlocking = 1 };
enum ttrtEventFlags {
    ttrtEventDefault = 0,
    ttrtEventBlockingSync = 1,
    ttrtEventDisableTiming = 2,
    ttrtEventInterprocess = 4
};
enum ttrtHostAllocFlags {
    ttrtHostAllocDefault = 0,
    ttrtHostAllocPortable = 1,
    ttrtHostAllocMapped = 2,
    ttrtHostAllocWriteCombined = 4
};
enum ttrtHostRegisterFlags {
    ttrtHostRegisterDefault = 0,
    ttrtHostRegisterPortable = 1,
    ttrtHostRegisterMapped = 2,
    ttrtHostRegisterIoMemory = 4,
    ttrtHostRegisterReadOnly = 8
};
enum ttrtMemAttachFlags { ttrtMemAttachGlobal = 1, ttrtMemAttachHost = 2 };
enum ttrtMemoryType {
    ttrtMemoryTypeUnregistered = 0,
    ttrtMemoryTypeHost = 1,
    ttrtMemoryTypeDevice = 2,
    ttrtMemoryTypeManaged = 3
};
enum ttrtDeviceAttr {
    ttrtDevAttrMaxThreadsPerBlock = 1,
    ttrtDevAttrMaxBlockDimX = 2,
    ttrtDevAttrMaxBlockDimY = 3,
    ttrtDevAttrMaxBlockDimZ = 4,
    ttrtDevAttrMaxGridDimX = 5,
    ttrtDevAttrMaxGridDimY = 6,
    ttrtDevAttrMaxGridDimZ = 7,
    ttrtDevAttrMaxSharedMemoryPerBlock = 8,
    ttrtDevAttrWarpSize = 10,
    ttrtDevAttrMultiProcessorCount = 16,
    ttrtDevAttrIntegrated = 18,
    ttrtDevAttrCanMapHostMemory = 19,
    ttrtDevAttrMaxThreadsPerMultiProcessor = 39,
    ttrtDevAttrUnifiedAddressing = 41,
    ttrtDevAttrStreamPrioritiesSupported = 78,
    ttrtDevAttrManagedMemory = 83,
    ttrtDevAttrHostNativeAtomicSupported = 86,
    ttrtDevAttrConcurrentManagedAccess = 89,
    ttrtDevAttrCooperativeLaunch = 95,
    ttrtDevAttrHostRegisterSupported = 99,
    ttrtDevAttrMemoryPoolsSupported = 115,
    ttrtDevAttrGPUDirectRDMASupported = 116,
    ttrtDevAttrDmaBufSupported = 124
};
enum ttrtFuncAttr {
    ttrtFuncAttributeMaxThreadsPerBlock = 0,
    ttrtFuncAttributeSharedSizeBytes = 1,
    ttrtFuncAttributeNumRegs = 4
};

typedef struct ttrtPointerAttributes {
    int type; /* ttrtMemoryType */
    int device;
    void *devicePointer; /* NULL where kernels cannot reach the memory */
    void *hostPointer;   /* NULL where the CPU must not */
    long reserved[8];
} ttrtPointerAttributes;

typedef struct ttrtDeviceProp {
    char name[256];
    char arch[32]; /* the arch of the record: threads-w32 ... sim-w128 */
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int maxThreadsPerBlock;
    int waveWidth;
    int multiProcessorCount;
    int maxThreadsPerMultiProcessor;
} ttrtDeviceProp;

/* ---- device ---- */

TT_EXPORT ttrtError ttrtGetDeviceCount(int *count);
/* TT_ABI_VERSION. */
TT_EXPORT ttrtError ttrtRuntimeGetVersion(int *version);
TT_EXPORT ttrtError ttrtGetDevice(int *device);
TT_EXPORT ttrtError ttrtSetDevice(int device);
TT_EXPORT ttrtError ttrtDeviceGetAttribute(int *value, int attribute, int device);
TT_EXPORT ttrtError ttrtGetDeviceProperties(ttrtDeviceProp *properties, int device);
TT_EXPORT ttrtError ttrtDeviceSynchronize(void);
/* Waits for the device's work, destroys all its memory, streams, events and modules, and clears a failure. Host
 * memory allocated or registered while the device was current goes with it. */
TT_EXPORT ttrtError ttrtDeviceReset(void);
/* *least == *greatest == 0: HOST has no priorities. */
TT_EXPORT ttrtError ttrtDeviceGetStreamPriorityRange(int *least, int *greatest);
TT_EXPORT ttrtError ttrtDeviceCanAccessPeer(int *can, int device, int peer);
TT_EXPORT ttrtError ttrtDeviceEnablePeerAccess(int peer, unsigned int flags);
TT_EXPORT ttrtError ttrtDeviceDisablePeerAccess(int peer);

/* ---- errors ---- */

TT_EXPORT ttrtError ttrtGetLastError(void);                /* returns and clears the calling thread's last error */
TT_EXPORT ttrtError ttrtPeekAtLastError(void);             /* returns it */
TT_EXPORT const char *ttrtGetErrorName(ttrtError error);   /* static text, never NULL */
TT_EXPORT const char *ttrtGetErrorString(ttrtError error); /* static text, never NULL */

/* ---- memory ---- */

TT_EXPORT ttrtError ttrtMalloc(void **ptr, size_t size);
TT_EXPORT ttrtError ttrtMallocManaged(void **ptr, size_t size, unsigned int flags);
/* Waits for the device's work first. NULL is success. */
TT_EXPORT ttrtError ttrtFree(void *ptr);
TT_EXPORT ttrtError ttrtMallocAsync(void **ptr, size_t size, ttrtStream_t stream);
TT_EXPORT ttrtError ttrtFreeAsync(void *ptr, ttrtStream_t stream);
TT_EXPORT ttrtError ttrtMallocHost(void **ptr, size_t size);
TT_EXPORT ttrtError ttrtHostAlloc(void **ptr, size_t size, unsigned int flags);
TT_EXPORT ttrtError ttrtFreeHost(void *ptr);
TT_EXPORT ttrtError ttrtHostRegister(void *ptr, size_t size, unsigned int flags);
TT_EXPORT ttrtError ttrtHostUnregister(void *ptr);
/* Only memory with the flag Mapped has a device pointer. */
TT_EXPORT ttrtError ttrtHostGetDevicePointer(void **device, void *host, unsigned int flags);
TT_EXPORT ttrtError ttrtHostGetFlags(unsigned int *flags, void *host);
TT_EXPORT ttrtError ttrtPointerGetAttributes(ttrtPointerAttributes *attributes, const void *ptr);
/* The allocation around ptr; base or size may be NULL. */
TT_EXPORT ttrtError ttrtMemGetAddressRange(void **base, size_t *size, void *ptr);
TT_EXPORT ttrtError ttrtMemGetInfo(size_t *free_bytes, size_t *total_bytes);
TT_EXPORT ttrtError ttrtMemcpy(void *dst, const void *src, size_t size, int kind);
/* Pageable host memory: a source is read before the call returns, a destination is written before it returns. */
TT_EXPORT ttrtError ttrtMemcpyAsync(void *dst, const void *src, size_t size, int kind, ttrtStream_t stream);
TT_EXPORT ttrtError ttrtMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t size,
                                        ttrtStream_t stream);
TT_EXPORT ttrtError ttrtMemset(void *ptr, int value, size_t size);
TT_EXPORT ttrtError ttrtMemsetAsync(void *ptr, int value, size_t size, ttrtStream_t stream);

/* ---- streams and events ---- */

TT_EXPORT ttrtError ttrtStreamCreate(ttrtStream_t *stream);
TT_EXPORT ttrtError ttrtStreamCreateWithFlags(ttrtStream_t *stream, unsigned int flags);
/* The priority is clamped to the device's range, which is (0, 0). */
TT_EXPORT ttrtError ttrtStreamCreateWithPriority(ttrtStream_t *stream, unsigned int flags, int priority);
TT_EXPORT ttrtError ttrtStreamGetPriority(ttrtStream_t stream, int *priority);
TT_EXPORT ttrtError ttrtStreamGetFlags(ttrtStream_t stream, unsigned int *flags);
TT_EXPORT ttrtError ttrtStreamGetDevice(ttrtStream_t stream, int *device);
/* Returns at once; work already in the stream still runs. */
TT_EXPORT ttrtError ttrtStreamDestroy(ttrtStream_t stream);
TT_EXPORT ttrtError ttrtStreamQuery(ttrtStream_t stream);
TT_EXPORT ttrtError ttrtStreamSynchronize(ttrtStream_t stream);
/* An event that was never recorded is no wait. Between a `sim` device and another device: ttrtErrorNotSupported. */
TT_EXPORT ttrtError ttrtStreamWaitEvent(ttrtStream_t stream, ttrtEvent_t event, unsigned int flags);
/* The function must not call into this runtime. */
TT_EXPORT ttrtError ttrtLaunchHostFunc(ttrtStream_t stream, void (*function)(void *user), void *user);
TT_EXPORT ttrtError ttrtEventCreate(ttrtEvent_t *event);
TT_EXPORT ttrtError ttrtEventCreateWithFlags(ttrtEvent_t *event, unsigned int flags);
TT_EXPORT ttrtError ttrtEventDestroy(ttrtEvent_t event);
TT_EXPORT ttrtError ttrtEventRecord(ttrtEvent_t event, ttrtStream_t stream);
TT_EXPORT ttrtError ttrtEventQuery(ttrtEvent_t event);
TT_EXPORT ttrtError ttrtEventSynchronize(ttrtEvent_t event);
/* Milliseconds of the device's clock (`sim`: the virtual one). */
TT_EXPORT ttrtError ttrtEventElapsedTime(float *milliseconds, ttrtEvent_t start, ttrtEvent_t end);

/* ---- modules and launches ---- */

TT_EXPORT ttrtError ttrtModuleLoad(ttrtModule_t *module, const char *path);
/* `image`: a whole ELF shared object; its length is read from its own header. Copied. */
TT_EXPORT ttrtError ttrtModuleLoadData(ttrtModule_t *module, const void *image);
/* Waits for the device's work first. */
TT_EXPORT ttrtError ttrtModuleUnload(ttrtModule_t module);
TT_EXPORT ttrtError ttrtModuleGetFunction(ttrtFunction_t *function, ttrtModule_t module, const char *name);
TT_EXPORT ttrtError ttrtModuleGetFunctionCount(unsigned int *count, ttrtModule_t module);
TT_EXPORT ttrtError ttrtModuleEnumerateFunctions(ttrtFunction_t *functions, unsigned int capacity, ttrtModule_t module);
TT_EXPORT ttrtError ttrtFuncGetName(const char **name, ttrtFunction_t function);
/* ttrtErrorInvalidValue past the last parameter. */
TT_EXPORT ttrtError ttrtFuncGetParamInfo(ttrtFunction_t function, size_t index, size_t *offset, size_t *size);
TT_EXPORT ttrtError ttrtFuncGetParamName(ttrtFunction_t function, size_t index, const char **name);
/* Only ttrtFuncAttributeMaxThreadsPerBlock is known here; the others: ttrtErrorNotSupported. */
TT_EXPORT ttrtError ttrtFuncGetAttribute(int *value, int attribute, ttrtFunction_t function);
TT_EXPORT ttrtError ttrtOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, ttrtFunction_t function,
                                                                  int block_threads, size_t shared_bytes);
/* `params[i]` points at the i-th argument, whose size the module knows; copied before the call returns. `extra`: NULL.
 */
TT_EXPORT ttrtError ttrtLaunchKernel(ttrtFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                     unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                     unsigned int block_z, unsigned int shared_bytes, ttrtStream_t stream,
                                     void **params, void **extra);
/* Refuses a grid that cannot be wholly resident. */
TT_EXPORT ttrtError ttrtLaunchCooperativeKernel(ttrtFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                                unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                                unsigned int block_z, unsigned int shared_bytes, ttrtStream_t stream,
                                                void **params);

/* ---- what only HOST has ---- */

/* ttrtLaunchKernel that fails with ttrtErrorLaunchTimeout once it ran for limit_ns (0: the engine's default). */
TT_EXPORT ttrtError ttrtLaunchKernelLimit(ttrtFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                          unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                          unsigned int block_z, unsigned int shared_bytes, ttrtStream_t stream,
                                          void **params, uint64_t limit_ns);
/* The explanation of the calling thread's last error, for a person: written to text, cut to capacity, NUL at the end.
 */
TT_EXPORT ttrtError ttrtGetLastErrorDetail(char *text, size_t capacity);
/* How the device's last ended launch went; once the device has failed, the one that made it fail.
 * ttrtErrorNotReady: none has ended. */
TT_EXPORT ttrtError ttrtDeviceGetLaunchReport(int device, tt_launch_report *report);
/* 1 when the pages under a host allocation or registration are locked; 0 when the kernel refused (*refused: errno). */
TT_EXPORT ttrtError ttrtHostGetLocked(int *locked, int *refused, const void *host);
/* Device memory that allocations may take together; also what ttrtMemGetInfo calls total. */
TT_EXPORT ttrtError ttrtDeviceSetMemoryLimit(int device, size_t bytes);

/* ---- mode `sim` only; on another device: ttrtErrorNotSupported ---- */

/* Forgets all history and a failure; memory keeps its values; new options from here on (script is copied).
 * ttrtErrorNotReady while work is queued, unless the device has failed (then the queues are dropped). */
TT_EXPORT ttrtError ttrtSimReset(int device, const tt_sim_options *options);
TT_EXPORT ttrtError ttrtSimGetOptions(int device, tt_sim_options *options);
TT_EXPORT ttrtError ttrtSimNow(int device, uint64_t *now_ns);
TT_EXPORT ttrtError ttrtSimSteps(int device, uint64_t *steps);
/* As tt_world_choices: *count pairs exist; up to capacity of them are written. */
TT_EXPORT ttrtError ttrtSimChoices(int device, uint32_t *pairs, uint64_t capacity, uint64_t *count);
/* Runs at most so many scheduling steps (> 0). ttrtErrorNotReady: work is left, perhaps lanes that the host must feed.
 * With no work it lets the controllers work and the clock go on to their timers, so that a host that polls a register
 * sees time pass. */
TT_EXPORT ttrtError ttrtSimRun(int device, uint64_t budget_steps);
/* The host reads and writes memory while launches run: 1, 2, 4 or 8 bytes, aligned. */
TT_EXPORT ttrtError ttrtSimHostLoad(int device, const void *address, uint32_t bytes, uint64_t *value);
TT_EXPORT ttrtError ttrtSimHostStore(int device, void *address, uint64_t value, uint32_t bytes);
/* A controller becomes an agent of the device's world (tt_world_add_controller). */
TT_EXPORT ttrtError ttrtSimAddController(int device, const char *name, void (*fn)(void *arg, tt_port port), void *arg,
                                         tt_iommu *iommu, uint64_t *agent);
TT_EXPORT ttrtError ttrtSimRemoveController(int device, uint64_t agent);
/* Every run of a kernel that the task's options allow (tt_world_explore), on a device where nothing is queued and no
 * controller is attached; blocks until done. The world has the task's options afterwards, under the fair schedule. */
TT_EXPORT ttrtError ttrtSimExplore(int device, ttrtFunction_t function, unsigned int grid, unsigned int block,
                                   void **params, const tt_explore_task *task, tt_explore_report *report);
/* One way in which the runs of the device's last exploration ended; good until the next one. */
TT_EXPORT ttrtError ttrtSimEnding(int device, uint64_t index, tt_explore_ending *ending);

#ifdef __cplusplus
}
#endif

#endif
