#include "tenancy/shares.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "guest/ledger/account.hpp"
#include "guest/ledger/slot.hpp"
#include "tenancy/share_pages.hpp"
#include "tenancy/sqlite.hpp"
#include "tenancy/test_live_shares.hpp"

namespace headgate::tenancy {
namespace {

namespace fs = std::filesystem;

bool may_mount() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapEff:")) return (std::stoull(line.substr(7), nullptr, 16) >> 21 & 1) != 0;  // CAP_SYS_ADMIN
  }
  return false;
}

TEST_F(SharesTest, ACreatedShareHasPagesRowAndAClosedDirectory) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("research", 1000, 8 * kGiB, 250'000))), "done");
  Tenant tenant;
  enter("research", tenant);
  EXPECT_EQ(tenant.pages.policy->devices[0].memory_limit_bytes, 8 * kGiB);
  EXPECT_EQ(tenant.pages.policy->devices[0].compute_guarantee_ppm, 250'000u);
  for (const std::string& path : {base_ + "/shares", base_ + "/shares/research"})
    EXPECT_EQ(fs::status(path).permissions(), fs::perms(0711)) << path;
  EXPECT_EQ(fs::status(file("research", "usage")).permissions(), fs::perms(01600));
  EXPECT_EQ(words(shares.create(share_of("research", 1000, kGiB))), "there is a share 'research' already");
}

TEST_F(SharesTest, AFailedCreationLeavesNothing) {
  Shares shares = start();
  EXPECT_NE(words(shares.create(share_of("large", 1, 81 * kGiB))), "done");
  EXPECT_FALSE(fs::exists(base_ + "/shares/large"));
  // Another program's pages under that name: the row is removed again.
  fs::create_directories(base_ + "/shares/taken");
  std::ofstream(file("taken", "something")) << "x";
  EXPECT_NE(words(shares.create(share_of("taken", 1, kGiB))), "done");
  EXPECT_EQ(shares.find("taken"), nullptr);
  EXPECT_TRUE(Store::open(state_)->shares()->empty());
}

TEST_F(SharesTest, NewLimitsWakeAProcessThatWaitsAtItsGate) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  int ready[2], seen[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(seen), 0);
  const pid_t tenant = ::fork();
  if (tenant == 0) {
    ::alarm(30);
    ledger::SharePages pages;
    ledger::SlotRef slot;
    if (ledger::enter_share(base_.c_str(), "s", nullptr, pages, slot)) ::_exit(1);
    const auto& device = pages.policy->devices[0];
    const std::uint32_t before = device.gate_epoch.load();
    if (::write(ready[1], "r", 1) != 1) ::_exit(2);
    while (device.gate_epoch.load() == before)
      ::syscall(SYS_futex, &device.gate_epoch, FUTEX_WAIT, before, nullptr, nullptr, 0);
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    ::_exit(device.memory_limit_bytes == 4 * kGiB && ::write(seen[1], &now, sizeof now) == sizeof now ? 0 : 3);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto asked = std::chrono::steady_clock::now().time_since_epoch().count();
  ASSERT_EQ(words(shares.set(share_of("s", 1, 4 * kGiB))), "done");
  decltype(std::chrono::steady_clock::now().time_since_epoch().count()) at = 0;
  ASSERT_EQ(::read(seen[0], &at, sizeof at), static_cast<ssize_t>(sizeof at));
  // It waits without a timeout, so only the wake-up ends that. Prints how long it took:
  std::printf("woken after %.1f ms\n", static_cast<double>(at - asked) / 1e6);
  int status = 0;
  ::waitpid(tenant, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*Store::open(state_)->shares()->at(0).devices[0].memory_limit_bytes, 4 * kGiB);
  for (const int fd : {ready[0], ready[1], seen[0], seen[1]}) ::close(fd);
}

TEST_F(SharesTest, MemoryAboveALoweredLimitStaysCommitted) {
  Tenant tenant;
  {
    Shares shares = start();
    ASSERT_EQ(words(shares.create(share_of("a", 1, 60 * kGiB))), "done");
    enter("a", tenant);
    auto& usage = *tenant.pages.usage;
    ASSERT_TRUE(ledger::reserve(usage, 0, tenant.slot, 50 * kGiB, 60 * kGiB).ok);
    ASSERT_EQ(words(shares.set(share_of("a", 1, kGiB))), "done");
    const Card card{kGpu0, 80 * kGiB};
    EXPECT_EQ(shares.committed_on(card).memory_bytes, 50 * kGiB);
    EXPECT_NE(words(shares.create(share_of("b", 2, 40 * kGiB))), "done");
    // A page that claims more than was ever committed counts for no more.
    ASSERT_TRUE(ledger::charge(usage, 0, tenant.slot, 30 * kGiB));
    EXPECT_EQ(shares.committed_on(card).memory_bytes, 60 * kGiB);
    ledger::give_back(usage, 0, tenant.slot, 30 * kGiB);
    // A damaged page counts as all that was committed.
    shares.find("a")->damage = "scribbled";
    EXPECT_EQ(shares.committed_on(card).memory_bytes, 60 * kGiB);
    shares.find("a")->damage.clear();
    EXPECT_EQ(shares.committed_on(card).memory_bytes, 50 * kGiB);
  }
  Shares shares = start();
  EXPECT_NE(words(shares.create(share_of("b", 2, 40 * kGiB))), "done") << "after a restart";
  ledger::give_back(*tenant.pages.usage, 0, tenant.slot, 50 * kGiB);
  EXPECT_EQ(words(shares.create(share_of("b", 2, 40 * kGiB))), "done");
}

TEST_F(SharesTest, ContextsAndCodeOfProcessesStayCommittedToo) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  Tenant tenant;
  enter("s", tenant);
  tenant.pages.usage->slots[tenant.slot.slot].devices[0].residual_bytes = 3 * kGiB;
  EXPECT_EQ(held_on(*shares.find("s")->pages, kGpu0), 3 * kGiB);
}

