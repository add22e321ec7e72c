// SPDX-License-Identifier: GPL-2.0-only
/* Memory that a client pinned, as each controller sees it; and its revocation. */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "core.h"

/**
 * tutti_mapping_add() - report the next run of a mapping
 * @mapping: as given to map()
 * @bus: address that the function uses
 * @length: bytes
 *
 * From within &tutti_provider.map only. Grows by what is contiguous in virtual memory, never in
 * physical.
 * Return: 0; -EINVAL for an empty run or one that wraps, -ENOMEM.
 */
int tutti_mapping_add(struct tutti_mapping *mapping, u64 bus, u64 length)
{
	struct tutti_run *last = mapping->nr_runs ? &mapping->runs[mapping->nr_runs - 1] : NULL;
	struct tutti_run *grown;
	size_t capacity;
	u64 end;

	if (!length || check_add_overflow(bus, length - 1, &end) ||
	    check_add_overflow(mapping->bytes, length, &end))
		return -EINVAL;
	mapping->bytes = end;
	if (last && last->bus + last->length == bus) {
		last->length += length;
		return 0;
	}
	if (mapping->nr_runs == mapping->capacity) {
		capacity = mapping->capacity ? 2 * mapping->capacity : 16;
		grown = kvmalloc_array(capacity, sizeof(*grown), GFP_KERNEL | __GFP_NOWARN);
		if (!grown)
			return -ENOMEM;
		memcpy(grown, mapping->runs, mapping->nr_runs * sizeof(*grown));
		kvfree(mapping->runs);
		mapping->runs = grown;
		mapping->capacity = capacity;
	}
	mapping->runs[mapping->nr_runs++] = (struct tutti_run){ .bus = bus, .length = length };
	return 0;
}
EXPORT_SYMBOL_GPL(tutti_mapping_add);

/**
 * tutti_memory_revoke() - the owner takes a memory away
 * @memory: which
 *
 * provider.h says what may be held, and what follows from the answer. Every queue pair of the
 * client on a controller that could reach the memory is stopped: which of their commands name
 * it cannot be known.
 * Return: true when the memory is the provider's from here on.
 */
bool tutti_memory_revoke(struct tutti_memory *memory)
{
	struct tutti_pin *pin = container_of(memory, struct tutti_pin, memory);
	bool ours = atomic_cmpxchg(&memory->state, TUTTI_MEMORY_LIVE, TUTTI_MEMORY_REVOKED) ==
		    TUTTI_MEMORY_LIVE;
	u32 i;

	if (ours)
		tutti_client_alarm(pin->client);
	for (i = 0; i < pin->nr_pinned; i++)
		tutti_queues_stop(pin->pinned[i].controller, pin->client, TUTTI_P2P_CAUSE_REVOKED);
	if (ours) {
		tutti_client_post(pin->client, &pin->event, TUTTI_P2P_CAUSE_REVOKED);
		tutti_client_settle(pin->client);
	}
	return ours;
}
EXPORT_SYMBOL_GPL(tutti_memory_revoke);

/**
 * tutti_pin_for() - a pin as one controller sees it
 * @pin: the pin
 * @controller: which
 *
 * The client's lock is held, or the controller's. Return: NULL when it is not mapped for it.
 */
struct tutti_pinned *tutti_pin_for(struct tutti_pin *pin, struct tutti_controller *controller)
{
	u32 i;

	for (i = 0; i < pin->nr_pinned; i++)
		if (pin->pinned[i].controller == controller && !pin->pinned[i].ended)
			return &pin->pinned[i];
	return NULL;
}

static void unmap(struct tutti_pin *pin, struct tutti_pinned *pinned)
{
	if (pinned->ended)
		return;
	pinned->ended = true;
	pin->memory.provider->unmap(&pin->memory, &pinned->mapping);
}

/* What get() and map() made, or what the owner left of it. */
static void give_back(struct tutti_pin *pin)
{
	struct tutti_memory *memory = &pin->memory;
	u32 i;

	if (atomic_cmpxchg(&memory->state, TUTTI_MEMORY_LIVE, TUTTI_MEMORY_RELEASING) ==
	    TUTTI_MEMORY_REVOKED) {
		memory->provider->forget(memory);
		return;
	}
	for (i = 0; i < pin->nr_pinned; i++)
		unmap(pin, &pin->pinned[i]);
	memory->provider->put(memory);
}

