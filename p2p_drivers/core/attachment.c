// SPDX-License-Identifier: GPL-2.0-only
/* A client's use of a drive: attached, named by a handle, left, lost. */
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/nvme.h>
#include <linux/slab.h>

#include "core.h"

static bool require_admin = true;
module_param(require_admin, bool, 0644);
MODULE_PARM_DESC(
	require_admin,
	"attaching a drive needs CAP_SYS_ADMIN (default); else a writable /dev/nvmeN is enough");

/* Exported by nvme_core, declared in its private header only. */
struct nvme_ctrl *nvme_ctrl_from_file(struct file *file);

static int is_nvme(struct device *device, void *found)
{
	if (!device->class || !device->class->name || strcmp(device->class->name, "nvme"))
		return 0;
	*(struct device **)found = get_device(device);
	return 1;
}

/* Under the lock of the function, tutti_lock and the client's. */
static long attach(struct tutti_client *client, struct pci_dev *pdev, struct file *file,
		   struct tutti_p2p_attach *argument)
{
	struct tutti_attachment *attachment, *other;
	struct tutti_controller *controller;
	struct device *device = NULL;
	unsigned long index;
	u32 handle;
	long error;

	if (client->ended)
		return -ESHUTDOWN;
	argument->refused = TUTTI_P2P_REFUSED_DRIVER;
	if (pdev->class != PCI_CLASS_STORAGE_EXPRESS || !pdev->driver ||
	    strcmp(pdev->driver->name, "nvme"))
		return -EOPNOTSUPP;
	device_for_each_child(&pdev->dev, &device, is_nvme);
	if (!device)
		return -EOPNOTSUPP;
	argument->refused = TUTTI_P2P_REFUSED_FD;
	error = -EOPNOTSUPP;
	if (!(file->f_mode & FMODE_WRITE) || file_inode(file)->i_rdev != device->devt ||
	    nvme_ctrl_from_file(file) != dev_get_drvdata(device))
		goto out_device;

	controller = tutti_controller_find(pdev);
	if (controller) {
		argument->refused = TUTTI_P2P_REFUSED_NOTHING;
		error = -EALREADY;
		xa_for_each(&client->controllers, index, other)
			if (other->controller == controller)
				goto out_device;
		kref_get(&controller->ref);
	} else {
		controller = tutti_controller_begin(pdev, device, file, argument,
						    &argument->refused);
		error = PTR_ERR_OR_ZERO(controller);
		if (error)
			goto out_device;
	}

	error = -ENOMEM;
	attachment = kzalloc(sizeof(*attachment), GFP_KERNEL);
	if (!attachment)
		goto out_controller;
	attachment->controller = controller;
	error = xa_alloc_cyclic(&client->controllers, &handle, attachment, TUTTI_HANDLES,
				&client->next_controller, GFP_KERNEL);
	if (error < 0)
		goto out_attachment;
	client->nr_controllers++;
	tutti_event_init(&attachment->event, TUTTI_P2P_EVENT_CONTROLLER, handle);

	argument->controller = handle;
	argument->cap = controller->cap;
	argument->version = readl(controller->registers + NVME_REG_VS);
	argument->page_size = controller->page_size;
	argument->doorbell_stride = controller->stride;
	argument->max_entries = controller->max_entries;
	argument->queues_granted = controller->granted;
	argument->queues_stock = tutti_controller_stock(controller);
	mutex_lock(&controller->lock);
	argument->queues_ours = controller->nr_qids;
	mutex_unlock(&controller->lock);
	argument->queues_spare =
		controller->granted -
		min(controller->granted, argument->queues_stock + argument->queues_ours);
	strscpy(argument->name, dev_name(device), sizeof(argument->name));
	put_device(device);
	return 0;

out_attachment:
	kfree(attachment);
out_controller:
	tutti_controller_put(controller);
out_device:
	put_device(device);
	return error;
}

/**
 * tutti_controller_attach() - TUTTI_P2P_ATTACH
 * @client: who asks; its lock is not held
 * @argument: &struct tutti_p2p_attach
 *
 * Return: 0, or an error as the header says.
 */
