// SPDX-License-Identifier: GPL-2.0-only
/* One open file: its requests, its events, its mappings, its end. */
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../compat.h"
#include "core.h"

/* ---- events ---- */

/**
 * tutti_event_init() - an event that nobody waits for yet
 * @event: part of the object
 * @kind: TUTTI_P2P_EVENT_*
 * @handle: of the object
 */
void tutti_event_init(struct tutti_event *event, u32 kind, u32 handle)
{
	INIT_LIST_HEAD(&event->node);
	event->kind = kind;
	event->handle = handle;
}

/**
 * tutti_client_alarm() - something is being lost: change the generation, so that device code stops
 * @client: who loses
 *
 * Any context that may take a spinlock. Each alarm is followed by tutti_client_settle().
 */
void tutti_client_alarm(struct tutti_client *client)
{
	spin_lock(&client->event_lock);
	client->unsettled++;
	client->generation++;
	WRITE_ONCE(client->watch->generation, client->generation);
	spin_unlock(&client->event_lock);
}

/**
 * tutti_client_post() - say what was lost
 * @client: who lost
 * @event: the object's; posted at most once
 * @cause: TUTTI_P2P_CAUSE_*
 *
 * Any context that may take a spinlock.
 */
void tutti_client_post(struct tutti_client *client, struct tutti_event *event, u32 cause)
{
	spin_lock(&client->event_lock);
	if (!event->cause) {
		event->cause = cause;
		event->generation = client->generation;
		list_add_tail(&event->node, &client->events);
	}
	if (client->eventfd)
		tutti_eventfd_signal(client->eventfd);
	spin_unlock(&client->event_lock);
	wake_up_interruptible(&client->wait);
}

/**
 * tutti_client_settle() - what an alarm announced is over
 * @client: the client
 */
void tutti_client_settle(struct tutti_client *client)
{
	spin_lock(&client->event_lock);
	if (!--client->unsettled)
		WRITE_ONCE(client->watch->settled, client->generation);
	spin_unlock(&client->event_lock);
}

/**
 * tutti_event_cancel() - the object ends: nobody is to hear of it any more
 * @client: the client
 * @event: the object's
 */
void tutti_event_cancel(struct tutti_client *client, struct tutti_event *event)
{
	spin_lock(&client->event_lock);
	list_del_init(&event->node);
	spin_unlock(&client->event_lock);
}

/**
 * tutti_client_next_event() - TUTTI_P2P_EVENT
 * @client: who asks
 * @argument: &struct tutti_p2p_event
 *
 * Return: 0; -EINVAL, -EAGAIN.
 */
long tutti_client_next_event(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_event *answer = argument;
	struct tutti_event *event;

	if (answer->reserved)
		return -EINVAL;
	spin_lock(&client->event_lock);
	event = list_first_entry_or_null(&client->events, struct tutti_event, node);
	if (event) {
		list_del_init(&event->node);
		answer->kind = event->kind;
		answer->handle = event->handle;
		answer->cause = event->cause;
		answer->generation = event->generation;
	}
	spin_unlock(&client->event_lock);
	return event ? 0 : -EAGAIN;
}

/**
 * tutti_client_notify() - TUTTI_P2P_NOTIFY
 * @client: who asks
 * @argument: &struct tutti_p2p_notify
 *
 * Return: 0; -EINVAL, -EBADF and what else the file says.
 */
long tutti_client_notify(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_notify *notify = argument;
	struct eventfd_ctx *context = NULL;

	if (notify->flags || notify->eventfd < -1)
		return -EINVAL;
	if (notify->eventfd >= 0) {
		context = eventfd_ctx_fdget(notify->eventfd);
		if (IS_ERR(context))
			return PTR_ERR(context);
	}
	spin_lock(&client->event_lock);
	swap(client->eventfd, context);
	spin_unlock(&client->event_lock);
	if (context)
		eventfd_ctx_put(context);
	return 0;
}

