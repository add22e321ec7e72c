// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>

#include "runtime/device.h"
#include "runtime/simulation.h"

using namespace ttrt;

namespace {

Status need_device(int ordinal, Device **device) {
    *device = Machine::get().device(ordinal);
    return *device != nullptr ? success()
                              : fail(ttrtErrorInvalidDevice, "device ", ordinal, " of ", Machine::get().device_count());
}

// Both devices exist, differ, and run in one way: a simulated world knows only its own device's memory.
Status need_peer(int ordinal, int peer, bool *can) {
    Device *a = nullptr;
    Device *b = nullptr;
    if (Status status = need_device(ordinal, &a); !status.ok()) {
        return status;
    }
    if (Status status = need_device(peer, &b); !status.ok()) {
        return status;
    }
    *can = a != b && !a->simulated() && !b->simulated();
    return success();
}

Status attribute_of(const Device &device, int attribute, int *value) {
    switch (attribute) {
    case ttrtDevAttrMaxThreadsPerBlock:
        *value = kMaxBlockThreads;
        break;
    case ttrtDevAttrMaxBlockDimX:
    case ttrtDevAttrMaxBlockDimY:
    case ttrtDevAttrMaxBlockDimZ:
        *value = static_cast<int>(kMaxBlockDim[attribute - ttrtDevAttrMaxBlockDimX]);
        break;
    case ttrtDevAttrMaxGridDimX:
    case ttrtDevAttrMaxGridDimY:
    case ttrtDevAttrMaxGridDimZ:
        *value = static_cast<int>(kMaxGridDim[attribute - ttrtDevAttrMaxGridDimX]);
        break;
    case ttrtDevAttrMaxSharedMemoryPerBlock:
        *value = kMaxSharedBytes;
        break;
    case ttrtDevAttrWarpSize:
        *value = static_cast<int>(device.arch().wave_width);
        break;
    case ttrtDevAttrMultiProcessorCount:
        *value = kProcessors;
        break;
    case ttrtDevAttrMaxThreadsPerMultiProcessor:
        *value = kThreadsPerProcessor;
        break;
    case ttrtDevAttrIntegrated:
    case ttrtDevAttrCanMapHostMemory:
    case ttrtDevAttrUnifiedAddressing:
    case ttrtDevAttrManagedMemory:
    case ttrtDevAttrHostNativeAtomicSupported:
    case ttrtDevAttrConcurrentManagedAccess:
    case ttrtDevAttrCooperativeLaunch:
    case ttrtDevAttrHostRegisterSupported:
    case ttrtDevAttrMemoryPoolsSupported:
        *value = 1;
        break;
    case ttrtDevAttrStreamPrioritiesSupported:
    case ttrtDevAttrGPUDirectRDMASupported:
    case ttrtDevAttrDmaBufSupported:
        *value = 0;
        break;
    default:
        return fail(ttrtErrorInvalidValue, "attribute ", attribute, " is not known");
    }
    return success();
}

} // namespace

extern "C" ttrtError ttrtGetDeviceCount(int *count) {
    return call([&] {
        if (count == nullptr) {
            return fail(ttrtErrorInvalidValue, "count is NULL");
        }
        *count = Machine::get().device_count();
        return success();
    });
}

extern "C" ttrtError ttrtRuntimeGetVersion(int *version) {
    return call([&] {
        if (version == nullptr) {
            return fail(ttrtErrorInvalidValue, "version is NULL");
        }
        *version = static_cast<int>(TT_ABI_VERSION);
        return success();
    });
}

extern "C" ttrtError ttrtGetDevice(int *device) {
    return call([&] {
        if (device == nullptr) {
            return fail(ttrtErrorInvalidValue, "device is NULL");
        }
        *device = current_ordinal();
        return success();
    });
}

extern "C" ttrtError ttrtSetDevice(int device) {
    return call([&] {
        Device *found = nullptr;
        if (Status status = need_device(device, &found); !status.ok()) {
            return status;
        }
        set_current_ordinal(device);
        return success();
    });
}

