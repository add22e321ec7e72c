/* SPDX-License-Identifier: Apache-2.0
 *
 * MACA's device language as the simulated SDK has it. Sources: the public ports of TVM, PyTorch and Mooncake to MACA
 * (64 lanes, lane masks of 64 bits), and their notes on what the language lacks. No __nanosleep, no __trap, no
 * __byte_perm and no atomics of system scope were found in any public use; no inline PTX.
 */
#ifndef MC_RUNTIME_H
#define MC_RUNTIME_H

#if !defined(__MACACC__)
#error "mc_runtime.h declares device functions for mxcc"
#endif

#define SIM_MASK_TYPE unsigned long long
#define SIM_MASK_BITS 64
#include "sim_language.h"
#include "sim_wave.h"

#if __has_include("mcr/mc_runtime_api.h")
#include "mcr/mc_runtime_api.h"
#endif

SIM_INLINE unsigned long long __activemask() { return tt_host_wave_active(); }
template <class T> SIM_INLINE T __ldg(const T *word) { return *word; }

#endif
