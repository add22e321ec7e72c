// SPDX-License-Identifier: Apache-2.0
#include "controller/admin.h"

#include <algorithm>

#include "controller/controller.h"

namespace tutti::controller {

void Admin::execute(const Port &port, Command *command) {
    bool later = false;
    const Status status = carry_out(port, *command, &later);
    if (!later)
        controller_.shard(0).finish(port, command, status);
}

Status Admin::carry_out(const Port &port, Command &command, bool *later) {
    const Sqe &sqe = command.sqe;
    // SGLs are not for admin commands over PCIe; fused admin commands do not exist.
    const bool plain = sqe.fuse() == 0 && sqe.psdt() == 0;
    switch (sqe.opcode()) {
    case admin_op::kDeleteSq:
        return plain ? delete_sq(port, command, later) : status::kInvalidField;
    case admin_op::kCreateSq:
        return plain ? create_sq(port, sqe) : status::kInvalidField;
    case admin_op::kGetLog:
        return plain ? get_log(port, sqe) : status::kInvalidField;
    case admin_op::kDeleteCq:
        return plain ? delete_cq(sqe) : status::kInvalidField;
    case admin_op::kCreateCq:
        return plain ? create_cq(port, sqe) : status::kInvalidField;
    case admin_op::kIdentify:
        return plain ? identify(port, sqe) : status::kInvalidField;
    case admin_op::kAbort:
        return plain ? abort(port, command) : status::kInvalidField;
    case admin_op::kSetFeatures:
        return plain ? set_feature(command) : status::kInvalidField;
    case admin_op::kGetFeatures:
        return plain ? get_feature(command) : status::kInvalidField;
    case admin_op::kAsyncEvent:
        return plain ? request_event(command, later) : status::kInvalidField;
    default:
        return status::kInvalidOpcode;
    }
}

Status Admin::send(const Port &port, const Sqe &sqe, const void *bytes, uint64_t len) const {
    Segments segments;
    if (const Status bad = parse_prp(port, controller_.page_bytes(), sqe.prp1(), sqe.prp2(), len, segments);
        bad != status::kSuccess)
        return bad;
    return Cursor(segments).to_host(port, bytes, len) ? status::kSuccess : status::kDataTransfer;
}

Status Admin::identify(const Port &port, const Sqe &sqe) {
    uint8_t page[4096] = {};
    const Status bad = fill_identify(controller_, sqe, page);
    return bad != status::kSuccess ? bad : send(port, sqe, page, sizeof page);
}

Status Admin::abort(const Port &port, Command &command) {
    const auto sqid = static_cast<uint16_t>(command.sqe.dw[10]);
    const auto cid = static_cast<uint16_t>(command.sqe.dw[10] >> 16);
    command.result = 1; // not aborted
    SubmissionQueue *sq = find_sq(sqid);
    if (sq == nullptr)
        return status::kInvalidField;
    const bool done = controller_.with_shard(controller_.shard_of_cq(sq->cq->qid),
                                             [&](Shard &shard) { return shard.abort(port, *sq, cid); });
    command.result = done ? 0 : 1;
    return status::kSuccess;
}

Status Admin::request_event(Command &command, bool *later) {
    if (event_requests_.size() > controller_.config().aerl)
        return status::kEventLimit;
    event_requests_.push_back(&command);
    --command.sq->outstanding; // it may wait for ever, and must not hold a place of the queue
    *later = true;
    return status::kSuccess;
}

bool Admin::turn(const Port &port) {
    if (!controller_.serving())
        return false;
    bool moved = false;
    while (!event_requests_.empty() && controller_.events().any()) {
        Command *command = event_requests_.front();
        event_requests_.erase(event_requests_.begin());
        command->result = controller_.events().take();
        ++command->sq->outstanding;
        controller_.shard(0).finish(port, command, status::kSuccess);
        moved = true;
    }
    for (size_t i = 0; i < deletions_.size();) {
        const Deletion deletion = deletions_[i];
        SubmissionQueue *sq = find_sq(deletion.qid);
        const bool back = controller_.with_shard(controller_.shard_of_cq(sq->cq->qid), [&](Shard &shard) {
            if (sq->jobs != 0)
                return false;
            controller_.registers().close_doorbell(2u * sq->qid, sq->seen);
            shard.remove(port, *sq);
            return true;
        });
        if (!back) {
            ++i;
            continue;
        }
        deletions_.erase(deletions_.begin() + static_cast<std::ptrdiff_t>(i));
        --io_queues_;
        controller_.shard(0).finish(port, deletion.command, status::kSuccess);
        moved = true;
    }
    return moved;
}

void Admin::drop_commands() {
    for (Command *command : event_requests_)
        controller_.shard(0).discard(command);
    for (const Deletion &deletion : deletions_)
        controller_.shard(0).discard(deletion.command);
    event_requests_.clear();
    deletions_.clear();
}

} // namespace tutti::controller
