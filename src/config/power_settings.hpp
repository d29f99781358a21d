// GPU settings as users write them in requests and in [power.profile.NAME]: "300W", "80%", "210-1200MHz". Percentages
// and budgets are resolved once a GPU's range is known (power/request.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/power_grants.hpp"

namespace headgate::config {

struct PowerLimit {
  enum class Kind { milliwatts, of_maximum, standard };
  Kind kind = Kind::milliwatts;
  std::uint32_t value =
      0;  // milliwatts, or thousandths of a percent of the GPU's maximum limit; standard: the driver's default
  friend bool operator==(const PowerLimit&, const PowerLimit&) = default;
};

// Empty fields are not set.
struct PowerSettings {
  std::optional<PowerLimit> power_limit;
  std::optional<Range> gpu_mhz, mem_mhz;  // {0, 0}: not locked
  std::optional<bool> persistence;
  std::optional<std::uint32_t> compute_mode;  // 0, 2 or 3, as NVML numbers them
  std::optional<std::uint32_t> time_slice;    // 0 default, 1 short, 2 medium, 3 long, as nvidia-smi numbers them
  std::optional<std::uint32_t> budget_mw;     // instead of power_limit: of all named GPUs together
  std::vector<std::uint32_t> weights;         // of the budget's parts, in the order of the GPUs; missing ones are 1
  friend bool operator==(const PowerSettings&, const PowerSettings&) = default;

  [[nodiscard]] bool empty() const { return *this == PowerSettings{}; }
};

// [power.profile.NAME] of the configuration.
struct PowerProfile {
  std::string name;
  PowerSettings settings;
  std::string origin;  // "/etc/headgate/config.toml:12"
  friend bool operator==(const PowerProfile&, const PowerProfile&) = default;
};

inline constexpr std::string_view kAcceptedPowerLimit = "300W, 80% of the GPU's greatest limit, or default";
inline constexpr std::string_view kAcceptedWatts = "a number of watts: 300W";
inline constexpr std::string_view kAcceptedClocks = "1200MHz, 210-1200MHz, or none: not locked";
inline constexpr std::string_view kAcceptedComputeMode = "default, exclusive process or prohibited";
inline constexpr std::string_view kAcceptedTimeSlice = "default, short, medium or long";

// Each returns nothing if the text is not valid.
[[nodiscard]] std::optional<std::uint32_t> parse_milliwatts(std::string_view text);
[[nodiscard]] std::optional<PowerLimit> parse_power_limit(std::string_view text);
[[nodiscard]] std::optional<Range> parse_clocks(std::string_view text);
[[nodiscard]] std::optional<std::uint32_t> parse_compute_mode(std::string_view text);
[[nodiscard]] std::optional<std::uint32_t> parse_time_slice(std::string_view text);

// The inverse of the parsers: "300W", "80%", "210-1200MHz".
[[nodiscard]] std::string format_power_limit(const PowerLimit& limit);
[[nodiscard]] std::string format_clocks(const Range& mhz);
[[nodiscard]] std::string_view format_compute_mode(std::uint32_t mode);
[[nodiscard]] std::string_view format_time_slice(std::uint32_t length);

// Checks the combination: no budget with a power limit, no weights without a budget, no weight of 0, at least one
// setting. Errors: usage.
[[nodiscard]] Result<void> check_power_settings(const PowerSettings& settings);

}  // namespace headgate::config
