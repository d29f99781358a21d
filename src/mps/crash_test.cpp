// Kills our daemon at each step of its start, acquire and release. After the next start, the counts must be right, and
// control daemons must run exactly where a living tenant needs one. Each with a daemon for one user, and for all.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <new>

#include "base/bounded_command.hpp"
#include "mps/manager.hpp"
#include "mps/test_mps.hpp"

namespace headgate::mps {
namespace {

class MpsCrash : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  MpsCrash()
      : steps_left_(new(::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                               -1, 0)) std::atomic<int>) {}
  void SetUp() override {
    if (GetParam() == kAllUsers && ::geteuid() != 0) GTEST_SKIP() << "skipped: only root can ask for multi-user mode";
  }
  ~MpsCrash() override { ::munmap(steps_left_, sizeof *steps_left_); }

  // Runs `work` in a child as our daemon, killed at step `steps` (0: never). Returns true if it was not killed.
  template <typename Work>
  bool daemon(int steps, Work work) {
    *steps_left_ = steps;
    const pid_t child = ::fork();
    if (child == 0) {
      auto options = folder_.options(HEADGATE_SIM_MPS_TOOL);
      options.multi_user = GetParam() == kAllUsers;
      options.step = [this] {
        if (steps_left_->load() != 0 && steps_left_->fetch_sub(1) == 1) ::raise(SIGKILL);
      };
      Manager manager(std::move(options));
      if (!manager.adopt()) ::_exit(1);
      work(manager);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
    return WIFEXITED(status);
  }
  bool live_a_life(const Sleeper& tenant, int steps) {
    return daemon(steps, [&](Manager& manager) {
      if (!manager.acquire(tenant_of(tenant, {.percent = 30}, GetParam()))) ::_exit(1);
      manager.release(tenant.mark());
    });
  }
  bool restart(int steps = 0) {
    return daemon(steps, [](Manager&) {});
  }
  [[nodiscard]] std::vector<GroupNote> notes() const { return load_book(folder_.file()).value(); }
  [[nodiscard]] bool all_is_gone() const { return notes().empty() && nothing_runs(); }
  [[nodiscard]] bool nothing_runs() const {
    return folder_.running_daemon(GetParam()) == 0 && !std::filesystem::exists(folder_.base() + "/probe");
  }
  // Checks that the notes match what runs.
  [[nodiscard]] bool all_is_right() const {
    const auto all = notes();
    if (all.empty()) return nothing_runs();
    const auto settings = run_bounded({.words = {HEADGATE_SIM_MPS_TOOL},
                                       .input = "get_default_active_thread_percentage\n",
                                       .environment = tool_environment(folder_.places(GetParam()), kTestUuid)});
    return all.size() == 1 && all[0].holders.size() == 1 && all[0].daemon.pid != 0 &&
           all[0].daemon.pid == folder_.running_daemon(GetParam()) && settings && settings->output == "30.0\n";
  }

  MpsFolder folder_;
  const Variable release_{"HEADGATE_SIM_MPS", GetParam() == kAllUsers ? "555" : ""};
  std::atomic<int>* steps_left_;
};

TEST_P(MpsCrash, TheNextDaemonRecoversAtEachStepOfALife) {
  int steps = 1, held = 0;
  for (;; ++steps) {
    Sleeper tenant;
    if (live_a_life(tenant, steps)) break;
    ASSERT_TRUE(restart()) << "killed at step " << steps;
    EXPECT_TRUE(all_is_right()) << "killed at step " << steps;
    held += notes().empty() ? 0 : 1;
    tenant.end();
    ASSERT_TRUE(restart());
    EXPECT_TRUE(all_is_gone()) << "killed at step " << steps << ", and the tenant ended meanwhile";
  }
  EXPECT_GT(steps, 10) << "each note and each act is a step";
  EXPECT_GT(held, 4) << "a living tenant is held from its first note to its release";
  EXPECT_TRUE(all_is_gone());
}

TEST_P(MpsCrash, ADaemonKilledInRecoveryIsFollowedByAnother) {
  for (int steps = 1;; ++steps) {
    Sleeper tenant;
    ASSERT_TRUE(daemon(0, [&](Manager& manager) {
      if (!manager.acquire(tenant_of(tenant, {}, GetParam()))) ::_exit(1);
    }));
    tenant.end();
    const bool was_killed = !restart(steps);
    ASSERT_TRUE(restart());
    EXPECT_TRUE(all_is_gone()) << "killed at step " << steps << " of its start";
    if (!was_killed) break;
  }
}

// Killed after the launcher was started, and before its daemon listens: no socket and no note names that daemon.
TEST_P(MpsCrash, ADaemonThatDoesNotListenYetIsNotLeft) {
  const Places places = folder_.places(GetParam());
  for (const bool tenant_lives : {true, false}) {
    Sleeper tenant;
    const pid_t killed = ::fork();
    if (killed == 0) {
      auto options = folder_.options(HEADGATE_SIM_MPS_TOOL);
      options.multi_user = GetParam() == kAllUsers;
      Manager manager(std::move(options));
      if (!manager.adopt()) ::_exit(1);
      ::setenv("HEADGATE_SIM_MPS", GetParam() == kAllUsers ? "555,waits" : "waits", 1);
      (void)manager.acquire(tenant_of(tenant, {.percent = 30}, GetParam()));
      ::_exit(1);
    }
    ASSERT_TRUE(comes_true([&] { return started_for(places, "/proc").size() == 2; })) << "a launcher and its daemon";
    ::kill(killed, SIGKILL);
    ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
    if (!tenant_lives) tenant.end();
    ASSERT_TRUE(restart());
    EXPECT_EQ(started_for(places, "/proc").size(), tenant_lives ? 1u : 0u);
    EXPECT_TRUE(tenant_lives ? all_is_right() : all_is_gone());
    tenant.end();
    ASSERT_TRUE(restart());
    EXPECT_TRUE(all_is_gone());
  }
}

INSTANTIATE_TEST_SUITE_P(Each, MpsCrash, ::testing::Values(0u, kAllUsers), [](const auto& tested) {
  return std::string(tested.param == kAllUsers ? "ForAllUsers" : "ForOneUser");
});

}  // namespace
}  // namespace headgate::mps
