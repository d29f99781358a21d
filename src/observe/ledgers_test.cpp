#include "observe/ledgers.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "guest/ledger/oom_wait.hpp"

namespace headgate::observe {
namespace {

TEST(Ledgers, WhoAdmitsAndHowLongMemoryIsWaitedForIsToldInTheWordsThatSetIt) {
  const auto policy = std::make_unique<ledger::PolicyPage>();
  const auto usage = std::make_unique<ledger::UsagePage>();
  EXPECT_EQ(read_ledger(*policy, *usage).share.admit, "now");
  EXPECT_EQ(read_ledger(*policy, *usage).share.on_oom, "fail");
  const struct {
    std::uint32_t ms;
    const char* words;
  } cases[] = {{1'000, "wait=1s"},   {30'000, "wait=30s"}, {60'000, "wait=1m"},
               {90'000, "wait=90s"}, {300'000, "wait=5m"}, {3'600'000, "wait=1h"}};
  for (const auto& [ms, words] : cases) {
    ledger::set_waiting(*policy, true, ms);
    EXPECT_EQ(read_ledger(*policy, *usage).share.on_oom, words);
    EXPECT_EQ(read_ledger(*policy, *usage).share.admit, "ask");
  }
}

}  // namespace
}  // namespace headgate::observe
