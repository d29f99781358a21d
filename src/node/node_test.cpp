#include "node/node.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "node/test_node.hpp"

namespace headgate::node {
namespace {

class NodeTest : public TestNode {
 protected:
  NodeTest() {
    options_.shares_per_user = 1;
    start();
  }
  static ShareRequest promised_order(const std::string& name, const std::string& compute) {
    ShareRequest order;
    order.name = name;
    order.mem = "1GiB";
    order.compute = compute;
    return order;
  }
  std::string refusal(const std::string& name, const Caller& caller) {
    ShareRequest order;
    order.name = name;
    order.mem = "1GiB";
    const auto made = node_->service.create(order, caller, gpus_);
    return made ? "made" : made.error().message + " | " + made.error().hint;
  }
};

TEST_F(NodeTest, OnlyOwnersOfATakenNameAreToldToChangeTheShare) {
  const Caller root{.uid = 0, .administrator = true}, other{.uid = 1000};
  ASSERT_EQ(refusal("k", root), "made");
  EXPECT_EQ(refusal("k", root), "there is a share 'k' already | 'headgate share set' changes it");
  EXPECT_EQ(refusal("k", other),
            "there is a share 'k' already | it is another user's: choose another name (of a run: --name)");
}

// In create() and in wait_for_room(): a program can tell a taken name from a wrong one.
TEST_F(NodeTest, ATakenNameIsAConflictForAWaitingRequestToo) {
  const Caller root{.uid = 0, .administrator = true};
  ASSERT_EQ(refusal("k", root), "made");
  ShareRequest order;
  order.name = "k";
  order.mem = "1GiB";
  EXPECT_EQ(node_->service.create(order, root, gpus_).error().code, ErrorCode::conflict);
  EXPECT_EQ(node_->service.wait_for_room(order, root, gpus_, {}).error().code, ErrorCode::conflict);
}

TEST_F(NodeTest, AUserAtTheLimitOfSharesIsToldTheLimit) {
  const Caller user{.uid = 1000};
  ASSERT_EQ(refusal("a", user), "made");
  EXPECT_TRUE(refusal("b", user).starts_with(
      "you have 1 share or request for one, which is the most that a user may have here"))
      << refusal("b", user);
}

TEST_F(NodeTest, CountsOnlyWhatIsCommitted) {
  ASSERT_EQ(refusal("a", {.uid = 1000}), "made");
  snapshot::Snapshot snapshot;
  snapshot.gpus = gpus_;
  snapshot.shares.resize(2);
  snapshot.shares[0].name = "a";
  snapshot.shares[1].name = "left-by-a-run";
  snapshot.gpus[0].memory_committed_bytes = 41ull << 30;  // by all pages
  node_->snapshots.finish(snapshot);
  EXPECT_EQ(snapshot.gpus[0].memory_committed_bytes, 1ull << 30);
  EXPECT_LE(snapshot.gpus[0].memory_committed_bytes + *snapshot.gpus[0].memory_uncommitted_bytes,
            gpus_[0].memory_total_bytes);
}

// It has answered since and is in snapshots: a request that leaves the choice open would get it, and be refused.
TEST_F(NodeTest, AGpuThatWasSilentAtStartIsNotCommitted) {
  const Caller root{.uid = 0, .administrator = true};
  ASSERT_EQ(refusal("k", root), "made");
  snapshot::Snapshot snapshot;
  snapshot.gpus = gpus_;
  snapshot.gpus.push_back(gpus_[0]);
  snapshot.gpus[1].index = 1;
  snapshot.gpus[1].uuid = tenancy::kGpu1;
  node_->snapshots.finish(snapshot);
  EXPECT_EQ(snapshot.gpus[1].memory_uncommitted_bytes, 0u);
  EXPECT_EQ(snapshot.gpus[1].compute_uncommitted_ratio, 0.0);
  gpus_ = snapshot.gpus;
  EXPECT_EQ(refusal("auto", root), "made");
  ShareRequest order;
  order.name = "there";
  order.gpu = "1";
  const auto made = node_->service.create(order, root, gpus_);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("or did not answer when headgated started"), std::string::npos)
      << made.error().message;
}

// The caller would be told that the policy is in force, and see that it is off.
TEST_F(NodeTest, ANodeWithTooManyGpusForTurnsSetsNoPolicy) {
  std::vector<std::string> uuids;
  for (std::uint32_t i = 0; i <= schedule::kMaxGpus; ++i) uuids.push_back("GPU-" + std::to_string(i));
  Arbitration arbitration(uuids);
  node_->managed.arbitration = &arbitration;
  const Caller root{.uid = 0, .administrator = true};
  EXPECT_TRUE(node_->policies.set("GPU-15", "priority", false, root));
  const auto refused = node_->policies.set("GPU-16", "priority", false, root);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "headgated gives turns on 16 GPUs at most, and GPU-16 is one more: its policy is off");
  EXPECT_FALSE(node_->shares().gpu_policies().contains("GPU-16"));
}

