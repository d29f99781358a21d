// Memory of contexts: known before they are created, or measured right after, and given back as it was charged.
#include <filesystem>
#include <fstream>

#include "limiter_pool.hpp"
#include "sim/faults.hpp"

using namespace headgate;
using namespace headgate::e2e;

namespace {

TEST(Contexts, AreCreatedWhileTheShareHasRoom) {
  const Runtime runtime;
  Led first(runtime, on_tiny("200MiB")), second(runtime, on_tiny("200MiB"));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(first.does("context"), "0");
    EXPECT_EQ(second.does("context"), "2");
    EXPECT_EQ(truth(runtime).used_bytes, 3 * kContext);
    EXPECT_EQ(first.does("-context"), "0");
  }
  auto third = runtime.start(on_tiny("200MiB"), {"-"});
  EXPECT_EQ(third.next_line(), "ready: 0");
  auto fourth = runtime.start(on_tiny("200MiB"), {"-"});
  EXPECT_NE(fourth.next_line(), "ready: 0");
  EXPECT_EQ(truth(runtime).used_bytes, 3 * kContext);
  third.finish();
  fourth.finish();
}

// The size of a context is known per card, not per share. Another share's first is refused without calling the driver.
TEST(Contexts, AreReservedWithTheSizeOfTheNodesFirst) {
  const Runtime runtime;
  {
    Led first(runtime, on_tiny("1GiB"));
    EXPECT_EQ(first.does("linear:1048576"), "0");  // the context is measured before this
  }
  const std::string node = runtime.path() + "/run-node";
  ASSERT_TRUE(sim::write_faults(node, "cuDevicePrimaryCtxRetain:delay_us=0"));  // counted
  Tenant small = on_tiny("60MiB");
  small.environment["HEADGATE_SHARE"] = "small";
  auto refused = runtime.start(small, {"-"});
  EXPECT_NE(refused.next_line(), "ready: 0");
  EXPECT_EQ(sim::fault_hits(node)->at(0), 0u);
  small.environment["HEADGATE_SHARE"] = "large";
  small.environment["HEADGATE_MEM"] = "100MiB";
  Led fits(runtime, small);
  EXPECT_EQ(fits.does(bytes("linear", 37 * kMiB)), "2");
  EXPECT_EQ(fits.does(bytes("linear", 36 * kMiB)), "0");
}

// A context that ends before it was measured leaves nothing to be measured.
TEST(Contexts, CreatedAndDestroyedManyTimesCountOnce) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("300MiB"));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(tenant.does("context"), "0");
    EXPECT_EQ(tenant.does("-context"), "0");
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tenant.does("context"), "0");
  EXPECT_EQ(tenant.does("context"), "2");
}

TEST(Contexts, ADetachedContextLeavesItsRoom) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("300MiB"));
  const Owner owner(runtime);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tenant.does("context"), "0");
    EXPECT_EQ(owner.residual(), 2 * kContext);
    EXPECT_EQ(tenant.does("detach"), "0");
    EXPECT_EQ(owner.residual(), kContext);
  }
}

// No size is ever told, by NVML or the daemon: 999 unknown, 3 not supported (a GPU that shares its memory with the
// processor), 15 lost.
class MuteNvml : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Answers, MuteNvml, testing::Values(999, 3, 15));

