// headgated's HTTP responses, checked against the OpenAPI document that it serves and with Prometheus's own checker.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "api/metrics.hpp"
#include "api/routes.hpp"
#include "api/test_reply.hpp"
#include "daemon_program.hpp"
#include "observe/event_log.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;

// Returns the value of the sample with that name and all of `labels`; -1 if there is none.
double sample(const std::string& page, const std::string& name, const std::vector<std::string>& labels = {}) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + "{") && !line.starts_with(name + " ")) continue;
    if (std::ranges::all_of(labels, [&](const std::string& label) { return line.contains(label); }))
      return std::stod(line.substr(line.rfind(' ') + 1));
  }
  return -1;
}

TEST(DaemonApi, AFollowerFromTheFirstEventGetsEveryKeptOne) {
  const Daemon daemon;
  const std::string uuid = daemon.snapshot().gpus.at(0).uuid;
  const auto change = [&] {
    ASSERT_EQ(daemon.ask("PATCH", "/v1/gpus/" + uuid, R"({"policy":"priority"})").status, 200);
  };
  // More events than the log keeps, and more than a megabyte of them.
  for (std::size_t i = 0; i < observe::EventLog::kCapacity; ++i) change();
  for (int i = 0; i < 200; ++i) {
    const std::string name = std::string(56, 'n') + std::to_string(1000 + i);
    ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":")" + name + R"(","mem":"1GiB"})").status, 201);
    ASSERT_EQ(daemon.ask("DELETE", "/v1/shares/" + name).status, 200);
  }
  auto source = http::EventSource::open({.path = daemon.socket()}, {.target = "/v1/events?follow=1&after=0"},
                                        std::chrono::milliseconds(5000));
  ASSERT_TRUE(source) << source.error().message;
  change();
  std::uint64_t last = 0;
  for (std::size_t i = 0; i <= observe::EventLog::kCapacity; ++i) {
    const auto event = source->next(std::chrono::milliseconds(10'000));
    ASSERT_TRUE(event && *event) << "after " << i << " events: " << (event ? "the end" : event.error().message);
    const std::uint64_t number = std::stoull((*event)->id);
    if (last != 0) {
      ASSERT_EQ(number, last + 1);
    }
    last = number;
  }
}

TEST(DaemonApi, EveryReplyFitsTheDocument) {
  const Daemon daemon;
  const std::string document = daemon.ask("GET", "/v1/openapi.json").body;
  std::set<std::string> asked;
  const auto expect = [&](const char* id, const char* method, const std::string& target, int status,
                          const std::string& body = "") {
    asked.insert(id);
    const auto reply = daemon.ask(method, target, body);
    EXPECT_EQ(reply.status, status) << id << ": " << reply.body;
    EXPECT_EQ(api::objection(document, id, reply.status, reply.body), "") << id;
    if (!body.empty() && status < 300) {
      EXPECT_EQ(api::request_objection(document, id, body), "") << id;
    }
  };
  const std::string uuid = daemon.snapshot().gpus.at(0).uuid;
  expect("createShare", "POST", "/v1/shares", 201, R"({"name":"alice","mem":"8GiB","compute":"50%","weight":7})");
  expect("createShare", "POST", "/v1/shares", 409, R"({"name":"bob","mem":"139GiB"})");
  expect("createShare", "POST", "/v1/shares", 400, R"({"name":"bob","memory":"1GiB"})");
  expect("changeShare", "PATCH", "/v1/shares/alice", 200, R"({"mem":"9GiB"})");
  expect("changeShare", "PATCH", "/v1/shares/missing", 404, R"({"mem":"9GiB"})");
  expect("changeShares", "PATCH", "/v1/shares", 200, R"({"alice":{"compute":"40%","weight":8}})");
  expect("changeShares", "PATCH", "/v1/shares", 400, R"({"alice":"40%"})");
  expect("changeShares", "PATCH", "/v1/shares", 404, R"({"alice":{"weight":9},"nobody":{"mem":"1GiB"}})");
  expect("pauseShare", "POST", "/v1/shares/alice/pause", 400, R"({"for":"5m"})");
  expect("pauseShare", "POST", "/v1/shares/alice/pause", 200);
  expect("drainShare", "POST", "/v1/shares/alice/drain", 200);
  expect("reclaimShare", "POST", "/v1/shares/alice/reclaim", 200);
  expect("drainShare", "POST", "/v1/shares/missing/drain", 404);
  expect("resumeShare", "POST", "/v1/shares/alice/resume", 200);
  expect("enterShare", "GET", "/v1/shares/alice/entry", 200);
  expect("checkContainer", "GET", "/v1/shares/alice/container", 200);
  expect("checkContainer", "GET", "/v1/shares/alice/container?uid=-1", 400);
  expect("checkContainer", "GET", "/v1/shares/alice/container?uid=4000000&gid=4000000&groups=7,8", 403);
  expect("checkContainer", "GET", "/v1/shares/missing/container", 404);
  expect("getShare", "GET", "/v1/shares/alice", 200);
  expect("getShare", "GET", "/v1/shares/missing", 404);
  expect("listShares", "GET", "/v1/shares", 200);
  expect("getNode", "GET", "/v1/node", 200);
  expect("getSnapshot", "GET", "/v1/snapshot", 200);
  expect("listGpus", "GET", "/v1/gpus", 200);
  expect("getGpu", "GET", "/v1/gpus/" + uuid, 200);
  std::string shouted = uuid;
  std::ranges::transform(shouted, shouted.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  expect("getGpu", "GET", "/v1/gpus/" + shouted, 200);
  expect("changeGpu", "PATCH", "/v1/gpus/" + shouted, 200, R"({"policy":"priority"})");
  expect("changeGpu", "PATCH", "/v1/gpus/" + uuid, 200, R"({"policy":"priority"})");
  expect("changeGpu", "PATCH", "/v1/gpus/" + uuid, 400, R"({"policy":"random"})");
  expect("getGpu", "GET", "/v1/gpus/GPU-none", 404);
  expect("listWaiting", "GET", "/v1/queue", 200);
  expect("waitForRoom", "POST", "/v1/queue", 400, R"({"name":"bob","memory":"1GiB"})");
  expect("listProcesses", "GET", "/v1/processes", 200);
  expect("listEvents", "GET", "/v1/events?after=0", 200);
  expect("setQuota", "PUT", "/v1/quotas", 200, R"({"user":"root","mem":"20GiB","shares":4})");
  expect("setQuota", "PUT", "/v1/quotas", 400, R"({"mem":"20GiB"})");
  expect("changeQuota", "PATCH", "/v1/quotas", 200, R"({"user":"root","mem":"none","class":"latency"})");
  expect("changeQuota", "PATCH", "/v1/quotas", 400, R"({"user":"root"})");
  expect("listQuotas", "GET", "/v1/quotas", 200);
  expect("setQuota", "PUT", "/v1/quotas", 200, R"({"everyone":true,"shares":4})");
  expect("removeQuota", "DELETE", "/v1/quotas?everyone=0", 400);
  expect("removeQuota", "DELETE", "/v1/quotas?everyone=no", 400);
  expect("removeQuota", "DELETE", "/v1/quotas?everyone=1", 200);
  expect("listEvents", "GET", "/v1/events?follow=no", 400);
  expect("enterShare", "GET", "/v1/shares/alice/entry?stay=no", 400);
  expect("removeQuota", "DELETE", "/v1/quotas?user=root", 200);
  expect("removeQuota", "DELETE", "/v1/quotas?user=root", 404);
  expect("removeQuota", "DELETE", "/v1/quotas", 400);
  expect("pullTasks", "GET", "/v1/channel/scheduler/tasks?wait=0", 200);
  expect("pullTasks", "GET", "/v1/channel/scheduler/tasks?wait=x", 400);
  expect("acknowledgeTask", "POST", "/v1/channel/scheduler/tasks/7/ack?attempt=1", 404);
  expect("settleTask", "POST", "/v1/channel/scheduler/tasks/7/result?attempt=1", 404, R"({"allow":true})");
  expect("getChannelClient", "GET", "/v1/channel/scheduler", 200);
  expect("listChannelClients", "GET", "/v1/channel", 200);
  expect("removeShare", "DELETE", "/v1/shares/alice", 200);
  expect("health", "GET", "/healthz", 200);
  expect("readiness", "GET", "/readyz", 200);
  expect("document", "GET", "/v1/openapi.json", 200);
  expect("getPower", "GET", "/v1/power", 200);
  expect("listPowerProfiles", "GET", "/v1/power/profiles", 200);
  expect("setPower", "POST", "/v1/power/settings", 200, R"({"gpus":[0],"settings":{"power_limit":"400W"}})");
  expect("setPower", "POST", "/v1/power/settings", 400, R"({"gpus":[0],"settings":{"power_limit":"9000W"}})");
  expect("resetPower", "POST", "/v1/power/reset", 200, R"({"gpus":[0]})");
  expect("listPowerLeases", "GET", "/v1/power/leases", 200);
  expect("createPowerLease", "POST", "/v1/power/leases", 201,
         R"({"gpus":[0],"settings":{"power_limit":"400W"},"ttl_s":60})");
  expect("prolongPowerLease", "POST", "/v1/power/leases/none/heartbeat", 404);
  expect("keepPowerLease", "POST", "/v1/power/leases/none/keep", 404);
  expect("endPowerLease", "DELETE", "/v1/power/leases/none", 404);
  expect("listMps", "GET", "/v1/mps", 200);
  expect("terminateMpsClient", "POST", "/v1/mps/clients/" + std::to_string(::getpid()) + "/terminate", 200);
  expect("terminateMpsClient", "POST", "/v1/mps/clients/1073741823/terminate", 404);
  expect("releaseDriver", "POST", "/v1/gpus/all/release", 200);
  for (const char* id : {"metrics", "dcgmMetrics", "influxMetrics", "jsonMetrics"})
    asked.insert(id);  // no JSON: see the next test
  for (const auto& route : api::routes())
    EXPECT_TRUE(asked.contains(std::string(route.id))) << route.id << " is not asked";
}

TEST(DaemonApi, PrometheusFindsOnlyDocumentedSeries) {
  const Daemon daemon;
  ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"alice","mem":"8GiB","compute":"30%"})").status, 201);
  Program tenant({HEADGATE_COMMAND, "run", "--share", "alice", "--", HEADGATE_LOAD, "--mem=1GiB", "--duration=60s",
                  "--no-idle-list"},
                 {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}});
  std::string page;
  const auto ask = [&] { return page = daemon.ask("GET", "/metrics").body; };
  EXPECT_TRUE(eventually([&] { return sample(ask(), "headgate_share_throttled_seconds_total", {"alice"}) > 0.2; }))
      << page;
  EXPECT_GT(sample(page, "headgate_share_gpu_seconds_total", {"alice"}), 0);
  EXPECT_GE(sample(page, "headgate_share_launch_delay_seconds_count", {"alice"}),
            sample(page, "headgate_share_throttled_launches_total", {"alice"}));
  EXPECT_TRUE(eventually([&] { return sample(ask(), "headgate_share_energy_joules_total", {"alice"}) > 0; })) << page;
  EXPECT_TRUE(eventually([&] { return sample(ask(), "headgate_gpu_sm_active_ratio") > 0; })) << page;
  EXPECT_GE(sample(page, "headgate_share_memory_used_bytes", {"alice"}), 1 << 30);
  EXPECT_EQ(sample(page, "headgate_share_memory_limit_bytes", {"alice"}), 8.0 * (1 << 30));
  EXPECT_EQ(sample(page, "headgate_share_enforcement", {"alice", "enforced"}), 1);
  EXPECT_EQ(sample(page, "headgate_gpu_info", {"simulated=\"true\""}), 1);
  EXPECT_EQ(sample(page, "headgate_daemon_events_total", {"share.created"}), 1);
  EXPECT_GT(sample(page, "headgate_daemon_resident_memory_bytes"), 0);
  {
    // Connections are counted once a second, so a short request would mostly fall between two counts.
    const auto stays = http::EventSource::open({.path = daemon.socket()}, {.target = "/v1/events?follow=1"},
                                               std::chrono::milliseconds(5000));
    ASSERT_TRUE(stays) << stays.error().message;
    EXPECT_TRUE(eventually([&] { return sample(ask(), "headgate_daemon_clients") >= 1; })) << page;
  }
  std::set<std::string> known;
  for (const auto& metric : api::metrics()) known.emplace(metric.name);
  static const std::regex type(R"(# TYPE (\S+) )");
  for (std::sregex_iterator at(page.begin(), page.end(), type), end; at != end; ++at)
    EXPECT_TRUE(known.contains((*at)[1])) << (*at)[1];
  EXPECT_GT(sample(daemon.ask("GET", "/metrics/dcgm").body, "DCGM_FI_DEV_FB_USED"), 1024);
  EXPECT_TRUE(std::regex_search(
      daemon.ask("GET", "/metrics/influx").body,
      std::regex(R"(headgate_share,node=[^ ]+,share=alice,uuid=GPU-\S+ \S*memory_limit_bytes=8589934592)")));
  EXPECT_TRUE(daemon.ask("GET", "/metrics/json").body.contains(R"("memory_limit_bytes":8589934592.0)"));
  tenant.kill_now();
  tenant.wait();
  if (::access(PROMTOOL, X_OK) != 0) GTEST_SKIP() << "dev/real-parts has not been run";
  std::ofstream(daemon.cli().directory() + "/page") << page;
  const Said said = daemon.cli().shell(PROMTOOL " check metrics < $D/page");
  EXPECT_EQ(said.status, 0) << said.out << said.err;
}

