/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of a C program on one runtime: each writes and reads pages of its own and compares them, and sees its own
 * errors only. Ends with the runtime open. argv: the path of a deployment, of an application.
 */
#include "tutti_storage.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 12, PAGES = 4, PAGE = 4096 };

static tutti_runtime runtime;
static tutti_target target;

static int moved(int operation, tutti_memory memory, int thread) {
    for (;;) {
        tutti_request requests[PAGES] = {{0}};
        tutti_initial initial[PAGES];
        tutti_result results[PAGES];
        tutti_io io;
        int good = 1;

        for (int i = 0; i < PAGES; i++) {
            requests[i].operation = (uint8_t)operation;
            requests[i].nbytes = PAGE;
            requests[i].memory = memory;
            requests[i].memory_offset = (uint64_t)i * PAGE;
            requests[i].target = target;
            requests[i].target_offset = (uint64_t)(thread * PAGES + i) * PAGE;
        }
        if (tutti_storage_submit(runtime, requests, sizeof requests[0], PAGES, initial, &io) != TUTTI_STATUS_OK)
            return 0;
        if (io == 0) {
            if (initial[0].status != TUTTI_STATUS_RESOURCE_EXHAUSTED)
                return 0;
            continue;
        }
        while (tutti_storage_wait(runtime, io, 1000000, results, sizeof results[0], PAGES) == TUTTI_STATUS_TIMEOUT)
            if (strcmp(tutti_storage_error_id(), "TT-STORAGE-TIMEOUT") != 0)
                return 0;
        for (int i = 0; i < PAGES; i++)
            good = good && results[i].status == TUTTI_STATUS_OK;
        return good && tutti_storage_release(runtime, io) == TUTTI_STATUS_OK;
    }
}

static void *work(void *given) {
    int thread = *(int *)given;
    unsigned char *bytes = aligned_alloc(PAGE, PAGES * PAGE);
    unsigned char *copy = malloc(PAGES * PAGE);
    tutti_memory memory;
    const char *why = NULL;

    if (tutti_storage_register(runtime, TUTTI_HOST_MEMORY, bytes, PAGES * PAGE, 3, &memory) != TUTTI_STATUS_OK)
        return "register";
    for (int round = 0; round < ROUNDS && why == NULL; round++) {
        for (int i = 0; i < PAGES * PAGE; i++)
            bytes[i] = (unsigned char)(i * 31 + i / PAGE + thread * 7 + round);
        memcpy(copy, bytes, PAGES * PAGE);
        if (!moved(TUTTI_WRITE, memory, thread))
            why = "write";
        memset(bytes, 0xEE, PAGES * PAGE);
        if (why == NULL && (!moved(TUTTI_READ, memory, thread) || memcmp(bytes, copy, PAGES * PAGE) != 0))
            why = "read";
        /* Even threads fail in each round, odd ones never: none sees another's error. */
        if (why == NULL && thread % 2 == 0 &&
            (tutti_storage_release(runtime, 1) != TUTTI_STATUS_NOT_FOUND ||
             strcmp(tutti_storage_error_id(), "TT-STORAGE-HANDLE") != 0))
            why = "error";
        if (why == NULL && thread % 2 == 1 && tutti_storage_error_id()[0] != 0)
            why = "another's error";
    }
    if (why == NULL && tutti_storage_unregister(runtime, &memory, 1) != TUTTI_STATUS_OK)
        why = "unregister";
    free(bytes);
    free(copy);
    return (void *)why;
}

int main(int argc, char **argv) {
    tutti_config config = {0};
    pthread_t threads[THREADS];
    int numbers[THREADS], failed = 0;

    if (argc != 3)
        return 2;
    config.struct_size = sizeof config;
    config.version = TUTTI_STORAGE_VERSION;
    config.deployment = argv[1];
    config.application = argv[2];
    if (tutti_storage_create(&config, &runtime) != TUTTI_STATUS_OK ||
        tutti_storage_open(runtime, "striped://a,b?unit=4KiB", &target) != TUTTI_STATUS_OK) {
        fprintf(stderr, "%s\n", tutti_storage_error());
        return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        void *why;
        pthread_join(threads[i], &why);
        if (why != NULL)
            printf("thread %d: %s\n", i, (const char *)why);
        failed += why != NULL;
    }
    printf("%d threads, %d failed\n", THREADS, failed);
    return failed != 0;
}
