// SPDX-License-Identifier: GPL-2.0-only
/* Queue pairs on a controller that the kernel's driver keeps: made, stopped, lost. */
#include <linux/nvme.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "core.h"

#define SQE_BYTES 64
#define CQE_BYTES 16

/* ---- commands ---- */

static int create_cq(struct tutti_controller *controller, u16 qid, u64 bus, u32 entries)
{
	struct nvme_command command = {};

	command.create_cq.opcode = nvme_admin_create_cq;
	command.create_cq.prp1 = cpu_to_le64(bus);
	command.create_cq.cqid = cpu_to_le16(qid);
	command.create_cq.qsize = cpu_to_le16(entries - 1);
	command.create_cq.cq_flags = cpu_to_le16(NVME_QUEUE_PHYS_CONTIG);
	return tutti_controller_admin(controller, &command);
}

static int create_sq(struct tutti_controller *controller, u16 qid, u64 bus, u32 entries)
{
	struct nvme_command command = {};

	command.create_sq.opcode = nvme_admin_create_sq;
	command.create_sq.prp1 = cpu_to_le64(bus);
	command.create_sq.sqid = cpu_to_le16(qid);
	command.create_sq.qsize = cpu_to_le16(entries - 1);
	command.create_sq.sq_flags = cpu_to_le16(NVME_QUEUE_PHYS_CONTIG);
	command.create_sq.cqid = cpu_to_le16(qid);
	return tutti_controller_admin(controller, &command);
}

static int delete_queue(struct tutti_controller *controller, u8 opcode, u16 qid)
{
	struct nvme_command command = {};

	command.delete_queue.opcode = opcode;
	command.delete_queue.qid = cpu_to_le16(qid);
	return tutti_controller_admin(controller, &command);
}

/* ---- the end of a queue pair ---- */

/* Whether the controller still has it, as far as this side can know. */
static bool on_controller(struct tutti_queue *queue)
{
	return atomic64_read(&queue->controller->resets) == queue->resets &&
	       tutti_controller_present(queue->controller);
}

/*
 * Make the controller let go: after a successful Delete I/O Submission Queue none of its
 * commands is in flight. A queue that is not known was forgotten by a reset. Anything else,
 * while no reset came in between: force.
 */
static void let_go(struct tutti_queue *queue)
{
	struct tutti_controller *controller = queue->controller;
	int sq, cq;

	if (on_controller(queue)) {
		sq = delete_queue(controller, nvme_admin_delete_sq, queue->qid);
		cq = delete_queue(controller, nvme_admin_delete_cq, queue->qid);
		if (((sq && sq != NVME_SC_QID_INVALID) ||
		     (cq && cq != NVME_SC_QID_INVALID && cq != NVME_SC_CQ_INVALID)) &&
		    on_controller(queue))
			tutti_controller_fence(controller);
	}
	__clear_bit(queue->qid, controller->qids);
	controller->nr_qids--;
	queue->state = TUTTI_QUEUE_STOPPED;
}

/* No doorbell of it may be mapped from here on; those that are go away soon after. */
static void hide(struct tutti_queue *queue)
{
	mutex_lock(&queue->client->map_lock);
	queue->state = TUTTI_QUEUE_STOPPING;
	mutex_unlock(&queue->client->map_lock);
	queue_work(system_unbound_wq, &queue->client->zap);
}

static void stop_some(struct tutti_controller *controller, struct tutti_client *client,
		      bool only_lost, u32 cause)
{
	struct tutti_queue *queue;

	mutex_lock(&controller->lock);
	list_for_each_entry(queue, &controller->queues, node) {
		if (queue->state != TUTTI_QUEUE_LIVE || (client && queue->client != client))
			continue;
		if (only_lost && queue->resets == atomic64_read(&controller->resets))
			continue;
		tutti_client_alarm(queue->client);
		hide(queue);
	}
	list_for_each_entry(queue, &controller->queues, node) {
		if (queue->state != TUTTI_QUEUE_STOPPING)
			continue;
		let_go(queue);
		tutti_client_post(queue->client, &queue->event, cause);
		tutti_client_settle(queue->client);
	}
	mutex_unlock(&controller->lock);
}

/**
 * tutti_queues_stop() - the controller lets go of queue pairs, whether their clients wish or not
 * @controller: where
 * @client: whose, or NULL for all
 * @cause: TUTTI_P2P_CAUSE_*
 *
 * Sleeps; allocates nothing; may be called with locks of a memory's owner held. On return no
 * command of them is in flight.
 */
void tutti_queues_stop(struct tutti_controller *controller, struct tutti_client *client, u32 cause)
{
	stop_some(controller, client, false, cause);
}

/**
 * tutti_queues_forget() - the controller was reset
 * @controller: which
 */
