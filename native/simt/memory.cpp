/* SPDX-License-Identifier: Apache-2.0
 *
 * What has a history: regions, pages of cells, and how a history ends.
 */
#include "simt/memory.h"
#include "simt/words.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tutti::simt {
namespace {

/* Messages until one is known to all: with kHistory, what bounds the memory and time of a long run. */
constexpr Sequence kWindow = 2048;

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
        message.trace = range.trace;
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

/* ---- what ends ---- */

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
    fences_ = registers_trace_ = 0;
    live_words_ = 0;
    for (Audience &audience : audiences_)
        audience = {};
    register_views_.clear();
    for (auto &[address, entry] : registers_)
        for (Arrival &arrival : entry.arrivals)
            arrival.released.clear();
}

} // namespace tutti::simt
