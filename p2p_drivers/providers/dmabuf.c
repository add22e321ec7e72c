// SPDX-License-Identifier: GPL-2.0-only
/*
 * A dma-buf, by a dynamic attachment that allows peer memory: the kernel's own way, and the
 * only one for drivers whose symbols are not exported to GPL modules. The exporter pins where
 * it can; else it says when the buffer moves, which ends the pin: device code knows bus
 * addresses by heart, so it cannot follow a move.
 */
#include <linux/slab.h>

#include "../compat.h"
#include "../core/core.h"

/** struct dmabuf_memory - a buffer and its attachments, the list under the buffer's lock */
struct dmabuf_memory {
	struct dma_buf *buffer;
	struct list_head attachments;
};

/** struct dmabuf_attachment - one function's; @table and @pinned under the buffer's lock */
struct dmabuf_attachment {
	struct list_head node;
	struct tutti_memory *memory;
	struct tutti_mapping *mapping;
	struct dma_buf_attachment *attachment;
	struct sg_table *table;
	bool pinned;
};

static int dmabuf_get(struct tutti_memory *memory)
{
	struct dmabuf_memory *held;
	struct dma_buf *buffer;

	if (!PAGE_ALIGNED(memory->address) || !PAGE_ALIGNED(memory->length))
		return -EINVAL;
	buffer = dma_buf_get(memory->fd);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	held = kzalloc(sizeof(*held), GFP_KERNEL);
	if (!held || memory->address > buffer->size ||
	    memory->length > buffer->size - memory->address) {
		dma_buf_put(buffer);
		kfree(held);
		return held ? -EINVAL : -ENOMEM;
	}
	held->buffer = buffer;
	INIT_LIST_HEAD(&held->attachments);
	memory->page_size = PAGE_SIZE;
	memory->priv = held;
	return 0;
}

/* The buffer's lock is held. */
static void unmap_locked(struct dmabuf_attachment *each)
{
	tutti_mapping_take(each->mapping);
	if (each->table)
		dma_buf_unmap_attachment(each->attachment, each->table, DMA_BIDIRECTIONAL);
	if (each->pinned)
		dma_buf_unpin(each->attachment);
	each->table = NULL;
	each->pinned = false;
}

/*
 * The exporter moves the buffer; it holds the buffer's lock. Attachments can be detached only
 * after it.
 */
static void moved(struct dma_buf_attachment *attachment)
{
	struct dmabuf_attachment *each = attachment->importer_priv;
	struct dmabuf_memory *held = each->memory->priv;

	if (!tutti_memory_revoke(each->memory))
		return;
	list_for_each_entry(each, &held->attachments, node)
		unmap_locked(each);
}

static const struct dma_buf_attach_ops attach_operations = {
	.allow_peer2peer = true,
	.tutti_dmabuf_moved = moved,
};

/* The runs of the range in the buffer. The buffer's lock is held. */
static int report(struct tutti_memory *memory, struct tutti_mapping *mapping,
		  struct sg_table *table)
{
	u64 skip = memory->address, left = memory->length;
	struct scatterlist *entry;
	unsigned int i;
	int error = 0;

	for_each_sgtable_dma_sg(table, entry, i) {
		u64 length = sg_dma_len(entry);
		u64 skipped = min(skip, length);
		u64 taken = min(length - skipped, left);

		skip -= skipped;
		left -= taken;
		if (taken && !error)
			error = tutti_mapping_add(mapping, sg_dma_address(entry) + skipped, taken);
	}
	return error;
}

static int dmabuf_map(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct dmabuf_memory *held = memory->priv;
	struct dmabuf_attachment *each = kzalloc(sizeof(*each), GFP_KERNEL);
	int error;

	if (!each)
		return -ENOMEM;
	each->memory = memory;
	each->mapping = mapping;
	each->attachment =
		dma_buf_dynamic_attach(held->buffer, &mapping->pdev->dev, &attach_operations, each);
	if (IS_ERR(each->attachment)) {
		error = PTR_ERR(each->attachment);
		kfree(each);
		return error;
	}
	dma_resv_lock(held->buffer->resv, NULL);
	/* An exporter that cannot pin says so when the buffer moves. */
	each->pinned = !dma_buf_pin(each->attachment);
	each->table = dma_buf_map_attachment(each->attachment, DMA_BIDIRECTIONAL);
	if (IS_ERR(each->table)) {
		error = PTR_ERR(each->table);
		each->table = NULL;
	} else {
		tutti_resv_wait(held->buffer->resv);
		error = report(memory, mapping, each->table);
	}
	if (error) {
		unmap_locked(each);
	} else {
		list_add_tail(&each->node, &held->attachments);
		mapping->priv = each;
	}
	dma_resv_unlock(held->buffer->resv);
	if (error) {
		dma_buf_detach(held->buffer, each->attachment);
		kfree(each);
	}
	return error;
}

/* All attachments, or that of one function. */
static void detach(struct dmabuf_memory *held, struct tutti_mapping *mapping)
{
	struct dmabuf_attachment *each, *next;
	LIST_HEAD(ended);

	dma_resv_lock(held->buffer->resv, NULL);
	list_for_each_entry_safe(each, next, &held->attachments, node) {
		if (mapping && each->mapping != mapping)
			continue;
		unmap_locked(each);
		list_move(&each->node, &ended);
	}
	dma_resv_unlock(held->buffer->resv);
	list_for_each_entry_safe(each, next, &ended, node) {
		dma_buf_detach(held->buffer, each->attachment);
		kfree(each);
	}
}

static void dmabuf_unmap(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	detach(memory->priv, mapping);
}

static void dmabuf_put(struct tutti_memory *memory)
{
	struct dmabuf_memory *held = memory->priv;

	detach(held, NULL);
	dma_buf_put(held->buffer);
	kfree(held);
}

const struct tutti_provider tutti_provider_dmabuf = {
	.name = "dmabuf",
	.id = TUTTI_P2P_PROVIDER_DMABUF,
	.owner = THIS_MODULE,
	.revokes = true,
	.takes_fd = true,
	.get = dmabuf_get,
	.put = dmabuf_put,
	.map = dmabuf_map,
	.unmap = dmabuf_unmap,
	.forget = dmabuf_put,
};
