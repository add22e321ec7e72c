// SPDX-License-Identifier: Apache-2.0
#include "controller/shard.h"

#include <algorithm>
#include <cstring>

#include "controller/controller.h"

namespace tutti::controller {

Shard::Shard(Controller &controller, uint32_t index)
    : controller_(controller), index_(index), random_(controller.config().seed ^ (index * 0xD1B54A32D192ED03ULL)) {}

bool Shard::turn(const Port &port) {
    context_.port = port;
    bool moved = collect_jobs(port);
    if (!controller_.serving())
        return moved;
    moved |= start_due(port);
    for (const auto &cq : cqs_)
        moved |= poll_cq(port, *cq);
    bool fetched = false;
    for (size_t i = 0; i < sqs_.size() && controller_.serving(); ++i) {
        SubmissionQueue &sq = *sqs_[i]; // the admin queue is the first; its commands may add queues behind it
        fetched |= poll_sq(port, sq);
        fetched |= fetch(port, sq);
    }
    moved |= fetched;
    if (!controller_.serving())
        return moved;
    moved |= release_windows(port, fetched);
    moved |= post_ready(port, fetched);
    return moved;
}

uint64_t Shard::deadline() const {
    uint64_t first = delayed_.empty() ? UINT64_MAX : delayed_.front()->due_ns;
    const uint64_t hold = controller_.config().hold_ns;
    for (const auto &sq : sqs_)
        // A starved queue without a time to hold waits for the others, and they make the next turn.
        if (!sq->window.empty() && (hold != 0 || controller_.config().order != TT_ORDER_STARVE))
            first = std::min(first, sq->window_since_ns + hold);
    if (hold != 0)
        for (const auto &cq : cqs_)
            if (!cq->ready.empty() && cq->room())
                first = std::min(first, cq->ready_since_ns + hold);
    return first;
}

// ---- doorbells ----

void Shard::bad_doorbell(uint8_t info) {
    counters.bad_doorbells.add();
    controller_.events().raise(0, info, 1);
}

bool Shard::poll_cq(const Port &port, CompletionQueue &cq) {
    const uint32_t value = port.load(controller_.registers().cq_doorbell(cq.qid));
    if (value == cq.seen)
        return false;
    cq.seen = value;
    counters.cq_doorbells.add();
    controller_.queue_counters(cq.qid).cq_doorbells.add();
    const uint32_t head = value & 0xFFFF;
    const uint32_t freed = head >= cq.head ? head - cq.head : head + cq.depth - cq.head;
    if (head >= cq.depth || freed > cq.outstanding) {
        bad_doorbell(1);
        return true;
    }
    cq.head = head;
    cq.outstanding -= freed;
    return true;
}

bool Shard::poll_sq(const Port &port, SubmissionQueue &sq) {
    if (sq.deleting)
        return false;
    const uint32_t value = port.load(controller_.registers().sq_doorbell(sq.qid));
    if (value == sq.seen)
        return false;
    sq.seen = value;
    counters.sq_doorbells.add();
    controller_.queue_counters(sq.qid).sq_doorbells.add();
    const uint32_t tail = value & 0xFFFF;
    const uint32_t added = tail >= sq.tail ? tail - sq.tail : tail + sq.depth - sq.tail;
    if (tail >= sq.depth || added + sq.waiting() > sq.depth - 1) {
        bad_doorbell(1); // past the end, or past the head: the tail stays where it was
        return true;
    }
    sq.tail = tail;
    return true;
}

// ---- from fetch to execution ----

bool Shard::fetch(const Port &port, SubmissionQueue &sq) {
    const uint32_t waiting = sq.waiting();
    if (waiting == 0 || sq.deleting || sq.outstanding >= sq.depth)
        return false;
    uint32_t count =
        std::min({waiting, sq.depth - sq.head, controller_.config().fetch_batch, sq.depth - sq.outstanding});
    count = sq.memory.contiguous(sq.head, count);
    if (!port.read(sq.memory.address(sq.head), fetched_, static_cast<uint64_t>(count) * kSqeBytes)) {
        controller_.fail(true);
        return true;
    }
    sq.head = sq.head + count == sq.depth ? 0 : sq.head + count;
    sq.fetched += count;
    sq.outstanding += count;
    counters.sqes_fetched.add(count);
    counters.fetches.add();
    controller_.queue_counters(sq.qid).commands.add(count);
    for (uint32_t i = 0; i < count && controller_.serving(); ++i) {
        if (i + 1 < count && sq.qid != 0)
            prefetch(fetched_[i + 1]);
        Command *command = pool_.take();
        command->sqe = fetched_[i];
        command->sq = &sq;
        begin(port, command);
    }
    return true;
}

// The first lines of what the next command reads: the wait for memory falls into the copy of this one.
void Shard::prefetch(const Sqe &sqe) const {
    constexpr uint64_t kLines = 8;
    Namespace *ns = sqe.opcode() == io_op::kRead ? controller_.find_namespace(sqe.nsid()) : nullptr;
    if (ns == nullptr || sqe.slba() >= ns->blocks() || ns->memory(Region::data) == nullptr)
        return;
    const uint8_t *at = ns->memory(Region::data) + (sqe.slba() << ns->lba_shift());
    for (uint64_t line = 0; line < kLines; ++line)
        __builtin_prefetch(at + line * 64);
}

void Shard::begin(const Port &port, Command *command) {
    SubmissionQueue &sq = *command->sq;
    const uint8_t opcode = command->sqe.opcode();
    (sq.qid == 0 ? counters.admin_commands : counters.io_commands)[opcode].add();
    if (sq.cids->test(command->sqe.cid())) {
        command->owns_cid = false;
        finish(port, command, status::kCidConflict);
        return;
    }
    sq.cids->set(command->sqe.cid());
    if (!controller_.faults().empty()) {
        command->fault = controller_.faults().strike(sq.qid, command->sqe);
        if (command->fault.action != 0) {
            counters.faults.add();
            if (apply_fault(port, command))
                return;
        }
    }
    const tt_controller_config &config = controller_.config();
    if (sq.qid != 0 && (config.latency_ns != 0 || config.slow_ppm != 0)) {
        const uint64_t latency = random_.chance(config.slow_ppm) ? config.slow_latency_ns : config.latency_ns;
        if (latency != 0) {
            delay(command, port.now_ns() + latency);
            return;
        }
    }
    execute(port, command);
}

// True: the command goes no further now.
bool Shard::apply_fault(const Port &port, Command *command) {
    const Fault &fault = command->fault;
    switch (fault.action) {
    case TT_FAULT_STATUS:
        finish(port, command, fault.status);
        return true;
    case TT_FAULT_DELAY:
        delay(command, port.now_ns() + fault.delay_ns);
        return true;
    case TT_FAULT_STUCK:
        delay(command, UINT64_MAX);
        return true;
    case TT_FAULT_FATAL:
        controller_.fail(false);
        return false;
    case TT_FAULT_FATAL_STOP:
        controller_.fail(true);
        delay(command, UINT64_MAX);
        return true;
    case TT_FAULT_GONE:
        controller_.vanish();
        delay(command, UINT64_MAX);
        return true;
    default:
        return false; // at completion
    }
}

void Shard::delay(Command *command, uint64_t due_ns) {
    command->due_ns = due_ns;
    command->order = order_++;
    delayed_.push_back(command);
    std::push_heap(delayed_.begin(), delayed_.end(), starts_later);
}

bool Shard::start_due(const Port &port) {
    if (delayed_.empty() || delayed_.front()->due_ns == UINT64_MAX)
        return false;
    const uint64_t now = port.now_ns();
    bool moved = false;
    while (!delayed_.empty() && delayed_.front()->due_ns <= now && controller_.serving()) {
        std::pop_heap(delayed_.begin(), delayed_.end(), starts_later);
        Command *command = delayed_.back();
        delayed_.pop_back();
        execute(port, command);
        moved = true;
    }
    return moved;
}

void Shard::execute(const Port &port, Command *command) {
    if (command->sq->qid == 0) {
        controller_.admin().execute(port, command);
        return;
    }
    if (controller_.config().kind == TT_KIND_NULL) {
        finish(port, command, status::kSuccess);
        return;
    }
    const Status bad = prepare_io(controller_, port, *command);
    if (bad != status::kSuccess) {
        finish(port, command, bad);
        return;
    }
    const bool blocking = command->ns == nullptr ? controller_.any_blocking() : command->ns->blocking();
    if (blocking && controller_.workers().running()) {
        ++jobs_;
        ++command->sq->jobs;
        controller_.workers().submit(command, this);
        return;
    }
    const Status status = run_io_guarded(controller_, context_, *command);
    finish(port, command, status);
}

void Shard::job_done(Command *command) {
    const std::lock_guard lock(done_mutex_);
    done_.push_back(command);
    any_done_.store(true, std::memory_order_release);
}

bool Shard::collect_jobs(const Port &port) {
    if (!any_done_.load(std::memory_order_acquire))
        return false;
    {
        const std::lock_guard lock(done_mutex_);
        collected_.swap(done_);
        any_done_.store(false, std::memory_order_relaxed);
    }
    for (Command *command : collected_) {
        --jobs_;
        --command->sq->jobs;
        if (controller_.serving())
            finish(port, command, command->status);
        else
            pool_.give(command);
    }
    collected_.clear();
    return true;
}

} // namespace tutti::controller
