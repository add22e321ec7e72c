/* SPDX-License-Identifier: Apache-2.0
 *
 * Mode `sim`: who takes part. A lane, a controller, or the host.
 */
#ifndef TUTTI_SIMT_AGENT_H
#define TUTTI_SIMT_AGENT_H

#include "simt/fibre.h"
#include "simt/lane.h"
#include "simt/trace.h"
#include "simt/view.h"
#include "tutti/port.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::simt {

class World;
struct SimBlock;
struct SimLaunch;

enum class AgentKind : std::uint8_t { lane, controller, host };
enum class AgentState : std::uint8_t {
    runnable,
    blocked,  /* in a collective; another lane wakes it */
    sleeping, /* a timer wakes it */
    idle,     /* paused often while nothing changed; a change wakes it */
    waiting,  /* a controller in wait_until; a register store or a timer wakes it */
    done,
};

constexpr std::uint32_t kNobody = UINT32_MAX;

struct Agent {
    World *world = nullptr;
    AgentKind kind = AgentKind::lane;
    AgentState state = AgentState::blocked;
    std::uint32_t serial = 0;      /* never reused */
    std::uint32_t slot = kNobody;  /* place among the schedulable */
    std::uint32_t block = kNobody; /* serial of a lane's block */
    std::uint32_t launch = 0;      /* serial of a lane's launch */
    Fibre *fibre = nullptr;

    /* ---- memory ---- */
    View current;
    View acquire[3]; /* by the narrowest scope that a fence needs to adopt it */
    View release[3]; /* what later relaxed stores carry to readers at that distance */
    std::vector<std::pair<std::uint64_t, std::uint32_t>> stale; /* word, reads in a row that were not the newest */

    /* ---- scheduling ---- */
    std::uint64_t wake_ns = 0;
    std::uint64_t priority = 0; /* PCT */
    std::uint64_t changes_seen = 0;
    std::uint32_t idle_pauses = 0; /* since the last change and the last look at the clock */
    bool yielded = false;          /* its last step was a pause */
    Trace trace = 0;               /* of all that it did and saw */

    Lane *lane = nullptr;
    SimBlock *sim_block = nullptr;
};

/* A controller: an agent with a stack of its own, which reaches memory through a port. */
struct Controller {
    Agent agent;
    std::string name;
    std::unique_ptr<OwnStack> stack;
    Fibre fibre;
    void (*fn)(void *argument, tt_port port) = nullptr;
    void *argument = nullptr;
    tt_iommu *iommu = nullptr;
    bool stop = false;
    std::uint64_t registers_seen = 0;
    const char *at = "start";
};

struct SimBlock final : LaneHost {
    SimBlock(World &owner, SimLaunch &of_launch, std::uint64_t index, std::uint32_t number, std::vector<Stack> stacks,
             Fibre::Entry entry, std::uint64_t fill_seed);
    void wake(Lane &lane) override;
    void barrier_complete(Block &) override;
    void wave_sync_complete(Wave &wave) override;

    World &world;
    SimLaunch &launch;
    std::uint32_t serial;
    Block block;
    std::unique_ptr<Agent[]> agents;
    View sc; /* what sequentially consistent fences of this block have published */
};

struct SimLaunch {
    std::uint64_t id = 0;
    std::uint32_t serial = 0;
    LaunchShape shape;
    std::vector<std::unique_ptr<std::byte[]>> values; /* copies of the arguments */
    std::vector<void *> arguments;
    std::uint64_t next_block = 0;
    std::uint64_t blocks_left = 0;
    std::uint64_t started_ns = 0;
    std::uint64_t deadline_ns = 0;
    std::uint64_t limit_ns = 0;
    std::uint64_t first_step = 0;
    int outcome = TT_RUN_DONE;
    std::string message;
    View start; /* what its lanes know when they begin */
    View end;   /* what its lanes knew when they ended */
    std::vector<std::unique_ptr<SimBlock>> resident;
};

} // namespace tutti::simt

#endif
