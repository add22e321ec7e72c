// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the driver keeps its admin queue. Its structures are private, so the queue is found in
 * ways that know no layout, and they must agree:
 *
 *  1. The driver is made to send a command (Get Features, which is wanted anyway), and a probe
 *     notes which queue it uses.
 *  2. The driver's structure of this controller holds that queue, and the queue's own set of
 *     tags, as members.
 *  3. When user space read the offsets from the kernel's type data (BTF): these members lie at
 *     those offsets.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/kprobes.h>
#include <linux/nvme.h>
#include <linux/uaccess.h>

#include "core.h"

/*
 * Exported by nvme_core; the type of the last member differs between kernels, its size as a
 * pointer does not.
 */
int nvme_get_features(struct nvme_ctrl *ctrl, unsigned int fid, unsigned int dword11, void *buffer,
		      size_t length, void *result);

/* Far less than the driver's structure is long; its first members are meant. */
#define SCANNED 512

static DEFINE_MUTEX(probe_lock);

static struct {
	struct task_struct *task;
	struct request_queue *queue;
} seen;

static int note_queue(struct kprobe *probe, struct pt_regs *registers)
{
	if (READ_ONCE(seen.task) == current && !seen.queue)
		seen.queue = (struct request_queue *)regs_get_kernel_argument(registers, 0);
	return 0;
}

/* By the command that the driver sends. Also how many queues the controller granted to it. */
static struct request_queue *by_command(struct nvme_ctrl *nvme, u32 *granted, u32 *refused)
{
	struct kprobe probe = { .symbol_name = "__nvme_submit_sync_cmd",
				.pre_handler = note_queue };
	struct request_queue *queue = NULL;
	u64 result = 0;
	int error;

	mutex_lock(&probe_lock);
	seen.queue = NULL;
	WRITE_ONCE(seen.task, current);
	error = register_kprobe(&probe);
	if (error) {
		*refused = TUTTI_P2P_REFUSED_KERNEL;
	} else {
		error = nvme_get_features(nvme, NVME_FEAT_NUM_QUEUES, 0, NULL, 0, &result);
		unregister_kprobe(&probe);
		if (error)
			*refused = TUTTI_P2P_REFUSED_STATE;
		else
			queue = seen.queue;
	}
	WRITE_ONCE(seen.task, NULL);
	mutex_unlock(&probe_lock);
	*granted = min_t(u32, result & 0xffff, result >> 16 & 0xffff) + 1;
	return queue;
}

/* Whether the structure has this pointer: at the offset, or anywhere when that is 0. */
static bool holds(struct nvme_ctrl *nvme, const void *pointer, u32 offset)
{
	u32 first = offset ? offset : 0;
	u32 last = offset ? offset : SCANNED - sizeof(void *);
	void *found;

	if (offset > SCANNED - sizeof(void *) || !IS_ALIGNED(offset, sizeof(void *)))
		return false;
	for (; first <= last; first += sizeof(void *)) {
		if (copy_from_kernel_nofault(&found, (void *)nvme + first, sizeof(found)))
			return false;
		if (found == pointer)
			return true;
	}
	return false;
}

/**
 * tutti_admin_queue_find() - the driver's admin queue of a controller
 * @nvme: the driver's structure
 * @argument: the offsets, as user space knows them
 * @granted: how many I/O queue pairs the controller granted to the driver
 * @refused: why not
 *
 * Costs one admin command. May sleep. Return: the queue, valid while the structure is; NULL.
 */
struct request_queue *tutti_admin_queue_find(struct nvme_ctrl *nvme,
					     const struct tutti_p2p_attach *argument, u32 *granted,
					     u32 *refused)
{
	struct request_queue *queue;
	struct blk_mq_tag_set *tags = NULL;

	*refused = TUTTI_P2P_REFUSED_NOTHING;
	queue = by_command(nvme, granted, refused);
	if (*refused)
		return NULL;
	if (!queue || copy_from_kernel_nofault(&tags, &queue->tag_set, sizeof(tags)) || !tags ||
	    !holds(nvme, queue, argument->btf_admin_q) ||
	    !holds(nvme, tags, argument->btf_admin_tagset)) {
		*refused = TUTTI_P2P_REFUSED_ADMIN_QUEUE;
		return NULL;
	}
	return queue;
}
