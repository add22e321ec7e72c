// SPDX-License-Identifier: Apache-2.0
//
// What a host can hold a controller to, whatever it was sent. It watches the port: each fetch, each completion, each
// doorbell that was looked at, each byte that moved. It believes the controller's counters only to tell which of two
// accesses that look alike a fetch or a completion is; a count that no access explains is a fault too.
#ifndef TUTTI_FUZZ_MODEL_H
#define TUTTI_FUZZ_MODEL_H

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "controller/controller.h"
#include "fuzz/memory.h"

namespace tutti::fuzz {

using controller::Controller;
using controller::Sqe;

struct Submission {
    const controller::SubmissionQueue *is = nullptr; // the controller's, to know where its entries lie
    uint16_t cqid = 0;
    uint32_t depth = 0;
    uint32_t seen = 0; // last value of the doorbell that the controller looked at
    uint32_t tail = 0; // last that was valid
    uint64_t fetched = 0;
    uint64_t reported = 0;
    uint64_t counted = 0; // the controller's counter of fetched commands
    uint32_t host_tail = 0;
    bool bad_doorbell = false;
    std::map<uint16_t, uint32_t> live;   // fetched less completed, by command identifier
    std::map<uint16_t, uint32_t> events; // of those, event requests: they may wait for ever
};

struct Completions {
    const controller::CompletionQueue *is = nullptr;
    uint32_t depth = 0;
    uint32_t seen = 0;
    uint32_t head = 0;
    uint32_t tail = 0;
    uint32_t used = 0;
    bool phase = true;
    bool bad_doorbell = false;
};

class Model {
  public:
    Model(Controller &controller, Memory &memory) : controller_(controller), memory_(memory) {}

    // Before anything else in every callback: what happened since the last one.
    void settle();
    void before_read(uint64_t address, uint64_t len);
    void before_write(uint64_t address, const void *src, uint64_t len, bool allowed);
    void refused() { refused_ = true; }
    void loaded(uint64_t offset, uint32_t value);
    // Between two turns.
    void after_turn();
    // No command is outstanding and none is announced.
    bool idle() const;
    // Nothing is left to be done: everything that was fetched has its end, or a reason to have none.
    void at_rest();

    // A rule was added; the ones that change what may be seen are remembered.
    void rule(uint64_t id, uint32_t action) { rules_.push_back({id, action}); }
    uint64_t hits(uint32_t action) const;
    // A rule is about to be forgotten by the controller.
    void remember_hits();

    std::map<uint16_t, Submission> sqs;
    std::map<uint16_t, Completions> cqs;

  private:
    struct Rule {
        uint64_t id;
        uint32_t action;
    };
    struct Read {
        uint64_t address;
        uint64_t len;
    };

    void watch_queues();
    void check_created(uint16_t qid, bool completion, uint32_t depth, uint64_t first) const;
    void take_fetch(uint16_t qid, Submission &sq, uint64_t count);
    void fetched(uint16_t qid, Submission &sq, const Sqe &sqe);
    void check_entry(const Completions &cq, const uint32_t (&cqe)[4]);
    uint64_t longest_answer(uint16_t qid, const Sqe &sqe) const;

    Controller &controller_;
    Memory &memory_;
    std::optional<Read> last_read_;
    std::vector<uint8_t> last_bytes_;
    uint64_t posted_ = 0;         // completions that the controller counted
    Completions *half_ = nullptr; // a completion whose last dword is to come
    uint32_t entry_[4] = {};      // it
    uint64_t may_write_ = 0;      // bytes that all commands fetched so far may send to the host
    uint64_t written_ = 0;        // bytes that went there
    uint64_t strays_ = 0;         // completions for nobody
    bool refused_ = false;        // the port refused an access in this turn
    uint64_t errors_ = 0;         // that the controller recorded before this turn
    std::vector<Rule> rules_;
    std::map<uint32_t, uint64_t> past_hits_;
    std::vector<Sqe> created_; // Create commands since the admin queue exists
};

} // namespace tutti::fuzz

#endif
