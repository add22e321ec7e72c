// SPDX-License-Identifier: Apache-2.0
//
// Memory: allocations, registrations, what an address is, copies and fills.
#pragma once

#include "sim.h"

namespace sim {

inline ttrtError Malloc(void **ptr, size_t size) { return ttrtMalloc(ptr, size); }
inline ttrtError Free(Address ptr) { return ttrtFree(ptr); }
inline ttrtError MallocAsync(void **ptr, size_t size, Stream stream) { return ttrtMallocAsync(ptr, size, stream); }
inline ttrtError FreeAsync(void *ptr, Stream stream) { return ttrtFreeAsync(ptr, stream); }
inline ttrtError MallocHost(void **ptr, size_t size) { return ttrtMallocHost(ptr, size); }
inline ttrtError FreeHost(void *ptr) { return ttrtFreeHost(ptr); }

inline ttrtError MallocManaged(void **ptr, size_t size, unsigned flags) {
    int host = 0;
    return from_vendor(abi::kMemAttachFlags, static_cast<int>(flags), &host)
               ? ttrtMallocManaged(ptr, size, static_cast<unsigned>(host))
               : ttrtErrorInvalidValue;
}

inline ttrtError HostAlloc(void **ptr, size_t size, unsigned flags) {
    unsigned host = 0;
    return flags_from_vendor(abi::kHostAllocFlags, flags, &host) ? ttrtHostAlloc(ptr, size, host)
                                                                 : ttrtErrorInvalidValue;
}

// A flag of the vendor's that HOST has no notion of (coherence, NUMA) changes nothing here: all memory is coherent.
inline ttrtError MallocWithFlags(void **ptr, size_t size, unsigned flags) {
    int host = 0;
    return from_vendor(abi::kDeviceMallocFlags, static_cast<int>(flags), &host) ? ttrtMalloc(ptr, size)
                                                                                : ttrtErrorInvalidValue;
}

inline ttrtError HostRegister(void *ptr, size_t size, unsigned flags) {
    unsigned host = 0;
    return flags_from_vendor(abi::kHostRegisterFlags, flags, &host) ? ttrtHostRegister(ptr, size, host)
                                                                    : ttrtErrorInvalidValue;
}

inline ttrtError HostUnregister(void *ptr) { return ttrtHostUnregister(ptr); }
inline ttrtError HostGetDevicePointer(void **device, void *host, unsigned flags) {
    return ttrtHostGetDevicePointer(device, host, flags);
}

inline ttrtError HostGetFlags(unsigned *flags, void *host) {
    const ttrtError error = ttrtHostGetFlags(flags, host);
    if (error == ttrtSuccess) {
        *flags = flags_to_vendor(abi::kHostAllocFlags, *flags);
    }
    return error;
}

inline ttrtError pointer_facts(const void *ptr, PointerFacts *facts) {
    ttrtPointerAttributes host{};
    const ttrtError error = ttrtPointerGetAttributes(&host, ptr);
    if (error != ttrtSuccess) {
        return error;
    }
    if (host.type == ttrtMemoryTypeUnregistered && abi::kUnregisteredRefused) {
        return ttrtErrorInvalidValue;
    }
    const Machine &machine = Machine::get();
    const int ordinal = host.device - machine.first;
    facts->type = to_vendor(abi::kMemoryType, host.type);
    facts->device = machine.has(ordinal) ? ordinal : host.type == ttrtMemoryTypeUnregistered ? abi::kNoDevice : -1;
    facts->device_pointer = host.devicePointer;
    facts->host_pointer = host.hostPointer;
    facts->managed = host.type == ttrtMemoryTypeManaged ? 1 : 0;
    unsigned flags = 0;
    const bool plain = host.type == ttrtMemoryTypeHost && host.hostPointer != nullptr;
    facts->flags = plain && ttrtHostGetFlags(&flags, host.hostPointer) == ttrtSuccess
                       ? flags_to_vendor(abi::kHostAllocFlags, flags)
                       : 0;
    return ttrtSuccess;
}

inline ttrtError PointerGetAttributes(void *attributes, const void *ptr) {
    PointerFacts facts{};
    if (attributes == nullptr) {
        return ttrtErrorInvalidValue;
    }
    const ttrtError error = pointer_facts(ptr, &facts);
    if (error == ttrtSuccess) {
        fill_pointer_attributes(attributes, facts);
    }
    return error;
}

inline ttrtError MemGetAddressRange(void *base, size_t *size, Address ptr) {
    return ttrtMemGetAddressRange(static_cast<void **>(base), size, ptr);
}

inline ttrtError MemGetInfo(size_t *free_bytes, size_t *total_bytes) { return ttrtMemGetInfo(free_bytes, total_bytes); }

// There is no device, and so no exporter: the call is there, as the SDK has it, and says that this device cannot.
inline ttrtError MemGetHandleForAddressRange(void *handle, Address ptr, size_t size, int type,
                                             unsigned long long flags) {
    int host = 0;
    if (handle == nullptr || size == 0 || flags > 1 || !from_vendor(abi::kMemRangeHandleType, type, &host)) {
        return ttrtErrorInvalidValue;
    }
    void *base = nullptr;
    const ttrtError error = ttrtMemGetAddressRange(&base, nullptr, ptr);
    return error == ttrtSuccess ? ttrtErrorNotSupported : error;
}

// Between processes: the memory is private to this one, so no handle is ever given, and none can be opened.
inline ttrtError IpcGetMemHandle(void *handle, void *ptr) {
    PointerFacts facts{};
    if (handle == nullptr || pointer_facts(ptr, &facts) != ttrtSuccess ||
        facts.type != to_vendor(abi::kMemoryType, ttrtMemoryTypeDevice)) {
        return ttrtErrorInvalidValue;
    }
    return ttrtErrorNotSupported;
}
template <typename IpcHandle> ttrtError IpcOpenMemHandle(void **, const IpcHandle &, unsigned) {
    return ttrtErrorInvalidValue;
}
inline ttrtError IpcCloseMemHandle(void *) { return ttrtErrorInvalidValue; }

// ---- copies and fills

inline ttrtError Memcpy(void *dst, const void *src, size_t size, int kind) {
    int host = 0;
    return from_vendor(abi::kMemcpyKind, kind, &host) ? ttrtMemcpy(dst, src, size, host)
                                                      : ttrtErrorInvalidMemcpyDirection;
}

inline ttrtError MemcpyAsync(void *dst, const void *src, size_t size, int kind, Stream stream) {
    int host = 0;
    return from_vendor(abi::kMemcpyKind, kind, &host) ? ttrtMemcpyAsync(dst, src, size, host, stream)
                                                      : ttrtErrorInvalidMemcpyDirection;
}

inline ttrtError MemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t size,
                                 Stream stream) {
    const Machine &machine = Machine::get();
    if (!machine.has(dst_device) || !machine.has(src_device)) {
        return ttrtErrorInvalidDevice;
    }
    return ttrtMemcpyPeerAsync(dst, machine.host(dst_device), src, machine.host(src_device), size, stream);
}

inline ttrtError Memset(void *ptr, int value, size_t size) { return ttrtMemset(ptr, value, size); }
inline ttrtError MemsetAsync(void *ptr, int value, size_t size, Stream stream) {
    return ttrtMemsetAsync(ptr, value, size, stream);
}

} // namespace sim
