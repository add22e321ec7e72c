// SPDX-License-Identifier: Apache-2.0
//
// The wire format as the controller reads it.
#ifndef TUTTI_CONTROLLER_WIRE_H
#define TUTTI_CONTROLLER_WIRE_H

#include <cstdint>
#include <cstring>

namespace tutti::controller {

constexpr uint32_t kSqeBytes = 64;
constexpr uint32_t kCqeBytes = 16;
constexpr uint32_t kBroadcast = 0xFFFFFFFF;

struct Sqe {
    uint32_t dw[16];

    uint8_t opcode() const { return static_cast<uint8_t>(dw[0]); }
    uint32_t fuse() const { return (dw[0] >> 8) & 3; }
    uint32_t psdt() const { return (dw[0] >> 14) & 3; }
    uint16_t cid() const { return static_cast<uint16_t>(dw[0] >> 16); }
    uint32_t nsid() const { return dw[1]; }
    uint64_t mptr() const { return quad(4); }
    uint64_t prp1() const { return quad(6); }
    uint64_t prp2() const { return quad(8); }
    uint64_t slba() const { return quad(10); }
    uint64_t blocks() const { return (dw[12] & 0xFFFF) + 1ULL; }
    bool fua() const { return (dw[12] >> 30 & 1) != 0; }

    uint64_t quad(int at) const { return dw[at] | static_cast<uint64_t>(dw[at + 1]) << 32; }
};
static_assert(sizeof(Sqe) == kSqeBytes);

namespace reg {
constexpr uint32_t kCap = 0x00, kVs = 0x08, kCc = 0x14, kCsts = 0x1C, kAqa = 0x24, kAsq = 0x28, kAcq = 0x30,
                   kCrto = 0x68, kDoorbells = 0x1000;
}

namespace admin_op {
constexpr uint8_t kDeleteSq = 0x00, kCreateSq = 0x01, kGetLog = 0x02, kDeleteCq = 0x04, kCreateCq = 0x05,
                  kIdentify = 0x06, kAbort = 0x08, kSetFeatures = 0x09, kGetFeatures = 0x0A, kAsyncEvent = 0x0C;
}

namespace io_op {
constexpr uint8_t kFlush = 0x00, kWrite = 0x01, kRead = 0x02, kCompare = 0x05, kWriteZeroes = 0x08, kDsm = 0x09,
                  kVerify = 0x0C;
}

// Little-endian stores into a structure that is sent to the host.
template <typename Word> void put(uint8_t *base, uint32_t offset, Word value) {
    std::memcpy(base + offset, &value, sizeof value);
}

} // namespace tutti::controller

#endif
