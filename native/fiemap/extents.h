// SPDX-License-Identifier: Apache-2.0
//
// The extents of one file, in as many calls as it takes.
#ifndef TUTTI_FIEMAP_EXTENTS_H
#define TUTTI_FIEMAP_EXTENTS_H

#include <linux/fiemap.h>

#include <vector>

#include "tutti/files.h"

namespace tutti::fiemap {

using Extents = std::vector<fiemap_extent>;

// Whom to ask for extents: the kernel, or who stands for it in a test.
struct Teller {
    tt_fiemap_call call = nullptr;
    void *context = nullptr;

    // Fills the map; returns 0 or an errno.
    int ask(int fd, struct fiemap *map) const;
};

// Appends the extents of the file's first `size` bytes; sets what tt_files_read_extents says. What a refusal left
// behind is taken away again.
void read_extents(const Teller &teller, bool sync, tt_file *file, Extents *into);

} // namespace tutti::fiemap

#endif