TEST_F(SharesTest, ARefusedChangeChangesNothing) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  EXPECT_NE(words(shares.set(share_of("s", 1, 81 * kGiB))), "done");
  EXPECT_EQ(words(shares.set(share_of("s", 1, kGiB, 0, kGpu1))),
            "the GPUs of the share 's' cannot be changed while it exists");
  EXPECT_EQ(words(shares.set(share_of("s", 2, kGiB))), "the owner of the share 's' cannot be changed while it exists");
  EXPECT_EQ(words(shares.set(share_of("t", 1, kGiB))), "there is no share 't'");
  Share other = share_of("s", 1, kGiB);
  other.fail_policy = ledger::FailPolicy::closed;
  EXPECT_EQ(words(shares.set(other)), "the fail policy of the share 's' cannot be changed while it exists");
  other = share_of("s", 1, kGiB);
  other.gang = "g";
  EXPECT_EQ(words(shares.set(other)), "the gang of the share 's' cannot be changed while it exists");
  EXPECT_EQ(shares.find("s")->pages->policy().devices[0].memory_limit_bytes, 8 * kGiB);
}

TEST_F(SharesTest, AChangeThatCannotBeStoredIsUndoneInThePages) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  Database other = *Database::open(state_);
  {
    const auto held = Transaction::begin(other);
    ASSERT_TRUE(held);
    EXPECT_EQ(shares.set(share_of("s", 1, 4 * kGiB)).error().code, ErrorCode::busy);
    EXPECT_EQ(shares.pause("s").error().code, ErrorCode::busy);
  }
  EXPECT_EQ(shares.find("s")->pages->policy().devices[0].memory_limit_bytes, 8 * kGiB);
  EXPECT_FALSE(shares.find("s")->paused());
}

TEST_F(SharesTest, AChangeThatOneGpuRefusesChangesNone) {
  Shares shares = start();
  Share two = share_of("s", 1, 8 * kGiB);
  two.devices.push_back(share_of("s", 1, 8 * kGiB, 0, kGpu1).devices[0]);
  ASSERT_EQ(words(shares.create(two)), "done");
  ledger::PolicyPage& policy = shares.find("s")->pages->policy();
  policy.devices[1].uuid[0] = 'x';  // as a process with the daemon's rights could
  for (DeviceShare& device : two.devices) device.memory_limit_bytes = 2 * kGiB;
  EXPECT_NE(words(shares.set(two)), "done");
  EXPECT_EQ(policy.devices[0].memory_limit_bytes, 8 * kGiB);
  EXPECT_EQ(shares.find("s")->share.devices[0].memory_limit_bytes, 8 * kGiB);
}

