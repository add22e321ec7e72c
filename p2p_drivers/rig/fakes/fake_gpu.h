/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A GPU for the rig: a PCI function whose BAR is its memory, and what the fake vendor drivers share. Written from what each
 * vendor's entry points are documented or known to do, and apart from the providers that are tested against them.
 */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define FAKE_GPU_PAGE	65536ULL

/* Memory belongs to the open file of /dev/fake_gpu and to the process that allocated it, and goes with either. */
struct fake_gpu_range {
	__u64 length;		/* in, whole pages of 64 KiB */
	__u64 address;		/* out: of the device, not of the process */
	__u64 offset;		/* out: in the BAR, and for mmap */
};

struct fake_gpu_stats {
	__u32 objects;		/* out: allocated */
	__u32 zombies;		/* out: freed by the user, kept for an importer without a callback */
	__u32 holds;		/* out: imports that were not given back */
	__u32 mapped;		/* out: DMA mappings that were not undone */
	__u32 callbacks;	/* out: free callbacks run so far */
	__u32 violations;	/* out: broken rules so far; each also warns in the kernel's log */
};

struct fake_gpu_buffer {
	__u64 address;		/* in, for EXPORT */
	__u64 length;		/* in, for EXPORT */
	__s32 fd;		/* out of EXPORT, in for MOVE */
	__u32 pins;		/* out */
};

#define FAKE_GPU_ALLOC	_IOWR('F', 1, struct fake_gpu_range)
#define FAKE_GPU_FREE	_IOW('F', 2, __u64)
#define FAKE_GPU_STATS	_IOR('F', 3, struct fake_gpu_stats)
#define FAKE_GPU_EXPORT	_IOWR('F', 4, struct fake_gpu_buffer)
#define FAKE_GPU_MOVE	_IOWR('F', 5, struct fake_gpu_buffer)

#ifdef __KERNEL__
#include <linux/list.h>
#include <linux/pci.h>

struct fake_gpu_object;

/**
 * struct fake_gpu_hold - a vendor driver's import of a range
 * @revoke: called when the range is freed, with the GPU's lock held; NULL for a vendor without callbacks
 * @object: what is held; NULL once it was revoked or given back
 * @mapped: DMA mappings that are not undone
 */
struct fake_gpu_hold {
	struct list_head node;
	void (*revoke)(struct fake_gpu_hold *hold);
	struct fake_gpu_object *object;
	phys_addr_t start;
	u64 length;
	atomic_t mapped;
};

int fake_gpu_hold(struct fake_gpu_hold *hold, u64 address, u64 length);
int fake_gpu_release(struct fake_gpu_hold *hold);
void fake_gpu_violation(const char *rule);
bool fake_gpu_in_callback(void);
int fake_gpu_map(struct fake_gpu_hold *hold, struct device *device, u64 at, u64 length, dma_addr_t *bus);
void fake_gpu_unmap(struct fake_gpu_hold *hold, struct device *device, dma_addr_t bus, u64 length);
#endif

#endif /* FAKE_GPU_H */
