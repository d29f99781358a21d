// How the keeper reacts when a tenant, a client or a control daemon ends, and when the tool fails. Tests make the stand-in
// fail on demand (mps_faults_test.cpp: servers that fail).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <memory>

#include "identity/process.hpp"
#include "mps_keeper.hpp"

namespace headgate::mps {
namespace {

TEST_F(MpsKeeper, ATenantThatEndsIsReleased) {
  start();
  Sleeper one, other;
  ASSERT_TRUE(acquire(one));
  ASSERT_TRUE(acquire(other));
  one.end();
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).holders.size() == 1; }));
  EXPECT_NE(folder_.running_daemon(), 0u);
  other.end();
  EXPECT_TRUE(comes_true([&] { return keeper_->groups().empty() && folder_.running_daemon() == 0; }));
}

// Each look is a process of the tool, so news of one group must not cost one for each of the others.
TEST_F(MpsKeeper, ALineOfALogCausesLooksAtItsGroupAlone) {
  const std::string calls = folder_.base() + ".calls";
  write_tool("echo \"$CUDA_MPS_PIPE_DIRECTORY\" >>" + calls + "; " + std::string(kSoundTool));
  start("", {}, std::chrono::hours(1));
  const Sleeper tenant, other;
  ASSERT_TRUE(acquire(tenant));
  std::promise<bool> acquired;
  keeper_->acquire(tenant_of(other, {}, 1), [&](const auto& done) { acquired.set_value(done.has_value()); });
  ASSERT_TRUE(acquired.get_future().get());
  std::vector<std::unique_ptr<FakeClient>> clients;
  for (std::size_t count = 1; count <= 10; ++count) {
    clients.push_back(std::make_unique<FakeClient>(pipe()));
    ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).clients.size() == count; })) << count;
  }
  std::map<std::string, int> looks;
  std::ifstream file(calls);
  for (std::string line; std::getline(file, line);) ++looks[line];
  EXPECT_GE(looks[pipe()], 10);
  EXPECT_LE(looks[folder_.places(1).pipe], 6) << "its start, its settings, and looks after them";
}

TEST_F(MpsKeeper, AUserBehindAnothersServerIsInformed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  start("", {}, std::chrono::hours(1));  // not by the look each 10 s
  const Sleeper tenant, guest(12345);
  ASSERT_TRUE(comes_true([&] {
    const auto process = identity::read_process("/proc", guest.mark().pid);
    return process && process->uid == 12345;
  }));
  ASSERT_TRUE(acquire(tenant));
  const FakeClient client(pipe());
  ASSERT_TRUE(acquire(guest));
  ASSERT_TRUE(comes_true([&] { return is_told("mps.queued"); }));
  const std::string text = folder_.told("mps.queued").at(0);
  EXPECT_NE(text.find(std::to_string(guest.mark().pid) + " of uid 12345"), std::string::npos) << text;
}

TEST_F(MpsKeeper, ARelease535ServerIsShownAsUnknown) {
  start();
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient client(pipe());
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).clients.size() == 1; }));
  EXPECT_EQ(word_of(keeper_->groups().at(0).state), "unknown");
}

TEST_F(MpsKeeper, AControlDaemonThatDiesIsStartedAgain) {
  start();
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const std::uint32_t before = folder_.running_daemon();
  folder_.demand("death");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_NE(folder_.told("mps.died").at(0).find(std::to_string(before)), std::string::npos);
  EXPECT_NE(folder_.running_daemon(), before);
}

