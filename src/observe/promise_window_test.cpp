#include "observe/promises.hpp"

#include <gtest/gtest.h>

namespace headgate::observe {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// A share with one sample for each second of virtual time.
class PromiseWindowTest : public ::testing::Test {
 protected:
  // A second in which it wanted and held these parts of the GPU.
  void second(double wanted, double held, std::uint64_t launches = 100) { step(kSecond, wanted, held, launches); }
  void step(std::uint64_t passed_ns, double wanted, double held, std::uint64_t launches = 100) {
    const auto ns = [passed_ns](double part) {
      return static_cast<std::int64_t>(part * static_cast<double>(passed_ns));
    };
    now_.taken_ns += passed_ns;
    now_.wanted_ns += ns(wanted);
    now_.held_ns += static_cast<std::uint64_t>(ns(held));
    now_.launches += launches;
    window_.add(now_);
  }
  void seconds(int count, double wanted, double held) {
    for (int i = 0; i < count; ++i) second(wanted, held);
  }

  PromiseSample now_{.taken_ns = 100 * kSecond, .held_ns = 7 * kSecond, .wanted_ns = 3, .promised_ratio = 0.5};
  PromiseWindow window_;
};

TEST_F(PromiseWindowTest, IsEmptyBeforeTheSecondSample) {
  EXPECT_EQ(window_.figures().span_ns, 0u);
  window_.add(now_);
  EXPECT_EQ(window_.figures().span_ns, 0u) << "totals of before say nothing of the last seconds";
  EXPECT_EQ(window_.short_ns(), 0u);
}

TEST_F(PromiseWindowTest, ReportsWhatWasPromisedAndWhatWasHad) {
  window_.add(now_);
  seconds(10, 1, 0.3);
  const auto figures = window_.figures();
  EXPECT_EQ(figures.span_ns, 10 * kSecond);
  EXPECT_NEAR(figures.had_ratio, 0.3, 1e-9);
  EXPECT_NEAR(figures.wanted_ratio, 1, 1e-9);
  EXPECT_NEAR(figures.owed_ratio, 0.5, 1e-9);
  EXPECT_NEAR(figures.short_ratio, 0.2, 1e-9);
  EXPECT_EQ(figures.launch_ns, 3'000'000u);
  EXPECT_FALSE(figures.late);
}

TEST_F(PromiseWindowTest, CountsThePartOfTheSmsUnderMps) {
  now_.promised_ratio = now_.sm_part = 0.3;
  window_.add(now_);
  seconds(10, 0.95, 0.95);
  EXPECT_NEAR(window_.figures().had_ratio, 0.285, 1e-9);
  EXPECT_NEAR(window_.figures().wanted_ratio, 0.95, 1e-9);
  EXPECT_NEAR(window_.figures().short_ratio, 0, 1e-9);
  EXPECT_EQ(window_.figures().launch_ns, 9'500'000u) << "the time of a launch, whatever SMs it had";
}

TEST_F(PromiseWindowTest, CountsOnlyTimeInWhichTheGpuIsWanted) {
  window_.add(now_);
  seconds(10, 0.4, 0.25);
  EXPECT_NEAR(window_.figures().owed_ratio, 0.2, 1e-9);
  EXPECT_EQ(window_.figures().short_ratio, 0) << "more than it is owed is no credit either";
}

TEST_F(PromiseWindowTest, ForgetsTimesOlderThanTenSeconds) {
  window_.add(now_);
  seconds(30, 1, 0.1);
  seconds(5, 1, 0.5);
  EXPECT_NEAR(window_.figures().had_ratio, 0.3, 1e-9);
  seconds(5, 1, 0.5);
  EXPECT_NEAR(window_.figures().had_ratio, 0.5, 1e-9);
  EXPECT_EQ(window_.figures().short_ratio, 0);
}

TEST_F(PromiseWindowTest, ReportsAShorterTimeToo) {
  window_.add(now_);
  seconds(5, 1, 0.1);
  seconds(5, 1, 0.4);
  EXPECT_EQ(window_.figures(5 * kSecond).span_ns, 5 * kSecond);
  EXPECT_NEAR(window_.figures(5 * kSecond).short_ratio, 0.1, 1e-9);
  EXPECT_NEAR(window_.figures().short_ratio, 0.25, 1e-9);
}

TEST_F(PromiseWindowTest, SumsShortfallsOverTime) {
  window_.add(now_);
  seconds(20, 1, 0.3);
  EXPECT_NEAR(static_cast<double>(window_.short_ns()), 4e9, 1e3);
  seconds(20, 1, 0.5);
  const std::uint64_t before = window_.short_ns();
  EXPECT_NEAR(static_cast<double>(before), 4.9e9, 1e6) << "the window looks back for ten seconds";
  seconds(20, 1, 1);
  EXPECT_EQ(window_.short_ns(), before) << "it never goes back";
}

// The arbiter looks seldom while no other share wants the GPU.
TEST_F(PromiseWindowTest, CountsHeldTimeAsWanted) {
  window_.add(now_);
  seconds(10, 0.1, 0.9);
  EXPECT_NEAR(window_.figures().wanted_ratio, 0.9, 1e-9);
  EXPECT_EQ(window_.figures().short_ratio, 0);
}

TEST_F(PromiseWindowTest, CountsWorkDelayedByNeighboursAsWanted) {
  now_.turns = false;
  window_.add(now_);
  for (int i = 0; i < 10; ++i) {
    now_.neighbours_ns += kSecond * 7 / 10;
    second(0, 0.3);
  }
  EXPECT_NEAR(window_.figures().wanted_ratio, 1, 1e-9);
  EXPECT_NEAR(window_.figures().short_ratio, 0.2, 1e-9);
}

TEST_F(PromiseWindowTest, FollowsAPromiseThatChanges) {
  window_.add(now_);
  seconds(5, 1, 0.3);
  now_.promised_ratio = 0.3;
  seconds(5, 1, 0.3);
  EXPECT_NEAR(window_.figures().owed_ratio, 0.4, 1e-9);
  EXPECT_NEAR(window_.figures().short_ratio, 0.1, 1e-9);
  seconds(5, 1, 0.3);
  EXPECT_NEAR(window_.figures().short_ratio, 0, 1e-9);
}

TEST_F(PromiseWindowTest, IgnoresSamplesThatComeTooSoon) {
  window_.add(now_);
  second(1, 0.5);
  const auto before = window_.figures();
  step(kSecond / 100, 0, 0);
  EXPECT_EQ(window_.figures().span_ns, before.span_ns);
  for (int i = 0; i < 1000; ++i) step(kSecond / 100, 1, 0.5);
  EXPECT_NEAR(window_.figures().had_ratio, 0.5, 0.01);
  EXPECT_GE(window_.figures().span_ns, PromiseWindow::kSpanNs);
}

TEST_F(PromiseWindowTest, KeepsTheLastDemandWhileTheDaemonIsAway) {
  window_.add(now_);
  seconds(5, 1, 0.5);
  step(5 * kSecond, 0.02, 0.2);
  const auto figures = window_.figures();
  EXPECT_TRUE(figures.late);
  EXPECT_NEAR(figures.wanted_ratio, 1, 1e-9);
  EXPECT_NEAR(figures.short_ratio, 0.15, 1e-9);
  seconds(10, 1, 0.5);
  EXPECT_FALSE(window_.figures().late);
}

TEST_F(PromiseWindowTest, StartsOverWithTheArbiter) {
  window_.add(now_);
  seconds(10, 1, 0.1);
  now_.wanted_ns = 0;
  second(0, 0);
  EXPECT_EQ(window_.figures().span_ns, 0u);
  seconds(10, 1, 0.5);
  EXPECT_EQ(window_.figures().short_ratio, 0);
}

// A tenant writes its account, and time may turn out to have been another share's.
TEST_F(PromiseWindowTest, IgnoresTotalsThatJumpOrGoBack) {
  window_.add(now_);
  for (const std::uint64_t held : {~0ull, 0ull, 1ull << 63, 0ull}) {
    now_.taken_ns += kSecond;
    now_.held_ns = held;
    now_.launches = held;
    window_.add(now_);
    const auto figures = window_.figures();
    for (const double ratio : {figures.had_ratio, figures.wanted_ratio, figures.owed_ratio, figures.short_ratio}) {
      EXPECT_GE(ratio, 0);
      EXPECT_LE(ratio, 1);
    }
  }
}

}  // namespace
}  // namespace headgate::observe
