// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "controller/namespace.h"

namespace tutti::controller {

namespace {

constexpr uint64_t kHugePageLimit = 16ULL << 30;

// Address space that becomes memory where it is written: a namespace may declare far more blocks than there is memory.
class Sparse {
  public:
    explicit Sparse(uint64_t bytes) : bytes_(bytes) {
        if (bytes == 0)
            return;
        void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            throw Refusal(
                TT_CTRL_NO_MEMORY,
                "no address space for a region of " + std::to_string(bytes) + " bytes: " + std::strerror(errno), errno);
        base_ = static_cast<uint8_t *>(base);
        // Fewer address translations to miss. Not where it would turn a few scattered blocks into much memory.
        if (bytes <= kHugePageLimit)
            madvise(base, bytes, MADV_HUGEPAGE);
    }
    ~Sparse() {
        if (base_ != nullptr)
            munmap(base_, bytes_);
    }
    Sparse(const Sparse &) = delete;
    Sparse &operator=(const Sparse &) = delete;

    uint8_t *base() const { return base_; }

    void clear(uint64_t offset, uint64_t len) {
        const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
        const uint64_t from = (offset + page - 1) / page * page;
        const uint64_t to = (offset + len) / page * page;
        if (from >= to || madvise(base_ + from, to - from, MADV_DONTNEED) != 0) {
            std::memset(base_ + offset, 0, len);
            return;
        }
        std::memset(base_ + offset, 0, from - offset);
        std::memset(base_ + to, 0, offset + len - to);
    }

  private:
    uint64_t bytes_;
    uint8_t *base_ = nullptr;
};

class MemoryNamespace final : public Namespace {
  public:
    explicit MemoryNamespace(const tt_namespace_config &config)
        : Namespace(config), data_(config.blocks << config.lba_shift),
          metadata_(config.blocks * config.metadata_bytes) {}

    uint8_t *memory(Region region) override { return of(region).base(); }
    int read(Region region, uint64_t offset, void *dst, uint64_t len) override {
        std::memcpy(dst, of(region).base() + offset, len);
        return 0;
    }
    int write(Region region, uint64_t offset, const void *src, uint64_t len) override {
        std::memcpy(of(region).base() + offset, src, len);
        return 0;
    }
    int zero(Region region, uint64_t offset, uint64_t len, bool) override {
        of(region).clear(offset, len);
        return 0;
    }
    int sync() override { return 0; }
    void describe(tt_namespace_info &info) const override {
        info.direct = 0;
        info.offset_alignment = 1;
        info.memory_alignment = 1;
    }
    uint64_t allocated_bytes() const override { return blocks() << lba_shift(); }

  private:
    Sparse &of(Region region) { return region == Region::data ? data_ : metadata_; }

    Sparse data_;
    Sparse metadata_;
};

} // namespace

std::unique_ptr<Namespace> open_memory_namespace(const tt_namespace_config &config) {
    if (config.blocks == 0)
        throw Refusal(TT_CTRL_INVALID, "a memory namespace needs a number of blocks");
    if (config.blocks > (1ULL << 46) >> config.lba_shift)
        throw Refusal(TT_CTRL_NO_MEMORY, std::to_string(config.blocks) + " blocks do not fit an address space");
    return std::make_unique<MemoryNamespace>(config);
}

// A medium that does not answer. What ran out of space is a thin namespace's capacity (0/81h), not a fault of it.
Status write_status(int error) {
    switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return status::kCapacity;
    case EROFS:
    case EPERM:
        return status::kWriteProtected;
    default:
        return status::kWriteFault;
    }
}

Status read_status(int) { return status::kUnrecoveredRead; }

} // namespace tutti::controller
