#include "power/write_audit.hpp"

#include <gtest/gtest.h>

namespace headgate::power {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

Executed limit(const std::string& from, const std::string& to, std::uint32_t uid = 1000) {
  Executed executed;
  executed.gpu = 1;
  executed.caller = {.text = "uid " + std::to_string(uid), .uid = uid};
  executed.command = {.operation = Operation::set_power_limit, .power_limit_mw = 200'000};
  executed.from = from;
  executed.to = to;
  return executed;
}

TEST(WriteAudit, AWriteIsReportedWithOldAndNewValue) {
  WriteAudit audit;
  const auto entry = audit.look(limit("350 W", "200 W"), kSecond);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->text, "set_power_limit: 350 W -> 200 W");
  EXPECT_EQ(entry->gpu, 1u);
  EXPECT_EQ(entry->caller.uid, 1000u);
  EXPECT_FALSE(entry->failed);
  Executed reset = limit("210 to 900 MHz", "");
  reset.command = {.operation = Operation::reset_gpu_locked_clocks};
  EXPECT_EQ(audit.look(reset, kSecond)->text, "reset_gpu_locked_clocks: 210 to 900 MHz -> reset");
}

TEST(WriteAudit, AReadIsNotReportedAndEachFailureIs) {
  WriteAudit audit;
  Executed read = limit("", "");
  read.command = {.operation = Operation::get_power};
  EXPECT_FALSE(audit.look(read, kSecond));
  Executed failed = limit("350 W", "350 W");
  failed.result = fail(ErrorCode::denied, "permission denied");
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(audit.look(failed, kSecond)->text, "set_power_limit 200 W failed: permission denied");
}

TEST(WriteAudit, ManySettingsAreOneEventASecond) {
  WriteAudit audit;
  EXPECT_TRUE(audit.look(limit("350 W", "340 W"), kSecond));
  for (int watts = 330; watts >= 200; watts -= 10)
    EXPECT_FALSE(audit.look(limit(std::to_string(watts + 10) + " W", std::to_string(watts) + " W"), kSecond + 1));
  EXPECT_TRUE(audit.look(limit("200 W", "210 W", 1001), kSecond + 2)) << "another caller";
  EXPECT_TRUE(audit.due(2 * kSecond - 1).empty());
  const auto entries = audit.due(2 * kSecond);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].text, "set_power_limit: 340 W -> 200 W (in 14 settings)");
  EXPECT_TRUE(audit.due(9 * kSecond).empty()) << "told once";
  EXPECT_EQ(audit.look(limit("200 W", "350 W"), 9 * kSecond)->text, "set_power_limit: 200 W -> 350 W");
}

TEST(WriteAudit, ManySettingsAreAllReportedIfTheTimerIsLate) {
  WriteAudit audit;
  EXPECT_TRUE(audit.look(limit("350 W", "340 W"), 0));
  EXPECT_FALSE(audit.look(limit("340 W", "330 W"), 1));
  EXPECT_EQ(audit.look(limit("330 W", "320 W"), 2 * kSecond)->text, "set_power_limit: 340 W -> 320 W (in 2 settings)");
}

}  // namespace
}  // namespace headgate::power
