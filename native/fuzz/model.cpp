// SPDX-License-Identifier: Apache-2.0
#include "fuzz/model.h"

#include <algorithm>

#include "fuzz/input.h"

namespace tutti::fuzz {

namespace {

constexpr uint64_t kEntry = 64;

uint32_t depth_of(const Sqe &sqe) { return (sqe.dw[10] >> 16) + 1; }

} // namespace

uint64_t Model::hits(uint32_t action) const {
    uint64_t sum = 0;
    if (const auto past = past_hits_.find(action); past != past_hits_.end())
        sum = past->second;
    for (const Rule &rule : rules_)
        if (rule.action == action)
            sum += controller_.faults().hits(rule.id);
    return sum;
}

void Model::remember_hits() {
    for (const Rule &rule : rules_)
        past_hits_[rule.action] += controller_.faults().hits(rule.id);
    rules_.clear();
}

// ---- queues come and go ----

void Model::watch_queues() {
    for (uint32_t i = 0; i <= controller_.config().io_queues; ++i) {
        const auto qid = static_cast<uint16_t>(i);
        const controller::CompletionQueue *cq = controller_.shard(0).find_cq(qid);
        if (const auto known = cqs.find(qid); known != cqs.end() && known->second.is != cq) {
            if (half_ == &known->second)
                half_ = nullptr;
            cqs.erase(known);
        }
        if (cq != nullptr && !cqs.contains(qid)) {
            check_created(qid, true, cq->depth, cq->memory.address(0));
            cqs[qid] = Completions{.is = cq, .depth = cq->depth};
        }
        const controller::SubmissionQueue *sq = controller_.shard(0).find_sq(qid);
        if (const auto known = sqs.find(qid); known != sqs.end() && known->second.is != sq)
            sqs.erase(known);
        if (sq != nullptr && !sqs.contains(qid)) {
            if (qid == 0)
                created_.clear();
            check_created(qid, false, sq->depth, sq->memory.address(0));
            Submission fresh;
            fresh.is = sq;
            fresh.cqid = sq->cq->qid;
            fresh.depth = sq->depth;
            fresh.counted = controller_.queue_counters(qid).commands.get();
            sqs.emplace(qid, std::move(fresh));
        }
    }
}

// A queue that nobody asked for, or of another size or place than was asked for.
void Model::check_created(uint16_t qid, bool completion, uint32_t depth, uint64_t first) const {
    if (qid == 0)
        return; // from the registers
    const uint8_t opcode = completion ? controller::admin_op::kCreateCq : controller::admin_op::kCreateSq;
    const bool asked = std::any_of(created_.begin(), created_.end(), [&](const Sqe &sqe) {
        return sqe.opcode() == opcode && (sqe.dw[10] & 0xFFFF) == qid && depth_of(sqe) == depth &&
               ((sqe.dw[11] & 1) == 0 || sqe.prp1() == first);
    });
    must(asked, "a queue that no command asked for");
    must(depth >= 2 && depth - 1 <= controller_.config().mqes, "a queue of a size that MQES does not allow");
}

// ---- fetches ----

void Model::settle() {
    for (auto &[qid, sq] : sqs) {
        if (controller_.shard(0).find_sq(qid) != sq.is)
            continue; // gone: see watch_queues
        const uint64_t now = controller_.queue_counters(qid).commands.get();
        if (now > sq.counted)
            take_fetch(qid, sq, now - sq.counted);
        sq.counted = now;
    }
    last_read_.reset();
    watch_queues();
}

void Model::take_fetch(uint16_t qid, Submission &sq, uint64_t count) {
    must(last_read_.has_value(), "commands were counted that were not read");
    const auto head = static_cast<uint32_t>(sq.fetched % sq.depth);
    must(last_read_->address == sq.is->memory.address(head) && last_read_->len == count * kEntry,
         "commands were read from another place than the head of their queue");
    const uint32_t waiting = (sq.tail + sq.depth - head) % sq.depth;
    must(count <= waiting, "a command was fetched that no doorbell announced");
    for (uint64_t i = 0; i < count; ++i) {
        Sqe sqe{};
        std::memcpy(&sqe, &last_bytes_[i * kEntry], kEntry);
        ++sq.fetched;
        fetched(qid, sq, sqe);
    }
}

void Model::fetched(uint16_t qid, Submission &sq, const Sqe &sqe) {
    ++sq.live[sqe.cid()];
    may_write_ += longest_answer(qid, sqe);
    if (qid != 0)
        return;
    if (sqe.opcode() == controller::admin_op::kCreateCq || sqe.opcode() == controller::admin_op::kCreateSq)
        created_.push_back(sqe);
    if (sqe.opcode() == controller::admin_op::kAsyncEvent)
        ++sq.events[sqe.cid()];
}

// Only a command that sends data to the host may write there.
uint64_t Model::longest_answer(uint16_t qid, const Sqe &sqe) const {
    if (qid == 0) {
        if (sqe.opcode() == controller::admin_op::kIdentify)
            return 4096;
        if (sqe.opcode() == controller::admin_op::kGetLog)
            return ((sqe.dw[10] >> 16 | static_cast<uint64_t>(sqe.dw[11] & 0xFFFF) << 16) + 1) * 4;
        return 0;
    }
    if (sqe.opcode() != controller::io_op::kRead || controller_.config().kind == TT_KIND_NULL)
        return 0;
    for (const auto &ns : controller_.namespaces())
        if (ns->nsid() == sqe.nsid())
            return ((sqe.dw[12] & 0xFFFF) + 1ULL) * ((1ULL << ns->lba_shift()) + ns->metadata_bytes());
    return 0;
}

void Model::before_read(uint64_t address, uint64_t len) {
    last_read_ = Read{address, len};
    last_bytes_.resize(len);
    memory_.peek(address, last_bytes_.data(), len);
}

// ---- completions and data ----

void Model::before_write(uint64_t address, const void *src, uint64_t len, bool allowed) {
    if (half_ != nullptr) {
        Completions &cq = *half_;
        half_ = nullptr;
        must(len == 4 && address == cq.is->memory.address(cq.tail) + 12, "dword 3 does not follow its completion");
        if (!allowed)
            return; // half an entry, the phase of which was not turned
        std::memcpy(&entry_[3], src, 4);
        check_entry(cq, entry_);
        ++cq.used;
        if (++cq.tail == cq.depth) {
            cq.tail = 0;
            cq.phase = !cq.phase;
        }
        return;
    }
    const uint64_t posted = controller_.shard(0).counters.cqes_posted.get();
    if (posted != posted_) {
        must(posted == posted_ + 1, "completions were counted that were not written");
        posted_ = posted;
        must(len == 12, "a completion was not written as its first three dwords");
        std::memcpy(entry_, src, 12);
        const auto sq = sqs.find(static_cast<uint16_t>(entry_[2] >> 16));
        must(sq != sqs.end(), "a completion of a queue that does not exist");
        const auto cq = cqs.find(sq->second.cqid);
        must(cq != cqs.end() && cq->second.is->memory.address(cq->second.tail) == address,
             "a completion in another queue than its submission queue names");
        if (allowed)
            half_ = &cq->second;
        return;
    }
    if (!allowed)
        return;
    written_ += len;
    must(written_ <= may_write_ + 4 * hits(TT_FAULT_CORRUPT), "more bytes went to the host than commands asked for");
}

void Model::check_entry(const Completions &cq, const uint32_t (&cqe)[4]) {
    must(cq.used < cq.depth - 1, "a completion queue was overrun");
    must((cqe[3] >> 16 & 1) == (cq.phase ? 1u : 0u), "a completion with the wrong phase");
    must(cqe[1] == 0, "dword 1 of a completion is not zero");
    Submission &sq = sqs.at(static_cast<uint16_t>(cqe[2] >> 16));
    const uint32_t head = cqe[2] & 0xFFFF;
    must(head < sq.depth, "SQHD is past the end of its queue");
    const uint64_t forward = (head + sq.depth - sq.reported % sq.depth) % sq.depth;
    must(sq.reported + forward <= sq.fetched, "SQHD is ahead of what was fetched, or went back");
    sq.reported += forward;
    const auto cid = static_cast<uint16_t>(cqe[3]);
    const auto live = sq.live.find(cid);
    if (live == sq.live.end()) {
        ++strays_;
        must(strays_ <= hits(TT_FAULT_DUPLICATE) + hits(TT_FAULT_UNKNOWN_CID),
             "a completion of a command that is not outstanding");
        return;
    }
    const uint32_t left = --live->second;
    // A host may give one identifier to an event request and to another command: one of them is refused, or both were
    // announced at once and one ended before the other began. Which one ended is not seen here, so it was the other
    // command while there is one: a request that still waits is never held to be lost.
    if (const auto event = sq.events.find(cid); event != sq.events.end()) {
        event->second = std::min(event->second, left);
        if (left == 0)
            sq.events.erase(event);
    }
    if (left == 0)
        sq.live.erase(live);
}

// ---- doorbells ----

void Model::loaded(uint64_t offset, uint32_t value) {
    if (offset < controller::reg::kDoorbells)
        return;
    const uint64_t index = (offset - controller::reg::kDoorbells) / (4ULL << controller_.config().dstrd);
    const auto qid = static_cast<uint16_t>(index / 2);
    const uint32_t place = value & 0xFFFF;
    if (index % 2 == 0) {
        const auto at = sqs.find(qid);
        if (at == sqs.end() || at->second.seen == value)
            return;
        Submission &sq = at->second;
        sq.seen = value;
        const auto head = static_cast<uint32_t>(sq.fetched % sq.depth);
        const uint32_t free = sq.depth - 1 - (sq.tail + sq.depth - head) % sq.depth;
        if (place < sq.depth && (place + sq.depth - sq.tail) % sq.depth <= free)
            sq.tail = place;
        else
            sq.bad_doorbell = true;
        return;
    }
    const auto at = cqs.find(qid);
    if (at == cqs.end() || at->second.seen == value)
        return;
    Completions &cq = at->second;
    cq.seen = value;
    const uint32_t given = (place + cq.depth - cq.head) % cq.depth;
    if (place >= cq.depth || given > cq.used) {
        cq.bad_doorbell = true;
        return;
    }
    cq.head = place;
    cq.used -= given;
}

// ---- turns ----

void Model::after_turn() {
    must(half_ == nullptr, "a completion without its last dword");
    must(controller_.shard(0).counters.cqes_posted.get() == posted_, "completions were counted that were not written");
    const uint64_t errors = controller_.errors().count();
    // An address that may not be touched is a status, or the end of the controller.
    if (refused_ && hits(TT_FAULT_CORRUPT) == 0)
        must(errors != errors_ || controller_.fatal() || controller_.gone(), "a refused access went unnoticed");
    refused_ = false;
    errors_ = errors;
}

bool Model::idle() const {
    return std::all_of(sqs.begin(), sqs.end(), [](const auto &entry) {
        const Submission &sq = entry.second;
        return sq.live == sq.events && sq.tail == sq.fetched % sq.depth;
    });
}

void Model::at_rest() {
    if (!controller_.serving() || hits(TT_FAULT_STUCK) != 0)
        return; // a stuck command keeps its place, and may keep others from theirs
    uint64_t unanswered = 0;
    for (const auto &[qid, sq] : sqs) {
        const auto cq = cqs.find(sq.cqid);
        must(cq != cqs.end(), "a submission queue without its completion queue");
        if (cq->second.bad_doorbell || sq.is->deleting)
            continue; // the host took its room away
        must(sq.tail == sq.fetched % sq.depth, "a command was announced and never fetched");
        for (const auto &[cid, count] : sq.live) {
            const auto event = sq.events.find(cid);
            unanswered += count - std::min(count, event == sq.events.end() ? 0 : event->second);
        }
    }
    must(unanswered <= hits(TT_FAULT_LOST) + hits(TT_FAULT_UNKNOWN_CID) + hits(TT_FAULT_DUPLICATE),
         "a command was fetched and never ended");
}

} // namespace tutti::fuzz
