// Programs that break careless accounting: the state of the program and of the share afterwards.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <random>

#include "guest/ledger/account.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/slot.hpp"
#include "limiter_race.hpp"
#include "limiter_run.hpp"

namespace {

using namespace headgate;
using namespace headgate::e2e;

Tenant attacker(const char* memory, Driver driver = Driver::quiet) {
  Tenant tenant;
  tenant.driver = driver;
  tenant.program = "limiter_attack";
  tenant.environment = {{"HEADGATE_MEM", memory}, {"HEADGATE_SHARE", "attacked"}};
  return tenant;
}
Tenant witness(const char* memory, Driver driver = Driver::quiet) {
  Tenant tenant = attacker(memory, driver);
  tenant.program.clear();
  tenant.environment["PROBE_WAIT"] = "1";
  return tenant;
}

std::uint64_t used_by_share(const Runtime& runtime, std::uint32_t* slots = nullptr) {
  ledger::SharePages pages;
  const std::string base = runtime.path() + "/run";
  if (ledger::open_share(base.c_str(), "attacked", ledger::Access::owner, pages)) return ~0ull;
  ledger::reap_dead(*pages.usage);
  const std::uint64_t used = ledger::used_bytes(*pages.usage, 0);
  if (slots != nullptr) *slots = ledger::live_slots(*pages.usage);
  ledger::close_pages(pages);
  return used;
}

TEST(Mapped, MemoryIsFreedWithTheLastHandleAndMapping) {
  const Runtime runtime;
  EXPECT_EQ(
      runtime.run(attacker("1000B"), {"mapped"}).out,
      "create 0\ncreate more 2\nreleased, mapped twice: room no\nmapped once: room no\nretained, unmapped: room no\n"
      "released: room yes\nall of it: room yes, and one more: no\n");
}

TEST(Mapped, AHandleThatIsReusedDuringAReleaseKeepsItsBytes) {
  const Runtime runtime;
  EXPECT_EQ(runtime.run(attacker("1000B"), {"handle-reuse"}).out, "room for 400: yes, for 401: no\n");
}

TEST(Contexts, ADestroyedContextsMemoryIsReleased) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(attacker("1000B"), {"destroyed", "destroy", "700", "300"});
  EXPECT_EQ(outcome.out, "took it, again: no\ndestroy 0\nafterwards: yes\nthe other's free: 0\n") << outcome.err;
}

TEST(Contexts, AResetOrReleasedPrimarysMemoryIsReleased) {
  const Runtime runtime;
  Tenant tenant = attacker("8GiB", Driver::simulated);
  EXPECT_EQ(runtime.run(tenant, {"destroyed", "reset", "4294967296", "1073741824"}).out,
            "took it, again: no\nreset 0\nafterwards: yes\nthe other's free: 0\n");
  EXPECT_EQ(runtime.run(tenant, {"destroyed", "release", "4294967296", "1073741824"}).out,
            "took it, again: no\nrelease 0, room: no\nrelease 0\nafterwards: yes\nthe other's free: 0\n");
}

TEST(Contexts, AnAllocationIsChargedToTheThreadsContext) {
  const Runtime runtime;
  EXPECT_EQ(runtime.run(attacker("1000B"), {"switching"}).out,
            "created and filled: room no\nanother created: room yes\nset back: room no\npushed: room yes\npopped: room "
            "no\nanother thread set: room no\nset: room yes\ndestroyed: 201, none: 201\n");
}

TEST(Threads, AThreadWithTheSmallestStackSurvivesEveryHook) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(attacker("1MiB"), {"small-stack"});
  EXPECT_EQ(outcome.out, "lived\n") << outcome.status << outcome.err;
}

TEST(Threads, ThatInitialiseTogetherShareOneSlot) {
  const Runtime runtime;
  auto running = runtime.start(attacker("1000B"), {"init-at-once"});
  EXPECT_EQ(running.next_line(), "16 ready, 10 of 16 took 100 of 1000");
  std::uint32_t slots = 0;
  EXPECT_EQ(used_by_share(runtime, &slots), 1000u);
  EXPECT_EQ(slots, 1u);
  running.finish();
}

TEST(Threads, ThatFreeTwiceLeaveNothingCharged) {
  const Runtime runtime;
  EXPECT_EQ(runtime.run(attacker("1000B"), {"churn"}).out, "all of it: room yes\n");
}

TEST(Threads, ThatAllocateAtExitNeitherCrashNorStayCharged) {
  const Runtime runtime;
  auto stays = runtime.start(witness("1000B"), {"alloc", "1"});
  EXPECT_EQ(stays.next_line(), "ready: 0");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(runtime.run(attacker("1000B"), {"churn-until-exit"}).status, 0);
  EXPECT_EQ(stays.next_line(), "alloc 1: 0");
  EXPECT_EQ(used_by_share(runtime), 1u);
  stays.finish();
}

TEST(Startup, AProgramIsRefusedIfTheDriverNamesNoGpu) {
  const Runtime runtime;
  Tenant tenant;
  tenant.environment = {{"HEADGATE_MEM", "1000B"}, {"QUIET_NAMELESS", "1"}};
  const Outcome outcome = runtime.run(tenant, {"alloc", "5000"});
  EXPECT_EQ(outcome.out, "ready: 800\n");
  EXPECT_NE(outcome.err.find("does not name its GPUs: error 500"), std::string::npos) << outcome.err;
  tenant.environment.erase("HEADGATE_MEM");
  EXPECT_NE(runtime.run(tenant, {"alloc", "5000"}).out.find("alloc 5000: 0"), std::string::npos);
}

