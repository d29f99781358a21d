#include "node/arbitrated_share.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

constexpr const char* kGpu = "GPU-00000000-0000-0000-0000-000000000001";

void make_share(const std::string& base) {
  ledger::ShareGrant grant{};
  std::strcpy(grant.name, "s");
  grant.device_count = 1;
  std::strcpy(grant.devices[0].uuid, kGpu);
  ledger::SharePages pages;
  ASSERT_FALSE(ledger::create_share(base.c_str(), grant, ledger::Access::owner, pages));
  ledger::close_pages(pages);
}

TEST(ArbitratedShare, APageThatCannotBeGuardedIsAnError) {
  const tenancy::Scratch scratch;
  const std::string& base = scratch.path();
  make_share(base);
  std::vector<tenancy::SigbusGuard> guards(tenancy::SigbusGuard::kMaxGuards);
  for (auto& guard : guards) guard = tenancy::SigbusGuard(nullptr, 1);
  const auto refused = ArbitratedShare::open(base, "s", {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("a tenant that shortens its page would end the daemon"), std::string::npos)
      << refused.error().message;
  guards.clear();
  EXPECT_TRUE(ArbitratedShare::open(base, "s", {}));
}

TEST(ArbitratedShare, ResizingAPageWhileItIsOpenedIsSurvived) {
  const tenancy::Scratch scratch;
  const std::string& base = scratch.path();
  make_share(base);
  const UniqueFd usage(::open((base + "/shares/s/usage").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(usage);
  std::atomic<bool> done = false;
  std::thread tenant([&] {
    while (!done)
      for (const off_t length : {off_t{0}, static_cast<off_t>(sizeof(ledger::UsagePage))})
        (void)!::ftruncate(usage.get(), length);
  });
  for (int i = 0; i < 5'000; ++i) (void)ArbitratedShare::open(base, "s", {});
  done = true;
  tenant.join();
  struct sigaction now{};
  ASSERT_EQ(::sigaction(SIGBUS, nullptr, &now), 0);
  EXPECT_NE(now.sa_handler, SIG_DFL);
}

// A share without a ceiling would otherwise give its turns away.
TEST(ArbitratedShare, OnlyAShareWithACeilingCanBeAtIt) {
  const tenancy::Scratch scratch;
  const std::string& base = scratch.path();
  make_share(base);
  ledger::SharePages pages;
  ASSERT_FALSE(ledger::open_share(base.c_str(), "s", ledger::Access::owner, pages));
  auto share = ArbitratedShare::open(base, "s", {kGpu});
  ASSERT_TRUE(share);
  pages.usage->compute[0].paid_until_ns = 3'000'000;
  EXPECT_EQ(share->use_of(0, 1'000'000).ceiling_ns, 0);
  pages.writable_policy->devices[0].compute_ceiling_ppm = ledger::kWholeGpu / 2;
  EXPECT_EQ(share->use_of(0, 1'000'000).ceiling_ns, 2'000'000);
  ledger::close_pages(pages);
}

// Slots that a tenant only marks as used are not scanned at each look.
TEST(ArbitratedShare, ANewProcessIsSeenAtItsRingOrSoonAfter) {
  const tenancy::Scratch scratch;
  make_share(scratch.path());
  auto share = ArbitratedShare::open(scratch.path(), "s", {kGpu});
  ASSERT_TRUE(share);
  ledger::SharePages pages;
  ASSERT_FALSE(ledger::open_share(scratch.path().c_str(), "s", ledger::Access::owner, pages));
  constexpr std::int64_t kMs = 1'000'000, kNow = 1'000 * kMs;
  const auto comes = [&] {
    ledger::SlotRef seat;
    EXPECT_EQ(ledger::claim_for_self(*pages.usage, seat), ledger::ClaimResult::claimed);
    pages.usage->slots[seat.slot].devices[0].waiting = 1;
    return seat;
  };
  EXPECT_FALSE(share->use_of(0, kNow).wanting);
  const ledger::SlotRef first = comes();
  EXPECT_FALSE(share->use_of(0, kNow + 9 * kMs).wanting);
  EXPECT_TRUE(share->use_of(0, kNow + 10 * kMs).wanting);
  EXPECT_EQ(share->use_of(0, kNow + 10 * kMs).processes, 1u) << "each process has its own portion";
  ledger::release(*pages.usage, first);
  EXPECT_FALSE(share->use_of(0, kNow + 11 * kMs).wanting) << "the arbiter does not wait for a process that has gone";
  EXPECT_FALSE(share->use_of(0, kNow + 20 * kMs).wanting);
  comes();
  EXPECT_FALSE(share->use_of(0, kNow + 21 * kMs).wanting);
  share->list_again();
  EXPECT_TRUE(share->use_of(0, kNow + 21 * kMs).wanting);
  ledger::close_pages(pages);
}

}  // namespace
}  // namespace headgate::node
