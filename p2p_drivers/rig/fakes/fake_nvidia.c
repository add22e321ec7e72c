// SPDX-License-Identifier: GPL-2.0-only
/*
 * NVIDIA's peer-memory entry points over the rig's GPU: pages of 64 KiB, a void free callback run under the driver's lock,
 * after which only the "free" forms are allowed, and the persistent form without a callback.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/refcount.h>
#include <linux/slab.h>

#include "fake_gpu.h"

static uint table_version = 0x00020000;
module_param(table_version, uint, 0644);
static uint dma_version = 0x00020003;
module_param(dma_version, uint, 0644);
static uint callback_ms;
module_param(callback_ms, uint, 0644);
MODULE_PARM_DESC(callback_ms, "delay between the start of a free and its callback: a revocation in flight");

struct nvidia_p2p_page {
	u64 physical_address;
	u32 registers[6];
};

struct nvidia_p2p_page_table {
	u32 version;
	u32 page_size;
	struct nvidia_p2p_page **pages;
	u32 entries;
	u8 *gpu_uuid;
	u32 flags;
};

struct nvidia_p2p_dma_mapping {
	u32 version;
	u32 page_size_type;
	u32 entries;
	u64 *dma_addresses;
	void *private;
	struct pci_dev *pci_dev;
};

struct import {
	struct fake_gpu_hold hold;
	struct nvidia_p2p_page_table table;
	struct nvidia_p2p_page *storage;
	void (*freed)(void *data);
	void *data;
	refcount_t users;	/* the table, and each mapping */
};

static void import_put(struct import *import)
{
	if (!refcount_dec_and_test(&import->users))
		return;
	kvfree(import->storage);
	kvfree(import->table.pages);
	kfree(import);
}

static void revoke(struct fake_gpu_hold *hold)
{
	struct import *import = container_of(hold, struct import, hold);
	unsigned int patience;

	/* The importer frees the table in its callback: keep it until mappings were looked at. */
	refcount_inc(&import->users);
	if (callback_ms)
		msleep(callback_ms);
	import->freed(import->data);
	/* An importer that was releasing already undoes its mappings in another thread: that may take a moment. */
	for (patience = 2000; patience && atomic_read(&hold->mapped); patience--)
		msleep(1);
	if (!patience)
		fake_gpu_violation("memory is freed, and the importer's callback left it mapped");
	import_put(import);
}

static int get(u64 address, u64 length, struct nvidia_p2p_page_table **table, void (*freed)(void *), void *data)
{
	struct import *import;
	u32 i, count = length / FAKE_GPU_PAGE;
	int error = -ENOMEM;

	if (!table || !length || (address | length) % FAKE_GPU_PAGE)
		return -EINVAL;
	import = kzalloc(sizeof(*import), GFP_KERNEL);
	if (!import)
		return -ENOMEM;
	refcount_set(&import->users, 1);
	import->freed = freed;
	import->data = data;
	import->hold.revoke = freed ? revoke : NULL;
	import->table.version = table_version;
	import->table.page_size = 1;
	import->table.entries = count;
	import->table.pages = kvcalloc(count, sizeof(*import->table.pages), GFP_KERNEL);
	import->storage = kvcalloc(count, sizeof(*import->storage), GFP_KERNEL);
	if (import->table.pages && import->storage)
		error = fake_gpu_hold(&import->hold, address, length);
	if (error) {
		import_put(import);
		return error;
	}
	for (i = 0; i < count; i++) {
		import->storage[i].physical_address = import->hold.start + i * FAKE_GPU_PAGE;
		import->table.pages[i] = &import->storage[i];
	}
	*table = &import->table;
	return 0;
}

int nvidia_p2p_get_pages(u64 token, u32 space, u64 address, u64 length, struct nvidia_p2p_page_table **table,
			 void (*freed)(void *), void *data);
