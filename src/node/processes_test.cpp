#include "node/processes.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "guest/ledger/slot.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

observe::LedgerPicture ledger_of(const std::string& share, std::vector<ledger::Identity> seats) {
  observe::LedgerPicture made;
  made.share.name = share;
  for (const auto& seat : seats) made.seats.push_back({.identity = seat, .command = "says so", .bytes = {}});
  return made;
}

// A tenant writes its share's page. By a number in it nobody else's process may be shown there, watched or ended.
TEST(Processes, ANumberThatOnlyAPageTellsIsShownAsClaimedAndAnotherSharesProcessNotAtAll) {
  const tenancy::Scratch scratch;
  tenancy::Adoption adoption;
  auto shares = tenancy::Shares::open({scratch.path() + "/run", {{tenancy::kGpu0, 80 * tenancy::kGiB}}, {}},
                                      tenancy::Store::open(scratch.path() + "/state.db").value(), adoption);
  ASSERT_TRUE(shares);
  boost::asio::io_context context;
  tenancy::Processes tenants(context.get_executor(), *shares, "/proc", {});
  const ledger::Identity self = ledger::own_identity();
  const ledger::Identity parent{static_cast<std::uint32_t>(::getppid()), self.pidns_inode, 0};
  tenancy::TenantProcess tenant;
  tenant.share = "honest";
  tenant.process.pid = self.pid;
  tenant.seat = self;
  EXPECT_TRUE(tenants.enter(tenant, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)))));

  observe::JoinInput input;
  input.ledgers = {ledger_of("honest", {self}), ledger_of("liar", {self, parent})};
  add_processes(input, &tenants, "/proc");
  EXPECT_EQ(input.host_pids, (std::vector<std::vector<std::uint32_t>>{{self.pid}, {0, parent.pid}}));
  EXPECT_EQ(input.claimed, std::set<std::uint32_t>{parent.pid});
  for (const auto& process : observe::join(input, nullptr).processes) {
    if (process.pid == 0) continue;
    EXPECT_EQ(process.share, process.pid == self.pid ? "honest" : "liar");
    EXPECT_EQ(process.claimed, process.pid == parent.pid);
  }

  observe::JoinInput alone;
  alone.ledgers = {ledger_of("own", {parent})};
  add_processes(alone, nullptr, "/proc");
  EXPECT_TRUE(alone.claimed.empty()) << "without a daemon a share's pages are its user's own";
}

}  // namespace
}  // namespace headgate::node
