#include "guest/limiter/memory/rounding.hpp"

#include <gtest/gtest.h>

namespace headgate::limiter {
namespace {

constexpr std::uint64_t kMiB = 1 << 20, kKiB = 1 << 10;

TEST(Rounding, TheGranuleExplainsWhatWasTaken) {
  EXPECT_EQ(granule_of(3 * kMiB + 512, 4 * kMiB), 2 * kMiB);
  EXPECT_EQ(granule_of(3 * kMiB + 512, 3 * kMiB + 64 * kKiB), 64 * kKiB);
  EXPECT_EQ(granule_of(33 * kMiB, 64 * kMiB), 32 * kMiB);
  EXPECT_EQ(granule_of(5'000'000, 5'000'000), 1u);
}

TEST(Rounding, UnexplainedSizesChangeNothing) {
  EXPECT_EQ(granule_of(3 * kMiB, 3 * kMiB), 0u) << "a granule of 1 MiB would show the same";
  EXPECT_EQ(granule_of(3 * kMiB, 2 * kMiB), 0u);
  EXPECT_EQ(granule_of(3 * kMiB, 700 * kMiB), 0u) << "a neighbour's";
  EXPECT_EQ(granule_of(~0ull - 5, 1), 0u);
}

}  // namespace
}  // namespace headgate::limiter
