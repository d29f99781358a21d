// Programs of one share with different clocks (time_namespaces(7)): its pages use the host's clocks.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "daemon_program.hpp"
#include "guest/ledger/account.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::e2e {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
// Days ahead, so that no process gets there by waiting; not a multiple of the 10 ms tick.
const std::string kElsewhere = "unshare -T --monotonic 500000 --boottime 400000 --fork --kill-child ";
// SIGKILL, because a load that hangs in a launch ignores SIGTERM.
const std::string kWork =
    std::string("timeout -s KILL 20 ") + HEADGATE_LOAD + " --kernels=200us --duration=500ms --no-idle-list";

class TimeNamespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    const Cli cli;
    if (cli.shell(kElsewhere + "true").status != 0) GTEST_SKIP() << "this machine makes no time namespaces";
  }

  // A load that holds 1 GiB until it is stopped, optionally in a time namespace. `run`: the options of headgate run.
  static std::vector<std::string> holder(bool elsewhere, const std::vector<std::string>& run) {
    std::vector<std::string> words = {"/usr/bin/env"};
    if (elsewhere)
      words.insert(words.end(),
                   {"unshare", "-T", "--monotonic", "500000", "--boottime", "400000", "--fork", "--kill-child"});
    words.insert(words.end(), {HEADGATE_COMMAND, "run"});
    words.insert(words.end(), run.begin(), run.end());
    words.insert(words.end(),
                 {"--", HEADGATE_LOAD, "--mem=1GiB", "--duration=60s", "--kernels=200us", "--no-idle-list"});
    return words;
  }

  static void kill_members(const ledger::UsagePage& usage) {
    for (std::uint32_t i = 0; i < ledger::kMaxSlots; ++i) {
      const ledger::SlotView seat = ledger::view(usage, i);
      if (seat.kind == ledger::SlotKind::live) ::kill(static_cast<pid_t>(seat.identity.pid), SIGKILL);
    }
  }
};

TEST_F(TimeNamespaces, AProgramWithAnotherClockDelaysNoLaterOne) {
  const Cli cli;
  const std::string run = "$H run --sim --name q --compute 20% --mem 1GiB -- " + kWork;
  EXPECT_EQ(cli.shell(run).status, 0);
  EXPECT_EQ(cli.shell(kElsewhere + run).status, 0);
  const Said after = cli.shell(run);
  EXPECT_EQ(after.status, 0) << "its launches waited for a time that is days ahead: " << after.err;
}

TEST_F(TimeNamespaces, ProgramsOfTwoClocksAreHeldAlikeUnderADaemon) {
  const Daemon daemon;
  for (const char* share : {"s", "t"})
    ASSERT_EQ(daemon.cli().shell(std::string("$H share create ") + share + " --mem 4GiB --compute 40%").status, 0);
  const auto run = [](const char* share) { return std::string("$H run --share ") + share + " -- " + kWork; };
  // Concurrently, in one share and in two, so that the arbiter sees both clocks.
  const Said both = daemon.cli().shell(run("s") + " & one=$!; " + kElsewhere + run("s") + " & two=$!; " + kElsewhere +
                                       run("t") + "; three=$?; wait $one; one=$?; wait $two; echo $one $? $three >&2");
  EXPECT_EQ(both.err, "0 0 0\n");
  const Said after = daemon.cli().shell(run("t"));
  EXPECT_EQ(after.status, 0) << after.err;
}

TEST_F(TimeNamespaces, AProcessKeepsItsSlotUnderAnyClock) {
  for (const bool elsewhere : {true, false}) {
    const Cli cli;
    Program tenant(holder(elsewhere, {"--sim", "--name", "m", "--mem", "4GiB"}),
                   {{"HEADGATE_RUNTIME_DIR", cli.runtime()}});
    ledger::SharePages pages;
    ASSERT_TRUE(eventually([&] {
      return !ledger::open_share(cli.runtime().c_str(), "m", ledger::Access::tenant, pages) && pages.usage != nullptr;
    }));
    ASSERT_TRUE(eventually([&] { return ledger::used_bytes(*pages.usage, 0) >= kGiB; }));
    // A share takes new values only if no process is in it. A run with new values checks that, and reaps the dead.
    const std::string other = (elsewhere ? "" : kElsewhere) + "$H run --sim --name m --mem 2GiB -- true";
    EXPECT_NE(cli.shell(other).status, 0) << "it was taken for dead";
    EXPECT_EQ(ledger::reap_dead(*pages.usage), 0u);
    EXPECT_GE(ledger::used_bytes(*pages.usage, 0), kGiB) << "what it holds is not charged any more";

    // The run has a slot too, in addition to its program's.
    EXPECT_TRUE(eventually([&] {
      kill_members(*pages.usage);
      return cli.shell(other).status == 0;
    })) << "the dead kept their share";
    tenant.kill_now();
    tenant.wait();
    ledger::close_pages(pages);
  }
}

TEST_F(TimeNamespaces, ANewDaemonFindsLivingAndDeadProcesses) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create s --mem 4GiB").status, 0);
  Program tenant(holder(true, {"--share", "s"}), {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}});
  const auto holds = [&] {
    const auto share = daemon.share("s");
    return share.processes == 1 && !share.devices.empty() && share.devices[0].memory_used_bytes >= kGiB;
  };
  ASSERT_TRUE(eventually(holds)) << daemon.errors_so_far();
  daemon.kill_and_wait();
  daemon.start();
  EXPECT_TRUE(eventually(holds)) << daemon.errors_so_far();
  const auto snapshot = daemon.snapshot();
  ASSERT_EQ(snapshot.processes.size(), 1u);
  ::kill(static_cast<pid_t>(snapshot.processes[0].pid), SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const auto share = daemon.share("s");
    return share.processes == 0 && share.devices.at(0).memory_used_bytes == 0;
  })) << daemon.errors_so_far();
  tenant.kill_now();
  tenant.wait();
}

}  // namespace
}  // namespace headgate::e2e
