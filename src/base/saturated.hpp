// Sums of figures that somebody else may choose: they end at the largest number, where others would begin anew at nothing.
#pragma once

#include <cstdint>

namespace headgate {

[[nodiscard]] constexpr std::uint64_t saturated(std::uint64_t a, std::uint64_t b) { return a > ~b ? ~0ull : a + b; }

}  // namespace headgate
