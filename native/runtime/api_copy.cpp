// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

using namespace ttrt;

namespace {

AddressSpace &memory() { return Machine::get().memory(); }

enum class Side { host, device, any };

// What is wrong with [ptr, ptr + size) as one side of a copy; *place says what it is.
Status check_side(const char *name, const void *ptr, size_t size, Side side, Place *place) {
    *place = memory().find(ptr, size);
    const Range &range = place->range;
    const std::string what = std::string(name) + ": ";
    switch (place->what) {
    case Place::What::freed:
        return fail(ttrtErrorInvalidValue, what, "no live memory of ",
                    (place->device >= 0 ? "device " + std::to_string(place->device) : std::string("the host")),
                    " at this address: it was freed, or never allocated");
    case Place::What::outside:
        return fail(ttrtErrorInvalidValue, what, size, " bytes from offset ",
                    reinterpret_cast<uintptr_t>(ptr) - range.base, " overrun the allocation of ", range.size);
    case Place::What::pageable:
        if (side == Side::device) {
            return fail(ttrtErrorInvalidMemcpyDirection, what, "pageable host memory is no device memory");
        }
        if (ptr == nullptr) {
            return fail(ttrtErrorInvalidValue, what, "NULL");
        }
        return success();
    case Place::What::live:
        if (side == Side::device && !range.mapped()) {
            return fail(ttrtErrorInvalidMemcpyDirection, what, "host memory that is not mapped is no device memory");
        }
        if (side == Side::host && range.kind == Kind::device) {
            return fail(ttrtErrorInvalidMemcpyDirection, what, "device memory is no host memory");
        }
        return success();
    }
    return success();
}

struct Copy {
    void *dst;
    const void *src;
    size_t size;
    bool src_pageable;
    bool dst_pageable;
};

Status check_copy(void *dst, const void *src, size_t size, int kind, Copy *copy) {
    static constexpr Side kDst[] = {Side::host, Side::device, Side::host, Side::device, Side::any};
    static constexpr Side kSrc[] = {Side::host, Side::host, Side::device, Side::device, Side::any};
    if (kind < ttrtMemcpyHostToHost || kind > ttrtMemcpyDefault) {
        return fail(ttrtErrorInvalidMemcpyDirection, "kind ", kind, " is none");
    }
    Place to;
    Place from;
    if (Status status = check_side("dst", dst, size, kDst[kind], &to); !status.ok()) {
        return status;
    }
    if (Status status = check_side("src", src, size, kSrc[kind], &from); !status.ok()) {
        return status;
    }
    *copy = {dst, src, size, from.what == Place::What::pageable, to.what == Place::What::pageable};
    return success();
}

// Enqueues a checked copy; `wait`: until it is done.
Status enqueue_copy(Stream &stream, const Copy &copy, bool wait) {
    Device &device = stream.device();
    Operation operation;
    if (copy.src_pageable && !wait) {
        // Nothing holds pageable memory in place: its bytes are taken now.
        const auto *bytes = static_cast<const unsigned char *>(copy.src);
        auto staged = std::make_shared<std::vector<unsigned char>>(bytes, bytes + copy.size);
        operation.run = [&device, copy, staged] { device.copy_now(copy.dst, staged->data(), copy.size); };
    } else {
        operation.run = [&device, copy] { device.copy_now(copy.dst, copy.src, copy.size); };
    }
    CompletionRef done;
    if (Status status = device.submit(stream, std::move(operation), &done); !status.ok()) {
        return status;
    }
    return wait || copy.dst_pageable ? device.wait(done) : success();
}

// The stream, of a device that has not failed.
Status resolve_working(ttrtStream_t handle, std::shared_ptr<Stream> *stream) {
    Status status = resolve_stream(handle, stream);
    return status.ok() ? (*stream)->device().failure() : status;
}

Status copy_on(ttrtStream_t handle, void *dst, const void *src, size_t size, int kind, bool wait) {
    std::shared_ptr<Stream> stream;
    if (Status status = resolve_working(handle, &stream); !status.ok() || size == 0) {
        return status;
    }
    Copy copy{};
    if (Status status = check_copy(dst, src, size, kind, &copy); !status.ok()) {
        return status;
    }
    return enqueue_copy(*stream, copy, wait);
}

Status fill_on(ttrtStream_t handle, void *ptr, int value, size_t size, bool wait) {
    std::shared_ptr<Stream> stream;
    if (Status status = resolve_working(handle, &stream); !status.ok() || size == 0) {
        return status;
    }
    Place place;
    if (Status status = check_side("ptr", ptr, size, Side::device, &place); !status.ok()) {
        return status.code == ttrtErrorInvalidMemcpyDirection ? fail(ttrtErrorInvalidValue, status.detail) : status;
    }
    Device &device = stream->device();
    Operation operation;
    operation.run = [&device, ptr, value, size] { device.fill_now(ptr, value, size); };
    CompletionRef done;
    if (Status status = device.submit(*stream, std::move(operation), &done); !status.ok()) {
        return status;
    }
    return wait ? device.wait(done) : success();
}

} // namespace

extern "C" ttrtError ttrtMemcpy(void *dst, const void *src, size_t size, int kind) {
    return call([&] { return copy_on(nullptr, dst, src, size, kind, true); });
}

extern "C" ttrtError ttrtMemcpyAsync(void *dst, const void *src, size_t size, int kind, ttrtStream_t stream) {
    return call([&] { return copy_on(stream, dst, src, size, kind, false); });
}

extern "C" ttrtError ttrtMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t size,
                                         ttrtStream_t stream) {
    return call([&] {
        Machine &machine = Machine::get();
        if (machine.device(dst_device) == nullptr || machine.device(src_device) == nullptr) {
            return fail(ttrtErrorInvalidDevice, "no such device");
        }
        const Place to = memory().find(dst, size);
        const Place from = memory().find(src, size);
        if (size != 0 && (to.device != dst_device || from.device != src_device)) {
            return fail(ttrtErrorInvalidValue, "dst is memory of device ", to.device, ", src of device ", from.device);
        }
        // A simulated stream's world does not know the other device's memory: it takes it as it takes the host's.
        return copy_on(stream, dst, src, size, ttrtMemcpyDeviceToDevice, false);
    });
}

extern "C" ttrtError ttrtMemset(void *ptr, int value, size_t size) {
    return call([&] { return fill_on(nullptr, ptr, value, size, true); });
}

extern "C" ttrtError ttrtMemsetAsync(void *ptr, int value, size_t size, ttrtStream_t stream) {
    return call([&] { return fill_on(stream, ptr, value, size, false); });
}
