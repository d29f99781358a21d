#include "node/enforce.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "identity/process.hpp"

namespace headgate::node {
namespace {

namespace fs = std::filesystem;

// A /proc with the cgroups of three processes, and the cgroup file system that they name.
class FakeNode {
 public:
  FakeNode() {
    std::string path = (fs::temp_directory_path() / "headgate-enforce-XXXXXX").string();
    directory_ = ::mkdtemp(path.data());
    put("1", "0::/init.scope\n");
    put(std::to_string(::getpid()), "0::/system.slice/headgated.service\n");
  }
  ~FakeNode() { fs::remove_all(directory_); }

  void put(const std::string& pid, const std::string& cgroups) const {
    fs::create_directories(directory_ + "/proc/" + pid);
    std::ofstream(directory_ + "/proc/" + pid + "/cgroup") << cgroups;
  }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(directory_ + file).parent_path());
    std::ofstream(directory_ + file) << text;
  }
  // Writes a process of another user than the test's.
  void put_stranger(const std::string& pid) const {
    write("/proc/" + pid + "/status", "Pid:\t" + pid + "\nUid:\t77\t77\t77\t77\n");
    write("/proc/" + pid + "/task/" + pid + "/stat", pid + " (x) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 4711 0\n");
  }
  void make(const std::string& cgroup) const { fs::create_directories(directory_ + "/cgroup" + cgroup); }
  // Links one of the process's real files.
  void link(const std::string& pid, const std::string& file) const {
    fs::create_directories(directory_ + "/proc/" + pid);
    fs::create_symlink("/proc/" + pid + "/" + file, directory_ + "/proc/" + pid + "/" + file);
  }
  [[nodiscard]] bool has(const std::string& cgroup) const { return fs::exists(directory_ + "/cgroup" + cgroup); }
  [[nodiscard]] std::string content(const std::string& file) const {
    std::ifstream in(directory_ + "/cgroup" + file);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  [[nodiscard]] Roots roots() const { return {.proc = directory_ + "/proc", .cgroup = directory_ + "/cgroup"}; }

 private:
  std::string directory_;
};

// A process that sleeps until it goes out of scope, seen under a fake node's /proc.
class Sleeper {
 public:
  explicit Sleeper(const FakeNode& node) : pid_(::fork()) {
    if (pid_ == 0) {
      ::pause();
      ::_exit(0);
    }
    for (const char* file : {"status", "task", "ns"}) node.link(name(), file);
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  [[nodiscard]] std::string name() const { return std::to_string(pid_); }
  [[nodiscard]] ProcessRef judged() const {
    const auto pid = static_cast<std::uint32_t>(pid_);
    return {pid, identity::read_process("/proc", pid).value_or(identity::Process{}).start_time};
  }

 private:
  pid_t pid_;
};

// Returns what was done, as text.
std::string deed(AuditPolicy policy, const ProcessRef& process_ref, const Roots& roots) {
  const auto done = enforce(policy, process_ref, roots);
  return done ? done->text : "not done: " + done.error().message;
}

// Only the start time shows that a pid was reused.
constexpr const char* kNoProc = "only /proc tells which process a pid is";

TEST(Enforce, OnlyTheJudgedProcessIsKilled) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto pid = static_cast<std::uint32_t>(child);
  const std::uint32_t start_time = identity::read_process("/proc", pid).value().start_time;
  EXPECT_EQ(enforce(AuditPolicy::kill, {pid, start_time + 100}).error().message,
            "process " + std::to_string(pid) + " has ended")
      << "another has its number";
  EXPECT_EQ(enforce(AuditPolicy::kill, {pid, 0}).error().message,
            "process " + std::to_string(pid) +
                " is left alone: /proc does not say when it began, so it may be another by now");
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "it lives";
  const auto done = enforce(AuditPolicy::kill, {pid, start_time});
  if (!done) ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(done.value_or(EnforcementResult{}).text, "was ended");
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_FALSE(enforce(AuditPolicy::kill, {pid, start_time}));
}

TEST(Enforce, AContainerIsFrozenByItsCgroup) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  const FakeNode node;
  const Sleeper sleeper(node);
  node.put(sleeper.name(), "0::/docker/abc\n");
  node.make("/docker/abc");
  ProcessRef other = sleeper.judged();
  other.start_time += 100;
  EXPECT_FALSE(enforce(AuditPolicy::freeze, other, node.roots()));
  EXPECT_EQ(node.content("/docker/abc/cgroup.freeze"), "") << "another has its number";
  EXPECT_EQ(deed(AuditPolicy::freeze, sleeper.judged(), node.roots()), "was frozen with its cgroup /docker/abc");
  EXPECT_EQ(node.content("/docker/abc/cgroup.freeze"), "1");
}

