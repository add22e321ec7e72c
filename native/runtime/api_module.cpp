// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/device.h"
#include "runtime/simulation.h"

using namespace ttrt;

namespace {

Status find_module(ttrtModule_t handle, std::shared_ptr<Module> *module) {
    *module = Machine::get().modules.find(reinterpret_cast<uint64_t>(handle));
    return *module != nullptr ? success()
                              : fail(ttrtErrorInvalidResourceHandle, "the module was unloaded, or never was one");
}

Status find_function(ttrtFunction_t handle, std::shared_ptr<Function> *function) {
    *function = Machine::get().functions.find(reinterpret_cast<uint64_t>(handle));
    return *function != nullptr
               ? success()
               : fail(ttrtErrorInvalidResourceHandle, "the function's module was unloaded, or it never was one");
}

// One handle for each kernel of a module, made when it is first asked for.
ttrtFunction_t handle_of(const std::shared_ptr<Module> &module, uint32_t index) {
    const std::lock_guard lock(module->handles_mutex);
    uint64_t &handle = module->handles[index];
    if (handle == 0) {
        handle = Machine::get().functions.insert(
            std::make_shared<Function>(Function{module, &module->desc().kernels[index]}));
    }
    return reinterpret_cast<ttrtFunction_t>(handle);
}

Status load(ttrtModule_t *module, const char *path, std::shared_ptr<void> source = nullptr) {
    Device &device = current_device();
    if (Status failed = device.failure(); !failed.ok()) {
        return failed;
    }
    std::shared_ptr<Module> loaded;
    if (Status status = Module::load(path, device.ordinal(), device.arch(), &loaded); !status.ok()) {
        return status;
    }
    loaded->source = std::move(source);
    *module = reinterpret_cast<ttrtModule_t>(Machine::get().modules.insert(std::move(loaded)));
    return success();
}

class MemoryFile {
  public:
    MemoryFile() : fd_(memfd_create("tutti-module", MFD_CLOEXEC)) {}
    MemoryFile(const MemoryFile &) = delete;
    MemoryFile &operator=(const MemoryFile &) = delete;
    ~MemoryFile() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    bool fill(const unsigned char *bytes, size_t size) const {
        while (fd_ >= 0 && size != 0) {
            const ssize_t written = write(fd_, bytes, size);
            if (written <= 0) {
                return false;
            }
            bytes += written;
            size -= static_cast<size_t>(written);
        }
        return fd_ >= 0;
    }
    std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  private:
    int fd_;
};

struct Geometry {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    uint64_t limit_ns;
};

Status check_geometry(const Geometry &geometry, const tt_kernel_desc &kernel, uint64_t *block_threads) {
    static constexpr const char *kAxis[] = {"x", "y", "z"};
    for (int i = 0; i < 3; ++i) {
        if (geometry.grid[i] == 0 || geometry.grid[i] > kMaxGridDim[i]) {
            return fail(ttrtErrorInvalidConfiguration, "grid.", kAxis[i], " is ", geometry.grid[i],
                        ", allowed are 1 to ", kMaxGridDim[i]);
        }
        if (geometry.block[i] == 0 || geometry.block[i] > kMaxBlockDim[i]) {
            return fail(ttrtErrorInvalidConfiguration, "block.", kAxis[i], " is ", geometry.block[i],
                        ", allowed are 1 to ", kMaxBlockDim[i]);
        }
    }
    *block_threads = uint64_t{geometry.block[0]} * geometry.block[1] * geometry.block[2];
    if (*block_threads > kMaxBlockThreads) {
        return fail(ttrtErrorInvalidConfiguration, *block_threads, " threads in a block, at most ", kMaxBlockThreads);
    }
    if (geometry.shared_bytes > kMaxSharedBytes) {
        return fail(ttrtErrorInvalidValue, geometry.shared_bytes, " bytes of shared memory, at most ", kMaxSharedBytes);
    }
    if (kernel.max_block_threads != 0 && *block_threads > kernel.max_block_threads) {
        return fail(ttrtErrorLaunchOutOfResources, "kernel ", kernel.name, " was compiled for at most ",
                    kernel.max_block_threads, " threads in a block, ", *block_threads, " were asked for");
    }
    return success();
}

uint64_t resident_blocks(Device &device, uint64_t block_threads) {
    const uint64_t fit = uint64_t{kProcessors} * (kThreadsPerProcessor / block_threads);
    if (Simulation *world = device.simulation(); world != nullptr && world->resident_blocks() != 0) {
        return std::min<uint64_t>(fit, world->resident_blocks());
    }
    return fit;
}

// An argument that is an address in another device's own memory, to which access is not enabled. All memory here is one
// process's: nothing else would keep a kernel from it.
Status check_peers(Device &device, const tt_kernel_desc &kernel, void **params) {
    for (uint32_t i = 0; i < kernel.param_count; ++i) {
        if (kernel.param_sizes[i] != sizeof(void *)) {
            continue;
        }
        void *value = nullptr;
        std::memcpy(&value, params[i], sizeof value);
        const Place place = Machine::get().memory().find(value, 1);
        if (place.what == Place::What::live && place.range.on_device() && place.device != device.ordinal() &&
            !device.peer_enabled(place.device)) {
            return fail(ttrtErrorInvalidValue, "argument ", i, " of ", kernel.name, " is memory of device ",
                        place.device, ", to which device ", device.ordinal(), " has no access");
        }
    }
    return success();
}

Status launch(ttrtFunction_t handle, const Geometry &geometry, ttrtStream_t stream_handle, void **params,
              bool cooperative) {
    std::shared_ptr<Function> function;
    if (Status status = find_function(handle, &function); !status.ok()) {
        return status;
    }
    std::shared_ptr<Stream> stream;
    if (Status status = resolve_stream(stream_handle, &stream); !status.ok()) {
        return status;
    }
    Device &device = stream->device();
    if (device.ordinal() != current_ordinal() || function->module->device() != current_ordinal()) {
        return fail(ttrtErrorInvalidResourceHandle, "the current device is ", current_ordinal(),
                    ", the stream belongs to device ", device.ordinal(), ", the kernel to device ",
                    function->module->device());
    }
    if (Status failed = device.failure(); !failed.ok()) {
        return failed;
    }
    const tt_kernel_desc &kernel = *function->kernel;
    uint64_t block_threads = 0;
    if (Status status = check_geometry(geometry, kernel, &block_threads); !status.ok()) {
        return status;
    }
    if (kernel.param_count != 0 && params == nullptr) {
        return fail(ttrtErrorInvalidValue, "kernel ", kernel.name, " takes ", kernel.param_count,
                    " arguments, params is NULL");
    }
    for (uint32_t i = 0; i < kernel.param_count; ++i) {
        if (params[i] == nullptr) {
            return fail(ttrtErrorInvalidValue, "params[", i, "] is NULL");
        }
    }
    if (Status status = check_peers(device, kernel, params); !status.ok()) {
        return status;
    }
    if (cooperative) {
        const uint64_t blocks = uint64_t{geometry.grid[0]} * geometry.grid[1] * geometry.grid[2];
        if (const uint64_t fit = resident_blocks(device, block_threads); blocks > fit) {
            return fail(ttrtErrorCooperativeLaunchTooLarge, blocks, " blocks of ", block_threads, " threads, ", fit,
                        " can be resident");
        }
    }
    tt_launch_config config{};
    std::copy_n(geometry.grid, 3, config.grid);
    std::copy_n(geometry.block, 3, config.block);
    config.dynamic_shared_bytes = geometry.shared_bytes;
    config.limit_ns = geometry.limit_ns;
    Operation operation;
    operation.launch = make_launch(*function, config, params);
    return device.submit(*stream, std::move(operation));
}

} // namespace

