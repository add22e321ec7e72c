// SPDX-License-Identifier: Apache-2.0
#include "fiemap/files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tutti::fiemap {

namespace {

void fail(tt_file *file, uint32_t stage, int error) {
    close_file(file);
    file->stage = stage;
    file->error = error;
}

void note(const struct stat &info, tt_file *file) {
    file->mode = info.st_mode;
    file->device = info.st_dev;
    file->special = info.st_rdev;
    file->inode = info.st_ino;
    file->size = static_cast<uint64_t>(info.st_size);
}

bool is_known(std::span<const tt_file_id> known, const struct stat &info) {
    return std::any_of(known.begin(), known.end(),
                       [&](const tt_file_id &one) { return one.device == info.st_dev && one.inode == info.st_ino; });
}

} // namespace

void open_file(const char *path, std::span<const tt_file_id> known, tt_file *file) {
    struct stat info{};
    // Before it is opened: to open a device or a pipe may do something already.
    if (stat(path, &info) != 0)
        return fail(file, TT_FILE_LOOK, errno);
    note(info, file);
    if (!S_ISREG(info.st_mode) || is_known(known, info))
        return fail(file, TT_FILE_OTHER, 0);
    file->fd = open(path, (file->writable != 0 ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0)
        return fail(file, TT_FILE_OPEN, errno);
    const int flags = fcntl(file->fd, F_GETFL);
    if (flags < 0 || (flags & O_DIRECT) == 0)
        return fail(file, TT_FILE_DIRECT, 0);
    if (fstat(file->fd, &info) != 0)
        return fail(file, TT_FILE_OPEN, errno);
    note(info, file);
    // Another one of that name came in between.
    if (!S_ISREG(info.st_mode))
        return fail(file, TT_FILE_OTHER, 0);
    // The kernel writes an int, whatever the number of the call says.
    int attributes = 0;
    if (ioctl(file->fd, FS_IOC_GETFLAGS, &attributes) == 0)
        file->attributes = static_cast<uint32_t>(attributes);
    struct fsxattr extended{};
    if (ioctl(file->fd, FS_IOC_FSGETXATTR, &extended) == 0)
        file->extended = extended.fsx_xflags;
    file->stage = TT_FILE_READY;
}

void close_file(tt_file *file) {
    const int fd = std::exchange(file->fd, -1);
    if (fd >= 0)
        close(fd);
}

} // namespace tutti::fiemap
