// What checking unregistered slots costs and which claims are believed, over a /proc that the test makes.
#include "tenancy/processes.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>

#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {
namespace {

class Claims : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(proc_);
    Adoption adoption;
    auto store = Store::open(scratch_.path() + "/state.db");
    ASSERT_TRUE(store);
    auto shares =
        Shares::open({scratch_.path() + "/run", {{kGpu0, 80 * kGiB}}, {}, proc_}, std::move(*store), adoption);
    ASSERT_TRUE(shares) << shares.error().message;
    shares_.emplace(std::move(*shares));
    ASSERT_TRUE(shares_->create(share_of("s", ::geteuid(), 8 * kGiB)));
    processes_.emplace(context_.get_executor(), *shares_, proc_, Processes::Events{});
  }
  void TearDown() override {
    processes_.reset();
    for (const pid_t child : children_) ::kill(child, SIGKILL), ::waitpid(child, nullptr, 0);
  }

  // A live process, which the test's /proc describes truthfully. Its maps have `before` lines, then the page's line if
  // it has the page.
  ledger::Identity process_with(std::size_t before, bool has_page) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) ::pause();
    }
    children_.push_back(pid);
    const std::string folder = proc_ + "/" + std::to_string(pid);
    const std::string number = std::to_string(pid);
    std::filesystem::create_directories(folder + "/ns");
    std::filesystem::create_directories(folder + "/task/" + number);
    std::ofstream(folder + "/status") << "Pid:\t" << number << "\nUid:\t1\t1\t1\t1\nNSpid:\t" << number << "\n";
    std::ofstream(folder + "/task/" + number + "/stat")
        << number << " (tenant) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 4711 0\n";
    std::ofstream(folder + "/ns/pid") << "";
    struct stat ns{};
    ::stat((folder + "/ns/pid").c_str(), &ns);
    std::ofstream maps(folder + "/maps");
    for (std::size_t line = 0; line < before; ++line) maps << kLine;
    if (has_page) maps << "7f00-7f01 rw-s 00000000 00:00 " << page().usage_inode() << " /anywhere/usage\n";
    return {static_cast<std::uint32_t>(pid), static_cast<std::uint32_t>(ns.st_ino), 4711};
  }
  // They are gone by the time they are looked at.
  void many_others(std::size_t count) {
    for (std::size_t n = 0; n < count; ++n) std::ofstream(proc_ + "/" + std::to_string(0x7f00'0000 + n));
  }
  // Writes what a tenant can, whatever ledger::claim() would do.
  void write_slot(std::uint32_t slot, const ledger::Identity& name) {
    ledger::Slot& written = page().usage().slots[slot];
    written.who = std::uint64_t{name.pidns_inode} << 32 | name.start_time;
    const std::uint64_t generation = ((written.life.load() >> 4) + 1) & 0xfff'ffff;
    written.life = std::uint64_t{name.pid} << 32 | generation << 4 | static_cast<std::uint64_t>(ledger::SlotKind::live);
    page().usage().slots_seen = ledger::kMaxSlots;
  }
  LiveShare& share() { return *shares_->find("s"); }
  Pages& page() { return *share().pages; }
  std::size_t looks_until_somebody_is_in() {
    std::size_t looks = 0;
    while (processes_->count_in("s") == 0 && looks < 100) processes_->adopt(), ++looks;
    return looks;
  }

  static constexpr std::string_view kLine = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n";
  Scratch scratch_;
  std::string proc_ = scratch_.path() + "/proc";
  boost::asio::io_context context_{1};
  std::optional<Shares> shares_;
  std::optional<Processes> processes_;
  std::vector<pid_t> children_;
};

TEST_F(Claims, ManyMappingsAreReadOverSeveralLooks) {
  const std::size_t lines = 3 * Processes::kMapsBytesOfAShare / kLine.size() + 10;
  write_slot(0, process_with(lines, true));
  EXPECT_EQ(looks_until_somebody_is_in(), 4u);
  EXPECT_EQ(ledger::live_slots(page().usage()), 1u);
  EXPECT_EQ(share().accusation, "");
}

TEST_F(Claims, ManyMappingsDelayNoOtherShare) {
  ASSERT_TRUE(shares_->create(share_of("a", ::geteuid(), 8 * kGiB)));
  write_slot(0, process_with(100 * Processes::kMapsBytesOfAShare / kLine.size(), false));
  const std::size_t descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  EXPECT_EQ(processes_->adopt(), 0u);
  const ledger::Identity other = process_with(1, false);
  ledger::Slot& slot = shares_->find("a")->pages->usage().slots[0];
  slot.who = std::uint64_t{other.pidns_inode} << 32 | other.start_time;
  slot.life = std::uint64_t{other.pid} << 32 | 1 << 4 | static_cast<std::uint64_t>(ledger::SlotKind::live);
  shares_->find("a")->pages->usage().slots_seen = 1;
  EXPECT_EQ(processes_->adopt(), 1u);
  EXPECT_LE(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}), descriptors + 1);
}

