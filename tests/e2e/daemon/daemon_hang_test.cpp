// What an operator may face at night: a driver that hangs, a lost database, a second daemon started by hand.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "daemon_program.hpp"
#include "http/client.hpp"

namespace headgate::e2e {
namespace {

bool says(const Said& said, const std::string& words) { return (said.out + said.err).find(words) != std::string::npos; }

TEST(DaemonHang, AHungDriverLeavesTheLastSnapshotAndReports) {
  Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create before --mem 1GiB").status, 0);
  ASSERT_EQ(cli.shell("HEADGATE_SIM_DIR=$D/node $H sim fault 'nvml*:delay_us=30000000'").status, 0);
  ASSERT_TRUE(eventually([&] { return daemon.ask("GET", "/readyz").status == 503; }));
  for (const char* words : {"share ls", "status", "top --once", "share create meanwhile --mem 1GiB", "share ls"}) {
    const Said said = cli.shell("timeout 8 $H " + std::string(words));
    EXPECT_EQ(said.status, 0) << words << ": " << said.err;
  }
  EXPECT_EQ(daemon.ask("GET", "/metrics").status, 200);
  EXPECT_TRUE(eventually([&] { return says(cli.shell("$H events --kind gpu"), "the driver has not answered for 1"); }))
      << "neither the events nor the log show that the driver hung";
  EXPECT_TRUE(eventually([&] { return says(cli.shell("$H status"), "GPU FIGURES ARE OLD"); }));
  EXPECT_TRUE(says(cli.shell("$H top --once"), "GPU FIGURES ARE OLD"));
  const Said released = cli.shell("timeout 8 $H gpu release");
  EXPECT_EQ(released.status, 3) << released.err;
  EXPECT_TRUE(says(released, "a call into the driver hangs")) << released.err;
  // A stop that waited for the hanging call and those after it would take 30 s for each.
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(daemon.stop(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(25));
}

TEST(DaemonHang, MissingAndUsedThingsHaveDifferentErrors) {
  const Daemon daemon;
  const auto code = [](const Daemon::Reply& reply) {
    const auto from = reply.body.find("\"code\":\"") + 8;
    return std::to_string(reply.status) + " " + reply.body.substr(from, reply.body.find('"', from) - from);
  };
  for (const char* verb : {"pause", "resume", "drain", "reclaim"})
    EXPECT_EQ(code(daemon.ask("POST", "/v1/shares/missing/" + std::string(verb))), "404 not_found") << verb;
  for (const char* method : {"GET", "DELETE"})
    EXPECT_EQ(code(daemon.ask(method, "/v1/shares/missing")), "404 not_found") << method;
  EXPECT_EQ(code(daemon.ask("PATCH", "/v1/shares/missing", R"({"mem":"1GiB"})")), "404 not_found");
  EXPECT_EQ(code(daemon.ask("PATCH", "/v1/gpus/GPU-0", R"({"policy":"fair"})")), "404 not_found");
  EXPECT_EQ(code(daemon.ask("DELETE", "/v1/quotas?user=4242")), "404 not_found");
  EXPECT_EQ(code(daemon.ask("DELETE", "/v1/quotas?user=4294967295")), "400 usage");
  EXPECT_EQ(daemon.cli().shell("$H share pause missing").status, 2);

  const std::string order = R"({"name":"busy","mem":"1GiB"})";
  ASSERT_EQ(daemon.ask("POST", "/v1/shares", order).status, 201);
  EXPECT_EQ(code(daemon.ask("POST", "/v1/shares", order)), "409 conflict");
  Program tenant({HEADGATE_COMMAND, "run", "--share", "busy", "--", HEADGATE_LOAD, "--no-launches", "--duration=60s",
                  "--no-idle-list"},
                 {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}});
  ASSERT_TRUE(eventually([&] { return daemon.share("busy").processes == 1; }));
  EXPECT_EQ(code(daemon.ask("DELETE", "/v1/shares/busy")), "409 conflict");
  ::kill(tenant.pid(), SIGTERM);  // forwarded to the load
  tenant.wait();
}

TEST(DaemonHang, ImpossibleRequestsAreRefusedWithWhatIsAccepted) {
  const Daemon daemon;
  const std::tuple<const char*, const char*, const char*, const char*> table[] = {
      {"GET", "/v1/events?atfer=3", "", "accepted: after, since_unix_ns, share, kind, follow"},
      {"GET", "/v1/shares?all=1", "", "it takes no parameters"},
      {"GET", "/v1/events?follow=1&after=x", "", "accepted: a whole number from 0"},
      {"POST", "/v1/shares", R"({"name":"a","mem":"1GiB","mem":"2GiB"})", "'mem' is given twice"},
      {"POST", "/v1/shares", R"({"name":"a","users":{}})", "a list of texts"},
      {"POST", "/v1/shares", R"({"name":"a","users":["4294967295"]})", "a number of 0 to 4294967294"},
      {"POST", "/v1/shares", R"({"name":"a","weight":-5})", "1 to 1000, as a number or a text"},
      {"PUT", "/v1/quotas", R"({"user":1,"ttl":3600})", "a time as text: 30s, 5m, 2h, 7d"}};
  for (const auto& [method, target, body, words] : table) {
    const auto reply = daemon.ask(method, target, body);
    EXPECT_EQ(reply.status, 400) << target << " " << body;
    EXPECT_NE(reply.body.find(words), std::string::npos) << reply.body;
  }
  EXPECT_EQ(daemon.ask("GET", "/healthz?x=1").status, 200) << "probes say what they like";
}

TEST(DaemonHang, RefusalsOfAShortRunAreReportedAfterItsShare) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  for (const char* name : {"one", "two", "three"}) {
    (void)cli.shell("$H run --name " + std::string(name) +
                    " --mem 1GiB -- ${SIM%/sim}/headgate-load --no-launches --mem=100MiB --attempt=8GiB --duration=1ms "
                    "--no-idle-list");
    const Said events = cli.shell("$H events --kind memory.refused --share " + std::string(name));
    EXPECT_TRUE(says(events, "asked 8.0 GiB, limit 1.0 GiB")) << events.out;
    const Said why = cli.shell("$H why " + std::string(name));
    EXPECT_EQ(why.status, 0) << why.err;
    EXPECT_TRUE(says(why, "no longer exists") && says(why, "asked 8.0 GiB, limit 1.0 GiB")) << why.out;
  }
  EXPECT_EQ(cli.shell("$H why missing").status, 2);
}

// A job that prepares data, or works on the host between two programs that use the GPU.
TEST(DaemonHang, ARunsShareStaysWhileTheRunLives) {
  Daemon daemon;
  const std::string load = HEADGATE_LOAD " --no-launches --no-idle-list --mem=10MiB",
                    go = daemon.cli().directory() + "/go";
  Program job({HEADGATE_COMMAND, "run", "--name", "job", "--mem", "1GiB", "--", "sh", "-c",
               load + " --duration=1s && until test -e " + go + "; do sleep 0.05; done && exec " + load +
                   " --duration=1ms --attempt=2GiB"},
              {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}, {"HEADGATE_LOG", "warn"}});
  ASSERT_TRUE(eventually([&] { return daemon.share("job").processes == 1; }));
  ASSERT_TRUE(eventually([&] { return daemon.share("job").processes == 0; }));
  rest_ms(1500);  // snapshots without a process
  const auto refused = daemon.ask("DELETE", "/v1/shares/job");
  EXPECT_EQ(refused.status, 409) << refused.body;
  EXPECT_NE(refused.body.find("kill " + std::to_string(job.pid())), std::string::npos) << refused.body;
  daemon.kill_and_wait();
  daemon.start();
  rest_ms(1500);
  EXPECT_EQ(daemon.share("job").name, "job");
  std::ofstream(go) << "on";
  job.wait();
  EXPECT_TRUE(says(daemon.cli().shell("$H events --kind memory.refused --share job"), "asked 2.0 GiB, limit 1.0 GiB"));
  EXPECT_TRUE(eventually([&] { return daemon.share("job").name.empty(); }));
}

