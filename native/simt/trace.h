/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces: a number for all that an agent did and saw. Two runs in which every agent has the same trace have done the
 * same, but for the order of what does not depend on one another; what can come next is then the same, too, as far as
 * it does not depend on the clock.
 */
#ifndef TUTTI_SIMT_TRACE_H
#define TUTTI_SIMT_TRACE_H

#include <cstdint>

namespace tutti::simt {

using Trace = std::uint64_t;

/* Scrambles well: traces are compared for equality only. */
inline Trace scrambled(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/* What comes after `trace`. Order counts. */
template <class... More> Trace followed_by(Trace trace, std::uint64_t value, More... more) {
    const Trace next = scrambled(trace * 0x9e3779b97f4a7c15u + value + 0x632be59bd9b4e019u);
    if constexpr (sizeof...(more) == 0)
        return next;
    else
        return followed_by(next, static_cast<std::uint64_t>(more)...);
}

} // namespace tutti::simt

#endif
