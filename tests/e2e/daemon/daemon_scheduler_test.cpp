// An outside scheduler over the task channel, with a real headgated and real tenants: which processes may enter a
// share, and what happens to an allocation without room.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/test_reply.hpp"
#include "base/units.hpp"
#include "channel/test_agent.hpp"
#include "daemon_program.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::e2e {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = 1 << 20;

// A minimal scheduler: takes one question and answers it.
class Scheduler {
 public:
  explicit Scheduler(const Daemon& daemon) : agent_({.server = {.path = daemon.socket()}, .client = "scheduler"}) {}

  Json next(const std::string& kind) {
    for (int tries = 0; tries < 20; ++tries) {
      const auto task = agent_.pull(3s);
      if (!task || !*task) continue;
      task_ = **task;
      if (task_.kind == kind) return Json::parse(task_.payload);
    }
    ADD_FAILURE() << "no task of kind " << kind;
    return {};
  }
  void answers(const std::string& result) {
    const auto taken = agent_.answer(task_, true, result);
    EXPECT_TRUE(taken) << taken.error().message;
  }

 private:
  channel::BlockingAgent agent_;
  channel::Assignment task_;
};

class Tenant {
 public:
  Tenant(const Daemon& daemon, const std::string& share)
      : program_({HEADGATE_COMMAND, "run", "--share", share, "--", "sh", "-c",
                  std::string("echo $$; exec ") + TENANT_POOL + " -"},
                 {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}, {"HEADGATE_LOG", "warn"}}),
        program_pid_(std::stoi(program_.line())) {}
  ~Tenant() {
    if (program_pid_ > 0) ::kill(program_pid_, SIGKILL);  // may be waiting for an hour
  }
  Tenant(const Tenant&) = delete;
  std::string ready() { return program_.line(); }
  void say(const std::string& word) { program_.say(word); }
  std::string told() {
    const std::string line = program_.line();
    return line.substr(std::min(line.size(), line.rfind(": ") + 2));
  }
  std::string does(const std::string& word) {
    say(word);
    return told();
  }
  std::string ends() {
    program_.close_stdin();
    program_.wait();
    program_pid_ = 0;
    return program_.errors();
  }
  // Sends SIGKILL to the program itself, not to the command that waits for it.
  void killed() {
    if (program_pid_ > 0) ::kill(program_pid_, SIGKILL);
    program_pid_ = 0;
    program_.wait();
  }

 private:
  Program program_;
  int program_pid_;
};

std::string mib(const char* verb, std::uint64_t count) {
  return std::string(verb) + ":" + std::to_string(count * kMiB);
}

// Returns the text of the share's newest event of that kind; empty if there is none.
std::string event(const Daemon& daemon, const std::string& kind, const std::string& share) {
  std::string text;
  for (const Json& one : Json::parse(daemon.ask("GET", "/v1/events?after=0").body)) {
    if (one["kind"] == kind && one["share"] == share) text = one["text"];
  }
  return text;
}

// A scheduler in another process that acknowledges one question and never answers.
class DeafScheduler {
 public:
  explicit DeafScheduler(const Daemon& daemon) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with the test, even a failed one
    channel::BlockingAgent agent({.server = {.path = daemon.socket()}, .client = "scheduler"});
    for (;;) (void)agent.pull(30s);
  }
  ~DeafScheduler() { killed(); }
  DeafScheduler(const DeafScheduler&) = delete;
  void killed() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_;
};

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

struct Tiny {
  Directory place;
  std::optional<Daemon> daemon;
  explicit Tiny(const std::string& configuration = "") {
    std::ofstream(place.path() + "/config.toml") << configuration;
    daemon.emplace(std::vector<std::string>{"--sim=tiny", "--config", place.path() + "/config.toml"});
  }
  void share(const std::string& words) {
    const Said said = daemon->cli().shell("$H share create " + words);
    ASSERT_EQ(said.status, 0) << said.err;
  }
};

