/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of mode `sim`: for each word a history of messages, and rules for which of them an agent may read.
 *
 * Real memory always holds the newest value of each word. A word that has no history is one that every agent agrees on,
 * so history is kept only for what was stored lately: a message becomes known to all when kWindow later ones exist.
 */
#ifndef TUTTI_SIMT_MEMORY_H
#define TUTTI_SIMT_MEMORY_H

#include "simt/agent.h"
#include "simt/view.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace tutti::simt {

/* Where the memory asks which of several messages a read takes: 0 is the newest. */
class ReadChooser {
  public:
    virtual ~ReadChooser() = default;
    virtual std::uint32_t choose_read(Agent &reader, std::uint32_t alternatives) = 0;
};

struct MemoryOptions {
    std::uint32_t staleness_reads = 16;
    bool device_stores_invisible = false;
};

class Memory {
  public:
    Memory(ReadChooser &chooser, Agent &host) : chooser_(chooser), host_(host) {}

    void configure(const MemoryOptions &options) { options_ = options; }
    int map(std::uint64_t base, std::uint64_t length, std::uint32_t kind);
    int unmap(std::uint64_t base);
    /* Memory goes away that was never mapped: the storage of a block. */
    void discard(std::uint64_t base, std::uint64_t length) { forget_words(base >> 2, (base + length + 3) >> 2); }
    std::uint32_t kind_of(std::uint64_t address) const;

    /* ---- words; bytes is 4 or 8, aligned ---- */
    std::uint64_t load(Agent &agent, std::uint64_t address, std::uint32_t bytes, std::uint32_t order,
                       std::uint32_t scope);
    void store(Agent &agent, std::uint64_t address, std::uint64_t value, std::uint32_t bytes, std::uint32_t order,
               std::uint32_t scope);
    std::uint64_t atomic(Agent &agent, std::uint64_t address, std::uint32_t bytes, std::uint32_t operation,
                         std::uint64_t operand, std::uint64_t expected, std::uint32_t scope);
    void fence(Agent &agent, std::uint32_t scope);

    /* ---- a controller's transfers, any address and length ---- */
    void dma_read(Agent &agent, std::uint64_t address, void *destination, std::uint64_t length);
    void dma_write(Agent &agent, std::uint64_t address, const void *source, std::uint64_t length);

    /* ---- device registers ---- */
    void register_store(Agent &agent, std::uint64_t address, std::uint32_t value, const View &released);
    /* What a controller sees: the next value that arrived and that is not the one it saw last, else the current one. So
     * a controller that reads what it knew has nothing left to read. */
    std::uint32_t register_arrived(Agent &agent, std::uint64_t address);
    /* What everybody else sees. */
    std::uint32_t register_load(Agent &agent, std::uint64_t address);
    /* A controller changes a register of its own; nothing arrives. */
    void register_set(Agent &agent, std::uint64_t address, std::uint32_t value);

    /* Values that arrived and that nobody is there to take. */
    void drop_arrivals() { registers_.clear(); }

    /* ---- control ---- */
    void barrier(Agent *const *agents, std::size_t count);
    /* A launch has ended: outside its device its stores may be seen now. */
    void launch_ended(const std::vector<std::uint32_t> &running);
    /* Plain writes that the host made to words with a history become stores of the host agent. */
    void absorb_plain_writes();
    /* Nothing runs: every agent agrees on everything. */
    void forget();
    Sequence floor() const { return floor_; }
    /* Counts appended messages: whether anything changed. */
    Sequence changes() const { return last_; }
    std::uint64_t live_words() const { return live_words_; }

