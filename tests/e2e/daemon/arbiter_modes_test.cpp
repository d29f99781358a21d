// Cases that break other GPU schedulers, each once with real processes: endless kernels, many shares, many processes,
// copies. tests/exactness checks exact figures in virtual time. Bounds here are wide enough for a busy machine, and
// tight enough to fail without an arbiter.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>

#include "arbiter_node.hpp"

namespace headgate::e2e {
namespace {

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// Jain's fairness index: 1 if all have the same, 1/n if one has everything.
double jain(std::span<const double> values) {
  const double all = sum(values), squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  return squares > 0 ? all * all / (static_cast<double>(values.size()) * squares) : 0;
}

// A kernel's time is unknown before it ends, so a tenant charged only then would get the GPU free until it ends.
// Launches sent before the first measurement are in the driver's queue, past every gate; so the tenant waits for each
// kernel.
TEST(Endless, LongKernelsDoNotTakeMoreThanTheirWeight) {
  ArbiterNode node;
  node.share("long");
  node.share("short", {.weight = 300});
  node.start();
  node.load("long", {"--kernels=250ms", "--sync=each"});
  node.load("short", {"--kernels=20ms"});
  node.all_at_work();
  // The target is a quarter. The GPU's own time slices would give half, to within a percent in each window.
  EXPECT_TRUE(eventually(
      [&] {
        const auto had = node.split(2'000);
        std::printf("kernels of 250 ms %.1f %%, of 20 ms %.1f %%\n", had[0], had[1]);
        return had[0] > 5 && had[0] / sum(had) < 0.44;
      },
      10));
}

TEST(Endless, AnEndlessKernelIsChargedAndOthersGetTurns) {
  ArbiterNode node;
  node.share("endless");
  node.share("other");
  node.start();
  const auto spinning = node.run("endless", {HEADGATE_TENANTS "/limiter_compute", "spinning"});
  ASSERT_FALSE(spinning->line().empty()) << spinning->errors();
  node.load("other", {"--kernels=20ms"});
  node.all_at_work();
  const auto& account = node.pages("endless").usage->compute[0];
  const std::uint64_t charged = account.held_ns.load();
  const std::uint64_t held = node.held_ns(*spinning);
  const auto had = node.split(2'000);
  const double charged_ms = static_cast<double>(account.held_ns.load() - charged) / 1e6;
  const double held_ms = static_cast<double>(node.held_ns(*spinning) - held) / 1e6;
  std::printf("the other %.1f %%; endless held %.0f ms, charged %.0f\n", had[0], held_ms, charged_ms);
  EXPECT_GT(had[0], 5);
  EXPECT_GT(charged_ms, 0.5 * held_ms);
}

TEST(Crowds, SixteenSharesAllHaveTurnsByTheirWeights) {
  constexpr std::uint32_t kShares = 16;
  const auto weight = [](std::uint32_t share) { return share % 2 == 0 ? 100u : 300u; };
  ArbiterNode node;
  for (std::uint32_t i = 0; i < kShares; ++i) node.share("share" + std::to_string(i), {.weight = weight(i)});
  node.start();
  for (std::uint32_t i = 0; i < kShares; ++i) node.load("share" + std::to_string(i), {"--kernels=1ms"});
  node.all_at_work();
  std::vector<double> had = node.split(4'000);
  for (std::uint32_t i = 0; i < kShares; ++i) had[i] *= 100.0 / weight(i);
  std::printf("least %.2f, most %.2f %% of a weight of 100, Jain %.3f\n", std::ranges::min(had), std::ranges::max(had),
              jain(had));
  EXPECT_GT(std::ranges::min(had), 0.3);
  EXPECT_GE(jain(had), 0.9);
}

TEST(Crowds, AShareIsNotMultipliedByItsProcesses) {
  ArbiterNode node;
  for (const char* name : {"crowd", "one"}) node.share(name);
  node.start();
  for (int i = 0; i < 4; ++i) node.load("crowd", {"--kernels=1ms"});
  node.load("one", {"--kernels=1ms"});
  node.all_at_work();
  const auto had = node.split(3'000);
  std::printf("four processes %.1f %%, one %.1f %%\n", sum(had) - had[4], had[4]);
  EXPECT_GT(had[4] / sum(had), 0.4);
  for (const double each : had) EXPECT_GT(each, 2);
}

// A kernel that waits for pages (managed memory) holds the GPU meanwhile, so it is charged and its neighbour is not.
TEST(Faults, KernelsThatWaitForPagesChargeTheirOwnShare) {
  ArbiterNode node;
  for (const char* name : {"faults", "plain"}) node.share(name);
  node.start();
  node.load("faults", {"--kernels=list:200us,200us,200us,200us,200us,200us,200us,200us,200us,2ms"});
  node.load("plain", {"--kernels=200us"});
  node.all_at_work();
  const auto had = node.split(3'000);
  std::printf("with faults %.1f %%, without %.1f %%\n", had[0], had[1]);
  EXPECT_NEAR(had[0] / sum(had), 0.5, 0.1) << "by launches alike it would be 65 to 35";
  EXPECT_GT(sum(had), 80);
}

// Copies are not gated (docs/decisions/arbiter.md): they use separate engines, so they need no turn and take none.
TEST(Copies, AShareOfCopiesTakesNoTurnFromOneWithKernels) {
  ArbiterNode node;
  for (const char* name : {"copies", "kernels"}) node.share(name);
  node.start();
  const auto copies = node.run("copies", {HEADGATE_TENANTS "/limiter_compute", "copies", "100000000", "33554432", "2"});
  node.load("kernels", {"--kernels=200us", "--sync=depth:8"});
  node.all_at_work();
  const auto copied = [&] {
    const sim::Truth now = node.truth();
    for (const auto& process : now.devices[0].processes)
      if (process.pid == copies->pid()) return process.copy_ns;
    return std::uint64_t{0};
  };
  ASSERT_TRUE(eventually([&] { return copied() > 10'000'000; })) << copies->errors();
  const auto& gate = node.pages("kernels").policy->devices[0].gate_epoch;
  const auto epoch = gate.load();
  const auto before = copied();
  const auto had = node.split(1'500);
  const double copying = static_cast<double>(copied() - before) / 15e6;
  std::printf("copies %.1f %% of the time, kernels %.1f %%\n", copying, had[0]);
  EXPECT_GT(copying, 10);
  EXPECT_GT(had[0], 25);
  EXPECT_EQ(gate.load(), epoch);
}

// Two shares tied by a name, on one GPU each, with another share on each GPU. Checks how often both gates are open or
// both shut. Untied shares agree about half of the time.
TEST(Gangs, SharesOfAGangHaveTheirTurnsTogether) {
  const auto together = [](const std::string& gang) {
    ArbiterNode node("l40s-x2");
    node.share("ga", {.gang = gang, .gpus = {0}});
    node.share("gb", {.gang = gang, .gpus = {1}});
    node.share("xa", {.gpus = {0}});
    node.share("xb", {.gpus = {1}});
    node.start();
    for (const char* name : {"ga", "xa", "gb", "xb"}) node.load(name, {"--kernels=1ms"});
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_TRUE(eventually([&] { return node.held_ns(node.tenant(i), i / 2) > 5'000'000; }));
    const auto open = [&](const char* name) {
      const auto gate = node.pages(name).policy->devices[0].gate.load();
      return gate != ledger::Gate::shut && gate != ledger::Gate::queued;
    };
    int alike = 0;
    constexpr int kLooks = 4'000;
    for (int i = 0; i < kLooks; ++i) {
      alike += open("ga") == open("gb");
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    return 100.0 * alike / kLooks;
  };
  const double tied = together("g"), apart = together("");
  std::printf("gates alike: %.1f %% tied, %.1f %% apart\n", tied, apart);
  EXPECT_GT(tied, 85);
  EXPECT_LT(apart, tied - 10);
}

// With a separate ceiling per GPU, each rank spins through its time while the other's gate is shut.
TEST(Gangs, RanksUnderACeilingReachTheCeiling) {
  constexpr double kRounds = 400, kWorkMs = 1;
  ArbiterNode node("l40s-x2");
  node.share("a", {.ceiling_ppm = 300'000, .gpus = {0, 1}});
  node.start();
  const auto ranks = node.run("a", {HEADGATE_TENANTS "/tenant-spin", "--pair", "gpus", "--rounds", "400", "--work-us",
                                    "1000", "--timeout-ms", "30000"});
  const std::string line = ranks->line();
  ASSERT_EQ(ranks->wait(), 0) << line << ranks->errors();
  const double took_ms = std::stod(line.substr(line.find("\"elapsed_ns\":") + 13)) / 1e6;
  const double useful = 100 * kRounds * kWorkMs / took_ms;
  std::printf("%.0f ms of work in %.0f ms: %.1f %%; paid for %.1f and %.1f %%\n", kRounds * kWorkMs, took_ms, useful,
              static_cast<double>(node.pages("a").usage->compute[0].held_ns.load()) / 1e4 / took_ms,
              static_cast<double>(node.pages("a").usage->compute[1].held_ns.load()) / 1e4 / took_ms);
  EXPECT_GT(useful, 5) << "ceilings that do not open together: 0.7 %";
  EXPECT_LT(useful, 33);
}

}  // namespace
}  // namespace headgate::e2e