static __poll_t tutti_poll(struct file *file, poll_table *table)
{
	struct tutti_client *client = file->private_data;
	__poll_t events;

	poll_wait(file, &client->wait, table);
	spin_lock(&client->event_lock);
	events = list_empty(&client->events) ? 0 : EPOLLIN | EPOLLPRI;
	spin_unlock(&client->event_lock);
	return events;
}

/* ---- requests ---- */

static long negotiate(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_negotiate *version = argument;

	if (version->reserved[0] || version->reserved[1] ||
	    version->version_min > version->version_max)
		return -EINVAL;
	if (client->version)
		return -EALREADY;
	if (version->version_min > TUTTI_P2P_VERSION || version->version_max < TUTTI_P2P_VERSION)
		return -EPROTONOSUPPORT;
	client->version = TUTTI_P2P_VERSION;
	version->version = TUTTI_P2P_VERSION;
	version->features = TUTTI_P2P_FEATURE_DMABUF;
	if (tutti_watches_resets)
		version->features |= TUTTI_P2P_FEATURE_RESET_WATCH;
	return 0;
}

/* What a successful request made is taken back when its answer cannot be written. */
static void undo_attach(struct tutti_client *client, const void *argument)
{
	struct tutti_p2p_detach detach = {
		.controller = ((const struct tutti_p2p_attach *)argument)->controller
	};

	tutti_controller_detach(client, &detach);
}

static void undo_pin(struct tutti_client *client, const void *argument)
{
	struct tutti_p2p_unpin unpin = {
		.pin = ((const struct tutti_p2p_pin *)argument)->pin,
		.flags = TUTTI_P2P_UNPIN_IDLE,
	};

	tutti_pin_release(client, &unpin);
}

static void undo_queue(struct tutti_client *client, const void *argument)
{
	struct tutti_p2p_queue_delete queue = {
		.queue = ((const struct tutti_p2p_queue_create *)argument)->queue
	};

	mutex_lock(&client->lock);
	tutti_queue_delete(client, &queue);
	mutex_unlock(&client->lock);
}

/**
 * struct request - one ioctl
 * @command: its number
 * @serve: does it
 * @undo: takes back what it made, or NULL
 * @locks_itself: takes outer locks, so it is called without the client's
 */
struct request {
	unsigned int command;
	long (*serve)(struct tutti_client *client, void *argument);
	void (*undo)(struct tutti_client *client, const void *argument);
	bool locks_itself;
};

static const struct request requests[] = {
	{ TUTTI_P2P_NEGOTIATE, negotiate },
	{ TUTTI_P2P_PROVIDER, tutti_provider_describe },
	{ TUTTI_P2P_USAGE, tutti_user_usage },
	{ TUTTI_P2P_ATTACH, tutti_controller_attach, undo_attach, true },
	{ TUTTI_P2P_DETACH, tutti_controller_detach, NULL, true },
	{ TUTTI_P2P_PIN, tutti_pin_create, undo_pin },
	{ TUTTI_P2P_RUNS, tutti_pin_runs },
	{ TUTTI_P2P_UNPIN, tutti_pin_release, NULL, true },
	{ TUTTI_P2P_QUEUE_CREATE, tutti_queue_create, undo_queue },
	{ TUTTI_P2P_QUEUE_DELETE, tutti_queue_delete },
	{ TUTTI_P2P_NOTIFY, tutti_client_notify },
	{ TUTTI_P2P_EVENT, tutti_client_next_event },
};

static long tutti_ioctl(struct file *file, unsigned int command, unsigned long user)
{
	struct tutti_client *client = file->private_data;
	void __user *where = (void __user *)user;
	const struct request *request = NULL;
	u64 argument[16];
	size_t i;
	long result;

	BUILD_BUG_ON(sizeof(struct tutti_p2p_attach) > sizeof(argument));
	BUILD_BUG_ON(sizeof(struct tutti_p2p_queue_create) > sizeof(argument));
	for (i = 0; i < ARRAY_SIZE(requests); i++)
		if (requests[i].command == command)
			request = &requests[i];
	if (!request)
		return -ENOTTY;
	if (current->mm != client->mm)
		return -EPERM;
	if (copy_from_user(argument, where, _IOC_SIZE(command)))
		return -EFAULT;
	if (!request->locks_itself)
		mutex_lock(&client->lock);
	if (client->ended)
		result = -ESHUTDOWN;
	else if (!client->version && request->serve != negotiate)
		result = -EPROTO;
	else
		result = request->serve(client, argument);
	if (!request->locks_itself)
		mutex_unlock(&client->lock);
	if ((_IOC_DIR(command) & _IOC_READ) && copy_to_user(where, argument, _IOC_SIZE(command))) {
		if (!result && request->undo)
			request->undo(client, argument);
		return -EFAULT;
	}
	return result;
}