TEST_F(SharesTest, AShareInUseStaysAndAnEmptyOneIsRemovedWhole) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  Tenant tenant;
  enter("s", tenant);
  EXPECT_EQ(words(shares.remove("s")), "the share 's' is in use by 1 process");
  tenant.leave();
  const std::ofstream socket(file("s", "tenant.sock"));  // as the daemon's would
  ASSERT_EQ(words(shares.remove("s")), "done");
  EXPECT_FALSE(fs::exists(base_ + "/shares/s"));
  EXPECT_EQ(words(shares.remove("s")), "there is no share 's'");
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
}

TEST_F(SharesTest, AKilledDaemonsSharesAreAdopted) {
  Tenant tenant;
  {
    Shares shares = start();
    ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
    enter("s", tenant);
    ASSERT_TRUE(ledger::reserve(*tenant.pages.usage, 0, tenant.slot, kGiB, 8 * kGiB).ok);
    ASSERT_EQ(words(shares.pause("s")), "done");
  }
  Adoption adoption;
  Shares shares = start(adoption);
  EXPECT_EQ(adoption.adopted, std::vector<std::string>{"s"});
  EXPECT_TRUE(shares.find("s")->paused());
  EXPECT_EQ(ledger::used_bytes(shares.find("s")->pages->usage(), 0), kGiB);
  EXPECT_EQ(ledger::live_slots(shares.find("s")->pages->usage()), 1u);
  ASSERT_EQ(words(shares.resume("s")), "done");
  EXPECT_EQ(tenant.pages.policy->command.load(), ledger::Command::run);
  EXPECT_EQ(words(shares.create(share_of("t", 1, 75 * kGiB))), words(shares.create(share_of("t", 1, 75 * kGiB))));
  EXPECT_EQ(shares.find("t"), nullptr);  // what was committed before is still committed
}

// New pages would bring the share back, with empty accounts.
TEST_F(SharesTest, AnInterruptedRemovalIsCompleted) {
  {
    Shares shares = start();
    for (const char* name : {"gone", "kept"}) ASSERT_EQ(words(shares.create(share_of(name, 1, kGiB))), "done");
  }
  for (const char* name : {"gone", "kept"}) ASSERT_EQ(words(Store::open(state_)->note_removal(name, true)), "done");
  fs::remove_all(base_ + "/shares/gone");
  Adoption adoption;
  Shares shares = start(adoption);
  EXPECT_EQ(shares.find("gone"), nullptr);
  EXPECT_TRUE(adoption.made_anew.empty());
  EXPECT_EQ(adoption.adopted, std::vector<std::string>{"kept"});
  const auto left = Store::open(state_)->shares();
  ASSERT_TRUE(left);
  ASSERT_EQ(left->size(), 1u);
  EXPECT_FALSE(Store::open(state_)->removal_begun("kept").value_or(true));
}

TEST_F(SharesTest, ARefusedRemovalIsNotCompletedLater) {
  Tenant tenant;
  {
    Shares shares = start();
    ASSERT_EQ(words(shares.create(share_of("s", 1, kGiB))), "done");
    enter("s", tenant);
    EXPECT_NE(words(shares.remove("s")), "done");
  }
  tenant.leave();
  fs::remove_all(base_);
  EXPECT_NE(start().find("s"), nullptr);
}

