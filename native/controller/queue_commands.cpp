// SPDX-License-Identifier: Apache-2.0
//
// Create and delete I/O queues, with every refusal.
#include <algorithm>

#include "controller/admin.h"
#include "controller/controller.h"

namespace tutti::controller {

namespace {

uint16_t queue_id(const Sqe &sqe) { return static_cast<uint16_t>(sqe.dw[10]); }
uint32_t queue_size(const Sqe &sqe) { return sqe.dw[10] >> 16; } // 0-based
bool contiguous(const Sqe &sqe) { return (sqe.dw[11] & 1) != 0; }

} // namespace

SubmissionQueue *Admin::find_sq(uint16_t qid) const {
    for (uint32_t i = 0; i < controller_.shard_count(); ++i)
        if (SubmissionQueue *sq = controller_.shard(i).find_sq(qid))
            return sq;
    return nullptr;
}

CompletionQueue *Admin::find_cq(uint16_t qid) const { return controller_.shard_of_cq(qid).find_cq(qid); }

Status Admin::check_new_queue(const Sqe &sqe, uint16_t granted) const {
    if (controller_.config().need_queue_count != 0 && !queues_granted_)
        return status::kSequence;
    if (queue_id(sqe) == 0 || queue_id(sqe) > granted)
        return status::kQueueId;
    if (queue_size(sqe) == 0 || queue_size(sqe) > controller_.config().mqes)
        return status::kQueueSize;
    return status::kSuccess;
}

// `pages` stays empty for a queue in one piece.
Status Admin::queue_memory(const Port &port, const Sqe &sqe, uint32_t entry_bytes, std::vector<uint64_t> *pages) const {
    const uint64_t page = controller_.page_bytes();
    if (contiguous(sqe)) {
        if (sqe.prp1() == 0)
            return status::kInvalidField;
        return sqe.prp1() % page != 0 ? status::kPrpOffset : status::kSuccess;
    }
    if (controller_.config().cqr != 0)
        return status::kInvalidField;
    // PRP1 is a list of the queue's pages, laid out like any other.
    const uint64_t bytes = (queue_size(sqe) + 1ULL) * entry_bytes;
    const uint64_t count = (bytes + page - 1) / page;
    uint64_t at = sqe.prp1();
    if (at == 0)
        return status::kInvalidField;
    if (at % page != 0)
        return status::kPrpOffset;
    while (pages->size() < count) {
        uint64_t entry = 0;
        if (!port.read(at, &entry, sizeof entry))
            return status::kDataTransfer;
        if (entry == 0)
            return status::kInvalidField;
        if (entry % page != 0)
            return status::kPrpOffset;
        const bool last_of_list = (at + 8) % page == 0;
        if (last_of_list && count - pages->size() > 1) {
            at = entry;
            continue;
        }
        pages->push_back(entry);
        at += 8;
    }
    return status::kSuccess;
}

Status Admin::create_cq(const Port &port, const Sqe &sqe) {
    if (const Status bad = check_new_queue(sqe, granted_cqs_); bad != status::kSuccess)
        return bad;
    const uint16_t qid = queue_id(sqe);
    if (find_cq(qid) != nullptr)
        return status::kQueueId;
    if (!controller_.entry_sizes_fit_cq())
        return status::kQueueSize; // CC.IOCQES is not the entry size that Identify declares
    const bool interrupts = (sqe.dw[11] & 2) != 0;
    if (interrupts && sqe.dw[11] >> 16 >= controller_.config().interrupt_vectors)
        return status::kInterruptVector;
    std::vector<uint64_t> pages;
    if (const Status bad = queue_memory(port, sqe, kCqeBytes, &pages); bad != status::kSuccess)
        return bad;
    QueueMemory memory = pages.empty() ? QueueMemory(sqe.prp1(), kCqeBytes)
                                       : QueueMemory(std::move(pages), controller_.page_bytes(), kCqeBytes);
    auto cq = std::make_unique<CompletionQueue>(qid, queue_size(sqe) + 1, std::move(memory));
    controller_.registers().open_doorbell(port, 2u * qid + 1);
    controller_.with_shard(controller_.shard_of_cq(qid), [&](Shard &shard) { shard.add(std::move(cq)); });
    ++io_queues_;
    return status::kSuccess;
}

Status Admin::create_sq(const Port &port, const Sqe &sqe) {
    if (const Status bad = check_new_queue(sqe, granted_sqs_); bad != status::kSuccess)
        return bad;
    const uint16_t qid = queue_id(sqe);
    const auto cqid = static_cast<uint16_t>(sqe.dw[11] >> 16);
    if (find_sq(qid) != nullptr)
        return status::kQueueId;
    if (cqid == 0 || cqid > granted_cqs_)
        return status::kQueueId; // an id that no I/O CQ can have
    CompletionQueue *cq = find_cq(cqid);
    if (cq == nullptr)
        return status::kCqInvalid;
    if (!controller_.entry_sizes_fit_sq())
        return status::kQueueSize;
    std::vector<uint64_t> pages;
    if (const Status bad = queue_memory(port, sqe, kSqeBytes, &pages); bad != status::kSuccess)
        return bad;
    QueueMemory memory = pages.empty() ? QueueMemory(sqe.prp1(), kSqeBytes)
                                       : QueueMemory(std::move(pages), controller_.page_bytes(), kSqeBytes);
    auto sq = std::make_unique<SubmissionQueue>(qid, queue_size(sqe) + 1, std::move(memory), cq);
    controller_.registers().open_doorbell(port, 2u * qid);
    controller_.queue_counters(qid).depth.store(sq->depth, std::memory_order_relaxed);
    controller_.with_shard(controller_.shard_of_cq(cqid), [&](Shard &shard) {
        ++cq->users;
        shard.add(std::move(sq));
    });
    ++io_queues_;
    return status::kSuccess;
}

Status Admin::delete_sq(const Port &port, Command &command, bool *later) {
    const uint16_t qid = queue_id(command.sqe);
    SubmissionQueue *sq = qid == 0 ? nullptr : find_sq(qid);
    if (sq == nullptr || sq->deleting)
        return status::kQueueId;
    controller_.with_shard(controller_.shard_of_cq(sq->cq->qid), [&](Shard &shard) { shard.retire(port, *sq); });
    deletions_.push_back({&command, qid});
    *later = true; // when no worker has a command of the queue any more
    return status::kSuccess;
}

Status Admin::delete_cq(const Sqe &sqe) {
    const uint16_t qid = queue_id(sqe);
    CompletionQueue *cq = qid == 0 ? nullptr : find_cq(qid);
    if (cq == nullptr)
        return status::kQueueId;
    if (cq->users != 0)
        return status::kQueueDeletion;
    controller_.registers().close_doorbell(2u * qid + 1, cq->seen);
    controller_.with_shard(controller_.shard_of_cq(qid), [&](Shard &shard) { shard.remove(*cq); });
    --io_queues_;
    return status::kSuccess;
}

} // namespace tutti::controller
