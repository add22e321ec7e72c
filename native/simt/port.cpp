/* SPDX-License-Identifier: Apache-2.0
 *
 * The port of a controller in mode `sim`: every call is a scheduling point of the world.
 */
#include "simt/world.h"

namespace tutti::simt {
namespace {

constexpr std::uint32_t kTransferNs = 300;
constexpr std::uint64_t kBytesPerNs = 16;
constexpr std::uint32_t kRegisterNs = 5;

Controller &controller_of(void *context) { return *static_cast<Controller *>(context); }
World &world_of(void *context) { return *controller_of(context).agent.world; }

void step(void *context, const char *at, std::uint64_t cost_ns) {
    Controller &controller = controller_of(context);
    controller.at = at;
    controller.agent.trace = followed_by(controller.agent.trace, reinterpret_cast<std::uintptr_t>(at));
    controller.agent.world->step(controller.agent, static_cast<std::uint32_t>(cost_ns));
}

std::uint64_t transfer_ns(std::uint64_t length) { return kTransferNs + length / kBytesPerNs % UINT32_MAX; }

/* Calls piece(host address, offset, length) for the whole range, or for nothing of it. */
template <class Piece>
int each_piece(tt_iommu *iommu, std::uint64_t bus, std::uint64_t length, std::uint32_t need, const Piece &piece) {
    if (iommu == nullptr)
        return TT_PORT_FAULT;
    for (const bool act : {false, true})
        for (std::uint64_t done = 0; done < length;) {
            void *host = nullptr;
            const std::uint64_t part = tt_iommu_translate(iommu, bus + done, length - done, need, &host);
            if (part == 0)
                return TT_PORT_FAULT;
            if (act)
                piece(reinterpret_cast<std::uintptr_t>(host), done, part);
            done += part;
        }
    return TT_PORT_OK;
}

int dma_read(void *context, std::uint64_t bus, void *destination, std::uint64_t length) {
    step(context, "dma_read", transfer_ns(length));
    return each_piece(controller_of(context).iommu, bus, length, TT_MAP_READ,
                      [&](std::uint64_t host, std::uint64_t offset, std::uint64_t part) {
                          world_of(context).moved(controller_of(context).agent, host, part, false);
                          world_of(context).memory().dma_read(controller_of(context).agent, host,
                                                              static_cast<std::byte *>(destination) + offset, part);
                      });
}

int dma_write(void *context, std::uint64_t bus, const void *source, std::uint64_t length) {
    step(context, "dma_write", transfer_ns(length));
    const int status =
        each_piece(controller_of(context).iommu, bus, length, TT_MAP_WRITE,
                   [&](std::uint64_t host, std::uint64_t offset, std::uint64_t part) {
                       world_of(context).moved(controller_of(context).agent, host, part, true);
                       world_of(context).memory().dma_write(controller_of(context).agent, host,
                                                            static_cast<const std::byte *>(source) + offset, part);
                   });
    world_of(context).note_change();
    return status;
}

void *dma_map(void *, std::uint64_t, std::uint64_t) { return nullptr; }

std::uint32_t mmio_load(void *context, const std::uint32_t *reg) {
    step(context, "mmio_load", kRegisterNs);
    return world_of(context).memory().register_arrived(controller_of(context).agent,
                                                       reinterpret_cast<std::uintptr_t>(reg));
}

void mmio_store(void *context, std::uint32_t *reg, std::uint32_t value) {
    step(context, "mmio_store", kRegisterNs);
    world_of(context).memory().register_set(controller_of(context).agent, reinterpret_cast<std::uintptr_t>(reg), value);
    world_of(context).note_change();
}

std::uint64_t now_ns(void *context) { return world_of(context).now_ns(); }

int wait_until(void *context, std::uint64_t deadline_ns) {
    return world_of(context).wait(controller_of(context), deadline_ns) ? TT_PORT_STOP : TT_PORT_OK;
}

} // namespace

tt_port sim_port(Controller &controller) {
    static const tt_port_ops ops = {
        sizeof(tt_port_ops), dma_read, dma_write, dma_map, mmio_load, mmio_store, now_ns, wait_until,
    };
    return {&ops, &controller};
}

} // namespace tutti::simt
