// Memory allocated by a share's graphs: the ledger compared with what the simulated card gave.
#include "limiter_pool.hpp"

using namespace headgate;
using namespace headgate::e2e;

namespace {

TEST(GraphMemory, IsChargedWhatItsPoolHasReserved) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  EXPECT_EQ(tenant.does(bytes("graph", 40 * kMiB)), "0");
  EXPECT_EQ(tenant.does(bytes("keeping", 10 * kMiB)), "0");
  EXPECT_EQ(tenant.does("info"), "0");
  const Owner owner(runtime);
  EXPECT_EXACT(runtime, owner, 0u);  // an address is not memory
  EXPECT_EQ(tenant.does("launch:0"), "0");
  EXPECT_EXACT(runtime, owner, 2 * kGranule);
  EXPECT_EQ(tenant.does("launch:0"), "0");
  EXPECT_EXACT(runtime, owner, 2 * kGranule);  // again in the same stream
  EXPECT_EQ(tenant.does("sync"), "0");
  EXPECT_EQ(tenant.does("launch:1"), "0");
  EXPECT_EQ(tenant.does("gtrim"), "0");
  EXPECT_EXACT(runtime, owner, 2 * kGranule);  // in use
  EXPECT_EQ(tenant.does("launch:1"), "1");     // still allocated
  EXPECT_EXACT(runtime, owner, 2 * kGranule);
  EXPECT_EQ(tenant.does("drop:1"), "0");
  EXPECT_EQ(tenant.does("sync"), "0");
  EXPECT_EXACT(runtime, owner, 2 * kGranule);  // the pool keeps it
  EXPECT_EQ(tenant.does("gtrim"), "0");
  EXPECT_EXACT(runtime, owner, 0u);
}

TEST(GraphMemory, IsChargedForEveryWayToBuildTheGraph) {
  for (const char* how : {"graph", "repeating", "uploading", "captured", "moved"}) {
    SCOPED_TRACE(how);
    const Runtime runtime;
    Led tenant(runtime, on_tiny("640MiB"));
    EXPECT_EQ(tenant.does(bytes(how, 500 * kMiB)), "0");
    EXPECT_EQ(tenant.does("info"), "0");
    const Owner owner(runtime);
    EXPECT_EXACT(runtime, owner, std::string_view(how) == "uploading" ? 16 * kGranule : 0);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(tenant.does("launch:0"), "0");
    EXPECT_EXACT(runtime, owner, 16 * kGranule);
    EXPECT_EQ(tenant.does(bytes("linear", 100 * kMiB)), "2");
  }
}

TEST(GraphMemory, IsRefusedBeforeTheDriverIfItDoesNotFit) {
  for (const char* how : {"graph", "captured", "moved"}) {
    SCOPED_TRACE(how);
    const Runtime runtime;
    Led tenant(runtime, on_tiny(kSixteen));
    EXPECT_EQ(tenant.does(bytes(how, 600 * kMiB)), "0");
    EXPECT_EQ(tenant.does("launch:0"), "2");
    EXPECT_EQ(tenant.does("upload:0"), "2");
    EXPECT_EQ(tenant.does("greserved"), "0 0");
    const Owner owner(runtime);
    EXPECT_EXACT(runtime, owner, 0u);
    EXPECT_EQ(truth(runtime).processes.at(0).peak_bytes, 0u);
    EXPECT_EQ(tenant.does(bytes("graph", 400 * kMiB)), "0");
    EXPECT_EQ(tenant.does("launch:1"), "0");  // the share is unchanged
    EXPECT_EQ(tenant.does("end:0"), "0");
  }
  const Runtime runtime;
  Led tenant(runtime, on_tiny(kSixteen));
  EXPECT_EQ(tenant.does(bytes("uploading", 600 * kMiB)), "2");
  EXPECT_EQ(truth(runtime).processes.at(0).peak_bytes, 0u);
}

// The most that the graph may need does not fit in addition, but what the pool already has suffices.
TEST(GraphMemory, IsReusedInAFullShareWhileTheLastLaunchRuns) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny(kSixteen));
  EXPECT_EQ(tenant.does(bytes("graph", 512 * kMiB)), "0");
  EXPECT_EQ(tenant.does("many:200"), "0");
  EXPECT_EQ(tenant.does("info"), "0");
  EXPECT_EQ(tenant.does("spin"), "0");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(tenant.does("launch:0"), "0") << i;
  const Owner owner(runtime);
  EXPECT_EXACT(runtime, owner, 16 * kGranule);
  EXPECT_EQ(tenant.does("linear:1"), "2");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tenant.does("launch:1"), "0") << i;  // with 200 pieces
  EXPECT_EXACT(runtime, owner, 16 * kGranule);
  EXPECT_EQ(tenant.does("raise"), "0");
  EXPECT_EQ(tenant.does("ctxsync"), "0");
  EXPECT_EQ(tenant.does("linear:1000000"), "0");  // unused memory of the pool makes room
  EXPECT_EXACT(runtime, owner, 1'000'000u);
  EXPECT_EQ(truth(runtime).processes.at(0).peak_bytes, 16 * kGranule);
}

// A second stream cannot reuse what the first may still use.
TEST(GraphMemory, IsRefusedInAFullShareIfAPoolWouldGrow) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny(kSixteen));
  EXPECT_EQ(tenant.does(bytes("graph", 300 * kMiB)), "0");
  EXPECT_EQ(tenant.does(bytes("graph", 300 * kMiB)), "0");
  EXPECT_EQ(tenant.does("info"), "0");
  EXPECT_EQ(tenant.does("spin"), "0");
  EXPECT_EQ(tenant.does("launch:0"), "0");
  EXPECT_EQ(tenant.does("stream:2"), "0");
  EXPECT_EQ(tenant.does("launch:1"), "2");
  const Owner owner(runtime);
  EXPECT_EXACT(runtime, owner, 10 * kGranule);
  EXPECT_EQ(tenant.does("raise"), "0");
  EXPECT_EQ(tenant.does("ctxsync"), "0");
  EXPECT_EQ(tenant.does("launch:1"), "0");
  EXPECT_EXACT(runtime, owner, 10 * kGranule);
}

TEST(GraphMemory, StaysWithinTheLimitInEightRacingProcesses) {
  const Race seen = race("gstorm:600");
  EXPECT_LE(seen.ledger_peak, 512 * kMiB);
  // An upload that exceeds the limit is undone at once. In the worst case two processes do so at the same time.
  EXPECT_LE(seen.card_peak, (1024 + 2 * 288) * kMiB);
}

}  // namespace