/* ---- mappings ---- */

/*
 * Under map_lock: where the doorbells of a live queue pair begin, as a page number, and how
 * many pages; 0 pages when lost.
 */
static unsigned long doorbells(struct tutti_client *client, unsigned long offset,
			       unsigned long *pages)
{
	struct tutti_queue *queue = NULL;
	unsigned long first, end;
	u64 handle = ((u64)offset << PAGE_SHIFT) >> TUTTI_DOORBELL_SHIFT;

	*pages = 0;
	if (handle && handle <= S32_MAX)
		queue = xa_load(&client->queues, handle);
	if (!queue || queue->state != TUTTI_QUEUE_LIVE)
		return 0;
	first = (TUTTI_DOORBELLS + 2UL * queue->qid * queue->controller->stride) >> PAGE_SHIFT;
	end = (TUTTI_DOORBELLS + (2UL * queue->qid + 1) * queue->controller->stride) >> PAGE_SHIFT;
	*pages = end - first + 1;
	return (pci_resource_start(queue->controller->pdev, 0) >> PAGE_SHIFT) + first;
}

static vm_fault_t doorbell_fault(struct vm_fault *fault)
{
	struct tutti_client *client = fault->vma->vm_file->private_data;
	unsigned long start = fault->vma->vm_pgoff;
	unsigned long page = fault->pgoff - start;
	unsigned long pages, pfn;
	vm_fault_t result = VM_FAULT_SIGBUS;

	mutex_lock(&client->map_lock);
	pfn = doorbells(client, start, &pages);
	if (page < pages)
		result = vmf_insert_pfn(fault->vma, fault->address, pfn + page);
	mutex_unlock(&client->map_lock);
	return result;
}

static const struct vm_operations_struct doorbell_operations = {
	.fault = doorbell_fault,
};

/* All pages at once, for a device's driver that looks them up and does not fault them in. */
static int map_doorbells(struct tutti_client *client, struct vm_area_struct *vma)
{
	unsigned long length = vma->vm_end - vma->vm_start;
	unsigned long pages, pfn, i;
	int error = -EINVAL;

	if ((((u64)vma->vm_pgoff << PAGE_SHIFT) & (BIT_ULL(TUTTI_DOORBELL_SHIFT) - 1)) ||
	    (vma->vm_flags & VM_EXEC))
		return -EINVAL;
	tutti_vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	vma->vm_ops = &doorbell_operations;
	mutex_lock(&client->map_lock);
	pfn = doorbells(client, vma->vm_pgoff, &pages);
	if (pages && length == pages << PAGE_SHIFT) {
		error = 0;
		for (i = 0; i < pages && !error; i++)
			if (vmf_insert_pfn(vma, vma->vm_start + (i << PAGE_SHIFT), pfn + i) !=
			    VM_FAULT_NOPAGE)
				error = -ENOMEM;
	}
	mutex_unlock(&client->map_lock);
	return error;
}

static int tutti_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct tutti_client *client = file->private_data;

	if (current->mm != client->mm)
		return -EPERM;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_pgoff != TUTTI_P2P_MMAP_WATCH >> PAGE_SHIFT)
		return map_doorbells(client, vma);
	if (vma->vm_end - vma->vm_start != PAGE_SIZE)
		return -EINVAL;
	tutti_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND);
	return vm_insert_page(vma, vma->vm_start, client->watch_page);
}

