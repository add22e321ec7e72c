// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of an NVIDIA GPU, by the entry points nvidia_p2p_*. The layouts below are ours, of what we read and no more; they
 * follow the public documentation of GPUDirect RDMA and were compared with release 595.
 *
 * By default the free callback revokes. With nvidia_persistent=1 the form without a callback is used: the owner keeps the
 * memory until it is put.
 */
#include <linux/completion.h>
#include <linux/slab.h>

#include "../core/core.h"
#include "symbols.h"

#define NVIDIA_PAGE	65536U

/* Major versions whose layout, as far as it is read here, is the one below. */
#define NVIDIA_MAJOR(version)	((version) >> 16)
#define NVIDIA_TABLE_MAJOR_OLD	1
#define NVIDIA_TABLE_MAJOR	2
#define NVIDIA_DMA_MAJOR	2

struct nvidia_table {
	u32 version;
	u32 page_size;		/* 0: 4 KiB, 1: 64 KiB, 2: 128 KiB */
	void **pages;
	u32 entries;
};

struct nvidia_dma {
	u32 version;
	u32 page_size;
	u32 entries;
	u64 *addresses;
};

enum { GET, PUT, MAP, UNMAP, FREE_TABLE, FREE_DMA, NR_SYMBOLS };

static const char *const names[NR_SYMBOLS] = {
	[GET] = "nvidia_p2p_get_pages",
	[PUT] = "nvidia_p2p_put_pages",
	[MAP] = "nvidia_p2p_dma_map_pages",
	[UNMAP] = "nvidia_p2p_dma_unmap_pages",
	[FREE_TABLE] = "nvidia_p2p_free_page_table",
	[FREE_DMA] = "nvidia_p2p_free_dma_mapping",
};

static const char *const persistent_names[NR_SYMBOLS] = {
	[GET] = "nvidia_p2p_get_pages_persistent",
	[PUT] = "nvidia_p2p_put_pages_persistent",
	[MAP] = "nvidia_p2p_dma_map_pages",
	[UNMAP] = "nvidia_p2p_dma_unmap_pages",
	[FREE_TABLE] = "nvidia_p2p_free_page_table",
	[FREE_DMA] = "nvidia_p2p_free_dma_mapping",
};

typedef int (*get_fn)(u64 token, u32 space, u64 address, u64 length, struct nvidia_table **table, void (*freed)(void *),
		      void *data);
typedef int (*get_persistent_fn)(u64 address, u64 length, struct nvidia_table **table, u32 flags);
typedef int (*put_fn)(u64 token, u32 space, u64 address, struct nvidia_table *table);
typedef int (*put_persistent_fn)(u64 address, struct nvidia_table *table, u32 flags);
typedef int (*map_fn)(struct pci_dev *pdev, struct nvidia_table *table, struct nvidia_dma **dma);
typedef int (*unmap_fn)(struct pci_dev *pdev, struct nvidia_table *table, struct nvidia_dma *dma);
typedef int (*free_table_fn)(struct nvidia_table *table);
typedef int (*free_dma_fn)(struct nvidia_dma *dma);

static bool nvidia_persistent;
module_param(nvidia_persistent, bool, 0644);
MODULE_PARM_DESC(nvidia_persistent, "NVIDIA: hold memory until it is unpinned, instead of revoking it when it is freed");

/**
 * struct nvidia_memory - what is held of the owner
 * @names: of @symbols
 * @table: the owner's pages; freed when @users ends
 * @users: the memory, and a map() in progress: the owner's callback may come meanwhile
 * @revoked: the callback is done with this structure
 */
struct nvidia_memory {
	const char *const *names;
	void *symbols[NR_SYMBOLS];
	struct nvidia_table *table;
	atomic_t users;
	struct completion revoked;
};

static u64 page_bytes(u32 kind)
{
	switch (kind) {
	case 0:
		return 4096;
	case 1:
		return 65536;
	case 2:
		return 131072;
	default:
		return 0;
	}
}

static bool nvidia_available(void)
{
	const char *const *which = READ_ONCE(nvidia_persistent) ? persistent_names : names;
	void *symbols[NR_SYMBOLS];
	bool found = tutti_symbols_get(which, symbols, NR_SYMBOLS);

	if (found)
		tutti_symbols_put(which, NR_SYMBOLS);
	return found;
}

/* The last user frees the table; nobody does when the owner has not handed it over yet. */
static void table_put(struct nvidia_memory *held)
{
	struct nvidia_table *table;

	if (!atomic_dec_and_test(&held->users))
		return;
	table = xchg(&held->table, NULL);
	if (table)
		((free_table_fn)held->symbols[FREE_TABLE])(table);
}

static void nvidia_unmap_all(struct tutti_memory *memory)
{
	struct nvidia_memory *held = memory->priv;
	struct tutti_mapping *mapping;

	list_for_each_entry(mapping, &memory->mappings, node) {
		struct nvidia_dma *dma = tutti_mapping_take(mapping);

		if (dma)
			((free_dma_fn)held->symbols[FREE_DMA])(dma);
	}
}

