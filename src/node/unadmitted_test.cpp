#include "node/unadmitted.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "guest/ledger/slot.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

using namespace std::chrono_literals;

TEST(Unadmitted, AProgramThatSwitchedItsSlotIsNamed) {
  const tenancy::Scratch scratch;
  tenancy::Adoption adoption;
  auto shares = tenancy::Shares::open({scratch.path() + "/run", {{tenancy::kGpu0, 80 * tenancy::kGiB}}, {}},
                                      tenancy::Store::open(scratch.path() + "/state.db").value(), adoption);
  ASSERT_TRUE(shares);
  tenancy::Share share = tenancy::share_of("s", ::geteuid(), tenancy::kGiB);
  share.admit = tenancy::Admit::ask;
  ASSERT_TRUE(shares->create(share));
  boost::asio::io_context context;
  tenancy::Processes processes(context.get_executor(), *shares, "/proc", {});
  Unadmitted unadmitted;
  EXPECT_TRUE(unadmitted.look(*shares, processes, 0s, 5s).empty());

  ledger::UsagePage& usage = shares->find("s")->pages->usage();
  const ledger::Identity self = ledger::own_identity();
  ledger::SlotRef slot;
  ASSERT_EQ(ledger::claim(usage, self, "test", slot), ledger::ClaimResult::claimed);
  tenancy::TenantProcess tenant;
  tenant.share = "s";
  tenant.process.pid = static_cast<std::uint32_t>(::getpid());
  tenant.seat = self;
  EXPECT_TRUE(processes.enter(tenant, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)))));
  ASSERT_TRUE(processes.seat("s", tenant.process.pid, slot));
  for (const auto now : {10s, 20s}) EXPECT_TRUE(unadmitted.look(*shares, processes, now, 5s).empty());

  ledger::release(usage, slot);
  ASSERT_EQ(ledger::claim(usage, self, "test", slot), ledger::ClaimResult::claimed);
  EXPECT_TRUE(unadmitted.look(*shares, processes, 30s, 5s).empty());
  EXPECT_EQ(unadmitted.look(*shares, processes, 40s, 5s).size(), 1u);
}

}  // namespace
}  // namespace headgate::node
