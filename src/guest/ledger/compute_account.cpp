#include "guest/ledger/compute_account.hpp"

#include <algorithm>

namespace headgate::ledger {
std::int64_t cover(ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns) {
  return account.coverage.mark(from_ns, to_ns);
}

std::int64_t cover_apart(ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns) {
  const std::int64_t inner_from_ns = std::min(from_ns + kMapMarginNs, to_ns);
  const std::int64_t inner_to_ns = std::max(to_ns - kMapMarginNs, inner_from_ns);
  const std::int64_t inner_ns = cover(account, inner_from_ns, inner_to_ns);
  const std::int64_t fresh_ns = inner_ns + cover(account, from_ns, inner_from_ns) + cover(account, inner_to_ns, to_ns);
  // What another context had in between is no error of a map.
  if (inner_ns < inner_to_ns - inner_from_ns - kCoverageNs) return fresh_ns;
  std::int64_t missing_ns = to_ns - from_ns - fresh_ns;
  const auto mark_beside = [&](std::int64_t ns) {
    if (missing_ns >= kCoverageNs) missing_ns -= cover(account, ns, ns + kCoverageNs);
  };
  for (std::int64_t off_ns = 0; off_ns < kMapMarginNs; off_ns += kCoverageNs) {
    mark_beside(to_ns + off_ns);
    mark_beside(from_ns - off_ns - kCoverageNs);
  }
  return to_ns - from_ns - missing_ns;
}

bool held_throughout(const ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns) {
  return marked_throughout(account.coverage, from_ns, to_ns);
}

namespace {

// Returns where a charge begins. Makes up for lateness up to catch_up_ns; after a longer absence, starts at now.
std::int64_t base(std::int64_t word, std::int64_t now_ns, std::int64_t catch_up_ns) {
  const std::int64_t paid_ns = sane_paid_ns(word);
  if (now_ns - paid_ns > 4 * catch_up_ns) return now_ns;
  return std::max(paid_ns, now_ns - catch_up_ns);
}

// A larger debt can only come from a corrupted page, and would overflow.
constexpr std::int64_t kMaxOwedNs = 1ll << 50;

void reprice(ComputeAccount& account, std::uint32_t ppm, std::int64_t now_ns) {
  std::uint64_t before = account.priced_ppm.load(std::memory_order_relaxed);
  // The process that changes the price also moves the debt; killed in between, it leaves the debt unchanged.
  if (before == ppm || !account.priced_ppm.compare_exchange_strong(before, ppm, std::memory_order_relaxed)) return;
  if (before == 0 || before > kWholeGpu) return;
  std::int64_t paid = account.paid_until_ns.load(std::memory_order_relaxed), next = 0;
  do {
    const std::int64_t owed_ns = sane_paid_ns(paid) - now_ns;
    if (owed_ns <= 0 || owed_ns > kMaxOwedNs) return;
    const auto gpu_ns =
        static_cast<std::int64_t>(static_cast<double>(owed_ns) * static_cast<double>(before) / kWholeGpu);
    next = now_ns + price_ns(gpu_ns, ppm);
  } while (!account.paid_until_ns.compare_exchange_weak(paid, next, std::memory_order_relaxed));
}

}  // namespace

std::uint32_t rate_now(ComputeAccount& account, std::uint32_t ceiling_ppm, std::uint32_t burst_ppm,
                       std::int64_t now_ns) {
  const bool alone = burst_ppm > ceiling_ppm && now_ns < account.alone_until_ns.load(std::memory_order_relaxed);
  const std::uint32_t ppm = alone ? burst_ppm : ceiling_ppm;
  reprice(account, ppm, now_ns);
  return ppm;
}

std::uint32_t rate_in_force(const ComputeAccount& account, std::uint32_t ceiling_ppm) {
  const std::uint64_t ppm = account.priced_ppm.load(std::memory_order_relaxed);
  return ppm == 0 || ppm > kWholeGpu ? ceiling_ppm : static_cast<std::uint32_t>(ppm);
}

std::int64_t try_charge(ComputeAccount& account, std::int64_t now_ns, std::int64_t gpu_ns, std::uint32_t ceiling_ppm,
                        std::int64_t catch_up_ns) {
  std::int64_t paid = account.paid_until_ns.load(std::memory_order_relaxed);
  while (true) {
    if (paid > now_ns) return sane_paid_ns(paid) - now_ns;
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
