// SPDX-License-Identifier: Apache-2.0
//
// Streams, events, modules and launches.
#pragma once

#include <vector>

#include <time.h>

#include "container.h"
#include "sim.h"

namespace sim {

// ---- streams: HOST has one priority, so what a stream was made with is kept here

struct Priority {
    ttrtStream_t stream;
    int value;
};
inline std::vector<Priority> priorities; // under Lock; of streams that were not made with the default one

inline void keep_priority(ttrtStream_t stream, int value) {
    const Lock lock;
    std::erase_if(priorities, [&](const Priority &one) { return one.stream == stream; });
    if (value != abi::kDefaultPriority) {
        priorities.push_back({stream, value});
    }
}

inline ttrtError StreamCreateWithPriority(StreamOut stream, unsigned flags, int priority) {
    unsigned host = 0;
    if (!flags_from_vendor(abi::kStreamFlags, flags, &host)) {
        return ttrtErrorInvalidValue;
    }
    const ttrtError error = ttrtStreamCreateWithFlags(stream, host);
    if (error == ttrtSuccess) {
        const int least = priority > abi::kLeastPriority ? abi::kLeastPriority : priority;
        keep_priority(*stream.host, least < abi::kGreatestPriority ? abi::kGreatestPriority : least);
    }
    return error;
}

inline ttrtError StreamCreateWithFlags(StreamOut stream, unsigned flags) {
    return StreamCreateWithPriority(stream, flags, abi::kDefaultPriority);
}

inline ttrtError StreamCreate(StreamOut stream) { return StreamCreateWithPriority(stream, 0, abi::kDefaultPriority); }

inline ttrtError StreamGetPriority(Stream stream, int *priority) {
    int host = 0;
    const ttrtError error = ttrtStreamGetPriority(stream, &host); // the handle is HOST's to judge
    if (error != ttrtSuccess || priority == nullptr) {
        return error != ttrtSuccess ? error : ttrtErrorInvalidValue;
    }
    const Lock lock;
    *priority = abi::kDefaultPriority;
    for (const Priority &one : priorities) {
        *priority = one.stream == stream ? one.value : *priority;
    }
    return ttrtSuccess;
}

inline ttrtError StreamGetFlags(Stream stream, unsigned *flags) {
    const ttrtError error = ttrtStreamGetFlags(stream, flags);
    if (error == ttrtSuccess) {
        *flags = flags_to_vendor(abi::kStreamFlags, *flags);
    }
    return error;
}

inline ttrtError StreamGetDevice(Stream stream, int *device) {
    const ttrtError error = ttrtStreamGetDevice(stream, device);
    if (error == ttrtSuccess) {
        *device -= Machine::get().first;
    }
    return error;
}

inline ttrtError StreamDestroy(Stream stream) {
    const ttrtError error = ttrtStreamDestroy(stream);
    if (error == ttrtSuccess) {
        keep_priority(stream, abi::kDefaultPriority);
    }
    return error;
}

inline ttrtError StreamQuery(Stream stream) { return ttrtStreamQuery(stream); }
inline ttrtError StreamSynchronize(Stream stream) { return ttrtStreamSynchronize(stream); }
inline ttrtError StreamWaitEvent(Stream stream, Event event, unsigned flags) {
    return ttrtStreamWaitEvent(stream, event, flags);
}
inline ttrtError LaunchHostFunc(Stream stream, void (*function)(void *), void *user) {
    return ttrtLaunchHostFunc(stream, function, user);
}

// A stream's own write of a word, or wait for one: a host function of the stream does it.
struct WordOperation {
    volatile uint32_t *word;
    uint32_t value;
    int condition; // a wait's; the numbers of the field: at least, equal, and, nor