/*
 * Doorbells of live queue pairs come back by a page fault, those of lost ones do not. An mmap()
 * that looked before a queue pair was lost is not in the list of mappings until it ends; it
 * holds mmap_lock until then.
 */
static void zap_doorbells(struct work_struct *work)
{
	struct tutti_client *client = container_of(work, struct tutti_client, zap);

	if (mmget_not_zero(client->mm)) {
		mmap_read_lock(client->mm);
		mmap_read_unlock(client->mm);
		mmput(client->mm);
	}
	unmap_mapping_range(&client->mapping, 1LL << TUTTI_DOORBELL_SHIFT, 0, 1);
}

/* ---- begin and end ---- */

static const struct address_space_operations no_operations = {};

static int tutti_open(struct inode *inode, struct file *file)
{
	struct tutti_client *client;
	int error = -ENOMEM;

	if (!current->mm)
		return -EINVAL;
	client = kzalloc(sizeof(*client), GFP_KERNEL);
	if (!client)
		return -ENOMEM;
	client->watch_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!client->watch_page)
		goto out_client;
	client->watch = page_address(client->watch_page);
	client->user = tutti_user_get(current_uid());
	if (!client->user)
		goto out_page;

	mutex_init(&client->lock);
	mutex_init(&client->map_lock);
	spin_lock_init(&client->event_lock);
	init_waitqueue_head(&client->wait);
	INIT_LIST_HEAD(&client->events);
	INIT_WORK(&client->zap, zap_doorbells);
	xa_init_flags(&client->controllers, XA_FLAGS_ALLOC1);
	xa_init_flags(&client->pins, XA_FLAGS_ALLOC1);
	xa_init_flags(&client->queues, XA_FLAGS_ALLOC1);
	client->mm = current->mm;
	mmgrab(client->mm);
	client->process = get_pid(task_tgid(current));

	/* All files of a device node share its inode's mapping. This one gets its own. */
	address_space_init_once(&client->mapping);
	client->mapping.host = inode;
	client->mapping.a_ops = &no_operations;
	file->f_mapping = &client->mapping;
	file->private_data = client;

	mutex_lock(&tutti_lock);
	list_add(&client->node, &tutti_clients);
	mutex_unlock(&tutti_lock);
	return nonseekable_open(inode, file);

out_page:
	__free_page(client->watch_page);
out_client:
	kfree(client);
	return error;
}

/* Give everything back: queue pairs first, then memory, then drives. */
static void end(struct tutti_client *client)
{
	mutex_lock(&tutti_lock);
	mutex_lock(&client->lock);
	if (!client->ended) {
		client->ended = true;
		tutti_queue_delete_all(client, NULL);
		tutti_pin_release_all(client);
		tutti_controller_detach_all(client);
		list_del(&client->node);
	}
	mutex_unlock(&client->lock);
	mutex_unlock(&tutti_lock);
	flush_work(&client->zap);
}

/* The process dies, and a child may still have the file: nothing of the dead is to stay in use. */
static int tutti_flush(struct file *file, fl_owner_t owner)
{
	struct tutti_client *client = file->private_data;

	if ((current->flags & PF_EXITING) && task_tgid(current) == client->process)
		end(client);
	return 0;
}

static int tutti_release(struct inode *inode, struct file *file)
{
	struct tutti_client *client = file->private_data;

	end(client);
	if (client->eventfd)
		eventfd_ctx_put(client->eventfd);
	xa_destroy(&client->queues);
	xa_destroy(&client->pins);
	xa_destroy(&client->controllers);
	put_pid(client->process);
	mmdrop(client->mm);
	tutti_user_put(client->user);
	__free_page(client->watch_page);
	kfree(client);
	return 0;
}

const struct file_operations tutti_file_operations = {
	.owner = THIS_MODULE,
	.open = tutti_open,
	.flush = tutti_flush,
	.release = tutti_release,
	.unlocked_ioctl = tutti_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = tutti_mmap,
	.poll = tutti_poll,
	.llseek = noop_llseek,
};
