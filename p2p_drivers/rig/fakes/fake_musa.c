// SPDX-License-Identifier: GPL-2.0-only
/*
 * Moore Threads' peer-memory entry points over the rig's GPU, interface 1.0: a page size that the table tells, an array of
 * physical addresses, DMA lengths that differ, and no callback: what is got stays until it is put.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "fake_gpu.h"

#ifdef FAKE_PLAIN
#define FAKE_EXPORT(symbol)	EXPORT_SYMBOL(symbol)
#else
#define FAKE_EXPORT(symbol)	EXPORT_SYMBOL_GPL(symbol)
#endif

static uint table_version = 0x10000;
module_param(table_version, uint, 0644);

struct mtgpu_p2p_page_table {
	u32 version;
	u32 page_size;
	u64 *cpu_pa_array;
	u32 array_count;
};

struct mtgpu_dma_mapping {
	u64 *dma_address_array;
	u64 *dma_length;
	u32 array_count;
};

struct import {
	struct fake_gpu_hold hold;
	struct mtgpu_p2p_page_table table;
	u64 address;
};

struct mapped {
	struct mtgpu_dma_mapping mapping;
	struct import *import;
};

int mtgpu_p2p_get_pages(u64 address, u64 length, struct mtgpu_p2p_page_table **table);
int mtgpu_p2p_get_pages(u64 address, u64 length, struct mtgpu_p2p_page_table **table)
{
	struct import *import;
	u32 i, count = length / FAKE_GPU_PAGE;
	int error = -ENOMEM;

	if (!length || (address | length) % FAKE_GPU_PAGE)
		return -EINVAL;
	import = kzalloc(sizeof(*import), GFP_KERNEL);
	if (!import)
		return -ENOMEM;
	import->address = address;
	import->table.version = table_version;
	import->table.page_size = FAKE_GPU_PAGE;
	import->table.array_count = count;
	import->table.cpu_pa_array = kvcalloc(count, sizeof(u64), GFP_KERNEL);
	if (import->table.cpu_pa_array)
		error = fake_gpu_hold(&import->hold, address, length);
	if (error) {
		kvfree(import->table.cpu_pa_array);
		kfree(import);
		return error;
	}
	for (i = 0; i < count; i++)
		import->table.cpu_pa_array[i] = import->hold.start + i * FAKE_GPU_PAGE;
	*table = &import->table;
	return 0;
}
FAKE_EXPORT(mtgpu_p2p_get_pages);

void mtgpu_p2p_put_pages(u64 address, struct mtgpu_p2p_page_table *table);
void mtgpu_p2p_put_pages(u64 address, struct mtgpu_p2p_page_table *table)
{
	struct import *import = container_of(table, struct import, table);

	if (import->address != address)
		fake_gpu_violation("put at another address than got");
	fake_gpu_release(&import->hold);
	kvfree(import->table.cpu_pa_array);
	kfree(import);
}
FAKE_EXPORT(mtgpu_p2p_put_pages);

void mtgpu_p2p_dma_unmap_pages(struct device *device, struct mtgpu_dma_mapping *mapping);
void mtgpu_p2p_dma_unmap_pages(struct device *device, struct mtgpu_dma_mapping *mapping)
{
	struct mapped *mapped = container_of(mapping, struct mapped, mapping);
	u32 i;

	for (i = 0; i < mapping->array_count; i++)
		fake_gpu_unmap(&mapped->import->hold, device, mapping->dma_address_array[i], mapping->dma_length[i]);
	kvfree(mapping->dma_address_array);
	kvfree(mapping->dma_length);
	kfree(mapped);
}
FAKE_EXPORT(mtgpu_p2p_dma_unmap_pages);

/* The first page apart, the others in one piece: lengths are to be read, not assumed. */
int mtgpu_p2p_dma_map_pages(struct device *device, struct mtgpu_p2p_page_table *table, struct mtgpu_dma_mapping **result);
int mtgpu_p2p_dma_map_pages(struct device *device, struct mtgpu_p2p_page_table *table, struct mtgpu_dma_mapping **result)
{
	struct import *import = container_of(table, struct import, table);
	struct mapped *mapped = kzalloc(sizeof(*mapped), GFP_KERNEL);
	u64 at = 0, whole = table->array_count * FAKE_GPU_PAGE;
	int error = 0;

	if (!mapped)
		return -ENOMEM;
	mapped->import = import;
	mapped->mapping.dma_address_array = kvcalloc(2, sizeof(u64), GFP_KERNEL);
	mapped->mapping.dma_length = kvcalloc(2, sizeof(u64), GFP_KERNEL);
	if (!mapped->mapping.dma_address_array || !mapped->mapping.dma_length)
		error = -ENOMEM;
	while (!error && at < whole) {
		u64 length = at ? whole - at : FAKE_GPU_PAGE;
		u32 i = mapped->mapping.array_count;
		dma_addr_t bus;

		error = fake_gpu_map(&import->hold, device, at, length, &bus);
		if (error)
			break;
		mapped->mapping.dma_address_array[i] = bus;
		mapped->mapping.dma_length[i] = length;
		mapped->mapping.array_count++;
		at += length;
	}
	if (error)
		mtgpu_p2p_dma_unmap_pages(device, &mapped->mapping);
	else
		*result = &mapped->mapping;
	return error;
}
FAKE_EXPORT(mtgpu_p2p_dma_map_pages);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Moore Threads' peer-memory entry points over the rig's GPU");
