// SPDX-License-Identifier: Apache-2.0
//
// I/O commands: first everything that can be refused, then the data.
#ifndef TUTTI_CONTROLLER_IO_H
#define TUTTI_CONTROLLER_IO_H

#include <cstdlib>
#include <memory>
#include <new>

#include "controller/command.h"
#include "controller/memory_port.h"

namespace tutti::controller {

class Controller;

// What a thread that carries out commands needs of its own.
class IoContext {
  public:
    static constexpr uint64_t kDataBytes = 256 << 10;
    static constexpr uint64_t kMetadataBytes = kDataBytes / 512 * 64;

    IoContext() : memory_(std::aligned_alloc(4096, kDataBytes * 2 + kMetadataBytes * 2), std::free) {
        if (memory_ == nullptr)
            throw std::bad_alloc();
    }
    uint8_t *data() const { return static_cast<uint8_t *>(memory_.get()); }
    uint8_t *other_data() const { return data() + kDataBytes; }
    uint8_t *metadata() const { return data() + 2 * kDataBytes; }
    uint8_t *other_metadata() const { return metadata() + kMetadataBytes; }

    Port port;

  private:
    std::unique_ptr<void, decltype(&std::free)> memory_;
};

// Judges the command, finds its namespace and its segments. Moves no data.
Status prepare_io(Controller &controller, const Port &port, Command &command);
// Carries out a prepared command. May block on a file.
Status run_io(Controller &controller, IoContext &context, Command &command);

} // namespace tutti::controller

#endif
