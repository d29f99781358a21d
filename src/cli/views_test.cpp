#include "cli/views.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/names.hpp"

namespace headgate::cli {
namespace {

constexpr std::uint64_t kGi = 1ull << 30;

Picture picture() {
  snapshot::Gpu gpu;
  gpu.index = 0;
  gpu.uuid = "GPU-9c2f0000-1111";
  gpu.model = "NVIDIA H200";
  gpu.pci_bus_id = "00000000:1B:00.0";
  gpu.memory_total_bytes = 141 * kGi;
  gpu.memory_used_bytes = 36 * kGi;
  gpu.memory_free_bytes = 104 * kGi;
  gpu.memory_reserved_bytes = 1 * kGi;
  gpu.busy_ratio = 0.75;
  gpu.memory_sold_bytes = 36 * kGi;

  snapshot::ShareDevice device;
  device.uuid = gpu.uuid;
  device.memory_limit_bytes = 36 * kGi;
  device.compute_ceiling_ratio = 0.25;
  device.memory_used_bytes = 35 * kGi;
  device.memory_peak_bytes = 36 * kGi;
  device.refusals = 3;
  device.last_refusal = {.asked_bytes = 2 * kGi, .used_bytes = 35 * kGi, .unix_ns = 50'531'000'000'000, .pid = 101};
  device.held_ns = 2'500'000'000;
  device.throttled_ns = 7'000'000'000;
  device.throttled_launches = 40;
  device.waited_ceiling_ns = 7'000'000'000;
  device.passed_in_debt = 2;
  device.last_throttle_unix_ns = 50'531'000'000'000;
  device.held_ratio = 0.2499;
  device.throttled_ratio = 0.731;

  snapshot::Share share;
  share.name = "train";
  share.state = "throttled";
  share.level = "hook";
  share.processes = 1;
  share.devices = {device};

  snapshot::Process inside, outside;
  inside.pid = 101;
  inside.share = "train";
  inside.uid = 1000;
  inside.user = "alice";
  inside.command = "python";
  inside.level = "hook";
  inside.devices = {{.uuid = gpu.uuid, .driver_bytes = 35 * kGi, .ledger_bytes = 35 * kGi, .busy_ratio = {}}};
  outside.pid = 999;
  outside.level = "observe";
  outside.devices = {{.uuid = gpu.uuid, .driver_bytes = {}, .ledger_bytes = 0, .busy_ratio = {}}};

  Picture all;
  all.now.node.driver_version = "570.124.06";
  all.now.node.level = "hook";
  all.now.node.simulated = true;
  all.now.gpus = {gpu};
  all.now.shares = {share};
  all.now.processes = {inside, outside};
  return all;
}

TEST(Views, StatusShowsLimitsUseLevelAndThatItIsSimulated) {
  EXPECT_EQ(status_text(picture(), {}),
            "driver 570.124.06, 1 GPU, level hook, no daemon, SIMULATED\n"
            "GPU 0  H200  36.0/141.0 GiB  busy 75 %  sold 36.0 GiB\n"
            "  train  uid 0  35.0/36.0 GiB  GPU 24.9 % of 25 %  waited 73.1 %  1 proc  throttled\n");
}

TEST(Views, StatusSaysWhatMayStillBeSoldTheWattsOfTheCapAndWhoIsOutside) {
  Picture now = picture();
  now.daemon = true;
  now.now.node.unattended_processes = 2;
  now.now.gpus[0].memory_used_bytes = now.now.gpus[0].memory_sold_bytes = 100 * kGi;
  now.now.gpus[0].memory_unsold_bytes = 40 * kGi;
  now.now.gpus[0].busy_ratio = 1;
  now.now.gpus[0].temperature_celsius = 71;
  now.now.gpus[0].power_mw = 487'000;
  now.now.gpus[0].power_limit_mw = 700'000;
  const std::string text = status_text(now, {});
  EXPECT_TRUE(
      text.starts_with("driver 570.124.06, 1 GPU, level hook, headgated, 2 outside every share, SIMULATED\n"
                       "GPU 0  H200  100.0/141.0 GiB  busy 100 %  71 C  487/700 W  sold 100.0/140.0 GiB\n"))
      << "a line of 80 columns: " << text;
}

TEST(Views, AnIdleShareSaysForHowLong) {
  Picture now = picture();
  now.now.shares[0].state = "idle";
  now.now.shares[0].idle_ns = 11'520'000'000'000;
  EXPECT_NE(status_text(now, {}).find("1 proc  idle 3h12m\n"), std::string::npos) << status_text(now, {});
  now.now.shares[0].idle_ns = 1'000'000'000;
  EXPECT_NE(status_text(now, {}).find("1 proc  idle\n"), std::string::npos) << status_text(now, {});
}

TEST(Views, StatusWithoutADriverStillShowsTheShares) {
  Picture blind = picture();
  blind.now.gpus.clear();
  blind.no_gpus = "no NVIDIA driver here";
  const std::string text = status_text(blind, {});
  EXPECT_TRUE(text.starts_with("no NVIDIA driver here\nGPU-9c2f0000-1111  not a GPU of this node")) << text;
  EXPECT_NE(text.find("train"), std::string::npos);
}

TEST(Views, PsNamesProcessesInsideAndOutsideAShare) {
  EXPECT_EQ(ps_text(picture(), {}),
            "SIMULATED\n"
            "SHARE  GPU  PID  USER   COMMAND       MEM  SHARE'S TIME  LEVEL    STATE\n"
            "train  0    101  alice  python   35.0 GiB        24.9 %  hook     throttled\n"
            "-      0    999  -      -               -             -  observe  no share\n");
}

TEST(Views, AViewWithoutRowsSaysTheLevelAndThatItIsSimulatedAllTheSame) {
  Picture now = picture();
  now.now.processes.clear();
  EXPECT_EQ(ps_text(now, {}), "level hook, SIMULATED\nno process is in a share\n");
}

TEST(Views, AShareWhoseTimeIsOverSaysWhomItWaitsForAndWhatHelps) {
  Picture now = picture();
  now.now.shares[0].state = "draining";
  now.now.shares[0].expired = true;
  EXPECT_NE(shares_text(now.now.shares, now.now, {}).find("hook   expired, waits for 1 program\n"), std::string::npos)
      << shares_text(now.now.shares, now.now, {});
  EXPECT_NE(why_text(now, now.now.shares, {})
                .find("waits for 1 program to end\n    what helps: headgate share extend train 1h"),
            std::string::npos)
      << why_text(now, now.now.shares, {});
}

TEST(Views, AnOverSoldShareSaysSoInPlaceOfAPromise) {
  Picture now = picture();
  now.now.shares[0].over_sell = true;
  const std::string text = shares_text(now.now.shares, now.now, {});
  EXPECT_NE(text.find("  over-sold, at most 25 %  "), std::string::npos) << text;
  EXPECT_EQ(text.find("20 %,"), std::string::npos) << text;
}

TEST(Views, WhoWaitsForRoomIsListedInHisPlace) {
  Picture now = picture();
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

TEST(Views, PsSaysWhereAProcessRunsAndWhatTheDriverKnowsOfOneOutside) {
  Picture now = picture();
  now.now.processes[0].where = "pod ml/train-0";
  now.now.processes[1].user = "carol";
  now.now.processes[1].command = "ffmpeg";
  now.now.processes[1].devices[0].driver_bytes = 2 * kGi;
  EXPECT_EQ(ps_text(now, {}),
            "SIMULATED\n"
            "SHARE  GPU  PID  USER   COMMAND       MEM  SHARE'S TIME  LEVEL    STATE      WHERE\n"
            "train  0    101  alice  python   35.0 GiB        24.9 %  hook     throttled  pod ml/train-0\n"
            "-      0    999  carol  ffmpeg    2.0 GiB             -  observe  no share   -\n");
}

TEST(Views, WideTablesAddWhatAnOperatorAsksFor) {
  Picture now = picture();
  auto& share = now.now.shares[0];
  share.owner = "alice";
  share.ttl_ns = 3'600'000'000'000;
  share.devices[0].compute_guarantee_ratio = 0.2;
  share.devices[0].weight = 100;
  share.devices[0].priority_class = "normal";
  now.now.processes[0].pid_in_share = 1;
  const Voice wide{.format = Format::wide};
  EXPECT_EQ(status_text(now, wide),
            "driver 570.124.06, 1 GPU, level hook, no daemon, SIMULATED\n"
            "GPU 0  H200  36.0/141.0 GiB  busy 75 %  sold 36.0 GiB  GPU-9c2f0000-1111  00000000:1B:00.0\n"
            "  train  alice  35.0/36.0 GiB  GPU 24.9 % of 25 %  waited 73.1 %  1 proc  throttled  promised 20 %  "
            "normal, weight 100  at most 36.0 GiB  pids 101\n");
  EXPECT_EQ(ps_text(now, wide),
            "SIMULATED\n"
            "SHARE  GPU  PID  USER   COMMAND       MEM  SHARE'S TIME  LEVEL    STATE      WHERE   UID  PID IN SHARE  "
            "DRIVER'S MEM  BUSY  OWNER  UUID               FINDING\n"
            "train  0    101  alice  python   35.0 GiB        24.9 %  hook     throttled  -      1000             1  "
            "    35.0 GiB     -  alice  GPU-9c2f0000-1111  -\n"
            "-      0    999  -      -               -             -  observe  no share   -         0             -  "
            "           -     -  -      GPU-9c2f0000-1111  -\n");
  EXPECT_EQ(
      free_text(now, rooms(now, {}), {}, wide),
      "level hook, SIMULATED\n"
      "GPU  MODEL   FREE NOW  NOT PROMISED  TIME NOT PROMISED  SHARES      TOTAL  RESERVED  PCI               UUID\n"
      "0    H200   104.0 GiB     104.0 GiB               75 %       1  141.0 GiB   1.0 GiB  00000000:1B:00.0  "
      "GPU-9c2f0000-1111\n");
  share.fail_policy = "closed";
  share.idle_notice_ns = 7'200'000'000'000;
  EXPECT_EQ(shares_text(now.now.shares, now.now, wide),
            "SHARE  OWNER  GPU                MEMORY  COMPUTE               TIME  PROCS  LEVEL  STATE          PEAK  "
            "CLASS               PIDS  ENDS IN  ADMIT  ON OOM  FAILS   FREEZES AFTER  NOTICE AFTER  GANG  UUID\n"
            "train  alice  0    35.0 GiB of 36.0 GiB  20 %, at most 25 %  24.9 %      1  hook   throttled  36.0 GiB  "
            "normal, weight 100  101     1h00m  -      -       closed              -         2h00m  -     "
            "GPU-9c2f0000-1111\n");
}

TEST(Views, ManyProcessesOfAShareAreCountedBehindTheFirst) {
  Picture now = picture();
  EXPECT_EQ(pids_words(now.now, "nobody"), "-");
  for (std::uint32_t pid = 102; pid < 107; ++pid) {
    now.now.processes.push_back(now.now.processes[0]);
    now.now.processes.back().pid = pid;
  }
  EXPECT_EQ(pids_words(now.now, "train"), "101 102 103 104 and 2 more");
}

TEST(Views, GpusAreListedWithWhatTheyDoAndWide) {
  Picture now = picture();
  EXPECT_EQ(gpus_text(now, {}),
            "level hook, SIMULATED\n"
            "GPU  MODEL      USED         OF  BUSY  TEMP  POWER  SHARES  POLICY\n"
            "0    H200   36.0 GiB  141.0 GiB  75 %     -      -       1  -\n");
  now.now.gpus[0].power_limit_mw = 600'000;
  now.now.gpus[0].mig = false;
  EXPECT_NE(gpus_text(now, {.format = Format::wide}).find("600 W"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(gpus_json(now)).at("gpus").at(0).at("memory_used_bytes"), 36 * kGi);
}

TEST(Views, PsIsNarrowedToAUserByNameOrNumberAndToGpus) {
  const auto pids = [](const std::string& user, const std::vector<std::string>& uuids) {
    std::vector<std::uint32_t> all;
    for (const auto& process : narrowed(picture().now, user, uuids).processes) all.push_back(process.pid);
    return all;
  };
  using Pids = std::vector<std::uint32_t>;
  EXPECT_EQ(pids("", {}), (Pids{101, 999}));
  EXPECT_EQ(pids("alice", {}), Pids{101});
  EXPECT_EQ(pids("1000", {}), Pids{101});
  EXPECT_EQ(pids("nobody", {}), Pids{});
  EXPECT_EQ(pids("", {"GPU-9c2f0000-1111"}), (Pids{101, 999}));
  EXPECT_EQ(pids("", {"GPU-other"}), Pids{});
}

TEST(Views, FreeCountsWhatIsPromisedAndWhatIsReallyFree) {
  const auto fit = parse_fit("100GiB,30%");
  ASSERT_TRUE(fit);
  const auto all = rooms(picture(), *fit);
  EXPECT_EQ(free_text(picture(), all, *fit, {}),
            "level hook, SIMULATED\n"
            "GPU  MODEL   FREE NOW  NOT PROMISED  TIME NOT PROMISED  SHARES  FITS\n"
            "0    H200   104.0 GiB     104.0 GiB               75 %       1  yes\n");
  EXPECT_FALSE(rooms(picture(), Fit{.memory_bytes = 105 * kGi}).front().fits);
  EXPECT_FALSE(rooms(picture(), Fit{.compute_ppm = 760'000}).front().fits);
  EXPECT_FALSE(rooms(picture(), Fit{.memory_ppm = 750'000}).front().fits);
}

TEST(Views, FreeShowsWhatTheDaemonWouldStillSell) {
  Picture now = picture();
  now.now.gpus[0].memory_unsold_bytes = 90 * kGi;
  now.now.gpus[0].compute_unsold_ratio = 0.5;
  EXPECT_TRUE(rooms(now, Fit{.memory_bytes = 90 * kGi, .compute_ppm = 500'000}).front().fits);
  EXPECT_FALSE(rooms(now, Fit{.memory_bytes = 91 * kGi}).front().fits);
  EXPECT_FALSE(rooms(now, Fit{.compute_ppm = 510'000}).front().fits);
}

TEST(Views, AnEmptyShareIsRoomUnlessItWasCreatedToStay) {
  Picture now = picture();
  now.now.shares[0].state = "empty";
  EXPECT_EQ(rooms(now, {}).front().shares, 0u);
  now.now.shares[0].created = true;
  EXPECT_EQ(rooms(now, {}).front().shares, 1u);
  // Of a run under the daemon, which counts it as sold.
  now.now.shares[0].created = false;
  now.now.shares[0].created_unix_ns = 1;
  EXPECT_EQ(rooms(now, {}).front().shares, 1u);
}

TEST(Views, AShareThatCannotBeUsedAnyMoreSaysWhyWhereItsStateStands) {
  Picture now = picture();
  now.now.shares[0].state = "broken";
  now.now.shares[0].problem = "its pages were removed";
  EXPECT_NE(shares_text(now.now.shares, now.now, {}).find("broken: its pages were removed\n"), std::string::npos);
}

TEST(Views, WhyTakesAProcessesNumberForItsShareAndSaysThatOneOutsideIsNotHeld) {
  const Picture now = picture();
  EXPECT_EQ(process_numbered(now.now, "101")->share, "train");
  EXPECT_EQ(process_numbered(now.now, "train"), nullptr);
  EXPECT_EQ(process_numbered(now.now, "7"), nullptr);
  EXPECT_EQ(why_not_held(now, *process_numbered(now.now, "999"), {}),
            "process 999, in no share, level observe, SIMULATED\n"
            "  nothing limits it, so headgate refused it nothing and let it wait for nothing\n"
            "  GPU 0: in use\n"
            "  to hold it: end it, and start it with headgate run --mem 8GiB --compute 50% -- COMMAND\n");
}

TEST(Views, WhyExplainsARefusalAndTheWaitsInWordsAndNumbers) {
  ::setenv("TZ", "UTC0", 1);
  EXPECT_EQ(why_text(picture(), picture().now.shares, {}),
            "share train on GPU 0, level hook, SIMULATED\n"
            "  memory: refused 3 times, last at 14:02:11: process 101 asked for 2.0 GiB\n"
            "    reason: the share's limit of 36.0 GiB: 35.0 GiB in use, 1.0 GiB left\n"
            "    not caused by neighbours: the card has 104.0 GiB free now\n"
            "    what helps: a smaller batch, or a share of at least 37.0 GiB\n"
            "  compute: limit 25 %; the GPU was held for 2.5 s\n"
            "    40 launches waited 7.0 s in all, the last at 14:02:11\n"
            "    reason: the share had used its 25 %; not caused by neighbours\n"
            "    2 of them went on after 20 ms all the same: earlier work was unfinished\n");
}

TEST(Views, WhySaysHowLong99Of100LaunchesWaited) {
  Picture seen = picture();
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

TEST(Views, WhyNamesTheCardOrTheOwnerWhereTheLimitWasNotTheCause) {
  Picture seen = picture();
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

TEST(Views, WhyTellsWhoWasKeptOutOrDeniedMemoryByTheSchedulerInTheLastDay) {
  ::setenv("TZ", "UTC0", 1);
  constexpr std::uint64_t kSecond = 1'000'000'000, kDay = 86'400 * kSecond;
  Picture now = picture();
  now.now.taken_unix_ns = 10 * kDay + 60 * kSecond;
  const auto event = [](std::uint64_t unix_ns, const char* kind, const char* share, const char* text) {
    return snapshot::Event{
        .unix_ns = unix_ns, .kind = kind, .severity = "warn", .share = share, .pid = 7, .text = text};
  };
  now.events = {event(9 * kDay, "admit.denied", "train", "of the day before"),
                event(10 * kDay, "admit.denied", "train", "the first"),
                event(10 * kDay + kSecond, "admit.allowed", "train", "no denial"),
                event(10 * kDay + 2 * kSecond, "admit.denied", "other", "another share's"),
                event(10 * kDay + 3 * kSecond, "admit.denied", "train", "process 7 was not let in: full until noon"),
                event(10 * kDay + 4 * kSecond, "memory.denied", "train", "allocations were denied: no more")};
  const std::string text = why_text(now, now.now.shares, {});
  EXPECT_TRUE(
      text.ends_with("earlier work was unfinished\n"
                     "  processes: denied 2 times in the last day, last at 00:00:03\n"
                     "    reason: process 7 was not let in: full until noon\n"
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

TEST(Views, WhyTellsWhoseLeaveASchedulerHasNotGivenYet) {
  ::setenv("TZ", "UTC0", 1);
  Picture now = picture();
  const auto event = [](std::uint64_t sequence, const char* kind, std::uint32_t pid) {
    return snapshot::Event{.sequence = sequence, .kind = kind, .share = "train", .pid = pid, .text = "it wants in"};
  };
  now.now.processes.resize(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    now.now.processes[i].pid = 7 + i;
    now.now.processes[i].share = "train";
  }
  // By kind, as they are asked for: 7 came back after it had been denied, 8 was let in, 9 was denied, 10 has ended.
  now.events = {event(4, "admit.asked", 7),  event(3, "admit.asked", 8),   event(2, "admit.asked", 9),
                event(8, "admit.asked", 10), event(5, "admit.allowed", 8), event(1, "admit.denied", 7),
                event(6, "admit.denied", 9)};
  const std::string text = why_text(now, now.now.shares, {});
  EXPECT_NE(text.find("  waits for leave since 00:00:00: it wants in\n"), std::string::npos) << text;
  const auto asking = nlohmann::json::parse(why_json(now, now.now.shares)).at("shares").at(0).at("asking");
  ASSERT_EQ(asking.size(), 1u);
  EXPECT_EQ(asking[0].at("pid"), 7);
}

TEST(Views, EveryJsonHasItsSchemaBaseUnitsAndSaysThatItIsSimulated) {
  const Picture now = picture();
  for (const auto& [text, schema] :
       {std::pair{status_json(now), "headgate.status/v1"}, std::pair{ps_json(now), "headgate.ps/v1"},
        std::pair{free_json(now, rooms(now, {}), {}), "headgate.free/v1"},
        std::pair{gpus_json(now), "headgate.gpus/v1"}, std::pair{why_json(now, now.now.shares), "headgate.why/v1"}}) {
    const auto json = nlohmann::json::parse(text);
    EXPECT_EQ(json.at("schema"), schema);
    EXPECT_EQ(json.at("simulated"), true);
  }
  const auto status = nlohmann::json::parse(status_json(now));
  EXPECT_EQ(status.at("shares").at(0).at("devices").at(0).at("memory_limit_bytes"), 36 * kGi);
  EXPECT_EQ(status.at("shares").at(0).at("devices").at(0).at("compute_ceiling_ratio"), 0.25);
}

TEST(Views, ARatioBecomesMillionthsAndNeverWraps) {
  EXPECT_EQ(ppm_of(0.1), 100'000u);
  EXPECT_EQ(ppm_of(0.0000005), 1u);
  EXPECT_EQ(ppm_of(-1), 0u);
  EXPECT_EQ(ppm_of(1e30), 1'000'000'000u);
}

TEST(Views, ASharesNameOrCommandCannotDriveTheTerminal) {
  EXPECT_EQ(harmless("a\x1b[2Jb\n"), "a?[2Jb?");
  EXPECT_EQ(harmless("\xc2\x9b"
                     "2J"),
            "??2J")
      << "the C1 spelling of ESC [";
  EXPECT_EQ(harmless("\xe2\x80\xae"
                     "gpj"),
            "???gpj")
      << "right to left override";
  EXPECT_EQ(harmless("\xff\xc0\x80\xe2\x80"), "?????") << "no UTF-8";
  EXPECT_EQ(harmless("K\xc3\xb6ln \xf0\x9f\x98\x80"), "K\xc3\xb6ln \xf0\x9f\x98\x80");
  EXPECT_EQ(table({{"K\xc3\xb6ln", "\tb\rc"}}, {.ascii = true}), "K??ln  b?c\n");
}

TEST(Why, SaysOfEachWaitWhatItWasFor) {
  Picture seen = picture();
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

TEST(Why, TellsOfALaunchThatStillWaitsAndIsInNoSumYet) {
  Picture seen = picture();
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

TEST(Why, SaysOfAShareWhoseCardIsGoneThatNobodyFindsAGpuInIt) {
  Picture seen = picture();
  EXPECT_EQ(why_text(seen, seen.now.shares, {}).find("is not a GPU of this node"), std::string::npos);
  seen.now.shares[0].devices[0].uuid = "GPU-taken-out";
  EXPECT_NE(why_text(seen, seen.now.shares, {}).find("  GPU-taken-out is not a GPU of this node, or does not answer"),
            std::string::npos)
      << why_text(seen, seen.now.shares, {});
  seen.now.node.nvml_released = true;
  EXPECT_EQ(why_text(seen, seen.now.shares, {}).find("is not a GPU of this node"), std::string::npos) << "not known";
}

// Whoever sees nothing is not told that nothing is there.
TEST(Views, SharesOfOthersAreCountedWhereTheyAreNotShown) {
  Picture seen = picture();
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

TEST(Why, TellsOfAFrozenShareOfFaultsOfItsCardAndOfWhatTheAuditFoundOfAnOutsider) {
  Picture seen = picture();
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

TEST(Why, AlwaysSaysThatAShareIsPaused) {
  Picture seen = picture();
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

// By priority a share may wait for ever: none of its launches has passed.
TEST(Why, TellsOfLaunchesThatHaveNotPassedYet) {
  Picture seen = picture();
  snapshot::ShareDevice& device = seen.now.shares[0].devices[0];
  device.throttled_launches = 0;
  device.throttled_ns = device.waited_turn_ns = 4'000'000'000;
  device.waited_ceiling_ns = device.waited_work_ns = device.waited_pause_ns = 0;
  const std::string text = why_text(seen, seen.now.shares, {});
  EXPECT_NE(text.find("    launches wait, for 4.0 s in all so far\n"
                      "    reason: other shares had the GPU, and the share waited for its turn\n"),
            std::string::npos)
      << text;
}

// It is in no figure: what is told of it every ten seconds is.
TEST(Why, TellsOfAnAllocationThatWaitsAndOfNoneThatDidLongAgo) {
  Picture seen = picture();
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
  const auto text = [&] { return why_text(seen, seen.now.shares, {}); };
  EXPECT_NE(
      text().find("    an allocation has been waiting for 24.0 s, told last 4.0 s ago: train waits for 2.0 GiB\n"),
      std::string::npos)
      << text();
  seen.now.taken_unix_ns = 240 * kSecond;
  EXPECT_EQ(text().find("an allocation has been waiting"), std::string::npos) << text();
}

}  // namespace
}  // namespace headgate::cli
