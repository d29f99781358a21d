#include "api/operation_rate.hpp"

#include <algorithm>

namespace headgate::api {
namespace {

constexpr std::size_t kMaxIdle = 1024;

}  // namespace

Result<void> OperationRate::take(std::uint32_t uid, std::uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  constexpr double kFullAfterNs = kBurst / kPerSecond * 1e9;
  if (budgets_.size() > kMaxIdle)
    std::erase_if(budgets_,
                  [&](const auto& entry) { return static_cast<double>(now_ns - entry.second.at_ns) >= kFullAfterNs; });
  Budget& budget = budgets_.try_emplace(uid, Budget{.left = kBurst, .at_ns = now_ns}).first->second;
  const std::uint64_t passed_ns = now_ns > budget.at_ns ? now_ns - budget.at_ns : 0;
  budget.left = std::min(kBurst, budget.left + static_cast<double>(passed_ns) * kPerSecond / 1e9);
  budget.at_ns = now_ns;
  if (budget.left < 1)
    return fail(ErrorCode::busy,
                "too many operations: a user has " + std::to_string(static_cast<int>(kBurst)) + " at once and " +
                    std::to_string(static_cast<int>(kPerSecond)) + " a second",
                "try again in a second");
  budget.left -= 1;
  return {};
}

}  // namespace headgate::api
