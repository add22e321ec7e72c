// SPDX-License-Identifier: Apache-2.0
//
// A host for the controller benchmark, in one thread with the controller: the controller's loop runs with a port whose
// wait is the host's turn (reap, refill, ring). So the figure is commands a core, host included, whatever else the
// machine does: time is the thread's CPU time.
#include <sys/mman.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tutti/controller.h"

namespace {

constexpr uint32_t kDepth = 256;
constexpr uint64_t kBlockBytes = 4096;

void die(const char *what) {
    std::fprintf(stderr, "controller_driver: %s\n", what);
    std::exit(2);
}

uint64_t cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ULL + static_cast<uint64_t>(now.tv_nsec);
}

struct Memory {
    explicit Memory(tt_iommu *iommu, uint64_t bytes) : bytes_(bytes) {
        void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED)
            die("no memory");
        madvise(pages, bytes, MADV_HUGEPAGE); // as pinned buffers and GPU memory are
        base = static_cast<uint8_t *>(pages);
        std::memset(base, 0, bytes);
        tt_bus_run run{};
        uint64_t count = 0;
        if (tt_iommu_map(iommu, base, bytes, 4096, TT_MAP_READ | TT_MAP_WRITE | TT_MAP_CONTIGUOUS, &run, 1, &count) !=
            0)
            die("map");
        bus = run.bus;
    }
    uint8_t *base;
    uint64_t bus;
    uint64_t bytes_;
};

struct Ring {
    Memory sq;
    Memory cq;
    uint32_t tail = 0;
    uint32_t head = 0;
    uint32_t phase = 1;
    uint32_t inflight = 0;
};

enum class Stage { disabled, create_cq, create_sq, running };

class Host {
  public:
    Host(tt_controller *controller, tt_iommu *iommu, tt_port under, uint32_t queues, uint32_t opcode, uint64_t blocks,
         uint64_t warm_up, uint64_t commands)
        : under_(under), opcode_(opcode), blocks_(blocks), warm_up_(warm_up), commands_(commands),
          data_(iommu, queues * kDepth * kBlockBytes), admin_{Memory(iommu, 4096), Memory(iommu, 4096)} {
        uint64_t bytes = 0;
        bar_ = static_cast<uint8_t *>(tt_controller_bar(controller, &bytes));
        for (uint32_t i = 0; i < queues; ++i)
            rings_.push_back({Memory(iommu, kDepth * 64), Memory(iommu, kDepth * 16)});
        store(0x24, 31 | 31 << 16);
        store(0x28, static_cast<uint32_t>(admin_.sq.bus));
        store(0x2C, static_cast<uint32_t>(admin_.sq.bus >> 32));
        store(0x30, static_cast<uint32_t>(admin_.cq.bus));
        store(0x34, static_cast<uint32_t>(admin_.cq.bus >> 32));
        store(0x14, 0x00460001);
    }

    // Called where the controller would wait.
    bool turn() {
        if (stage_ != Stage::running)
            return bring_up();
        for (uint32_t i = 0; i < rings_.size(); ++i)
            serve(rings_[i], i + 1);
        if (done_ >= warm_up_ && start_ns_ == 0) {
            start_ns_ = cpu_ns();
            start_done_ = done_;
        }
        return start_ns_ == 0 || done_ - start_done_ < commands_;
    }

    double seconds() const { return static_cast<double>(cpu_ns() - start_ns_) / 1e9; }
    uint64_t measured() const { return done_ - start_done_; }
    tt_port under() const { return under_; }

  private:
    void store(uint32_t offset, uint32_t value) {
        __atomic_store_n(reinterpret_cast<uint32_t *>(bar_ + offset), value, __ATOMIC_RELEASE);
    }
    uint32_t load(uint32_t offset) {
        return __atomic_load_n(reinterpret_cast<uint32_t *>(bar_ + offset), __ATOMIC_ACQUIRE);
    }

    void send(Ring &ring, uint32_t depth, const uint32_t (&sqe)[16]) {
        std::memcpy(ring.sq.base + ring.tail * 64, sqe, 64);
        ring.tail = ring.tail + 1 == depth ? 0 : ring.tail + 1;
        ++ring.inflight;
    }

