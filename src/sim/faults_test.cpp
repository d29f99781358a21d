#include "sim/faults.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "sim/fault_rules.hpp"

namespace headgate::sim {
namespace {

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "headgate-faults-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    ::unsetenv(kFaultVariable);
    ASSERT_TRUE(write_faults(directory_, ""));
    ASSERT_TRUE(open_faults(directory_));
    std::filesystem::remove_all(directory_);
  }
  void environment(const char* rules) {
    ::setenv(kFaultVariable, rules, 1);
    ASSERT_TRUE(open_faults(directory_));
  }
  std::string directory_;
};

TEST(FaultRules, ARuleMayNameTheGpuOfAnNvmlCall) {
  const auto rules = parse_faults("nvmlDeviceSet*:fail=999:device=1,nvmlDeviceGetPowerUsage:delay_us=5");
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ(rules->rules.at(0).device, 1u);
  EXPECT_EQ(rules->rules.at(1).device, kAnyDevice);
  for (const char* text :
       {"cuMemAlloc_v2:fail=2:device=1", "nvmlInit_v2:fail=999:device=0", "cuDeviceGetAttribute:fail=1:device=1",
        "cuDeviceGet:fail=1:attribute=1", "cuDeviceGetAttribute:fail=1:attribute=0", "nvmlDeviceSet*:fail=1:device=16",
        "nvmlDeviceSet*:device=1", "*:fail=2:device=0"})
    EXPECT_FALSE(parse_faults(text)) << text;
}

TEST(FaultRules, AnXidIsSeparateFromFailures) {
  const auto rules = parse_faults("device1:xid=79,device0:lost");
  ASSERT_TRUE(rules);
  EXPECT_EQ(rules->xids[1], 79U);
  EXPECT_EQ(rules->xids[0], 0U);
  EXPECT_EQ(rules->lost_devices, 1U);
  EXPECT_FALSE(parse_faults("device0:xid=0"));
  EXPECT_FALSE(parse_faults("device0:xid=1000"));
  EXPECT_FALSE(parse_faults("device0:xid="));
}

TEST_F(Faults, ADriverWithoutRulesNeverFails) {
  environment("");
  EXPECT_TRUE(faults_detail::quiet());
  EXPECT_EQ(fault("cuMemAlloc_v2"), 0U);
  EXPECT_FALSE(device_lost(0));
}

TEST_F(Faults, AnAllocationFailsAsOftenAndAsLateAsAsked) {
  environment("cuMemAlloc_v2:fail=2:after=2:count=1");
  EXPECT_EQ(fault("cuMemAlloc_v2"), 0U);
  EXPECT_EQ(fault("cuMemFree_v2"), 0U);
  EXPECT_EQ(fault("cuMemAlloc_v2"), 0U);
  EXPECT_EQ(fault("cuMemAlloc_v2"), 2U);
  EXPECT_EQ(fault("cuMemAlloc_v2"), 0U);
}

TEST_F(Faults, APrefixMatchesEveryVersionAndTheFirstMatchCounts) {
  environment("cuMemAlloc*:fail=2,*:fail=999:after=1");
  EXPECT_EQ(fault("cuMemAllocPitch_v2"), 2U);
  EXPECT_EQ(fault("cuMemAlloc"), 2U);
  EXPECT_EQ(fault("nvmlInit_v2"), 999U);
}

TEST_F(Faults, ASlowDriverTakesAtLeastTheTimeAsked) {
  environment("cuEventRecord:delay_us=3000,cuEventQuery:slow_us=3000");
  for (const char* function : {"cuEventRecord", "cuEventQuery"}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(fault(function), 0U);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::microseconds(3000)) << function;
  }
}

TEST_F(Faults, APageRuleAppliesToARunningProcess) {
  environment("");
  ASSERT_TRUE(write_faults(directory_, "device1:lost,cuLaunchKernel:fail=719\n"));
  EXPECT_FALSE(device_lost(0));
  EXPECT_TRUE(device_lost(1));
  EXPECT_EQ(fault("cuLaunchKernel"), 719U);
  ASSERT_TRUE(write_faults(directory_, ""));
  EXPECT_EQ(fault("cuLaunchKernel"), 0U);
  EXPECT_FALSE(device_lost(1));
  EXPECT_TRUE(faults_detail::quiet()) << "after healing, a call must be cheap again";
}

TEST_F(Faults, ThePageOverridesTheEnvironmentWhileItHasRules) {
  environment("cuInit:fail=100");
  ASSERT_TRUE(write_faults(directory_, "cuInit:fail=999"));
  EXPECT_EQ(fault("cuInit"), 999U);
  ASSERT_TRUE(write_faults(directory_, ""));
  EXPECT_EQ(fault("cuInit"), 100U);
}

TEST_F(Faults, HitsOfEachRuleCanBeRead) {
  const auto hits = [this](std::size_t rule) { return fault_hits(directory_).value().at(rule); };
  environment("");
  ASSERT_TRUE(write_faults(directory_, "cuInit:fail=1:after=1:count=2,cu*:delay_us=0,device1:lost"));
  for (int i = 0; i < 5; ++i) (void)fault("cuInit");
  (void)fault("cuEventQuery");
  (void)fault("nvmlInit_v2");
  (void)device_lost(0);
  (void)device_lost(1);
  EXPECT_EQ(hits(0), 2U) << "only the calls that it acted on";
  EXPECT_EQ(hits(1), 6U);
  EXPECT_EQ(hits(2), 0U);
  EXPECT_EQ(hits(63), 1U) << "the lost device's";
  ASSERT_TRUE(write_faults(directory_, "cuEventQuery:fail=1"));
  EXPECT_EQ(hits(0) + hits(1) + hits(63), 0U) << "new rules count from nothing";
}

