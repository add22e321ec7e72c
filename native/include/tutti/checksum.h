/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C over bytes, for what the host checks: the object store's headers and payloads.
 */
#ifndef TUTTI_CHECKSUM_H
#define TUTTI_CHECKSUM_H

#include <stdint.h>

#include "tutti/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CRC-32C (Castagnoli, reflected, all ones before and after) of `nbytes` bytes, continued from `crc`, which is 0 for
 * the first piece: the sum of a text is that of its pieces one after the other. Thread safe; keeps nothing. */
TT_EXPORT uint32_t tt_crc32c_bytes(uint32_t crc, const void *data, uint64_t nbytes);

#ifdef __cplusplus
}
#endif

#endif
