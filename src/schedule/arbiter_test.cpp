// The rules of turns one by one, without a GPU. For the resulting figures see tests/exactness/arbiter_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "schedule/test_gpus.hpp"

namespace headgate::schedule {
namespace {

TEST(Arbiter, NoDemandMeansNoChangesAndNoTicks) {
  Gpus gpus;
  gpus.add({Terms{}});
  gpus.add({Terms{}});
  const Decision decision = gpus.decide(kMs);
  EXPECT_TRUE(decision.changes.empty());
  EXPECT_EQ(decision.wake_at_ns, kNever);
}
TEST(Arbiter, ALoneShareIsOpenWithoutEndAndTicks) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}});
  gpus.add({Terms{}});
  gpus.run(a, kMs);
  EXPECT_EQ(gpus.decide(kMs).wake_at_ns, kNever);
  EXPECT_EQ(gpus.gate(a), Gate::open);
  gpus.decide(1'000 * kMs);
  EXPECT_EQ(gpus.gate(a), Gate::open);
}
TEST(Arbiter, ANewShareGetsALongHeldGpuAtOnce) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}}), earlier = gpus.add({Terms{}});
  std::int64_t at_ns = 0;
  play(gpus, {{a, {0}}, {earlier, {0}}}, at_ns, 40);
  gpus.rest(earlier);
  gpus.run(a, kMs);
  gpus.decide(at_ns += 100 * kMs);
  gpus.uses[{a, 0}].held_ns += 500 * kMs;
  gpus.want(b);
  gpus.decide(at_ns + 500 * kMs);
  EXPECT_EQ(gpus.gate(b), Gate::open);
  EXPECT_EQ(gpus.gate(a), Gate::queued);
}
// Between the end of its work and its next launch it seems to have none; that launch finds the gate shut.
TEST(Arbiter, AShareSeenToWantIsQueuedAndOthersMustRing) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  gpus.run(a, 100 * kMs);
  gpus.run(b, 100 * kMs);
  gpus.decide(kMs);
  const ShareId holder = gpus.gate(a) == Gate::open ? a : b, other = holder == a ? b : a;
  EXPECT_EQ(gpus.gate(other), Gate::queued);
  gpus.rest(other);
  const Decision alone = gpus.decide(2 * kMs);
  EXPECT_EQ(gpus.gate(other), Gate::shut);
  EXPECT_EQ(alone.wake_at_ns, kNever);
}
TEST(Arbiter, ALeaseEndsByTimeWithoutWaitingForADrain) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  gpus.run(a, 100 * kMs);  // a very long kernel
  gpus.want(b);
  gpus.decide(kMs);
  const ShareId first = gpus.gate(a) == Gate::open ? a : b, second = first == a ? b : a;
  gpus.run(first, 100 * kMs);
  gpus.want(second);
  gpus.decide(kMs + kLongestLeaseNs + 1);
  EXPECT_EQ(gpus.gate(second), Gate::open);
  EXPECT_EQ(gpus.gate(first), Gate::queued);
}
// 64 turns of 2.5 ms would be 160 ms.
TEST(Arbiter, ManySharesGetShorterTurns) {
  Gpus gpus;
  std::vector<ShareId> waiting;
  for (int i = 0; i < 64; ++i) waiting.push_back(gpus.add({Terms{}}));
  for (const ShareId each : waiting) gpus.uses[{each, 0}].kernel_ns = 200 * kUs;
  std::int64_t now_ns = kMs, since_ns = kMs;
  while (!waiting.empty() && now_ns < 1'000 * kMs) {
    for (auto& [where, use] : gpus.uses) {
      if (gpus.gate(where.first) == Gate::open) use.held_ns += now_ns - since_ns;
      use.wanting = true;
    }
    since_ns = now_ns;
    const Decision decision = gpus.decide(now_ns);
    std::erase_if(waiting, [&](ShareId each) { return gpus.gate(each) == Gate::open; });
    now_ns = decision.wake_at_ns;
  }
  EXPECT_TRUE(waiting.empty());
  EXPECT_LE(since_ns, kMs + kWindowNs);
}
// It reports its ceiling and its work in flight itself, and can say at each look that both end shortly.
TEST(Arbiter, AnEndlesslyPostponedEndCostsTheArbiterLittle) {
  Gpus gpus;
  const ShareId honest = gpus.add({Terms{}}), liar = gpus.add({Terms{}});
  gpus.want(honest);
  gpus.want(liar);
  std::int64_t now_ns = kMs;
  int looks = 0;
  for (; now_ns < 1'001 * kMs; ++looks) {
    // It holds the GPU, or waits for its ceiling to open.
    Use& said = gpus.uses[{liar, 0}];
    said.in_flight_ns = 2 * kUs;
    said.ceiling_ns = looks % 100 < 50 ? 50 * kUs : kMinLingerNs + kUs;
    ++said.requests;
    while (const auto turn = gpus.arbiter.next_turn(now_ns)) gpus.arbiter.settle(*turn, 0);
    now_ns = gpus.decide(now_ns).wake_at_ns;
    ASSERT_NE(now_ns, kNever);
  }
  EXPECT_LT(looks, 6'000) << "4,000 for what it says, and the turns' own";
}
TEST(Arbiter, AHolderWithoutWorkYieldsEarly) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  gpus.run(a, 100 * kUs);
  gpus.decide(10 * kMs);
  gpus.rest(a);
  gpus.decide(10 * kMs + 150 * kUs);
  gpus.want(b);
  gpus.decide(10 * kMs + 300 * kUs);
  EXPECT_EQ(gpus.gate(b), Gate::open);
}
// The daemon or its machine was stopped.
TEST(Arbiter, TimeWithoutDecisionsIsChargedToNoShare) {
  Gpus gpus;
  const ShareId light = gpus.add({Terms{.weight = 10}}),
                heavy = gpus.add({Terms{.weight = 90, .guarantee_ppm = 200'000}});
  const auto contend = [&](std::int64_t from_ns, std::int64_t to_ns) {
    std::map<ShareId, std::int64_t> had;
    for (std::int64_t at_ns = from_ns; at_ns < to_ns;) {
      for (const ShareId share : {light, heavy})
        if (gpus.gate(share) == Gate::open) gpus.run(share, kTailLeadNs);
        else gpus.rest(share), gpus.want(share);
      while (const auto turn = gpus.arbiter.next_turn(at_ns)) {
        EXPECT_LE(turn->to_ns - turn->from_ns, 3 * kLongestLeaseNs);
        gpus.arbiter.settle(*turn, 0);
      }
      const std::int64_t next_ns = std::clamp(gpus.decide(at_ns).wake_at_ns, at_ns + kMs / 10, at_ns + 5 * kMs);
      for (const ShareId share : {light, heavy})
        if (gpus.gate(share) == Gate::open)
          had[share] += next_ns - at_ns, gpus.uses[{share, 0}].held_ns += next_ns - at_ns;
      at_ns = next_ns;
    }
    return had;
  };
  contend(kMs, 500 * kMs);
  const std::int64_t light_ns = gpus.arbiter.virtual_time_ns(light, 0),
                     heavy_ns = gpus.arbiter.virtual_time_ns(heavy, 0);
  // Meanwhile they continued under their guarantees, side by side.
  for (const ShareId share : {light, heavy}) gpus.uses[{share, 0}].held_ns += 4'000 * kMs;
  gpus.decide(8'500 * kMs);
  EXPECT_NEAR(static_cast<double>(gpus.arbiter.virtual_time_ns(light, 0) - light_ns), 0, 1e6);
  EXPECT_NEAR(static_cast<double>(gpus.arbiter.virtual_time_ns(heavy, 0) - heavy_ns), 0, 1e6);
  auto had = contend(8'500 * kMs, 9'500 * kMs);
  EXPECT_NEAR(static_cast<double>(had[light]), 80e6, 10e6);
  EXPECT_NEAR(static_cast<double>(had[heavy]), 920e6, 10e6);
}
// The turn during which it happened must not count as used either: the clock would advance by all of it, and the next
// share would be that far behind the holder.
TEST(Arbiter, TimeWithoutDecisionsDelaysNoNewShare) {
  Gpus gpus;
  const ShareId holder = gpus.add({Terms{}}), other = gpus.add({Terms{}});
  gpus.run(holder, kMs);
  gpus.want(other);
  gpus.decide(kMs);
  if (gpus.gate(other) == Gate::open) gpus.decide(kMs + kShortestLeaseNs);
  ASSERT_EQ(gpus.gate(holder), Gate::open);
  ASSERT_EQ(gpus.gate(other), Gate::queued);
  gpus.rest(other);
  gpus.decide(6'000 * kMs);
  gpus.want(other);
  std::int64_t now_ns = 6'001 * kMs;
  for (; gpus.gate(other) != Gate::open && now_ns < 6'500 * kMs; now_ns += kMs) {
    gpus.uses[{holder, 0}].held_ns += kMs;
    gpus.run(holder, kMs);
    while (const auto turn = gpus.arbiter.next_turn(now_ns)) gpus.arbiter.settle(*turn, 0);
    gpus.decide(now_ns);
  }
  EXPECT_LE(now_ns, 6'020 * kMs);
}

TEST(Arbiter, OffOpensEveryGateAtOnce) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  gpus.want(a);
  gpus.want(b);
  gpus.decide(kMs);
  gpus.arbiter.set_policy(0, Policy::off);
  EXPECT_EQ(gpus.decide(kMs + 1).wake_at_ns, kNever);
  EXPECT_EQ(gpus.gate(a), Gate::open);
  EXPECT_EQ(gpus.gate(b), Gate::open);
}
TEST(Arbiter, PriorityPreemptsAndFairDoesNot) {
  for (const Policy policy : {Policy::priority, Policy::fair}) {
    Gpus gpus;
    gpus.arbiter.set_policy(0, policy);
    const ShareId low = gpus.add({Terms{.priority_class = Class::best_effort}}),
                  other = gpus.add({Terms{.priority_class = Class::best_effort}});
    const ShareId high = gpus.add({Terms{.priority_class = Class::normal}});
    gpus.want(low);
    gpus.want(other);
    gpus.decide(kMs);
    gpus.run(gpus.gate(low) == Gate::open ? low : other, kMs);
    gpus.want(high);
    gpus.decide(kMs + 100 * kUs);
    EXPECT_EQ(gpus.gate(high), policy == Policy::priority ? Gate::open : Gate::queued);
  }
}
TEST(Arbiter, ALatencyShareIsNeverShutAndLimitsTheOthers) {
  Gpus gpus;
  const ShareId fast = gpus.add({Terms{.priority_class = Class::latency}}), slow = gpus.add({Terms{}});
  gpus.run(slow, kMs);
  gpus.decide(kMs);
  EXPECT_EQ(gpus.gate(slow), Gate::open);
  gpus.run(fast, 200 * kUs);
  gpus.uses[{slow, 0}].kernel_ns = 50 * kUs;
  const Decision decision = gpus.decide(2 * kMs);
  EXPECT_EQ(gpus.gate(fast), Gate::open_notify);
  EXPECT_EQ(gpus.gate(slow), Gate::batch);
  for (const Change& change : decision.changes)
    if (change.share == slow) {
      EXPECT_EQ(change.batch_ns, kProtectedBatchNs);
    }
  gpus.rest(fast);
  gpus.decide(2 * kMs + kProtectedNs + 1);
  EXPECT_EQ(gpus.gate(slow), Gate::open);
}
// Its first kernel would be the second one that the latency share has to wait for.
TEST(Arbiter, ASuccessorBesideALatencyShareWaitsForTheLastKernel) {
  Gpus gpus;
  const ShareId fast = gpus.add({Terms{.priority_class = Class::latency}}), a = gpus.add({Terms{}}),
                b = gpus.add({Terms{}});
  gpus.run(a, 100 * kMs);
  gpus.decide(kMs);
  gpus.want(b);
  gpus.run(fast, 200 * kUs);
  gpus.decide(2 * kMs);
  const std::int64_t at_ns = 3 * kMs + kLongestLeaseNs;
  const Decision decision = gpus.decide(at_ns);
  EXPECT_EQ(gpus.gate(a), Gate::queued);
  EXPECT_EQ(gpus.gate(b), Gate::queued);
  EXPECT_EQ(decision.wake_at_ns, at_ns + kLookNs);
  // A kernel that does not end for longer than a turn is no longer waited for.
  gpus.arbiter.change_share(b, std::vector{Terms{.weight = 1'000}});
  bool let_in = false;
  for (int i = 1; i < 50 && !let_in; ++i, let_in = gpus.gate(b) == Gate::batch) gpus.decide(at_ns + i * kMs);
  EXPECT_TRUE(let_in);
}
TEST(Arbiter, AGangOnTwoGpusHasBothOrNone) {
  Gpus gpus(2);
  const ShareId wide = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}, "gang"), narrow = gpus.add({Terms{.gpu = 1}});
  gpus.run(narrow, kMs, 1);
  gpus.decide(kMs);
  for (std::int64_t at = 2; at < 200; ++at) {
    const bool has = gpus.gate(wide, 0) == Gate::open;
    for (const std::uint32_t gpu : {0u, 1u})
      if (has) gpus.run(wide, kMs, gpu);
      else gpus.want(wide, gpu);
    if (gpus.gate(narrow, 1) == Gate::open) gpus.run(narrow, kMs, 1);
    else gpus.want(narrow, 1);
    gpus.decide(at * kMs);
    EXPECT_EQ(gpus.gate(wide, 0) == Gate::open, gpus.gate(wide, 1) == Gate::open) << at;
  }
}
TEST(Arbiter, AGangsTurnContinuesIfNoOtherWantsTheGpu) {
  Gpus gpus(2);
  const ShareId wide = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}, "gang"), narrow = gpus.add({Terms{.gpu = 1}});
  for (const std::uint32_t gpu : {0u, 1u}) gpus.run(wide, kMs, gpu);
  gpus.decide(kMs);
  gpus.want(narrow, 1);
  std::int64_t at_ns = kMs;
  for (int look = 0; look < 200 && gpus.gate(wide, 0) != Gate::queued; ++look) {
    for (const std::uint32_t gpu : {0u, 1u}) gpus.uses[{wide, gpu}].held_ns += kMs;
    gpus.decide(at_ns += kMs);
  }
  ASSERT_EQ(gpus.gate(wide, 0), Gate::queued);
  gpus.uses[{narrow, 1}] = {};
  for (const std::uint32_t gpu : {0u, 1u}) gpus.rest(wide, gpu), gpus.want(wide, gpu);
  for (int look = 0; look < 4; ++look) gpus.decide(at_ns += kMs);
  for (const std::uint32_t gpu : {0u, 1u})
    EXPECT_TRUE(gpus.gate(wide, gpu) == Gate::open || gpus.gate(wide, gpu) == Gate::open_notify) << gpu;
}
// Its programs may have nothing in common: what it has on one GPU is no reason to keep it from another, or others from
// that.
TEST(Arbiter, AShareOnTwoGpusHasEachSeparately) {
  Gpus gpus(2);
  const ShareId wide = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}), narrow = gpus.add({Terms{.gpu = 1}});
  int held[2] = {}, narrow_held = 0;
  for (std::int64_t at = 1; at < 1'000; ++at) {
    for (const std::uint32_t gpu : {0u, 1u}) {
      const bool has = gpus.gate(wide, gpu) == Gate::open || gpus.gate(wide, gpu) == Gate::open_notify;
      held[gpu] += has;
      if (has) gpus.run(wide, kTailLeadNs, gpu), gpus.uses[{wide, gpu}].held_ns += kMs;
      else gpus.rest(wide, gpu), gpus.want(wide, gpu);
    }
    const bool has = gpus.gate(narrow, 1) == Gate::open;
    narrow_held += has;
    if (has) gpus.run(narrow, kTailLeadNs, 1), gpus.uses[{narrow, 1}].held_ns += kMs;
    else gpus.rest(narrow, 1), gpus.want(narrow, 1);
    gpus.decide(at * kMs);
    while (const auto turn = gpus.arbiter.next_turn(at * kMs)) gpus.arbiter.settle(*turn, 0);
  }
  EXPECT_GE(held[0], 990);
  EXPECT_NEAR(held[1], 500, 25);
  EXPECT_NEAR(narrow_held, 500, 25);
}
// Without lending, the GPU would be idle for the rest of the narrow share's turn on the other. Lent for a whole turn,
// the gang would wait for that turn next, and so on.
TEST(Arbiter, AWideGangLendsFreeGpusUntilItHasAll) {
  Gpus gpus(2);
  const ShareId wide = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}, "gang");
  const ShareId left = gpus.add({Terms{.gpu = 0}}), right = gpus.add({Terms{.gpu = 1}});
  const auto begin = [&](ShareId share, std::uint32_t gpu) {
    gpus.run(share, 100 * kMs, gpu);
    gpus.uses[{share, gpu}].kernel_ns = 2 * kMs;
  };
  begin(right, 1);
  gpus.decide(kMs);
  begin(wide, 0);
  begin(wide, 1);
  gpus.decide(2 * kMs);
  const std::int64_t ends_ns = 2 * kMs + kLongestLeaseNs;
  ASSERT_EQ(gpus.gate(right, 1), Gate::open);
  begin(left, 0);
  gpus.decide(ends_ns - 2 * kMs);
  EXPECT_EQ(gpus.gate(left, 0), Gate::open);
  EXPECT_NE(gpus.gate(wide, 0), Gate::open);
  gpus.decide(ends_ns + 1);
  EXPECT_EQ(gpus.gate(wide, 0), Gate::open);
  EXPECT_EQ(gpus.gate(wide, 1), Gate::open);
}
TEST(Arbiter, ALaunchThatOtherWorkWaitsForIsLetThrough) {
  Gpus gpus(2);
  const ShareId a = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}, "a"),
                b = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}, "b");
  gpus.want(a, 0);
  gpus.want(a, 1);
  gpus.decide(kMs);
  ASSERT_EQ(gpus.gate(a, 0), Gate::open);
  for (const std::uint32_t gpu : {0u, 1u}) gpus.run(a, kMs, gpu), gpus.want(b, gpu);
  gpus.decide(2 * kMs);
  gpus.uses[{a, 0}].held_ns = gpus.uses[{a, 1}].held_ns = 60 * kMs;
  // A's rank on GPU 0 spins for a launch that finds the gate of GPU 1 shut.
  gpus.run(a, 1, 0);
  gpus.rest(a, 1);
  gpus.want(a, 1);
  std::int64_t at_ns = 60 * kMs;
  for (int look = 0; look < 10 && gpus.gate(a, 1) != Gate::batch; ++look) gpus.decide(at_ns += 100 * kUs);
  EXPECT_EQ(gpus.gate(a, 1), Gate::batch);
  EXPECT_NE(gpus.gate(a, 0), Gate::open);
}
TEST(Arbiter, AShareAtItsCeilingReleasesTheGpu) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  gpus.run(a, kMs);
  gpus.decide(kMs);
  gpus.rest(a);
  gpus.uses[{a, 0}].ceiling_ns = 3 * kMs;
  gpus.want(b);
  gpus.decide(kMs + 10 * kUs);
  EXPECT_EQ(gpus.gate(b), Gate::open);
}
TEST(Arbiter, ARemovedHolderLeavesTheGpuToOthers) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  gpus.run(a, kMs);
  gpus.decide(kMs);
  gpus.want(b);
  gpus.decide(kMs + 10 * kUs);
  gpus.arbiter.remove_share(a);
  gpus.uses.erase({a, 0});
  gpus.decide(kMs + 20 * kUs);
  EXPECT_EQ(gpus.gate(b), Gate::open);
  EXPECT_EQ(gpus.add({Terms{}}), a);  // its id is free again
}

}  // namespace
}  // namespace headgate::schedule
