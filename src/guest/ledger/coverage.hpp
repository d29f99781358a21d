// Which microseconds of the recent past are marked: a lock-free ring of words, shared between processes.
//
// Word w of the ring holds 48 microseconds and the low 16 bits of the ring's turn they belong to, so leftovers of an
// earlier turn count as unmarked. mark() reports which bits it turned from 0 to 1: marks in any order, by any number of
// processes, give the exact union. Both ends of an interval round to the nearest microsecond, which leaves no bias and
// keeps adjacent intervals adjacent.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

namespace headgate::ledger {

inline constexpr std::int64_t kCoverageNs = 1'000;
inline constexpr std::int64_t kCoverageBits = 48;
inline constexpr std::int64_t kCoverageWordNs = kCoverageNs * kCoverageBits;
inline constexpr std::int64_t kMapMarginNs = 50'000;  // accuracy of two contexts' times, each by its own map
inline constexpr std::uint64_t kCoverageMask = (1ull << kCoverageBits) - 1;

template <std::size_t Words>
class Coverage {
 public:
  static constexpr std::int64_t kWords = static_cast<std::int64_t>(Words);
  static constexpr std::int64_t kSpanNs = kCoverageNs * kCoverageBits * kWords;

  // Marks [from_ns, to_ns) of host time; returns how much of it was not marked before, in ns. Time older than the ring
  // counts as unmarked.
  std::int64_t mark(std::int64_t from_ns, std::int64_t to_ns) {
    std::int64_t tick = (from_ns + kCoverageNs / 2) / kCoverageNs;
    const std::int64_t end = (to_ns + kCoverageNs / 2) / kCoverageNs;
    std::int64_t fresh = 0;
    if (end - tick > kCoverageBits * kWords) {
      fresh = end - tick - kCoverageBits * kWords;
      tick += fresh;
    }
    while (tick < end) {
      const std::int64_t word = tick / kCoverageBits;
      const std::int64_t first = tick % kCoverageBits;
      const std::int64_t count = std::min(kCoverageBits - first, end - tick);
      fresh += mark_word(word, (count == kCoverageBits ? kCoverageMask : (1ull << count) - 1) << first);
      tick += count;
    }
    return fresh * kCoverageNs;
  }

  // Returns the marks of the 48 microseconds that begin at word * 48 us, the earliest in the lowest bit.
  std::uint64_t word(std::int64_t word) const {
    const std::uint64_t seen = words_[word % kWords].load(std::memory_order_relaxed);
    return seen >> kCoverageBits == turn(word) ? seen & kCoverageMask : 0;
  }

  // Returns how much of the words [first, end) is marked, in ns.
  std::int64_t marked_ns(std::int64_t first, std::int64_t end) const {
    std::int64_t marked = 0;
    for (std::int64_t each = first; each < end; ++each) marked += ones(word(each));
    return marked * kCoverageNs;
  }

  void clear() {
    for (std::atomic<std::uint64_t>& word : words_) word.store(0, std::memory_order_relaxed);
  }

  // Copies words [first, end), less than a ring, from `other`. No other writer may be active here.
  void copy(const Coverage& other, std::int64_t first, std::int64_t end) {
    for (std::int64_t word = first; word < end; ++word) {
      const std::uint64_t theirs = other.words_[word % kWords].load(std::memory_order_relaxed);
      std::atomic<std::uint64_t>& ours = words_[word % kWords];
      if (ours.load(std::memory_order_relaxed) != theirs) ours.store(theirs, std::memory_order_relaxed);
    }
  }

 private:
  static constexpr std::int16_t kMaxTurnsAhead = 16;  // no settlement is that late

  static std::uint16_t turn(std::int64_t word) { return static_cast<std::uint16_t>(word / kWords); }

  // std::popcount would call libgcc, which guest code does not link.
  static constexpr int ones(std::uint64_t bits) {
    bits -= bits >> 1 & 0x5555'5555'5555'5555;
    bits = (bits & 0x3333'3333'3333'3333) + (bits >> 2 & 0x3333'3333'3333'3333);
    bits = (bits + (bits >> 4)) & 0x0f0f'0f0f'0f0f'0f0f;
    return static_cast<int>(bits * 0x0101'0101'0101'0101 >> 56);
  }

  int mark_word(std::int64_t number, std::uint64_t bits) {
    std::atomic<std::uint64_t>& word = words_[number % kWords];
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    while (true) {
      const auto seen_turn = static_cast<std::uint16_t>(seen >> kCoverageBits);
      const auto ahead = static_cast<std::int16_t>(static_cast<std::uint16_t>(seen_turn - turn(number)));
      // The ring has moved on, so this cannot be known any more. A larger distance is a word left over from long ago.
      if (ahead > 0 && ahead <= kMaxTurnsAhead) return ones(bits);
      const std::uint64_t old_bits = ahead == 0 ? seen & kCoverageMask : 0;
      const std::uint64_t wanted = static_cast<std::uint64_t>(turn(number)) << kCoverageBits | old_bits | bits;
      if (wanted == seen) return 0;
      if (word.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) return ones(bits & ~old_bits);
    }
  }

  std::atomic<std::uint64_t> words_[Words];
};

// Returns whether all of [from_ns, to_ns) is marked; false if it reaches back further than the ring.
template <std::size_t Words>
bool marked_throughout(const Coverage<Words>& coverage, std::int64_t from_ns, std::int64_t to_ns) {
  const std::int64_t first = from_ns / (kCoverageNs * kCoverageBits) + 1, end = to_ns / (kCoverageNs * kCoverageBits);
  if (first >= end || end - first >= Coverage<Words>::kWords) return false;
  for (std::int64_t word = first; word < end; ++word)
    if (coverage.word(word) != kCoverageMask) return false;
  return true;
}

}  // namespace headgate::ledger
