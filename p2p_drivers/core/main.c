// SPDX-License-Identifier: GPL-2.0-only
/* The device node, and the table of requests. */
#include <linux/miscdevice.h>
#include <linux/module.h>

#include "../compat.h"
#include "core.h"

DEFINE_MUTEX(tutti_lock);
LIST_HEAD(tutti_clients);

/* Only root until a udev rule says otherwise. */
static struct miscdevice tutti_node = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "tutti_p2p",
	.fops = &tutti_file_operations,
	.mode = 0600,
};

static int __init tutti_init(void)
{
	int error;

	error = tutti_providers_init();
	if (error)
		return error;
	error = tutti_controllers_init();
	if (error)
		goto out_providers;
	error = misc_register(&tutti_node);
	if (error)
		goto out_controllers;
	return 0;

out_controllers:
	tutti_controllers_exit();
out_providers:
	tutti_providers_exit();
	return error;
}

/* No client is left: an open file holds the module. */
static void __exit tutti_exit(void)
{
	misc_deregister(&tutti_node);
	tutti_controllers_exit();
	tutti_providers_exit();
}

module_init(tutti_init);
module_exit(tutti_exit);

TUTTI_IMPORT_NVME;
TUTTI_IMPORT_DMABUF;
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Peer memory and user-owned queues beside the nvme driver");
MODULE_VERSION("0.1.0");