long tutti_controller_attach(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_attach *attachment = argument;
	struct pci_dev *pdev;
	struct file *file;
	long error;

	if (attachment->flags || attachment->reserved0 ||
	    memchr_inv(attachment->reserved, 0, sizeof(attachment->reserved)))
		return -EINVAL;
	attachment->refused = TUTTI_P2P_REFUSED_KERNEL;
	if (!tutti_watches_resets)
		return -EOPNOTSUPP;
	attachment->refused = TUTTI_P2P_REFUSED_NOTHING;
	if (require_admin && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	pdev = pci_get_domain_bus_and_slot(attachment->domain, attachment->bus, attachment->devfn);
	if (!pdev)
		return -ENODEV;
	file = fget(attachment->nvme_fd);
	if (!file) {
		pci_dev_put(pdev);
		return -EBADF;
	}
	device_lock(&pdev->dev);
	mutex_lock(&tutti_lock);
	mutex_lock(&client->lock);
	error = attach(client, pdev, file, attachment);
	mutex_unlock(&client->lock);
	mutex_unlock(&tutti_lock);
	device_unlock(&pdev->dev);
	fput(file);
	pci_dev_put(pdev);
	return error;
}

/* Under tutti_lock and the client's. */
static void detach(struct tutti_client *client, u32 handle, struct tutti_attachment *attachment)
{
	tutti_queue_delete_all(client, attachment->controller);
	tutti_pin_unmap_all(client, attachment->controller);
	xa_erase(&client->controllers, handle);
	client->nr_controllers--;
	tutti_event_cancel(client, &attachment->event);
	tutti_controller_put(attachment->controller);
	kfree(attachment);
}

/**
 * tutti_controller_detach() - TUTTI_P2P_DETACH
 * @client: who asks; its lock is not held
 * @argument: &struct tutti_p2p_detach
 *
 * Return: 0; -EINVAL, -ENOENT.
 */
long tutti_controller_detach(struct tutti_client *client, void *argument)
{
	struct tutti_p2p_detach *request = argument;
	struct tutti_attachment *attachment;

	if (request->flags)
		return -EINVAL;
	mutex_lock(&tutti_lock);
	mutex_lock(&client->lock);
	attachment = xa_load(&client->controllers, request->controller);
	if (attachment)
		detach(client, request->controller, attachment);
	mutex_unlock(&client->lock);
	mutex_unlock(&tutti_lock);
	return attachment ? 0 : -ENOENT;
}

/**
 * tutti_controller_detach_all() - a client ends
 * @client: the client; tutti_lock and its lock are held
 */
void tutti_controller_detach_all(struct tutti_client *client)
{
	struct tutti_attachment *attachment;
	unsigned long handle;

	xa_for_each(&client->controllers, handle, attachment)
		detach(client, handle, attachment);
}

/**
 * tutti_controller_get() - what a handle means
 * @client: whose; its lock is held
 * @handle: of an attachment
 *
 * Return: a reference, to be given back by tutti_controller_put(); NULL.
 */
struct tutti_controller *tutti_controller_get(struct tutti_client *client, u32 handle)
{
	struct tutti_attachment *attachment = xa_load(&client->controllers, handle);

	if (!attachment)
		return NULL;
	kref_get(&attachment->controller->ref);
	return attachment->controller;
}

/**
 * tutti_attachment_lose() - a drive goes away from a client
 * @client: the client; tutti_lock is held
 * @controller: its queue pairs are stopped already
 */
void tutti_attachment_lose(struct tutti_client *client, struct tutti_controller *controller)
{
	struct tutti_attachment *attachment;
	unsigned long handle;

	mutex_lock(&client->lock);
	xa_for_each(&client->controllers, handle, attachment) {
		if (attachment->controller != controller)
			continue;
		tutti_client_alarm(client);
		/* The driver gives the doorbells' page up: no mapping of it may stay. */
		flush_work(&client->zap);
		tutti_pin_unmap_all(client, controller);
		tutti_client_post(client, &attachment->event, TUTTI_P2P_CAUSE_REMOVED);
		tutti_client_settle(client);
	}
	mutex_unlock(&client->lock);
}
