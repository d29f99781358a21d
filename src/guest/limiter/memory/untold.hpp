// Memory taken as a side effect of a call: contexts, a module's static arrays, stacks, heaps and printf buffers. A size
// known before the call is reserved; otherwise the share's growth is measured right after the call, which is undone if
// it is too much. Afterwards the memory is part of the process's residual.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guest/bare/saturating.hpp"
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/memory/oom_wait.hpp"
#include "guest/limiter/memory/refusal.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {

// Unknown size: measured after the call.
inline constexpr std::uint64_t kUntold = ~0ull;

// Returns whether memory at that place has a limit.
bool is_limited(const Place& place);

// Returns the free memory of the current context's device, or SIZE_MAX if the driver does not say.
std::size_t free_on_card();

// The rise of the process's residual above `before_bytes` by a call of unknown size, besides what is reserved for it.
// Measures now: waits for the daemon or calls NVML. If the figure is unavailable, what `less_free` is above `reserved`
// instead; kUntold: keeps the last figure.
std::uint64_t measured_growth(std::uint32_t device_index, std::uint64_t before_bytes, std::uint64_t less_free,
                              std::uint64_t reserved);
// Returns whether the share, with that growth, is within its limit.
bool growth_fits(std::uint32_t device_index, std::uint64_t bytes);

// What a call took in a context, by key, until the context is destroyed or the reverse call gives it back.
extern AllocationTable untold;

void libraries_reset_after_fork();

// Call before and after the driver destroys a context, which frees what calls took in it.
void untold_may_go(std::uint64_t context);
void untold_gone(std::uint64_t context);

// make(): the driver's call, which takes `bytes` on `place`, or kUntold. undo(): reverts it. grew(): the decrease of
// the card's free memory, kUntold if unknown; if 0, nothing is measured. took: what the call took, if known.
// at_least: of kUntold, what is known to be needed; it is held from before the call on, and counts at least.
template <typename Make, typename Undo, typename Grew>
abi::CUresult taking(const Place& place, std::uint64_t bytes, Make make, Undo undo, Grew grew,
                     std::uint64_t* took = nullptr, std::uint64_t at_least = 0) {
  if (!is_limited(place)) return make();
  OomWait wait;
  const bool told = bytes != kUntold;
  const std::uint64_t reserved = told ? bytes : at_least;
  if ((told || at_least != 0) && reserve_at(place, reserved, wait) != Verdict::reserved) return refusal();
  // Until it is measured, a reading of the memory thread's would take it for a context's.
  if (!told) wait.in_flight.begin(place.device_index);
  const std::uint64_t before = own_residual(place.device_index);
  const abi::CUresult result = noted(make());
  if (result != abi::CUDA_SUCCESS) {
    hand_back_unused(place.device_index, reserved);
    return result;
  }
  const std::uint64_t less_free = told ? 0 : grew();
  const bool is_measured = !told && (less_free != 0 || at_least != 0);
  // What is reserved hides as much growth until it becomes residual.
  const std::uint64_t over = is_measured ? measured_growth(place.device_index, before, less_free, reserved) : 0;
  becomes_residual(place.device_index, reserved);
  const std::uint64_t grown = bare::saturating_add(reserved, over);
  if (took != nullptr) *took = grown;
  if (!is_measured || growth_fits(place.device_index, grown)) return result;
  book_refusal(place, grown);
  undo();
  residual_falls(place.device_index, grown);
  return refusal();
}

}  // namespace headgate::limiter
