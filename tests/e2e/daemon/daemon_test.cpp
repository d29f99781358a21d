// headgated as users see it: shares are created, entered, changed live, and outlive the daemon.
#include "daemon_program.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <set>

#include "snapshot/json.hpp"

namespace headgate::e2e {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

// A program in the share that keeps the GPU busy until it is stopped.
class Tenant {
 public:
  Tenant(const Daemon& daemon, const std::string& share, const std::string& kernels = "200us")
      : program_({HEADGATE_COMMAND, "run", "--share", share, "--", HEADGATE_LOAD, "--mem=1GiB", "--duration=60s",
                  "--kernels=" + kernels, "--no-idle-list"},
                 {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}}) {}
  ~Tenant() {
    ::kill(program_.pid(), SIGTERM);  // forwarded to the load
    program_.wait();
  }
  Tenant(const Tenant&) = delete;

 private:
  Program program_;
};

double held(const Daemon& daemon, const std::string& share) {
  const auto seen = daemon.share(share);
  return seen.devices.empty() ? -1 : seen.devices[0].held_ratio.value_or(-1);
}

TEST(Daemon, AShareIsCreatedListedChangedAndRemoved) {
  const Daemon daemon;
  const Said made = daemon.cli().shell("$H share create alice --mem 16GiB --compute 50%");
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_NE(made.out.find("alice"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find("0 of 16.0 GiB"), std::string::npos) << made.out;
  EXPECT_EQ(daemon.cli().shell("$H share set alice --mem 24GiB --burst 80%").status, 0);
  const auto share = daemon.share("alice");
  ASSERT_EQ(share.devices.size(), 1u);
  EXPECT_EQ(share.devices[0].memory_limit_bytes, 24 * kGiB);
  EXPECT_DOUBLE_EQ(share.devices[0].compute_ceiling_ratio, 0.8);
  EXPECT_DOUBLE_EQ(share.devices[0].compute_guarantee_ratio, 0.5);
  EXPECT_TRUE(share.created);
  EXPECT_NE(daemon.cli().shell("$H share ls").out.find("SIMULATED"), std::string::npos);
  EXPECT_EQ(daemon.cli().shell("$H share rm alice").status, 0);
  EXPECT_EQ(daemon.share("alice").name, "");
}

TEST(Daemon, ShareShowHasAllSettings) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(
      cli.shell("$H share create full --mem 8GiB --compute 20% --weight 300 --class latency --ttl 8h --freeze-after "
                "10m --idle-notice 2h --fail-policy closed --user 4000000001 --group root --on-oom wait=5m")
          .status,
      0);
  const Said said = cli.shell("$H share show full | tr -s ' '");
  for (const char* line :
       {"\nweight 300\n", "\nclass latency\n", "\nmay enter its owner; users 4000000001; groups root\n",
        "\nadmit now\n", "\non-oom wait=5m\n", "\nfail-policy closed\n", "\nfreeze-after 10 min 0 s\n",
        "\nidle-notice 2 h 0 min\n", "\nends in ", "\novercommit no\n"})
    EXPECT_NE(said.out.find(line), std::string::npos) << line << said.out << said.err;
  const auto share = daemon.share("full");
  EXPECT_EQ(share.idle_notice_ns, 7'200'000'000'000u);
  EXPECT_EQ(share.groups, std::vector<std::string>{"root"});
  EXPECT_EQ(cli.shell("$H share create open --mem 1GiB --everyone --overcommit").status, 0);
  EXPECT_NE(cli.shell("$H share show open | tr -s ' '").out.find("\nmay enter everyone\n"), std::string::npos);
  const Said wide = cli.shell("$H share ls -o wide");
  EXPECT_NE(wide.out.find("  closed "), std::string::npos) << wide.out;
}

TEST(Daemon, ItsCommitIsPartOfEachVersion) {
  Daemon daemon;
  const std::string version = daemon.snapshot().node.version;
  EXPECT_EQ(daemon.cli().shell(std::string(HEADGATE_DAEMON) + " --version").out, "headgated " + version + "\n");
  EXPECT_EQ(daemon.cli().shell("$H version").out, "headgate " + version + "\n") << "both are of one build";
  EXPECT_EQ(daemon.stop(), 0);
  const std::string log = daemon.errors();
  EXPECT_TRUE(log.starts_with("headgated: version " + version + "\n")) << log;
}

