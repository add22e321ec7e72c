/* SPDX-License-Identifier: Apache-2.0
 *
 * What passes between a controller and the others: transfers of any length, and device registers.
 */
#include "simt/memory.h"
#include "simt/words.h"

#include <algorithm>
#include <cstring>

namespace tutti::simt {
namespace {

/* A controller's transfer up to this many bytes becomes visible word by word (a CQE can tear), a longer one at once. */
constexpr std::uint64_t kWordwiseBytes = 64;
constexpr std::size_t kArrivals = 65536;

} // namespace

/* ---- a controller's transfers ---- */

void Memory::dma_read(Agent &agent, std::uint64_t address, void *destination, std::uint64_t length) {
    auto *out = static_cast<std::byte *>(destination);
    std::memcpy(out, reinterpret_cast<const void *>(address), length);
    const std::uint64_t last = (address + length - 1) >> 2;
    for (std::uint64_t word = address >> 2; word <= last;) {
        const Page *page = page_of(word);
        const std::uint64_t page_end = (word / kPageWords + 1) * kPageWords;
        if (page == nullptr) {
            word = page_end;
            continue;
        }
        for (; word <= last && word < page_end; ++word) {
            if (page->ranges.empty() && page->cells[word % kPageWords] == nullptr)
                continue;
            const std::uint32_t value = load_word(agent, word, TT_ORDER_RELAXED, TT_SCOPE_SYSTEM);
            const std::uint64_t from = std::max(address, word << 2);
            const std::uint64_t to = std::min(address + length, (word << 2) + 4);
            std::memcpy(out + (from - address), reinterpret_cast<const std::byte *>(&value) + (from & 3), to - from);
        }
    }
}

void Memory::dma_write_word(Agent &agent, std::uint64_t word, std::uint32_t value, Sequence sequence) {
    Cell &cell = make_cell(word);
    Message message;
    message.value = value;
    message.writer = agent.serial;
    message.posted = true;
    message.sequence = sequence;
    message.trace = agent.trace = followed_by(agent.trace, word, value, cell.messages.back().trace);
    for (View &released : message.released)
        released = agent.current;
    append(cell, std::move(message));
}

void Memory::dma_write(Agent &agent, std::uint64_t address, const void *source, std::uint64_t length) {
    expire();
    const auto *in = static_cast<const std::byte *>(source);
    const std::uint64_t end = address + length;
    Sequence sequence = 0;
    for (std::uint64_t at = address; at < end;) {
        const std::uint64_t word = at >> 2;
        const std::uint64_t page_end = (word / kPageWords + 1) * kPageWords * 4;
        const std::uint64_t whole = (std::min(end, page_end) - at) / 4;
        if ((at & 3) == 0 && length > kWordwiseBytes && whole > 1) {
            Range range;
            range.first = static_cast<std::uint32_t>(word % kPageWords);
            range.count = static_cast<std::uint32_t>(whole);
            range.sequence = sequence = next_sequence();
            range.writer = agent.serial;
            for (std::uint64_t i = 0; i < whole; ++i) {
                std::uint32_t value;
                std::memcpy(&value, in + (at - address) + 4 * i, 4);
                agent.trace = followed_by(agent.trace, value);
            }
            range.trace = agent.trace = followed_by(agent.trace, at, whole);
            range.released = agent.current;
            range.before = std::make_unique_for_overwrite<std::uint32_t[]>(whole);
            std::memcpy(range.before.get(), reinterpret_cast<const void *>(at), whole * 4);
            Page &page = make_page(word);
            if (page.cells_live != 0)
                for (std::uint64_t i = 0; i < whole; ++i)
                    if (page.cells[range.first + i] != nullptr) {
                        std::uint32_t value;
                        std::memcpy(&value, in + (at - address) + 4 * i, 4);
                        dma_write_word(agent, word + i, value, sequence);
                    }
            std::memcpy(reinterpret_cast<void *>(at), in + (at - address), whole * 4);
            page.ranges.push_back(std::move(range));
            expiries_.push_back({sequence, word, true});
            at += whole * 4;
            continue;
        }
        const std::uint64_t stop = std::min(end, (word << 2) + 4);
        std::uint32_t value = raw(word);
        std::memcpy(reinterpret_cast<std::byte *>(&value) + (at & 3), in + (at - address), stop - at);
        /* Both halves of an aligned eight bytes that this write covers become visible together. */
        const bool second_half = word % 2 == 1 && sequence != 0 && ((word - 1) << 2) >= address;
        if (!second_half)
            sequence = next_sequence();
        dma_write_word(agent, word, value, sequence);
        at = stop;
    }
}

/* ---- registers ---- */

/* Registers are few, and their order is part of what a device sees: one order for all of them. */
void Memory::touch_register(Agent &agent, std::uint64_t address, std::uint64_t value) {
    registers_trace_ = agent.trace = followed_by(agent.trace, registers_trace_, address, value);
}

void Memory::register_store(Agent &agent, std::uint64_t address, std::uint32_t value, const View &released) {
    touch_register(agent, address, value);
    next_sequence();
    const auto entry = registers_.try_emplace(address, Register{{}, raw(address >> 2)}).first;
    set_raw(address >> 2, value);
    std::deque<Arrival> &arrivals = entry->second.arrivals;
    arrivals.push_back({value, released});
    if (arrivals.size() > kArrivals)
        arrivals.pop_front();
}

std::uint32_t Memory::register_arrived(Agent &agent, std::uint64_t address) {
    touch_register(agent, address, 0);
    const auto found = registers_.find(address);
    if (found == registers_.end())
        return raw(address >> 2);
    auto &[arrivals, seen] = found->second;
    while (!arrivals.empty()) {
        const Arrival arrival = std::move(arrivals.front());
        arrivals.pop_front();
        agent.current.join(arrival.released, floor_);
        if (arrival.value != seen)
            return seen = arrival.value;
    }
    return seen = raw(address >> 2);
}

std::uint32_t Memory::register_load(Agent &agent, std::uint64_t address) {
    touch_register(agent, address, 1);
    if (const auto found = register_views_.find(address); found != register_views_.end())
        agent.acquire[TT_SCOPE_SYSTEM].join(found->second, floor_);
    return raw(address >> 2);
}

void Memory::register_set(Agent &agent, std::uint64_t address, std::uint32_t value) {
    touch_register(agent, address, value);
    next_sequence();
    set_raw(address >> 2, value);
    if (const auto found = registers_.find(address); found != registers_.end())
        found->second.seen = value;
    View released = agent.current;
    released.raise_posted(agent.serial, last_);
    register_views_[address] = std::move(released);
}

} // namespace tutti::simt
