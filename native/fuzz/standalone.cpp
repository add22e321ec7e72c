// SPDX-License-Identifier: Apache-2.0
//
// The fuzz target without a fuzzer, for a compiler that has none: replays files, then mutates them by a seed.
//
//     controller_fuzz_replay [--runs N] [--seed S] FILE_OR_FOLDER...
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

#include "controller/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr unsigned kLongestRun = 20; // seconds of one input
constexpr size_t kLongestInput = 2048;

Bytes load(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void run(const Bytes &input) {
    alarm(kLongestRun);
    const Bytes exact(input); // no byte to spare behind it
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
    alarm(0);
}

Bytes mutated(const std::vector<Bytes> &corpus, tutti::Random &random) {
    Bytes input = corpus[random.below(corpus.size())];
    for (uint64_t changes = 1 + random.below(6); changes > 0; --changes) {
        const size_t at = random.below(input.size() + 1);
        const auto there = input.begin() + static_cast<std::ptrdiff_t>(at);
        switch (random.below(4)) {
        case 0:
            input.insert(there, static_cast<uint8_t>(random.next()));
            break;
        case 1:
            if (at < input.size())
                input.erase(there);
            break;
        case 2:
            if (at < input.size())
                input[at] = static_cast<uint8_t>(random.next());
            break;
        default: { // the end of another input behind the beginning of this one
            const Bytes &other = corpus[random.below(corpus.size())];
            input.resize(at);
            input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(random.below(other.size() + 1)),
                         other.end());
        }
        }
    }
    if (input.size() > kLongestInput)
        input.resize(kLongestInput);
    return input;
}

} // namespace

int main(int argc, char **argv) {
    uint64_t runs = 0;
    uint64_t seed = 1;
    std::vector<Bytes> corpus;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--runs" && i + 1 < argc)
            runs = std::strtoull(argv[++i], nullptr, 0);
        else if (word == "--seed" && i + 1 < argc)
            seed = std::strtoull(argv[++i], nullptr, 0);
        else if (std::filesystem::is_directory(word))
            for (const auto &entry : std::filesystem::directory_iterator(word))
                corpus.push_back(load(entry.path()));
        else
            corpus.push_back(load(word));
    }
    for (const Bytes &input : corpus)
        run(input);
    tutti::Random random(seed);
    for (uint64_t i = 0; i < runs && !corpus.empty(); ++i) {
        const Bytes input = mutated(corpus, random);
        if (std::ofstream last("last-input", std::ios::binary); last) // what to look at if this run is the end
            last.write(reinterpret_cast<const char *>(input.data()), static_cast<std::streamsize>(input.size()));
        run(input);
    }
    std::printf("%zu inputs replayed, %llu mutated\n", corpus.size(), static_cast<unsigned long long>(runs));
    return 0;
}
