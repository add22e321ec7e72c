/* SPDX-License-Identifier: GPL-2.0-only */
/* What differs between kernel lines. The only file that tests a version. */
#ifndef TUTTI_P2P_COMPAT_H
#define TUTTI_P2P_COMPAT_H

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/eventfd.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 10, 0)
#error "tutti_p2p needs Linux 5.10 or newer"
#endif

/* The name of a namespace became a string in 6.13; that of dma-buf exists since 5.16. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define TUTTI_IMPORT_NVME	MODULE_IMPORT_NS("NVME_TARGET_PASSTHRU")
#define TUTTI_IMPORT_DMABUF	MODULE_IMPORT_NS("DMA_BUF")
#else
#define TUTTI_IMPORT_NVME	MODULE_IMPORT_NS(NVME_TARGET_PASSTHRU)
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0)
#define TUTTI_IMPORT_DMABUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define TUTTI_IMPORT_DMABUF	MODULE_INFO(dma_buf_namespace, "none")
#endif
#endif

static inline void tutti_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

static inline void tutti_eventfd_signal(struct eventfd_ctx *context)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	eventfd_signal(context);
#else
	eventfd_signal(context, 1);
#endif
}

/* The importer's callback of a dynamic attachment, and the exporter's call that leads to it. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define tutti_dmabuf_moved		invalidate_mappings
#define tutti_dmabuf_announce_move	dma_buf_invalidate_mappings
#else
#define tutti_dmabuf_moved		move_notify
#define tutti_dmabuf_announce_move	dma_buf_move_notify
#endif

/* Wait until a buffer that its exporter moves has arrived. The lock is held. */
static inline void tutti_resv_wait(struct dma_resv *resv)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 19, 0)
	dma_resv_wait_timeout(resv, DMA_RESV_USAGE_KERNEL, false, MAX_SCHEDULE_TIMEOUT);
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
	dma_resv_wait_timeout(resv, false, false, MAX_SCHEDULE_TIMEOUT);
#else
	dma_resv_wait_timeout_rcu(resv, false, false, MAX_SCHEDULE_TIMEOUT);
#endif
}

/* One entry for pages that touch, none longer than @max bytes. */
static inline int tutti_sg_from_pages(struct sg_table *table, struct page **pages,
				      unsigned int count, unsigned int max)
{
	unsigned long bytes = (unsigned long)count << PAGE_SHIFT;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 15, 0)
	return sg_alloc_table_from_pages_segment(table, pages, count, 0, bytes, max, GFP_KERNEL);
#else
	return PTR_ERR_OR_ZERO(__sg_alloc_table_from_pages(table, pages, count, 0, bytes, max,
							   NULL, 0, GFP_KERNEL));
#endif
}

#endif /* TUTTI_P2P_COMPAT_H */
