// How much GPU time a launch of each kernel is likely to add. A small table that all threads read and write without
// order: a torn or lost update costs a slightly wrong estimate, and what was measured corrects every account later.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace headgate::limiter {

inline constexpr std::int64_t kUnknownCommandNs = 200'000;
inline constexpr std::uint32_t kYoung = 8;  // measurements that a kernel is judged by

class Estimates {
 public:
  static constexpr std::uint32_t kEntries = 1024;

  static std::uint32_t slot_of(std::uint64_t key) {
    return static_cast<std::uint32_t>(key * 0x9e37'79b9'7f4a'7c15ull >> 54);
  }

  // 0 where nothing is known about this kernel.
  std::int64_t known_ns(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    return entry.key.load(std::memory_order_relaxed) == key ? entry.mean_ns.load(std::memory_order_relaxed) : 0;
  }
  // What a launch is charged in advance. Few measurements may all be of its short ones.
  std::int64_t guess_ns(std::uint64_t key) const {
    const std::int64_t known = known_ns(key);
    return young(key) ? std::max(known, kUnknownCommandNs) : known;
  }

  bool young(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    return entry.key.load(std::memory_order_relaxed) != key || entry.seen.load(std::memory_order_relaxed) < kYoung;
  }

  // Whether single launches of it differ so much that its mean says little about the next.
  bool uneven(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    return young(key) ||
           2 * entry.spread_ns.load(std::memory_order_relaxed) > entry.mean_ns.load(std::memory_order_relaxed);
  }

  // What is thought of something that was never measured; the first measurement says it better.
  void expect(std::uint64_t key, std::int64_t ns) {
    Entry& entry = entries_[slot_of(key)];
    entry.spread_ns.store(0, std::memory_order_relaxed);
    entry.seen.store(0, std::memory_order_relaxed);
    set(key, ns);
  }
  // Its handle may soon mean something else.
  void forget(std::uint64_t key) {
    Entry& entry = entries_[slot_of(key)];
    if (entry.key.load(std::memory_order_relaxed) == key) entry.key.store(0, std::memory_order_relaxed);
  }

  // One more measurement of it.
  void learn(std::uint64_t key, std::int64_t measured_ns) {
    const std::int64_t mean = known_ns(key);
    Entry& entry = entries_[slot_of(key)];
    if (mean == 0 || entry.seen.load(std::memory_order_relaxed) == 0) {
      entry.spread_ns.store(0, std::memory_order_relaxed);
      entry.seen.store(1, std::memory_order_relaxed);
      return set(key, measured_ns);
    }
    entry.seen.store(std::min(entry.seen.load(std::memory_order_relaxed) + 1, kYoung), std::memory_order_relaxed);
    const std::int64_t off = measured_ns < mean ? mean - measured_ns : measured_ns - mean;
    const std::int64_t spread = entry.spread_ns.load(std::memory_order_relaxed);
    // A run of short ones is no news of an uneven kernel.
    const std::int64_t slowness = uneven(key) && !young(key) ? 32 : 8;
    entry.spread_ns.store(spread + (off - spread) / 8, std::memory_order_relaxed);
    set(key, mean + (measured_ns - mean) / slowness);
  }

 private:
  struct Entry {
    std::atomic<std::uint64_t> key;
    std::atomic<std::int64_t> mean_ns;
    std::atomic<std::int64_t> spread_ns;  // mean distance from the mean
    std::atomic<std::uint32_t> seen;      // measurements, kYoung at most
  };
  void set(std::uint64_t key, std::int64_t mean_ns) {
    Entry& entry = entries_[slot_of(key)];
    entry.mean_ns.store(std::clamp<std::int64_t>(mean_ns, 500, 10'000'000'000), std::memory_order_relaxed);
    entry.key.store(key, std::memory_order_relaxed);
  }
  std::array<Entry, kEntries> entries_{};
};

}  // namespace headgate::limiter
