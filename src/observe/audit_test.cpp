#include "observe/audit.hpp"

#include <gtest/gtest.h>

namespace headgate::observe {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20, kSecond = 1'000'000'000;
using Facts = std::map<std::uint32_t, ProcessFacts>;

snapshot::Snapshot snapshot(std::uint64_t driver_mib, std::uint64_t ledger_mib, const std::string& share,
                            const std::string& command = "python") {
  snapshot::Snapshot s;
  s.gpus.resize(1);
  s.gpus[0].uuid = "GPU-a";
  snapshot::Process process;
  process.pid = 41;
  process.share = share;
  process.command = command;
  process.devices = {
      {.uuid = "GPU-a", .driver_bytes = driver_mib * kMiB, .ledger_bytes = ledger_mib * kMiB, .busy_ratio = {}}};
  s.processes = {process};
  return s;
}

// Returns how often a finding is reported in ten looks at the same snapshot, and at which look first.
std::pair<int, int> told(snapshot::Snapshot s, std::vector<Finding>* what = nullptr, const Facts& facts = {}) {
  Audit audit;
  int count = 0, first = 0;
  for (int i = 1; i <= 10; ++i) {
    auto copy = s;
    copy.taken_ns = i * kSecond;
    const auto found = audit.look(copy, facts);
    count += static_cast<int>(found.size());
    if (!found.empty() && first == 0) first = i;
    if (what != nullptr) what->insert(what->end(), found.begin(), found.end());
  }
  return {count, first};
}

TEST(Audit, AProcessOutsideSharesIsReportedOnceIn3Looks) {
  std::vector<Finding> found;
  EXPECT_EQ(told(snapshot(700, 0, ""), &found), std::pair(1, 3));
  EXPECT_EQ(found[0].text, "process 41 (python) uses 700 MiB on GPU 0 and is in no share: no limit applies to it");
  EXPECT_EQ(event_kind(found[0].kind), "audit.outside");
}

// Its tenants can write any figure for a seat.
TEST(Audit, ASaturatedLedgerIsNotTakenForALowOne) {
  auto s = snapshot(700, 0, "alice");
  s.processes[0].devices[0].ledger_bytes = ~0ull;
  EXPECT_EQ(told(s), std::pair(0, 0));
}

TEST(Audit, FindingsDoNotApplyToALaterProcessOfThatPid) {
  Audit audit;
  const auto findings_at = [&](std::uint64_t second, std::uint32_t start_time) {
    auto s = snapshot(700, 0, "");
    s.taken_ns = second * kSecond;
    Facts facts;
    facts[41].start_time = start_time;
    return audit.look(s, facts);
  };
  EXPECT_TRUE(findings_at(1, 7).empty());
  EXPECT_TRUE(findings_at(2, 7).empty());
  EXPECT_TRUE(findings_at(3, 9).empty()) << "of the second process this is the first look";
  EXPECT_TRUE(findings_at(4, 9).empty());
  const auto found = findings_at(5, 9);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].start_time, 9u) << "the finding identifies the process that was judged";
}

TEST(Audit, SharedServersAreExempt) {
  const auto named = [](const std::string& program) {
    Facts facts;
    facts[41].program = program;
    return facts;
  };
  EXPECT_EQ(told(snapshot(30, 0, "", "nvidia-cuda-mps"), nullptr, named("nvidia-cuda-mps-server")).first, 0);
  EXPECT_EQ(told(snapshot(30, 0, ""), nullptr, named("Xorg")).first, 0);
  // A user can have loaded any code into a process, but not into one that root's server started for the user.
  Facts users = named("Xorg");
  users[41].user = "alice";
  users[41].program_parent = "";
  EXPECT_EQ(told(snapshot(30, 0, ""), nullptr, users).first, 1);
  users[41].program_parent = "sshd";
  EXPECT_EQ(told(snapshot(30, 0, ""), nullptr, users).first, 1);
  users[41].program_parent = "nvidia-cuda-mps-control";
  EXPECT_EQ(told(snapshot(30, 0, ""), nullptr, users).first, 0);
  // The name that a program gives itself does not count.
  EXPECT_EQ(told(snapshot(30, 0, "", "Xorg"), nullptr, named("")).first, 1);
  Audit audit;
  auto s = snapshot(30, 0, "");
  (void)audit.look(s, named("Xorg"));
  EXPECT_EQ(s.node.unattended_processes, 0u);
  EXPECT_TRUE(audit.exempts(41));
  (void)audit.look(s, {});
  EXPECT_EQ(s.node.unattended_processes, 1u);
}

