// SPDX-License-Identifier: Apache-2.0
//
// A namespace: a data region and a metadata region, addressed in bytes. Thread safe as a drive is: commands that race
// on the same blocks race.
#ifndef TUTTI_CONTROLLER_NAMESPACE_H
#define TUTTI_CONTROLLER_NAMESPACE_H

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "controller/status.h"
#include "controller/write_cache.h"
#include "tutti/controller.h"

namespace tutti::controller {

// A refusal at the C ABI's edge.
class Refusal : public std::runtime_error {
  public:
    Refusal(uint32_t code, const std::string &message, int system_errno = 0)
        : std::runtime_error(message), code_(code), system_errno_(system_errno) {}
    uint32_t code() const { return code_; }
    int system_errno() const { return system_errno_; }

  private:
    uint32_t code_;
    int system_errno_;
};

enum class Region { data, metadata };

class Namespace {
  public:
    explicit Namespace(const tt_namespace_config &config) : config_(config) {}
    virtual ~Namespace() = default;
    Namespace(const Namespace &) = delete;
    Namespace &operator=(const Namespace &) = delete;

    uint32_t nsid() const { return config_.nsid; }
    uint64_t blocks() const { return config_.blocks; }
    uint32_t lba_shift() const { return config_.lba_shift; }
    uint64_t block_bytes() const { return 1ULL << config_.lba_shift; }
    uint32_t metadata_bytes() const { return config_.metadata_bytes; }
    bool metadata_inline() const { return config_.metadata_inline != 0 && config_.metadata_bytes != 0; }
    bool metadata_separate() const { return config_.metadata_inline == 0 && config_.metadata_bytes != 0; }
    // Protection information: its type (0: none), and whether it lies before the other metadata.
    uint32_t protection_type() const { return config_.protection & 7; }
    bool protection_first() const { return (config_.protection >> 3 & 1) != 0; }
    uint32_t format_index() const { return config_.format_index; }
    bool read_only() const { return config_.read_only != 0; }
    WriteCache &cache() { return cache_; }

    // Where a region lies in this process, or nullptr: then only through read and write.
    virtual uint8_t *memory(Region) { return nullptr; }
    // True where an access can wait for a device: not for the thread that serves the queues.
    virtual bool blocking() const { return false; }
    // 0 or an errno.
    virtual int read(Region region, uint64_t offset, void *dst, uint64_t len) = 0;
    virtual int write(Region region, uint64_t offset, const void *src, uint64_t len) = 0;
    // Reads as zeroes afterwards; `deallocate`: gives the space back.
    virtual int zero(Region region, uint64_t offset, uint64_t len, bool deallocate) = 0;
    virtual int sync() = 0;
    virtual void describe(tt_namespace_info &info) const = 0;
    virtual uint64_t allocated_bytes() const = 0;
    // Space is taken as it is written, and can run out.
    virtual bool thin() const { return false; }

  protected:
    const tt_namespace_config &config() const { return config_; }
    void set_blocks(uint64_t blocks) { config_.blocks = blocks; }

  private:
    tt_namespace_config config_;
    WriteCache cache_;
};

std::unique_ptr<Namespace> open_memory_namespace(const tt_namespace_config &config);
// `durable`: every write is on the medium when it returns.
std::unique_ptr<Namespace> open_file_namespace(const tt_namespace_config &config, bool durable);

Status read_status(int error);
Status write_status(int error);

} // namespace tutti::controller

#endif
