// Processes that create their first contexts at the same time, where the size is known, to be learnt, or never told.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "guest/bare/clock.hpp"
#include "limiter_pool.hpp"
#include "sim/faults.hpp"

using namespace headgate;
using namespace headgate::e2e;

namespace {

constexpr const char* kNothingTold = "nvmlDevice*:fail=999";
constexpr const char* kOnlyCardTold = "nvmlDeviceGetComputeRunningProcesses*:fail=3";
constexpr const char* kAllTold = "";
// Creations overlap if nothing keeps them apart.
constexpr const char* kSlowly = ",cuDevicePrimaryCtxRetain:delay_us=20000";

class ProcessesThatStartTogether : public testing::TestWithParam<const char*> {
 protected:
  void tell(const std::string& rules) {
    const std::string all = GetParam() + rules;
    ASSERT_TRUE(sim::write_faults(node_, all.starts_with(",") ? all.substr(1) : all));
  }

  // Starts `count` processes of one share. Returns how many have their context, and ends them all.
  std::int64_t admitted(int count, const std::string& limit) {
    std::vector<Runtime::Running> all;
    for (int i = 0; i < count; ++i) all.push_back(runtime_.start(on_tiny(limit), {"-"}));
    std::vector<std::string> answers;
    for (Runtime::Running& each : all) answers.push_back(each.next_line());
    const auto ready = std::ranges::count(answers, "ready: 0");
    EXPECT_EQ(truth(runtime_).used_bytes, static_cast<std::uint64_t>(ready) * kContext);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Outcome outcome = all[i].finish();
      EXPECT_TRUE(answers[i] == "ready: 0" || answers[i] == "ready: 2") << answers[i] << "\n" << outcome.err;
    }
    return ready;
  }

  const Runtime runtime_;
  const std::string node_ = runtime_.path() + "/run-node";
};
INSTANTIATE_TEST_SUITE_P(Telling, ProcessesThatStartTogether, testing::Values(kAllTold, kOnlyCardTold, kNothingTold));

TEST_P(ProcessesThatStartTogether, FillTheLimitAndNoMore) {
  tell(kSlowly);
  EXPECT_EQ(admitted(16, "200MiB"), 3);
}

TEST_P(ProcessesThatStartTogether, FillTheLimitIfTheSizeIsKnown) {
  tell("");
  EXPECT_EQ(admitted(2, "200MiB"), 2);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(admitted(24, "400MiB"), 6);
}

TEST_P(ProcessesThatStartTogether, AreRefusedIfNoneFits) {
  tell(kSlowly);
  EXPECT_EQ(admitted(8, "60MiB"), 0);
}

// Each counts its own context, although another share's comes at the same time.
TEST_P(ProcessesThatStartTogether, AreChargedForTheirOwnContextsInTwoShares) {
  tell(kSlowly);
  std::vector<Runtime::Running> all;
  for (const char* const share : {"one", "two", "three"}) {
    Tenant tenant = on_tiny("164MiB");
    tenant.environment["HEADGATE_SHARE"] = share;
    all.push_back(runtime_.start(tenant, {"-"}));
  }
  for (Runtime::Running& each : all) EXPECT_EQ(each.next_line(), "ready: 0");
  for (Runtime::Running& each : all) {
    for (const auto& [request, answer] : {std::pair(101 * kMiB, "2"), std::pair(100 * kMiB, "0")}) {
      each.say(bytes("linear", request) + "\n");
      EXPECT_EQ(each.next_line(), bytes("linear", request) + ": " + answer);
    }
    each.finish();
  }
}

// A process that is killed while it creates a context of unknown size delays the next one, and no more.
TEST_P(ProcessesThatStartTogether, AreNotStoppedByOneThatDied) {
  tell(",cuDevicePrimaryCtxRetain:delay_us=60000000:count=1");
  auto first = runtime_.start(on_tiny("200MiB"), {"-"});
  const std::size_t rule = std::string(GetParam()).empty() ? 0 : 1;
  EXPECT_TRUE(comes_true([&] { return sim::fault_hits(node_)->at(rule) == 1; }));
  first.kill_and_wait();
  tell("");
  EXPECT_EQ(admitted(4, "200MiB"), 3);
}

// There is room for one context on each GPU. Two threads want GPU 1's primary one, which is one context.
TEST_P(ProcessesThatStartTogether, RetainAPrimaryContextInTwoThreads) {
  sim::Profile two = *sim::find_profile("tiny");
  two.count = 2;
  ASSERT_TRUE(sim::create_node(node_, two));
  tell(kSlowly);
  Led tenant(runtime_, on_tiny("100MiB"));
  EXPECT_EQ(tenant.does("primary-twice:1"), "0");
  EXPECT_EQ(Owner(runtime_).residual(1), kContext);
  EXPECT_EQ(truth(runtime_, 1).used_bytes, kContext);
}

