// SPDX-License-Identifier: Apache-2.0
//
// Devices, errors, and what a device says of itself.
#pragma once

#include "sim.h"

namespace sim {

inline ttrtError Init(unsigned flags) {
    if (flags != 0) {
        return ttrtErrorInvalidValue;
    }
    initialised = true;
    return ttrtSuccess;
}

inline ttrtError GetDeviceCount(int *count) {
    if (count == nullptr) {
        return ttrtErrorInvalidValue;
    }
    int host = 0;
    const ttrtError error = ttrtGetDeviceCount(&host); // refused in the child of a fork
    *count = error == ttrtSuccess ? Machine::get().count : *count;
    return error;
}

inline ttrtError GetVersion(int *version) {
    if (version == nullptr) {
        return ttrtErrorInvalidValue;
    }
    *version = abi::kSdkNumber;
    return ttrtSuccess;
}

inline ttrtError GetDevice(int *device) {
    if (device == nullptr) {
        return ttrtErrorInvalidValue;
    }
    int host = 0;
    const ttrtError error = ttrtGetDevice(&host);
    *device = error == ttrtSuccess ? current_ordinal() : *device;
    return error;
}

inline ttrtError SetDevice(int device) {
    if (!Machine::get().has(device)) {
        return ttrtErrorInvalidDevice;
    }
    return ttrtSetDevice(Machine::get().host(device));
}

// The driver's handle of a device is its ordinal.
inline ttrtError DeviceGet(int *device, int ordinal) {
    if (device == nullptr || !Machine::get().has(ordinal)) {
        return device == nullptr ? ttrtErrorInvalidValue : ttrtErrorInvalidDevice;
    }
    *device = ordinal;
    return ttrtSuccess;
}

inline ttrtError DeviceGetName(char *name, int capacity, int device) {
    if (name == nullptr || capacity <= 0 || !Machine::get().has(device)) {
        return Machine::get().has(device) ? ttrtErrorInvalidValue : ttrtErrorInvalidDevice;
    }
    std::snprintf(name, static_cast<size_t>(capacity), "%s", Machine::get().arch->title);
    return ttrtSuccess;
}

inline ttrtError DeviceGetPCIBusId(char *text, int capacity, int device) {
    if (!Machine::get().has(device)) {
        return ttrtErrorInvalidDevice;
    }
    char whole[32];
    std::snprintf(whole, sizeof whole, "%04x:%02x:%02x.0", abi::kPciDomain, abi::kPciBus + device, 0);
    if (text == nullptr || capacity <= static_cast<int>(std::strlen(whole))) {
        return ttrtErrorInvalidValue;
    }
    std::strcpy(text, whole);
    return ttrtSuccess;
}

inline ttrtError DeviceGetAttribute(int *value, int attribute, int device) {
    if (!Machine::get().has(device)) {
        return ttrtErrorInvalidDevice;
    }
    return value == nullptr ? ttrtErrorInvalidValue : abi_attribute(value, attribute, device);
}

inline ttrtError DeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least != nullptr) {
        *least = abi::kLeastPriority;
    }
    if (greatest != nullptr) {
        *greatest = abi::kGreatestPriority;
    }
    return ttrtSuccess;
}

inline ttrtError DeviceSynchronize() { return ttrtDeviceSynchronize(); }
inline ttrtError DeviceReset() { return ttrtDeviceReset(); }

inline ttrtError DeviceCanAccessPeer(int *can, int device, int peer) {
    const Machine &machine = Machine::get();
    if (!machine.has(device) || !machine.has(peer)) {
        return ttrtErrorInvalidDevice;
    }
    return ttrtDeviceCanAccessPeer(can, machine.host(device), machine.host(peer));
}

inline ttrtError DeviceEnablePeerAccess(int peer, unsigned flags) {
    const Machine &machine = Machine::get();
    return machine.has(peer) ? ttrtDeviceEnablePeerAccess(machine.host(peer), flags) : ttrtErrorInvalidDevice;
}

inline ttrtError DeviceDisablePeerAccess(int peer) {
    const Machine &machine = Machine::get();
    return machine.has(peer) ? ttrtDeviceDisablePeerAccess(machine.host(peer)) : ttrtErrorInvalidDevice;
}

// ---- errors: of the calling thread, in the vendor's numbers

inline int GetLastError() {
    const int code = last_error;
    last_error = 0;
    return code;
}
inline int PeekAtLastError() { return last_error; }
inline const char *GetErrorName(int code) { return error_name(code); }

// No table of texts is published: the name says it, without its prefix.
inline const char *GetErrorString(int code) {
    const char *const name = error_name(code);
    const size_t prefix = std::strlen(abi::kErrorPrefix);
    return std::strncmp(name, abi::kErrorPrefix, prefix) == 0 && name[prefix] != '\0' ? name + prefix : name;
}

// The driver's form: the text through a pointer.
inline int DriverGetErrorString(int code, const char **text) {
    if (text == nullptr) {
        return vendor_error(ttrtErrorInvalidValue);
    }
    *text = GetErrorString(code);
    return 0;
}

} // namespace sim
