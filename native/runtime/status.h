// SPDX-License-Identifier: Apache-2.0
//
// What a call came to: an error number and, for a person, why. The edge of the C ABI turns it into the calling
// thread's last error.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/host_runtime.h"

namespace ttrt {

struct [[nodiscard]] Status {
    ttrtError code = ttrtSuccess;
    std::string detail;

    bool ok() const { return code == ttrtSuccess; }
};

inline Status success() { return {}; }

// The parts, numbers and text, one behind the other.
template <typename... Parts> std::string concat(const Parts &...parts) {
    std::string text;
    const auto add = [&]<typename T>(const T &part) {
        if constexpr (std::is_arithmetic_v<T>) {
            text.append(std::to_string(part));
        } else {
            text.append(part);
        }
    };
    (add(parts), ...);
    return text;
}
template <typename... Parts> Status fail(ttrtError code, const Parts &...parts) { return {code, concat(parts...)}; }

// Thrown where a refusal is found too deep to be handed up.
struct Refusal : std::exception {
    Status status;
    explicit Refusal(Status s) : status(std::move(s)) {}
    const char *what() const noexcept override { return status.detail.c_str(); }
};

// Keeps a failure as the calling thread's last error; returns its number.
ttrtError publish(const Status &status);

// True in a child of fork: its parent's worker threads do not exist here.
bool after_fork();

// The body of every exported function: nothing is thrown over the C ABI, every failure becomes the last error.
template <typename Body> ttrtError call(Body &&body) noexcept {
    try {
        if (after_fork()) {
            return publish(fail(ttrtErrorInitializationError, "the process forked after the runtime had started"));
        }
        return publish(body());
    } catch (const Refusal &refusal) {
        return publish(refusal.status);
    } catch (const std::bad_alloc &) {
        return publish(fail(ttrtErrorMemoryAllocation, "the process is out of memory"));
    } catch (const std::exception &error) {
        return publish(fail(ttrtErrorUnknown, error.what()));
    }
}

} // namespace ttrt
