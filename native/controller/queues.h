// SPDX-License-Identifier: Apache-2.0
//
// Submission and completion queues: where they lie, how far each side is.
#ifndef TUTTI_CONTROLLER_QUEUES_H
#define TUTTI_CONTROLLER_QUEUES_H

#include <bitset>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "controller/counters.h"
#include "controller/memory_port.h"
#include "controller/status.h"
#include "controller/transfer.h"
#include "controller/wire.h"

namespace tutti::controller {

// A ring of entries in host memory, in one piece (PC = 1) or in pages (PC = 0).
class QueueMemory {
  public:
    QueueMemory(uint64_t base, uint32_t entry_bytes) : entry_bytes_(entry_bytes), base_(base) {}
    QueueMemory(std::vector<uint64_t> pages, uint64_t page_bytes, uint32_t entry_bytes)
        : entry_bytes_(entry_bytes), page_bytes_(page_bytes), pages_(std::move(pages)) {}

    uint64_t address(uint32_t index) const {
        const uint64_t offset = static_cast<uint64_t>(index) * entry_bytes_;
        return pages_.empty() ? base_ + offset : pages_[offset / page_bytes_] + offset % page_bytes_;
    }
    // Entries from `index` on that lie in one piece.
    uint32_t contiguous(uint32_t index, uint32_t count) const {
        if (pages_.empty())
            return count;
        const auto per_page = static_cast<uint32_t>(page_bytes_ / entry_bytes_);
        const uint32_t here = per_page - index % per_page;
        return here < count ? here : count;
    }

  private:
    uint32_t entry_bytes_;
    uint64_t base_ = 0;
    uint64_t page_bytes_ = 0;
    std::vector<uint64_t> pages_;
};

struct CompletionQueue;
struct SubmissionQueue;

struct Completion {
    SubmissionQueue *sq;
    uint16_t cid;
    Status status;
    uint32_t result;
    bool owns_cid;    // false: the CID belongs to another command that is still outstanding
    bool duplicate;   // fault: post it twice
    bool unknown_cid; // fault: post one for nobody before it
    bool forged;      // fault: post one that differs in the bits of `forge` before it
    uint64_t forge;
};

struct SubmissionQueue {
    SubmissionQueue(uint16_t id, uint32_t entries, QueueMemory where, CompletionQueue *target)
        : qid(id), depth(entries), memory(std::move(where)), cq(target), cids(std::make_unique<Cids>()) {}

    uint32_t waiting() const { return tail >= head ? tail - head : tail + depth - head; }

    const uint16_t qid;
    const uint32_t depth;
    const QueueMemory memory;
    CompletionQueue *const cq;

    uint32_t seen = 0; // the doorbell's last value
    uint32_t tail = 0;
    uint32_t head = 0;
    uint64_t fetched = 0;
    uint64_t reported = 0;    // what CQEs said of `fetched`
    uint32_t outstanding = 0; // fetched, and no CQE posted
    uint32_t jobs = 0;        // handed to a worker
    bool deleting = false;
    std::vector<Completion> window; // completions to be reordered
    uint64_t window_since_ns = 0;

    using Cids = std::bitset<65536>;
    std::unique_ptr<Cids> cids; // outstanding
};

struct CompletionQueue {
    CompletionQueue(uint16_t id, uint32_t entries, QueueMemory where)
        : qid(id), depth(entries), memory(std::move(where)) {}

    bool room() const { return outstanding < depth - 1; }

    const uint16_t qid;
    const uint32_t depth;
    const QueueMemory memory;

    uint32_t seen = 0;
    uint32_t head = 0;
    uint32_t tail = 0;
    bool phase = true;
    uint32_t outstanding = 0;     // posted, and not given back by the head doorbell
    uint32_t users = 0;           // SQs
    std::deque<Completion> ready; // waiting for room, or for a batch
    uint64_t ready_since_ns = 0;
};

// Of one queue id, since the last reset; written by the thread that serves the queue.
struct QueueCounters {
    std::atomic<uint32_t> depth{0};
    Counter sq_doorbells, cq_doorbells, commands, completions;
};

} // namespace tutti::controller

#endif
