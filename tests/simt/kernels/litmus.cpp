/* SPDX-License-Identifier: GPL-2.0-only
 *
 * One kernel for every litmus shape: each lane interprets its own little program. A controller does the same outside
 * the device. Registers are private, so only the shape's own accesses are scheduling points.
 */
#include "module.h"

enum Kind : uint32_t {
    LOAD,
    STORE,
    FENCE,
    ADD,
    EXCHANGE,
    CAS,
    BARRIER,
    WAVE_SYNC,
    MMIO_STORE,
    MMIO_LOAD,
    QUAD_LOAD,
    QUAD_STORE,
    AWAIT,    /* load until the value is there */
    STOP,     /* end here unless the register holds the value */
    DMA_READ, /* controllers only, from here on */
    DMA_WRITE,
    DOORBELL, /* wait for a register store, take one value */
};

constexpr uint32_t kRegisters = 8;

struct Op {
    uint32_t kind, order, scope, bytes, reg, pad;
    uint64_t address, value;
};

template <class T> static T *at(const Op &op) { return reinterpret_cast<T *>(op.address); }

static uint64_t load(const Op &op) {
    return op.bytes == 8 ? tt_host_load(at<uint64_t>(op), op.order, op.scope)
                         : tt_host_load(at<uint32_t>(op), op.order, op.scope);
}

static uint64_t atomic(const Op &op, uint32_t operation, uint64_t expected) {
    if (op.bytes == 8)
        return tt_host_atomic(at<uint64_t>(op), operation, op.value, expected, op.scope);
    return tt_host_atomic(at<uint32_t>(op), operation, static_cast<uint32_t>(op.value), static_cast<uint32_t>(expected),
                          op.scope);
}

static void interpret(const Op *program, const uint32_t *starts, uint64_t *out) {
    const uint32_t role = tt_host_block_index_x() * tt_host_block_size_x() + tt_host_thread_index_x();
    uint64_t *reg = out + role * kRegisters;
    for (uint32_t i = starts[role]; i < starts[role + 1]; ++i) {
        const Op &op = program[i];
        switch (op.kind) {
        case LOAD:
            reg[op.reg] = load(op);
            break;
        case STORE:
            if (op.bytes == 8)
                tt_host_store(at<uint64_t>(op), op.value, op.order, op.scope);
            else
                tt_host_store(at<uint32_t>(op), static_cast<uint32_t>(op.value), op.order, op.scope);
            break;
        case FENCE:
            tt_host_fence(op.scope);
            break;
        case ADD:
            reg[op.reg] = atomic(op, TT_ATOMIC_ADD, 0);
            break;
        case EXCHANGE:
            reg[op.reg] = atomic(op, TT_ATOMIC_EXCHANGE, 0);
            break;
        case CAS:
            reg[op.reg] = atomic(op, TT_ATOMIC_CAS, op.value >> 32);
            break;
        case BARRIER:
            tt_host_block_barrier();
            break;
        case WAVE_SYNC:
            tt_host_wave_sync();
            break;
        case MMIO_STORE: /* the value plus a register, so that a tail can be what an add returned */
            tt_host_mmio_store_u32(at<uint32_t>(op), static_cast<uint32_t>(op.value + reg[op.reg]));
            break;
        case MMIO_LOAD:
            reg[op.reg] = tt_host_mmio_load_u32(at<uint32_t>(op));
            break;
        case QUAD_LOAD: {
            const tt_u32x4 quad = tt_host_load_relaxed_sys_u32x4(at<uint32_t>(op));
            reg[op.reg] = quad.x + 10 * quad.y + 100 * quad.z + 1000 * quad.w;
            break;
        }
        case QUAD_STORE: {
            const uint32_t v = static_cast<uint32_t>(op.value);
            tt_host_store_relaxed_sys_u32x4(at<uint32_t>(op), tt_u32x4{v, v, v, v});
            break;
        }
        case AWAIT:
            while (load(op) != op.value)
                tt_host_pause();
            break;
        case STOP:
            if (reg[op.reg] != op.value)
                return;
            break;
        default:
            tt_host_trap();
        }
    }
}

struct ControllerProgram {
    const Op *program;
    uint32_t length, pad;
    uint64_t *out;
};

extern "C" TT_EXPORT void litmus_controller(void *argument, tt_port port) {
    const ControllerProgram &mine = *static_cast<const ControllerProgram *>(argument);
    uint32_t bell = 0; /* the register's last value */
    for (uint32_t i = 0; i < mine.length; ++i) {
        const Op &op = mine.program[i];
        switch (op.kind) {
        case DOORBELL: {
            uint32_t value;
            while ((value = port.ops->mmio_load(port.ctx, at<uint32_t>(op))) == bell)
                if (port.ops->wait_until(port.ctx, UINT64_MAX) == TT_PORT_STOP)
                    return;
            mine.out[op.reg] = bell = value;
            break;
        }
        case DMA_READ: /* 4 or 8 bytes into a register */
            port.ops->dma_read(port.ctx, op.address, mine.out + op.reg, op.bytes);
            break;
        case DMA_WRITE: { /* every word of the range gets the value */
            uint32_t words[1024];
            for (uint32_t word = 0; word < op.bytes / 4; ++word)
                words[word] = static_cast<uint32_t>(op.value);
            port.ops->dma_write(port.ctx, op.address, words, op.bytes);
            break;
        }
        case STOP:
            if (mine.out[op.reg] != op.value)
                return;
            break;
        default:
            __builtin_trap();
        }
    }
}

MODULE(KERNEL(interpret))