void tutti_queues_forget(struct tutti_controller *controller)
{
	stop_some(controller, NULL, true, TUTTI_P2P_CAUSE_RESET);
}

/**
 * tutti_queues_live() - whether a client has a queue pair there
 * @controller: where
 * @client: whose
 *
 * Return: true also for one that a reset took and nobody noticed yet.
 */
bool tutti_queues_live(struct tutti_controller *controller, struct tutti_client *client)
{
	struct tutti_queue *queue;
	bool live = false;

	mutex_lock(&controller->lock);
	list_for_each_entry(queue, &controller->queues, node)
		live |= queue->client == client && queue->state == TUTTI_QUEUE_LIVE;
	mutex_unlock(&controller->lock);
	return live;
}

static void queue_free(struct tutti_queue *queue)
{
	struct tutti_client *client = queue->client;

	mutex_lock(&queue->controller->lock);
	if (queue->state == TUTTI_QUEUE_LIVE) {
		hide(queue);
		let_go(queue);
	}
	list_del(&queue->node);
	mutex_unlock(&queue->controller->lock);

	mutex_lock(&client->map_lock);
	xa_erase(&client->queues, queue->handle);
	mutex_unlock(&client->map_lock);
	tutti_event_cancel(client, &queue->event);
	queue->sq_pin->rings--;
	queue->cq_pin->rings--;
	tutti_user_uncharge(client->user, 0, 0, 1);
	kfree(queue);
}

/**
 * tutti_queue_delete() - TUTTI_P2P_QUEUE_DELETE
 * @client: who asks; its lock is held
 * @argument: &struct tutti_p2p_queue_delete
 *
 * Return: 0; -EINVAL, -ENOENT.
 */
long tutti_queue_delete(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_queue_delete *request = argument;
	struct tutti_queue *queue = xa_load(&client->queues, request->queue);

	if (request->flags)
		return -EINVAL;
	if (!queue)
		return -ENOENT;
	queue_free(queue);
	return 0;
}

/**
 * tutti_queue_delete_all() - a client ends, or leaves a controller
 * @client: whose; its lock is held
 * @controller: where, or NULL for all
 */
void tutti_queue_delete_all(struct tutti_client *client, struct tutti_controller *controller)
{
	struct tutti_queue *queue;
	unsigned long handle;

	xa_for_each(&client->queues, handle, queue)
		if (!controller || queue->controller == controller)
			queue_free(queue);
}

/* ---- the beginning ---- */

/* Where a ring lies on the bus: in one run, at a multiple of the controller's page size. */
static long place_ring(struct tutti_pin *pin, struct tutti_controller *controller, u64 offset,
		       u64 bytes, u64 *bus)
{
	struct tutti_pinned *pinned = tutti_pin_for(pin, controller);
	u64 end;
	size_t i;

	if (atomic_read(&pin->memory.state) != TUTTI_MEMORY_LIVE)
		return -ESTALE;
	if (!pinned || check_add_overflow(offset, bytes, &end) || end > pin->memory.length)
		return -EINVAL;
	for (i = 0; i < pinned->mapping.nr_runs; i++) {
		const struct tutti_run *run = &pinned->mapping.runs[i];

		if (offset < run->length) {
			*bus = run->bus + offset;
			if (bytes > run->length - offset ||
			    !IS_ALIGNED(*bus, controller->page_size))
				return -EOPNOTSUPP;
			return 0;
		}
		offset -= run->length;
	}
	return -EINVAL;
}

/* Under the controller's lock. Ids are taken from the top: the driver uses those at the bottom. */
static long put_on_controller(struct tutti_queue *queue, struct tutti_p2p_queue_create *request,
			      u64 sq_bus, u64 cq_bus, u32 stock)
{
	struct tutti_controller *controller = queue->controller;
	int status = NVME_SC_QID_INVALID;
	bool reset;
	u32 qid;

	queue->resets = atomic64_read(&controller->resets);
	for (qid = controller->granted; qid > stock && status == NVME_SC_QID_INVALID; qid--) {
		if (test_bit(qid, controller->qids))
			continue;
		queue->qid = qid;
		status = create_cq(controller, qid, cq_bus, request->cq_entries);
	}
	if (status == NVME_SC_QID_INVALID) {
		request->refused = TUTTI_P2P_REFUSED_NO_SPARE;
		return -ENOSPC;
	}
	if (!status) {
		/* From here on let_go() knows what to undo. */
		__set_bit(queue->qid, controller->qids);
		controller->nr_qids++;
		status = create_sq(controller, queue->qid, sq_bus, request->sq_entries);
	}
	/*
	 * A command may have waited for a reset to end. Whether it came before or after:
	 * nothing of it is to stay.
	 */
	reset = atomic64_read(&controller->resets) != queue->resets;
	queue->resets = atomic64_read(&controller->resets);
	if ((status || reset) && test_bit(queue->qid, controller->qids))
		let_go(queue);
	if (reset)
		return -EAGAIN;
	if (status > 0) {
		request->refused = TUTTI_P2P_REFUSED_NVME;
		request->nvme_status = status;
		return -EREMOTEIO;
	}
	return status;
}

