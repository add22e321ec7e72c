// SPDX-License-Identifier: GPL-2.0-only
/*
 * The GPU of the rig: hands out ranges of its BAR, tells importers when a range is freed, and watches that they keep the
 * rules. Freed memory is filled with a pattern, and looked at again before it is given out: who writes to freed memory is
 * found even where the drive reports success.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "fake_gpu.h"

#define FAKE_GPU_BAR		2
#define FAKE_GPU_BASE		0x7f5000000000ULL	/* device addresses begin here */
#define FAKE_GPU_FIRST		(16 * FAKE_GPU_PAGE)	/* not 0: an offset taken for an address is seen */
#define FAKE_GPU_POISON		0xd5d5d5d5d5d5d5d5ULL
#define FAKE_GPU_USED		(8 << 20)		/* of the BAR: filling more is slow where it is emulated */

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0)
MODULE_IMPORT_NS(DMA_BUF);
#endif

struct fake_gpu_object {
	struct list_head node;
	struct list_head holds;
	struct file *file;
	pid_t process;
	u64 offset;
	u64 length;
	bool zombie;
};

static struct pci_dev *gpu;
static u8 __iomem *memory;
static u64 memory_bytes;

/* Held around everything, also around callbacks, as the vendors' own locks are. */
static DEFINE_MUTEX(lock);
static struct task_struct *calling;
static LIST_HEAD(objects);
static u32 nr_holds, nr_callbacks;
static atomic_t nr_mapped = ATOMIC_INIT(0), nr_violations = ATOMIC_INIT(0);

void fake_gpu_violation(const char *rule)
{
	atomic_inc(&nr_violations);
	WARN(1, "fake_gpu: rule broken: %s\n", rule);
}
EXPORT_SYMBOL_GPL(fake_gpu_violation);

bool fake_gpu_in_callback(void)
{
	return READ_ONCE(calling) == current;
}
EXPORT_SYMBOL_GPL(fake_gpu_in_callback);

static struct fake_gpu_object *find(u64 address, u64 length)
{
	struct fake_gpu_object *object;
	u64 offset = address - FAKE_GPU_BASE;

	list_for_each_entry(object, &objects, node)
		if (!object->zombie && offset >= object->offset && length <= object->length &&
		    offset - object->offset <= object->length - length)
			return object;
	return NULL;
}

int fake_gpu_hold(struct fake_gpu_hold *hold, u64 address, u64 length)
{
	struct fake_gpu_object *object;
	int error = -EINVAL;

	mutex_lock(&lock);
	object = length ? find(address, length) : NULL;
	/* Vendors know addresses of the calling process only. */
	if (object && object->process == current->tgid) {
		hold->object = object;
		hold->start = pci_resource_start(gpu, FAKE_GPU_BAR) + (address - FAKE_GPU_BASE);
		hold->length = length;
		atomic_set(&hold->mapped, 0);
		list_add(&hold->node, &object->holds);
		nr_holds++;
		error = 0;
	}
	mutex_unlock(&lock);
	return error;
}
EXPORT_SYMBOL_GPL(fake_gpu_hold);

static void fill(u64 offset, u64 length, u64 value)
{
	u64 at;

	for (at = 0; at < length; at += 8) {
		writeq(value, memory + offset + at);
		if (!(at % FAKE_GPU_PAGE))
			cond_resched();
	}
}

static void bury(struct fake_gpu_object *object)
{
	fill(object->offset, object->length, FAKE_GPU_POISON);
	list_del(&object->node);
	kfree(object);
}

/* Waits for a callback in progress. -EINVAL: the range was revoked, nothing is held any more. */
int fake_gpu_release(struct fake_gpu_hold *hold)
{
	struct fake_gpu_object *object;
	int error = -EINVAL;

	if (fake_gpu_in_callback()) {
		fake_gpu_violation("given back inside the free callback");
		return -EDEADLK;
	}
	mutex_lock(&lock);
	object = hold->object;
	if (object) {
		if (atomic_read(&hold->mapped))
			fake_gpu_violation("given back while mapped");
		list_del(&hold->node);
		hold->object = NULL;
		nr_holds--;
		if (object->zombie && list_empty(&object->holds))
			bury(object);
		error = 0;
	}
	mutex_unlock(&lock);
	return error;
}
EXPORT_SYMBOL_GPL(fake_gpu_release);

