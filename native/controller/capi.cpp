// SPDX-License-Identifier: Apache-2.0
//
// The C ABI's edge: sizes, nulls and exceptions end here.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>

#include "controller/controller.h"

static_assert(sizeof(tt_controller_error) == 248);
static_assert(sizeof(tt_namespace_config) == 56);
static_assert(sizeof(tt_controller_config) == 176);
static_assert(sizeof(tt_fault_rule) == 104);
static_assert(sizeof(tt_controller_counters) == 8 + 2 * 256 * 8 + 15 * 8);
static_assert(sizeof(tt_queue_counters) == 40);
static_assert(sizeof(tt_namespace_info) == 48);

struct tt_controller {
    tt_controller(const tt_controller_config &config, tt_iommu &iommu) : impl(config, iommu) {}
    tutti::controller::Controller impl;
};

namespace {

using tutti::controller::Namespace;
using tutti::controller::Refusal;
using tutti::controller::Region;

// Runs what may throw; the return value and *error say what came of it.
template <typename Body> int at_edge(tt_controller_error *error, Body body) {
    uint32_t code = TT_CTRL_OK;
    int system_errno = 0;
    const auto tell = [error](const char *message) {
        if (error != nullptr)
            std::snprintf(error->message, sizeof error->message, "%s", message);
    };
    tell("");
    try {
        body();
    } catch (const Refusal &refusal) {
        code = refusal.code();
        system_errno = refusal.system_errno();
        tell(refusal.what());
    } catch (const std::bad_alloc &) {
        code = TT_CTRL_NO_MEMORY;
        tell("out of memory");
    } catch (const std::exception &other) { // threads that cannot be started
        code = TT_CTRL_SYSTEM;
        tell(other.what());
    }
    if (error != nullptr) {
        error->code = code;
        error->system_errno = system_errno;
    }
    return static_cast<int>(code);
}

// Fills a struct of the size that the caller knows.
template <typename Struct> int copy_out(Struct &full, Struct *out) {
    if (out == nullptr || out->struct_size < sizeof(uint32_t) || out->struct_size > sizeof full)
        return TT_CTRL_INVALID;
    full.struct_size = out->struct_size;
    std::memcpy(out, &full, out->struct_size);
    return TT_CTRL_OK;
}

bool immediate_action(uint32_t action) {
    return action == TT_FAULT_FATAL || action == TT_FAULT_FATAL_STOP || action == TT_FAULT_GONE ||
           action == TT_FAULT_READY_STUCK;
}

Namespace *in_range(tt_controller *controller, uint32_t nsid, uint64_t offset, uint64_t len) {
    Namespace *ns = controller->impl.find_namespace(nsid);
    if (ns == nullptr)
        return nullptr;
    const uint64_t bytes = ns->blocks() << ns->lba_shift();
    if (offset > bytes || len > bytes - offset)
        return nullptr;
    tt_namespace_info info{};
    ns->describe(info);
    return info.direct != 0 && (offset % ns->block_bytes() != 0 || len % ns->block_bytes() != 0) ? nullptr : ns;
}

// Through aligned memory, which direct I/O needs.
void access_stored(Namespace &ns, uint64_t offset, uint8_t *bytes, uint64_t len, bool write) {
    tutti::controller::IoContext buffers;
    for (uint64_t at = 0; at < len;) {
        const uint64_t count = std::min(tutti::controller::IoContext::kDataBytes, len - at);
        if (write)
            std::memcpy(buffers.data(), bytes + at, count);
        const int error = write ? ns.write(Region::data, offset + at, buffers.data(), count)
                                : ns.read(Region::data, offset + at, buffers.data(), count);
        if (error != 0)
            throw Refusal(TT_CTRL_SYSTEM, std::strerror(error), error);
        if (!write)
            std::memcpy(bytes + at, buffers.data(), count);
        at += count;
    }
}

} // namespace

