/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives of a wave. Lanes that left do not count, except where a mask names them: then the kernel is wrong.
 */
#include "simt/lane.h"

#include <algorithm>

namespace tutti::simt {

void Block::release_wave_sync(Wave &wave) {
    wave.sync_arrived = 0;
    host.wave_sync_complete(wave);
    for (std::uint32_t i = 0; i < wave.count; ++i)
        if (wave.lanes[i].state == LaneState::blocked && wave.lanes[i].at == Primitive::wave_sync)
            let_go(wave.lanes[i]);
}

bool Block::arrive_wave_sync(Lane &lane) {
    lane.at = Primitive::wave_sync;
    Wave &wave = *lane.wave;
    if (++wave.sync_arrived < wave.live)
        return false;
    release_wave_sync(wave);
    return true;
}

void Block::finish(Wave &wave, std::size_t index_of_group) {
    const Group group = wave.groups[index_of_group];
    wave.groups.erase(wave.groups.begin() + static_cast<std::ptrdiff_t>(index_of_group));
    std::uint64_t ballot = 0;
    if (group.kind == Primitive::wave_ballot)
        for (std::uint64_t rest = group.arrived; rest != 0; rest &= rest - 1) {
            const int bit = __builtin_ctzll(rest);
            if (wave.lanes[bit].value != 0)
                ballot |= std::uint64_t{1} << bit;
        }
    for (std::uint64_t rest = group.arrived; rest != 0; rest &= rest - 1) {
        Lane &lane = wave.lanes[__builtin_ctzll(rest)];
        switch (group.kind) {
        case Primitive::wave_ballot:
            lane.result = ballot;
            break;
        case Primitive::wave_shuffle:
            lane.result = wave.lanes[lane.source].value;
            break;
        default:
            lane.result = group.arrived;
        }
        if (lane.state == LaneState::blocked)
            let_go(lane);
    }
}

bool Block::arrive_collective(Lane &lane, Primitive kind, std::uint64_t mask, std::string &error) {
    lane.at = kind;
    Wave &wave = *lane.wave;
    const std::uint64_t bit = std::uint64_t{1} << lane.bit;
    const auto refuse = [&](const std::string &why) {
        error = std::string(name_of(kind)) + " by lane " + std::to_string(lane.bit) + ": " + why;
        return true;
    };
    if ((mask & bit) == 0)
        return refuse("its mask does not name the caller");
    if (kind == Primitive::wave_shuffle && (lane.source >= 64 || (mask >> lane.source & 1u) == 0))
        return refuse("the source lane " + std::to_string(lane.source) + " is not in the mask");
    for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
        const auto other = static_cast<std::uint32_t>(__builtin_ctzll(rest));
        if (other >= wave.count || wave.lanes[other].state == LaneState::done)
            return refuse("the mask names lane " + std::to_string(other) + ", which " +
                          (other >= wave.count ? "the wave does not have" : "has ended"));
    }
    std::size_t found = 0;
    while (found < wave.groups.size() && (wave.groups[found].kind != kind || wave.groups[found].key != mask))
        ++found;
    if (found == wave.groups.size())
        wave.groups.push_back({kind, mask, 0});
    wave.groups[found].arrived |= bit;
    if (wave.groups[found].arrived != mask)
        return false;
    finish(wave, found);
    return true;
}

std::size_t Block::join_at_site(Lane &lane) {
    Wave &wave = *lane.wave;
    const auto key = reinterpret_cast<std::uintptr_t>(lane.site);
    std::size_t found = 0;
    while (found < wave.groups.size() && (wave.groups[found].kind != lane.at || wave.groups[found].key != key))
        ++found;
    if (found == wave.groups.size()) {
        wave.groups.push_back({lane.at, key, 0});
        ++(lane.at == Primitive::wave_active ? open_active : open_together);
    }
    wave.groups[found].arrived |= std::uint64_t{1} << lane.bit;
    return found;
}

bool Block::arrive_active(Lane &lane) {
    lane.at = Primitive::wave_active;
    Wave &wave = *lane.wave;
    const std::size_t found = join_at_site(lane);
    wave.fresh = true;
    if (static_cast<std::uint32_t>(__builtin_popcountll(wave.groups[found].arrived)) != wave.live)
        return false;
    close_active(wave, found);
    return true;
}

bool Block::arrive_together(Lane &lane) {
    lane.at = Primitive::wave_together;
    Wave &wave = *lane.wave;
    const std::size_t found = join_at_site(lane);
    if (static_cast<std::uint32_t>(__builtin_popcountll(wave.groups[found].arrived)) != wave.live)
        return false;
    close_together(wave, found);
    return true;
}

void Block::close_together(Wave &wave, std::size_t group) {
    --open_together;
    finish(wave, group);
}

void Block::close_parted() {
    for (Wave &wave : waves) {
        std::size_t first = wave.groups.size();
        for (std::size_t i = 0; i < wave.groups.size(); ++i)
            if (wave.groups[i].kind == Primitive::wave_together &&
                (first == wave.groups.size() || wave.groups[i].key < wave.groups[first].key))
                first = i;
        if (first == wave.groups.size())
            continue;
        if (std::none_of(wave.lanes, wave.lanes + wave.count, [](const Lane &lane) {
                return lane.state == LaneState::ready || lane.state == LaneState::sleeping;
            }))
            close_together(wave, first);
    }
}

void Block::close_active(Wave &wave, std::size_t group) {
    --open_active;
    finish(wave, group);
}

Group &Block::active_of(const Lane &lane) {
    std::vector<Group> &groups = lane.wave->groups;
    return *std::find_if(groups.begin(), groups.end(), [&](const Group &group) {
        return group.kind == Primitive::wave_active && group.key == reinterpret_cast<std::uintptr_t>(lane.site);
    });
}

void Block::close_active_of(const Lane &lane) {
    std::vector<Group> &groups = lane.wave->groups;
    close_active(*lane.wave, static_cast<std::size_t>(&active_of(lane) - groups.data()));
}

std::uint64_t Block::close_due_active(std::uint64_t now_ps) {
    std::uint64_t next = UINT64_MAX;
    if (open_active != 0)
        for (Wave &wave : waves)
            for (std::size_t i = wave.groups.size(); i-- > 0;)
                if (wave.groups[i].kind == Primitive::wave_active) {
                    if (wave.groups[i].due_ps <= now_ps)
                        close_active(wave, i);
                    else
                        next = std::min(next, wave.groups[i].due_ps);
                }
    return next;
}

bool Block::close_any_active(Wave &wave) {
    for (std::size_t i = 0; i < wave.groups.size(); ++i)
        if (wave.groups[i].kind == Primitive::wave_active) {
            close_active(wave, i);
            return true;
        }
    return false;
}

bool Block::close_any_active() {
    if (open_active != 0)
        for (Wave &wave : waves)
            if (close_any_active(wave))
                return true;
    return false;
}

} // namespace tutti::simt
