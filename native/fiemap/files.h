// SPDX-License-Identifier: Apache-2.0
//
// One file: from its path to a descriptor past the page cache, and what the system says of it.
#ifndef TUTTI_FIEMAP_FILES_H
#define TUTTI_FIEMAP_FILES_H

#include <span>

#include "tutti/files.h"

namespace tutti::fiemap {

// Opens one file unless it is known or no regular file. Sets all that was found but the extents; the stage is
// TT_FILE_READY where these are next.
void open_file(const char *path, std::span<const tt_file_id> known, tt_file *file);

// Closes it, if it is open.
void close_file(tt_file *file);

} // namespace tutti::fiemap

#endif
