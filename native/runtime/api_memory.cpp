// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "runtime/device.h"
#include "runtime/simulation.h"

using namespace ttrt;

namespace {

constexpr unsigned kAllocFlags = ttrtHostAllocPortable | ttrtHostAllocMapped | ttrtHostAllocWriteCombined;
constexpr unsigned kRegisterFlags =
    ttrtHostRegisterPortable | ttrtHostRegisterMapped | ttrtHostRegisterIoMemory | ttrtHostRegisterReadOnly;

AddressSpace &memory() { return Machine::get().memory(); }

bool is_device(const Range &range) { return range.on_device(); }
bool is_host(const Range &range) { return range.kind == Kind::host; }
bool is_registered(const Range &range) { return range.kind == Kind::registered; }

Status allocate(Kind kind, size_t size, unsigned flags, void **ptr) {
    if (ptr == nullptr) {
        return fail(ttrtErrorInvalidValue, "ptr is NULL");
    }
    *ptr = nullptr;
    Device &device = current_device();
    if (Status failed = device.failure(); !failed.ok()) {
        return failed;
    }
    if (size == 0) {
        return kind == Kind::managed ? fail(ttrtErrorInvalidValue, "size is 0") : success();
    }
    if (Status status = memory().allocate(kind, device.ordinal(), size, flags, ptr); !status.ok()) {
        return status;
    }
    const Range range = memory().find(*ptr, size).range;
    if (kind == Kind::host) {
        Machine::get().map_host(range);
    } else if (Simulation *world = device.simulation()) {
        world->map(range);
    }
    return success();
}

void release(const Range &range) {
    if (range.on_device()) {
        if (Simulation *world = Machine::get().device(range.device)->simulation()) {
            world->unmap(range);
        }
    } else {
        Machine::get().unmap_host(range);
    }
    memory().finish_release(range);
}

// Frees at once, after the work of the owning device.
Status release_now(void *ptr, bool (*is)(const Range &)) {
    const Place place = memory().find(ptr, 1);
    if (place.what == Place::What::live && is(place.range)) {
        Device &owner = *Machine::get().device(place.range.device);
        if (Status failed = owner.synchronize(); !failed.ok()) {
            return failed;
        }
    }
    Range range;
    if (Status status = memory().begin_release(ptr, is, &range); !status.ok()) {
        return status;
    }
    release(range);
    return success();
}

// The live host range around a pointer.
Status find_host(const void *host, Range *range) {
    const Place place = memory().find(host, 1);
    if (place.what != Place::What::live || place.range.on_device()) {
        return fail(ttrtErrorInvalidValue, "the pointer is in no host memory of this runtime");
    }
    *range = place.range;
    return success();
}

} // namespace

extern "C" ttrtError ttrtMalloc(void **ptr, size_t size) {
    return call([&] { return allocate(Kind::device, size, 0, ptr); });
}

extern "C" ttrtError ttrtMallocManaged(void **ptr, size_t size, unsigned int flags) {
    return call([&] {
        if (flags != ttrtMemAttachGlobal && flags != ttrtMemAttachHost) {
            return fail(ttrtErrorInvalidValue, "flags must be MemAttachGlobal or MemAttachHost");
        }
        return allocate(Kind::managed, size, flags, ptr);
    });
}

extern "C" ttrtError ttrtFree(void *ptr) {
    return call([&] { return ptr == nullptr ? success() : release_now(ptr, is_device); });
}

extern "C" ttrtError ttrtMallocAsync(void **ptr, size_t size, ttrtStream_t stream) {
    return call([&] {
        std::shared_ptr<Stream> found;
        if (Status status = resolve_stream(stream, &found); !status.ok()) {
            return status;
        }
        if (found->device().ordinal() != current_ordinal()) {
            return fail(ttrtErrorInvalidResourceHandle, "the stream belongs to another device than the current one");
        }
        return allocate(Kind::device, size, 0, ptr);
    });
}

extern "C" ttrtError ttrtFreeAsync(void *ptr, ttrtStream_t stream) {
    return call([&] {
        std::shared_ptr<Stream> found;
        if (Status status = resolve_stream(stream, &found); !status.ok()) {
            return status;
        }
        if (ptr == nullptr) {
            return success();
        }
        Device &device = found->device();
        if (Status failed = device.failure(); !failed.ok()) {
            return failed;
        }
        Range range;
        if (Status status = memory().begin_release(ptr, is_device, &range); !status.ok()) {
            return status;
        }
        Operation operation;
        operation.always = true;
        operation.run = [range] { release(range); };
        return device.submit(*found, std::move(operation));
    });
}

extern "C" ttrtError ttrtMallocHost(void **ptr, size_t size) {
    return call([&] { return allocate(Kind::host, size, ttrtHostAllocDefault, ptr); });
}

