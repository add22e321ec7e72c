// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

using namespace ttrt;

namespace {

Status create(ttrtStream_t *stream, unsigned flags) {
    if (stream == nullptr || (flags & ~unsigned{ttrtStreamNonBlocking}) != 0) {
        return fail(ttrtErrorInvalidValue, stream == nullptr ? "stream is NULL" : "unknown flags");
    }
    Device &device = current_device();
    if (Status failed = device.failure(); !failed.ok()) {
        return failed;
    }
    *stream = reinterpret_cast<ttrtStream_t>(Machine::get().streams.insert(device.create_stream(flags)));
    return success();
}

} // namespace

extern "C" ttrtError ttrtStreamCreate(ttrtStream_t *stream) {
    return call([&] { return create(stream, ttrtStreamDefault); });
}

extern "C" ttrtError ttrtStreamCreateWithFlags(ttrtStream_t *stream, unsigned int flags) {
    return call([&] { return create(stream, flags); });
}

extern "C" ttrtError ttrtStreamCreateWithPriority(ttrtStream_t *stream, unsigned int flags, int) {
    return call([&] { return create(stream, flags); });
}

extern "C" ttrtError ttrtStreamGetPriority(ttrtStream_t stream, int *priority) {
    return call([&] {
        std::shared_ptr<Stream> found;
        if (Status status = resolve_stream(stream, &found); !status.ok()) {
            return status;
        }
        if (priority == nullptr) {
            return fail(ttrtErrorInvalidValue, "priority is NULL");
        }
        *priority = 0;
        return success();
    });
}

extern "C" ttrtError ttrtStreamGetFlags(ttrtStream_t stream, unsigned int *flags) {
    return call([&] {
        std::shared_ptr<Stream> found;
        if (Status status = resolve_stream(stream, &found); !status.ok()) {
            return status;
        }
        if (flags == nullptr) {
            return fail(ttrtErrorInvalidValue, "flags is NULL");
        }
        *flags = found->flags();
        return success();
    });
}

extern "C" ttrtError ttrtStreamGetDevice(ttrtStream_t stream, int *device) {
    return call([&] {
        std::shared_ptr<Stream> found;
        if (Status status = resolve_stream(stream, &found); !status.ok()) {
            return status;
        }
        if (device == nullptr) {
            return fail(ttrtErrorInvalidValue, "device is NULL");
        }
        *device = found->device().ordinal();
        return success();
    });
}

extern "C" ttrtError ttrtStreamDestroy(ttrtStream_t stream) {
    return call([&] {
        const auto removed = Machine::get().streams.remove(reinterpret_cast<uint64_t>(stream));
        if (removed == nullptr) {
            return fail(ttrtErrorInvalidResourceHandle, "the stream was destroyed, or never was one");
        }
        removed->device().retire_stream(removed);
        return success();
    });
}

extern "C" ttrtError ttrtStreamQuery(ttrtStream_t stream) {
    return call([&] {
        std::shared_ptr<Stream> found;
        if (Status status = resolve_stream(stream, &found); !status.ok()) {
            return status;
        }
        Device &device = found->device();
        for (const CompletionRef &mark : device.marks_of(*found)) {
            if (Status status = device.query(mark); !status.ok()) {
                return status;
            }
        }
        return device.failure();
    });
}

extern "C" ttrtError ttrtStreamSynchronize(ttrtStream_t stream) {
    return call([&] {
        std::shared_ptr<Stream> found;
        if (Status status = resolve_stream(stream, &found); !status.ok()) {
            return status;
        }
        Device &device = found->device();
        for (const CompletionRef &mark : device.marks_of(*found)) {
            if (Status status = device.wait(mark); !status.ok()) {
                return status;
            }
        }
        return device.failure();
    });
}

extern "C" ttrtError ttrtLaunchHostFunc(ttrtStream_t stream, void (*function)(void *user), void *user) {
    return call([&] {
        std::shared_ptr<Stream> found;
        if (Status status = resolve_stream(stream, &found); !status.ok()) {
            return status;
        }
        if (function == nullptr) {
            return fail(ttrtErrorInvalidValue, "function is NULL");
        }
        Operation operation;
        operation.run = [function, user] { function(user); };
        return found->device().submit(*found, std::move(operation));
    });
}
