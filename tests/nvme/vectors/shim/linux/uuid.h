/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_LINUX_UUID_H
#define SHIM_LINUX_UUID_H
typedef struct {
    unsigned char b[16];
} uuid_t;
#endif