// Snapshots a second of virtual time apart. Without turns, what the account gave back to neighbours was wanted.
TEST_F(NodeTest, ReportsPromisesInEachSnapshot) {
  Arbitration arbitration({tenancy::kGpu0});
  node_->managed.arbitration = &arbitration;
  const Caller owner{.uid = 4'000'001}, root{.uid = 0, .administrator = true};
  ASSERT_EQ(refusal("k", owner), "made");
  ASSERT_TRUE(node_->policies.set(tenancy::kGpu0, "off", false, root));
  snapshot::ShareDevice device;
  device.uuid = tenancy::kGpu0;
  device.compute_guarantee_ratio = 0.5;
  snapshot::Share share;
  share.name = "k";
  share.devices = {device};
  snapshot::Snapshot snapshot;
  for (std::uint64_t second = 1; second <= 12; ++second) {
    snapshot = {};
    snapshot.taken_ns = second * 1'000'000'000;
    snapshot.gpus = gpus_;
    share.devices[0].held_ns += 300'000'000;
    share.devices[0].neighbours_ns += 700'000'000;
    snapshot.shares = {share};
    node_->snapshots.finish(snapshot);
  }
  EXPECT_NEAR(snapshot.shares.at(0).devices.at(0).had_ratio.value_or(0), 0.3, 1e-6);
  EXPECT_NEAR(snapshot.shares.at(0).devices.at(0).short_ratio.value_or(0), 0.2, 1e-6);
  std::vector<snapshot::Event> told;
  std::ranges::copy_if(events_->after(0), std::back_inserter(told),
                       [](const auto& event) { return event.kind == "share.short"; });
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].owner_uid, owner.uid);
  EXPECT_TRUE(told[0].text.starts_with("k is promised 50 % and had 30 % on GPU 0")) << told[0].text;
  // After an operation, without the driver.
  snapshot.taken_ns = 0;
  snapshot.shares = {share};
  node_->snapshots.finish(snapshot);
  EXPECT_NEAR(snapshot.shares.at(0).devices.at(0).had_ratio.value_or(0), 0.3, 1e-6);
}

TEST_F(NodeTest, AsksBeforeAPolicyMakesPromisesVoid) {
  Arbitration arbitration({tenancy::kGpu0});
  node_->managed.arbitration = &arbitration;
  const Caller root{.uid = 0, .administrator = true};
  ASSERT_TRUE(node_->service.create(promised_order("a", "50%"), root, gpus_));
  ASSERT_EQ(refusal("b", root), "made");
  const auto refused = node_->policies.set(tenancy::kGpu0, "off", false, root);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::conflict);
  EXPECT_NE(refused.error().message.find("a (50 % of GPU-00000000)"), std::string::npos) << refused.error().message;
  EXPECT_EQ(arbitration.policy(0), schedule::Policy::fair);
  EXPECT_TRUE(node_->shares().gpu_policies().empty());
  EXPECT_TRUE(node_->policies.set(tenancy::kGpu0, "off", true, root));
  EXPECT_EQ(arbitration.policy(0), schedule::Policy::off);
}

