// Arithmetic on amounts that others chose: stops at 2^64 - 1 and at 0 instead of wrapping.
#pragma once

#include <cstdint>

namespace headgate::bare {

[[nodiscard]] constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? ~0ull : sum;
}
[[nodiscard]] constexpr std::uint64_t saturating_sub(std::uint64_t from, std::uint64_t what) {
  return from > what ? from - what : 0;
}
[[nodiscard]] constexpr std::uint64_t saturating_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? ~0ull : product;
}

}  // namespace headgate::bare
