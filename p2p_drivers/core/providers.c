// SPDX-License-Identifier: GPL-2.0-only
/* The kinds of memory: those that are built in, and those that other modules register. */
#include <linux/module.h>
#include <linux/slab.h>

#include "core.h"

/* A vendor's file adds its line here. */
static const struct tutti_provider *const built_in[] = {
	&tutti_provider_host,
	&tutti_provider_sim,
	&tutti_provider_dmabuf,
	&tutti_provider_nvidia,
	&tutti_provider_metax,
	&tutti_provider_musa,
};

struct registered {
	struct list_head node;
	const struct tutti_provider *provider;
};

static DEFINE_MUTEX(providers_lock);
static LIST_HEAD(providers);

static struct registered *find(u32 id)
{
	struct registered *each;

	list_for_each_entry(each, &providers, node)
		if (each->provider->id == id)
			return each;
	return NULL;
}

static int add(const struct tutti_provider *provider)
{
	struct registered *entry;
	int error;

	if (!provider->name || strlen(provider->name) > 15 || !provider->get || !provider->map ||
	    !provider->unmap || !provider->put || provider->revokes != !!provider->forget)
		return -EINVAL;
	entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	if (!entry)
		return -ENOMEM;
	entry->provider = provider;
	mutex_lock(&providers_lock);
	error = find(provider->id) ? -EEXIST : 0;
	if (!error && provider->init)
		error = provider->init();
	if (!error)
		list_add_tail(&entry->node, &providers);
	mutex_unlock(&providers_lock);
	if (error)
		kfree(entry);
	return error;
}

static void drop(u32 id)
{
	struct registered *entry;

	mutex_lock(&providers_lock);
	entry = find(id);
	if (entry)
		list_del(&entry->node);
	mutex_unlock(&providers_lock);
	if (entry && entry->provider->exit)
		entry->provider->exit();
	kfree(entry);
}

/**
 * tutti_provider_register() - a module brings a kind of memory
 * @provider: valid until tutti_provider_unregister(); its id is TUTTI_P2P_PROVIDER_FOREIGN or
 *	more
 *
 * May sleep. Return: 0; -EINVAL for an incomplete table, -EEXIST when the id is taken, or what
 * its init() said.
 */
int tutti_provider_register(const struct tutti_provider *provider)
{
	if (provider->id < TUTTI_P2P_PROVIDER_FOREIGN || !provider->owner)
		return -EINVAL;
	return add(provider);
}
EXPORT_SYMBOL_GPL(tutti_provider_register);

/**
 * tutti_provider_unregister() - the module leaves
 * @provider: as registered
 *
 * From the module's exit function, which is not reached while memory is pinned. May sleep.
 */
void tutti_provider_unregister(const struct tutti_provider *provider)
{
	drop(provider->id);
}
EXPORT_SYMBOL_GPL(tutti_provider_unregister);

/**
 * tutti_provider_hold() - the provider of an id, and its module
 * @id: TUTTI_P2P_PROVIDER_*
 *
 * Return: the provider, to be given back by tutti_provider_release(); NULL when there is none.
 */
const struct tutti_provider *tutti_provider_hold(u32 id)
{
	const struct tutti_provider *provider = NULL;
	struct registered *entry;

	mutex_lock(&providers_lock);
	entry = find(id);
	if (entry && try_module_get(entry->provider->owner))
		provider = entry->provider;
	mutex_unlock(&providers_lock);
	return provider;
}

/**
 * tutti_provider_release() - undo tutti_provider_hold()
 * @provider: the provider
 */
void tutti_provider_release(const struct tutti_provider *provider)
{
	module_put(provider->owner);
}

/**
 * tutti_provider_describe() - TUTTI_P2P_PROVIDER
 * @client: who asks
 * @argument: &struct tutti_p2p_provider
 *
 * Return: 0; -EINVAL, -ENOENT.
 */
long tutti_provider_describe(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_provider *answer = argument;
	struct registered *entry;
	long error = -ENOENT;
	u32 index = 0;

	if (answer->reserved)
		return -EINVAL;
	mutex_lock(&providers_lock);
	list_for_each_entry(entry, &providers, node) {
		const struct tutti_provider *provider = entry->provider;

		if (index++ != answer->index)
			continue;
		answer->id = provider->id;
		answer->flags = provider->revokes ? TUTTI_P2P_PROVIDER_F_REVOKES : 0;
		if (!provider->available || provider->available())
			answer->flags |= TUTTI_P2P_PROVIDER_F_AVAILABLE;
		strscpy(answer->name, provider->name, sizeof(answer->name));
		error = 0;
		break;
	}
	mutex_unlock(&providers_lock);
	return error;
}

/**
 * tutti_providers_init() - register what is built in
 *
 * Return: 0, or the first error; nothing stays then.
 */
int tutti_providers_init(void)
{
	size_t i;
	int error;

	for (i = 0; i < ARRAY_SIZE(built_in); i++) {
		error = add(built_in[i]);
		if (error == -ENOMEM) {
			tutti_providers_exit();
			return error;
		}
		if (error)
			pr_warn("tutti_p2p: provider %s is left out: %d\n", built_in[i]->name,
				error);
	}
	return 0;
}

/**
 * tutti_providers_exit() - forget what is built in
 */
void tutti_providers_exit(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(built_in); i++)
		drop(built_in[i]->id);
}