  private:
    struct Message {
        std::uint32_t value = 0;
        std::uint32_t writer = kNobody;
        std::uint32_t writer_block = kNobody;
        std::uint32_t launch = 0; /* of a lane */
        bool by_lane = false;
        bool posted = false;
        Sequence sequence = 0;
        Trace trace = 0;                                       /* of its writer, with this store */
        std::uint64_t published[2] = {UINT64_MAX, UINT64_MAX}; /* in these generations, to device and system */
        View released[3];
    };
    struct Cell {
        std::uint64_t word = 0;
        bool device_memory = false;
        std::uint32_t outside_value = 0; /* quirk: what those outside the device see */
        std::vector<Message> messages;   /* oldest first; never empty */
    };
    /* One transfer over many words of a page that have no history of their own. */
    struct Range {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
        Sequence sequence = 0;
        std::uint32_t writer = kNobody;
        Trace trace = 0;
        View released;
        std::unique_ptr<std::uint32_t[]> before;
    };
    struct Page {
        std::uint32_t cells_live = 0;
        std::unique_ptr<Cell> cells[1024];
        std::deque<Range> ranges;
    };
    struct Expiry {
        Sequence sequence;
        std::uint64_t word; /* of a range: the first word of its page */
        bool range;
    };
    struct Arrival {
        std::uint32_t value;
        View released;
    };
    struct Register {
        std::deque<Arrival> arrivals;
        std::uint32_t seen; /* what its controller read or set last */
    };
    struct Region {
        std::uint64_t length;
        std::uint32_t kind;
    };

    Page *page_of(std::uint64_t word);
    Page &make_page(std::uint64_t word);
    void forget_words(std::uint64_t first, std::uint64_t end);
    void drop_page_if_empty(std::uint64_t word);
    Cell *find(Agent &agent, std::uint64_t word);
    Cell &make_cell(std::uint64_t word);
    void sync_with_memory(Cell &cell);
    Sequence next_sequence();
    static void read(Agent &agent, std::uint64_t word, const Message &message, std::uint32_t order,
                     std::uint32_t scope);
    void touch_register(Agent &agent, std::uint64_t address, std::uint64_t value);
    void append(Cell &cell, Message &&message);
    void expire();
    Message message_of(const Agent &agent, std::uint32_t value, Sequence sequence, std::uint32_t order,
                       std::uint32_t scope) const;
    bool known(const Agent &agent, const Message &message, Sequence lower) const;
    std::size_t oldest_readable(const Agent &agent, const Cell &cell) const;
    std::uint32_t pick(Agent &agent, std::uint64_t word, std::uint32_t alternatives);
    void observe(Agent &agent, const Cell &cell, const Message &message, std::uint32_t order, std::uint32_t scope);
    bool hidden_from(const Agent &agent, const Cell &cell) const;
    std::uint32_t load_word(Agent &agent, std::uint64_t word, std::uint32_t order, std::uint32_t scope);
    std::uint64_t load_pair(Agent &agent, std::uint64_t word, std::uint32_t order, std::uint32_t scope);
    void dma_write_word(Agent &agent, std::uint64_t word, std::uint32_t value, Sequence sequence);

    ReadChooser &chooser_;
    Agent &host_;
    MemoryOptions options_;
    std::map<std::uint64_t, Region> regions_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
    std::vector<std::unique_ptr<Page>> spare_pages_;
    std::uint64_t cached_number_ = UINT64_MAX;
    Page *cached_page_ = nullptr;
    std::unordered_map<std::uint64_t, Register> registers_;
    std::unordered_map<std::uint64_t, View> register_views_;
    Trace fences_ = 0;          /* of the last fence: their order is total */
    Trace registers_trace_ = 0; /* of the last access to any register */
    std::deque<Expiry> expiries_;
    Sequence last_ = 0;
    Sequence floor_ = 0;
    std::uint64_t live_words_ = 0;
    /* What sequentially consistent fences have published, to the device and to the system. */
    struct Audience {
        std::uint64_t generation = 0;
        View view; /* its words are empty: they are in messages' generations */
    };
    void publish(Agent &agent, int audience);
    Audience audiences_[2];
};

} // namespace tutti::simt

#endif
