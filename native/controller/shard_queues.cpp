// SPDX-License-Identifier: Apache-2.0
//
// What the admin queue does to a shard's queues: find, abort, retire, remove, drop.
#include <algorithm>

#include "controller/controller.h"
#include "controller/shard.h"

namespace tutti::controller {

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
    std::make_heap(delayed_.begin(), delayed_.end(), starts_later);
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
    std::make_heap(delayed_.begin(), delayed_.end(), starts_later);
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