TEST_F(Claims, SeveralSlotsOfOnePidAreALieWithoutALook) {
  const ledger::Identity child = process_with(1000 * Processes::kMapsBytesOfAShare / kLine.size() / 100, false);
  for (std::uint32_t slot = 0; slot < ledger::kMaxSlots; ++slot) write_slot(slot, child);
  processes_->adopt();
  EXPECT_EQ(share().accusation, "has 256 slots at once in the name of process " + std::to_string(child.pid));
}

TEST_F(Claims, AnAbandonedSlotIsForgivenOnceAndALiarNamed) {
  const ledger::Identity child = process_with(10, false);
  for (int times = 1; times <= 3; ++times) {
    write_slot(7, child);
    EXPECT_EQ(processes_->adopt(), 1u);
    EXPECT_EQ(ledger::live_slots(page().usage()), 0u);
    EXPECT_EQ(share().accusation.empty(), times < 3) << times;
  }
  EXPECT_EQ(share().accusation, "has slots, again and again, in the name of process " + std::to_string(child.pid) +
                                    " (tenant), which does not have it mapped");
}

TEST_F(Claims, UnknownPidsDoNotBlockTheLoop) {
  const ledger::Identity self = ledger::own_identity();
  const auto nobody = [&](std::uint32_t slot) {
    return ledger::Identity{0x7fff'0000 + slot, self.pidns_inode, 0};  // above any pid_max
  };
  process_with(1, false);  // makes the test's /proc a valid one
  for (std::uint32_t slot = 0; slot < ledger::kMaxSlots; ++slot) write_slot(slot, nobody(slot));
  std::size_t asked = Processes::kMaxAsked - 10;
  processes_->give_back_dead("s", share(), asked);
  EXPECT_EQ(ledger::live_slots(page().usage()), ledger::kMaxSlots - 10);
  EXPECT_EQ(asked, Processes::kMaxAsked);
  EXPECT_EQ(processes_->adopt(), Processes::kNamesOfAShare) << "names that were not checked there are checked here";
}

TEST_F(Claims, ADeadPidsSlotIsFreedAndRepeatedClaimsAreNamed) {
  const ledger::Identity child = process_with(1, false);
  const ledger::Identity nobody{child.pid, child.pidns_inode + 1, child.start_time};
  for (std::size_t minute = 0; minute < 3; ++minute) {
    for (std::size_t look = 0; look < Processes::kLooksOfAMinute; ++look) {
      if (look < 2) write_slot(7, nobody);
      processes_->adopt();
    }
    ASSERT_EQ(share().accusation, "") << "twice in a minute";
  }
  for (int times = 0; times < 3; ++times) write_slot(7, nobody), processes_->adopt();
  EXPECT_EQ(share().accusation, "has slots, again and again, in the name of process " + std::to_string(nobody.pid) +
                                    ", which there is not");
}

TEST_F(Claims, RepeatedClaimsOfADeadPidAreNamedAfterASnapshot) {
  const ledger::Identity nobody{0x7fff'0000, ledger::own_identity().pidns_inode, 4711};  // above any pid_max
  for (int times = 1; times <= 3; ++times) {
    EXPECT_EQ(share().accusation, "") << times;
    write_slot(7, nobody);
    std::size_t asked = 0;
    processes_->give_back_dead("s", share(), asked);
    EXPECT_EQ(ledger::live_slots(page().usage()), 0u);
  }
  EXPECT_NE(share().accusation, "");
}

// Without a /proc, processes may come one after another with the same number.
TEST_F(Claims, AnIncompleteIdentityIsNotTakenForAnEarlierOne) {
  const ledger::Identity nobody{0x7fff'0000, ledger::own_identity().pidns_inode, 0};  // above any pid_max
  for (int times = 1; times <= 10; ++times) {
    write_slot(7, nobody);
    std::size_t asked = 0;
    processes_->give_back_dead("s", share(), asked);
    EXPECT_EQ(ledger::live_slots(page().usage()), 0u);
  }
  EXPECT_EQ(share().accusation, "");
}

TEST_F(Claims, AProcessInAHiddenNamespaceIsNotTakenForDead) {
  const ledger::Identity child = process_with(1, true);
  std::filesystem::remove_all(proc_ + "/" + std::to_string(child.pid) + "/ns");
  write_slot(0, child);
  EXPECT_EQ(processes_->adopt(), 0u);
  EXPECT_EQ(ledger::live_slots(page().usage()), 1u);
}

TEST_F(Claims, TooManyClaimsOfUnknownPidsAreNamedOnce) {
  process_with(1, false);  // makes the test's /proc a valid one
  const ledger::Identity self = ledger::own_identity();
  std::uint32_t pid = 0x7000'0000;
  const auto claim_and_look = [&] {
    write_slot(7, {++pid, self.pidns_inode, 4711});
    std::size_t asked = 0;
    processes_->give_back_dead("s", share(), asked);
  };
  for (std::size_t n = 0; n < Processes::kNobodysOfAMinute; ++n) claim_and_look();
  for (std::size_t look = 0; look < Processes::kLooksOfAMinute; ++look) processes_->adopt();
  for (std::size_t n = 0; n < Processes::kNobodysOfAMinute; ++n) claim_and_look();
  EXPECT_EQ(share().accusation, "");
  claim_and_look();
  EXPECT_EQ(share().accusation, "has had more than 4096 slots in a minute in names of no process");
}

TEST_F(Claims, AnUnknownPidCostsTheLoopPartOfALargeNode) {
  many_others(Processes::kProcessesOfACall);
  const ledger::Identity child = process_with(1, true);
  write_slot(0, child);
  write_slot(1, {child.pid, child.pidns_inode + 1, child.start_time});
  EXPECT_EQ(processes_->adopt(), 0u);
  EXPECT_EQ(processes_->count_in("s"), 0u);
  EXPECT_EQ(processes_->adopt(), 1u);
  EXPECT_EQ(processes_->count_in("s"), 1u);
}

TEST_F(Claims, AClaimIsNotTakenForDeadDuringAPartialScan) {
  many_others(9);
  const ledger::Identity child = process_with(1, true);
  write_slot(0, {child.pid, child.pidns_inode + 1, child.start_time});
  EXPECT_EQ(processes_->adopt(4), 0u);
  write_slot(1, {child.pid, child.pidns_inode + 2, child.start_time});
  EXPECT_EQ(processes_->adopt(4), 0u);
  EXPECT_EQ(processes_->adopt(4), 1u);
  EXPECT_EQ(ledger::live_slots(page().usage()), 1u);
  EXPECT_EQ(processes_->adopt(4), 0u);
  EXPECT_EQ(processes_->adopt(4), 0u);
  EXPECT_EQ(processes_->adopt(4), 1u) << "by a list that was begun after it had claimed";
}

TEST_F(Claims, AKnownProcessesEndIsSeenByItsPidfdFirst) {
  write_slot(0, process_with(1, true));
  ASSERT_EQ(looks_until_somebody_is_in(), 1u);
  std::size_t asked = Processes::kMaxAsked;
  processes_->give_back_dead("s", share(), asked);
  EXPECT_EQ(ledger::live_slots(page().usage()), 1u);
  ::kill(children_.back(), SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(children_.back()), &ended, WEXITED | WNOWAIT), 0);
  processes_->give_back_dead("s", share(), asked);
  EXPECT_EQ(ledger::live_slots(page().usage()), 0u);
}

TEST_F(Claims, UsersOfADamagedPageAreSearchedInParts) {
  for (int n = 0; n < 5; ++n) process_with((1u << 20) / kLine.size(), false);
  share().damage = "scribbled";
  std::string said;
  int calls = 1;
  for (; calls < 100; ++calls) {
    const auto removed = shares_->remove("s");
    if (removed) break;
    said = removed.error().message;
    ASSERT_NE(said.find("users are being looked for: "), std::string::npos) << said;
  }
  EXPECT_EQ(calls, 5) << said;
  EXPECT_EQ(shares_->find("s"), nullptr);
}

TEST_F(Claims, AKnownUserOfADamagedPageIsNotSearchedAgain) {
  for (int n = 0; n < 5; ++n) process_with((1u << 20) / kLine.size(), false);
  const ledger::Identity user = process_with(0, true);
  share().damage = "scribbled";
  const std::string named = "in use by process " + std::to_string(user.pid) + " (tenant)";
  const auto says = [&] { return shares_->remove("s").error().message; };
  for (int calls = 0; calls < 10 && !says().contains(named);) ++calls;
  for (int again = 0; again < 3; ++again) EXPECT_TRUE(says().contains(named));
  std::filesystem::remove(proc_ + "/" + std::to_string(user.pid) + "/maps");  // it has ended
  int calls = 1;
  while (!shares_->remove("s") && calls < 100) ++calls;
  EXPECT_LT(calls, 10);
}

TEST_F(Claims, AUserThatMapsADamagedPageDuringTheScanIsNamed) {
  for (int n = 0; n < 2; ++n) process_with((1u << 20) / kLine.size(), false);
  share().damage = "scribbled";
  EXPECT_FALSE(shares_->remove("s"));
  const ledger::Identity late = process_with(0, true);
  for (int calls = 0; calls < 10; ++calls) {
    const auto removed = shares_->remove("s");
    ASSERT_FALSE(removed);
    if (removed.error().message.find("in use by process " + std::to_string(late.pid)) != std::string::npos) return;
  }
  FAIL() << "never named";
}

// Returns the resident KiB of the mapping that begins at `at`.
std::size_t resident_kib(const void* at) {
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<std::uintptr_t>(at) << '-';
  std::ifstream maps("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found = found || line.starts_with(begin.str());
    if (found && line.starts_with("Rss:")) return std::stoul(line.substr(4));
  }
  return 0;
}

// A page is 1 MiB, and a node may have many shares that few processes use.
TEST_F(Claims, UntouchedMemoryOfAPageIsNotRead) {
  write_slot(0, process_with(1, true));
  page().usage().slots_seen = 1;
  ASSERT_EQ(looks_until_somebody_is_in(), 1u);
  ::kill(children_.back(), SIGKILL);
  while (processes_->count_in("s") != 0 && context_.run_one_for(std::chrono::seconds(20)) != 0) {
  }
  processes_->adopt();
  EXPECT_EQ(ledger::live_slots(page().usage()), 0u);
  EXPECT_GT(resident_kib(&page().usage()), 0u);
  EXPECT_LT(resident_kib(&page().usage()), sizeof(ledger::UsagePage) / 1024 / 4);
}

}  // namespace
}  // namespace headgate::tenancy
