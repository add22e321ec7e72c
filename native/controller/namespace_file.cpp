// SPDX-License-Identifier: Apache-2.0
//
// A namespace over a file or a block device. Layout: the data region from byte 0; metadata, if there is any, from the
// next multiple of 4096, through a descriptor of its own that is always buffered, for its blocks are small.
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "controller/namespace.h"

namespace tutti::controller {

namespace {

constexpr uint64_t kMetadataAlignment = 4096;
constexpr uint64_t kZeroBytes = 1 << 20;

class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0)
            close(fd_);
    }
    Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor &operator=(Descriptor &&other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    int get() const { return fd_; }

  private:
    int fd_ = -1;
};

struct Alignment {
    uint32_t offset = 1;
    uint32_t memory = 1;
};

std::string because(int error) { return std::string(": ") + std::strerror(error); }

bool probe_direct_read(int fd, uint32_t bytes) {
    void *buffer = nullptr;
    if (posix_memalign(&buffer, 4096, 4096) != 0)
        return false;
    const ssize_t got = pread(fd, buffer, bytes, 0);
    std::free(buffer);
    return got >= 0;
}

// What direct I/O needs on this file, as the kernel says. The flag alone proves nothing: tmpfs takes it and ignores it.
bool direct_alignment(int fd, bool block_device, Alignment *alignment) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_DIRECT) == 0)
        return false;
    struct statfs filesystem{};
    constexpr long kTmpfs = 0x01021994;
    constexpr long kRamfs = 0x858458F6;
    // Of a device the file system is only that of its node.
    if (!block_device && (fstatfs(fd, &filesystem) != 0 || filesystem.f_type == kTmpfs || filesystem.f_type == kRamfs))
        return false;
    struct statx info{};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 && (info.stx_mask & STATX_DIOALIGN) != 0) {
        *alignment = {info.stx_dio_offset_align, info.stx_dio_mem_align};
        return info.stx_dio_offset_align != 0;
    }
    // Kernels before 6.1 do not say: find it by trying.
    for (const uint32_t bytes : {512u, 4096u})
        if (probe_direct_read(fd, bytes)) {
            *alignment = {bytes, bytes};
            return true;
        }
    return false;
}

class FileNamespace final : public Namespace {
  public:
    FileNamespace(const tt_namespace_config &config, bool durable)
        : Namespace(config), path_(config.path), durable_(durable) {
        open_data();
        measure();
        if (metadata_bytes() != 0) {
            metadata_ = Descriptor(open(path_.c_str(), access_mode() | O_CLOEXEC));
            if (metadata_.get() < 0)
                throw Refusal(TT_CTRL_SYSTEM, path_ + because(errno), errno);
        }
    }

    bool blocking() const override { return true; }

    int read(Region region, uint64_t offset, void *dst, uint64_t len) override {
        auto *to = static_cast<uint8_t *>(dst);
        for (uint64_t at = 0; at < len;) {
            const ssize_t got = pread(fd(region), to + at, len - at, place(region, offset + at));
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                return errno;
            if (got == 0)
                return EIO; // someone made the file shorter
            at += static_cast<uint64_t>(got);
        }
        return 0;
    }

    int write(Region region, uint64_t offset, const void *src, uint64_t len) override {
        const auto *from = static_cast<const uint8_t *>(src);
        for (uint64_t at = 0; at < len;) {
            const ssize_t put = pwrite(fd(region), from + at, len - at, place(region, offset + at));
            if (put < 0 && errno == EINTR)
                continue;
            if (put < 0)
                return errno;
            if (put == 0)
                return ENOSPC;
            at += static_cast<uint64_t>(put);
        }
        return 0;
    }

    int zero(Region region, uint64_t offset, uint64_t len, bool deallocate) override {
        const int mode = (deallocate ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE) | FALLOC_FL_KEEP_SIZE;
        if (fallocate(fd(region), mode, place(region, offset), static_cast<off_t>(len)) == 0)
            return 0;
        if (errno != EOPNOTSUPP && errno != ENODEV && errno != EINVAL)
            return errno;
        const std::unique_ptr<void, decltype(&std::free)> zeroes(std::aligned_alloc(4096, kZeroBytes), std::free);
        if (zeroes == nullptr)
            return ENOMEM;
        std::memset(zeroes.get(), 0, kZeroBytes);
        for (uint64_t at = 0; at < len;) {
            const uint64_t bytes = std::min(kZeroBytes, len - at);
            if (const int error = write(region, offset + at, zeroes.get(), bytes); error != 0)
                return error;
            at += bytes;
        }
        return 0;
    }

    int sync() override {
        if (read_only())
            return 0;
        if (fdatasync(data_.get()) != 0)
            return errno;
        return metadata_.get() >= 0 && fdatasync(metadata_.get()) != 0 ? errno : 0;
    }

    void describe(tt_namespace_info &info) const override {
        info.direct = direct_ ? 1 : 0;
        info.offset_alignment = alignment_.offset;
        info.memory_alignment = alignment_.memory;
        info.block_device = block_device_ ? 1 : 0;
    }

    uint64_t allocated_bytes() const override {
        struct stat info{};
        if (block_device_ || fstat(data_.get(), &info) != 0)
            return blocks() << lba_shift();
        return std::min(static_cast<uint64_t>(info.st_blocks) * 512, blocks() << lba_shift());
    }
    bool thin() const override { return !block_device_; }

