// SPDX-License-Identifier: Apache-2.0
//
// What the controller tells unasked (asynchronous events), and what it remembers of errors.
#ifndef TUTTI_CONTROLLER_EVENTS_H
#define TUTTI_CONTROLLER_EVENTS_H

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "controller/status.h"
#include "controller/wire.h"

namespace tutti::controller {

// Events that wait for a request of the host. An event of a type that was reported masks further ones of its type until
// its log page is read. Thread safe.
class Events {
  public:
    void raise(uint8_t type, uint8_t info, uint8_t log_page) {
        const std::lock_guard lock(mutex_);
        if ((masked_ >> type & 1) != 0)
            return;
        masked_ |= 1u << type;
        pending_.push_back(type | static_cast<uint32_t>(info) << 8 | static_cast<uint32_t>(log_page) << 16);
        any_.store(true, std::memory_order_release);
    }
    bool any() const { return any_.load(std::memory_order_acquire); }
    // The result dword of the oldest event; only while any().
    uint32_t take() {
        const std::lock_guard lock(mutex_);
        const uint32_t event = pending_.front();
        pending_.pop_front();
        any_.store(!pending_.empty(), std::memory_order_release);
        return event;
    }
    void log_page_read(uint8_t log_page) {
        const std::lock_guard lock(mutex_);
        if (log_page == 1)
            masked_ &= ~1u;
    }
    void clear() {
        const std::lock_guard lock(mutex_);
        pending_.clear();
        masked_ = 0;
        any_.store(false, std::memory_order_release);
    }

  private:
    std::mutex mutex_;
    std::atomic<bool> any_{false};
    uint32_t masked_ = 0;
    std::deque<uint32_t> pending_;
};

// The error information log. Thread safe.
class ErrorLog {
  public:
    static constexpr uint32_t kEntries = 64;
    static constexpr uint32_t kEntryBytes = 64;

    void record(uint16_t qid, const Sqe &sqe, Status status) {
        const std::lock_guard lock(mutex_);
        const uint64_t number = count_++;
        entries_[number % kEntries] = {number + 1, qid, sqe.cid(), status, sqe.slba(), sqe.nsid()};
    }
    uint64_t count() const {
        const std::lock_guard lock(mutex_);
        return count_;
    }
    // Newest first, kEntries * kEntryBytes bytes.
    void write(uint8_t *page) const {
        const std::lock_guard lock(mutex_);
        for (uint64_t i = 0; i < kEntries && i < count_; ++i) {
            const Entry &entry = entries_[(count_ - 1 - i) % kEntries];
            uint8_t *at = page + i * kEntryBytes;
            put<uint64_t>(at, 0, entry.number);
            put<uint16_t>(at, 8, entry.qid);
            put<uint16_t>(at, 10, entry.cid);
            put<uint16_t>(at, 12, static_cast<uint16_t>(entry.status << 1));
            put<uint16_t>(at, 14, 0xFFFF); // no one byte of the command is to blame
            put<uint64_t>(at, 16, entry.lba);
            put<uint32_t>(at, 24, entry.nsid);
        }
    }

  private:
    struct Entry {
        uint64_t number;
        uint16_t qid;
        uint16_t cid;
        Status status;
        uint64_t lba;
        uint32_t nsid;
    };
    mutable std::mutex mutex_;
    uint64_t count_ = 0;
    Entry entries_[kEntries] = {};
};

} // namespace tutti::controller

#endif