TEST(DaemonApi, FiguresAndEventsAreAppendedToAFile) {
  const Cli files;
  const std::string path = files.directory() + "/metrics.log";
  (void)files.shell("printf '[metrics]\\nfile = \"" + path +
                    "\"\\nformat = \"influx\"\\ninterval = \"1s\"\\njob_directory = \"" + files.directory() +
                    "/jobs\"\\n' > $D/c.toml");
  Daemon daemon({"--config", files.directory() + "/c.toml"});
  ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"alice","mem":"8GiB"})").status, 201);
  std::string text;
  const auto holds = [&](const char* pattern) {
    std::ifstream in(path);
    text.assign(std::istreambuf_iterator<char>(in), {});
    return std::regex_search(text, std::regex(pattern));
  };
  EXPECT_TRUE(eventually([&] {
    return holds(R"(headgate_share,node=\S+,share=alice,uuid=GPU-\S+ \S*memory_limit_bytes=)");
  })) << text;
  EXPECT_TRUE(eventually([&] {
    return holds(R"(headgate_event,node=\S+,kind=share.created,severity=info,share=alice )");
  })) << text;
  EXPECT_TRUE(holds(R"(headgate_gpu,node=\S+,uuid=GPU-\S+ memory_total_bytes=)")) << text;
  // All formats have all figures: the file, the lines and the page.
  EXPECT_TRUE(holds(R"(headgate_arbiter,node=\S+ \S*gate_changes_total=)")) << text;
  EXPECT_TRUE(holds(R"(headgate_daemon,node=\S+ \S*cpu_seconds_total=)")) << text;
  for (const char* target : {"/metrics", "/metrics/influx", "/metrics/json"}) {
    const std::string page = daemon.ask("GET", target).body;
    for (const char* figure : {"decision_seconds_count", "gate_changes_total", "doorbell_rings_total"})
      EXPECT_TRUE(page.contains(figure)) << target << " lacks " << figure;
  }
  EXPECT_TRUE(eventually([&] { return ::access((files.directory() + "/jobs/0").c_str(), R_OK) == 0; })) << text;
  EXPECT_EQ(daemon.stop(), 0);
  const Said bad = files.shell("printf '[metrics]\\nfile = \"here\"\\n' > $D/c.toml; " + std::string(HEADGATE_DAEMON) +
                               " --sim --config $D/c.toml");
  EXPECT_EQ(bad.status, 2);
  EXPECT_NE(bad.err.find("c.toml:2: metrics.file = 'here' is a relative path"), std::string::npos) << bad.err;
}

