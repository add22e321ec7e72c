// SPDX-License-Identifier: Apache-2.0
//
// What every call of a simulated runtime goes through: the devices of the SDK root that the library lies in, the
// calling thread's current one, and numbers in both directions. The tables of namespace sim::abi are generated from an
// abi.yaml.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <pthread.h>

#include "tutti/host_runtime.h"

namespace sim {

// ---- what is generated

struct ErrorRow {
    int host;   // ttrtError, -1: HOST has nothing that means this
    int vendor; // the vendor's number
    const char *name;
};
struct NumberRow {
    unsigned vendor;
    unsigned host;
};
struct ArchRow {
    const char *name;
    const char *title; // what the device calls itself
    unsigned wave;
    int major;
    int minor;
    int shared_bytes;
    int pci_device;
    int registers; // of a block
};

namespace abi {
#include "tables.inc"
}

// ---- devices

// The devices of the root that this library lies in, as <root>/simulated.conf has them, by the vendor's ordinals.
struct Machine {
    const ArchRow *arch = nullptr;
    int count = 0;
    int first = 0; // HOST's ordinal of the vendor's device 0
    std::string root;

    static const Machine &get() {
        static const Machine machine;
        return machine;
    }
    bool has(int ordinal) const { return ordinal >= 0 && ordinal < count; }
    int host(int ordinal) const { return first + ordinal; }

  private:
    Machine() {
        Dl_info about{};
        if (dladdr(reinterpret_cast<const void *>(&Machine::get), &about) == 0) {
            return;
        }
        const std::string library = about.dli_fname;
        root = library.substr(0, library.rfind('/'));
        root = root.substr(0, root.rfind('/'));
        char name[64] = "";
        int wanted = 0;
        if (std::FILE *const file = std::fopen((root + "/simulated.conf").c_str(), "r"); file != nullptr) {
            if (std::fscanf(file, "arch %63s devices %d", name, &wanted) != 2) {
                wanted = 0;
            }
            std::fclose(file);
        }
        for (const ArchRow &row : abi::kArchs) {
            arch = std::strcmp(name, row.name) == 0 ? &row : arch;
        }
        int host_devices = 0;
        if (arch == nullptr || ttrtGetDeviceCount(&host_devices) != ttrtSuccess) {
            return;
        }
        const int per_arch = host_devices / (ttrtArchSimW128 + 1);
        const int mode = arch->wave == 32   ? ttrtArchThreadsW32
                         : arch->wave == 64 ? ttrtArchThreadsW64
                                            : ttrtArchThreadsW128;
        first = mode * per_arch;
        count = wanted < per_arch ? wanted : per_arch;
    }
};

inline thread_local int last_error = 0; // the vendor's number

// The calling thread's current device is HOST's, so that all libraries of a root agree on it; another vendor's counts
// as none chosen, which is 0.
inline int current_ordinal() {
    int host = 0;
    const bool known = ttrtGetDevice(&host) == ttrtSuccess && Machine::get().has(host - Machine::get().first);
    return known ? host - Machine::get().first : 0;
}

// For the length of a call HOST's current device is the vendor's; what it was before is put back, unless the call
// chose.
class OnDevice {
  public:
    OnDevice() : mine_(Machine::get().host(current_ordinal())) {
        if (ttrtGetDevice(&before_) == ttrtSuccess && before_ != mine_) {
            changed_ = ttrtSetDevice(mine_) == ttrtSuccess;
        }
    }
    OnDevice(const OnDevice &) = delete;
    OnDevice &operator=(const OnDevice &) = delete;
    ~OnDevice() {
        int now = 0;
        if (changed_ && ttrtGetDevice(&now) == ttrtSuccess && now == mine_) {
            ttrtSetDevice(before_);
        }
    }

