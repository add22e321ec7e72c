/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the C API that are wrong, each with its status and id on a line of its own. argv: a file that is a drive's
 * image.
 */
#define _DEFAULT_SOURCE 1
#include "tutti_storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SAY(what, call)                                                                                                \
    do {                                                                                                               \
        tutti_status said = (call);                                                                                    \
        const char *id = tutti_storage_error_id();                                                                     \
        printf("%s: %d %s\n", what, (int)said, id[0] ? id : "-");                                                      \
        if (said != TUTTI_STATUS_OK && strncmp(tutti_storage_error() + 1, id, strlen(id)) != 0)                        \
            printf("%s: the text has another id: %s\n", what, tutti_storage_error());                                  \
    } while (0)

enum { PAGE = 4096 };

static char deployment[4096];

static tutti_config sound(void) {
    tutti_config config = {0};
    config.struct_size = sizeof config;
    config.version = TUTTI_STORAGE_VERSION;
    config.deployment_text = deployment;
    return config;
}

static void creation(tutti_runtime *runtime) {
    tutti_config config = sound();

    SAY("create without config", tutti_storage_create(NULL, runtime));
    SAY("create without result", tutti_storage_create(&config, NULL));
    config.struct_size -= 8;
    SAY("create by an older record", tutti_storage_create(&config, runtime));
    config = sound();
    config.version += 1;
    SAY("create by a newer version", tutti_storage_create(&config, runtime));
    config = sound();
    config.deployment_text = NULL;
    SAY("create from nothing", tutti_storage_create(&config, runtime));
    config.deployment_text = config.deployment = "x";
    SAY("create from both", tutti_storage_create(&config, runtime));
    config = sound();
    config.deployment_text = "deployment: 1\ndrivs: []\n";
    SAY("create from wrong YAML", tutti_storage_create(&config, runtime));
    config.deployment_text = "deployment: 1\n# \xff\n";
    SAY("create from no text", tutti_storage_create(&config, runtime));
    config.deployment_text = NULL;
    config.deployment = "/nowhere/at/all.yaml";
    SAY("create from an absent file", tutti_storage_create(&config, runtime));
    config = sound();
    config.deployment_text = "deployment: 1\nprofile: nobody\ndrives:\n  - {name: d, kind: memory, nbytes: 1MiB}\n";
    SAY("create on an absent profile", tutti_storage_create(&config, runtime));
    config = sound();
    config.application_text = "application: 1\ndrives: [d7]\n";
    SAY("create with an absent drive", tutti_storage_create(&config, runtime));
    printf("no handle so far: %d\n", *runtime == 0);
    config = sound();
    SAY("create", tutti_storage_create(&config, runtime));
}

static void memory(tutti_runtime runtime, unsigned char *bytes, tutti_memory *good) {
    tutti_memory handle = 7, twice[2];
    void *none = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *rom = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *host = &handle;
    uint64_t device = 7;

    SAY("register NULL", tutti_storage_register(runtime, 0, NULL, PAGE, 3, &handle));
    printf("its handle: %" PRIu64 "\n", handle);
    SAY("register without result", tutti_storage_register(runtime, 0, bytes, PAGE, 3, NULL));
    SAY("register nothing", tutti_storage_register(runtime, 0, bytes, 0, 3, &handle));
    SAY("register half a page", tutti_storage_register(runtime, 0, bytes, PAGE / 2, 3, &handle));
    SAY("register from inside a page", tutti_storage_register(runtime, 0, bytes + 512, PAGE, 3, &handle));
    SAY("register what is not there", tutti_storage_register(runtime, 0, none, 2 * PAGE, 3, &handle));
    SAY("register what is not writable", tutti_storage_register(runtime, 0, rom, PAGE, 3, &handle));
    SAY("register everything", tutti_storage_register(runtime, 0, bytes, UINT64_MAX - 4095, 3, &handle));
    SAY("register a kind", tutti_storage_register(runtime, 7, bytes, PAGE, 3, &handle));
    SAY("register no access", tutti_storage_register(runtime, 0, bytes, PAGE, 0, &handle));
    SAY("register other access", tutti_storage_register(runtime, 0, bytes, PAGE, 8, &handle));
    SAY("register a device's that is not there", tutti_storage_register(runtime, 1, none, PAGE, 3, &handle));
    SAY("register", tutti_storage_register(runtime, TUTTI_HOST_MEMORY, bytes, 2 * PAGE, 3, good));
    SAY("register twice", tutti_storage_register(runtime, 0, bytes + PAGE, PAGE, 3, &handle));
    SAY("register a device's",
        tutti_storage_register(runtime, TUTTI_DEVICE_MEMORY, bytes + 2 * PAGE, PAGE, 3, &handle));
    SAY("unregister a device's", tutti_storage_unregister(runtime, &handle, 1));
    SAY("unregister it again", tutti_storage_unregister(runtime, &handle, 1));
    SAY("unregister NULL", tutti_storage_unregister(runtime, NULL, 1));
    twice[0] = twice[1] = *good;
    SAY("unregister in two places", tutti_storage_unregister(runtime, twice, 2));
    SAY("unregister none", tutti_storage_unregister(runtime, NULL, 0));
    SAY("allocate without result", tutti_storage_allocate(runtime, 0, PAGE, NULL, NULL, NULL));
    SAY("allocate nothing", tutti_storage_allocate(runtime, 0, 0, &handle, NULL, NULL));
    SAY("allocate everything", tutti_storage_allocate(runtime, 0, UINT64_MAX, &handle, &host, &device));
    printf("left: %d %d %d\n", handle == 0, host == NULL, device == 0);
    SAY("allocate a device's", tutti_storage_allocate(runtime, 1, PAGE, &handle, &host, &device));
    printf("left: %d %d %d\n", handle != 0, host == NULL, device != 0);
    SAY("free", tutti_storage_unregister(runtime, &handle, 1));
    SAY("allocate", tutti_storage_allocate(runtime, 0, PAGE, &handle, &host, &device));
    memset(host, 1, PAGE);
    SAY("free", tutti_storage_unregister(runtime, &handle, 1));
}

