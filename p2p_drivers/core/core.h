/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The core's own structures.
 *
 * Locks, outer first:
 *
 *   device_lock of a drive's PCI function	(held by the kernel when its driver is unbound)
 *   tutti_lock					(the lists of clients and of controllers)
 *   tutti_client.lock				(what it made; around a provider's operations)
 *   mmap_lock, locks of a memory's owner, dma_resv
 *   tutti_controller.lock			(queue pairs, their ids, admin commands)
 *   tutti_client.map_lock			(whether a queue pair's doorbells may be mapped)
 *   tutti_client.event_lock			(spinlock)
 *
 * A revocation comes with an owner's locks held, so it takes the last three only.
 */
#ifndef TUTTI_P2P_CORE_H
#define TUTTI_P2P_CORE_H

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "../uapi/tutti_p2p.h"
#include "provider.h"

struct nvme_ctrl;
struct nvme_command;

/** enum tutti_memory_state - who ends a memory: the core, or its owner */
enum tutti_memory_state { TUTTI_MEMORY_LIVE, TUTTI_MEMORY_RELEASING, TUTTI_MEMORY_REVOKED };

/**
 * struct tutti_event - an event to come of one object
 * @node: in &tutti_client.events, or empty
 * @kind: TUTTI_P2P_EVENT_*
 * @handle: of the object
 * @cause: TUTTI_P2P_CAUSE_*
 * @generation: of the client, when it was posted
 */
struct tutti_event {
	struct list_head node;
	u32 kind;
	u32 handle;
	u32 cause;
	u64 generation;
};

/** struct tutti_user - what one user holds, by all its clients */
struct tutti_user {
	struct list_head node;
	kuid_t uid;
	unsigned int clients;
	u64 pins;
	u64 bytes;
	u64 queues;
};

/**
 * struct tutti_client - one open file
 * @lock: serialises its requests
 * @node: in tutti_clients
 * @version: what was negotiated, 0 before
 * @ended: everything was given back; no request is served
 * @mm: of the process that opened it; the only one to use it
 * @process: the same, for when it dies and a child still has the file
 * @user: who is charged
 * @controllers: handle to &struct tutti_attachment
 * @pins: handle to &struct tutti_pin
 * @queues: handle to &struct tutti_queue; entries change under @map_lock too
 * @nr_controllers: entries of @controllers
 * @next_controller: where the search for a handle goes on, as for the two below
 * @next_pin: as above
 * @next_queue: as above
 * @mapping: of this file alone, so that its mappings can be taken away without those of others
 * @map_lock: &tutti_queue.state against mmap and page faults
 * @zap: takes mappings away, in a context that may wait for mmap_lock
 * @event_lock: the members below
 * @events: posted, not yet taken
 * @eventfd: to be signalled, or NULL
 * @wait: for poll
 * @watch_page: shared with user space, written only
 * @watch: its content
 * @generation: the true word
 * @unsettled: losses that are being dealt with
 */
struct tutti_client {
	struct mutex lock;
	struct list_head node;
	u32 version;
	bool ended;
	struct mm_struct *mm;
	struct pid *process;
	struct tutti_user *user;
	struct xarray controllers;
	struct xarray pins;
	struct xarray queues;
	u32 nr_controllers;
	u32 next_controller;
	u32 next_pin;
	u32 next_queue;
	struct address_space mapping;
	struct mutex map_lock;
	struct work_struct zap;
	spinlock_t event_lock;
	struct list_head events;
	struct eventfd_ctx *eventfd;
	wait_queue_head_t wait;
	struct page *watch_page;
	struct tutti_p2p_watch *watch;
	u64 generation;
	unsigned int unsettled;
};

/**
 * struct tutti_controller - a drive that the kernel's driver keeps and that clients use
 * @node: in the list of controllers; walked under RCU
 * @ref: attachments and pins
 * @pdev: the function, referenced
 * @device: the driver's class device nvmeN, referenced
 * @nvme: the driver's structure; @file keeps it and the driver's module
 * @file: of /dev/nvmeN, as the first client showed it
 * @admin_q: the driver's queue of admin commands
 * @registers: the first page of BAR 0
 * @cap: CAP register
 * @granted: I/O queue pairs by Get Features
 * @stride: bytes between two doorbells
 * @page_size: by CC.MPS
 * @max_entries: of a queue
 * @resets: counts how often the driver switched the controller off or on; a queue pair of
 *	another count is gone
 * @reset_work: tells the clients
 * @lock: the members below, and admin commands
 * @queues: of all clients, in any state
 * @qids: ids in use by @queues
 * @nr_qids: bits set in @qids
 * @gone: the driver left the function
 */
struct tutti_controller {
	struct list_head node;
	struct kref ref;
	struct pci_dev *pdev;
	struct device *device;
	struct nvme_ctrl *nvme;
	struct file *file;
	struct request_queue *admin_q;
	void __iomem *registers;
	u64 cap;
	u32 granted;
	u32 stride;
	u32 page_size;
	u32 max_entries;
	atomic64_t resets;
	struct work_struct reset_work;
	struct mutex lock;
	struct list_head queues;
	unsigned long *qids;
	u32 nr_qids;
	bool gone;
};

/** struct tutti_attachment - a client's use of a controller */
struct tutti_attachment {
	struct tutti_controller *controller;
	struct tutti_event event;
};

/** struct tutti_pinned - a pin's mapping, and for which controller */
struct tutti_pinned {
	struct tutti_mapping mapping;
	struct tutti_controller *controller;
	bool ended;
};

/** struct tutti_pin - a client's memory; @rings counts the queue rings that lie in it */
struct tutti_pin {
	struct tutti_memory memory;
	struct tutti_client *client;
	struct tutti_event event;
	u32 handle;
	u32 rings;
	u32 nr_pinned;
	struct tutti_pinned pinned[];
};

/**
 * enum tutti_queue_state - of a queue pair
 * @TUTTI_QUEUE_NEW: not on the controller yet
 * @TUTTI_QUEUE_LIVE: the controller has it
 * @TUTTI_QUEUE_STOPPING: doorbells are being taken away, then the controller lets go of it
 * @TUTTI_QUEUE_STOPPED: the controller has let go of it
 */
enum tutti_queue_state {
	TUTTI_QUEUE_NEW,
	TUTTI_QUEUE_LIVE,
	TUTTI_QUEUE_STOPPING,
	TUTTI_QUEUE_STOPPED,
};

/**
 * struct tutti_queue - a client's queue pair
 * @client: whose
 * @controller: where
 * @node: in &tutti_controller.queues
 * @event: when it is lost
 * @handle: for user space
 * @qid: of both queues
 * @resets: &tutti_controller.resets at its creation
 * @state: under &tutti_controller.lock, and to or from LIVE under &tutti_client.map_lock besides
 * @sq_pin: holds the submission ring
 * @cq_pin: holds the completion ring
 */
struct tutti_queue {
	struct tutti_client *client;
	struct tutti_controller *controller;
	struct list_head node;
	struct tutti_event event;
	u32 handle;
	u16 qid;
	s64 resets;
	enum tutti_queue_state state;
	struct tutti_pin *sq_pin;
	struct tutti_pin *cq_pin;
};

extern struct mutex tutti_lock;
extern struct list_head tutti_clients;
extern const struct file_operations tutti_file_operations;
extern bool tutti_watches_resets;

#define TUTTI_HANDLES		XA_LIMIT(1, S32_MAX)
#define TUTTI_DOORBELL_SHIFT	20	/* a queue pair's doorbells in the file: handle << this */
#define TUTTI_DOORBELLS		0x1000	/* offset in BAR 0 */

/* client.c: files, events */
void tutti_client_alarm(struct tutti_client *client);
void tutti_client_post(struct tutti_client *client, struct tutti_event *event, u32 cause);
void tutti_client_settle(struct tutti_client *client);
void tutti_event_init(struct tutti_event *event, u32 kind, u32 handle);
void tutti_event_cancel(struct tutti_client *client, struct tutti_event *event);
long tutti_client_notify(struct tutti_client *client, void *argument);
long tutti_client_next_event(struct tutti_client *client, void *argument);

/* account.c: what users may hold */
struct tutti_user *tutti_user_get(kuid_t uid);
void tutti_user_put(struct tutti_user *user);
int tutti_user_charge(struct tutti_user *user, u64 pins, u64 bytes, u64 queues);
void tutti_user_uncharge(struct tutti_user *user, u64 pins, u64 bytes, u64 queues);
long tutti_user_usage(struct tutti_client *client, void *argument);

/* controller.c: drives */
int tutti_controllers_init(void);
void tutti_controllers_exit(void);
struct tutti_controller *tutti_controller_find(struct pci_dev *pdev);
struct tutti_controller *tutti_controller_begin(struct pci_dev *pdev, struct device *device,
						struct file *file,
						const struct tutti_p2p_attach *argument,
						u32 *refused);
void tutti_controller_put(struct tutti_controller *controller);
int tutti_controller_admin(struct tutti_controller *controller, struct nvme_command *command);
bool tutti_controller_present(struct tutti_controller *controller);
bool tutti_controller_is_live(struct tutti_controller *controller);
u32 tutti_controller_stock(struct tutti_controller *controller);
void tutti_controller_fence(struct tutti_controller *controller);

/* attachment.c: drives as clients use them */
long tutti_controller_attach(struct tutti_client *client, void *argument);
long tutti_controller_detach(struct tutti_client *client, void *argument);
void tutti_controller_detach_all(struct tutti_client *client);
struct tutti_controller *tutti_controller_get(struct tutti_client *client, u32 handle);
void tutti_attachment_lose(struct tutti_client *client, struct tutti_controller *controller);

/* admin_queue.c: where the driver keeps its admin queue */
struct request_queue *tutti_admin_queue_find(struct nvme_ctrl *nvme,
					     const struct tutti_p2p_attach *argument,
					     u32 *granted, u32 *refused);

/* queue.c: queue pairs */
long tutti_queue_create(struct tutti_client *client, void *argument);
long tutti_queue_delete(struct tutti_client *client, void *argument);
void tutti_queue_delete_all(struct tutti_client *client, struct tutti_controller *controller);
void tutti_queues_stop(struct tutti_controller *controller, struct tutti_client *client, u32 cause);
void tutti_queues_forget(struct tutti_controller *controller);
bool tutti_queues_live(struct tutti_controller *controller, struct tutti_client *client);

/* pin.c: memory */
long tutti_pin_create(struct tutti_client *client, void *argument);
long tutti_pin_runs(struct tutti_client *client, void *argument);
long tutti_pin_release(struct tutti_client *client, void *argument);
void tutti_pin_release_all(struct tutti_client *client);
void tutti_pin_unmap_all(struct tutti_client *client, struct tutti_controller *controller);
struct tutti_pinned *tutti_pin_for(struct tutti_pin *pin, struct tutti_controller *controller);

/* providers.c: kinds of memory */
int tutti_providers_init(void);
void tutti_providers_exit(void);
const struct tutti_provider *tutti_provider_hold(u32 id);
void tutti_provider_release(const struct tutti_provider *provider);
long tutti_provider_describe(struct tutti_client *client, void *argument);

extern const struct tutti_provider tutti_provider_host;
extern const struct tutti_provider tutti_provider_sim;
extern const struct tutti_provider tutti_provider_dmabuf;
extern const struct tutti_provider tutti_provider_nvidia;
extern const struct tutti_provider tutti_provider_metax;
extern const struct tutti_provider tutti_provider_musa;

#endif /* TUTTI_P2P_CORE_H */
