/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * tutti_p2p: what user space and the module say to each other.
 *
 * One open file of /dev/tutti_p2p is one client. Everything that a client made is undone when
 * the file is closed, also by the death of its process: queue pairs are deleted first, memory
 * is released after them.
 *
 * Rules that hold for every request:
 *  - TUTTI_P2P_NEGOTIATE comes first; anything else before it fails with EPROTO.
 *  - Members called "reserved" and unknown flags must be 0, else EINVAL.
 *  - Members marked "out" are written on success; "refused" and "nvme_status" are written on
 *    failure as well.
 *  - Handles are positive, belong to one client, and are given again only after they were
 *    released.
 *  - Requests may be made by the process that opened the file and by no other (EPERM): memory
 *    is charged to it.
 */
#ifndef _UAPI_TUTTI_P2P_H
#define _UAPI_TUTTI_P2P_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define TUTTI_P2P_VERSION	1	/* the newest that this header describes */

#if defined(__cplusplus)
#define TUTTI_P2P_SIZE(type, bytes)	static_assert(sizeof(struct type) == (bytes), #type)
#elif defined(__KERNEL__) || defined(__STDC_VERSION__)
#define TUTTI_P2P_SIZE(type, bytes)	_Static_assert(sizeof(struct type) == (bytes), #type)
#else
#define TUTTI_P2P_SIZE(type, bytes) \
	extern char tutti_p2p_size_##type[sizeof(struct type) == (bytes) ? 1 : -1]
#endif

/*
 * NEGOTIATE: agree on a version. EPROTONOSUPPORT when the ranges do not meet; EALREADY the
 * second time.
 */
struct tutti_p2p_negotiate {
	__u32 version_min;	/* in */
	__u32 version_max;	/* in */
	__u32 version;		/* out: the one that holds from here on */
	__u32 features;		/* out: TUTTI_P2P_FEATURE_* */
	__u64 reserved[2];
};
TUTTI_P2P_SIZE(tutti_p2p_negotiate, 32);

#define TUTTI_P2P_FEATURE_DMABUF	(1U << 0)	/* dma-buf can be pinned */
#define TUTTI_P2P_FEATURE_RESET_WATCH	(1U << 1)	/* resets of a drive are noticed at once */

/*
 * PROVIDER: the provider of peer memory at an index; ENOENT past the last.
 */
struct tutti_p2p_provider {
	__u32 index;		/* in */
	/* out: TUTTI_P2P_PROVIDER_*, or more for one that another module registered */
	__u32 id;
	__u32 flags;		/* out: TUTTI_P2P_PROVIDER_F_* */
	__u32 reserved;
	char name[16];		/* out: ends with 0 */
};
TUTTI_P2P_SIZE(tutti_p2p_provider, 32);

#define TUTTI_P2P_PROVIDER_HOST		1	/* address: of this process */
/* address: offset in the BAR that the module parameter names */
#define TUTTI_P2P_PROVIDER_SIM		2
#define TUTTI_P2P_PROVIDER_DMABUF	3	/* fd: the dma-buf; address: offset in it */
#define TUTTI_P2P_PROVIDER_NVIDIA	4	/* address: of the device, in this process */
#define TUTTI_P2P_PROVIDER_METAX	5
#define TUTTI_P2P_PROVIDER_MUSA		6
#define TUTTI_P2P_PROVIDER_FOREIGN	256	/* the first that another module may use */

#define TUTTI_P2P_PROVIDER_F_AVAILABLE	(1U << 0)	/* what it needs is loaded now */
#define TUTTI_P2P_PROVIDER_F_REVOKES	(1U << 1)	/* it tells when memory goes away */

/*
 * ATTACH: use a controller that the kernel's nvme driver keeps. The caller shows an open,
 * writable file of the controller's character device; it must be the same controller as the PCI
 * function. The file may be closed afterwards. Needs CAP_SYS_ADMIN, as the driver's own admin
 * commands do, unless the module was told otherwise. ENODEV no such function; EPERM; EBADF;
 * EALREADY attached by this client; EOPNOTSUPP with the cause in "refused".
 */
