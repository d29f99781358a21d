#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/view/names.hpp"
#include "cli/view/test_views.hpp"
#include "cli/view/views.hpp"

namespace headgate::cli {
namespace {

TEST(Why, AcceptsAPidForItsShareAndReportsOneOutside) {
  const NodeSnapshot now = a_refused_share();
  EXPECT_EQ(process_numbered(now.now, "101")->share, "train");
  EXPECT_EQ(process_numbered(now.now, "train"), nullptr);
  EXPECT_EQ(process_numbered(now.now, "7"), nullptr);
  EXPECT_EQ(why_not_held(now, *process_numbered(now.now, "999"), {}),
            "process 999, in no share, level observe, SIMULATED\n"
            "  nothing limits it, so headgate refused it nothing and delayed no launch of it\n"
            "  GPU 0: in use\n"
            "  to hold it: end it, and start it with headgate run --mem 8GiB --compute 50% -- COMMAND\n");
}

TEST(Why, ExplainsARefusalAndWaitsWithNumbers) {
  ::setenv("TZ", "UTC0", 1);
  EXPECT_EQ(why_text(a_refused_share(), a_refused_share().now.shares, {}),
            "share train on GPU 0, SIMULATED\n"
            "  memory: refused 3 times, last at 14:02:11: process 101 asked for 2.0 GiB\n"
            "    reason: the share's limit of 36.0 GiB: 35.0 GiB in use, 1.0 GiB left\n"
            "    not caused by neighbours: the card has 104.0 GiB free now\n"
            "    what helps: a smaller batch, or --mem 37GiB\n"
            "  compute: limit 25 %; the GPU was held for 2.5 s\n"
            "    40 launches waited 7.0 s in all, the last at 14:02:11\n"
            "    reason: the share had used its 25 %; not caused by neighbours\n"
            "    2 of them went on after 20 ms all the same: earlier work was unfinished\n");
}

TEST(Why, ReportsWhetherThePromiseWasKept) {
  NodeSnapshot now = a_refused_share();
  auto& device = now.now.shares[0].devices[0];
  device.compute_guarantee_ratio = 0.25;
  device.had_ratio = 0.24;
  device.wanted_ratio = 1;
  device.short_ratio = 0.01;
  EXPECT_NE(why_text(now, now.now.shares, {}).find("  in the last 10 s: promised 25 %, had 24.0 %, wanted 100.0 %\n"),
            std::string::npos)
      << why_text(now, now.now.shares, {});
  device.had_ratio = 0.1;
  device.short_ratio = 0.15;
  device.short_cause = "the GPU's policy is off";
  EXPECT_NE(why_text(now, now.now.shares, {})
                .find("promised 25 %, had 10.0 %, wanted 100.0 %, short 15.0 %\n    reason: the GPU's policy is off\n"),
            std::string::npos);
  const auto document = nlohmann::json::parse(why_json(now, now.now.shares));
  EXPECT_EQ(document["shares"][0]["devices"][0]["short_ratio"], 0.15);
  EXPECT_EQ(document["shares"][0]["devices"][0]["short_cause"], "the GPU's policy is off");
}

TEST(Why, ExplainsARefusalByALimitThatHasChangedSince) {
  NodeSnapshot seen = a_refused_share();
  auto& device = seen.now.shares[0].devices[0];
  const auto said = [&](std::optional<std::uint64_t> limit_now) {
    device.memory_limit_bytes = limit_now;
    const std::string text = why_text(seen, seen.now.shares, {});
    const auto from = text.find("    reason: "), to = text.find("  compute: ");
    return from < to && to != std::string::npos ? text.substr(from, to - from) : text;
  };
  const std::string then =
      "    reason: the share's limit of 36.0 GiB: 35.0 GiB in use, 1.0 GiB left\n"
      "    not caused by neighbours: the card has 104.0 GiB free now\n";
  EXPECT_EQ(said(37ull << 30), then + "    since then the limit was changed to 37.0 GiB: that would be enough\n");
  EXPECT_EQ(said({}), then + "    since then the limit was taken away: that would be enough\n");
  EXPECT_EQ(said(30ull << 30), then +
                                   "    since then the limit was changed to 30.0 GiB\n"
                                   "    what helps: a smaller batch, or --mem 37GiB\n");
  device.last_refusal->used_bytes = 33ull << 30;
  EXPECT_EQ(said(40ull << 30),
            "    reason: the share's limit of 36.0 GiB; 33.0 GiB were allocated,\n"
            "    and contexts and code of its processes held more than 1.0 GiB\n"
            "    since then the limit was changed to 40.0 GiB\n"
            "    what helps: a smaller batch, fewer processes, or a larger share\n");
}

TEST(Why, ReportsHowLong99Of100LaunchesWaited) {
  NodeSnapshot seen = a_refused_share();
  auto& device = seen.now.shares[0].devices[0];
  const auto text = [&] { return why_text(seen, seen.now.shares, {}); };
  device.launch_delays = {{10'000, 985}, {5'000'000, 5}, {20'000'000, 10}, {std::nullopt, 0}};
  EXPECT_NE(text().find("    99 % of all 1000 launches passed within 5.0 ms\n"), std::string::npos) << text();
  device.launch_delays[3].launches = 11;
  device.compute_ceiling_ratio = 1;  // it waits for its turns
  EXPECT_NE(text().find("    more than 1 % of all 1011 launches waited longer than 20.0 ms\n"), std::string::npos)
      << text();
  device.launch_delays.clear();
  EXPECT_EQ(text().find("launches passed"), std::string::npos);
}

TEST(Why, NamesTheCardOrTheOwnerIfTheLimitWasNotTheCause) {
  NodeSnapshot seen = a_refused_share();
  auto& device = seen.now.shares[0].devices[0];
  device.refusals_device_full = 2;
  device.last_refusal->reason = "device_full";
  seen.now.gpus[0].memory_unattributed_bytes = 5ull << 30;
  const std::string full = why_text(seen, seen.now.shares, {});
  EXPECT_NE(full.find("    of these 2 by the driver, 0 while the share was being drained\n"), std::string::npos)
      << full;
  EXPECT_NE(full.find("the driver had no memory left, though the share had: 35.0 GiB of 36.0 GiB in use"),
            std::string::npos);
  EXPECT_EQ(full.find("not caused by neighbours: the card"), std::string::npos);
  EXPECT_NE(full.find("what helps: to end what uses the card outside its share (headgate ps), or fewer"),
            std::string::npos)
      << full;
  seen.now.gpus[0].memory_unattributed_bytes = 0;
  snapshot::Share lowered = seen.now.shares[0];
  lowered.name = "lowered";
  lowered.devices[0].memory_limit_bytes = 1ull << 30;
  lowered.devices[0].memory_used_bytes = 8ull << 30;
  seen.now.shares.push_back(lowered);
  const std::string by_share = why_text(seen, {seen.now.shares[0]}, {});
  EXPECT_NE(by_share.find("    the share lowered holds 8.0 GiB, and its limit is now 1.0 GiB\n"
                          "    what helps: to end programs of lowered (headgate ps), or fewer shares on it\n"),
            std::string::npos)
      << by_share;
  device.last_refusal->reason = "policy";
  EXPECT_NE(why_text(seen, seen.now.shares, {}).find("reason: the share was being drained"), std::string::npos);
  EXPECT_NE(why_json(seen, seen.now.shares).find("\"reason\": \"policy\""), std::string::npos);
}

TEST(Why, ReportsWhatTheSchedulerDeniedInTheLastDay) {
  ::setenv("TZ", "UTC0", 1);
  constexpr std::uint64_t kSecond = 1'000'000'000, kDay = 86'400 * kSecond;
  NodeSnapshot now = a_refused_share();
  now.now.taken_unix_ns = 10 * kDay + 60 * kSecond;
  const auto event = [](std::uint64_t unix_ns, const char* kind, const char* share, const char* text) {
    return snapshot::Event{
        .unix_ns = unix_ns, .kind = kind, .severity = "warn", .share = share, .pid = 7, .text = text};
  };
  now.events = {event(9 * kDay, "admit.denied", "train", "of the day before"),
                event(10 * kDay, "admit.denied", "train", "the first"),
                event(10 * kDay + kSecond, "admit.allowed", "train", "no denial"),
                event(10 * kDay + 2 * kSecond, "admit.denied", "other", "another share's"),
                event(10 * kDay + 3 * kSecond, "admit.denied", "train", "process 7 was not admitted: full until noon"),
                event(10 * kDay + 4 * kSecond, "memory.denied", "train", "allocations were denied: no more")};
  const std::string text = why_text(now, now.now.shares, {});
  EXPECT_TRUE(
      text.ends_with("earlier work was unfinished\n"
                     "  processes: denied 2 times in the last day, last at 00:00:03\n"
                     "    reason: process 7 was not admitted: full until noon\n"
                     "    all of them: headgate events --share train --kind admit.denied\n"
                     "  allocations that waited: denied once in the last day, last at 00:00:04\n"
                     "    reason: allocations were denied: no more\n"))
      << text;
  const auto denials = nlohmann::json::parse(why_json(now, now.now.shares)).at("shares").at(0).at("denials");
  ASSERT_EQ(denials.size(), 3u);
  EXPECT_EQ(denials[0].at("text"), "the first");
  EXPECT_EQ(denials[2].at("kind"), "memory.denied");
  EXPECT_EQ(denials[2].at("pid"), 7);
}

TEST(Why, ReportsRequestsThatWaitForTheScheduler) {
  ::setenv("TZ", "UTC0", 1);
  NodeSnapshot now = a_refused_share();
  const auto event = [](std::uint64_t sequence, const char* kind, std::uint32_t pid) {
    return snapshot::Event{.sequence = sequence, .kind = kind, .share = "train", .pid = pid, .text = "it wants in"};
  };
  now.now.processes.resize(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    now.now.processes[i].pid = 7 + i;
    now.now.processes[i].share = "train";
  }
  // In the order of queries by kind: 7 came back after a denial, 8 was admitted, 9 was denied, 10 has ended.
  now.events = {event(4, "admit.asked", 7),  event(3, "admit.asked", 8),   event(2, "admit.asked", 9),
                event(8, "admit.asked", 10), event(5, "admit.allowed", 8), event(1, "admit.denied", 7),
                event(6, "admit.denied", 9)};
  const std::string text = why_text(now, now.now.shares, {});
  EXPECT_NE(text.find("  waits for leave since 00:00:00: it wants in\n"), std::string::npos) << text;
  const auto asking = nlohmann::json::parse(why_json(now, now.now.shares)).at("shares").at(0).at("asking");
  ASSERT_EQ(asking.size(), 1u);
  EXPECT_EQ(asking[0].at("pid"), 7);
}

TEST(Why, ReportsTheCauseOfEachWait) {
  NodeSnapshot seen = a_refused_share();
  snapshot::Share& share = seen.now.shares.at(0);
  snapshot::ShareDevice& device = share.devices.at(0);
  const auto text = [&] { return why_text(seen, {share}, Voice{}); };
  EXPECT_NE(text().find("\n    reason: the share had used its 25 %; not caused by neighbours\n"), std::string::npos)
      << text();
  device.compute_burst_ratio = 0.9;
  device.waited_turn_ns = 21'000'000'000;
  device.waited_pause_ns = 1'000;
  EXPECT_NE(text().find("\n    reason, for 21.0 s: other shares had the GPU, and the share waited for its turn\n"
                        "    reason, for 7.0 s: the share had used its 25 %, or 90 % while no other share had work on "
                        "the GPU\n    2 of them"),
            std::string::npos)
      << text();
  EXPECT_EQ(text().find("paused"), std::string::npos) << text();
  device.compute_ceiling_ratio = 1;
  device.compute_burst_ratio = std::nullopt;
  device.waited_ceiling_ns = 0;
  EXPECT_NE(text().find("compute: no limit; the GPU was held for 2.5 s\n    40 launches waited 7.0 s in all"),
            std::string::npos)
      << text();
  EXPECT_NE(text().find("\n    reason: other shares had the GPU"), std::string::npos) << text();
  EXPECT_EQ(text().find("the share had used"), std::string::npos) << text();
}

TEST(Why, ReportsALaunchThatStillWaits) {
  NodeSnapshot seen = a_refused_share();
  snapshot::Share& share = seen.now.shares.at(0);
  snapshot::ShareDevice& device = share.devices.at(0);
  const auto text = [&] { return why_text(seen, {share}, Voice{}); };
  EXPECT_EQ(text().find("has been waiting"), std::string::npos);
  device.waiting_ns = 12'000'000'000;
  EXPECT_NE(text().find("\n    a launch has been waiting for 12.0 s\n"), std::string::npos) << text();
  device.throttled_launches = 0;
  EXPECT_EQ(text().find("no launch had to wait"), std::string::npos) << text();
  device.compute_ceiling_ratio = 0.01;
  EXPECT_NE(text().find("12.0 s: under 1 % the pause after a kernel is long"), std::string::npos) << text();
  share.state = "paused";
  EXPECT_NE(text().find("12.0 s: the share is paused\n"), std::string::npos) << text();
  device.compute_ceiling_ratio = 1;
  EXPECT_NE(text().find("12.0 s: the share is paused\n"), std::string::npos) << text();
  EXPECT_NE(why_json(seen, {share}).find("\"waiting_ns\": 12000000000"), std::string::npos);
}

TEST(Why, ReportsThatTheGpuOfAShareIsGone) {
  NodeSnapshot seen = a_refused_share();
  EXPECT_EQ(why_text(seen, seen.now.shares, {}).find("is not a GPU of this node"), std::string::npos);
  seen.now.shares[0].devices[0].uuid = "GPU-taken-out";
  EXPECT_NE(why_text(seen, seen.now.shares, {}).find("  GPU-taken-out is not a GPU of this node, or does not answer"),
            std::string::npos)
      << why_text(seen, seen.now.shares, {});
  seen.now.node.nvml_released = true;
  EXPECT_EQ(why_text(seen, seen.now.shares, {}).find("is not a GPU of this node"), std::string::npos) << "not known";
}

TEST(Why, NamesTheFaultOfTheSharesMpsServer) {
  NodeSnapshot seen = a_refused_share();
  snapshot::Share& share = seen.now.shares[0];
  share.owner_uid = 1000;
  seen.now.taken_unix_ns = 2 * kRecentNs;
  const auto tell = [&](const std::string& kind, const std::string& text, std::uint64_t ago_ns, std::uint32_t owner) {
    snapshot::Event event;
    event.kind = kind, event.text = text, event.unix_ns = seen.now.taken_unix_ns - ago_ns;
    event.uuid = share.devices[0].uuid, event.owner_uid = owner;
    seen.events.push_back(event);
  };
  tell("mps.died", "too long ago", kRecentNs + 1, 1000);
  tell("mps.fault", "its MPS server has a fault: processes 7, 8", 9'000'000'000, 1000);
  tell("mps.restarted", "started again", 8'000'000'000, 1000);
  tell("mps.fault", "another owner's", 7'000'000'000, 2000);
  EXPECT_EQ(why_text(seen, seen.now.shares, {}).find("MPS: trouble"), std::string::npos) << "it is not under MPS";
  share.isolation = "mps";
  const std::string text = why_text(seen, seen.now.shares, {});
  EXPECT_NE(text.find("  MPS: trouble once in the last day, last at "), std::string::npos) << text;
  EXPECT_NE(text.find("    reason: its MPS server has a fault: processes 7, 8\n"), std::string::npos) << text;
  share.mps_users = "all";
  EXPECT_EQ(why_text(seen, seen.now.shares, {}).find("MPS: trouble"), std::string::npos) << "that server is root's";
  tell("mps.wedged", "the server of all", 1'000'000'000, 0);
  EXPECT_NE(why_text(seen, seen.now.shares, {}).find("reason: the server of all"), std::string::npos);
}

TEST(Why, ReportsFrozenSharesGpuFaultsAndAuditFindings) {
  NodeSnapshot seen = a_refused_share();
  seen.now.shares[0].processes = 2;
  seen.now.shares[0].frozen_processes = 1;
  seen.now.shares[0].devices[0].memory_frozen_bytes = 3 * kGi;
  seen.now.gpus[0].xids = {{.xid = 31, .count = 2}};
  const std::string text = why_text(seen, seen.now.shares, {});
  EXPECT_NE(text.find("  1 of its 2 programs is frozen (idle), with 3.0 GiB on the host instead of this GPU"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  faults: the GPU has reported XID 31 (2 times) since headgated started"), std::string::npos)
      << text;
  snapshot::Process rogue;
  rogue.pid = 99;
  rogue.finding = "process 99 (rogue) holds 2.0 GiB: the limiter is not loaded";
  EXPECT_NE(why_not_held(seen, rogue, {}).find("\n  process 99 (rogue) holds 2.0 GiB: the limiter is not loaded\n"),
            std::string::npos);
}

TEST(Why, AlwaysReportsAPause) {
  NodeSnapshot seen = a_refused_share();
  seen.now.shares[0].state = "paused";
  for (const std::uint64_t launches : {40, 0}) {
    seen.now.shares[0].devices[0].throttled_launches = launches;
    const std::string text = why_text(seen, seen.now.shares, {});
    EXPECT_NE(text.find("  it is paused: its launches wait\n    what helps: headgate share resume train\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("no launch had to wait"), std::string::npos) << text;
  }
}

// A share may wait indefinitely because of priorities: none of its launches has passed.
TEST(Why, ReportsLaunchesThatHaveNotPassedYet) {
  NodeSnapshot seen = a_refused_share();
  snapshot::ShareDevice& device = seen.now.shares[0].devices[0];
  device.throttled_launches = 0;
  device.throttled_ns = device.waited_turn_ns = 4'000'000'000;
  device.waited_ceiling_ns = device.waited_work_ns = device.waited_pause_ns = 0;
  const std::string text = why_text(seen, seen.now.shares, {});
  EXPECT_TRUE(
      text.contains("    launches wait, for 4.0 s in all so far\n"
                    "    reason: other shares had the GPU, and the share waited for its turn\n"))
      << text;
}

// No counter has it; only the event repeated every ten seconds does.
TEST(Why, ReportsOnlyAllocationsThatWaitNow) {
  NodeSnapshot seen = a_refused_share();
  constexpr std::uint64_t kSecond = 1'000'000'000;
  for (const std::uint64_t at : {100, 200, 210, 220})
    seen.events.push_back({.sequence = at,
                           .unix_ns = at * kSecond,
                           .kind = "memory.waiting",
                           .severity = "warn",
                           .share = "train",
                           .uuid = seen.now.gpus[0].uuid,
                           .text = "train waits for 2.0 GiB"});
  seen.now.taken_unix_ns = 224 * kSecond;
  seen.now.shares[0].state = "full";
  const auto text = [&] { return why_text(seen, seen.now.shares, {}); };
  EXPECT_TRUE(text().contains(
      "    an allocation has been waiting for 24.0 s, last reported 4.0 s ago: train waits for 2.0 GiB\n"))
      << text();
  seen.now.shares[0].state = "ok";
  EXPECT_FALSE(text().contains("an allocation has been waiting")) << "it has what it waited for" << text();
  seen.now.shares[0].state = "full";
  seen.events.insert(
      seen.events.end() - 1,
      {.sequence = 215, .unix_ns = 215 * kSecond, .kind = "memory.refused", .severity = "warn", .share = "train"});
  EXPECT_TRUE(text().contains("has been waiting for 4.0 s, last reported 4.0 s ago"))
      << "another than the refused one" << text();
  seen.now.taken_unix_ns = 240 * kSecond;
  EXPECT_EQ(text().find("an allocation has been waiting"), std::string::npos) << text();
}

}  // namespace
}  // namespace headgate::cli
