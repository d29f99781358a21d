#include "guest/ledger/compute_account.hpp"

#include <algorithm>

namespace headgate::ledger {
namespace {

constexpr std::uint64_t kBits = (1ull << kCoverageBits) - 1;

// std::popcount would call libgcc, which guests do not link.
constexpr int ones(std::uint64_t bits) {
  bits -= bits >> 1 & 0x5555'5555'5555'5555;
  bits = (bits & 0x3333'3333'3333'3333) + (bits >> 2 & 0x3333'3333'3333'3333);
  bits = (bits + (bits >> 4)) & 0x0f0f'0f0f'0f0f'0f0f;
  return static_cast<int>(bits * 0x0101'0101'0101'0101 >> 56);
}

constexpr std::int16_t kMostTurnsAhead = 16;  // 1.6 s: no settlement is so late, see charge_running

// Marks `bits` in a word that belongs to turn `epoch` of the ring; returns how many were new.
int mark(std::atomic<std::uint64_t>& word, std::uint16_t epoch, std::uint64_t bits) {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  while (true) {
    const auto seen_epoch = static_cast<std::uint16_t>(seen >> kCoverageBits);
    const auto ahead = static_cast<std::int16_t>(static_cast<std::uint16_t>(seen_epoch - epoch));
    // The ring has gone on: nobody can tell any more. Further ahead than that is a word left over from long ago.
    if (ahead > 0 && ahead <= kMostTurnsAhead) return ones(bits);
    const std::uint64_t old_bits = seen_epoch == epoch ? seen & kBits : 0;
    const std::uint64_t wanted = static_cast<std::uint64_t>(epoch) << kCoverageBits | old_bits | bits;
    if (wanted == seen) return 0;
    if (word.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) return ones(bits & ~old_bits);
  }
}

}  // namespace

std::int64_t cover(ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns) {
  std::int64_t tick = (from_ns + kCoverageNs / 2) / kCoverageNs;
  const std::int64_t end = (to_ns + kCoverageNs / 2) / kCoverageNs;
  std::int64_t fresh = 0;
  if (end - tick > kCoverageBits * kCoverageWords) {
    fresh = end - tick - kCoverageBits * kCoverageWords;
    tick += fresh;
  }
  while (tick < end) {
    const std::int64_t word = tick / kCoverageBits;
    const std::int64_t first = tick % kCoverageBits;
    const std::int64_t count = std::min(kCoverageBits - first, end - tick);
    const std::uint64_t bits = (count == kCoverageBits ? kBits : (1ull << count) - 1) << first;
    fresh += mark(account.coverage[word % kCoverageWords], static_cast<std::uint16_t>(word / kCoverageWords), bits);
    tick += count;
  }
  return fresh * kCoverageNs;
}

bool held_throughout(const ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns) {
  const std::int64_t first = from_ns / (kCoverageNs * kCoverageBits) + 1, end = to_ns / (kCoverageNs * kCoverageBits);
  if (first >= end || end - first >= kCoverageWords) return false;
  for (std::int64_t word = first; word < end; ++word) {
    const std::uint64_t wanted =
        static_cast<std::uint64_t>(static_cast<std::uint16_t>(word / kCoverageWords)) << kCoverageBits | kBits;
    if (account.coverage[word % kCoverageWords].load(std::memory_order_relaxed) != wanted) return false;
  }
  return true;
}

namespace {

// Where a charge begins. Lateness is made up for; whoever was away longer than any lateness begins now.
std::int64_t base(std::int64_t paid_ns, std::int64_t now_ns, std::int64_t catch_up_ns) {
  if (now_ns - paid_ns > 4 * catch_up_ns) return now_ns;
  return std::max(paid_ns, now_ns - catch_up_ns);
}

}  // namespace

std::int64_t try_charge(ComputeAccount& account, std::int64_t now_ns, std::int64_t gpu_ns, std::uint32_t ceiling_ppm,
                        std::int64_t catch_up_ns) {
  std::int64_t paid = account.paid_until_ns.load(std::memory_order_relaxed);
  while (true) {
    if (paid > now_ns) return paid - now_ns;
    const std::int64_t next = base(paid, now_ns, catch_up_ns) + price_ns(gpu_ns, ceiling_ppm);
    if (account.paid_until_ns.compare_exchange_weak(paid, next, std::memory_order_relaxed)) return 0;
  }
}

void charge_debt(ComputeAccount& account, std::int64_t now_ns, std::int64_t gpu_ns, std::uint32_t ceiling_ppm,
                 std::int64_t catch_up_ns) {
  std::int64_t paid = account.paid_until_ns.load(std::memory_order_relaxed);
  while (!account.paid_until_ns.compare_exchange_weak(
      paid, base(paid, now_ns, catch_up_ns) + price_ns(gpu_ns, ceiling_ppm), std::memory_order_relaxed)) {
  }
}

void correct(ComputeAccount& account, std::int64_t gpu_ns, std::uint32_t ceiling_ppm) {
  account.paid_until_ns.fetch_add(price_ns(gpu_ns, ceiling_ppm), std::memory_order_relaxed);
}

}  // namespace headgate::ledger