extern "C" ttrtError ttrtModuleLoad(ttrtModule_t *module, const char *path) {
    return call([&] {
        return module == nullptr || path == nullptr ? fail(ttrtErrorInvalidValue, "module or path is NULL")
                                                    : load(module, path);
    });
}

extern "C" ttrtError ttrtModuleLoadData(ttrtModule_t *module, const void *image) {
    return call([&] {
        if (module == nullptr || image == nullptr) {
            return fail(ttrtErrorInvalidValue, "module or image is NULL");
        }
        Elf64_Ehdr header;
        std::memcpy(&header, image, sizeof header);
        if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
            return fail(ttrtErrorInvalidKernelImage, "the image is no 64-bit ELF object");
        }
        // The table of sections is the last thing in an object that a linker wrote.
        const size_t size = header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
        const auto file = std::make_shared<MemoryFile>();
        if (!file->fill(static_cast<const unsigned char *>(image), size)) {
            return fail(ttrtErrorMemoryAllocation, "the image could not be copied");
        }
        return load(module, file->path().c_str(), file);
    });
}

extern "C" ttrtError ttrtModuleUnload(ttrtModule_t module) {
    return call([&] {
        std::shared_ptr<Module> found;
        if (Status status = find_module(module, &found); !status.ok()) {
            return status;
        }
        if (Status failed = Machine::get().device(found->device())->synchronize(); !failed.ok()) {
            return failed;
        }
        Machine::get().modules.remove(reinterpret_cast<uint64_t>(module));
        Machine::get().functions.remove_if([&](const Function &f) { return f.module == found; });
        return success();
    });
}

