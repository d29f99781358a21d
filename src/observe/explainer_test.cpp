#include "observe/explainer.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <future>

namespace headgate::observe {
namespace {

template <typename Condition>
bool eventually(Condition holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(Explainer, ASlowProcessBlocksNoCaller) {
  std::promise<void> gate;
  auto open = gate.get_future().share();
  Explainer explainer([open](std::uint32_t pid) {
    open.wait();
    return "it is " + std::to_string(pid);
  });
  EXPECT_FALSE(explainer.of(7));
  EXPECT_FALSE(explainer.of(8));
  gate.set_value();
  EXPECT_TRUE(eventually([&] { return explainer.of(7) == "it is 7" && explainer.of(8) == "it is 8"; }));
}

// Imitates a file system that never answers. What is captured outlives the test with the waiting threads.
TEST(Explainer, AProcessThatNeverAnswersBlocksNoOther) {
  std::promise<void> never;
  auto open = never.get_future().share();
  const auto begun = std::make_shared<std::atomic<std::size_t>>(0);
  {
    Explainer explainer(
        [open, begun](std::uint32_t pid) {
          ++*begun;
          if (pid < 100) open.wait();
          return "it is " + std::to_string(pid);
        },
        std::chrono::milliseconds(20));
    const std::string given_up = "its files took too long to read";
    EXPECT_TRUE(eventually([&] { return explainer.of(1) == given_up; }));
    EXPECT_TRUE(eventually([&] { return explainer.of(100) == "it is 100"; }));
    for (std::uint32_t pid = 2; pid <= Explainer::kMaxGivenUp; ++pid)
      EXPECT_TRUE(eventually([&] { return explainer.of(pid) == given_up; }));
    EXPECT_FALSE(explainer.of(101)) << "no thread is left to be kept";
    never.set_value();
    EXPECT_TRUE(eventually([&] { return explainer.of(101) == "it is 101"; })) << "they are back";
    EXPECT_EQ(begun->load(), Explainer::kMaxGivenUp + 2);
  }
  std::promise<void> kept;
  auto shut = kept.get_future().share();
  {
    Explainer explainer([shut, begun](std::uint32_t) { return ++*begun, shut.wait(), ""; },
                        std::chrono::milliseconds(20));
    const std::size_t before = *begun;
    (void)explainer.of(1);
    EXPECT_TRUE(eventually([&] { return *begun == before + 1; }));
  }
  kept.set_value();
}

void work_for(std::chrono::nanoseconds much) {
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  for (const auto until = used() + much; used() < until;) {
  }
}

TEST(Explainer, EverNewProcessesStayWithinTheCpuLimit) {
  using namespace std::chrono_literals;
  std::promise<void> gate;
  auto open = gate.get_future().share();
  std::atomic<int> begun = 0;
  {
    Explainer explainer(
        [&](std::uint32_t) {
          ++begun;
          open.wait();
          work_for(2ms);
          return "known";
        },
        Explainer::kPatience, {1e-6, 3ms});
    for (const std::uint32_t pid : {1, 2, 3}) EXPECT_FALSE(explainer.of(pid));
    gate.set_value();
    EXPECT_TRUE(eventually([&] { return explainer.of(2).has_value(); }));
  }
  EXPECT_EQ(begun, 2) << "what may be spent at once is spent";
}

TEST(Explainer, SpentTimeIsRegainedForTheNext) {
  using namespace std::chrono_literals;
  Explainer explainer([](std::uint32_t) { return work_for(2ms), "known"; }, Explainer::kPatience, {0.5, 0ms});
  EXPECT_TRUE(eventually([&] { return explainer.of(1) && explainer.of(2) && explainer.of(3); }));
}

TEST(Explainer, AReusedPidIsExplainedAgain) {
  std::atomic<int> asked = 0;
  Explainer explainer([&](std::uint32_t) { return std::to_string(++asked); });
  EXPECT_TRUE(eventually([&] { return explainer.of(7) == "1"; }));
  explainer.keep_only({7});
  EXPECT_EQ(explainer.of(7), "1");
  explainer.keep_only({});
  EXPECT_TRUE(eventually([&] { return explainer.of(7) == "2"; }));
}

// Imitates a unit that has as many tasks as it may.
TEST(Explainer, AMissingThreadOnlyDelaysTheExplanation) {
  pthread_attr_t usual, too_large;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&too_large), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&too_large, std::size_t{1} << 47), 0);  // more than a process can address
  Explainer explainer([](std::uint32_t pid) { return "it is " + std::to_string(pid); });
  ASSERT_EQ(::pthread_setattr_default_np(&too_large), 0);
  EXPECT_NO_THROW(EXPECT_FALSE(explainer.of(7)));
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  EXPECT_TRUE(eventually([&] { return explainer.of(7) == "it is 7"; }));
}

TEST(Explainer, AnEmptyExplainerAnswersAtOnce) {
  Explainer explainer({});
  EXPECT_EQ(explainer.of(7), "");
}

}  // namespace
}  // namespace headgate::observe
