#include "observe/ledgers.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>

#include "guest/ledger/account.hpp"
#include "guest/ledger/oom_wait.hpp"

namespace headgate::observe {
namespace {

TEST(Ledgers, AdmissionAndWaitTimesUseTheOptionsForm) {
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

// The pages of a share with one GPU, in which this process sits.
struct Seated {
  std::unique_ptr<ledger::PolicyPage> policy = std::make_unique<ledger::PolicyPage>();
  std::unique_ptr<ledger::UsagePage> usage = std::make_unique<ledger::UsagePage>();
  ledger::SlotRef slot;

  Seated() {
    policy->device_count = 1;
    usage->header = {ledger::kUsageMagic, ledger::kVersion, sizeof(ledger::UsagePage)};
    usage->slot_count = ledger::kMaxSlots;
    usage->device_count = 1;
    EXPECT_EQ(ledger::claim(*usage, ledger::own_identity(), "program", slot), ledger::ClaimResult::claimed);
  }
};

TEST(Ledgers, ThePeakIsAtLeastWhatIsUsed) {
  const Seated share;
  ASSERT_TRUE(ledger::charge(*share.usage, 0, share.slot, 1000));
  share.usage->slots[share.slot.slot].devices[0].residual_bytes = 500;
  const auto device = [&] { return read_ledger(*share.policy, *share.usage).share.devices.at(0); };
  EXPECT_EQ(device().memory_used_bytes, 1500u);
  EXPECT_EQ(device().memory_peak_bytes, 1500u);
  ledger::note_in_use(*share.usage, 0, 500);
  ledger::release(*share.usage, share.slot);
  EXPECT_EQ(device().memory_used_bytes, 0u);
  EXPECT_EQ(device().memory_peak_bytes, 1500u);
}

TEST(Ledgers, AWaitingLaunchIsSeenAndAFalseReportIsNot) {
  const Seated share;
  auto& since = share.usage->slots[share.slot.slot].devices[0].long_wait_since_ns;
  const auto waiting_ns = [&] { return read_ledger(*share.policy, *share.usage).share.devices.at(0).waiting_ns; };
  EXPECT_EQ(waiting_ns(), 0u);
  since = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1) - 7'000'000'000;
  EXPECT_GE(waiting_ns(), 7'000'000'000u);
  for (const std::int64_t lie : {std::numeric_limits<std::int64_t>::max(), std::int64_t{-1}}) {
    since = lie;
    EXPECT_EQ(waiting_ns(), 0u);
  }
}

TEST(Ledgers, UndelayedLaunchesAndRefusalReasonsAreCounted) {
  const auto policy = std::make_unique<ledger::PolicyPage>();
  const auto usage = std::make_unique<ledger::UsagePage>();
  policy->device_count = 1;
  auto& delays = usage->compute[0].delays;
  delays.prompt = 1000;
  delays.waited[0] = 3;
  delays.waited[ledger::kDelayBounds] = 1;
  usage->compute[0].meter_failures[1] = 2;
  for (const auto by :
       {ledger::Denial::limit, ledger::Denial::policy, ledger::Denial::device_full, ledger::Denial::device_full})
    ledger::note_refusal(*usage, 0, {}, {.asked_bytes = 5, .used_bytes = 1, .limit_bytes = 4, .by = by});
  const auto read = [&] { return read_ledger(*policy, *usage).share.devices.at(0); };
  EXPECT_EQ(read().launch_delays.size(), ledger::kDelayBounds + 1);
  EXPECT_EQ(read().launch_delays.front(), (snapshot::LaunchDelay{10'000, 1003}));
  EXPECT_EQ(read().launch_delays.back(), (snapshot::LaunchDelay{std::nullopt, 1}));
  EXPECT_EQ(read().hook_errors, (std::vector<snapshot::HookErrors>{{"cuEventRecord", 2}}));
  EXPECT_EQ(read().refusals, 4u);
  EXPECT_EQ(read().refusals_device_full, 2u);
  EXPECT_EQ(read().refusals_policy, 1u);
  EXPECT_EQ(read().last_refusal->reason, "device_full");
  policy->devices[0].memory_limit_bytes = 9;
  EXPECT_EQ(read().last_refusal->limit_bytes, 4u) << "what it was then";
  ledger::note_refusal(*usage, 0, {}, {.asked_bytes = 5, .used_bytes = 1});
  EXPECT_EQ(read().last_refusal->limit_bytes, std::nullopt);
  // Its processes may write this instead.
  usage->memory[0].last_denial = static_cast<ledger::Denial>(77);
  usage->memory[0].refusals = ~0ull;
  delays.waited[0] = ~0ull;
  EXPECT_EQ(read().last_refusal->reason, "limit");
  EXPECT_EQ(read().refusals, ~0ull);
  EXPECT_EQ(read().launch_delays.front().launches, ~0ull);
}

TEST(Ledgers, SumsOfTenantFiguresDoNotWrap) {
  const auto policy = std::make_unique<ledger::PolicyPage>();
  const auto usage = std::make_unique<ledger::UsagePage>();
  policy->device_count = 1;
  for (std::uint32_t pid = 1; pid <= 2; ++pid) {
    ledger::SlotRef slot;
    ASSERT_EQ(ledger::claim(*usage, {pid, 7, pid}, "tenant", slot), ledger::ClaimResult::claimed);
    usage->slots[slot.slot].devices[0].residual_bytes = ~0ull - 5;
  }
  const LedgerSnapshot snapshot = read_ledger(*policy, *usage);
  EXPECT_EQ(snapshot.share.devices.at(0).memory_residual_bytes, ~0ull);
  EXPECT_EQ(snapshot.share.devices.at(0).memory_used_bytes, ~0ull);
}

TEST(Ledgers, AShareIsMeasuredWithACeilingTurnsOrFreezing) {
  const auto policy = std::make_unique<ledger::PolicyPage>();
  const auto usage = std::make_unique<ledger::UsagePage>();
  policy->level = ledger::Level::hook;
  policy->device_count = 2;
  for (auto& rule : policy->devices) rule.compute_ceiling_ppm = ledger::kWholeGpu;
  const auto metered = [&] {
    const auto share = read_ledger(*policy, *usage).share;
    return share.devices.at(0).metered && share.devices.at(1).metered;
  };
  EXPECT_FALSE(metered());
  policy->devices[1].arbitrated = 1;
  EXPECT_TRUE(metered()) << "limiters measure on all GPUs of a share or on none";
  policy->devices[1].arbitrated = 0;
  policy->devices[0].compute_ceiling_ppm = ledger::kWholeGpu / 2;
  EXPECT_TRUE(metered());
  policy->devices[0].compute_ceiling_ppm = ledger::kWholeGpu;
  policy->freeze_after_s = 60;
  EXPECT_TRUE(metered());
  policy->level = ledger::Level::observe;
  EXPECT_FALSE(metered());
}

}  // namespace
}  // namespace headgate::observe
