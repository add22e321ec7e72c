// SPDX-License-Identifier: Apache-2.0
//
// A compiled kernel module, loaded on one device; its functions; a launch with its arguments copied.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/status.h"

namespace ttrt {

struct Arch {
    const char *name;
    uint32_t mode; // TT_MODE_*
    uint32_t wave_width;
};

class Module {
  public:
    // Loads and binds the shared object; the device's arch must be the module's.
    static Status load(const char *path, int device, const Arch &arch, std::shared_ptr<Module> *module);
    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;
    ~Module();

    int device() const { return device_; }
    const tt_module_desc &desc() const { return *desc_; }

    std::mutex handles_mutex;
    std::vector<uint64_t> handles; // of each kernel, 0: not handed out yet
    // What the module was loaded from, where that is no file of the caller's: the loader knows an object by its path,
    // so the path may not come to name another one while this one is loaded.
    std::shared_ptr<void> source;

  private:
    Module(void *object, const tt_module_desc *desc, int device);

    void *object_;
    const tt_module_desc *desc_;
    int device_;
};

struct Function {
    std::shared_ptr<Module> module;
    const tt_kernel_desc *kernel;
};

// Holds its module, so that the code outlives the launch.
struct Launch {
    std::shared_ptr<Module> module;
    const tt_kernel_desc *kernel = nullptr;
    tt_launch_config config{};
    std::vector<uint64_t> storage; // the arguments' bytes, each from an 8-byte boundary on
    std::vector<void *> args;
};

std::shared_ptr<Launch> make_launch(const Function &function, const tt_launch_config &config, void *const *params);

} // namespace ttrt