TEST(Audit, AUsersProgramIsExemptIfListedWithItsUser) {
  Audit audit;
  audit.set_exempt({"Xorg", "Xorg@alice", "@alice"});
  Facts facts;
  facts[41] = {.uid = 1000, .user = "alice", .command = {}, .where = {}, .program = "Xorg", .program_parent = ""};
  auto s = snapshot(30, 0, "");
  (void)audit.look(s, facts);
  EXPECT_TRUE(audit.exempts(41));
  facts[41].user = "bob";
  (void)audit.look(s, facts);
  EXPECT_FALSE(audit.exempts(41));
  facts[41].user = "alice", facts[41].program = "";
  (void)audit.look(s, facts);
  EXPECT_FALSE(audit.exempts(41)) << "alice's file may be bob's work";
}

TEST(Audit, MemoryBeyondTheLedgerIsReportedAndSlackIsNot) {
  std::vector<Finding> found;
  EXPECT_EQ(told(snapshot(2000, 500, "alice"), &found), std::pair(1, 3));
  EXPECT_EQ(found[0].text,
            "process 41 (python) of share alice holds 2.0 GiB on GPU 0 according to the driver, 500 MiB according to "
            "its ledger: it bypasses the limiter");
  EXPECT_EQ(told(snapshot(564, 500, "alice")).first, 0);
}

TEST(Audit, AReadingBetweenTwoStepsAccusesNoProcess) {
  Audit audit;
  for (int i = 0; i < 20; ++i) {
    auto s = snapshot(i % 2 == 0 ? 2000 : 500, 500, "alice");
    s.taken_ns = i * kSecond;
    EXPECT_TRUE(audit.look(s, {}).empty());
  }
}

TEST(Audit, AFindingStaysInTheSnapshotWhileItIsTrue) {
  Audit audit;
  for (int i = 0; i < 5; ++i) {
    auto s = snapshot(700, 0, "");
    s.taken_ns = i * kSecond;
    (void)audit.look(s, {});
    EXPECT_EQ(s.processes[0].finding.empty(), i < 2);
  }
  auto mended = snapshot(700, 700, "alice");
  (void)audit.look(mended, {});
  EXPECT_EQ(mended.processes[0].finding, "");
}

TEST(Audit, ManyLooksInAShortTimeCountAsOne) {
  Audit audit;
  for (std::uint64_t i = 0; i < 15; ++i) {
    auto s = snapshot(2000, 500, "alice");
    s.taken_ns = i * kSecond / 10;
    EXPECT_TRUE(audit.look(s, {}).empty()) << i;
  }
}

TEST(Audit, FindingsNameUserPlaceAndWay) {
  int asked = 0;
  Audit audit({.explain = [&](std::uint32_t pid) -> std::optional<std::string> {
    if (++asked == 1) return std::nullopt;  // the answer takes a moment
    return "it is " + std::to_string(pid);
  }});
  for (std::uint64_t i = 0; i < 5; ++i) {
    auto s = snapshot(700, 0, "");
    s.processes[0].uid = 1003;
    s.taken_ns = i * kSecond;
    const auto found = audit.look(s, {});
    if (i < 2) continue;
    EXPECT_TRUE(s.processes[0].finding.ends_with("no limit applies to it; it is 41")) << s.processes[0].finding;
    if (i > 2) continue;
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].uid, 1003u);
    EXPECT_EQ(found[0].text, s.processes[0].finding);
  }
  EXPECT_EQ(asked, 2);
}

TEST(Audit, AnUnexplainedProcessIsReportedAndExplainedLater) {
  std::optional<std::string> answer;
  Audit audit({.explain = [&](std::uint32_t) { return answer; }});
  std::uint64_t looks = 0;
  const auto look = [&] {
    auto s = snapshot(700, 0, "");
    s.taken_ns = ++looks * kSecond;
    return audit.look(s, {});
  };
  EXPECT_TRUE(look().empty());
  EXPECT_TRUE(look().empty());
  const auto told = look();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].update, Finding::Update::found);
  EXPECT_TRUE(told[0].text.ends_with("no limit applies to it; how it goes around has not been looked into yet"))
      << told[0].text;
  EXPECT_TRUE(look().empty());
  EXPECT_EQ(audit.suspects(), std::set<std::uint32_t>{41});
  answer = "it is linked by itself";
  const auto explained = look();
  ASSERT_EQ(explained.size(), 1u);
  EXPECT_EQ(explained[0].update, Finding::Update::explained);
  EXPECT_TRUE(explained[0].text.ends_with("no limit applies to it; it is linked by itself")) << explained[0].text;
  EXPECT_TRUE(look().empty());
}

