// The arbiter's guarantees in virtual time: the table of figures, and each known way to fail.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "exactness/node_model.hpp"

namespace headgate::limiter::model {
namespace {

using schedule::Class;
using schedule::Terms;

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

NodeShare full(KernelMix mix, std::uint32_t weight = 100) {
  return {.gpus = {Terms{.weight = weight}}, .load = {.mix = std::move(mix)}};
}
// Launches one kernel, waits for it, then pauses 4 times as long: it can use 20 %.
NodeShare sparse(std::int64_t kernel_ns = 50 * kUs, std::int64_t gap_ns = 200 * kUs) {
  return {.gpus = {Terms{}}, .load = {.mix = constant(kernel_ns), .batch = 1, .gap_ns = gap_ns}};
}

void print(const char* what, const Node& node, std::size_t shares, std::int64_t total_ns) {
  std::printf("%-44s", what);
  for (std::size_t i = 0; i < shares; ++i) std::printf(" %6.2f", node.held_percent(i));
  std::printf("  all %6.2f  decisions/s %.0f writes/s %.0f\n", node.used_percent(),
              1e9 * static_cast<double>(node.decisions) / static_cast<double>(total_ns),
              1e9 * static_cast<double>(node.gate_writes) / static_cast<double>(total_ns));
}

void expect_split(const char* what, const std::vector<NodeShare>& shares, double points = 0.5) {
  Node node({.shares = shares});
  node.run(10 * kSecond);
  print(what, node, shares.size(), 10 * kSecond);
  double weights = 0;
  for (const NodeShare& share : shares) weights += share.gpus[0].weight;
  for (std::size_t i = 0; i < shares.size(); ++i)
    EXPECT_NEAR(node.held_percent(i), 100 * shares[i].gpus[0].weight / weights, points) << what;
}

TEST(Split, TwoEqualSharesGetHalfEach) {
  expect_split("1:1 20 us", {full(constant(20 * kUs)), full(constant(20 * kUs))});
  expect_split("1:1 1 ms", {full(constant(kMs)), full(constant(kMs))});
  expect_split("1:1 lognormal", {full(lognormal()), full(lognormal())});
}
TEST(Split, WeightsAreKeptUnderFullLoad) {
  expect_split("3:7 200 us", {full(constant(200 * kUs), 30), full(constant(200 * kUs), 70)});
  expect_split("1:9 200 us", {full(constant(200 * kUs), 10), full(constant(200 * kUs), 90)});
  expect_split("1:2:4:8 200 us", {full(constant(200 * kUs), 10), full(constant(200 * kUs), 20),
                                  full(constant(200 * kUs), 40), full(constant(200 * kUs), 80)});
  expect_split("1:2:4:8 mixed", {full(constant(20 * kUs), 10), full(lognormal(), 20), full(constant(kMs), 40),
                                 full(constant(200 * kUs), 80)});
}
TEST(Split, ShortKernelsLoseNothingToLongOnes) {
  for (const auto& [a, b] : {std::pair{50u, 50u}, {30u, 70u}, {70u, 30u}, {10u, 90u}, {90u, 10u}})
    expect_split("20 us against 5 ms", {full(constant(20 * kUs), a), full(constant(5 * kMs), b)});
}

// To the gate, a graph is one command as long as all its kernels.
TEST(Split, GraphsAreNotFavouredOverSingleLaunches) {
  for (const auto& [a, b] : {std::pair{50u, 50u}, {30u, 70u}, {70u, 30u}})
    expect_split("graphs of 3 ms against 50 us", {full(constant(3 * kMs), a), full(constant(50 * kUs), b)});
}

// Without an arbiter, the full share's time slices leave 2 % to the sparse one.
TEST(Together, PausesOfASparseShareGoToAFullOneIfKernelsFit) {
  for (const std::int64_t us : {20, 50, 100, 200}) {
    Node node({.shares = {sparse(), full(constant(us * kUs))}});
    node.run(5 * kSecond);
    print(("20 % beside full, us " + std::to_string(us)).c_str(), node, 2, 5 * kSecond);
    EXPECT_GE(node.used_percent(), 98) << us;
    EXPECT_GE(node.held_percent(0), 9) << us;  // what turns without filling would give it
  }
}

// A share that fills pauses must stop when its portion ends, even on a machine with late wake-ups.
TEST(Together, PausesAreFilledOnMachinesWithAnyDelay) {
  for (const std::int64_t more_us : {15, 30, 60}) {
    std::vector<std::int64_t> lateness;
    for (const std::int64_t each : recorded_lateness()) lateness.push_back(each + more_us * kUs);
    for (const std::int64_t us : {20, 200}) {
      Node node({.shares = {sparse(), full(constant(us * kUs))}, .lateness = lateness});
      node.run(5 * kSecond);
      print(("20 % beside full, wake-ups later by us " + std::to_string(more_us)).c_str(), node, 2, 5 * kSecond);
      EXPECT_GE(node.used_percent(), 98) << more_us << ", " << us;
    }
  }
}

// Kernels longer than the pause would make the sparse share wait, so they get turns by wall time.
TEST(Together, ASparseShareLosesNothingToLongKernels) {
  for (const std::int64_t us : {1'000, 5'000}) {
    Node node({.shares = {sparse(), full(constant(us * kUs))}});
    node.run(5 * kSecond);
    print(("20 % beside full, us " + std::to_string(us)).c_str(), node, 2, 5 * kSecond);
    EXPECT_GE(node.held_percent(0), 8.5) << us;
    EXPECT_GE(node.held_percent(1), 48) << us;
  }
}
// Once, each process had a separate portion: four together left 2.5 % to the sparse share.
TEST(Together, ASparseShareLosesNothingToManyProcesses) {
  for (const std::int64_t us : {20, 50}) {
    NodeShare many = full(constant(us * kUs));
    many.processes = 4;
    Node node({.shares = {sparse(), many}});
    node.run(5 * kSecond);
    print(("20 % beside 4 processes, us " + std::to_string(us)).c_str(), node, 2, 5 * kSecond);
    EXPECT_GE(node.held_percent(0), 8) << us;
    EXPECT_GE(node.used_percent(), 98) << us;
  }
}
TEST(Together, TwoLaunchBoundSharesLoseNothingToTheArbiter) {
  double used[2] = {};
  for (const auto policy : {schedule::Policy::off, schedule::Policy::fair}) {
    Node node({.shares = {sparse(), sparse()}, .policy = policy});
    node.run(5 * kSecond);
    print(policy == schedule::Policy::off ? "two launch-bound, off" : "two launch-bound", node, 2, 5 * kSecond);
    used[policy == schedule::Policy::fair] = node.used_percent();
  }
  EXPECT_GE(used[1], 0.98 * used[0]);
}

double jain(const Node& node, std::size_t shares) {
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < shares; ++i) {
    sum += node.held_percent(i);
    squares += node.held_percent(i) * node.held_percent(i);
  }
  return sum * sum / (static_cast<double>(shares) * squares);
}
TEST(Jain, EightEqualSharesAreEqualWithinAnySecond) {
  for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs), lognormal()}) {
    Node node({.shares = std::vector<NodeShare>(8, full(mix))});
    for (int second = 1; second <= 5; ++second) {
      node.mark();
      node.run(second * kSecond);
      const double index = jain(node, 8);
      std::printf("8 shares, second %d: Jain %.5f used %.2f\n", second, index, node.used_percent());
      EXPECT_GE(index, 0.999);
    }
  }
}
TEST(Jain, SixtyFourSharesAreEqualOverSomeSeconds) {
  std::vector<NodeShare> shares(64, full(constant(200 * kUs)));
  // If 64 shares start in the same millisecond, the GPU slices them for longer than the meter can separate slices.
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i].load.from_ns = static_cast<std::int64_t>(i) * 10 * kMs;
  Node node({.shares = shares});
  node.run(2 * kSecond);
  node.mark();
  node.run(4 * kSecond);
  print("64 shares", node, 0, 4 * kSecond);
  std::printf("64 shares, 2 s: Jain %.5f used %.2f\n", jain(node, 64), node.used_percent());
  EXPECT_GE(jain(node, 64), 0.99);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_GE(node.held_percent(i), 0.8 * 100 / 64) << i;
  EXPECT_GE(node.used_percent(), 98);
}