/* tutti_lock is held, unless every controller is still attached. */
static void pin_free(struct tutti_pin *pin)
{
	u32 i;

	tutti_event_cancel(pin->client, &pin->event);
	for (i = 0; i < pin->nr_pinned; i++) {
		kvfree(pin->pinned[i].mapping.runs);
		tutti_controller_put(pin->pinned[i].controller);
	}
	tutti_user_uncharge(pin->client->user, 1, pin->memory.length, 0);
	tutti_provider_release(pin->memory.provider);
	kvfree(pin);
}

/*
 * Controllers by their handles, each once and none that is gone. Counts in pin->nr_pinned as it
 * takes references.
 */
static long name_controllers(struct tutti_pin *pin, u32 count, const u32 __user *handles)
{
	struct tutti_pinned *pinned;
	u32 handle, i;

	for (i = 0; i < count; i++) {
		pinned = &pin->pinned[i];
		if (get_user(handle, handles + i))
			return -EFAULT;
		pinned->controller = tutti_controller_get(pin->client, handle);
		if (!pinned->controller)
			return -ENOENT;
		pinned->ended = true;
		pinned->mapping.pdev = pinned->controller->pdev;
		list_add_tail(&pinned->mapping.node, &pin->memory.mappings);
		pin->nr_pinned++;
		if (READ_ONCE(pinned->controller->gone))
			return -ENODEV;
		while (pinned-- > pin->pinned)
			if (pinned->controller == pin->pinned[i].controller)
				return -EINVAL;
	}
	return 0;
}

static long pin_memory(struct tutti_pin *pin)
{
	struct tutti_memory *memory = &pin->memory;
	long error;
	u32 i;

	error = memory->provider->get(memory);
	if (error)
		return error;
	if (memory->page_size < 4096 || !is_power_of_2(memory->page_size))
		error = -EREMOTEIO;
	for (i = 0; i < pin->nr_pinned && !error; i++) {
		struct tutti_pinned *pinned = &pin->pinned[i];

		error = memory->provider->map(memory, &pinned->mapping);
		if (error)
			break;
		pinned->ended = false;
		/*
		 * An owner that reports less than was asked for would let a drive write
		 * elsewhere.
		 */
		if (pinned->mapping.bytes != memory->length)
			error = -EREMOTEIO;
	}
	if (error)
		give_back(pin);
	return error;
}

/**
 * tutti_pin_create() - TUTTI_P2P_PIN
 * @client: who asks; its lock is held
 * @argument: &struct tutti_p2p_pin
 *
 * Return: 0, or an error as the header says.
 */
long tutti_pin_create(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_pin *request = argument;
	const struct tutti_provider *provider;
	struct tutti_pin *pin;
	u32 handle;
	u64 end;
	long error;

	if (request->flags || request->reserved[0] || request->reserved[1] || !request->length ||
	    check_add_overflow(request->address, request->length, &end))
		return -EINVAL;
	/* None can be named twice, so there are at most as many as are attached. */
	if (!request->nr_controllers || request->nr_controllers > client->nr_controllers)
		return -EINVAL;
	provider = tutti_provider_hold(request->provider);
	if (!provider)
		return -EOPNOTSUPP;
	error = -EINVAL;
	if (provider->takes_fd ? request->fd < 0 : request->fd != -1)
		goto out_provider;
	error = tutti_user_charge(client->user, 1, request->length, 0);
	if (error)
		goto out_provider;
	error = -ENOMEM;
	pin = kvzalloc(struct_size(pin, pinned, request->nr_controllers), GFP_KERNEL);
	if (!pin)
		goto out_charge;

	pin->client = client;
	pin->memory.provider = provider;
	pin->memory.address = request->address;
	pin->memory.length = request->length;
	pin->memory.fd = request->fd;
	INIT_LIST_HEAD(&pin->memory.mappings);
	tutti_event_init(&pin->event, TUTTI_P2P_EVENT_PIN, 0);
	error = name_controllers(pin, request->nr_controllers,
				 u64_to_user_ptr(request->controllers));
	if (error)
		goto out_pin;
	error = xa_alloc_cyclic(&client->pins, &handle, NULL, TUTTI_HANDLES, &client->next_pin,
				GFP_KERNEL);
	if (error < 0)
		goto out_pin;
	pin->handle = handle;
	pin->event.handle = handle;
	error = pin_memory(pin);
	if (!error && atomic_read(&pin->memory.state) != TUTTI_MEMORY_LIVE) {
		give_back(pin);
		error = -ESTALE;
	}
	if (error) {
		xa_erase(&client->pins, handle);
		goto out_pin;
	}
	/* The place was reserved: no memory is needed any more. */
	xa_store(&client->pins, handle, pin, GFP_KERNEL);
	request->pin = handle;
	request->page_size = pin->memory.page_size;
	return 0;

out_pin:
	pin_free(pin);
	return error;
out_charge:
	tutti_user_uncharge(client->user, 1, request->length, 0);
out_provider:
	tutti_provider_release(provider);
	return error;
}