TEST_F(Faults, AnUnwritableDirectoryKeepsTheEnvironmentsFaults) {
  ::setenv(kFaultVariable, "cuInit:fail=100", 1);
  ASSERT_TRUE(open_faults("/proc/no/such"));
  EXPECT_EQ(fault("cuInit"), 100U);
}

TEST_F(Faults, ABadVariableIsAnErrorThatNamesIt) {
  ::setenv(kFaultVariable, "cuInit:explode", 1);
  const auto opened = open_faults(directory_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, "HEADGATE_SIM_FAULT: fault rule 'cuInit:explode': 'explode' is no action");
}

RC_GTEST_PROP(FaultRulesProperty, AreReadBackAsWritten, ()) {
  FaultRules expected;
  std::string text;
  const auto rules = *rc::gen::inRange<int>(1, 6);
  for (int i = 0; i < rules; ++i) {
    FaultRule rule;
    rule.function = *rc::gen::element<std::string>("cuInit", "cuMemAlloc_v2", "cuMem", "nvmlInit_v2", "");
    rule.prefix = rule.function.empty() || rule.function == "cuMem";
    rule.fail_code = *rc::gen::inRange<std::uint32_t>(1, 1000);
    rule.delay_us = *rc::gen::inRange<std::uint64_t>(0, 60'000'001);
    rule.slow_us = *rc::gen::inRange<std::uint64_t>(0, 10'001);
    rule.after = *rc::gen::arbitrary<std::uint64_t>();
    rule.count = *rc::gen::suchThat(rc::gen::arbitrary<std::uint64_t>(), [](std::uint64_t n) { return n > 0; });
    text += (i == 0 ? "" : ",") + rule.function + (rule.prefix ? "*" : "") + ":count=" + std::to_string(rule.count) +
            ":fail=" + std::to_string(rule.fail_code) + ":after=" + std::to_string(rule.after) +
            ":delay_us=" + std::to_string(rule.delay_us) + ":slow_us=" + std::to_string(rule.slow_us);
    expected.rules.push_back(rule);
  }
  const auto lost = *rc::gen::inRange<std::uint32_t>(0, 16);
  text += ",device" + std::to_string(lost) + ":lost";
  expected.lost_devices = 1U << lost;
  const auto parsed = parse_faults(text);
  RC_ASSERT(parsed.has_value());
  RC_ASSERT(*parsed == expected);
}

struct Bad {
  std::string text, message;
};
class BadFaults : public testing::TestWithParam<Bad> {};

TEST_P(BadFaults, AreRefusedByNameAndValue) {
  const auto parsed = parse_faults(GetParam().text);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::usage);
  EXPECT_EQ(parsed.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadFaults,
    testing::Values(
        Bad{",", "fault rule ',': it ends in a comma"},
        Bad{"cuInit:fail=1,,cuInit:fail=2", "fault rule '': it is empty"},
        Bad{":fail=2", "fault rule ':fail=2': no function is named"},
        Bad{"cuInit", "fault rule 'cuInit': it does nothing: fail, sticky, delay_us or slow_us is missing"},
        Bad{"cuInit:count=3",
            "fault rule 'cuInit:count=3': it does nothing: fail, sticky, delay_us or slow_us is missing"},
        Bad{"cuNope:fail=2", "fault rule 'cuNope:fail=2': neither the driver nor NVML has 'cuNope'"},
        Bad{"cuNope*:fail=2", "fault rule 'cuNope*:fail=2': neither the driver nor NVML has 'cuNope*'"},
        Bad{"cuInit:fail", "fault rule 'cuInit:fail': fail is '', not a whole number from 1 to 999"},
        Bad{"cuInit:fail=0", "fault rule 'cuInit:fail=0': fail is '0', not a whole number from 1 to 999"},
        Bad{"cuInit:fail=-2", "fault rule 'cuInit:fail=-2': fail is '-2', not a whole number from 1 to 999"},
        Bad{"cuInit:fail=2:fail=3", "fault rule 'cuInit:fail=2:fail=3': fail stands twice"},
        Bad{"cuInit:slow_us=10001",
            "fault rule 'cuInit:slow_us=10001': slow_us is '10001', not a whole number from 0 to 10000"},
        Bad{"cuInit:fail=2:count=0",
            "fault rule 'cuInit:fail=2:count=0': count is '0', not a whole number from 1 to 18446744073709551615"},
        Bad{"cuInit:sticky=701", "fault rule 'cuInit:sticky=701': sticky is 701: no kernel ends its context with that"},
        Bad{"cuInit:sticky=2", "fault rule 'cuInit:sticky=2': sticky is '2', not a whole number from 214 to 719"},
        Bad{"cuInit:fail=2:sticky=700",
            "fault rule 'cuInit:fail=2:sticky=700': fail and sticky both say what to answer"},
        Bad{"device16:lost", "fault rule 'device16:lost': 'device16' is not device0 to device15"},
        Bad{"deviceX:lost", "fault rule 'deviceX:lost': 'deviceX' is not device0 to device15"},
        Bad{"device0:fail=2",
            "fault rule 'device0:fail=2': 'fail=2' is nothing that can befall a device; lost and xid=CODE are"}));

}  // namespace
}  // namespace headgate::sim
