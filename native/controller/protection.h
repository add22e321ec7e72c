// SPDX-License-Identifier: Apache-2.0
//
// Protection information with a 16-bit guard: eight bytes of each block's metadata, big-endian guard (CRC-16 T10 DIF),
// application tag, reference tag.
#ifndef TUTTI_CONTROLLER_PROTECTION_H
#define TUTTI_CONTROLLER_PROTECTION_H

#include <cstdint>

#include "controller/namespace.h"
#include "controller/wire.h"

namespace tutti::controller {

uint16_t crc16_t10dif(uint16_t crc, const uint8_t *data, uint64_t len);

// What a command says of protection information, for the blocks of one namespace.
class Protection {
  public:
    static constexpr uint32_t kBytes = 8;

    Protection(const Namespace &ns, const Sqe &sqe);

    // A combination that cannot be: Invalid Protection Information.
    Status refuse() const;
    // PRACT: the drive makes it on writes, and takes it away on reads where the metadata are nothing else.
    bool made_by_drive() const { return type_ != 0 && action_; }
    // No metadata move between host and drive.
    bool stripped() const { return made_by_drive() && ns_.metadata_bytes() == kBytes; }
    // Anything to do for blocks that are written, or read.
    bool on_write() const { return type_ != 0 && (action_ || checks_); }
    bool on_read() const { return type_ != 0 && checks_; }

    // Blocks `from`, `from` + 1, ... of the command: whether each has what the command expects.
    Status check(uint64_t from, uint64_t blocks, const uint8_t *data, const uint8_t *metadata) const;
    // Writes it into the metadata.
    void make(uint64_t from, uint64_t blocks, const uint8_t *data, uint8_t *metadata) const;
    // What blocks have that nobody wrote: no check applies to it.
    void clear(uint64_t blocks, uint8_t *metadata) const;

  private:
    uint32_t place() const { return ns_.protection_first() ? 0 : ns_.metadata_bytes() - kBytes; }
    uint16_t guard(const uint8_t *data, const uint8_t *metadata) const;
    uint32_t reference(uint64_t block) const;

    const Namespace &ns_;
    const uint32_t type_;
    const bool action_;
    const uint32_t checks_; // PRCHK: guard 4, application tag 2, reference tag 1
    const uint32_t initial_reference_;
    const uint32_t first_lba_;
    const uint16_t application_;
    const uint16_t application_mask_;
};

} // namespace tutti::controller

#endif
