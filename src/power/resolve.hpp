// What settings that people write mean for each GPU: percentages, defaults and budgets become watts. Pure, but for
// limits_of().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/power_settings.hpp"
#include "power/control_queues.hpp"
#include "power/settings.hpp"

namespace headgate::power {

struct GpuLimits {
  std::uint32_t index = 0;
  std::string uuid;
  std::optional<PowerRange> range;
  std::optional<std::uint32_t> default_mw;
};

// Of a GPU below queues.count().
[[nodiscard]] GpuLimits limits_of(const ControlQueues& queues, std::uint32_t index);

// Errors: usage (a limit outside a GPU's range, with the range; a budget that is less than the least limits together),
// unsupported (the GPU does not tell the range that a percentage needs): then nothing is to be set on any GPU.
[[nodiscard]] Result<SettingsByGpu> resolve(const config::PowerSettings& wanted, const std::vector<GpuLimits>& gpus);

// What a reset makes: what the site's own settings name, and of the rest the driver's default limit and clocks that are
// not locked. Errors: of resolve().
[[nodiscard]] Result<SettingsByGpu> reset_settings(const config::PowerSettings& site,
                                                   const std::vector<GpuLimits>& gpus);

// Parts of `budget` by weight, each within its GPU's range: what one GPU may not take goes to the others. All in mW.
struct BudgetPart {
  std::uint32_t weight = 1;
  PowerRange range;
};
// Errors: usage, where the least limits together are more than the budget.
[[nodiscard]] Result<std::vector<std::uint32_t>> split_budget(std::uint32_t budget_mw,
                                                              const std::vector<BudgetPart>& parts);

}  // namespace headgate::power