TEST_F(SharesTest, AStartKeepsSharesThatNoLongerFit) {
  Share fast = share_of("fast", 1, kGiB);
  fast.devices[0].priority_class = Class::latency;
  {
    Store store = *Store::open(state_);
    ASSERT_TRUE(store.put(share_of("paid", 1, kGiB, 700'000)));
    ASSERT_TRUE(store.put(fast));
  }
  Adoption adoption;
  Shares shares = start(adoption);
  EXPECT_EQ(adoption.made_anew, (std::vector<std::string>{"fast", "paid"}));
  EXPECT_TRUE(adoption.refused.empty());
  fast.devices[0].weight = 7;
  EXPECT_EQ(words(shares.set(fast)), "done") << "which is no more than it has";
}

TEST_F(SharesTest, APauseAndADrainOutliveAReboot) {
  {
    Shares shares = start();
    for (const char* name : {"paused", "drained", "both", "resumed", "expired"})
      ASSERT_EQ(words(shares.create(share_of(name, 1, kGiB))), "done");
    for (const char* name : {"paused", "both", "resumed"}) ASSERT_EQ(words(shares.pause(name)), "done");
    for (const char* name : {"drained", "both", "resumed"}) ASSERT_EQ(words(shares.drain(name)), "done");
    Shares::set_time_over(*shares.find("expired"), true);
    ASSERT_EQ(words(shares.resume("resumed")), "done");
    for (const char* name : {"paused", "both"}) ASSERT_EQ(words(shares.set(share_of(name, 1, 2 * kGiB))), "done");
  }
  fs::remove_all(base_);
  Shares shares = start();
  const auto command = [&](const char* name) { return shares.find(name)->pages->policy().command.load(); };
  EXPECT_EQ(command("paused"), ledger::Command::pause);
  EXPECT_EQ(command("drained"), ledger::Command::drain);
  EXPECT_EQ(command("both"), ledger::Command::pause_and_drain);
  EXPECT_EQ(command("resumed"), ledger::Command::run);
  EXPECT_EQ(command("expired"), ledger::Command::run) << "whose time is over the daemon sees by itself";
}

TEST_F(SharesTest, DrainAndPauseAreIndependent) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, kGiB))), "done");
  const ledger::PolicyPage& page = shares.find("s")->pages->policy();
  ASSERT_EQ(words(shares.pause("s")), "done");
  ASSERT_EQ(words(shares.drain("s")), "done");
  EXPECT_TRUE(ledger::is_paused(page) && ledger::is_draining(page));
  ASSERT_EQ(words(shares.resume("s")), "done");
  EXPECT_FALSE(ledger::is_paused(page) || ledger::is_draining(page)) << "resume takes both back";
  ASSERT_EQ(words(shares.drain("s")), "done");
  EXPECT_FALSE(ledger::is_paused(page)) << "work goes on in a share that is drained alone";
  ASSERT_EQ(words(shares.pause("s")), "done");
  EXPECT_TRUE(ledger::is_paused(page) && ledger::is_draining(page));
}

// A change that was cut off between page and row was never confirmed.
TEST_F(SharesTest, APauseKilledBeforeItWasStoredHasNoEffect) {
  {
    Shares shares = start();
    ASSERT_EQ(words(shares.create(share_of("s", 1, kGiB))), "done");
    ledger::set_command(shares.find("s")->pages->policy(), ledger::Command::pause);
  }
  EXPECT_FALSE(start().find("s")->paused());
}

TEST_F(SharesTest, PauseAndDrainOfAnExpiredShareApplyOnceExtended) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, kGiB))), "done");
  LiveShare& live = *shares.find("s");
  const auto command = [&] { return live.pages->policy().command.load(); };
  Shares::set_time_over(live, true);
  EXPECT_EQ(command(), ledger::Command::drain);
  ASSERT_EQ(words(shares.pause("s")), "done");
  EXPECT_EQ(command(), ledger::Command::pause_and_drain) << "programs that stand still are set going by no clock";
  ASSERT_EQ(words(shares.resume("s")), "done");
  EXPECT_EQ(command(), ledger::Command::drain);
  Shares::set_time_over(live, false);
  EXPECT_EQ(command(), ledger::Command::run);
}

TEST_F(SharesTest, ANewDaemonChecksTheTimeBeforeItOpensAShare) {
  {
    Shares shares = start();
    ASSERT_EQ(words(shares.create(share_of("s", 1, kGiB))), "done");
    Shares::set_time_over(*shares.find("s"), true);
  }
  Shares shares = start();
  EXPECT_TRUE(ledger::is_draining(shares.find("s")->pages->policy()));
  Shares::set_time_over(*shares.find("s"), false);
  EXPECT_FALSE(ledger::is_draining(shares.find("s")->pages->policy()));
}

