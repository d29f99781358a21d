#include "observe/explainer.hpp"

#include <gtest/gtest.h>

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

TEST(Explainer, WhoAsksDoesNotWaitForAProcessThatMakesTheAnswerTakeLong) {
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

TEST(Explainer, ANumberThatIsUsedAgainIsAskedAnew) {
  std::atomic<int> asked = 0;
  Explainer explainer([&](std::uint32_t) { return std::to_string(++asked); });
  EXPECT_TRUE(eventually([&] { return explainer.of(7) == "1"; }));
  explainer.keep_only({7});
  EXPECT_EQ(explainer.of(7), "1");
  explainer.keep_only({});
  EXPECT_TRUE(eventually([&] { return explainer.of(7) == "2"; }));
}

TEST(Explainer, WhereNothingExplainsTheAnswerIsEmptyAtOnce) {
  Explainer explainer({});
  EXPECT_EQ(explainer.of(7), "");
}

}  // namespace
}  // namespace headgate::observe
