#include "guest/ledger/slot.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "guest/ledger/closing.hpp"
#include "guest/ledger/test_page.hpp"

namespace headgate::ledger {
namespace {

TEST(Slot, IsKnownByPidNamespaceStartTimeAndName) {
  const SharedPage page = make_shared_page();
  const Identity me = own_identity();
  SlotRef ref;
  ASSERT_EQ(claim(*page, me, "a name that is far too long", ref), ClaimResult::claimed);
  const SlotView seat = view(*page, ref.slot);
  EXPECT_EQ(seat.kind, SlotKind::live);
  EXPECT_EQ(seat.identity.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(seat.identity.pidns_inode, me.pidns_inode);
  EXPECT_EQ(seat.identity.start_time, me.start_time);
  EXPECT_STREQ(seat.command, "a name that is ");
  EXPECT_TRUE(is_alive(seat.identity, me.pidns_inode));
  EXPECT_EQ(reap_dead(*page), 0u);
}

TEST(Slot, AProgramStartedByExecInheritsNothing) {
  const SharedPage page = make_shared_page();
  const SlotRef before = seat(*page, made_up(10));
  ASSERT_TRUE(reserve(*page, 0, before, 100, 1000).ok);
  const SlotRef after = seat(*page, made_up(10));
  EXPECT_EQ(used_bytes(*page, 0), 0u);
  EXPECT_EQ(live_slots(*page), 1u);
  EXPECT_TRUE(reserve(*page, 0, after, 1000, 1000).ok);
}

TEST(Slot, AFullTableRefusesTheNextProcess) {
  const SharedPage page = make_shared_page();
  std::set<std::uint32_t> seats;
  for (std::uint32_t i = 0; i < kMaxSlots; ++i) seats.insert(seat(*page, made_up(1000 + i)).slot);
  EXPECT_EQ(seats.size(), kMaxSlots);
  SlotRef none;
  EXPECT_EQ(claim(*page, made_up(1), "x", none), ClaimResult::full);
}

TEST(Slot, SlotsOfDeadProcessesAreReusedWhenFull) {
  const SharedPage page = make_shared_page();
  const std::uint32_t here = own_identity().pidns_inode;
  // No process has pid 0.
  for (std::uint32_t i = 0; i < kMaxSlots; ++i) seat(*page, Identity{0, here, 1000 + 10 * i});
  SlotRef mine;
  EXPECT_EQ(claim(*page, own_identity(), "x", mine), ClaimResult::claimed);
  EXPECT_EQ(live_slots(*page), 1u);
}

TEST(Slot, AShareFullOfDeadSlotsStillTakesProcesses) {
  const SharedPage page = make_shared_page();
  const std::uint32_t here = own_identity().pidns_inode;
  for (std::uint32_t i = 0; i < kMaxSlots; ++i)
    reserve(*page, 0, seat(*page, Identity{0, here, 1000 + 10 * i}), 10, 1 << 20);
  EXPECT_EQ(reap_dead(*page, Remains::draining), kMaxSlots);
  EXPECT_EQ(used_bytes(*page, 0), 10u * kMaxSlots);
  SlotRef mine;
  EXPECT_EQ(claim(*page, own_identity(), "x", mine), ClaimResult::claimed);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
}

TEST(Slot, AKilledProcessIsReapedBeforeItsParentWaits) {
  const SharedPage page = make_shared_page();
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const SlotRef me = seat(*page, own_identity());
    reserve(*page, 0, me, 12345, 1 << 20);
    (void)!::write(pipe_fds[1], "x", 1);
    ::pause();
  }
  char ready;
  ASSERT_EQ(::read(pipe_fds[0], &ready, 1), 1);
  EXPECT_EQ(reap_dead(*page), 0u);
  EXPECT_EQ(used_bytes(*page, 0), 12345u);
  ::kill(child, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // dead, and still a zombie
  EXPECT_EQ(reap_dead(*page), 1u);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
  EXPECT_EQ(live_slots(*page), 0u);
  ::waitpid(child, nullptr, 0);
  ::close(pipe_fds[0]);
  ::close(pipe_fds[1]);
}

TEST(Slot, AProcessWithoutItsFirstThreadIsStillAlive) {
  const SharedPage page = make_shared_page();
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    seat(*page, own_identity());
    std::thread([&] {
      // The leader is a zombie once its state says so. Without /proc this is not visible, so continue.
      const std::string stat = "/proc/" + std::to_string(::getpid()) + "/stat";
      for (int i = 0; i < 5000; ++i) {
        FILE* file = std::fopen(stat.c_str(), "r");
        if (file == nullptr) break;
        char state = '?';
        (void)!std::fscanf(file, "%*d %*s %c", &state);
        std::fclose(file);
        if (state == 'Z') break;
        ::usleep(1000);
      }
      (void)!::write(pipe_fds[1], "x", 1);
      ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread alone
  }
  ::close(pipe_fds[1]);
  char ready;
  ASSERT_EQ(::read(pipe_fds[0], &ready, 1), 1);
  EXPECT_EQ(reap_dead(*page), 0u);
  EXPECT_EQ(live_slots(*page), 1u);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(reap_dead(*page), 1u);
  ::close(pipe_fds[0]);
}

TEST(Slot, AReusedPidDoesNotKeepADeadProcessesSlot) {
  const Identity me = own_identity();
  if (me.start_time == 0) GTEST_SKIP() << "no /proc: start times are unknown here";
  Identity earlier = me;
  earlier.start_time -= 100;
  EXPECT_FALSE(is_alive(earlier, me.pidns_inode));
}

TEST(Slot, AProcessOfAnotherPidNamespaceIsNeverTakenForDead) {
  const Identity me = own_identity();
  EXPECT_TRUE(is_alive(Identity{0x7fff'fff0, me.pidns_inode + 1, 1}, me.pidns_inode));
  EXPECT_FALSE(is_alive(Identity{0x7fff'fff0, me.pidns_inode, 1}, me.pidns_inode));
}

// A chroot into an empty folder has no /proc.
TEST(Slot, ThePidNamespaceIsKnownWithoutProc) {
  const Identity me = own_identity();
  char empty[] = "/tmp/headgate-noproc-XXXXXX";
  ASSERT_NE(::mkdtemp(empty), nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::chroot(empty) != 0 || ::chdir("/") != 0) ::_exit(77);
    const int own = static_cast<int>(::syscall(434 /* pidfd_open */, ::getpid(), 0u));
    if (own < 0 || ::ioctl(own, 0xff05 /* PIDFD_GET_PID_NAMESPACE */, 0) < 0) ::_exit(78);
    const Identity here = own_identity();
    if (here.pidns_inode != me.pidns_inode || here.start_time != 0) ::_exit(1);
    ::_exit(is_alive(here, me.pidns_inode) ? 0 : 2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  ::rmdir(empty);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "chroot is not allowed here";
  if (WEXITSTATUS(status) == 78) GTEST_SKIP() << "this kernel does not tell a pid namespace by pidfd (Linux 6.11)";
  EXPECT_EQ(status, 0);
}

TEST(Slot, ASlotWithAnInvalidStateIsReaped) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  ASSERT_TRUE(reserve(*page, 0, me, 100, 1000).ok);
  page->slots[me.slot].life |= 0xf;
  EXPECT_EQ(view(*page, me.slot).kind, SlotKind::dead);
  reap_dead(*page);
  EXPECT_EQ(view(*page, me.slot).kind, SlotKind::free);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
}

TEST(Slot, ManyReapersReleaseOnce) {
  const SharedPage page = make_shared_page();
  for (int round = 0; round < 300; ++round) {
    const SlotRef other = seat(*page, made_up(50));
    const SlotRef gone = seat(*page, made_up(51));
    ASSERT_TRUE(reserve(*page, 0, other, 1000, 10000).ok);
    ASSERT_TRUE(reserve(*page, 0, gone, 500, 10000).ok);
    ASSERT_TRUE(mark_dead(*page, gone));
    std::vector<std::thread> reapers;
    for (int i = 0; i < 4; ++i) reapers.emplace_back([&] { reap(*page, gone.slot); });
    for (auto& reaper : reapers) reaper.join();
    ASSERT_EQ(used_bytes(*page, 0), 1000u);
    ASSERT_EQ(view(*page, gone.slot).kind, SlotKind::free);
    release(*page, other);
  }
  EXPECT_EQ(used_bytes(*page, 0), 0u);
}

TEST(Slot, AClosedShareAdmitsNoneAndAnOccupiedOneStaysOpen) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  EXPECT_FALSE(close_if_empty(*page));
  release(*page, me);
  EXPECT_TRUE(close_if_empty(*page));
  SlotRef late;
  EXPECT_EQ(claim(*page, made_up(11), "x", late), ClaimResult::closing);
  EXPECT_EQ(live_slots(*page), 0u);
}

TEST(Slot, AKilledCloserDoesNotKeepTheShareClosed) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  page->closing = 42;
  EXPECT_FALSE(close_if_empty(*page));
  EXPECT_EQ(page->closing, kShareOpen);
  release(*page, me);
  page->closing = 42;
  EXPECT_TRUE(close_if_empty(*page));
}

}  // namespace
}  // namespace headgate::ledger
