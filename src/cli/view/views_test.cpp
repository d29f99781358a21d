#include "cli/view/views.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/view/names.hpp"
#include "cli/view/test_views.hpp"

namespace headgate::cli {
namespace {

TEST(Views, StatusShowsLimitsUseLevelAndSimulation) {
  EXPECT_EQ(status_text(a_refused_share(), {}),
            "driver 570.124.06, 1 GPU, no daemon, SIMULATED\n"
            "GPU 0  H200  36.0/141.0 GiB  busy 75 %  commit 36.0 GiB\n"
            "  train  uid 0  35.0/36.0 GiB  GPU 24.9 % of 25 %  waits 73 % own limit  1 proc  at limit\n");
}

TEST(Views, StatusShowsUncommittedMemoryPowerAndOutsiders) {
  NodeSnapshot now = a_refused_share();
  now.daemon = true;
  now.now.node.unattended_processes = 2;
  now.now.gpus[0].memory_used_bytes = now.now.gpus[0].memory_committed_bytes = 100 * kGi;
  now.now.gpus[0].memory_uncommitted_bytes = 40 * kGi;
  now.now.gpus[0].busy_ratio = 1;
  now.now.gpus[0].temperature_celsius = 71;
  now.now.gpus[0].power_mw = 487'000;
  now.now.gpus[0].power_limit_mw = 700'000;
  const std::string text = status_text(now, {});
  EXPECT_TRUE(
      text.starts_with("driver 570.124.06, 1 GPU, headgated, 2 outside every share, SIMULATED\n"
                       "GPU 0  H200  100.0/141.0 GiB  busy 100 %  71 C  487/700 W  commit 100.0/140.0 GiB\n"))
      << "a line of 80 columns: " << text;
}

TEST(Views, StatusShowsWhetherAPromiseWasKept) {
  NodeSnapshot now = a_refused_share();
  auto& device = now.now.shares[0].devices[0];
  device.compute_guarantee_ratio = 0.25;
  EXPECT_EQ(status_text(now, {}).find("promised"), std::string::npos) << "nothing is known of it yet";
  device.had_ratio = 0.1;
  device.wanted_ratio = 0.8;
  device.short_ratio = 0.1;
  EXPECT_NE(status_text(now, {}).find("starved  promised 25 %, had 10.0 %, wanted 80.0 %, short 10.0 %\n"),
            std::string::npos)
      << status_text(now, {});
  device.short_ratio = 0.02;
  EXPECT_EQ(status_text(now, {}).find("short"), std::string::npos);
  const auto document = nlohmann::json::parse(status_json(now));
  EXPECT_EQ(document["shares"][0]["devices"][0]["had_ratio"], 0.1);
  EXPECT_EQ(document["shares"][0]["devices"][0]["wanted_ratio"], 0.8);
  now.now.shares[0].overcommit = true;
  EXPECT_EQ(status_text(now, {}).find("promised"), std::string::npos);
}

TEST(Views, AnIdleShareShowsForHowLong) {
  NodeSnapshot now = a_refused_share();
  now.now.shares[0].state = "idle";
  now.now.shares[0].idle_ns = 11'520'000'000'000;
  EXPECT_NE(status_text(now, {}).find("1 proc  idle 3h12m\n"), std::string::npos) << status_text(now, {});
  now.now.shares[0].idle_ns = 1'000'000'000;
  EXPECT_NE(status_text(now, {}).find("1 proc  idle\n"), std::string::npos) << status_text(now, {});
}

TEST(Views, StatusWithoutADriverStillShowsTheShares) {
  NodeSnapshot blind = a_refused_share();
  blind.now.gpus.clear();
  blind.no_gpus = "no NVIDIA driver here";
  const std::string text = status_text(blind, {});
  EXPECT_TRUE(text.starts_with("no NVIDIA driver here\nGPU-9c2f0000-1111  not a GPU of this node")) << text;
  EXPECT_NE(text.find("train"), std::string::npos);
}

TEST(Views, PsNamesProcessesInsideAndOutsideAShare) {
  EXPECT_EQ(ps_text(a_refused_share(), {}),
            "SIMULATED\n"
            "SHARE  GPU  PID  USER   COMMAND       MEM    BUSY  STATE\n"
            "train  0    101  alice  python   35.0 GiB  24.9 %  at limit\n"
            "-      0    999  -      -               -       -  no share\n");
}

TEST(Views, AnEmptyViewShowsTheLevelAndSimulation) {
  NodeSnapshot now = a_refused_share();
  now.now.processes.clear();
  EXPECT_EQ(ps_text(now, {}), "SIMULATED\nno process is in a share\n");
}

TEST(Views, AnExpiredShareNamesWhatItWaitsForAndWhatHelps) {
  NodeSnapshot now = a_refused_share();
  now.now.shares[0].state = "draining";
  now.now.shares[0].expired = true;
  EXPECT_NE(shares_text(now.now.shares, now.now, {}).find("1  expired, waits for 1 program\n"), std::string::npos)
      << shares_text(now.now.shares, now.now, {});
  EXPECT_NE(why_text(now, now.now.shares, {})
                .find("waits for 1 program to end\n    what helps: headgate share extend train 1h"),
            std::string::npos)
      << why_text(now, now.now.shares, {});
}

TEST(Views, AnOvercommittedShareShowsThatInsteadOfAPromise) {
  NodeSnapshot now = a_refused_share();
  now.now.shares[0].overcommit = true;
  const std::string text = shares_text(now.now.shares, now.now, {});
  EXPECT_NE(text.find("  overcommitted, at most 25 %  "), std::string::npos) << text;
  EXPECT_EQ(text.find("20 %,"), std::string::npos) << text;
}

TEST(Views, WaitingRequestsAreListedInQueueOrder) {
  NodeSnapshot now = a_refused_share();
  EXPECT_EQ(waiting_text(now.now, {}), "");
  now.now.waiting = {{.place = 1,
                      .share = "run-1",
                      .owner_uid = 1000,
                      .owner = "alice",
                      .uuids = {"GPU-9c2f0000-1111", "GPU-elsewhere"},
                      .memory_limit_bytes = 8 * kGi,
                      .compute_guarantee_ratio = 0.5,
                      .waited_ns = 75'000'000'000,
                      .reason = "GPU-9c2f0000 lacks 2.0 GiB"}};
  EXPECT_EQ(waiting_text(now.now, {}),
            "waiting for room:\n"
            "IN LINE  SHARE  OWNER  GPU               MEMORY  COMPUTE  WAITED  WHY\n"
            "      1  run-1  alice  0,GPU-elsewhere  8.0 GiB  50 %         1m  GPU-9c2f0000 lacks 2.0 GiB\n");
}

TEST(Views, PsShowsContainersAndOutsideProcesses) {
  NodeSnapshot now = a_refused_share();
  now.now.processes[0].where = "pod ml/train-0";
  now.now.processes[1].user = "carol";
  now.now.processes[1].command = "ffmpeg";
  now.now.processes[1].devices[0].driver_bytes = 2 * kGi;
  EXPECT_EQ(ps_text(now, {}),
            "SIMULATED\n"
            "SHARE  GPU  PID  USER   COMMAND       MEM    BUSY  STATE     WHERE\n"
            "train  0    101  alice  python   35.0 GiB  24.9 %  at limit  pod ml/train-0\n"
            "-      0    999  carol  ffmpeg    2.0 GiB       -  no share  -\n");
}

TEST(Views, WideTablesHaveMoreColumns) {
  NodeSnapshot now = a_refused_share();
  auto& share = now.now.shares[0];
  share.owner = "alice";
  share.ttl_ns = 3'600'000'000'000;
  share.devices[0].compute_guarantee_ratio = 0.2;
  share.devices[0].weight = 100;
  share.devices[0].priority_class = "normal";
  now.now.processes[0].pid_in_share = 1;
  const Voice wide{.format = Format::wide};
  EXPECT_EQ(status_text(now, wide),
            "driver 570.124.06, 1 GPU, no daemon, SIMULATED\n"
            "GPU 0  H200  36.0/141.0 GiB  busy 75 %  commit 36.0 GiB  GPU-9c2f0000-1111  00000000:1B:00.0\n"
            "  train  alice  35.0/36.0 GiB  GPU 24.9 % of 25 %  waits 73 % own limit  1 proc  at limit  promised 20 %  "
            "normal, weight 100  at most 36.0 GiB  pids 101  level hook\n");
  EXPECT_EQ(ps_text(now, wide),
            "SIMULATED\n"
            "SHARE  GPU  PID  USER   COMMAND       MEM    BUSY  STATE     WHERE  LEVEL     UID  PID IN SHARE  "
            "DRIVER'S MEM  OWNER  UUID               FINDING\n"
            "train  0    101  alice  python   35.0 GiB  24.9 %  at limit  -      hook     1000             1  "
            "    35.0 GiB  alice  GPU-9c2f0000-1111  -\n"
            "-      0    999  -      -               -       -  no share  -      observe     0             -  "
            "           -  -      GPU-9c2f0000-1111  -\n");
  EXPECT_EQ(free_text(now, rooms(now, {}), {}, wide),
            "SIMULATED\n"
            "GPU  MODEL  MEMORY FREE  MEMORY LEFT  TIME LEFT  SHARES      TOTAL  RESERVED  PCI               UUID\n"
            "0    H200     104.0 GiB    104.0 GiB       75 %       1  141.0 GiB   1.0 GiB  00000000:1B:00.0  "
            "GPU-9c2f0000-1111\n"
            "largest share that fits: 104.0 GiB and 75 % on GPU 0\n");
  share.fail_policy = "closed";
  share.idle_notice_ns = 7'200'000'000'000;
  EXPECT_EQ(
      shares_text(now.now.shares, now.now, wide),
      "SHARE  OWNER  GPU                MEMORY  COMPUTE               TIME  PROCS  STATE     LEVEL      PEAK  "
      "CLASS               PIDS  ENDS IN  GANG  ISOLATION  FAIL POLICY  IDLE NOTICE  FREEZE AFTER  ADMIT  ON OOM  "
      "OVERCOMMIT  OVERSUBSCRIBE  UUID\n"
      "train  alice  0    35.0 GiB of 36.0 GiB  20 %, at most 25 %  24.9 %      1  at limit  hook   36.0 GiB  "
      "normal, weight 100  101     1h00m  -     -          closed             2h00m             -  -      -       "
      "no          no             GPU-9c2f0000-1111\n");
}

TEST(Views, FurtherProcessesOfAShareAreCounted) {
  NodeSnapshot now = a_refused_share();
  EXPECT_EQ(format_pids(now.now, "missing"), "-");
  for (std::uint32_t pid = 102; pid < 107; ++pid) {
    now.now.processes.push_back(now.now.processes[0]);
    now.now.processes.back().pid = pid;
  }
  EXPECT_EQ(format_pids(now.now, "train"), "101 102 103 104 and 2 more");
}

TEST(Views, GpusAreListedWithTheirLoadAndWide) {
  NodeSnapshot now = a_refused_share();
  EXPECT_EQ(gpus_text(now, {}),
            "SIMULATED\n"
            "GPU  MODEL      USED         OF  BUSY  TEMP  POWER  SHARES  POLICY\n"
            "0    H200   36.0 GiB  141.0 GiB  75 %     -      -       1  -\n");
  now.now.gpus[0].power_limit_mw = 600'000;
  now.now.gpus[0].mig = false;
  EXPECT_NE(gpus_text(now, {.format = Format::wide}).find("600 W"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(gpus_json(now)).at("gpus").at(0).at("memory_used_bytes"), 36 * kGi);
}

TEST(Views, PsFiltersByUserAndGpus) {
  const auto pids = [](const std::string& user, const std::vector<std::string>& uuids) {
    std::vector<std::uint32_t> all;
    for (const auto& process : narrowed(a_refused_share().now, user, uuids).processes) all.push_back(process.pid);
    return all;
  };
  using Pids = std::vector<std::uint32_t>;
  EXPECT_EQ(pids("", {}), (Pids{101, 999}));
  EXPECT_EQ(pids("alice", {}), Pids{101});
  EXPECT_EQ(pids("1000", {}), Pids{101});
  EXPECT_EQ(pids("unlisted", {}), Pids{});
  EXPECT_EQ(pids("", {"GPU-9c2f0000-1111"}), (Pids{101, 999}));
  EXPECT_EQ(pids("", {"GPU-other"}), Pids{});
}

TEST(Views, FreeShowsPromisedAndActuallyFreeMemory) {
  const auto fit = parse_fit("100GiB,30%");
  ASSERT_TRUE(fit);
  const auto all = rooms(a_refused_share(), *fit);
  EXPECT_EQ(free_text(a_refused_share(), all, *fit, {}),
            "SIMULATED\n"
            "GPU  MODEL  MEMORY FREE  MEMORY LEFT  TIME LEFT  SHARES  FITS\n"
            "0    H200     104.0 GiB    104.0 GiB       75 %       1  yes\n"
            "largest share that fits: 104.0 GiB and 75 % on GPU 0\n");
  EXPECT_FALSE(rooms(a_refused_share(), Fit{.memory_bytes = 105 * kGi}).front().fits);
  EXPECT_FALSE(rooms(a_refused_share(), Fit{.compute_ppm = 760'000}).front().fits);
  EXPECT_FALSE(rooms(a_refused_share(), Fit{.memory_ppm = 750'000}).front().fits);
}

TEST(Views, AGpuThatDoesNotAnswerHasNoFigures) {
  NodeSnapshot now = a_refused_share();
  now.daemon = true;
  now.now.gpus[0] = {};
  now.now.gpus[0].model = "does not answer: GPU is lost";
  EXPECT_TRUE(
      status_text(now, {}).starts_with("driver 570.124.06, 1 GPU, headgated, SIMULATED\n"
                                       "GPU 0  does not answer: GPU is lost\n"
                                       "GPU-9c2f0000-1111  not a GPU of this node, or it does not answer\n"
                                       "  train  uid 0  35.0/36.0 GiB"))
      << status_text(now, {});
  const Fit nothing{.memory_bytes = 0, .memory_ppm = 0, .compute_ppm = 0};
  const auto all = rooms(now, nothing);
  EXPECT_FALSE(all.front().fits);
  EXPECT_EQ(free_text(now, all, nothing, {}),
            "SIMULATED\n"
            "GPU  MODEL                         MEMORY FREE  MEMORY LEFT  TIME LEFT  SHARES  FITS\n"
            "0    does not answer: GPU is lost            -            -          -       -  no\n");
  const std::string why = why_text(now, now.now.shares, {});
  EXPECT_TRUE(why.starts_with("share train on GPU-9c2f0000, SIMULATED\n")) << why;
}

TEST(Views, FreeShowsWhatTheDaemonWouldStillCommit) {
  NodeSnapshot now = a_refused_share();
  now.now.gpus[0].memory_uncommitted_bytes = 90 * kGi;
  now.now.gpus[0].compute_uncommitted_ratio = 0.5;
  EXPECT_TRUE(rooms(now, Fit{.memory_bytes = 90 * kGi, .compute_ppm = 500'000}).front().fits);
  EXPECT_FALSE(rooms(now, Fit{.memory_bytes = 91 * kGi}).front().fits);
  EXPECT_FALSE(rooms(now, Fit{.compute_ppm = 510'000}).front().fits);
}

TEST(Views, AnEmptyShareIsRoomUnlessItIsPersistent) {
  NodeSnapshot now = a_refused_share();
  now.now.shares[0].state = "empty";
  EXPECT_EQ(rooms(now, {}).front().shares, 0u);
  now.now.shares[0].created = true;
  EXPECT_EQ(rooms(now, {}).front().shares, 1u);
  // A share of a run under the daemon, which commits it.
  now.now.shares[0].created = false;
  now.now.shares[0].created_unix_ns = 1;
  EXPECT_EQ(rooms(now, {}).front().shares, 1u);
}

TEST(Views, AnUnusableShareShowsTheReasonInItsState) {
  NodeSnapshot now = a_refused_share();
  now.now.shares[0].state = "broken";
  now.now.shares[0].problem = "its pages were removed";
  EXPECT_NE(shares_text(now.now.shares, now.now, {}).find("broken: its pages were removed\n"), std::string::npos);
}

TEST(Views, EveryJsonHasSchemaBaseUnitsAndSimulation) {
  const NodeSnapshot now = a_refused_share();
  for (const auto& [text, schema] :
       {std::pair{status_json(now), "headgate.status/v1"}, std::pair{ps_json(now), "headgate.ps/v1"},
        std::pair{free_json(now, rooms(now, {}), {}), "headgate.free/v1"},
        std::pair{gpus_json(now), "headgate.gpus/v1"}, std::pair{why_json(now, now.now.shares), "headgate.why/v1"}}) {
    const auto document = nlohmann::json::parse(text);
    EXPECT_EQ(document.at("schema"), schema);
    EXPECT_EQ(document.at("simulated"), true);
  }
  const auto status = nlohmann::json::parse(status_json(now));
  EXPECT_EQ(status.at("shares").at(0).at("devices").at(0).at("memory_limit_bytes"), 36 * kGi);
  EXPECT_EQ(status.at("shares").at(0).at("devices").at(0).at("compute_ceiling_ratio"), 0.25);
}

TEST(Views, ARatioIsInMillionthsAndNeverWraps) {
  EXPECT_EQ(ppm_of(0.1), 100'000u);
  EXPECT_EQ(ppm_of(0.0000005), 1u);
  EXPECT_EQ(ppm_of(-1), 0u);
  EXPECT_EQ(ppm_of(1e30), 1'000'000'000u);
}

TEST(Views, ASharesNameOrCommandCannotDriveTheTerminal) {
  EXPECT_EQ(harmless("a\x1b[2Jb\n"), "a?[2Jb?");
  EXPECT_EQ(harmless("\xc2\x9b"
                     "2J"),
            "?2J")
      << "the C1 spelling of ESC [";
  EXPECT_EQ(harmless("\xe2\x80\xae"
                     "gpj"),
            "?gpj")
      << "right to left override";
  EXPECT_EQ(harmless("\xff\xc0\x80\xe2\x80"), "?????") << "no UTF-8";
  EXPECT_EQ(harmless("K\xc3\xb6ln \xf0\x9f\x98\x80"), "K\xc3\xb6ln \xf0\x9f\x98\x80");
  EXPECT_EQ(table({{"K\xc3\xb6ln", "\tb\rc"}}, {.ascii = true}), "K??ln  b?c\n");
}

// A user that may see no shares must not be told that there are none.
TEST(Views, HiddenSharesOfOthersAreCounted) {
  NodeSnapshot seen = a_refused_share();
  seen.now.node.shares = 3;
  seen.now.shares.clear();
  seen.now.processes.clear();
  EXPECT_EQ(shares_text(seen.now.shares, seen.now, {}).find("you have no share; not shown: 3 shares of others; make"),
            0u);
  EXPECT_NE(ps_text(seen, {}).find("no process of yours is in a share; not shown: 3 shares of others\n"),
            std::string::npos);
  const std::string status = status_text(seen, {});
  EXPECT_NE(status.find(", 3 shares of others"), std::string::npos) << status;
  EXPECT_NE(status.find("  no shares of yours\n"), std::string::npos) << status;
  EXPECT_NE(gpus_text(seen, {}).find("not counted: 3 shares of others"), std::string::npos);
  seen.now.node.shares = 0;
  EXPECT_EQ(shares_text(seen.now.shares, seen.now, {}).find("there are no shares; make one"), 0u);
}

}  // namespace
}  // namespace headgate::cli
