#include "power/lease.hpp"

#include <gtest/gtest.h>

namespace headgate::power {
namespace {

TEST(Lease, AStoredLeaseIsReadBack) {
  Lease lease{.id = "ab", .wanted = {}, .saved = {}};
  lease.wanted["GPU-1"].power_limit_mw = 200'000;
  lease.wanted["GPU-1"].gpu_clocks = ClockRange{210, 900};
  lease.saved["GPU-1"].power_limit_mw = 350'000;
  lease.saved["GPU-1"].gpu_clocks = ClockRange{};
  lease.saved["GPU-1"].persistence = false;
  lease.saved["GPU-1"].compute_mode = 3;
  lease.owner_uid = 1000;
  lease.holder_pid = 7;
  lease.holder_start_time = 99;
  lease.ends_at_s = -1;
  Lease pause = lease;
  pause.pauses = pause.ending = pause.session = true;
  EXPECT_EQ(parse_leases(leases_json({lease, pause})), (std::vector{lease, pause}));
  for (const char* text : {"", "{}", "[1]", "[{}]", R"([{"id":1}])"}) EXPECT_FALSE(parse_leases(text)) << text;
}

TEST(Lease, ADamagedKeyIsNamed) {
  const std::string good = leases_json({Lease{.id = "ab", .wanted = {{"GPU-1", {}}}, .saved = {}}});
  ASSERT_TRUE(parse_leases(good));
  for (const std::string key : {"id", "settings", "saved", "owner_uid", "holder_pid", "holder_start_time", "ttl_s",
                                "ends_at_s", "ending", "session", "paused"}) {
    std::string bad = good;
    bad.replace(bad.find("\"" + key + "\""), key.size() + 2, "\"x\"");
    const auto refused = parse_leases(bad);
    ASSERT_FALSE(refused) << key;
    EXPECT_EQ(refused.error().message, "a stored lease has no good '" + key + "'");
  }
}

TEST(Lease, HasWhatItSetsAndWhatItRestores) {
  Lease lease{.id = "ab", .wanted = {}, .saved = {}};
  lease.wanted["GPU-1"].power_limit_mw = 200'000;
  lease.saved["GPU-2"].gpu_clocks = ClockRange{};
  EXPECT_TRUE(lease.holds("GPU-1", {.operation = Operation::set_power_limit}));
  EXPECT_TRUE(lease.holds("GPU-2", {.operation = Operation::reset_locked_clocks}));
  EXPECT_FALSE(lease.holds("GPU-2", {.operation = Operation::set_power_limit}));
  EXPECT_FALSE(lease.holds("GPU-1", {.operation = Operation::get_power_limit}));
}

}  // namespace
}  // namespace headgate::power
