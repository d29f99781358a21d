// The rules of one share and one gang on a GPU, one by one.
#include "schedule/gang.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "schedule/test_gpus.hpp"

namespace headgate::schedule {
namespace {

// The time doubles if it is seen again soon.
TEST(Gang, RanksAreHeldTogetherAfterEightTurnsThatEndWaiting) {
  Gang gang;
  gang.stakes.resize(2);
  std::int64_t now_ns = 100'000 * kMs;
  const auto wait = [&] {
    for (int i = 0; i < 8; ++i) {
      EXPECT_FALSE(gang.is_together(now_ns)) << i;
      gang.see_turn_end(true, now_ns);
    }
  };
  for (const std::int64_t for_s : {4, 8, 16, 32, 64, 64}) {
    const std::int64_t for_ns = for_s * 1'000 * kMs;
    wait();
    EXPECT_TRUE(gang.is_together(now_ns + for_ns - 1)) << for_s;
    EXPECT_FALSE(gang.is_together(now_ns + for_ns)) << for_s;
    now_ns += for_ns + kMs;
  }
  now_ns += 4'000 * kMs;
  wait();
  EXPECT_FALSE(gang.is_together(now_ns + 4'000 * kMs));
}
TEST(Gang, TurnsThatEndOtherwiseCountAgainstThat) {
  Gang gang;
  gang.stakes.resize(2);
  for (int i = 0; i < 100; ++i) gang.see_turn_end(i % 2 == 0, kMs);
  EXPECT_FALSE(gang.is_together(kMs));
}

TEST(Gang, APromiseEarnsWhileTheGpuIsWantedBesideOthers) {
  GangOnGpu stake{.guarantee_ppm = 500'000};
  stake.wants = true;
  stake.earn(10 * kMs, false);
  EXPECT_EQ(stake.budget_ns, 0) << "no other wants it";
  stake.earn(10 * kMs, true);
  EXPECT_EQ(stake.budget_ns, 5 * kMs);
  stake.wants = false;
  stake.held_back = true;
  stake.earn(10 * kMs, true);
  EXPECT_EQ(stake.budget_ns, 10 * kMs) << "at its ceiling it still wants";
  stake.earn(1'000 * kMs, true);
  EXPECT_EQ(stake.budget_ns, 50 * kMs) << "of 100 ms at most";
  stake.held_back = false;
  stake.earn(kMs, true);
  EXPECT_EQ(stake.budget_ns, kIdleBudgetNs);
  stake.budget_ns = -3 * kMs;
  stake.earn(2 * kMs, false);
  EXPECT_EQ(stake.budget_ns, -2 * kMs) << "debt is worked off by time";
  stake.earn(1'000 * kMs, false);
  EXPECT_EQ(stake.budget_ns, 0);
}

// While another share has a GPU that a gang used within 50 ms, the gang has none: its ranks would spin there. Except
// one on which its ceiling stops it, for it will not use that.
TEST(Gang, AGangWantsTheGpusThatItUsedLately) {
  for (const bool at_ceiling : {false, true}) {
    Gpus gpus(2);
    const ShareId wide = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}, "gang"), narrow = gpus.add({Terms{.gpu = 1}});
    bool together = true;
    for (std::int64_t at_ns = kMs; at_ns < 70 * kMs; at_ns += kMs) {
      const bool late = at_ns > 30 * kMs, has_turn = gpus.gate(wide, 0) == Gate::open;
      if (has_turn || at_ns == kMs) gpus.run(wide, kUs, 0), gpus.uses[{wide, 0}].held_ns += kMs;
      else gpus.rest(wide, 0), gpus.want(wide, 0);
      if (!late) gpus.run(wide, kUs, 1), gpus.uses[{wide, 1}].held_ns += kMs;
      else gpus.rest(wide, 1), gpus.uses[{wide, 1}].ceiling_ns = at_ceiling ? 10 * kMs : 0;
      if (gpus.gate(narrow, 1) == Gate::open) {
        gpus.run(narrow, kUs, 1), gpus.uses[{narrow, 1}].held_ns += kMs;
        together &= is_closed(gpus.gate(wide, 0));
      } else {
        gpus.rest(narrow, 1), gpus.want(narrow, 1);
      }
      gpus.decide(at_ns);
      while (const auto turn = gpus.arbiter.next_turn(at_ns)) gpus.arbiter.settle(*turn, 0);
    }
    EXPECT_EQ(gpus.gate(narrow, 1), Gate::open);
    EXPECT_NE(together, at_ceiling);
  }
}
// Unless they were seen to wait for each other: its work may just take longer than estimated.
TEST(Gang, ALaunchOfNoRankWaitsLongerForOtherWork) {
  Gpus gpus(2);
  const ShareId two = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}),
                other = gpus.add({Terms{.gpu = 1, .guarantee_ppm = 1'000'000}});
  std::int64_t at_ns = kMs;
  const auto look = [&](std::int64_t two_in_flight_ns) {
    gpus.run(other, kTailLeadNs, 1), gpus.uses[{other, 1}].held_ns += 100 * kUs;
    gpus.run(two, two_in_flight_ns, 0);
    gpus.want(two, 1);
    gpus.decide(at_ns += 100 * kUs);
    while (const auto turn = gpus.arbiter.next_turn(at_ns)) gpus.arbiter.settle(*turn, 0);
  };
  while (at_ns < 100 * kMs) look(kMs);
  ASSERT_EQ(gpus.gate(other, 1), Gate::open);
  std::int64_t waited_ns = 0;
  for (; waited_ns < 50 * kMs && gpus.gate(two, 1) != Gate::batch; waited_ns += 100 * kUs) look(kOverdueReportNs);
  EXPECT_NEAR(static_cast<double>(waited_ns), static_cast<double>(kUnseenRankNs + 2 * kMs), 2e5);
}

// A share that has one GPU alone and takes turns on the other. Its kernels may be ranks', but none is late.
TEST(Gang, AShareThatWaitsOnOneOfItsGpusCostsNoLooksOfItsOwn) {
  Gpus gpus(2);
  const ShareId both = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}), one = gpus.add({Terms{}});
  for (const auto& place : {std::pair{both, 0u}, {both, 1u}, {one, 0u}}) gpus.uses[place].kernel_ns = kMs;
  int looks = 0, turns = 0;
  Gate before = Gate::open;
  std::int64_t now_ns = kMs, since_ns = kMs;
  for (; now_ns < 401 * kMs; ++looks) {
    for (const ShareId each : {both, one}) {
      if (gpus.gate(each) == Gate::open) gpus.run(each, kTailLeadNs), gpus.uses[{each, 0}].held_ns += now_ns - since_ns;
      else gpus.rest(each), gpus.want(each);
    }
    gpus.run(both, 2 * kMs, 1);
    gpus.uses[{both, 1}].held_ns += now_ns - since_ns;
    since_ns = now_ns;
    now_ns = gpus.decide(now_ns).wake_at_ns;
    while (const auto turn = gpus.arbiter.next_turn(since_ns)) gpus.arbiter.settle(*turn, 0);
    turns += std::exchange(before, gpus.gate(one)) != before;
  }
  EXPECT_GE(turns, 80);
  EXPECT_LE(looks, 3 * turns) << "839 with one each 300 us";
}
// That kernel's slices are known to be another share's only when it ends. So is its length, the first time.
TEST(Gang, WorkBesideALongKernelDoesNotSeemToWait) {
  for (const std::int64_t kernel_ns : {kMs, kMaxPatienceNs + kMs, std::int64_t{0}}) {
    Gpus gpus(2);
    const ShareId two = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}), other = gpus.add({Terms{.gpu = 1}});
    bool together = false;
    for (std::int64_t at_ns = kMs; at_ns < 2'000 * kMs; at_ns += kMs) {
      for (const std::uint32_t gpu : {0u, 1u}) {
        gpus.run(two, kTailLeadNs, gpu);
        Use& use = gpus.uses[{two, gpu}];
        use.kernel_ns = kMs, use.oldest_age_ns = at_ns;
        use.held_ns += gpu == 0 || gpus.gate(other, 1) != Gate::open ? kMs : 0;
      }
      gpus.run(other, kTailLeadNs, 1);
      gpus.uses[{other, 1}].kernel_ns = kernel_ns;
      gpus.uses[{other, 1}].oldest_age_ns = at_ns;
      gpus.uses[{other, 1}].held_ns += gpus.gate(other, 1) == Gate::open ? kMs : 0;
      gpus.decide(at_ns);
      together |= is_closed(gpus.gate(two, 0));
      while (const auto turn = gpus.arbiter.next_turn(at_ns)) gpus.arbiter.settle(*turn, 0);
    }
    EXPECT_EQ(together, kernel_ns == kMs);
  }
}
TEST(Gang, AGangsTurnIsFifteenOfItsKernels) {
  const std::pair<std::int64_t, std::int64_t> kernels_and_turns_ns[] = {
      {kMs, 50 * kMs}, {8 * kMs, 120 * kMs}, {100 * kMs, 150 * kMs}};
  for (const auto& [kernel_ns, turn_ns] : kernels_and_turns_ns) {
    Gpus gpus(2);
    const ShareId wide = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}, "gang"), narrow = gpus.add({Terms{.gpu = 1}});
    std::int64_t at_ns = kMs;
    const auto look = [&] {
      for (const std::uint32_t gpu : {0u, 1u}) {
        gpus.uses[{wide, gpu}].kernel_ns = kernel_ns;
        if (gpus.gate(wide, gpu) == Gate::open) gpus.run(wide, kUs, gpu), gpus.uses[{wide, gpu}].held_ns += kMs;
        else gpus.rest(wide, gpu), gpus.want(wide, gpu);
      }
      if (gpus.gate(narrow, 1) == Gate::open) gpus.run(narrow, kUs, 1), gpus.uses[{narrow, 1}].held_ns += kMs;
      else gpus.rest(narrow, 1), gpus.want(narrow, 1);
      gpus.decide(at_ns += kMs);
    };
    std::int64_t had_ns = 0;
    while (gpus.gate(wide, 1) == Gate::open && at_ns < 1'000 * kMs) look();
    while (gpus.gate(wide, 1) != Gate::open && at_ns < 1'000 * kMs) look();
    for (; gpus.gate(wide, 1) == Gate::open && had_ns < 1'000 * kMs; had_ns += kMs) look();
    EXPECT_NEAR(static_cast<double>(had_ns), static_cast<double>(turn_ns), 5e6) << kernel_ns;
  }
}

// Ranks that wait for each other spin: their work holds the GPU for longer than its kernels take.
TEST(ShareOnGpu, WorkOutlastsIfItHeldTheGpuForLongerThanItsKernels) {
  ShareOnGpu one;
  one.use = {.in_flight_ns = kMs, .oldest_age_ns = 50 * kMs, .kernel_ns = kMs, .processes = 1};
  EXPECT_TRUE(one.outlasts()) << "what it held is told up to 10 ms late";
  one.use.kernel_ns = 20 * kMs;
  EXPECT_FALSE(one.outlasts()) << "others had the GPU";
  one.held_since_oldest_ns = kRankWaitsNs + 30 * kMs;
  EXPECT_TRUE(one.outlasts());
  one.use.kernel_ns = 0;
  EXPECT_FALSE(one.outlasts()) << "of unknown length";
}
// Each has the GPU for a kernel and a slice before the oldest one's turn comes again.
TEST(ShareOnGpu, WorkOfSeveralProcessesOutlastsLater) {
  ShareOnGpu four;
  const std::int64_t most_ns = kRankWaitsNs + 20 * kMs;
  four.use = {.in_flight_ns = kMs, .oldest_age_ns = 50 * kMs, .kernel_ns = kMs, .processes = 4};
  four.held_since_oldest_ns = most_ns - 1;
  EXPECT_FALSE(four.outlasts());
  four.held_since_oldest_ns = most_ns;
  EXPECT_TRUE(four.outlasts());
}

TEST(ShareOnGpu, AtItsCeilingItRestsUntilATurnIsWorthIt) {
  ShareOnGpu place;
  const auto rests = [&](std::int64_t ceiling_ns, std::int64_t credit_ns) {
    place.use.ceiling_ns = ceiling_ns, place.use.credit_ns = credit_ns, place.use.ceiling_ppm = 100'000;
    place.look_at_ceiling();
    return place.rests;
  };
  EXPECT_FALSE(rests(0, kNoCeiling));
  EXPECT_FALSE(rests(0, 5 * kMs)) << "it has begun, and goes on to its last crumbs";
  EXPECT_TRUE(rests(0, kCrumbNs - 1));
  EXPECT_TRUE(rests(0, 5 * kMs));
  EXPECT_FALSE(rests(0, 10 * kMs)) << "1 ms of GPU time at 10 %";
  EXPECT_TRUE(rests(kMinLingerNs + 1, 0));
  place.is_among_busy = true;
  EXPECT_TRUE(rests(0, 29 * kMs));
  EXPECT_FALSE(rests(0, 30 * kMs)) << "3 ms";
}
TEST(ShareOnGpu, AmongBusySharesItGoesOnAsItsCeilingAllows) {
  ShareOnGpu place;
  constexpr std::int64_t kNow = 1'000 * kMs;
  place.use.ceiling_ppm = 200'000, place.use.credit_ns = 8 * kMs;
  EXPECT_EQ(place.allowed_ns(), 2 * kMs) << "meanwhile 2 ms more are allowed, and 10 ms are charged";
  place.throttled_ns = kNow - kMs;
  EXPECT_EQ(place.patience_ns(kNow), kMinLingerNs);
  EXPECT_FALSE(place.steady(kNow));
  place.is_among_busy = true;
  EXPECT_EQ(place.patience_ns(kNow), kMinLingerNs + 2 * kMs);
  EXPECT_TRUE(place.steady(kNow));
  place.paused_ns = kNow - kMs;
  EXPECT_EQ(place.patience_ns(kNow), kMinLingerNs) << "its host may pause again";
}
TEST(GangOnGpu, IsReadyIfOnlyItsCeilingMakesItPause) {
  GangOnGpu stake;
  ShareOnGpu& place = stake.places.emplace_back();
  constexpr std::int64_t kNow = 1'000 * kMs;
  EXPECT_FALSE(stake.has_short_ready(kNow)) << "length unknown";
  place.use.kernel_ns = 600 * kUs;
  EXPECT_TRUE(stake.has_short_ready(kNow));
  place.paused_ns = kNow;
  EXPECT_FALSE(stake.has_short_ready(kNow));
  place.throttled_ns = kNow;
  EXPECT_TRUE(stake.has_short_ready(kNow)) << "it paused at its ceiling";
  place.dry_seen_ns = kNow;
  EXPECT_FALSE(stake.has_short_ready(kNow)) << "its host pauses too";
  place.dry_seen_ns = 0, place.use.kernel_ns = 700 * kUs;
  EXPECT_FALSE(stake.has_short_ready(kNow));
}

TEST(ShareOnGpu, TheEndOfItsWorkIsWaitedForByItsPauses) {
  ShareOnGpu place;
  constexpr std::int64_t kNow = 1'000 * kMs;
  EXPECT_EQ(place.patience_ns(kNow), kMaxLingerNs);
  place.gap_ns = 200 * kUs;
  EXPECT_EQ(place.patience_ns(kNow), 400 * kUs);
  place.throttled_ns = kNow - kMs;
  EXPECT_EQ(place.patience_ns(kNow), kMinLingerNs) << "it will soon be at its ceiling again";
  place = {};
  place.long_gaps = true;
  EXPECT_EQ(place.patience_ns(kNow), kMinLingerNs) << "its pauses end turns";
  place.use.ceiling_ns = 1;
  EXPECT_EQ(place.patience_ns(kNow), 0);
}

TEST(ShareOnGpu, PausesOfLessThanTwoPercentAreNone) {
  ShareOnGpu place;
  std::int64_t now_ns = kGapWindowNs;
  const auto gap_ns = [&](std::int64_t dry_ns) {
    place.use.dry_ns += dry_ns, place.use.dry_spells += 2;
    place.learn_gap(now_ns += kGapWindowNs);
    return place.gap_ns;
  };
  gap_ns(0);
  EXPECT_EQ(gap_ns(kGapWindowNs / 50 - 1), 0);
  EXPECT_TRUE(place.steady(now_ns + kSteadyNs + 1));
  EXPECT_EQ(gap_ns(kGapWindowNs / 50), kGapWindowNs / 100);
  EXPECT_FALSE(place.steady(now_ns + kSteadyNs));
  EXPECT_EQ(gap_ns(kGapWindowNs - kMs), 0) << "each ends a turn";
  EXPECT_TRUE(place.long_gaps);
  const std::int64_t paused_ns = now_ns;
  while (now_ns < paused_ns + kSteadyNs) gap_ns(0);
  EXPECT_TRUE(place.long_gaps) << "the next may come later";
  gap_ns(0);
  EXPECT_FALSE(place.long_gaps) << "it was one late wake-up";
}
TEST(ShareOnGpu, LittleInFlightIsNoSignOfAPauseIfThereIsNeverMore) {
  GangOnGpu stake;
  ShareOnGpu& place = stake.places.emplace_back();
  place.long_gaps = true;
  place.use.in_flight_ns = kMinLingerNs;
  place.expected_ns = kMinLingerNs + 1;
  EXPECT_TRUE(stake.pauses_soon());
  place.expected_ns = kMinLingerNs;
  EXPECT_FALSE(stake.pauses_soon());
}
TEST(ShareOnGpu, AShareThatWasQuietIsNotSteady) {
  ShareOnGpu place;
  place.learn_gap(kSteadyNs);
  place.learn_gap(1'000 * kMs);
  EXPECT_FALSE(place.steady(1'001 * kMs));
}

}  // namespace
}  // namespace headgate::schedule
