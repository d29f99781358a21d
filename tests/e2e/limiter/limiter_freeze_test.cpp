// Memory of idle programs moves to the host and back, on the simulated card.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "limiter_pool.hpp"

using namespace headgate;
using namespace headgate::e2e;

namespace {

// Returns true if a live slot of the share is frozen; the ledger's figures do not change.
bool frozen(const Owner& owner) {
  for (std::uint32_t slot = 0; slot < ledger::kMaxSlots; ++slot)
    if (ledger::view(*owner.pages.usage, slot).kind == ledger::SlotKind::live &&
        owner.pages.usage->slots[slot].frozen_since_ns.load() != 0)
      return true;
  return false;
}

TEST(Freeze, AnIdleProgramsMemoryMovesToTheHostAndBack) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  EXPECT_EQ(tenant.does(bytes("linear", 100 * kMiB)), "0");
  EXPECT_EQ(tenant.does(bytes("alloc", kGranule)), "0");
  const Owner owner(runtime);
  EXPECT_EXACT(runtime, owner, 100 * kMiB + kGranule);
  ledger::set_value(*owner.pages.writable_policy, &ledger::PolicyPage::freeze_after_s, 1);
  std::uint64_t times = 0;
  // Each kind of call thaws it: an allocation, a stream-ordered free, loading a kernel, waits, a stream query, a free.
  for (const char* word : {"linear:1048576", "free:1", "deep", "sync", "ctxsync", "query", "now:2"}) {
    EXPECT_TRUE(comes_true([&] { return frozen(owner); })) << word;
    EXPECT_EQ(truth(runtime).used_bytes, 0u) << word << ": its context is off the card too";
    EXPECT_GE(owner.used(), 100 * kMiB) << "it stays charged: there must be room when it returns";
    EXPECT_EQ(owner.pages.usage->freezes.load(), ++times);
    const std::string answer = tenant.does(word);
    EXPECT_TRUE(answer.starts_with("0")) << word << ": " << answer;
    EXPECT_FALSE(frozen(owner)) << word;
    EXPECT_EQ(owner.pages.usage->thaws.load(), times);
    EXPECT_GE(truth(runtime).used_bytes, 100 * kMiB);
  }
  EXPECT_EQ(tenant.does("sync"), "0");
  EXPECT_EXACT(runtime, owner, owner.used());
}

// Returns the recently touched bytes in mappings of at least `least` bytes; nothing without /proc.
std::optional<std::uint64_t> referenced_bytes(int pid, std::uint64_t least) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/smaps");
  if (!in) return std::nullopt;
  std::uint64_t sum = 0, size = 0, kib = 0;
  for (std::string line; std::getline(in, line);) {
    if (std::sscanf(line.c_str(), "Size: %lu kB", &kib) == 1) size = kib << 10;
    if (std::sscanf(line.c_str(), "Referenced: %lu kB", &kib) == 1 && size >= least) sum += kib << 10;
  }
  return sum;
}

TEST(Freeze, FrozenMemoryOnTheHostIsSwappedFirst) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  EXPECT_EQ(tenant.does(bytes("linear", 100 * kMiB)), "0");
  EXPECT_EQ(tenant.does(bytes("fill", 100 * kMiB)), "0");
  EXPECT_EQ(tenant.does("ctxsync"), "0");
  const auto warm = referenced_bytes(tenant.running.pid(), 100 * kMiB);
  if (!warm) GTEST_SKIP() << "skipped: only /proc tells what was touched";
  EXPECT_GE(*warm, 100 * kMiB);
  const Owner owner(runtime);
  ledger::set_value(*owner.pages.writable_policy, &ledger::PolicyPage::freeze_after_s, 1);
  EXPECT_TRUE(comes_true([&] { return frozen(owner); }));
  EXPECT_TRUE(
      comes_true([&] { return referenced_bytes(tenant.running.pid(), 100 * kMiB).value_or(~0ull) < 10 * kMiB; }));
}

TEST(Freeze, AnActiveOrUnconfiguredProgramStays) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  EXPECT_EQ(tenant.does(bytes("linear", kMiB)), "0");
  const Owner owner(runtime);
  ledger::set_value(*owner.pages.writable_policy, &ledger::PolicyPage::freeze_after_s, 1);
  EXPECT_EQ(tenant.does("sync"), "0");
  for (int i = 0; i < 30; ++i) {  // one call per 100 ms, for three times the idle limit
    EXPECT_EQ(tenant.does("query"), "0");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(owner.pages.usage->freezes.load(), 0u);
  ledger::set_value(*owner.pages.writable_policy, &ledger::PolicyPage::freeze_after_s, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(owner.pages.usage->freezes.load(), 0u);
}

TEST(Freeze, FrozenMemoryOnTheCardIsFreeForOthers) {
  const Runtime runtime;
  Tenant unlimited = on_tiny("2GiB");
  unlimited.environment = {{"HEADGATE_SIM_PROFILE", "tiny"}, {"HEADGATE_COMPUTE", "50%"}, {"HEADGATE_SHARE", "pools"}};
  Led first(runtime, unlimited);
  EXPECT_EQ(first.does(bytes("linear", 1200 * kMiB)), "0");
  Led second(runtime, unlimited);
  EXPECT_EQ(second.does(bytes("linear", 1200 * kMiB)), "2") << "the card is full";
  const Owner owner(runtime);
  ledger::set_value(*owner.pages.writable_policy, &ledger::PolicyPage::freeze_after_s, 1);
  EXPECT_TRUE(comes_true([&] { return second.does("query") == "0" && frozen(owner); }));
  EXPECT_EQ(second.does(bytes("linear", 1200 * kMiB)), "0");
  // Both do not fit at once, so the call waits until there is room, and no longer.
  first.running.say("sync\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(frozen(owner));
  EXPECT_EQ(second.does("now:0"), "0");
  EXPECT_EQ(first.running.next_line(), "sync: 0");
}

TEST(Freeze, AFrozenProgramThatIsKilledLeavesNothing) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  EXPECT_EQ(tenant.does(bytes("linear", 100 * kMiB)), "0");
  const Owner owner(runtime);
  ledger::set_value(*owner.pages.writable_policy, &ledger::PolicyPage::freeze_after_s, 1);
  EXPECT_TRUE(comes_true([&] { return frozen(owner); }));
  tenant.running.kill_and_wait();
  EXPECT_EQ(owner.used(), 0u);
  EXPECT_EQ(truth(runtime).used_bytes, 0u);
  Led next(runtime, on_tiny("1GiB"));
  EXPECT_FALSE(frozen(owner)) << "the next in its slot is not frozen";
}

}  // namespace