extern "C" ttrtError ttrtDeviceGetAttribute(int *value, int attribute, int device) {
    return call([&] {
        Device *found = nullptr;
        if (Status status = need_device(device, &found); !status.ok()) {
            return status;
        }
        return value != nullptr ? attribute_of(*found, attribute, value) : fail(ttrtErrorInvalidValue, "value is NULL");
    });
}

extern "C" ttrtError ttrtGetDeviceProperties(ttrtDeviceProp *properties, int device) {
    return call([&] {
        Device *found = nullptr;
        if (Status status = need_device(device, &found); !status.ok()) {
            return status;
        }
        if (properties == nullptr) {
            return fail(ttrtErrorInvalidValue, "properties is NULL");
        }
        *properties = {};
        const Arch &arch = found->arch();
        snprintf(properties->name, sizeof properties->name, "tutti HOST %s", arch.name);
        snprintf(properties->arch, sizeof properties->arch, "%s", arch.name);
        size_t unused = 0;
        Machine::get().memory().info(device, &unused, &properties->totalGlobalMem);
        properties->sharedMemPerBlock = kMaxSharedBytes;
        properties->maxThreadsPerBlock = kMaxBlockThreads;
        properties->waveWidth = static_cast<int>(arch.wave_width);
        properties->multiProcessorCount = kProcessors;
        properties->maxThreadsPerMultiProcessor = kThreadsPerProcessor;
        return success();
    });
}

extern "C" ttrtError ttrtDeviceSynchronize(void) {
    return call([] { return current_device().synchronize(); });
}

extern "C" ttrtError ttrtDeviceReset(void) {
    return call([] { return current_device().reset(); });
}

extern "C" ttrtError ttrtDeviceGetStreamPriorityRange(int *least, int *greatest) {
    return call([&] {
        if (least != nullptr) {
            *least = 0;
        }
        if (greatest != nullptr) {
            *greatest = 0;
        }
        return success();
    });
}

extern "C" ttrtError ttrtDeviceCanAccessPeer(int *can, int device, int peer) {
    return call([&] {
        bool possible = false;
        if (Status status = need_peer(device, peer, &possible); !status.ok()) {
            return status;
        }
        if (can == nullptr) {
            return fail(ttrtErrorInvalidValue, "can is NULL");
        }
        *can = possible ? 1 : 0;
        return success();
    });
}

extern "C" ttrtError ttrtDeviceEnablePeerAccess(int peer, unsigned int flags) {
    return call([&] {
        bool possible = false;
        if (Status status = need_peer(current_ordinal(), peer, &possible); !status.ok()) {
            return status;
        }
        if (flags != 0) {
            return fail(ttrtErrorInvalidValue, "flags must be 0");
        }
        if (!possible) {
            return fail(ttrtErrorPeerAccessUnsupported, "device ", current_ordinal(), " cannot reach device ", peer);
        }
        return current_device().set_peer(peer, true)
                   ? success()
                   : fail(ttrtErrorPeerAccessAlreadyEnabled, "access to device ", peer);
    });
}

extern "C" ttrtError ttrtDeviceDisablePeerAccess(int peer) {
    return call([&] {
        Device *found = nullptr;
        if (Status status = need_device(peer, &found); !status.ok()) {
            return status;
        }
        return current_device().set_peer(peer, false) ? success()
                                                      : fail(ttrtErrorPeerAccessNotEnabled, "access to device ", peer);
    });
}

extern "C" ttrtError ttrtDeviceGetLaunchReport(int device, tt_launch_report *report) {
    return call([&] {
        Device *found = nullptr;
        if (Status status = need_device(device, &found); !status.ok()) {
            return status;
        }
        if (report == nullptr) {
            return fail(ttrtErrorInvalidValue, "report is NULL");
        }
        const auto last = found->report();
        if (!last) {
            return fail(ttrtErrorNotReady, "no launch has ended on device ", device);
        }
        *report = *last;
        return success();
    });
}

extern "C" ttrtError ttrtDeviceSetMemoryLimit(int device, size_t bytes) {
    return call([&] {
        Device *found = nullptr;
        if (Status status = need_device(device, &found); !status.ok()) {
            return status;
        }
        return Machine::get().memory().set_limit(device, bytes);
    });
}