extern "C" ttrtError ttrtHostAlloc(void **ptr, size_t size, unsigned int flags) {
    return call([&] {
        if ((flags & ~kAllocFlags) != 0) {
            return fail(ttrtErrorInvalidValue, "unknown flags");
        }
        return allocate(Kind::host, size, flags, ptr);
    });
}

extern "C" ttrtError ttrtFreeHost(void *ptr) {
    return call([&] { return ptr == nullptr ? success() : release_now(ptr, is_host); });
}

extern "C" ttrtError ttrtHostRegister(void *ptr, size_t size, unsigned int flags) {
    return call([&] {
        if (ptr == nullptr || size == 0 || (flags & ~kRegisterFlags) != 0) {
            return fail(ttrtErrorInvalidValue, "ptr is NULL, size is 0, or flags are unknown");
        }
        if (Status failed = current_device().failure(); !failed.ok()) {
            return failed;
        }
        if (Status status = memory().register_host(current_ordinal(), ptr, size, flags); !status.ok()) {
            return status;
        }
        Machine::get().map_host(memory().find(ptr, size).range);
        return success();
    });
}

extern "C" ttrtError ttrtHostUnregister(void *ptr) {
    return call([&] {
        if (ptr == nullptr) {
            return fail(ttrtErrorInvalidValue, "ptr is NULL");
        }
        Status status = release_now(ptr, is_registered);
        return status.code == ttrtErrorInvalidValue ? fail(ttrtErrorHostMemoryNotRegistered, status.detail) : status;
    });
}

extern "C" ttrtError ttrtHostGetDevicePointer(void **device, void *host, unsigned int flags) {
    return call([&] {
        if (device == nullptr || flags != 0) {
            return fail(ttrtErrorInvalidValue, device == nullptr ? "device is NULL" : "flags must be 0");
        }
        Range range;
        if (Status status = find_host(host, &range); !status.ok()) {
            return status;
        }
        if (!range.mapped()) {
            return fail(ttrtErrorInvalidValue, "the memory was not allocated or registered as Mapped");
        }
        *device = host;
        return success();
    });
}

extern "C" ttrtError ttrtHostGetFlags(unsigned int *flags, void *host) {
    return call([&] {
        Range range;
        if (Status status = find_host(host, &range); !status.ok()) {
            return status;
        }
        if (flags == nullptr || range.kind != Kind::host) {
            return fail(ttrtErrorInvalidValue, flags == nullptr ? "flags is NULL" : "the memory is only registered");
        }
        *flags = range.flags;
        return success();
    });
}

extern "C" ttrtError ttrtHostGetLocked(int *locked, int *refused, const void *host) {
    return call([&] {
        Range range;
        if (Status status = find_host(host, &range); !status.ok()) {
            return status;
        }
        if (locked == nullptr || refused == nullptr) {
            return fail(ttrtErrorInvalidValue, "locked or refused is NULL");
        }
        *locked = range.locked ? 1 : 0;
        *refused = range.refused;
        return success();
    });
}

extern "C" ttrtError ttrtPointerGetAttributes(ttrtPointerAttributes *attributes, const void *ptr) {
    return call([&] {
        if (attributes == nullptr) {
            return fail(ttrtErrorInvalidValue, "attributes is NULL");
        }
        *attributes = {};
        auto *const address = const_cast<void *>(ptr);
        const Place place = memory().find(ptr, 1);
        if (place.what == Place::What::freed) {
            return fail(ttrtErrorInvalidValue, "the memory at this address was freed, or never allocated");
        }
        if (place.what == Place::What::pageable) {
            attributes->type = ttrtMemoryTypeUnregistered;
            attributes->device = -1;
            attributes->hostPointer = address;
            return success();
        }
        const Range &range = place.range;
        attributes->device = range.device;
        attributes->devicePointer = range.mapped() ? address : nullptr;
        attributes->hostPointer = range.kind == Kind::device ? nullptr : address;
        attributes->type = range.kind == Kind::device    ? ttrtMemoryTypeDevice
                           : range.kind == Kind::managed ? ttrtMemoryTypeManaged
                                                         : ttrtMemoryTypeHost;
        return success();
    });
}

extern "C" ttrtError ttrtMemGetAddressRange(void **base, size_t *size, void *ptr) {
    return call([&] {
        const Place place = memory().find(ptr, 1);
        if (place.what != Place::What::live) {
            return fail(ttrtErrorInvalidValue, "the address is in no live memory of this runtime");
        }
        if (base != nullptr) {
            *base = reinterpret_cast<void *>(place.range.base);
        }
        if (size != nullptr) {
            *size = place.range.size;
        }
        return success();
    });
}

extern "C" ttrtError ttrtMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    return call([&] {
        if (free_bytes == nullptr || total_bytes == nullptr) {
            return fail(ttrtErrorInvalidValue, "free_bytes or total_bytes is NULL");
        }
        if (Status failed = current_device().failure(); !failed.ok()) {
            return failed;
        }
        memory().info(current_ordinal(), free_bytes, total_bytes);
        return success();
    });
}
