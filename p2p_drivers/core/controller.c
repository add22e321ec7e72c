// SPDX-License-Identifier: GPL-2.0-only
/* A drive that the kernel's nvme driver keeps: found, checked, watched. */
#include <linux/bitmap.h>
#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/nvme.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "core.h"

/* Exported by nvme_core, declared in its private header only. */
int nvme_submit_sync_cmd(struct request_queue *queue, struct nvme_command *command, void *buffer,
			 unsigned int length);
int nvme_reset_ctrl(struct nvme_ctrl *nvme);

static LIST_HEAD(controllers);

/* ---- what the driver says ---- */

/* The text of an attribute of the class device, as sysfs would show it. */
static bool attribute(struct device *device, const char *name, char *page)
{
	const struct attribute_group **group;
	struct attribute **each;

	for (group = device->groups; group && *group; group++) {
		for (each = (*group)->attrs; each && *each; each++) {
			struct device_attribute *found =
				container_of(*each, struct device_attribute, attr);

			if (!strcmp((*each)->name, name) && found->show)
				return found->show(device, found, page) > 0;
		}
	}
	return false;
}

/**
 * tutti_controller_is_live() - whether the driver says so
 * @controller: the controller
 *
 * May sleep. Return: false also while it is being reset.
 */
bool tutti_controller_is_live(struct tutti_controller *controller)
{
	char *page = (char *)__get_free_page(GFP_KERNEL | __GFP_ZERO);
	bool live = page && attribute(controller->device, "state", page) &&
		    sysfs_streq(page, "live");

	free_page((unsigned long)page);
	return live;
}

/**
 * tutti_controller_stock() - how many I/O queue pairs the driver uses itself
 * @controller: the controller
 *
 * May sleep. Return: the number, or 0 when this kernel does not say.
 */
u32 tutti_controller_stock(struct tutti_controller *controller)
{
	char *page = (char *)__get_free_page(GFP_KERNEL | __GFP_ZERO);
	u32 count = 0;

	/* The admin queue is counted, too. */
	if (page && attribute(controller->device, "queue_count", page) &&
	    !kstrtou32(strim(page), 10, &count) && count)
		count--;
	free_page((unsigned long)page);
	return count;
}

/**
 * tutti_controller_present() - whether the drive still answers on the bus
 * @controller: the controller
 *
 * Return: false when it was pulled out; then it reads and writes nothing either.
 */
bool tutti_controller_present(struct tutti_controller *controller)
{
	return pci_device_is_present(controller->pdev) &&
	       readl(controller->registers + NVME_REG_CSTS) != ~0U;
}

/**
 * tutti_controller_admin() - send an admin command beside the driver's own
 * @controller: the controller, its lock held
 * @command: without data
 *
 * Sleeps until it is answered, at most for the driver's admin timeout. Allocates nothing.
 * Return: 0, a status field of NVMe without its flags, or a negative error.
 */
int tutti_controller_admin(struct tutti_controller *controller, struct nvme_command *command)
{
	int status = nvme_submit_sync_cmd(controller->admin_q, command, NULL, 0);

	return status > 0 ? status & 0x7ff : status;
}

/**
 * tutti_controller_fence() - stop a drive that does not answer
 * @controller: the controller, its lock held
 *
 * The last resort before memory is given away: the function may not start a transfer any more.
 * The driver's own commands stop with it; its reset, which is asked for, makes it master of the
 * bus again, without our queue pairs.
 */
void tutti_controller_fence(struct tutti_controller *controller)
{
	dev_err(controller->device, "tutti_p2p: the drive does not let go of a queue pair; its "
				    "transfers are stopped\n");
	pci_clear_master(controller->pdev);
	nvme_reset_ctrl(controller->nvme);
}

/* ---- resets ---- */

/*
 * A controller that was switched off has forgotten our queue pairs, and nobody tells. The
 * driver's two exported functions for it are called from its other module, so that they are
 * never inlined.
 */
