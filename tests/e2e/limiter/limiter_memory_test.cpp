// A share's memory as its tenants see it.
#include <gtest/gtest.h>

#include <filesystem>

#include "guest/ledger/account.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/slot.hpp"
#include "limiter_run.hpp"

namespace {

using namespace headgate;
using namespace headgate::e2e;

constexpr const char* kFirstGpu = "GPU-10101010-1010-1010-1010-101010101010";

Tenant with(Environment environment) {
  Tenant tenant;
  tenant.environment = std::move(environment);
  return tenant;
}

// The share's pages, opened as its owner.
struct Owner {
  ledger::SharePages pages;
  ledger::PageFault fault;
  Owner(const Runtime& runtime, const char* name) {
    fault = ledger::open_share((runtime.path() + "/run").c_str(), name, ledger::Access::owner, pages);
  }
  ~Owner() { ledger::close_pages(pages); }
};

TEST(Memory, TheLastByteOfALimitIsUsableAndNotOneMore) {
  const Runtime runtime;
  const Outcome outcome =
      runtime.run(with({{"HEADGATE_MEM", "1MiB"}}), {"alloc", "1000000", "100000", "48576", "1", "-", "1"});
  EXPECT_EQ(outcome.out,
            "ready: 0\nalloc 1000000: 0\nalloc 100000: 2\nalloc 48576: 0\nalloc 1: 2\nfree: 0\nalloc 1: 0\n"
            "free 48575 total 1048576 whole 1048576\ndriver calls 3\n");
}

TEST(Memory, ARefusalDoesNotReachTheDriver) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(with({{"HEADGATE_MEM", "1MiB"}}), {"alloc", "2000000", "9000000000"});
  EXPECT_NE(outcome.out.find("driver calls 0"), std::string::npos) << outcome.out;
}

TEST(Memory, PitchedRowsAreChargedByTheDriversPitch) {
  const Runtime runtime;  // 300 bytes per row; this driver pads to 512
  const Outcome outcome = runtime.run(with({{"HEADGATE_MEM", "1MiB"}}), {"alloc", "p2048", "1"});
  EXPECT_NE(outcome.out.find("alloc p2048: 0\nalloc 1: 2\n"), std::string::npos) << outcome.out;
}

