// The product's rule, in virtual time. Each share first gets min(its demand, its guarantee) of each GPU. The rest goes
// to shares that want more, by weight, up to their ceilings. Nothing that a share may use stays idle, and accounts are
// true.
//
// First named rows, each once a counterexample. Then random mixes: steady ones, all of which hold, and a fifth as many
// of all kinds. HEADGATE_PROMISES_MIXES is their number (60), HEADGATE_PROMISES_SEED the first seed (1).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "exactness/mix.hpp"

namespace headgate::limiter::model {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000;
constexpr std::uint32_t kPercent = 10'000;

MixShare share(std::uint32_t promise, std::uint32_t ceiling, std::int64_t kernel_ns) {
  return {.promise_ppm = promise * kPercent, .ceiling_ppm = ceiling * kPercent, .kernel_ns = kernel_ns};
}
MixShare plain(std::uint32_t percent, std::int64_t kernel_ns) { return share(percent, percent, kernel_ns); }
MixShare unlimited(std::int64_t kernel_ns) { return share(0, 100, kernel_ns); }
MixShare with_weight(MixShare share, std::uint32_t weight) {
  share.weight = weight;
  return share;
}
MixShare with_processes(MixShare share, int processes) {
  share.processes = processes;
  return share;
}
MixShare with_streams(MixShare share, int streams) {
  share.load.streams = streams;
  return share;
}
MixShare on(MixShare share, std::uint32_t gpus) {
  share.gpus = gpus;
  return share;
}
MixShare with_depth(MixShare share, int depth) {
  share.load.depth = depth;
  return share;
}

// Of mixes in which a share lacks more than kPoints.
constexpr double kMissed = 0.75;

// `points`: more than kPoints where the row is a known miss, which is printed.
void expect_kept(const char* what, std::vector<MixShare> shares, double points = kPoints, std::uint32_t gpus = 1,
                 std::uint64_t seed = 1) {
  Mix mix{.shares = std::move(shares), .gpus = gpus, .seed = seed, .points = points};
  const Outcome outcome = run(mix);
  std::printf("%-44s", what);
  double most = 0;
  for (const Part& part : outcome.parts) {
    std::printf(" %.2f/%.2f", part.had, part.due);
    if (part.judged) most = std::max(most, part.due - part.had - (part.allowed - points));
  }
  std::printf(" idle %.2f%s\n", outcome.idle[0], most > kPoints ? " MISSED 0.5" : "");
  EXPECT_TRUE(outcome.broken.empty()) << what << '\n' << describe(mix, outcome);
}

// Results of an H200 (driver 580.159.04) for such mixes, in percent of the work that one program does alone:
// docs/benchmarks.md, "On a real card". Its slices are 2.07 ms long, and a context switch takes 127 us without any
// work. With these values the model must show the same results, including the misses.
TEST(Promises, TheModelMatchesACard) {
  constexpr std::int64_t k200Us = 197 * kUs, k1Ms = 987 * kUs, k5Ms = 4'935 * kUs, k20Ms = 19'740 * kUs;
  struct Row {
    const char* what;
    std::vector<MixShare> shares;
    std::vector<double> card;
  };
  const Row rows[] = {
      {"plain 50 twice, 1 ms", {plain(50, k1Ms), plain(50, k1Ms)}, {48.5, 48.3}},
      {"30-100 beside 70-100, 1 ms", {share(30, 100, k1Ms), share(70, 100, k1Ms)}, {29.7, 68.5}},
      {"60/10/10, burst 100, 1 ms",
       {share(60, 100, k1Ms), share(10, 100, k1Ms), share(10, 100, k1Ms)},
       {65.5, 16.6, 16.2}},
      {"plain 50 of 1 ms beside unlimited of 20 ms", {plain(50, k1Ms), unlimited(k20Ms)}, {48.7, 49.8}},
      {"4 processes of 5 ms in plain 50, 1 ms", {with_processes(plain(50, k5Ms), 4), plain(50, k1Ms)}, {47.3, 46.8}},
      {"plain 30 of 20 ms beside plain 70 of 1 ms", {plain(30, k20Ms), plain(70, k1Ms)}, {29.9, 66.9}},
      {"plain 50 twice, 200 us", {plain(50, k200Us), plain(50, k200Us)}, {47.0, 48.3}},
      {"50-100 twice, 20 ms", {share(50, 100, k20Ms), share(50, 100, k20Ms)}, {48.7, 49.6}},
  };
  for (const Row& row : rows) {
    Mix mix{.shares = row.shares, .slice_ns = 2'070'000, .switch_ns = 127'000};
    for (MixShare& one : mix.shares) one.load.depth = 8;
    const Outcome outcome = run(mix);
    std::printf("%-44s", row.what);
    for (std::size_t i = 0; i < row.card.size(); ++i) {
      std::printf(" %.1f (card %.1f)", outcome.parts[i].had, row.card[i]);
      EXPECT_NEAR(outcome.parts[i].had, row.card[i], 3) << row.what;
    }
    std::printf(", switches %.1f\n", outcome.idle[0]);
  }
}

TEST(Promises, UnequalPromisesBurst) {
  for (const std::int64_t ns : {20 * kUs, 200 * kUs, kMs, 5 * kMs}) {
    expect_kept("60/10/10, burst 100", {share(60, 100, ns), share(10, 100, ns), share(10, 100, ns)});
    expect_kept("80/10, burst 100", {share(80, 100, ns), share(10, 100, ns)});
    expect_kept("plain 50 beside 20-100, 10-100", {plain(50, ns), share(20, 100, ns), share(10, 100, ns)});
    expect_kept("plain 40 twice, unlimited", {plain(40, ns), plain(40, ns), unlimited(ns)});
    expect_kept("90-100 beside 10-100", {share(90, 100, ns), share(10, 100, ns)});
  }
}

TEST(Promises, WeightsDivideTheRest) {
  for (const std::int64_t ns : {200 * kUs, kMs}) {
    const auto w = [&](std::uint32_t promise, std::uint32_t weight) {
      return with_weight(share(promise, 100, ns), weight);
    };
    expect_kept("weights 1, 2, 8", {w(0, 100), w(0, 200), w(0, 800)});
    expect_kept("weights 1, 2, 8 over 20 each", {w(20, 100), w(20, 200), w(20, 800)});
    expect_kept("weights 1, 2, 8 over 60/20/5", {w(60, 100), w(20, 200), w(5, 800)});
    expect_kept("weights 8, 2, 1 over 60/20/5", {w(60, 800), w(20, 200), w(5, 100)});
  }
}

TEST(Promises, ManySmallPromisesAndOneLargeOneHold) {
  for (const std::uint32_t burst : {0u, 100u}) {
    std::vector<MixShare> shares(64, share(1, std::max(1u, burst), 200 * kUs));
    shares.push_back(share(36, std::max(36u, burst), 200 * kUs));
    const Mix mix{.shares = std::move(shares), .points = 1};
    const Outcome outcome = run(mix);
    EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
  }
}

TEST(Promises, LongKernelsHold) {
  expect_kept("30 of 20 ms beside 70 of 1 ms", {plain(30, 20 * kMs), plain(70, kMs)});
  expect_kept("four 25 of 20 ms", std::vector<MixShare>(4, plain(25, 20 * kMs)));
  for (const std::int64_t ns : {5 * kMs, 10 * kMs, 20 * kMs, 50 * kMs, 100 * kMs, 200 * kMs}) {
    expect_kept("two plain 50", {plain(50, ns), plain(50, ns)});
    expect_kept("unlimited beside plain 50 of 1 ms", {unlimited(ns), plain(50, kMs)});
    expect_kept("50-100 twice", {share(50, 100, ns), share(50, 100, ns)});
  }
  expect_kept("1 s beside plain 50 of 1 ms", {unlimited(1'000 * kMs), plain(50, kMs)});
}

TEST(Promises, SeveralProcessesHold) {
  for (const std::int64_t ns : {200 * kUs, kMs, 2 * kMs, 3 * kMs, 5 * kMs, 10 * kMs}) {
    expect_kept("4 processes in plain 50, plain 50 of 1 ms",
                {with_depth(with_processes(plain(50, ns), 4), 2), plain(50, kMs)});
    expect_kept("4 processes in 50-100, 50-100 of 200 us",
                {with_depth(with_processes(share(50, 100, ns), 4), 2), share(50, 100, 200 * kUs)});
    expect_kept("4 that never wait in 50-100, 50-100 of 200 us",
                {with_processes(share(50, 100, ns), 4), share(50, 100, 200 * kUs)});
  }
  std::vector<MixShare> shares(4, plain(20, 20 * kMs));
  shares.push_back(with_processes(plain(20, 5 * kMs), 8));
  expect_kept("8 of 5 ms in 20 beside four of 20 of 20 ms", std::move(shares));
  std::vector<MixShare> others(4, plain(20, 5 * kMs));
  others.push_back(with_processes(plain(20, 5 * kMs), 8));
  expect_kept("8 of 5 ms in 20 beside four of 20 of 5 ms", std::move(others));
}

TEST(Promises, BlockingLaunchesHold) {
  MixShare graphs = share(50, 100, 20 * kUs);
  graphs.load.nodes = 1'000;
  expect_kept("graphs of 1000 x 20 us beside 1 ms", {graphs, share(50, 100, kMs)});
  graphs = share(60, 90, 20 * kUs);
  graphs.load.nodes = 1'000;
  expect_kept("60-90 of such graphs beside 40-100", {graphs, share(40, 100, kMs)});
  graphs = share(50, 100, 20 * kUs);
  graphs.load.nodes = 3'000;
  expect_kept("graphs of 3000, which never fit the queue", {graphs, share(50, 100, kMs)});
  graphs.load.nodes = 100;
  expect_kept("graphs of 100", {graphs, share(50, 100, kMs)});
}

TEST(Promises, SeveralGpusHold) {
  const auto row = [](const char* what, std::vector<MixShare> shares) {
    expect_kept(what, std::move(shares), kPoints, 2);
  };
  const auto touch = [](MixShare share, std::int64_t kernel_ns, std::int64_t gap_ns) {
    share.kernel_ns = kernel_ns;
    share.load.batch = 1;
    share.load.gap_ns = gap_ns;
    return share;
  };
  for (const std::int64_t ns : {200 * kUs, kMs}) {
    row("25: full on both; full on 0", {on(share(50, 100, ns), 3), on(share(50, 100, ns), 1)});
    // Independent programs of one share, one per GPU.
    row("26 as separate shares",
        {on(with_weight(share(70, 100, ns), 70), 1), on(touch(share(30, 100, ns), 200 * kUs, 20 * kMs), 2),
         on(with_weight(share(30, 100, ns), 30), 1)});
    row("32: both full on both", {on(share(50, 100, ns), 3), on(share(50, 100, ns), 3)});
    row("plain 50 on both; plain 50 on 0", {on(plain(50, ns), 3), on(plain(50, ns), 1)});
    // One program that works on GPU 0 and touches GPU 1.
    const auto and_touches = [&](MixShare share, std::int64_t kernel_ns, std::int64_t gap_ns) {
      share.other_gpu = 1;
      share.other_kernel_ns = kernel_ns;
      share.other_load.batch = 1;
      share.other_load.gap_ns = gap_ns;
      return on(share, 3);
    };
    for (const auto& [kernel_ns, gap_ns] : {std::pair{200 * kUs, 20 * kMs}, std::pair{kMs, 30 * kMs}}) {
      row("26: 70 on both; 30 on 0, touches 1", {on(with_weight(share(70, 100, ns), 70), 3),
                                                 and_touches(with_weight(share(30, 100, ns), 30), kernel_ns, gap_ns)});
      row("28: 10 on 0, touches 1; 90 on 0", {and_touches(with_weight(share(10, 100, ns), 10), kernel_ns, gap_ns),
                                              on(with_weight(share(90, 100, ns), 90), 1)});
      row("29: plain 50 on 0, touches 1; plain 50 on 0",
          {and_touches(plain(50, ns), kernel_ns, gap_ns), on(plain(50, ns), 1)});
    }
    for (const std::int64_t kernel_ns : {200 * kUs, kMs, 2 * kMs})
      expect_kept("31: on 0, touches 1; on both",
                  {and_touches(unlimited(ns), kernel_ns, 30 * kMs), on(unlimited(ns), 3)}, kPoints, 2);
    row("three on two", {on(share(20, 100, ns), 3), on(share(70, 100, ns), 1), on(share(10, 100, ns), 2)});
  }
}

// They find the GPU shut for others, one after another, and make up for it at once; what a neighbour had in their
// kernels is added once to what they have in flight.
TEST(Promises, SharesOfSeveralProcessesHold) {
  expect_kept("plain 80 beside 8 processes", {plain(80, 200 * kUs), with_processes(unlimited(200 * kUs), 8)}, 0.6);
  expect_kept("plain 90 of 1 ms beside 8 processes", {plain(90, kMs), with_processes(unlimited(200 * kUs), 8)});
  expect_kept("25-100 of 2 beside 8, 1 ms",
              {with_processes(share(25, 100, kMs), 2), with_processes(unlimited(kMs), 8)});
  expect_kept("60-100 of 4 of 1 ms beside 5 ms", {with_processes(share(60, 100, kMs), 4), unlimited(5 * kMs)});
  // With room by the clock alone both had 100 ms and more in flight now and then: 48.4 to 49.3, and 0.6 idle.
  const MixShare four = with_depth(with_processes(plain(50, 5 * kMs), 4), 4),
                 eight = with_weight(with_processes(unlimited(5 * kMs), 8), 800);
  for (const std::uint64_t seed : {1, 4, 7, 39}) {
    const Mix mix{.shares = {four, eight}, .until_ns = 22'000 * kMs, .seed = seed};
    const Outcome outcome = run(mix);
    EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
    EXPECT_LT(outcome.idle[0], 0.3) << seed;
  }
}
// Others' work in a kernel that a turn waits for is no part of its length, and its end is told.
TEST(Promises, TurnsEndWithTheirLastKernels) {
  expect_kept(
      "25-100 of 20 ms beside plain 10 and 30 of several",
      {share(25, 100, 20 * kMs), with_processes(plain(10, 20 * kUs), 4), with_processes(plain(30, 200 * kUs), 2)});
  expect_kept("60-100 of 20 ms beside 10-100 of two of 200 us",
              {share(60, 100, 20 * kMs), with_processes(share(10, 100, 200 * kUs), 2)});
  expect_kept("70-100 of 20 ms in 4 streams beside plain 10 in 4",
              {with_streams(with_weight(share(70, 100, 20 * kMs), 800), 4), with_streams(plain(10, 200 * kUs), 4)});
  expect_kept("20-100 of 20 us in 4 streams beside plain 10",
              {with_streams(with_weight(share(20, 100, 20 * kUs), 800), 4), plain(10, 200 * kUs)});
  expect_kept("plain 70 of 8 of 20 ms beside 1 ms and 4 of 1 ms",
              {with_processes(plain(70, 20 * kMs), 8), with_weight(unlimited(kMs), 800),
               with_weight(with_processes(unlimited(kMs), 4), 800)});
}
// What waits for its turn on one GPU is no rank that its launches on another one wait for.
TEST(Promises, ProcessesThatWaitOnAnotherGpuAreNotLetIn) {
  MixShare both = unlimited(200 * kUs), several = with_processes(unlimited(kMs), 4);
  both.gpus = several.gpus = 3;
  expect_kept("plain 90 and 10 on 0, two without a promise on 0 and 1",
              {both, plain(90, 200 * kUs), plain(10, kMs), several}, kPoints, 2);
}

// Kernels too long for any turn run only if the rule leaves time for them.
TEST(Promises, LongKernelsWaitForTheirPart) {
  expect_kept("plain 81 and 19 beside 1 s and 200 ms",
              {plain(81, 200 * kUs), plain(19, kMs), unlimited(1'000 * kMs), unlimited(200 * kMs)});
  expect_kept("58 of 5 ms, 29-100 beside 1 s, 200 and 50 ms",
              {with_depth(plain(58, 5 * kMs), 8), share(29, 100, 200 * kUs), with_weight(unlimited(1'000 * kMs), 800),
               unlimited(200 * kMs), with_weight(unlimited(50 * kMs), 800)});
  expect_kept("plain 52 and 48 beside 20 ms", {plain(52, 200 * kUs), plain(48, kMs), unlimited(20 * kMs)});
  expect_kept("70 beside 30 of 200 ms", {share(70, 100, 200 * kUs), share(30, 100, 200 * kMs)});
}
// What kernels that no gate takes back kept from a share, it makes up for, also at its ceiling.
TEST(Promises, SharesMakeUpForLongKernels) {
  for (const std::uint32_t percent : {50u, 70u, 90u}) {
    expect_kept("plain 50, 70, 90 beside 1 s", {plain(percent, kMs), unlimited(1'000 * kMs)});
    expect_kept("plain 50, 70, 90 beside 200 ms", {plain(percent, kMs), unlimited(200 * kMs)});
    expect_kept("plain 50, 70, 90 beside 4 of 200 ms", {plain(percent, kMs), with_processes(unlimited(200 * kMs), 4)});
    expect_kept("plain 50, 70, 90 beside 3 of 1 s", {plain(percent, kMs), with_processes(unlimited(1'000 * kMs), 3)});
  }
  for (const auto& [one, other] : {std::pair{40u, 40u}, {70u, 20u}})
    expect_kept("plain 40 and 40, 70 and 20 beside 500 ms", {plain(one, kMs), plain(other, kMs), unlimited(500 * kMs)});
  expect_kept("15-52 of 2 ms beside plain 10 of 200 ms", {with_depth(share(15, 52, 2 * kMs), 2), plain(10, 200 * kMs)});
}
// They get turns until they end; the ceiling applies to later kernels.
TEST(Promises, LongKernelsUnderAPromiseHold) {
  expect_kept("plain 77 of 1 s beside 16-100 of 5 ms, 200 us",
              {plain(77, 1'000 * kMs), with_processes(share(16, 100, 5 * kMs), 3), unlimited(200 * kUs)});
  expect_kept("plain 40 of 200 ms twice, unlimited",
              {plain(40, 200 * kMs), plain(40, 200 * kMs), unlimited(200 * kUs)});
}
TEST(Promises, UnmeasuredKernelsHold) {
  MixShare late = with_weight(unlimited(1'000 * kMs), 20);
  late.load.from_ns = 3'000 * kMs;
  late.load.until_ns = 6'000 * kMs;
  expect_kept("plain 69 and 31 beside 1 s from 3 s on", {plain(69, 20 * kUs), plain(31, 20 * kMs), late});
  MixShare streams = with_weight(share(13, 90, 1'000 * kMs), 20);
  streams.load.streams = 4;
  expect_kept("13-90 of 1 s on 4 streams beside none", {streams, with_weight(unlimited(20 * kUs), 200)});
}
TEST(Promises, ProcessesOfOneShareDoNotWaitForEachOther) {
  expect_kept("5 of 20 ms below 61 beside 20-100", {with_processes(plain(61, 20 * kMs), 5), share(20, 100, kMs)});
  expect_kept("8 of 50 ms below 42 beside 50-100",
              {with_depth(with_processes(share(2, 42, 50 * kMs), 8), 8), share(50, 100, 200 * kUs)});
}
TEST(Promises, APauseEarnsNothing) {
  MixShare bursts = with_weight(plain(18, kMs), 800);
  bursts.load.batch = 26;
  bursts.load.gap_ns = 100 * kMs;
  expect_kept("plain 18 in bursts beside 9-100, none",
              {bursts, with_weight(share(9, 100, 200 * kUs), 800), with_weight(unlimited(200 * kUs), 800)});
}

// Each burst begins where the one before it ended, neither ahead of the rule nor behind it; and the GPU is the others'
// as soon as a share whose pauses are long stops.
TEST(Promises, BurstsEarnAndCostNothing) {
  const auto bursts = [](MixShare share, int batch) {
    share.load.batch = batch;
    share.load.gap_ns = 20 * kMs;
    return share;
  };
  // With seeds 2, 3 and 130 one of them or both lacked 0.6 to 0.8 points.
  for (const std::uint64_t seed : {1, 2, 3, 130}) {
    expect_kept("20-100 of 10 ms in bursts of 60 ms beside 2 ms",
                {bursts(share(20, 100, 10 * kMs), 6), with_weight(unlimited(2 * kMs), 20)}, kPoints, 1, seed);
    expect_kept("8-100 of 1 ms in bursts of 42 ms beside 19-100", {bursts(share(8, 100, kMs), 42), share(19, 100, kMs)},
                kPoints, 1, seed);
  }
}

// Processes of a share take turns: none passes in debt while another's kernels still wait for it.
TEST(Promises, SeveralProcessesStayBelowTheirCeiling) {
  expect_kept("5 of 20 ms in 15-61 beside 1 of 3 us",
              {with_processes(share(15, 61, 20 * kMs), 5), with_weight(share(0, 1, 3 * kUs), 20)});
}
// Long kernels on several streams or of several processes of the only share, for 10 s, or 60 where one is a second.
TEST(Promises, LoneSharesStayBelowTheirCeiling) {
  for (const std::int64_t ns : {30 * kMs, 200 * kMs, 1'000 * kMs})
    for (const std::uint32_t percent : {8u, 25u, 48u, 75u})
      for (const auto& [streams, processes] : {std::pair{2, 1}, {4, 1}, {1, 2}, {1, 8}}) {
        Mix mix{.shares = {with_processes(plain(percent, ns), processes)}};
        mix.shares[0].load.streams = streams;
        if (ns == 1'000 * kMs) mix.until_ns = mix.from_ns + 60'000 * kMs;
        const Outcome outcome = run(mix);
        std::printf("%2d streams, %d processes of %4ld ms: %.2f/%u\n", streams, processes, static_cast<long>(ns / kMs),
                    outcome.parts[0].had, percent);
        EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
      }
}

// Each one's work in flight is limited to what all their slices leave it.
TEST(Promises, SeveralProcessesOfShortKernels) {
  for (const int processes : {2, 4})
    expect_kept("2, 4 of 3 us below 98 beside 20-100 of 1 ms",
                {share(20, 100, kMs), with_weight(with_processes(share(0, 98, 3 * kUs), processes), 800)});
}
// Nor do streams of each one hide that there are others: up to a second of work was in flight, and charged twice.
TEST(Promises, SeveralProcessesOfSeveralStreamsHold) {
  expect_kept("8 of 200 us on 4 streams beside plain 40 of 200 ms",
              {with_streams(with_processes(with_weight(unlimited(200 * kUs), 200), 8), 4), plain(40, 200 * kMs)});
}
// Always little in flight, and once a late wake-up: the next share's kernels were let in before pauses that never came.
TEST(Promises, AProgramThatWaitsForEachEighthKernelKeepsItsTurns) {
  const Mix mix{.shares = {with_depth(share(50, 100, 3 * kUs), 8), with_depth(share(50, 100, 5 * kMs), 8)}};
  const Outcome outcome = run(mix);
  EXPECT_NEAR(outcome.parts[1].had, 50, kPoints) << "57.6 without the rule";
  EXPECT_GT(outcome.parts[0].had, 48) << "its thread wakes late after each of the other's turns";
}
// A share on two GPUs that is late on one, because of another share's long kernel, is not a gang.
TEST(Promises, StreamsBesideALongKernelAreNoRanks) {
  MixShare streams = share(20, 100, kMs);
  streams.gpus = 3;
  streams.load.streams = 4;
  MixShare on_1 = with_weight(share(0, 98, 200 * kUs), 800);
  on_1.gpus = 2;
  expect_kept("4 streams on both beside 50 ms",
              {streams, on_1, with_weight(share(0, 65, 50 * kMs), 100), with_weight(unlimited(200 * kUs), 80)}, kPoints,
              2);
}

// Its kernels were measured beside others' slices on four streams, so they seem to differ: they still count as long.
TEST(Promises, LongKernelsThatSeemToDifferAreNotSentAhead) {
  MixShare streams = with_weight(share(33, 100, 20 * kMs), 80), beside = plain(52, 200 * kUs);
  streams.load.streams = 4;
  beside.load.streams = 3;
  expect_kept("33-100 of 20 ms on 4 streams beside plain 52",
              {streams, beside, with_weight(with_processes(share(15, 100, 10 * kMs), 5), 80)});
}
// Several processes whose kernels other shares slow down on one GPU are no ranks for which launches pass a ceiling.
TEST(Promises, SlowProcessesOnOneGpuVoidNoCeiling) {
  MixShare wide = with_depth(with_processes(plain(12, 2 * kMs), 5), 2), beside = with_processes(unlimited(20 * kUs), 5);
  wide.gpus = 7;
  beside.load.streams = 3;
  const Outcome outcome = run({.shares = {wide, beside}, .gpus = 3});
  for (const std::size_t gpu : {1, 2}) EXPECT_NEAR(outcome.parts[gpu].had, 12, kPoints) << "78 without the rule";
}
// Nor are they if none of their kernels ends for long, since all wait for each other's slices and for a long kernel's.
TEST(Promises, LongKernelsOfSeveralProcessesVoidNoCeiling) {
  const MixShare wide = on(with_processes(plain(89, 20 * kMs), 7), 3);
  const Outcome outcome = run({.shares = {wide, share(4, 100, 1'000 * kMs)}, .gpus = 2, .until_ns = 5'000 * kMs});
  EXPECT_NEAR(outcome.parts[1].had, 89, kPoints) << "93 without the rule";
}
// Nor is one whose short kernels wait for those of two others' turns. With ranks' signs after 2 ms it had 18 of 23 on
// GPU 1, 20 on GPU 2.
TEST(Promises, ShortKernelsOnTwoOfThreeGpusAreNoRanks) {
  MixShare leaves = on(with_weight(share(23, 100, 20 * kMs), 800), 3);
  leaves.load.until_ns = 7'000 * kMs;
  const Mix mix{.shares = {on(plain(55, 5 * kMs), 5), on(plain(22, kMs), 7), leaves, on(share(0, 40, 200 * kUs), 6)},
                .gpus = 3,
                .seed = 81,
                .points = 0.65};
  const Outcome outcome = run(mix);
  EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
}
// What others had of a GPU meanwhile does not make a kernel late: a share that is only slow on one GPU keeps the other.
TEST(Promises, SlowKernelsOnTwoGpusAreNoRanks) {
  MixShare slow = share(20, 100, 200 * kMs), full = with_weight(unlimited(5 * kMs), 800);
  slow.load.streams = full.load.streams = 4;
  expect_kept("20-100 of 200 ms on both, 5 ms on 0, plain 1 on both",
              {on(slow, 3), full, on(with_depth(with_weight(plain(1, 20 * kUs), 10), 8), 3)}, kPoints, 2);
  expect_kept("plain 47 of 8 on 1, 28-100 of 50 ms and 19-100 of 8 on both",
              {on(with_processes(plain(47, kMs), 8), 2), on(with_depth(share(28, 100, 50 * kMs), 8), 3),
               on(with_weight(with_processes(share(19, 100, 200 * kUs), 8), 200), 3)},
              kPoints, 2);
}
// So many contexts that each waits 30 ms for its slice: brackets stand in the stream's queue meanwhile, and one process
// of each share follows in what order the slices go round.
TEST(Promises, ManyContextsAreChargedTheirOwnSlices) {
  MixShare long_ones = with_processes(unlimited(1'000 * kMs), 8);
  long_ones.load.batch = 1;
  expect_kept("8 of 1 s beside 8 of 20 us", {long_ones, with_processes(unlimited(20 * kUs), 8)});
  // A false pause of 8 us between two brackets began a slice in the replay. Six contexts that show no event for a second
  // do not correct that: an account was off by 6.9 points.
  MixShare six = with_weight(with_processes(share(4, 100, 1'000 * kMs), 6), 10);
  six.load.batch = 6;
  six.load.every_ns = 50 * kMs;
  const Mix mix{.shares = {with_depth(with_weight(share(86, 100, 200 * kUs), 800), 8), std::move(six)},
                .account_points = 1.25};
  const Outcome outcome = run(mix);
  EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
}

// Kernels of 3 us in a loop that waits for the last but one: each is sent when the one before is about to end, and
// comes half a microsecond after that. The hole was charged, and hid from the replay that the context had lost the GPU.
TEST(Promises, KernelsThatAreSentOneByOneAreChargedTheirLength) {
  // Only accounts are judged.
  const Mix mix{.shares = {with_depth(share(20, 100, 3 * kUs), 2), share(9, 100, 20 * kMs)}, .points = 20};
  const Outcome outcome = run(mix);
  EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
}

// The first kernel of each turn is there 250 us before it, so none of the share's starts are prompt; and what others
// had of a turn's last microseconds is given back after it.
TEST(Promises, TurnsAcrossOthersSlicesHold) {
  expect_kept("plain 27 of 5 ms beside 2 ms", {plain(27, 5 * kMs), unlimited(2 * kMs)});
  expect_kept("81-100 of 5 ms beside 9-100 of 2 ms",
              {share(81, 100, 5 * kMs), with_weight(share(9, 100, 2 * kMs), 200)});
  expect_kept("79 of 5 ms, 11-15 of 2 ms, 200 us, 1 ms",
              {unlimited(200 * kUs), share(79, 100, 5 * kMs), with_weight(share(11, 15, 2 * kMs), 200),
               with_weight(share(0, 15, kMs), 800), with_weight(unlimited(200 * kUs), 800)});
}

// Ranks that another one may spin for pass at once and pay once, however full the share's room is; a turn on both GPUs
// that ends for a share that is paused then goes on.
TEST(Promises, ProcessesOnTwoGpusAreNotKeptOut) {
  MixShare wide = with_processes(plain(60, 20 * kMs), 6);
  wide.gpus = 3;
  // A kernel in flight of each process is worth 1.2 points of ten seconds, and its slices 0.2 of a second's account.
  const Mix six{.shares = {wide, share(40, 100, kMs)}, .gpus = 2, .points = 1.2, .account_points = 1.2};
  const Outcome of_six = run(six);
  EXPECT_TRUE(of_six.broken.empty()) << describe(six, of_six);
  MixShare both = with_processes(share(6, 100, 200 * kUs), 2), bursts = with_weight(plain(93, 200 * kUs), 800);
  both.gpus = 3;
  bursts.gpus = 2;
  bursts.load.batch = 15;
  bursts.load.gap_ns = 20 * kMs;
  Mix mix{.shares = {both, bursts}, .gpus = 2, .points = 5};
  using Kind = Change::Kind;
  for (std::int64_t at_ns = 2'000 * kMs; at_ns < 10'000 * kMs; at_ns += 1'003 * kMs) {
    mix.changes.push_back({.at_ns = at_ns, .kind = Kind::pause, .share = 1});
    mix.changes.push_back({.at_ns = at_ns + 500 * kMs, .kind = Kind::resume, .share = 1});
  }
  const Outcome outcome = run(mix);
  EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
}

// Beside a share that was alone below its ceiling; and a share that had its promise for long, and then a larger weight.
TEST(Promises, NoShareBeginsFarBehind) {
  MixShare late = with_weight(unlimited(200 * kUs), 200);
  late.load.from_ns = 4'000 * kMs;
  expect_kept("12-48 alone, then beside one without limits", {late, with_weight(share(12, 48, 2 * kMs), 80)});
  const Mix mix{.shares = {with_weight(plain(13, 200 * kUs), 10), with_weight(unlimited(kMs), 800)},
                .changes = {{.at_ns = 5'000 * kMs, .kind = Change::Kind::terms, .share = 0, .weight = 400}}};
  const Outcome outcome = run(mix);
  EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
  // Or rested at a ceiling that is then lifted.
  const Mix lifted{.shares = {share(0, 1, kMs), with_weight(share(13, 100, 20 * kMs), 800)},
                   .changes = {{.at_ns = 10'400 * kMs, .kind = Change::Kind::terms, .share = 0, .weight = 10}}};
  const Outcome of_lifted = run(lifted);
  EXPECT_TRUE(of_lifted.broken.empty()) << describe(lifted, of_lifted);
}

// The reference: processes that pause may all pause at once, or one after another. The first gives them 7 * 30 ms at 68 %
// and then 100 ms of nothing; the second leaves the other share 32 %. Two processes of 2 ms want 3.9 % at most.
TEST(Promises, SeveralProcessesThatPauseWantMoreInTurn) {
  const auto due = [](int processes, int batch) {
    MixShare bursts = with_processes(plain(68, processes == 2 ? kMs : 5 * kMs), processes);
    bursts.load.batch = batch;
    bursts.load.gap_ns = 100 * kMs;
    const Mix mix{.shares = {bursts, unlimited(200 * kUs)}, .points = kMissed};
    const Outcome outcome = run(mix);
    EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
    return std::pair{outcome.parts[0].due, outcome.parts[1].due};
  };
  const auto [seven, beside_seven] = due(7, 6);
  EXPECT_NEAR(seven, 100 * 210 / (210 / 0.68 + 100), 1);
  EXPECT_NEAR(beside_seven, 32, 0.1);
  const auto [two, beside_two] = due(2, 2);
  EXPECT_NEAR(two, 3.8, 0.2);
  EXPECT_NEAR(beside_two, 96.1, 0.2);
}

// Each process's times are off by its own map of the GPU's clock. What two maps made overlap was charged once, and
// sixteen processes had 20.7.
TEST(Promises, ManyProcessesOfAShareStayBelowItsCeiling) {
  for (const int processes : {4, 16}) {
    const Mix mix{.shares = {unlimited(200 * kUs), with_processes(plain(20, 20 * kUs), processes)}};
    const Outcome outcome = run(mix);
    EXPECT_TRUE(outcome.broken.empty()) << describe(mix, outcome);
    EXPECT_NEAR(outcome.parts[1].account, outcome.parts[1].had, 0.45) << describe(mix, outcome);
  }
}

std::uint64_t number(const char* name, std::uint64_t usual) {
  const char* const said = std::getenv(name);
  return said == nullptr ? usual : std::strtoull(said, nullptr, 10);
}

TEST(Promises, HoldInMixesDrawnAtRandom) {
  const std::uint64_t first = number("HEADGATE_PROMISES_SEED", 1), mixes = number("HEADGATE_PROMISES_MIXES", 60);
  int broken = 0;
  for (std::uint64_t seed = first; seed < first + mixes && broken < 3; ++seed) {
    const Mix mix = draw(seed, false);
    const Outcome outcome = run(mix);
    if (outcome.broken.empty()) continue;
    ++broken;
    const Mix smaller = shrink(mix);
    ADD_FAILURE() << "seed " << seed << "\n"
                  << describe(mix, outcome) << "smaller:\n"
                  << describe(smaller, run(smaller));
  }
  std::printf("%lu mixes, %d broken\n", mixes, broken);
}

// Of all kinds not all hold yet (docs/decisions/arbiter.md): those that do not are printed. The twelve of CI do; of
// more at most 1 in 8 may break, and 1 in 10 by a part.
TEST(Promises, MostRandomMixesOfAllKindsHold) {
  const std::uint64_t first = number("HEADGATE_PROMISES_SEED", 1), mixes = number("HEADGATE_PROMISES_MIXES", 60) / 5;
  std::uint64_t broken = 0, short_ones = 0;
  for (std::uint64_t seed = first; seed < first + mixes; ++seed) {
    const Mix mix = draw(seed, true);
    const Outcome outcome = run(mix);
    if (outcome.broken.empty()) continue;
    ++broken;
    const auto misses = [](const Part& part) { return part.judged && part.had < part.due - part.allowed; };
    short_ones += std::ranges::any_of(outcome.parts, misses);
    std::printf("MISSED seed %lu\n%s", seed, describe(mix, outcome).c_str());
  }
  std::printf("%lu mixes of all kinds, %lu broken, %lu with a part too small\n", mixes, broken, short_ones);
  EXPECT_LE(broken, mixes > 12 ? mixes / 8 : 0);
  EXPECT_LE(short_ones, mixes > 12 ? mixes / 10 : 0);
}

// Several processes and streams a share, on one or two GPUs. The twenty of CI hold; of more at most 1 in 8 may break. Those
// are printed.
TEST(Promises, HoldInMixesOfSeveralProcesses) {
  const std::uint64_t first = number("HEADGATE_PROMISES_SEED", 1), mixes = number("HEADGATE_PROMISES_MIXES", 60) / 3;
  std::uint64_t broken = 0;
  for (std::uint64_t seed = first; seed < first + mixes; ++seed) {
    const Mix mix = draw_several(seed);
    const Outcome outcome = run(mix);
    if (outcome.broken.empty()) continue;
    ++broken;
    std::printf("MISSED seed %lu\n%s", seed, describe(mix, outcome).c_str());
  }
  std::printf("%lu mixes of several processes, %lu broken\n", mixes, broken);
  EXPECT_LE(broken, mixes > 20 ? mixes / 8 : 0);
}

}  // namespace
}  // namespace headgate::limiter::model