static int note_reset(struct kprobe *probe, struct pt_regs *registers)
{
	struct nvme_ctrl *nvme = (struct nvme_ctrl *)regs_get_kernel_argument(registers, 0);
	struct tutti_controller *controller;

	rcu_read_lock();
	list_for_each_entry_rcu(controller, &controllers, node) {
		if (controller->nvme == nvme) {
			atomic64_inc(&controller->resets);
			queue_work(system_highpri_wq, &controller->reset_work);
		}
	}
	rcu_read_unlock();
	return 0;
}

static struct kprobe reset_probes[] = {
	{ .symbol_name = "nvme_disable_ctrl", .pre_handler = note_reset },
	{ .symbol_name = "nvme_enable_ctrl", .pre_handler = note_reset },
};

/* Whether the kernel could set the probes: else no drive is attached. */
bool tutti_watches_resets;

static void reset_noted(struct work_struct *work)
{
	tutti_queues_forget(container_of(work, struct tutti_controller, reset_work));
}

/* ---- a controller begins and ends ---- */

/* Whether the drive takes doorbells from the page that is mapped. */
static u32 check_identity(struct tutti_controller *controller)
{
	struct nvme_command command = {};
	struct nvme_id_ctrl *identity = kzalloc(sizeof(*identity), GFP_KERNEL);
	u32 refused = TUTTI_P2P_REFUSED_NOTHING;

	command.identify.opcode = nvme_admin_identify;
	command.identify.cns = NVME_ID_CNS_CTRL;
	if (!identity ||
	    nvme_submit_sync_cmd(controller->admin_q, &command, identity, sizeof(*identity)))
		refused = TUTTI_P2P_REFUSED_STATE;
	else if (le16_to_cpu(identity->oacs) & BIT(8))
		refused = TUTTI_P2P_REFUSED_SHADOW;
	kfree(identity);
	return refused;
}

static u32 check_registers(struct tutti_controller *controller)
{
	u32 cc = readl(controller->registers + NVME_REG_CC);

	if (readl(controller->registers + NVME_REG_CSTS) == ~0U || !(cc & NVME_CC_ENABLE))
		return TUTTI_P2P_REFUSED_STATE;
	if ((cc >> 16 & 0xf) != 6 || (cc >> 20 & 0xf) != 4)
		return TUTTI_P2P_REFUSED_ENTRY_SIZE;
	controller->page_size = 4096U << (cc >> 7 & 0xf);
	controller->cap = lo_hi_readq(controller->registers + NVME_REG_CAP);
	controller->max_entries = (controller->cap & 0xffff) + 1;
	controller->stride = 4U << (controller->cap >> 32 & 0xf);
	return TUTTI_P2P_REFUSED_NOTHING;
}

static void controller_free(struct tutti_controller *controller)
{
	bitmap_free(controller->qids);
	if (controller->registers)
		iounmap(controller->registers);
	if (controller->file)
		fput(controller->file);
	if (controller->device)
		put_device(controller->device);
	pci_dev_put(controller->pdev);
	kfree(controller);
}

static void controller_last(struct kref *ref)
{
	struct tutti_controller *controller = container_of(ref, struct tutti_controller, ref);

	lockdep_assert_held(&tutti_lock);
	list_del_rcu(&controller->node);
	synchronize_rcu();
	cancel_work_sync(&controller->reset_work);
	WARN_ON(!list_empty(&controller->queues));
	controller_free(controller);
}

/**
 * tutti_controller_put() - give a reference back
 * @controller: the controller
 *
 * It may be the last: tutti_lock is held.
 */
void tutti_controller_put(struct tutti_controller *controller)
{
	kref_put(&controller->ref, controller_last);
}

/**
 * tutti_controller_begin() - look at a drive that nobody has attached yet
 * @pdev: its function; its lock and tutti_lock are held
 * @device: the driver's class device of it
 * @file: an open file of that device, which is kept open
 * @argument: where the driver keeps its admin queue, if the caller knows
 * @refused: TUTTI_P2P_REFUSED_* on failure
 *
 * Return: the one reference to it, or an error.
 */
