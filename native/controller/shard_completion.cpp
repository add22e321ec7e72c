// SPDX-License-Identifier: Apache-2.0
//
// The way of a completion: in which order, in which batch, into which entry of its CQ.
#include <algorithm>

#include "controller/controller.h"
#include "controller/shard.h"

namespace tutti::controller {

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
        complete(port,
                 {&sq, command->sqe.cid(), status, command->result, command->owns_cid, action == TT_FAULT_DUPLICATE,
                  action == TT_FAULT_UNKNOWN_CID, action == TT_FAULT_FORGED, command->fault.forge});
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
    const bool extra = completion.duplicate || completion.unknown_cid || completion.forged;
    const uint32_t slots = extra ? 2 : 1;
    // In a CQ that cannot ever hold them together the extra entries are left out.
    const bool extras = slots <= cq.depth - 1;
    if (cq.outstanding + (extras ? slots : 1) > cq.depth - 1)
        return false;
    SubmissionQueue &sq = *completion.sq;
    // Nor is there a stranger while every identifier is some command's.
    if (extras && completion.unknown_cid && !sq.cids->all()) {
        auto stranger = static_cast<uint16_t>(completion.cid + 0x4000);
        while (sq.cids->test(stranger))
            ++stranger;
        write_cqe(port, cq, sq, stranger, status::kSuccess, 0);
    }
    if (extras && completion.forged)
        write_cqe(port, cq, sq, completion.cid, completion.status, completion.result, completion.forge);
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
                      uint32_t result, uint64_t forge) {
    // The reported head may trail, but never moves back, and always leaves the host at least one free slot.
    const uint64_t lag = std::min<uint64_t>(controller_.config().sqhd_lag, sq.depth - 2);
    if (sq.fetched > lag)
        sq.reported = std::max(sq.reported, sq.fetched - lag);
    const auto head = static_cast<uint32_t>(sq.reported % sq.depth);
    constexpr uint64_t kPhase = 1ULL << 48;
    forge &= ~kPhase;
    const uint32_t cqe[4] = {result, 0, (head | static_cast<uint32_t>(sq.qid) << 16) ^ static_cast<uint32_t>(forge),
                             (cid | (cq.phase ? 1u << 16 : 0) | static_cast<uint32_t>(status) << 17) ^
                                 static_cast<uint32_t>(forge >> 32)};
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

} // namespace tutti::controller