static void targets(tutti_runtime runtime, const char *uri, tutti_target *good) {
    const char *uris[] = {uri, "file:///nowhere/at/all", NULL, "raw://d0?size=4KiB"};
    tutti_outcome outcomes[3];
    tutti_target closing[3] = {0, 0, 12345};
    tutti_target_info info;

    SAY("open NULL", tutti_storage_open(runtime, NULL, good));
    SAY("open without result", tutti_storage_open(runtime, uri, NULL));
    SAY("open no text", tutti_storage_open(runtime, "file:///\xff", good));
    SAY("open a scheme", tutti_storage_open(runtime, "ftp://d0", good));
    SAY("open an absent file", tutti_storage_open(runtime, uris[1], good));
    SAY("open a directory", tutti_storage_open(runtime, "file:///tmp", good));
    SAY("open with a NULL among them", tutti_storage_open_batch(runtime, uris, 3, outcomes));
    SAY("open without outcomes", tutti_storage_open_batch(runtime, uris, 2, NULL));
    SAY("open without names", tutti_storage_open_batch(runtime, NULL, 2, outcomes));
    SAY("open millions", tutti_storage_open_batch(runtime, uris, SIZE_MAX, outcomes));
    SAY("open none", tutti_storage_open_batch(runtime, NULL, 0, NULL));
    uris[2] = uris[3];
    SAY("open three", tutti_storage_open_batch(runtime, uris, 3, outcomes));
    for (int i = 0; i < 3; i++)
        printf("item %d: %d %s %d\n", i, (int)outcomes[i].status, outcomes[i].id[0] ? outcomes[i].id : "-",
               outcomes[i].target != 0);
    closing[0] = closing[1] = outcomes[0].target;
    SAY("close three", tutti_storage_close_batch(runtime, closing, 3, outcomes));
    for (int i = 0; i < 3; i++)
        printf("item %d: %d %s\n", i, (int)outcomes[i].status, outcomes[i].id[0] ? outcomes[i].id : "-");
    SAY("close NULL", tutti_storage_close_batch(runtime, NULL, 3, outcomes));
    SAY("close what is closed", tutti_storage_close(runtime, closing[0]));
    SAY("look at what is closed", tutti_storage_target_info(runtime, closing[0], &info));
    SAY("open", tutti_storage_open(runtime, uri, good));
    SAY("look without result", tutti_storage_target_info(runtime, *good, NULL));
}

