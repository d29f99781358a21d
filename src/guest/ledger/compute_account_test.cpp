#include "guest/ledger/compute_account.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "guest/ledger/gate.hpp"

namespace headgate::ledger {
namespace {

struct Span {
  std::int64_t from, to;
};

std::int64_t union_us(const std::vector<Span>& spans, std::int64_t base, std::int64_t length_us) {
  std::vector<bool> held(static_cast<std::size_t>(length_us));
  for (const Span& span : spans)
    for (std::int64_t us = (span.from - base + 500) / 1'000; us < (span.to - base + 500) / 1'000; ++us)
      held[static_cast<std::size_t>(us)] = true;
  return std::count(held.begin(), held.end(), true);
}

TEST(Coverage, TimeHeldTogetherIsChargedOnceInAnyOrder) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto account = std::make_unique<ComputeAccount>();
    const auto base = static_cast<std::int64_t>(random() % 1'000'000'000) * 1'000'000;
    std::vector<Span> spans;
    std::int64_t charged = 0;
    for (int i = 0; i < 40; ++i) {
      const auto from = base + static_cast<std::int64_t>(random() % 40'000'000);
      spans.push_back({from, from + static_cast<std::int64_t>(random() % 5'000'000)});
    }
    for (const Span& span : spans) charged += cover(*account, span.from, span.to);
    EXPECT_EQ(charged, 1'000 * union_us(spans, base / 1'000 * 1'000, 50'000));
  }
}

TEST(Coverage, RoundingToMicrosecondsLeavesNoBias) {
  std::mt19937_64 random(11);
  std::int64_t held = 0, charged = 0;
  const auto account = std::make_unique<ComputeAccount>();
  std::int64_t at = 5'000'000'000;
  for (int i = 0; i < 200'000; ++i) {
    const auto length = 2'000 + static_cast<std::int64_t>(random() % 3'000);
    at += 6'000 + static_cast<std::int64_t>(random() % 20'000);  // longer than any interval
    held += length;
    charged += cover(*account, at, at + length);
  }
  EXPECT_NEAR(static_cast<double>(charged) / static_cast<double>(held), 1.0, 0.001);
}

// Contexts that had the GPU one after the other, in which each one's times are off by its own error.
TEST(Coverage, TimesThatMapsShiftAreChargedInFull) {
  std::mt19937_64 random(5);
  const auto account = std::make_unique<ComputeAccount>();
  std::int64_t held = 0, charged = 0, at = 5'000'000'000;
  for (int round = 0; round < 1'000; ++round) {
    for (int i = 0; i < 8; ++i) {
      const auto length = 20'000 + static_cast<std::int64_t>(random() % 1'000) * 1'000;
      const auto error = static_cast<std::int64_t>(random() % 40'000) - 20'000;
      charged += cover_apart(*account, at + error, at + error + length);
      held += length;
      at += length;
    }
    at += 200'000;
  }
  EXPECT_NEAR(static_cast<double>(charged) / static_cast<double>(held), 1, 0.001);
}

TEST(Coverage, TimeHeldTogetherIsChargedOnceIfNoMapExplainsIt) {
  const auto account = std::make_unique<ComputeAccount>();
  constexpr std::int64_t kAt = 5'000'000'000, kLength = 1'000'000, kShort = 20'000;
  EXPECT_EQ(cover_apart(*account, kAt, kAt + kLength), kLength);
  EXPECT_EQ(cover_apart(*account, kAt + kLength / 2, kAt + kLength / 2 + kShort), 0) << "far from both ends";
  EXPECT_EQ(cover_apart(*account, kAt + kLength - kShort, kAt + kLength), kShort) << "may have come after it";
  const std::int64_t later = kAt + 10 * kLength;
  EXPECT_EQ(cover(*account, later + kLength / 2, later + kLength / 2 + kShort), kShort);
  EXPECT_EQ(cover_apart(*account, later, later + kLength), kLength - kShort) << "was another's in between";
}

TEST(Coverage, ARingThatWrapsStartsAfresh) {
  const auto account = std::make_unique<ComputeAccount>();
  EXPECT_EQ(cover(*account, 1'000'000, 2'000'000), 1'000'000);
  EXPECT_EQ(cover(*account, 1'000'000, 2'000'000), 0);
  EXPECT_EQ(cover(*account, 1'000'000 + decltype(account->coverage)::kSpanNs,
                  2'000'000 + decltype(account->coverage)::kSpanNs),
            1'000'000);
}

