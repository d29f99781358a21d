// What a share's memory looks like, from plain numbers.
#pragma once

#include <cstdint>

namespace headgate::limiter {

struct MemoryView {
  std::uint64_t total_bytes;
  std::uint64_t free_bytes;
};

// From the card's real figures. total: the limit, at most the card. free: limit less ledger and residual, never above
// the card's free memory. Pure.
MemoryView memory_view(std::uint64_t real_total, std::uint64_t real_free, std::uint64_t limit, std::uint64_t used);

}  // namespace headgate::limiter
