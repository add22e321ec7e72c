/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a file through the storage runtime and reads it back, from C: kernels on HOST, a software controller over the
 * file. Runs on any machine with a C compiler, Python's headers and a shared libpython.
 *
 *   python -m tutti_hal.storage.c_api out/c
 *   cc examples/storage_roundtrip.c $(PKG_CONFIG_PATH=out/c pkg-config --cflags --libs tutti_storage) -o out/roundtrip
 *   head -c 4M /dev/zero > out/drive.img
 *   out/roundtrip $PWD/out/drive.img
 */
#include "tutti_storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64, PIECE = 4096 };

static void check(tutti_status status) {
    if (status == TUTTI_STATUS_OK)
        return;
    fprintf(stderr, "status %d: %s\n", (int)status, tutti_storage_error());
    exit(1);
}

/* One batch, submitted again where there was no room, until every request has ended well. */
static void run(tutti_runtime runtime, tutti_request *requests, size_t count) {
    while (count > 0) {
        tutti_initial initial[BATCH];
        tutti_result results[BATCH];
        tutti_io io;
        size_t again = 0;

        check(tutti_storage_submit(runtime, requests, sizeof requests[0], count, initial, &io));
        if (io != 0) {
            check(tutti_storage_wait(runtime, io, TUTTI_FOREVER, results, sizeof results[0], BATCH));
            check(tutti_storage_release(runtime, io));
        }
        for (size_t i = 0; i < count; i++) {
            int status = initial[i].status == TUTTI_STATUS_PENDING ? results[i].status : initial[i].status;
            int reason = initial[i].status == TUTTI_STATUS_PENDING ? results[i].reason : initial[i].reason;
            char text[256];

            if (status == TUTTI_STATUS_OK)
                continue;
            if (initial[i].status == TUTTI_STATUS_RESOURCE_EXHAUSTED) {
                requests[again++] = requests[i];
                continue;
            }
            check(tutti_storage_explain(status, reason, text, sizeof text));
            fprintf(stderr, "request %u: %s\n", (unsigned)requests[i].tag, text);
            exit(1);
        }
        count = again;
    }
}

int main(int argc, char **argv) {
    char deployment[4096], uri[4096];
    tutti_config config = {0};
    tutti_runtime runtime;
    tutti_target target;
    tutti_target_info info;
    tutti_memory memory;
    unsigned char *bytes;

    if (argc != 2 || argv[1][0] != '/') {
        fprintf(stderr, "usage: %s /PATH/TO/FILE (4 MiB or more, without holes)\n", argv[0]);
        return 2;
    }
    snprintf(deployment, sizeof deployment,
             "deployment: 1\nprofile: host:threads-w32\ndrives:\n  - {name: d0, kind: software, path: %s}\n", argv[1]);
    config.struct_size = sizeof config;
    config.version = TUTTI_STORAGE_VERSION;
    config.deployment_text = deployment;
    check(tutti_storage_create(&config, &runtime));

    snprintf(uri, sizeof uri, "file://%s", argv[1]);
    check(tutti_storage_open(runtime, uri, &target));
    check(tutti_storage_target_info(runtime, target, &info));
    printf("%llu bytes in blocks of %u\n", (unsigned long long)info.size, (unsigned)info.block);

    /* The first half is sent, the second half receives. */
    bytes = aligned_alloc(PIECE, 2 * BATCH * PIECE);
    if (bytes == NULL)
        return 1;
    for (size_t i = 0; i < BATCH * PIECE; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    check(tutti_storage_register(runtime, TUTTI_HOST_MEMORY, bytes, 2 * BATCH * PIECE,
                                 TUTTI_DRIVE_READS | TUTTI_DRIVE_WRITES, &memory));
    for (int pass = 0; pass < 2; pass++) {
        tutti_request requests[BATCH] = {{0}};

        for (uint32_t i = 0; i < BATCH; i++) {
            requests[i].operation = pass == 0 ? TUTTI_WRITE : TUTTI_READ;
            requests[i].flags = pass == 0 ? TUTTI_DURABLE : 0;
            requests[i].tag = i;
            requests[i].nbytes = PIECE;
            requests[i].memory = memory;
            requests[i].memory_offset = (uint64_t)(pass * BATCH + i) * PIECE;
            requests[i].target = target;
            requests[i].target_offset = (uint64_t)(BATCH - 1 - i) * PIECE;
        }
        run(runtime, requests, BATCH);
    }
    if (memcmp(bytes, bytes + BATCH * PIECE, BATCH * PIECE) != 0) {
        fprintf(stderr, "other bytes came back\n");
        return 1;
    }
    printf("%d bytes written, read back and compared\n", BATCH * PIECE);

    check(tutti_storage_unregister(runtime, &memory, 1));
    check(tutti_storage_close(runtime, target));
    check(tutti_storage_shutdown(runtime, TUTTI_FOREVER));
    free(bytes);
    return 0;
}