TEST(DaemonApi, EventsAreWrittenOnceTheFileHasRoomAndAtTheEnd) {
  const Cli files;
  const std::string folder = files.directory() + "/logs", path = folder + "/metrics.log";
  const auto configure = [&](const std::string& text) { std::ofstream(files.directory() + "/c.toml") << text; };
  const auto every = [&](const char* interval) {
    configure("[metrics]\nfile = \"" + path + "\"\ninterval = \"" + interval + "\"\n");
  };
  std::string text;
  const auto times_told = [&](const std::string& kind, const std::string& share) {
    std::ifstream in(path);
    text.assign(std::istreambuf_iterator<char>(in), {});
    const std::regex line("headgate_event,node=\\S+,kind=" + kind + ",severity=info,share=" + share + " ");
    return std::distance(std::sregex_iterator(text.begin(), text.end(), line), std::sregex_iterator());
  };
  configure("");
  Daemon daemon({"--config", files.directory() + "/c.toml"});
  ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"alice","mem":"1GiB"})").status, 201);
  EXPECT_EQ(daemon.stop(), 0);

  // Without its folder the first write fails. By then the daemon has recorded that it adopted the share.
  every("1s");
  daemon.start();
  std::string log;
  ASSERT_TRUE(eventually([&] { return (log += daemon.errors_so_far()).contains("metrics.file: " + path); })) << log;
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  EXPECT_TRUE(eventually([&] { return times_told("share.adopted", "alice") == 1; })) << text;
  EXPECT_EQ(daemon.stop(), 0);
  EXPECT_EQ(times_told("share.adopted", "alice"), 1) << text;

  every("1d");
  daemon.start();
  ASSERT_TRUE(eventually([&] { return times_told("share.adopted", "alice") == 2; })) << text;
  ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"late","mem":"1GiB"})").status, 201);
  EXPECT_EQ(daemon.stop(), 0);
  EXPECT_EQ(times_told("share.created", "late"), 1) << text;
}