TEST(Memory, NothingIsHeldOrWrittenWithoutAGrant) {
  const Runtime runtime;
  const Outcome outcome = runtime.run({}, {"alloc", "9000000000"});
  EXPECT_NE(outcome.out.find("alloc 9000000000: 0"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.err, "");
  EXPECT_FALSE(std::filesystem::exists(runtime.path() + "/run"));
}

TEST(Memory, TwoProcessesDrawOnOneAccount) {
  const Runtime runtime;
  const Tenant tenant = with({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_SHARE", "pair"}, {"PROBE_WAIT", "1"}});
  auto first = runtime.start(tenant, {"alloc", "1000000"});
  EXPECT_EQ(first.next_line(), "ready: 0");
  EXPECT_EQ(first.next_line(), "alloc 1000000: 0");
  auto second = runtime.start(tenant, {"alloc", "48577", "48576"});
  EXPECT_EQ(second.next_line(), "ready: 0");
  EXPECT_EQ(second.next_line(), "alloc 48577: 2");
  EXPECT_EQ(second.next_line(), "alloc 48576: 0");
  second.finish();
  first.finish();
}

TEST(Memory, BytesOfAKilledProcessAreFreeForTheNext) {
  const Runtime runtime;
  const Tenant tenant = with({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_SHARE", "kill"}, {"PROBE_WAIT", "1"}});
  auto witness = runtime.start(tenant, {"alloc", "1"});
  EXPECT_EQ(witness.next_line(), "ready: 0");
  EXPECT_EQ(witness.next_line(), "alloc 1: 0");
  auto victim = runtime.start(tenant, {"alloc", "1000000"});
  EXPECT_EQ(victim.next_line(), "ready: 0");
  EXPECT_EQ(victim.next_line(), "alloc 1000000: 0");
  victim.kill_and_wait();
  auto heir = runtime.start(tenant, {"alloc", "1048575"});
  EXPECT_EQ(heir.next_line(), "ready: 0");
  EXPECT_EQ(heir.next_line(), "alloc 1048575: 0");
  heir.finish();
  witness.finish();
}

TEST(Memory, ManyProcessesEndWithEveryByteReturned) {
  const Runtime runtime;
  const Tenant tenant = with({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_SHARE", "storm"}});
  auto keeper =
      runtime.start(with({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_SHARE", "storm"}, {"PROBE_WAIT", "1"}}), {"alloc", "1"});
  EXPECT_EQ(keeper.next_line(), "ready: 0");
  EXPECT_EQ(keeper.next_line(), "alloc 1: 0");
  std::vector<Runtime::Running> storm;
  for (int i = 0; i < 6; ++i) storm.push_back(runtime.start(tenant, {"storm", "20000", "600000"}));
  for (auto& process : storm) EXPECT_EQ(process.finish().status, 0);
  Owner owner(runtime, "storm");
  ASSERT_FALSE(owner.fault);
  ledger::reap_dead(*owner.pages.usage);
  EXPECT_EQ(ledger::used_bytes(*owner.pages.usage, 0), 1u);
  EXPECT_EQ(ledger::live_slots(*owner.pages.usage), 1u);
  keeper.finish();
}

TEST(Memory, ARefusalIsRecordedForWhy) {
  const Runtime runtime;
  auto tenant = runtime.start(with({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_SHARE", "why"}, {"PROBE_WAIT", "1"}}),
                              {"alloc", "1000", "5000000"});
  tenant.next_line();
  tenant.next_line();
  EXPECT_EQ(tenant.next_line(), "alloc 5000000: 2");
  Owner owner(runtime, "why");
  ASSERT_FALSE(owner.fault);
  const ledger::MemoryAccount& account = owner.pages.usage->memory[0];
  EXPECT_EQ(account.refusals.load(), 1u);
  EXPECT_EQ(account.last_refusal_bytes.load(), 5000000u);
  EXPECT_EQ(account.last_refusal_used.load(), 1000u);
  EXPECT_EQ(account.last_refusal_pid.load(), static_cast<std::uint32_t>(tenant.pid()));
  tenant.finish();
}

TEST(Memory, ManyRefusalsAreOneLineAndOnlyIfAsked) {
  const Runtime runtime;
  const Outcome loud = runtime.run(with({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_LOG", "warn"}}),
                                   {"alloc", "5000000", "5000000", "5000000"});
  EXPECT_EQ(loud.err,
            "headgate: warning: share default: 5000000 bytes refused on GPU 0: 0 of 1048576 bytes are in use\n");
  EXPECT_EQ(runtime.run(with({{"HEADGATE_MEM", "1MiB"}}), {"alloc", "5000000"}).err, "");
}

TEST(Memory, AGpuOutsideTheShareGivesNothing) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(with({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_GPU", "1"}}), {"alloc", "5"});
  EXPECT_EQ(outcome.out.find("alloc 5: 0\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("ready: 101\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("GPU 0 is not in this process's share"), std::string::npos) << outcome.err;
}

TEST(Memory, ACopiedPointerIsHeldToo) {
  const Runtime runtime;
  EXPECT_EQ(runtime.run(with({{"HEADGATE_MEM", "1GiB"}}), {"copied"}).out, "ready: 0, too much: 2\n");
}

TEST(Fork, AChildClaimsNothingUntilItUsesTheDriver) {
  const Runtime runtime;
  auto parent = runtime.start(
      with({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_SHARE", "family"}, {"PROBE_CHILD_QUIET", "1"}}), {"fork"});
  EXPECT_EQ(parent.next_line(), "parent ready 0, alloc 0");
  Owner owner(runtime, "family");
  ASSERT_FALSE(owner.fault);
  EXPECT_EQ(ledger::live_slots(*owner.pages.usage), 1u);
  const Outcome outcome = parent.finish();
  EXPECT_EQ(outcome.out, "child ended 0, parent frees 0\n");
}

TEST(Fork, AChildThatUsesTheDriverHasItsOwnSlot) {
  const Runtime runtime;
  auto parent = runtime.start(with({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_SHARE", "family"}}), {"fork"});
  EXPECT_EQ(parent.next_line(), "parent ready 0, alloc 0");
  EXPECT_EQ(parent.next_line(), "child ready 0, alloc 0");
  Owner owner(runtime, "family");
  ASSERT_FALSE(owner.fault);
  EXPECT_EQ(ledger::live_slots(*owner.pages.usage), 2u);
  EXPECT_EQ(ledger::used_bytes(*owner.pages.usage, 0), 1500u);
  EXPECT_EQ(parent.finish().out, "child ended 0, parent frees 0\n");
}

TEST(Views, NvmlShowsOnlyTheShare) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(with({{"HEADGATE_MEM", "1MiB"}}), {"nvml"});
  EXPECT_EQ(outcome.out, "init 0\ntotal 1048576 free 1048576 used 0\nasked with no room: 0\nlist 0\ncuda loaded: no\n");
}

TEST(Views, NvmlShowsTheCardWithoutAGrant) {
  const Runtime runtime;
  Tenant tenant;
  const Outcome with_us = runtime.run(tenant, {"nvml"});
  tenant.limited = false;
  EXPECT_EQ(with_us.out, runtime.run(tenant, {"nvml"}).out);
}

TEST(Refusals, AProcessWithOtherValuesIsRefused) {
  const Runtime runtime;
  auto first = runtime.start(with({{"HEADGATE_MEM", "1MiB"}, {"PROBE_WAIT", "1"}}), {"alloc", "1"});
  EXPECT_EQ(first.next_line(), "ready: 0");
  const Outcome second = runtime.run(with({{"HEADGATE_MEM", "2MiB"}}), {"alloc", "1"});
  EXPECT_EQ(second.out, "ready: 800\n");
  EXPECT_NE(second.err, "");
  EXPECT_EQ(runtime.run(with({{"HEADGATE_MEM", "2MiB"}}), {"nvml"}).out, "init 4\n");
  first.finish();
}

TEST(Refusals, AMissingShareIsAnErrorNotFreedom) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(with({{"HEADGATE_SHARE", "nowhere"}}), {"alloc", "1"});
  EXPECT_EQ(outcome.out, "ready: 800\n");
  EXPECT_NE(outcome.err.find("nowhere"), std::string::npos) << outcome.err;
}

struct Bad {
  const char* name;
  const char* value;
};
class BadValue : public testing::TestWithParam<Bad> {};

TEST_P(BadValue, IsNamedAndNeverMeansNoLimit) {
  const Runtime runtime;
  const auto& [name, value] = GetParam();
  const Outcome outcome = runtime.run(with({{name, value}}), {"alloc", "1"});
  EXPECT_EQ(outcome.out, "ready: 800\n");
  EXPECT_NE(outcome.err.find(name), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(value), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("accepted"), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadValue,
    testing::Values(Bad{"HEADGATE_MEM", "0m"}, Bad{"HEADGATE_MEM", "abc"}, Bad{"HEADGATE_MEM", "-1"},
                    Bad{"HEADGATE_MEM", "1e9GiB"}, Bad{"HEADGATE_MEM", "1073741824"}, Bad{"HEADGATE_COMPUTE", "0"},
                    Bad{"HEADGATE_COMPUTE", "101%"}, Bad{"HEADGATE_LOG", "shout"}, Bad{"HEADGATE_SHARE", "../up"},
                    Bad{"HEADGATE_GPU", "9"}, Bad{"HEADGATE_GPU", "GPU-ffff"}, Bad{"CUDA_MEM_LIMIT", "0"},
                    Bad{"CUDA_MEM_LIMIT_0", "xyz"}, Bad{"CUDA_CORE_LIMIT", "0"}, Bad{"CUDA_CORE_LIMIT", "200"},
                    Bad{"CUDA_DEVICE_MEMORY_LIMIT", "0"}, Bad{"CUDA_DEVICE_SM_LIMIT", "abc"}));

TEST(Secure, AProgramWithRaisedPrivilegesReadsNoEnvironment) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(with({{"HEADGATE_MEM", "0m"}}), {"secure"});
  EXPECT_NE(outcome.out.find("ready: 0"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.err, "");
  EXPECT_FALSE(std::filesystem::exists(runtime.path() + "/run"));
}

}  // namespace