TEST(DaemonHang, ReleasingTheDriverNamesAGpuAndIsReported) {
  const Daemon daemon;
  EXPECT_EQ(daemon.ask("POST", "/v1/gpus/GPU-typo/release").status, 404);
  EXPECT_FALSE(daemon.snapshot().node.nvml_released);
  EXPECT_EQ(daemon.ask("POST", "/v1/gpus/" + daemon.snapshot().gpus.at(0).uuid + "/release").status, 200);
  EXPECT_TRUE(says(daemon.cli().shell("$H status"), "GPU FIGURES ARE OLD"));
  EXPECT_TRUE(says(daemon.cli().shell("$H events --kind gpu.released"), "is released for a minute"));
}

// Runs the command as an unprivileged user that can traverse the directories of the sockets.
std::string as_nobody(const std::string& words) {
  return "cp $H $D/command; chmod 755 $D $D/run $D/command; cd /; HEADGATE_RUNTIME_DIR=$D/run setpriv --reuid 65534 "
         "--regid 65534 --clear-groups $D/command " +
         words;
}

TEST(DaemonHang, AUserWithoutRightsIsRefusedAndDoesNotBypass) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Daemon daemon;
  for (const char* words : {"share ls", "status", "events", "run --mem 1GiB -- true"}) {
    const Said said = daemon.cli().shell(as_nobody(words));
    EXPECT_EQ(said.status, 5) << words << ": " << said.out;
    EXPECT_TRUE(says(said, "you may not open headgated's control socket")) << said.err;
    EXPECT_TRUE(says(said, "node.callers")) << said.err;
  }
  EXPECT_TRUE(says(daemon.cli().shell(as_nobody("doctor")), "you may not open it"));
}