TEST(Daemon, AVeryLowLimitIsAcceptedWithARemark) {
  const Daemon daemon;
  const std::string low =
      "headgate: a compute limit of 2 % is low: after a kernel of 10 ms the next launch waits 490.0 ms";
  for (const char* words : {"share create low --mem 1GiB --compute 2% -v", "share set low --compute 2% -v",
                            "run -v --mem 1GiB --compute 2% -- true"}) {
    const Said said = daemon.cli().shell(std::string("$H ") + words);
    EXPECT_EQ(said.status, 0) << said.err;
    EXPECT_NE(said.err.find(low), std::string::npos) << words << ": " << said.err;
  }
  EXPECT_EQ(daemon.cli().shell("$H share set low --mem 2GiB -v").err, "") << "a limit that was not touched";
  EXPECT_EQ(daemon.cli().shell("$H share set low --compute 2% -q").err, "");
}

TEST(Daemon, ARefusalHasTheFiguresAndWhatWouldFit) {
  const Daemon daemon;
  EXPECT_EQ(daemon.cli().shell("$H share create a --mem 100GiB --compute 70%").status, 0);
  Said said = daemon.cli().shell("$H share create b --mem 50GiB");
  EXPECT_EQ(said.status, 4) << said.err;
  EXPECT_NE(said.err.find("the largest that fits is "), std::string::npos) << said.err;
  EXPECT_NE(said.err.find(" GiB ("), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("--overcommit"), std::string::npos) << said.err;
  said = daemon.cli().shell("$H share create b --mem 1GiB --compute 40%");
  EXPECT_EQ(said.status, 4) << said.err;
  EXPECT_NE(said.err.find("30 %"), std::string::npos) << said.err;
  EXPECT_EQ(daemon.cli().shell("$H share create b --mem 50GiB --compute 40% --overcommit").status, 0);
  EXPECT_EQ(daemon.share("b").devices.at(0).compute_guarantee_ratio, 0) << "it is promised nothing";
  said = daemon.cli().shell("$H share create c --mem 8");
  EXPECT_EQ(said.status, 2);
  EXPECT_NE(said.err.find("did you mean 8GiB or 8MiB?"), std::string::npos) << said.err;
}

TEST(Daemon, ASocketInAMissingDirectoryIsNamedWithTheFix) {
  const Cli cli;
  const Said said = cli.shell("${H}d --sim --socket $D/none/x.sock --state $D/state");
  EXPECT_NE(said.status, 0);
  EXPECT_NE(said.err.find("/none/x.sock: there is no directory "), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("mkdir -p -m 0750 "), std::string::npos) << said.err;
  EXPECT_TRUE(cli.shell("${H}d --socket").err.starts_with("headgated: --socket needs a value\n"));
}

TEST(Daemon, AProgramEntersItsShareAndSeesChangedLimits) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB --compute 50%").status, 0);
  const Tenant tenant(daemon, "alice");
  ASSERT_TRUE(eventually([&] { return daemon.share("alice").processes == 1 && held(daemon, "alice") > 0.1; }));
  auto snapshot = daemon.snapshot();
  ASSERT_EQ(snapshot.processes.size(), 1u);
  EXPECT_EQ(snapshot.processes[0].share, "alice");
  EXPECT_EQ(snapshot.processes[0].command, "headgate-load");
  ASSERT_EQ(snapshot.processes[0].devices.size(), 1u);
  EXPECT_GE(snapshot.processes[0].devices[0].ledger_bytes, kGiB);
  EXPECT_EQ(snapshot.node.unattended_processes, 0u);
  const auto& gpu = snapshot.gpus.at(0);
  EXPECT_NEAR(static_cast<double>(gpu.memory_shares_bytes + gpu.memory_reserved_bytes + gpu.memory_unattributed_bytes +
                                  gpu.memory_free_bytes),
              static_cast<double>(gpu.memory_total_bytes), 2.0 * (1 << 20));
  ASSERT_EQ(daemon.cli().shell("$H share set alice --compute 10%").status, 0);
  // Two snapshots a second apart, both after the change.
  rest_ms(1100);
  EXPECT_TRUE(eventually([&] {
    rest_ms(1000);
    const double now = held(daemon, "alice");
    return now > 0.08 && now < 0.12;
  }));
  ASSERT_EQ(daemon.cli().shell("$H share pause alice").status, 0);
  EXPECT_TRUE(eventually([&] {
    rest_ms(500);
    return held(daemon, "alice") == 0;
  }));
  EXPECT_EQ(daemon.share("alice").state, "paused");
  ASSERT_EQ(daemon.cli().shell("$H share resume alice").status, 0);
  EXPECT_TRUE(eventually([&] { return held(daemon, "alice") > 0.05; }));
  const Said removed = daemon.cli().shell("$H share rm alice");
  EXPECT_EQ(removed.status, 1) << "a share with programs in it was removed";
}

