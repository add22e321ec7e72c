// SPDX-License-Identifier: Apache-2.0
#include "runtime/module.h"

#include <cstring>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ttrt {
namespace {

// A parameter is at most a small struct by value; more is a module that does not describe itself truly.
constexpr uint32_t kMaxParamBytes = 4096;
constexpr uint32_t kMaxParams = 128;

std::string dl_message() {
    const char *text = dlerror();
    return text != nullptr ? text : "unknown loader error";
}

struct Close {
    void operator()(void *object) const { dlclose(object); }
};

class ReadFile {
  public:
    explicit ReadFile(const char *path) : fd_(open(path, O_RDONLY | O_CLOEXEC)) {}
    ReadFile(const ReadFile &) = delete;
    ReadFile &operator=(const ReadFile &) = delete;
    ~ReadFile() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    bool read(void *to, size_t size, uint64_t offset) const {
        return fd_ >= 0 && pread(fd_, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
    }
    uint64_t size() const {
        struct stat about{};
        return fd_ >= 0 && fstat(fd_, &about) == 0 ? static_cast<uint64_t>(about.st_size) : 0;
    }

  private:
    int fd_;
};

// The loader maps what the headers promise without looking at the file's length: a touch behind its end would be a bus
// error. So everything that they promise must be there.
Status check_whole(const char *path) {
    const ReadFile file(path);
    const uint64_t size = file.size();
    const auto inside = [size](uint64_t offset, uint64_t length) { return offset <= size && length <= size - offset; };
    const auto damaged = [path](const char *what) { return fail(ttrtErrorInvalidKernelImage, path, ": ", what); };
    Elf64_Ehdr header{};
    if (!file.read(&header, sizeof header, 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) {
        return damaged("no 64-bit ELF object");
    }
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    if (!inside(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize) ||
        !file.read(segments.data(), segments.size() * sizeof(Elf64_Phdr), header.e_phoff)) {
        return damaged("the file ends before its tables do");
    }
    for (const Elf64_Phdr &segment : segments) {
        if (segment.p_type == PT_LOAD && !inside(segment.p_offset, segment.p_filesz)) {
            return damaged("the file ends before its segments do");
        }
    }
    return success();
}

Status check(const tt_module_desc *desc, const char *path, const Arch &arch) {
    const std::string where = std::string(path) + ": ";
    if (desc == nullptr || desc->abi_version != TT_ABI_VERSION) {
        return fail(ttrtErrorInvalidKernelImage, where, "ABI version ", desc != nullptr ? desc->abi_version : 0,
                    ", wanted ", TT_ABI_VERSION);
    }
    if (desc->mode != arch.mode || desc->wave_width != arch.wave_width) {
        return fail(ttrtErrorNoKernelImageForDevice, where, "built for ",
                    (desc->mode == TT_MODE_SIM ? "sim" : "threads"), "-w", desc->wave_width, ", the device is ",
                    arch.name);
    }
    for (uint32_t i = 0; i < desc->kernel_count; ++i) {
        const tt_kernel_desc &kernel = desc->kernels[i];
        bool sound = kernel.name != nullptr && kernel.entry != nullptr && kernel.param_count <= kMaxParams;
        for (uint32_t p = 0; sound && p < kernel.param_count; ++p) {
            sound = kernel.param_sizes[p] != 0 && kernel.param_sizes[p] <= kMaxParamBytes;
        }
        if (!sound) {
            return fail(ttrtErrorInvalidKernelImage, where, "its table of kernels is damaged at row ", i);
        }
    }
    return success();
}

} // namespace

Module::Module(void *object, const tt_module_desc *desc, int device)
    : handles(desc->kernel_count, 0), object_(object), desc_(desc), device_(device) {}

Module::~Module() { dlclose(object_); }

Status Module::load(const char *path, int device, const Arch &arch, std::shared_ptr<Module> *module) {
    if (access(path, R_OK) != 0) {
        return fail(ttrtErrorFileNotFound, path, ": ", strerror(errno));
    }
    if (Status status = check_whole(path); !status.ok()) {
        return status;
    }
    std::unique_ptr<void, Close> object(dlopen(path, RTLD_NOW | RTLD_LOCAL));
    if (object == nullptr) {
        return fail(ttrtErrorInvalidKernelImage, dl_message());
    }
    const auto describe = reinterpret_cast<tt_module_describe_fn>(dlsym(object.get(), "tt_module_describe"));
    const auto bind = reinterpret_cast<tt_module_bind_fn>(dlsym(object.get(), "tt_module_bind"));
    if (describe == nullptr || bind == nullptr) {
        return fail(ttrtErrorInvalidKernelImage, path, ": exports no tt_module_describe and tt_module_bind");
    }
    const tt_module_desc *desc = describe();
    if (Status status = check(desc, path, arch); !status.ok()) {
        return status;
    }
    bind(tt_engine_device_api(arch.mode));
    struct Access : Module {
        Access(void *o, const tt_module_desc *d, int n) : Module(o, d, n) {}
    };
    *module = std::make_shared<Access>(object.get(), desc, device);
    object.release();
    return success();
}

std::shared_ptr<Launch> make_launch(const Function &function, const tt_launch_config &config, void *const *params) {
    auto launch = std::make_shared<Launch>();
    launch->module = function.module;
    launch->kernel = function.kernel;
    launch->config = config;
    const tt_kernel_desc &kernel = *function.kernel;
    size_t words = 0;
    for (uint32_t i = 0; i < kernel.param_count; ++i) {
        words += (kernel.param_sizes[i] + 7) / 8;
    }
    launch->storage.resize(words);
    launch->args.resize(kernel.param_count);
    uint64_t *at = launch->storage.data();
    for (uint32_t i = 0; i < kernel.param_count; ++i) {
        std::memcpy(at, params[i], kernel.param_sizes[i]);
        launch->args[i] = at;
        at += (kernel.param_sizes[i] + 7) / 8;
    }
    return launch;
}

} // namespace ttrt
