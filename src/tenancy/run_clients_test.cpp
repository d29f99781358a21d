#include "tenancy/run_clients.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace headgate::tenancy {
namespace {

TEST(RunClients, ARunLivesUntilItsProcessEnds) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const tenancy::Run run = run_of(static_cast<std::uint32_t>(child), "/proc");
  EXPECT_TRUE(is_alive(run, "/proc"));
  EXPECT_TRUE(is_alive({run.pid, 0}, "/proc"));
  EXPECT_TRUE(is_alive(run, "/nowhere")) << "what cannot be told is taken for alive";
  if (run.start_time != 0) {
    EXPECT_FALSE(is_alive({run.pid, run.start_time - 10}, "/proc"));
  }
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  if (run.start_time != 0) {
    EXPECT_FALSE(is_alive(run, "/proc")) << "a parent that never waits would hold its share for ever";
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_alive(run, "/proc"));
  EXPECT_FALSE(is_alive(run, "/nowhere"));
}

TEST(RunClients, GuestsCannotTakeThePlacesOfTheOwner) {
  std::vector<tenancy::Run> runs;
  const auto add = [&](std::size_t count, const std::optional<InvitedUser>& invited) {
    for (std::size_t n = 0; n < count; ++n) {
      const auto room = room_for_run(runs, "s", invited);
      if (!room) return room.error().message;
      runs.push_back({static_cast<std::uint32_t>(runs.size() + 1), 0, invited});
    }
    return std::string("room");
  };
  EXPECT_EQ(add(kMaxRunsOfAnInvitedUser, InvitedUser{1}), "room");
  EXPECT_EQ(add(1, InvitedUser{1}), "in the share 's' wait 64 headgate runs of uid 1");
  for (std::uint32_t uid = 2; uid <= kMaxInvitedRuns / kMaxRunsOfAnInvitedUser; ++uid)
    EXPECT_EQ(add(kMaxRunsOfAnInvitedUser, InvitedUser{uid}), "room") << uid;
  EXPECT_EQ(add(1, InvitedUser{1000}), "in the share 's' wait 512 headgate runs of users that it admits");
  EXPECT_EQ(add(kMaxRuns - kMaxInvitedRuns, {}), "room");
  EXPECT_EQ(add(1, {}), "in the share 's' wait 1024 headgate runs");
}

}  // namespace
}  // namespace headgate::tenancy
