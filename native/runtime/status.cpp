// SPDX-License-Identifier: Apache-2.0
#include "runtime/status.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include <pthread.h>

namespace ttrt {
namespace {

struct Entry {
    ttrtError code;
    const char *name;
    const char *text;
};

constexpr std::array<Entry, 29> kErrors{{
    {ttrtSuccess, "ttrtSuccess", "no error"},
    {ttrtErrorInvalidValue, "ttrtErrorInvalidValue", "invalid argument"},
    {ttrtErrorMemoryAllocation, "ttrtErrorMemoryAllocation", "out of memory"},
    {ttrtErrorInitializationError, "ttrtErrorInitializationError", "the runtime is not usable in this process"},
    {ttrtErrorInvalidConfiguration, "ttrtErrorInvalidConfiguration", "invalid launch configuration"},
    {ttrtErrorInvalidDevicePointer, "ttrtErrorInvalidDevicePointer", "invalid device pointer"},
    {ttrtErrorInvalidMemcpyDirection, "ttrtErrorInvalidMemcpyDirection", "the copy kind contradicts the pointers"},
    {ttrtErrorInvalidDeviceFunction, "ttrtErrorInvalidDeviceFunction", "invalid device function"},
    {ttrtErrorNoDevice, "ttrtErrorNoDevice", "no device"},
    {ttrtErrorInvalidDevice, "ttrtErrorInvalidDevice", "no device of this ordinal"},
    {ttrtErrorInvalidKernelImage, "ttrtErrorInvalidKernelImage", "not a kernel module"},
    {ttrtErrorNoKernelImageForDevice, "ttrtErrorNoKernelImageForDevice",
     "the module was built for another mode or wave width"},
    {ttrtErrorPeerAccessUnsupported, "ttrtErrorPeerAccessUnsupported", "the devices cannot reach each other"},
    {ttrtErrorFileNotFound, "ttrtErrorFileNotFound", "file not found"},
    {ttrtErrorInvalidResourceHandle, "ttrtErrorInvalidResourceHandle", "invalid, stale or foreign handle"},
    {ttrtErrorSymbolNotFound, "ttrtErrorSymbolNotFound", "the module has no such symbol"},
    {ttrtErrorNotReady, "ttrtErrorNotReady", "work is still pending"},
    {ttrtErrorIllegalAddress, "ttrtErrorIllegalAddress", "a kernel reached for memory that is not there"},
    {ttrtErrorLaunchOutOfResources, "ttrtErrorLaunchOutOfResources", "the launch needs more than the device has"},
    {ttrtErrorLaunchTimeout, "ttrtErrorLaunchTimeout", "the kernel outran its time limit"},
    {ttrtErrorPeerAccessAlreadyEnabled, "ttrtErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {ttrtErrorPeerAccessNotEnabled, "ttrtErrorPeerAccessNotEnabled", "peer access is not enabled"},
    {ttrtErrorHostMemoryAlreadyRegistered, "ttrtErrorHostMemoryAlreadyRegistered",
     "part of the memory is already registered"},
    {ttrtErrorHostMemoryNotRegistered, "ttrtErrorHostMemoryNotRegistered", "the memory is not registered"},
    {ttrtErrorLaunchFailure, "ttrtErrorLaunchFailure", "a kernel failed"},
    {ttrtErrorCooperativeLaunchTooLarge, "ttrtErrorCooperativeLaunchTooLarge", "the grid cannot be wholly resident"},
    {ttrtErrorNotPermitted, "ttrtErrorNotPermitted", "not permitted here"},
    {ttrtErrorNotSupported, "ttrtErrorNotSupported", "not supported by this device"},
    {ttrtErrorUnknown, "ttrtErrorUnknown", "unknown error"},
}};

const Entry *find(ttrtError code) {
    const auto *found = std::find_if(kErrors.begin(), kErrors.end(), [&](const Entry &e) { return e.code == code; });
    return found == kErrors.end() ? nullptr : found;
}

struct LastError {
    ttrtError code = ttrtSuccess;
    std::string detail; // outlives a GetLastError, so that the explanation can still be asked for
};

LastError &last_error() {
    thread_local LastError error;
    return error;
}

std::atomic<bool> forked{false};

} // namespace

ttrtError publish(const Status &status) {
    if (!status.ok()) {
        last_error() = {status.code, status.detail};
    }
    return status.code;
}

bool after_fork() {
    [[maybe_unused]] static const int watch =
        pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
    return forked.load(std::memory_order_relaxed);
}

} // namespace ttrt

using ttrt::last_error;

extern "C" ttrtError ttrtGetLastError(void) { return std::exchange(last_error().code, ttrtSuccess); }

extern "C" ttrtError ttrtPeekAtLastError(void) { return last_error().code; }

extern "C" const char *ttrtGetErrorName(ttrtError error) {
    const auto *entry = ttrt::find(error);
    return entry != nullptr ? entry->name : "unrecognized error code";
}

extern "C" const char *ttrtGetErrorString(ttrtError error) {
    const auto *entry = ttrt::find(error);
    return entry != nullptr ? entry->text : "unrecognized error code";
}

extern "C" ttrtError ttrtGetLastErrorDetail(char *text, size_t capacity) {
    if (text == nullptr || capacity == 0) {
        return ttrtErrorInvalidValue;
    }
    const std::string &detail = last_error().detail;
    const size_t length = std::min(detail.size(), capacity - 1);
    std::memcpy(text, detail.data(), length);
    text[length] = '\0';
    return ttrtSuccess;
}
