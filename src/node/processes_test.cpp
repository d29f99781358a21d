#include "node/processes.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "guest/ledger/slot.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

observe::LedgerSnapshot ledger_of(const std::string& share, std::vector<ledger::Identity> seats) {
  observe::LedgerSnapshot made;
  made.share.name = share;
  for (const auto& seat : seats) made.seats.push_back({.identity = seat, .command = "says so", .bytes = {}});
  return made;
}

struct Tenants {
  tenancy::Scratch scratch;
  tenancy::Adoption adoption;
  tenancy::Shares shares = tenancy::Shares::open({scratch.path() + "/run", {{tenancy::kGpu0, 80 * tenancy::kGiB}}, {}},
                                                 tenancy::Store::open(scratch.path() + "/state.db").value(), adoption)
                               .value();
  boost::asio::io_context context;
  tenancy::Processes tenants{context.get_executor(), shares, "/proc", {}};
};

// A tenant writes its share's page. A number in it must not get another's process shown, watched or ended.
TEST(Processes, APidFromAPageIsShownAsClaimed) {
  Tenants node;
  const ledger::Identity self = ledger::own_identity();
  const ledger::Identity parent{static_cast<std::uint32_t>(::getppid()), self.pidns_inode, 0};
  tenancy::TenantProcess tenant;
  tenant.share = "honest";
  tenant.process.pid = self.pid;
  tenant.seat = self;
  EXPECT_TRUE(node.tenants.enter(tenant, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)))));

  observe::JoinInput input;
  input.ledgers = {ledger_of("honest", {self}), ledger_of("liar", {self, parent})};
  add_processes(input, &node.tenants, "/proc");
  EXPECT_EQ(input.host_pids, (std::vector<std::vector<std::uint32_t>>{{self.pid}, {0, parent.pid}}));
  EXPECT_EQ(input.claimed, std::set<std::uint32_t>{parent.pid});
  for (const auto& process : observe::join(input, {}).processes) {
    if (process.pid == 0) continue;
    EXPECT_EQ(process.share, process.pid == self.pid ? "honest" : "liar");
    EXPECT_EQ(process.claimed, process.pid == parent.pid);
  }

  observe::JoinInput alone;
  alone.ledgers = {ledger_of("own", {parent})};
  add_processes(alone, nullptr, "/proc");
  EXPECT_TRUE(alone.claimed.empty()) << "without a daemon a share's pages are its user's own";
}

// The driver's list is older than the pages. What it says of a number that is another process's by now stays.
TEST(Processes, OneThatEndedSinceTheListIsNotOutside) {
  Tenants node;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  ASSERT_TRUE(pidfd);
  tenancy::TenantProcess tenant;
  tenant.share = "brief";
  tenant.process.pid = static_cast<std::uint32_t>(child);
  tenant.process.start_time = 5;
  ASSERT_TRUE(node.tenants.enter(tenant, std::move(pidfd)));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  while (node.tenants.count_in("brief") > 0) node.context.run_one_for(std::chrono::seconds(5));

  const std::string proc = node.scratch.path() + "/proc";  // without a process
  const auto listed = [&](std::uint32_t pid) {
    observe::JoinInput input;
    input.driver.processes.push_back({.uuid = tenancy::kGpu0, .pid = pid, .bytes = 1, .busy_ratio = {}});
    add_processes(input, &node.tenants, proc);
    return input.driver.processes.size();
  };
  EXPECT_EQ(listed(tenant.process.pid), 0u);
  EXPECT_EQ(listed(tenant.process.pid + 1), 1u) << "one that was in no share, or cannot be seen";
  EXPECT_TRUE(node.tenants.has_ended(tenant.process.pid, 5));
  EXPECT_FALSE(node.tenants.has_ended(tenant.process.pid, 6)) << "another process of that number";
}

// Each costs the daemon's loop some files of /proc, at each snapshot that a client requests.
TEST(Processes, ClaimedPidsAreLookedUpToALimitListedOnesAll) {
  Tenants node;
  const std::string proc = node.scratch.path() + "/proc";
  const auto live = [&](std::uint32_t pid) {
    const std::string number = std::to_string(pid), folder = proc + "/" + number;
    std::filesystem::create_directories(folder + "/task/" + number);
    std::ofstream(folder + "/status") << "Pid:\t" << number << "\nUid:\t7\t7\n";
    std::ofstream(folder + "/task/" + number + "/stat")
        << number << " (x) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 77 0\n";
    return ledger::Identity{pid, 0, 0};
  };
  observe::JoinInput input;
  std::uint32_t pid = 1000;
  for (std::size_t share = 0; share < 6; ++share) {
    std::vector<ledger::Identity> seats;
    while (seats.size() < kMaxClaimsAskedOfAShare + 5) seats.push_back(live(pid++));
    input.ledgers.push_back(ledger_of("liar" + std::to_string(share), std::move(seats)));
  }
  input.driver.processes.push_back({.uuid = tenancy::kGpu0, .pid = pid - 1, .bytes = {}, .busy_ratio = {}});
  add_processes(input, &node.tenants, proc);
  EXPECT_EQ(input.facts.size(), kMaxClaimsAsked + 1);
  EXPECT_TRUE(input.facts.contains(pid - 1)) << "a process that uses a GPU is always known";
  EXPECT_TRUE(input.facts.contains(1000 + kMaxClaimsAskedOfAShare - 1));
  EXPECT_FALSE(input.facts.contains(1000 + kMaxClaimsAskedOfAShare));
  EXPECT_EQ(input.claimed.size(), pid - 1000);
}

}  // namespace
}  // namespace headgate::node
