#include "guest/limiter/memory/rounding.hpp"

#include <algorithm>
#include <bit>

#include "guest/limiter/memory/untold.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

// In the page, by class: the granule's bit width, and kSure once two requests gave the same. Other processes allocate
// and free meanwhile, so a single one may be wrong.
constexpr std::uint8_t kSure = 0x80;

std::atomic<std::uint8_t>& known(std::uint32_t device, std::uint64_t bytes) {
  const auto width = static_cast<unsigned>(std::bit_width(bytes - 1));
  return session.usage->compute[device].rounding[std::min(width - 20, ledger::kRoundingClasses - 1)];
}

bool has_class(std::uint32_t device, std::uint64_t bytes) {
  return bytes > kLargestPiece && device < ledger::kMaxDevices && seated();
}

}  // namespace

std::uint64_t large_with_rounding(std::uint32_t device, std::uint64_t bytes) {
  if (!has_class(device, bytes)) return bytes;
  const std::uint8_t value = known(device, bytes).load(std::memory_order_relaxed);
  if ((value & kSure) == 0) return bytes;
  const unsigned width = value & ~kSure;
  return width < 2 || width > 27 ? bytes : rounded_up(bytes, 1ull << (width - 1));
}

void RoundingProbe::begin(std::uint64_t bytes) {
  if (!has_class(device_index_, bytes)) return;
  if ((known(device_index_, bytes).load(std::memory_order_relaxed) & kSure) == 0) free_before_ = free_on_card();
}

std::uint64_t RoundingProbe::seen(std::uint64_t bytes) const {
  if (!has_class(device_index_, bytes)) return bytes;
  const std::size_t now = free_on_card();
  if (now == SIZE_MAX || now >= free_before_) return bytes;
  const std::uint64_t granule = granule_of(bytes, free_before_ - now);
  if (granule == 0) return bytes;
  std::atomic<std::uint8_t>& value = known(device_index_, bytes);
  const auto width = static_cast<std::uint8_t>(std::bit_width(granule));
  const bool again = value.load(std::memory_order_relaxed) == width;
  value.store(again ? width | kSure : width, std::memory_order_relaxed);
  return granule <= kUsualGranule ? free_before_ - now : bytes;
}

}  // namespace headgate::limiter