TEST(DaemonScheduler, AnAskingShareAdmitsOnlyWithTheScheduler) {
  Tiny node;
  node.share("asks --mem 512MiB --admit ask");
  Scheduler scheduler(*node.daemon);
  {
    Tenant tenant(*node.daemon, "asks");
    const Json asked = scheduler.next("admit");
    EXPECT_EQ(asked["share"], "asks");
    EXPECT_EQ(asked["command"], "limiter_pool");
    EXPECT_EQ(asked["devices"][0]["memory_limit_bytes"], 512 * kMiB);
    scheduler.answers(R"({"allow":true})");
    EXPECT_EQ(tenant.ready(), "ready: 0");
    EXPECT_EQ(tenant.does(mib("linear", 100)), "0");
    EXPECT_EQ(tenant.ends(), "");
  }
  EXPECT_NE(event(*node.daemon, "admit.allowed", "asks"), "");
  Tenant tenant(*node.daemon, "asks");
  (void)scheduler.next("admit");
  scheduler.answers(R"({"allow":false,"reason":"full until noon"})");
  EXPECT_EQ(tenant.ready(), "ready: 800");
  const std::string errors = tenant.ends();
  EXPECT_NE(errors.find("the scheduler said no: full until noon"), std::string::npos) << errors;
  EXPECT_NE(event(*node.daemon, "admit.denied", "asks").find("full until noon"), std::string::npos);
  const Said why = node.daemon->cli().shell("$H why asks");
  EXPECT_NE(why.out.find("  processes: denied once in the last day, last at "), std::string::npos)
      << why.out << why.err;
  EXPECT_NE(why.out.find("full until noon"), std::string::npos) << why.out;
  EXPECT_NE(node.daemon->cli().shell("$H share show asks | tr -s ' '").out.find("\nadmit ask\non-oom fail\n"),
            std::string::npos);
  EXPECT_TRUE(eventually([&] { return node.daemon->share("asks").processes == 0; })) << "a slot was kept";
}

// deploy/examples/scheduler.py, as docs/channel.md names it.
TEST(DaemonScheduler, TheExampleAdmitsExactlyItsUsers) {
  if (::access("/usr/bin/python3", X_OK) != 0) GTEST_SKIP() << "there is no Python here";
  Tiny node;
  node.share("asks --mem 512MiB --admit ask");
  const auto answered_by_example = [&](const std::string& user) {
    Program example({"/usr/bin/python3", HEADGATE_EXAMPLES "/scheduler.py", "--socket", node.daemon->socket(), "--user",
                     user, "--once"},
                    {});
    Tenant tenant(*node.daemon, "asks");
    const std::string ready = tenant.ready();
    EXPECT_EQ(example.wait(), 0) << example.errors();
    return ready + " " + tenant.ends();
  };
  EXPECT_EQ(answered_by_example(std::to_string(::geteuid())), "ready: 0 ");
  const std::string refused = answered_by_example(std::to_string(::geteuid() + 1));
  EXPECT_TRUE(refused.starts_with("ready: 800 ")) << refused;
  EXPECT_NE(refused.find("only jobs of the queue run here"), std::string::npos) << refused;
}

TEST(DaemonScheduler, ASecondAgentDecidesWhatADeadOneHeld) {
  Tiny node("[node]\nadmit_timeout = \"12s\"\n");
  node.share("asks --mem 512MiB --admit ask");
  const auto state = [&] {
    const auto reply = Json::parse(node.daemon->ask("GET", "/v1/channel/scheduler").body);
    return reply["tasks"].empty() ? std::string() : reply["tasks"].back()["state"].get<std::string>();
  };
  DeafScheduler first(*node.daemon);
  Tenant tenant(*node.daemon, "asks");
  ASSERT_TRUE(eventually([&] { return state() == "working"; })) << state();
  first.killed();
  Scheduler second(*node.daemon);
  EXPECT_EQ(second.next("admit")["share"], "asks");
  second.answers(R"({"allow":true})");
  EXPECT_EQ(tenant.ready(), "ready: 0");
  EXPECT_EQ(tenant.ends(), "");
}