TEST(Startup, AProgramThatLooksUpNamesBeforeLibcStarts) {
  const Runtime runtime;
  Tenant tenant = attacker("1000B");
  tenant.program = "limiter_early";
  EXPECT_EQ(runtime.run(tenant, {}).out, "found\n");
}

TEST(Sizes, NearOverflowAreRefused) {
  const Runtime runtime;
  EXPECT_EQ(runtime.run(attacker("1000B"), {"huge"}).out, "2 2 2 2 2 2 room yes\n");
}

TEST(Exec, TheNextProgramInheritsNoCharges) {
  const Runtime runtime;
  auto stays = runtime.start(witness("1001B"), {"alloc", "1"});
  EXPECT_EQ(stays.next_line(), "ready: 0");
  EXPECT_EQ(stays.next_line(), "alloc 1: 0");
  EXPECT_EQ(runtime.run(attacker("1001B"), {"exec"}).out, "listed 0 room yes\n");
  stays.finish();
}

TEST(Pages, DeletedPagesStillHoldTheirProcess) {
  const Runtime runtime;
  auto running = runtime.start(attacker("1000B"), {"on-command"});
  EXPECT_EQ(running.next_line(), "room yes, refused no, info 0");
  std::filesystem::remove_all(runtime.path() + "/run");
  running.say("\n");
  EXPECT_EQ(running.next_line(), "room yes, refused no, info 0");
  EXPECT_EQ(running.finish().status, 0);
}

// A process of the same user writes random bytes into both pages while a program works. The program may be refused
// memory or get too much. It must not crash or hang, and must print only printable text to stderr.
TEST(Pages, CorruptedPagesCrashNoProcess) {
  for (const Driver driver : {Driver::quiet, Driver::simulated}) {
    const Runtime runtime;
    Tenant tenant = attacker("1000B", driver);
    tenant.environment["HEADGATE_LOG"] = "debug";
    if (driver == Driver::simulated) tenant.environment["HEADGATE_MEM"] = "8GiB";
    auto running = runtime.start(tenant, {"churn-slowly"});
    EXPECT_EQ(running.next_line(), "churning");
    ledger::SharePages pages;
    const std::string base = runtime.path() + "/run";
    ASSERT_FALSE(ledger::open_share(base.c_str(), "attacked", ledger::Access::owner, pages));
    std::mt19937_64 random(7);
    const auto scribble = [&](void* page, std::size_t bytes) {
      const std::uint64_t words[] = {random(), ~0ull, 0, random() % 16};
      __atomic_store_n(static_cast<std::uint64_t*>(page) + random() % (bytes / 8), words[random() % 4],
                       __ATOMIC_RELAXED);
    };
    for (int round = 0; round < 3000; ++round) {
      for (int i = 0; i < 300; ++i) {
        scribble(pages.writable_policy, sizeof(ledger::PolicyPage));
        scribble(pages.usage, sizeof(ledger::UsagePage));
        scribble(pages.usage, offsetof(ledger::UsagePage, slots) + 4 * sizeof(ledger::Slot));
      }
      if (round % 100 == 0) std::memset(static_cast<void*>(pages.writable_policy), 0xff, sizeof(ledger::PolicyPage));
      sched_yield();
    }
    ledger::close_pages(pages);
    running.say("end\n");
    const Outcome outcome = running.finish();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    for (const char c : outcome.err) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 127)) << outcome.err;
  }
}

TEST(Kills, DuringAllocationsLeaveTheAccountRight) {
  const Runtime runtime;
  auto stays = runtime.start(witness("1000B"), {"alloc", "1"});
  EXPECT_EQ(stays.next_line(), "ready: 0");
  EXPECT_EQ(stays.next_line(), "alloc 1: 0");
  for (int i = 0; i < 20; ++i) {
    auto victim = runtime.start(attacker("1000B"), {"churn-forever"});
    EXPECT_EQ(victim.next_line(), "churning");
    victim.kill_and_wait();
  }
  std::uint32_t slots = 0;
  EXPECT_EQ(used_by_share(runtime, &slots), 1u);
  EXPECT_EQ(slots, 1u);
  stays.finish();
}

// In every round exactly one of the two gets the bytes, which suffice for one only.
void expect_one_winner(const Runtime& runtime, const Tenant& tenant, const std::string& bytes) {
  const std::string path = runtime.path() + "/race";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(ftruncate(file, sizeof(Race)), 0);
  const auto* race = static_cast<Race*>(mmap(nullptr, sizeof(Race), PROT_READ, MAP_SHARED, file, 0));
  ASSERT_NE(race, MAP_FAILED);
  auto first = runtime.start(tenant, {"race", path, "0", bytes});
  auto second = runtime.start(tenant, {"race", path, "1", bytes});
  EXPECT_EQ(first.finish().status, 0);
  EXPECT_EQ(second.finish().status, 0);
  for (unsigned round = 0; round < kRaceRounds; ++round) {
    EXPECT_EQ(race->result[0][round] + race->result[1][round], 2u) << "round " << round;  // 0 and OUT_OF_MEMORY
  }
  munmap(const_cast<Race*>(race), sizeof(Race));
  close(file);
}

TEST(Race, ForTheLastByteHasOneWinner) {
  const Runtime runtime;
  auto holder = runtime.start(witness("1000B"), {"alloc", "999"});
  EXPECT_EQ(holder.next_line(), "ready: 0");
  EXPECT_EQ(holder.next_line(), "alloc 999: 0");
  expect_one_winner(runtime, attacker("1000B"), "1");
  holder.finish();
}

TEST(Race, OverTheSimulatorForGibibytesHasOneWinner) {
  const Runtime runtime;
  expect_one_winner(runtime, attacker("8GiB", Driver::simulated), "5368709120");
}

}  // namespace
