/* SPDX-License-Identifier: Apache-2.0
 *
 * Acme's device language: masks of 64 bits, a nanosecond clock, a sleep.
 */
#ifndef ACME_RUNTIME_H
#define ACME_RUNTIME_H

#if !defined(__ACMECC__)
#error "acme_runtime.h declares device functions for acmecc"
#endif

#define SIM_MASK_TYPE unsigned long long
#define SIM_MASK_BITS 64
#include "sim_language.h"
#include "sim_wave.h"

#include "acme_runtime_api.h"

SIM_INLINE unsigned long long __acme_activemask() { return tt_host_wave_active(); }
SIM_INLINE unsigned long long __acme_nanoseconds() { return tt_host_clock_ns(); }
/* Relaxed loads and stores that are whole, of 4 or 8 bytes. */
template <class Word> SIM_INLINE Word __acme_load(const Word *word) { return sim_load(word, __ATOMIC_RELAXED); }
template <class Word> SIM_INLINE void __acme_store(Word *word, Word value) { sim_store(word, value, __ATOMIC_RELAXED); }
SIM_INLINE unsigned __acme_lane() { return sim_lane(); }

#endif