TEST(Audit, UnmeteredComputeIsReported) {
  auto s = snapshot(500, 500, "alice");
  s.processes[0].devices[0].busy_ratio = 0.9;
  s.shares.resize(1);
  s.shares[0].name = "alice";
  s.shares[0].devices.resize(1);
  auto& grant = s.shares[0].devices[0];
  grant.uuid = "GPU-a";
  grant.compute_ceiling_ratio = 0.3;
  grant.held_ratio = 0.05;
  std::vector<Finding> found;
  EXPECT_EQ(told(s, &found), std::pair(1, 3));
  EXPECT_EQ(found[0].text,
            "process 41 (python) of share alice keeps 90 % on GPU 0 busy according to the driver, the whole share 5 % "
            "according to its ledger");
  grant.held_ratio = 0.8;
  EXPECT_EQ(told(s).first, 0);
  grant.held_ratio = 0.05;
  s.processes[0].devices[0].busy_ratio = 0.4;  // NVML counts time in which anything ran: near the ceiling is no proof
  EXPECT_EQ(told(s).first, 0);
}

// A share without a ceiling may be as busy as it likes, but its account must show it.
TEST(Audit, UnaccountedComputeIsReportedWithoutACeilingToo) {
  Audit audit;
  auto s = snapshot(500, 500, "alice");
  s.processes[0].devices[0].busy_ratio = 0.4;
  s.shares.resize(1);
  s.shares[0].name = "alice";
  s.shares[0].owner_uid = 1003;
  ComputeBooks books;
  books[{41, "GPU-a"}] = {.metered = true, .held_ns = 0, .copy_ns = 0, .launches = 0, .working = true};
  std::vector<Finding> found;
  for (std::uint64_t i = 1; i <= 10; ++i) {
    auto copy = s;
    copy.taken_ns = i * kSecond;
    books[{41, "GPU-a"}].launches += 1000;
    const auto fresh = audit.look(copy, {}, books);
    EXPECT_EQ(fresh.empty(), i != 4) << i;
    found.insert(found.end(), fresh.begin(), fresh.end());
    EXPECT_EQ(copy.processes[0].finding.empty(), i < 4);
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(event_kind(found[0].kind), "audit.compute");
  EXPECT_EQ(found[0].owner_uid, 1003u);
  EXPECT_FALSE(found[0].proven) << "the account was never seen to report work";
  EXPECT_EQ(found[0].text,
            "process 41 (python) of share alice keeps 40 % on GPU 0 busy according to the driver, the whole share 0 % "
            "according to its ledger");
}

// What may be work in flight is reported in the end, but not acted on.
TEST(Audit, ADifferenceByWorkInFlightIsNeverActedOn) {
  Audit audit;
  auto s = snapshot(500, 500, "alice");
  s.processes[0].devices[0].busy_ratio = 0.8;
  s.shares.resize(1);
  s.shares[0].name = "alice";
  s.shares[0].devices.resize(1);
  auto& grant = s.shares[0].devices[0];
  grant.uuid = "GPU-a";
  grant.compute_ceiling_ratio = 0.5;
  ComputeBooks books;
  ComputeWords& words =
      books[{41, "GPU-a"}] = {.metered = true, .held_ns = 0, .copy_ns = 0, .launches = 0, .working = true};
  std::vector<Finding> found;
  for (std::uint64_t i = 1; i <= 60; ++i) {
    auto copy = s;
    copy.taken_ns = i * kSecond;
    const bool sound = i < 4;
    copy.shares[0].devices[0].held_ratio = sound ? 0.8 : 0.01;
    words.held_ns += sound ? 800'000'000 : 8'000'000;
    words.launches += 40, words.share_launches += 40;
    for (auto& finding : audit.look(copy, {}, books)) {
      EXPECT_GT(i, 30u);
      found.push_back(finding);
    }
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].proven);
  EXPECT_EQ(found[0].doubt, "work in flight may explain it");
}

// Two clients of an MPS server, both busy all the time, each with half of it on the account.
TEST(Audit, MpsClientsAreHeldToTheirCeilings) {
  auto s = snapshot(500, 500, "alice");
  s.processes[0].devices[0].busy_ratio = 1.0;
  s.processes[0].devices[0].mps = true;
  s.processes.push_back(s.processes[0]);
  s.processes[1].pid = 42;
  s.processes[1].share = "bob";
  s.gpus[0].mps_clients = 2;
  for (const char* name : {"alice", "bob"}) {
    auto& share = s.shares.emplace_back();
    share.name = name;
    share.devices.resize(1);
    share.devices[0].uuid = "GPU-a";
    share.devices[0].compute_ceiling_ratio = 0.5;
    share.devices[0].held_ratio = 0.5;
  }
  EXPECT_EQ(told(s).first, 0);
  s.gpus[0].mps_clients = 0;
  s.processes.pop_back();
  s.processes[0].devices[0].mps = false;
  EXPECT_EQ(told(s).first, 1) << "one alone is";
}