NodeShare away() { return {.gpus = {Terms{}}, .load = {.mix = constant(kMs), .from_ns = 1'000 * kSecond}}; }
TEST(Alone, ALoneActiveShareLosesAndCostsNothing) {
  for (const std::int64_t us : {20, 200, 5'000}) {
    Node node({.shares = {full(constant(us * kUs)), away(), away()}});
    node.run(5 * kSecond);
    print("alone", node, 3, 5 * kSecond);
    EXPECT_GE(node.held_percent(0), 99);
    EXPECT_LE(node.decisions, 5u);
  }
}
// Only its pauses keep it below its ceiling: the ceiling and the absent shares cost it nothing.
TEST(Alone, ALoneShareBelowItsCeilingLosesNothing) {
  NodeShare held = sparse();
  held.ceiling_ppm = 500'000;
  Node unlimited({.shares = {sparse()}, .policy = schedule::Policy::off}), node({.shares = {held, away()}});
  unlimited.run(10 * kSecond);
  node.run(10 * kSecond);
  print("20 % alone, unlimited", unlimited, 1, 10 * kSecond);
  print("20 % alone, ceiling 50 %", node, 2, 10 * kSecond);
  EXPECT_GE(node.held_percent(0), 0.99 * unlimited.held_percent(0));
  EXPECT_LE(node.decisions, 20u);
}
TEST(Ceiling, AShareBelowItsPartReachesItsCeiling) {
  NodeShare held = full(constant(200 * kUs));
  held.ceiling_ppm = 250'000;
  Node node({.shares = {held, full(constant(200 * kUs))}});
  node.run(10 * kSecond);
  print("ceiling 25 % beside full", node, 2, 10 * kSecond);
  EXPECT_NEAR(node.held_percent(0), 25, 0.5);
  EXPECT_GE(node.held_percent(1), 72);
}
// Each look is a wake-up of the arbiter's thread. They took 4014, 3340, 2123 and 18454 a second.
TEST(Ceiling, TurnsOfSharesAtTheirCeilingsAreWorthTheirLooks) {
  for (const auto& [count, part_ppm] : {std::pair{2u, 490'000u}, {3u, 330'000u}, {8u, 120'000u}, {16u, 60'000u}}) {
    NodeShare plain = full(constant(200 * kUs));
    plain.ceiling_ppm = plain.gpus[0].guarantee_ppm = part_ppm;
    Node node({.shares = std::vector<NodeShare>(count, plain)});
    node.run(10 * kSecond);
    print("plain shares, 200 us", node, count, 10 * kSecond);
    for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(node.held_percent(i), part_ppm / 1e4, 0.25) << i;
    EXPECT_LE(node.decisions, 5'000u) << count;
  }
}
// Also while longer kernels wait for their turn beside them. They took 1,900 and 1,200 a second.
TEST(Ceiling, TheirTurnsAreWorthTheirLooksBesideLongerKernels) {
  const auto plain = [](std::uint32_t part_ppm, std::int64_t kernel_ns) {
    NodeShare share = full(constant(kernel_ns));
    share.ceiling_ppm = share.gpus[0].guarantee_ppm = part_ppm;
    return share;
  };
  const NodeShare forty = plain(400'000, 200 * kUs), third = plain(330'000, 200 * kUs);
  const std::pair<std::vector<NodeShare>, std::uint64_t> rows[] = {{{forty, forty, full(constant(20 * kMs))}, 5'000},
                                                                   {{third, third, plain(330'000, 5 * kMs)}, 7'000}};
  for (const auto& [shares, most] : rows) {
    Node node({.shares = shares});
    node.run(10 * kSecond);
    print("plain shares of 200 us beside longer kernels", node, 3, 10 * kSecond);
    for (const std::size_t i : {0, 1}) EXPECT_NEAR(node.held_percent(i), shares[i].ceiling_ppm / 1e4, 0.35) << i;
    EXPECT_LE(node.decisions, most);
  }
}
// `--compute 40%` is both guarantee and ceiling. During others' turns such a share falls behind its ceiling by more
// than it normally catches up. Before, it got 34 % with kernels of 1 ms and 33 % with 5 ms, where the tails of others'
// turns still cost it a point.
TEST(Guarantee, APromiseUpToTheCeilingIsKept) {
  for (const auto& [kernel_ns, least] : {std::pair{200 * kUs, 39.5}, std::pair{kMs, 39.5}, std::pair{5 * kMs, 38.0}}) {
    for (const std::uint32_t weight : {100u, 1000u}) {
      NodeShare promised = full(constant(kernel_ns));
      promised.gpus[0].guarantee_ppm = promised.ceiling_ppm = 400'000;
      Node node({.shares = {promised, promised, full(constant(kernel_ns), weight)}});
      node.run(10 * kSecond);
      print("40 % promised, and no more, twice", node, 3, 10 * kSecond);
      for (const std::size_t share : {0u, 1u}) {
        EXPECT_GE(node.held_percent(share), least) << kernel_ns << " " << weight;
        EXPECT_LE(node.held_percent(share), 40.2) << kernel_ns << " " << weight;
      }
    }
  }
}
TEST(Guarantee, AGuaranteeIsKeptBeforeWeights) {
  NodeShare sure = full(constant(200 * kUs), 10);
  sure.gpus[0].guarantee_ppm = 400'000;
  Node node({.shares = {sure, full(constant(200 * kUs), 90), full(constant(200 * kUs), 100)}});
  node.run(10 * kSecond);
  print("guarantee 40 %, weights 10:90:100", node, 3, 10 * kSecond);
  EXPECT_GE(node.held_percent(0), 39.5);
  EXPECT_GT(node.held_percent(2), node.held_percent(1));
}
// Time used while the GPU was otherwise idle is not deducted. Before, it got a tenth until that was used up.
TEST(Guarantee, AFormerLoneShareKeepsItsPromise) {
  NodeShare sure = full(constant(200 * kUs), 10), other = full(constant(200 * kUs), 90);
  sure.gpus[0].guarantee_ppm = 400'000;
  other.load.from_ns = 5 * kSecond;
  Node node({.shares = {sure, other}});
  node.run(5 * kSecond);
  node.mark();
  node.run(6 * kSecond);
  print("guarantee 40 %, alone before, weights 10:90", node, 2, kSecond);
  EXPECT_NEAR(node.held_percent(0), 46, 1);  // including a tenth of what the guarantee leaves
}
TEST(Priority, ANewMemberOfAClassGetsOnlyItsPart) {
  NodeShare low = full(constant(200 * kUs)), late = full(constant(200 * kUs));
  low.gpus[0].priority_class = Class::best_effort;
  late.load.from_ns = 5 * kSecond;
  Node node({.shares = {low, full(constant(200 * kUs)), late}, .policy = schedule::Policy::priority});
  node.run(5 * kSecond);
  node.mark();
  node.run(6 * kSecond);
  print("two of a class, one of a lower that waits", node, 3, kSecond);
  EXPECT_NEAR(node.held_percent(1), 50, 2);
  EXPECT_NEAR(node.held_percent(2), 50, 2);
}
TEST(Priority, AHigherClassGoesFirst) {
  NodeShare first = {.gpus = {Terms{}}, .load = {.mix = constant(200 * kUs), .batch = 25, .gap_ns = 5 * kMs}};
  NodeShare rest = full(constant(200 * kUs));
  rest.gpus[0].priority_class = Class::best_effort;
  Node node({.shares = {first, rest}, .policy = schedule::Policy::priority});
  Node alone({.shares = {first}});
  node.run(5 * kSecond);
  alone.run(5 * kSecond);
  print("priority", node, 2, 5 * kSecond);
  print("alone", alone, 1, 5 * kSecond);
  EXPECT_GE(node.held_percent(0), 0.8 * alone.held_percent(0));
  EXPECT_GE(node.used_percent(), 90);
}

std::int64_t p99(const std::vector<std::int64_t>& sorted) { return sorted[sorted.size() * 99 / 100]; }

TEST(Latency, ALatencyShareWaitsForOneKernelAtMost) {
  NodeShare latency = {.gpus = {Terms{.priority_class = Class::latency}},
                       .load = {.mix = constant(200 * kUs), .batch = 1, .every_ns = 5 * kMs}};
  Node alone({.shares = {latency}});
  alone.run(5 * kSecond);
  for (const std::size_t others : {1u, 2u, 4u}) {
    std::vector<NodeShare> shares{latency};
    for (std::size_t i = 0; i < others; ++i) shares.push_back(full(constant(kMs)));
    Node node({.shares = shares});
    node.run(10 * kSecond);
    print("latency beside 1 ms kernels", node, shares.size(), 10 * kSecond);
    std::printf("   P99 %.3f ms, alone %.3f ms\n", static_cast<double>(p99(node.latencies(0))) / 1e6,
                static_cast<double>(p99(alone.latencies(0))) / 1e6);
    EXPECT_LE(p99(node.latencies(0)), p99(alone.latencies(0)) + 1'300 * kUs) << others;
  }
}

TEST(Latency, AShareThatWakesNowAndThenWaitsForATurnAtMost) {
  const NodeShare sparse = {.gpus = {Terms{}}, .load = {.mix = constant(200 * kUs), .batch = 1, .every_ns = 50 * kMs}};
  Node alone({.shares = {sparse}});
  Node node({.shares = {sparse, full(constant(200 * kUs))}});
  alone.run(60 * kSecond);
  node.run(60 * kSecond);
  print("a kernel each 50 ms beside 200 us", node, 2, 60 * kSecond);
  std::printf("   P99 %.3f ms, alone %.3f ms\n", static_cast<double>(p99(node.latencies(0))) / 1e6,
              static_cast<double>(p99(alone.latencies(0))) / 1e6);
  EXPECT_LE(p99(node.latencies(0)), p99(alone.latencies(0)) + 2'500 * kUs + 200 * kUs);
}

// What a promise is owed of: time with work or a waiting launch, without the program's pauses, however rarely the
// arbiter looks. Counted from one look to the next, the demo's server wanted the GPU 77 % of the time, not 35.
struct WantedPercent {
  double truth = 0, counted = 0, had = 0;
};
WantedPercent wanted(const NodeShare& pausing, const std::vector<NodeShare>& others) {
  std::vector<NodeShare> shares{pausing};
  shares.insert(shares.end(), others.begin(), others.end());
  Node node({.shares = shares});
  node.run(10 * kSecond);
  std::int64_t wanted_ns = 0;
  for (const std::int64_t latency_ns : node.latencies(0)) wanted_ns += latency_ns;
  return {static_cast<double>(wanted_ns) / 1e8, static_cast<double>(node.wanted_ns(0)) / 1e8, node.held_percent(0)};
}
void expect_wanted(const char* what, const NodeShare& pausing, const std::vector<NodeShare>& others) {
  const WantedPercent percent = wanted(pausing, others);
  std::printf("%-44s wanted %.2f, counted %.2f, had %.2f\n", what, percent.truth, percent.counted, percent.had);
  EXPECT_NEAR(percent.counted, percent.truth, 1) << what;
}
TEST(Wanted, AShareDoesNotWantTheGpuInItsPauses) {
  const auto pausing = [](std::int64_t kernel_ns, int batch, std::int64_t gap_ns, std::uint32_t ceiling) {
    return NodeShare{.gpus = {Terms{.guarantee_ppm = 200'000}},
                     .load = {.mix = constant(kernel_ns), .batch = batch, .gap_ns = gap_ns},
                     .ceiling_ppm = ceiling};
  };
  NodeShare trainer = full(constant(kMs));
  trainer.ceiling_ppm = trainer.gpus[0].guarantee_ppm = 500'000;
  expect_wanted("20 of 500 us, then 50 ms, beside 50 %", pausing(500 * kUs, 20, 50 * kMs, 400'000), {trainer});
  expect_wanted("the same without a ceiling", pausing(500 * kUs, 20, 50 * kMs, ledger::kWholeGpu), {trainer});
  expect_wanted("20 of 500 us, then 50 ms, beside full", pausing(500 * kUs, 20, 50 * kMs, ledger::kWholeGpu),
                {full(constant(kMs))});
  expect_wanted("1 ms, then 300 us, beside full", pausing(kMs, 1, 300 * kUs, ledger::kWholeGpu),
                {full(constant(5 * kMs))});
  expect_wanted("200 us, then 800 us, beside full", pausing(200 * kUs, 1, 800 * kUs, ledger::kWholeGpu),
                {full(constant(200 * kUs))});
  expect_wanted("5 ms, then 5 ms, beside two", pausing(5 * kMs, 1, 5 * kMs, ledger::kWholeGpu),
                {full(constant(kMs)), full(constant(200 * kUs))});
  // One process may pause while the other works: at least what they had, at most the sum of what each wanted.
  NodeShare two = pausing(250 * kUs, 20, 50 * kMs, 400'000);
  two.processes = 2;
  const auto [truth, counted, had] = wanted(two, {trainer});
  EXPECT_LE(counted, truth + 2);
  EXPECT_GE(counted, had);
  NodeShare four = pausing(kMs, 1, 300 * kUs, ledger::kWholeGpu);
  four.processes = 4;
  EXPECT_GE(wanted(four, {full(constant(5 * kMs))}).counted, 98) << "one of four pauses while another waits";
}

NodeShare gang(const std::string& name = "", std::int64_t work_ns = 200 * kUs) {
  return {
      .gpus = {Terms{.gpu = 0}, Terms{.gpu = 1}}, .load = {.mix = constant(work_ns), .collective = true}, .gang = name};
}
// Work that two gangs do together, relative to one alone: the mean of several seeds, which differ by 3 %. A gang that
// does not end its turn properly spins next to the other: 87 %.
void expect_crossed(const std::vector<NodeShare>& left, const std::vector<NodeShare>& right, double least,
                    std::span<const std::int64_t> lateness = recorded_lateness()) {
  constexpr std::uint64_t kSeeds = 4;
  std::vector<NodeShare> all = left;
  all.insert(all.end(), right.begin(), right.end());
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Node alone({.shares = left, .gpus = 2, .lateness = lateness, .seed = seed}),
        node({.shares = all, .gpus = 2, .lateness = lateness, .seed = seed});
    alone.run(4 * kSecond);
    node.run(4 * kSecond);
    const auto useful = [&](const Node& of, std::size_t first) {
      double kernels = 0;
      for (std::size_t s = first; s < first + left.size(); ++s) kernels += static_cast<double>(of.kernels(s));
      return kernels;
    };
    const double both = useful(node, 0) + useful(node, left.size());
    std::printf("two gangs: useful kernels %.0f + %.0f, alone %.0f\n", useful(node, 0), useful(node, left.size()),
                useful(alone, 0));
    EXPECT_NEAR(useful(node, 0) / both, 0.5, 0.02) << seed;
    EXPECT_GE(both, 0.8 * useful(alone, 0)) << seed;
    sum += both / useful(alone, 0);
  }
  EXPECT_GE(sum / kSeeds, least);
}
TEST(Gangs, CrossedCollectivesOfTwoGangsNeverHang) {
  expect_crossed({gang("left")}, {gang("right")}, 0.95);
  expect_crossed({gang("left", 10 * kMs)}, {gang("right", 10 * kMs)}, 0.965);
}
// A collective is queued behind the long kernel before it. Sent only once that had ended, threads were late for it: 94 %
// of one alone.
TEST(Gangs, LateWakeUpsCostAGangLittle) {
  expect_crossed({gang("left", 10 * kMs)}, {gang("right", 10 * kMs)}, 0.965, stalling_lateness());
}
// Ranks are not declared to wait for each other. Until that is detected, each GPU has separate turns.
TEST(Gangs, RanksSeenToWaitForEachOtherAreHeldTogether) {
  expect_crossed({gang()}, {gang()}, 0.9);
  expect_crossed({gang("", 10 * kMs)}, {gang("", 10 * kMs)}, 0.95);
}
TEST(Gangs, SharesOfOneNameHaveTheirTurnsTogether) {
  NodeShare left = full(constant(200 * kUs)), right = full(constant(200 * kUs)), other = full(constant(200 * kUs));
  right.gpus[0].gpu = 1;
  left.gang = right.gang = "pair";
  Node node({.shares = {left, right, other}, .gpus = 2});
  node.run(4 * kSecond);
  print("tied shares on two GPUs, another on one", node, 3, 4 * kSecond);
  EXPECT_NEAR(node.held_percent(0, 0), 50, 2);
  EXPECT_NEAR(node.held_percent(2, 0), 50, 2);
}
// One rank in each of two shares, like a job in two containers: each spins for a kernel behind the other share's gate.
TEST(Gangs, RanksInSharesOfAGangNeverHang) {
  const auto ranks = [](const std::string& name, std::int64_t work_ns) {
    NodeShare left = gang(name, work_ns), right = left;
    left.gpus.pop_back();
    right.gpus.erase(right.gpus.begin());
    return std::vector{left, right};
  };
  for (const std::int64_t work_ns : {200 * kUs, 10 * kMs})
    expect_crossed(ranks("a", work_ns), ranks("b", work_ns), 0.95);
}
TEST(Gangs, AWideGangIsNotStarvedByNarrowShares) {
  NodeShare right = full(constant(200 * kUs));
  right.gpus[0].gpu = 1;
  Node node({.shares = {gang(), full(constant(200 * kUs)), right}, .gpus = 2});
  node.run(4 * kSecond);
  std::printf("a gang on both: %.2f %.2f  beside %.2f and %.2f\n", node.held_percent(0, 0), node.held_percent(0, 1),
              node.held_percent(1, 0), node.held_percent(2, 1));
  EXPECT_GE(node.held_percent(0, 0), 40);
  EXPECT_GE(node.held_percent(1, 0), 40);
  EXPECT_GE(node.used_percent(0), 97);
}
// With separate ceilings, each rank in turn spins through its time for one that is shut out. Then 0.5 % of the GPUs'
// time is useful and 84 and 57 % are held, because the spinning kernels are already in flight.
TEST(Gangs, RanksThatWaitForEachOtherReachTheirCeiling) {
  NodeShare held = gang();
  held.load.mix = constant(kMs);
  held.load.lag_ns = 700 * kMs;
  held.ceiling_ppm = 300'000;
  Node node({.shares = {held}, .gpus = 2});
  node.run(kSecond);
  node.mark();
  node.run(11 * kSecond);
  // 1 ms of work has two kernels on each of two GPUs.
  const double useful = 100 * static_cast<double>(node.kernels(0)) / 4 * kMs / (10 * kSecond);
  std::printf("a gang at 30 %%: held %.2f %.2f, useful %.2f\n", node.held_percent(0, 0), node.held_percent(0, 1),
              useful);
  EXPECT_GE(useful, 20);
  EXPECT_LE(node.held_percent(0, 0), 30.5);
  EXPECT_LE(node.held_percent(0, 1), 30.5);
}

TEST(Endless, KernelsThatDoNotEndAreChargedWhileTheyRun) {
  Node node({.shares = {full(constant(kSecond)), full(constant(200 * kUs))}});
  node.run(10 * kSecond);
  print("1 s kernels beside 200 us", node, 2, 10 * kSecond);
  EXPECT_NEAR(node.held_percent(1), 50, 6);  // one kernel more or less
  EXPECT_GE(node.used_percent(), 98);
}
TEST(Sleep, EarnsNoCredit) {
  NodeShare sleeper = full(constant(200 * kUs));
  sleeper.load.from_ns = 5 * kSecond;
  Node node({.shares = {full(constant(200 * kUs)), sleeper}});
  node.run(5 * kSecond);
  node.mark();
  node.run(5 * kSecond + 100 * kMs);
  print("the first 100 ms after a sleep", node, 2, 5 * kSecond);
  EXPECT_NEAR(node.held_percent(1), 50, 8);
}
TEST(Crowds, AShareIsNotMultipliedByItsProcesses) {
  NodeShare many = full(constant(200 * kUs));
  many.processes = 4;
  expect_split("4 processes against 1", {many, full(constant(200 * kUs))});
}
// A gate that counted kernels instead of time would leave the GPU idle between short ones.
TEST(Crowds, ShortKernelsPassByTimeAndNotOneByOne) {
  NodeShare many = full(constant(5 * kUs));
  many.processes = 4;
  expect_split("5 us against 5 ms", {full(constant(5 * kUs)), full(constant(5 * kMs))});
  // Four contexts that the GPU slices cannot be told apart to within half a point (docs/decisions/arbiter.md).
  double sum = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    Node node({.shares = {many, full(constant(5 * kMs))}, .seed = seed});
    node.run(10 * kSecond);
    print("5 us of 4 processes against 5 ms", node, 2, 10 * kSecond);
    EXPECT_NEAR(node.held_percent(0), 50, 7) << seed;
    sum += node.held_percent(0);
  }
  EXPECT_NEAR(sum / 8, 50, 4.5);
  const NodeShare latency = {.gpus = {Terms{.priority_class = Class::latency}},
                             .load = {.mix = constant(200 * kUs), .batch = 1, .every_ns = 5 * kMs}};
  Node node({.shares = {latency, full(constant(5 * kUs))}});
  node.run(5 * kSecond);
  print("5 us kernels beside the latency class", node, 2, 5 * kSecond);
  EXPECT_GE(node.used_percent(), 90);
}
// Copies use separate engines and pass no gate, so a share that only copies needs no turn and takes none.
TEST(Copies, TakeNoTurnFromAShareWithKernels) {
  NodeShare copies = full(constant(kMs));
  copies.load.copies = true;
  Node node({.shares = {copies, full(constant(200 * kUs))}});
  node.run(5 * kSecond);
  print("copies beside kernels", node, 2, 5 * kSecond);
  std::printf("   copied for %.2f %%\n", node.copied_percent(0));
  EXPECT_GE(node.copied_percent(0), 25);  // one starts between two slices of the other context
  EXPECT_GE(node.held_percent(1), 99);
  EXPECT_LE(node.decisions, 20u);
}
// A kernel with pages that were moved out waits for them on the GPU. That looks like work, so its own share is charged,
// regardless of why they were moved. The neighbour still gets its part, although kernel lengths vary.
TEST(Faults, ManagedMemoryFaultsChargeOnlyTheWaitingShare) {
  NodeShare thrashed = full([made = 0](std::mt19937_64& random) mutable {
    const bool faults = ++made > 5'000 && random() % 10 == 0;
    return Kernel{1, faults ? 2 * kMs : 200 * kUs};
  });
  expect_split("page faults of one of two", {thrashed, full(constant(200 * kUs))});
  thrashed.gpus[0].weight = 30;
  expect_split("page faults of one of two, 3:7", {thrashed, full(constant(200 * kUs), 70)});
}
// The restarted arbiter knows only the virtual times in the pages.
TEST(Restart, ANewArbiterContinuesWhereTheOldOneStopped) {
  Node node({.shares = {full(constant(200 * kUs), 30), full(constant(200 * kUs), 70)}});
  for (int restart = 1; restart <= 20; ++restart) {
    node.run(restart * 500 * kMs);
    node.restart_arbiter();
  }
  print("3:7, the arbiter restarted every 0.5 s", node, 2, 10 * kSecond);
  EXPECT_NEAR(node.held_percent(0), 30, 0.5);
  EXPECT_NEAR(node.held_percent(1), 70, 0.5);
}
TEST(Policy, IsSwitchedWhileSharesRun) {
  Node node({.shares = {full(constant(20 * kUs), 10), full(constant(5 * kMs), 90)}});
  for (int turn = 0; turn < 10; ++turn) {
    node.set_policy(turn % 2 == 0 ? schedule::Policy::off : schedule::Policy::fair);
    node.run((2 * turn + 1) * 200 * kMs);
    node.mark();
    node.run((2 * turn + 2) * 200 * kMs);
    if (turn % 2 == 0) EXPECT_NEAR(node.held_percent(0), 50, 10) << turn;
    else EXPECT_LE(node.held_percent(0), 20) << turn;
  }
}

TEST(Machine, SplitHoldsWithWakeUpsThatAreMillisecondsLate) {
  Node node(
      {.shares = {full(constant(200 * kUs), 30), full(constant(200 * kUs), 70)}, .lateness = stalling_lateness()});
  node.run(10 * kSecond);
  print("3:7, stalling wake-ups", node, 2, 10 * kSecond);
  EXPECT_NEAR(node.held_percent(0) / node.used_percent(), 0.3, 0.01);
}

}  // namespace
}  // namespace headgate::limiter::model
