// Shares with --isolation=mps, from `share create` to the control daemon's end, with the simulated node's stand-in for
// NVIDIA's MPS control daemon.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/unique_fd.hpp"
#include "daemon_program.hpp"
#include "sim/truth.hpp"
#include "terminal.hpp"

namespace headgate::e2e {
namespace {

using Json = nlohmann::json;

// The path of a control daemon's socket is limited to 107 bytes, and TMPDIR may be long.
[[maybe_unused]] const bool kShortPaths = ::setenv("TMPDIR", "/tmp", 1) == 0;

class MpsShare : public ::testing::Test {
 protected:
  // A load in the share. Ended with the object, because its `headgate run` forwards the signal.
  class Tenant {
   public:
    Tenant(const Daemon& daemon, const std::string& share, const std::string& before = {},
           const std::string& load = "--duration=60s --kernels=200us --blocks=132 --sync=depth:8 --no-idle-list")
        : program_({HEADGATE_COMMAND, "run", "--share", share, "--", "/bin/sh", "-c",
                    before + " exec " HEADGATE_LOAD " " + load},
                   {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}, {"CUDA_MPS_PIPE_DIRECTORY", ""}}) {}
    ~Tenant() { end(); }
    Tenant(const Tenant&) = delete;
    void end() {
      ::kill(program_.pid(), SIGTERM);
      program_.wait();
    }
    Program& program() { return program_; }

   private:
    Program program_;
  };

  void create(const std::string& words) const {
    const auto made = daemon_.cli().shell("$H share create --isolation=mps --mem 8GiB " + words);
    ASSERT_EQ(made.status, 0) << made.err;
  }
  [[nodiscard]] Json groups() const { return Json::parse(daemon_.ask("GET", "/v1/mps").body); }
  [[nodiscard]] std::vector<pid_t> clients() const {
    const Json all = groups();
    return all.empty() ? std::vector<pid_t>{} : all[0]["clients"].get<std::vector<pid_t>>();
  }
  // False for a zombie, because orphans may be reaped late.
  [[nodiscard]] static bool runs(pid_t pid) {
    std::error_code none;
    return !std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", none).empty();
  }
  [[nodiscard]] std::uint32_t process_of(const std::string& share) const {
    for (const auto& process : daemon_.snapshot().processes)
      if (process.share == share) return process.pid;
    return 0;
  }
  [[nodiscard]] std::string text(const std::string& words) const { return daemon_.cli().shell("$H " + words).out; }
  // Truth: the part of the GPU's SMs that all programs had in a window of node time.
  [[nodiscard]] double part_of_sms(int milliseconds) const {
    const auto sums = [this] {
      const auto read = sim::read_truth(daemon_.cli().directory() + "/node");
      EXPECT_TRUE(read.has_value());
      double sm_ns = 0;
      for (const auto& process : read->devices.at(0).processes) sm_ns += process.sm_ns;
      return std::pair(static_cast<double>(read->now_ns), sm_ns);
    };
    const auto [from, before] = sums();
    rest_ms(milliseconds);
    const auto [to, after] = sums();
    return (after - before) / (to - from);
  }

