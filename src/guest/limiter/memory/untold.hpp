// Memory that a call takes without asking for it: contexts, a module's static arrays, stacks, heaps and printf buffers.
// Where the size is known before the call it is reserved like any other; else what the share has grown by is measured
// right after the call, which is undone if that is too much. Afterwards the memory is part of the process's residual.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/memory/oom_wait.hpp"
#include "guest/limiter/memory/refusal.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {

// What has no size: it is measured after the call.
inline constexpr std::uint64_t kUntold = ~0ull;

// Whether memory of that place is held to a limit.
bool is_limited(const Place& place);

// Whether so much would fit the share just now; nothing is reserved.
bool has_room(const Place& place, std::uint64_t bytes);

// How much of the card is free, or SIZE_MAX where the driver does not say. Of the current context's device.
std::size_t free_on_card();

// How far the process's residual rises by a call that tells no size. The share's limit decides after it.
class Growth {
 public:
  explicit Growth(std::uint32_t device_index);
  // Measures now: waits for the daemon or calls NVML. Where the driver does not say, `less_free` stands in for the
  // figure; kUntold: the last one stands.
  void measure(std::uint64_t less_free);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool fits() const;
  // The call was undone: what it took is not the process's any more.
  void take_back();

 private:
  std::uint32_t device_index_;
  std::uint64_t before_, bytes_ = 0;
};

// What a context's call took, by its key, until the context goes or the call's counterpart gives it back.
extern AllocationTable untold;

void libraries_reset_after_fork();

// Before and after the driver destroys a context: what calls took in it is not the process's any more.
void untold_may_go(std::uint64_t context);
void untold_gone(std::uint64_t context);

// make(): the driver's call, which takes `bytes` on `place`, or kUntold. undo(): takes it back. grew(): by how much
// the card has less free, kUntold where that is unknown; with 0 nothing is measured. took: what the call has taken,
// where that is known.
template <typename Make, typename Undo, typename Grew>
abi::CUresult taking(const Place& place, std::uint64_t bytes, Make make, Undo undo, Grew grew,
                     std::uint64_t* took = nullptr) {
  if (!is_limited(place)) return make();
  OomWait wait;
  const bool told = bytes != kUntold;
  if (told && reserve_at(place, bytes, wait) != Verdict::reserved) return refusal();
  Growth growth(place.device_index);
  const abi::CUresult result = noted(make());
  if (told) {
    if (result == abi::CUDA_SUCCESS) residual_rises(place.device_index, bytes);
    if (took != nullptr) *took = bytes;
    hand_back_unused(place.device_index, bytes);
    return result;
  }
  const std::uint64_t less_free = result == abi::CUDA_SUCCESS ? grew() : 0;
  if (less_free == 0) return result;
  growth.measure(less_free);
  if (took != nullptr) *took = growth.bytes();
  if (growth.fits()) return result;
  book_refusal(place, growth.bytes());
  undo();
  growth.take_back();
  return refusal();
}

}  // namespace headgate::limiter