TEST(DaemonHang, AllUsersHaveTheirOwnSharesOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Cli place;
  ASSERT_EQ(place.shell("echo 'node.callers = \"all\"' > $D/all.toml").status, 0);
  const Daemon daemon({"--config", place.directory() + "/all.toml"});
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create roots --mem 2GiB").status, 0);
  const Said made = cli.shell(as_nobody("share create mine --mem 1GiB"));
  EXPECT_EQ(made.status, 0) << made.err;
  const Said listed = cli.shell(as_nobody("share ls"));
  EXPECT_TRUE(says(listed, "mine")) << listed.out << listed.err;
  EXPECT_FALSE(says(listed, "roots")) << listed.out;
  EXPECT_EQ(cli.shell(as_nobody("share rm roots")).status, 2);
  // A user admitted by name sees the share but cannot change it.
  ASSERT_EQ(cli.shell("$H share create team --mem 2GiB --user 65534").status, 0);
  EXPECT_TRUE(says(cli.shell(as_nobody("share show team")), "2.0 GiB"));
  for (const char* words : {"share rm team", "share set team --mem 8GiB", "share pause team"}) {
    const Said denied = cli.shell(as_nobody(words));
    EXPECT_EQ(denied.status, 5) << words;
    EXPECT_TRUE(says(denied, "you may use it, and not change it")) << denied.err;
  }
  EXPECT_EQ(cli.shell(as_nobody("gpu policy 0 off")).status, 5);
  EXPECT_EQ(cli.shell(as_nobody("share rm mine")).status, 0);
}

TEST(DaemonHang, AQuotaOfTimeAdmitsARun) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H quota set --user root --ttl 1h").status, 0);
  const Said refused = cli.shell("$H run --mem 1GiB -- true");
  EXPECT_EQ(refused.status, 5);
  EXPECT_TRUE(says(refused, "--ttl")) << refused.err;
  EXPECT_EQ(cli.shell("$H run --mem 1GiB --ttl 30m --class best-effort -- true").status, 0);
}

