// Wherever a program would find the driver's functions, it finds our hooks instead, and nothing else changes.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "limiter_run.hpp"

namespace {

using namespace headgate::e2e;

// Returns the output without the limiter, with the driver replaced by us, except for names that we do not hook.
std::string expected(const std::string& without) {
  std::istringstream lines(without);
  std::string line, all;
  while (std::getline(lines, line)) {
    if (line.find("cuCtxGetDevice") == std::string::npos) {
      line = std::regex_replace(line, std::regex("libcuda\\.so\\.1"), "libheadgate.so");
    }
    all += line + "\n";
  }
  return all;
}

class LookUps : public testing::TestWithParam<bool> {};

TEST_P(LookUps, AHookReplacesTheDriversFunctionAndNothingElse) {
  const Runtime runtime;
  Tenant tenant;
  tenant.linked = GetParam();
  tenant.limited = false;
  const Outcome without = runtime.run(tenant, {"roads"});
  ASSERT_EQ(without.status, 0) << without.err;
  ASSERT_NE(without.out.find("libcuda.so.1"), std::string::npos);
  tenant.limited = true;
  const Outcome with = runtime.run(tenant, {"roads"});
  EXPECT_EQ(with.status, 0) << with.err;
  EXPECT_EQ(with.out, expected(without.out));
}

// Only for run-time lookups: a program linked with functions that the driver lacks does not start anyway.
TEST(LookingUp, AFunctionThatTheDriverLacksIsNeverOurs) {
  const Runtime runtime;
  Tenant tenant;
  tenant.driver = Driver::quiet_old;
  const Outcome outcome = runtime.run(tenant, {"roads"});
  EXPECT_NE(outcome.out.find("handle cuMemAllocAsync: null"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("cuMemAllocAsync: libheadgate.so"), std::string::npos) << outcome.out;
}

// A stub, or a program's own function of that name: the program calls it if there is no driver, with and without us.
TEST(Names, AProgramsOwnDefinitionIsUsedWithoutADriver) {
  const Runtime runtime;
  Tenant tenant;
  tenant.driver = Driver::none;
  for (const bool limited : {false, true}) {
    tenant.limited = limited;
    const Outcome outcome = runtime.run(tenant, {"own"});
    EXPECT_EQ(outcome.out, "own: 4242\n") << outcome.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, LookUps, testing::Values(false, true),
                         [](const auto& tested) { return tested.param ? "Linked" : "LookingUp"; });

TEST(ProcAddress, AnAnswerIsReplacedByTheHookOfItsVersion) {
  const Runtime runtime;
  const Outcome outcome = runtime.run({}, {"procaddress"});
  const std::string ours = "result 0 status 0 libheadgate.so\n  ";
  for (const std::string& line :
       {"cuInit 12000 0: " + ours + "cuInit\n", "cuMemAlloc 12000 0: " + ours + "cuMemAlloc_v2\n",
        "cuMemAlloc 12000 1: " + ours + "cuMemAlloc_v2\n", "cuMemAlloc 2000 0: " + ours + "cuMemAlloc\n",
        "cuLaunchKernel 12000 2: " + ours + "cuLaunchKernel_ptsz\n",
        "cuGetProcAddress 12000 0: " + ours + "cuGetProcAddress_v2\n",
        std::string("cuMemAllocAsync 11010 0: result 0 status 2 null\n"),
        std::string("cuNoSuch 12000 0: result 0 status 1 null\n"),
        std::string("cuCtxGetDevice 12000 0: result 0 status 0 libcuda.so.1\n")}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << "is missing in\n" << outcome.out;
  }
}

TEST(ProcAddress, AnEntryPointWithoutASymbolIsHookedByName) {
  const Runtime runtime;
  const Outcome outcome = runtime.run({}, {"procaddress"});
  EXPECT_NE(outcome.out.find("cuMemFree 12000 0: result 0 status 0 libheadgate.so\n  cuMemFree_v2\n"),
            std::string::npos)
      << outcome.out;
}

TEST(ProcAddress, ALaterVariantDoesNotUseAnOlderHook) {
  const Runtime runtime;
  const Outcome outcome = runtime.run({}, {"procaddress"});
  EXPECT_NE(outcome.out.find("cuMemFree 14000 0: result 0 status 0 libcuda.so.1\n"), std::string::npos) << outcome.out;
}

TEST(Errors, AMemberSeesTheDriversOwnErrors) {
  const Runtime runtime;
  Tenant tenant;
  tenant.limited = false;
  const Outcome without = runtime.run(tenant, {"errors"});
  ASSERT_EQ(without.status, 0);
  tenant.limited = true;
  tenant.environment["HEADGATE_MEM"] = "1GiB";
  EXPECT_EQ(runtime.run(tenant, {"errors"}).out, without.out);
}

}  // namespace