TEST(DaemonScheduler, AProcessWithoutASchedulerIsRefusedInTime) {
  Tiny node("[node]\nadmit_timeout = \"2s\"\n");
  node.share("asks --mem 512MiB --admit ask");
  const auto began = std::chrono::steady_clock::now();
  Tenant tenant(*node.daemon, "asks");
  EXPECT_TRUE(eventually([&] {
    return event(*node.daemon, "admit.asked", "asks").find("none is connected: refused in 2 s") != std::string::npos;
  }));
  EXPECT_EQ(tenant.ready(), "ready: 800");
  EXPECT_GE(seconds_since(began), 2);
  const std::string errors = tenant.ends();
  EXPECT_NE(errors.find("no scheduler said yes: the agent of 'scheduler' did not come in time"), std::string::npos)
      << errors;
  const Said said = node.daemon->cli().shell("$H events --since 5m");
  EXPECT_NE(said.out.find("was not admitted to asks, because no answer came"), std::string::npos)
      << said.out << said.err;
}

TEST(DaemonScheduler, AQueryEndsWithItsProcessOrTheDaemon) {
  Tiny node;
  node.share("asks --mem 512MiB --admit ask");
  const auto state = [&] {
    const auto reply = Json::parse(node.daemon->ask("GET", "/v1/channel/scheduler").body);
    return reply["tasks"].empty() ? std::string() : reply["tasks"].back()["state"].get<std::string>();
  };
  {
    Program gone({HEADGATE_COMMAND, "run", "--share", "asks", "--", "sh", "-c",
                  std::string("echo $$; exec ") + TENANT_POOL + " -"},
                 {{"HEADGATE_RUNTIME_DIR", node.daemon->cli().runtime()}});
    const int pid = std::stoi(gone.line());
    ASSERT_TRUE(eventually([&] { return state() == "queued"; }));
    ::kill(pid, SIGKILL);
    EXPECT_TRUE(eventually([&] { return state() == "cancelled"; })) << state();
    gone.wait();
  }
  Tenant tenant(*node.daemon, "asks");
  ASSERT_TRUE(eventually([&] { return state() == "queued"; }));
  node.daemon->kill_and_wait();
  EXPECT_EQ(tenant.ready(), "ready: 800");
  const std::string errors = tenant.ends();
  EXPECT_NE(errors.find("asks a scheduler about each process"), std::string::npos) << errors;
  // Opening the share's files directly, which this user can, does not help either.
  const std::string files =
      "HEADGATE_SHARE_DIR=" + node.daemon->cli().runtime() +
      "/shares/asks HEADGATE_SIM_DIR=$D/run/sim/tiny LD_LIBRARY_PATH=$SIM LD_PRELOAD=" HEADGATE_LIMITER " " TENANT_POOL
      " linear:1";
  Said said = node.daemon->cli().shell(files);
  EXPECT_NE(said.out.find("ready: 800"), std::string::npos) << said.out << said.err;
  said = node.daemon->cli().shell(
      "HEADGATE_SHARE=asks HEADGATE_SIM_DIR=$D/run/sim/tiny LD_LIBRARY_PATH=$SIM "
      "LD_PRELOAD=" HEADGATE_LIMITER " " TENANT_POOL " linear:1");
  EXPECT_NE(said.out.find("ready: 800"), std::string::npos) << said.out << said.err;
  EXPECT_NE(said.err.find("which only headgated does"), std::string::npos) << said.err;
}

TEST(DaemonScheduler, AWaitingProcessEntersOnceTheShareStopsAsking) {
  Tiny node;
  node.share("asks --mem 512MiB --admit ask");
  const auto waits = [&] {
    return node.daemon->cli().shell("$H why asks").out.find("waits for leave") != std::string::npos;
  };
  Tenant first(*node.daemon, "asks");
  ASSERT_TRUE(eventually(waits));
  ASSERT_EQ(node.daemon->cli().shell("$H share set asks --admit now").status, 0);
  EXPECT_EQ(first.ready(), "ready: 0");
  EXPECT_NE(event(*node.daemon, "admit.withdrawn", "asks").find("the share asks no more"), std::string::npos);
  ASSERT_EQ(node.daemon->cli().shell("$H share set asks --admit ask").status, 0);
  Tenant second(*node.daemon, "asks");
  ASSERT_TRUE(eventually(waits));
  ASSERT_EQ(node.daemon->cli().shell("$H share drain asks").status, 0);
  EXPECT_EQ(second.ready(), "ready: 800");
  EXPECT_NE(second.ends().find("the share is being drained"), std::string::npos);
  EXPECT_FALSE(waits());
  EXPECT_EQ(event(*node.daemon, "admit.denied", "asks"), "") << "the scheduler denied nothing";
}