TEST(Enforce, AHybridHostUsesTheHierarchyWithASeparateCgroup) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  const FakeNode node;
  const Sleeper first(node), second(node);
  node.put(first.name(), "5:freezer:/docker/abc\n0::/\n");
  node.make("/freezer/docker/abc");
  node.make("/unified");
  EXPECT_TRUE(enforce(AuditPolicy::freeze, first.judged(), node.roots()));
  EXPECT_EQ(node.content("/freezer/docker/abc/freezer.state"), "FROZEN");
  EXPECT_EQ(node.content("/unified/cgroup.freeze"), "");
  node.put(second.name(), "5:freezer:/\n0::/user.slice/headgate-run-5\n");
  node.make("/unified/user.slice/headgate-run-5");
  EXPECT_EQ(deed(AuditPolicy::freeze, second.judged(), node.roots()),
            "was frozen with its cgroup /user.slice/headgate-run-5");
  EXPECT_EQ(node.content("/unified/user.slice/headgate-run-5/cgroup.freeze"), "1");
}

TEST(Enforce, VersionTwoIsPreferredIfBothAreSeparate) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  const FakeNode node;
  const Sleeper sleeper(node);
  node.put(sleeper.name(), "5:freezer:/docker/abc\n0::/docker/abc\n");
  node.make("/freezer/docker/abc");
  node.make("/unified/docker/abc");
  EXPECT_TRUE(enforce(AuditPolicy::freeze, sleeper.judged(), node.roots()));
  EXPECT_EQ(node.content("/unified/docker/abc/cgroup.freeze"), "1");
  EXPECT_EQ(node.content("/freezer/docker/abc/freezer.state"), "");
}

TEST(Enforce, AProcessInASharedCgroupIsMovedAndFrozenAlone) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  const FakeNode node;
  node.make("/unified/user.slice/session-3.scope/headgate-frozen-5");
  for (const std::string cgroup : {"/", "/system.slice", "/init.scope", "/user.slice/session-3.scope"}) {
    const Sleeper sleeper(node);
    const std::string folder = (cgroup == "/" ? "" : cgroup) + "/headgate-frozen-" + sleeper.name();
    node.put(sleeper.name(), "5:freezer:/\n0::" + cgroup + "\n");
    node.make("/unified" + cgroup);
    EXPECT_EQ(deed(AuditPolicy::freeze, sleeper.judged(), node.roots()), "was frozen alone, in the cgroup " + folder);
    EXPECT_EQ(node.content("/unified" + folder + "/cgroup.procs"), sleeper.name());
    EXPECT_EQ(node.content("/unified" + folder + "/cgroup.freeze"), "1");
    EXPECT_EQ(node.content("/unified" + cgroup + "/cgroup.freeze"), "");
  }
  EXPECT_FALSE(node.has("/unified/user.slice/session-3.scope/headgate-frozen-5"))
      << "the cgroup of a process that has ended was kept";
}

TEST(Enforce, AProcessInAServicesCgroupIsFrozenAlone) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  for (const std::string where : {"", "/job"}) {
    const FakeNode node;
    const Sleeper sleeper(node), own(node);
    const std::string cron = "/system.slice/cron.service";
    node.put(sleeper.name(), "0::" + cron + "\n");
    node.write("/cgroup" + cron + "/cgroup.procs", sleeper.name() + "\n" + own.name() + "\n");
    EXPECT_EQ(deed(AuditPolicy::freeze, sleeper.judged(), node.roots()), "was frozen with its cgroup " + cron);
    node.write("/cgroup" + cron + "/cgroup.freeze", "0");
    node.put_stranger("4000001");
    node.write("/cgroup" + cron + where + "/cgroup.procs", sleeper.name() + "\n4000001\n");
    EXPECT_EQ(deed(AuditPolicy::freeze, sleeper.judged(), node.roots()),
              "was frozen alone, in the cgroup " + cron + "/headgate-frozen-" + sleeper.name());
    EXPECT_EQ(node.content(cron + "/cgroup.freeze"), "0");
  }
}

TEST(Enforce, VersionOneIsUsedWithoutVersionTwo) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  const FakeNode node;
  const Sleeper sleeper(node);
  node.put(sleeper.name(), "5:freezer:/\n1:name=systemd:/system.slice\n");
  node.make("/freezer");
  EXPECT_TRUE(enforce(AuditPolicy::freeze, sleeper.judged(), node.roots()));
  EXPECT_EQ(node.content("/freezer/headgate-frozen-" + sleeper.name() + "/freezer.state"), "FROZEN");
}