/**
 * tutti_pin_runs() - TUTTI_P2P_RUNS
 * @client: who asks; its lock is held
 * @argument: &struct tutti_p2p_runs
 *
 * Return: 0, or an error as the header says.
 */
long tutti_pin_runs(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_runs *request = argument;
	struct tutti_pin *pin = xa_load(&client->pins, request->pin);
	struct tutti_controller *controller = tutti_controller_get(client, request->controller);
	struct tutti_pinned *pinned = pin && controller ? tutti_pin_for(pin, controller) : NULL;
	size_t left;

	if (controller)
		tutti_controller_put(controller);
	if (!pinned)
		return -ENOENT;
	if (atomic_read(&pin->memory.state) != TUTTI_MEMORY_LIVE)
		return -ESTALE;
	BUILD_BUG_ON(sizeof(struct tutti_run) != sizeof(struct tutti_p2p_run));
	request->total = pinned->mapping.nr_runs;
	request->count = 0;
	if (request->first > request->total)
		return -EINVAL;
	left = request->total - request->first;
	request->count = min_t(size_t, left, request->capacity);
	if (request->count &&
	    copy_to_user(u64_to_user_ptr(request->runs), pinned->mapping.runs + request->first,
			 request->count * sizeof(struct tutti_run)))
		return -EFAULT;
	return 0;
}

/**
 * tutti_pin_release() - TUTTI_P2P_UNPIN
 * @client: who asks; its lock is not held
 * @argument: &struct tutti_p2p_unpin
 *
 * Return: 0; -EINVAL, -ENOENT, -EBUSY.
 */
long tutti_pin_release(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_unpin *request = argument;
	struct tutti_pin *pin;
	long error = 0;
	u32 i;

	if (request->flags & ~TUTTI_P2P_UNPIN_IDLE)
		return -EINVAL;
	mutex_lock(&tutti_lock);
	mutex_lock(&client->lock);
	pin = xa_load(&client->pins, request->pin);
	if (!pin)
		error = -ENOENT;
	else if (pin->rings)
		error = -EBUSY;
	for (i = 0; !error && !(request->flags & TUTTI_P2P_UNPIN_IDLE) && i < pin->nr_pinned; i++)
		if (!pin->pinned[i].ended && tutti_queues_live(pin->pinned[i].controller, client))
			error = -EBUSY;
	if (!error) {
		xa_erase(&client->pins, request->pin);
		give_back(pin);
		pin_free(pin);
	}
	mutex_unlock(&client->lock);
	mutex_unlock(&tutti_lock);
	return error;
}

/**
 * tutti_pin_release_all() - a client ends
 * @client: whose; tutti_lock and its lock are held, and it has no queue pair
 */
void tutti_pin_release_all(struct tutti_client *client)
{
	struct tutti_pin *pin;
	unsigned long handle;

	xa_for_each(&client->pins, handle, pin) {
		xa_erase(&client->pins, handle);
		give_back(pin);
		pin_free(pin);
	}
}

/**
 * tutti_pin_unmap_all() - a controller goes away, or a client leaves it
 * @client: whose; its lock is held, and it has no live queue pair there
 * @controller: which
 *
 * The pins stay, for other controllers and to be unpinned.
 */
void tutti_pin_unmap_all(struct tutti_client *client, struct tutti_controller *controller)
{
	struct tutti_pinned *pinned;
	struct tutti_pin *pin;
	unsigned long handle;

	xa_for_each(&client->pins, handle, pin) {
		pinned = tutti_pin_for(pin, controller);
		if (pinned)
			unmap(pin, pinned);
	}
}