    bool holds() const {
        const uint32_t now = *word;
        switch (condition) {
        case 0:
            return static_cast<int32_t>(now - value) >= 0;
        case 1:
            return now == value;
        case 2:
            return (now & value) != 0;
        default:
            return ~(now | value) != 0;
        }
    }
};

inline ttrtError word_operation(Stream stream, Address address, uint32_t value, int condition, void (*run)(void *)) {
    void *base = nullptr;
    if (reinterpret_cast<uintptr_t>(address.pointer) % sizeof(uint32_t) != 0 ||
        ttrtMemGetAddressRange(&base, nullptr, address) != ttrtSuccess) {
        return ttrtErrorInvalidValue;
    }
    auto *const operation = new WordOperation{static_cast<volatile uint32_t *>(address.pointer), value, condition};
    const ttrtError error = ttrtLaunchHostFunc(stream, run, operation); // which deletes it
    if (error != ttrtSuccess) {
        delete operation;
    }
    return error;
}

inline ttrtError StreamWriteValue32(Stream stream, Address address, uint32_t value, unsigned flags) {
    int host = 0;
    if (!from_vendor(abi::kStreamWriteValue, static_cast<int>(flags), &host)) {
        return ttrtErrorInvalidValue;
    }
    return word_operation(stream, address, value, 0, [](void *user) {
        const auto *const one = static_cast<WordOperation *>(user);
        __atomic_store_n(one->word, one->value, __ATOMIC_SEQ_CST);
        delete one;
    });
}

inline ttrtError StreamWaitValue32(Stream stream, Address address, uint32_t value, unsigned flags) {
    int condition = 0;
    if (!from_vendor(abi::kStreamWaitValue, static_cast<int>(flags), &condition)) {
        return ttrtErrorInvalidValue;
    }
    return word_operation(stream, address, value, condition, [](void *user) {
        const auto *const one = static_cast<WordOperation *>(user);
        while (!one->holds()) {
            constexpr timespec kPause{0, 20'000};
            nanosleep(&kPause, nullptr);
        }
        delete one;
    });
}

// HIP's form: the bits of a mask only.
inline ttrtError StreamWaitValue32Masked(Stream stream, void *address, uint32_t value, unsigned flags, uint32_t mask) {
    return mask == UINT32_MAX ? StreamWaitValue32(stream, address, value, flags) : ttrtErrorNotSupported;
}

// ---- events

inline ttrtError EventCreateWithFlags(EventOut event, unsigned flags) {
    unsigned host = 0;
    return flags_from_vendor(abi::kEventFlags, flags, &host) ? ttrtEventCreateWithFlags(event, host)
                                                             : ttrtErrorInvalidValue;
}
inline ttrtError EventCreate(EventOut event) { return ttrtEventCreate(event); }
inline ttrtError EventDestroy(Event event) { return ttrtEventDestroy(event); }
inline ttrtError EventRecord(Event event, Stream stream) { return ttrtEventRecord(event, stream); }
inline ttrtError EventQuery(Event event) { return ttrtEventQuery(event); }
inline ttrtError EventSynchronize(Event event) { return ttrtEventSynchronize(event); }
inline ttrtError EventElapsedTime(float *milliseconds, Event start, Event end) {
    return ttrtEventElapsedTime(milliseconds, start, end);
}

// ---- modules: HOST modules in the container of README.md

inline ttrtError ModuleLoad(ModuleOut module, const char *path) {
    std::string image;
    if (path == nullptr || module.host == nullptr) {
        return ttrtErrorInvalidValue;
    }
    if (!container::read(path, &image)) {
        return ttrtErrorFileNotFound;
    }
    container::View view;
    const ttrtError error = container::look(image.data(), image.size(), abi::kVendor, Machine::get().arch->name, &view);
    return error == ttrtSuccess ? container::load(module, view) : error;
}

// The length is the container's own word, as it is the vendors': the caller passes none.
inline ttrtError ModuleLoadData(ModuleOut module, const void *image) {
    if (image == nullptr || module.host == nullptr) {
        return ttrtErrorInvalidValue;
    }
    container::View view;
    const ttrtError error = container::look(image, SIZE_MAX, abi::kVendor, Machine::get().arch->name, &view);
    return error == ttrtSuccess ? container::load(module, view) : error;
}

inline ttrtError ModuleLoadDataEx(ModuleOut module, const void *image, unsigned, void *, void **) {
    return ModuleLoadData(module, image);
}

inline ttrtError ModuleUnload(Module module) { return ttrtModuleUnload(module); }
inline ttrtError ModuleGetFunction(FunctionOut function, Module module, const char *name) {
    return ttrtModuleGetFunction(function, module, name);
}

inline ttrtError FuncGetAttribute(int *value, int attribute, Function function) {
    int host = 0;
    return from_vendor(abi::kFuncAttribute, attribute, &host) ? ttrtFuncGetAttribute(value, host, function)
                                                              : ttrtErrorInvalidValue;
}

inline ttrtError OccupancyMaxActiveBlocks(int *blocks, Function function, int block_threads, size_t shared_bytes) {
    return ttrtOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_threads, shared_bytes);
}

// ---- launches

inline bool too_much_shared(unsigned bytes) { return bytes > static_cast<unsigned>(Machine::get().arch->shared_bytes); }

inline ttrtError LaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void **params,
                              void **extra) {
    if (too_much_shared(shared_bytes)) {
        return ttrtErrorInvalidValue;
    }
    return ttrtLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
                            extra);
}

inline ttrtError LaunchCooperativeKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                         unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                         Stream stream, void **params) {
    if (too_much_shared(shared_bytes)) {
        return ttrtErrorInvalidValue;
    }
    return ttrtLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                                       stream, params);
}

} // namespace sim
