// What users may do with their own and others' shares, and what only an administrator may do.
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "guest/ledger/slot.hpp"
#include "node/test_node.hpp"

namespace headgate::node {
namespace {

class Rights : public TestNode {
 protected:
  Rights() {
    options_.shares_per_user = 1;
    start();
  }
  Result<void> create(const std::string& name, const Caller& caller, const std::string& mem = "1GiB") {
    ShareRequest order;
    order.name = name;
    order.mem = mem;
    return node_->service.create(order, caller, gpus_);
  }
  Result<std::uint64_t> wait(const std::string& name, const Caller& caller, const std::string& mem) {
    ShareRequest order;
    order.name = name;
    order.mem = mem;
    return node_->service.wait_for_room(order, caller, gpus_, {});
  }
  Result<void> set(const std::string& name, const Caller& caller, const ShareRequest& order) {
    return node_->service.set(name, order, caller, gpus_);
  }
  tenancy::Share& share(const std::string& name) { return node_->shares().find(name)->share; }
  static std::string words(const Result<void>& result) { return result ? "done" : result.error().message; }

  const Caller root_{.uid = 0, .administrator = true}, owner_{.uid = 4'000'001}, member_{.uid = 4'000'002},
      stranger_{.uid = 4'000'003}, nobody_{};
};

TEST_F(Rights, AShareIsChangedByItsOwnerAndAdministratorsOnly) {
  const std::vector<std::pair<std::string, std::function<Result<void>(const Caller&)>>> operations = {
      {"set", [&](const Caller& caller) { return set("k", caller, {.mem = "2GiB"}); }},
      {"pause", [&](const Caller& caller) { return node_->service.pause("k", caller); }},
      {"resume", [&](const Caller& caller) { return node_->service.resume("k", caller); }},
      {"drain", [&](const Caller& caller) { return node_->service.drain("k", caller); }},
      {"reclaim", [&](const Caller& caller) { return node_->service.reclaim("k", caller); }},
      {"remove", [&](const Caller& caller) { return node_->service.remove("k", caller); }}};
  for (const Caller* const may : {&owner_, &root_}) {
    ASSERT_TRUE(create("k", owner_));
    share("k").users = {member_.uid};
    for (const auto& [operation, run] : operations) {
      EXPECT_TRUE(words(run(member_)).ends_with("you may use it, and not change it"))
          << operation << words(run(member_));
      for (const Caller* const other : {&stranger_, &nobody_})
        EXPECT_EQ(words(run(*other)), "there is no share 'k' of yours") << operation;
      EXPECT_EQ(words(run(*may)), "done") << operation;
    }
  }
}

TEST_F(Rights, AnUnknownUserCannotOwnAShare) {
  EXPECT_FALSE(nobody_.sees(1, std::vector{nobody_.uid}, {}));
  EXPECT_FALSE(nobody_.owns(nobody_.uid));
  EXPECT_EQ(words(create("k", nobody_)), "an unknown user makes no share");
}

TEST_F(Rights, AShareIsEnteredByTheUsersItAdmits) {
  ASSERT_TRUE(create("k", owner_));
  share("k").users = {member_.uid};
  for (const Caller* const may : {&owner_, &root_, &member_})
    EXPECT_TRUE(node_->access.entry("k", *may, false)) << may->uid;
  for (const Caller* const other : {&stranger_, &nobody_}) {
    const auto entry = node_->access.entry("k", *other, false);
    ASSERT_FALSE(entry);
    EXPECT_EQ(entry.error().message, "there is no share 'k' of yours");
  }
}

// A caller in no group is not in group 0, and a share for everyone does not admit an unknown caller.
TEST_F(Rights, AUserOutsideItsGroupsNeitherEntersNorHoldsAShare) {
  ASSERT_TRUE(create("k", owner_));
  share("k").groups = {0};
  const Caller member{.uid = 4'000'004, .gids = {0}}, other{.uid = 4'000'005, .gids = {4'000'005}, .pid = 1};
  EXPECT_TRUE(node_->access.entry("k", member, false));
  const auto entry = node_->access.entry("k", other, true);
  ASSERT_FALSE(entry);
  EXPECT_EQ(entry.error().message, "there is no share 'k' of yours");
  EXPECT_EQ(node_->shares().staying("k"), 0u);
  share("k").everyone = true;
  EXPECT_TRUE(node_->access.entry("k", other, false));
  EXPECT_FALSE(node_->access.entry("k", nobody_, false));
}

TEST_F(Rights, OnlyAdministratorsOvercommitAndSetItsLimits) {
  ShareRequest order;
  order.name = "k";
  order.mem = "1GiB";
  order.overcommit = true;
  const std::string denied = "only an administrator may overcommit a card, or change an overcommitted share's limits";
  EXPECT_EQ(words(node_->service.create(order, owner_, gpus_)), denied);
  ASSERT_TRUE(create("k", owner_));
  EXPECT_EQ(words(set("k", owner_, {.overcommit = true})), denied);
  ASSERT_EQ(words(set("k", root_, {.overcommit = true})), "done");
  EXPECT_EQ(words(set("k", owner_, {.idle_notice = "5m"})), "done") << "what is no limit is his still";
  EXPECT_EQ(words(set("k", owner_, {.mem = "2GiB"})), denied);
  EXPECT_EQ(words(set("k", owner_, {.overcommit = false})), "done");
}

TEST_F(Rights, OnlyAdministratorsSetPoliciesAndQuotas) {
  Arbitration arbitration({tenancy::kGpu0}, {});
  node_->managed.arbitration = &arbitration;
  tenancy::QuotaChange quota;
  quota.id = owner_.uid;
  quota.shares = 5;
  EXPECT_EQ(words(node_->policies.set(tenancy::kGpu0, "off", false, owner_)),
            "only an administrator sets a GPU's policy");
  EXPECT_EQ(arbitration.policy(0), schedule::Policy::fair);
  EXPECT_FALSE(node_->quotas.set(quota, QuotaService::Naming::some, owner_));
  ASSERT_TRUE(node_->quotas.set(quota, QuotaService::Naming::some, root_));
  EXPECT_EQ(words(node_->quotas.remove(quota.subject, quota.id, owner_)), "only an administrator removes quotas");
  EXPECT_EQ(words(node_->policies.set(tenancy::kGpu0, "off", false, root_)), "done");
  EXPECT_EQ(arbitration.policy(0), schedule::Policy::off);
  EXPECT_EQ(words(node_->quotas.remove(quota.subject, quota.id, root_)), "done");
}

// A gid is no uid: the user of that number has nothing to do with it.
TEST_F(Rights, GroupQuotasAreVisibleToAdministrators) {
  tenancy::QuotaChange quota;
  quota.subject = tenancy::Quota::Subject::group;
  quota.id = owner_.uid;
  quota.shares = 5;
  ASSERT_TRUE(node_->quotas.set(quota, QuotaService::Naming::some, root_));
  EXPECT_EQ(events_->after(0).back().owner_uid, 0u);
  quota.subject = tenancy::Quota::Subject::user;
  ASSERT_TRUE(node_->quotas.set(quota, QuotaService::Naming::some, root_));
  EXPECT_EQ(events_->after(0).back().owner_uid, owner_.uid);
}

TEST_F(Rights, AUserThatLeftAGroupStillCountsInIt) {
  ASSERT_TRUE(create("k", {.uid = 0, .gids = {4'000'009}}));
  const auto& counted = share("k").owner_gids;
  EXPECT_EQ(std::ranges::count(counted, 0u), 1) << "a group of root's that the directory has";
  EXPECT_EQ(std::ranges::count(counted, 4'000'009u), 1) << "one that the process has besides";
}

TEST_F(Rights, AWaitingRequestCountsAsAShare) {
  ASSERT_TRUE(create("committed", root_, "70GiB"));
  ASSERT_TRUE(wait("waits", owner_, "60GiB"));
  EXPECT_TRUE(words(create("k", owner_)).starts_with("you have 1 share or request for one"))
      << words(create("k", owner_));
  EXPECT_FALSE(wait("k", owner_, "60GiB"));
}

TEST_F(Rights, RoomOfAnEarlierRequestIsNotTaken) {
  ASSERT_TRUE(create("committed", root_, "70GiB"));
  ASSERT_TRUE(wait("waits", owner_, "60GiB"));
  const auto refused = create("k", stranger_, "5GiB");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_capacity);
  EXPECT_EQ(refused.error().message,
            "1 wait for room, and the share 'k' would take what one that came before waits for");
  ShareRequest run;
  run.name = "run";
  run.mem = "5GiB";
  run.until_empty = true;
  EXPECT_FALSE(node_->service.create(run, root_, gpus_)) << "a run of root's is one like all others";
  EXPECT_EQ(words(create("k", root_, "5GiB")), "done") << "an administrator may pass the queue";
}

// A user that joined another's gang would get the other's turns, and delay the other's shares.
TEST_F(Rights, AGangHasOneOwner) {
  Arbitration arbitration({tenancy::kGpu0}, {});
  ASSERT_TRUE(arbitration.start());
  node_->managed.arbitration = &arbitration;
  std::map<std::string, UniqueFd> bells;
  for (const auto& [name, owner] : {std::pair("a", owner_), std::pair("b", stranger_)}) {
    ASSERT_TRUE(node_->service.create({.name = name, .gang = "g", .mem = "1GiB"}, owner, gpus_));
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    bells[name] = UniqueFd(ends[1]);
    ledger::SlotRef slot;
    ASSERT_EQ(ledger::claim_for_self(node_->shares().find(name)->pages->usage(), slot), ledger::ClaimResult::claimed);
    ASSERT_TRUE(node_->arbitrate(name, UniqueFd(ends[0])));
  }
  const auto gate = [&](const char* name) {
    return node_->shares().find(name)->pages->policy().devices[0].gate.load();
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool apart = false;
  while (!apart && std::chrono::steady_clock::now() < deadline) {
    for (auto& [name, bell] : bells) {
      ledger::SlotDevice& work = node_->shares().find(name)->pages->usage().slots[0].devices[0];
      work.waiting = 1, work.pulse.fetch_add(1);
      (void)::send(bell.get(), "t", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    std::this_thread::yield();
    apart = (gate("a") == ledger::Gate::open) != (gate("b") == ledger::Gate::open) &&
            (gate("a") == ledger::Gate::queued) != (gate("b") == ledger::Gate::queued);
  }
  EXPECT_TRUE(apart);
  arbitration.stop();
}

TEST_F(Rights, ATimeToLiveInThePastIsRefused) {
  ASSERT_TRUE(create("k", owner_));
  share("k").created_at_s -= 7200;
  const std::string refusal = words(set("k", owner_, {.ttl = "1h"}));
  EXPECT_TRUE(refusal.starts_with("a time to live of 1h is over already")) << refusal;
  EXPECT_FALSE(share("k").ttl);
  EXPECT_EQ(words(set("k", owner_, {.ttl = "3h"})), "done");
}

}  // namespace
}  // namespace headgate::node