static long create(struct tutti_queue *queue, struct tutti_p2p_queue_create *request)
{
	struct tutti_controller *controller = queue->controller;
	struct tutti_client *client = queue->client;
	u64 sq_bus, cq_bus;
	u32 stock;
	long error;

	if (request->sq_entries < 2 || request->sq_entries > controller->max_entries ||
	    request->cq_entries < 2 || request->cq_entries > controller->max_entries)
		return -EINVAL;
	if (!tutti_controller_is_live(controller)) {
		request->refused = TUTTI_P2P_REFUSED_STATE;
		return controller->gone ? -ENODEV : -EAGAIN;
	}
	stock = tutti_controller_stock(controller);

	mutex_lock(&controller->lock);
	error = controller->gone ? -ENODEV : 0;
	/* Asked under this lock: a revocation comes after it, and then finds the queue pair. */
	if (!error)
		error = place_ring(queue->sq_pin, controller, request->sq_offset,
				   (u64)request->sq_entries * SQE_BYTES, &sq_bus);
	if (!error)
		error = place_ring(queue->cq_pin, controller, request->cq_offset,
				   (u64)request->cq_entries * CQE_BYTES, &cq_bus);
	if (error == -EOPNOTSUPP)
		request->refused = TUTTI_P2P_REFUSED_RING;
	if (!error)
		error = put_on_controller(queue, request, sq_bus, cq_bus, stock);
	if (!error) {
		mutex_lock(&client->map_lock);
		queue->state = TUTTI_QUEUE_LIVE;
		mutex_unlock(&client->map_lock);
	}
	mutex_unlock(&controller->lock);
	return error;
}

/**
 * tutti_queue_create() - TUTTI_P2P_QUEUE_CREATE
 * @client: who asks; its lock is held
 * @argument: &struct tutti_p2p_queue_create
 *
 * Return: 0, or an error as the header says.
 */
long tutti_queue_create(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_queue_create *request = argument;
	struct tutti_controller *controller;
	struct tutti_queue *queue;
	u32 sq_doorbell, handle;
	long error;

	if (request->flags || request->reserved0 || request->reserved[0] || request->reserved[1])
		return -EINVAL;
	request->refused = TUTTI_P2P_REFUSED_NOTHING;
	request->nvme_status = 0;
	queue = kzalloc(sizeof(*queue), GFP_KERNEL);
	if (!queue)
		return -ENOMEM;
	queue->client = client;
	queue->sq_pin = xa_load(&client->pins, request->sq_pin);
	queue->cq_pin = xa_load(&client->pins, request->cq_pin);
	controller = tutti_controller_get(client, request->controller);
	if (!controller || !queue->sq_pin || !queue->cq_pin) {
		error = -ENOENT;
		goto out_free;
	}
	queue->controller = controller;
	error = tutti_user_charge(client->user, 0, 0, 1);
	if (error)
		goto out_free;
	error = xa_alloc_cyclic(&client->queues, &handle, queue, TUTTI_HANDLES, &client->next_queue,
				GFP_KERNEL);
	if (error < 0)
		goto out_charge;
	queue->handle = handle;
	tutti_event_init(&queue->event, TUTTI_P2P_EVENT_QUEUE, handle);
	queue->sq_pin->rings++;
	queue->cq_pin->rings++;
	mutex_lock(&controller->lock);
	list_add_tail(&queue->node, &controller->queues);
	mutex_unlock(&controller->lock);

	error = create(queue, request);
	if (error) {
		queue_free(queue);
	} else {
		sq_doorbell = TUTTI_DOORBELLS + 2 * queue->qid * controller->stride;
		request->queue = handle;
		request->qid = queue->qid;
		request->doorbell_offset = (u64)handle << TUTTI_DOORBELL_SHIFT;
		request->sq_doorbell = offset_in_page(sq_doorbell);
		request->cq_doorbell = request->sq_doorbell + controller->stride;
		request->doorbell_bytes = PAGE_ALIGN(request->cq_doorbell + 4);
	}
	/* Never the last reference: the attachment has one. */
	tutti_controller_put(controller);
	return error;

out_charge:
	tutti_user_uncharge(client->user, 0, 0, 1);
out_free:
	if (controller)
		tutti_controller_put(controller);
	kfree(queue);
	return error;
}
