// What comes with a doorbell, however often the doorbell is exchanged.
#include "guest/limiter/session/handed.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>

#include "guest/ledger/node_page.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/node_page.hpp"
#include "guest/limiter/session/registration.hpp"

namespace headgate::limiter {

// Replaces the session's function, which would need the whole limiter.
bool ask_for_reading() { return false; }

namespace {

constexpr const char* kUuid = "GPU-00000000-0000-0000-0000-000000000001";

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.contains("memfd:handed");
  return count;
}

int memory_of(std::size_t bytes) {
  const int fd = static_cast<int>(::syscall(SYS_memfd_create, "handed", 1u));
  EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
  return fd;
}

int gpu_page() {
  const int fd = memory_of(sizeof(ledger::GpuPage));
  auto* const page = static_cast<ledger::GpuPage*>(map_handed(fd, sizeof(ledger::GpuPage), PROT_READ | PROT_WRITE));
  ledger::name_gpu_page(*page, kUuid);
  ::munmap(page, sizeof *page);
  return fd;
}

TEST(HandedPages, PagesThatArriveAgainAreNotMappedAgain) {
  if (mappings() != 0 || !std::ifstream("/proc/self/maps"))
    GTEST_SKIP() << "skipped: /proc does not tell what is mapped";
  static ledger::PolicyPage policy;
  policy.device_count = 1;
  std::strcpy(policy.devices[0].uuid, kUuid);
  const int own = gpu_page(), board = gpu_page(), node = memory_of(sizeof(ledger::NodePage));
  auto* const told = static_cast<ledger::NodePage*>(map_handed(node, sizeof(ledger::NodePage), PROT_READ | PROT_WRITE));
  told->header.magic = ledger::kNodeMagic;
  told->header.version = ledger::kNodePageVersion;
  told->header.bytes = sizeof(ledger::NodePage);
  ::munmap(told, sizeof *told);
  const auto hand_out = [&](int own_pages) {
    const ledger::Descriptor copies[1] = {ledger::Descriptor(::fcntl(board, F_DUPFD_CLOEXEC, 3))};
    take_node_page(node);
    return take_gpu_pages(policy, own_pages, copies);
  };
  EXPECT_TRUE(hand_out(own));
  const GpuPages first = gpu_pages_of(0);
  ASSERT_NE(first.own, nullptr);
  const std::uint32_t epoch = gpu_pages_epoch();
  EXPECT_EQ(mappings(), 3u);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(hand_out(own));
  EXPECT_EQ(mappings(), 3u);
  EXPECT_EQ(gpu_pages_epoch(), epoch) << "seats on the board are given up for nothing";
  EXPECT_EQ(gpu_pages_of(0).own, first.own);
  EXPECT_TRUE(hand_out(gpu_page()));
  EXPECT_NE(gpu_pages_of(0).own, first.own) << "another daemon's pages are others";
  EXPECT_NE(gpu_pages_epoch(), epoch);
}

TEST(HandedPages, ADoorbellThatIsShutDownRepeatedlyBacksOff) {
  std::int64_t pause_ns = kFirstRenewalPauseNs, renewals = 0;
  for (std::int64_t at_ns = 0; at_ns < 60'000'000'000; at_ns += pause_ns, ++renewals)
    pause_ns = next_renewal_pause_ns(pause_ns, pause_ns);
  EXPECT_EQ(pause_ns, kLongestRenewalPauseNs);
  EXPECT_LE(renewals, 25);
  EXPECT_EQ(next_renewal_pause_ns(pause_ns, 60'000'000'000), kFirstRenewalPauseNs) << "a daemon has been restarted";
}

}  // namespace
}  // namespace headgate::limiter
