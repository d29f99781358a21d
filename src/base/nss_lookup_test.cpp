#include "base/nss_lookup.hpp"

#include <gtest/gtest.h>
#include <pwd.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "base/user_name.hpp"

namespace headgate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A question that blocks until the test releases it.
struct Stuck {
  std::shared_ptr<std::promise<void>> end = std::make_shared<std::promise<void>>();
  void ask() {
    EXPECT_FALSE(nss_lookup([until = end->get_future().share()] { until.wait(); }, milliseconds(1)));
  }
};

TEST(NssLookup, AnAnswerArrivesWithinItsWait) {
  int answer = 0;
  ASSERT_TRUE(nss_lookup([&answer] { answer = 42; }, seconds(60)));
  EXPECT_EQ(answer, 42);
}

TEST(NssLookup, CallersBehindAHungLookupDoNotWait) {
  Stuck stuck;
  stuck.ask();
  std::this_thread::sleep_for(milliseconds(50));
  const auto answered = std::make_shared<std::promise<void>>();
  const auto begin = std::chrono::steady_clock::now();
  for (int n = 0; n < 200; ++n) EXPECT_FALSE(nss_lookup([] {}, milliseconds(50)));
  EXPECT_FALSE(nss_lookup([answered] { answered->set_value(); }, milliseconds(50)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5)) << "each waited as if it were the first";
  stuck.end->set_value();
  EXPECT_EQ(answered->get_future().wait_for(seconds(60)), std::future_status::ready);
}

TEST(NssLookup, AThousandPendingQuestionsAreKept) {
  Stuck stuck;
  stuck.ask();
  const auto count = std::make_shared<std::atomic<int>>(0);
  for (int n = 0; n < 2'000; ++n) EXPECT_FALSE(nss_lookup([count] { ++*count; }, milliseconds(0)));
  stuck.end->set_value();
  while (!nss_lookup([] {}, seconds(60))) std::this_thread::yield();
  EXPECT_LE(count->load(), 1'000);
  EXPECT_GE(count->load(), 990);
}

// A node's snapshot holds hundreds of names, and the loop makes one each second.
TEST(UserName, IsItsNumberUntilTheDirectoryHasAnswered) {
  constexpr std::uint32_t kSomebody = 1;
  Stuck stuck;
  stuck.ask();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(user_name(kSomebody), "1");
  for (std::uint32_t uid = 4'000'000; uid < 4'000'300; ++uid) EXPECT_EQ(user_name(uid), std::to_string(uid));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5)) << "each was waited for";
  stuck.end->set_value();
  while (!nss_lookup([] {}, seconds(60))) std::this_thread::yield();
  const passwd* const entry = ::getpwuid(kSomebody);
  EXPECT_EQ(user_name(kSomebody), entry == nullptr ? "1" : entry->pw_name);
}

}  // namespace
}  // namespace headgate
