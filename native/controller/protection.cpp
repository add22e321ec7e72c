// SPDX-License-Identifier: Apache-2.0
#include "controller/protection.h"

#include <array>
#include <cstring>

namespace tutti::controller {

namespace {

constexpr uint16_t kPolynomial = 0x8BB7;
constexpr uint32_t kCheckGuard = 4, kCheckApplication = 2, kCheckReference = 1;

constexpr std::array<uint16_t, 256> make_table() {
    std::array<uint16_t, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte << 8;
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? kPolynomial : 0u);
        table[byte] = static_cast<uint16_t>(crc);
    }
    return table;
}
constexpr std::array<uint16_t, 256> kTable = make_table();

struct Tuple {
    uint16_t guard;
    uint16_t application;
    uint32_t reference;
};

Tuple read_tuple(const uint8_t *at) {
    return {static_cast<uint16_t>(at[0] << 8 | at[1]), static_cast<uint16_t>(at[2] << 8 | at[3]),
            static_cast<uint32_t>(at[4]) << 24 | static_cast<uint32_t>(at[5]) << 16 |
                static_cast<uint32_t>(at[6]) << 8 | at[7]};
}

void write_tuple(uint8_t *at, const Tuple &tuple) {
    at[0] = static_cast<uint8_t>(tuple.guard >> 8);
    at[1] = static_cast<uint8_t>(tuple.guard);
    at[2] = static_cast<uint8_t>(tuple.application >> 8);
    at[3] = static_cast<uint8_t>(tuple.application);
    for (int i = 0; i < 4; ++i)
        at[4 + i] = static_cast<uint8_t>(tuple.reference >> (24 - 8 * i));
}

} // namespace

uint16_t crc16_t10dif(uint16_t crc, const uint8_t *data, uint64_t len) {
    for (uint64_t i = 0; i < len; ++i)
        crc = static_cast<uint16_t>(crc << 8) ^ kTable[(crc >> 8) ^ data[i]];
    return crc;
}

Protection::Protection(const Namespace &ns, const Sqe &sqe)
    : ns_(ns), type_(ns.protection_type()), action_((sqe.dw[12] >> 29 & 1) != 0), checks_(sqe.dw[12] >> 26 & 7),
      initial_reference_(sqe.dw[14]), first_lba_(sqe.dw[10]), application_(static_cast<uint16_t>(sqe.dw[15])),
      application_mask_(static_cast<uint16_t>(sqe.dw[15] >> 16)) {}

Status Protection::refuse() const {
    // Type 1: the reference tag is the block's number. Type 3: it is not checked.
    const bool reference = (checks_ & kCheckReference) != 0;
    if (type_ == 1 && (reference || action_) && initial_reference_ != first_lba_)
        return status::kInvalidProtection;
    return type_ == 3 && reference ? status::kInvalidProtection : status::kSuccess;
}

uint32_t Protection::reference(uint64_t block) const {
    return type_ == 3 ? initial_reference_ : initial_reference_ + static_cast<uint32_t>(block);
}

// Of the block's data, and of the metadata before the tuple.
uint16_t Protection::guard(const uint8_t *data, const uint8_t *metadata) const {
    return crc16_t10dif(crc16_t10dif(0, data, ns_.block_bytes()), metadata, place());
}

Status Protection::check(uint64_t from, uint64_t blocks, const uint8_t *data, const uint8_t *metadata) const {
    for (uint64_t i = 0; i < blocks; ++i, data += ns_.block_bytes(), metadata += ns_.metadata_bytes()) {
        const Tuple tuple = read_tuple(metadata + place());
        if (tuple.application == 0xFFFF && (type_ != 3 || tuple.reference == 0xFFFFFFFF))
            continue;
        if ((checks_ & kCheckGuard) != 0 && tuple.guard != guard(data, metadata))
            return status::kGuardCheck;
        if ((checks_ & kCheckApplication) != 0 && ((tuple.application ^ application_) & application_mask_) != 0)
            return status::kApplicationCheck;
        if ((checks_ & kCheckReference) != 0 && tuple.reference != reference(from + i))
            return status::kReferenceCheck;
    }
    return status::kSuccess;
}

void Protection::make(uint64_t from, uint64_t blocks, const uint8_t *data, uint8_t *metadata) const {
    for (uint64_t i = 0; i < blocks; ++i, data += ns_.block_bytes(), metadata += ns_.metadata_bytes())
        write_tuple(metadata + place(), {guard(data, metadata), application_, reference(from + i)});
}

void Protection::clear(uint64_t blocks, uint8_t *metadata) const {
    for (uint64_t i = 0; i < blocks; ++i, metadata += ns_.metadata_bytes())
        std::memset(metadata + place(), 0xFF, kBytes);
}

} // namespace tutti::controller