TEST(Audit, ComputeSplitOverProcessesIsReportedForEach) {
  Audit audit;
  auto s = snapshot(500, 500, "alice");
  s.processes[0].devices[0].busy_ratio = 0.17;
  s.processes.resize(6, s.processes[0]);
  s.shares.resize(1);
  s.shares[0].name = "alice";
  ComputeBooks books;
  for (std::uint32_t i = 0; i < 6; ++i) {
    s.processes[i].pid = 41 + i;
    books[{41 + i, "GPU-a"}] = {.metered = true, .held_ns = 0, .copy_ns = 0, .launches = 0, .working = false};
  }
  std::vector<Finding> found;
  for (std::uint64_t i = 1; i <= 6; ++i) {
    auto copy = s;
    copy.taken_ns = i * kSecond;
    for (auto& finding : audit.look(copy, {}, books)) found.push_back(finding);
  }
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(event_kind(found[5].kind), "audit.compute");
  EXPECT_EQ(found[5].pid, 46u);
  EXPECT_EQ(
      found[5].text,
      "process 46 (python) of share alice keeps 17 % on GPU 0 busy according to the driver, 6 processes of its share "
      "together 96 %, the whole share 0 % according to its ledger");
}

// What is done about a finding depends on it.
TEST(Audit, ALedgerIsTrustedOnceItAgreedWithTheDriver) {
  for (const bool sound_first : {false, true}) {
    Audit audit;
    std::vector<Finding> found;
    for (std::uint64_t i = 1; i <= 6; ++i) {
      auto s = snapshot(i == 1 && sound_first ? 500 : 2000, 500, "alice");
      s.shares.resize(1);
      s.shares[0].name = "alice";
      s.taken_ns = i * kSecond;
      for (auto& finding : audit.look(s, {})) found.push_back(finding);
    }
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].proven, sound_first);
    // The next share with its name has proven nothing.
    snapshot::Snapshot without;
    without.taken_ns = 7 * kSecond;
    (void)audit.look(without, {});
    for (std::uint64_t i = 8; i <= 12; ++i) {
      auto s = snapshot(2000, 500, "alice");
      s.shares.resize(1);
      s.shares[0].name = "alice";
      s.taken_ns = i * kSecond;
      for (auto& finding : audit.look(s, {})) found.push_back(finding);
    }
    ASSERT_EQ(found.size(), 2u);
    EXPECT_FALSE(found[1].proven);
  }
  std::vector<Finding> outside;
  (void)told(snapshot(700, 0, ""), &outside);
  EXPECT_TRUE(outside.at(0).proven);
}

// The liar came first, and was not acted on; an honest program of its share proves the ledger.
TEST(Audit, ASparedProcessIsReportedAgainOnceItsLedgerIsTrusted) {
  Audit audit;
  std::vector<Finding> found;
  for (std::uint64_t i = 1; i <= 9; ++i) {
    auto s = snapshot(2000, 500, "alice");
    s.shares.resize(1);
    s.shares[0].name = "alice";
    s.taken_ns = i * kSecond;
    if (i >= 5) {
      s.processes.push_back(s.processes[0]);
      s.processes[1].pid = 42;
      s.processes[1].devices[0].ledger_bytes = 2000 * kMiB;
    }
    for (auto& finding : audit.look(s, {})) found.push_back(finding);
  }
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].update, Finding::Update::found);
  EXPECT_FALSE(found[0].proven);
  EXPECT_EQ(found[1].update, Finding::Update::proven);
  EXPECT_EQ(found[1].pid, 41u);
  EXPECT_TRUE(found[1].proven);
}

// However long the time between them: one look may have been between two steps of an honest program.
TEST(Audit, TwoLooksAreNotEnough) {
  auto one = snapshot(2000, 500, "alice"), two = one;
  two.processes[0].devices.push_back(two.processes[0].devices[0]);
  two.processes[0].devices[1].uuid = "GPU-b";
  for (auto s : {one, two}) {
    Audit audit;
    for (std::uint64_t look = 1; look <= 3; ++look) {
      s.taken_ns = look * 60 * kSecond;
      EXPECT_EQ(audit.look(s, {}).empty(), look < 3) << look;
    }
  }
}

}  // namespace
}  // namespace headgate::observe
