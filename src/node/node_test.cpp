#include "node/node.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "node/test_node.hpp"

namespace headgate::node {
namespace {

class NodeTest : public TestNode {
 protected:
  NodeTest() {
    options_.shares_per_user = 1;
    start();
  }
  std::string refusal(const std::string& name, const Caller& caller) {
    ShareOrder order;
    order.name = name;
    order.mem = "1GiB";
    const auto made = node_->create(order, caller, gpus_);
    return made ? "made" : made.error().message + " | " + made.error().hint;
  }
};

TEST_F(NodeTest, OnlyWhoMayChangeTheShareThatHasTheNameIsToldToChangeIt) {
  const Caller root{.uid = 0, .administrator = true}, other{.uid = 1000};
  ASSERT_EQ(refusal("k", root), "made");
  EXPECT_EQ(refusal("k", root), "there is a share 'k' already | 'headgate share set' changes it");
  EXPECT_EQ(refusal("k", other),
            "there is a share 'k' already | it is another user's: choose another name (of a run: --name)");
}

// By create() and by standing in line alike: a program tells a taken name from a wrong one.
TEST_F(NodeTest, ANameThatIsTakenIsAConflictForWhoWaitsForRoomToo) {
  const Caller root{.uid = 0, .administrator = true};
  ASSERT_EQ(refusal("k", root), "made");
  ShareOrder order;
  order.name = "k";
  order.mem = "1GiB";
  EXPECT_EQ(node_->create(order, root, gpus_).error().code, ErrorCode::conflict);
  EXPECT_EQ(node_->wait_for_room(order, root, gpus_, {}).error().code, ErrorCode::conflict);
}

TEST_F(NodeTest, WhoHasAsManySharesAsAUserMayIsToldHowMany) {
  const Caller user{.uid = 1000};
  ASSERT_EQ(refusal("a", user), "made");
  EXPECT_TRUE(refusal("b", user).starts_with(
      "you have 1 share or request for one, which is the most that a user may have here"))
      << refusal("b", user);
}

// It answers since, and is in pictures: whoever leaves the choice to us would be given it, and refused.
TEST_F(NodeTest, AGpuThatDidNotAnswerAtTheStartIsNotSoldAndNotChosen) {
  const Caller root{.uid = 0, .administrator = true};
  ASSERT_EQ(refusal("k", root), "made");
  snapshot::Snapshot picture;
  picture.gpus = gpus_;
  picture.gpus.push_back(gpus_[0]);
  picture.gpus[1].index = 1;
  picture.gpus[1].uuid = tenancy::kGpu1;
  node_->finish(picture);
  EXPECT_EQ(picture.gpus[1].memory_unsold_bytes, 0u);
  EXPECT_EQ(picture.gpus[1].compute_unsold_ratio, 0.0);
  gpus_ = picture.gpus;
  EXPECT_EQ(refusal("auto", root), "made");
  ShareOrder order;
  order.name = "there";
  order.gpu = "1";
  const auto made = node_->create(order, root, gpus_);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("or did not answer when headgated started"), std::string::npos)
      << made.error().message;
}

// It would be told that the policy is in force, and be shown that it is off.
TEST_F(NodeTest, OnMoreGpusThanHaveTurnsNoPolicyIsSet) {
  std::vector<std::string> uuids;
  for (std::uint32_t i = 0; i <= schedule::kMostGpus; ++i) uuids.push_back("GPU-" + std::to_string(i));
  Arbitration arbitration(uuids);
  node_->arbitrate_by(&arbitration);
  const Caller root{.uid = 0, .administrator = true};
  EXPECT_TRUE(node_->set_gpu_policy("GPU-15", "priority", root));
  const auto refused = node_->set_gpu_policy("GPU-16", "priority", root);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "headgated gives turns on 16 GPUs at most, and GPU-16 is one more: its policy is off");
  EXPECT_FALSE(node_->shares().gpu_policies().contains("GPU-16"));
}

