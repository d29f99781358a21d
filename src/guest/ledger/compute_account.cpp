#include "guest/ledger/compute_account.hpp"

#include <algorithm>

namespace headgate::ledger {
std::int64_t cover(ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns) {
  return account.coverage.mark(from_ns, to_ns);
}

bool held_throughout(const ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns) {
  return marked_throughout(account.coverage, from_ns, to_ns);
}

namespace {

// Where a charge begins. Lateness is made up for; whoever was away longer than any lateness begins now.
std::int64_t base(std::int64_t word, std::int64_t now_ns, std::int64_t catch_up_ns) {
  const std::int64_t paid_ns = sane_paid_ns(word);
  if (now_ns - paid_ns > 4 * catch_up_ns) return now_ns;
  return std::max(paid_ns, now_ns - catch_up_ns);
}

}  // namespace

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
