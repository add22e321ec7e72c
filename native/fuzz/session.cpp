// SPDX-License-Identifier: Apache-2.0
//
// The fuzz target: an input is a configuration and then steps of a host, good or bad. The controller runs its own loop;
// each time it waits, the host makes its next step. README.md lists the steps and their bytes.
#include <array>
#include <memory>

#include "fuzz/input.h"
#include "fuzz/model.h"

namespace tutti::fuzz {

namespace {

namespace reg = controller::reg;
namespace admin_op = controller::admin_op;

constexpr uint32_t kMostSteps = 512;
constexpr uint32_t kMostCalls = 1u << 20; // of the port in one turn: more is a loop without an end
constexpr uint32_t kRestRounds = 48;
constexpr uint32_t kRestTurns = 6;           // the controller sleeps after four turns in which nothing moved
constexpr uint32_t kEntrySizes = 0x00460000; // CC.IOCQES and CC.IOSQES

enum class Step : uint8_t {
    enable,
    store,
    poke,
    list,
    segment,
    raw_entry,
    entry,
    ring,
    ring_raw,
    reap,
    create_pair,
    queue_count,
    fault,
    clear_faults,
    pass_time,
    power_cut,
    grant,
    disable,
    idle,
    count,
};

struct Setup {
    tt_namespace_config namespaces[2];
    tt_controller_config config;
};

// 8 bytes.
Setup read_setup(Input &in) {
    constexpr std::array<uint32_t, 6> kSgls = {0, 1, 2, 1 | 7u << 16, 2 | 7u << 16, 1 | 15u << 16};
    Setup setup{};
    const uint8_t a = in.u8(), b = in.u8(), c = in.u8(), d = in.u8(), e = in.u8(), f = in.u8(), g = in.u8(),
                  h = in.u8();
    for (uint32_t i = 0; i < 2; ++i) {
        tt_namespace_config &ns = setup.namespaces[i];
        ns.struct_size = sizeof ns;
        ns.kind = TT_NS_MEMORY;
        ns.nsid = i == 0 ? 1 : 3;
    }
    tt_namespace_config &first = setup.namespaces[0];
    first.lba_shift = (a & 1) != 0 ? 12 : 9;
    first.blocks = 64 + (a >> 4);
    first.metadata_bytes = (a >> 1 & 3) == 1 ? 8 : (a >> 1 & 3) == 2 ? 64 : 0;
    first.metadata_inline = first.metadata_bytes != 0 ? a >> 3 & 1 : 0;
    if (first.metadata_bytes != 0 && (g >> 4 & 3) != 0)
        first.protection = (g >> 4 & 3) | (g >> 6 & 1) << 3;
    setup.namespaces[1].lba_shift = 12;
    setup.namespaces[1].blocks = 8;
    setup.namespaces[1].read_only = b & 1;

    tt_controller_config &config = setup.config;
    config.struct_size = sizeof config;
    config.kind = (b >> 1 & 7) == 7 ? TT_KIND_NULL : TT_KIND_SOFTWARE;
    config.seed = h;
    config.version = (b >> 4 & 1) != 0 ? 0x00010400 : 0x00020000;
    config.mqes = (b >> 5 & 1) != 0 ? 255 : 7;
    config.dstrd = b >> 6 & 3;
    config.mpsmax = c & 1;
    config.mdts = c >> 1 & 7;
    config.cqr = c >> 4 & 1;
    config.need_queue_count = c >> 5 & 1;
    config.volatile_cache = (c >> 6 & 3) % 3;
    config.cache_bytes = 16384;
    config.timeout_500ms = 1;
    config.io_queues = 3;
    config.interrupt_vectors = 4;
    config.sgls = kSgls[d % kSgls.size()];
    config.aerl = d >> 5 & 3;
    config.order = e & 3;
    config.order_window = 1 + (e >> 2 & 7);
    config.starved_queue = 1;
    config.cqe_batch = 1 + (e >> 5 & 7);
    config.hold_ns = (f & 1) != 0 ? 1000 : 0;
    config.sqhd_lag = f >> 1 & 7;
    config.fetch_batch = 1 + (f >> 4 & 7);
    config.latency_ns = (g & 1) != 0 ? 500 : 0;
    config.slow_latency_ns = 5000;
    config.slow_ppm = (g & 2) != 0 ? 300'000 : 0;
    config.ready_delay_ns = (g & 4) != 0 ? 2000 : 0;
    config.shutdown_delay_ns = (g & 8) != 0 ? 2000 : 0;
    config.namespace_count = 2;
    return setup;
}

class Session {
  public:
    Session(const uint8_t *data, size_t size, tt_iommu &iommu)
        : in_(data, size), setup_(read_setup(in_)),
          controller_((setup_.config.namespaces = setup_.namespaces, setup_.config), iommu),
          model_(controller_, memory_) {}

