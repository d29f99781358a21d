// A request to /v1/power: GPUs, and settings as users write them, parsed from JSON; and what the settings mean for each
// GPU: percentages, defaults and budgets become watts. Pure, except for limits_of().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/power_settings.hpp"
#include "power/control_queues.hpp"
#include "power/settings.hpp"

namespace headgate::power {

using Profile = config::PowerProfile;

struct PowerRequest {
  std::vector<std::string> gpus;  // indices or UUIDs; "all" must be the only one
  std::string profile;            // name of a profile, instead of `wanted`; empty: none
  config::PowerSettings wanted;
  std::uint32_t holder_pid = 0, ttl_s = 0;  // for a lease
  bool dry_run = false;
  friend bool operator==(const PowerRequest&, const PowerRequest&) = default;
};

inline constexpr std::uint32_t kMaxTtlS = 30 * 86'400;

enum class RequestKind { settings, reset, lease };

// {"gpus": [0, "GPU-..."], "settings": {...}, "dry_run": true}; a reset has no settings; a lease has "holder_pid",
// "ttl_s" or both. Errors: usage, naming the key and what is accepted.
[[nodiscard]] Result<PowerRequest> parse_power_request(RequestKind kind, std::string_view json);

// {"power_limit": "80%", "gpu_clocks": "210-1200MHz", ...}
[[nodiscard]] std::string settings_json(const config::PowerSettings& settings);

struct GpuLimits {
  std::uint32_t index = 0;
  std::string uuid;
  std::optional<PowerRange> range;
  std::optional<std::uint32_t> default_mw;
};

// Returns the limits of a GPU below queues.count().
[[nodiscard]] GpuLimits limits_of(const ControlQueues& queues, std::uint32_t index);

// Errors, after which nothing may be set: usage (a limit outside a GPU's range, with the range; a budget below the sum
// of minimum limits), unsupported (a percentage, but the GPU reports no range).
[[nodiscard]] Result<SettingsByGpu> resolve(const config::PowerSettings& wanted, const std::vector<GpuLimits>& gpus);

// Returns the settings for a reset: the site's own settings, and for the rest the driver's default limit and unlocked
// clocks. Errors: those of resolve().
[[nodiscard]] Result<SettingsByGpu> reset_settings(const config::PowerSettings& site,
                                                   const std::vector<GpuLimits>& gpus);

// Splits `budget` by weight within each GPU's range; what one GPU cannot take goes to the others. All in mW.
struct BudgetPart {
  std::uint32_t weight = 1;
  PowerRange range;
};
// Errors: usage if the sum of minimum limits exceeds the budget.
[[nodiscard]] Result<std::vector<std::uint32_t>> split_budget(std::uint32_t budget_mw,
                                                              const std::vector<BudgetPart>& parts);

}  // namespace headgate::power