TEST(DaemonHang, ASecondDaemonInTheSamePlaceDoesNotStart) {
  const Daemon daemon;
  const Said second =
      daemon.cli().shell("HEADGATE_SIM_DIR=$D/node ${H}d --sim --socket $D/other --state $D/otherstate");
  EXPECT_EQ(second.status, 5);
  EXPECT_TRUE(says(second, "another headgated works in ")) << second.err;
  EXPECT_TRUE(says(second, "HEADGATE_RUNTIME_DIR and --state")) << second.err;
  EXPECT_EQ(daemon.ask("GET", "/readyz").status, 200);
}

TEST(DaemonHang, ADaemonWithoutItsSocketIsFoundAgain) {
  const Daemon daemon;
  // Its file is there a moment before it listens.
  const auto is_ready = [&] {
    const auto reply = http::exchange({.path = daemon.socket()}, {.target = "/readyz"}, std::chrono::seconds(20));
    return reply && reply->status == 200;
  };
  ASSERT_TRUE(std::filesystem::remove(daemon.socket()));
  EXPECT_TRUE(eventually(is_ready));
  const auto directory = std::filesystem::path(daemon.socket()).parent_path();
  const auto mode = std::filesystem::status(directory).permissions();
  ASSERT_EQ(std::filesystem::remove_all(directory), 2u);
  EXPECT_TRUE(eventually(is_ready));
  EXPECT_EQ(std::filesystem::status(directory).permissions(), mode);
}

// `headgate status` in the same minute shows what is committed.
TEST(DaemonHang, CommittedMemoryIsNotFreeWhileTheDaemonIsGone) {
  Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create promised --mem 64GiB --compute 40% --burst 90%").status, 0);
  const auto room = [&cli] {
    const Said said = cli.shell("HEADGATE_SOCKET= HEADGATE_SIM_DIR=$D/node $H free --json");
    return said.status == 0 ? nlohmann::json::parse(said.out).at("gpus").at(0) : nlohmann::json{{"error", said.err}};
  };
  daemon.kill_and_wait();
  auto left = room();
  EXPECT_EQ(left.value("shares", 0), 1) << left;
  EXPECT_LT(left.value("memory_uncommitted_bytes", ~0ull), 80ull << 30) << left;
  EXPECT_EQ(left.value("compute_uncommitted_ratio", 1.0), 0.6) << left;
  daemon.start();
  EXPECT_EQ(daemon.stop(), 0);
  left = room();
  EXPECT_EQ(left.value("shares", 0), 1) << "nor after an end in good order: " << left;
}

TEST(DaemonHang, SharesWithoutADatabaseAreReported) {
  Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create lost --mem 1GiB").status, 0);
  daemon.kill_and_wait();
  std::size_t removed = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cli.directory()))
    if (entry.path().filename() == "headgate.db") removed += std::filesystem::remove(entry.path());
  ASSERT_EQ(removed, 1u);
  daemon.start();
  EXPECT_TRUE(says(cli.shell("$H events --share lost"), "is not in the database"));
  ASSERT_NE(cli.shell("$H share ls").out.find("\nlost "), std::string::npos);
  const Said said = cli.shell("$H share rm lost");
  EXPECT_EQ(said.status, 2);
  EXPECT_TRUE(says(said, "is not in the database")) << said.err;
  const std::size_t command = said.err.find("rm -r ");
  ASSERT_NE(command, std::string::npos) << said.err;
  EXPECT_EQ(cli.shell(said.err.substr(command, said.err.find('\n', command) - command)).status, 0);
  EXPECT_TRUE(eventually([&] { return !cli.shell("$H share ls").out.contains("\nlost "); }));
  EXPECT_TRUE(says(cli.shell("$H share rm lost"), "there is no share 'lost' of yours"));
}

