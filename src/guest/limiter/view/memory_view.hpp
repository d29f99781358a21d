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

// The value to show after `shown` was shown `elapsed_ns` ago: lower at once, higher by at most `total`/4 a second, since
// programs that profile their own use abort when free memory jumps up. Pure.
std::uint64_t eased_free(std::uint64_t shown, std::uint64_t now_free, std::uint64_t total, std::int64_t elapsed_ns);

}  // namespace headgate::limiter