struct tutti_p2p_attach {
	__u32 domain;		/* in */
	__u8 bus;		/* in */
	__u8 devfn;		/* in: slot * 8 + function */
	__u16 reserved0;
	__s32 nvme_fd;		/* in: open /dev/nvmeN */
	__u32 flags;		/* in: 0 */
	/* in: offset of nvme_ctrl.admin_q by the kernel's type data, 0 = not known */
	__u32 btf_admin_q;
	__u32 btf_admin_tagset;	/* in: offset of nvme_ctrl.admin_tagset, 0 = not known */
	__u32 controller;	/* out: handle */
	__u32 refused;		/* out: TUTTI_P2P_REFUSED_* */
	__u64 cap;		/* out: CAP register */
	__u32 version;		/* out: VS register */
	__u32 page_size;	/* out: of the controller, by CC.MPS */
	__u32 doorbell_stride;	/* out: bytes between two doorbells */
	__u32 max_entries;	/* out: of one queue */
	/* out: I/O queue pairs that the controller granted to the kernel's driver */
	__u32 queues_granted;
	/* out: of them in use by the driver; 0 = this kernel does not say */
	__u32 queues_stock;
	__u32 queues_ours;	/* out: of them in use through this module, by all clients */
	/* out: what is left; when the driver's are not known, an upper bound */
	__u32 queues_spare;
	char name[32];		/* out: nvmeN */
	__u64 reserved[3];
};
TUTTI_P2P_SIZE(tutti_p2p_attach, 128);

#define TUTTI_P2P_REFUSED_NOTHING	0
/* the function is not bound to the kernel's nvme driver */
#define TUTTI_P2P_REFUSED_DRIVER	1
/* the file is not this controller's, or not open for writing */
#define TUTTI_P2P_REFUSED_FD		2
#define TUTTI_P2P_REFUSED_ADMIN_QUEUE	3	/* the ways to find the admin queue do not agree */
/* shadow doorbells (Identify OACS bit 8): written doorbells are ignored */
#define TUTTI_P2P_REFUSED_SHADOW	4
#define TUTTI_P2P_REFUSED_STATE		5	/* the controller is not live */
#define TUTTI_P2P_REFUSED_ENTRY_SIZE	6	/* queue entries are not of 64 and 16 bytes */
#define TUTTI_P2P_REFUSED_NO_SPARE	7	/* QUEUE_CREATE: no queue id is left */
#define TUTTI_P2P_REFUSED_KERNEL	8	/* this kernel has not what is needed (kprobes) */
/* QUEUE_CREATE: a ring is not contiguous on the bus, or not aligned */
#define TUTTI_P2P_REFUSED_RING		9
/* the controller answered with an error: nvme_status */
#define TUTTI_P2P_REFUSED_NVME		10

/*
 * DETACH: the controller's queue pairs of this client are deleted, pins are no longer mapped
 * for it.
 */
struct tutti_p2p_detach {
	__u32 controller;	/* in */
	__u32 flags;		/* in: 0 */
};
TUTTI_P2P_SIZE(tutti_p2p_detach, 8);

/*
 * PIN: hold memory in place and map it for controllers. Address and length must fit the
 * provider's page size. EINVAL alignment, overflow, a controller named twice; ENOENT a
 * controller; ENOMEM memory or RLIMIT_MEMLOCK; EDQUOT a limit of the user; EOPNOTSUPP the
 * provider is not there; EFAULT; EREMOTEIO the controller cannot reach the memory.
 */
struct tutti_p2p_pin {
	__u32 provider;		/* in: id */
	__u32 flags;		/* in: 0 */
	__u64 address;		/* in */
	__u64 length;		/* in: bytes */
	__s32 fd;		/* in: the dma-buf; -1 for every other provider */
	__u32 nr_controllers;	/* in: at least 1 */
	__u64 controllers;	/* in: user address of nr_controllers handles of 32 bits */
	__u32 pin;		/* out: handle */
	__u32 page_size;	/* out: what is contiguous in memory at least */
	__u64 reserved[2];
};
TUTTI_P2P_SIZE(tutti_p2p_pin, 64);

