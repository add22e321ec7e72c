// SPDX-License-Identifier: Apache-2.0
//
// The admin queue's commands.
#ifndef TUTTI_CONTROLLER_ADMIN_H
#define TUTTI_CONTROLLER_ADMIN_H

#include <cstdint>
#include <vector>

#include "controller/command.h"
#include "controller/memory_port.h"
#include "controller/queues.h"

namespace tutti::controller {

class Controller;

class Admin {
  public:
    explicit Admin(Controller &controller) : controller_(controller) { reset(); }

    // Carries the command out and ends it now or, for some, later.
    void execute(const Port &port, Command *command);
    // Ends what waited: deletions whose commands are back, requests for which there is an event.
    bool turn(const Port &port);
    void drop_commands();
    void reset();
    bool has_io_queues() const { return io_queues_ != 0; }

  private:
    struct Feature {
        uint32_t id;
        uint32_t value;
        uint32_t initial;
    };
    struct Deletion {
        Command *command;
        uint16_t qid;
    };

    // Each returns the status; `*later` says that the command ends by itself.
    Status carry_out(const Port &port, Command &command, bool *later);

    Status create_cq(const Port &port, const Sqe &sqe);
    Status create_sq(const Port &port, const Sqe &sqe);
    Status delete_cq(const Sqe &sqe);
    Status delete_sq(const Port &port, Command &command, bool *later);
    Status check_new_queue(const Sqe &sqe, uint16_t granted) const;
    Status queue_memory(const Port &port, const Sqe &sqe, uint32_t entry_bytes, std::vector<uint64_t> *pages) const;
    SubmissionQueue *find_sq(uint16_t qid) const;
    CompletionQueue *find_cq(uint16_t qid) const;

    Status abort(const Port &port, Command &command);
    Status request_event(Command &command, bool *later);
    Status identify(const Port &port, const Sqe &sqe);
    Status get_log(const Port &port, const Sqe &sqe);
    Status set_feature(Command &command);
    Status get_feature(Command &command);
    Feature *find_feature(uint32_t id);
    Status send(const Port &port, const Sqe &sqe, const void *bytes, uint64_t len) const;

    Controller &controller_;
    std::vector<Feature> features_;
    bool queues_granted_ = false;
    uint16_t granted_sqs_ = 0;
    uint16_t granted_cqs_ = 0;
    uint32_t io_queues_ = 0;
    std::vector<Command *> event_requests_;
    std::vector<Deletion> deletions_;
};

// The 4096 bytes of Identify, by CNS.
Status fill_identify(Controller &controller, const Sqe &sqe, uint8_t *page);

} // namespace tutti::controller

#endif