int fake_gpu_map(struct fake_gpu_hold *hold, struct device *device, u64 at, u64 length, dma_addr_t *bus)
{
	*bus = dma_map_resource(device, hold->start + at, length, DMA_BIDIRECTIONAL, 0);
	if (dma_mapping_error(device, *bus))
		return -EIO;
	atomic_inc(&hold->mapped);
	atomic_inc(&nr_mapped);
	return 0;
}
EXPORT_SYMBOL_GPL(fake_gpu_map);

void fake_gpu_unmap(struct fake_gpu_hold *hold, struct device *device, dma_addr_t bus, u64 length)
{
	dma_unmap_resource(device, bus, length, DMA_BIDIRECTIONAL, 0);
	atomic_dec(&hold->mapped);
	atomic_dec(&nr_mapped);
}
EXPORT_SYMBOL_GPL(fake_gpu_unmap);

/* The lock is held. */
static void free_object(struct fake_gpu_object *object)
{
	struct fake_gpu_hold *hold, *next;

	object->zombie = true;
	list_for_each_entry_safe(hold, next, &object->holds, node) {
		if (!hold->revoke)
			continue;
		list_del(&hold->node);
		hold->object = NULL;
		nr_holds--;
		nr_callbacks++;
		WRITE_ONCE(calling, current);
		hold->revoke(hold);
		WRITE_ONCE(calling, NULL);
	}
	if (list_empty(&object->holds))
		bury(object);
}

static long fake_alloc(struct file *file, struct fake_gpu_range __user *user)
{
	struct fake_gpu_object *object, *other;
	struct fake_gpu_range range;
	struct list_head *before = &objects;
	u64 at = FAKE_GPU_FIRST, i;

	if (copy_from_user(&range, user, sizeof(range)))
		return -EFAULT;
	if (!range.length || range.length % FAKE_GPU_PAGE)
		return -EINVAL;
	object = kzalloc(sizeof(*object), GFP_KERNEL);
	if (!object)
		return -ENOMEM;
	INIT_LIST_HEAD(&object->holds);
	object->file = file;
	object->process = current->tgid;
	object->length = range.length;
	mutex_lock(&lock);
	/* First fit, in order of offset. */
	list_for_each_entry(other, &objects, node) {
		if (other->offset - at >= range.length)
			break;
		at = other->offset + other->length;
		before = &other->node;
	}
	if (!gpu || at > memory_bytes || range.length > memory_bytes - at) {
		mutex_unlock(&lock);
		kfree(object);
		return -ENOSPC;
	}
	for (i = 0; i < range.length; i += 8)
		if (readq(memory + at + i) != FAKE_GPU_POISON) {
			fake_gpu_violation("freed memory was written");
			break;
		}
	fill(at, range.length, 0);
	object->offset = at;
	list_add(&object->node, before);
	mutex_unlock(&lock);
	range.offset = at;
	range.address = FAKE_GPU_BASE + at;
	return copy_to_user(user, &range, sizeof(range)) ? -EFAULT : 0;
}

static long fake_free(struct file *file, u64 __user *user)
{
	struct fake_gpu_object *object;
	u64 address;
	long error = -ENOENT;

	if (get_user(address, user))
		return -EFAULT;
	mutex_lock(&lock);
	object = find(address, 1);
	if (object && object->file == file) {
		free_object(object);
		error = 0;
	}
	mutex_unlock(&lock);
	return error;
}

static long fake_stats(struct fake_gpu_stats __user *user)
{
	struct fake_gpu_stats stats = { 0 };
	struct fake_gpu_object *object;

	mutex_lock(&lock);
	list_for_each_entry(object, &objects, node) {
		stats.objects += !object->zombie;
		stats.zombies += object->zombie;
	}
	stats.holds = nr_holds;
	stats.callbacks = nr_callbacks;
	mutex_unlock(&lock);
	stats.mapped = atomic_read(&nr_mapped);
	stats.violations = atomic_read(&nr_violations);
	return copy_to_user(user, &stats, sizeof(stats)) ? -EFAULT : 0;
}

