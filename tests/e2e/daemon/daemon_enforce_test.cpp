// The audit of GPU time, the actions of audit.policy on the programs it names, and policies that an administrator sets
// at run time: with real programs under the built daemon.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "daemon_program.hpp"
#include "sim/truth.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;

Environment tenant_of(const Daemon& daemon, const std::string& share) {
  return {{"HEADGATE_SHARE", share},
          {"HEADGATE_SHARE_DIR", daemon.cli().runtime() + "/shares/" + share},
          {"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()},
          {"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"},
          {"LD_LIBRARY_PATH", SIMULATOR_DIR},
          {"LD_PRELOAD", HEADGATE_LIMITER}};
}

// Waits for the first event of that kind and returns it; if `pid` is set, of that process only.
std::optional<nlohmann::json> event_of(const Daemon& daemon, const std::string& kind, pid_t pid) {
  std::optional<nlohmann::json> found;
  static_cast<void>(eventually([&] {
    const auto events = nlohmann::json::parse(daemon.ask("GET", "/v1/events").body);
    for (const auto& event : events.is_array() ? events : events.at("events"))
      if (event.at("kind") == kind && event.at("pid") == pid) return found = event, true;
    return false;
  }));
  if (!found) ADD_FAILURE() << "no " << kind << " of " << pid << ": " << daemon.ask("GET", "/v1/events").body;
  return found;
}

// A copy of the driver's library with another soname. Calls through it bypass the limiter.
std::string own_driver(const Daemon& daemon) {
  std::string path = daemon.cli().directory() + "/libmine.so";
  std::ifstream in(SIMULATOR_DIR "/libcuda.so.1", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const std::string_view name("\0libcuda.so.1\0", 14), other("\0libmine.", 9);
  for (std::size_t at = 0; (at = bytes.find(name, at)) != bytes.npos;) bytes.replace(at, other.size(), other);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::vector<std::string> audit_policy(const Directory& directory, const std::string& policy) {
  std::ofstream(directory.path() + "/config.toml") << "[audit]\npolicy = \"" << policy << "\"\n";
  return {"--config", directory.path() + "/config.toml"};
}

// Joins its share through one library and launches kernels through another.
TEST(DaemonAuditCompute, AnUnmeteredMemberIsNamedWithItsFigures) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 4GiB --compute 30%").status, 0);
  const std::string copy = own_driver(daemon);
  auto environment = tenant_of(daemon, "alice");
  environment["BYPASS_FIRST"] = "libcuda.so.1";
  Program rogue({BYPASS_PROGRAM, copy}, environment);
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  rogue.say("compute");
  ASSERT_EQ(rogue.line(), "0") << rogue.errors();
  const auto event = event_of(daemon, "audit.compute", rogue.pid());
  ASSERT_TRUE(event);
  EXPECT_EQ(event->at("share"), "alice");
  const std::string text = event->at("text");
  EXPECT_NE(text.find("busy according to the driver, the whole share 0 % according to its ledger"), std::string::npos)
      << text;
  // In the same event, or in a later one if it was not known by then.
  EXPECT_TRUE(eventually(
      [&] { return daemon.ask("GET", "/v1/events").body.contains("a copy of the driver's library: " + copy); }));
}

// The share has no ceiling and may use the whole GPU, and its other process has a correct account.
TEST(DaemonAuditCompute, AnUnmeteredMemberIsNamedBesideAnHonestOne) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 4GiB --weight 10").status, 0);
  const Program honest({HEADGATE_LOAD, "--duration=60s", "--kernels=1ms", "--sync=depth:4", "--no-idle-list"},
                       tenant_of(daemon, "alice"));
  ASSERT_TRUE(eventually([&] { return daemon.share("alice").devices.at(0).held_ns > 200'000'000; }));
  auto environment = tenant_of(daemon, "alice");
  environment["BYPASS_FIRST"] = "libcuda.so.1";
  Program rogue({BYPASS_PROGRAM, own_driver(daemon)}, environment);
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  rogue.say("compute");
  ASSERT_EQ(rogue.line(), "0") << rogue.errors();
  const auto event = event_of(daemon, "audit.compute", rogue.pid());
  ASSERT_TRUE(event);
  const std::string text = event->at("text");
  EXPECT_NE(text.find("busy according to the driver, and has launched nothing according to its ledger"),
            std::string::npos)
      << text;
  EXPECT_FALSE(daemon.ask("GET", "/v1/events")
                   .body.contains("process " + std::to_string(honest.pid()) +
                                  " (headgate-load)"
                                  " of share alice keeps"));
}

// An honest program that its meter holds at 30 % is not named: the GPU is as busy as its account says.
TEST(DaemonAuditCompute, AMemberThatWaitsForItsMeterIsNotNamed) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 4GiB --compute 30%").status, 0);
  const Program honest({HEADGATE_LOAD, "--duration=60s", "--kernels=1ms", "--no-idle-list"},
                       tenant_of(daemon, "alice"));
  ASSERT_TRUE(eventually([&] { return daemon.share("alice").devices.at(0).held_ns > 1'000'000'000; }));
  EXPECT_EQ(daemon.ask("GET", "/v1/events").body.find("audit."), std::string::npos);
}

TEST(DaemonEnforce, KillEndsOutsidersAndMembersContinue) {
  const Directory directory;
  const Daemon daemon(audit_policy(directory, "kill"));
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 4GiB").status, 0);
  Program member({BYPASS_PROGRAM, "libcuda.so.1"}, tenant_of(daemon, "alice"));
  ASSERT_EQ(member.line(), "ready 0") << member.errors();
  auto environment = tenant_of(daemon, "alice");
  environment["LD_PRELOAD"] = "";
  Program rogue({BYPASS_PROGRAM, "libcuda.so.1"}, environment);
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  const auto event = event_of(daemon, "audit.acted", rogue.pid());
  ASSERT_TRUE(event);
  EXPECT_NE(event->at("text").get<std::string>().find("was ended"), std::string::npos);
  EXPECT_EQ(rogue.wait(), 128 + SIGKILL);
  member.say("alloc 1048576");
  EXPECT_EQ(member.line(), "0");
}

// The ledger agreed with the driver before, so the process lies. Otherwise the ledger might just not know.
TEST(DaemonEnforce, KillEndsAMemberAboveItsTrustedLedger) {
  const Directory directory;
  const Daemon daemon(audit_policy(directory, "kill"));
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 4GiB").status, 0);
  Program member({BYPASS_PROGRAM, "libcuda.so.1"}, tenant_of(daemon, "alice"));
  ASSERT_EQ(member.line(), "ready 0") << member.errors();
  auto environment = tenant_of(daemon, "alice");
  environment["BYPASS_FIRST"] = "libcuda.so.1";
  Program rogue({BYPASS_PROGRAM, own_driver(daemon)}, environment);
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  ASSERT_TRUE(eventually([&] { return daemon.share("alice").devices.at(0).memory_residual_bytes > 0; }));
  rest_ms(500);
  rogue.say("alloc 536870912");
  ASSERT_EQ(rogue.line(), "0");
  const auto event = event_of(daemon, "audit.acted", rogue.pid());
  ASSERT_TRUE(event);
  EXPECT_EQ(event->at("share"), "alice");
  EXPECT_EQ(rogue.wait(), 128 + SIGKILL);
  member.say("alloc 1048576");
  EXPECT_EQ(member.line(), "0");
}

// A cgroup for the test, in the hierarchy that can freeze: version 1's freezer if it exists. Removed with all processes
// in it.
class OwnCgroup {
 public:
  OwnCgroup() {
    const bool old = ::access("/sys/fs/cgroup/freezer/cgroup.procs", F_OK) == 0;
    path_ = (old ? "/sys/fs/cgroup/freezer" : "/sys/fs/cgroup") + std::string("/headgate-test-") +
            std::to_string(::getpid());
    file_ = path_ + (old ? "/freezer.state" : "/cgroup.freeze");
    thaw_ = old ? "THAWED" : "0";
    std::error_code failed;
    made_ = fs::create_directory(path_, failed) && ::access(file_.c_str(), W_OK) == 0;
  }
  ~OwnCgroup() {
    thaw();
    for (int i = 0; i < 100 && ::rmdir(path_.c_str()) != 0 && errno == EBUSY; ++i) rest_ms(20);
  }
  OwnCgroup(const OwnCgroup&) = delete;
  OwnCgroup& operator=(const OwnCgroup&) = delete;

  [[nodiscard]] bool made() const { return made_; }
  void thaw() const { std::ofstream(file_) << thaw_; }
  [[nodiscard]] bool take(pid_t pid) const {
    std::ofstream procs(path_ + "/cgroup.procs");
    return procs << pid && procs.flush();
  }
  [[nodiscard]] std::string state() const {
    std::string word;
    std::ifstream(file_) >> word;
    return word;
  }

 private:
  std::string path_, file_, thaw_;
  bool made_ = false;
};

TEST(DaemonEnforce, FreezeStopsOutsidersUntilThawed) {
  const OwnCgroup cgroup;
  if (!cgroup.made()) GTEST_SKIP() << "this machine makes no cgroups";
  const Directory directory;
  const Daemon daemon(audit_policy(directory, "freeze"));
  auto environment = tenant_of(daemon, "missing");
  environment["LD_PRELOAD"] = "";
  Program rogue({BYPASS_PROGRAM, "libcuda.so.1"}, environment);
  ASSERT_TRUE(cgroup.take(rogue.pid()));
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  const auto event = event_of(daemon, "audit.acted", rogue.pid());
  ASSERT_TRUE(event);
  EXPECT_NE(event->at("text").get<std::string>().find("was frozen with its cgroup /headgate-test-"), std::string::npos);
  EXPECT_TRUE(cgroup.state() == "FROZEN" || cgroup.state() == "FREEZING" || cgroup.state() == "1") << cgroup.state();
  const auto shown_frozen = [&] {
    const Said said = daemon.cli().shell("$H ps");
    return said.out.contains("frozen by the audit");
  };
  EXPECT_TRUE(eventually(shown_frozen)) << daemon.cli().shell("$H ps").out;
  // A named process is not counted a second time.
  const std::string doctor = daemon.cli().shell("$H doctor").out;
  EXPECT_TRUE(doctor.contains("is in no share") && !doctor.contains("outside every share")) << doctor;
  cgroup.thaw();
  rogue.say("alloc 1048576");
  EXPECT_EQ(rogue.line(), "0");
  EXPECT_TRUE(eventually([&] { return !shown_frozen(); })) << daemon.cli().shell("$H ps").out;
}

// The rogue is in the cgroup of its parent, along with many other processes.
TEST(DaemonEnforce, AProcessWithoutASeparateCgroupIsFrozenAlone) {
  if (!OwnCgroup().made()) GTEST_SKIP() << "this machine makes no cgroups";
  const Directory directory;
  const Daemon daemon(audit_policy(directory, "freeze"));
  auto environment = tenant_of(daemon, "missing");
  environment["LD_PRELOAD"] = "";
  Program rogue({BYPASS_PROGRAM, "libcuda.so.1"}, environment);
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  const auto event = event_of(daemon, "audit.acted", rogue.pid());
  ASSERT_TRUE(event);
  const std::string text = event->at("text"), name = "/headgate-frozen-" + std::to_string(rogue.pid());
  ASSERT_NE(text.find("was frozen alone, in the cgroup "), std::string::npos) << text;
  ASSERT_TRUE(text.ends_with(name)) << text;
  rogue.kill_now();
  EXPECT_EQ(rogue.wait(), 128 + SIGKILL);
  const std::string cgroup = text.substr(text.find(" cgroup /") + 8);
  for (const std::string mount : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"})
    if (const std::string path = mount + cgroup; fs::exists(path)) {
      EXPECT_EQ(::rmdir(path.c_str()), 0) << path;
    }
}

// Started like any program of the host, from a cgroup that it shares with others.
TEST(DaemonEnforce, ARunsProgramIsFrozenWithoutTheRun) {
  if (!OwnCgroup().made()) GTEST_SKIP() << "this machine makes no cgroups";
  const Directory directory;
  const Daemon daemon(audit_policy(directory, "freeze"));
  const Environment environment = {{"HEADGATE_SOCKET", daemon.socket()},
                                   {"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"},
                                   {"LD_LIBRARY_PATH", SIMULATOR_DIR}};
  const std::string script = "echo $$; exec env -u LD_PRELOAD " BYPASS_PROGRAM " libcuda.so.1";
  Program run({HEADGATE_COMMAND, "run", "--mem=1GiB", "--", "/bin/sh", "-c", script}, environment);
  const pid_t rogue = std::atoi(run.line().c_str());
  ASSERT_GT(rogue, 0) << run.errors_so_far();
  ASSERT_EQ(run.line(), "ready 0") << run.errors_so_far();
  const std::string name = "headgate-run-" + std::to_string(run.pid());
  const auto event = event_of(daemon, "audit.acted", rogue);
  ASSERT_TRUE(event);
  const std::string text = event->at("text");
  EXPECT_NE(text.find("was frozen with its cgroup "), std::string::npos) << text;
  ASSERT_NE(text.find(name), std::string::npos) << text;
  // A frozen program can still be killed. The run then ends with its status and removes the cgroup.
  ::kill(rogue, SIGKILL);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  for (const char* mount : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"})
    EXPECT_FALSE(fs::exists(std::string(mount) + "/" + name));
}

// There are no turns and the share has no ceiling, so its GPU time is not measured.
TEST(DaemonTurns, AWorkingUnmeasuredShareIsNotCalledIdle) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H gpu policy 0 off && $H share create alice --mem 4GiB --idle-notice 1s").status, 0);
  Program load({HEADGATE_LOAD, "--duration=60s", "--kernels=1ms", "--no-idle-list"}, tenant_of(daemon, "alice"));
  const auto at_work = [&] {
    const auto share = daemon.share("alice");
    return share.processes == 1 && share.state == "ok" && !share.devices.at(0).metered && share.idle_ns == 0;
  };
  ASSERT_TRUE(eventually(at_work)) << daemon.ask("GET", "/v1/shares").body;
  const std::uint64_t then = daemon.snapshot().taken_ns;
  ASSERT_TRUE(eventually([&] { return daemon.snapshot().taken_ns > then + 3'000'000'000; }));
  EXPECT_TRUE(at_work()) << daemon.ask("GET", "/v1/shares").body;
  EXPECT_FALSE(daemon.share("alice").devices.at(0).held_ratio);
  EXPECT_FALSE(daemon.ask("GET", "/metrics").body.contains("headgate_share_gpu_seconds_total{"));
  EXPECT_FALSE(daemon.ask("GET", "/v1/events").body.contains("has used no GPU"));
}

// There are no turns, so no launch waits at a gate and rings. Two other shares work, so the board keeps being updated.
TEST(DaemonTurns, AShareMarksItsWorkAfterItsSocketReopened) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli()
                .shell("$H gpu policy 0 off && for s in alice bob carl; do $H share create $s --mem 4GiB --compute 30% "
                       "|| exit 1; done")
                .status,
            0);
  const std::vector<std::string> load = {HEADGATE_LOAD, "--duration=60s", "--kernels=1ms", "--no-idle-list"};
  const Program alice(load, tenant_of(daemon, "alice")), bob(load, tenant_of(daemon, "bob")),
      carl(load, tenant_of(daemon, "carl"));
  // Its former pages stay mapped.
  const auto pages = [&] {
    std::set<std::string> inodes;
    std::ifstream maps("/proc/" + std::to_string(alice.pid()) + "/maps");
    for (std::string range, mode, offset, device, inode, name; maps >> range >> mode >> offset >> device >> inode;) {
      std::getline(maps, name);
      if (name.contains("memfd:headgate-marks")) inodes.insert(inode);
    }
    return inodes.size();
  };
  const auto at_work = [&](const char* share) { return daemon.share(share).devices.at(0).held_ns > 100'000'000; };
  ASSERT_TRUE(eventually([&] { return pages() == 1 && at_work("alice") && at_work("bob") && at_work("carl"); }));
  ASSERT_EQ(daemon.cli().shell("rm $HEADGATE_RUNTIME_DIR/shares/alice/tenant.sock").status, 0);
  EXPECT_TRUE(eventually([&] { return pages() == 2; }));
}

// Both shares want the whole GPU.
TEST(DaemonTurns, APolicySetLaterFavoursTheHigherClass) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create first --mem 4GiB --class normal").status, 0);
  ASSERT_EQ(cli.shell("$H share create rest --mem 4GiB --class best-effort").status, 0);
  const std::vector<std::string> load = {HEADGATE_LOAD, "--duration=60s", "--kernels=1ms", "--no-idle-list"};
  const Program first(load, tenant_of(daemon, "first")), rest(load, tenant_of(daemon, "rest"));
  const auto held = [&](const Program& program) -> double {
    const auto read = sim::read_truth(cli.directory() + "/node");
    if (!read) return 0;
    for (const auto& process : read->devices.at(0).processes)
      if (process.pid == program.pid()) return static_cast<double>(process.held_ns);
    return 0;
  };
  // Returns the first share's part of what both held during one more second.
  const auto part = [&] {
    const double before[] = {held(first), held(rest)};
    rest_ms(1'000);
    const double mine = held(first) - before[0], others = held(rest) - before[1];
    std::printf("the higher class has %.1f %% of it\n", 100 * mine / std::max(1.0, mine + others));
    return mine / std::max(1.0, mine + others);
  };
  ASSERT_TRUE(eventually([&] { return held(first) > 5e6 && held(rest) > 5e6; }));
  const auto evenly = [&] { return std::abs(part() - 0.5) < 0.15; };
  EXPECT_TRUE(eventually(evenly));
  const Said said = cli.shell("$H gpu policy 0 priority");
  ASSERT_EQ(said.status, 0) << said.out << said.err;
  EXPECT_TRUE(eventually([&] { return part() > 0.85; }));
  const std::string gpu = daemon.snapshot().gpus.at(0).uuid;
  EXPECT_EQ(daemon.ask("PATCH", "/v1/gpus/" + gpu, R"({"policy":"fair"})").status, 200);
  EXPECT_TRUE(eventually(evenly));
}

}  // namespace
}  // namespace headgate::e2e
