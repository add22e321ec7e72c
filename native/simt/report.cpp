/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/lane.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <tuple>

namespace tutti::simt {

void collect_places(const Block &block, std::vector<Place> &places) {
    for (std::uint32_t i = 0; i < block.count; ++i) {
        const Lane &lane = block.lanes[i];
        if (lane.state != LaneState::done)
            places.push_back({block.index, lane.index, lane.at, lane.site});
    }
}

std::string describe_site(const void *site) {
    Dl_info info{};
    if (site == nullptr || dladdr(site, &info) == 0)
        return {};
    char text[192];
    const char *base = static_cast<const char *>(info.dli_saddr != nullptr ? info.dli_saddr : info.dli_fbase);
    const char *name = info.dli_sname;
    if (name == nullptr) {
        const char *slash = std::strrchr(info.dli_fname, '/');
        name = slash != nullptr ? slash + 1 : info.dli_fname;
    }
    std::snprintf(text, sizeof text, "%.120s+0x%zx", name,
                  static_cast<std::size_t>(static_cast<const char *>(site) - base));
    return text;
}

std::string describe_places(std::vector<Place> places) {
    std::sort(places.begin(), places.end(),
              [](const Place &a, const Place &b) { return std::tie(a.block, a.thread) < std::tie(b.block, b.thread); });
    std::string text;
    for (std::size_t i = 0; i < places.size();) {
        std::size_t end = i + 1;
        while (end < places.size() && places[end].block == places[i].block && places[end].at == places[i].at &&
               places[end].site == places[i].site && places[end].thread == places[end - 1].thread + 1)
            ++end;
        if (!text.empty())
            text += "; ";
        text.append("block ").append(std::to_string(places[i].block)).append(" thread");
        text += end - i == 1 ? " " : "s ";
        text += std::to_string(places[i].thread);
        if (end - i > 1)
            text.append("-").append(std::to_string(places[end - 1].thread));
        text.append(" at ").append(name_of(places[i].at));
        if (const std::string site = describe_site(places[i].site); !site.empty())
            text.append(" (").append(site).append(")");
        if (text.size() > sizeof(tt_launch_report::message))
            break;
        i = end;
    }
    return text;
}

void write_message(tt_launch_report &report, const std::string &message) {
    std::snprintf(report.message, sizeof report.message, "%s", message.c_str());
    if (message.size() >= sizeof report.message)
        std::memcpy(report.message + sizeof report.message - 4, "...", 4);
}

} // namespace tutti::simt
