// Records when a load had no demand: none of its threads, in any process, was in a launch or waiting for launched work.
// A gate can only be blamed for the other times.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace headgate::load {

inline constexpr std::int64_t kIdleBucketNs = 10'000'000;
inline constexpr std::size_t kIdleBuckets = 60'000;      // ten minutes
inline constexpr std::int64_t kShortestIdleNs = 20'000;  // shorter gaps are loop overhead, hidden by queued work

// Placed in memory shared by the load's processes. All times are ledger::host_ns(). Buckets are aligned to 10 ms of
// that clock, like the simulator's truth; bucket 0 contains the start.
class AskingLog {
 public:
  // Call it once every thread is ready; the load is idle from here until its first launch.
  void start(std::int64_t now_ns) {
    started_ns_ = now_ns;
    idle_since_.store(now_ns, std::memory_order_relaxed);
  }

  void begin(std::int64_t now_ns) {
    if (asking_.fetch_add(1, std::memory_order_acq_rel) == 0)
      add_idle(idle_since_.load(std::memory_order_relaxed), now_ns);
  }

  void end(std::int64_t now_ns) {
    // Stored before the count falls, so that a reader that sees zero also sees this time.
    idle_since_.store(now_ns, std::memory_order_relaxed);
    asking_.fetch_sub(1, std::memory_order_acq_rel);
  }

  // Ends the load: later idle time does not count.
  void finish(std::int64_t now_ns) {
    if (asking_.load(std::memory_order_acquire) == 0) {
      add_idle(idle_since_.load(std::memory_order_relaxed), now_ns);
      idle_since_.store(now_ns, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] std::int64_t started_ns() const { return started_ns_; }
  [[nodiscard]] std::int64_t idle_ns(std::size_t bucket) const { return idle_[bucket].load(std::memory_order_relaxed); }

 private:
  void add_idle(std::int64_t from_ns, std::int64_t to_ns) {
    if (to_ns - from_ns < kShortestIdleNs) return;
    while (from_ns < to_ns) {
      const std::int64_t index = from_ns / kIdleBucketNs - started_ns_ / kIdleBucketNs;
      if (index < 0 || index >= static_cast<std::int64_t>(kIdleBuckets)) return;
      const std::int64_t bucket_end = (from_ns / kIdleBucketNs + 1) * kIdleBucketNs;
      const std::int64_t end = to_ns < bucket_end ? to_ns : bucket_end;
      idle_[static_cast<std::size_t>(index)].fetch_add(end - from_ns, std::memory_order_relaxed);
      from_ns = end;
    }
  }

  std::int64_t started_ns_ = 0;
  std::atomic<std::int64_t> idle_since_{0};
  std::atomic<int> asking_{0};
  std::array<std::atomic<std::int64_t>, kIdleBuckets> idle_{};
};

}  // namespace headgate::load