TEST_F(NodeTest, ChangesSeveralSharesOrNone) {
  const Caller root{.uid = 0, .administrator = true}, user{.uid = 1000};
  for (const auto& [name, compute] : {std::pair{"a", "20%"}, {"b", "80%"}}) {
    ASSERT_TRUE(node_->service.create(promised_order(name, compute), root, gpus_));
  }
  ShareRequest most, least;
  most.compute = "80%";
  least.compute = "20%";
  const auto promised = [&](const char* name) { return node_->shares().find(name)->share.devices[0].guarantee_ppm; };
  EXPECT_FALSE(node_->service.set({{"a", most}, {"b", least}}, user, gpus_)) << "not his";
  EXPECT_EQ(node_->service.set({{"a", most}, {"a", least}}, root, gpus_).error().message,
            "the share 'a' is named twice");
  EXPECT_EQ(promised("a"), 200'000u);
  EXPECT_TRUE(node_->service.set({{"a", most}, {"b", least}}, root, gpus_));
  EXPECT_EQ(promised("a"), 800'000u);
  EXPECT_EQ(promised("b"), 200'000u);
  EXPECT_EQ(std::ranges::count(events_->after(0), "share.set", &snapshot::Event::kind), 2);
}

// If programs stand still, their user wants to know whether the owner or an administrator did that.
TEST_F(NodeTest, EachOperationIsReportedWithItsCaller) {
  const Caller owner{.uid = 4'000'001}, root{.uid = 0, .administrator = true};
  ASSERT_EQ(refusal("k", owner), "made");
  ASSERT_TRUE(node_->service.pause("k", root) && node_->service.resume("k", owner) && node_->service.drain("k", root) &&
              node_->service.reclaim("k", root) && node_->service.remove("k", root));
  std::vector<std::string> texts;
  for (const auto& event : events_->after(0))
    if (event.kind != "share.created") texts.push_back(event.text);
  EXPECT_EQ(texts, (std::vector<std::string>{
                       "root paused the share k", "4000001 resumed the share k",
                       "root drained the share k: no process may join, and it gets no more memory",
                       "root asked the programs of k to free unused pool memory", "root removed the share k"}));
}

TEST_F(NodeTest, AnOperationWithoutAChangeIsReportedOnce) {
  const Caller root{.uid = 0, .administrator = true};
  ASSERT_EQ(refusal("k", root), "made");
  ASSERT_TRUE(node_->service.resume("k", root) && node_->service.pause("k", root) && node_->service.pause("k", root) &&
              node_->service.drain("k", root) && node_->service.drain("k", root) && node_->service.pause("k", root) &&
              node_->service.resume("k", root) && node_->service.resume("k", root) && node_->service.pause("k", root));
  std::vector<std::string> kinds;
  for (const auto& event : events_->after(0)) kinds.push_back(event.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"share.created", "share.paused", "share.draining", "share.resumed",
                                             "share.paused"}));
}

TEST_F(NodeTest, AChangeIsReportedWithItsCallerAndTheOldValue) {
  const Caller user{.uid = 4'000'000'001};
  ASSERT_EQ(refusal("a", user), "made");
  ShareRequest order;
  order.weight = "50";
  ASSERT_TRUE(node_->service.set("a", order, user, gpus_));
  EXPECT_EQ(events_->after(0).back().text, "4000000001 changed the share a: weight 100 -> 50");
  ASSERT_TRUE(node_->service.set("a", order, user, gpus_));
  EXPECT_EQ(events_->after(0).back().text,
            "4000000001 changed the share a: nothing; it still has 1.0 GiB, at most 100 % on GPU-00000000");
}

TEST_F(NodeTest, AShareWithoutPagesIsBrokenAndAdmitsNone) {
  const Caller user{.uid = 1000};
  ASSERT_EQ(refusal("a", user), "made");
  const auto shown = [this] {
    snapshot::Snapshot snapshot;
    snapshot.shares.emplace_back().name = "a";
    snapshot.shares.back().state = "empty";
    node_->snapshots.finish(snapshot);
    return snapshot.shares.at(0);
  };
  EXPECT_EQ(shown().state, "empty");
  ASSERT_TRUE(node_->access.entry("a", user, false));
  std::filesystem::remove_all(options_.runtime_dir + "/shares/a");
  EXPECT_EQ(shown().state, "broken");
  EXPECT_NE(shown().problem.find("were removed"), std::string::npos) << shown().problem;
  EXPECT_NE(shown().problem.find("headgate share rm a"), std::string::npos) << shown().problem;
  EXPECT_FALSE(node_->access.entry("a", user, false));
}

TEST_F(NodeTest, LostAndRestoredPagesAreReportedOnceEach) {
  ASSERT_EQ(refusal("a", {.uid = 1000}), "made");
  const auto kinds = [this] {
    snapshot::Snapshot snapshot;
    snapshot.shares.emplace_back().name = "a";
    node_->snapshots.finish(snapshot);
    std::vector<std::string> all;
    for (const auto& event : events_->after(0)) all.push_back(event.kind);
    return all;
  };
  EXPECT_EQ(kinds(), (std::vector<std::string>{"share.created"}));
  const std::string pages = options_.runtime_dir + "/shares/a", aside = scratch_.path() + "/aside";
  std::filesystem::rename(pages, aside);
  EXPECT_EQ(kinds(), (std::vector<std::string>{"share.created", "share.broken"}));
  EXPECT_NE(events_->after(0).back().text.find("headgate share rm a"), std::string::npos);
  EXPECT_EQ(kinds().size(), 2u) << "told with each snapshot";
  std::filesystem::rename(aside, pages);
  EXPECT_EQ(kinds(), (std::vector<std::string>{"share.created", "share.broken", "share.adopted"}));
}

}  // namespace
}  // namespace headgate::node
