// SPDX-License-Identifier: Apache-2.0
//
// Status values as they stand in CQE dword 3 from bit 17: SC 7:0, SCT 10:8, CRD 12:11, M 13, DNR 14.
#ifndef TUTTI_CONTROLLER_STATUS_H
#define TUTTI_CONTROLLER_STATUS_H

#include <cstdint>

namespace tutti::controller {

using Status = uint16_t;

constexpr Status kDnr = 1u << 14;

constexpr Status make_status(uint32_t sct, uint32_t sc, bool dnr) {
    return static_cast<Status>((sc & 0xFF) | ((sct & 7) << 8) | (dnr ? kDnr : 0));
}
// A retry of the same command cannot do better.
constexpr Status refuse(uint32_t sct, uint32_t sc) { return make_status(sct, sc, true); }
// A retry may succeed.
constexpr Status retryable(uint32_t sct, uint32_t sc) { return make_status(sct, sc, false); }

namespace status {
constexpr Status kSuccess = 0;
constexpr Status kInvalidOpcode = refuse(0, 0x01);
constexpr Status kInvalidField = refuse(0, 0x02);
constexpr Status kCidConflict = refuse(0, 0x03);
constexpr Status kDataTransfer = retryable(0, 0x04);
constexpr Status kInternal = retryable(0, 0x06);
constexpr Status kAborted = retryable(0, 0x07);
constexpr Status kSqDeleted = retryable(0, 0x08);
constexpr Status kInvalidNamespace = refuse(0, 0x0B);
constexpr Status kSequence = refuse(0, 0x0C);
constexpr Status kSglSegment = refuse(0, 0x0D);
constexpr Status kSglCount = refuse(0, 0x0E);
constexpr Status kSglDataLength = refuse(0, 0x0F);
constexpr Status kSglMetadataLength = refuse(0, 0x10);
constexpr Status kSglType = refuse(0, 0x11);
constexpr Status kPrpOffset = refuse(0, 0x13);
constexpr Status kSglGranularity = refuse(0, 0x1E);
constexpr Status kWriteProtected = refuse(0, 0x20);
constexpr Status kLbaRange = refuse(0, 0x80);
constexpr Status kCapacity = refuse(0, 0x81);
constexpr Status kCqInvalid = refuse(1, 0x00);
constexpr Status kQueueId = refuse(1, 0x01);
constexpr Status kQueueSize = refuse(1, 0x02);
constexpr Status kEventLimit = refuse(1, 0x05);
constexpr Status kInterruptVector = refuse(1, 0x08);
constexpr Status kLogPage = refuse(1, 0x09);
constexpr Status kQueueDeletion = refuse(1, 0x0C);
constexpr Status kNotSaveable = refuse(1, 0x0D);
constexpr Status kNotChangeable = refuse(1, 0x0E);
constexpr Status kInvalidProtection = refuse(1, 0x81);
constexpr Status kWriteFault = retryable(2, 0x80);
constexpr Status kUnrecoveredRead = retryable(2, 0x81);
constexpr Status kGuardCheck = refuse(2, 0x82);
constexpr Status kApplicationCheck = refuse(2, 0x83);
constexpr Status kReferenceCheck = refuse(2, 0x84);
constexpr Status kCompareFailure = refuse(2, 0x85);
} // namespace status

} // namespace tutti::controller

#endif