/*
 * RUNS: where a pin lies on a controller's bus, as contiguous runs in order; runs that touch
 * are one. A part at a time if wished: from "first" at most "capacity" runs. ENOENT; ESTALE the
 * pin was revoked.
 */
struct tutti_p2p_run {
	__u64 bus;
	__u64 length;
};
TUTTI_P2P_SIZE(tutti_p2p_run, 16);

struct tutti_p2p_runs {
	__u32 pin;		/* in */
	__u32 controller;	/* in */
	__u64 first;		/* in */
	__u32 capacity;		/* in: of the array, in runs; 0 asks for the total only */
	__u32 count;		/* out: runs written */
	__u64 runs;		/* in: user address of the array */
	__u64 total;		/* out: runs that there are */
};
TUTTI_P2P_SIZE(tutti_p2p_runs, 40);

/*
 * UNPIN: EBUSY while a ring lies in it, and while the client has a queue pair on a controller
 * that can reach it, unless the caller says that no command in flight names it.
 */
struct tutti_p2p_unpin {
	__u32 pin;		/* in */
	__u32 flags;		/* in: TUTTI_P2P_UNPIN_* */
};
TUTTI_P2P_SIZE(tutti_p2p_unpin, 8);

/* the caller's word: no command in flight names this memory */
#define TUTTI_P2P_UNPIN_IDLE	(1U << 0)

/*
 * QUEUE_CREATE: one I/O submission and one completion queue of the same id, polled (no
 * interrupt). Rings lie in pins, contiguous on the bus, at multiples of the controller's page
 * size. The completion ring must be filled with zeroes before. The doorbells can then be
 * mapped: doorbell_bytes at doorbell_offset of the client's file. ENOENT, EINVAL, ENOSPC no
 * queue id, EDQUOT, ESTALE revoked, EAGAIN the controller is being reset, ENODEV it is gone,
 * EREMOTEIO with nvme_status.
 */
struct tutti_p2p_queue_create {
	__u32 controller;	/* in */
	__u32 flags;		/* in: 0 */
	__u32 sq_pin;		/* in */
	__u32 cq_pin;		/* in */
	__u64 sq_offset;	/* in: bytes into the pin */
	__u64 cq_offset;	/* in */
	__u32 sq_entries;	/* in: 2 to max_entries */
	__u32 cq_entries;	/* in */
	__u32 queue;		/* out: handle */
	__u32 qid;		/* out: the controller's id of both queues */
	__u64 doorbell_offset;	/* out: for mmap */
	__u32 doorbell_bytes;	/* out: whole pages, one with every usual stride */
	__u32 sq_doorbell;	/* out: bytes into the mapping */
	__u32 cq_doorbell;	/* out */
	__u32 refused;		/* out: TUTTI_P2P_REFUSED_* */
	__u32 nvme_status;	/* out: status field of the command that failed, 0 = none did */
	__u32 reserved0;
	__u64 reserved[2];
};
TUTTI_P2P_SIZE(tutti_p2p_queue_create, 96);

/*
 * QUEUE_DELETE: waits until the controller has let go of every command of the queue pair. No
 * error when it was lost before. The doorbells are no longer mapped (SIGBUS).
 */
struct tutti_p2p_queue_delete {
	__u32 queue;		/* in */
	__u32 flags;		/* in: 0 */
};
TUTTI_P2P_SIZE(tutti_p2p_queue_delete, 8);

/*
 * NOTIFY: an eventfd that is signalled with each event; -1 for none. The client's file can be
 * polled as well (POLLPRI).
 */
struct tutti_p2p_notify {
	__s32 eventfd;		/* in */
	__u32 flags;		/* in: 0 */
};
TUTTI_P2P_SIZE(tutti_p2p_notify, 8);

/*
 * EVENT: take the next event; EAGAIN when there is none. A handle has at most one.
 */