/* A dma-buf of a range: an exporter that can pin, and that also says when it moves. */
struct fake_buffer {
	struct fake_gpu_hold hold;
	u32 pins;
};

static int buffer_attach(struct dma_buf *buffer, struct dma_buf_attachment *attachment)
{
	return attachment->peer2peer ? 0 : -EOPNOTSUPP;
}

static int buffer_pin(struct dma_buf_attachment *attachment)
{
	((struct fake_buffer *)attachment->dmabuf->priv)->pins++;
	return 0;
}

static void buffer_unpin(struct dma_buf_attachment *attachment)
{
	((struct fake_buffer *)attachment->dmabuf->priv)->pins--;
}

static void buffer_unmap(struct dma_buf_attachment *attachment, struct sg_table *table, enum dma_data_direction direction)
{
	struct fake_buffer *buffer = attachment->dmabuf->priv;
	struct scatterlist *entry;
	unsigned int i;

	for_each_sg(table->sgl, entry, table->nents, i)
		fake_gpu_unmap(&buffer->hold, attachment->dev, sg_dma_address(entry), sg_dma_len(entry));
	sg_free_table(table);
	kfree(table);
}

static struct sg_table *buffer_map(struct dma_buf_attachment *attachment, enum dma_data_direction direction)
{
	struct fake_buffer *buffer = attachment->dmabuf->priv;
	struct sg_table *table = kzalloc(sizeof(*table), GFP_KERNEL);
	struct scatterlist *entry;
	dma_addr_t bus;
	unsigned int i;

	if (!table || sg_alloc_table(table, buffer->hold.length / FAKE_GPU_PAGE, GFP_KERNEL)) {
		kfree(table);
		return ERR_PTR(-ENOMEM);
	}
	for_each_sg(table->sgl, entry, table->orig_nents, i) {
		if (fake_gpu_map(&buffer->hold, attachment->dev, i * FAKE_GPU_PAGE, FAKE_GPU_PAGE, &bus)) {
			table->nents = i;
			buffer_unmap(attachment, table, direction);
			return ERR_PTR(-EIO);
		}
		sg_set_page(entry, NULL, FAKE_GPU_PAGE, 0);
		sg_dma_address(entry) = bus;
		sg_dma_len(entry) = FAKE_GPU_PAGE;
	}
	return table;
}

static void buffer_release(struct dma_buf *buffer)
{
	struct fake_buffer *held = buffer->priv;

	fake_gpu_release(&held->hold);
	kfree(held);
}

static const struct dma_buf_ops buffer_operations = {
	.attach = buffer_attach,
	.pin = buffer_pin,
	.unpin = buffer_unpin,
	.map_dma_buf = buffer_map,
	.unmap_dma_buf = buffer_unmap,
	.release = buffer_release,
};

static long fake_export(struct fake_gpu_buffer __user *user)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct fake_gpu_buffer argument;
	struct fake_buffer *held;
	struct dma_buf *buffer;
	int error;

	if (copy_from_user(&argument, user, sizeof(argument)))
		return -EFAULT;
	if ((argument.address | argument.length) % FAKE_GPU_PAGE)
		return -EINVAL;
	held = kzalloc(sizeof(*held), GFP_KERNEL);
	if (!held)
		return -ENOMEM;
	error = fake_gpu_hold(&held->hold, argument.address, argument.length);
	if (error) {
		kfree(held);
		return error;
	}
	info.ops = &buffer_operations;
	info.size = argument.length;
	info.flags = O_RDWR;
	info.priv = held;
	buffer = dma_buf_export(&info);
	if (IS_ERR(buffer)) {
		fake_gpu_release(&held->hold);
		kfree(held);
		return PTR_ERR(buffer);
	}
	argument.fd = dma_buf_fd(buffer, O_CLOEXEC);
	if (argument.fd < 0)
		dma_buf_put(buffer);
	return argument.fd < 0 ? argument.fd : copy_to_user(user, &argument, sizeof(argument)) ? -EFAULT : 0;
}

