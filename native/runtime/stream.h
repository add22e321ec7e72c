// SPDX-License-Identifier: Apache-2.0
//
// Streams, the operations in them, and the marks by which one waits for another.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/module.h"
#include "runtime/status.h"

namespace ttrt {

class Device;

// Set once, when an operation has ended (run, or dropped because the device failed).
class Completion {
  public:
    bool done() const { return done_.load(std::memory_order_acquire) != 0; }
    uint64_t time_ns() const { return time_ns_; } // only once done

    void wait() const {
        while (!done()) {
            done_.wait(0, std::memory_order_acquire);
        }
    }
    void set(uint64_t time_ns) {
        time_ns_ = time_ns;
        done_.store(1, std::memory_order_release);
        done_.notify_all();
    }

  private:
    std::atomic<int> done_{0};
    uint64_t time_ns_ = 0;
};
using CompletionRef = std::shared_ptr<Completion>;

struct Operation {
    std::vector<CompletionRef> waits; // beside the stream's own order
    std::function<void()> run;        // what it does, or
    std::shared_ptr<Launch> launch;   // the kernel to run; neither: only a mark
    bool always = false;              // runs even when the device has failed: releases
    CompletionRef done;
};

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    Stream(Device &device, unsigned flags, bool legacy) : device_(device), flags_(flags), legacy_(legacy) {}

    Device &device() const { return device_; }
    unsigned flags() const { return flags_; }
    bool legacy() const { return legacy_; }
    bool blocking() const { return !legacy_ && (flags_ & ttrtStreamNonBlocking) == 0; }

    CompletionRef tail; // the latest operation; guarded by the device

    // Mode `threads`: appends for the worker, which starts with the first operation.
    void push(Operation operation);
    // The worker ends once the queue is empty.
    void close();

    // Mode `sim`: guarded by the device's simulation.
    std::deque<Operation> queue;
    bool in_world = false; // its head is a launch that runs

  private:
    void work();

    Device &device_;
    const unsigned flags_;
    const bool legacy_;

    std::mutex mutex_;
    std::condition_variable wake_;
    bool started_ = false;
    bool closed_ = false;
};

struct Event {
    Event(Device &d, unsigned f) : device(d), flags(f) {}

    Device &device;
    const unsigned flags;
    std::mutex mutex;
    CompletionRef recorded; // NULL: never
};

} // namespace ttrt