TEST(Daemon, TheUsualViewsShowWhatTheDaemonSees) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB --compute 50%").status, 0);
  const Tenant tenant(daemon, "alice");
  ASSERT_TRUE(eventually([&] { return daemon.share("alice").processes == 1 && held(daemon, "alice") > 0.1; }));
  const Said status = daemon.cli().shell("$H status");
  EXPECT_NE(status.out.find("1 GPU, headgated, SIMULATED"), std::string::npos) << status.out << status.err;
  EXPECT_NE(status.out.find("alice"), std::string::npos) << status.out;
  EXPECT_NE(daemon.cli().shell("$H ps").out.find("headgate-load"), std::string::npos);
  EXPECT_NE(daemon.cli().shell("$H why alice").out.find("share alice on GPU 0, SIMULATED"), std::string::npos);
  EXPECT_NE(daemon.cli().shell("$H free --json").out.find("\"memory_uncommitted_bytes\""), std::string::npos);
}

TEST(Daemon, ARunsShareEndsWithTheRun) {
  const Daemon daemon;
  const Said said = daemon.cli().shell(
      "$H run --mem 2GiB --compute 25% --name brief -- sh -c '$H share ls; ${SIM%/sim}/headgate-load --attempt=3GiB "
      "--no-launches --duration=1ms --no-idle-list'");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_NE(said.out.find("0 of 2.0 GiB  25 %"), std::string::npos) << said.out << said.err;
  EXPECT_NE(said.out.find("\"given_bytes\":0"), std::string::npos) << said.out;
  EXPECT_EQ(daemon.share("brief").name, "");
}

TEST(Daemon, ARunWithoutRoomIsRefusedOrWaits) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create big --mem 100GiB").status, 0);
  EXPECT_EQ(daemon.cli().shell("$H run --mem 60GiB -- true").status, 4);
  EXPECT_EQ(daemon.cli().shell("$H run --mem 60GiB --wait=1s -- true").status, 4);
  const Said there = daemon.cli().shell("$H run --share big --wait -- true");
  EXPECT_EQ(there.status, 2) << there.err;
  EXPECT_NE(there.err.find("the share 'big' has its room already"), std::string::npos) << there.err;
  const Said said = daemon.cli().shell("(sleep 1; $H share rm big) & $H run --mem 60GiB --wait -- true");
  EXPECT_EQ(said.status, 0) << said.err;
}

TEST(Daemon, AKilledRunsShareEndsWithItsLastProgram) {
  const Daemon daemon;
  {
    Program run({HEADGATE_COMMAND, "run", "--name", "lost", "--mem", "2GiB", "--", HEADGATE_LOAD, "--mem=1GiB",
                 "--duration=4s", "--no-idle-list"},
                {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}});
    ASSERT_TRUE(eventually([&] { return daemon.share("lost").processes == 1; }));
    run.kill_now();
    run.wait();
  }
  EXPECT_EQ(daemon.share("lost").name, "lost");
  EXPECT_TRUE(eventually([&] { return daemon.share("lost").name.empty(); }));
}

