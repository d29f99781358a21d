// Memory that contexts take without an allocation call counts against the share.
#include <chrono>

#include "limiter_pool.hpp"

using namespace headgate;
using namespace headgate::e2e;

namespace {

constexpr std::uint64_t kDeep = 3072ull * 20 * 2048;  // beyond the usual stack, for every thread of the "tiny" card

std::uint64_t residual(const Owner& owner) {
  std::uint64_t sum = 0;
  for (const ledger::Slot& slot : owner.pages.usage->slots) sum += slot.devices[0].residual_bytes.load();
  return sum;
}

TEST(Residual, LocalMemoryThatALaunchTookIsTheSharesWithinATenthOfASecond) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("576MiB"));
  EXPECT_EQ(tenant.does("info"), "0");
  EXPECT_EQ(tenant.does("deep"), "0");
  EXPECT_EQ(tenant.does("linear:1"), "0");  // something moved: measured soon
  const Owner owner(runtime);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (residual(owner) < kContext + kDeep && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(residual(owner), kContext + kDeep);
  EXPECT_EQ(truth(runtime).processes.at(0).context_bytes, residual(owner));
  EXPECT_EQ(owner.used(), really_held(runtime));
  EXPECT_EQ(tenant.does(bytes("linear", 400 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("linear", 390 * kMiB)), "0");
}

TEST(Residual, AHeapThatALimitMadeIsTheSharesBeforeTheNextAllocation) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("576MiB"));
  EXPECT_EQ(tenant.does("info"), "0");
  EXPECT_EQ(tenant.does(bytes("heap", 208 * kMiB)), "0");
  EXPECT_EQ(tenant.does(bytes("linear", 313 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("linear", 311 * kMiB)), "0");
  const Owner owner(runtime);
  EXPECT_EQ(residual(owner), kContext + 200 * kMiB);
}

}  // namespace