TEST_F(SharesTest, PagesOfOtherGpusThanTheRowAreRefused) {
  ASSERT_EQ(words(start().create(share_of("s", 1, kGiB))), "done");
  ASSERT_TRUE(Store::open(state_)->put(share_of("s", 1, kGiB, 0, kGpu1)));
  Adoption adoption;
  Shares shares = start(adoption);
  ASSERT_EQ(adoption.refused.size(), 1u);
  EXPECT_TRUE(adoption.refused[0].second.message.starts_with("the share 's' is stored with other GPUs than its pages"))
      << adoption.refused[0].second.message;
  EXPECT_EQ(shares.find("s")->pages, nullptr);
}

TEST_F(SharesTest, ARebootRecreatesSharesFromTheStore) {
  Share share = share_of("s", 1, 8 * kGiB);
  share.oom_wait = std::chrono::seconds(7);
  share.freeze_after = std::chrono::minutes(10);
  ASSERT_EQ(words(start().create(share)), "done");
  fs::remove_all(base_);
  Adoption adoption;
  Shares shares = start(adoption);
  EXPECT_EQ(adoption.made_anew, std::vector<std::string>{"s"});
  Tenant tenant;
  enter("s", tenant);
  EXPECT_EQ(tenant.pages.policy->devices[0].memory_limit_bytes, 8 * kGiB);
  EXPECT_EQ(tenant.pages.policy->oom_wait_ms, 7'000u);
  EXPECT_EQ(tenant.pages.policy->freeze_after_s, 600u);
}

TEST_F(SharesTest, PagesOfAnotherVersionAreRefusedAndStayCommitted) {
  {
    Shares shares = start();
    ASSERT_EQ(words(shares.create(share_of("new", 1, 30 * kGiB))), "done");
    ASSERT_EQ(words(shares.create(share_of("old", 1, 30 * kGiB))), "done");
    ASSERT_EQ(words(shares.create(share_of("same", 1, kGiB))), "done");
  }
  for (const auto& [name, version] : {std::pair{"new", ledger::kVersion + 1}, std::pair{"old", ledger::kVersion - 1}}) {
    std::fstream page(file(name, "policy"), std::ios::in | std::ios::out | std::ios::binary);
    page.seekp(offsetof(ledger::PageHeader, version));
    page.write(reinterpret_cast<const char*>(&version), sizeof version);
  }
  Adoption adoption;
  Shares shares = start(adoption);
  EXPECT_EQ(adoption.adopted, std::vector<std::string>{"same"});
  ASSERT_EQ(adoption.refused.size(), 2u);
  EXPECT_EQ(adoption.refused[0].first, "new");
  EXPECT_EQ(adoption.refused[0].second.code, ErrorCode::unsupported);
  EXPECT_EQ(adoption.refused[1].first, "old");
  EXPECT_NE(adoption.refused[0].second.message, adoption.refused[1].second.message);
  EXPECT_FALSE(shares.pause("new"));
  EXPECT_FALSE(shares.create(share_of("more", 1, 30 * kGiB)));
}

TEST_F(SharesTest, AShareWithAnUndecidedRemovalMapsNoPages) {
  ASSERT_EQ(words(start().create(share_of("train", 1, kGiB))), "done");
  {
    auto database = Database::open(state_);
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->run("DROP TABLE share_removals; CREATE TABLE share_removals(somebodys INTEGER)"));
  }
  Adoption adoption;
  const Shares shares = start(adoption);
  ASSERT_EQ(adoption.refused.size(), 1u);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) EXPECT_FALSE(line.ends_with(file("train", "usage"))) << line;
}

