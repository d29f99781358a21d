#include "observe/ledgers.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>

#include "guest/ledger/oom_wait.hpp"

namespace headgate::observe {
namespace {

TEST(Ledgers, WhoAdmitsAndHowLongMemoryIsWaitedForIsToldInTheWordsThatSetIt) {
  const auto policy = std::make_unique<ledger::PolicyPage>();
  const auto usage = std::make_unique<ledger::UsagePage>();
  EXPECT_EQ(read_ledger(*policy, *usage).share.admit, "now");
  EXPECT_EQ(read_ledger(*policy, *usage).share.on_oom, "fail");
  const struct {
    std::uint32_t ms;
    const char* words;
  } cases[] = {{1'000, "wait=1s"},   {30'000, "wait=30s"}, {60'000, "wait=1m"},
               {90'000, "wait=90s"}, {300'000, "wait=5m"}, {3'600'000, "wait=1h"}};
  for (const auto& [ms, words] : cases) {
    ledger::set_waiting(*policy, true, ms);
    EXPECT_EQ(read_ledger(*policy, *usage).share.on_oom, words);
    EXPECT_EQ(read_ledger(*policy, *usage).share.admit, "ask");
  }
}

TEST(Ledgers, ALaunchThatWaitsForSecondsIsSeenWhileItWaitsAndALieAboutItIsNot) {
  const auto policy = std::make_unique<ledger::PolicyPage>();
  const auto usage = std::make_unique<ledger::UsagePage>();
  policy->device_count = 1;
  usage->header = {ledger::kUsageMagic, ledger::kVersion, sizeof(ledger::UsagePage)};
  usage->slot_count = ledger::kMaxSlots;
  usage->device_count = 1;
  ledger::SlotRef slot;
  ASSERT_EQ(ledger::claim(*usage, ledger::own_identity(), "program", slot), ledger::ClaimResult::claimed);
  auto& since = usage->slots[slot.slot].devices[0].long_wait_since_ns;
  const auto waiting_ns = [&] { return read_ledger(*policy, *usage).share.devices.at(0).waiting_ns; };
  EXPECT_EQ(waiting_ns(), 0u);
  since = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1) - 7'000'000'000;
  EXPECT_GE(waiting_ns(), 7'000'000'000u);
  for (const std::int64_t lie : {std::numeric_limits<std::int64_t>::max(), std::int64_t{-1}}) {
    since = lie;
    EXPECT_EQ(waiting_ns(), 0u);
  }
}

}  // namespace
}  // namespace headgate::observe
