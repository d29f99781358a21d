#include <gtest/gtest.h>

#include "guest/ledger/account.hpp"
#include "node/test_node.hpp"
#include "tenancy/test_live_shares.hpp"

namespace headgate::node {
namespace {

class ContainerCheck : public TestNode {
 protected:
  ContainerCheck() {
    ShareRequest order;
    order.name = "k";
    order.mem = "1GiB";
    EXPECT_TRUE(node_->service.create(order, owner_, gpus_));
  }
  std::string check(const tenancy::Visitor& user, const Caller& caller, const std::string& name = "k") {
    const auto may = node_->access.check_container(name, user, caller);
    return may ? "starts" : may.error().message;
  }
  std::string check() { return check({.uid = owner_.uid}, root_); }

  const Caller root_{.uid = 0, .administrator = true}, owner_{.uid = 4'000'001}, stranger_{.uid = 4'000'003};
};

TEST_F(ContainerCheck, AdmitsTheSharesUsers) {
  EXPECT_EQ(check(), "starts");
  EXPECT_EQ(check({.uid = owner_.uid}, owner_), "starts");
  EXPECT_EQ(check({.uid = 0}, root_), "uid 0 may not use the share 'k'") << "root in a container is no other user";
  EXPECT_EQ(check({.uid = 165'536, .user_namespace_owner = owner_.uid}, root_), "starts") << "rootless";
  EXPECT_EQ(check({.uid = stranger_.uid}, stranger_), "there is no share 'k' of yours");
  EXPECT_EQ(check({.uid = 0}, root_, "none"), "there is no share 'none' of yours");
  const std::uint32_t group = 4'000'100;
  node_->shares().find("k")->share.groups = {group};
  EXPECT_EQ(check({.uid = stranger_.uid, .gid = group}, root_), "starts");
  EXPECT_EQ(check({.uid = stranger_.uid, .groups = std::span(&group, 1)}, root_), "starts");
}

TEST_F(ContainerCheck, RefusesAShareThatAdmitsNoneNow) {
  ASSERT_TRUE(node_->service.pause("k", owner_));
  EXPECT_EQ(check(), "the share 'k' is paused");
  ASSERT_TRUE(node_->service.resume("k", owner_));
  ASSERT_TRUE(node_->service.drain("k", owner_));
  EXPECT_EQ(check(), "the share 'k' is being drained");
  ASSERT_TRUE(node_->service.resume("k", owner_));
  EXPECT_EQ(check(), "starts");
  node_->shares().find("k")->share.ttl = std::chrono::seconds(0);
  EXPECT_EQ(check(), "the share 'k' has expired");
}

TEST_F(ContainerCheck, RefusesAShareWhoseMemoryIsInUse) {
  tenancy::LiveShare& live = *node_->shares().find("k");
  live.pages->usage().memory[0].word.used_bytes = 1023ull << 20;
  EXPECT_EQ(check(), "starts");
  live.pages->usage().memory[0].word.used_bytes = 1ull << 30;
  EXPECT_EQ(check(), "the share 'k' is full: its 1.0 GiB on " + std::string(tenancy::kGpu0) + " are in use");
}

}  // namespace
}  // namespace headgate::node