TEST(Daemon, MemoryGivenUpThoughStillListedIsReported) {
  const Daemon daemon({}, "base = \"h200\"\nname = \"slow\"\nteardown_ms = 14000\n");
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB").status, 0);
  Program load({HEADGATE_COMMAND, "run", "--share", "alice", "--", "sh", "-c",
                "exec " HEADGATE_LOAD " --mem=2GiB --duration=60s --no-idle-list"},
               {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}});
  ASSERT_TRUE(eventually([&] { return daemon.share("alice").processes == 1; }));
  ASSERT_TRUE(eventually([&] { return daemon.share("alice").devices.at(0).memory_used_bytes >= 2 * kGiB; }));
  for (const auto& process : daemon.snapshot().processes) ::kill(static_cast<pid_t>(process.pid), SIGKILL);
  load.wait();
  EXPECT_TRUE(eventually([&] { return daemon.share("alice").state == "freeing"; })) << daemon.share("alice").state;
  EXPECT_TRUE(eventually([&] {
    return daemon.cli()
        .shell("$H events --kind memory.given_up --share alice")
        .out.contains("2.0 GiB of ended processes");
  }));
  EXPECT_LT(daemon.share("alice").devices.at(0).memory_used_bytes, kGiB);
}

TEST(Daemon, MemoryOfAKilledProgramIsChargedUntilFreed) {
  const Daemon daemon({}, "base = \"h200\"\nname = \"slow\"\nteardown_ms = 4000\n");
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB").status, 0);
  const auto used = [&] { return daemon.share("alice").devices.at(0).memory_used_bytes; };
  Program load({HEADGATE_LOAD, "--mem=2GiB", "--duration=60s", "--no-idle-list"},
               {{"HEADGATE_SHARE", "alice"},
                {"HEADGATE_SHARE_DIR", daemon.cli().runtime() + "/shares/alice"},
                {"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()},
                {"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"},
                {"LD_LIBRARY_PATH", SIMULATOR_DIR},
                {"LD_PRELOAD", HEADGATE_LIMITER}});
  ASSERT_TRUE(eventually([&] { return used() >= 2 * kGiB; }));
  load.kill_now();
  load.wait();
  const auto killed = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return daemon.share("alice").processes == 0; }));
  if (std::chrono::steady_clock::now() - killed < std::chrono::seconds(3)) {
    EXPECT_GE(used(), 2 * kGiB) << "the driver has not taken it down yet";
    EXPECT_GE(daemon.share("alice").devices.at(0).memory_draining_bytes, 2 * kGiB);
  }
  EXPECT_TRUE(eventually([&] { return used() == 0; }));
  // The death was seen; the wait did not run into its timeout of 10 s.
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(9));
}

TEST(Daemon, TenantsOutliveTheDaemonAndTheNextAdoptsThem) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB --compute 30%").status, 0);
  const Tenant tenant(daemon, "alice");
  ASSERT_TRUE(eventually([&] { return held(daemon, "alice") > 0.1; }));
  const auto before = daemon.share("alice").devices.at(0).held_ns;
  daemon.kill_and_wait();
  rest_ms(1000);
  daemon.start();
  const auto after = daemon.share("alice");
  ASSERT_EQ(after.devices.size(), 1u);
  EXPECT_EQ(after.processes, 1u);
  EXPECT_GT(after.devices[0].held_ns, before + 200'000'000) << "the tenant stood still while no daemon ran";
  EXPECT_NE(daemon.ask("GET", "/v1/events").body.find("share.adopted"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return held(daemon, "alice") > 0.25 && held(daemon, "alice") < 0.35; }));
}

TEST(Daemon, SharesSurviveAReboot) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB --compute 30% --weight 200").status, 0);
  ASSERT_EQ(daemon.cli().shell("$H share pause alice").status, 0);
  EXPECT_EQ(daemon.stop(), 0);
  (void)daemon.cli().shell("rm -rf $HEADGATE_RUNTIME_DIR/shares");  // as a reboot clears a tmpfs
  daemon.start();
  const auto share = daemon.share("alice");
  ASSERT_EQ(share.devices.size(), 1u);
  EXPECT_EQ(share.devices[0].memory_limit_bytes, 8 * kGiB);
  EXPECT_EQ(share.devices[0].weight, 200u);
  EXPECT_EQ(share.state, "paused");
}

