// What a context takes of a GPU: measured of the node's first one, reserved before each later one, corrected by what
// that takes.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// More than the largest GPU's context takes; what measures more is no context alone.
inline constexpr std::uint64_t kLargestContext = 2ull << 30;

// Of this card and driver: by the share, else by the node, which is the daemon or this user's page of the GPU. 0: none
// was measured yet.
std::uint64_t context_bytes(std::uint32_t device_index);

// A context was made, of which `assumed_bytes` are charged already. What it takes is learnt from the next reading.
void context_came(std::uint32_t device_index, std::uint64_t assumed_bytes);

// A reading while nothing is under way: the process has `measured_bytes` of residual, `told_bytes` of it by calls that
// said so. Returns what is to be added to those, so that they hold the context as it was measured.
std::int64_t learn_context(std::uint32_t device_index, std::uint64_t measured_bytes, std::uint64_t told_bytes);

// What was measured by itself.
void know_context_bytes(std::uint32_t device_index, std::uint64_t bytes);

void context_size_reset_after_fork();

}  // namespace headgate::limiter
