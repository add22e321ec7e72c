// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read the first block of a drive through a queue pair of our own, beside the kernel's driver.
 *
 *	cc -O2 -Wall -I.. -o read_block read_block.c
 *	sudo ./read_block 0000:01:00.0 /dev/nvme0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "uapi/tutti_p2p.h"

#define PAGE	4096
#define ENTRIES	16

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	struct tutti_p2p_negotiate version = { .version_min = 1, .version_max = TUTTI_P2P_VERSION };
	struct tutti_p2p_attach attach = { 0 };
	struct tutti_p2p_queue_create queue = { .sq_entries = ENTRIES, .cq_entries = ENTRIES };
	struct tutti_p2p_run runs[3] = { { 0, 0 } };
	unsigned int domain, bus, slot, function;
	volatile uint32_t *doorbells;
	volatile uint16_t *completion;
	uint64_t places[3];
	uint32_t *command;
	unsigned char *memory;
	double limit;
	int fd;

	if (argc != 3 || sscanf(argv[1], "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) {
		fprintf(stderr, "usage: %s DOMAIN:BUS:SLOT.FUNCTION /dev/nvmeN\n", argv[0]);
		return 2;
	}
	fd = open("/dev/tutti_p2p", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die("/dev/tutti_p2p");
	if (ioctl(fd, TUTTI_P2P_NEGOTIATE, &version))
		die("negotiate");

	attach.domain = domain;
	attach.bus = bus;
	attach.devfn = slot << 3 | function;
	attach.nvme_fd = open(argv[2], O_RDWR | O_CLOEXEC);
	if (attach.nvme_fd < 0)
		die(argv[2]);
	if (ioctl(fd, TUTTI_P2P_ATTACH, &attach)) {
		fprintf(stderr, "refused: %u\n", attach.refused);
		die("attach");
	}
	printf("%s: %u queue pairs granted, %u of the driver, %u left\n", attach.name, attach.queues_granted,
	       attach.queues_stock, attach.queues_spare);

	/*
	 * One page each for the submission ring, the completion ring and the data. Pages need
	 * not touch on the bus.
	 */
	memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		die("memory");
	struct tutti_p2p_pin pin = {
		.provider = TUTTI_P2P_PROVIDER_HOST,
		.address = (uintptr_t)memory,
		.length = 3 * PAGE,
		.fd = -1,
		.nr_controllers = 1,
		.controllers = (uintptr_t)&attach.controller,
	};
	if (ioctl(fd, TUTTI_P2P_PIN, &pin))
		die("pin");
	struct tutti_p2p_runs ask = {
		.pin = pin.pin,
		.controller = attach.controller,
		.capacity = 3,
		.runs = (uintptr_t)runs,
	};
	if (ioctl(fd, TUTTI_P2P_RUNS, &ask))
		die("runs");
	for (uint64_t run = 0, skipped = 0, page = 0; page < 3; page++) {
		while (page * PAGE - skipped >= runs[run].length)
			skipped += runs[run++].length;
		places[page] = runs[run].bus + page * PAGE - skipped;
	}

	queue.controller = attach.controller;
	queue.sq_pin = pin.pin;
	queue.cq_pin = pin.pin;
	queue.cq_offset = PAGE;
	if (ioctl(fd, TUTTI_P2P_QUEUE_CREATE, &queue)) {
		fprintf(stderr, "refused: %u, NVMe status %#x\n", queue.refused, queue.nvme_status);
		die("queue pair");
	}
	doorbells = mmap(NULL, queue.doorbell_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, queue.doorbell_offset);
	if (doorbells == MAP_FAILED)
		die("doorbells");

	/* Read, namespace 1, one block from block 0. */
	command = (uint32_t *)memory;
	command[0] = 0x02;
	command[1] = 1;
	command[6] = (uint32_t)places[2];
	command[7] = places[2] >> 32;
	__sync_synchronize();
	doorbells[queue.sq_doorbell / 4] = 1;

	completion = (volatile uint16_t *)(memory + PAGE);
	for (limit = now() + 5; !(completion[7] & 1) && now() < limit;)
		;
	if (!(completion[7] & 1)) {
		fprintf(stderr, "no completion\n");
		return 1;
	}
	doorbells[queue.cq_doorbell / 4] = 1;
	printf("status %#x, queue id %u:", completion[7] >> 1, queue.qid);
	for (int i = 0; i < 64; i++)
		printf("%s%02x", i % 16 ? " " : "\n  ", memory[2 * PAGE + i]);
	putchar('\n');
	/* Closing the file deletes the queue pair, then lets the memory go. */
	return completion[7] >> 1 ? 1 : 0;
}