TEST_F(SharesTest, AGrownPageIsTruncatedAndAdopted) {
  {
    ASSERT_EQ(words(start().create(share_of("train", 1, kGiB))), "done");
  }
  fs::resize_file(file("train", "usage"), 1u << 24);
  Adoption adoption;
  {
    const Shares again = start(adoption);
  }
  EXPECT_EQ(adoption.adopted, std::vector<std::string>{"train"});
  EXPECT_EQ(fs::file_size(file("train", "usage")), sizeof(ledger::UsagePage));
  // The right length of another version's file is unknown, but still bounded.
  std::uint32_t version = ledger::kVersion + 1;
  std::fstream policy(file("train", "policy"), std::ios::in | std::ios::out | std::ios::binary);
  policy.seekp(offsetof(ledger::PageHeader, version));
  policy.write(reinterpret_cast<const char*>(&version), sizeof version);
  policy.close();
  for (const std::uint64_t grown : {2 * sizeof(ledger::UsagePage), std::uint64_t{1} << 24}) {
    fs::resize_file(file("train", "usage"), grown);
    cut_usage_file(base_ + "/shares/train");
    EXPECT_EQ(fs::file_size(file("train", "usage")), std::min(grown, 4 * sizeof(ledger::UsagePage)));
  }
}

TEST_F(SharesTest, AFullRuntimeDirectoryIsReportedFirst) {
  const Shares shares = start();
  EXPECT_EQ(words(shares.runtime().check_room()), "done");
  if (!may_mount()) GTEST_SKIP() << "only CAP_SYS_ADMIN may mount";
  ASSERT_EQ(::mount("none", base_.c_str(), "tmpfs", 0, "size=64k"), 0);
  const auto full = shares.runtime().check_room();
  ASSERT_EQ(::umount2(base_.c_str(), MNT_DETACH), 0);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::no_capacity);
  EXPECT_TRUE(full.error().message.starts_with("the file system of " + base_ + " is full: 64 KiB and "))
      << full.error().message;
}

TEST_F(SharesTest, SharesOfRunsWithoutTheDaemonAreKept) {
  {
    start();
  }
  ledger::SharePages pages;
  ASSERT_FALSE(
      ledger::create_share(base_.c_str(), *to_grant(share_of("run-12ab", 1, kGiB)), ledger::Access::owner, pages));
  Adoption adoption;
  Shares shares = start(adoption);
  EXPECT_EQ(adoption.unmanaged, std::vector<std::string>{"run-12ab"});
  EXPECT_TRUE(shares.list().empty());
  ledger::close_pages(pages);
}

TEST_F(SharesTest, AnInterruptedChangeIsUndoneAtTheNextStart) {
  {
    Shares shares = start();
    ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
    auto half = to_grant(share_of("s", 1, 4 * kGiB)).value();
    ASSERT_FALSE(ledger::set_limits(shares.find("s")->pages->policy(), 0, half.devices[0]));
  }
  EXPECT_EQ(start().find("s")->pages->policy().devices[0].memory_limit_bytes, 8 * kGiB);
}

TEST_F(SharesTest, AShortenedPageHarmsItsShareAndNotTheDaemon) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  ASSERT_EQ(words(shares.create(share_of("t", 1, 8 * kGiB))), "done");
  Pages& pages = *shares.find("s")->pages;
  EXPECT_FALSE(pages.truncated());
  ASSERT_EQ(::ftruncate(pages.usage_fd(), 0), 0);
  EXPECT_EQ(ledger::live_slots(pages.usage()), 0u);
  EXPECT_EQ(ledger::used_bytes(pages.usage(), 0), 0u);
  EXPECT_TRUE(pages.truncated());
  EXPECT_FALSE(shares.pause("s"));
  EXPECT_EQ(words(shares.pause("t")), "done");
}

TEST_F(SharesTest, AShareWithoutPagesRefusesChangesUntilRecreated) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  Tenant tenant;
  enter("s", tenant);
  fs::remove_all(shares.directory("s"));
  const auto refused = shares.set(share_of("s", 1, 4 * kGiB));
  ASSERT_TRUE(!refused && refused.error().message.contains(shares.directory("s") + " were removed"));
  EXPECT_EQ(words(shares.remove("s")), "the share 's' is in use by 1 process");
  tenant.leave();
  // Other pages under its name are not those that its programs have.
  const auto other = to_grant(share_of("s", 1, 2 * kGiB)).value();
  ledger::SharePages pages;
  ASSERT_FALSE(ledger::create_share(base_.c_str(), other, ledger::Access::owner, pages));
  ledger::close_pages(pages);
  EXPECT_TRUE(shares.trouble_of(*shares.find("s")));
  EXPECT_EQ(words(shares.remove("s")), "done");
  EXPECT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  EXPECT_EQ(words(shares.set(share_of("s", 1, 4 * kGiB))), "done");
}

