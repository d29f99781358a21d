#include "node/arbitrated_share.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

TEST(ArbitratedShare, APageThatCannotBeGuardedIsAnErrorAndNotTheEndOfTheDaemon) {
  const tenancy::Scratch scratch;
  const std::string& base = scratch.path();
  ledger::ShareGrant grant{};
  std::strcpy(grant.name, "s");
  grant.device_count = 1;
  std::strcpy(grant.devices[0].uuid, "GPU-00000000-0000-0000-0000-000000000001");
  ledger::SharePages pages;
  ASSERT_FALSE(ledger::create_share(base.c_str(), grant, ledger::Access::owner, pages));
  ledger::close_pages(pages);
  std::vector<tenancy::TruncationGuard> guards(tenancy::TruncationGuard::kMaxGuards);
  for (auto& guard : guards) guard = tenancy::TruncationGuard(nullptr, 1);
  const auto refused = ArbitratedShare::open(base, "s", {}, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("a tenant that shortens its page would end the daemon"), std::string::npos)
      << refused.error().message;
  guards.clear();
  EXPECT_TRUE(ArbitratedShare::open(base, "s", {}, {}));
}

}  // namespace
}  // namespace headgate::node