    // The next CQE's dword 3, or 0.
    uint32_t reap(Ring &ring, uint32_t depth) {
        const auto *dword = reinterpret_cast<const uint32_t *>(ring.cq.base + ring.head * 16 + 12);
        const uint32_t value = __atomic_load_n(dword, __ATOMIC_ACQUIRE);
        if ((value >> 16 & 1) != ring.phase)
            return 0;
        if (value >> 17 != 0)
            die("a command failed");
        if (++ring.head == depth) {
            ring.head = 0;
            ring.phase ^= 1;
        }
        --ring.inflight;
        return value | 1u << 31;
    }

    void admin(uint32_t opcode, uint64_t prp1, uint32_t dword10, uint32_t dword11) {
        uint32_t sqe[16] = {};
        sqe[0] = opcode;
        sqe[6] = static_cast<uint32_t>(prp1);
        sqe[7] = static_cast<uint32_t>(prp1 >> 32);
        sqe[10] = dword10;
        sqe[11] = dword11;
        send(admin_, 32, sqe);
        store(0x1000, admin_.tail);
    }

    bool bring_up() {
        if (stage_ == Stage::disabled) {
            if ((load(0x1C) & 1) == 0)
                return true;
            const auto queues = static_cast<uint32_t>(rings_.size());
            admin(0x09, 0, 7, (queues - 1) | (queues - 1) << 16);
            stage_ = Stage::create_cq;
            return true;
        }
        if (reap(admin_, 32) == 0)
            return true;
        store(0x1004, admin_.head);
        const uint32_t qid = made_ + 1;
        if (stage_ == Stage::create_cq) {
            if (made_ == rings_.size()) {
                stage_ = Stage::running;
                return true;
            }
            admin(0x05, rings_[made_].cq.bus, (kDepth - 1) << 16 | qid, 1);
            stage_ = Stage::create_sq;
        } else {
            admin(0x01, rings_[made_].sq.bus, (kDepth - 1) << 16 | qid, qid << 16 | 1);
            ++made_;
            stage_ = Stage::create_cq;
        }
        return true;
    }

    void serve(Ring &ring, uint32_t qid) {
        uint32_t reaped = 0;
        while (ring.inflight > 0 && reap(ring, kDepth) != 0)
            ++reaped;
        if (reaped > 0)
            store(0x1000 + (2 * qid + 1) * 4, ring.head);
        done_ += reaped;
        const uint32_t room = kDepth - 1 - ring.inflight;
        for (uint32_t i = 0; i < room; ++i) {
            random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
            const uint64_t lba = (random_ >> 20) % blocks_;
            const uint64_t bus = data_.bus + ((qid - 1) * kDepth + ring.tail) * kBlockBytes;
            // The slot's number is a free CID: completions come in order here, so its last command is done.
            uint32_t sqe[16] = {opcode_ | ring.tail << 16, 1};
            sqe[6] = static_cast<uint32_t>(bus);
            sqe[7] = static_cast<uint32_t>(bus >> 32);
            sqe[10] = static_cast<uint32_t>(lba);
            sqe[11] = static_cast<uint32_t>(lba >> 32);
            send(ring, kDepth, sqe);
        }
        if (room > 0)
            store(0x1000 + 2 * qid * 4, ring.tail);
    }

    tt_port under_;
    uint32_t opcode_;
    uint64_t blocks_;
    uint64_t warm_up_;
    uint64_t commands_;
    uint8_t *bar_ = nullptr;
    Memory data_;
    Ring admin_;
    std::vector<Ring> rings_;
    Stage stage_ = Stage::disabled;
    uint32_t made_ = 0;
    uint64_t random_ = 1;
    uint64_t done_ = 0;
    uint64_t start_done_ = 0;
    uint64_t start_ns_ = 0;
};

Host *host_of(void *ctx) { return static_cast<Host *>(ctx); }

// The plain port, but for the wait.
const tt_port_ops kOps = {
    sizeof(tt_port_ops),
    [](void *ctx, uint64_t bus, void *dst, uint64_t len) {
        const tt_port under = host_of(ctx)->under();
        return under.ops->dma_read(under.ctx, bus, dst, len);
    },
    [](void *ctx, uint64_t bus, const void *src, uint64_t len) {
        const tt_port under = host_of(ctx)->under();
        return under.ops->dma_write(under.ctx, bus, src, len);
    },
    [](void *ctx, uint64_t bus, uint64_t len) {
        const tt_port under = host_of(ctx)->under();
        return under.ops->dma_map(under.ctx, bus, len);
    },
    [](void *, const uint32_t *reg) { return __atomic_load_n(reg, __ATOMIC_ACQUIRE); },
    [](void *, uint32_t *reg, uint32_t value) { __atomic_store_n(reg, value, __ATOMIC_RELEASE); },
    [](void *ctx) {
        const tt_port under = host_of(ctx)->under();
        return under.ops->now_ns(under.ctx);
    },
    [](void *ctx, uint64_t) {
        Host *host = host_of(ctx);
        const tt_port under = host->under();
        under.ops->wait_until(under.ctx, 0);
        return host->turn() ? int{TT_PORT_OK} : int{TT_PORT_STOP};
    },
};