TEST(DaemonHang, AnUnusableConfigurationIsRefused) {
  const Daemon daemon({"--config", "/dev/null"});
  const Cli& cli = daemon.cli();
  EXPECT_TRUE(says(cli.shell("$H config check --config /tmp"), "/tmp is no file"));
  // Only the daemon can check what depends on the machine, without starting.
  EXPECT_TRUE(
      says(cli.shell("${H}d --check --sim --config /dev/null"), "headgated would start with this configuration"));
  (void)cli.shell("mkdir $D/spoiled; touch $D/file; head -c 4096 /dev/zero | tr '\\0' x > $D/spoiled/headgate.db");
  // It checks the preconditions of a start, and leaves nothing behind.
  for (const auto& [options, words] : {std::pair{"--sim --socket $D/no/s", "there is no directory"},
                                       {"--sim --state /proc/1/nope", "and /proc/1/nope is needed"},
                                       {"--sim --socket $D/file", "exists and is no socket"},
                                       {"--sim --state $D/spoiled", "headgate.db: file is not a database"},
                                       {"--sim=$D/no.toml", "no.toml"}}) {
    const Said said = cli.shell("${H}d --check --config /dev/null " + std::string(options));
    EXPECT_NE(said.status, 0) << options;
    EXPECT_TRUE(says(said, words)) << options << said.out << said.err;
  }
  EXPECT_EQ(cli.shell("printf '[node]\nnvml = \"/nowhere.so\"\n' > $D/c.toml; ${H}d --check --config $D/c.toml").status,
            3);
  EXPECT_TRUE(says(cli.shell("${H}d --check --sim --config /dev/null --state $D/later && ls -A $D"), "would start"));
  EXPECT_FALSE(says(cli.shell("ls -AR $D"), ".headgated-check"));
  EXPECT_NE(::access((cli.directory() + "/later").c_str(), F_OK), 0) << "looking makes nothing";
  for (const auto& [line, words] :
       {std::pair{"node.token_file = \"/nowhere\"", "holds no token"},
        {"node.listen = \"0.0.0.0:0\"", "c.toml:1: node.listen = '0.0.0.0:0' can be reached from outside, and"},
        {"sim.profile = \"h2000\"", "c.toml:1: sim.profile = 'h2000' names no profile"}}) {
    const Said said = cli.shell("echo '" + std::string(line) + "' > $D/c.toml; ${H}d --check --config $D/c.toml");
    EXPECT_NE(said.status, 0) << line;
    EXPECT_TRUE(says(said, words)) << said.err;
    // Errors that do not depend on the machine are reported by the command and by a start too.
    if (line == std::string("node.token_file = \"/nowhere\"")) continue;
    const Said checked = cli.shell("$H config check --config $D/c.toml");
    EXPECT_EQ(checked.status, 2) << line;
    EXPECT_TRUE(says(checked, words)) << checked.err;
    EXPECT_TRUE(says(cli.shell("HEADGATE_RUNTIME_DIR=$D/other timeout 20 ${H}d --sim --state $D/other --config "
                               "$D/c.toml"),
                     words));
  }
  EXPECT_TRUE(says(cli.shell("mkfifo $D/pipe; echo \"node.token_file = '$D/pipe'\" > $D/c.toml; "
                             "timeout 20 ${H}d --check --config $D/c.toml"),
                   "holds no token"))
      << "the check does not wait for a pipe";
  EXPECT_EQ(
      cli.shell("printf '[node]\\nlisten = \"[::1]:0\"\\n' > $D/c.toml; $H config check --config $D/c.toml").status, 0);
}

TEST(DaemonHang, AReserveThatLeavesNothingIsReported) {
  const Cli files;
  std::ofstream(files.directory() + "/much.toml") << "[node]\nreserve = \"1TiB\"\n";
  const Daemon daemon({"--config", files.directory() + "/much.toml"});
  const std::string words = "no memory of GPU GPU-";
  EXPECT_TRUE(says(daemon.cli().shell("$H events --kind node.reserve"), words));
  EXPECT_TRUE(says(daemon.cli().shell("$H events --kind node.reserve"), "such as 512MiB"));
  // With an existing driver: here the simulator's.
  const Said checked = daemon.cli().shell(
      "printf '[node]\\nreserve = \"1TiB\"\\nnvml = \"%s\"\\n' \"$(dirname ${H})/../lib/sim/libnvidia-ml.so.1\" > "
      "$D/c.toml; HEADGATE_SIM_DIR=$D/node ${H}d --check --config $D/c.toml");
  EXPECT_EQ(checked.status, 0) << "it would start";
  EXPECT_TRUE(says(checked, words)) << checked.err << checked.out;
}