// Like a modified limiter: this process may open the share's files.
TEST(DaemonScheduler, AProcessThatSkipsTheQueryIsNamed) {
  Tiny node("[node]\nadmit_timeout = \"1s\"\n");
  node.share("asks --mem 512MiB --admit ask");
  ledger::SharePages pages;
  ledger::SlotRef slot;
  ASSERT_FALSE(ledger::open_share(node.daemon->cli().runtime().c_str(), "asks", ledger::Access::tenant, pages));
  ASSERT_EQ(ledger::claim_for_self(*pages.usage, slot), ledger::ClaimResult::claimed);
  EXPECT_TRUE(eventually([&] {
    return event(*node.daemon, "tenant.lied", "asks").find("and none has admitted it") != std::string::npos;
  }));
  ledger::release(*pages.usage, slot);
  ledger::close_pages(pages);
}

TEST(DaemonScheduler, PollsByCurlFitTheDocument) {
  Tiny node;
  node.share("asks --mem 512MiB --admit ask");
  const Daemon& daemon = *node.daemon;
  const std::string document = daemon.ask("GET", "/v1/openapi.json").body;
  const auto fits = [&](const char* operation, const Daemon::Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(api::objection(document, operation, reply.status, reply.body), "") << reply.body;
    return Json::parse(reply.body);
  };
  Tenant tenant(daemon, "asks");
  const Json tasks = fits("pullTasks", daemon.ask("GET", "/v1/channel/scheduler/tasks?wait=15s"))["tasks"];
  ASSERT_EQ(tasks.size(), 1u);
  const std::string at = "/v1/channel/scheduler/tasks/" + tasks[0]["id"].dump();
  EXPECT_GT(fits("acknowledgeTask", daemon.ask("POST", at + "/ack?attempt=1"))["lease_ms"], 1000);
  EXPECT_EQ(fits("getChannelClient", daemon.ask("GET", "/v1/channel/scheduler"))["tasks"][0]["state"], "working");
  EXPECT_EQ(fits("listChannelClients", daemon.ask("GET", "/v1/channel"))["clients"], Json::array({"scheduler"}));
  fits("settleTask", daemon.ask("POST", at + "/result?attempt=1", R"({"allow":true})"));
  EXPECT_EQ(tenant.ready(), "ready: 0");
}

TEST(DaemonScheduler, OnlyAdministratorsActForTheScheduler) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  Tiny node;
  const Said said = node.daemon->cli().shell(
      "chmod 755 $D $D/run $D/run/control; chmod 666 $D/run/control/headgate.sock; setpriv --reuid 65534 --regid 65534 "
      "--clear-groups curl -s --unix-socket $D/run/control/headgate.sock http://localhost/v1/channel/scheduler/tasks");
  EXPECT_NE(said.out.find("you may not speak for client 'scheduler'"), std::string::npos) << said.out << said.err;
}

TEST(DaemonOom, AnAllocationWaitsUntilAnotherProcessFrees) {
  Tiny node;
  node.share("waits --mem 600MiB --on-oom wait=60s");
  Tenant holder(*node.daemon, "waits"), waiter(*node.daemon, "waits");
  ASSERT_EQ(holder.ready(), "ready: 0");
  ASSERT_EQ(waiter.ready(), "ready: 0");
  EXPECT_EQ(holder.does(mib("linear", 400)), "0");
  for (const char* verb : {"linear", "alloc"}) {
    waiter.say(mib(verb, 300));
    EXPECT_TRUE(eventually([&] { return event(*node.daemon, "memory.waiting", "waits") != ""; }));
    EXPECT_EQ(holder.does(verb == std::string("linear") ? "now:0" : "now:1"), "0");
    EXPECT_EQ(waiter.told(), "0") << verb;
    EXPECT_EQ(waiter.does(verb == std::string("linear") ? "now:0" : "now:1"), "0");
    EXPECT_EQ(waiter.does("sync"), "0");
    EXPECT_EQ(holder.does(mib("linear", 400)), "0");
  }
  EXPECT_EQ(node.daemon->share("waits").devices.at(0).refusals, 0u);
}

