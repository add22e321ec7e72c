/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/view.h"

#include <algorithm>

namespace tutti::simt {
namespace {

template <class Entries> auto find(Entries &entries, std::uint64_t key) {
    return std::lower_bound(entries.begin(), entries.end(), key,
                            [](const auto &entry, std::uint64_t wanted) { return entry.key < wanted; });
}

} // namespace

Sequence View::of(std::uint64_t word) const {
    if (data_ == nullptr)
        return 0;
    const auto at = find(data_->words, word);
    return at != data_->words.end() && at->key == word ? at->sequence : 0;
}

Sequence View::of_posted(std::uint32_t controller) const {
    if (data_ != nullptr)
        for (const Entry &entry : data_->posted)
            if (entry.key == controller)
                return entry.sequence;
    return 0;
}

View::Data &View::own(Sequence floor) {
    if (data_ == nullptr) {
        data_ = new Data;
    } else if (data_->references > 1) {
        Data *copy = new Data;
        copy->words.reserve(data_->words.size() + 1);
        for (const Entry &entry : data_->words)
            if (entry.sequence > floor)
                copy->words.push_back(entry);
        copy->posted = data_->posted;
        --data_->references;
        data_ = copy;
    }
    return *data_;
}

void View::raise(std::uint64_t word, Sequence sequence, Sequence floor) {
    if (sequence <= floor || of(word) >= sequence)
        return;
    std::vector<Entry> &words = own(floor).words;
    const auto at = find(words, word);
    if (at != words.end() && at->key == word)
        at->sequence = sequence;
    else
        words.insert(at, {word, sequence});
}

void View::raise_posted(std::uint32_t controller, Sequence sequence) {
    if (of_posted(controller) >= sequence)
        return;
    std::vector<Entry> &posted = own(0).posted;
    for (Entry &entry : posted)
        if (entry.key == controller) {
            entry.sequence = sequence;
            return;
        }
    posted.push_back({controller, sequence});
}

const std::vector<View::Entry> &View::words() const {
    static const std::vector<Entry> none;
    return data_ != nullptr ? data_->words : none;
}

void View::clear_words() {
    if (data_ == nullptr || data_->words.empty())
        return;
    if (data_->posted.empty()) {
        drop();
        data_ = nullptr;
    } else if (data_->references > 1) {
        Data *fresh = new Data;
        fresh->posted = data_->posted;
        --data_->references;
        data_ = fresh;
    } else {
        data_->words.clear();
    }
}

void View::join(const View &other, Sequence floor) {
    raise_generation(0, other.generations_[0]);
    raise_generation(1, other.generations_[1]);
    if (other.data_ == nullptr || other.data_ == data_)
        return;
    if (data_ == nullptr) {
        data_ = other.data_;
        ++data_->references;
        return;
    }
    for (const Entry &entry : other.data_->posted)
        raise_posted(static_cast<std::uint32_t>(entry.key), entry.sequence);
    const std::vector<Entry> &theirs = other.data_->words;
    bool news = false;
    {
        auto mine = data_->words.begin();
        const auto end = data_->words.end();
        for (const Entry &entry : theirs) {
            if (entry.sequence <= floor)
                continue;
            while (mine != end && mine->key < entry.key)
                ++mine;
            if (mine == end || mine->key != entry.key || mine->sequence < entry.sequence) {
                news = true;
                break;
            }
        }
    }
    if (!news)
        return;
    std::vector<Entry> merged;
    merged.reserve(data_->words.size() + theirs.size());
    auto left = data_->words.begin();
    auto right = theirs.begin();
    while (left != data_->words.end() || right != theirs.end()) {
        Entry entry{};
        if (right == theirs.end() || (left != data_->words.end() && left->key < right->key)) {
            entry = *left++;
        } else if (left == data_->words.end() || right->key < left->key) {
            entry = *right++;
        } else {
            entry = {left->key, std::max(left->sequence, right->sequence)};
            ++left;
            ++right;
        }
        if (entry.sequence > floor)
            merged.push_back(entry);
    }
    if (data_->references > 1) {
        Data *fresh = new Data;
        fresh->posted = data_->posted;
        --data_->references;
        data_ = fresh;
    }
    data_->words = std::move(merged);
}

} // namespace tutti::simt
