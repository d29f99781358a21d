// The limiter on the simulated GPU: tests that need a driver with contexts, slabs and NVML.
#include <gtest/gtest.h>

#include <cstdio>

#include "guest/ledger/pages.hpp"
#include "limiter_run.hpp"

namespace {

using namespace headgate::e2e;
namespace ledger = headgate::ledger;

Tenant simulated(Environment environment) {
  Tenant tenant;
  tenant.driver = Driver::simulated;
  tenant.environment = std::move(environment);
  return tenant;
}

TEST(OverTheSimulator, MemoryThatNoCallRevealsIsCharged) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(simulated({{"HEADGATE_MEM", "8GiB"}}), {"alloc", "1073741824", "8589934592"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("alloc 1073741824: 0\nalloc 8589934592: 2\n"), std::string::npos) << outcome.out;
  unsigned long long free = 0, total = 0;
  const std::size_t line = outcome.out.find("free ");
  ASSERT_NE(line, std::string::npos);
  ASSERT_EQ(std::sscanf(outcome.out.c_str() + line, "free %llu total %llu", &free, &total), 2);
  EXPECT_EQ(total, 8ull << 30);
  EXPECT_LT(free, 7ull << 30);  // the context takes memory too
  EXPECT_GT(free, 6ull << 30);
}

TEST(OverTheSimulator, AMemberSeesTheDriversOwnErrors) {
  const Runtime runtime;
  Tenant tenant = simulated({{"HEADGATE_MEM", "8GiB"}});
  tenant.limited = false;
  const Outcome without = runtime.run(tenant, {"errors"});
  ASSERT_EQ(without.status, 0) << without.err;
  tenant.limited = true;
  EXPECT_EQ(runtime.run(tenant, {"errors"}).out, without.out);
}

TEST(OverTheSimulator, EachNameOfAnEntryGetsItsOwnHook) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(simulated({{"HEADGATE_MEM", "8GiB"}}), {"procaddress"});
  for (const std::string line : {"cuMemFree 12000 0: result 0 status 0 libheadgate.so\n  cuMemFree_v2\n",
                                 "cuStreamDestroy 2000 0: result 0 status 0 libheadgate.so\n  cuStreamDestroy\n",
                                 "cuStreamDestroy 12000 0: result 0 status 0 libheadgate.so\n  cuStreamDestroy_v2\n"})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << "is missing in\n" << outcome.out;
}

TEST(OverTheSimulator, AForkedChildGetsTheDriversError) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(simulated({{"HEADGATE_MEM", "8GiB"}}), {"fork"});
  EXPECT_EQ(outcome.out, "parent ready 0, alloc 0\nchild ready 3, alloc 3\nchild ended 0, parent frees 0\n");
}

TEST(OverTheSimulator, NvmlShowsMemoryOfDeadProcessesAsFree) {
  const Runtime runtime;
  const Tenant tenant = simulated({{"HEADGATE_MEM", "8GiB"}});
  ASSERT_EQ(runtime.run(tenant, {"alloc", "1073741824"}).status, 0);
  const Outcome outcome = runtime.run(tenant, {"nvml"});
  EXPECT_NE(outcome.out.find("total 8589934592 free 8589934592 used 0\n"), std::string::npos) << outcome.out;
}

// NVML's total exceeds CUDA's. A percentage always refers to the same one, whichever library a process calls first.
TEST(OverTheSimulator, AProcessThatUsesNvmlFirstJoinsTheShare) {
  const Runtime runtime;
  const Tenant tenant = simulated({{"HEADGATE_MEM", "50%"}, {"PROBE_WAIT", "1"}});
  auto by_cuda = runtime.start(tenant, {"alloc", "1"});
  EXPECT_EQ(by_cuda.next_line(), "ready: 0");
  const Outcome by_nvml = runtime.run(simulated({{"HEADGATE_MEM", "50%"}}), {"nvml"});
  EXPECT_NE(by_nvml.out.find("total 75698798592 "), std::string::npos) << by_nvml.out << by_nvml.err;
  by_cuda.finish();
}

TEST(OverTheSimulator, TheFirstAllocationAccountsForTheContext) {
  const Runtime runtime;
  const Outcome outcome = runtime.run(simulated({{"HEADGATE_MEM", "8GiB"}}), {"alloc", "8589934592"});
  EXPECT_NE(outcome.out.find("alloc 8589934592: 2\n"), std::string::npos) << outcome.out;
}

// The node's first context is measured at once; a later one's size is known.
TEST(OverTheSimulator, AProgramWithoutAllocationsSkipsNvml) {
  const Runtime runtime;
  EXPECT_EQ(runtime.run(simulated({{"HEADGATE_MEM", "8GiB"}}), {"ready"}).status, 0);
  EXPECT_EQ(runtime.run(simulated({{"HEADGATE_MEM", "8GiB"}}), {"ready"}).out, "ready: 0, NVML loaded at once: no\n");
  // With time for the limiter's own thread between the context and the end of the call.
  const char* const slow = "cuDeviceGetAttribute:delay_us=10000:attribute=75";
  EXPECT_EQ(runtime.run(simulated({{"HEADGATE_MEM", "8GiB"}, {"HEADGATE_SIM_FAULT", slow}}), {"ready"}).out,
            "ready: 0, NVML loaded at once: no\n");
}

TEST(OverTheSimulator, ARefusalIsRecordedOnceWithItsCauses) {
  const Runtime runtime;
  auto tenant = runtime.start(simulated({{"HEADGATE_MEM", "8GiB"}, {"HEADGATE_SHARE", "why"}, {"PROBE_WAIT", "1"}}),
                              {"alloc", "1073741824", "7516192768"});  // 1 and 7 GiB: only the context prevents both
  tenant.next_line();
  tenant.next_line();
  EXPECT_EQ(tenant.next_line(), "alloc 7516192768: 2");
  ledger::SharePages pages;
  ASSERT_FALSE(ledger::open_share((runtime.path() + "/run").c_str(), "why", ledger::Access::owner, pages));
  const ledger::MemoryAccount& account = pages.usage->memory[0];
  EXPECT_EQ(account.refusals.load(), 1u);
  EXPECT_EQ(account.last_refusal_bytes.load(), 7ull << 30);
  EXPECT_GT(account.last_refusal_used.load(), 1ull << 30);
  ledger::close_pages(pages);
  tenant.finish();
}

}  // namespace
