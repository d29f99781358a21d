#include "guest/limiter/view/memory_view.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace {

using namespace headgate::limiter;

constexpr std::uint64_t kGiB = 1ull << 30;

TEST(MemoryView, FreeMemoryIsNeverMoreThanThereIs) {
  const bool held = rc::check([](std::uint64_t total, std::uint64_t free, std::uint64_t limit, std::uint64_t used) {
    free = std::min(free, total);
    const MemoryView view = memory_view(total, free, limit, used);
    RC_ASSERT(view.total_bytes <= total && view.total_bytes <= limit);
    RC_ASSERT(view.free_bytes <= free && view.free_bytes <= view.total_bytes);
    const std::uint64_t left = used >= view.total_bytes ? 0 : view.total_bytes - used;
    RC_ASSERT(view.free_bytes <= left);
  });
  EXPECT_TRUE(held);
}

TEST(MemoryView, ALoneShareSeesItsLimitLessItsUse) {
  const MemoryView view = memory_view(16 * kGiB, 15 * kGiB, 4 * kGiB, 1 * kGiB);
  EXPECT_EQ(view.total_bytes, 4 * kGiB);
  EXPECT_EQ(view.free_bytes, 3 * kGiB);
}

TEST(MemoryView, AShareWithoutALimitSeesTheCard) {
  const MemoryView view = memory_view(16 * kGiB, 9 * kGiB, ~0ull, 2 * kGiB);
  EXPECT_EQ(view.total_bytes, 16 * kGiB);
  EXPECT_EQ(view.free_bytes, 9 * kGiB);
}

}  // namespace
