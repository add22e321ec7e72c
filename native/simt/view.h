/* SPDX-License-Identifier: Apache-2.0
 *
 * A view: for each word the oldest message that its owner may still read. Copied by reference, cloned on write.
 */
#ifndef TUTTI_SIMT_VIEW_H
#define TUTTI_SIMT_VIEW_H

#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::simt {

/* Messages are numbered in the order in which they are appended, over all words: 0 is before all of them. */
using Sequence = std::uint64_t;

class View {
  public:
    View() = default;
    View(const View &other) : data_(other.data_) {
        if (data_ != nullptr)
            ++data_->references;
    }
    View(View &&other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    View &operator=(View other) noexcept {
        std::swap(data_, other.data_);
        return *this;
    }
    ~View() { drop(); }

    bool empty() const { return data_ == nullptr; }

    /* The lower bound of a word; 0 where nothing is known. */
    Sequence of(std::uint64_t word) const;
    /* All posted writes of this controller up to the answer are known. */
    Sequence of_posted(std::uint32_t controller) const;

    void raise(std::uint64_t word, Sequence sequence, Sequence floor);
    void raise_posted(std::uint32_t controller, Sequence sequence);
    /* The least upper bound. What lies at or below `floor` is known to all and is left out. */
    void join(const View &other, Sequence floor);
    void clear() {
        drop();
        data_ = nullptr;
    }

  private:
    struct Entry {
        std::uint64_t key;
        Sequence sequence;
    };
    struct Data {
        std::uint32_t references = 1;
        std::vector<Entry> words;  /* by key */
        std::vector<Entry> posted; /* by controller; few */
    };
    void drop() {
        if (data_ != nullptr && --data_->references == 0)
            delete data_;
    }
    Data &own(Sequence floor);

    Data *data_ = nullptr;
};

} // namespace tutti::simt

#endif