struct tutti_p2p_event {
	__u32 kind;		/* out: TUTTI_P2P_EVENT_* */
	__u32 handle;		/* out */
	__u32 cause;		/* out: TUTTI_P2P_CAUSE_* */
	__u32 reserved;
	__u64 generation;	/* out: the word of the watch page that came with it */
};
TUTTI_P2P_SIZE(tutti_p2p_event, 24);

/* the memory is gone; RUNS says ESTALE, UNPIN is still to be called */
#define TUTTI_P2P_EVENT_PIN		1
/* the queue pair is gone; QUEUE_DELETE is still to be called */
#define TUTTI_P2P_EVENT_QUEUE		2
/* the controller is gone, with all its queue pairs; DETACH is to be called */
#define TUTTI_P2P_EVENT_CONTROLLER	3

#define TUTTI_P2P_CAUSE_REVOKED		1	/* the memory's owner freed or moved it */
/* the controller was reset: the pin stays, queue pairs can be created again */
#define TUTTI_P2P_CAUSE_RESET		2
#define TUTTI_P2P_CAUSE_REMOVED		3	/* the driver was unbound, or the drive went away */

/*
 * USAGE: what the client's user holds, and how much it may hold (0 = no limit).
 */
struct tutti_p2p_usage {
	__u64 pins, pins_limit;			/* out */
	__u64 bytes, bytes_limit;		/* out */
	__u64 queues, queues_limit;		/* out */
	__u64 reserved[2];
};
TUTTI_P2P_SIZE(tutti_p2p_usage, 64);

/*
 * The watch page: the client's file at offset 0, one page. The module writes it and never reads
 * it, so that it may also be registered with a device whose code watches "generation". When
 * that word changes, something was lost: stop ringing doorbells at once, then ask for events.
 * "settled" follows when nothing of what was lost is in use any more.
 */
struct tutti_p2p_watch {
	__u64 generation;
	__u64 settled;
	__u64 reserved[6];
};
TUTTI_P2P_SIZE(tutti_p2p_watch, 64);

#define TUTTI_P2P_MMAP_WATCH	0

#define TUTTI_P2P_IOC			0xBA
#define TUTTI_P2P_NEGOTIATE		_IOWR(TUTTI_P2P_IOC, 0x00, struct tutti_p2p_negotiate)
#define TUTTI_P2P_PROVIDER		_IOWR(TUTTI_P2P_IOC, 0x01, struct tutti_p2p_provider)
#define TUTTI_P2P_USAGE			_IOWR(TUTTI_P2P_IOC, 0x02, struct tutti_p2p_usage)
#define TUTTI_P2P_ATTACH		_IOWR(TUTTI_P2P_IOC, 0x10, struct tutti_p2p_attach)
#define TUTTI_P2P_DETACH		_IOW(TUTTI_P2P_IOC, 0x11, struct tutti_p2p_detach)
#define TUTTI_P2P_PIN			_IOWR(TUTTI_P2P_IOC, 0x20, struct tutti_p2p_pin)
#define TUTTI_P2P_RUNS			_IOWR(TUTTI_P2P_IOC, 0x21, struct tutti_p2p_runs)
#define TUTTI_P2P_UNPIN			_IOW(TUTTI_P2P_IOC, 0x22, struct tutti_p2p_unpin)
#define TUTTI_P2P_QUEUE_CREATE		_IOWR(TUTTI_P2P_IOC, 0x30, struct tutti_p2p_queue_create)
#define TUTTI_P2P_QUEUE_DELETE		_IOW(TUTTI_P2P_IOC, 0x31, struct tutti_p2p_queue_delete)
#define TUTTI_P2P_NOTIFY		_IOW(TUTTI_P2P_IOC, 0x40, struct tutti_p2p_notify)
#define TUTTI_P2P_EVENT			_IOWR(TUTTI_P2P_IOC, 0x41, struct tutti_p2p_event)

#endif /* _UAPI_TUTTI_P2P_H */