extern "C" ttrtError ttrtModuleGetFunction(ttrtFunction_t *function, ttrtModule_t module, const char *name) {
    return call([&] {
        std::shared_ptr<Module> found;
        if (Status status = find_module(module, &found); !status.ok()) {
            return status;
        }
        if (function == nullptr || name == nullptr) {
            return fail(ttrtErrorInvalidValue, "function or name is NULL");
        }
        const tt_module_desc &desc = found->desc();
        std::string known;
        for (uint32_t i = 0; i < desc.kernel_count; ++i) {
            if (std::strcmp(desc.kernels[i].name, name) == 0) {
                *function = handle_of(found, i);
                return success();
            }
            known += (known.empty() ? "" : ", ") + std::string(desc.kernels[i].name);
        }
        return fail(ttrtErrorSymbolNotFound, "no kernel '", name, "'; the module has: ", known);
    });
}

extern "C" ttrtError ttrtModuleGetFunctionCount(unsigned int *count, ttrtModule_t module) {
    return call([&] {
        std::shared_ptr<Module> found;
        if (Status status = find_module(module, &found); !status.ok()) {
            return status;
        }
        if (count == nullptr) {
            return fail(ttrtErrorInvalidValue, "count is NULL");
        }
        *count = found->desc().kernel_count;
        return success();
    });
}

extern "C" ttrtError ttrtModuleEnumerateFunctions(ttrtFunction_t *functions, unsigned int capacity,
                                                  ttrtModule_t module) {
    return call([&] {
        std::shared_ptr<Module> found;
        if (Status status = find_module(module, &found); !status.ok()) {
            return status;
        }
        if (functions == nullptr) {
            return fail(ttrtErrorInvalidValue, "functions is NULL");
        }
        for (uint32_t i = 0; i < std::min(capacity, found->desc().kernel_count); ++i) {
            functions[i] = handle_of(found, i);
        }
        return success();
    });
}

extern "C" ttrtError ttrtFuncGetName(const char **name, ttrtFunction_t function) {
    return call([&] {
        std::shared_ptr<Function> found;
        if (Status status = find_function(function, &found); !status.ok()) {
            return status;
        }
        if (name == nullptr) {
            return fail(ttrtErrorInvalidValue, "name is NULL");
        }
        *name = found->kernel->name;
        return success();
    });
}