// Whose programs stand still wants to know who did that: he, or somebody who runs the node.
TEST_F(NodeTest, EachVerbIsToldWithWhoSaidIt) {
  const Caller owner{.uid = 4'000'001}, root{.uid = 0, .administrator = true};
  ASSERT_EQ(refusal("k", owner), "made");
  ASSERT_TRUE(node_->pause("k", root) && node_->resume("k", owner) && node_->drain("k", root) &&
              node_->reclaim("k", root) && node_->remove("k", root));
  std::vector<std::string> texts;
  for (const auto& event : events_->after(0))
    if (event.kind != "share.created") texts.push_back(event.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"root paused the share k", "4000001 resumed the share k",
                                             "root drained the share k: it takes no more processes nor memory",
                                             "root had the programs of k asked for what they do not use",
                                             "root removed the share k"}));
}

TEST_F(NodeTest, AVerbThatChangesNothingIsNotToldASecondTime) {
  const Caller root{.uid = 0, .administrator = true};
  ASSERT_EQ(refusal("k", root), "made");
  ASSERT_TRUE(node_->resume("k", root) && node_->pause("k", root) && node_->pause("k", root) &&
              node_->drain("k", root) && node_->drain("k", root) && node_->pause("k", root) &&
              node_->resume("k", root) && node_->resume("k", root) && node_->pause("k", root));
  std::vector<std::string> kinds;
  for (const auto& event : events_->after(0)) kinds.push_back(event.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"share.created", "share.paused", "share.draining", "share.resumed",
                                             "share.paused"}));
}

TEST_F(NodeTest, AChangeIsToldWithWhoMadeItAndWithWhatWasBefore) {
  const Caller user{.uid = 4'000'000'001};
  ASSERT_EQ(refusal("a", user), "made");
  ShareOrder order;
  order.weight = "50";
  ASSERT_TRUE(node_->set("a", order, user, gpus_));
  EXPECT_EQ(events_->after(0).back().text, "4000000001 changed the share a: weight 100 -> 50");
  ASSERT_TRUE(node_->set("a", order, user, gpus_));
  EXPECT_EQ(
      events_->after(0).back().text,
      "4000000001 changed the share a: nothing that it did not have; it has 1.0 GiB, at most 100 % on GPU-00000000");
}

TEST_F(NodeTest, AShareWhosePagesWereRemovedByHandIsShownBrokenWithWhatHelpsAndEnteredByNobody) {
  const Caller user{.uid = 1000};
  ASSERT_EQ(refusal("a", user), "made");
  const auto shown = [this] {
    snapshot::Snapshot picture;
    picture.shares.emplace_back().name = "a";
    picture.shares.back().state = "empty";
    node_->finish(picture);
    return picture.shares.at(0);
  };
  EXPECT_EQ(shown().state, "empty");
  ASSERT_TRUE(node_->entry("a", user, false));
  std::filesystem::remove_all(options_.runtime_dir + "/shares/a");
  EXPECT_EQ(shown().state, "broken");
  EXPECT_NE(shown().problem.find("were removed"), std::string::npos) << shown().problem;
  EXPECT_NE(shown().problem.find("headgate share rm a"), std::string::npos) << shown().problem;
  EXPECT_FALSE(node_->entry("a", user, false));
}

TEST_F(NodeTest, WhoReadsEventsLearnsOnceThatAShareLostItsPagesAndThatItHasThemAgain) {
  ASSERT_EQ(refusal("a", {.uid = 1000}), "made");
  const auto kinds = [this] {
    snapshot::Snapshot picture;
    picture.shares.emplace_back().name = "a";
    node_->finish(picture);
    std::vector<std::string> all;
    for (const auto& event : events_->after(0)) all.push_back(event.kind);
    return all;
  };
  EXPECT_EQ(kinds(), (std::vector<std::string>{"share.created"}));
  const std::string pages = options_.runtime_dir + "/shares/a", aside = scratch_.path() + "/aside";
  std::filesystem::rename(pages, aside);
  EXPECT_EQ(kinds(), (std::vector<std::string>{"share.created", "share.broken"}));
  EXPECT_NE(events_->after(0).back().text.find("headgate share rm a"), std::string::npos);
  EXPECT_EQ(kinds().size(), 2u) << "told with each picture";
  std::filesystem::rename(aside, pages);
  EXPECT_EQ(kinds(), (std::vector<std::string>{"share.created", "share.broken", "share.adopted"}));
}

}  // namespace
}  // namespace headgate::node
