// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream.h"

#include <csignal>
#include <thread>
#include <utility>

#include "runtime/device.h"

namespace ttrt {

void Stream::push(Operation operation) {
    const std::lock_guard lock(mutex_);
    queue.push_back(std::move(operation));
    if (!started_) {
        started_ = true;
        // Signals stay with the program's own threads.
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        std::thread([self = shared_from_this()] { self->work(); }).detach();
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    wake_.notify_one();
}

void Stream::close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_.notify_one();
}

void Stream::work() {
    while (true) {
        Operation operation;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return closed_ || !queue.empty(); });
            if (queue.empty()) {
                return;
            }
            operation = std::move(queue.front());
            queue.pop_front();
        }
        for (const CompletionRef &wait : operation.waits) {
            wait->wait();
        }
        device_.execute(operation);
    }
}

} // namespace ttrt
