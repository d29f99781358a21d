#include <algorithm>

#include "config/power_toml.hpp"

namespace headgate::config {
namespace {

constexpr const char* kProfileAccepted =
    "accepted in [power.profile.NAME]: power_limit, gpu_clocks, mem_clocks, persistence, compute_mode, "
    "time_slice, budget, weights";
constexpr std::size_t kMaxName = 64;

// Returns what would be accepted if the value is not; empty on success.
std::string take(const std::string& key, const toml::node& node, PowerSettings& settings) {
  const std::string text = node.is_string() ? node.as_string()->get() : "";
  const auto said = [](bool taken, std::string_view accepted) {
    return taken ? std::string() : "accepted: " + std::string(accepted);
  };
  if (key == "power_limit")
    return said((settings.power_limit = parse_power_limit(text)).has_value(), kAcceptedPowerLimit);
  if (key == "gpu_clocks") return said((settings.gpu_mhz = parse_clocks(text)).has_value(), kAcceptedClocks);
  if (key == "mem_clocks") return said((settings.mem_mhz = parse_clocks(text)).has_value(), kAcceptedClocks);
  if (key == "budget") return said((settings.budget_mw = parse_milliwatts(text)).has_value(), kAcceptedWatts);
  if (key == "compute_mode")
    return said((settings.compute_mode = parse_compute_mode(text)).has_value(), kAcceptedComputeMode);
  if (key == "time_slice") return said((settings.time_slice = parse_time_slice(text)).has_value(), kAcceptedTimeSlice);
  if (key == "persistence") {
    if (node.is_boolean()) settings.persistence = node.value_or(false);
    return said(node.is_boolean(), "true or false");
  }
  if (key != "weights") return kProfileAccepted;
  const toml::array* array = node.as_array();
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const std::int64_t weight = (*array)[i].is_integer() ? (*array)[i].value_or<std::int64_t>(0) : 0;
    if (weight < 1 || weight > 1000) array = nullptr;
    else settings.weights.push_back(static_cast<std::uint32_t>(weight));
  }
  return said(array != nullptr && !array->empty(), "a list of numbers from 1 to 1000, one for each GPU");
}

}  // namespace

void read_power_profiles(const toml::node& node, const std::string& file, std::vector<PowerProfile>& profiles,
                         std::vector<Error>& errors) {
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    errors.push_back({ErrorCode::usage,
                      place_in(file, node.source()) + ": power.profile is no table: write [power.profile.NAME]",
                      kProfileAccepted});
    return;
  }
  for (const auto& [part, entry] : *table) {
    const std::string name(part.str()), where = place_in(file, entry.source()) + ": power.profile." + name;
    const toml::table* of = entry.as_table();
    if (of == nullptr || name.empty() || name.size() > kMaxName) {
      errors.push_back({ErrorCode::usage, where + " is no table of settings", kProfileAccepted});
      continue;
    }
    PowerProfile profile{.name = name, .settings = {}, .origin = place_in(file, entry.source())};
    const std::size_t before = errors.size();
    for (const auto& [key, value] : *of) {
      const std::string accepted = take(std::string(key.str()), value, profile.settings);
      if (!accepted.empty())
        errors.push_back({ErrorCode::usage,
                          place_in(file, value.source()) + ": power.profile." + name + "." + std::string(key.str()) +
                              " = " + node_text(value) + " is not accepted",
                          accepted});
    }
    if (errors.size() > before) continue;
    if (auto sound = check_power_settings(profile.settings); !sound) {
      errors.push_back({ErrorCode::usage, where + ": " + sound.error().message, kProfileAccepted});
      continue;
    }
    std::erase_if(profiles, [&name](const PowerProfile& one) { return one.name == name; });
    profiles.push_back(std::move(profile));
  }
}

}  // namespace headgate::config
