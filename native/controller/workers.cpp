// SPDX-License-Identifier: Apache-2.0
#include "controller/workers.h"

#include "controller/controller.h"
#include "controller/direct_port.h"

namespace tutti::controller {

void Workers::start(uint32_t count) {
    stopping_ = false;
    try {
        for (uint32_t i = 0; i < count; ++i)
            threads_.emplace_back([this] { work(); });
    } catch (...) {
        stop();
        throw;
    }
}

void Workers::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread &thread : threads_)
        thread.join();
    threads_.clear();
}

void Workers::submit(Command *command, Shard *shard) {
    {
        const std::lock_guard lock(mutex_);
        jobs_.push_back({command, shard});
    }
    wake_.notify_one();
}

void Workers::work() {
    // A port of its own: an unmap waits for the copies of this thread too.
    tt_direct_port port(controller_.iommu());
    IoContext context;
    context.port = Port(port.view());
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
        if (jobs_.empty())
            return;
        const Job job = jobs_.front();
        jobs_.pop_front();
        lock.unlock();
        job.command->status = run_io_guarded(controller_, context, *job.command);
        job.shard->job_done(job.command);
        lock.lock();
    }
}

} // namespace tutti::controller
