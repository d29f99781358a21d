// Graphs and captures in a share: captured as without the limiter, charged like any launch, and never in each other's
// way.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "limiter_compute_share.hpp"

namespace headgate::e2e {
namespace {

constexpr const char* kProgram = "limiter_graphs";

struct Graphs : ComputeShare {
  explicit Graphs(std::string compute) : ComputeShare(std::move(compute), "tiny", kProgram) {}
};

// HAMi-core: "graph launches not limited / graph capture breaks" (HAMi#1445, HAMi#1360). grgalex/nvshare#22 and #28:
// synchronise calls in an interposer.
class CapturedGraph : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Modes, CapturedGraph, testing::Range(0, 3));

TEST_P(CapturedGraph, IsTheSameWhileAnotherThreadIsHeld) {
  Graphs share("30%");
  const std::string mode = std::to_string(GetParam());
  const std::string without = share.run({"dump", mode}, false);
  ASSERT_NE(without.find("node 49 type 0"), std::string::npos) << without;
  ASSERT_TRUE(without.ends_with("end\n")) << without;
  EXPECT_EQ(share.run({"dump", mode}), without);
  EXPECT_GT(share.account().throttled_launches.load(), 0U);
}

TEST(BrokenCaptures, AnswerAsWithoutTheLimiter) {
  Graphs share("50%");
  const std::string without = Graphs("50%").run({"broken"}, false);
  ASSERT_TRUE(without.ends_with("end\n")) << without;
  EXPECT_EQ(share.run({"broken"}), without);
  // Launches after a broken capture are charged. If a thread loses its CPU before a launch, more is charged; this test
  // does not bound that.
  EXPECT_GE(static_cast<double>(share.account().held_ns.load()), 0.95 * static_cast<double>(share.truth().busy_ns));
}

struct Load {
  unsigned nodes, us, branches;
  int count;
};
void PrintTo(const Load& load, std::ostream* out) {
  *out << load.count << " graphs of " << load.nodes << " kernels of " << load.us << " us on " << load.branches
       << " branches";
}
class GraphsOf : public testing::TestWithParam<Load> {};
INSTANTIATE_TEST_SUITE_P(Loads, GraphsOf,
                         testing::Values(Load{1, 20, 1, 3000}, Load{1, 300, 1, 300}, Load{20, 20, 1, 300},
                                         Load{20, 20, 4, 300}, Load{1000, 20, 1, 8}, Load{1000, 20, 4, 20}));

TEST_P(GraphsOf, KernelsAreChargedAndCountAsOneLaunch) {
  const Load load = GetParam();
  Graphs share("50%");
  const auto program = share.start({"busy", std::to_string(load.nodes), std::to_string(load.us),
                                    std::to_string(load.branches), std::to_string(load.count)});
  share.expect_launched(*program);
  share.expect_exact();
  share.expect_metered(load.count);
  EXPECT_EQ(share.truth().processes.at(0).kernels, std::uint64_t{load.nodes} * load.count);
  EXPECT_GT(share.account().throttled_launches.load(), 0U);
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

// HAMi-core: "launch variants missed" (HC#143, HC#278).
class GraphKinds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Kinds, GraphKinds, testing::Range(0, 6));

TEST_P(GraphKinds, AreAllMeteredAndHeldBack) {
  Graphs share("50%");
  const auto program = share.start({"kinds", std::to_string(GetParam()), "300"});
  share.expect_launched(*program);
  share.expect_exact();
  share.expect_metered(300);
  EXPECT_GT(share.account().throttled_launches.load(), 0U);
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

TEST(HostNodes, ThatWaitForLaterLaunchesDoNotBlockTheGate) {
  Graphs share("20%");
  EXPECT_EQ(share.run({"host", "20"}), "end\n");
}

TEST(DependentLaunches, KeepTheirOverlap) {
  constexpr std::uint64_t kRounds = 10, kChain = 250;
  const auto kept = [](bool limited) {
    Graphs share("90%");
    EXPECT_EQ(share.run({"dependent", std::to_string(kRounds), std::to_string(kChain)}, limited), "end\n");
    const sim::ProcessTruth truth = share.truth().processes.at(0);
    std::printf("%s: %llu of %llu overlap\n", limited ? "limited" : "alone",
                static_cast<unsigned long long>(truth.overlaps),
                static_cast<unsigned long long>(kRounds * (kChain - 1)));
    return truth.overlaps;
  };
  ASSERT_EQ(kept(false), kRounds * (kChain - 1));
  EXPECT_GE(static_cast<double>(kept(true)), 0.99 * static_cast<double>(kRounds * (kChain - 1)));
}

TEST(Graphs, DestroyedWhileTheyRunAreCharged) {
  Graphs share("50%");
  const auto program = share.start({"lives", "60"});
  share.expect_launched(*program);
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
  share.expect_exact();
}

}  // namespace
}  // namespace headgate::e2e