/* The owner frees the memory, with its locks held: the forms "free", not "put" and "unmap", are the ones allowed here. */
static void freed(void *data)
{
	struct tutti_memory *memory = data;
	struct nvidia_memory *held = memory->priv;

	if (!tutti_memory_revoke(memory))
		return;
	nvidia_unmap_all(memory);
	table_put(held);
	complete(&held->revoked);
}

static void nvidia_forget(struct tutti_memory *memory)
{
	struct nvidia_memory *held = memory->priv;

	wait_for_completion(&held->revoked);
	nvidia_unmap_all(memory);
	tutti_symbols_put(held->names, NR_SYMBOLS);
	kfree(held);
}

static void nvidia_put(struct tutti_memory *memory)
{
	struct nvidia_memory *held = memory->priv;
	int error;

	if (held->names == persistent_names)
		error = ((put_persistent_fn)held->symbols[PUT])(memory->address, held->table, 0);
	else
		error = ((put_fn)held->symbols[PUT])(0, 0, memory->address, held->table);
	/* Refused when the owner has begun to free: its callback is over, and the table is ours to free. */
	if (error)
		table_put(held);
	tutti_symbols_put(held->names, NR_SYMBOLS);
	kfree(held);
}

static int nvidia_get(struct tutti_memory *memory)
{
	struct nvidia_memory *held;
	struct nvidia_table *table;
	u32 major;
	int error;

	if (!IS_ALIGNED(memory->address | memory->length, NVIDIA_PAGE))
		return -EINVAL;
	held = kzalloc(sizeof(*held), GFP_KERNEL);
	if (!held)
		return -ENOMEM;
	held->names = READ_ONCE(nvidia_persistent) ? persistent_names : names;
	if (!tutti_symbols_get(held->names, held->symbols, NR_SYMBOLS)) {
		kfree(held);
		return -EOPNOTSUPP;
	}
	atomic_set(&held->users, 1);
	init_completion(&held->revoked);
	memory->priv = held;
	if (held->names == persistent_names)
		error = ((get_persistent_fn)held->symbols[GET])(memory->address, memory->length, &held->table, 0);
	else
		error = ((get_fn)held->symbols[GET])(0, 0, memory->address, memory->length, &held->table, freed, memory);
	if (error) {
		tutti_symbols_put(held->names, NR_SYMBOLS);
		kfree(held);
		return error;
	}
	/* A callback that came first dropped the last use before there was a table. */
	if (!atomic_inc_not_zero(&held->users)) {
		table = xchg(&held->table, NULL);
		if (table)
			((free_table_fn)held->symbols[FREE_TABLE])(table);
		memory->page_size = NVIDIA_PAGE;
		return 0;
	}
	table = held->table;
	major = NVIDIA_MAJOR(table->version);
	memory->page_size = page_bytes(table->page_size);
	if ((major != NVIDIA_TABLE_MAJOR && major != NVIDIA_TABLE_MAJOR_OLD) || !memory->page_size ||
	    table->entries < DIV_ROUND_UP_ULL(memory->length, memory->page_size))
		error = -EOPNOTSUPP;
	/* map() refuses what is not understood: here, the owner's callback may already be under way. */
	if (error)
		memory->page_size = 0;
	table_put(held);
	return 0;
}

static int report(struct tutti_memory *memory, struct tutti_mapping *mapping, const struct nvidia_dma *dma)
{
	u64 size = page_bytes(dma->page_size), left = memory->length;
	u32 i;
	int error = 0;

	if (NVIDIA_MAJOR(dma->version) != NVIDIA_DMA_MAJOR || !size)
		return -EOPNOTSUPP;
	for (i = 0; i < dma->entries && left && !error; i++) {
		error = tutti_mapping_add(mapping, dma->addresses[i], min(size, left));
		left -= min(size, left);
	}
	return error;
}

static int nvidia_map(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct nvidia_memory *held = memory->priv;
	struct nvidia_dma *dma;
	int error;

	if (!memory->page_size)
		return -EOPNOTSUPP;
	if (!atomic_inc_not_zero(&held->users))
		return -ESTALE;
	error = ((map_fn)held->symbols[MAP])(mapping->pdev, held->table, &dma);
	if (!error) {
		error = report(memory, mapping, dma);
		if (error)
			((unmap_fn)held->symbols[UNMAP])(mapping->pdev, held->table, dma);
		else
			mapping->priv = dma;
	}
	table_put(held);
	return error;
}

static void nvidia_unmap(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct nvidia_memory *held = memory->priv;
	struct nvidia_dma *dma = tutti_mapping_take(mapping);

	if (!dma)
		return;
	if (atomic_inc_not_zero(&held->users)) {
		((unmap_fn)held->symbols[UNMAP])(mapping->pdev, held->table, dma);
		table_put(held);
	} else {
		((free_dma_fn)held->symbols[FREE_DMA])(dma);
	}
}

const struct tutti_provider tutti_provider_nvidia = {
	.name = "nvidia",
	.id = TUTTI_P2P_PROVIDER_NVIDIA,
	.owner = THIS_MODULE,
	.revokes = true,
	.available = nvidia_available,
	.get = nvidia_get,
	.put = nvidia_put,
	.map = nvidia_map,
	.unmap = nvidia_unmap,
	.forget = nvidia_forget,
};
