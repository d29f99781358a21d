#include "node/report_check.hpp"

#include <algorithm>

namespace headgate::node {
namespace {

constexpr std::int64_t kMaxCreditNs = 100'000'000, kBelievedNs = 100'000'000, kMaxDebtNs = 1'000'000'000;
// Time that a share held beside others that were not done either may mostly be given back later
// (guest/ledger/gpu_page.hpp).
constexpr std::int64_t kMinPart = 4;

}  // namespace

bool ReportCheck::holds(std::int64_t alone_ns, std::int64_t held_ns, std::int64_t now_ns) {
  // A share cannot hold a GPU longer than time passes: figures that jump back and forth would support anything.
  const std::int64_t passed_ns = looked_ns_ == 0 ? 0 : std::clamp<std::int64_t>(now_ns - looked_ns_, 0, kMaxDebtNs);
  const auto more_ns =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(held_ns) - static_cast<std::uint64_t>(held_ns_));
  const std::int64_t grown_ns = looked_ns_ == 0 ? 0 : std::clamp(more_ns, -kMaxDebtNs, passed_ns);
  held_ns_ = held_ns;
  looked_ns_ = now_ns;
  credit_ns_ =
      std::clamp(std::min(credit_ns_ + kMinPart * grown_ns, kMaxCreditNs) - alone_ns, -kMaxDebtNs, kMaxCreditNs);
  return credit_ns_ > -kBelievedNs;
}

}  // namespace headgate::node
