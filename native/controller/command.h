// SPDX-License-Identifier: Apache-2.0
#ifndef TUTTI_CONTROLLER_COMMAND_H
#define TUTTI_CONTROLLER_COMMAND_H

#include <memory>
#include <vector>

#include "controller/faults.h"
#include "controller/namespace.h"
#include "controller/queues.h"
#include "controller/transfer.h"
#include "controller/wire.h"

namespace tutti::controller {

// A command between its fetch and its completion. Reused, so that its lists keep their memory.
struct Command {
    Sqe sqe;
    SubmissionQueue *sq = nullptr;
    Namespace *ns = nullptr;
    Segments data;
    Segments metadata;
    Fault fault;
    Status status = 0;
    uint32_t result = 0;
    bool owns_cid = true;
    uint64_t bytes_to_host = 0;
    uint64_t bytes_from_host = 0;
    uint64_t due_ns = 0; // when it starts; UINT64_MAX: never
    uint64_t order = 0;
};

// Order of a heap with the earliest start on top.
inline bool starts_later(const Command *a, const Command *b) {
    return a->due_ns != b->due_ns ? a->due_ns > b->due_ns : a->order > b->order;
}

class CommandPool {
  public:
    Command *take() {
        if (free_.empty()) {
            all_.push_back(std::make_unique<Command>());
            free_.push_back(all_.back().get());
        }
        Command *command = free_.back();
        free_.pop_back();
        command->ns = nullptr;
        command->data.clear();
        command->metadata.clear();
        command->fault = {};
        command->status = 0;
        command->result = 0;
        command->owns_cid = true;
        command->bytes_to_host = 0;
        command->bytes_from_host = 0;
        command->due_ns = 0;
        return command;
    }
    void give(Command *command) { free_.push_back(command); }

  private:
    std::vector<std::unique_ptr<Command>> all_;
    std::vector<Command *> free_;
};

} // namespace tutti::controller

#endif