TEST(Daemon, EventsAreStreamedAsTheyHappen) {
  const Daemon daemon;
  auto source = http::EventSource::open({.path = daemon.socket()}, {.target = "/v1/events?follow=1"},
                                        std::chrono::milliseconds(5000));
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB").status, 0);
  const auto event = source->next(std::chrono::milliseconds(10'000));
  ASSERT_TRUE(event && *event);
  EXPECT_EQ((*event)->name, "share.created");
  EXPECT_NE((*event)->data.find(" created the share alice: 8.0 GiB"), std::string::npos) << (*event)->data;
}

// The event itself determines which users see it, because the share may be gone and its name reused.
TEST(Daemon, EventsNameTheSharesOwnerAtThatTime) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 1GiB").status, 0);
  ASSERT_EQ(daemon.cli().shell("$H run --share alice -- true").status, 0);
  ASSERT_EQ(daemon.cli().shell("$H share rm alice").status, 0);
  const auto events = snapshot::from_json<std::vector<snapshot::Event>>(daemon.ask("GET", "/v1/events").body);
  ASSERT_TRUE(events) << events.error().message;
  std::set<std::string> kinds;
  for (const auto& event : *events) {
    if (event.share != "alice") continue;
    kinds.insert(event.kind);
    EXPECT_EQ(event.owner_uid, ::geteuid()) << event.kind;
  }
  EXPECT_TRUE(kinds.contains("share.created") && kinds.contains("share.removed"));
}

TEST(Daemon, RefusalsAndOutsideProgramsBecomeEvents) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 1GiB").status, 0);
  (void)daemon.cli().shell(
      "$H run --share alice -- ${SIM%/sim}/headgate-load --attempt=1025MiB --no-launches --duration=1500ms "
      "--no-idle-list");
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("memory.refused"); }));
  // A program on the same node, without a limiter.
  const Program rogue({HEADGATE_LOAD, "--mem=256MiB", "--duration=60s", "--no-idle-list"},
                      {{"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"}, {"LD_LIBRARY_PATH", SIMULATOR_DIR}});
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("audit.outside"); }))
      << daemon.ask("GET", "/v1/processes").body;
  EXPECT_EQ(daemon.snapshot().node.unattended_processes, 1u);
}

TEST(Daemon, AWaitingLaunchIsReportedWhileItWaits) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create slow --mem 2GiB --compute 1%").status, 0);
  const Tenant tenant(daemon, "slow", "200ms");
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("compute.waiting"); }));
  EXPECT_NE(
      daemon.cli().shell("$H events --kind compute.waiting").out.find("a launch of slow has been waiting for the GPU"),
      std::string::npos);
  const std::string why = daemon.cli().shell("$H why slow").out;
  EXPECT_NE(why.find("\n    a launch has been waiting for "), std::string::npos) << why;
  EXPECT_NE(why.find(": under 1 % the pause after a kernel is long\n"), std::string::npos) << why;
  EXPECT_EQ(daemon.cli().shell("$H share set slow --compute 100%").status, 0);
  EXPECT_TRUE(eventually([&] { return daemon.share("slow").devices.at(0).waiting_ns == 0; }));
}

TEST(Daemon, AnOutsideProgramIsKilledIfConfigured) {
  const Cli files;
  (void)files.shell("printf '[audit]\\npolicy = \"kill\"\\n' > $D/audit.toml");
  const Daemon strict({"--config", files.directory() + "/audit.toml"});
  Program rogue({HEADGATE_LOAD, "--mem=256MiB", "--duration=60s", "--no-idle-list"},
                {{"HEADGATE_SIM_DIR", strict.cli().directory() + "/node"}, {"LD_LIBRARY_PATH", SIMULATOR_DIR}});
  EXPECT_EQ(rogue.wait(), 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return strict.ask("GET", "/v1/events").body.contains("audit.acted"); }));
}

TEST(Daemon, AnErrorOfTheGpuIsAnEventAndCounted) {
  const Daemon daemon;
  const Said said = daemon.cli().shell(
      "HEADGATE_SIM_DIR=$D/node $H sim fault --sim cuLaunchKernel:sticky=700:count=1 && "
      "HEADGATE_SIM_DIR=$D/node LD_LIBRARY_PATH=$SIM ${SIM%/sim}/headgate-load --duration=300ms --no-idle-list");
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("\"gpu.xid\""); }))
      << said.out << said.err;
  const auto gpu = daemon.snapshot().gpus.at(0);
  ASSERT_EQ(gpu.xids.size(), 1u);
  EXPECT_EQ(gpu.xids[0].count, 1u);
}