int nvidia_p2p_get_pages(u64 token, u32 space, u64 address, u64 length, struct nvidia_p2p_page_table **table,
			 void (*freed)(void *), void *data)
{
	return freed && !token && !space ? get(address, length, table, freed, data) : -EINVAL;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages);

int nvidia_p2p_get_pages_persistent(u64 address, u64 length, struct nvidia_p2p_page_table **table, u32 flags);
int nvidia_p2p_get_pages_persistent(u64 address, u64 length, struct nvidia_p2p_page_table **table, u32 flags)
{
	return flags & ~1U ? -EINVAL : get(address, length, table, NULL, NULL);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages_persistent);

static int put(struct nvidia_p2p_page_table *table)
{
	struct import *import = container_of(table, struct import, table);
	int error = fake_gpu_release(&import->hold);

	if (!error)
		import_put(import);
	return error;
}

int nvidia_p2p_put_pages(u64 token, u32 space, u64 address, struct nvidia_p2p_page_table *table);
int nvidia_p2p_put_pages(u64 token, u32 space, u64 address, struct nvidia_p2p_page_table *table)
{
	return put(table);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages);

int nvidia_p2p_put_pages_persistent(u64 address, struct nvidia_p2p_page_table *table, u32 flags);
int nvidia_p2p_put_pages_persistent(u64 address, struct nvidia_p2p_page_table *table, u32 flags)
{
	return flags ? -EINVAL : put(table);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages_persistent);

int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *table);
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *table)
{
	struct import *import = container_of(table, struct import, table);

	if (import->hold.object)
		fake_gpu_violation("nvidia_p2p_free_page_table for memory that is not freed");
	else
		import_put(import);
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

static void undo(struct nvidia_p2p_dma_mapping *mapping)
{
	struct import *import = mapping->private;
	u32 i;

	for (i = 0; i < mapping->entries; i++)
		fake_gpu_unmap(&import->hold, &mapping->pci_dev->dev, mapping->dma_addresses[i], FAKE_GPU_PAGE);
	kvfree(mapping->dma_addresses);
	kfree(mapping);
	import_put(import);
}

int nvidia_p2p_dma_map_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *table,
			     struct nvidia_p2p_dma_mapping **result);
int nvidia_p2p_dma_map_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *table,
			     struct nvidia_p2p_dma_mapping **result)
{
	struct import *import = container_of(table, struct import, table);
	struct nvidia_p2p_dma_mapping *mapping = kzalloc(sizeof(*mapping), GFP_KERNEL);
	int error;

	if (!mapping)
		return -ENOMEM;
	refcount_inc(&import->users);
	mapping->version = dma_version;
	mapping->page_size_type = table->page_size;
	mapping->pci_dev = peer;
	mapping->private = import;
	mapping->dma_addresses = kvcalloc(table->entries, sizeof(u64), GFP_KERNEL);
	error = mapping->dma_addresses ? 0 : -ENOMEM;
	while (!error && mapping->entries < table->entries) {
		dma_addr_t bus;

		error = fake_gpu_map(&import->hold, &peer->dev, mapping->entries * FAKE_GPU_PAGE, FAKE_GPU_PAGE, &bus);
		if (!error)
			mapping->dma_addresses[mapping->entries++] = bus;
	}
	if (error)
		undo(mapping);
	else
		*result = mapping;
	return error;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_map_pages);

int nvidia_p2p_dma_unmap_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *table,
			       struct nvidia_p2p_dma_mapping *mapping);
int nvidia_p2p_dma_unmap_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *table,
			       struct nvidia_p2p_dma_mapping *mapping)
{
	if (fake_gpu_in_callback())
		fake_gpu_violation("nvidia_p2p_dma_unmap_pages inside the free callback");
	if (mapping->pci_dev != peer || &((struct import *)mapping->private)->table != table)
		fake_gpu_violation("a mapping of another function or table");
	undo(mapping);
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_unmap_pages);

int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping *mapping);
int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping *mapping)
{
	undo(mapping);
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_dma_mapping);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("NVIDIA's peer-memory entry points over the rig's GPU");
