#include "node/directory.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace headgate::node {
namespace {

TEST(Directory, ANameThatGoesOnBehindANulIsNobodys) {
  EXPECT_EQ(system_directory().user("root"), 0u);
  EXPECT_FALSE(system_directory().user(std::string("root\0x", 6)));
  EXPECT_FALSE(system_directory().group(std::string("root\0", 5)));
}

TEST(Directory, AGroupOfThousandsOfMembersIsKnownToo) {
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

TEST(Directory, AnEntryWithoutEndIsGivenUp) {
  std::size_t most = 0;
  EXPECT_EQ(with_room([&](char*, std::size_t bytes) {
              most = bytes;
              return ERANGE;
            }),
            ERANGE);
  EXPECT_EQ(most, kMostEntryBytes);
}

TEST(Directory, AnInterruptedReadIsMadeAgainAndAFailureIsNot) {
  int calls = 0;
  EXPECT_EQ(with_room([&](char*, std::size_t) { return ++calls == 1 ? EINTR : 0; }), 0);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(with_room([&](char*, std::size_t) { return ++calls, EIO; }), EIO);
  EXPECT_EQ(calls, 3);
}

TEST(Directory, TheSystemsOwnNamesAreKnown) {
  EXPECT_EQ(system_directory().user("root"), 0u);
  EXPECT_EQ(system_directory().group("root"), 0u);
  EXPECT_FALSE(system_directory().group("no-such-group"));
}

}  // namespace
}  // namespace headgate::node
