// SPDX-License-Identifier: Apache-2.0
//
// Handles that are not pointers: an index, a generation and a tag of the kind. A stale one, or one of another kind, is
// not found; it is never followed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace ttrt {

enum class Tag : uint64_t { stream = 4, event = 5, module = 6, function = 7 };

template <typename T, Tag kTag> class HandleTable {
  public:
    uint64_t insert(std::shared_ptr<T> object) {
        const std::lock_guard lock(mutex_);
        uint32_t index;
        if (free_.empty()) {
            index = static_cast<uint32_t>(slots_.size());
            slots_.emplace_back();
        } else {
            index = free_.back();
            free_.pop_back();
        }
        slots_[index].object = std::move(object);
        return encode(index, slots_[index].generation);
    }

    // NULL for anything but a live handle of this kind.
    std::shared_ptr<T> find(uint64_t handle) const {
        const std::lock_guard lock(mutex_);
        const Slot *slot = locate(handle);
        return slot != nullptr ? slot->object : nullptr;
    }

    std::shared_ptr<T> remove(uint64_t handle) {
        const std::lock_guard lock(mutex_);
        const Slot *found = locate(handle);
        if (found == nullptr) {
            return nullptr;
        }
        const auto index = static_cast<uint32_t>(found - slots_.data());
        Slot &slot = slots_[index];
        ++slot.generation;
        free_.push_back(index);
        return std::move(slot.object);
    }

    template <typename Predicate> std::vector<std::shared_ptr<T>> remove_if(Predicate &&predicate) {
        const std::lock_guard lock(mutex_);
        std::vector<std::shared_ptr<T>> removed;
        for (uint32_t index = 0; index < slots_.size(); ++index) {
            Slot &slot = slots_[index];
            if (slot.object != nullptr && predicate(*slot.object)) {
                ++slot.generation;
                free_.push_back(index);
                removed.push_back(std::move(slot.object));
            }
        }
        return removed;
    }

  private:
    struct Slot {
        std::shared_ptr<T> object;
        uint32_t generation = 0;
    };
    static constexpr unsigned kIndexBits = 24;

    static uint64_t encode(uint32_t index, uint32_t generation) {
        return (((static_cast<uint64_t>(generation) << kIndexBits) | index) << 4) | static_cast<uint64_t>(kTag);
    }

    const Slot *locate(uint64_t handle) const {
        if ((handle & 15) != static_cast<uint64_t>(kTag)) {
            return nullptr;
        }
        const uint64_t index = (handle >> 4) & ((1u << kIndexBits) - 1);
        if (index >= slots_.size()) {
            return nullptr;
        }
        const Slot &slot = slots_[index];
        return slot.object != nullptr && encode(static_cast<uint32_t>(index), slot.generation) == handle ? &slot
                                                                                                         : nullptr;
    }

    mutable std::mutex mutex_;
    std::vector<Slot> slots_;
    std::vector<uint32_t> free_;
};

} // namespace ttrt
