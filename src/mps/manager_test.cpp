// The life of control daemons, with the stand-in and with NVIDIA's tool (neither needs a GPU).
#include "mps/manager.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "identity/process.hpp"
#include "mps/test_mps.hpp"

namespace headgate::mps {
namespace {

// The simulator's tool, and NVIDIA's of releases 535, 550 and a later one, which dev/real-parts unpacks.
std::vector<std::string> tools() {
  return {HEADGATE_SIM_MPS_TOOL, HEADGATE_REAL_MPS_TOOL, HEADGATE_MPS_TOOL_550, HEADGATE_MPS_TOOL_LATER};
}

class MpsManager : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (::access(GetParam().c_str(), X_OK) != 0) GTEST_SKIP() << "dev/real-parts has not been run";
  }
  MpsFolder folder_;
};

TEST_P(MpsManager, StartsWithTheFirstTenantAndStopsAfterTheLast) {
  Manager manager(folder_.options(GetParam()));
  const Sleeper one, other;
  EXPECT_EQ(folder_.running_daemon(), 0u) << "none runs for an idle share";
  const auto first = manager.acquire(tenant_of(one, {.percent = 30, .pinned_bytes = 1500ull << 20}));
  ASSERT_TRUE(first) << first.error().message << first.error().hint;
  const std::uint32_t daemon = folder_.running_daemon();
  ASSERT_NE(daemon, 0u) << "it is ready when acquire() returns";
  EXPECT_EQ(manager.groups().at(0).daemon_pid, daemon) << "the daemon's pid, not the launcher's";
  const Variables expected = {{"CUDA_MPS_PIPE_DIRECTORY", folder_.places().pipe},
                              {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"},
                              {"CUDA_MPS_CLIENT_PRIORITY", "0"},
                              {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1500M"}};
  EXPECT_EQ(*first, expected);

  ASSERT_TRUE(manager.acquire(tenant_of(other, {.percent = 60})));
  EXPECT_EQ(folder_.running_daemon(), daemon) << "the second only counts";
  EXPECT_EQ(manager.groups().at(0).settings, (Settings{.percent = 60})) << "the daemon allows what the widest may";
  manager.release(one.mark());
  EXPECT_EQ(folder_.running_daemon(), daemon);
  manager.release(other.mark());
  EXPECT_EQ(folder_.running_daemon(), 0u);
  EXPECT_TRUE(manager.groups().empty());
  EXPECT_EQ(folder_.told("mps.stopped").size(), 1u);
  EXPECT_TRUE(load_book(folder_.file())->empty());
}

TEST_P(MpsManager, WorksInAFolderWithCharactersOfTheShell) {
  auto options = folder_.options(GetParam());
  const std::filesystem::path around = std::filesystem::path(options.base).parent_path();
  options.base = around / "a 'b\"; $(>c)";
  Manager manager(options);
  const Sleeper tenant;
  const auto variables = manager.acquire(tenant_of(tenant));
  ASSERT_TRUE(variables) << variables.error().message;
  const std::string pipe = variables->at(0).second;
  EXPECT_TRUE(pipe.starts_with(options.base + "/")) << pipe;
  EXPECT_TRUE(daemon_at(pipe, "/proc"));
  manager.release(tenant.mark());
  EXPECT_FALSE(daemon_at(pipe, "/proc")) << "the quit has reached it";
  EXPECT_EQ(folder_.told("mps.stopped").size(), 1u);
  EXPECT_TRUE(folder_.told("mps.failed").empty());
  EXPECT_FALSE(std::filesystem::exists("c"));
}

TEST_P(MpsManager, GroupsOfTwoUsersHaveDaemonsApart) {
  Manager manager(folder_.options(GetParam()));
  const Sleeper one, other;
  ASSERT_TRUE(manager.acquire(tenant_of(one, {}, 0)));
  ASSERT_TRUE(manager.acquire(tenant_of(other, {}, 1)));
  EXPECT_NE(folder_.running_daemon(0), folder_.running_daemon(1));
  manager.release(one.mark());
  EXPECT_EQ(folder_.running_daemon(0), 0u);
  EXPECT_NE(folder_.running_daemon(1), 0u);
}

TEST_P(MpsManager, ARestartKeepsTheDaemonAndItsCounts) {
  const Sleeper stays;
  Sleeper goes;
  {
    Manager former(folder_.options(GetParam()));
    ASSERT_TRUE(former.acquire(tenant_of(stays)));
    ASSERT_TRUE(former.acquire(tenant_of(goes)));
  }
  const std::uint32_t daemon = folder_.running_daemon();
  goes.end();
  Manager next(folder_.options(GetParam()));
  ASSERT_TRUE(next.adopt());
  EXPECT_EQ(folder_.running_daemon(), daemon);
  ASSERT_EQ(next.groups().size(), 1u);
  EXPECT_EQ(next.groups().at(0).holders.size(), 1u);
  EXPECT_EQ(folder_.told("mps.adopted").size(), 1u);
  next.release(stays.mark());
  EXPECT_EQ(folder_.running_daemon(), 0u);
}

TEST_P(MpsManager, ARestartAfterTheLastTenantStopsTheDaemon) {
  Sleeper tenant;
  {
    Manager former(folder_.options(GetParam()));
    ASSERT_TRUE(former.acquire(tenant_of(tenant)));
  }
  tenant.end();
  Manager next(folder_.options(GetParam()));
  ASSERT_TRUE(next.adopt());
  EXPECT_EQ(folder_.running_daemon(), 0u);
  EXPECT_TRUE(next.groups().empty());
}

TEST_P(MpsManager, LeavesAForeignDaemonAloneAndNamesIt) {
  ASSERT_TRUE(make_places(folder_.base(), folder_.places()));
  ASSERT_TRUE(Tool(GetParam(), folder_.places(), kTestUuid).start());
  const std::uint32_t foreign = folder_.running_daemon();
  ASSERT_NE(foreign, 0u);
  Manager manager(folder_.options(GetParam()));
  ASSERT_TRUE(manager.adopt());
  const Sleeper tenant;
  const auto refused = manager.acquire(tenant_of(tenant));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::conflict);
  EXPECT_NE(refused.error().message.find(std::to_string(foreign)), std::string::npos) << refused.error().message;
  EXPECT_EQ(folder_.running_daemon(), foreign);

  // The noted daemon was replaced by a foreign one while our daemon was down.
  GroupNote note{.key = {kTestUuid, 0}, .daemon = {.pid = 1, .start_time = 1}, .settings = {}, .holders = {}};
  note.holders.push_back({.process = tenant.mark(), .share = "m"});
  ASSERT_TRUE(save_book(folder_.file(), {note}));
  Manager next(folder_.options(GetParam()));
  ASSERT_TRUE(next.adopt());
  EXPECT_EQ(folder_.told("mps.foreign").size(), 1u);
  EXPECT_EQ(folder_.running_daemon(), foreign);
}

// The pipe directory is open to all users, and a daemon of ours that was being started has no PID in the note.
TEST_P(MpsManager, DoesNotAdoptAListenerOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  ASSERT_TRUE(make_places(folder_.base(), folder_.places()));
  ASSERT_EQ(::chmod(std::filesystem::path(folder_.base()).parent_path().c_str(), 0755), 0);
  const std::string path = folder_.places().pipe + "/control";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    const bool made = ::setresuid(65'534, 65'534, 65'534) == 0 &&
                      ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                      ::listen(listener, 8) == 0;
    if (::write(ready[1], made ? "y" : "n", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char made = 0;
  EXPECT_EQ(::read(ready[0], &made, 1), 1);
  EXPECT_EQ(made, 'y');
  const Sleeper tenant;
  GroupNote note{.key = {kTestUuid, 0}, .daemon = {}, .settings = {}, .holders = {}};
  note.holders.push_back({.process = tenant.mark(), .share = "m"});
  ASSERT_TRUE(save_book(folder_.file(), {note}));
  Manager manager(folder_.options(GetParam()));
  EXPECT_TRUE(manager.adopt());
  EXPECT_EQ(folder_.told("mps.foreign").size(), 1u);
  EXPECT_TRUE(folder_.told("mps.adopted").empty());
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_P(MpsManager, NamesAForeignDaemonElsewhereOnce) {
  const MpsFolder elsewhere;
  ASSERT_TRUE(make_places(elsewhere.base(), elsewhere.places()));
  ASSERT_TRUE(Tool(GetParam(), elsewhere.places(), kTestUuid).start());
  auto options = folder_.options(GetParam());
  options.foreign_pipes = {elsewhere.places().pipe};
  Manager manager(options);
  const Sleeper tenant, other;
  ASSERT_TRUE(manager.acquire(tenant_of(tenant, {}, 0)));
  ASSERT_TRUE(manager.acquire(tenant_of(other, {}, 1)));
  ASSERT_EQ(folder_.told("mps.foreign").size(), 1u);
  EXPECT_NE(folder_.told("mps.foreign")[0].find(std::to_string(elsewhere.running_daemon())), std::string::npos);
  EXPECT_NE(elsewhere.running_daemon(), 0u);
}

TEST_P(MpsManager, StartsDespiteFilesOfAKilledDaemon) {
  const Sleeper tenant;
  Manager manager(folder_.options(GetParam()));
  ASSERT_TRUE(manager.acquire(tenant_of(tenant)));
  const auto daemon = daemon_at(folder_.places().pipe, "/proc");
  ASSERT_TRUE(daemon);
  ASSERT_TRUE(kill_daemon(*daemon, ItsServers::kill, "/proc"));
  ASSERT_TRUE(std::filesystem::exists(folder_.places().pipe + "/control")) << "it leaves its socket";
  manager.look();
  EXPECT_EQ(folder_.told("mps.died").size(), 1u);
  EXPECT_EQ(folder_.told("mps.restarted").size(), 1u);
  EXPECT_NE(folder_.running_daemon(), 0u);
  EXPECT_NE(folder_.running_daemon(), daemon->mark.pid);
  manager.release(tenant.mark());
  EXPECT_EQ(folder_.running_daemon(), 0u);
}

// Else its programs would go on without MPS, and the daemon that follows would be too narrow for the others.
TEST_P(MpsManager, ATenantThatFindsADeadDaemonHasItReplacedForAll) {
  const Sleeper one, other;
  Manager manager(folder_.options(GetParam()));
  ASSERT_TRUE(manager.acquire(tenant_of(one, {.percent = 60})));
  const auto daemon = daemon_at(folder_.places().pipe, "/proc");
  ASSERT_TRUE(daemon && kill_daemon(*daemon, ItsServers::kill, "/proc"));
  const auto variables = manager.acquire(tenant_of(other, {.percent = 30}));
  ASSERT_TRUE(variables) << variables.error().message;
  EXPECT_NE(folder_.running_daemon(), 0u);
  EXPECT_EQ(folder_.told("mps.died").size(), 1u);
  EXPECT_EQ(manager.groups().at(0).settings, (Settings{.percent = 60}));
  EXPECT_EQ(manager.groups().at(0).restarts, 1u);
  const std::uint32_t next = folder_.running_daemon();
  manager.look();
  EXPECT_EQ(folder_.running_daemon(), next) << "it is as it should be";
}

// A tenant that asks again, for example a program that joins a run.
TEST_P(MpsManager, ATenantThatFindsItsOwnDeadDaemonGetsASoundGroup) {
  const Sleeper tenant;
  Manager manager(folder_.options(GetParam()));
  ASSERT_TRUE(manager.acquire(tenant_of(tenant)));
  std::ofstream(folder_.places().log + "/server.log", std::ios::app) << "Command handle failed\n";
  manager.look();
  EXPECT_TRUE(manager.is_unsettled({kTestUuid, 0}));
  const auto daemon = daemon_at(folder_.places().pipe, "/proc");
  ASSERT_TRUE(daemon && kill_daemon(*daemon, ItsServers::kill, "/proc"));
  ASSERT_TRUE(manager.acquire(tenant_of(tenant)));
  EXPECT_NE(folder_.running_daemon(), 0u);
  EXPECT_EQ(manager.groups().at(0).restarts, 1u);
  EXPECT_FALSE(manager.is_unsettled({kTestUuid, 0})) << "nothing of the former server is left";
}

// Its mark is in the note, and nothing else tells it: no socket, and no environment of ours.
TEST_P(MpsManager, TheNotedDaemonWithoutASocketIsEnded) {
  ASSERT_TRUE(make_places(folder_.base(), folder_.places()));
  const Sleeper noted, tenant;
  GroupNote note{.key = {kTestUuid, 0}, .daemon = noted.mark(), .settings = {}, .holders = {}};
  note.holders.push_back({.process = tenant.mark(), .share = "m"});
  ASSERT_TRUE(save_book(folder_.file(), {note}));
  const ProcessMark mark = noted.mark();
  Manager next(folder_.options(GetParam()));
  ASSERT_TRUE(next.adopt());
  EXPECT_FALSE(open_process(mark, "/proc"));
  EXPECT_TRUE(folder_.told("mps.failed").empty());
  EXPECT_EQ(next.groups().at(0).daemon_pid, folder_.running_daemon());
  EXPECT_NE(folder_.running_daemon(), 0u);
}

TEST_P(MpsManager, ReadsBackEachSetting) {
  const Sleeper tenant;
  Manager manager(folder_.options(GetParam()));
  ASSERT_TRUE(manager.acquire(tenant_of(tenant)));
  const Tool tool(GetParam(), folder_.places(), kTestUuid);
  for (const std::uint64_t mebibytes : {1ull, 512ull, 1024ull, 1500ull, 81559ull}) {
    const auto set = tool.set({.percent = 33, .pinned_bytes = mebibytes << 20});
    EXPECT_TRUE(set) << mebibytes << " MiB: " << set.error().message;
  }
  for (const std::uint32_t percent : {0u, 101u}) {
    EXPECT_EQ(tool.set({.percent = percent}).error().code, ErrorCode::usage) << percent;
    EXPECT_EQ(manager.acquire(tenant_of(Sleeper(), {.percent = percent})).error().code, ErrorCode::usage);
  }
  EXPECT_EQ(tool.set({.percent = 50, .pinned_bytes = 0}).error().code, ErrorCode::usage);
  EXPECT_TRUE(tool.servers()->empty());
  EXPECT_FALSE(tool.terminate(4711, 4712));
}

TEST_P(MpsManager, LeavesNothingBehindAfterAFailedStart) {
  const Sleeper tenant;
  auto options = folder_.options("/nothing/of/that/name");
  Manager missing(options);
  const auto refused = missing.acquire(tenant_of(tenant));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().message.find("MPS start"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(missing.groups().empty());
  EXPECT_TRUE(load_book(folder_.file())->empty());
}

// It has done its work, and does not end.
TEST_P(MpsManager, ADaemonOfALauncherThatHangsIsNotLeft) {
  const std::filesystem::path folder = std::filesystem::path(folder_.base()).parent_path();
  std::ofstream(folder / "tool") << "#!/bin/sh\n" << GetParam() << " \"$@\" && exec sleep 600\n";
  std::filesystem::permissions(folder / "tool", std::filesystem::perms::owner_all);
  auto options = folder_.options(folder / "tool");
  options.limits.start = std::chrono::milliseconds(500);
  Manager manager(options);
  const Sleeper tenant;
  const auto refused = manager.acquire(tenant_of(tenant));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unreachable) << refused.error().message;
  EXPECT_EQ(folder_.running_daemon(), 0u);
  EXPECT_TRUE(manager.groups().empty());
  Manager sound(folder_.options(GetParam()));
  EXPECT_TRUE(sound.acquire(tenant_of(tenant))) << "nothing foreign is in the way";
}

// Our daemon is killed while the launcher runs: nothing listens yet, and no note has the launcher's PID.
TEST_P(MpsManager, ALauncherOfAKilledDaemonIsNotLeft) {
  const std::filesystem::path folder = std::filesystem::path(folder_.base()).parent_path();
  const std::string gate = folder / "gate";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  std::ofstream(folder / "tool") << "#!/bin/sh\nread -r line <" << gate << "\nexec " << GetParam() << " \"$@\"\n";
  std::filesystem::permissions(folder / "tool", std::filesystem::perms::owner_all);
  Sleeper tenant;
  const pid_t killed = ::fork();
  if (killed == 0) {
    Manager manager(folder_.options(folder / "tool"));
    (void)manager.acquire(tenant_of(tenant));
    ::_exit(0);
  }
  ASSERT_TRUE(comes_true([&] { return started_for(folder_.places(), "/proc").size() == 1; }));
  const ProcessMark launcher = started_for(folder_.places(), "/proc").at(0);
  ::kill(killed, SIGKILL);
  ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
  EXPECT_TRUE(open_process(launcher, "/proc")) << "it goes on without us";

  Manager next(folder_.options(GetParam()));
  ASSERT_TRUE(next.adopt());
  EXPECT_FALSE(open_process(launcher, "/proc"));
  const auto all = started_for(folder_.places(), "/proc");
  ASSERT_EQ(all.size(), 1u) << "the living tenant's, and no other";
  EXPECT_EQ(all[0].pid, folder_.running_daemon());
  EXPECT_EQ(all[0].pid, next.groups().at(0).daemon_pid);
  next.release(tenant.mark());
  EXPECT_TRUE(started_for(folder_.places(), "/proc").empty());
}

// Programs of tenants have the pipe directory too, and may even have our tool's words.
TEST_P(MpsManager, ATenantWithTheSamePipeIsNotTakenForADaemon) {
  Manager manager(folder_.options(GetParam()));
  const Sleeper holder;
  ASSERT_TRUE(manager.acquire(tenant_of(holder)));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t program = ::fork();
  if (program == 0) {
    ::dup2(ends[0], STDIN_FILENO);
    ::setenv("CUDA_MPS_PIPE_DIRECTORY", folder_.places().pipe.c_str(), 1);
    ::execl("/bin/sh", "sh", "-c", "read -r line; :", "-d", nullptr);
    ::_exit(1);
  }
  ASSERT_TRUE(comes_true([&] {
    const auto words = identity::read_file("/proc/" + std::to_string(program) + "/cmdline");
    return words && words->starts_with("sh");
  }));
  const auto all = started_for(folder_.places(), "/proc");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].pid, folder_.running_daemon());
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

// As a container's, whose processes we may see.
TEST(MpsStarted, AProcessOfAnotherPidNamespaceIsNone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a pid namespace";
  const MpsFolder folder;
  for (const bool contained : {false, true}) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
      if (contained && ::unshare(CLONE_NEWPID) != 0) ::_exit(2);
      const pid_t program = ::fork();
      if (program == 0) {
        ::dup2(ends[0], STDIN_FILENO);
        ::setenv("CUDA_MPS_PIPE_DIRECTORY", folder.places().pipe.c_str(), 1);
        ::setenv("CUDA_MPS_LOG_DIRECTORY", folder.places().log.c_str(), 1);
        ::execl("/bin/sh", "sh", "-c", "read -r line; :", "-d", nullptr);
        ::_exit(1);
      }
      ::close(ends[1]);
      int status = 1;
      ::waitpid(program, &status, 0);
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    ::close(ends[0]);
    bool is_refused = false;
    const auto runs = [&] {
      for (const identity::Process& process : identity::list_processes("/proc").all) {
        const auto words = identity::read_file("/proc/" + std::to_string(process.pid) + "/cmdline");
        if (process.parent == static_cast<std::uint32_t>(parent) && words && words->starts_with("sh")) return true;
      }
      is_refused = ::waitpid(parent, nullptr, WNOHANG) == parent;
      return is_refused;
    };
    EXPECT_TRUE(comes_true(runs));
    const std::size_t found = started_for(folder.places(), "/proc").size();
    ::close(ends[1]);
    if (is_refused) GTEST_SKIP() << "this machine makes no pid namespace";
    ::waitpid(parent, nullptr, 0);
    EXPECT_EQ(found, contained ? 0u : 1u);
  }
}

TEST(MpsAcquire, GivesTenantsTheirSharesPriority) {
  const MpsFolder folder;
  const Sleeper process;
  Tenant tenant = tenant_of(process);
  for (const bool low : {false, true}) {
    tenant.low_priority = low;
    const auto variables = variables_of(tenant, folder.places());
    const auto priority =
        std::ranges::find(variables, "CUDA_MPS_CLIENT_PRIORITY", &std::pair<std::string, std::string>::first);
    ASSERT_NE(priority, variables.end());
    EXPECT_EQ(priority->second, low ? "1" : "0");
  }
}

TEST(MpsAcquire, RefusesAPathThatIsTooLongAndLeavesNothing) {
  MpsFolder folder;
  auto options = folder.options(HEADGATE_SIM_MPS_TOOL);
  options.base += "/" + std::string(100, 'x');
  Manager manager(options);
  const Sleeper tenant;
  const auto refused = manager.acquire(tenant_of(tenant));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::usage);
  EXPECT_NE(refused.error().message.find("a socket's path is at most 107"), std::string::npos);
  EXPECT_TRUE(manager.groups().empty());
  EXPECT_FALSE(std::filesystem::exists(folder.base()));
}

TEST(MpsAcquire, RefusesAnotherUsersDirectoryAndLeavesNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  MpsFolder folder;
  ASSERT_TRUE(make_places(folder.base(), folder.places()));
  ASSERT_EQ(::chown(folder.places().pipe.c_str(), 12345, 12345), 0);
  Manager manager(folder.options(HEADGATE_SIM_MPS_TOOL));
  const Sleeper tenant;
  const auto refused = manager.acquire(tenant_of(tenant));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::denied);
  EXPECT_EQ(folder.running_daemon(), 0u);
  EXPECT_TRUE(manager.groups().empty());
  EXPECT_TRUE(load_book(folder.file())->empty());
}

// In a private mount namespace, with a small file system that is full.
TEST(MpsFullDisk, StartsNothingAndReportsIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small file system";
  const MpsFolder folder;
  std::filesystem::create_directory(folder.base());
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, "") != 0 ||
        ::mount("tmpfs", folder.base().c_str(), "tmpfs", 0, "size=16k") != 0)
      ::_exit(2);
    Manager::Options options;
    options.tool = HEADGATE_SIM_MPS_TOOL;
    options.foreign_pipes = {};
    options.base = folder.base() + "/b";
    options.file = folder.base() + "/mps.json";
    std::ofstream(folder.base() + "/fill") << std::string(64 << 10, 'x');
    Sleeper tenant;
    Manager manager(options);
    const auto refused = manager.acquire(tenant_of(tenant));
    const bool said = !refused && refused.error().message.contains("No space left");
    std::filesystem::remove(folder.base() + "/fill");
    const bool works = manager.acquire(tenant_of(tenant)).has_value();
    manager.release(tenant.mark());
    tenant.end();
    ::_exit(said && works && manager.groups().empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "this machine lets nothing be mounted";
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(EachTool, MpsManager, ::testing::ValuesIn(tools()), [](const auto& tested) {
  return std::string(tested.param == HEADGATE_SIM_MPS_TOOL    ? "StandIn"
                     : tested.param == HEADGATE_REAL_MPS_TOOL ? "Nvidia535"
                     : tested.param == HEADGATE_MPS_TOOL_550  ? "Nvidia550"
                                                              : "NvidiaLater");
});

}  // namespace
}  // namespace headgate::mps