// What the copies alone cost: the same blocks in the same order, without controller and host.
void copy_only(uint32_t queues, uint64_t commands, uint64_t bytes) {
    const auto allocate = [](uint64_t length) {
        void *pages = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED)
            die("no memory");
        madvise(pages, length, MADV_HUGEPAGE);
        std::memset(pages, 0x5A, length);
        return static_cast<uint8_t *>(pages);
    };
    const uint64_t target_bytes = static_cast<uint64_t>(queues) * kDepth * kBlockBytes;
    const uint8_t *source = allocate(bytes);
    uint8_t *target = allocate(target_bytes);
    uint64_t random = 1;
    uint64_t at = 0;
    const uint64_t start = cpu_ns();
    for (uint64_t i = 0; i < commands; ++i) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        std::memcpy(target + at, source + (random >> 20) % (bytes / kBlockBytes) * kBlockBytes, kBlockBytes);
        at = (at + kBlockBytes) % target_bytes;
    }
    const double seconds = static_cast<double>(cpu_ns() - start) / 1e9;
    std::printf("{\"commands\": %llu, \"cpu_seconds\": %.4f, \"commands_per_cpu_second\": %.0f}\n",
                static_cast<unsigned long long>(commands), seconds, static_cast<double>(commands) / seconds);
}

} // namespace

// controller_driver copy|null|software read|write QUEUES COMMANDS NAMESPACE_MIB
int main(int argc, char **argv) {
    if (argc != 6)
        die("usage: controller_driver copy|null|software read|write QUEUES COMMANDS NAMESPACE_MIB");
    const auto queues = static_cast<uint32_t>(std::atoi(argv[3]));
    const auto commands = static_cast<uint64_t>(std::atoll(argv[4]));
    const uint64_t bytes = static_cast<uint64_t>(std::atoll(argv[5])) << 20;
    if (std::strcmp(argv[1], "copy") == 0) {
        copy_only(queues, commands, bytes);
        return 0;
    }
    tt_namespace_config ns{};
    tt_namespace_defaults(&ns);
    ns.blocks = bytes / kBlockBytes;
    tt_controller_config config{};
    tt_controller_defaults(&config);
    config.kind = std::strcmp(argv[1], "null") == 0 ? TT_KIND_NULL : TT_KIND_SOFTWARE;
    config.namespaces = &ns;
    config.namespace_count = 1;
    config.io_queues = queues;
    tt_iommu *iommu = tt_iommu_create(1);
    tt_controller *controller = nullptr;
    tt_controller_error error{};
    if (tt_controller_create(&config, iommu, &controller, &error) != TT_CTRL_OK)
        die(error.message);
    std::vector<uint8_t> fill(1 << 20, 0x5A); // so that reads find memory, not the kernel's zero page
    for (uint64_t at = 0; at < bytes; at += fill.size())
        tt_controller_namespace_write(controller, 1, at, fill.data(), fill.size());
    tt_direct_port *port = tt_direct_port_create(iommu);
    Host host(controller, iommu, tt_direct_port_view(port), queues, std::strcmp(argv[2], "write") == 0 ? 1 : 2,
              ns.blocks, commands / 4, commands);
    tt_controller_run(controller, {&kOps, &host});
    const double seconds = host.seconds();
    tt_controller_counters counters{};
    counters.struct_size = sizeof counters;
    tt_controller_counters_read(controller, &counters);
    std::printf(
        "{\"commands\": %llu, \"cpu_seconds\": %.4f, \"commands_per_cpu_second\": %.0f, \"sqes_per_fetch\": %.1f, "
        "\"commands_per_doorbell\": %.1f}\n",
        static_cast<unsigned long long>(host.measured()), seconds, static_cast<double>(host.measured()) / seconds,
        static_cast<double>(counters.sqes_fetched) / static_cast<double>(counters.fetches),
        static_cast<double>(counters.sqes_fetched) / static_cast<double>(counters.sq_doorbells));
    tt_direct_port_destroy(port);
    tt_controller_destroy(controller);
    tt_iommu_destroy(iommu);
    return 0;
}