TEST(Enforce, AProcessThatCannotBeMovedIsNotFrozen) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  const FakeNode node;
  const Sleeper sleeper(node);
  // There is no version-2 cgroup below which one could be made.
  for (const char* cgroups : {"0::/\n", "0::/system.slice\n", "0::/../other\n", "3:cpu:/\n", ""}) {
    node.put(sleeper.name(), cgroups);
    EXPECT_FALSE(enforce(AuditPolicy::freeze, sleeper.judged(), node.roots())) << cgroups;
  }
  EXPECT_FALSE(node.has("/unified"));
  node.make("/../other");
  node.put(sleeper.name(), "0::/../other\n");
  EXPECT_FALSE(enforce(AuditPolicy::freeze, sleeper.judged(), node.roots()));
  EXPECT_FALSE(node.has("/../other/headgate-frozen-" + sleeper.name())) << "it lies in no cgroup of ours";
  EXPECT_FALSE(enforce(AuditPolicy::freeze, {.pid = 78, .start_time = 5}, node.roots()));  // no such process
}

// Without it, a table cannot show which process is frozen, nor how to end that.
TEST(FrozenProcesses, AreShownUntilThawedOrMovedAway) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  for (const bool moved : {false, true}) {
    const FakeNode node;
    const Sleeper sleeper(node);
    node.put(sleeper.name(), "0::/docker/abc\n");
    node.make("/docker/abc");
    const auto done = enforce(AuditPolicy::freeze, sleeper.judged(), node.roots());
    ASSERT_TRUE(done && done->frozen);
    FrozenProcesses frozen(node.roots());
    frozen.add(sleeper.judged(), *done->frozen);
    const auto shown = [&](std::uint32_t pid) {
      snapshot::Snapshot snapshot;
      snapshot.processes.resize(1);
      snapshot.processes[0].pid = pid;
      frozen.write_into(snapshot);
      return snapshot.processes[0].freeze;
    };
    const std::uint32_t pid = sleeper.judged().pid;
    EXPECT_FALSE(shown(pid + 1));
    EXPECT_EQ(shown(pid),
              (snapshot::Freeze{"/docker/abc", "echo 0 > " + node.roots().cgroup + "/docker/abc/cgroup.freeze"}));
    if (moved) node.put(sleeper.name(), "0::/other\n");
    else node.write("/cgroup/docker/abc/cgroup.freeze", "0");
    EXPECT_FALSE(shown(pid));
  }
}

TEST(FrozenProcesses, AreNotConfusedWithALaterProcessOfThatPid) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProc;
  const FakeNode node;
  const Sleeper sleeper(node);
  node.put(sleeper.name(), "5:freezer:/docker/abc\n");
  node.make("/freezer/docker/abc");
  const auto done = enforce(AuditPolicy::freeze, sleeper.judged(), node.roots());
  ASSERT_TRUE(done && done->frozen);
  EXPECT_EQ(done->frozen->thaw, "THAWED");
  ProcessRef former = sleeper.judged();
  former.start_time -= 1;
  FrozenProcesses frozen(node.roots());
  snapshot::Snapshot snapshot;
  snapshot.processes.resize(1);
  snapshot.processes[0].pid = former.pid;
  frozen.add(former, *done->frozen);
  frozen.write_into(snapshot);
  EXPECT_FALSE(snapshot.processes[0].freeze);
  frozen.add(sleeper.judged(), *done->frozen);
  frozen.write_into(snapshot);
  EXPECT_TRUE(snapshot.processes[0].freeze);
}

TEST(Enforce, HeadgatedAndInitAreNeverActedOn) {
  for (const auto policy : {AuditPolicy::freeze, AuditPolicy::kill}) {
    for (const std::uint32_t pid : {0u, 1u, static_cast<std::uint32_t>(::getpid())})
      EXPECT_EQ(deed(policy, {pid, 5}, {}), "not done: process " + std::to_string(pid) + " is never acted on");
  }
}

TEST(Enforce, APolicyIsReadOrRefused) {
  EXPECT_EQ(parse_audit_policy("kill"), AuditPolicy::kill);
  EXPECT_EQ(parse_audit_policy("shoot").error().hint, "accepted: warn, freeze, kill");
}

}  // namespace
}  // namespace headgate::node
