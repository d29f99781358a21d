#include "api/access.hpp"

#include <gtest/gtest.h>

namespace headgate::api {
namespace {

snapshot::Snapshot snapshot() {
  snapshot::Snapshot s;
  s.gpus.resize(1);
  s.gpus[0].memory_committed_bytes = 99;
  s.shares.resize(2);
  s.shares[0].name = "alice-train";
  s.shares[0].owner_uid = 1001;
  s.shares[1].name = "bob-serve";
  s.shares[1].owner_uid = 1002;
  s.processes.resize(3);
  s.processes[0].share = "alice-train";
  s.processes[1].share = "bob-serve";
  s.processes[2].uid = 1002;  // outside all shares
  return s;
}

node::Caller caller(std::uint32_t uid, bool administrator = false) {
  return {.uid = uid, .gids = {}, .administrator = administrator};
}

TEST(Visible, OthersAreOnlyInTheTotals) {
  const auto seen = visible(snapshot(), caller(1001));
  ASSERT_EQ(seen.shares.size(), 1u);
  EXPECT_EQ(seen.shares[0].name, "alice-train");
  EXPECT_EQ(seen.processes.size(), 1u);
  EXPECT_EQ(seen.gpus[0].memory_committed_bytes, 99u);
  EXPECT_EQ(visible(snapshot(), caller(1002)).processes.size(), 2u);  // sees its own outside a share too
  EXPECT_TRUE(visible(snapshot(), caller(~0u)).shares.empty());
}

// A tenant can write any PID into its share's page, including one that /proc hides from it.
TEST(Visible, ProcDetailsOfAClaimedProcessAreHidden) {
  auto all = snapshot();
  auto& process = all.processes[0];
  process.claimed = true;
  process.pid = 77;
  process.uid = 1002;
  process.user = process.command = process.where = "x";
  process.devices = {{.uuid = "GPU-a", .driver_bytes = 1, .ledger_bytes = 2, .busy_ratio = 0.5, .mps = true}};
  const auto seen = visible(all, caller(1001)).processes.at(0);
  EXPECT_EQ(seen.pid, 77u);
  EXPECT_EQ(seen.user + seen.command + seen.where, "");
  EXPECT_EQ(seen.uid, 0u);
  const std::vector<snapshot::ProcessDevice> left = {
      {.uuid = "GPU-a", .driver_bytes = {}, .ledger_bytes = 2, .busy_ratio = {}, .mps = false}};
  EXPECT_EQ(seen.devices, left);
  all.processes[0].uid = 1001;
  EXPECT_EQ(visible(all, caller(1001)).processes.at(0).command, "x");
  EXPECT_EQ(visible(all, caller(0, true)), all);
}

TEST(Visible, AnAdmittedUserSeesTheShare) {
  auto all = snapshot();
  all.shares[0].uids = {1003};
  all.shares[1].gids = {500};
  EXPECT_EQ(visible(all, caller(1003)).shares.size(), 1u);
  EXPECT_EQ(visible(all, caller(1003)).processes.size(), 1u);
  EXPECT_EQ(visible(all, {.uid = 1004, .gids = {7, 500}}).shares.at(0).name, "bob-serve");
  EXPECT_TRUE(visible(all, {.uid = 1005, .gids = {7}}).shares.empty());
  all.shares[0].uids = {~0u};  // stands for an unknown uid, so it admits no one
  EXPECT_TRUE(visible(all, caller(~0u)).shares.empty());
}

TEST(Visible, AWaitingRequestIsVisibleToItsUserOnly) {
  auto all = snapshot();
  all.waiting.resize(2);
  all.waiting[0].owner_uid = 1001;
  all.waiting[1].owner_uid = 1002;
  const auto seen = visible(all, caller(1001)).waiting;
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].owner_uid, 1001u);
  EXPECT_TRUE(visible(all, caller(~0u)).waiting.empty());
}

TEST(Visible, AnAdministratorSeesEverything) { EXPECT_EQ(visible(snapshot(), caller(0, true)), snapshot()); }

std::vector<snapshot::Event> visible(std::vector<snapshot::Event> events, const node::Caller& caller) {
  std::erase_if(events, [&](const snapshot::Event& event) { return !may_see(event, caller); });
  return events;
}

TEST(Visible, EventsOfOthersAreHidden) {
  std::vector<snapshot::Event> events(4);
  events[0].share = "alice-train";
  events[0].owner_uid = 1001;
  events[1].share = "bob-serve";
  events[1].owner_uid = 1002;
  events[2].pid = 77;  // an audit finding outside all shares
  events[3].text = "headgated started";
  const auto seen = visible(events, caller(1001));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].share, "alice-train");
  EXPECT_EQ(visible(events, caller(0, true)).size(), 4u);
  events[2].uid = 1001;
  EXPECT_EQ(visible(events, caller(1001)).size(), 3u) << "his own program";
  events[2].uid = 1002;
  EXPECT_EQ(visible(events, caller(~0u)).size(), 1u);
  // After a share is gone, the user that caused an event still sees it.
  events[1].share = "gone";
  events[1].uid = 1001;
  EXPECT_EQ(visible(events, caller(1001)).size(), 3u);
}

TEST(Visible, MistakesInFilesAreVisibleToAdministratorsOnly) {
  const snapshot::Event refused{.kind = "config.refused", .owner_uid = 1001};
  EXPECT_TRUE(may_see(refused, caller(1001)));
  EXPECT_TRUE(may_see(refused, caller(0, true)));
  EXPECT_FALSE(may_see(refused, caller(1002)));
  EXPECT_FALSE(may_see(refused, caller(~0u)));
}

TEST(Visible, ANewOwnerOfAShareNameSeesNoOldEvents) {
  std::vector<snapshot::Event> events(2);
  events[0].share = events[1].share = "train";
  events[0].uid = 1003;  // a process of a third user that the share admits
  events[0].owner_uid = 1001;
  events[1].owner_uid = 1002;
  const auto seen = visible(events, caller(1002));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].owner_uid, 1002u);
  EXPECT_EQ(visible(events, caller(1001)).size(), 1u);
  EXPECT_EQ(visible(events, caller(1003)).size(), 1u);
  // If a share could not be read, its owner is unknown.
  events[0].owner_uid.reset();
  EXPECT_EQ(visible(events, caller(1001)).size(), 0u);
  EXPECT_TRUE(visible(events, caller(~0u)).empty());
}

}  // namespace
}  // namespace headgate::api
