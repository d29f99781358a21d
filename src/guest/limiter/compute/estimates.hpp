// Estimates the GPU time of a launch of each kernel. A small table that all threads read and write without ordering: a
// torn or lost update causes a slightly wrong estimate, and measurements later correct every account.
//
// Other shares' work can only lengthen what is measured. So of launches that were measured alone the shortest of the
// last 8 to 16 counts: a windowed minimum, as BBR keeps of round-trip times (Cardwell et al., 2016).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace headgate::limiter {

inline constexpr std::int64_t kUnknownCommandNs = 200'000;
inline constexpr std::int64_t kAloneNs = 225'000;  // commands this long get a bracket each
inline constexpr std::uint32_t kYoung = 8;         // measurements before an estimate counts as settled
inline constexpr std::int64_t kMaxUndivided = 31;  // the mean is that of so many launches
inline constexpr std::int64_t kYoungProofEveryNs = 20'000'000, kProofEveryNs = 1'000'000'000;

class Estimates {
 public:
  static constexpr std::uint32_t kEntries = 1024;

  static std::uint32_t slot_of(std::uint64_t key) {
    return static_cast<std::uint32_t>(key * 0x9e37'79b9'7f4a'7c15ull >> 54);
  }

  // Returns 0 if the kernel is not known.
  std::int64_t known_ns(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    return entry.key.load(std::memory_order_relaxed) == key ? entry.mean_ns.load(std::memory_order_relaxed) : 0;
  }
  // Returns how long it takes without others' work; 0 if that was not learned.
  std::int64_t undivided_ns(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    const bool learned =
        entry.key.load(std::memory_order_relaxed) == key && entry.undivided.load(std::memory_order_relaxed) != 0;
    return learned ? entry.undivided_ns.load(std::memory_order_relaxed) : 0;
  }
  // Takes a measurement in place of a mean that is wrong.
  void replace(std::uint64_t key, std::int64_t measured_ns) {
    if (known_ns(key) != 0) set(key, measured_ns);
  }
  // Returns what a launch is charged in advance. A few measurements may all be of its short launches.
  std::int64_t guess_ns(std::uint64_t key) const {
    const std::int64_t known = known_ns(key);
    return young(key) ? std::max(known, kUnknownCommandNs) : known;
  }

  bool young(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    return entry.key.load(std::memory_order_relaxed) != key || entry.seen.load(std::memory_order_relaxed) < kYoung;
  }

  // Returns whether a launch gets a separate bracket: it is long, or may be.
  bool alone(std::uint64_t key) const { return young(key) || known_ns(key) >= kAloneNs; }

  // Returns the mean distance of its measurements from their mean.
  std::int64_t spread_ns(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    return entry.key.load(std::memory_order_relaxed) == key ? entry.spread_ns.load(std::memory_order_relaxed) : 0;
  }
  // Returns whether its measurements differ much.
  bool differs(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    return 2 * entry.spread_ns.load(std::memory_order_relaxed) > entry.mean_ns.load(std::memory_order_relaxed);
  }
  // Returns whether single launches differ so much that the mean says little about the next.
  bool uneven(std::uint64_t key) const { return young(key) || differs(key); }

  // Sets an estimate for something never measured; the first measurement replaces it.
  void expect(std::uint64_t key, std::int64_t ns) {
    Entry& entry = entries_[slot_of(key)];
    entry.spread_ns.store(0, std::memory_order_relaxed);
    entry.seen.store(0, std::memory_order_relaxed);
    entry.key.store(0, std::memory_order_relaxed);
    set(key, ns);
  }
  // The same from one launch of uncertain length; the shortest such value counts until one is measured.
  void suppose(std::uint64_t key, std::int64_t ns) {
    const Entry& entry = entries_[slot_of(key)];
    const std::int64_t known = known_ns(key);
    if (known != 0 && entry.seen.load(std::memory_order_relaxed) != 0) return;
    const bool supposed = known != 0 && entry.doubt_ns.load(std::memory_order_relaxed) != 0;
    set(key, supposed ? std::min(known, ns) : ns);
  }

  // Learns the duration of its launch call: the shortest recent one, since a thread may be descheduled in any. Returns
  // that.
  std::int64_t learn_call(std::uint64_t key, std::int64_t call_ns) {
    Entry& entry = entries_[slot_of(key)];
    if (entry.key.load(std::memory_order_relaxed) != key) return 0;
    const std::int64_t usual = entry.call_ns.load(std::memory_order_relaxed);
    const bool shorter = usual == 0 || call_ns <= usual;
    const std::int64_t now = shorter ? std::max<std::int64_t>(1, call_ns) : std::min(call_ns, usual + usual / 16 + 1);
    entry.call_ns.store(now, std::memory_order_relaxed);
    return now;
  }

  // Learns how long a launch took without others' work beside it (undivided.hpp).
  void learn_undivided(std::uint64_t key, std::int64_t ns) {
    Entry& entry = entries_[slot_of(key)];
    if (entry.key.load(std::memory_order_relaxed) != key) return;
    const std::int64_t seen = entry.undivided.load(std::memory_order_relaxed);
    const std::int64_t mean = seen == 0 ? ns : entry.undivided_ns.load(std::memory_order_relaxed);
    const std::int64_t spread = seen == 0 ? 0 : entry.undivided_spread_ns.load(std::memory_order_relaxed);
    const std::int64_t off = ns < mean ? mean - ns : ns - mean;
    entry.undivided_ns.store(mean + (ns - mean) / (seen + 1), std::memory_order_relaxed);
    entry.undivided_spread_ns.store(spread + (off - spread) / (seen + 1), std::memory_order_relaxed);
    entry.undivided.store(std::min(seen + 1, kMaxUndivided), std::memory_order_relaxed);
  }
  // Makes these the estimates, once. They count as settled: a small share launches little, but nothing stretched them.
  void take_undivided() {
    for (Entry& entry : entries_) {
      const std::int64_t seen = entry.undivided.exchange(0, std::memory_order_relaxed);
      if (seen == 0 || entry.key.load(std::memory_order_relaxed) == 0) continue;
      entry.mean_ns.store(entry.undivided_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
      entry.spread_ns.store(entry.undivided_spread_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
      entry.seen.store(kYoung, std::memory_order_relaxed);
    }
  }

  // Returns 0 if unknown.
  std::int64_t call_ns(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    return entry.key.load(std::memory_order_relaxed) == key ? entry.call_ns.load(std::memory_order_relaxed) : 0;
  }

  // Records that its last launch on an idle stream may have begun at any time in a call of this length; 0: no doubt.
  void doubt(std::uint64_t key, std::int64_t ns) {
    Entry& entry = entries_[slot_of(key)];
    if (entry.key.load(std::memory_order_relaxed) == key) entry.doubt_ns.store(ns, std::memory_order_relaxed);
  }
  // Learns the length of a launch behind other work, which began when that ended: the only measure if in doubt.
  void prove(std::uint64_t key, std::int64_t length_ns) {
    Entry& entry = entries_[slot_of(key)];
    if (entry.key.load(std::memory_order_relaxed) != key || entry.doubt_ns.load(std::memory_order_relaxed) == 0) return;
    const std::int64_t proven = entry.proven_ns.load(std::memory_order_relaxed);
    entry.proven_ns.store(proven == 0 ? length_ns : proven + (length_ns - proven) / 8, std::memory_order_relaxed);
  }
  // Returns 0 if unknown, or if it says little about the next launch.
  std::int64_t proven_ns(std::uint64_t key) const {
    const Entry& entry = entries_[slot_of(key)];
    const bool said = entry.key.load(std::memory_order_relaxed) == key && !differs(key);
    return said ? entry.proven_ns.load(std::memory_order_relaxed) : 0;
  }
  // Returns whether a launch behind another one is due.
  bool wants_proof(std::uint64_t key, std::int64_t now_ns) const {
    const Entry& entry = entries_[slot_of(key)];
    if (entry.doubt_ns.load(std::memory_order_relaxed) == 0 || differs(key)) return false;
    return now_ns - entry.proof_asked_ns.load(std::memory_order_relaxed) >
           (young(key) ? kYoungProofEveryNs : kProofEveryNs);
  }
  void proof_asked(std::uint64_t key, std::int64_t now_ns) {
    entries_[slot_of(key)].proof_asked_ns.store(now_ns, std::memory_order_relaxed);
  }

  // Call when its handle may be reused.
  void forget(std::uint64_t key) {
    Entry& entry = entries_[slot_of(key)];
    if (entry.key.load(std::memory_order_relaxed) == key) entry.key.store(0, std::memory_order_relaxed);
  }

  // Adds a measurement.
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
    // For an uneven kernel, a run of short launches is not significant.
    const std::int64_t slowness = uneven(key) && !young(key) ? 32 : 8;
    entry.spread_ns.store(spread + (off - spread) / 8, std::memory_order_relaxed);
    set(key, mean + (measured_ns - mean) / slowness);
  }

  // Adds the measurement of one launch that nothing else of its share ran beside.
  void learn_lone(std::uint64_t key, std::int64_t measured_ns) {
    Entry& entry = entries_[slot_of(key)];
    const bool first = known_ns(key) == 0 || entry.seen.load(std::memory_order_relaxed) == 0;
    const std::uint32_t lone = first ? 0 : entry.lone.load(std::memory_order_relaxed);
    const std::int64_t least_ns = entry.least_ns.load(std::memory_order_relaxed);
    const bool begins = lone % kWindow == 0;
    if (begins) entry.least_before_ns.store(lone == 0 ? measured_ns : least_ns, std::memory_order_relaxed);
    const std::int64_t now_ns = begins ? measured_ns : std::min(least_ns, measured_ns);
    entry.least_ns.store(now_ns, std::memory_order_relaxed);
    entry.lone.store(lone + 1, std::memory_order_relaxed);
    learn(key, measured_ns);
    const std::int64_t shortest_ns = std::min(now_ns, entry.least_before_ns.load(std::memory_order_relaxed));
    const std::int64_t mean_ns = known_ns(key);
    if (shortest_ns > mean_ns || (!uneven(key) && shortest_ns > mean_ns / 2)) set(key, shortest_ns);
  }

 private:
  static constexpr std::uint32_t kWindow = 8;
  struct Entry {
    std::atomic<std::uint64_t> key;
    std::atomic<std::int64_t> mean_ns;
    std::atomic<std::int64_t> spread_ns;  // mean distance from the mean
    std::atomic<std::uint32_t> seen;      // measurements, at most kYoung
    std::atomic<std::int64_t> call_ns;    // of a launch
    std::atomic<std::int64_t> doubt_ns;   // of the last bracket on an idle stream
    std::atomic<std::int64_t> proven_ns;  // mean length of launches behind others; 0: none yet
    std::atomic<std::int64_t> proof_asked_ns;
    std::atomic<std::uint32_t> lone;                      // measurements of lone launches
    std::atomic<std::int64_t> least_ns, least_before_ns;  // of this window of these, and of the one before
    std::atomic<std::int64_t> undivided;  // launches whose length without others' work is known, at most kMaxUndivided
    std::atomic<std::int64_t> undivided_ns;  // their mean
    std::atomic<std::int64_t> undivided_spread_ns;
  };
  void set(std::uint64_t key, std::int64_t mean_ns) {
    Entry& entry = entries_[slot_of(key)];
    if (entry.key.load(std::memory_order_relaxed) != key) {  // doubts about another kernel do not apply
      entry.call_ns.store(0, std::memory_order_relaxed);
      entry.doubt_ns.store(0, std::memory_order_relaxed);
      entry.proven_ns.store(0, std::memory_order_relaxed);
      entry.lone.store(0, std::memory_order_relaxed);
      entry.undivided.store(0, std::memory_order_relaxed);
    }
    entry.mean_ns.store(std::clamp<std::int64_t>(mean_ns, 500, 10'000'000'000), std::memory_order_relaxed);
    entry.key.store(key, std::memory_order_relaxed);
  }
  std::array<Entry, kEntries> entries_{};
};

}  // namespace headgate::limiter
