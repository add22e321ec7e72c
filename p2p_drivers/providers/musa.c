// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of a Moore Threads GPU, by the entry points mtgpu_p2p_*, as in driver sources of 2023 and 2024 (interface 1.0); the
 * one of today's driver is not known. Not run on a Moore Threads GPU.
 *
 * There is no free callback: the owner keeps pages that were got until they are put, so this provider revokes nothing.
 * Those sources export plainly, so symbol_get() does not find them from a GPL module: use a dma-buf with such a driver.
 */
#include <linux/log2.h>
#include <linux/slab.h>

#include "../core/core.h"
#include "symbols.h"

#define MUSA_TABLE_MAJOR	1	/* version 0x10000 */

struct musa_table {
	u32 version;
	u32 page_size;
	u64 *physical;
	u32 count;
};

struct musa_dma {
	u64 *addresses;
	u64 *lengths;
	u32 count;
};

enum { GET, PUT, MAP, UNMAP, NR_SYMBOLS };

static const char *const names[NR_SYMBOLS] = {
	[GET] = "mtgpu_p2p_get_pages",
	[PUT] = "mtgpu_p2p_put_pages",
	[MAP] = "mtgpu_p2p_dma_map_pages",
	[UNMAP] = "mtgpu_p2p_dma_unmap_pages",
};

typedef int (*get_fn)(u64 address, u64 length, struct musa_table **table);
typedef void (*put_fn)(u64 address, struct musa_table *table);
typedef int (*map_fn)(struct device *device, struct musa_table *table, struct musa_dma **dma);
typedef void (*unmap_fn)(struct device *device, struct musa_dma *dma);

struct musa_memory {
	void *symbols[NR_SYMBOLS];
	struct musa_table *table;
};

static bool musa_available(void)
{
	void *symbols[NR_SYMBOLS];
	bool found = tutti_symbols_get(names, symbols, NR_SYMBOLS);

	if (found)
		tutti_symbols_put(names, NR_SYMBOLS);
	return found;
}

static void musa_put(struct tutti_memory *memory)
{
	struct musa_memory *held = memory->priv;

	((put_fn)held->symbols[PUT])(memory->address, held->table);
	tutti_symbols_put(names, NR_SYMBOLS);
	kfree(held);
}

static int musa_get(struct tutti_memory *memory)
{
	struct musa_memory *held;
	u32 page;
	int error;

	if (!PAGE_ALIGNED(memory->address | memory->length))
		return -EINVAL;
	held = kzalloc(sizeof(*held), GFP_KERNEL);
	if (!held)
		return -ENOMEM;
	if (!tutti_symbols_get(names, held->symbols, NR_SYMBOLS)) {
		kfree(held);
		return -EOPNOTSUPP;
	}
	error = ((get_fn)held->symbols[GET])(memory->address, memory->length, &held->table);
	if (error) {
		tutti_symbols_put(names, NR_SYMBOLS);
		kfree(held);
		return error;
	}
	memory->priv = held;
	page = held->table->page_size;
	memory->page_size = page;
	if (held->table->version >> 16 != MUSA_TABLE_MAJOR || !is_power_of_2(page) || page < PAGE_SIZE)
		error = -EOPNOTSUPP;
	else if (!IS_ALIGNED(memory->address | memory->length, page))
		error = -EINVAL;
	if (error)
		musa_put(memory);
	return error;
}

static int musa_map(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct musa_memory *held = memory->priv;
	struct musa_dma *dma;
	u64 left = memory->length;
	u32 i;
	int error = ((map_fn)held->symbols[MAP])(&mapping->pdev->dev, held->table, &dma);

	if (error)
		return error;
	for (i = 0; i < dma->count && left && !error; i++) {
		u64 length = min(dma->lengths[i], left);

		error = length ? tutti_mapping_add(mapping, dma->addresses[i], length) : 0;
		left -= length;
	}
	if (error)
		((unmap_fn)held->symbols[UNMAP])(&mapping->pdev->dev, dma);
	else
		mapping->priv = dma;
	return error;
}

static void musa_unmap(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct musa_memory *held = memory->priv;
	struct musa_dma *dma = tutti_mapping_take(mapping);

	if (dma)
		((unmap_fn)held->symbols[UNMAP])(&mapping->pdev->dev, dma);
}

const struct tutti_provider tutti_provider_musa = {
	.name = "musa",
	.id = TUTTI_P2P_PROVIDER_MUSA,
	.owner = THIS_MODULE,
	.available = musa_available,
	.get = musa_get,
	.put = musa_put,
	.map = musa_map,
	.unmap = musa_unmap,
};
