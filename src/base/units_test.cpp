#include "base/units.hpp"

#include <gtest/gtest.h>

namespace headgate {
namespace {

TEST(Units, BytesAreBinaryWithOneDecimal) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(64 << 10), "64 KiB");
  EXPECT_EQ(bytes_text(512ull << 20), "512 MiB");
  EXPECT_EQ(bytes_text(8ull << 30), "8.0 GiB");
  EXPECT_EQ(bytes_text(37'892'456'448), "35.3 GiB");
  EXPECT_EQ(bytes_text(~0ull), "16384.0 PiB");
  EXPECT_EQ(bytes_text((1ull << 30) - 1), "1024.0 MiB");
}

TEST(Units, ExactBytesAreNotRounded) {
  EXPECT_EQ(exact_bytes_text(2ull << 30), "2.0 GiB");
  EXPECT_EQ(exact_bytes_text(2049ull << 20), "2049 MiB");
  EXPECT_EQ(exact_bytes_text((2ull << 30) + 1), "2.0 GiB (2147483649 bytes)");
  EXPECT_EQ(exact_bytes_text(65ull << 20), "65 MiB");
}

TEST(Units, PercentShowsOnlySignificantDigits) {
  EXPECT_EQ(percent_text(250'000), "25 %");
  EXPECT_EQ(percent_text(125'000), "12.5 %");
  EXPECT_EQ(percent_text(500), "0.05 %");
  EXPECT_EQ(percent_text(1), "0.0001 %");
}

TEST(Units, DurationsChangeTheirUnit) {
  EXPECT_EQ(duration_text(1'500), "1.5 us");
  EXPECT_EQ(duration_text(350'000'000), "350.0 ms");
  EXPECT_EQ(duration_text(2'500'000'000), "2.5 s");
  EXPECT_EQ(duration_text(200'000'000'000), "3 min 20 s");
  EXPECT_EQ(duration_text(7'500'000'000'000), "2 h 5 min");
}

}  // namespace
}  // namespace headgate
