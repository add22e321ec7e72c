// SPDX-License-Identifier: Apache-2.0
//
// A virtual device: its streams and the order between them, its failure, and what runs its work: a pool of OS threads,
// or a simulated world. And the machine: all devices, the address space, the tables of handles.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "runtime/handles.h"
#include "runtime/memory.h"
#include "runtime/module.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace ttrt {

class Simulation;
class Machine;

// What every HOST device can do; the attributes report it and launches are checked against it.
inline constexpr uint32_t kMaxBlockThreads = 1024;
inline constexpr uint32_t kMaxBlockDim[3] = {1024, 1024, 64};
inline constexpr uint32_t kMaxGridDim[3] = {0x7fffffff, 65535, 65535};
inline constexpr uint32_t kMaxSharedBytes = 64 * 1024;
inline constexpr uint32_t kProcessors = 8;
inline constexpr uint32_t kThreadsPerProcessor = 1024;

class Device {
  public:
    Device(Machine &machine, int ordinal, const Arch &arch);
    ~Device();

    int ordinal() const { return ordinal_; }
    const Arch &arch() const { return arch_; }
    Machine &machine() const { return machine_; }
    bool simulated() const { return arch_.mode == TT_MODE_SIM; }
    // NULL in mode `threads`. The other: also NULL when nothing has used it yet.
    Simulation *simulation();
    Simulation *simulation_in_use();

    Status failure() const;
    // Only the first failure counts.
    void set_failure(ttrtError code, const std::string &detail, const tt_launch_report &report);
    void clear_failure();
    void set_report(const tt_launch_report &report);
    std::optional<tt_launch_report> report() const;
    // Judges an ended launch: keeps its report, and fails the device unless it is done.
    void judge(const Launch &launch, int outcome, const tt_launch_report &report);

    std::shared_ptr<Stream> default_stream() const { return legacy_; }
    std::shared_ptr<Stream> create_stream(unsigned flags);
    void retire_stream(const std::shared_ptr<Stream> &stream);

    // Appends to a stream and orders it against the default stream. Refused once the device has failed.
    // *done (may be NULL) is the operation's mark.
    Status submit(Stream &stream, Operation operation, CompletionRef *done = nullptr);
    // The marks that are still to be set before a stream is idle: its own, and for the default stream those of all
    // blocking streams.
    std::vector<CompletionRef> marks_of(const Stream &stream) const;
    // Waits (`sim`: runs the world) until the mark is set; returns the device's failure if there is one.
    Status wait(const CompletionRef &mark);
    // Whether the mark is set (`sim`: after a bounded slice); NotReady, or the device's failure.
    Status query(const CompletionRef &mark);
    Status synchronize();
    Status reset();

    // Copies or fills now, in the calling thread; the memory model of a running world is kept to.
    void copy_now(void *dst, const void *src, size_t size);
    void fill_now(void *dst, int value, size_t size);

    // threads: runs one operation to its end, unless the device has failed.
    void execute(Operation &operation);

    bool peer_enabled(int peer);
    bool set_peer(int peer, bool enabled); // false: it was so already

  private:
    template <typename Wanted> std::vector<CompletionRef> collect(Wanted &&wanted) const;

    Machine &machine_;
    const int ordinal_;
    const Arch &arch_;

    mutable std::mutex order_; // streams_, retired_, tails
    std::vector<std::shared_ptr<Stream>> streams_;
    std::shared_ptr<Stream> legacy_;
    struct Retired {
        CompletionRef tail;
        bool blocking;
    };
    std::vector<Retired> retired_;
    std::set<int> peers_;

    mutable std::mutex state_; // failure_, report_, pool_, simulation_
    Status failure_;
    std::optional<tt_launch_report> report_;
    bool report_is_failure_ = false;
    tt_pool *pool_ = nullptr;
    std::unique_ptr<Simulation> simulation_;
};

class Machine {
  public:
    // Made on first use and never destroyed: worker threads may outlive main.
    static Machine &get();

    int device_count() const { return static_cast<int>(devices_.size()); }
    Device *device(int ordinal) {
        return ordinal >= 0 && ordinal < device_count() ? devices_[static_cast<size_t>(ordinal)].get() : nullptr;
    }
    AddressSpace &memory() { return memory_; }

    // Tells every simulated device that is in use of host memory.
    void map_host(const Range &range);
    void unmap_host(const Range &range);

    HandleTable<Stream, Tag::stream> streams;
    HandleTable<Event, Tag::event> events;
    HandleTable<Module, Tag::module> modules;
    HandleTable<Function, Tag::function> functions;

  private:
    Machine();

    AddressSpace memory_;
    std::vector<std::unique_ptr<Device>> devices_;
};

// The calling thread's current device; starts as 0.
int current_ordinal();
void set_current_ordinal(int ordinal);
Device &current_device();

// Resolves a stream handle, the default streams among them, for the current device.
Status resolve_stream(ttrtStream_t handle, std::shared_ptr<Stream> *stream);

uint64_t monotonic_ns();

} // namespace ttrt
