/* SPDX-License-Identifier: Apache-2.0
 *
 * The block barrier and the end of a lane.
 */
#include "simt/lane.h"

namespace tutti::simt {

void Block::let_go(Lane &lane) {
    lane.state = LaneState::ready;
    host.wake(lane);
}

void Block::release_barrier() {
    arrived = 0;
    host.barrier_complete(*this);
    for (std::uint32_t i = 0; i < count; ++i)
        if (lanes[i].state == LaneState::blocked && lanes[i].at == Primitive::block_barrier)
            let_go(lanes[i]);
}

bool Block::arrive_barrier(Lane &lane) {
    lane.at = Primitive::block_barrier;
    if (++arrived < live)
        return false;
    release_barrier();
    return true;
}

void Block::leave(Lane &lane, std::string &error) {
    Wave &wave = *lane.wave;
    lane.state = LaneState::done;
    lane.at = Primitive::exit;
    --wave.live;
    --live;
    for (std::size_t i = wave.groups.size(); i-- > 0;) {
        const Group &group = wave.groups[i];
        if (group.kind == Primitive::wave_active || group.kind == Primitive::wave_together) {
            if (static_cast<std::uint32_t>(__builtin_popcountll(group.arrived)) == wave.live)
                group.kind == Primitive::wave_active ? close_active(wave, i) : close_together(wave, i);
        } else if ((group.key >> lane.bit & 1u) != 0) {
            error = std::string(name_of(group.kind)) + " names lane " + std::to_string(lane.bit) +
                    " of its wave, which has ended";
        }
    }
    if (wave.live != 0 && wave.sync_arrived == wave.live)
        release_wave_sync(wave);
    if (live != 0 && arrived == live)
        release_barrier();
}

} // namespace tutti::simt
