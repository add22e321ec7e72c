// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of a MetaX GPU, by the entry points metax_p2p_*. Their header is not public; what is known of them is what other
 * open users of them do, and this file says where it assumes more. Not run on a MetaX GPU.
 *
 * The owner's scatter list has addresses of the bus that the GPU is on; with the owner's offset added they are physical
 * addresses of the processor, which are mapped for the drive here. The last entry may be shorter than a page.
 */
#include <linux/completion.h>
#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "../core/core.h"
#include "symbols.h"

#define METAX_PAGE	65536U	/* when the owner says 0 */

enum { ACQUIRE, GET, PUT, RELEASE, OFFSET, PAGE, NR_SYMBOLS };

static const char *const names[NR_SYMBOLS] = {
	[ACQUIRE] = "metax_p2p_acquire_mem",
	[GET] = "metax_p2p_get_mem",
	[PUT] = "metax_p2p_put_mem",
	[RELEASE] = "metax_p2p_release_mem",
	[OFFSET] = "metax_p2p_get_bus_offset",
	[PAGE] = "metax_p2p_get_page_size",
};

typedef int (*acquire_fn)(u64 address, size_t size, void **handle, int (*freed)(void *), void *data);
typedef int (*get_fn)(void *handle, struct sg_table **table);
typedef int (*put_fn)(void *handle, struct sg_table *table);
typedef void (*release_fn)(void *handle);
typedef u64 (*offset_fn)(void *handle);
typedef u32 (*page_fn)(void *handle);

/** struct metax_memory - what is held of the owner; @revoked: its callback is done with this structure */
struct metax_memory {
	void *symbols[NR_SYMBOLS];
	void *handle;
	struct sg_table *table;
	u64 offset;
	struct completion revoked;
};

/** struct metax_map - one function's mappings, one for each entry of the owner's list */
struct metax_map {
	unsigned int count;
	struct {
		dma_addr_t bus;
		size_t length;
	} entries[];
};

static bool metax_available(void)
{
	void *symbols[NR_SYMBOLS];
	bool found = tutti_symbols_get(names, symbols, NR_SYMBOLS);

	if (found)
		tutti_symbols_put(names, NR_SYMBOLS);
	return found;
}

static void unmap(struct device *device, struct metax_map *map)
{
	while (map->count--)
		dma_unmap_resource(device, map->entries[map->count].bus, map->entries[map->count].length,
				   DMA_BIDIRECTIONAL, 0);
	kvfree(map);
}

static void metax_unmap(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct metax_map *map = tutti_mapping_take(mapping);

	if (map)
		unmap(&mapping->pdev->dev, map);
}

static void metax_unmap_all(struct tutti_memory *memory)
{
	struct tutti_mapping *mapping;

	list_for_each_entry(mapping, &memory->mappings, node)
		metax_unmap(memory, mapping);
}

/* The owner waits in here until no drive uses the memory. Not a void function: the owner reads what it returns. */
static int freed(void *data)
{
	struct tutti_memory *memory = data;
	struct metax_memory *held = memory->priv;

	if (!tutti_memory_revoke(memory))
		return 0;
	metax_unmap_all(memory);
	complete(&held->revoked);
	return 0;
}

static void drop(struct metax_memory *held)
{
	((release_fn)held->symbols[RELEASE])(held->handle);
	tutti_symbols_put(names, NR_SYMBOLS);
	kfree(held);
}

/* After the callback the owner has taken its list back (assumed): the handle alone is released. */
static void metax_forget(struct tutti_memory *memory)
{
	struct metax_memory *held = memory->priv;

	wait_for_completion(&held->revoked);
	metax_unmap_all(memory);
	drop(held);
}

static void metax_put(struct tutti_memory *memory)
{
	struct metax_memory *held = memory->priv;

	((put_fn)held->symbols[PUT])(held->handle, held->table);
	drop(held);
}

static int metax_get(struct tutti_memory *memory)
{
	struct metax_memory *held;
	u32 page;
	int error;

	if (!PAGE_ALIGNED(memory->address | memory->length) || memory->length > SIZE_MAX)
		return -EINVAL;
	held = kzalloc(sizeof(*held), GFP_KERNEL);
	if (!held)
		return -ENOMEM;
	if (!tutti_symbols_get(names, held->symbols, NR_SYMBOLS)) {
		kfree(held);
		return -EOPNOTSUPP;
	}
	init_completion(&held->revoked);
	memory->priv = held;
	error = ((acquire_fn)held->symbols[ACQUIRE])(memory->address, memory->length, &held->handle, freed, memory);
	if (error) {
		tutti_symbols_put(names, NR_SYMBOLS);
		kfree(held);
		return error;
	}
	error = ((get_fn)held->symbols[GET])(held->handle, &held->table);
	/* Release ends the owner's interest, and waits for a callback under way (assumed). */
	if (error) {
		drop(held);
		return error;
	}
	page = ((page_fn)held->symbols[PAGE])(held->handle);
	if (!page)
		page = METAX_PAGE;
	held->offset = ((offset_fn)held->symbols[OFFSET])(held->handle);
	memory->page_size = is_power_of_2(page) && page >= PAGE_SIZE ? page : PAGE_SIZE;
	return 0;
}

static int metax_map(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct metax_memory *held = memory->priv;
	struct device *device = &mapping->pdev->dev;
	u64 left = memory->length;
	struct scatterlist *entry;
	struct metax_map *map;
	unsigned int i;
	int error = 0;

	map = kvzalloc(struct_size(map, entries, held->table->nents), GFP_KERNEL);
	if (!map)
		return -ENOMEM;
	for_each_sg(held->table->sgl, entry, held->table->nents, i) {
		size_t length = min_t(u64, sg_dma_len(entry), left);
		dma_addr_t bus;

		if (!length)
			break;
		bus = dma_map_resource(device, sg_dma_address(entry) + held->offset, length, DMA_BIDIRECTIONAL, 0);
		if (dma_mapping_error(device, bus)) {
			error = -EREMOTEIO;
			break;
		}
		map->entries[map->count].bus = bus;
		map->entries[map->count++].length = length;
		left -= length;
		error = tutti_mapping_add(mapping, bus, length);
		if (error)
			break;
	}
	if (error)
		unmap(device, map);
	else
		mapping->priv = map;
	return error;
}

const struct tutti_provider tutti_provider_metax = {
	.name = "metax",
	.id = TUTTI_P2P_PROVIDER_METAX,
	.owner = THIS_MODULE,
	.revokes = true,
	.available = metax_available,
	.get = metax_get,
	.put = metax_put,
	.map = metax_map,
	.unmap = metax_unmap,
	.forget = metax_forget,
};
