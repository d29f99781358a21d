#include "guest/limiter/memory/array_size.hpp"

#include <gtest/gtest.h>

namespace {

using namespace headgate::limiter;

constexpr unsigned kUint8 = 0x01, kFloat = 0x20, kBc1 = 0x91, kNv12 = 0xb0;

TEST(ArraySize, IsInBytesAndNotBits) {
  EXPECT_EQ(array_bytes({1024, 1024, 0, kFloat, 4, 0}), 16u << 20);
  EXPECT_EQ(array_bytes({1000, 0, 0, kUint8, 1, 0}), 1000u);
  EXPECT_EQ(array_bytes({64, 64, 64, kUint8, 2, 0}), 512u << 10);
}

TEST(ArraySize, CompressedAndPlanarFormatsUseTheirBlockSizes) {
  EXPECT_EQ(array_bytes({1024, 1024, 0, kBc1, 4, 0}), 512u << 10);
  EXPECT_EQ(array_bytes({1920, 1080, 0, kNv12, 3, 0}), 1920u * 1080 * 3 / 2);
}

TEST(ArraySize, ADescriptorThatTheDriverRejectsIsPassedOn) {
  EXPECT_EQ(array_bytes({0, 10, 0, kFloat, 1, 0}), 0u);
  EXPECT_EQ(array_bytes({10, 10, 0, kFloat, 0, 0}), 0u);
}

TEST(ArraySize, MemoryThatIsMappedLaterIsNotChargedNow) {
  EXPECT_EQ(array_bytes({1024, 1024, 0, kFloat, 4, kSparse}), 0u);
  EXPECT_EQ(array_bytes({1024, 1024, 0, kFloat, 4, kDeferredMapping}), 0u);
}

TEST(ArraySize, AnOverflowIsNeverSmall) {
  EXPECT_EQ(array_bytes({1ull << 40, 1ull << 40, 0, kFloat, 4, 0}), ~0ull);
  EXPECT_EQ(mipmap_bytes({1ull << 40, 1ull << 40, 0, kFloat, 4, 0}, 3), ~0ull);
}

TEST(ArraySize, AMipmapIsTheSumOfItsLevels) {
  EXPECT_EQ(mipmap_bytes({8, 8, 0, kUint8, 1, 0}, 4), 64u + 16 + 4 + 1);
  EXPECT_EQ(mipmap_bytes({8, 8, 0, kUint8, 1, 0}, 1000), 64u + 16 + 4 + 1);
}

TEST(ArraySize, LayersAndFacesStayAtEveryMipmapLevel) {
  EXPECT_EQ(mipmap_bytes({4, 4, 6, kUint8, 1, 0x01}, 2), 6u * (16 + 4));
  EXPECT_EQ(mipmap_bytes({4, 4, 6, kUint8, 1, 0x01}, 60), 6u * (16 + 4 + 1));
  EXPECT_EQ(mipmap_bytes({4, 4, 6, kUint8, 1, 0x04}, 60), 6u * (16 + 4 + 1));
}

TEST(ArraySize, AMipmapWithoutLevelsHasOne) { EXPECT_EQ(mipmap_bytes({8, 8, 0, kUint8, 1, 0}, 0), 64u); }

}  // namespace
