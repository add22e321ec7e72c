// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

using namespace ttrt;

namespace {

constexpr unsigned kKnownFlags = ttrtEventBlockingSync | ttrtEventDisableTiming | ttrtEventInterprocess;

Status find_event(ttrtEvent_t handle, std::shared_ptr<Event> *event) {
    *event = Machine::get().events.find(reinterpret_cast<uint64_t>(handle));
    return *event != nullptr ? success()
                             : fail(ttrtErrorInvalidResourceHandle, "the event was destroyed, or never was one");
}

CompletionRef mark_of(Event &event) {
    const std::lock_guard lock(event.mutex);
    return event.recorded;
}

Status create(ttrtEvent_t *event, unsigned flags) {
    if (event == nullptr || (flags & ~kKnownFlags) != 0) {
        return fail(ttrtErrorInvalidValue, event == nullptr ? "event is NULL" : "unknown flags");
    }
    if ((flags & ttrtEventInterprocess) != 0) {
        return fail(ttrtErrorNotSupported, "HOST has no events between processes");
    }
    if (Status failed = current_device().failure(); !failed.ok()) {
        return failed;
    }
    *event =
        reinterpret_cast<ttrtEvent_t>(Machine::get().events.insert(std::make_shared<Event>(current_device(), flags)));
    return success();
}

// The body of an exported function about one event, which lives at least as long as the call.
template <typename Body> ttrtError call_with(ttrtEvent_t handle, const Body &body) noexcept {
    return call([&] {
        std::shared_ptr<Event> event;
        Status status = find_event(handle, &event);
        return status.ok() ? body(*event) : status;
    });
}

} // namespace

extern "C" ttrtError ttrtEventCreate(ttrtEvent_t *event) {
    return call([&] { return create(event, ttrtEventDefault); });
}

extern "C" ttrtError ttrtEventCreateWithFlags(ttrtEvent_t *event, unsigned int flags) {
    return call([&] { return create(event, flags); });
}

extern "C" ttrtError ttrtEventDestroy(ttrtEvent_t event) {
    return call([&] {
        return Machine::get().events.remove(reinterpret_cast<uint64_t>(event)) != nullptr
                   ? success()
                   : fail(ttrtErrorInvalidResourceHandle, "the event was destroyed, or never was one");
    });
}

extern "C" ttrtError ttrtEventRecord(ttrtEvent_t event, ttrtStream_t stream) {
    return call_with(event, [&](Event &found) {
        std::shared_ptr<Stream> target;
        if (Status status = resolve_stream(stream, &target); !status.ok()) {
            return status;
        }
        if (&target->device() != &found.device) {
            return fail(ttrtErrorInvalidResourceHandle, "the event belongs to device ", found.device.ordinal(),
                        ", the stream to device ", target->device().ordinal());
        }
        CompletionRef mark;
        if (Status status = target->device().submit(*target, {}, &mark); !status.ok()) {
            return status;
        }
        const std::lock_guard lock(found.mutex);
        found.recorded = std::move(mark);
        return success();
    });
}

extern "C" ttrtError ttrtEventQuery(ttrtEvent_t event) {
    return call_with(event, [&](Event &found) { return found.device.query(mark_of(found)); });
}

extern "C" ttrtError ttrtEventSynchronize(ttrtEvent_t event) {
    return call_with(event, [&](Event &found) { return found.device.wait(mark_of(found)); });
}

extern "C" ttrtError ttrtEventElapsedTime(float *milliseconds, ttrtEvent_t start, ttrtEvent_t end) {
    return call([&] {
        std::shared_ptr<Event> first;
        std::shared_ptr<Event> last;
        if (Status status = find_event(start, &first); !status.ok()) {
            return status;
        }
        if (Status status = find_event(end, &last); !status.ok()) {
            return status;
        }
        if (milliseconds == nullptr) {
            return fail(ttrtErrorInvalidValue, "milliseconds is NULL");
        }
        if (&first->device != &last->device) {
            return fail(ttrtErrorInvalidResourceHandle, "the events belong to two devices");
        }
        if (((first->flags | last->flags) & ttrtEventDisableTiming) != 0) {
            return fail(ttrtErrorInvalidResourceHandle, "an event was created without timing");
        }
        const CompletionRef from = mark_of(*first);
        const CompletionRef to = mark_of(*last);
        if (from == nullptr || to == nullptr) {
            return fail(ttrtErrorInvalidResourceHandle, "an event was never recorded");
        }
        if (Status failed = first->device.failure(); !failed.ok()) {
            return failed;
        }
        if (!from->done() || !to->done()) {
            return fail(ttrtErrorNotReady, "an event is still pending");
        }
        const auto elapsed = static_cast<int64_t>(to->time_ns() - from->time_ns());
        *milliseconds = static_cast<float>(static_cast<double>(elapsed) / 1e6);
        return success();
    });
}

extern "C" ttrtError ttrtStreamWaitEvent(ttrtStream_t stream, ttrtEvent_t event, unsigned int flags) {
    return call_with(event, [&](Event &found) {
        std::shared_ptr<Stream> target;
        if (Status status = resolve_stream(stream, &target); !status.ok()) {
            return status;
        }
        if (flags != 0) {
            return fail(ttrtErrorInvalidValue, "flags must be 0");
        }
        Device &device = target->device();
        if (&device != &found.device && (device.simulated() || found.device.simulated())) {
            return fail(ttrtErrorNotSupported, "a simulated device runs only while somebody waits for it: it can "
                                               "neither wait for another device nor be waited for by one");
        }
        Operation wait;
        if (CompletionRef mark = mark_of(found); mark != nullptr && !mark->done()) {
            wait.waits.push_back(std::move(mark));
        }
        return device.submit(*target, std::move(wait));
    });
}