    void run() {
        static const tt_port_ops ops = {
            sizeof(tt_port_ops),
            [](void *self, uint64_t bus, void *dst, uint64_t len) { return of(self).read(bus, dst, len); },
            [](void *self, uint64_t bus, const void *src, uint64_t len) { return of(self).write(bus, src, len); },
            [](void *, uint64_t, uint64_t) -> void * { return nullptr; },
            [](void *self, const uint32_t *at) { return of(self).load(at); },
            [](void *self, uint32_t *at, uint32_t value) { of(self).store(at, value); },
            [](void *self) { return of(self).now_; },
            [](void *self, uint64_t deadline) { return of(self).wait(deadline); },
        };
        controller_.run({&ops, this});
        model_.at_rest();
    }

  private:
    static Session &of(void *self) { return *static_cast<Session *>(self); }

    // ---- the port ----

    void enter() {
        must(++calls_ < kMostCalls, "one turn of the controller does not end");
        model_.settle();
    }
    int read(uint64_t bus, void *dst, uint64_t len) {
        enter();
        must(len > 0, "a read of nothing");
        if (!memory_.allowed(bus, len, TT_MAP_READ)) {
            model_.refused();
            return TT_PORT_FAULT;
        }
        model_.before_read(bus, len);
        memory_.peek(bus, dst, len);
        return TT_PORT_OK;
    }
    int write(uint64_t bus, const void *src, uint64_t len) {
        enter();
        must(len > 0, "a write of nothing");
        const bool allowed = memory_.allowed(bus, len, TT_MAP_WRITE);
        model_.before_write(bus, src, len, allowed);
        if (!allowed) {
            model_.refused();
            return TT_PORT_FAULT;
        }
        memory_.poke(bus, src, len); // reads all of src, which a sanitizer sees
        return TT_PORT_OK;
    }
    uint64_t offset_of(const uint32_t *at) {
        const auto base = reinterpret_cast<uintptr_t>(controller_.registers().base());
        const uint64_t offset = reinterpret_cast<uintptr_t>(at) - base;
        must(offset < controller_.registers().bytes() && offset % 4 == 0, "a register outside the BAR");
        return offset;
    }
    uint32_t load(const uint32_t *at) {
        enter();
        const uint64_t offset = offset_of(at);
        model_.loaded(offset, *at);
        return *at;
    }
    void store(uint32_t *at, uint32_t value) {
        enter();
        offset_of(at);
        *at = value;
    }
    int wait(uint64_t deadline) {
        enter();
        calls_ = 0;
        model_.after_turn();
        ++now_;
        if (turns_ > 0) {
            --turns_;
            return TT_PORT_OK;
        }
        if (!in_.empty() && steps_ < kMostSteps) {
            ++steps_;
            step();
            turns_ = 1;
            return TT_PORT_OK;
        }
        return rest(deadline);
    }

    // The input is over: faults are taken back, completions are reaped, time passes, until nothing can be left.
    int rest(uint64_t deadline) {
        if (rounds_++ == kRestRounds || (rounds_ > 2 && (!controller_.serving() || model_.idle())))
            return TT_PORT_STOP;
        if (rounds_ == 1)
            clear_faults();
        for (auto &[qid, cq] : model_.cqs)
            reap(qid, cq, cq.used);
        now_ = deadline != UINT64_MAX && deadline > now_ ? deadline : now_ + 10'000;
        turns_ = kRestTurns;
        return TT_PORT_OK;
    }

    // ---- the host ----

    uint64_t address() {
        constexpr std::array<uint16_t, 8> kPlaces = {0, 0, 4, 8, 512, 2048, 4088, 4080};
        const uint8_t kind = in_.u8();
        switch (kind & 7) {
        case 5:
            return 0;
        case 6:
            return in_.u64();
        case 7:
            return ~0ULL - kPlaces[kind >> 3 & 7];
        default:
            return Memory::bus(in_.u8()) + kPlaces[kind >> 3 & 7];
        }
    }
    uint32_t &bar(uint64_t offset) { return static_cast<uint32_t *>(controller_.registers().base())[offset / 4]; }
    void put(uint64_t offset, uint32_t value) { bar(offset) = value; }

