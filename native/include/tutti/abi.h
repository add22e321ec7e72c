/* SPDX-License-Identifier: Apache-2.0
 *
 * What every header of the C ABI shares: the version, the export mark, the integer types.
 */
#ifndef TUTTI_ABI_H
#define TUTTI_ABI_H

#include <stdint.h>

#define TT_ABI_VERSION 1u
#define TT_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the C ABI that this library implements. Never blocks, cannot fail. */
TT_EXPORT uint32_t tt_abi_version(void);

#ifdef __cplusplus
}
#endif

#endif