TEST(DaemonApi, SystemdLearnsReadyReloadedAliveAndStopping) {
  const Cli place;  // removed with the test
  const std::string name = place.directory() + "/notify";
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  Daemon daemon;
  ::unsetenv("NOTIFY_SOCKET");
  std::string heard;
  const auto hears = [&](const std::string& what) {
    return eventually([&] {
      std::array<char, 4096> text{};
      for (ssize_t size; (size = ::recv(socket.get(), text.data(), text.size(), MSG_DONTWAIT)) > 0;)
        heard += std::string(text.data(), static_cast<std::size_t>(size)) + "\n";
      return heard.contains(what);
    });
  };
  EXPECT_TRUE(hears("READY=1\nSTATUS=1 GPU (SIMULATED), 0 shares")) << heard;
  EXPECT_TRUE(hears("WATCHDOG=1")) << heard;
  daemon.signal(SIGHUP);
  EXPECT_TRUE(hears("RELOADING=1\nMONOTONIC_USEC=")) << heard;
  EXPECT_TRUE(hears("READY=1\nSTATUS=the configuration was read again")) << heard;
  EXPECT_EQ(daemon.stop(), 0);
  EXPECT_TRUE(hears("STOPPING=1")) << heard;
}

TEST(DaemonApi, ReadinessFailsForEachFailedDuty) {
  const Daemon daemon;
  ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"alice","mem":"8GiB"})").status, 201);
  EXPECT_EQ(daemon.ask("GET", "/readyz").status, 200);
  const auto expect_unready = [&](const std::string& reason) {
    const auto reply = daemon.ask("GET", "/readyz");
    EXPECT_EQ(reply.status, 503) << reason;
    const auto body = nlohmann::json::parse(reply.body, nullptr, false);
    ASSERT_TRUE(body.is_object()) << reply.body;
    EXPECT_EQ(body.value("code", ""), "unreachable");
    EXPECT_NE(body.value("message", "").find(reason), std::string::npos) << reply.body;
    EXPECT_NE(body.value("hint", ""), "");
    EXPECT_EQ(daemon.ask("GET", "/healthz").status, 200);
    const Said doctor = daemon.cli().shell("$H doctor");
    EXPECT_NE(doctor.out.find("headgated is not ready: "), std::string::npos) << doctor.out;
  };
  const fs::path socket = daemon.cli().runtime() + "/shares/alice/tenant.sock";
  // A directory at the socket's path, so that the daemon cannot create it again each second.
  ASSERT_TRUE(eventually([&] {
    std::error_code taken;
    fs::remove(socket, taken);
    return fs::create_directory(socket, taken);
  }));
  expect_unready("programs cannot enter alice: the socket is gone");
  fs::remove(socket);
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/readyz").status == 200; }));
  EXPECT_TRUE(fs::is_socket(socket));

  const std::string node = "HEADGATE_SIM_DIR=$D/node $H sim fault --sim ";
  ASSERT_EQ(daemon.cli().shell(node + "device0:lost").status, 0);
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/readyz").status == 503; }));
  expect_unready("none of the driver's GPUs answers (1)");
  EXPECT_TRUE(daemon.ask("GET", "/v1/events").body.contains("\"gpu.lost\"")) << "the events do not show the loss";
  const Said doctor = daemon.cli().shell("$H doctor");
  EXPECT_NE(doctor.out.find("fail  GPU 0 does not answer: "), std::string::npos) << doctor.out << doctor.err;
  ASSERT_EQ(daemon.cli().shell(node + "clear").status, 0);
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/readyz").status == 200; }));
  EXPECT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("\"gpu.found\""); }));

  fs::path database;
  for (const auto& entry : fs::recursive_directory_iterator(daemon.cli().directory()))
    if (entry.path().filename() == "headgate.db") database = entry.path();
  ASSERT_FALSE(database.empty());
  fs::remove(database);
  expect_unready("the database " + database.string());
}

TEST(DaemonApi, DoctorRemovesNoPagesOfAStoppedDaemon) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create kept --mem 1GiB").status, 0);
  const Said released = daemon.cli().shell("$H gpu release && $H doctor");
  EXPECT_NE(released.out.find("headgated does not see the driver"), std::string::npos) << released.out << released.err;
  EXPECT_EQ(released.out.find("NVML answers"), std::string::npos) << released.out;
  ASSERT_EQ(daemon.stop(), 0);
  const Said said = daemon.cli().shell("$H doctor");
  EXPECT_NE(said.out.find("shares lie in "), std::string::npos) << said.out << said.err;
  EXPECT_EQ(said.out.find("rm -r"), std::string::npos) << said.out;
}

}  // namespace
}  // namespace headgate::e2e
