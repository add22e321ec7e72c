// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory BAR of another PCI function, as if it were a GPU's: for test rigs, which give that
 * function on the module's command line. Nothing is pinned; the function's removal revokes, and
 * so does a write to the parameter sim_revoke.
 */
#include <linux/capability.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "../core/core.h"

#define SIM_PAGE 65536U

static char *sim = "";
module_param(sim, charp, 0444);
MODULE_PARM_DESC(sim, "for test rigs: PCI function whose BAR is used as a GPU's memory");

static uint sim_bar = 2;
module_param(sim_bar, uint, 0444);
MODULE_PARM_DESC(sim_bar, "which BAR of it");

static DEFINE_MUTEX(sim_lock);
static LIST_HEAD(sim_memories);

/** struct sim_memory - a range of the BAR that is in use */
struct sim_memory {
	struct list_head node;
	struct tutti_memory *memory;
	struct pci_dev *pdev;
};

static struct pci_dev *sim_function(void)
{
	unsigned int domain, bus, slot, function;

	if (sim_bar >= PCI_STD_NUM_BARS ||
	    sscanf(sim, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return NULL;
	return pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, function));
}

static bool sim_available(void)
{
	struct pci_dev *pdev = sim_function();

	pci_dev_put(pdev);
	return pdev;
}

static int sim_get(struct tutti_memory *memory)
{
	struct sim_memory *range;
	struct pci_dev *pdev;
	u64 size;

	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	pdev = sim_function();
	if (!pdev)
		return -EOPNOTSUPP;
	size = pci_resource_len(pdev, sim_bar);
	range = kzalloc(sizeof(*range), GFP_KERNEL);
	if (!range || !IS_ALIGNED(memory->address | memory->length, SIM_PAGE) ||
	    memory->address > size || memory->length > size - memory->address ||
	    !(pci_resource_flags(pdev, sim_bar) & IORESOURCE_MEM)) {
		pci_dev_put(pdev);
		kfree(range);
		return range ? -EINVAL : -ENOMEM;
	}
	range->memory = memory;
	range->pdev = pdev;
	memory->priv = range;
	memory->page_size = SIM_PAGE;
	mutex_lock(&sim_lock);
	list_add(&range->node, &sim_memories);
	mutex_unlock(&sim_lock);
	return 0;
}

static int sim_map(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	struct sim_memory *range = memory->priv;
	struct device *device = &mapping->pdev->dev;
	dma_addr_t bus =
		dma_map_resource(device, pci_resource_start(range->pdev, sim_bar) + memory->address,
				 memory->length, DMA_BIDIRECTIONAL, 0);
	int error;

	if (dma_mapping_error(device, bus))
		return -EREMOTEIO;
	error = tutti_mapping_add(mapping, bus, memory->length);
	if (error)
		dma_unmap_resource(device, bus, memory->length, DMA_BIDIRECTIONAL, 0);
	else
		mapping->priv = range;
	return error;
}

static void sim_unmap(struct tutti_memory *memory, struct tutti_mapping *mapping)
{
	if (tutti_mapping_take(mapping))
		dma_unmap_resource(&mapping->pdev->dev, mapping->runs->bus, memory->length,
				   DMA_BIDIRECTIONAL, 0);
}

static void sim_put(struct tutti_memory *memory)
{
	struct sim_memory *range = memory->priv;

	mutex_lock(&sim_lock);
	list_del(&range->node);
	mutex_unlock(&sim_lock);
	pci_dev_put(range->pdev);
	kfree(range);
}

static void sim_unmap_all(struct tutti_memory *memory)
{
	struct tutti_mapping *mapping;

	list_for_each_entry(mapping, &memory->mappings, node)
		sim_unmap(memory, mapping);
}

static void sim_forget(struct tutti_memory *memory)
{
	sim_unmap_all(memory);
	sim_put(memory);
}

/*
 * The owner frees what lies at an offset, or with no function given, of any. The lock is what a
 * vendor's would be.
 */
static int sim_free(struct pci_dev *pdev, u64 offset)
{
	struct sim_memory *range;
	int count = 0;

	mutex_lock(&sim_lock);
	list_for_each_entry(range, &sim_memories, node) {
		if (pdev ? range->pdev != pdev
			 : offset - range->memory->address >= range->memory->length)
			continue;
		if (tutti_memory_revoke(range->memory))
			sim_unmap_all(range->memory);
		count++;
	}
	mutex_unlock(&sim_lock);
	return count;
}

static int sim_revoke_set(const char *text, const struct kernel_param *parameter)
{
	u64 offset;
	int error = kstrtou64(text, 0, &offset);

	return error ? error : sim_free(NULL, offset) ? 0 : -ENOENT;
}

static const struct kernel_param_ops sim_revoke_operations = { .set = sim_revoke_set };
module_param_cb(sim_revoke, &sim_revoke_operations, NULL, 0200);
MODULE_PARM_DESC(sim_revoke,
		 "write an offset: the memory there is revoked, as if a GPU's driver had freed it");

static int sim_bus_event(struct notifier_block *block, unsigned long event, void *data)
{
	if (event == BUS_NOTIFY_DEL_DEVICE || event == BUS_NOTIFY_UNBIND_DRIVER)
		sim_free(to_pci_dev(data), 0);
	return NOTIFY_OK;
}

static struct notifier_block sim_notifier = { .notifier_call = sim_bus_event };

static int sim_init(void)
{
	return bus_register_notifier(&pci_bus_type, &sim_notifier);
}

static void sim_exit(void)
{
	bus_unregister_notifier(&pci_bus_type, &sim_notifier);
}

const struct tutti_provider tutti_provider_sim = {
	.name = "sim",
	.id = TUTTI_P2P_PROVIDER_SIM,
	.owner = THIS_MODULE,
	.revokes = true,
	.init = sim_init,
	.exit = sim_exit,
	.available = sim_available,
	.get = sim_get,
	.put = sim_put,
	.map = sim_map,
	.unmap = sim_unmap,
	.forget = sim_forget,
};