// By its account alone, without contexts, there would seem to be room.
TEST(DaemonOom, WhyExplainsAWaitingAllocation) {
  Tiny node;
  node.share("waits --mem 600MiB --on-oom wait=60s");
  Tenant holder(*node.daemon, "waits"), waiter(*node.daemon, "waits");
  ASSERT_EQ(holder.ready(), "ready: 0");
  ASSERT_EQ(waiter.ready(), "ready: 0");
  EXPECT_EQ(holder.does(mib("linear", 300)), "0");
  waiter.say(mib("linear", 300));
  std::string why;
  EXPECT_TRUE(eventually([&] {
    why = node.daemon->cli().shell("$H why waits").out;
    return why.find("an allocation has been waiting for ") != std::string::npos;
  })) << why;
  const snapshot::Share share = node.daemon->share("waits");
  EXPECT_EQ(share.state, "full");
  EXPECT_EQ(share.idle_ns, 0u);
  const std::string used = bytes_text(share.devices.at(0).memory_used_bytes);
  EXPECT_NE(used, "300 MiB") << "contexts are in it";
  EXPECT_NE(why.find(": waits waits for 300 MiB; " + used +
                     " of its 600 MiB are in use, contexts and code among "
                     "them\n"),
            std::string::npos)
      << why;
  EXPECT_EQ(holder.does("now:0"), "0");
  EXPECT_EQ(waiter.told(), "0");
  EXPECT_TRUE(eventually([&] { return node.daemon->share("waits").state != "full"; })) << "it waits no more";
}

TEST(DaemonOom, ARunSetsHowLongItsAllocationsWait) {
  Tiny node;
  const Said said = node.daemon->cli().shell(
      "$H run --name patient --mem 300MiB --on-oom=wait=90s -- sh -c \"$H share show patient\"");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_NE(said.out.find("on-oom         wait=90s\n"), std::string::npos) << said.out << said.err;
  const Said bad = node.daemon->cli().shell("$H run --mem 300MiB --on-oom maybe -- true");
  EXPECT_EQ(bad.status, 2);
  EXPECT_NE(bad.err.find("on_oom 'maybe' is not understood"), std::string::npos) << bad.err;
  EXPECT_NE(bad.err.find("fail, wait (30s), or wait=TIME of 1s to 1h"), std::string::npos) << bad.err;
  node.share("made --mem 300MiB");
  const Said joined = node.daemon->cli().shell("$H run --share made --on-oom wait -- true");
  EXPECT_EQ(joined.status, 2);
  EXPECT_NE(joined.err.find("takes no limits"), std::string::npos) << joined.err;
  for (const std::string word : {"--on-oom wait", "--mem 1GiB", "--burst 80%", "--weight 3"}) {
    const Said named = node.daemon->cli().shell("$H run --name made " + word + " -- true");
    EXPECT_EQ(named.status, 2) << word;
    EXPECT_NE(named.err.find("has its limits already: "), std::string::npos) << word << ": " << named.err;
    EXPECT_NE(named.err.find("asked was " + word), std::string::npos) << word << ": " << named.err;
  }
}

TEST(DaemonOom, ARefusalAfterTheTimeoutIsTheUsualOne) {
  Tiny node;
  node.share("waits --mem 600MiB --on-oom wait=1s");
  Tenant tenant(*node.daemon, "waits");
  ASSERT_EQ(tenant.ready(), "ready: 0");
  EXPECT_EQ(tenant.does(mib("linear", 400)), "0");
  auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(tenant.does(mib("linear", 300)), "2") << "the process that waits holds what is needed";
  EXPECT_GE(seconds_since(began), 1);
  EXPECT_TRUE(eventually([&] { return node.daemon->share("waits").devices.at(0).refusals == 1; }));
  ASSERT_EQ(node.daemon->cli().shell("$H share set waits --on-oom wait=1h").status, 0);
  began = std::chrono::steady_clock::now();
  EXPECT_EQ(tenant.does(mib("linear", 700)), "2") << "what can never fit is not waited for";
  EXPECT_LT(seconds_since(began), 30);
  ASSERT_EQ(node.daemon->cli().shell("$H share set waits --on-oom fail").status, 0);
  EXPECT_EQ(tenant.does(mib("linear", 300)), "2");
  const std::string errors = tenant.ends();
  EXPECT_NE(errors.find("ms and are refused: no memory came"), std::string::npos) << errors;
}

