// What is charged to which share, and that no share can exploit it.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "schedule/test_gpus.hpp"

namespace headgate::schedule {
namespace {

TEST(ArbiterAccounts, IdleTimeIsChargedToTheShareThatKeptOthersOut) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  gpus.want(a);
  gpus.want(b);
  gpus.decide(kMs);
  const ShareId holder = gpus.gate(a) == Gate::open ? a : b;
  gpus.run(holder, kMs);
  gpus.want(holder == a ? b : a);
  gpus.decide(kMs + kLongestLeaseNs + 1);
  EXPECT_FALSE(gpus.arbiter.next_turn(kMs + kLongestLeaseNs + 1));
  const auto turn = gpus.arbiter.next_turn(kMs + kLongestLeaseNs + 1 + kTurnSettlesNs);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->share, holder);
  const std::int64_t before_ns = gpus.arbiter.virtual_time_ns(holder, 0);
  gpus.arbiter.settle(*turn, kMs);
  EXPECT_EQ(gpus.arbiter.virtual_time_ns(holder, 0) - before_ns, kMs / 100);
}
TEST(ArbiterAccounts, AnOldTurnIsNotSettled) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  gpus.want(a);
  gpus.want(b);
  gpus.decide(kMs);
  gpus.arbiter.remove_share(gpus.gate(a) == Gate::open ? b : a);
  gpus.uses.clear();
  gpus.decide(2 * kMs);
  EXPECT_FALSE(gpus.arbiter.next_turn(2 * kMs + kKnownNs));
}
TEST(ArbiterAccounts, FalseReportsMoveNoOtherShareAccounts) {
  Gpus gpus;
  const ShareId liar = gpus.add({Terms{.weight = 1}}), honest = gpus.add({Terms{}});
  constexpr std::int64_t kLies[] = {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min(),
                                    0, -1};
  std::int64_t at_ns = kMs;
  std::int64_t honest_open = 0, began_ns = 0;  // all shares that start at once start level
  for (int i = 0; i < 4'000; ++i) {
    const std::int64_t lie = kLies[i % 4], other = kLies[i / 4 % 4], third = kLies[i / 16 % 4];
    gpus.uses[{liar, 0}] = {.held_ns = lie,
                            .given_back_ns = i % 5 == 0 ? third : other,
                            .in_flight_ns = other,
                            .kernel_ns = third,
                            .dry_ns = other,
                            .dry_spells = static_cast<std::uint64_t>(lie),
                            .requests = static_cast<std::uint64_t>(i),
                            .ceiling_ns = i % 7 == 0 ? third : 0,
                            .wanting = i % 3 == 0};
    if (gpus.gate(honest) == Gate::open) gpus.run(honest, kMs);
    else gpus.want(honest);
    const Decision decision = gpus.decide(at_ns);
    EXPECT_GT(decision.wake_at_ns, at_ns);
    if (i == 0) began_ns = gpus.arbiter.virtual_time_ns(honest, 0);
    while (const auto turn = gpus.arbiter.next_turn(at_ns)) gpus.arbiter.settle(*turn, lie);
    honest_open += gpus.gate(honest) == Gate::open;
    at_ns += kMs;
  }
  EXPECT_GE(honest_open, 1'000);  // of 4,000: false reports take time, but never all of it
  EXPECT_LE(gpus.arbiter.virtual_time_ns(honest, 0) - began_ns, 4'000 * kMs / 100);
}
TEST(ArbiterAccounts, ARestartContinuesFromTheTimesItFinds) {
  Gpus gpus;
  const ShareId ahead = gpus.arbiter.add_share({.gpus = {Terms{}}, .virtual_times_ns = {900 * kMs}});
  const ShareId behind = gpus.arbiter.add_share({.gpus = {Terms{}}, .virtual_times_ns = {100 * kMs}});
  gpus.want(ahead);
  gpus.want(behind);
  gpus.decide(kMs);
  EXPECT_EQ(gpus.gate(behind), Gate::open);
}

TEST(ArbiterAccounts, ReportsBeyondPassedTimeDoNotErodeWeights) {
  Gpus gpus;
  const ShareId liar = gpus.add({Terms{.weight = 1}}), light = gpus.add({Terms{.weight = 1}}),
                heavy = gpus.add({Terms{.weight = 9}});
  std::int64_t at_ns = kMs;
  for (int i = 0; i < 20'000; ++i, at_ns += 100 * kUs) {
    gpus.want(liar);
    gpus.uses[{liar, 0}].held_ns = i % 2 == 0 ? std::numeric_limits<std::int64_t>::max() : 0;
    gpus.decide(at_ns);
  }
  EXPECT_LE(gpus.arbiter.virtual_time_ns(liar, 0), at_ns + kMaxLateNs);
  gpus.arbiter.remove_share(liar);
  gpus.uses.erase({liar, 0});
  auto worked = play(gpus, {{light, {0}}, {heavy, {0}}}, at_ns, 10'000);
  EXPECT_NEAR(worked[light], 1'000, 100);
  EXPECT_NEAR(worked[heavy], 9'000, 300);
}
TEST(ArbiterAccounts, AQuietHourGivesNoExtraTimeForLateReports) {
  Gpus gpus;
  const ShareId share = gpus.add({Terms{}}), other = gpus.add({Terms{}});
  gpus.run(share, kMs);
  gpus.want(other);
  gpus.decide(kMs);
  constexpr std::int64_t kHourNs = 3'600'000 * kMs;
  gpus.decide(kHourNs);
  gpus.uses[{share, 0}].held_ns = kHourNs;
  gpus.decide(kHourNs + kMs);
  EXPECT_EQ(gpus.arbiter.virtual_time_ns(share, 0), (kMaxLateNs + kMs) / 100);
}
TEST(ArbiterAccounts, AWeight1ShareIsChargedForYears) {
  Gpus gpus;
  const ShareId old = gpus.add({Terms{.weight = 1}}), heavy = gpus.add({Terms{.weight = 9}});
  std::int64_t at_ns = kMs;
  constexpr std::int64_t kMonthNs = 30ll * 86'400 * 1'000 * kMs;
  for (int month = 0; month < 120; ++month, at_ns += kMonthNs) {
    gpus.run(old, kMs);
    gpus.uses[{old, 0}].held_ns += kMonthNs;
    gpus.decide(at_ns);
  }
  auto worked = play(gpus, {{old, {0}}, {heavy, {0}}}, at_ns, 10'000);
  EXPECT_NEAR(worked[old], 1'000, 150);
  EXPECT_NEAR(worked[heavy], 9'000, 300);
}
TEST(ArbiterAccounts, AShareOnTwoGpusIsNotBehindByUseOfTheOther) {
  Gpus gpus(2);
  const ShareId x = gpus.add({Terms{}}), y = gpus.add({Terms{.gpu = 1}}), both = gpus.add({Terms{}, Terms{.gpu = 1}});
  std::int64_t at_ns = kMs;
  play(gpus, {{y, {1}}}, at_ns, 60'000);
  auto worked = play(gpus, {{x, {0}}, {y, {1}}, {both, {0, 1}}}, at_ns, 4'000);
  EXPECT_GE(worked[both], 1'000) << "x " << worked[x] << ", y " << worked[y];
  EXPECT_GE(worked[x], 1'000);
  EXPECT_GE(worked[y], 1'000);
}
TEST(ArbiterAccounts, AShareThatComesToASecondGpuIsNotBehind) {
  Gpus gpus(2);
  const ShareId x = gpus.add({Terms{}}), y = gpus.add({Terms{.gpu = 1}}), both = gpus.add({Terms{}, Terms{.gpu = 1}});
  std::int64_t at_ns = kMs;
  play(gpus, {{y, {1}}, {both, {1}}}, at_ns, 60'000);
  auto worked = play(gpus, {{x, {0}}, {y, {1}}, {both, {0, 1}}}, at_ns, 4'000);
  EXPECT_GE(worked[both], 1'000) << "x " << worked[x] << ", y " << worked[y];
  EXPECT_GE(worked[x], 1'000);
  EXPECT_GE(worked[y], 1'000);
}
TEST(ArbiterAccounts, SleepOverARestartEarnsNoCredit) {
  Gpus gpus;
  const ShareId slept = gpus.arbiter.add_share({.gpus = {Terms{}}, .virtual_times_ns = {10 * kMs}});
  const ShareId worked = gpus.arbiter.add_share({.gpus = {Terms{}}, .virtual_times_ns = {6'000 * kMs}});
  std::int64_t at_ns = kMs;
  play(gpus, {{slept, {0}}}, at_ns, 50);
  auto had = play(gpus, {{slept, {0}}, {worked, {0}}}, at_ns, 1'000);
  EXPECT_GE(had[worked], 400);
}
TEST(ArbiterAccounts, UnseenWorkBehindAnOpenGateIsNoDebt) {
  Gpus gpus;
  const ShareId busy = gpus.add({Terms{}}), other = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  play(gpus, {{busy, {0}}}, at_ns, 10);
  gpus.rest(busy);
  gpus.decide(at_ns += 5 * kMs);
  gpus.uses[{busy, 0}].held_ns += 100'000 * kMs;
  at_ns += 100'000 * kMs;
  auto worked = play(gpus, {{busy, {0}}, {other, {0}}}, at_ns, 1'000);
  EXPECT_GE(worked[busy], 400);
  EXPECT_GE(worked[other], 400);
}
TEST(ArbiterAccounts, AHolderIsNotChargedWhileNoneDecides) {
  Gpus gpus;
  const ShareId holder = gpus.add({Terms{}}), other = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  gpus.run(holder, kMs);
  gpus.decide(at_ns);
  gpus.want(other);
  gpus.decide(at_ns += kMs);
  const ShareId open = gpus.gate(holder) == Gate::open ? holder : other, shut = open == holder ? other : holder;
  gpus.run(open, kMs);
  gpus.rest(shut);
  gpus.decide(at_ns += 8'000 * kMs);
  auto worked = play(gpus, {{holder, {0}}, {other, {0}}}, at_ns, 1'000);
  EXPECT_NEAR(worked[holder], 500, 50);
  EXPECT_NEAR(worked[other], 500, 50);
}
TEST(ArbiterAccounts, PausesEarnNoCredit) {
  Gpus gpus;
  const ShareId sparse = gpus.add({Terms{}}), full = gpus.add({Terms{}});
  std::int64_t at_ns = 20 * kMs;
  for (int i = 0; i < 5'000; ++i, at_ns += kMs) {
    Use& use = gpus.uses[{sparse, 0}];
    use.kernel_ns = 50 * kUs;
    use.dry_ns = at_ns / 5 * 4;
    use.dry_spells = static_cast<std::uint64_t>(at_ns / (250 * kUs));
    use.held_ns += 200 * kUs;
    gpus.run(sparse, 50 * kUs);
    gpus.uses[{full, 0}].held_ns += 800 * kUs;
    gpus.run(full, kMs);
    gpus.decide(at_ns);
    while (const auto turn = gpus.arbiter.next_turn(at_ns)) gpus.arbiter.settle(*turn, 0);
  }
  auto worked = play(gpus, {{sparse, {0}}, {full, {0}}}, at_ns, 400);
  EXPECT_NEAR(worked[sparse], 200, 50);
  EXPECT_NEAR(worked[full], 200, 50);
}
// Both have had as much when one stops; what was charged wrongly is known only then. No other share's turn is its price.
TEST(ArbiterAccounts, TimeAloneIsFreeAndCorrectionsAreNot) {
  Gpus gpus;
  const ShareId stays = gpus.add({Terms{}}), stops = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  play(gpus, {{stays, {0}}, {stops, {0}}}, at_ns, 400);
  const auto stands = [&](ShareId share) { return gpus.arbiter.virtual_time_ns(share, 0); };
  gpus.rest(stops);
  gpus.run(stays, kMs);
  gpus.decide(at_ns += 20 * kMs);
  const std::int64_t stays_ns = stands(stays), stops_ns = stands(stops);
  gpus.uses[{stays, 0}].held_ns += 18 * kMs;  // 20 ms alone, and 2 ms were the other's
  gpus.uses[{stays, 0}].given_back_ns += 2 * kMs;
  gpus.uses[{stops, 0}].held_ns -= kMs;
  gpus.uses[{stops, 0}].given_back_ns += kMs;
  gpus.decide(at_ns += 20 * kMs);
  EXPECT_EQ(stands(stays) - stays_ns, -2 * kMs / 100);
  EXPECT_EQ(stands(stops) - stops_ns, -kMs / 100);
  gpus.want(stops);
  gpus.decide(at_ns += 20 * kMs);
  EXPECT_EQ(stands(stops) - stops_ns, -kMs / 100) << "a pause changes nothing";
  gpus.rest(stops);
  gpus.decide(at_ns += 20 * kMs);
  gpus.uses[{stays, 0}].given_back_ns += 1'000'000 * kMs;
  gpus.decide(at_ns += 20 * kMs);
  EXPECT_GE(stands(stays), 0) << "no more comes back than was charged";
  gpus.uses[{stays, 0}].held_ns -= 1'000 * kMs;
  gpus.decide(at_ns + 20 * kMs);
  EXPECT_GE(stands(stays), 0) << "nor if it reports to have had less";
}
TEST(ArbiterAccounts, SmallReportsAreChargedInFull) {
  Gpus gpus;
  const ShareId share = gpus.add({Terms{.weight = 1'000}});
  gpus.want(gpus.add({Terms{}}));
  gpus.decide(kMs / 2);
  for (std::int64_t at_ns = kMs; at_ns <= 1'000 * kMs; at_ns += kMs) {
    gpus.uses[{share, 0}].held_ns += 900;
    gpus.decide(at_ns);
  }
  EXPECT_EQ(gpus.arbiter.virtual_time_ns(share, 0), 900);
}
TEST(ArbiterAccounts, ARemovedSharesWeightLeavesItsGang) {
  Gpus gpus;
  const ShareId stays = gpus.add({Terms{}}, "gang"), goes = gpus.add({Terms{.weight = 900}}, "gang"),
                alone = gpus.add({Terms{}});
  gpus.arbiter.remove_share(goes);
  std::int64_t at_ns = kMs;
  auto worked = play(gpus, {{stays, {0}}, {alone, {0}}}, at_ns, 1'000);
  EXPECT_NEAR(worked[stays], 500, 50);
  EXPECT_NEAR(worked[alone], 500, 50);
}
TEST(ArbiterAccounts, AChangedWeightReplacesTheOldOne) {
  Gpus gpus;
  const ShareId changed = gpus.add({Terms{.weight = 900}}), other = gpus.add({Terms{}});
  gpus.arbiter.change_share(changed, std::vector{Terms{}});
  std::int64_t at_ns = kMs;
  auto worked = play(gpus, {{changed, {0}}, {other, {0}}}, at_ns, 1'000);
  EXPECT_NEAR(worked[changed], 500, 50);
  EXPECT_NEAR(worked[other], 500, 50);
}
TEST(ArbiterAccounts, TimeUnderAnEarlierArbiterIsNotCharged) {
  Gpus gpus;
  const ShareId share = gpus.add({Terms{}});
  const Use before{.held_ns = 5'000 * kMs};
  gpus.arbiter.adopt(share, 0, before, Gate::open);
  gpus.arbiter.observe(share, 0, before, kMs);
  EXPECT_EQ(gpus.arbiter.virtual_time_ns(share, 0), 0);
}

// Time that it had while no other share wanted the GPU, or by its weight, was not taken from others. Counted against
// it, that would withhold its promise for hours after a night alone.
TEST(ArbiterAccounts, TimeBeyondAPromiseWhileIdleDelaysNoPromise) {
  Gpus gpus;
  const ShareId promised = gpus.add({Terms{.weight = 10, .guarantee_ppm = 400'000}}),
                other = gpus.add({Terms{.weight = 90}});
  std::int64_t at_ns = kMs;
  play(gpus, {{promised, {0}}}, at_ns, 60'000);
  auto worked = play(gpus, {{promised, {0}}, {other, {0}}}, at_ns, 2'000);
  EXPECT_NEAR(worked[promised], 920, 50);  // and a tenth of what the promise leaves
}
// Where no other wants the GPU a promise earns nothing, which is no reason to give the gang's turn to another.
TEST(ArbiterAccounts, AGangsPromiseCountsWhereOthersWantTheGpu) {
  Gpus gpus(2);
  const ShareId wide = gpus.add(
                    {Terms{.gpu = 0, .weight = 10, .guarantee_ppm = 600'000}, Terms{.gpu = 1, .weight = 10}}, "gang"),
                other = gpus.add({Terms{.gpu = 0, .weight = 90}});
  std::int64_t at_ns = kMs;
  auto worked = play(gpus, {{wide, {0, 1}}, {other, {0}}}, at_ns, 4'000);
  EXPECT_NEAR(worked[wide], 2'560, 100);  // and a tenth of what the promise leaves
}
// Also if the turn in which the others went away was paid by the promise.
TEST(ArbiterAccounts, TimeAloneInAPaidTurnDelaysNoPromise) {
  for (int phase = 0; phase < 10; ++phase) {
    Gpus gpus;
    const ShareId promised = gpus.add({Terms{.weight = 10, .guarantee_ppm = 400'000}}),
                  other = gpus.add({Terms{.weight = 90}});
    std::int64_t at_ns = kMs;
    play(gpus, {{promised, {0}}, {other, {0}}}, at_ns, 200 + phase);
    gpus.rest(other);
    play(gpus, {{promised, {0}}}, at_ns, 2'000);
    auto worked = play(gpus, {{promised, {0}}, {other, {0}}}, at_ns, 1'000);
    EXPECT_NEAR(worked[promised], 460, 40) << phase;
  }
}
// Its weight counts at both ends of the sleep.
TEST(ArbiterAccounts, ASleeperGainsNothingByAnotherWeight) {
  for (const std::uint32_t weight : {10u, 100u, 1'000u}) {
    Gpus gpus;
    const ShareId sleeps = gpus.add({Terms{.weight = 1'000}}), works = gpus.add({Terms{}}), too = gpus.add({Terms{}});
    std::int64_t at_ns = kMs;
    play(gpus, {{sleeps, {0}}, {works, {0}}, {too, {0}}}, at_ns, 200);
    gpus.rest(sleeps);
    play(gpus, {{works, {0}}, {too, {0}}}, at_ns, 4'000);
    gpus.arbiter.change_share(sleeps, std::vector{Terms{.weight = weight}});
    auto worked = play(gpus, {{sleeps, {0}}, {works, {0}}, {too, {0}}}, at_ns, 600);
    EXPECT_LE(worked[sleeps], 600 * weight / (weight + 200) + 20) << weight;
    EXPECT_GE(worked[sleeps], 600 * weight / (weight + 200) - 20) << weight;
  }
}
// A share that wakes neither gains nor loses by its sleep.
TEST(ArbiterAccounts, AShareThatSleepsKeepsItsDistance) {
  Gpus gpus;
  const ShareId sleeps = gpus.add({Terms{}}), works = gpus.add({Terms{}}), too = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  const auto ahead_ns = [&] {
    return gpus.arbiter.virtual_time_ns(sleeps, 0) - gpus.arbiter.virtual_time_ns(works, 0);
  };
  play(gpus, {{sleeps, {0}}, {works, {0}}, {too, {0}}}, at_ns, 200);
  for (int i = 0; i < 100 && ahead_ns() < kMs / 100; ++i)
    play(gpus, {{sleeps, {0}}, {works, {0}}, {too, {0}}}, at_ns, 1);
  const std::int64_t before_ns = ahead_ns();
  ASSERT_GE(before_ns, kMs / 100);
  gpus.rest(sleeps);
  play(gpus, {{works, {0}}, {too, {0}}}, at_ns, 150);
  EXPECT_LT(ahead_ns(), -50 * kMs / 100);
  play(gpus, {{sleeps, {0}}, {works, {0}}, {too, {0}}}, at_ns, 1);
  EXPECT_GE(ahead_ns(), 0);
  EXPECT_LE(ahead_ns(), before_ns + 2 * kMs / 100);
}
TEST(ArbiterAccounts, TimeByWeightDelaysNoPromise) {
  Gpus gpus;
  const ShareId promised = gpus.add({Terms{.guarantee_ppm = 400'000}}), second = gpus.add({Terms{}}),
                third = gpus.add({Terms{.weight = 300}});
  std::int64_t at_ns = kMs;
  play(gpus, {{promised, {0}}, {second, {0}}}, at_ns, 60'000);
  auto worked = play(gpus, {{promised, {0}}, {second, {0}}, {third, {0}}}, at_ns, 2'000);
  EXPECT_NEAR(worked[promised], 1'040, 50);  // and a fifth of what the promise leaves
}
TEST(ArbiterAccounts, APromiseToARunningShareAppliesFromThenOn) {
  Gpus gpus;
  const ShareId share = gpus.add({Terms{.weight = 10}}), other = gpus.add({Terms{.weight = 90}});
  std::int64_t at_ns = kMs;
  play(gpus, {{share, {0}}, {other, {0}}}, at_ns, 60'000);
  gpus.arbiter.change_share(share, std::vector{Terms{.weight = 10, .guarantee_ppm = 400'000}});
  auto worked = play(gpus, {{share, {0}}, {other, {0}}}, at_ns, 2'000);
  EXPECT_NEAR(worked[share], 920, 50);
}
// Kernels of 100 ms: after taking that much at once, it waits as long.
TEST(ArbiterAccounts, ALongKernelBeyondAPromiseDelaysTheNext) {
  Gpus gpus;
  const ShareId promised = gpus.add({Terms{.weight = 10, .guarantee_ppm = 200'000}}),
                other = gpus.add({Terms{.weight = 90}});
  std::int64_t at_ns = kMs;
  int worked = 0, left = 0;
  for (int i = 0; i < 20'000; ++i, at_ns += kMs) {
    if (left == 0 && gpus.gate(promised) == Gate::open) left = 100;
    if (left > 0) --left, ++worked, gpus.run(promised, kMs), gpus.uses[{promised, 0}].held_ns += kMs;
    else gpus.rest(promised), gpus.want(promised);
    if (left == 0) gpus.run(other, kMs), gpus.uses[{other, 0}].held_ns += kMs;
    else gpus.rest(other), gpus.want(other);
    gpus.decide(at_ns);
    while (const auto turn = gpus.arbiter.next_turn(at_ns)) gpus.arbiter.settle(*turn, 0);
  }
  EXPECT_NEAR(worked, 5'600, 400);  // a fifth, and a tenth of the rest
}
TEST(ArbiterAccounts, TimeByPromiseIsNoDebtOnceThePromiseEnds) {
  Gpus gpus;
  const ShareId share = gpus.add({Terms{.guarantee_ppm = 800'000}}), other = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  play(gpus, {{share, {0}}, {other, {0}}}, at_ns, 60'000);
  gpus.arbiter.change_share(share, std::vector{Terms{}});
  auto worked = play(gpus, {{share, {0}}, {other, {0}}}, at_ns, 2'000);
  EXPECT_NEAR(worked[share], 1'000, 150);
}
TEST(ArbiterAccounts, ANewShareInAClassGetsOnlyItsPart) {
  Gpus gpus;
  gpus.arbiter.set_policy(0, Policy::priority);
  const ShareId low = gpus.add({Terms{.priority_class = Class::best_effort}}), high = gpus.add({Terms{}}),
                late = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  auto before = play(gpus, {{low, {0}}, {high, {0}}}, at_ns, 60'000);
  EXPECT_LE(before[low], 100);
  auto worked = play(gpus, {{low, {0}}, {high, {0}}, {late, {0}}}, at_ns, 2'000);
  EXPECT_NEAR(worked[high], 1'000, 50);
  EXPECT_NEAR(worked[late], 1'000, 50);
}
TEST(ArbiterAccounts, WeightsHoldWithinALowerClass) {
  Gpus gpus;
  gpus.arbiter.set_policy(0, Policy::priority);
  const ShareId light = gpus.add({Terms{.weight = 10, .priority_class = Class::best_effort}}),
                heavy = gpus.add({Terms{.weight = 90, .priority_class = Class::best_effort}}),
                high = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  std::map<ShareId, int> worked;
  for (int round = 0; round < 200; ++round) {
    for (const ShareId each : {light, heavy}) gpus.rest(each), gpus.want(each);
    play(gpus, {{high, {0}}, {light, {0}}, {heavy, {0}}}, at_ns, 30);
    gpus.rest(high);
    for (const auto& [share, steps] : play(gpus, {{light, {0}}, {heavy, {0}}}, at_ns, 20)) worked[share] += steps;
  }
  EXPECT_NEAR(worked[light], 0.1 * (worked[light] + worked[heavy]), 0.05 * (worked[light] + worked[heavy]));
}
TEST(ArbiterAccounts, ClassesBeginLevelUnderAPolicyWithoutThem) {
  Gpus gpus;
  gpus.arbiter.set_policy(0, Policy::priority);
  const ShareId low = gpus.add({Terms{.priority_class = Class::best_effort}}), high = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  play(gpus, {{low, {0}}, {high, {0}}}, at_ns, 60'000);
  gpus.arbiter.set_policy(0, Policy::fair);
  auto worked = play(gpus, {{low, {0}}, {high, {0}}}, at_ns, 2'000);
  EXPECT_NEAR(worked[low], 1'000, 50);
}
TEST(ArbiterAccounts, TimeInTheLatencyClassIsNoDebtElsewhere) {
  Gpus gpus;
  const ShareId fast = gpus.add({Terms{.priority_class = Class::latency}}), other = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  for (int i = 0; i < 60'000; ++i, at_ns += kMs) {
    gpus.run(fast, kMs), gpus.uses[{fast, 0}].held_ns += 900 * kUs;
    gpus.run(other, kMs), gpus.uses[{other, 0}].held_ns += 100 * kUs;
    gpus.decide(at_ns);
  }
  gpus.arbiter.change_share(fast, std::vector{Terms{}});
  auto worked = play(gpus, {{fast, {0}}, {other, {0}}}, at_ns, 2'000);
  EXPECT_NEAR(worked[fast], 1'000, 50);
}

// The share's ceiling keeps it from the GPU for the next 50 ms.
void throttle(Gpus& gpus, ShareId share) {
  gpus.want(share);
  gpus.uses[{share, 0}].ceiling_ns = 50 * kMs;
  gpus.uses[{share, 0}].credit_ns = 0;
}
TEST(ArbiterAccounts, PromisesHoldBesideAShareAtItsCeiling) {
  Gpus gpus;
  const ShareId promised = gpus.add({Terms{.guarantee_ppm = 500'000}}), resting = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  for (int i = 0; i < 200; ++i, at_ns += kMs) {
    throttle(gpus, resting);
    gpus.run(promised, kMs);
    gpus.uses[{promised, 0}].held_ns += kMs;
    gpus.decide(at_ns);
  }
  // The other half of 200 ms, at weight 100.
  EXPECT_NEAR(static_cast<double>(gpus.arbiter.virtual_time_ns(promised, 0)), kMs, kMs / 20.0);
}
TEST(ArbiterAccounts, AShareAtItsCeilingKeepsItsPlaceByWeight) {
  Gpus gpus;
  const ShareId working = gpus.add({Terms{}}), resting = gpus.add({Terms{}});
  std::int64_t at_ns = kMs;
  play(gpus, {{working, {0}}, {resting, {0}}}, at_ns, 20);
  for (int i = 0; i < 50; ++i, at_ns += kMs) {
    throttle(gpus, resting);
    gpus.run(working, kMs);
    gpus.uses[{working, 0}].held_ns += kMs;
    gpus.decide(at_ns);
  }
  gpus.uses[{resting, 0}].ceiling_ns = 0;
  gpus.uses[{resting, 0}].credit_ns = kNoCeiling;
  auto worked = play(gpus, {{working, {0}}, {resting, {0}}}, at_ns, 50);
  EXPECT_GE(worked[resting], 40);
}

}  // namespace
}  // namespace headgate::schedule
