// GPU memory of this process's contexts: measured for the node's first one, reserved before each later one, corrected by
// measurement, and given back as it was charged. Thread-safe: one short lock, which no launch or allocation takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// More than a context on the largest GPU takes; a larger measurement includes other memory.
inline constexpr std::uint64_t kLargestContext = 2ull << 30;

struct ContextSize {
  std::uint64_t bytes = 0;  // 0: unknown
  bool is_measured = false;
};

// Returns the size for this card and driver, as measured: from the share, else from the node (the daemon or this user's
// page of the GPU). If none is known, returns this process's guess.
ContextSize context_size(std::uint32_t device_index);

struct Context {
  abi::CUcontext handle = nullptr;  // null: free
  std::uint32_t device_index = 0;
  bool awaits_reading = false;
  std::uint64_t charged_bytes = 0;
};

// Call when a context was created and `charged_bytes` are charged for it; the next reading gives its size. Returns
// false if it is recorded already.
bool context_came(abi::CUcontext handle, std::uint32_t device_index, std::uint64_t charged_bytes);

// Call before a context may be destroyed: forgets it and returns what was recorded, so that no thread uses the handle.
// The handle is null in what is returned for a context that is not recorded.
Context take_context(abi::CUcontext handle);
// Call if it was not destroyed.
void put_context(const Context& context);

inline constexpr std::uint32_t kMaxKnownContexts = 128;
// Copies the handles of all recorded contexts. Returns their number. Another thread may destroy them meanwhile.
std::uint32_t known_contexts(abi::CUcontext (&handles)[kMaxKnownContexts]);

// Returns whether a context of this process waits for a reading.
bool context_awaits_reading(std::uint32_t device_index);

// Evaluates a reading taken while nothing is in flight: `measured_bytes` of residual, `told_bytes` of it explained by
// calls. Returns the correction to the latter, so that they contain the contexts as measured.
std::int64_t learn_contexts(std::uint32_t device_index, std::uint64_t measured_bytes, std::uint64_t told_bytes);

// Where NVML does not tell: evaluates by how much the card's free memory fell while a context was created. Other
// processes change it too, so only this process uses the guess, and a later one replaces it if it was seen twice running.
// Charges the guess for each context without a reading. Returns the change of these charges.
std::int64_t guess_contexts(std::uint32_t device_index, std::uint64_t bytes);

// Returns the card's free memory as CUDA tells it in one of these contexts; SIZE_MAX if it does not.
std::size_t free_in_a_context(std::uint32_t device_index);

void context_size_reset_after_fork();

}  // namespace headgate::limiter