TEST(DaemonOom, AWaitingAllocationGetsARaisedLimit) {
  Tiny node;
  node.share("waits --mem 300MiB --on-oom wait=1h");
  Tenant tenant(*node.daemon, "waits");
  ASSERT_EQ(tenant.ready(), "ready: 0");
  EXPECT_EQ(tenant.does(mib("linear", 150)), "0");
  tenant.say(mib("linear", 200));
  EXPECT_TRUE(eventually([&] { return event(*node.daemon, "memory.waiting", "waits") != ""; }));
  ASSERT_EQ(node.daemon->cli().shell("$H share set waits --mem 600MiB").status, 0);
  EXPECT_EQ(tenant.told(), "0");
  tenant.say(mib("linear", 400));
  rest_ms(200);
  tenant.killed();
  EXPECT_TRUE(eventually([&] {
    const auto share = node.daemon->share("waits");
    return share.processes == 0 && share.devices.at(0).memory_used_bytes == 0;
  }));
}

TEST(DaemonOom, ASchedulersDenialEndsTheWait) {
  Tiny node;
  node.share("waits --mem 300MiB --on-oom wait=1h");
  Tenant tenant(*node.daemon, "waits");
  ASSERT_EQ(tenant.ready(), "ready: 0");
  EXPECT_EQ(tenant.does(mib("linear", 150)), "0");
  tenant.say(mib("linear", 200));
  Scheduler scheduler(*node.daemon);
  const Json told = scheduler.next("memory");
  EXPECT_EQ(told["share"], "waits");
  EXPECT_EQ(told["wanted_bytes"], 200 * kMiB);
  EXPECT_EQ(told["of_card"], false);
  scheduler.answers(R"({"allow":false,"reason":"buy a larger share"})");
  EXPECT_EQ(tenant.told(), "2");
  EXPECT_NE(event(*node.daemon, "memory.denied", "waits").find("buy a larger share"), std::string::npos);
  const std::string errors = tenant.ends();
  EXPECT_NE(errors.find("it was denied"), std::string::npos) << errors;
}

// The card has 2 GiB; the idle share's pool keeps 1 GiB unused.
TEST(DaemonOom, AnIdleSharesPoolIsTrimmedForAnotherShare) {
  for (const bool waits : {true, false}) {
    Tiny node;
    node.share("idle --mem 1500MiB --overcommit");
    node.share(std::string("wants --mem 1500MiB --overcommit") + (waits ? " --on-oom wait=60s" : ""));
    Tenant idle(*node.daemon, "idle"), wants(*node.daemon, "wants");
    ASSERT_EQ(idle.ready(), "ready: 0");
    ASSERT_EQ(wants.ready(), "ready: 0");
    EXPECT_EQ(idle.does(mib("keep", 2048)), "0");
    EXPECT_EQ(idle.does(mib("alloc", 1024)), "0");
    EXPECT_EQ(idle.does("free:0"), "0");
    EXPECT_EQ(idle.does("sync"), "0");
    EXPECT_TRUE(eventually([&] { return node.daemon->share("idle").idle_ns > 1'500'000'000; }));
    EXPECT_GE(node.daemon->share("idle").devices.at(0).memory_used_bytes, 1024 * kMiB);
    if (waits) {
      EXPECT_EQ(wants.does(mib("linear", 1200)), "0");
    } else {
      EXPECT_EQ(wants.does(mib("linear", 1200)), "2") << "the share is not set to wait";
      EXPECT_TRUE(eventually([&] { return wants.does(mib("linear", 1200)) == "0"; })) << "the next one goes through";
    }
    const std::string told = event(*node.daemon, waits ? "memory.waiting" : "memory.short", "wants");
    EXPECT_NE(told.find("idle shares are asked to trim their pools: idle"), std::string::npos) << told;
    EXPECT_TRUE(eventually([&] { return node.daemon->share("idle").devices.at(0).memory_used_bytes < 200 * kMiB; }));
  }
}

}  // namespace
}  // namespace headgate::e2e
