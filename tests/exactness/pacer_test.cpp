// The pacer's rules one by one: when a launch may pass, and how much it may catch up.
#include "guest/limiter/compute/pacer.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "guest/limiter/compute/fair_part.hpp"
#include "guest/limiter/compute/multi_gpu_rules.hpp"

namespace headgate::limiter {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kNow = 100'000 * kMs;
constexpr std::uint32_t kHalf = 500'000;

// A launch behind work that never ends; its account is shut.
struct Waiting {
  std::int64_t est_ns = 100 * kUs, stream_due_ns = 0;
  bool measured = false, in_turns = false, open = false;
  std::int64_t share_due_ns = 0;
  Pace pace{};
  std::unique_ptr<ledger::ComputeAccount> account = std::make_unique<ledger::ComputeAccount>();

  // Returns how long it waits, to 10 ms.
  std::int64_t waits_ns() {
    pace.oldest_ns = kNow - 1'000 * kMs;
    pace.busy_until_ns = kNow + 1'000'000 * kMs;
    if (!open) account->paid_until_ns = kNow + 1'000'000 * kMs;
    std::int64_t now_ns = kNow;
    while (now_ns < kNow + 20'000 * kMs &&
           admit(*account, pace, kHalf, now_ns, kNow, est_ns, open, stream_due_ns, measured, in_turns, share_due_ns)
                   .wait_ns != 0)
      now_ns += 10 * kMs;
    return now_ns - kNow;
  }
};
constexpr std::int64_t kFar = kNow + 900'000 * kMs;

TEST(PacerPatience, ALaunchWaits20MsBehindOtherWork) { EXPECT_EQ(Waiting{}.waits_ns(), 20 * kMs); }
TEST(PacerPatience, BehindItsOwnStreamItWaitsFourTimesItsLength) {
  const auto waits_ns = [](std::int64_t est_ns) {
    return Waiting{.est_ns = est_ns, .stream_due_ns = kFar, .measured = true}.waits_ns() - kPatienceNs;
  };
  EXPECT_EQ(waits_ns(10 * kMs), kMinBehindNs);
  EXPECT_EQ(waits_ns(1'000 * kMs), 4'000 * kMs);
  EXPECT_EQ(waits_ns(10'000 * kMs), kMaxBehindNs);
}
TEST(PacerPatience, WithoutTurnsTheSharesProcessesLengthenThat) {
  for (const bool in_turns : {false, true}) {
    Waiting one{.est_ns = 10 * kMs, .stream_due_ns = kFar, .measured = true, .in_turns = in_turns};
    one.pace.slowed = 3 * 256;
    EXPECT_EQ(one.waits_ns() - kPatienceNs, (in_turns ? 1 : 4) * kMinBehindNs);
  }
}
// One of unknown length would make other shares wait.
TEST(PacerPatience, BesideOthersAnUnmeasuredLaunchWaitsBehindUnknownWork) {
  for (const bool in_turns : {false, true})
    for (const bool measured : {false, true}) {
      Waiting one{.stream_due_ns = -(kNow - 10 * kMs), .measured = measured, .in_turns = in_turns};
      const std::int64_t least_ns = in_turns && !measured ? kMinBehindNs : measured ? 0 : 10 * kMs;
      EXPECT_EQ(one.waits_ns() - kPatienceNs, least_ns) << in_turns << measured;
    }
}
TEST(PacerPatience, AnUnmeasuredLaunchWaitsLongerForTheShare) {
  EXPECT_EQ((Waiting{.measured = true, .share_due_ns = kFar}.waits_ns()), kMinBehindNs + kPatienceNs);
  EXPECT_EQ((Waiting{.share_due_ns = kFar}.waits_ns()), kMaxBehindNs + kPatienceNs);
}
// No gate takes back a second launch of unknown length.
TEST(PacerPatience, BesideOthersTurnsUnknownWorkCountsWithAnOpenAccount) {
  for (const bool beside : {false, true}) {
    Waiting one{.in_turns = true, .share_due_ns = kNow};
    one.open = true;
    one.account->unknown_until_ns = kNow + 50 * kMs;
    if (beside) one.pace.set_turn_awaited(kNow);
    EXPECT_EQ(one.waits_ns(), kPatienceNs + (beside ? 50 * kMs : 0));
  }
}

// Else processes that alternate with a launch or two each would lose time at each switch.
TEST(PacerPatience, ALaunchThatWaitedPassesWithABatchOfOthers) {
  const auto waits_ns = [](std::int64_t lag_ns, std::int64_t asked_ns) {
    const auto account = std::make_unique<ledger::ComputeAccount>();
    Pace pace;
    account->paid_until_ns = kNow - lag_ns;
    return admit(*account, pace, kHalf, kNow, asked_ns, 20 * kUs).wait_ns;
  };
  EXPECT_EQ(waits_ns(50 * kUs, kNow - kMs), kBatchNs - 50 * kUs);
  EXPECT_EQ(waits_ns(kMinBatchNs, kNow - kMs), 0);
  EXPECT_EQ(waits_ns(50 * kUs, kNow), 0) << "it has just asked";
  EXPECT_EQ(waits_ns(50 * kUs, kNow - kPatienceNs / 2), 0) << "it has waited for long";
}

TEST(PacerCatchUp, TurnsAndLongKernelsAreMadeUpFor) {
  Pace pace;
  pace.set_turn_awaited(0);
  EXPECT_EQ(catch_up_ns(pace, kHalf, kNow), kCatchUpNs);
  pace.behind_ns = 30 * kMs;
  EXPECT_EQ(catch_up_ns(pace, kHalf, kNow), kCatchUpNs + 60 * kMs) << "as its account counts";
  pace.behind_ns = 0;
  pace.set_turn_awaited(kNow);
  const auto after_ns = [&](std::int64_t ns) { return catch_up_ns(pace, kHalf, kNow + ns); };
  EXPECT_EQ(after_ns(199 * kMs), kCatchUpInTurnsNs) << "it takes as long to make up for it";
  EXPECT_EQ(after_ns(200 * kMs), kCatchUpNs);
  pace.wants_since_ns = kNow;
  EXPECT_EQ(after_ns(5 * kMs), kCatchUpNs + 5 * kMs) << "its own pause before is no lateness";
}

// It makes up for its time before and after its span, where it waits for nothing.
TEST(PacerCatchUp, WithoutADaemonAWaitIsNotNeeded) {
  Pace pace;
  pace.cycle_ns = 200 * kMs;
  pace.set_turn_awaited(0);
  EXPECT_EQ(catch_up_ns(pace, kHalf, kNow), 300 * kMs);
  pace.wants_since_ns = kNow - 5 * kMs;
  EXPECT_EQ(catch_up_ns(pace, kHalf, kNow), kCatchUpNs + 5 * kMs);
}

TEST(PacerCatchUp, OnlyAPauseOfTheWholeShareIsAPause) {
  Pace pace;
  pace.ended_ns = kNow;
  EXPECT_EQ(note_asked(pace, 1, kNow + kPauseNs - 1), kPauseNs - 1);
  EXPECT_EQ(pace.wants_since_ns.load(), 0) << "a late wake-up";
  EXPECT_EQ(note_asked(pace, 3, kNow + 5 * kMs), 5 * kMs);
  EXPECT_EQ(pace.wants_since_ns.load(), 0) << "another process asked";
  EXPECT_EQ(note_asked(pace, 4, kNow + 5 * kMs), 5 * kMs);
  EXPECT_EQ(pace.wants_since_ns.load(), kNow + 5 * kMs);
}

TEST(PacerRoom, ALongCommandFollowsAnEighthOfItEarly) {
  for (const auto& [ahead_ns, est_ns, follows] : {std::tuple{900 * kUs, 8 * kMs, true},
                                                  {kMs + kUs, 8 * kMs, false},
                                                  {900 * kUs, 4 * kMs, false},
                                                  {kLeadNs, kMs, true}}) {
    Pace pace;
    pace.busy_until_ns = kNow + ahead_ns;
    EXPECT_EQ(take_room(pace, kNow, est_ns, 0) != 0, follows) << ahead_ns << ' ' << est_ns;
  }
}
// Behind a command that takes all the room, one too few ahead idles the GPU.
TEST(PacerRoom, AfterAShutGateAllThatIsNotSettledIsAhead) {
  for (const std::int64_t est_ns : {100 * kUs, kInFlightNs + 1}) {
    Pace pace;
    pace.unsettled_ns = 700 * kUs;
    pace.busy_until_ns = kNow - kMs;
    count_after_shut_gate(pace, kNow, est_ns);
    EXPECT_EQ(pace.busy_until_ns.load() - kNow, est_ns > kInFlightNs ? -kMs : 700 * kUs);
    EXPECT_EQ(pace.turn_awaited_ns(), kNow);
  }
}
// Work is ahead as long as it takes beside the share's other processes.
TEST(PacerRoom, QueuedWorkTakesLongerBesideTheSharesOtherProcesses) {
  const auto estimates = std::make_unique<Estimates>();
  const auto account = std::make_unique<ledger::ComputeAccount>();
  const auto context = std::make_unique<ContextMeter>();
  StreamMeter stream{};
  context->account = account.get();
  stream.context = context.get();
  estimates->learn(1, 10 * kMs);
  Bracket& bracket = stream.closed[0];
  bracket.opened_ns = kNow;
  bracket.functions[0] = bracket.function_count = bracket.launches = 1;
  stream.tail = 1;
  EXPECT_EQ(queue_due_ns(stream, *estimates), kNow + 10 * kMs);
  account->lengths_ns = 300 * kMs;
  account->new_ns = 100 * kMs;
  EXPECT_EQ(queue_due_ns(stream, *estimates), kNow + 30 * kMs);
  bracket.functions[0] = 2;
  EXPECT_EQ(queue_due_ns(stream, *estimates), -kNow) << "unknown";
}

// Eight brackets at once: of as many processes, or of a fourth with four streams each.
TEST(FairPart, OtherProcessesSlowAProcessAndItsOwnStreamsDoNot) {
  const auto account = std::make_unique<ledger::ComputeAccount>();
  const auto context = std::make_unique<ContextMeter>();
  Pace pace;
  context->account = account.get();
  context->pace = &pace;
  const auto measure = [&] {
    for (int i = 0; i < 1'000; ++i) fair_part(*context, kMs, kMs / 8, kMs, kNow);
    return slowed_ns(pace, 256'000);
  };
  EXPECT_NEAR(static_cast<double>(measure()), 8 * 256'000, 10'000);
  pace.busy_streams = 4;
  EXPECT_NEAR(static_cast<double>(measure()), 2 * 256'000, 10'000);
  pace.busy_streams = 1;
  EXPECT_NEAR(static_cast<double>(measure()), 2 * 256'000, 10'000) << "its streams end at different times";
  pace.busy_streams = 16;
  EXPECT_EQ(measure(), 256'000) << "no faster than alone";
}
// Of kernels that wait for another stream's the length is known. Not of kernels that run at once.
TEST(FairPart, KernelsOfSeveralStreamsThatRunInLineAreMeasuredApart) {
  for (const bool at_once : {false, true}) {
    const auto pace = std::make_unique<Pace>();
    const auto context = std::make_unique<ContextMeter>();
    context->pace = pace.get();
    pace->busy_streams = 2;
    std::int64_t last_ns = 0;
    for (std::int64_t i = 1; i <= 50; ++i)  // each starts with the one before the last
      last_ns = own_length_ns(*context, (i - 2) * kMs, i * (at_once ? kAtOnceNs / 2 : kMs), kNow + i * kMs);
    EXPECT_EQ(last_ns, at_once ? 0 : kMs);
  }
}
TEST(FairPart, AKernelOfOneStreamIsNotInLine) {
  const auto pace = std::make_unique<Pace>();
  const auto context = std::make_unique<ContextMeter>();
  context->pace = pace.get();
  for (std::int64_t i = 1; i <= 50; ++i)
    EXPECT_EQ(own_length_ns(*context, (i - 1) * kMs - 250, i * kMs, kNow + i * kMs), 0);
}
// However many brackets overlapped before.
TEST(FairPart, AKernelThatNoOtherStreamRanBesideIsItsOwnLength) {
  const auto pace = std::make_unique<Pace>();
  const auto context = std::make_unique<ContextMeter>();
  context->pace = pace.get();
  EXPECT_EQ(own_length_ns(*context, 0, kMs, kNow), 0) << "nothing is known of what was before";
  EXPECT_EQ(own_length_ns(*context, 2 * kMs, 5 * kMs, kNow), 3 * kMs);
  pace->busy_streams = 2;
  EXPECT_EQ(own_length_ns(*context, 6 * kMs, 9 * kMs, kNow), 0) << "another stream has work";
}

// Work that others keep from the GPU is late too, so it has to be known to have had the GPU lately.
TEST(Ranks, LateWorkSpinsOnlyIfItHasTheGpu) {
  const auto account = std::make_unique<ledger::ComputeAccount>();
  const std::int64_t due_ns = kNow - 10 * kMs;
  Pace mine;
  const auto spins = [&](bool lately) {
    const RankPlace place{.due_ns = due_ns, .runs = late_work_runs(*account, due_ns, kNow)};
    return a_rank_spins(mine, {&place, 1}, lately, kNow);
  };
  EXPECT_FALSE(spins(false));
  EXPECT_TRUE(spins(true)) << "it was seen to spin within the last second: 150 us late is enough";
  ledger::cover(*account, due_ns, kNow - kSeenLateNs);
  EXPECT_TRUE(spins(false));
}
TEST(Ranks, OnlyWorkThatHasRunExtendsTheTimeOfRanks) {
  const std::int64_t until_ns = kNow + 100 * kMs;
  for (const bool runs : {false, true}) {
    const RankPlace place{.due_ns = kNow - kMs, .runs = runs};
    EXPECT_EQ(ranks_until_ns({&place, 1}, until_ns, kNow), runs ? kNow + kRanksForNs : until_ns);
    EXPECT_EQ(ranks_until_ns({&place, 1}, kNow, kNow), kNow + kRanksForNs) << "the first sign";
  }
}

// By that much it may seem longer than its estimate. It is known late, and may be wrong.
TEST(FairPart, OthersTimeLengthensALongCommandOnly) {
  const auto account = std::make_unique<ledger::ComputeAccount>();
  const auto estimates = std::make_unique<Estimates>();
  const auto context = std::make_unique<ContextMeter>();
  Pace pace;
  context->account = account.get();
  context->pace = &pace;
  context->arbitrated = true;
  account->neighbours_ns = 7 * kMs;
  Bracket bracket{};
  bracket.opened_ns = kNow;
  bracket.neighbours_ns = 2 * kMs;
  bracket.expected_ns = 10 * kMs;
  EXPECT_EQ(others_ns(*estimates, *context, bracket, 20 * kMs), 5 * kMs);
  EXPECT_EQ(others_ns(*estimates, *context, bracket, 12 * kMs), 2 * kMs) << "never shorter than its estimate";
  bracket.expected_ns = 200 * kUs;
  bracket.function_count = bracket.launches = 1;
  bracket.functions[0] = 1;
  estimates->learn(1, 11 * kMs);
  EXPECT_EQ(others_ns(*estimates, *context, bracket, 12 * kMs), kMs) << "also if it counted as short";
  bracket.expected_ns = 10 * kMs;
  bracket.function_count = 0;
  EXPECT_EQ(others_ns(*estimates, *context, bracket, kLongNs - 1), 0);
  pace.busy_streams = 2;
  EXPECT_EQ(others_ns(*estimates, *context, bracket, 20 * kMs), 0) << "it was beside another stream";
  pace.busy_streams = 1;
  account->several_until_ns = kNow + 1;
  EXPECT_EQ(others_ns(*estimates, *context, bracket, 20 * kMs), 0) << "or another process";
  account->several_until_ns = kNow;
  context->arbitrated = false;
  EXPECT_EQ(others_ns(*estimates, *context, bracket, 20 * kMs), 0);
}

}  // namespace
}  // namespace headgate::limiter
