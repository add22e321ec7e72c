/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes, waves and blocks: what both modes of the engine share. Who runs when is the mode's business (LaneHost).
 */
#ifndef TUTTI_SIMT_LANE_H
#define TUTTI_SIMT_LANE_H

#include "simt/fibre.h"
#include "simt/stack.h"
#include "tutti/engine.h"
#include "tutti/host_device.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti::simt {

struct Block;
struct Wave;

/* Where a lane is, for reports and for collectives. */
enum class Primitive : std::uint8_t {
    start,
    block_barrier,
    wave_sync,
    wave_sync_mask,
    wave_active,
    wave_together,
    wave_ballot,
    wave_shuffle,
    pause,
    sleep,
    clock,
    load,
    store,
    atomic,
    fence,
    mmio_load,
    mmio_store,
    trap,
    exit,
};
const char *name_of(Primitive primitive);

enum class LaneState : std::uint8_t { ready, blocked, sleeping, done };

struct Lane {
    Fibre fibre;
    tt_lane_face *face = nullptr;
    Block *block = nullptr;
    Wave *wave = nullptr;
    std::uint32_t index = 0; /* in the block, x fastest */
    std::uint32_t bit = 0;   /* in the wave */
    LaneState state = LaneState::ready;
    Primitive at = Primitive::start;
    const void *site = nullptr; /* return address of the last primitive that went through the table */
    std::uint64_t value = 0;    /* operand of a collective */
    std::uint32_t source = 0;   /* shuffle: the lane to read */
    std::uint64_t result = 0;
    std::uint64_t wake_ns = 0;
    void *agent = nullptr; /* sim: the lane as an agent */
};

/* Lanes of one wave that do one masked collective together. */
struct Group {
    Primitive kind;
    std::uint64_t key; /* the mask; for wave_active and wave_together the call site */
    std::uint64_t arrived;
    std::uint64_t due_ps = 0; /* sim: when a wave_active group goes without those who have not come */
};

struct Wave {
    Block *block = nullptr;
    Lane *lanes = nullptr;
    std::uint32_t count = 0; /* lanes of the wave; the last wave of a block may be partial */
    std::uint32_t live = 0;
    std::uint32_t sync_arrived = 0;
    bool fresh = false; /* threads: a lane joined an active group in this pass */
    std::vector<Group> groups;
};

/* What a mode does when a collective lets lanes go on. */
class LaneHost {
  public:
    virtual ~LaneHost() = default;
    /* The lane's state is already `ready`. */
    virtual void wake(Lane &lane) = 0;
    /* Every lane of the block, or of the wave, is at the barrier: called before the first of them wakes. */
    virtual void barrier_complete(Block &block) = 0;
    virtual void wave_sync_complete(Wave &wave) = 0;
};

/* What the lanes of one launch have in common. */
struct LaunchShape {
    const tt_kernel_desc *kernel = nullptr;
    tt_launch_config config{};
    std::uint32_t wave_width = 32;
    void **args = nullptr;

    std::uint32_t block_lanes() const { return config.block[0] * config.block[1] * config.block[2]; }
    std::uint64_t blocks() const { return std::uint64_t{config.grid[0]} * config.grid[1] * config.grid[2]; }
    /* Why this cannot be launched; nullptr when it can. */
    const char *refusal(const tt_module_desc &module, std::uint32_t mode) const;
};

struct Block {
    /* Takes one stack a lane; `entry(lane)` runs each lane and must end in leave(). */
    Block(const LaunchShape &launch, std::uint64_t block_index, std::vector<Stack> lane_stacks, LaneHost &lane_host,
          Fibre::Entry entry, std::uint64_t fill_seed);
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;

    const LaunchShape &shape;
    std::uint64_t index;
    LaneHost &host;
    std::vector<Stack> stacks;
    std::unique_ptr<Lane[]> lanes;
    std::vector<Wave> waves;
    std::uint32_t count = 0;
    std::uint32_t live = 0;
    std::uint32_t arrived = 0;       /* at the block barrier */
    std::uint32_t open_active = 0;   /* wave_active groups that wait */
    std::uint32_t open_together = 0; /* wave_together groups that wait */

    /* Storage of TT_SHARED; nullptr when out of memory. */
    void *shared(const void *key, std::uint64_t bytes, std::uint64_t align);
    /* Calls `visit(begin, bytes)` for each piece of storage that goes with the block. */
    template <class Visit> void each_storage(Visit visit) const {
        for (const Piece &piece : pieces_)
            visit(piece.memory.get(), piece.bytes);
        if (dynamic_ != nullptr)
            visit(dynamic_.get(), std::uint64_t{shape.config.dynamic_shared_bytes} + 16u);
    }

    /* Each is called by a running lane; true: it goes on at once, false: it must block until woken. */
    bool arrive_barrier(Lane &lane);
    bool arrive_wave_sync(Lane &lane);
    /* A masked collective. On misuse writes a sentence to `error` and returns true. */
    bool arrive_collective(Lane &lane, Primitive kind, std::uint64_t mask, std::string &error);
    /* Joins the group of this site; complete when every live lane of the wave is in it. */
    bool arrive_active(Lane &lane);
    /* Lets a wave_active group go with the lanes that it has. */
    void close_active(Wave &wave, std::size_t group);
    void close_together(Wave &wave, std::size_t group);
    /* The group that the running lane has just joined, and that is not complete. */
    Group &active_of(const Lane &lane);
    /* Closes it. */
    void close_active_of(const Lane &lane);
    /* Closes each wave_active group that is due; the time at which the next one is, UINT64_MAX for none. */
    std::uint64_t close_due_active(std::uint64_t now_ps);
    /* Closes an open wave_active group of the wave, or of the block, if any. */
    bool close_any_active(Wave &wave);
    bool close_any_active();
    /* The same for a wave that moves together: its group goes when it is complete, or by close_parted(). */
    bool arrive_together(Lane &lane);
    /* Lets one wave_together group go in each wave of which no lane can run: whoever has not joined cannot come, for it
     * waits in another place. Of several groups the one that is first in the code: its lanes may come to the others. */
    void close_parted();
    /* The lane is gone. Misuse: a sentence in `error`. */
    void leave(Lane &lane, std::string &error);

  private:
    struct Piece {
        const void *key;
        std::unique_ptr<std::byte[]> memory;
        std::uint64_t bytes;
        void *aligned;
    };
    void release_barrier();
    void release_wave_sync(Wave &wave);
    void finish(Wave &wave, std::size_t group);
    /* Joins the group of the lane's kind and site; the group's index. */
    std::size_t join_at_site(Lane &lane);
    void let_go(Lane &lane);
    void fill(std::byte *memory, std::uint64_t bytes);

    std::vector<Piece> pieces_;
    std::unique_ptr<std::byte[]> dynamic_;
    std::uint64_t fill_seed_;
};

/* ---- reports ---- */

struct Place {
    std::uint64_t block;
    std::uint32_t thread;
    Primitive at;
    const void *site;
};

/* The lanes of a block that have not ended. */
void collect_places(const Block &block, std::vector<Place> &places);
/* "block 0 threads 1-31 at wave_sync (kernel+0x4c); ..." with neighbours merged. */
std::string describe_places(std::vector<Place> places);
/* Function and offset, or library and offset, of a code address. */
std::string describe_site(const void *site);
void write_message(tt_launch_report &report, const std::string &message);

} // namespace tutti::simt

#endif
