#include "guest/limiter/memory/rounding.hpp"

#include <algorithm>
#include <bit>

#include "guest/limiter/memory/untold.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

// Up to this size allocations share slabs, so the card's free memory shows nothing about one.
constexpr std::uint64_t kLargestSmall = 1 << 20;

// In the page, by class: the granule's bit width, and kSure once two requests gave the same. Other processes allocate
// and free meanwhile, so a single one may be wrong.
constexpr std::uint8_t kSure = 0x80;

std::atomic<std::uint8_t>& known(std::uint32_t device, std::uint64_t bytes) {
  const auto width = static_cast<unsigned>(std::bit_width(bytes - 1));
  return session.usage->compute[device].rounding[std::min(width - 20, ledger::kRoundingClasses - 1)];
}

bool has_class(std::uint32_t device, std::uint64_t bytes) {
  return bytes > kLargestSmall && device < ledger::kMaxDevices && seated();
}

}  // namespace

std::uint64_t with_rounding(std::uint32_t device, std::uint64_t bytes) {
  if (!has_class(device, bytes)) return bytes;
  const std::uint8_t value = known(device, bytes).load(std::memory_order_relaxed);
  if ((value & kSure) == 0) return bytes;
  const unsigned width = value & ~kSure;
  return width < 2 || width > 27 ? bytes : rounded_up(bytes, 1ull << (width - 1));
}

RoundingProbe::RoundingProbe(std::uint32_t device, std::uint64_t bytes)
    : device_index_(device), free_before_(SIZE_MAX) {
  if (!has_class(device, bytes) || bytes % kUsualGranule == 0) return;
  if ((known(device, bytes).load(std::memory_order_relaxed) & kSure) == 0) free_before_ = free_on_card();
}

std::uint64_t RoundingProbe::taken(std::uint64_t bytes) const {
  if (free_before_ == SIZE_MAX || !has_class(device_index_, bytes)) return with_rounding(device_index_, bytes);
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
