/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Kernels and a controller for the edges of the sim's memory.
 */
#include "module.h"

static void fill(uint32_t *data, uint32_t value) {
    tt_host_store_relaxed_dev_u32(data + tt_host_thread_index_x(), value);
}

static void check_next(uint32_t *data, uint32_t *wrong, uint32_t value) {
    const uint32_t next = (tt_host_thread_index_x() + 1) % tt_host_block_size_x();
    if (tt_host_load_relaxed_dev_u32(data + next) != value)
        tt_host_atomic_add_dev_u32(wrong, 1);
}

static void wait_for(uint32_t *flag, uint32_t value) {
    while (tt_host_load_acquire_sys_u32(flag) != value)
        tt_host_pause();
}

static void fill_then_wait(uint32_t *data, uint32_t value, uint32_t *flag) {
    tt_host_store_relaxed_sys_u32(data + tt_host_thread_index_x(), value);
    tt_host_fence_system();
    wait_for(flag, 1);
}

static void publish_device(uint32_t *x, uint32_t *y, uint32_t *flag) {
    tt_host_store_relaxed_dev_u32(x, 1);
    tt_host_store_release_dev_u32(y, 1);
    wait_for(flag, 1);
}

static void publish_system(uint32_t *x, uint32_t *y, uint32_t *flag) {
    tt_host_store_relaxed_sys_u32(x, 1);
    tt_host_store_release_sys_u32(y, 1);
    wait_for(flag, 1);
}

static void ring_after(uint32_t *bell, uint32_t ns, uint32_t value) {
    tt_host_sleep_ns(ns);
    tt_host_mmio_store_u32(bell, value);
}

static void scribble(uint32_t *data, uint32_t words, uint32_t rounds) {
    uint32_t at = tt_host_thread_index_x() * 977;
    for (uint32_t i = 0; i < rounds; ++i) {
        at = (at * 1664525u + 1013904223u) % words;
        tt_host_store_release_dev_u32(data + at, i);
        tt_host_load_acquire_dev_u32(data + (at ^ 1));
    }
}

static void ticket_by_add(uint32_t *next, uint32_t *tickets) {
    const uint32_t me = tt_host_block_index_x() * tt_host_block_size_x() + tt_host_thread_index_x();
    tickets[me] = tt_host_atomic_add_dev_u32(next, 1);
}

static void ticket_by_store(uint32_t *next, uint32_t *tickets) {
    const uint32_t me = tt_host_block_index_x() * tt_host_block_size_x() + tt_host_thread_index_x();
    tickets[me] = tt_host_load_relaxed_dev_u32(next);
    tt_host_store_relaxed_dev_u32(next, tickets[me] + 1);
}

struct Clerk {
    uint32_t *registers;
    uint64_t *log;
};

/* Logs the bell's value and its time, then the time a millisecond later, then waits to be told to stop. */
extern "C" TT_EXPORT void clerk(void *argument, tt_port port) {
    const Clerk &me = *static_cast<const Clerk *>(argument);
    uint32_t value;
    while ((value = port.ops->mmio_load(port.ctx, me.registers)) == 0)
        if (port.ops->wait_until(port.ctx, UINT64_MAX) == TT_PORT_STOP)
            return;
    me.log[0] = value;
    me.log[1] = port.ops->now_ns(port.ctx);
    const uint64_t later = me.log[1] + 1000000;
    while (port.ops->now_ns(port.ctx) < later)
        if (port.ops->wait_until(port.ctx, later) == TT_PORT_STOP)
            return;
    me.log[2] = port.ops->now_ns(port.ctx);
    int status;
    while ((status = port.ops->wait_until(port.ctx, UINT64_MAX)) == TT_PORT_OK) {
    }
    me.log[3] = static_cast<uint64_t>(status);
}

MODULE(KERNEL(fill), KERNEL(check_next), KERNEL(wait_for), KERNEL(fill_then_wait), KERNEL(publish_device),
       KERNEL(publish_system), KERNEL(ring_after), KERNEL(scribble), KERNEL(ticket_by_add), KERNEL(ticket_by_store))
