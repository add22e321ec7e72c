// SPDX-License-Identifier: Apache-2.0
#include "controller/faults.h"

namespace tutti::controller {

uint64_t FaultTable::add(const tt_fault_rule &rule) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({++last_id_, rule, 0, 0});
    active_.store(true, std::memory_order_release);
    return last_id_;
}

bool FaultTable::remove(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto before = entries_.size();
    if (id == 0)
        entries_.clear();
    else
        std::erase_if(entries_, [id](const Entry &entry) { return entry.id == id; });
    active_.store(!entries_.empty(), std::memory_order_release);
    return id == 0 || entries_.size() != before;
}

uint64_t FaultTable::hits(uint64_t id) const {
    const std::lock_guard lock(mutex_);
    for (const Entry &entry : entries_)
        if (entry.id == id)
            return entry.hits;
    return UINT64_MAX;
}

bool FaultTable::matches(const tt_fault_rule &rule, uint16_t qid, const Sqe &sqe) {
    if ((rule.match & TT_MATCH_QID) != 0 ? rule.qid != qid : qid == 0)
        return false;
    if ((rule.match & TT_MATCH_OPCODE) != 0 && rule.opcode != sqe.opcode())
        return false;
    if ((rule.match & TT_MATCH_NSID) != 0 && rule.nsid != sqe.nsid())
        return false;
    if ((rule.match & TT_MATCH_CID) != 0 && rule.cid != sqe.cid())
        return false;
    if ((rule.match & TT_MATCH_LBA) != 0) {
        const uint8_t opcode = sqe.opcode();
        const bool has_range = opcode == io_op::kRead || opcode == io_op::kWrite || opcode == io_op::kCompare ||
                               opcode == io_op::kWriteZeroes || opcode == io_op::kVerify;
        if (!has_range || sqe.slba() > rule.lba_last || sqe.slba() + (sqe.blocks() - 1) < rule.lba_first)
            return false;
    }
    return true;
}

Fault FaultTable::strike(uint16_t qid, const Sqe &sqe) {
    const std::lock_guard lock(mutex_);
    for (Entry &entry : entries_) {
        const tt_fault_rule &rule = entry.rule;
        if (!matches(rule, qid, sqe))
            continue;
        ++entry.matches;
        if (entry.matches < rule.nth || (rule.count != 0 && entry.hits == rule.count))
            continue;
        if (rule.ppm != 0 && !random_.chance(rule.ppm))
            continue;
        ++entry.hits;
        const auto status =
            static_cast<Status>((rule.status & 0x7FF) | (rule.crd & 3) << 11 | (rule.dnr != 0 ? kDnr : 0));
        return {rule.action, status, rule.delay_ns, rule.corrupt_byte, rule.forge};
    }
    return {};
}

} // namespace tutti::controller
