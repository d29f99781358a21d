#include "tenancy/share.hpp"

#include <gtest/gtest.h>

#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {
namespace {

TEST(ShareNames, AreValidAsDirectoryWordAndDeviceName) {
  for (const char* good : {"a", "train-7", "alice.notebook", "_x", "A1", "0"}) EXPECT_TRUE(check_name(good)) << good;
  EXPECT_TRUE(check_name(std::string(63, 'n')));
  const struct {
    std::string name, shown;
  } kBad[] = {{"", "''"},
              {std::string(64, 'n'), "'" + std::string(64, 'n') + "'"},
              {".", "'.'"},
              {"..", "'..'"},
              {".hidden", "'.hidden'"},
              {"-rf", "'-rf'"},
              {"a/b", "'a/b'"},
              {"a b", "'a b'"},
              {"a\x1b[2J", "'a?[2J'"},
              {"a\nb", "'a?b'"},
              {std::string("a\0b", 3), "'a?b'"},
              {"\xc3\xa9", "'\xc3\xa9'"},
              {"\xd0\x90nna", "'\xd0\x90nna'"},
              {"\xc2\x9b.", "'?.'"},
              {"a\"}", "'a\"}'"}};
  for (const auto& bad : kBad) {
    const auto named = check_name(bad.name);
    ASSERT_FALSE(named) << bad.shown;
    EXPECT_EQ(named.error().message, bad.shown + " cannot name a share");
    EXPECT_EQ(named.error().hint, "accepted: 1 to 63 letters, digits, '-', '_' or '.', not beginning with '.' or '-'");
    EXPECT_EQ(named.error().code, ErrorCode::usage);
  }
}

TEST(Shares, ValuesThatPagesCannotHoldAreRefusedFirst) {
  const auto words = [](auto change) {
    Share share = share_of("s", 1, 8ull << 30);
    change(share);
    const auto grant = to_grant(share);
    return grant ? std::string("accepted") : grant.error().message;
  };
  EXPECT_EQ(words([](Share&) {}), "accepted");
  EXPECT_TRUE(words([](Share& s) { s.devices.clear(); }).starts_with("the share 's': "))
      << words([](Share& s) { s.devices.clear(); });
  EXPECT_NE(words([](Share& s) { s.devices[0].memory_limit_bytes = 0; }), "accepted");
  EXPECT_NE(words([](Share& s) { s.devices[0].ceiling_ppm = 0; }), "accepted");
  EXPECT_NE(words([](Share& s) { s.devices[0].ceiling_ppm = 1'000'001; }), "accepted");
  EXPECT_NE(words([](Share& s) { s.devices[0].ceiling_ppm = 10, s.devices[0].guarantee_ppm = 11; }), "accepted");
  EXPECT_NE(words([](Share& s) { s.devices[0].weight = 0; }), "accepted");
  EXPECT_NE(words([](Share& s) { s.devices[0].priority_class = static_cast<Class>(3); }), "accepted");
  EXPECT_NE(words([](Share& s) { s.devices.push_back(s.devices[0]); }), "accepted");
  EXPECT_EQ(words([](Share& s) { s.devices[0].uuid.assign(48, 'G'); }),
            "'" + std::string(48, 'G') + "' is no GPU's UUID");
  EXPECT_EQ(words([](Share& s) { s.devices.resize(17, s.devices[0]); }), "the share 's' names 17 GPUs");
}

// Overcommitting a card takes nothing from what other shares were promised.
TEST(Shares, AnOvercommittedShareHasNoPromise) {
  Share share = share_of("s", 1, 1, 300'000);
  EXPECT_EQ(to_grant(share)->devices[0].compute_guarantee_ppm, 300'000u);
  share.overcommit = true;
  EXPECT_EQ(to_grant(share)->devices[0].compute_guarantee_ppm, 0u);
}

TEST(Shares, ATimeToLiveBeyondTheClockIsForEver) {
  Share share = share_of("s", 1, 1);
  EXPECT_FALSE(ends_at_s(share));
  share.created_at_s = 100;
  share.ttl = std::chrono::seconds(20);
  EXPECT_EQ(ends_at_s(share), 120);
  EXPECT_FALSE(has_ended(share, 119));
  EXPECT_TRUE(has_ended(share, 120));
  share.ttl = std::chrono::seconds::max();
  EXPECT_EQ(ends_at_s(share), std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace headgate::tenancy