TEST(Gate, AShareThatSleptCannotRunAheadOfItsCeiling) {
  ComputeAccount account{};
  constexpr std::int64_t kNow = 10'000'000'000, kCatchUp = 6'000'000;
  std::int64_t passed = 0;
  while (try_charge(account, kNow, 100'000, 500'000, kCatchUp) == 0) passed += 100'000;
  EXPECT_EQ(passed, 100'000);
}

TEST(Gate, AWaiterThatWakesLateLosesNothing) {
  ComputeAccount account{};
  constexpr std::int64_t kCatchUp = 6'000'000;
  std::int64_t now = 10'000'000'000, passed = 0;
  const std::int64_t start = now;
  while (now < start + 1'000'000'000) {
    const std::int64_t wait = try_charge(account, now, 100'000, 500'000, kCatchUp);
    if (wait == 0) passed += 100'000;
    else now += wait + 700'000;  // each wake-up is 0.7 ms late
  }
  EXPECT_NEAR(static_cast<double>(passed), 0.5e9, 1e6);
}

// Run under UBSan (dev/sanitize asan): each of these words once overflowed a difference or a sum.
TEST(Gate, ACorruptedWordOpensOrShutsItWithoutOverflow) {
  constexpr std::int64_t kNow = 10'000'000'000, kCatchUp = 6'000'000, kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  ComputeAccount account{};
  for (const std::int64_t word : {kLeast, kLeast + 1, kLeast / 2, -1l}) {
    account.paid_until_ns = word;
    EXPECT_LT(paid_until_ns(account), kNow);
    EXPECT_EQ(try_charge(account, kNow, 100'000, 500'000, kCatchUp), 0) << word;
    EXPECT_EQ(account.paid_until_ns, kNow + 200'000) << word;
    account.paid_until_ns = word;
    charge_debt(account, kNow, 100'000, 500'000, kCatchUp);
    EXPECT_EQ(account.paid_until_ns, kNow + 200'000) << word;
  }
  for (const std::int64_t word : {kMost, kMost - 1, kMost / 2}) {
    account.paid_until_ns = word;
    EXPECT_GT(try_charge(account, kNow, 100'000, 500'000, kCatchUp), kMost / 8) << word;
    EXPECT_EQ(account.paid_until_ns, word);
    charge_debt(account, kNow, 10'000'000'000, 1, kCatchUp);
    EXPECT_GT(account.paid_until_ns, kMost / 8) << word;
  }
}

TEST(Gate, ACorruptedPriceMovesNoDebt) {
  constexpr std::int64_t kNow = 10'000'000'000, kOwed = 1'000'000'000;
  for (const std::uint64_t price : {std::uint64_t{kWholeGpu} + 1, ~std::uint64_t{0}}) {
    ComputeAccount account{};
    account.priced_ppm = price;
    EXPECT_EQ(rate_in_force(account, 500'000), 500'000u);
    account.paid_until_ns = kNow + kOwed;
    EXPECT_EQ(rate_now(account, 500'000, 0, kNow), 500'000u);
    EXPECT_EQ(account.paid_until_ns, kNow + kOwed);
  }
  // An impossible debt stays, so that damage can be found.
  ComputeAccount account{};
  account.priced_ppm = 500'000;
  account.paid_until_ns = kNow + (1ll << 51);
  (void)rate_now(account, 250'000, 0, kNow);
  EXPECT_EQ(account.paid_until_ns, kNow + (1ll << 51));
}

TEST(Gate, EachArbiterUpdateIsNewAndOpensItIfItAdmits) {
  auto policy = std::make_unique<PolicyPage>();
  const DevicePolicy& device = policy->devices[0];
  std::uint32_t epoch = device.gate_epoch;
  const auto seen_anew = [&] { return std::exchange(epoch, device.gate_epoch.load()) != device.gate_epoch; };
  write_gate(*policy, 0, Gate::batch, 0);
  EXPECT_TRUE(seen_anew());
  EXPECT_EQ(device.gate, Gate::batch);
  EXPECT_EQ(device.batch_us, 1u);
  write_gate(*policy, 0, Gate::batch, std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(seen_anew());
  EXPECT_EQ(device.batch_us, 100'000'000u);
  for (const Gate gate : {Gate::open, Gate::batch, Gate::shut, Gate::queued}) {
    write_gate(*policy, 0, gate, kEndingNs);
    EXPECT_EQ(is_ending(device), !lets_in(gate));
    write_gate(*policy, 0, gate);
    EXPECT_FALSE(is_ending(device));
  }
  set_arbitrated(*policy, 0, true);
  EXPECT_TRUE(seen_anew());
}

TEST(Gate, AnOpenGateMayOpenALittleLater) {
  auto policy = std::make_unique<PolicyPage>();
  const DevicePolicy& device = policy->devices[0];
  constexpr std::int64_t kUs = 1'000, kRepeatsNs = (1ll << 32) * kUs;
  for (const std::int64_t opens_ns : {kRepeatsNs / 3, 3 * kRepeatsNs, 3 * kRepeatsNs + kUs, kRepeatsNs - kUs}) {
    write_gate(*policy, 0, Gate::open, 0, opens_ns);
    EXPECT_LE(opens_in_ns(device, opens_ns), kUs);
    EXPECT_NEAR(static_cast<double>(opens_in_ns(device, opens_ns - 500 * kUs)), 500e3, 1e3);
    EXPECT_EQ(opens_in_ns(device, opens_ns - 2 * kMaxOpensInNs), 0) << "no limiter waits for long";
    EXPECT_EQ(opens_in_ns(device, opens_ns + kRepeatsNs / 2), 0);
  }
  write_gate(*policy, 0, Gate::open);
  EXPECT_EQ(opens_in_ns(device, kRepeatsNs - kUs), 0);
}

}  // namespace
}  // namespace headgate::ledger