TEST(DaemonHang, AnAnswerHasTheTimeLeftAndAPastTimeIsRefused) {
  const Daemon daemon;
  const auto made = daemon.ask("POST", "/v1/shares", R"({"name":"brief","mem":"1GiB","ttl":"8h"})");
  EXPECT_EQ(made.status, 201);
  EXPECT_TRUE(made.body.find("\"ttl_ns\":288") != std::string::npos ||
              made.body.find("\"ttl_ns\":2879") != std::string::npos)
      << made.body;
  rest_ms(2100);
  const Said over = daemon.cli().shell("$H share set brief --ttl 1s");
  EXPECT_EQ(over.status, 2);
  EXPECT_TRUE(says(over, "is over already: it counts from when the share was made, ")) << over.err;
  EXPECT_TRUE(says(over, "headgate share drain brief")) << over.err;
  std::string many = "\"0\"";
  for (int i = 1; i < 300; ++i) many += ",\"" + std::to_string(i) + "\"";
  const auto refused = daemon.ask("PATCH", "/v1/shares/brief", "{\"users\":[" + many + "]}");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("at most 256 names"), std::string::npos) << refused.body;
  EXPECT_EQ(daemon.ask("PUT", "/v1/quotas", R"({"everyone":false,"mem":"1GiB"})").status, 400);
  EXPECT_EQ(daemon.ask("GET", "/v1/quotas").body.find("everyone\":true"), std::string::npos);
}

TEST(DaemonHang, AnAdoptedProcessIsReportedOnceAsFound) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create job --mem 1GiB --compute 50%").status, 0);
  const Program job({HEADGATE_COMMAND, "run", "--share", "job", "--", HEADGATE_LOAD, "--duration=60s", "--kernels=1ms",
                     "--no-idle-list"},
                    {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}});
  ASSERT_TRUE(eventually([&] { return daemon.share("job").devices.at(0).held_ns > 0; }));
  daemon.kill_and_wait();
  daemon.start();
  const std::uint64_t then = daemon.share("job").devices.at(0).held_ns;
  ASSERT_TRUE(eventually([&] { return daemon.share("job").devices.at(0).held_ns > then + 1'000'000'000; }));
  const Said told = daemon.cli().shell("$H events --since 1h --kind process.joined --share job");
  const auto count = [&](const std::string& words) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = told.out.find(words, at)) != told.out.npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(count(" joined job"), 1u) << told.out;
  EXPECT_EQ(count(" was found in job"), 1u) << told.out;
}

TEST(DaemonHang, AdviceNeverNamesRootsGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create job --mem 1GiB").status, 0);
  const Said shown = daemon.cli().shell("$H share show job");
  EXPECT_NE(shown.out.find("users -; groups -"), std::string::npos) << shown.out;
  const Said said = daemon.cli().shell(
      "chmod 755 $D $D/run $D/run/control; chown root:root $D/run/control/headgate.sock; "
      "chmod 666 $D/run/control/headgate.sock; " +
      as_nobody("doctor"));
  EXPECT_EQ((said.out + said.err).find("usermod"), std::string::npos) << said.out << said.err;
  EXPECT_NE((said.out + said.err).find("node.group"), std::string::npos) << said.out << said.err;
  EXPECT_TRUE(said.out.contains("/run belongs to root")) << said.out;
  EXPECT_FALSE(said.out.contains("remove it")) << "he cannot, and root's daemon lives there: " << said.out;
  // For a directory closed to the user, names the group that has access.
  for (const char* word : {"doctor", "share ls"}) {
    const Said shut = daemon.cli().shell("chown 0:1 $D/run/control; chmod 750 $D/run/control; " + as_nobody(word));
    EXPECT_TRUE((shut.out + shut.err).contains("as an administrator: usermod -aG daemon nobody"))
        << shut.out << shut.err;
  }
}

}  // namespace
}  // namespace headgate::e2e
