/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tutti::simt {
namespace {

/* Messages until one is known to all, and messages of one word that are kept: what bounds the memory and time of a long
 * run. Litmus shapes have far fewer. */
constexpr Sequence kWindow = 2048;
constexpr std::size_t kHistory = 16;
constexpr std::size_t kPageWords = 1024;
/* A controller's transfer up to this many bytes becomes visible word by word (a CQE can tear), a longer one at once. */
constexpr std::uint64_t kWordwiseBytes = 64;
constexpr std::size_t kArrivals = 65536;

using AnyWord = std::uint32_t __attribute__((may_alias));

std::uint32_t raw(std::uint64_t word) {
    return __atomic_load_n(reinterpret_cast<const AnyWord *>(word << 2), __ATOMIC_RELAXED);
}
void set_raw(std::uint64_t word, std::uint32_t value) {
    __atomic_store_n(reinterpret_cast<AnyWord *>(word << 2), value, __ATOMIC_RELAXED);
}
std::uint32_t low_half(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high_half(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
std::uint64_t join_halves(std::uint32_t low, std::uint32_t high) {
    return low | static_cast<std::uint64_t>(high) << 32;
}

} // namespace

/* ---- regions ---- */

int Memory::map(std::uint64_t base, std::uint64_t length, std::uint32_t kind) {
    if (length == 0 || base + length < base || kind > TT_MEM_MMIO)
        return EINVAL;
    const auto next = regions_.lower_bound(base);
    if (next != regions_.end() && next->first < base + length)
        return EEXIST;
    if (next != regions_.begin()) {
        const auto &[start, region] = *std::prev(next);
        if (start + region.length > base)
            return EEXIST;
    }
    regions_.emplace(base, Region{length, kind});
    return 0;
}

int Memory::unmap(std::uint64_t base) {
    const auto region = regions_.find(base);
    if (region == regions_.end())
        return EINVAL;
    forget_words(base >> 2, (base + region->second.length + 3) >> 2);
    regions_.erase(region);
    return 0;
}

/* The memory may be gone afterwards: nothing of it may be looked at again. */
void Memory::forget_words(std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t start = first; start < end; start = (start / kPageWords + 1) * kPageWords) {
        Page *page = page_of(start);
        if (page == nullptr)
            continue;
        const std::uint64_t page_start = start / kPageWords * kPageWords;
        const std::uint64_t low = start - page_start;
        const std::uint64_t high = std::min<std::uint64_t>(end - page_start, kPageWords);
        for (std::uint64_t offset = low; offset < high; ++offset)
            if (page->cells[offset] != nullptr) {
                page->cells[offset].reset();
                --page->cells_live;
                --live_words_;
            }
        std::erase_if(page->ranges, [low, high](const Range &range) {
            return range.first >= low && range.first + range.count <= high;
        });
        drop_page_if_empty(start);
    }
}

std::uint32_t Memory::kind_of(std::uint64_t address) const {
    auto next = regions_.upper_bound(address);
    if (next == regions_.begin())
        return TT_MEM_DEVICE;
    --next;
    return address - next->first < next->second.length ? next->second.kind : std::uint32_t{TT_MEM_DEVICE};
}

/* ---- pages, cells, and how they end ---- */

Memory::Page *Memory::page_of(std::uint64_t word) {
    const std::uint64_t number = word / kPageWords;
    if (number != cached_number_) {
        const auto found = pages_.find(number);
        if (found == pages_.end())
            return nullptr;
        cached_number_ = number;
        cached_page_ = found->second.get();
    }
    return cached_page_;
}

Memory::Page &Memory::make_page(std::uint64_t word) {
    if (Page *page = page_of(word); page != nullptr)
        return *page;
    std::unique_ptr<Page> page;
    if (spare_pages_.empty()) {
        page = std::make_unique<Page>();
    } else {
        page = std::move(spare_pages_.back());
        spare_pages_.pop_back();
    }
    cached_number_ = word / kPageWords;
    cached_page_ = page.get();
    pages_.emplace(cached_number_, std::move(page));
    return *cached_page_;
}

void Memory::drop_page_if_empty(std::uint64_t word) {
    const Page *page = page_of(word);
    if (page == nullptr || page->cells_live != 0 || !page->ranges.empty())
        return;
    const auto found = pages_.find(word / kPageWords);
    spare_pages_.push_back(std::move(found->second));
    pages_.erase(found);
    cached_number_ = UINT64_MAX;
    cached_page_ = nullptr;
}

Sequence Memory::next_sequence() {
    ++last_;
    if (last_ > kWindow)
        floor_ = std::max(floor_, last_ - kWindow);
    return last_;
}

void Memory::expire() {
    while (!expiries_.empty() && expiries_.front().sequence <= floor_) {
        const Expiry expiry = expiries_.front();
        expiries_.pop_front();
        Page *page = page_of(expiry.word);
        if (page == nullptr)
            continue;
        if (expiry.range) {
            while (!page->ranges.empty() && page->ranges.front().sequence <= floor_)
                page->ranges.pop_front();
        } else if (std::unique_ptr<Cell> &cell = page->cells[expiry.word % kPageWords]; cell != nullptr) {
            std::vector<Message> &messages = cell->messages;
            std::size_t keep = messages.size() - 1;
            while (keep > 0 && messages[keep].sequence > floor_)
                --keep;
            messages.erase(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(keep));
            if (messages.size() == 1 && messages[0].sequence <= floor_ && !cell->device_memory) {
                sync_with_memory(*cell);
                if (messages.size() == 1) {
                    cell.reset();
                    --page->cells_live;
                    --live_words_;
                }
            }
        }
        drop_page_if_empty(expiry.word);
    }
}

Memory::Cell &Memory::make_cell(std::uint64_t word) {
    Page &page = make_page(word);
    const auto offset = static_cast<std::uint32_t>(word % kPageWords);
    if (page.cells[offset] != nullptr) {
        sync_with_memory(*page.cells[offset]);
        return *page.cells[offset];
    }
    auto cell = std::make_unique<Cell>();
    cell->word = word;
    cell->device_memory = options_.device_stores_invisible && kind_of(word << 2) == std::uint32_t{TT_MEM_DEVICE};
    cell->messages.reserve(4);
    cell->messages.emplace_back();
    Message *before = &cell->messages.back();
    for (const Range &range : page.ranges) {
        if (offset < range.first || offset - range.first >= range.count)
            continue;
        before->value = range.before[offset - range.first];
        Message message;
        message.writer = range.writer;
        message.posted = true;
        message.sequence = range.sequence;
        for (View &released : message.released)
            released = range.released;
        cell->messages.push_back(std::move(message));
        before = &cell->messages.back();
    }
    before->value = raw(word);
    cell->outside_value = before->value;
    if (cell->messages.size() > 1)
        expiries_.push_back({last_, word, false});
    page.cells[offset] = std::move(cell);
    ++page.cells_live;
    ++live_words_;
    return *page.cells[offset];
}

Memory::Cell *Memory::find(Agent &agent, std::uint64_t word) {
    Page *page = page_of(word);
    if (page == nullptr)
        return nullptr;
    const auto offset = static_cast<std::uint32_t>(word % kPageWords);
    if (Cell *cell = page->cells[offset].get(); cell != nullptr) {
        sync_with_memory(*cell);
        return cell;
    }
    for (auto range = page->ranges.rbegin(); range != page->ranges.rend(); ++range)
        if (offset >= range->first && offset - range->first < range->count) {
            const bool all_known = range->writer == agent.serial || range->sequence <= floor_ ||
                                   agent.current.of_posted(range->writer) >= range->sequence;
            return all_known ? nullptr : &make_cell(word);
        }
    return nullptr;
}

/* The host may write words that it owns without telling the engine: such a write counts as a store of the host. */
void Memory::sync_with_memory(Cell &cell) {
    const std::uint32_t value = raw(cell.word);
    if (value == cell.messages.back().value)
        return;
    Message message = message_of(host_, value, next_sequence(), TT_ORDER_RELEASE, TT_SCOPE_SYSTEM);
    host_.current.raise(cell.word, message.sequence, floor_);
    append(cell, std::move(message));
}

void Memory::absorb_plain_writes() {
    for (const auto &[number, page] : pages_)
        for (const auto &cell : page->cells)
            if (cell != nullptr)
                sync_with_memory(*cell);
}

void Memory::append(Cell &cell, Message &&message) {
    set_raw(cell.word, message.value);
    if (!message.by_lane)
        cell.outside_value = message.value;
    expiries_.push_back({message.sequence, cell.word, false});
    cell.messages.push_back(std::move(message));
    if (cell.messages.size() > kHistory)
        cell.messages.erase(cell.messages.begin());
}

/* ---- who may read what ---- */

Memory::Message Memory::message_of(const Agent &agent, std::uint32_t value, Sequence sequence, std::uint32_t order,
                                   std::uint32_t scope) const {
    Message message;
    message.value = value;
    message.writer = agent.serial;
    message.writer_block = agent.block;
    message.launch = agent.launch;
    message.by_lane = agent.kind == AgentKind::lane;
    message.sequence = sequence;
    for (std::uint32_t distance = 0; distance <= scope; ++distance)
        message.released[distance] = order == TT_ORDER_RELEASE ? agent.current : agent.release[distance];
    return message;
}

bool Memory::known(const Agent &agent, const Message &message, Sequence lower) const {
    return message.sequence <= lower || message.sequence <= floor_ ||
           message.published[0] <= agent.current.generation(0) || message.published[1] <= agent.current.generation(1) ||
           (message.posted &&
            (message.writer == agent.serial || agent.current.of_posted(message.writer) >= message.sequence));
}

std::size_t Memory::oldest_readable(const Agent &agent, const Cell &cell) const {
    const Sequence lower = agent.current.of(cell.word);
    std::size_t index = cell.messages.size() - 1;
    while (index > 0 && !known(agent, cell.messages[index], lower))
        --index;
    return index;
}

std::uint32_t Memory::pick(Agent &agent, std::uint64_t word, std::uint32_t alternatives) {
    if (alternatives <= 1)
        return 0;
    const auto stale =
        std::find_if(agent.stale.begin(), agent.stale.end(), [word](const auto &entry) { return entry.first == word; });
    std::uint32_t choice = 0;
    if (stale == agent.stale.end() || stale->second < options_.staleness_reads)
        choice = chooser_.choose_read(agent, alternatives);
    if (choice == 0) {
        if (stale != agent.stale.end())
            agent.stale.erase(stale);
    } else if (stale != agent.stale.end()) {
        ++stale->second;
    } else {
        agent.stale.emplace_back(word, 1u);
    }
    return choice;
}

void Memory::observe(Agent &agent, const Cell &cell, const Message &message, std::uint32_t order, std::uint32_t scope) {
    if (message.sequence <= floor_)
        return; /* all that it releases is known to all */
    if (!known(agent, message, 0))
        agent.current.raise(cell.word, message.sequence, floor_);
    if (message.writer == agent.serial)
        return;
    std::uint32_t distance = TT_SCOPE_SYSTEM;
    if (message.by_lane && agent.kind == AgentKind::lane)
        distance = message.writer_block == agent.block ? TT_SCOPE_BLOCK : TT_SCOPE_DEVICE;
    if (distance > scope)
        return;
    View &into = order == TT_ORDER_ACQUIRE ? agent.current : agent.acquire[distance];
    into.join(message.released[distance], floor_);
    if (message.posted)
        into.raise_posted(message.writer, message.sequence);
}

bool Memory::hidden_from(const Agent &agent, const Cell &cell) const {
    return cell.device_memory && agent.kind != AgentKind::lane;
}

/* ---- loads ---- */

std::uint32_t Memory::load_word(Agent &agent, std::uint64_t word, std::uint32_t order, std::uint32_t scope) {
    Cell *cell = find(agent, word);
    if (cell == nullptr)
        return raw(word);
    if (hidden_from(agent, *cell))
        return cell->outside_value;
    const std::size_t newest = cell->messages.size() - 1;
    const std::size_t oldest = oldest_readable(agent, *cell);
    const std::size_t index = newest - pick(agent, word, static_cast<std::uint32_t>(newest - oldest + 1));
    const std::uint32_t value = cell->messages[index].value;
    observe(agent, *cell, cell->messages[index], order, scope);
    return value;
}

/* Two words at one moment: at any time t both halves are the newest that are not younger than t. */
std::uint64_t Memory::load_pair(Agent &agent, std::uint64_t word, std::uint32_t order, std::uint32_t scope) {
    Cell *cells[2] = {find(agent, word), find(agent, word + 1)};
    if (cells[0] == nullptr && cells[1] == nullptr)
        return join_halves(raw(word), raw(word + 1));
    Sequence earliest = 0;
    for (const Cell *cell : cells)
        if (cell != nullptr && !hidden_from(agent, *cell))
            earliest = std::max(earliest, cell->messages[oldest_readable(agent, *cell)].sequence);
    Sequence moments[2 * kHistory + 2];
    std::size_t count = 0;
    moments[count++] = earliest;
    for (const Cell *cell : cells)
        if (cell != nullptr)
            for (const Message &message : cell->messages)
                if (message.sequence > earliest)
                    moments[count++] = message.sequence;
    std::sort(moments, moments + count, std::greater<>());
    count = static_cast<std::size_t>(std::unique(moments, moments + count) - moments);
    const Sequence moment = moments[pick(agent, word, static_cast<std::uint32_t>(count))];
    std::uint32_t halves[2];
    for (std::uint32_t half = 0; half < 2; ++half) {
        const Cell *cell = cells[half];
        if (cell == nullptr) {
            halves[half] = raw(word + half);
        } else if (hidden_from(agent, *cell)) {
            halves[half] = cell->outside_value;
        } else {
            std::size_t index = cell->messages.size() - 1;
            while (index > 0 && cell->messages[index].sequence > moment)
                --index;
            halves[half] = cell->messages[index].value;
            observe(agent, *cell, cell->messages[index], order, scope);
        }
    }
    return join_halves(halves[0], halves[1]);
}

std::uint64_t Memory::load(Agent &agent, std::uint64_t address, std::uint32_t bytes, std::uint32_t order,
                           std::uint32_t scope) {
    return bytes == 8 ? load_pair(agent, address >> 2, order, scope) : load_word(agent, address >> 2, order, scope);
}

/* ---- stores and atomics ---- */

void Memory::store(Agent &agent, std::uint64_t address, std::uint64_t value, std::uint32_t bytes, std::uint32_t order,
                   std::uint32_t scope) {
    expire();
    const std::uint64_t word = address >> 2;
    Cell *cells[2] = {&make_cell(word), bytes == 8 ? &make_cell(word + 1) : nullptr};
    const Sequence sequence = next_sequence();
    for (std::uint32_t half = 0; half < bytes / 4; ++half)
        agent.current.raise(word + half, sequence, floor_);
    append(*cells[0], message_of(agent, low_half(value), sequence, order, scope));
    if (cells[1] != nullptr)
        append(*cells[1], message_of(agent, high_half(value), sequence, order, scope));
}

std::uint64_t Memory::atomic(Agent &agent, std::uint64_t address, std::uint32_t bytes, std::uint32_t operation,
                             std::uint64_t operand, std::uint64_t expected, std::uint32_t scope) {
    expire();
    const std::uint64_t word = address >> 2;
    Cell *cells[2] = {find(agent, word), bytes == 8 ? find(agent, word + 1) : nullptr};
    const std::uint64_t old = join_halves(raw(word), bytes == 8 ? raw(word + 1) : 0);
    std::uint64_t desired = operand;
    if (operation == TT_ATOMIC_ADD)
        desired = bytes == 8 ? old + operand : low_half(old + operand);
    else if (operation == TT_ATOMIC_OR)
        desired = old | operand;
    for (const Cell *cell : cells)
        if (cell != nullptr)
            observe(agent, *cell, cell->messages.back(), TT_ORDER_RELAXED, scope);
    if (operation == TT_ATOMIC_CAS && old != expected)
        return old;
    cells[0] = &make_cell(word);
    if (bytes == 8)
        cells[1] = &make_cell(word + 1);
    const Sequence sequence = next_sequence();
    const std::uint32_t halves[2] = {low_half(desired), high_half(desired)};
    for (std::uint32_t half = 0; half < bytes / 4; ++half) {
        Message message = message_of(agent, halves[half], sequence, TT_ORDER_RELAXED, scope);
        /* Whoever reads this reads on behalf of what it replaced, too: a release sequence. */
        const Message &previous = cells[half]->messages.back();
        for (std::uint32_t distance = 0; distance <= scope; ++distance)
            message.released[distance].join(previous.released[distance], floor_);
        if (previous.posted)
            message.released[TT_SCOPE_SYSTEM].raise_posted(previous.writer, previous.sequence);
        agent.current.raise(word + half, sequence, floor_);
        append(*cells[half], std::move(message));
    }
    return old;
}

/* ---- fences and barriers ---- */

/* Marks what the agent knows word by word as known to all who fence for this audience from now on. */
void Memory::publish(Agent &agent, int audience) {
    Audience &all = audiences_[audience];
    const std::uint64_t generation = all.generation + 1;
    bool news = false;
    for (const View::Entry &entry : agent.current.words()) {
        const Page *page = entry.sequence > floor_ ? page_of(entry.key) : nullptr;
        Cell *cell = page != nullptr ? page->cells[entry.key % kPageWords].get() : nullptr;
        if (cell == nullptr)
            continue;
        for (auto message = cell->messages.rbegin(); message != cell->messages.rend(); ++message)
            if (message->sequence <= entry.sequence) {
                if (message->sequence == entry.sequence && message->published[audience] > generation) {
                    message->published[audience] = generation;
                    news = true;
                }
                break;
            }
    }
    if (news)
        all.generation = generation;
    agent.current.raise_generation(audience, all.generation);
}

void Memory::fence(Agent &agent, std::uint32_t scope) {
    const bool lane = agent.kind == AgentKind::lane;
    for (std::uint32_t distance = 0; distance <= scope; ++distance) {
        agent.current.join(agent.acquire[distance], floor_);
        agent.acquire[distance].clear();
    }
    if (lane)
        agent.current.join(agent.sim_block->sc, floor_);
    for (std::uint32_t distance = 1; distance <= scope; ++distance)
        if (lane || distance == TT_SCOPE_SYSTEM) {
            const int audience = static_cast<int>(distance) - 1;
            agent.current.join(audiences_[audience].view, floor_);
            publish(agent, audience);
        }
    if (scope != TT_SCOPE_BLOCK)
        agent.current.clear_words();
    if (lane)
        agent.sim_block->sc = agent.current;
    for (std::uint32_t distance = 0; distance <= scope; ++distance) {
        agent.release[distance] = agent.current;
        if (distance != TT_SCOPE_BLOCK && (lane || distance == TT_SCOPE_SYSTEM))
            audiences_[distance - 1].view = agent.current;
    }
}

void Memory::barrier(Agent *const *agents, std::size_t count) {
    View all;
    for (std::size_t i = 0; i < count; ++i) {
        all.join(agents[i]->current, floor_);
        all.join(agents[i]->acquire[TT_SCOPE_BLOCK], floor_);
    }
    for (std::size_t i = 0; i < count; ++i) {
        agents[i]->current = all;
        agents[i]->acquire[TT_SCOPE_BLOCK].clear();
        agents[i]->release[TT_SCOPE_BLOCK] = all;
    }
}

void Memory::launch_ended(const std::vector<std::uint32_t> &running) {
    if (!options_.device_stores_invisible)
        return;
    for (const auto &[number, page] : pages_)
        for (const auto &cell : page->cells) {
            if (cell == nullptr)
                continue;
            for (auto message = cell->messages.rbegin(); message != cell->messages.rend(); ++message)
                if (!message->by_lane || std::find(running.begin(), running.end(), message->launch) == running.end()) {
                    cell->outside_value = message->value;
                    break;
                }
        }
}

void Memory::forget() {
    for (auto &[number, page] : pages_) {
        if (spare_pages_.size() < 64) {
            for (auto &cell : page->cells)
                cell.reset();
            page->ranges.clear();
            page->cells_live = 0;
            spare_pages_.push_back(std::move(page));
        }
    }
    pages_.clear();
    cached_number_ = UINT64_MAX;
    cached_page_ = nullptr;
    expiries_.clear();
    floor_ = last_;
    live_words_ = 0;
    for (Audience &audience : audiences_)
        audience = {};
    register_views_.clear();
    for (auto &[address, entry] : registers_)
        for (Arrival &arrival : entry.arrivals)
            arrival.released.clear();
}

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

void Memory::register_store(Agent &agent, std::uint64_t address, std::uint32_t value, const View &released) {
    static_cast<void>(agent);
    next_sequence();
    const auto entry = registers_.try_emplace(address, Register{{}, raw(address >> 2)}).first;
    set_raw(address >> 2, value);
    std::deque<Arrival> &arrivals = entry->second.arrivals;
    arrivals.push_back({value, released});
    if (arrivals.size() > kArrivals)
        arrivals.pop_front();
}

std::uint32_t Memory::register_arrived(Agent &agent, std::uint64_t address) {
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
    if (const auto found = register_views_.find(address); found != register_views_.end())
        agent.acquire[TT_SCOPE_SYSTEM].join(found->second, floor_);
    return raw(address >> 2);
}

void Memory::register_set(Agent &agent, std::uint64_t address, std::uint32_t value) {
    next_sequence();
    set_raw(address >> 2, value);
    if (const auto found = registers_.find(address); found != registers_.end())
        found->second.seen = value;
    View released = agent.current;
    released.raise_posted(agent.serial, last_);
    register_views_[address] = std::move(released);
}

} // namespace tutti::simt