extern "C" {

void tt_controller_defaults(tt_controller_config *config) {
    *config = {};
    config->struct_size = sizeof *config;
    config->version = 0x00020000;
    config->mqes = 1023;
    config->mpsmax = 4;
    config->mdts = 5;
    config->cqr = 1;
    config->timeout_500ms = 10;
    config->io_queues = 16;
    config->interrupt_vectors = 17;
    config->sgls = 1 | 1u << 16 | 1u << 17 | 1u << 18 | 1u << 19;
    config->volatile_cache = TT_CACHE_DECLARED;
    config->aerl = 3;
    config->need_queue_count = 1;
}

void tt_namespace_defaults(tt_namespace_config *config) {
    *config = {};
    config->struct_size = sizeof *config;
    config->nsid = 1;
    config->lba_shift = 12;
}

int tt_controller_create(const tt_controller_config *config, tt_iommu *iommu, tt_controller **controller,
                         tt_controller_error *error) {
    return at_edge(error, [&] {
        if (config == nullptr || iommu == nullptr || controller == nullptr || config->struct_size != sizeof *config)
            throw Refusal(TT_CTRL_INVALID, "null pointer, or the configuration is of another version");
        *controller = new tt_controller(*config, *iommu);
    });
}

void tt_controller_destroy(tt_controller *controller) { delete controller; }

void *tt_controller_bar(tt_controller *controller, uint64_t *bytes) {
    *bytes = controller->impl.registers().bytes();
    return controller->impl.registers().base();
}

int tt_controller_start(tt_controller *controller, uint32_t threads, tt_controller_error *error) {
    return at_edge(error, [&] { controller->impl.start(threads); });
}

void tt_controller_stop(tt_controller *controller) { controller->impl.stop(); }

void tt_controller_run(void *arg, tt_port port) { static_cast<tt_controller *>(arg)->impl.run(port); }

int tt_controller_power_cut(tt_controller *controller, uint64_t seed, uint32_t survive_ppm) {
    if (survive_ppm > 1'000'000)
        return TT_CTRL_INVALID;
    return at_edge(nullptr, [&] { controller->impl.power_cut(seed, survive_ppm); });
}

int tt_controller_inject(tt_controller *controller, const tt_fault_rule *rule, uint64_t *id) {
    if (rule == nullptr || rule->struct_size != sizeof *rule || rule->action < TT_FAULT_STATUS ||
        rule->action > TT_FAULT_FORGED || rule->match > 31 || rule->crd > 3 || rule->ppm > 1'000'000 ||
        rule->status > 0x7FF || (rule->immediate != 0 && !immediate_action(rule->action)) ||
        (rule->immediate == 0 && rule->action == TT_FAULT_READY_STUCK))
        return TT_CTRL_INVALID;
    if (rule->immediate == 0)
        return at_edge(nullptr, [&] {
            const uint64_t added = controller->impl.faults().add(*rule);
            if (id != nullptr)
                *id = added;
        });
    if (id != nullptr)
        *id = 0;
    switch (rule->action) {
    case TT_FAULT_GONE:
        controller->impl.vanish();
        break;
    case TT_FAULT_READY_STUCK:
        controller->impl.stick_ready();
        break;
    default:
        controller->impl.fail(rule->action == TT_FAULT_FATAL_STOP);
    }
    return TT_CTRL_OK;
}

uint64_t tt_controller_fault_hits(tt_controller *controller, uint64_t id) { return controller->impl.faults().hits(id); }

int tt_controller_clear_fault(tt_controller *controller, uint64_t id) {
    return controller->impl.faults().remove(id) ? TT_CTRL_OK : TT_CTRL_INVALID;
}

int tt_controller_counters_read(tt_controller *controller, tt_controller_counters *counters) {
    tt_controller_counters full{};
    controller->impl.read_counters(full);
    return copy_out(full, counters);
}

int tt_controller_queue_counters_read(tt_controller *controller, uint32_t qid, tt_queue_counters *counters) {
    if (qid > controller->impl.config().io_queues)
        return TT_CTRL_INVALID;
    const tutti::controller::QueueCounters &in = controller->impl.queue_counters(qid);
    tt_queue_counters full{};
    full.depth = in.depth.load(std::memory_order_relaxed);
    full.sq_doorbells = in.sq_doorbells.get();
    full.cq_doorbells = in.cq_doorbells.get();
    full.commands = in.commands.get();
    full.completions = in.completions.get();
    return copy_out(full, counters);
}

int tt_controller_namespace_info(tt_controller *controller, uint32_t nsid, tt_namespace_info *info) {
    Namespace *ns = controller->impl.find_namespace(nsid);
    if (ns == nullptr)
        return TT_CTRL_NS_MISSING;
    tt_namespace_info full{};
    ns->describe(full);
    full.blocks = ns->blocks();
    full.allocated_bytes = ns->allocated_bytes();
    full.read_only = ns->read_only() ? 1 : 0;
    full.unflushed_blocks = ns->cache().size();
    return copy_out(full, info);
}

int tt_controller_namespace_read(tt_controller *controller, uint32_t nsid, uint64_t offset, void *dst, uint64_t len) {
    Namespace *ns = in_range(controller, nsid, offset, len);
    if (ns == nullptr || dst == nullptr)
        return TT_CTRL_INVALID;
    return at_edge(nullptr, [&] { access_stored(*ns, offset, static_cast<uint8_t *>(dst), len, false); });
}

int tt_controller_namespace_metadata(tt_controller *controller, uint32_t nsid, uint64_t offset, void *bytes,
                                     uint64_t len, int write) {
    Namespace *ns = controller->impl.find_namespace(nsid);
    if (ns == nullptr || bytes == nullptr)
        return TT_CTRL_INVALID;
    const uint64_t all = ns->blocks() * ns->metadata_bytes();
    if (offset > all || len > all - offset)
        return TT_CTRL_INVALID;
    const int error =
        write != 0 ? ns->write(Region::metadata, offset, bytes, len) : ns->read(Region::metadata, offset, bytes, len);
    return error == 0 ? TT_CTRL_OK : TT_CTRL_SYSTEM;
}

int tt_controller_namespace_write(tt_controller *controller, uint32_t nsid, uint64_t offset, const void *src,
                                  uint64_t len) {
    Namespace *ns = in_range(controller, nsid, offset, len);
    if (ns == nullptr || src == nullptr)
        return TT_CTRL_INVALID;
    return at_edge(nullptr,
                   [&] { access_stored(*ns, offset, static_cast<uint8_t *>(const_cast<void *>(src)), len, true); });
}
}