TEST(Daemon, AnErrorOfAGpuThatWasSilentAtStartIsAnEventToo) {
  Daemon daemon;
  const std::string fault = "HEADGATE_SIM_DIR=$D/node $H sim fault --sim ";
  ASSERT_EQ(daemon.cli().shell(fault + "device0:lost").status, 0);
  ASSERT_EQ(daemon.stop(), 0);
  daemon.start();
  ASSERT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("\"gpu.lost\""); }));
  ASSERT_EQ(daemon.cli().shell(fault + "clear").status, 0);
  ASSERT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("\"gpu.found\""); }));
  ASSERT_EQ(daemon.cli().shell(fault + "device0:xid=79").status, 0);
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("\"gpu.xid\""); }));
}

TEST(Daemon, AnExpiredShareIsRemoved) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create brief --mem 1GiB --ttl 1s").status, 0);
  EXPECT_TRUE(eventually([&] { return daemon.share("brief").name.empty(); }));
  EXPECT_TRUE(daemon.ask("GET", "/v1/events").body.contains("share.ended"));
}

TEST(Daemon, AnIdleShareIsFrozenUntilItsNextCall) {
  const Daemon daemon({}, "base = \"h200-cuda13\"\nname = \"young\"\n");  // driver 570 or later
  ASSERT_EQ(daemon.cli().shell("$H share create night --mem 8GiB --freeze-after 1s").status, 0);
  Program load({HEADGATE_COMMAND, "run", "--share", "night", "--", HEADGATE_LOAD, "--mem=2GiB", "--sync=each",
                "--gap=5s", "--duration=60s", "--no-idle-list"},
               {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}});
  snapshot::Share share;
  ASSERT_TRUE(eventually([&] { return (share = daemon.share("night")).state == "frozen"; })) << share.state;
  EXPECT_GE(share.devices.at(0).memory_frozen_bytes, 2 * kGiB);
  EXPECT_GE(share.devices.at(0).memory_used_bytes, 2 * kGiB) << "it stays the share's";
  EXPECT_TRUE(eventually([&] {
    const auto snapshot = daemon.snapshot();
    const bool away = !snapshot.shares.empty() && snapshot.shares[0].state == "frozen";
    return away && snapshot.gpus.at(0).memory_used_bytes < kGiB && snapshot.gpus.at(0).memory_shares_bytes < kGiB;
  }));
  EXPECT_TRUE(
      eventually([&] { return (share = daemon.share("night")).thaws > 0 && share.devices.at(0).launches > 1; }));
  EXPECT_TRUE(daemon.ask("GET", "/v1/events").body.contains("\"share.frozen\""));
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("\"share.thawed\""); }));
  EXPECT_EQ(daemon.cli().shell("$H share set night --freeze-after none").status, 0);
  load.kill_now();
  load.wait();
}

TEST(Daemon, AnExtensionAddsTimeAndNeedsATimeToLive) {
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create brief --mem 1GiB --ttl 1h; $H share create stays --mem 1GiB").status, 0);
  EXPECT_EQ(cli.shell("$H share extend brief 2h -o json > $D/out").status, 0);
  const auto left = daemon.share("brief").ttl_ns;
  ASSERT_TRUE(left);
  // Expiry is stored in whole seconds of one clock and shown by another; their seconds start at different moments.
  EXPECT_LE(*left, 3 * kHour + 1'000'000'000);
  EXPECT_GT(*left, 2 * kHour) << "an hour was left, less what this test has taken";
  const Said endless = cli.shell("$H share extend stays 2h");
  EXPECT_EQ(endless.status, 2);
  EXPECT_EQ(endless.err,
            "headgate: the share 'stays' has no end that could be put off\n          it stays until it is "
            "removed, or its last program ends\n");
  EXPECT_EQ(cli.shell("$H share extend brief soon").err,
            "headgate: share extend: the time 'soon' is not understood\n          accepted: 30s, 5m, 1h or 2d, up to a "
            "year\n");
  EXPECT_EQ(cli.shell("$H share extend missing 1h").status, 2);
}

TEST(Daemon, QuotasLimitUsers) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H quota set --user root --mem 10GiB --shares 2").status, 0);
  EXPECT_EQ(daemon.cli().shell("$H share create a --mem 6GiB").status, 0);
  const Said said = daemon.cli().shell("$H share create b --mem 6GiB");
  EXPECT_EQ(said.status, 5) << said.err;
  EXPECT_NE(daemon.cli().shell("$H quota ls").out.find("10.0 GiB"), std::string::npos);
  const std::string lines = daemon.cli().shell("$H quota ls -o csv").out;
  EXPECT_TRUE(lines.starts_with(
      "taken_unix_ns,node,simulated,user,group,everyone,memory_bytes,compute_ratio,shares,ttl_ns,weight,class\n"))
      << lines;
  EXPECT_TRUE(lines.ends_with(",true,0,,,10737418240,,2,,,\n")) << lines;
  EXPECT_EQ(daemon.cli().shell("$H share show a -o csv | wc -l; $H share ls -o jsonl | grep -c headgate.share/v1").out,
            "2\n1\n");
  EXPECT_EQ(daemon.cli().shell("$H quota rm --user root").status, 0);
  EXPECT_EQ(daemon.cli().shell("$H share create b --mem 6GiB").status, 0);
  EXPECT_EQ(daemon.cli().shell("$H quota ls").out, "SIMULATED\nthere are no quotas\n");
  const Said none = daemon.cli().shell("$H quota rm --user root");
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("there is no such quota"), std::string::npos) << none.err;
  EXPECT_NE(daemon.cli().shell("$H quota rm").err.find("exactly one user or group"), std::string::npos);
}

