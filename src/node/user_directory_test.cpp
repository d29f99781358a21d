#include "node/user_directory.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>

#include "base/nss_lookup.hpp"

namespace headgate::node {
namespace {

TEST(UserDirectory, ANameWithANulIsUnknown) {
  EXPECT_EQ(*system_directory().user("root"), 0u);
  EXPECT_EQ(*system_directory().user(std::string("root\0x", 6)), std::nullopt);
  EXPECT_EQ(*system_directory().group(std::string("root\0", 5)), std::nullopt);
}

TEST(UserDirectory, AGroupOfThousandsOfMembersIsFound) {
  constexpr std::size_t kEntry = 3u << 20;
  std::size_t had = 0;
  EXPECT_EQ(with_room([&](char* room, std::size_t bytes) {
              if (bytes < kEntry) return ERANGE;
              std::memset(room, 'm', kEntry);
              had = bytes;
              return 0;
            }),
            0);
  EXPECT_GE(had, kEntry);
}

TEST(UserDirectory, AnEndlessEntryIsAbandoned) {
  std::size_t most = 0;
  EXPECT_EQ(with_room([&](char*, std::size_t bytes) {
              most = bytes;
              return ERANGE;
            }),
            ERANGE);
  EXPECT_EQ(most, kMaxEntryBytes);
}

TEST(UserDirectory, OnlyAnInterruptedReadIsRetried) {
  int calls = 0;
  EXPECT_EQ(with_room([&](char*, std::size_t) { return ++calls == 1 ? EINTR : 0; }), 0);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(with_room([&](char*, std::size_t) { return ++calls, EIO; }), EIO);
  EXPECT_EQ(calls, 3);
}

TEST(UserDirectory, NamesOfTheSystemAreFound) {
  EXPECT_EQ(*system_directory().user("root"), 0u);
  EXPECT_EQ(*system_directory().group("root"), 0u);
  EXPECT_EQ(*system_directory().group("no-such-group"), std::nullopt);
  const auto of_root = *system_directory().groups_of(0);
  ASSERT_FALSE(of_root.empty());
  EXPECT_EQ(of_root.front(), 0u);
  EXPECT_EQ(*system_directory().groups_of(4'000'001), std::vector<std::uint32_t>());
}

// It blocks the loop.
TEST(UserDirectory, AHungLookUpIsWaitedForOnceForAllNames) {
  const auto end = std::make_shared<std::promise<void>>();
  (void)nss_lookup([until = end->get_future().share()] { until.wait(); }, std::chrono::milliseconds(1));
  const UserDirectory directory = system_directory();
  const auto begin = std::chrono::steady_clock::now();
  for (int n = 0; n < 50; ++n) {
    const auto answer = directory.user("root");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::busy);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  end->set_value();
}

}  // namespace
}  // namespace headgate::node
