// A request to /v1/power: GPUs, and settings as users write them. Plain values, parsed from JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/power_settings.hpp"

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

}  // namespace headgate::power
