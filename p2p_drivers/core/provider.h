/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a provider of peer memory fills in, and what the core promises to it.
 *
 * A provider knows one kind of memory: host pages, a vendor's GPU memory, a dma-buf. The core
 * knows clients, drives and queues. They meet in two structures: a &struct tutti_memory is a
 * range that a client pinned; a &struct tutti_mapping is that range as one PCI function sees
 * it.
 *
 * Life of a memory:
 *
 *   get() -> map() for each function -> ... -> unmap() for each -> put()
 *	(unpin, close)
 *   get() -> map() for each function -> ... -> tutti_memory_revoke() -> forget()
 *	(the owner took it away)
 *
 * Revocation. A provider whose memory can be taken away calls tutti_memory_revoke() from its
 * owner's callback. The core deletes every queue pair that could reach the memory, then
 * returns. After that no drive reads or writes it:
 *
 *   - true: the memory now belongs to the provider. It must undo its DMA mappings in the form
 *     that its owner asks for inside that callback (what tutti_mapping_take() gives for each of
 *     &tutti_memory.mappings), before it returns to the owner. The core does not call put() for
 *     it, only forget(), once, later, without the owner's locks.
 *   - false: the core is releasing the memory already, or it was revoked before. Queue pairs
 *     are stopped. The provider does nothing; unmap() and put() come or have come from another
 *     thread, and must live with an owner that has begun to free (owners say so by an error
 *     code of their put function).
 *
 * tutti_memory_revoke() may be called from the moment at which get() hands the memory to its
 * owner, also before get() or map() returns; the pin then fails. If get() failed after all,
 * forget() is not called. If map() made its mapping after the callback had looked, forget()
 * finds it by tutti_mapping_take() and undoes it. put() and forget() return only when no
 * callback for the memory runs or can come any more.
 *
 * One function's mapping can end while the others stay: its drive goes away. Then unmap() may
 * run beside the owner's callback. So whoever undoes a mapping takes it first, with
 * tutti_mapping_take(); the other finds NULL and does nothing.
 *
 * Context and locks:
 *
 *   get, map, unmap, put, forget: process context, may sleep, may allocate with GFP_KERNEL.
 *	The core holds the mutex of the client, no spinlock, and no lock that
 *	tutti_memory_revoke() takes. For one memory they never run at the same time. unmap also
 *	runs with the lock of the PCI function held, when its driver is unbound.
 *   tutti_memory_revoke: process context, may sleep (for admin commands of the drive: usually
 *	less than a millisecond, at worst the driver's admin timeout). The caller may hold locks
 *	of the owner, a dma_resv lock, and mmap_lock. It allocates nothing. It must not be called
 *	from within get, map, unmap, put or forget of the same memory in the same thread.
 *
 * So: an owner's lock may be held around revoke, and may be taken inside the other operations.
 * Nothing else is needed.
 */
#ifndef TUTTI_P2P_PROVIDER_H
#define TUTTI_P2P_PROVIDER_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/types.h>

struct tutti_memory;
struct tutti_mapping;

/**
 * struct tutti_run - a stretch that is contiguous on the bus
 * @bus: address that the function uses
 * @length: bytes
 */
struct tutti_run {
	u64 bus;
	u64 length;
};

/**
 * struct tutti_provider - a kind of memory
 * @name: at most 15 characters, as user space sees it
 * @id: TUTTI_P2P_PROVIDER_*; at least TUTTI_P2P_PROVIDER_FOREIGN in another module
 * @owner: THIS_MODULE; held while memory is pinned
 * @revokes: whether it ever calls tutti_memory_revoke()
 * @takes_fd: whether &tutti_memory.fd is an input (else user space must pass -1)
 * @init: once, before anything else, or NULL. An error keeps this provider out, not the module
 * @exit: once, when no memory is left, or NULL
 * @available: whether get() could succeed now, or NULL for always. Any context that may sleep,
 *	no lock held
 * @get: hold the range &tutti_memory.address, &tutti_memory.length in place; set
 *	&tutti_memory.page_size, and &tutti_memory.priv as it likes. Vendor symbols that are
 *	found at run time are held from here to put() or forget(). The core has checked that the
 *	length is not 0 and that the range does not wrap; alignment is checked here (-EINVAL).
 *	-EOPNOTSUPP: what it needs is not there.
 * @map: make the memory reachable for &tutti_mapping.pdev; report every run in order with
 *	tutti_mapping_add(), exactly &tutti_memory.length bytes in all (the core refuses less,
 *	and more). Set &tutti_mapping.priv, not NULL. On error nothing stays; runs need not be
 *	taken back.
 * @unmap: undo map(), when tutti_mapping_take() gives something. The function does not use the
 *	memory any more
 * @put: undo get(). Every mapping was undone before
 * @forget: after a revocation: free what the provider still holds (its own structures, symbols,
 *	modules, a detached dma-buf). Mappings were undone by the provider inside its callback.
 *	NULL when it never revokes
 */
struct tutti_provider {
	const char *name;
	u32 id;
	struct module *owner;
	bool revokes;
	bool takes_fd;
	int (*init)(void);
	void (*exit)(void);
	bool (*available)(void);
	int (*get)(struct tutti_memory *memory);
	int (*map)(struct tutti_memory *memory, struct tutti_mapping *mapping);
	void (*unmap)(struct tutti_memory *memory, struct tutti_mapping *mapping);
	void (*put)(struct tutti_memory *memory);
	void (*forget)(struct tutti_memory *memory);
};

/**
 * struct tutti_memory - a range of one provider, pinned by one client
 * @provider: whose it is
 * @address: as user space gave it
 * @length: bytes, not 0
 * @fd: a dma-buf, valid inside get() only
 * @page_size: set by get(): what is contiguous in memory at least; a power of two, 4096 or more
 * @mappings: the functions it is for: &struct tutti_mapping by @node. Complete before get(),
 *	the same until the end
 * @priv: the provider's
 * @state: the core's
 *
 * Allocated and freed by the core; valid from get() until put() or forget() returned.
 */
struct tutti_memory {
	const struct tutti_provider *provider;
	u64 address;
	u64 length;
	int fd;
	u32 page_size;
	struct list_head mappings;
	void *priv;
	atomic_t state;
};

/**
 * struct tutti_mapping - a memory as one PCI function sees it
 * @pdev: the function (a drive); referenced while the mapping lives
 * @node: in &tutti_memory.mappings
 * @runs: what map() reported; touching runs are one
 * @nr_runs: how many
 * @capacity: the core's
 * @bytes: in all runs
 * @priv: the provider's; NULL before map() and after it was taken
 */
struct tutti_mapping {
	struct pci_dev *pdev;
	struct list_head node;
	struct tutti_run *runs;
	size_t nr_runs;
	size_t capacity;
	u64 bytes;
	void *priv;
};

/**
 * tutti_mapping_take() - become the one who undoes a mapping
 * @mapping: the mapping
 *
 * Any context. Return: what map() left in &tutti_mapping.priv, once; NULL to everyone else.
 */
static inline void *tutti_mapping_take(struct tutti_mapping *mapping)
{
	return xchg(&mapping->priv, NULL);
}

int tutti_mapping_add(struct tutti_mapping *mapping, u64 bus, u64 length);
bool tutti_memory_revoke(struct tutti_memory *memory);

int tutti_provider_register(const struct tutti_provider *provider);
void tutti_provider_unregister(const struct tutti_provider *provider);

#endif /* TUTTI_P2P_PROVIDER_H */