struct tutti_controller *tutti_controller_begin(struct pci_dev *pdev, struct device *device,
						struct file *file,
						const struct tutti_p2p_attach *argument,
						u32 *refused)
{
	struct tutti_controller *controller = kzalloc(sizeof(*controller), GFP_KERNEL);

	if (!controller)
		return ERR_PTR(-ENOMEM);
	kref_init(&controller->ref);
	INIT_LIST_HEAD(&controller->queues);
	INIT_WORK(&controller->reset_work, reset_noted);
	mutex_init(&controller->lock);
	controller->pdev = pci_dev_get(pdev);
	controller->device = get_device(device);
	controller->file = get_file(file);
	controller->nvme = dev_get_drvdata(device);

	controller->registers = ioremap(pci_resource_start(pdev, 0), TUTTI_DOORBELLS);
	if (!controller->registers)
		goto out_memory;
	*refused = check_registers(controller);
	if (*refused)
		goto out_refused;
	controller->admin_q =
		tutti_admin_queue_find(controller->nvme, argument, &controller->granted, refused);
	if (!controller->admin_q)
		goto out_refused;
	*refused = check_identity(controller);
	if (*refused)
		goto out_refused;
	controller->qids = bitmap_zalloc(controller->granted + 1, GFP_KERNEL);
	if (!controller->qids)
		goto out_memory;
	list_add_rcu(&controller->node, &controllers);
	return controller;

out_memory:
	controller_free(controller);
	return ERR_PTR(-ENOMEM);
out_refused:
	controller_free(controller);
	return ERR_PTR(-EOPNOTSUPP);
}

/**
 * tutti_controller_find() - the drive at a function, where somebody has it attached
 * @pdev: the function; tutti_lock is held
 *
 * Return: no reference; NULL when nobody has, or when it is going away.
 */
struct tutti_controller *tutti_controller_find(struct pci_dev *pdev)
{
	struct tutti_controller *controller;

	list_for_each_entry(controller, &controllers, node)
		if (controller->pdev == pdev && !controller->gone)
			return controller;
	return NULL;
}

/* ---- the driver leaves ---- */

/* The function's lock is held, and the admin queue still works. */
static int bus_event(struct notifier_block *block, unsigned long event, void *data)
{
	struct tutti_controller *controller;
	struct tutti_client *client;

	if (event != BUS_NOTIFY_UNBIND_DRIVER)
		return NOTIFY_DONE;
	mutex_lock(&tutti_lock);
	controller = tutti_controller_find(to_pci_dev(data));
	if (controller) {
		mutex_lock(&controller->lock);
		controller->gone = true;
		mutex_unlock(&controller->lock);
		tutti_queues_stop(controller, NULL, TUTTI_P2P_CAUSE_REMOVED);
		list_for_each_entry(client, &tutti_clients, node)
			tutti_attachment_lose(client, controller);
	}
	mutex_unlock(&tutti_lock);
	return NOTIFY_OK;
}

static struct notifier_block bus_notifier = { .notifier_call = bus_event };

/**
 * tutti_controllers_init() - watch the bus and the driver
 *
 * Without probes in the kernel the module loads, and refuses to attach. Return: 0, or an error.
 */
int tutti_controllers_init(void)
{
	struct kprobe *probes[] = { &reset_probes[0], &reset_probes[1] };
	int error = register_kprobes(probes, ARRAY_SIZE(probes));

	tutti_watches_resets = !error;
	if (error)
		pr_warn("tutti_p2p: resets of drives cannot be watched (%d): no drive will be "
			"attached\n",
			error);
	error = bus_register_notifier(&pci_bus_type, &bus_notifier);
	if (error && tutti_watches_resets)
		unregister_kprobes(probes, ARRAY_SIZE(probes));
	return error;
}

/**
 * tutti_controllers_exit() - stop watching
 */
void tutti_controllers_exit(void)
{
	struct kprobe *probes[] = { &reset_probes[0], &reset_probes[1] };

	bus_unregister_notifier(&pci_bus_type, &bus_notifier);
	if (tutti_watches_resets)
		unregister_kprobes(probes, ARRAY_SIZE(probes));
}
