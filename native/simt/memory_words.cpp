/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may read which message: loads, stores, atomics, fences and barriers of words.
 */
#include "simt/memory.h"
#include "simt/words.h"

#include <algorithm>

namespace tutti::simt {

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
    message.trace = agent.trace;
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

/* A message that was there before anybody wrote has no writer: its value tells it. */
void Memory::read(Agent &agent, std::uint64_t word, const Message &message, std::uint32_t order, std::uint32_t scope) {
    agent.trace = followed_by(agent.trace, word, message.trace, message.value, order * 4 + scope);
}

std::uint32_t Memory::load_word(Agent &agent, std::uint64_t word, std::uint32_t order, std::uint32_t scope) {
    Cell *cell = find(agent, word);
    if (cell == nullptr) {
        const std::uint32_t value = raw(word);
        agent.trace = followed_by(agent.trace, word, 0, value, order * 4 + scope);
        return value;
    }
    if (hidden_from(agent, *cell)) {
        agent.trace = followed_by(agent.trace, word, cell->outside_value);
        return cell->outside_value;
    }
    const std::size_t newest = cell->messages.size() - 1;
    const std::size_t oldest = oldest_readable(agent, *cell);
    const std::size_t index = newest - pick(agent, word, static_cast<std::uint32_t>(newest - oldest + 1));
    const std::uint32_t value = cell->messages[index].value;
    read(agent, word, cell->messages[index], order, scope);
    observe(agent, *cell, cell->messages[index], order, scope);
    return value;
}

/* Two words at one moment: at any time t both halves are the newest that are not younger than t. */
std::uint64_t Memory::load_pair(Agent &agent, std::uint64_t word, std::uint32_t order, std::uint32_t scope) {
    Cell *cells[2] = {find(agent, word), find(agent, word + 1)};
    if (cells[0] == nullptr && cells[1] == nullptr) {
        const std::uint64_t value = join_halves(raw(word), raw(word + 1));
        agent.trace = followed_by(agent.trace, word, 0, value, order * 4 + scope);
        return value;
    }
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
            agent.trace = followed_by(agent.trace, word + half, 0, halves[half]);
        } else if (hidden_from(agent, *cell)) {
            halves[half] = cell->outside_value;
            agent.trace = followed_by(agent.trace, word + half, halves[half]);
        } else {
            std::size_t index = cell->messages.size() - 1;
            while (index > 0 && cell->messages[index].sequence > moment)
                --index;
            halves[half] = cell->messages[index].value;
            read(agent, word + half, cell->messages[index], order, scope);
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
    agent.trace = followed_by(agent.trace, word, value, order * 4 + scope, cells[0]->messages.back().trace,
                              cells[1] != nullptr ? cells[1]->messages.back().trace : bytes);
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
    agent.trace = followed_by(agent.trace, word, old, cells[0] != nullptr ? cells[0]->messages.back().trace : 0,
                              cells[1] != nullptr ? cells[1]->messages.back().trace : 0, operation * 4 + scope, operand,
                              expected);
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
    fences_ = agent.trace = followed_by(agent.trace, fences_, scope);
    for (std::uint32_t distance = 0; distance <= scope; ++distance) {
        agent.release[distance] = agent.current;
        if (distance != TT_SCOPE_BLOCK && (lane || distance == TT_SCOPE_SYSTEM))
            audiences_[distance - 1].view = agent.current;
    }
}

void Memory::barrier(Agent *const *agents, std::size_t count) {
    View all;
    Trace together = 0;
    for (std::size_t i = 0; i < count; ++i) {
        together += scrambled(agents[i]->trace);
        all.join(agents[i]->current, floor_);
        all.join(agents[i]->acquire[TT_SCOPE_BLOCK], floor_);
    }
    for (std::size_t i = 0; i < count; ++i) {
        agents[i]->current = all;
        agents[i]->acquire[TT_SCOPE_BLOCK].clear();
        agents[i]->release[TT_SCOPE_BLOCK] = all;
        agents[i]->trace = followed_by(agents[i]->trace, together);
    }
}

} // namespace tutti::simt
