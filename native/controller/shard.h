// SPDX-License-Identifier: Apache-2.0
//
// The part of a controller that one thread serves: some queues, and their commands from fetch to completion.
#ifndef TUTTI_CONTROLLER_SHARD_H
#define TUTTI_CONTROLLER_SHARD_H

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "controller/command.h"
#include "controller/counters.h"
#include "controller/io.h"
#include "controller/queues.h"
#include "controller/random.h"

namespace tutti::controller {

class Controller;

class Shard {
  public:
    Shard(Controller &controller, uint32_t index);

    // Once over everything. True: something moved, so look again at once.
    bool turn(const Port &port);
    // When a timer needs the next turn; UINT64_MAX: only a register's change does.
    uint64_t deadline() const;

    // A worker is done with a command. Thread safe.
    void job_done(Command *command);

    // -- What follows is called with the shard's lock held (or by its own thread) --
    void add(std::unique_ptr<CompletionQueue> cq) { cqs_.push_back(std::move(cq)); }
    void add(std::unique_ptr<SubmissionQueue> sq) { sqs_.push_back(std::move(sq)); }
    SubmissionQueue *find_sq(uint16_t qid) const;
    CompletionQueue *find_cq(uint16_t qid) const;
    // Ends the command if it has not started: false when there is no such command.
    bool abort(const Port &port, SubmissionQueue &sq, uint16_t cid);
    // Ends all commands of the queue that have not started, and fetches no more.
    void retire(const Port &port, SubmissionQueue &sq);
    // Posts what there is room for and forgets the queue. Only when no worker has a command of it.
    void remove(const Port &port, SubmissionQueue &sq);
    void remove(CompletionQueue &cq);
    // Forgets everything that has not been handed to a worker.
    void drop_commands();
    uint32_t jobs() const { return jobs_; }
    void drop_queues();
    // Ends a command of the admin queue that was answered later.
    void finish(const Port &port, Command *command, Status status);

    // Takes back a command that will never be answered.
    void discard(Command *command) { pool_.give(command); }
    // What another shard counted, before that one goes.
    void take_counters(const Shard &other) { counters.take(other.counters); }

    Counters counters;
    std::mutex mutex;
    std::atomic<bool> wanted{false}; // the admin thread waits for the lock

  private:
    bool poll_cq(const Port &port, CompletionQueue &cq);
    bool poll_sq(const Port &port, SubmissionQueue &sq);
    bool fetch(const Port &port, SubmissionQueue &sq);
    void prefetch(const Sqe &sqe) const;
    void begin(const Port &port, Command *command);
    void execute(const Port &port, Command *command);
    bool apply_fault(const Port &port, Command *command);
    void corrupt(const Port &port, const Command &command) const;
    void delay(Command *command, uint64_t due_ns);
    bool start_due(const Port &port);
    bool collect_jobs(const Port &port);
    void complete(const Port &port, const Completion &completion);
    void enqueue(const Port &port, const Completion &completion);
    void release_window(const Port &port, SubmissionQueue &sq);
    bool release_windows(const Port &port, bool moved);
    bool post_ready(const Port &port, bool moved);
    bool post(const Port &port, CompletionQueue &cq, const Completion &completion);
    bool write_cqe(const Port &port, CompletionQueue &cq, SubmissionQueue &sq, uint16_t cid, Status status,
                   uint32_t result, uint64_t forge = 0);
    bool others_are_busy(const SubmissionQueue &sq) const;
    void bad_doorbell(uint8_t info);

    Controller &controller_;
    const uint32_t index_;
    Random random_;
    IoContext context_;
    CommandPool pool_;
    std::vector<std::unique_ptr<SubmissionQueue>> sqs_;
    std::vector<std::unique_ptr<CompletionQueue>> cqs_;
    std::vector<Command *> delayed_; // a heap by due time, then order
    uint64_t order_ = 0;
    uint32_t jobs_ = 0;
    std::atomic<bool> any_done_{false};
    std::mutex done_mutex_;
    std::vector<Command *> done_;
    std::vector<Command *> collected_;
    Sqe fetched_[64];
};

} // namespace tutti::controller

#endif
