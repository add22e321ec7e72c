// SPDX-License-Identifier: Apache-2.0
//
// The container of a compiled module (README.md): taken apart, and its payload loaded by the HOST runtime.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <elf.h>

#include "tutti/host_runtime.h"

namespace sim::container {

struct Header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    char vendor[16];
    char arch[24];
    uint64_t payload_bytes;
};
static_assert(sizeof(Header) == 64);

struct View {
    const char *payload = nullptr;
    size_t bytes = 0;
};

// False where there is no such file.
inline bool read(const char *path, std::string *image) {
    std::FILE *const file = std::fopen(path, "rb");
    if (file == nullptr) {
        return false;
    }
    char piece[1 << 16];
    size_t got;
    while ((got = std::fread(piece, 1, sizeof piece, file)) != 0) {
        image->append(piece, got);
    }
    const bool whole = std::ferror(file) == 0;
    std::fclose(file);
    return whole;
}

inline ttrtError look(const void *image, size_t size, const char *vendor, const char *arch, View *view) {
    static constexpr char kMagic[8] = {'T', 'T', 'S', 'I', 'M', 'M', 'O', 'D'};
    Header header;
    if (size < sizeof kMagic || std::memcmp(image, kMagic, sizeof kMagic) != 0 || size < sizeof header) {
        return ttrtErrorInvalidKernelImage;
    }
    std::memcpy(&header, image, sizeof header);
    const uint64_t room = size - sizeof header;
    if (header.version != 1 || header.header_bytes != sizeof header || header.payload_bytes > room ||
        std::memchr(header.vendor, 0, sizeof header.vendor) == nullptr ||
        std::memchr(header.arch, 0, sizeof header.arch) == nullptr) {
        return ttrtErrorInvalidKernelImage;
    }
    if (std::strcmp(header.vendor, vendor) != 0 || std::strcmp(header.arch, arch) != 0) {
        return ttrtErrorNoKernelImageForDevice;
    }
    *view = {static_cast<const char *>(image) + sizeof header, header.payload_bytes};
    return ttrtSuccess;
}

// The HOST runtime reads the payload's length from its own header: it must lie inside the container.
inline ttrtError load(ttrtModule_t *module, const View &view) {
    Elf64_Ehdr header;
    if (view.bytes < sizeof header) {
        return ttrtErrorInvalidKernelImage;
    }
    std::memcpy(&header, view.payload, sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shoff > view.bytes ||
        uint64_t{header.e_shnum} * header.e_shentsize > view.bytes - header.e_shoff) {
        return ttrtErrorInvalidKernelImage;
    }
    return ttrtModuleLoadData(module, view.payload);
}

} // namespace sim::container
