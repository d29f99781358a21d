// GPU memory of a context: measured for the node's first one, reserved before each later one, and corrected by
// measurement.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// More than a context on the largest GPU takes; a larger measurement includes other memory.
inline constexpr std::uint64_t kLargestContext = 2ull << 30;

// Returns the size for this card and driver: from the share, else from the node (the daemon or this user's page of the
// GPU). 0: not measured yet.
std::uint64_t context_bytes(std::uint32_t device_index);

// Call when a context was destroyed: if it was the one that waited for a reading, none is needed.
void context_went(std::uint32_t device_index);

// Call when a context was created and `assumed_bytes` are charged for it. The next reading gives its size.
void context_came(std::uint32_t device_index, std::uint64_t assumed_bytes);

// Evaluates a reading taken while nothing is in flight: `measured_bytes` of residual, `told_bytes` of it explained by
// calls. Returns the correction to the latter, so that they contain the context as measured.
std::int64_t learn_context(std::uint32_t device_index, std::uint64_t measured_bytes, std::uint64_t told_bytes);

// Stores a size that was measured separately.
void know_context_bytes(std::uint32_t device_index, std::uint64_t bytes);
// Stores what the card's free memory tells. Other processes may have taken part of it, so only this one uses it.
void guess_context_bytes(std::uint32_t device_index, std::uint64_t bytes);

// Returns whether a context of this process waits for a reading.
bool context_awaits_reading(std::uint32_t device_index);
// Ends that wait where no reading comes: returns what the context lacks of a charge of `bytes`; 0 if there are several.
std::uint64_t charge_unread_context(std::uint32_t device_index, std::uint64_t bytes);

void context_size_reset_after_fork();

}  // namespace headgate::limiter
