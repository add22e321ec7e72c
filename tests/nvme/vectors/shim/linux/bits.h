/* SPDX-License-Identifier: Apache-2.0
 * The few kernel-only names that include/linux/nvme.h needs to compile in user space. */
#ifndef SHIM_LINUX_BITS_H
#define SHIM_LINUX_BITS_H
#include <endian.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#define BIT(n) (1UL << (n))
#define GENMASK(high, low) ((~0UL >> (63 - (high))) & (~0UL << (low)))
#define struct_group(name, ...)                                                                                        \
    union {                                                                                                            \
        struct {                                                                                                       \
            __VA_ARGS__                                                                                                \
        };                                                                                                             \
        struct {                                                                                                       \
            __VA_ARGS__                                                                                                \
        } name;                                                                                                        \
    }
#define le32_to_cpu(value) le32toh(value)
#define unlikely(value) (value)
#endif