extern "C" ttrtError ttrtFuncGetParamInfo(ttrtFunction_t function, size_t index, size_t *offset, size_t *size) {
    return call([&] {
        std::shared_ptr<Function> found;
        if (Status status = find_function(function, &found); !status.ok()) {
            return status;
        }
        const tt_kernel_desc &kernel = *found->kernel;
        if (index >= kernel.param_count || offset == nullptr) {
            return fail(ttrtErrorInvalidValue, offset == nullptr ? std::string("offset is NULL")
                                                                 : "parameter " + std::to_string(index) + " of " +
                                                                       std::to_string(kernel.param_count));
        }
        size_t at = 0;
        for (size_t i = 0; i < index; ++i) {
            at += (kernel.param_sizes[i] + 7u) / 8u * 8u;
        }
        *offset = at;
        if (size != nullptr) {
            *size = kernel.param_sizes[index];
        }
        return success();
    });
}

extern "C" ttrtError ttrtFuncGetParamName(ttrtFunction_t function, size_t index, const char **name) {
    return call([&] {
        std::shared_ptr<Function> found;
        if (Status status = find_function(function, &found); !status.ok()) {
            return status;
        }
        const tt_kernel_desc &kernel = *found->kernel;
        if (index >= kernel.param_count || name == nullptr || kernel.param_names == nullptr) {
            return fail(ttrtErrorInvalidValue, "parameter ", index, " of ", kernel.param_count, ", or no names");
        }
        *name = kernel.param_names[index];
        return success();
    });
}

extern "C" ttrtError ttrtFuncGetAttribute(int *value, int attribute, ttrtFunction_t function) {
    return call([&] {
        std::shared_ptr<Function> found;
        if (Status status = find_function(function, &found); !status.ok()) {
            return status;
        }
        if (value == nullptr) {
            return fail(ttrtErrorInvalidValue, "value is NULL");
        }
        if (attribute != ttrtFuncAttributeMaxThreadsPerBlock) {
            return fail(ttrtErrorNotSupported, "a HOST module does not tell attribute ", attribute);
        }
        const uint32_t bound = found->kernel->max_block_threads;
        *value = static_cast<int>(bound != 0 ? std::min(bound, kMaxBlockThreads) : kMaxBlockThreads);
        return success();
    });
}

extern "C" ttrtError ttrtOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, ttrtFunction_t function,
                                                                   int block_threads, size_t shared_bytes) {
    return call([&] {
        std::shared_ptr<Function> found;
        if (Status status = find_function(function, &found); !status.ok()) {
            return status;
        }
        if (blocks == nullptr || block_threads <= 0) {
            return fail(ttrtErrorInvalidValue,
                        blocks == nullptr ? "blocks is NULL" : "a block has at least one thread");
        }
        const uint32_t bound = found->kernel->max_block_threads;
        const auto threads = static_cast<uint32_t>(block_threads);
        const bool fits =
            threads <= kMaxBlockThreads && (bound == 0 || threads <= bound) && shared_bytes <= kMaxSharedBytes;
        *blocks = fits ? static_cast<int>(kThreadsPerProcessor / threads) : 0;
        return success();
    });
}

extern "C" ttrtError ttrtLaunchKernel(ttrtFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                      unsigned int block_z, unsigned int shared_bytes, ttrtStream_t stream,
                                      void **params, void **extra) {
    return call([&] {
        if (extra != nullptr) {
            return fail(ttrtErrorNotSupported, "arguments are passed in params, extra must be NULL");
        }
        const Geometry geometry{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, 0};
        return launch(function, geometry, stream, params, false);
    });
}

extern "C" ttrtError ttrtLaunchCooperativeKernel(ttrtFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                                 unsigned int block_z, unsigned int shared_bytes, ttrtStream_t stream,
                                                 void **params) {
    return call([&] {
        const Geometry geometry{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, 0};
        return launch(function, geometry, stream, params, true);
    });
}

extern "C" ttrtError ttrtLaunchKernelLimit(ttrtFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                           unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                           unsigned int block_z, unsigned int shared_bytes, ttrtStream_t stream,
                                           void **params, uint64_t limit_ns) {
    return call([&] {
        const Geometry geometry{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, limit_ns};
        return launch(function, geometry, stream, params, false);
    });
}