  private:
    int mine_;
    int before_ = 0;
    bool changed_ = false;
};

// ---- numbers

inline int vendor_error(int host) {
    for (const ErrorRow &row : abi::kErrors) {
        if (row.host == host) {
            return row.vendor;
        }
    }
    return abi::kUnknownError;
}

inline const char *error_name(int code) {
    for (const ErrorRow &row : abi::kErrors) {
        if (row.vendor == code) {
            return row.name;
        }
    }
    return "unrecognized error code";
}

// A choice: one of the rows, exactly.
template <size_t N> bool from_vendor(const NumberRow (&rows)[N], int value, int *host) {
    for (const NumberRow &row : rows) {
        if (static_cast<unsigned>(value) == row.vendor) {
            *host = static_cast<int>(row.host);
            return true;
        }
    }
    return false;
}
template <size_t N> int to_vendor(const NumberRow (&rows)[N], int value) {
    for (const NumberRow &row : rows) {
        if (static_cast<unsigned>(value) == row.host) {
            return static_cast<int>(row.vendor);
        }
    }
    return -1;
}

// Flags: any of the rows together, and no other bit.
template <size_t N> bool flags_from_vendor(const NumberRow (&rows)[N], unsigned value, unsigned *host) {
    *host = 0;
    for (const NumberRow &row : rows) {
        if (row.vendor != 0 && (value & row.vendor) == row.vendor) {
            *host |= row.host;
            value &= ~row.vendor;
        }
    }
    return value == 0;
}
template <size_t N> unsigned flags_to_vendor(const NumberRow (&rows)[N], unsigned value) {
    unsigned vendor = 0;
    for (const NumberRow &row : rows) {
        vendor |= row.host != 0 && (value & row.host) == row.host ? row.vendor : 0;
    }
    return vendor;
}

// ---- calls

// A lock for what this library keeps beside HOST.
class Lock {
  public:
    Lock() { pthread_mutex_lock(&mutex_); }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;
    ~Lock() { pthread_mutex_unlock(&mutex_); }

  private:
    static inline pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

// Set by the driver's init and by the first call of the runtime; it lives in the library that has the driver's calls.
inline bool initialised = false;

// Which rule of initialisation a call keeps; `before` has none.
enum class Layer { before, runtime, driver };

#if defined(SIM_DRIVER_LIBRARY)
// The runtime library initialises the driver, which is another library of the same root.
inline bool initialise() {
    static const bool done = [] {
        void *const driver = dlopen((Machine::get().root + "/lib/" SIM_DRIVER_LIBRARY).c_str(), RTLD_NOW | RTLD_LOCAL);
        const auto init =
            driver != nullptr ? reinterpret_cast<int (*)(unsigned)>(dlsym(driver, SIM_DRIVER_INIT)) : nullptr;
        return init != nullptr && init(0) == 0;
    }();
    return done;
}
#else
inline bool initialise() { return initialised = true; }
#endif

inline int ended(ttrtError host) {
    const int code = host == ttrtSuccess ? 0 : vendor_error(host);
    if (code != 0) {
        last_error = code;
    }
    return code;
}

// One call: the layer's rule of initialisation, the current device, the number that it answers with.
template <typename Body> int enter(Layer layer, const Body &body) {
    if (layer == Layer::driver && abi::kDriverNeedsInit && !initialised) {
        return ended(ttrtErrorInitializationError);
    }
    if (layer == Layer::runtime && !initialise()) {
        return ended(ttrtErrorInitializationError);
    }
    if (Machine::get().count == 0) {
        return ended(ttrtErrorNoDevice);
    }
    const OnDevice device;
    return ended(body());
}

// Handles of the vendor are HOST's, under the vendor's types.
template <typename To> struct Handle {
    To host;
    template <typename From> Handle(From *vendor) : host(reinterpret_cast<To>(vendor)) {}
    operator To() const { return host; }
};
template <typename To> struct HandleOut {
    To *host;
    template <typename From> HandleOut(From **vendor) : host(reinterpret_cast<To *>(vendor)) {}
    operator To *() const { return host; }
};
using Stream = Handle<ttrtStream_t>;
using Event = Handle<ttrtEvent_t>;
using Module = Handle<ttrtModule_t>;
using Function = Handle<ttrtFunction_t>;
using StreamOut = HandleOut<ttrtStream_t>;
using EventOut = HandleOut<ttrtEvent_t>;
using ModuleOut = HandleOut<ttrtModule_t>;
using FunctionOut = HandleOut<ttrtFunction_t>;

// What an address is, with the vendor's numbers; the layout is the vendor's.
struct PointerFacts {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
    int managed;
    unsigned flags;
};

// A device address, as a pointer or as the driver's integer.
struct Address {
    void *pointer;
    Address(const void *from) : pointer(const_cast<void *>(from)) {}
    Address(unsigned long long from) : pointer(reinterpret_cast<void *>(from)) {}
    operator void *() const { return pointer; }
};

template <typename T> void put(void *out, size_t offset, T value) {
    std::memcpy(static_cast<char *>(out) + offset, &value, sizeof value);
}

} // namespace sim
