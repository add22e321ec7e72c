// SPDX-License-Identifier: Apache-2.0
//
// Threads that carry out commands on namespaces that may block, so that the queues of others go on.
#ifndef TUTTI_CONTROLLER_WORKERS_H
#define TUTTI_CONTROLLER_WORKERS_H

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "controller/command.h"

namespace tutti::controller {

class Controller;
class Shard;

class Workers {
  public:
    explicit Workers(Controller &controller) : controller_(controller) {}
    ~Workers() { stop(); }
    Workers(const Workers &) = delete;
    Workers &operator=(const Workers &) = delete;

    void start(uint32_t count);
    // Finishes what was handed in, then joins.
    void stop();
    bool running() const { return !threads_.empty(); }
    // The worker hands the command back with shard.job_done.
    void submit(Command *command, Shard *shard);

  private:
    struct Job {
        Command *command;
        Shard *shard;
    };
    void work();

    Controller &controller_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Job> jobs_;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

} // namespace tutti::controller

#endif