  private:
    int access_mode() const { return read_only() ? O_RDONLY : O_RDWR | (durable_ ? O_DSYNC : 0); }
    int fd(Region region) const { return region == Region::data ? data_.get() : metadata_.get(); }
    off_t place(Region region, uint64_t offset) const {
        return static_cast<off_t>(region == Region::data ? offset : metadata_at_ + offset);
    }

    Descriptor open_with(int flags) const {
        Descriptor opened(open(path_.c_str(), access_mode() | O_CLOEXEC | flags));
        if (opened.get() >= 0)
            return opened;
        const int error = errno;
        if (error == EINVAL && (flags & O_DIRECT) != 0)
            return opened; // the file system refuses the flag
        if (error == ENOENT)
            throw Refusal(TT_CTRL_NS_MISSING, path_ + because(error), error);
        if (!read_only() && (error == EACCES || error == EROFS || error == EPERM || error == ETXTBSY))
            throw Refusal(TT_CTRL_NS_READ_ONLY, path_ + " cannot be opened for writing" + because(error), error);
        if (error == EISDIR)
            throw Refusal(TT_CTRL_NS_KIND, path_ + " is a directory", error);
        throw Refusal(TT_CTRL_SYSTEM, path_ + because(error), error);
    }

    void open_data() {
        if (config().direct != TT_DIRECT_OFF) {
            data_ = open_with(O_DIRECT);
            if (data_.get() >= 0) {
                check_kind();
                direct_ = direct_alignment(data_.get(), block_device_, &alignment_);
                if (direct_ && alignment_.offset > block_bytes()) {
                    if (config().direct == TT_DIRECT_REQUIRED)
                        throw Refusal(TT_CTRL_NS_ALIGNMENT,
                                      path_ + ": direct I/O needs blocks of " + std::to_string(alignment_.offset) +
                                          " bytes, the namespace has " + std::to_string(block_bytes()));
                    direct_ = false;
                }
            }
            if (direct_)
                return;
            data_ = open_with(0);
            check_kind();
            if (config().direct == TT_DIRECT_REQUIRED)
                throw Refusal(TT_CTRL_NS_NO_DIRECT, path_ + ": the file system does no direct I/O on this file");
        }
        alignment_ = {};
        if (config().direct == TT_DIRECT_OFF) {
            data_ = open_with(0);
            check_kind();
        }
    }

    void check_kind() {
        struct stat info{};
        if (fstat(data_.get(), &info) != 0)
            throw Refusal(TT_CTRL_SYSTEM, path_ + because(errno), errno);
        if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode))
            throw Refusal(TT_CTRL_NS_KIND, path_ + " is neither a regular file nor a block device");
        block_device_ = S_ISBLK(info.st_mode);
        size_ = static_cast<uint64_t>(info.st_size);
        int device_read_only = 0;
        if (block_device_) {
            if (ioctl(data_.get(), BLKGETSIZE64, &size_) != 0)
                throw Refusal(TT_CTRL_SYSTEM, path_ + because(errno), errno);
            if (!read_only() && ioctl(data_.get(), BLKROGET, &device_read_only) == 0 && device_read_only != 0)
                throw Refusal(TT_CTRL_NS_READ_ONLY, path_ + " is a read-only device", EROFS);
        }
    }

    void measure() {
        if (blocks() == 0) {
            if (metadata_bytes() != 0)
                throw Refusal(TT_CTRL_INVALID, path_ + ": with metadata the number of blocks must be given");
            if (size_ == 0)
                throw Refusal(TT_CTRL_NS_SHORT, path_ + " is empty");
            if (size_ % block_bytes() != 0)
                throw Refusal(TT_CTRL_NS_UNEVEN, path_ + " holds " + std::to_string(size_) +
                                                     " bytes, not a multiple of " + std::to_string(block_bytes()));
            set_blocks(size_ / block_bytes());
        }
        if (blocks() > (1ULL << 62) >> lba_shift())
            throw Refusal(TT_CTRL_NS_SHORT,
                          path_ + ": " + std::to_string(blocks()) + " blocks are more than a file holds");
        const uint64_t data_bytes = blocks() << lba_shift();
        metadata_at_ = (data_bytes + kMetadataAlignment - 1) / kMetadataAlignment * kMetadataAlignment;
        const uint64_t needed = metadata_bytes() == 0 ? data_bytes : metadata_at_ + blocks() * metadata_bytes();
        if (size_ < needed)
            throw Refusal(TT_CTRL_NS_SHORT,
                          path_ + " holds " + std::to_string(size_) + " bytes, declared are " + std::to_string(needed));
        if (metadata_bytes() == 0 && size_ % block_bytes() != 0)
            throw Refusal(TT_CTRL_NS_UNEVEN, path_ + " holds " + std::to_string(size_) + " bytes, not a multiple of " +
                                                 std::to_string(block_bytes()));
    }

    std::string path_;
    bool durable_;
    Descriptor data_;
    Descriptor metadata_;
    uint64_t metadata_at_ = 0;
    uint64_t size_ = 0;
    bool direct_ = false;
    bool block_device_ = false;
    Alignment alignment_;
};

} // namespace

std::unique_ptr<Namespace> open_file_namespace(const tt_namespace_config &config, bool durable) {
    if (config.path == nullptr || config.path[0] == '\0')
        throw Refusal(TT_CTRL_INVALID, "a file namespace needs a path");
    return std::make_unique<FileNamespace>(config, durable);
}

} // namespace tutti::controller
