/* SPDX-License-Identifier: Apache-2.0
 *
 * Exhaustive exploration: what is remembered from one run of a launch to the next.
 *
 * Two things keep the tree of runs small without leaving anything out. A pre-emption is offered only before a step that
 * may meet another agent's: before any other step it leads to the same as one before the agent's next such step. And a
 * run is cut where it comes to a state that an earlier run came to with as much left of its bounds.
 */
#ifndef TUTTI_SIMT_EXPLORER_H
#define TUTTI_SIMT_EXPLORER_H

#include "simt/trace.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tutti::simt {

/* How a run can end, and the first script that led there. */
struct Ending {
    std::uint32_t outcome = 0;
    std::uint64_t runs = 0;
    std::vector<std::uint32_t> script;
    std::string result;
    std::string message;
};

class Explorer {
  public:
    /* An access to words of memory. True when another agent may touch one of them, too, and one of the two writes. */
    bool meets(std::uint32_t agent, std::uint64_t word, std::uint32_t words, bool writes);
    /* True once a word turned out to be shared that was not known to be: what was explored before must be again. */
    bool learned() const { return learned_; }
    /* True the first time. */
    bool is_new(Trace state) { return met_.insert(state).second; }
    void start_again() {
        met_.clear();
        learned_ = false;
    }
    std::uint64_t states() const { return met_.size(); }

    bool cut = false; /* the run came to a state that was met before */

  private:
    struct Touched {
        std::uint32_t first;
        bool by_others = false;
        bool written = false;
    };
    std::unordered_map<std::uint64_t, Touched> touched_;
    std::unordered_set<Trace> met_;
    bool learned_ = false;
};

} // namespace tutti::simt

#endif
