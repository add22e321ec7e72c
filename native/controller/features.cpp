// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "controller/admin.h"
#include "controller/controller.h"

namespace tutti::controller {

namespace {

constexpr uint32_t kArbitration = 0x01, kPower = 0x02, kTemperature = 0x04, kErrorRecovery = 0x05, kWriteCache = 0x06,
                   kQueues = 0x07, kCoalescing = 0x08, kVector = 0x09, kAtomicity = 0x0A, kEvents = 0x0B;
constexpr uint32_t kChangeable = 1u << 2;

} // namespace

void Admin::reset() {
    queues_granted_ = false;
    // Without the demand for Set Features first, everything there is counts as granted.
    const bool strict = controller_.config().need_queue_count != 0;
    granted_sqs_ = granted_cqs_ = strict ? 0 : static_cast<uint16_t>(controller_.config().io_queues);
    io_queues_ = 0;
    const uint32_t queues = controller_.config().io_queues - 1;
    features_.clear();
    for (const auto &[id, value] :
         std::initializer_list<std::pair<uint32_t, uint32_t>>{{kArbitration, 7}, // burst: no limit
                                                              {kPower, 0},
                                                              {kTemperature, 0x157}, // 70 degrees Celsius
                                                              {kErrorRecovery, 0},
                                                              {kQueues, queues | queues << 16},
                                                              {kCoalescing, 0},
                                                              {kVector, 0},
                                                              {kAtomicity, 0},
                                                              {kEvents, 0}})
        features_.push_back({id, value, value});
    if (controller_.config().volatile_cache != TT_CACHE_NONE)
        features_.push_back({kWriteCache, 1, 1});
}

Admin::Feature *Admin::find_feature(uint32_t id) {
    const auto found = std::find_if(features_.begin(), features_.end(), [id](const Feature &f) { return f.id == id; });
    return found == features_.end() ? nullptr : &*found;
}

Status Admin::set_feature(Command &command) {
    const Sqe &sqe = command.sqe;
    Feature *feature = find_feature(sqe.dw[10] & 0xFF);
    if (feature == nullptr)
        return status::kInvalidField;
    if (sqe.dw[10] >> 31 != 0)
        return status::kNotSaveable;
    const uint32_t value = sqe.dw[11];
    switch (feature->id) {
    case kQueues: {
        const uint32_t sqs = value & 0xFFFF;
        const uint32_t cqs = value >> 16;
        if (sqs == 0xFFFF || cqs == 0xFFFF)
            return status::kInvalidField;
        if (io_queues_ != 0)
            return status::kSequence;
        const uint32_t most = controller_.config().io_queues - 1;
        granted_sqs_ = static_cast<uint16_t>(std::min(sqs, most) + 1);
        granted_cqs_ = static_cast<uint16_t>(std::min(cqs, most) + 1);
        queues_granted_ = true;
        feature->value = (granted_sqs_ - 1u) | (granted_cqs_ - 1u) << 16;
        command.result = feature->value;
        return status::kSuccess;
    }
    case kPower:
        if ((value & 0x1F) != 0)
            return status::kInvalidField; // there is one power state
        break;
    case kVector:
        if ((value & 0xFFFF) >= controller_.config().interrupt_vectors)
            return status::kInvalidField;
        break;
    case kWriteCache:
        // Switched off, the cache has nothing left to lose.
        if ((value & 1) == 0)
            controller_.sync_namespaces();
        controller_.set_write_back((value & 1) != 0);
        break;
    default:
        break;
    }
    feature->value = value;
    return status::kSuccess;
}

Status Admin::get_feature(Command &command) {
    const Sqe &sqe = command.sqe;
    const Feature *feature = find_feature(sqe.dw[10] & 0xFF);
    if (feature == nullptr)
        return status::kInvalidField;
    switch (sqe.dw[10] >> 8 & 7) {
    case 0: // current
        command.result = feature->value;
        return status::kSuccess;
    case 1: // default
    case 2: // saved: nothing is
        command.result = feature->initial;
        return status::kSuccess;
    case 3: // what can be done with it
        command.result = kChangeable;
        return status::kSuccess;
    default:
        return status::kInvalidField;
    }
}

} // namespace tutti::controller
