// SPDX-License-Identifier: Apache-2.0
//
// Identify: offsets from the specification; each line names the field.
#include <algorithm>
#include <cstring>

#include "controller/admin.h"
#include "controller/controller.h"

namespace tutti::controller {

namespace {

constexpr uint32_t kNamespace = 0x00, kController = 0x01, kActiveNamespaces = 0x02, kDescriptors = 0x03,
                   kCommandSetController = 0x06;
constexpr uint32_t kIdentifyEntries = 1024;

void put_text(uint8_t *page, uint32_t offset, uint32_t len, const std::string &text) {
    std::memset(page + offset, ' ', len);
    std::memcpy(page + offset, text.data(), std::min<size_t>(len, text.size()));
}

// An id that is the same on every run for the same serial number and namespace.
uint64_t stable_id(const std::string &serial, uint32_t nsid, uint64_t salt) {
    uint64_t hash = 0xCBF29CE484222325ULL ^ salt;
    for (const char c : serial)
        hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
    for (int i = 0; i < 4; ++i)
        hash = (hash ^ (nsid >> (8 * i) & 0xFF)) * 0x100000001B3ULL;
    return hash;
}

void fill_controller(Controller &controller, uint8_t *page) {
    const tt_controller_config &config = controller.config();
    put<uint16_t>(page, 0, 0x1B36); // VID
    put<uint16_t>(page, 2, 0x1AF4); // SSVID
    put_text(page, 4, 20, controller.serial());
    put_text(page, 24, 40, config.kind == TT_KIND_NULL ? "tutti-hal null controller" : "tutti-hal software controller");
    put_text(page, 64, 8, "1.0");
    page[72] = 5;                                                              // RAB: bursts of 32
    page[77] = static_cast<uint8_t>(config.mdts);                              // MDTS
    put<uint32_t>(page, 80, config.version);                                   // VER
    page[111] = 1;                                                             // CNTRLTYPE: I/O controller
    put<uint16_t>(page, 128, 1);                                               // CRDT1: 100 ms
    put<uint16_t>(page, 130, 2);                                               // CRDT2
    put<uint16_t>(page, 132, 5);                                               // CRDT3
    page[258] = 15;                                                            // ACL: 16 aborts at a time
    page[259] = static_cast<uint8_t>(config.aerl);                             // AERL
    page[260] = 0x03;                                                          // FRMW: one slot, read-only
    page[261] = 0x04;                                                          // LPA: extended data of Get Log Page
    page[262] = ErrorLog::kEntries - 1;                                        // ELPE
    put<uint16_t>(page, 266, 343);                                             // WCTEMP
    put<uint16_t>(page, 268, 353);                                             // CCTEMP
    page[512] = 0x66;                                                          // SQES
    page[513] = 0x44;                                                          // CQES
    put<uint32_t>(page, 516, controller.highest_nsid());                       // NN
    put<uint16_t>(page, 520, 1u << 0 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 7); // ONCS: compare DSM zeroes select verify
    page[525] = static_cast<uint8_t>((config.volatile_cache != TT_CACHE_NONE ? 1 : 0) | 3u << 1); // VWC, flush of all
    put<uint32_t>(page, 536, config.sgls);                                                        // SGLS
    put<uint32_t>(page, 540, static_cast<uint32_t>(controller.namespaces().size()));              // MNAN
    const std::string subnqn = "nqn.2026-01.io.tutti-hal:software:" + controller.serial();
    std::memcpy(page + 768, subnqn.data(), std::min<size_t>(subnqn.size(), 223));
    put<uint16_t>(page, 2048, 2500); // PSD0: 25 W
}

void fill_namespace(Namespace &ns, const std::string &serial, uint8_t *page) {
    put<uint64_t>(page, 0, ns.blocks()); // NSZE
    put<uint64_t>(page, 8, ns.blocks()); // NCAP
    const uint64_t used = ns.thin() ? ns.allocated_bytes() >> ns.lba_shift() : ns.blocks();
    put<uint64_t>(page, 16, std::min(used, ns.blocks())); // NUSE
    page[24] = ns.thin() ? 1 : 0;                         // NSFEAT: thin provisioning
    page[25] = static_cast<uint8_t>(ns.format_index());   // NLBAF: those up to the one in use
    const uint32_t index = ns.format_index();
    page[26] = static_cast<uint8_t>((index & 0xF) | (index >> 4) << 5 | (ns.metadata_inline() ? 1u << 4 : 0)); // FLBAS
    page[27] = static_cast<uint8_t>(ns.metadata_bytes() == 0 ? 0 : ns.metadata_inline() ? 1 : 2);              // MC
    page[28] = static_cast<uint8_t>(ns.metadata_bytes() == 0 ? 0 : 0x1F);                                      // DPC
    page[29] = static_cast<uint8_t>(ns.protection_type() | (ns.protection_first() ? 8u : 0u));                 // DPS
    page[33] = 1;                                              // DLFEAT: deallocated blocks read as zeroes
    page[99] = ns.read_only() ? 1 : 0;                         // NSATTR: write protected
    put<uint64_t>(page, 104, stable_id(serial, ns.nsid(), 1)); // NGUID
    put<uint64_t>(page, 112, stable_id(serial, ns.nsid(), 2));
    put<uint64_t>(page, 120, stable_id(serial, ns.nsid(), 3)); // EUI64
    // Formats before the one in use are there to be skipped: 512 bytes without metadata.
    for (uint32_t i = 0; i <= index; ++i) {
        const uint32_t shift = i == index ? ns.lba_shift() : 9;
        const uint32_t metadata = i == index ? ns.metadata_bytes() : 0;
        put<uint32_t>(page, 128 + 4 * i, metadata | shift << 16);
    }
}

void fill_descriptors(Namespace &ns, const std::string &serial, uint8_t *page) {
    page[0] = 1; // NIDT: EUI64
    page[1] = 8;
    put<uint64_t>(page, 4, stable_id(serial, ns.nsid(), 3));
    page[12] = 2; // NGUID
    page[13] = 16;
    put<uint64_t>(page, 16, stable_id(serial, ns.nsid(), 1));
    put<uint64_t>(page, 24, stable_id(serial, ns.nsid(), 2));
    page[32] = 4; // command set: NVM
    page[33] = 1;
}

} // namespace

Status fill_identify(Controller &controller, const Sqe &sqe, uint8_t *page) {
    const uint32_t cns = sqe.dw[10] & 0xFF;
    const uint32_t nsid = sqe.nsid();
    switch (cns) {
    case kNamespace:
    case kDescriptors: {
        if (nsid == 0 || nsid > controller.highest_nsid())
            return status::kInvalidNamespace;
        Namespace *ns = controller.find_namespace(nsid);
        if (ns == nullptr) // not active: zeroes for the one, no descriptors to give for the other
            return cns == kNamespace ? status::kSuccess : status::kInvalidNamespace;
        if (cns == kNamespace)
            fill_namespace(*ns, controller.serial(), page);
        else
            fill_descriptors(*ns, controller.serial(), page);
        return status::kSuccess;
    }
    case kController:
        fill_controller(controller, page);
        return status::kSuccess;
    case kActiveNamespaces: {
        if (nsid >= 0xFFFFFFFE)
            return status::kInvalidNamespace;
        uint32_t count = 0;
        for (const auto &ns : controller.namespaces())
            if (ns->nsid() > nsid && count < kIdentifyEntries)
                put<uint32_t>(page, 4 * count++, ns->nsid());
        return status::kSuccess;
    }
    case kCommandSetController:
        // Of the NVM command set: all zero, no limits beyond those of Identify Controller.
        return sqe.dw[11] >> 24 == 0 ? status::kSuccess : status::kInvalidField;
    default:
        return status::kInvalidField;
    }
}

} // namespace tutti::controller
