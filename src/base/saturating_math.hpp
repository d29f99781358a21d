// Sums and differences of untrusted values that saturate at the largest number and at 0 instead of wrapping.
#pragma once

#include <cstdint>

namespace headgate {

[[nodiscard]] constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  return a > ~b ? ~0ull : a + b;
}
[[nodiscard]] constexpr std::uint64_t saturating_sub(std::uint64_t from, std::uint64_t what) {
  return from > what ? from - what : 0;
}

}  // namespace headgate
