// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "controller/admin.h"
#include "controller/controller.h"

namespace tutti::controller {

namespace {

constexpr uint32_t kErrorPage = 0x01, kHealthPage = 0x02, kFirmwarePage = 0x03;
constexpr uint64_t kUnitBytes = 512'000;  // "data units" count thousands of 512 bytes, rounded up
constexpr uint64_t kLongestLog = 1 << 20; // of a request: what is past the page reads as zero

void fill_health(Controller &controller, uint8_t *page) {
    tt_controller_counters counters{};
    controller.read_counters(counters);
    page[0] = controller.fatal() ? 1u << 2 : 0; // reliability degraded
    put<uint16_t>(page, 1, 308);                // 35 degrees Celsius
    page[3] = 100;                              // spare
    page[4] = 10;                               // its threshold
    put<uint64_t>(page, 32, (counters.bytes_read + kUnitBytes - 1) / kUnitBytes);
    put<uint64_t>(page, 48, (counters.bytes_written + kUnitBytes - 1) / kUnitBytes);
    put<uint64_t>(page, 64,
                  counters.io_commands[io_op::kRead] + counters.io_commands[io_op::kCompare] +
                      counters.io_commands[io_op::kVerify]);
    put<uint64_t>(page, 80, counters.io_commands[io_op::kWrite]);
    put<uint64_t>(page, 112, 1 + counters.power_cuts); // power cycles
    put<uint64_t>(page, 144, counters.power_cuts);     // unsafe shutdowns
    put<uint64_t>(page, 176, controller.errors().count());
}

} // namespace

Status Admin::get_log(const Port &port, const Sqe &sqe) {
    const uint32_t id = sqe.dw[10] & 0xFF;
    const bool retain = (sqe.dw[10] >> 15 & 1) != 0;
    const uint64_t len = ((sqe.dw[10] >> 16 | static_cast<uint64_t>(sqe.dw[11] & 0xFFFF) << 16) + 1) * 4;
    const uint64_t offset = sqe.quad(12);
    std::vector<uint8_t> page;
    switch (id) {
    case kErrorPage:
        page.resize(ErrorLog::kEntries * ErrorLog::kEntryBytes);
        controller_.errors().write(page.data());
        break;
    case kHealthPage:
        if (sqe.nsid() != 0 && sqe.nsid() != kBroadcast)
            return status::kInvalidField; // per-namespace health is not offered (LPA bit 0)
        page.resize(512);
        fill_health(controller_, page.data());
        break;
    case kFirmwarePage:
        page.resize(512);
        page[0] = 1; // slot 1 is active
        std::copy_n("1.0     ", 8, page.begin() + 8);
        break;
    default:
        return status::kLogPage;
    }
    if (offset % 4 != 0 || offset > page.size() || len > kLongestLog)
        return status::kInvalidField;
    page.erase(page.begin(), page.begin() + static_cast<std::ptrdiff_t>(offset));
    page.resize(len);
    const Status status = send(port, sqe, page.data(), len);
    if (status == status::kSuccess && !retain)
        controller_.events().log_page_read(static_cast<uint8_t>(id));
    return status;
}

} // namespace tutti::controller