TEST_P(MuteNvml, ContextsAreCountedByTheCardsFreeMemory) {
  const Runtime runtime;
  ASSERT_TRUE(sim::write_faults(runtime.path() + "/run-node", "nvmlDevice*:fail=" + std::to_string(GetParam())));
  Led tenant(runtime, on_tiny("300MiB"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tenant.does("context"), "0");
  EXPECT_EQ(tenant.does("context"), "2");
  EXPECT_EQ(truth(runtime).used_bytes, 4 * kContext);
  EXPECT_EQ(tenant.does(bytes("linear", 46 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("linear", 44 * kMiB)), "0");
  EXPECT_EQ(tenant.does("-context"), "0");
  EXPECT_EQ(tenant.does(bytes("linear", 60 * kMiB)), "0");
}

// With no context current, another one of the GPU is asked: the primary one, which is not this thread's.
TEST_P(MuteNvml, ContextsAreCountedIfNoneIsCurrent) {
  const Runtime runtime;
  ASSERT_TRUE(sim::write_faults(runtime.path() + "/run-node", "nvmlDevice*:fail=" + std::to_string(GetParam())));
  Led tenant(runtime, on_tiny("300MiB"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tenant.does("lone-context:0"), "0");
  EXPECT_EQ(tenant.does("lone-context:0"), "2");
  const Owner owner(runtime);
  EXPECT_EQ(owner.residual(), 4 * kContext);
  EXPECT_EQ(tenant.does("-context-elsewhere"), "0");
  EXPECT_EQ(owner.residual(), 3 * kContext);
  EXPECT_EQ(tenant.does("lone-context:0"), "0");
  EXPECT_EQ(tenant.does("lone-context:0"), "2");
  EXPECT_EQ(truth(runtime).used_bytes, 4 * kContext);
}

// The card's memory is told, but not this process's part: as on MIG, or in a container with its own process numbers.
// The first context needs no other to be counted.
class UnlistedProcess : public testing::TestWithParam<const char*> {};
constexpr const char* kNoList = "nvmlDeviceGetComputeRunningProcesses*:fail=3";
constexpr const char* kNoListNow = "nvmlDeviceGetComputeRunningProcesses*:fail=999";
INSTANTIATE_TEST_SUITE_P(Answers, UnlistedProcess, testing::Values(kNoList, kNoListNow));

TEST_P(UnlistedProcess, IsChargedForItsFirstContext) {
  const Runtime runtime;
  ASSERT_TRUE(sim::write_faults(runtime.path() + "/run-node", GetParam()));
  auto refused = runtime.start(on_tiny("60MiB"), {"-"});
  EXPECT_EQ(refused.next_line(), "ready: 2");
  refused.finish();
  EXPECT_EQ(truth(runtime).used_bytes, 0u);
  Tenant larger = on_tiny("164MiB");
  larger.environment["HEADGATE_SHARE"] = "larger";
  Led tenant(runtime, larger);
  EXPECT_EQ(tenant.does(bytes("linear", 102 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("linear", 100 * kMiB)), "0");
  EXPECT_EQ(tenant.does("context"), "2");
  EXPECT_EQ(truth(runtime).used_bytes, 164 * kMiB);
}

TEST_P(UnlistedProcess, IsChargedOnEachGpuForItsContextsThere) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node";
  sim::Profile two = *sim::find_profile("tiny");
  two.count = 2;
  ASSERT_TRUE(sim::create_node(node, two));
  ASSERT_TRUE(sim::write_faults(node, GetParam()));
  Led tenant(runtime, on_tiny("200MiB"));
  const Owner owner(runtime);
  const auto charged = [&] { return std::pair(owner.residual(0) / kContext, owner.residual(1) / kContext); };
  EXPECT_EQ(charged(), std::pair(1ul, 0ul));
  EXPECT_EQ(tenant.does("lone-context:1"), "0");
  EXPECT_EQ(tenant.does("primary:1"), "0");
  EXPECT_EQ(charged(), std::pair(1ul, 2ul));
  EXPECT_EQ(tenant.does("primary:1"), "0");  // retained twice
  EXPECT_EQ(tenant.does("lone-context:1"), "0");
  EXPECT_EQ(tenant.does("lone-context:1"), "2");
  EXPECT_EQ(charged(), std::pair(1ul, 3ul));
  EXPECT_EQ(tenant.does("-context-elsewhere"), "0");
  EXPECT_EQ(charged(), std::pair(1ul, 2ul));
  EXPECT_EQ(tenant.does("-primary:1"), "0");
  EXPECT_EQ(charged(), std::pair(1ul, 2ul));
  EXPECT_EQ(tenant.does("-primary:1"), "0");
  EXPECT_EQ(charged(), std::pair(1ul, 1ul));
  EXPECT_EQ(tenant.does("fork:1048576"), "0");  // the child has no contexts
  EXPECT_EQ(tenant.does("-context"), "0");
  EXPECT_EQ(charged(), std::pair(1ul, 0ul));
  EXPECT_EQ(tenant.does("reset"), "0");
  EXPECT_EQ(charged(), std::pair(0ul, 0ul));
  EXPECT_EQ(truth(runtime).used_bytes, 0u);
}

// More than the limiter records separately. Small contexts, so that the card has room for them.
TEST_P(UnlistedProcess, IsChargedForHoweverManyContexts) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node";
  sim::Profile small = *sim::find_profile("tiny");
  small.context_bytes = kMiB;
  ASSERT_TRUE(sim::create_node(node, small));
  ASSERT_TRUE(sim::write_faults(node, GetParam()));
  Led tenant(runtime, on_tiny("160MiB"));
  const Owner owner(runtime);
  EXPECT_EQ(tenant.does("contexts:140"), "0");
  EXPECT_EQ(owner.residual(), 141 * kMiB);
  EXPECT_EQ(tenant.does("contexts:20"), "2");
  EXPECT_EQ(owner.residual(), 160 * kMiB);
  EXPECT_EQ(tenant.does("-contexts:159"), "0");
  EXPECT_EQ(owner.residual(), kMiB);
  EXPECT_EQ(truth(runtime).used_bytes, kMiB);
}

// Two threads release at once, and each may find the context gone. The delay lets both release before either looks.
TEST_P(UnlistedProcess, GivesBackAPrimaryContextOnce) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node";
  sim::Profile two = *sim::find_profile("tiny");
  two.count = 2;
  ASSERT_TRUE(sim::create_node(node, two));
  ASSERT_TRUE(sim::write_faults(node, GetParam() + std::string(",cuDevicePrimaryCtxGetState:delay_us=3000")));
  Led tenant(runtime, on_tiny("1GiB"));
  const Owner owner(runtime);
  owner.pages.usage->compute[1].context_bytes = kContext;  // as another process of the share may have measured it
  EXPECT_EQ(tenant.does("lone-context:1"), "0");
  EXPECT_EQ(tenant.does("race-primary:20"), "0");
  EXPECT_EQ(owner.residual(1), kContext);
  EXPECT_EQ(tenant.does("primary:1"), "0");
  EXPECT_EQ(owner.residual(1), 2 * kContext);
}

// The same with more contexts than are recorded separately.
TEST_P(UnlistedProcess, GivesBackAPrimaryContextOnceBesideManyOthers) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node";
  sim::Profile two = *sim::find_profile("tiny");
  two.count = 2;
  two.context_bytes = kMiB;
  ASSERT_TRUE(sim::create_node(node, two));
  ASSERT_TRUE(sim::write_faults(node, GetParam() + std::string(",cuDevicePrimaryCtxGetState:delay_us=3000")));
  Led tenant(runtime, on_tiny("1GiB"));
  const Owner owner(runtime);
  EXPECT_EQ(tenant.does("contexts:130"), "0");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tenant.does("lone-context:1"), "0");
  EXPECT_EQ(owner.residual(1), 3 * kMiB);
  EXPECT_EQ(tenant.does("race-primary:20"), "0");
  EXPECT_EQ(owner.residual(1), 3 * kMiB);
}