static void requests(tutti_runtime runtime, tutti_target target, tutti_memory bytes) {
    tutti_request three[3] = {{0}};
    tutti_initial initial[3];
    tutti_result results[3];
    tutti_io io = 7;
    tutti_io_state state;
    size_t count = 7;
    const size_t size = sizeof(tutti_request), end = sizeof(tutti_result);

    for (int i = 0; i < 3; i++) {
        three[i].operation = TUTTI_WRITE;
        three[i].tag = 40 + (uint32_t)i;
        three[i].nbytes = PAGE;
        three[i].memory = bytes;
        three[i].target = target;
    }
    three[0].target = 12345;
    three[1].memory = target; /* another kind */
    SAY("submit without requests", tutti_storage_submit(runtime, NULL, size, 3, initial, &io));
    SAY("submit without initial", tutti_storage_submit(runtime, three, size, 3, NULL, &io));
    SAY("submit without result", tutti_storage_submit(runtime, three, size, 3, initial, NULL));
    SAY("submit other records", tutti_storage_submit(runtime, three, size + 8, 3, initial, &io));
    SAY("submit millions", tutti_storage_submit(runtime, three, size, SIZE_MAX, initial, &io));
    SAY("submit none", tutti_storage_submit(runtime, NULL, size, 0, NULL, &io));
    SAY("submit two bad ones", tutti_storage_submit(runtime, three, size, 2, initial, &io));
    printf("no handle: %d\n", io == 0);
    SAY("submit three", tutti_storage_submit(runtime, three, size, 3, initial, &io));
    for (int i = 0; i < 3; i++)
        printf("request %d: %d %d\n", i, initial[i].status, initial[i].reason);
    SAY("wait without results", tutti_storage_wait(runtime, io, -1, NULL, end, 3));
    SAY("wait for other records", tutti_storage_wait(runtime, io, -1, results, end - 8, 3));
    SAY("wait without room", tutti_storage_wait(runtime, io, -1, results, end, 2));
    SAY("wait for a target", tutti_storage_wait(runtime, target, -1, results, end, 3));
    SAY("wait", tutti_storage_wait(runtime, io, TUTTI_FOREVER, results, end, 3));
    for (int i = 0; i < 3; i++)
        printf("request %d: %d %d %u %d\n", i, results[i].status, results[i].reason, (unsigned)results[i].tag,
               results[i].drive == TUTTI_NO_DRIVE);
    SAY("query without result", tutti_storage_query(runtime, io, NULL));
    SAY("query", tutti_storage_query(runtime, io, &state));
    printf("ended %u, %d of %d\n", (unsigned)state.ended, (int)state.accepted, (int)state.requests);
    SAY("progress", tutti_storage_progress(runtime, SIZE_MAX, &count));
    printf("took %d\n", (int)count);
    SAY("cancel", tutti_storage_cancel(runtime, NULL));
    SAY("recover a drive that is not there", tutti_storage_recover(runtime, "d9"));
    SAY("recover", tutti_storage_recover(runtime, NULL));
    SAY("release", tutti_storage_release(runtime, io));
    SAY("release again", tutti_storage_release(runtime, io));
    SAY("wait after release", tutti_storage_wait(runtime, io, 0, results, end, 3));
}

int main(int argc, char **argv) {
    tutti_runtime runtime = 0, other = 0;
    tutti_memory bytes = 0;
    tutti_target target = 0;
    tutti_config config;
    tutti_result result;
    int32_t state = -1;
    char uri[4096], text[64];
    unsigned char *pages = aligned_alloc(PAGE, 4 * PAGE);

    if (argc != 2)
        return 2;
    snprintf(uri, sizeof uri, "file://%s", argv[1]);
    snprintf(deployment, sizeof deployment,
             "deployment: 1\nprofile: host:threads-w32\ndrives:\n  - {name: d0, kind: software, path: %s}\n", argv[1]);
    SAY("open in no runtime", tutti_storage_open(0, uri, &target));
    SAY("open in any runtime", tutti_storage_open(UINT64_MAX, uri, &target));
    creation(&runtime);
    memory(runtime, pages, &bytes);
    targets(runtime, uri, &target);
    requests(runtime, target, bytes);
    strcpy(deployment,
           "deployment: 1\nprofile: host:threads-w32\ndrives:\n  - {name: m, kind: memory, nbytes: 1MiB}\n");
    config = sound();
    SAY("create another", tutti_storage_create(&config, &other));
    SAY("another's target", tutti_storage_close(other, target));
    SAY("another's memory", tutti_storage_unregister(other, &bytes, 1));
    SAY("explain without text", tutti_storage_explain(1, 0, NULL, 64));
    SAY("explain without room", tutti_storage_explain(1, 0, text, 0));
    SAY("explain no status", tutti_storage_explain(99, 0, text, sizeof text));
    SAY("explain", tutti_storage_explain(TUTTI_STATUS_STALE, TUTTI_REASON_TARGET_MOVED, text, 20));
    printf("cut: %s|\n", text);
    SAY("shut down", tutti_storage_shutdown(runtime, -1));
    SAY("shut down again", tutti_storage_shutdown(runtime, 0));
    SAY("wait after shutdown", tutti_storage_wait(runtime, 5, 0, &result, sizeof result, 1));
    SAY("open after shutdown", tutti_storage_open(runtime, uri, &target));
    SAY("look at it", tutti_storage_state(runtime, &state));
    printf("stopped: %d\n", state == TUTTI_STOPPED);
    SAY("shut down what never was", tutti_storage_shutdown(99, 0));
    SAY("the other one", tutti_storage_state(other, &state));
    printf("running: %d\n", state == TUTTI_RUNNING);
    /* `other` is open when the process ends. */
    free(pages);
    return 0;
}