TEST(Daemon, AQuotaChangeKeepsOtherLimits) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  const std::string row = "user 3001  4.0 GiB     10 %       4   1 h 0 min     200  latency\n";
  ASSERT_EQ(cli.shell("$H quota set --user 3001 --mem 4GiB --compute 10% --shares 3 --ttl 1h").status, 0);
  const Said after = cli.shell("$H quota set --user 3001 --shares 4 --weight 200 --class latency");
  EXPECT_TRUE(after.out.ends_with(row)) << after.out;
  const Said nothing = cli.shell("$H quota set --user 3001");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(nothing.err.find("quota set: no limit was named"), std::string::npos) << nothing.err;
  EXPECT_TRUE(cli.shell("$H quota ls").out.ends_with(row));
  EXPECT_EQ(
      cli.shell("$H quota set --user 3001 --mem none --compute none --ttl none --weight none --class none").status, 0);
  const Said all = cli.shell("$H quota set --user 3001 --shares none");
  EXPECT_EQ(all.status, 2);
  EXPECT_NE(all.err.find("headgate quota rm --user 3001"), std::string::npos) << all.err;
  EXPECT_NE(cli.shell("$H events --kind quota.set")
                .out.find("root set the quota of the user 3001: shares 3 -> 4, weight "
                          "none -> 200, class none -> latency"),
            std::string::npos);
}

TEST(Daemon, EveryonesQuotaDoesNotLimitRoot) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H quota set --everyone --shares 0").status, 0);
  EXPECT_EQ(daemon.cli().shell("$H share create a --mem 1GiB").status, 0);
  EXPECT_EQ(daemon.cli().shell("$H quota rm --everyone=no").status, 2) << "whose quota is not said";
  EXPECT_NE(daemon.cli().shell("$H quota ls").out.find("everyone"), std::string::npos);
  EXPECT_EQ(daemon.cli().shell("$H quota rm --everyone").status, 0);
}

TEST(Daemon, ConfigurationMistakesStopTheStartOnly) {
  Daemon daemon;
  const Said bad =
      daemon.cli().shell("printf '[node]\\nreserve = \"much\"\\n[audit]\\npolicy = \"warm\"\\n' > $D/c.toml; " +
                         std::string(HEADGATE_DAEMON) + " --sim --config $D/c.toml");
  EXPECT_EQ(bad.status, 2);
  for (const char* mistake : {"c.toml:2: node.reserve = 'much' is not understood\n  accepted: a size",
                              "c.toml:4: audit.policy = 'warm' is not understood\n  accepted: warn, freeze or kill\n"})
    EXPECT_NE(bad.err.find(mistake), std::string::npos) << bad.err;
  daemon.signal(SIGHUP);
  EXPECT_EQ(daemon.ask("GET", "/healthz").status, 200);
}

}  // namespace
}  // namespace headgate::e2e
