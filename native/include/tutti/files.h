/* SPDX-License-Identifier: Apache-2.0
 *
 * Many files at once: opened past the page cache, looked at, and where their bytes lie (FIEMAP). It tells what the
 * system said and judges nothing: whether a file may be used is for the caller.
 */
#ifndef TUTTI_FILES_H
#define TUTTI_FILES_H

#include "tutti/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a file's way ended. */
enum {
    TT_FILE_READY = 0,   /* open, and its extents are told */
    TT_FILE_LOOK = 1,    /* stat refused */
    TT_FILE_OTHER = 2,   /* no regular file, or one that the caller knows: not opened */
    TT_FILE_OPEN = 3,    /* open or fstat refused */
    TT_FILE_DIRECT = 4,  /* open took O_DIRECT and dropped it */
    TT_FILE_EXTENTS = 5, /* open, and its file system does not tell extents */
    TT_FILE_STUCK = 6,   /* open, and extents are told that do not advance: those up to there */
};

/* One file: what is asked, and what was found. What was not reached is 0, `fd` is -1. */
typedef struct tt_file {
    /* ---- asked ---- */
    uint64_t path;     /* offset of its path, which ends with 0 */
    uint32_t writable; /* 0: opened for reading only */
    /* ---- found ---- */
    uint32_t stage;        /* TT_FILE_* */
    int32_t error;         /* errno, where the system refused */
    int32_t fd;            /* open; the caller's to close */
    uint32_t mode;         /* st_mode, and so on: of the open file, else of stat */
    uint32_t attributes;   /* FS_IOC_GETFLAGS; 0 where the file system has none */
    uint32_t extended;     /* FS_IOC_FSGETXATTR, fsx_xflags; 0 likewise */
    uint32_t extents;      /* how many */
    uint64_t first_extent; /* index in the list: files follow one another */
    uint64_t device;       /* st_dev */
    uint64_t special;      /* st_rdev */
    uint64_t inode;        /* st_ino */
    uint64_t size;         /* st_size; extents are asked up to it */
} tt_file;

/* A file that is not to be opened, such as the image of a drive. */
typedef struct tt_file_id {
    uint64_t device;
    uint64_t inode;
} tt_file_id;

/* Extents as the kernel tells them: struct fiemap_extent, 56 bytes each. */
typedef struct tt_extent_list tt_extent_list;

/* An empty list; NULL when there is no memory. */
TT_EXPORT tt_extent_list *tt_extent_list_new(void);

/* Ends a list. NULL does nothing. */
TT_EXPORT void tt_extent_list_free(tt_extent_list *list);

/* The list's bytes, 8-aligned, which stay until it is filled anew; `count` gets the number of extents. */
TT_EXPORT const void *tt_extent_list_data(const tt_extent_list *list, uint64_t *count);

/* Opens files and reads their extents, dirty pages written back first (FIEMAP_FLAG_SYNC), each for itself: one that
 * fails changes nothing for others. Threads share them, `threads` at most with the calling one, which end before it
 * returns. Blocks in system calls. Fills `files` and the list, whose order is that of the files.
 * Returns 0, or ENOMEM: then nothing is open. */
TT_EXPORT int32_t tt_files_open(const char *paths, tt_file *files, uint32_t count, const tt_file_id *known,
                                uint32_t known_count, uint32_t threads, tt_extent_list *list);

/* FIEMAP of a file: fills `fiemap`, a struct fiemap with its extents; returns 0 or an errno. */
typedef int (*tt_fiemap_call)(void *context, int fd, void *fiemap);

/* Reads the extents of files that are open: of each `fd` and `size`; sets `stage`, `error`, `extents`, `first_extent`.
 * As tt_files_open otherwise. `call` is asked in place of the kernel unless it is NULL, by several threads.
 * Returns 0, or ENOMEM. */
TT_EXPORT int32_t tt_files_read_extents(tt_file *files, uint32_t count, uint32_t sync, uint32_t threads,
                                        tt_fiemap_call call, void *context, tt_extent_list *list);

#ifdef __cplusplus
}
#endif

#endif
