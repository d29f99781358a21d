#include "tenancy/unattended.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "guest/ledger/layout.hpp"
#include "tenancy/share.hpp"

namespace headgate::tenancy {
namespace {

using Claims = std::vector<UnattendedClaim>;
using Parts = std::vector<std::uint32_t>;
constexpr std::uint32_t kWhole = ledger::kWholeGpu;

TEST(Unattended, PromisesComeFirstAndWeightsDivideTheRest) {
  const Claims claims = {{.promise_ppm = 500'000, .ceiling_ppm = 500'000, .has_processes = true},
                         {.ceiling_ppm = kWhole, .has_processes = true},
                         {.ceiling_ppm = kWhole, .weight = 300, .has_processes = true}};
  EXPECT_EQ(divide_unattended(claims), (Parts{500'000, 125'000, 375'000}));
}

TEST(Unattended, TimeAboveACeilingGoesToOthers) {
  const Claims claims = {{.ceiling_ppm = 100'000, .has_processes = true},
                         {.promise_ppm = 100'000, .ceiling_ppm = kWhole, .has_processes = true},
                         {.promise_ppm = 200'000, .ceiling_ppm = kWhole, .weight = 200, .has_processes = true}};
  EXPECT_EQ(divide_unattended(claims), (Parts{100'000, 300'000, 600'000}));
}

TEST(Unattended, AShareAloneOnItsGpuGetsItsCeiling) {
  EXPECT_EQ(divide_unattended(Claims{{.ceiling_ppm = kWhole, .has_processes = true}}), Parts{kWhole});
  EXPECT_EQ(divide_unattended(Claims{{.promise_ppm = 1, .ceiling_ppm = 300'000}}), Parts{300'000});
  EXPECT_EQ(divide_unattended(Claims{}), Parts{});
}

TEST(Unattended, AShareWithoutProcessesKeepsItsPromiseOnly) {
  const Claims claims = {{.promise_ppm = 300'000, .ceiling_ppm = kWhole},
                         {.ceiling_ppm = kWhole},
                         {.ceiling_ppm = kWhole, .has_processes = true}};
  EXPECT_EQ(divide_unattended(claims), (Parts{300'000, 0, 700'000}));
}

TEST(Unattended, AllSharesDivideTheRestIfNoneHasProcesses) {
  const Claims claims = {{.promise_ppm = 500'000, .ceiling_ppm = 500'000}, {.ceiling_ppm = kWhole}};
  EXPECT_EQ(divide_unattended(claims), (Parts{500'000, 500'000}));
}

TEST(Unattended, PromisesBeyondTheGpuAreScaledToIt) {
  const Claims claims = {{.promise_ppm = kWhole, .ceiling_ppm = kWhole, .has_processes = true},
                         {.promise_ppm = kWhole, .ceiling_ppm = kWhole, .has_processes = true},
                         {.ceiling_ppm = kWhole, .has_processes = true}};
  EXPECT_EQ(divide_unattended(claims), (Parts{500'000, 500'000, 0}));
}

rc::Gen<UnattendedClaim> any_claim() {
  return rc::gen::exec([] {
    UnattendedClaim claim;
    claim.ceiling_ppm = *rc::gen::element(*rc::gen::inRange<std::uint32_t>(1, kWhole + 1), kWhole);
    claim.promise_ppm = *rc::gen::element(std::uint32_t{0}, *rc::gen::inRange<std::uint32_t>(0, claim.ceiling_ppm + 1));
    claim.weight = *rc::gen::inRange<std::uint32_t>(1, kMaxWeight + 1);
    claim.has_processes = *rc::gen::arbitrary<bool>();
    return claim;
  });
}

std::uint64_t promised(const Claims& claims) {
  return std::accumulate(claims.begin(), claims.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const UnattendedClaim& claim) { return sum + claim.promise_ppm; });
}

RC_GTEST_PROP(Unattended, RespectsPromisesCeilingsAndTheGpu, ()) {
  const Claims claims = *rc::gen::container<Claims>(any_claim());
  const Parts parts = divide_unattended(claims);
  RC_ASSERT(parts.size() == claims.size());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    RC_ASSERT(parts[i] <= claims[i].ceiling_ppm);
    if (promised(claims) <= kWhole) RC_ASSERT(parts[i] >= claims[i].promise_ppm);
    sum += parts[i];
  }
  RC_ASSERT(sum <= kWhole);
}

RC_GTEST_PROP(Unattended, LeavesNoTimeThatAShareMayUse, ()) {
  const Claims claims = *rc::gen::container<Claims>(any_claim());
  const Parts parts = divide_unattended(claims);
  RC_PRE(promised(claims) <= kWhole);
  if (std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}) == kWhole) return;
  for (std::size_t i = 0; i < claims.size(); ++i)
    if (claims[i].has_processes) RC_ASSERT(parts[i] == claims[i].ceiling_ppm);
}

// Two shares below their ceilings divide the rest by their weights, except for rounding.
RC_GTEST_PROP(Unattended, DividesTheRestByWeight, ()) {
  const Claims claims = *rc::gen::container<Claims>(any_claim());
  const Parts parts = divide_unattended(claims);
  RC_PRE(promised(claims) <= kWhole);
  const auto rest = [&](std::size_t i) { return std::int64_t{parts[i]} - claims[i].promise_ppm; };
  for (std::size_t a = 0; a < claims.size(); ++a)
    for (std::size_t b = 0; b < claims.size(); ++b) {
      if (!claims[a].has_processes || !claims[b].has_processes) continue;
      if (parts[a] == claims[a].ceiling_ppm || parts[b] == claims[b].ceiling_ppm) continue;
      const std::int64_t off = rest(a) * claims[b].weight - rest(b) * claims[a].weight;
      const auto rounding = static_cast<std::int64_t>(claims.size() + 1) * (claims[a].weight + claims[b].weight);
      RC_ASSERT(std::abs(off) <= rounding);
    }
}

}  // namespace
}  // namespace headgate::tenancy