    void reap(uint16_t qid, Completions &cq, uint32_t count) {
        const uint32_t given = count < cq.used ? count : cq.used;
        *controller_.registers().cq_doorbell(qid) = (cq.head + given) % cq.depth;
    }
    void submit(uint16_t qid, const void *entry) {
        const auto at = model_.sqs.find(qid);
        if (at == model_.sqs.end())
            return;
        Submission &sq = at->second;
        memory_.poke(sq.is->memory.address(sq.host_tail), entry, 64);
        sq.host_tail = (sq.host_tail + 1) % sq.depth;
    }
    void ring(uint16_t qid) {
        const auto at = model_.sqs.find(qid);
        if (at != model_.sqs.end())
            *controller_.registers().sq_doorbell(qid) = at->second.host_tail;
    }
    void submit_admin(uint8_t opcode, uint16_t cid, uint64_t prp1, uint32_t dw10, uint32_t dw11) {
        controller::Sqe sqe{};
        sqe.dw[0] = opcode | static_cast<uint32_t>(cid) << 16;
        sqe.dw[6] = static_cast<uint32_t>(prp1);
        sqe.dw[7] = static_cast<uint32_t>(prp1 >> 32);
        sqe.dw[10] = dw10;
        sqe.dw[11] = dw11;
        submit(0, &sqe);
    }
    uint16_t queue() { return static_cast<uint16_t>(in_.u8() % (setup_.config.io_queues + 1)); }

    void clear_faults() {
        model_.remember_hits();
        controller_.faults().remove(0);
    }

