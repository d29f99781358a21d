// Turns on a GPU between real processes. Bounds are wide where a busy machine moves the figure. The benchmark
// (docs/benchmarks.md) and virtual time (tests/exactness) measure precision.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "arbiter_node.hpp"
#include "tenants/spin_pairs.hpp"

namespace headgate::e2e {
namespace {

struct Split {
  const char* name;
  std::uint32_t weights[2];
  const char* kernels[2];
};
void PrintTo(const Split& split, std::ostream* out) { *out << split.name; }
constexpr Split kSplits[] = {{"equal", {100, 100}, {"200us", "1ms"}},
                             {"one_to_three", {100, 300}, {"200us", "200us"}},
                             {"short_beside_long", {100, 100}, {"200us", "5ms"}}};

// Returns the fraction of time in which the share's gate had one of these states, sampled once a millisecond.
double part_at(ArbiterNode& node, const std::string& share, std::initializer_list<ledger::Gate> gates) {
  constexpr int kLooks = 500;
  int seen = 0;
  for (int i = 0; i < kLooks; ++i) {
    seen += std::ranges::find(gates, node.pages(share).policy->devices[0].gate.load()) != gates.end();
    rest_ms(1);
  }
  return static_cast<double>(seen) / kLooks;
}

class Weights : public testing::TestWithParam<Split> {};
INSTANTIATE_TEST_SUITE_P(Splits, Weights, testing::ValuesIn(kSplits));

TEST_P(Weights, DivideAGpuThatTwoSharesWant) {
  const Split& split = GetParam();
  ArbiterNode node;
  for (int i = 0; i < 2; ++i) node.share(std::string(1, static_cast<char>('a' + i)), {.weight = split.weights[i]});
  node.start();
  for (int i = 0; i < 2; ++i)
    node.load(std::string(1, static_cast<char>('a' + i)), {std::string("--kernels=") + split.kernels[i]});
  node.all_at_work();
  const double wanted = 100.0 * split.weights[0] / (split.weights[0] + split.weights[1]);
  // If a tenant got no CPU time to launch in a window, that window says nothing about the gates, so several are tried.
  const auto divided = [&] {
    const auto had = node.split(1'500);
    const double part = 100 * had[0] / (had[0] + had[1]);
    std::printf("had %.2f and %.2f %%: %.2f %% of it is the first's, asked %.2f\n", had[0], had[1], part, wanted);
    return std::abs(part - wanted) < 3;
  };
  EXPECT_TRUE(eventually(divided, 12));
}

TEST(Turns, ALoneShareKeepsItsGateOpen) {
  ArbiterNode node;
  node.share("a");
  node.start();
  node.load("a", {"--kernels=200us"});
  node.all_at_work();
  const auto& device = node.pages("a").policy->devices[0];
  ASSERT_TRUE(eventually([&] { return device.gate.load() == ledger::Gate::open; }));
  const auto epoch = device.gate_epoch.load();
  std::printf("alone: %.2f %%\n", node.split(1'000)[0]);
  EXPECT_EQ(device.gate_epoch.load(), epoch);
}

TEST(DeadManRule, SharesContinueWithoutADaemonAndResumeTurns) {
  ArbiterNode node;
  node.share("a");
  node.share("b", {.weight = 300});
  node.start();
  for (const char* name : {"a", "b"}) node.load(name, {"--kernels=200us"});
  node.all_at_work();
  node.kill_arbiter();
  rest_ms(200);
  // A share that was shut out continues; the GPU's own slices decide.
  const auto alone = node.split(1'000);
  std::printf("without an arbiter: %.1f and %.1f %%\n", alone[0], alone[1]);
  EXPECT_GT(alone[0], 10);
  EXPECT_GT(alone[1], 10);
  node.start();
  const auto again = [&] {
    const auto had = node.split(1'000);
    std::printf("with another: %.1f and %.1f %%\n", had[0], had[1]);
    return std::abs(100 * had[0] / (had[0] + had[1]) - 25) < 6;
  };
  EXPECT_TRUE(eventually(again));
}

TEST(DeadManRule, AWaiterContinuesUnderItsGuarantee) {
  ArbiterNode node;
  node.share("a", {.guarantee_ppm = 200'000});
  node.share("b");
  node.start();
  for (const char* name : {"a", "b"}) node.load(name, {"--kernels=200us"});
  node.all_at_work();
  node.kill_arbiter();
  // Shut the gate, as it may have been when the arbiter died; otherwise nothing would wait.
  ledger::DevicePolicy& device = node.pages("a").writable_policy->devices[0];
  device.gate.store(ledger::Gate::shut);
  device.gate_epoch.fetch_add(1);
  rest_ms(200);
  const auto had = node.split(2'000);
  std::printf("guaranteed 20 %%: %.1f, beside %.1f %%\n", had[0], had[1]);
  EXPECT_LT(had[0], 22);
  EXPECT_GT(had[0], 5);
}

TEST(DeadManRule, AProcessAtAnOpenGateNoticesTheDaemonsEnd) {
  ArbiterNode node;
  node.share("a");
  node.start();
  node.load("a", {"--kernels=200us"});
  node.all_at_work();
  auto& device = node.pages("a").writable_policy->devices[0];
  const auto& priced_ppm = node.pages("a").usage->compute[0].priced_ppm;
  device.compute_unattended_ppm.store(400'000);
  ASSERT_TRUE(eventually([&] { return device.gate.load() == ledger::Gate::open; }));
  // A stopped arbiter does not count as gone.
  node.stop_arbiter(true);
  std::printf("beside a stopped arbiter: %.1f %%\n", node.split(1'000)[0]);
  EXPECT_GT(priced_ppm.load(), ledger::kWholeGpu);
  node.stop_arbiter(false);
  node.kill_arbiter();
  EXPECT_TRUE(eventually([&] { return priced_ppm.load() == 400'000u; })) << priced_ppm.load();
  std::printf("left with 40 %%: %.1f %%\n", node.split(1'000)[0]);
  node.start();
  EXPECT_TRUE(eventually([&] { return priced_ppm.load() > ledger::kWholeGpu; })) << priced_ppm.load();
}

TEST(DeadManRule, AnArbiterThatWasOnlyLateIsObeyedAgain) {
  ArbiterNode node;
  for (const char* name : {"a", "b"}) node.share(name, {.weight = name[0] == 'a' ? 100u : 300u});
  node.start();
  for (const char* name : {"a", "b"}) node.load(name, {"--kernels=200us"});
  node.all_at_work();
  node.stop_arbiter(true);
  rest_ms(300);
  node.stop_arbiter(false);
  EXPECT_TRUE(eventually([&] {
    const auto had = node.split(1'000);
    return std::abs(100 * had[0] / (had[0] + had[1]) - 25) < 6;
  }));
}

TEST(Turns, AStoppedTenantLeavesTheGpuToTheOther) {
  ArbiterNode node;
  for (const char* name : {"a", "b"}) node.share(name);
  node.start();
  for (const char* name : {"a", "b"}) node.load(name, {"--kernels=200us"});
  node.all_at_work();
  ::kill(node.tenant(0).pid(), SIGSTOP);
  rest_ms(200);
  EXPECT_GT(part_at(node, "b", {ledger::Gate::open, ledger::Gate::open_notify}), 0.9);
  ::kill(node.tenant(0).pid(), SIGCONT);
  EXPECT_TRUE(eventually([&] {
    const auto had = node.split(500);
    return std::abs(had[0] / (had[0] + had[1]) - 0.5) < 0.1;
  }));
}

TEST(Turns, AKilledTenantLeavesTheGpuToTheOther) {
  ArbiterNode node;
  for (const char* name : {"a", "b"}) node.share(name);
  node.start();
  for (const char* name : {"a", "b"}) node.load(name, {"--kernels=200us"});
  node.all_at_work();
  node.tenant(0).kill_now();
  node.tenant(0).wait();
  rest_ms(200);
  EXPECT_GT(part_at(node, "b", {ledger::Gate::open, ledger::Gate::open_notify}), 0.9);
}

TEST(Turns, ALatencySharesLaunchesWaitForOneKernelAtMost) {
  ArbiterNode node;
  node.share("fast", {.priority_class = 2});
  node.share("slow");
  node.start();
  node.load("slow", {"--kernels=1ms"});
  node.load("fast", {"--kernels=200us", "--sync=each", "--gap=5ms"});
  node.all_at_work();
  const auto had = node.split(2'000);
  std::printf("best effort %.1f, latency %.1f %%\n", had[0], had[1]);
  EXPECT_EQ(part_at(node, "fast", {ledger::Gate::open_notify}), 1);
  EXPECT_GT(part_at(node, "slow", {ledger::Gate::batch, ledger::Gate::shut}), 0.8);
}

// Two shares on the same two GPUs, each with kernels on one that spin for kernels on the other.
TEST(Gangs, CrossedKernelsThatWaitForEachOtherAllEnd) {
  ArbiterNode node("l40s-x2");
  for (const char* name : {"a", "b"}) node.share(name, {.gpus = {0, 1}});
  node.start();
  const std::vector<std::string> words = tenant::spin_words(HEADGATE_TENANTS "/tenant-spin", {"gpus", "l40s-x2"});
  std::vector<std::unique_ptr<Program>> pairs;
  for (const char* name : {"a", "b"})
    for (int i = 0; i < 2; ++i) pairs.push_back(node.run(name, words));
  for (const auto& pair : pairs) {
    const std::string line = pair->line();
    EXPECT_EQ(pair->wait(), 0) << line << pair->errors();
    EXPECT_NE(line.find("\"ok\":true"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace headgate::e2e
