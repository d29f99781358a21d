#include "node/test_node.hpp"

namespace headgate::node {
namespace {

class QuotasTest : public TestNode {
 protected:
  QuotasTest() {
    user_.uid = kUser;
    root_.uid = 0;
    root_.administrator = true;
    order_.name = "a";
    order_.mem = "1GiB";
  }
  std::string created(const Caller& caller) {
    const auto made = node_->service.create(order_, caller, gpus_);
    return made ? "made" : made.error().message + " | " + made.error().hint;
  }
  std::string changed(const Caller& caller) {
    ShareRequest change = order_;
    change.name.reset();
    const auto set = node_->service.set("a", change, caller, gpus_);
    return set ? "set" : set.error().message;
  }
  void quota(const std::function<void(tenancy::QuotaChange&)>& say) {
    tenancy::QuotaChange change;
    change.id = kUser;
    say(change);
    const auto set = node_->quotas.set(change, QuotaService::Naming::some, root_);
    EXPECT_TRUE(set) << set.error().message;
  }
  const tenancy::DeviceShare& device() { return node_->shares().find("a")->share.devices.at(0); }
  std::string last_event() { return events_->after(0).back().kind + ": " + events_->after(0).back().text; }

  static constexpr std::uint32_t kUser = 4'000'000'001;
  Caller user_, root_;
  ShareRequest order_;
};

TEST_F(QuotasTest, AUserCannotExceedTheDefaultWeight) {
  order_.weight = "101";
  EXPECT_EQ(created(user_),
            "weight '101' is more than a user may take for himself | accepted: 1 to 100; more needs an administrator "
            "(root, or the group of the control socket) to make or set the share, or a quota that says so: headgate "
            "quota set --user 4000000001 --weight 101");
  order_.weight = "100";
  ASSERT_EQ(created(user_), "made");
  order_.weight = "1000";
  EXPECT_EQ(changed(user_), "weight '1000' is more than a user may take for himself");
  ASSERT_EQ(changed(root_), "set") << "an administrator may give more";
  order_.weight.reset();
  order_.mem = "2GiB";
  EXPECT_EQ(changed(user_), "set") << "and what he gave stays";
  EXPECT_EQ(device().weight, 1000u);
}

TEST_F(QuotasTest, AUserCannotChooseTheLatencyClass) {
  order_.priority_class = "latency";
  order_.compute = "10%";
  EXPECT_EQ(created(user_),
            "class 'latency' is for administrators: such a share is never kept waiting | accepted: "
            "best-effort, normal; more needs an administrator (root, or the group of the control socket) to make or "
            "set the share, or a quota that says so: headgate quota set --user 4000000001 --class latency");
  order_.priority_class = "best-effort";
  ASSERT_EQ(created(user_), "made");
  order_.priority_class = "latency";
  EXPECT_EQ(changed(user_), "class 'latency' is for administrators: such a share is never kept waiting");
  EXPECT_EQ(changed(root_), "set");
  order_.mem = "2GiB";
  EXPECT_EQ(changed(user_), "set") << "what an administrator gave stays";
  EXPECT_EQ(device().priority_class, tenancy::Class::latency);
}

TEST_F(QuotasTest, AQuotaMayAllowMore) {
  quota([](auto& change) { change.weight = 500, change.highest_class = tenancy::Class::latency; });
  order_.weight = "500";
  order_.priority_class = "latency";
  EXPECT_EQ(created(user_), "made");
  order_.weight = "501";
  EXPECT_EQ(changed(user_), "the share 'a' asks for a weight of 501, and the quota of the user 4000000001 allows 500");
}

TEST_F(QuotasTest, AShareWithoutWeightAndClassGetsTheQuotas) {
  quota([](auto& change) { change.weight = 20, change.highest_class = tenancy::Class::best_effort; });
  ASSERT_EQ(created(user_), "made");
  EXPECT_EQ(device().weight, 20u);
  EXPECT_EQ(device().priority_class, tenancy::Class::best_effort);
}

TEST_F(QuotasTest, AQuotaChangeIsReportedWithCallerAndOldValues) {
  quota([](auto& change) { change.memory_bytes = 4 * tenancy::kGiB, change.shares = 3; });
  EXPECT_EQ(last_event(),
            "quota.set: root set the quota of the user 4000000001: mem none -> 4.0 GiB, shares none -> 3");
  quota([](auto& change) { change.shares = 4; });
  EXPECT_EQ(last_event(), "quota.set: root set the quota of the user 4000000001: shares 3 -> 4");
  EXPECT_EQ(node_->quotas.list().at(0).memory_bytes, 4 * tenancy::kGiB);
  ASSERT_TRUE(node_->quotas.remove(tenancy::Quota::Subject::user, kUser, root_));
  EXPECT_EQ(last_event(),
            "quota.removed: root removed the quota of the user 4000000001: mem 4.0 GiB -> none, shares 4 -> none");
  EXPECT_EQ(events_->after(0).back().owner_uid, kUser);
}

TEST_F(QuotasTest, AQuotaWithoutALimitIsRefusedAndTheOldOneStays) {
  quota([](auto& change) { change.shares = 3; });
  tenancy::QuotaChange change;
  change.id = kUser;
  change.shares.emplace();
  EXPECT_EQ(node_->quotas.set(change, QuotaService::Naming::some, root_).error(),
            (Error{ErrorCode::usage, "the quota of the user 4000000001 would bound nothing",
                   "headgate quota rm --user 4000000001 takes it away"}));
  EXPECT_EQ(node_->quotas.list().at(0).shares, 3u);
  EXPECT_EQ(node_->quotas.set(change, QuotaService::Naming::some, user_).error().code, ErrorCode::denied);
}

TEST_F(QuotasTest, AReplacedQuotaLimitsOnlyWhatItNames) {
  quota([](auto& change) { change.shares = 3; });
  tenancy::QuotaChange whole;
  whole.id = kUser;
  whole.weight = 50;
  ASSERT_TRUE(node_->quotas.set(whole, QuotaService::Naming::all, root_));
  EXPECT_FALSE(node_->quotas.list().at(0).shares);
}

}  // namespace
}  // namespace headgate::node