TEST_F(MpsKeeper, ADetachedClientLeavesItsNeighbour) {
  start();
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient one(pipe()), other(pipe());
  EXPECT_EQ(keeper_->take_off(one.pid(), milliseconds(20'000)), true);
  EXPECT_EQ(keeper_->take_off(one.pid(), milliseconds(20'000)), false) << "it is no client any more";
  EXPECT_TRUE(comes_true([&] { return keeper_->groups().at(0).clients == std::vector{other.pid()}; }));
}

// The control daemon that replaces a silent one does not take its limits either.
TEST_F(MpsKeeper, ATenantIsRefusedWhereItsLimitsAreNotInForce) {
  write_tool(kSoundTool);
  auto options = folder_.options(tool_);
  options.limits.answer = milliseconds(1'000);
  Manager manager(options);
  const Sleeper one, other;
  ASSERT_TRUE(manager.acquire(tenant_of(one, {.percent = 30})));
  write_tool("[ $# -eq 0 ] && exec sleep 600; " + std::string(kSoundTool));
  const auto refused = manager.acquire(tenant_of(other, {.percent = 60}));
  EXPECT_FALSE(refused);
  EXPECT_EQ(folder_.running_daemon(), 0u) << "none runs without its limits";
  write_tool(kSoundTool);
  manager.look();
  EXPECT_EQ(folder_.told("mps.restarted").size(), 1u);
  EXPECT_EQ(manager.groups().at(0).settings, (Settings{.percent = 30}));
  EXPECT_EQ(manager.groups().at(0).holders.size(), 1u);
  EXPECT_TRUE(manager.acquire(tenant_of(other, {.percent = 60})));
}

TEST_F(MpsKeeper, AToolThatFailsStartsNothingAndIsNamed) {
  const struct {
    const char* manners;
    const char* said;
  } kCases[] = {{"refuse", "told to refuse"},
                {"hang", "did not answer within 200 ms"},
                {"deaf", "no daemon answers"},
                {"nonsense", "and the daemon has"},
                {"flood", "did not answer within 200 ms"}};
  const Sleeper tenant;
  for (const auto& one : kCases) {
    keeper_.reset();
    start(one.manners, {.start = milliseconds(200),
                        .ready = milliseconds(100),
                        .quit = milliseconds(100),
                        .answer = milliseconds(200)});
    const auto refused = acquire(tenant);
    ASSERT_FALSE(refused) << one.manners;
    EXPECT_NE(refused.error().message.find(one.said), std::string::npos) << refused.error().message;
    EXPECT_TRUE(keeper_->groups().empty()) << one.manners;
    EXPECT_EQ(folder_.running_daemon(), 0u) << one.manners;
  }
}

TEST_F(MpsKeeper, NonsenseOfARunningToolIsReportedOnceAndChangesNothing) {
  write_tool(kSoundTool);
  start("550");
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient client(pipe());
  const std::uint32_t daemon = folder_.running_daemon();
  write_tool("echo 'what?'; echo 4711 x");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.failed"); }));
  EXPECT_NE(folder_.told("mps.failed")[0].find("what?"), std::string::npos) << folder_.told("mps.failed")[0];
  write_tool(kSoundTool);
  EXPECT_EQ(folder_.running_daemon(), daemon);
  folder_.demand("fault");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.fault"); })) << "it goes on being watched";
  EXPECT_EQ(folder_.told("mps.failed").size(), 1u);
}

TEST_F(MpsKeeper, AToolThatFloodsWhileItRunsIsReplacedOnceItIsSoundAgain) {
  write_tool(kSoundTool);
  start("550", {.start = milliseconds(100), .quit = milliseconds(100), .answer = milliseconds(200)});
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const std::uint32_t daemon = folder_.running_daemon();
  write_tool("exec yes 1");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.wedged") && is_told("mps.failed"); }));
  write_tool(kSoundTool);
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_NE(folder_.running_daemon(), 0u);
  EXPECT_NE(folder_.running_daemon(), daemon);
}

TEST_F(MpsKeeper, AToolThatGoesAwayIsReportedOnceAndTheControlDaemonEndsAllTheSame) {
  write_tool(kSoundTool);
  start("550");
  Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const std::uint32_t daemon = folder_.running_daemon();
  std::filesystem::remove(tool_);
  ASSERT_TRUE(comes_true([&] { return is_told("mps.failed"); }));
  EXPECT_EQ(folder_.running_daemon(), daemon);
  const Sleeper other;
  EXPECT_TRUE(acquire(other)) << "it only counts";
  EXPECT_EQ(folder_.told("mps.failed").size(), 1u) << folder_.told("mps.failed")[0];
  keeper_.reset();
  tenant.end();
  auto options = folder_.options(tool_);
  Manager next(std::move(options));
  ASSERT_TRUE(next.adopt());
  next.release(other.mark());
  EXPECT_EQ(folder_.running_daemon(), 0u);
  EXPECT_EQ(folder_.told("mps.stopped").size(), 1u);
}

TEST_F(MpsKeeper, AGroupThatCannotBeStartedAgainIsReportedOnceAndTriedOn) {
  write_tool(kSoundTool);
  start();
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const std::string calls = tool_ + ".calls";
  write_tool("[ $# -gt 0 ] && echo >>" + calls + " && exit 3; " + std::string(kSoundTool));
  folder_.demand("death");
  ASSERT_TRUE(comes_true([&] {
    std::error_code none;
    return std::filesystem::file_size(calls, none) >= 5 && !none;
  })) << "each look tries";
  EXPECT_EQ(folder_.told("mps.died").size(), 1u);
  // A look may also have asked the daemon just before it died.
  EXPECT_EQ(
      std::ranges::count_if(folder_.told("mps.failed"), [](const auto& text) { return text.contains("MPS start"); }),
      1);
  EXPECT_EQ(keeper_->groups().at(0).restarts, 0u);
  write_tool(kSoundTool);
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_TRUE(comes_true([&] { return keeper_->groups().at(0).restarts == 1; }));
}

TEST_F(MpsKeeper, EachSpellOfFailedRestartsIsReported) {
  write_tool(kSoundTool);
  Manager manager(folder_.options(tool_));
  std::vector<std::unique_ptr<Sleeper>> tenants;
  for (const std::size_t spell : {1u, 2u}) {
    tenants.push_back(std::make_unique<Sleeper>());
    ASSERT_TRUE(manager.acquire(tenant_of(*tenants.back())))
        << "it starts a control daemon that could not be restarted";
    ASSERT_TRUE(kill_daemon(*daemon_at(pipe(), "/proc"), ItsServers::kill, "/proc"));
    write_tool("exit 3");
    manager.look();
    manager.look();
    EXPECT_EQ(folder_.told("mps.failed").size(), spell);
    write_tool(kSoundTool);
  }
}

TEST_F(MpsKeeper, AControlDaemonThatDoesNotQuitIsKilledAfterItsLastTenant) {
  start("", {.quit = milliseconds(100)}, std::chrono::hours(1));
  Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient stays(pipe());  // quit waits for it
  tenant.end();
  ASSERT_TRUE(comes_true([&] { return is_told("mps.stopped"); }));
  EXPECT_NE(folder_.told("mps.stopped")[0].find("did not quit in time and was killed"), std::string::npos);
  EXPECT_EQ(folder_.running_daemon(), 0u);
  EXPECT_TRUE(comes_true([&] { return load_book(folder_.file())->empty(); }));
}

TEST_F(MpsKeeper, GroupsAreShownWhileTheToolWorks) {
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::atomic<bool> held = false, is_in = false;
  step_ = [&] {
    if (held) is_in = true, gone.wait();
  };
  start();
  const Sleeper one, other;
  ASSERT_TRUE(acquire(one));
  held = true;
  std::promise<bool> acquired;
  keeper_->acquire(tenant_of(other), [&](const auto& variables) { acquired.set_value(variables.has_value()); });
  EXPECT_TRUE(comes_true([&] { return is_in.load(); }));
  EXPECT_EQ(keeper_->groups().size(), 1u);
  EXPECT_EQ(keeper_->take_off(1, milliseconds(1)).error().code, ErrorCode::busy);
  held = false;
  go.set_value();
  EXPECT_TRUE(acquired.get_future().get());
}

TEST_F(MpsKeeper, TheFortyNinthClientIsRefused) {
  start();
  std::vector<std::unique_ptr<Sleeper>> tenants;
  for (std::size_t i = 0; i < kMaxClients; ++i) {
    tenants.push_back(std::make_unique<Sleeper>());
    ASSERT_TRUE(acquire(*tenants.back())) << i;
  }
  const Sleeper more;
  EXPECT_EQ(acquire(more).error().code, ErrorCode::no_capacity);
  tenants.pop_back();
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).holders.size() == kMaxClients - 1; }));
  EXPECT_TRUE(acquire(more));
}

TEST_F(MpsKeeper, ANoteThatCannotBeWrittenStartsNothing) {
  start();
  const Sleeper tenant;
  std::filesystem::create_directory(folder_.file() + ".new");
  std::filesystem::create_directory(folder_.file() + ".new/in the way");
  const auto refused = acquire(tenant);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("MPS setup"), std::string::npos) << refused.error().message;
  EXPECT_EQ(folder_.running_daemon(), 0u);
  std::filesystem::remove_all(folder_.file() + ".new");
  EXPECT_TRUE(acquire(tenant));
}

}  // namespace
}  // namespace headgate::mps