TEST_F(SharesTest, AllSharesOfANodeFitTheirGuards) {
  std::vector<SigbusGuard> guards(2 * kMaxShares);
  for (SigbusGuard& guard : guards) guard = SigbusGuard(nullptr, 1);
  EXPECT_TRUE(std::ranges::all_of(guards, [](const SigbusGuard& guard) { return static_cast<bool>(guard); }));
}

TEST_F(SharesTest, AShareWhosePageCannotBeGuardedIsRefused) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  std::vector<SigbusGuard> guards(SigbusGuard::kMaxGuards);
  for (SigbusGuard& guard : guards) guard = SigbusGuard(nullptr, 1);
  const std::string said = words(shares.create(share_of("t", 1, 8 * kGiB)));
  EXPECT_NE(said.find("the share 't' is not used: a tenant that shortens its page would end the daemon"),
            std::string::npos)
      << said;
  EXPECT_EQ(shares.find("t"), nullptr);
  EXPECT_FALSE(fs::exists(shares.directory("t")));
  EXPECT_TRUE(start().find("s")->broken);
  guards.clear();
  EXPECT_EQ(words(shares.create(share_of("t", 1, 8 * kGiB))), "done");
  EXPECT_FALSE(start().find("s")->broken);
}

// Between the check of a file's size and the first load from it, no mapping of ours is guarded.
TEST_F(SharesTest, AFileThatShrinksWhileItIsOpenedIsSurvived) {
  const std::string path = base_ + "-file";
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), 8192), 0);
  auto* const bytes =
      static_cast<volatile char*>(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  const SigbusScope survives;
  EXPECT_EQ(bytes[5000], 0);
  EXPECT_EQ(bytes[0], 0);
  ::munmap(const_cast<char*>(bytes), 8192);
  ::unlink(path.c_str());
}

// If a tenant quickly made its file long again, the process would live on unguarded.
TEST_F(SharesTest, AnUnrelatedFaultEndsTheProcessAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) {
    {
      const SigbusScope installs;
    }
    ::raise(SIGBUS);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
}

// By a tenant with the daemon's uid, which may open the file as soon as it exists.
TEST_F(SharesTest, AFileThatShrinksDuringCreationIsSurvived) {
  Shares shares = start();
  std::atomic<int> making = 0;
  std::thread tenant([&] {
    for (int at; (at = making) >= 0;) {
      const UniqueFd usage(::open((shares.directory("s" + std::to_string(at)) + "/usage").c_str(), O_RDWR | O_CLOEXEC));
      for (int i = 0; usage && making == at; ++i)
        (void)!::ftruncate(usage.get(), i % 2 == 0 ? 0 : static_cast<off_t>(sizeof(ledger::UsagePage)));
    }
  });
  for (int i = 0; i < 300; ++i) {
    making = i;
    (void)shares.create(share_of("s" + std::to_string(i), 1, 1 << 20));
  }
  making = -1;
  tenant.join();
}

TEST_F(SharesTest, ThePolicyDescriptorCannotBeWrittenOrReopened) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, 8 * kGiB))), "done");
  const int policy = shares.find("s")->pages->policy_fd();
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, policy, 0), MAP_FAILED);
  char byte = 0;
  EXPECT_EQ(::pread(policy, &byte, 1, 0), 1);
  EXPECT_EQ(::pwrite(policy, &byte, 1, 0), -1);
  // A read-only mount needs CAP_SYS_ADMIN: without, only the files' permissions protect the page.
  if (!may_mount()) return;
  const std::string again = "/proc/self/fd/" + std::to_string(policy);
  EXPECT_EQ(::open(again.c_str(), O_RDWR), -1);
  EXPECT_EQ(errno, EROFS);
}

}  // namespace
}  // namespace headgate::tenancy
