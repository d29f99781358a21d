#include "power/settings_io.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <future>

#include "power/test_recording_manager.hpp"

namespace headgate::power {
namespace {

class SetNow : public testing::Test {
 protected:
  SetNow() {
    for (std::uint32_t gpu = 0; gpu < 2; ++gpu) gpus_.emplace_back(gpu);
    queues_.emplace(recording_managers(gpus_), [](const Executed&) {});
  }
  std::vector<GpuOutcome> set(const SettingsByGpu& wanted, SetOptions options = {}) {
    std::promise<std::vector<GpuOutcome>> promise;
    withdraw_ = set_now(*queues_, wanted, options,
                        [&promise](std::vector<GpuOutcome> outcomes) { promise.set_value(std::move(outcomes)); });
    return promise.get_future().get();
  }
  static SettingsByGpu limit_of_both(std::uint32_t limit_mw) {
    SettingsByGpu wanted;
    wanted["GPU-test-0"].power_limit_mw = wanted["GPU-test-1"].power_limit_mw = limit_mw;
    return wanted;
  }

  std::deque<Recording> gpus_;
  std::optional<ControlQueues> queues_;
  std::function<void(const std::string&)> withdraw_;
};

TEST_F(SetNow, EachGpuReportsWhatChanged) {
  SettingsByGpu wanted = limit_of_both(200'000);
  wanted["GPU-test-1"].gpu_clocks = ClockRange{210, 900};
  wanted["GPU-test-1"].persistence = true;
  const auto outcomes = set(wanted);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].changes, (std::vector<Change>{{"power limit", "100 W", "200 W"}}));
  EXPECT_EQ(outcomes[1].changes,
            (std::vector<Change>{{"power limit", "100 W", "200 W"}, {"GPU clocks", "none", "210 to 900 MHz"}}))
      << "the persistence mode was on before";
  EXPECT_FALSE(outcomes[0].error || outcomes[1].error);
  EXPECT_EQ(queues_->gpu(1).read(Operation::get_power_limit), 200'000u);
}

TEST_F(SetNow, ADryRunWritesNothing) {
  const auto outcomes = set(limit_of_both(200'000), {.caller = {}, .dry_run = true});
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[1].changes, (std::vector<Change>{{"power limit", "100 W", "200 W"}}));
  EXPECT_TRUE(gpus_[0].written().empty());
  EXPECT_TRUE(gpus_[1].written().empty());
}

TEST_F(SetNow, AGpuThatFailsIsNamedAndTheOtherIsSet) {
  gpus_[0].fail_with(Operation::set_power_limit, {ErrorCode::unreachable, "a GPU is lost", ""});
  const auto outcomes = set(limit_of_both(200'000));
  ASSERT_EQ(outcomes.size(), 2u);
  ASSERT_TRUE(outcomes[0].error);
  EXPECT_EQ(outcomes[0].error->message, "a GPU is lost");
  EXPECT_TRUE(outcomes[0].changes.empty());
  EXPECT_FALSE(outcomes[1].error);
  EXPECT_EQ(queues_->gpu(1).read(Operation::get_power_limit), 200'000u);
}

TEST_F(SetNow, AResetSkipsControlsThatAGpuLacks) {
  gpus_[0].fail_with(Operation::reset_mem_locked_clocks, {ErrorCode::unsupported, "not supported", ""});
  SettingsByGpu wanted;
  wanted["GPU-test-0"].mem_clocks = ClockRange{};
  EXPECT_TRUE(set(wanted)[0].error);
  EXPECT_FALSE(set(wanted, {.caller = {}, .skip_unsupported = true})[0].error);
}

TEST_F(SetNow, AWithdrawnRequestIsAnsweredAndDoesNotStart) {
  gpus_[0].shut();
  std::promise<std::vector<GpuOutcome>> promise;
  const auto withdraw = set_now(*queues_, limit_of_both(200'000), {}, [&promise](std::vector<GpuOutcome> outcomes) {
    promise.set_value(std::move(outcomes));
  });
  gpus_[0].await_caller();
  withdraw("4.5 s");
  const auto outcomes = promise.get_future().get();
  gpus_[0].open();
  ASSERT_TRUE(outcomes[0].error);
  EXPECT_EQ(outcomes[0].error->code, ErrorCode::busy);
}

TEST_F(SetNow, AnEmptyRequestIsDoneAtOnce) { EXPECT_TRUE(set({{"GPU-none", {}}}).empty()); }

}  // namespace
}  // namespace headgate::power
