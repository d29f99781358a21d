// How the driver rounds large requests: learnt by size class from what the card has less after one, and charged with
// the next. Small ones share slabs, whose rest shows in the residual; pools and physical memory come in granules that
// the driver tells.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// What the driver takes for a request on a device of the share; `bytes` where that is not known. Saturates.
std::uint64_t with_rounding(std::uint32_t device_index, std::uint64_t bytes);

// Around the driver's call for a request: looks at the card where its class is not known yet and its size can show it.
class RoundingProbe {
 public:
  RoundingProbe(std::uint32_t device_index, std::uint64_t bytes);
  // After the driver's success: what it took for this request, whose size may be known only now, as far as that shows.
  [[nodiscard]] std::uint64_t taken(std::uint64_t bytes) const;

 private:
  std::uint32_t device_index_;
  std::size_t free_before_;
};

// Saturates. granule: a power of two.
inline std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t granule) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(bytes, granule - 1, &sum) ? ~0ull : sum & ~(granule - 1);
}

// A multiple of the usual granule shows nothing.
inline constexpr std::uint64_t kUsualGranule = 2 << 20;

// The granule that shows, a power of two to which `bytes` rounded up is `taken`: the usual one, else the smallest; 1:
// none; 0: it does not show. Pure.
inline std::uint64_t granule_of(std::uint64_t bytes, std::uint64_t taken) {
  constexpr std::uint64_t kLargestGranule = 64 << 20;
  // A request that is a multiple of more cannot tell a granule of less from none.
  constexpr std::uint64_t kTellingSize = 64 << 10;
  if (taken == bytes) return (bytes & -bytes) < kTellingSize ? 1 : 0;
  if (rounded_up(bytes, kUsualGranule) == taken) return kUsualGranule;
  for (std::uint64_t granule = 512; granule <= kLargestGranule; granule *= 2)
    if (rounded_up(bytes, granule) == taken) return granule;
  return 0;
}

}  // namespace headgate::limiter
