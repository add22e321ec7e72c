/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands before Python: the thread's last error, and the first and last thing that a process does. The functions
 * of the header follow below, written from its declarations: each calls the Python function of the same name.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* python.c */
const char *tutti_python_start(void);
int tutti_python_alive(void);

static _Thread_local tutti_fault last;

static pthread_once_t begun = PTHREAD_ONCE_INIT, ending = PTHREAD_ONCE_INIT;
static const char *why_not;

static void begin_once(void) {
    why_not = tutti_python_start();
    if (why_not == NULL && cffi_start_python() != 0)
        why_not = "Python started, and tutti_hal did not: see what it printed on standard error";
}

static tutti_status begin(void) {
    last.id[0] = last.text[0] = 0;
    pthread_once(&begun, begin_once);
    if (why_not == NULL)
        return TUTTI_STATUS_OK;
    snprintf(last.id, sizeof last.id, "TT-STORAGE-C-API");
    snprintf(last.text, sizeof last.text, "[TT-STORAGE-C-API] start Python: %s. Build the library again, %s", why_not,
             "with python -m tutti_hal.storage.c_api.");
    return TUTTI_STATUS_INTERNAL;
}

static int32_t py_end(tutti_fault *fault);

static void end_process(void) {
    tutti_fault ignored;
    if (tutti_python_alive())
        py_end(&ignored);
}

static void end_once(void) { atexit(end_process); }

/* A Python function that failed outside of its own care gives 0. */
static tutti_status end(tutti_status status) {
    if (status != TUTTI_STATUS_NOT_RUN)
        return status;
    snprintf(last.id, sizeof last.id, "TT-STORAGE-C-API");
    snprintf(last.text, sizeof last.text, "[TT-STORAGE-C-API] call Python: it gave no status. See standard error.");
    return TUTTI_STATUS_INTERNAL;
}

uint32_t tutti_storage_version(void) { return TUTTI_STORAGE_VERSION; }

const char *tutti_storage_error_id(void) { return last.id; }

const char *tutti_storage_error(void) { return last.text; }
