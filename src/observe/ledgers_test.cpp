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

TEST(Ledgers, SumsOfWhatTenantsWriteDoNotBeginAnewAtNothing) {
  const auto policy = std::make_unique<ledger::PolicyPage>();
  const auto usage = std::make_unique<ledger::UsagePage>();
  policy->device_count = 1;
  for (std::uint32_t pid = 1; pid <= 2; ++pid) {
    ledger::SlotRef slot;
    ASSERT_EQ(ledger::claim(*usage, {pid, 7, pid}, "tenant", slot), ledger::ClaimResult::claimed);
    usage->slots[slot.slot].devices[0].residual_bytes = ~0ull - 5;
  }
  const LedgerPicture picture = read_ledger(*policy, *usage);
  EXPECT_EQ(picture.share.devices.at(0).memory_residual_bytes, ~0ull);
  EXPECT_EQ(picture.share.devices.at(0).memory_used_bytes, ~0ull);
}

}  // namespace
}  // namespace headgate::observe