// While another thread's call is under way, a reading finds a context and cannot explain it.
TEST(Contexts, RefusedOnesLeaveNothingWhileOtherThreadsWork) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node";
  sim::Profile two = *sim::find_profile("tiny");
  two.count = 2;
  ASSERT_TRUE(sim::create_node(node, two));
  Led other(runtime, on_tiny("200MiB"));
  EXPECT_EQ(other.does("device:1"), "0");
  EXPECT_EQ(other.does(bytes("linear", 100 * kMiB)), "0");
  const Owner owner(runtime);
  owner.pages.usage->compute[1].context_bytes = 0;  // the size is to be unknown there
  std::filesystem::remove_all(runtime.path() + "/run/gpus");
  Led tenant(runtime, on_tiny("200MiB"));
  EXPECT_EQ(tenant.does("primary:0"), "0");
  // The first release of each is the limiter's.
  ASSERT_TRUE(sim::write_faults(node, "cuDevicePrimaryCtxRelease_v2:after=1:delay_us=1000000:count=1"));
  EXPECT_EQ(tenant.does("-primary-elsewhere:0"), "0");
  EXPECT_TRUE(comes_true([&] { return sim::fault_hits(node)->at(0) == 1; }));
  EXPECT_EQ(tenant.does("lone-context:1"), "2");
  EXPECT_EQ(owner.residual(1), kContext);
  EXPECT_EQ(other.does(bytes("linear", 36 * kMiB)), "0");
}

