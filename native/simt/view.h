/* SPDX-License-Identifier: Apache-2.0
 *
 * A view: for each word the oldest message that its owner may still read. Copied by reference, cloned on write.
 *
 * What sequentially consistent fences of the device, or of the system, have published is numbered by generations, and
 * each message knows the generation that published it. So a view holds two numbers for all of that, and single words
 * only for what its owner met since its last fence.
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
    struct Entry {
        std::uint64_t key;
        Sequence sequence;
    };

    View() = default;
    View(const View &other) : data_(other.data_), generations_{other.generations_[0], other.generations_[1]} {
        if (data_ != nullptr)
            ++data_->references;
    }
    View(View &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          generations_{std::exchange(other.generations_[0], 0), std::exchange(other.generations_[1], 0)} {}
    View &operator=(View other) noexcept {
        std::swap(data_, other.data_);
        std::swap(generations_, other.generations_);
        return *this;
    }
    ~View() { drop(); }

    /* The lower bound of a word from what is not published; 0 where nothing is known. */
    Sequence of(std::uint64_t word) const;
    /* All posted writes of this controller up to the answer are known. */
    Sequence of_posted(std::uint32_t controller) const;
    /* All that was published up to this generation, to the device (0) or to the system (1), is known. */
    std::uint64_t generation(int audience) const { return generations_[audience]; }

    void raise(std::uint64_t word, Sequence sequence, Sequence floor);
    void raise_posted(std::uint32_t controller, Sequence sequence);
    void raise_generation(int audience, std::uint64_t generation) {
        if (generations_[audience] < generation)
            generations_[audience] = generation;
    }
    /* The least upper bound. What lies at or below `floor` is known to all and is left out. */
    void join(const View &other, Sequence floor);
    /* The words that are known one by one, by word. */
    const std::vector<Entry> &words() const;
    /* Forgets single words, after they were published in a generation that the view knows. */
    void clear_words();
    void clear() {
        drop();
        data_ = nullptr;
        generations_[0] = generations_[1] = 0;
    }

  private:
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
    std::uint64_t generations_[2] = {0, 0};
};

} // namespace tutti::simt

#endif
