/* SPDX-License-Identifier: Apache-2.0 */
#include "tutti/small_drive.h"

#include "memory_port.h"

#include <algorithm>
#include <cstdint>

namespace tutti::controller {
namespace {

constexpr std::uint32_t kEntryBytes = 64;
constexpr std::uint32_t kResult = 0x5000000;

class SmallDrive {
  public:
    SmallDrive(tt_small_drive &drive, Port port) : drive_(drive), port_(port) {}

    void run() {
        for (;;) {
            const bool told = look();
            if (!post() && !told && !port_.wait_until(UINT64_MAX))
                return;
        }
    }

  private:
    static constexpr std::uint32_t kWaiting = 64;

    static void keep(std::uint32_t (&list)[TT_SMALL_DRIVE_KEPT], std::uint32_t at, std::uint32_t value) {
        if (at < TT_SMALL_DRIVE_KEPT)
            list[at] = value;
    }

    /* One value of the doorbell, and the entries that it tells of. */
    bool look() {
        const std::uint32_t tail = port_.load(drive_.sq_doorbell);
        if (tail == tail_)
            return false;
        tail_ = tail;
        keep(drive_.tail, drive_.tails++, tail);
        if (tail >= drive_.sq_depth) {
            ++drive_.bad_tails;
            return true;
        }
        const std::uint32_t first = waiting_;
        for (; head_ != tail; head_ = (head_ + 1) % drive_.sq_depth)
            fetch();
        if ((drive_.flags & TT_SMALL_DRIVE_REVERSED) != 0)
            std::reverse(commands_ + first, commands_ + waiting_);
        return true;
    }

    void fetch() {
        std::uint32_t entry[kEntryBytes / 4] = {};
        port_.read(drive_.sq + std::uint64_t{kEntryBytes} * head_, entry, kEntryBytes);
        const std::uint32_t number = drive_.commands++;
        keep(drive_.dword_0, number, entry[0]);
        keep(drive_.dword_10, number, entry[10]);
        keep(drive_.dword_12, number, entry[12]);
        for (std::uint32_t i = 0; i < ((drive_.flags & TT_SMALL_DRIVE_TWICE) != 0 ? 2 : 1); ++i)
            if (waiting_ < kWaiting)
                commands_[waiting_++] = {entry[0] >> 16, number};
    }

    /* One completion, if there is one to post and a place for it. */
    bool post() {
        if (waiting_ == 0 || (drive_.flags & TT_SMALL_DRIVE_SILENT) != 0 ||
            (drive_.at_most != 0 && drive_.posted >= drive_.at_most))
            return false;
        if ((cq_tail_ + 1) % drive_.cq_depth == port_.load(drive_.cq_doorbell) % drive_.cq_depth)
            return false;
        const Waiting command = commands_[0];
        std::copy(commands_ + 1, commands_ + waiting_, commands_);
        --waiting_;
        const std::uint32_t entry[4] = {kResult + command.number, 0, drive_.queue_id << 16 | head_,
                                        command.identifier | phase_ << 16};
        port_.write(drive_.cq + std::uint64_t{sizeof entry} * cq_tail_, entry, sizeof entry);
        ++drive_.posted;
        cq_tail_ = (cq_tail_ + 1) % drive_.cq_depth;
        if (cq_tail_ == 0)
            phase_ ^= 1;
        return true;
    }

    struct Waiting {
        std::uint32_t identifier;
        std::uint32_t number;
    };

    tt_small_drive &drive_;
    Port port_;
    Waiting commands_[kWaiting] = {};
    std::uint32_t waiting_ = 0;
    std::uint32_t tail_ = 0;
    std::uint32_t head_ = 0;
    std::uint32_t cq_tail_ = 0;
    std::uint32_t phase_ = 1;
};

} // namespace
} // namespace tutti::controller

extern "C" void tt_small_drive_run(void *drive, tt_port port) {
    tutti::controller::SmallDrive(*static_cast<tt_small_drive *>(drive), tutti::controller::Port(port)).run();
}