// Another process's memory that comes or goes while the first context is created is mistaken for the context's. A size
// that is seen twice running replaces such a guess, for all contexts.
class DisturbedGuess : public testing::TestWithParam<std::pair<const char*, std::uint64_t>> {};
INSTANTIATE_TEST_SUITE_P(By, DisturbedGuess,
                         testing::Values(std::pair("linear:10485760", kContext + 10 * kMiB),
                                         std::pair("now:0", kContext - 20 * kMiB)));

TEST_P(DisturbedGuess, IsReplacedByASizeSeenTwice) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node";
  Tenant stranger = on_tiny("1GiB");
  stranger.environment["HEADGATE_SHARE"] = "stranger";
  Led other(runtime, stranger);
  EXPECT_EQ(other.does(bytes("linear", 20 * kMiB)), "0");
  std::filesystem::remove_all(runtime.path() + "/run/gpus");  // what the stranger has measured
  ASSERT_TRUE(sim::write_faults(node, kNoList + std::string(",cuDevicePrimaryCtxRetain:delay_us=500000:count=1")));
  auto tenant = runtime.start(on_tiny("1GiB"), {"-"});
  EXPECT_TRUE(comes_true([&] { return sim::fault_hits(node)->at(1) == 1; }));
  const auto& [disturbance, first_guess] = GetParam();
  EXPECT_EQ(other.does(disturbance), "0");
  EXPECT_EQ(tenant.next_line(), "ready: 0");
  const Owner owner(runtime);
  EXPECT_EQ(owner.residual(), first_guess);
  const auto does = [&](const std::string& word) {
    tenant.say(word + "\n");
    EXPECT_EQ(tenant.next_line(), word + ": 0");
    return owner.residual();
  };
  EXPECT_EQ(does("context"), 2 * first_guess);
  EXPECT_EQ(does("context"), 3 * kContext);
  EXPECT_EQ(does("-context"), 2 * kContext);
  EXPECT_EQ(does("context"), 3 * kContext);
  EXPECT_EQ(does("reset"), 2 * kContext);
}

// Shares that have no page of the GPU in common, as under a daemon, cannot keep their creations apart.
TEST_P(DisturbedGuess, IsReplacedAtOnceBesideUnseenShares) {
  const Runtime runtime;
  const std::string node = runtime.path() + "/run-node", gpus = runtime.path() + "/run/gpus";
  Tenant stranger = on_tiny("1GiB");
  stranger.environment["HEADGATE_SHARE"] = "stranger";
  Led other(runtime, stranger);
  EXPECT_EQ(other.does(bytes("linear", 20 * kMiB)), "0");
  std::filesystem::remove_all(gpus);
  std::ofstream(gpus) << "no directory\n";
  ASSERT_TRUE(sim::write_faults(node, kNoList + std::string(",cuDevicePrimaryCtxRetain:delay_us=500000:count=1")));
  auto tenant = runtime.start(on_tiny("1GiB"), {"-"});
  EXPECT_TRUE(comes_true([&] { return sim::fault_hits(node)->at(1) == 1; }));
  EXPECT_EQ(other.does(GetParam().first), "0");
  EXPECT_EQ(tenant.next_line(), "ready: 0");
  const Owner owner(runtime);
  EXPECT_EQ(owner.residual(), kContext);
}

}  // namespace
