#include "identity/subordinate.hpp"

#include <gtest/gtest.h>

namespace headgate::identity {
namespace {

std::optional<std::uint32_t> uid_of(const std::string& name) {
  return name == "alice" ? std::optional<std::uint32_t>(1000) : std::nullopt;
}

TEST(Subordinate, ReadsTheHostsTable) {
  const auto all = parse_subordinate_uids(
      "alice:165536:65536\n1001:100000:65536\n\n# no comment is known\nstranger:300000:9\n:1:1\nalice:1\nalice:x:1\n"
      "alice:1:-1\nalice:4294967290:6\nalice:4294967290:7\nalice:5:0\nalice:400000:1",
      uid_of);
  EXPECT_EQ(all, (std::vector<SubordinateUids>{
                     {100000, 65536, 1001}, {165536, 65536, 1000}, {400000, 1, 1000}, {4294967290, 6, 1000}}));
  EXPECT_TRUE(parse_subordinate_uids("", uid_of).empty());
}

TEST(Subordinate, UidsBelongToTheirUsers) {
  const std::vector<SubordinateUids> all = parse_subordinate_uids("1001:100000:10\nalice:100010:5", uid_of);
  EXPECT_EQ(user_of_subordinate(99999, all), 99999u);
  EXPECT_EQ(user_of_subordinate(100000, all), 1001u);
  EXPECT_EQ(user_of_subordinate(100009, all), 1001u);
  EXPECT_EQ(user_of_subordinate(100010, all), 1000u);
  EXPECT_EQ(user_of_subordinate(100014, all), 1000u);
  EXPECT_EQ(user_of_subordinate(100015, all), 100015u);
  EXPECT_EQ(user_of_subordinate(0, all), 0u);
  // Ranges nested by mistake.
  EXPECT_EQ(user_of_subordinate(9, parse_subordinate_uids("7:0:100\n8:5:2", uid_of)), 7u);
}

TEST(Subordinate, AUserNamespaceBelongsToItsMakerUnlessRoot) {
  EXPECT_EQ(answerable_user(4'000'000'000, std::nullopt), 4'000'000'000u);
  EXPECT_EQ(answerable_user(4'000'000'000, 0), 4'000'000'000u);
  EXPECT_EQ(answerable_user(4'000'000'000, 4'000'000'001), 4'000'000'001u);
}

}  // namespace
}  // namespace headgate::identity