static long fake_move(struct fake_gpu_buffer __user *user)
{
	struct fake_gpu_buffer argument;
	struct dma_buf *buffer;

	if (copy_from_user(&argument, user, sizeof(argument)))
		return -EFAULT;
	buffer = dma_buf_get(argument.fd);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	if (buffer->ops != &buffer_operations) {
		dma_buf_put(buffer);
		return -EINVAL;
	}
	dma_resv_lock(buffer->resv, NULL);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	dma_buf_invalidate_mappings(buffer);
#else
	dma_buf_move_notify(buffer);
#endif
	argument.pins = ((struct fake_buffer *)buffer->priv)->pins;
	dma_resv_unlock(buffer->resv);
	dma_buf_put(buffer);
	return copy_to_user(user, &argument, sizeof(argument)) ? -EFAULT : 0;
}

static long fake_ioctl(struct file *file, unsigned int request, unsigned long argument)
{
	void __user *user = (void __user *)argument;

	switch (request) {
	case FAKE_GPU_ALLOC:
		return fake_alloc(file, user);
	case FAKE_GPU_FREE:
		return fake_free(file, user);
	case FAKE_GPU_STATS:
		return fake_stats(user);
	case FAKE_GPU_EXPORT:
		return fake_export(user);
	case FAKE_GPU_MOVE:
		return fake_move(user);
	default:
		return -ENOTTY;
	}
}

static int fake_mmap(struct file *file, struct vm_area_struct *area)
{
	u64 offset = (u64)area->vm_pgoff << PAGE_SHIFT, length = area->vm_end - area->vm_start;

	if (offset > memory_bytes || length > memory_bytes - offset)
		return -EINVAL;
	area->vm_page_prot = pgprot_writecombine(area->vm_page_prot);
	return io_remap_pfn_range(area, area->vm_start, (pci_resource_start(gpu, FAKE_GPU_BAR) + offset) >> PAGE_SHIFT,
				  length, area->vm_page_prot);
}

/* The process ended, or closed the file: its memory is freed, as a vendor's driver frees it. */
static int fake_close(struct inode *inode, struct file *file)
{
	struct fake_gpu_object *object, *next;

	mutex_lock(&lock);
	list_for_each_entry_safe(object, next, &objects, node)
		if (object->file == file && !object->zombie)
			free_object(object);
	mutex_unlock(&lock);
	return 0;
}

static const struct file_operations fake_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = fake_ioctl,
	.mmap = fake_mmap,
	.release = fake_close,
};

static struct miscdevice fake_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "fake_gpu",
	.fops = &fake_operations,
};

static int fake_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int error;

	if (gpu)
		return -EBUSY;
	error = pcim_enable_device(pdev);
	if (error)
		return error;
	memory_bytes = min_t(u64, pci_resource_len(pdev, FAKE_GPU_BAR), FAKE_GPU_USED);
	memory = devm_ioremap(&pdev->dev, pci_resource_start(pdev, FAKE_GPU_BAR), memory_bytes);
	if (!memory)
		return -ENOMEM;
	pci_set_master(pdev);
	fill(0, memory_bytes, FAKE_GPU_POISON);
	gpu = pdev;
	error = misc_register(&fake_device);
	if (error)
		gpu = NULL;
	return error;
}

static void fake_remove(struct pci_dev *pdev)
{
	misc_deregister(&fake_device);
	gpu = NULL;
}

static const struct pci_device_id fake_ids[] = { { PCI_DEVICE(0x1af4, 0x1110) }, { } };

static struct pci_driver fake_driver = {
	.name = "fake_gpu",
	.id_table = fake_ids,
	.probe = fake_probe,
	.remove = fake_remove,
};
module_pci_driver(fake_driver);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("The rig's GPU: a PCI function's BAR as its memory");