// As a container that starts again: its process has the number and the namespace of the one that died with the turn.
// Such a turn never ends here, and a process that waits in vain leaves the dead one's word.
TEST(Turn, OfADeadProcessWithOurNumberIsTaken) {
  const Runtime runtime;
  sim::Profile two = *sim::find_profile("tiny");
  two.count = 2;
  ASSERT_TRUE(sim::create_node(runtime.path() + "/run-node", two));
  std::filesystem::create_directories(runtime.path() + "/run");
  std::ofstream(runtime.path() + "/run/gpus") << "no directory\n";  // so that the turn is in the share's page
  Led tenant(runtime, on_tiny("200MiB"));
  const Owner owner(runtime);
  const std::uint64_t pid = truth(runtime).processes.at(0).pid;
  const std::uint64_t here = ledger::own_identity().pidns_inode & 0xffff;
  std::atomic<std::uint64_t>& turn = owner.pages.usage->context_turn;
  const auto word = [=] { return pid | here << 22 | ((static_cast<std::uint64_t>(bare::host_ns()) >> 28) + 38) << 38; };
  std::uint64_t last = word();
  turn.store(last);
  const std::jthread renewing([&](const std::stop_token& end) {
    for (std::uint64_t next = word(); !end.stop_requested() && turn.compare_exchange_strong(last, next);
         next = word()) {
      last = next;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  EXPECT_EQ(tenant.does("primary:1"), "0");
  EXPECT_EQ(turn.load(), 0u);
}

// What is taken besides: the local memory of a kernel, a heap, static arrays. All processes ask at the same moment.
class RequestsAtTheSameTime : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Calls, RequestsAtTheSameTime,
                         testing::Values("deep", bytes("heap", 128 * kMiB), bytes("module", 120 * kMiB),
                                         bytes("library", 120 * kMiB), "lone-context:0", bytes("code", 120 * kMiB)));

TEST_P(RequestsAtTheSameTime, FillTheLimitAndNoMore) {
  constexpr int kProcesses = 8;
  const std::uint64_t each = GetParam().starts_with("lone") ? kContext : 120 * kMiB;
  for (int round = 0; round < 3; ++round) {
    const Runtime runtime;
    std::vector<std::unique_ptr<Led>> all;
    const std::string limit = std::to_string(kProcesses * kContext / kMiB + 2 * each / kMiB + 10) + "MiB";
    Tenant tenant = on_tiny(limit);
    if (GetParam().starts_with("code")) tenant.environment["CUDA_MODULE_LOADING"] = "EAGER";
    for (int i = 0; i < kProcesses; ++i) all.push_back(std::make_unique<Led>(runtime, tenant));
    ASSERT_TRUE(sim::write_faults(runtime.path() + "/run-node",
                                  "cuModuleLoadData:delay_us=20000,nvmlDeviceGetComputeRunning*:delay_us=20000"));
    for (auto& process : all) process->running.say(GetParam() + "\n");
    int accepted = 0;
    for (auto& process : all) accepted += process->running.next_line() == GetParam() + ": 0" ? 1 : 0;
    EXPECT_EQ(accepted, 2);
    EXPECT_EQ(truth(runtime).used_bytes / kMiB, (kProcesses * kContext + 2 * each) / kMiB);
  }
}

// With NVML silent about everything, the node's first context is charged as soon as it exists.
TEST(FirstContext, IsChargedWhereNvmlTellsNothing) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node";
  ASSERT_TRUE(sim::write_faults(node, kNothingTold));
  auto refused = runtime.start(on_tiny("60MiB"), {"-"});
  EXPECT_EQ(refused.next_line(), "ready: 2");
  refused.finish();
  EXPECT_EQ(truth(runtime).used_bytes, 0u);
  // Its size is known on the node from then on: another share's is refused without calling the driver.
  ASSERT_TRUE(sim::write_faults(node, std::string(kNothingTold) + ",cuDevicePrimaryCtxRetain:delay_us=0"));
  Tenant other = on_tiny("60MiB");
  other.environment["HEADGATE_SHARE"] = "other";
  EXPECT_EQ(runtime.start(other, {"-"}).next_line(), "ready: 2");
  EXPECT_EQ(sim::fault_hits(node)->at(1), 0u);
  other.environment["HEADGATE_SHARE"] = "larger";
  other.environment["HEADGATE_MEM"] = "164MiB";
  Led tenant(runtime, other);
  EXPECT_EQ(tenant.does(bytes("linear", 101 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("linear", 100 * kMiB)), "0");
}

// The program's own context is current again, so that its memory is on its GPU.
TEST(FirstContext, LeavesTheCurrentOneIfTheDriverKeepsTheTrial) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node";
  sim::Profile two = *sim::find_profile("tiny");
  two.count = 2;
  ASSERT_TRUE(sim::create_node(node, two));
  ASSERT_TRUE(sim::write_faults(node, kNothingTold));
  Led tenant(runtime, on_tiny("300MiB"));
  ASSERT_TRUE(sim::write_faults(node, kNothingTold + std::string(",cuCtxDestroy_v2:fail=999:count=1")));
  EXPECT_EQ(tenant.does("primary:1"), "0");
  EXPECT_EQ(sim::fault_hits(node)->at(1), 1u);
  EXPECT_EQ(tenant.does("linear:1048576"), "0");
  const Owner owner(runtime);
  EXPECT_EQ(owner.used(0), kMiB);
  EXPECT_EQ(owner.used(1), 0u);
}

TEST(FirstContext, IsChargedByATrialThatLeavesNothing) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node";
  ASSERT_TRUE(sim::write_faults(node, kNothingTold + std::string(",cuCtxCreate_v2:delay_us=0")));
  Led tenant(runtime, on_tiny("300MiB"));
  const Owner owner(runtime);
  EXPECT_EQ(sim::fault_hits(node)->at(1), 1u);
  EXPECT_EQ(owner.residual(), kContext);
  EXPECT_EQ(truth(runtime).used_bytes, kContext);
  EXPECT_EQ(tenant.does("context"), "0");
  EXPECT_EQ(sim::fault_hits(node)->at(1), 2u);  // the program's
  EXPECT_EQ(owner.residual(), 2 * kContext);
  EXPECT_EQ(tenant.does("-context"), "0");
  EXPECT_EQ(owner.residual(), kContext);
}

}  // namespace
