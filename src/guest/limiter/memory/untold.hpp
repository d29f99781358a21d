// Memory taken as a side effect of a call: contexts, a module's static arrays, stacks, heaps and printf buffers. A size
// known before the call is reserved; otherwise the share's growth is measured right after the call, which is undone if
// it is too much. Afterwards the memory is part of the process's residual.
#pragma once

#include <cstddef>
#include <cstdint>

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

// The rise of the process's residual above `before_bytes` by a call of unknown size. Measures now: waits for the daemon
// or calls NVML. If the figure is unavailable, `less_free` instead; kUntold: keeps the last figure.
std::uint64_t measured_growth(std::uint32_t device_index, std::uint64_t before_bytes, std::uint64_t less_free);
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
template <typename Make, typename Undo, typename Grew>
abi::CUresult taking(const Place& place, std::uint64_t bytes, Make make, Undo undo, Grew grew,
                     std::uint64_t* took = nullptr) {
  if (!is_limited(place)) return make();
  OomWait wait;
  const bool told = bytes != kUntold;
  if (told && reserve_at(place, bytes, wait) != Verdict::reserved) return refusal();
  const std::uint64_t before = own_residual(place.device_index);
  const abi::CUresult result = noted(make());
  if (told) {
    if (took != nullptr) *took = bytes;
    if (result == abi::CUDA_SUCCESS) becomes_residual(place.device_index, bytes);
    else hand_back_unused(place.device_index, bytes);
    return result;
  }
  const std::uint64_t less_free = result == abi::CUDA_SUCCESS ? grew() : 0;
  if (less_free == 0) return result;
  const std::uint64_t grown = measured_growth(place.device_index, before, less_free);
  if (took != nullptr) *took = grown;
  if (growth_fits(place.device_index, grown)) return result;
  book_refusal(place, grown);
  undo();
  residual_falls(place.device_index, grown);
  return refusal();
}

}  // namespace headgate::limiter
