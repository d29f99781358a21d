#include "observe/driver_fence.hpp"

#include <gtest/gtest.h>

namespace headgate::observe {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30, kSecond = 1'000'000'000;

snapshot::Snapshot seen(std::uint64_t at_ns, std::uint64_t ledger, std::uint64_t counted) {
  snapshot::Snapshot snapshot;
  snapshot.taken_ns = at_ns;
  snapshot.gpus.resize(1);
  snapshot.gpus[0].uuid = "GPU-a";
  snapshot.shares.resize(1);
  snapshot.shares[0].name = "a";
  snapshot.shares[0].processes = 1;
  snapshot.shares[0].devices.resize(1);
  snapshot.shares[0].devices[0].uuid = "GPU-a";
  snapshot.shares[0].devices[0].memory_used_bytes = ledger;
  snapshot.shares[0].devices[0].driver_used_bytes = counted;
  return snapshot;
}

TEST(FenceChecks, MoreThanTheLedgerKnowsIsToldOnceAfterThreeLooks) {
  FenceCheck check;
  EXPECT_TRUE(check.look(seen(1 * kSecond, kGiB, 3 * kGiB)).empty());
  EXPECT_TRUE(check.look(seen(2 * kSecond, kGiB, 3 * kGiB)).empty());
  const auto events = check.look(seen(3 * kSecond, kGiB, 3 * kGiB));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, "audit.memory");
  EXPECT_EQ(events[0].text, "the driver counts 3.0 GiB on GPU 0 in the cgroups of share a, whose ledger has 1.0 GiB");
  EXPECT_TRUE(check.look(seen(4 * kSecond, kGiB, 3 * kGiB)).empty());
  // They agree, and part again.
  EXPECT_TRUE(check.look(seen(5 * kSecond, kGiB, kGiB)).empty());
  for (std::uint64_t at = 6; at < 8; ++at) EXPECT_TRUE(check.look(seen(at * kSecond, 0, kGiB)).empty());
  EXPECT_EQ(check.look(seen(8 * kSecond, 0, kGiB)).size(), 1u);
}

TEST(FenceChecks, WhatContextsMayAddIsNoFinding) {
  FenceCheck check;
  for (std::uint64_t at = 1; at < 9; ++at)
    EXPECT_TRUE(check.look(seen(at * kSecond, kGiB, kGiB + (128ull << 20))).empty());
}

TEST(FenceChecks, ManyLooksInAMomentAreNotEnough) {
  FenceCheck check;
  for (std::uint64_t at = 1; at < 9; ++at) EXPECT_TRUE(check.look(seen(at * kSecond / 10, 0, kGiB)).empty());
}

}  // namespace
}  // namespace headgate::observe
