// SPDX-License-Identifier: GPL-2.0-only
/*
 * MetaX's peer-memory entry points over the rig's GPU: a scatter list of bus addresses that differ from the processor's by
 * an offset, a short last entry, a page size that is asked for, and a blocking callback that returns int.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "fake_gpu.h"

static unsigned long long bus_offset = 0x4000000000ULL;
module_param(bus_offset, ullong, 0644);
MODULE_PARM_DESC(bus_offset, "what is added to a bus address to get the processor's");
static uint page_bytes = 65536;
module_param(page_bytes, uint, 0644);
static uint callback_ms;
module_param(callback_ms, uint, 0644);

struct import {
	struct fake_gpu_hold hold;
	u64 length;
	struct sg_table table;
	bool pinned;
	int (*freed)(void *data);
	void *data;
};

static void revoke(struct fake_gpu_hold *hold)
{
	struct import *import = container_of(hold, struct import, hold);

	if (callback_ms)
		msleep(callback_ms);
	if (import->freed(import->data))
		fake_gpu_violation("the callback returned an error");
}

int metax_p2p_acquire_mem(u64 address, size_t size, void **handle, int (*freed)(void *), void *data);
int metax_p2p_acquire_mem(u64 address, size_t size, void **handle, int (*freed)(void *), void *data)
{
	struct import *import;
	int error;

	if (!freed || !size || (address | size) % PAGE_SIZE)
		return -EINVAL;
	import = kzalloc(sizeof(*import), GFP_KERNEL);
	if (!import)
		return -ENOMEM;
	import->freed = freed;
	import->data = data;
	import->length = size;
	import->hold.revoke = revoke;
	error = fake_gpu_hold(&import->hold, address, size);
	if (error)
		kfree(import);
	else
		*handle = import;
	return error;
}
EXPORT_SYMBOL_GPL(metax_p2p_acquire_mem);

int metax_p2p_get_mem(void *handle, struct sg_table **table);
int metax_p2p_get_mem(void *handle, struct sg_table **table)
{
	struct import *import = handle;
	struct scatterlist *entry;
	u64 at = 0;
	unsigned int i;
	int error = sg_alloc_table(&import->table, DIV_ROUND_UP_ULL(import->length, FAKE_GPU_PAGE), GFP_KERNEL);

	if (error)
		return error;
	for_each_sg(import->table.sgl, entry, import->table.orig_nents, i) {
		u32 length = min_t(u64, FAKE_GPU_PAGE, import->length - at);

		sg_set_page(entry, NULL, length, 0);
		sg_dma_address(entry) = import->hold.start + at - bus_offset;
		sg_dma_len(entry) = length;
		at += length;
	}
	import->pinned = true;
	*table = &import->table;
	return 0;
}
EXPORT_SYMBOL_GPL(metax_p2p_get_mem);

int metax_p2p_put_mem(void *handle, struct sg_table *table);
int metax_p2p_put_mem(void *handle, struct sg_table *table)
{
	struct import *import = handle;

	if (fake_gpu_in_callback()) {
		fake_gpu_violation("metax_p2p_put_mem inside the free callback");
		return -EDEADLK;
	}
	if (!import->pinned || (table && table != &import->table))
		return -EINVAL;
	import->pinned = false;
	sg_free_table(&import->table);
	return 0;
}
EXPORT_SYMBOL_GPL(metax_p2p_put_mem);

void metax_p2p_release_mem(void *handle);
void metax_p2p_release_mem(void *handle)
{
	struct import *import = handle;

	fake_gpu_release(&import->hold);
	if (import->pinned)
		sg_free_table(&import->table);
	kfree(import);
}
EXPORT_SYMBOL_GPL(metax_p2p_release_mem);

u64 metax_p2p_get_bus_offset(void *handle);
u64 metax_p2p_get_bus_offset(void *handle)
{
	return bus_offset;
}
EXPORT_SYMBOL_GPL(metax_p2p_get_bus_offset);

u32 metax_p2p_get_page_size(void *handle);
u32 metax_p2p_get_page_size(void *handle)
{
	return ((struct import *)handle)->pinned ? page_bytes : 0;
}
EXPORT_SYMBOL_GPL(metax_p2p_get_page_size);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("MetaX's peer-memory entry points over the rig's GPU");