    void step() {
        switch (static_cast<Step>(in_.u8() % static_cast<uint8_t>(Step::count))) {
        case Step::enable: {
            const uint8_t entries = in_.u8();
            const uint64_t asq = address(), acq = address();
            put(reg::kAqa, (entries & 15u) | (entries >> 4 & 15u) << 16);
            put(reg::kAsq, static_cast<uint32_t>(asq));
            put(reg::kAsq + 4, static_cast<uint32_t>(asq >> 32));
            put(reg::kAcq, static_cast<uint32_t>(acq));
            put(reg::kAcq + 4, static_cast<uint32_t>(acq >> 32));
            put(reg::kCc, kEntrySizes | (in_.u8() & 3u) << 7 | 1);
            break;
        }
        case Step::store: {
            const uint64_t offset = in_.u16() * 4ULL % controller_.registers().bytes();
            put(offset, in_.u32());
            break;
        }
        case Step::poke: {
            const uint64_t at = address();
            std::array<uint8_t, 64> bytes{};
            const size_t len = 1 + in_.u8() % bytes.size();
            in_.bytes(bytes.data(), len);
            memory_.poke(at, bytes.data(), len);
            break;
        }
        case Step::list: { // PRP entries
            const uint64_t at = address();
            const uint32_t count = in_.u8() & 31;
            for (uint32_t i = 0; i < count; ++i) {
                const uint64_t entry = address();
                memory_.poke(at + i * 8, &entry, sizeof entry);
            }
            break;
        }
        case Step::segment: { // SGL descriptors
            const uint64_t at = address();
            const uint32_t count = in_.u8() & 15;
            for (uint32_t i = 0; i < count; ++i) {
                const uint64_t where = address();
                const uint64_t tail = in_.u16() | static_cast<uint64_t>(in_.u8()) << 56;
                const uint64_t descriptor[2] = {where, tail};
                memory_.poke(at + i * 16, descriptor, sizeof descriptor);
            }
            break;
        }
        case Step::raw_entry: {
            const uint16_t qid = queue();
            std::array<uint8_t, 64> entry{};
            in_.bytes(entry.data(), entry.size());
            submit(qid, entry.data());
            break;
        }
        case Step::entry: { // one whose addresses mean something
            const uint16_t qid = queue();
            controller::Sqe sqe{};
            const uint8_t flags = in_.u8();
            sqe.dw[0] = in_.u8() | (flags & 3u) << 14 | (flags >> 2 & 3u) << 8 | static_cast<uint32_t>(in_.u16()) << 16;
            sqe.dw[1] = (flags >> 4 & 7) == 7 ? controller::kBroadcast : flags >> 4 & 7u;
            for (const int at : {4, 6}) {
                const uint64_t where = address();
                std::memcpy(&sqe.dw[at], &where, sizeof where);
            }
            uint64_t second = (flags & 3) == 0 ? address() : in_.u16() | static_cast<uint64_t>(in_.u8()) << 56;
            std::memcpy(&sqe.dw[8], &second, sizeof second);
            sqe.dw[10] = in_.u32();
            sqe.dw[11] = in_.u16();
            sqe.dw[12] = in_.u32();
            if ((flags & 0x80) != 0)
                sqe.dw[11] |= static_cast<uint32_t>(in_.u16()) << 16;
            submit(qid, &sqe);
            break;
        }
        case Step::ring:
            ring(queue());
            break;
        case Step::ring_raw: {
            const uint8_t which = in_.u8();
            const auto qid = static_cast<uint16_t>((which >> 1) % (setup_.config.io_queues + 1));
            *((which & 1) != 0 ? controller_.registers().cq_doorbell(qid) : controller_.registers().sq_doorbell(qid)) =
                in_.u16();
            break;
        }
        case Step::reap: {
            const auto cq = model_.cqs.find(queue());
            const uint8_t count = in_.u8();
            if (cq != model_.cqs.end())
                reap(cq->first, cq->second, count);
            break;
        }
        case Step::create_pair: {
            const uint16_t qid = queue();
            const uint8_t sizes = in_.u8();
            const uint8_t flags = in_.u8(); // contiguous or not, and the CQ that the SQ names
            const uint64_t cq = address(), sq = address();
            submit_admin(admin_op::kCreateCq, static_cast<uint16_t>(0x100 | qid), cq,
                         qid | static_cast<uint32_t>(sizes & 15) << 16, flags & 1u);
            submit_admin(admin_op::kCreateSq, static_cast<uint16_t>(0x200 | qid), sq,
                         qid | static_cast<uint32_t>(sizes >> 4) << 16,
                         (flags >> 1 & 1u) | static_cast<uint32_t>((flags & 4) != 0 ? flags >> 3 & 3 : qid) << 16);
            ring(0);
            break;
        }
        case Step::queue_count:
            submit_admin(admin_op::kSetFeatures, in_.u16(), 0, 7, in_.u8() | static_cast<uint32_t>(in_.u8()) << 16);
            ring(0);
            break;
        case Step::fault:
            inject();
            break;
        case Step::clear_faults:
            clear_faults();
            break;
        case Step::pass_time:
            now_ += in_.u16();
            break;
        case Step::power_cut:
            controller_.power_cut(in_.u8(), in_.u8() * 4000u);
            break;
        case Step::grant: {
            const uint8_t page = in_.u8();
            memory_.grant(page, in_.u8() & (TT_MAP_READ | TT_MAP_WRITE));
            break;
        }
        case Step::disable: {
            const uint8_t flags = in_.u8(); // with or without a notice of shutdown, and EN off
            put(reg::kCc, (bar(reg::kCc) & ~0xC001u) | (flags & 3u) << 14 | (flags >> 2 & 1u));
            break;
        }
        case Step::idle:
            turns_ += in_.u8() & 15;
            break;
        case Step::count:
            break;
        }
    }

    void inject() {
        tt_fault_rule rule{};
        rule.struct_size = sizeof rule;
        rule.action = 1 + in_.u8() % TT_FAULT_READY_STUCK;
        const uint8_t match = in_.u8();
        rule.match = match & 31u;
        rule.opcode = in_.u8();
        rule.qid = queue();
        rule.nsid = match >> 5;
        rule.cid = in_.u8();
        rule.nth = in_.u8() & 7;
        rule.count = 1 + (in_.u8() & 7);
        rule.status = 1 + in_.u8(); // never success: a failure must stay one
        rule.delay_ns = in_.u16();
        rule.corrupt_byte = in_.u16();
        rule.lba_last = rule.corrupt_byte;
        if (rule.action == TT_FAULT_READY_STUCK) {
            controller_.stick_ready();
            return;
        }
        if (rule.action == TT_FAULT_GONE && (match & 0x80) != 0) {
            controller_.vanish();
            return;
        }
        model_.rule(controller_.faults().add(rule), rule.action);
    }

    Input in_;
    Setup setup_;
    Memory memory_;
    controller::Controller controller_;
    Model model_;
    uint64_t now_ = 1;
    uint32_t calls_ = 0;
    uint32_t steps_ = 0;
    uint32_t turns_ = 0;
    uint32_t rounds_ = 0;
};

} // namespace

} // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    // Reserved once: nothing is mapped in it, for all memory is reached through the session's port.
    static tt_iommu iommu(0);
    tutti::fuzz::Session session(data, size, iommu);
    session.run();
    return 0;
}