  Daemon daemon_{{}, ""};
};

TEST_F(MpsShare, ARunUsesThePipeAndTheLastTenantEndsTheDaemon) {
  create("m --compute 30%");
  EXPECT_NE(text("share show m").find("isolation"), std::string::npos) << text("share show m");
  EXPECT_TRUE(groups().empty()) << "an idle share has no control daemon";

  auto first = std::make_unique<Tenant>(daemon_, "m", "echo $CUDA_MPS_PIPE_DIRECTORY; env | grep ^CUDA_MPS_ | sort;");
  const std::string pipe = first->program().line();
  ASSERT_NE(pipe, "") << first->program().errors_so_far();
  EXPECT_EQ(first->program().line(), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30");
  EXPECT_EQ(first->program().line(), "CUDA_MPS_CLIENT_PRIORITY=0");
  EXPECT_EQ(first->program().line(), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8192M");
  EXPECT_TRUE(std::filesystem::exists(pipe + "/control")) << pipe;
  ASSERT_TRUE(eventually([&] { return daemon_.share("m").level == "mps"; }));
  EXPECT_EQ(daemon_.share("m").devices.at(0).sm_ratio, 0.3);
  const double had = part_of_sms(1'000);
  const auto shown = daemon_.share("m").devices.at(0);
  ASSERT_TRUE(shown.sm_held_ratio && shown.held_ratio);
  EXPECT_NEAR(*shown.sm_held_ratio, 0.3 * *shown.held_ratio, 1e-6) << "of its 30 %, not of the time alone";
  EXPECT_GT(had, 0.1);
  EXPECT_LT(had, 0.32) << "held to its part of the SMs";
  ASSERT_EQ(groups().size(), 1u);
  const auto control = groups()[0]["daemon_pid"].get<pid_t>();
  EXPECT_TRUE(runs(control));

  auto second = std::make_unique<Tenant>(daemon_, "m");
  ASSERT_TRUE(eventually([&] { return daemon_.share("m").processes == 2; }));
  EXPECT_EQ(groups()[0]["daemon_pid"].get<pid_t>(), control) << "the second only counts";
  first.reset();
  ASSERT_TRUE(eventually([&] { return daemon_.share("m").processes == 1; }));
  EXPECT_EQ(groups()[0]["daemon_pid"].get<pid_t>(), control);
  second.reset();
  ASSERT_TRUE(eventually([&] { return groups().empty(); }));
  EXPECT_FALSE(runs(control)) << "the control daemon goes with the last tenant";
  const std::string events = text("events --kind mps");
  EXPECT_NE(events.find("started"), std::string::npos) << events;
  EXPECT_NE(events.find("stopped after its last tenant"), std::string::npos) << events;
}

TEST_F(MpsShare, ARestartedDaemonKeepsTheControlDaemon) {
  create("m");
  auto tenant = std::make_unique<Tenant>(daemon_, "m");
  ASSERT_TRUE(eventually([&] { return daemon_.share("m").processes == 1; }));
  const auto control = groups()[0]["daemon_pid"].get<pid_t>();
  daemon_.kill_and_wait();
  EXPECT_TRUE(runs(control));
  daemon_.start();
  ASSERT_EQ(groups().size(), 1u);
  EXPECT_EQ(groups()[0]["daemon_pid"].get<pid_t>(), control);
  tenant.reset();
  ASSERT_TRUE(eventually([&] { return groups().empty(); }));
  EXPECT_FALSE(runs(control));
}

// If it were killed without being terminated first, the stand-in would fail the neighbour as real servers do.
TEST_F(MpsShare, ADetachedClientCanBeKilledWithoutHarm) {
  create("m");
  create("n");
  auto victim = std::make_unique<Tenant>(daemon_, "m");
  auto neighbour = std::make_unique<Tenant>(daemon_, "n");
  ASSERT_TRUE(eventually([&] { return process_of("m") != 0 && process_of("n") != 0; }));
  const std::uint32_t pid = process_of("m"), other = process_of("n");
  ASSERT_TRUE(eventually([&] { return daemon_.snapshot().gpus.at(0).mps_clients == 2; }));
  const auto reply = daemon_.ask("POST", "/v1/mps/clients/" + std::to_string(pid) + "/terminate");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(Json::parse(reply.body)["client"], true);
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  victim->program().wait();
  rest_ms(300);
  EXPECT_EQ(process_of("n"), other) << "the neighbour goes on";
  EXPECT_GT(part_of_sms(500), 0.01);
  EXPECT_EQ(
      Json::parse(daemon_.ask("POST", "/v1/mps/clients/" + std::to_string(::getpid()) + "/terminate").body)["client"],
      false);
}

// Programs end at once after a fault, before the tool can be asked, and with them the control daemon.
TEST_F(MpsShare, AFaultIsNamedByEventMetricAndWhyAfterItsProgramsHaveEnded) {
  create("m");
  Tenant one(daemon_, "m"), other(daemon_, "m");
  ASSERT_TRUE(eventually([&] { return clients().size() == 2; }));
  const std::vector<pid_t> pids = clients();
  const std::string log = daemon_.cli().runtime() + "/mps/" + groups()[0]["uuid"].get<std::string>() + "/" +
                          std::to_string(groups()[0]["owner_uid"].get<unsigned>()) + "/log";
  std::ofstream(log + "/demand") << "fault";
  EXPECT_NE(one.program().wait(), 0);
  EXPECT_NE(other.program().wait(), 0);
  ASSERT_TRUE(eventually([&] { return groups().empty(); }));
  const Json events = Json::parse(daemon_.ask("GET", "/v1/events?kind=mps.fault").body);
  const std::string why = text("why m");
  for (const pid_t pid : pids) {
    EXPECT_NE(events.dump().find(std::to_string(pid)), std::string::npos) << events;
    EXPECT_NE(why.find(std::to_string(pid)), std::string::npos) << why;
  }
  EXPECT_NE(why.find("MPS: trouble once in the last day"), std::string::npos) << why;
  EXPECT_TRUE(eventually([&] {
    return text("metrics").contains("headgate_daemon_events_total{kind=\"mps.fault\"} 1");
  })) << text("metrics");
}

// A client killed by others can leave a server that looks well and takes no program any more.
TEST_F(MpsShare, AServerThatHangsIsNamedByEventMetricAndWhyAndEndsNoProgram) {
  create("m");
  const Tenant one(daemon_, "m"), other(daemon_, "m");
  ASSERT_TRUE(eventually([&] { return clients().size() == 2; }));
  const std::vector<pid_t> pids = clients();
  const std::string log = daemon_.cli().runtime() + "/mps/" + groups()[0]["uuid"].get<std::string>() + "/" +
                          std::to_string(groups()[0]["owner_uid"].get<unsigned>()) + "/log";
  std::ofstream(log + "/demand") << "wedge";
  ASSERT_TRUE(eventually([&] { return !std::filesystem::exists(log + "/demand"); }));
  ::kill(pids[0], SIGKILL);
  ASSERT_TRUE(eventually([&] { return groups()[0]["state"] == "wedged"; })) << groups();
  const std::string said = "still lists client " + std::to_string(pids[0]) + ", which has ended";
  const std::string events = text("events --kind mps.wedged"), why = text("why m");
  EXPECT_NE(events.find(said), std::string::npos) << events;
  EXPECT_NE(why.find(said), std::string::npos) << why;
  EXPECT_TRUE(eventually([&] { return text("metrics").contains("state=\"wedged\""); })) << text("metrics");
  EXPECT_TRUE(runs(pids[1])) << "nothing ends a living client";
}

TEST_F(MpsShare, EachWarningIsOneLineOfTheJournal) {
  create("m");
  const Tenant tenant(daemon_, "m");
  ASSERT_TRUE(eventually([&] { return daemon_.share("m").processes == 1; }));
  const auto control = groups()[0]["daemon_pid"].get<pid_t>();
  ::kill(control, SIGKILL);
  ASSERT_TRUE(eventually([&] { return text("events --kind mps").contains("started again"); }));
  const std::string journal = daemon_.errors_so_far();
  const auto lines_with = [&](const std::string& words) {
    std::size_t count = 0;
    for (std::size_t at = journal.find(words); at != std::string::npos; at = journal.find(words, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(lines_with("control daemon " + std::to_string(control) + " has ended"), 1u) << journal;
  EXPECT_EQ(lines_with("control daemon " + std::to_string(control) + " started"), 1u) << journal;
}

TEST_F(MpsShare, UnsupportedOptionsAreRefused) {
  create("m");
  for (const char* wish : {"CUDA_MPS_SM_PARTITION=0", "CUDA_MPS_PROTOCOL_VERSION=3"}) {
    const Said said = daemon_.cli().shell("env " + std::string(wish) + " $H run --share m -- true");
    EXPECT_EQ(said.status, 6) << said.err;
    EXPECT_NE(said.err.find("not supported yet"), std::string::npos) << said.err;
  }
  EXPECT_EQ(daemon_.cli().shell("CUDA_MPS_PROTOCOL_VERSION=2 $H run --share m -- true").status, 0);
  EXPECT_TRUE(eventually([&] { return groups().empty(); })) << "no refusal leaves a control daemon";
}

TEST_F(MpsShare, TopDetachesAClientBeforeItKillsIt) {
  int ours = -1, programs = -1;
  if (::openpty(&ours, &programs, nullptr, nullptr, nullptr) != 0)
    GTEST_SKIP() << "this machine has no pseudo-terminals";
  ::close(ours);
  ::close(programs);
  create("victim");
  create("neighbour");
  Tenant victim(daemon_, "victim");
  const Tenant neighbour(daemon_, "neighbour");
  ASSERT_TRUE(eventually([&] { return daemon_.snapshot().gpus.at(0).mps_clients == 2; }));
  const std::uint32_t other = process_of("neighbour");
  Terminal terminal(daemon_.cli(), kSmall);
  terminal.type("$H top --ascii; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("victim")) << terminal.seen();
  terminal.type("/victim\r");
  ASSERT_TRUE(terminal.await("victim")) << terminal.seen();
  terminal.type("k");
  ASSERT_TRUE(terminal.await("signal for headgate-load")) << terminal.seen();
  terminal.type("kill\r");
  ASSERT_TRUE(terminal.await("was sent to")) << terminal.seen();
  terminal.type("q");
  ASSERT_TRUE(terminal.await("status=0")) << terminal.seen();
  EXPECT_NE(victim.program().wait(), 0);
  rest_ms(300);
  EXPECT_EQ(process_of("neighbour"), other) << "the neighbour goes on";
  EXPECT_TRUE(eventually([&] { return part_of_sms(100) > 0.01; }));
}

// A container's program comes in without `headgate run`: what its share's CDI file gives it makes it a client, and its
// registration starts the control daemon before it calls the driver.
TEST_F(MpsShare, TheCdiFileMakesAProgramAClient) {
  const Directory folder;
  Daemon daemon({"--cdi-dir", folder.path()});
  const Said made = daemon.cli().shell("$H share create m --isolation=mps --compute 30% --mem 8GiB");
  ASSERT_EQ(made.status, 0) << made.err;
  const auto edits = [&] {
    return Json::parse(std::ifstream(folder.path() + "/headgate.io-share_m.json"))["devices"][0]["containerEdits"];
  };
  std::map<std::string, std::string> environment = {{"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"},
                                                    {"HEADGATE_SHARE_DIR", daemon.cli().runtime() + "/shares/m"},
                                                    {"LD_LIBRARY_PATH", SIMULATOR_DIR},
                                                    {"LD_PRELOAD", HEADGATE_LIMITER}};
  const Json given = edits();
  for (const std::string variable : given["env"])
    environment[variable.substr(0, variable.find('='))] = variable.substr(variable.find('=') + 1);
  const std::string pipe = environment["CUDA_MPS_PIPE_DIRECTORY"];
  EXPECT_EQ(environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], "30");
  for (const std::string& path : {pipe, std::string("/dev/shm")}) {
    EXPECT_TRUE(std::ranges::any_of(given["mounts"], [&](const Json& mount) {
      return mount["hostPath"] == path && mount["containerPath"] == path;
    })) << path;
    EXPECT_TRUE(std::filesystem::is_directory(path)) << "an engine can mount it: " << path;
  }
  EXPECT_FALSE(std::filesystem::exists(pipe + "/control")) << "an idle share has no control daemon";
  Program program({HEADGATE_LOAD, "--duration=60s", "--kernels=200us", "--sync=depth:8", "--no-idle-list"},
                  environment);
  EXPECT_TRUE(eventually([&] { return daemon.share("m").level == "mps"; })) << program.errors_so_far();
  EXPECT_EQ(daemon.share("m").devices.at(0).sm_ratio, 0.3);
  ::kill(program.pid(), SIGTERM);
  program.wait();
  EXPECT_TRUE(eventually([&] { return Json::parse(daemon.ask("GET", "/v1/mps").body).empty(); }));
  ASSERT_EQ(daemon.cli().shell("$H share set m --compute 60%").status, 0);
  EXPECT_TRUE(eventually([&] { return edits().dump().contains("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=60"); }));
}

// Why that is asked first: without it the stand-in does to the neighbour what real servers do.
TEST_F(MpsShare, AClientKilledFirstEndsItsNeighbour) {
  create("m");
  create("n");
  Tenant victim(daemon_, "m"), neighbour(daemon_, "n");
  ASSERT_TRUE(eventually([&] { return daemon_.snapshot().gpus.at(0).mps_clients == 2; }));
  ASSERT_TRUE(eventually([&] { return part_of_sms(100) > 0.1; })) << "both are at work";
  const std::uint32_t pid = process_of("m");
  ASSERT_NE(pid, 0u);
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  EXPECT_NE(neighbour.program().wait(), 0);
}

TEST_F(MpsShare, TheAuditDetachesAClientBeforeItKillsIt) {
  const Directory folder;
  const std::string file = folder.path() + "/config.toml";
  std::ofstream(file) << "[audit]\npolicy = 'kill'\n";
  Daemon daemon({"--config", file});
  ASSERT_EQ(daemon.cli().shell("$H share create m --isolation=mps --mem 8GiB").status, 0);
  const Tenant neighbour(daemon, "m");
  ASSERT_TRUE(eventually([&] { return daemon.snapshot().gpus.at(0).mps_clients == 1; }));
  const auto pid_of_member = [&]() -> std::uint32_t {
    for (const auto& process : daemon.snapshot().processes)
      if (process.share == "m") return process.pid;
    return 0;
  };
  const std::uint32_t member = pid_of_member();
  const Json group = Json::parse(daemon.ask("GET", "/v1/mps").body).at(0);
  const std::string pipe = daemon.cli().runtime() + "/mps/" + group["uuid"].get<std::string>() + "/" +
                           std::to_string(group["owner_uid"].get<unsigned>()) + "/pipe";
  // A client of the same server, in no share.
  Program rogue(
      {HEADGATE_LOAD, "--duration=60s", "--kernels=200us", "--blocks=132", "--sync=depth:8", "--no-idle-list"},
      {{"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"},
       {"LD_LIBRARY_PATH", SIMULATOR_DIR},
       {"LD_PRELOAD", ""},
       {"CUDA_MPS_PIPE_DIRECTORY", pipe}});
  rogue.wait();
  EXPECT_TRUE(eventually([&] {
    const std::string acted = daemon.ask("GET", "/v1/events?kind=audit.acted").body;
    return acted.contains("was ended") || acted.contains("was taken off its MPS server, and has ended");
  })) << daemon.ask("GET", "/v1/events").body;
  rest_ms(300);
  EXPECT_EQ(pid_of_member(), member) << "the neighbour goes on";
  EXPECT_EQ(daemon.ask("GET", "/v1/events?kind=mps.wedged").body.find("wedged"), std::string::npos);
}

// By UUID: clients and control daemon see one GPU, and an index would be that of another.
TEST_F(MpsShare, AShareOnTheSecondGpuHasThatGpusDaemon) {
  Daemon daemon({}, "base = \"h200\"\nname = \"two\"\ncount = 2\n");
  const auto gpus = daemon.snapshot().gpus;
  ASSERT_EQ(gpus.size(), 2u);
  const Said made = daemon.cli().shell("$H share create m --isolation=mps --mem 8GiB --compute 30% --gpu 1");
  ASSERT_EQ(made.status, 0) << made.err;
  Tenant tenant(daemon, "m", "echo $CUDA_MPS_PIPE_DIRECTORY;");
  const std::string pipe = tenant.program().line();
  EXPECT_NE(pipe.find("/" + gpus[1].uuid + "/"), std::string::npos) << pipe;
  ASSERT_TRUE(eventually([&] { return daemon.share("m").level == "mps"; })) << tenant.program().errors_so_far();
  ASSERT_TRUE(eventually([&] { return daemon.snapshot().gpus.at(1).mps_clients == 1; }));
  EXPECT_EQ(daemon.snapshot().gpus.at(0).mps_clients, 0u);
  const auto truth = sim::read_truth(daemon.cli().directory() + "/node");
  ASSERT_TRUE(truth);
  EXPECT_EQ(truth->devices.at(0).busy_ns, 0u);
  EXPECT_GT(truth->devices.at(1).busy_ns, 0u);
}

TEST_F(MpsShare, ProgramsOfClassBestEffortAreBelowTheOthers) {
  create("m --class best-effort");
  Tenant tenant(daemon_, "m", "echo $CUDA_MPS_CLIENT_PRIORITY;");
  EXPECT_EQ(tenant.program().line(), "1");
}

// mps.exclusive: the control daemon holds a lease on the mode, so the mode ends with it.
TEST_F(MpsShare, TheGpuIsExclusiveWhileTheControlDaemonRuns) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const Directory folder;
  const std::string file = folder.path() + "/config.toml";
  std::ofstream(file) << "[mps]\nexclusive = true\n";
  Daemon daemon({"--config", file});
  const auto mode = [&] { return daemon.snapshot().gpus.at(0).compute_mode; };
  ASSERT_EQ(daemon.cli().shell("$H share create m --isolation=mps --mem 8GiB").status, 0);
  const auto refused = daemon.cli().shell("$H share create h --mem 8GiB");
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("mps.exclusive"), std::string::npos) << refused.err;
  EXPECT_EQ(mode(), "default") << "an idle share leaves the GPU as it is";
  auto tenant = std::make_unique<Tenant>(daemon, "m");
  ASSERT_TRUE(eventually([&] { return daemon.share("m").processes == 1; }));
  EXPECT_EQ(mode(), "exclusive process");
  Tenant second(daemon, "m");
  ASSERT_TRUE(eventually([&] { return daemon.share("m").processes == 2; })) << "clients share the server's context";
  daemon.kill_and_wait();
  daemon.start();
  EXPECT_EQ(mode(), "exclusive process") << "the lease of a living control daemon is adopted";
  tenant.reset();
  second.end();
  EXPECT_TRUE(eventually([&] { return mode() == "default"; })) << "it goes with the last tenant";

  // A container's program: no run prepares the control daemon.
  const std::string uuid = daemon.snapshot().gpus.at(0).uuid;
  const std::string group = daemon.cli().runtime() + "/mps/" + uuid + "/0";
  Program program({HEADGATE_LOAD, "--duration=60s", "--kernels=200us", "--sync=depth:8", "--no-idle-list"},
                  {{"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"},
                   {"HEADGATE_SHARE_DIR", daemon.cli().runtime() + "/shares/m"},
                   {"LD_LIBRARY_PATH", SIMULATOR_DIR},
                   {"LD_PRELOAD", HEADGATE_LIMITER},
                   {"CUDA_MPS_PIPE_DIRECTORY", group + "/pipe"}});
  EXPECT_TRUE(eventually([&] { return mode() == "exclusive process"; })) << program.errors_so_far();
  std::ofstream(group + "/log/demand") << "death";
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events?kind=mps.restarted").body.contains("started"); }));
  rest_ms(1'500);
  EXPECT_TRUE(eventually([&] { return mode() == "exclusive process"; })) << "the next control daemon has a lease too";
  ::kill(program.pid(), SIGKILL);
  program.wait();
  EXPECT_TRUE(eventually([&] { return mode() == "default"; }));
}

// Another's lease on one of two GPUs: that one is reported, and the other is held.
TEST_F(MpsShare, AModeThatCannotBeHeldIsReportedForItsGpuAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const Directory folder;
  const std::string file = folder.path() + "/config.toml";
  std::ofstream(folder.path() + "/two.toml") << "base = \"h200\"\nname = \"two\"\ncount = 2\n";
  std::ofstream(file) << "[mps]\nexclusive = true\n[sim]\nprofile = '" << folder.path() << "/two.toml'\n";
  Daemon daemon({"--config", file});
  const auto gpus = daemon.snapshot().gpus;
  ASSERT_EQ(gpus.size(), 2u);
  Program holder({"/bin/sleep", "600"}, {});
  ASSERT_EQ(daemon.cli().shell("$H gpu mode default --gpu 0 --pid " + std::to_string(holder.pid())).status, 0);
  std::vector<std::unique_ptr<Program>> programs;
  for (const char* number : {"0", "1"}) {
    const std::string name = std::string("on") + number;
    const Said made = daemon.cli().shell("$H share create " + name + " --isolation=mps --mem 8GiB --gpu " + number);
    ASSERT_EQ(made.status, 0) << made.err;
    // As in a container: no run prepares the control daemon.
    programs.push_back(std::make_unique<Program>(
        std::vector<std::string>{HEADGATE_LOAD, "--duration=60s", "--kernels=200us", "--sync=depth:8",
                                 "--no-idle-list"},
        std::map<std::string, std::string>{
            {"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"},
            {"HEADGATE_SHARE_DIR", daemon.cli().runtime() + "/shares/" + name},
            {"LD_LIBRARY_PATH", SIMULATOR_DIR},
            {"LD_PRELOAD", HEADGATE_LIMITER},
            {"CUDA_MPS_PIPE_DIRECTORY", daemon.cli().runtime() + "/mps/" + gpus[number[0] - '0'].uuid + "/0/pipe"}}));
  }
  const auto failed = [&] { return Json::parse(daemon.ask("GET", "/v1/events?kind=mps.failed").body); };
  ASSERT_TRUE(eventually([&] { return !failed().empty(); })) << programs[0]->errors_so_far();
  EXPECT_TRUE(eventually([&] { return daemon.snapshot().gpus.at(1).compute_mode == "exclusive process"; }));
  EXPECT_EQ(daemon.snapshot().gpus.at(0).compute_mode, "default");
  rest_ms(2'500);  // two more tries, if there were one each second
  ASSERT_EQ(failed().size(), 1u) << failed();
  EXPECT_EQ(failed()[0]["uuid"], gpus[0].uuid);
  for (const auto& program : programs) ::kill(program->pid(), SIGTERM), program->wait();
  EXPECT_TRUE(eventually([&] { return daemon.snapshot().gpus.at(1).compute_mode == "default"; }));
}

// Kills the daemon at the n-th step of its notes on control daemons and on leases: each is begun, and then replaced.
class KillerAtNotes {
 public:
  explicit KillerAtNotes(Daemon& daemon, int steps)
      : daemon_(daemon), steps_left_(steps), watch_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    for (const std::string& folder : {daemon.cli().runtime(), daemon.cli().directory() + "/state/headgate"})
      EXPECT_GE(::inotify_add_watch(watch_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO), 0) << folder;
  }
  // Waits until `over` holds while nothing is noted. Returns true if the daemon was killed before.
  bool kills_before(const std::function<bool()>& over) {
    for (;;) {
      pollfd polled{watch_.get(), POLLIN, 0};
      if (::poll(&polled, 1, 150) == 0) {
        if (over()) return false;
        continue;
      }
      alignas(inotify_event) std::array<char, 4096> bytes;
      const ssize_t count = ::read(watch_.get(), bytes.data(), bytes.size());
      for (ssize_t at = 0; at < count;) {
        const auto* const event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
        const std::string name = event->len > 0 ? event->name : "";
        const bool is_note = name.starts_with("mps.json") || name.starts_with("power-leases.json");
        if (is_note && --steps_left_ == 0) return daemon_.kill_and_wait(), true;
        at += static_cast<ssize_t>(sizeof *event + event->len);
      }
    }
  }

 private:
  Daemon& daemon_;
  int steps_left_;
  UniqueFd watch_;
};

TEST_F(MpsShare, ADaemonKilledAtEachNoteLeavesNeitherModeNorControlDaemon) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const Directory folder;
  const std::string file = folder.path() + "/config.toml";
  std::ofstream(file) << "[mps]\nexclusive = true\n";
  Daemon daemon({"--config", file});
  ASSERT_EQ(daemon.cli().shell("$H share create m --isolation=mps --mem 8GiB").status, 0);
  const auto mode = [&] { return daemon.snapshot().gpus.at(0).compute_mode; };
  const auto group_count = [&] { return Json::parse(daemon.ask("GET", "/v1/mps").body).size(); };
  const auto is_held = [&] { return daemon.share("m").processes == 1 && mode() == "exclusive process"; };
  const auto is_gone = [&] { return group_count() == 0 && mode() == "default"; };
  for (int step = 1;; ++step) {
    KillerAtNotes killer(daemon, step);
    auto tenant = std::make_unique<Tenant>(daemon, "m");
    bool killed = killer.kills_before(is_held);
    if (killed) {
      daemon.start();
      if (daemon.share("m").processes == 1) {
        EXPECT_EQ(group_count(), 1u) << step;
        EXPECT_TRUE(eventually([&] { return mode() == "exclusive process"; })) << step;
      }
    } else {
      ::kill(tenant->program().pid(), SIGTERM);
      killed = killer.kills_before(is_gone);
      if (killed) daemon.start();
    }
    tenant.reset();
    EXPECT_TRUE(eventually(is_gone)) << "killed at step " << step << ": " << group_count() << " groups, mode "
                                     << mode();
    if (killed) continue;
    EXPECT_GT(step, 12) << "a life has so many steps";
    break;
  }
}

}  // namespace
}  // namespace headgate::e2e
