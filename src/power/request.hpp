// What a caller of /v1/power asks for: GPUs, and settings for them as people write them. Plain values, read from JSON.
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
  std::vector<std::string> gpus;  // indices or UUIDs, "all" alone: all
  std::string profile;            // a profile's name instead of `wanted`; empty: none
  config::PowerSettings wanted;
  std::uint32_t holder_pid = 0, ttl_s = 0;  // of a lease
  bool dry_run = false;
  friend bool operator==(const PowerRequest&, const PowerRequest&) = default;
};

inline constexpr std::uint32_t kMaxTtlS = 30 * 86'400;

enum class RequestKind { settings, reset, lease };

// {"gpus": [0, "GPU-..."], "settings": {...}, "dry_run": true}; a reset without settings, a lease with "holder_pid",
// "ttl_s" or both. Errors: usage, with the key and what is accepted.
[[nodiscard]] Result<PowerRequest> parse_power_request(RequestKind kind, std::string_view json);

// {"power_limit": "80%", "gpu_clocks": "210-1200MHz", ...}
[[nodiscard]] std::string settings_json(const config::PowerSettings& settings);

}  // namespace headgate::power
