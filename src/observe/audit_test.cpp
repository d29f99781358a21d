#include "observe/audit.hpp"

#include <gtest/gtest.h>

namespace headgate::observe {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20;

snapshot::Snapshot picture(std::uint64_t driver_mib, std::uint64_t ledger_mib, const std::string& share,
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

// How often a finding is told over ten looks at the same picture, and at which it first was.
std::pair<int, int> told(snapshot::Snapshot s, std::vector<Finding>* what = nullptr) {
  Audit audit;
  int count = 0, first = 0;
  for (int i = 1; i <= 10; ++i) {
    auto copy = s;
    const auto found = audit.look(copy);
    count += static_cast<int>(found.size());
    if (!found.empty() && first == 0) first = i;
    if (what != nullptr) what->insert(what->end(), found.begin(), found.end());
  }
  return {count, first};
}

TEST(Audit, AProcessOutsideEveryShareIsNamedOnceWithinThreeLooks) {
  std::vector<Finding> found;
  EXPECT_EQ(told(picture(700, 0, ""), &found), std::pair(1, 3));
  EXPECT_EQ(found[0].text, "process 41 (python) uses 700 MiB on GPU 0 and is in no share: no limit holds it");
  EXPECT_EQ(event_kind(found[0].kind), "audit.outside");
}

TEST(Audit, ServersThatWorkForEverybodyAreExempt) {
  EXPECT_EQ(told(picture(30, 0, "", "nvidia-cuda-mps")).first, 0);  // as the kernel cuts it
  EXPECT_EQ(told(picture(30, 0, "", "Xorg")).first, 0);
}

TEST(Audit, MoreMemoryThanTheLedgerKnowsIsNamedAndSlackIsNot) {
  std::vector<Finding> found;
  EXPECT_EQ(told(picture(2000, 500, "alice"), &found), std::pair(1, 3));
  EXPECT_EQ(found[0].text,
            "process 41 (python) of share alice holds 2.0 GiB on GPU 0 by the driver, 500 MiB by its ledger: it goes "
            "around the limiter");
  EXPECT_EQ(told(picture(564, 500, "alice")).first, 0);
}

TEST(Audit, AReadingBetweenTwoStepsAccusesNobody) {
  Audit audit;
  for (int i = 0; i < 20; ++i) {
    auto s = picture(i % 2 == 0 ? 2000 : 500, 500, "alice");
    EXPECT_TRUE(audit.look(s).empty());
  }
}

TEST(Audit, TheFindingStandsInThePictureAsLongAsItIsTrue) {
  Audit audit;
  for (int i = 0; i < 5; ++i) {
    auto s = picture(700, 0, "");
    (void)audit.look(s);
    EXPECT_EQ(s.processes[0].finding.empty(), i < 2);
  }
  auto mended = picture(700, 700, "alice");
  (void)audit.look(mended);
  EXPECT_EQ(mended.processes[0].finding, "");
}

TEST(Audit, ComputeThatTheMeterDidNotSeeIsNamed) {
  auto s = picture(500, 500, "alice");
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
  EXPECT_EQ(
      found[0].text,
      "process 41 (python) of share alice keeps 90 % on GPU 0 busy by the driver, the whole share 5 % by its ledger");
  grant.held_ratio = 0.8;
  EXPECT_EQ(told(s).first, 0);
  grant.held_ratio = 0.05;
  s.processes[0].devices[0].busy_ratio = 0.4;  // NVML counts time in which anything ran: near the ceiling is no proof
  EXPECT_EQ(told(s).first, 0);
}

}  // namespace
}  // namespace headgate::observe
