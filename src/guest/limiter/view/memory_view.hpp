// How a share's memory is shown, from plain numbers.
#pragma once

#include <cstdint>

namespace headgate::limiter {

struct MemoryView {
  std::uint64_t total_bytes;
  std::uint64_t free_bytes;
};

// Computes the view from the card's figures. total: the limit, at most the card. free: limit minus ledger and residual,
// at most the card's free memory. Pure.
MemoryView memory_view(std::uint64_t real_total, std::uint64_t real_free, std::uint64_t limit, std::uint64_t used);

}  // namespace headgate::limiter
