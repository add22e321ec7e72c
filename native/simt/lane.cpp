/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/lane.h"

#include <new>

namespace tutti::simt {

const char *name_of(Primitive primitive) {
    switch (primitive) {
    case Primitive::start:
        return "start";
    case Primitive::block_barrier:
        return "block_barrier";
    case Primitive::wave_sync:
        return "wave_sync";
    case Primitive::wave_sync_mask:
        return "wave_sync_mask";
    case Primitive::wave_active:
        return "wave_active";
    case Primitive::wave_together:
        return "wave_together";
    case Primitive::wave_ballot:
        return "wave_ballot";
    case Primitive::wave_shuffle:
        return "wave_shuffle";
    case Primitive::pause:
        return "pause";
    case Primitive::sleep:
        return "sleep";
    case Primitive::clock:
        return "clock";
    case Primitive::load:
        return "load";
    case Primitive::store:
        return "store";
    case Primitive::atomic:
        return "atomic";
    case Primitive::fence:
        return "fence";
    case Primitive::mmio_load:
        return "mmio_load";
    case Primitive::mmio_store:
        return "mmio_store";
    case Primitive::trap:
        return "trap";
    case Primitive::exit:
        return "exit";
    }
    return "?";
}

const char *LaunchShape::refusal(const tt_module_desc &module, std::uint32_t mode) const {
    if (module.abi_version != TT_ABI_VERSION)
        return "the module was built for another ABI version";
    if (module.mode != mode)
        return "the module was built for the other mode";
    if (module.wave_width != 32 && module.wave_width != 64 && module.wave_width != 128)
        return "the wave width is not 32, 64 or 128";
    if (config.reserved != 0)
        return "reserved field of the configuration is not 0";
    for (int axis = 0; axis < 3; ++axis)
        if (config.grid[axis] == 0 || config.block[axis] == 0)
            return "a grid or block dimension is 0";
    const std::uint64_t lanes = std::uint64_t{config.block[0]} * config.block[1];
    if (lanes > 1024 || lanes * config.block[2] > 1024)
        return "more than 1024 threads in a block";
    if (kernel->max_block_threads != 0 && lanes * config.block[2] > kernel->max_block_threads)
        return "more threads in a block than the kernel's launch bound";
    if (std::uint64_t{config.grid[0]} * config.grid[1] > UINT32_MAX || blocks() > UINT32_MAX)
        return "more than 2^32 - 1 blocks";
    if (config.dynamic_shared_bytes > 1u << 20)
        return "more than 1 MiB of dynamic shared memory";
    return nullptr;
}

Block::Block(const LaunchShape &launch, std::uint64_t block_index, std::vector<Stack> lane_stacks, LaneHost &lane_host,
             Fibre::Entry entry, std::uint64_t fill_seed)
    : shape(launch), index(block_index), host(lane_host), stacks(std::move(lane_stacks)), count(launch.block_lanes()),
      live(count), fill_seed_(fill_seed) {
    const tt_launch_config &config = shape.config;
    lanes = std::make_unique<Lane[]>(count);
    waves.resize((count + shape.wave_width - 1) / shape.wave_width);
    void *dynamic = nullptr;
    if (config.dynamic_shared_bytes != 0) {
        dynamic_ = std::make_unique_for_overwrite<std::byte[]>(config.dynamic_shared_bytes + 16u);
        fill(dynamic_.get(), config.dynamic_shared_bytes + 16u);
        dynamic =
            reinterpret_cast<void *>((reinterpret_cast<std::uintptr_t>(dynamic_.get()) + 15u) & ~std::uintptr_t{15});
    }
    const std::uint32_t block_id[3] = {
        static_cast<std::uint32_t>(index % config.grid[0]),
        static_cast<std::uint32_t>(index / config.grid[0] % config.grid[1]),
        static_cast<std::uint32_t>(index / config.grid[0] / config.grid[1]),
    };
    for (std::uint32_t i = 0; i < count; ++i) {
        Lane &lane = lanes[i];
        Wave &wave = waves[i / shape.wave_width];
        lane.face = reinterpret_cast<tt_lane_face *>(stacks[i].top - sizeof(tt_lane_face));
        lane.block = this;
        lane.wave = &wave;
        lane.index = i;
        lane.bit = i % shape.wave_width;
        if (lane.bit == 0) {
            wave.block = this;
            wave.lanes = &lane;
            wave.groups.reserve(8);
        }
        ++wave.count;
        ++wave.live;
        tt_lane_face &face = *lane.face;
        face.thread[0] = i % config.block[0];
        face.thread[1] = i / config.block[0] % config.block[1];
        face.thread[2] = i / config.block[0] / config.block[1];
        for (int axis = 0; axis < 3; ++axis) {
            face.block[axis] = block_id[axis];
            face.block_size[axis] = config.block[axis];
            face.grid_size[axis] = config.grid[axis];
        }
        face.lane = lane.bit;
        face.fuel = TT_HOST_FUEL;
        face.dynamic_shared = dynamic;
        face.engine = &lane;
        lane.fibre.prepare(stacks[i], sizeof(tt_lane_face), entry, &lane);
    }
}

void Block::fill(std::byte *memory, std::uint64_t bytes) {
    /* Shared storage starts undefined on every GPU; zeroes would hide a missing initialisation. */
    std::uint64_t state = fill_seed_ + 0x9e3779b97f4a7c15u * (index + 1);
    for (std::uint64_t i = 0; i < bytes; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        memory[i] = static_cast<std::byte>(state >> 56);
    }
}

void *Block::shared(const void *key, std::uint64_t bytes, std::uint64_t align) {
    for (const Piece &piece : pieces_)
        if (piece.key == key) {
            happens_after(piece.aligned); /* another lane has allocated it */
            return piece.aligned;
        }
    try {
        Piece piece{key, std::make_unique_for_overwrite<std::byte[]>(bytes + align), bytes + align, nullptr};
        fill(piece.memory.get(), bytes + align);
        const auto start = reinterpret_cast<std::uintptr_t>(piece.memory.get());
        piece.aligned = reinterpret_cast<void *>((start + align - 1) & ~static_cast<std::uintptr_t>(align - 1));
        pieces_.push_back(std::move(piece));
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
    happens_before(pieces_.back().aligned);
    return pieces_.back().aligned;
}

} // namespace tutti::simt
