// SPDX-License-Identifier: Apache-2.0
#include "controller/shard.h"

#include <algorithm>
#include <cstring>

#include "controller/controller.h"

namespace tutti::controller {

namespace {

// A heap of pointers with the earliest on top.
bool later(const Command *a, const Command *b) {
    return a->due_ns != b->due_ns ? a->due_ns > b->due_ns : a->order > b->order;
}

} // namespace

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
    std::push_heap(delayed_.begin(), delayed_.end(), later);
}

bool Shard::start_due(const Port &port) {
    if (delayed_.empty() || delayed_.front()->due_ns == UINT64_MAX)
        return false;
    const uint64_t now = port.now_ns();
    bool moved = false;
    while (!delayed_.empty() && delayed_.front()->due_ns <= now && controller_.serving()) {
        std::pop_heap(delayed_.begin(), delayed_.end(), later);
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

// ---- completion ----

void Shard::corrupt(const Port &port, const Command &command) const {
    uint64_t at = command.fault.corrupt_byte;
    for (const Segment &segment : command.data) {
        if (at >= segment.len) {
            at -= segment.len;
            continue;
        }
        if (segment.bus == kBitBucket)
            return;
        // A whole word where the segment holds one: a port need not have smaller writes.
        const uint64_t bus = segment.bus + at;
        const uint64_t word = bus & ~3ULL;
        const bool whole = word >= segment.bus && word + 4 <= segment.bus + segment.len;
        uint8_t bytes[4];
        if (port.read(whole ? word : bus, bytes, whole ? 4 : 1)) {
            bytes[whole ? bus - word : 0] ^= 1;
            port.write(whole ? word : bus, bytes, whole ? 4 : 1);
        }
        return;
    }
}

void Shard::finish(const Port &port, Command *command, Status status) {
    SubmissionQueue &sq = *command->sq;
    counters.bytes_read.add(command->bytes_to_host);
    counters.bytes_written.add(command->bytes_from_host);
    const uint32_t action = command->fault.action;
    if (action == TT_FAULT_STATUS_LATE)
        status = command->fault.status;
    if (action == TT_FAULT_CORRUPT && status == status::kSuccess && command->sqe.opcode() == io_op::kRead)
        corrupt(port, *command);
    if (status != status::kSuccess)
        controller_.errors().record(sq.qid, command->sqe, status);
    if (action == TT_FAULT_LOST) {
        sq.cids->reset(command->sqe.cid());
        --sq.outstanding;
        counters.cqes_lost.add();
    } else {
        complete(port, {&sq, command->sqe.cid(), status, command->result, command->owns_cid,
                        action == TT_FAULT_DUPLICATE, action == TT_FAULT_UNKNOWN_CID});
    }
    pool_.give(command);
}

void Shard::complete(const Port &port, const Completion &completion) {
    const tt_controller_config &config = controller_.config();
    SubmissionQueue &sq = *completion.sq;
    const bool in_order = config.order == TT_ORDER_FIFO || sq.qid == 0 ||
                          (config.order == TT_ORDER_STARVE && sq.qid != config.starved_queue);
    if (in_order || sq.deleting) {
        enqueue(port, completion);
        return;
    }
    if (sq.window.empty() && config.hold_ns != 0)
        sq.window_since_ns = port.now_ns();
    sq.window.push_back(completion);
    if (config.order != TT_ORDER_STARVE && sq.window.size() >= config.order_window)
        release_window(port, sq);
}

void Shard::release_window(const Port &port, SubmissionQueue &sq) {
    const uint32_t order = controller_.config().order;
    if (order == TT_ORDER_REVERSE)
        std::reverse(sq.window.begin(), sq.window.end());
    if (order == TT_ORDER_RANDOM)
        for (size_t i = sq.window.size(); i > 1; --i)
            std::swap(sq.window[i - 1], sq.window[random_.below(i)]);
    for (const Completion &completion : sq.window)
        enqueue(port, completion);
    sq.window.clear();
}

void Shard::enqueue(const Port &port, const Completion &completion) {
    CompletionQueue &cq = *completion.sq->cq;
    const tt_controller_config &config = controller_.config();
    if (cq.ready.empty() && (config.cqe_batch <= 1 || cq.qid == 0) && post(port, cq, completion))
        return;
    if (cq.ready.empty() && config.hold_ns != 0)
        cq.ready_since_ns = port.now_ns();
    cq.ready.push_back(completion);
}

bool Shard::others_are_busy(const SubmissionQueue &sq) const {
    return std::any_of(sqs_.begin(), sqs_.end(), [&sq](const auto &other) {
        return other->qid != 0 && other.get() != &sq && (other->outstanding != 0 || other->waiting() != 0);
    });
}

bool Shard::release_windows(const Port &port, bool moved) {
    const tt_controller_config &config = controller_.config();
    if (config.order == TT_ORDER_FIFO)
        return false;
    bool released = false;
    for (const auto &sq : sqs_) {
        if (sq->window.empty())
            continue;
        const bool held = config.hold_ns != 0 && port.now_ns() < sq->window_since_ns + config.hold_ns;
        const bool wait =
            config.order == TT_ORDER_STARVE ? others_are_busy(*sq) && (config.hold_ns == 0 || held) : moved || held;
        if (wait)
            continue;
        release_window(port, *sq);
        released = true;
    }
    return released;
}

bool Shard::post_ready(const Port &port, bool moved) {
    const tt_controller_config &config = controller_.config();
    bool posted = false;
    for (const auto &cq : cqs_) {
        if (cq->ready.empty())
            continue;
        // A batch that could not fit its CQ would wait for ever.
        const uint32_t batch = std::min(config.cqe_batch, cq->depth - 1);
        if (cq->qid != 0 && cq->ready.size() < batch &&
            (moved || (config.hold_ns != 0 && port.now_ns() < cq->ready_since_ns + config.hold_ns)))
            continue;
        while (!cq->ready.empty() && post(port, *cq, cq->ready.front())) {
            cq->ready.pop_front();
            posted = true;
        }
        if (!cq->ready.empty())
            counters.cq_full_waits.add();
    }
    return posted;
}

// Never overruns the CQ: false when there is no room for all entries that this completion takes.
bool Shard::post(const Port &port, CompletionQueue &cq, const Completion &completion) {
    const uint32_t slots = 1 + (completion.duplicate ? 1 : 0) + (completion.unknown_cid ? 1 : 0);
    // In a CQ that cannot ever hold them together the extra entries are left out.
    const bool extras = slots <= cq.depth - 1;
    if (cq.outstanding + (extras ? slots : 1) > cq.depth - 1)
        return false;
    SubmissionQueue &sq = *completion.sq;
    if (extras && completion.unknown_cid) {
        auto stranger = static_cast<uint16_t>(completion.cid + 0x4000);
        while (sq.cids->test(stranger))
            ++stranger;
        write_cqe(port, cq, sq, stranger, status::kSuccess, 0);
    }
    if (completion.owns_cid)
        sq.cids->reset(completion.cid);
    --sq.outstanding;
    // Counted first: who sees the CQE finds it counted.
    if (completion.status != status::kSuccess)
        counters.errors.add();
    controller_.queue_counters(sq.qid).completions.add();
    for (int i = 0; i < (extras && completion.duplicate ? 2 : 1); ++i)
        if (!write_cqe(port, cq, sq, completion.cid, completion.status, completion.result))
            break;
    return true;
}

bool Shard::write_cqe(const Port &port, CompletionQueue &cq, SubmissionQueue &sq, uint16_t cid, Status status,
                      uint32_t result) {
    // The reported head may trail, but never moves back, and always leaves the host at least one free slot.
    const uint64_t lag = std::min<uint64_t>(controller_.config().sqhd_lag, sq.depth - 2);
    if (sq.fetched > lag)
        sq.reported = std::max(sq.reported, sq.fetched - lag);
    const auto head = static_cast<uint32_t>(sq.reported % sq.depth);
    const uint32_t cqe[4] = {result, 0, head | static_cast<uint32_t>(sq.qid) << 16,
                             cid | (cq.phase ? 1u << 16 : 0) | static_cast<uint32_t>(status) << 17};
    const uint64_t bus = cq.memory.address(cq.tail);
    counters.cqes_posted.add();
    // Dword 3 is published by a write of its own, after the rest.
    if (!port.write(bus, cqe, 12) || !port.write(bus + 12, &cqe[3], 4)) {
        controller_.fail(true);
        return false;
    }
    if (++cq.tail == cq.depth) {
        cq.tail = 0;
        cq.phase = !cq.phase;
    }
    ++cq.outstanding;
    return true;
}

// ---- for the admin queue ----

SubmissionQueue *Shard::find_sq(uint16_t qid) const {
    for (const auto &sq : sqs_)
        if (sq->qid == qid)
            return sq.get();
    return nullptr;
}

CompletionQueue *Shard::find_cq(uint16_t qid) const {
    for (const auto &cq : cqs_)
        if (cq->qid == qid)
            return cq.get();
    return nullptr;
}

bool Shard::abort(const Port &port, SubmissionQueue &sq, uint16_t cid) {
    const auto found = std::find_if(delayed_.begin(), delayed_.end(), [&](const Command *command) {
        return command->sq == &sq && command->sqe.cid() == cid;
    });
    if (found == delayed_.end())
        return false;
    Command *command = *found;
    delayed_.erase(found);
    std::make_heap(delayed_.begin(), delayed_.end(), later);
    finish(port, command, status::kAborted);
    return true;
}

void Shard::retire(const Port &port, SubmissionQueue &sq) {
    sq.deleting = true;
    std::vector<Command *> ended;
    std::erase_if(delayed_, [&](Command *command) {
        if (command->sq != &sq)
            return false;
        ended.push_back(command);
        return true;
    });
    std::make_heap(delayed_.begin(), delayed_.end(), later);
    for (Command *command : ended)
        finish(port, command, status::kSqDeleted);
}

void Shard::remove(const Port &port, SubmissionQueue &sq) {
    for (const Completion &completion : sq.window)
        enqueue(port, completion);
    sq.window.clear();
    CompletionQueue &cq = *sq.cq;
    while (!cq.ready.empty() && post(port, cq, cq.ready.front()))
        cq.ready.pop_front();
    std::erase_if(cq.ready, [&sq](const Completion &completion) { return completion.sq == &sq; });
    --cq.users;
    controller_.queue_counters(sq.qid).depth.store(0, std::memory_order_relaxed);
    std::erase_if(sqs_, [&sq](const auto &other) { return other.get() == &sq; });
}

void Shard::remove(CompletionQueue &cq) {
    std::erase_if(cqs_, [&cq](const auto &other) { return other.get() == &cq; });
}

void Shard::drop_commands() {
    for (Command *command : delayed_)
        pool_.give(command);
    delayed_.clear();
    for (const auto &sq : sqs_) {
        sq->deleting = true;
        sq->window.clear();
    }
    for (const auto &cq : cqs_)
        cq->ready.clear();
}

void Shard::drop_queues() {
    sqs_.clear();
    cqs_.clear();
}

} // namespace tutti::controller
