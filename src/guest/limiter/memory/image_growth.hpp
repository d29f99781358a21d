// Memory taken by loading modules and libraries is charged to the share before the call returns.
#pragma once

#include "guest/bare/saturating.hpp"
#include "guest/limiter/memory/image_needs.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/memory/untold.hpp"
#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {

// Half a granule of the card. Memory taken by another process meanwhile only costs a measurement.
inline constexpr std::size_t kMinGrowth = 1 << 20;
inline constexpr std::size_t kLargestGrowth = 4ull << 30;  // a larger change of the card's free memory is others'

// CUfunction_attribute's CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES.
inline constexpr auto kLocalBytes = static_cast<abi::CUfunction_attribute>(3);

// Returns 90 for 9.0; 0 if the driver does not say.
unsigned architecture_of(abi::CUdevice device);

// Returns whether kernels' code is loaded at their first launch instead of with the module.
bool loads_lazily();

// Returns whether a kernel's local memory fits, for every thread that the card can hold. Charges it if it does, else
// records a refusal; never waits for memory as an allocation may, since a program expects a look-up to return.
bool has_room_for_local(const Place& place, int bytes_a_thread);

// load(): the driver's call, on a place with a limit. undo(): reverts it. `took`: what it took, if visible.
template <typename Load, typename Undo>
abi::CUresult with_image(const ImageNeeds& needs, const Place& place, Load load, Undo undo, std::uint64_t& took) {
  const auto came = [&](abi::CUresult result) {
    if (result == abi::CUDA_SUCCESS) code_may_come(place.device_index, needs.code_bytes);
    return result;
  };
  const bool lazy = loads_lazily();
  // What an eager load takes besides its arrays shows only afterwards, so more than arrays alone is measured.
  const bool arrays_only = lazy || (needs.static_bytes >= kMinGrowth && needs.code_bytes < kMinGrowth);
  if (needs.told && needs.static_bytes != 0 && arrays_only)
    return came(taking(place, needs.static_bytes, load, undo, [] { return kUntold; }, &took));
  if (needs.told && lazy) return came(load());
  const std::size_t before = free_on_card();
  // Where the card's free memory does not show it, the arrays that the image tells are its size.
  const std::uint64_t unseen = needs.told && needs.static_bytes != 0 ? needs.static_bytes : kUntold;
  const auto grew = [=]() -> std::uint64_t {
    const std::size_t now = free_on_card();
    if (now == SIZE_MAX || before == SIZE_MAX) return unseen;
    if (now < before && before - now > kLargestGrowth) return unseen;
    return now < before ? before - now : 0;
  };
  // An eager load takes at least the image's size, which must fit before; arrays without content may show only
  // afterwards.
  const std::uint64_t size = lazy ? 0 : bare::saturating_add(needs.code_bytes, needs.static_bytes);
  return came(taking(place, kUntold, load, undo, grew, &took, size < kMinGrowth ? 0 : size));
}

}  // namespace headgate::limiter
