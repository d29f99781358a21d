#include "api/fresh_snapshots.hpp"

#include <chrono>
#include <thread>

namespace headgate::api {

observe::NodeSnapshot FreshSnapshots::get() {
  constexpr std::uint64_t kOldNs = 100'000'000;
  // Rate limit for snapshots after process exits, against processes started and ended in a tight loop.
  constexpr std::uint64_t kBetweenEndsNs = 20'000'000;
  const observe::NodeSnapshot latest = observer_.latest();
  const std::uint64_t age_ns = steady_now_ns() - latest->taken_ns;
  if (age_ns > kOldNs || latest->taken_ns <= changed_ns_.load()) return observer_.look();
  if (latest->taken_ns > ended_ns_.load()) return latest;
  if (age_ns < kBetweenEndsNs) std::this_thread::sleep_for(std::chrono::nanoseconds(kBetweenEndsNs - age_ns));
  // Another waiting request may have taken a snapshot meanwhile.
  const observe::NodeSnapshot now = observer_.latest();
  return now->taken_ns > ended_ns_.load() ? now : observer_.look();
}

}  // namespace headgate::api
