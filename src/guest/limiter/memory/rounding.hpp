// How the driver rounds large requests: learned per size class from the change in free card memory, and charged from
// the next request on. Small ones share slabs (slabs.hpp), so the card's free memory shows nothing about one. Pools and
// physical memory use granules that the driver reports.
#pragma once

#include <cstdint>

#include "guest/limiter/memory/slabs.hpp"

namespace headgate::limiter {

// Returns what the driver takes for a request on a device of the share; `bytes` if unknown. Saturates.
std::uint64_t large_with_rounding(std::uint32_t device_index, std::uint64_t bytes);
inline std::uint64_t with_rounding(std::uint32_t device_index, std::uint64_t bytes) {
  return bytes <= kLargestPiece ? bytes : large_with_rounding(device_index, bytes);
}

// Saturates. granule: a power of two.
inline std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t granule) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(bytes, granule - 1, &sum) ? ~0ull : sum & ~(granule - 1);
}

// A size that is a multiple of the usual granule reveals nothing.
inline constexpr std::uint64_t kUsualGranule = 2 << 20;

// For use around the driver's call: reads the card's free memory if the size can reveal a class not yet known.
class RoundingProbe {
 public:
  RoundingProbe(std::uint32_t device_index, std::uint64_t bytes) : device_index_(device_index) {
    if (bytes > kLargestPiece && bytes % kUsualGranule != 0) begin(bytes);
  }
  // Call after success. Returns what the driver took, as far as visible; the request's size may be known only now.
  [[nodiscard]] std::uint64_t taken(std::uint64_t bytes) const {
    return free_before_ == SIZE_MAX ? with_rounding(device_index_, bytes) : seen(bytes);
  }

 private:
  void begin(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t seen(std::uint64_t bytes) const;

  std::uint32_t device_index_;
  std::size_t free_before_ = SIZE_MAX;
};

// Returns the power of two to which `bytes` was rounded up to give `taken`: the usual granule, else the smallest; 1: no
// rounding; 0: cannot be told. Pure.
inline std::uint64_t granule_of(std::uint64_t bytes, std::uint64_t taken) {
  constexpr std::uint64_t kLargestGranule = 64 << 20;
  // A size that is a multiple of more cannot distinguish a smaller granule from none.
  constexpr std::uint64_t kTellingSize = 64 << 10;
  if (taken == bytes) return (bytes & -bytes) < kTellingSize ? 1 : 0;
  if (rounded_up(bytes, kUsualGranule) == taken) return kUsualGranule;
  for (std::uint64_t granule = 512; granule <= kLargestGranule; granule *= 2)
    if (rounded_up(bytes, granule) == taken) return granule;
  return 0;
}

}  // namespace headgate::limiter
