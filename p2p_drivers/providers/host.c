// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages of the client's process. They stay until they are unpinned, so this provider never
 * revokes.
 */
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "../compat.h"
#include "../core/core.h"

/** struct host_memory - pages that are held; charged to RLIMIT_MEMLOCK of @mm */
struct host_memory {
	struct mm_struct *mm;
	unsigned int count;
	struct page *pages[];
};

static int host_get(struct tutti_memory *memory)
{
	u64 count = memory->length >> PAGE_SHIFT;
	struct host_memory *host;
	unsigned int done = 0;
	int error;

	if (!PAGE_ALIGNED(memory->address) || !PAGE_ALIGNED(memory->length) || count > INT_MAX)
		return -EINVAL;
	host = kvzalloc(struct_size(host, pages, count), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!host)
		return -ENOMEM;
	host->mm = current->mm;
	host->count = count;
	error = account_locked_vm(host->mm, count, true);
	if (error)
		goto out_free;
	while (done < count) {
		/*
		 * A drive writes into them for as long as it likes: writable, and not where
		 * memory moves.
		 */
		error = pin_user_pages_fast(memory->address + ((u64)done << PAGE_SHIFT),
					    count - done, FOLL_WRITE | FOLL_LONGTERM,
					    host->pages + done);
		if (error <= 0)
			break;
		done += error;
	}
	if (done < count) {
		unpin_user_pages(host->pages, done);
		account_locked_vm(host->mm, count, false);
		error = error ? error : -EFAULT;
		goto out_free;
	}
	mmgrab(host->mm);
	memory->page_size = PAGE_SIZE;
	memory->priv = host;
	return 0;

out_free:
	kvfree(host);
	return error;
}

static void host_put(struct tutti_memory *memory)
{
	struct host_memory *host = memory->priv;

	unpin_user_pages_dirty_lock(host->pages, host->count, true);
	/* The account ends with its process. */
	if (mmget_not_zero(host->mm)) {
		account_locked_vm(host->mm, host->count, false);
		mmput(host->mm);
	}
	mmdrop(host->mm);
	kvfree(host);
}

/*
 * A bounce buffer is not the client's memory. Direct mappings use one for what a device cannot
 * address, others for a device that is not trusted.
 */
static bool bounced(struct pci_dev *pdev, dma_addr_t bus)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&pdev->dev);

	if (domain && domain->type != IOMMU_DOMAIN_IDENTITY)
		return pdev->untrusted;
	return dma_need_sync(&pdev->dev, bus);
}

static int host_map(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct device *device = &mapping->pdev->dev;
	struct host_memory *host = memory->priv;
	struct sg_table *table = kzalloc(sizeof(*table), GFP_KERNEL);
	struct scatterlist *entry;
	unsigned int i;
	int error;

	if (!table)
		return -ENOMEM;
	error = tutti_sg_from_pages(table, host->pages, host->count,
				    ALIGN_DOWN(dma_get_max_seg_size(device), PAGE_SIZE));
	if (error)
		goto out_free;
	error = dma_map_sgtable(device, table, DMA_BIDIRECTIONAL, 0);
	if (error)
		goto out_table;
	for_each_sgtable_dma_sg(table, entry, i) {
		error = bounced(mapping->pdev, sg_dma_address(entry))
				? -EREMOTEIO
				: tutti_mapping_add(mapping, sg_dma_address(entry),
						    sg_dma_len(entry));
		if (error)
			goto out_map;
	}
	mapping->priv = table;
	return 0;

out_map:
	dma_unmap_sgtable(device, table, DMA_BIDIRECTIONAL, 0);
out_table:
	sg_free_table(table);
out_free:
	kfree(table);
	return error;
}

static void host_unmap(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct sg_table *table = tutti_mapping_take(mapping);

	if (!table)
		return;
	dma_unmap_sgtable(&mapping->pdev->dev, table, DMA_BIDIRECTIONAL, 0);
	sg_free_table(table);
	kfree(table);
}

const struct tutti_provider tutti_provider_host = {
	.name = "host",
	.id = TUTTI_P2P_PROVIDER_HOST,
	.owner = THIS_MODULE,
	.get = host_get,
	.put = host_put,
	.map = host_map,
	.unmap = host_unmap,
};
