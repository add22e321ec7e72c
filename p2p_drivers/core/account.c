// SPDX-License-Identifier: GPL-2.0-only
/*
 * What each user holds, and how much that may be. Host memory is charged to RLIMIT_MEMLOCK
 * besides (host.c).
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "core.h"

static ulong max_pins = 65536;
module_param(max_pins, ulong, 0644);
MODULE_PARM_DESC(max_pins, "pins that a user may hold, 0 = no limit");

static ulong max_bytes;
module_param(max_bytes, ulong, 0644);
MODULE_PARM_DESC(max_bytes, "pinned bytes that a user may hold, 0 = no limit");

static ulong max_queues = 128;
module_param(max_queues, ulong, 0644);
MODULE_PARM_DESC(max_queues, "queue pairs that a user may hold, 0 = no limit");

static DEFINE_MUTEX(users_lock);
static LIST_HEAD(users);

/**
 * tutti_user_get() - the account of a user
 * @uid: who
 *
 * Return: the account, to be given back by tutti_user_put(); NULL without memory.
 */
struct tutti_user *tutti_user_get(kuid_t uid)
{
	struct tutti_user *user;

	mutex_lock(&users_lock);
	list_for_each_entry(user, &users, node) {
		if (uid_eq(user->uid, uid)) {
			user->clients++;
			goto out;
		}
	}
	user = kzalloc(sizeof(*user), GFP_KERNEL);
	if (user) {
		user->uid = uid;
		user->clients = 1;
		list_add(&user->node, &users);
	}
out:
	mutex_unlock(&users_lock);
	return user;
}

/**
 * tutti_user_put() - a client of the user has ended
 * @user: the account
 */
void tutti_user_put(struct tutti_user *user)
{
	mutex_lock(&users_lock);
	if (!--user->clients) {
		WARN_ON(user->pins || user->bytes || user->queues);
		list_del(&user->node);
		kfree(user);
	}
	mutex_unlock(&users_lock);
}

static bool exceeds(u64 held, u64 more, u64 limit)
{
	return limit && (more > limit || held > limit - more);
}

/**
 * tutti_user_charge() - take from what a user may hold
 * @user: the account
 * @pins: how many more
 * @bytes: how many more
 * @queues: how many more
 *
 * CAP_SYS_RESOURCE goes past the limits, as it does elsewhere in the kernel. Return: 0, or -EDQUOT.
 */
int tutti_user_charge(struct tutti_user *user, u64 pins, u64 bytes, u64 queues)
{
	int error = 0;

	mutex_lock(&users_lock);
	if ((exceeds(user->pins, pins, max_pins) || exceeds(user->bytes, bytes, max_bytes) ||
	     exceeds(user->queues, queues, max_queues)) &&
	    !capable(CAP_SYS_RESOURCE)) {
		error = -EDQUOT;
	} else {
		user->pins += pins;
		user->bytes += bytes;
		user->queues += queues;
	}
	mutex_unlock(&users_lock);
	return error;
}

/**
 * tutti_user_uncharge() - give back
 * @user: the account
 * @pins: how many fewer
 * @bytes: how many fewer
 * @queues: how many fewer
 */
void tutti_user_uncharge(struct tutti_user *user, u64 pins, u64 bytes, u64 queues)
{
	mutex_lock(&users_lock);
	user->pins -= pins;
	user->bytes -= bytes;
	user->queues -= queues;
	mutex_unlock(&users_lock);
}

/**
 * tutti_user_usage() - TUTTI_P2P_USAGE
 * @client: who asks
 * @argument: &struct tutti_p2p_usage
 *
 * Return: 0, or -EINVAL.
 */
long tutti_user_usage(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_usage *usage = argument;

	if (usage->reserved[0] || usage->reserved[1])
		return -EINVAL;
	mutex_lock(&users_lock);
	usage->pins = client->user->pins;
	usage->bytes = client->user->bytes;
	usage->queues = client->user->queues;
	mutex_unlock(&users_lock);
	usage->pins_limit = max_pins;
	usage->bytes_limit = max_bytes;
	usage->queues_limit = max_queues;
	return 0;
}
