#include <algorithm>
#include <cmath>

#include "config/power_toml.hpp"

namespace headgate::config {
namespace {

constexpr const char* kAccepted =
    "accepted in [[power.grant]]: users, groups = [names]; gpus = [indices or UUIDs]; watts, mhz, memory_mhz = [least, "
    "most]; persistence = true";

struct GrantReader {
  const std::string& file;
  std::vector<Error>& errors;

  std::string at(const toml::node& node) const { return place_in(file, node.source()); }

  void refuse(const std::string& key, const toml::node& node, const std::string& why) const {
    errors.push_back(
        {ErrorCode::usage, at(node) + ": power.grant." + key + " = " + node_text(node) + " " + why, kAccepted});
  }

  // Accepts texts and whole numbers, stored as text.
  void take_names(const std::string& key, const toml::node& node, std::vector<std::string>& names) const {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->empty()) return refuse(key, node, "is no list");
    for (const toml::node& one : *array) {
      const auto* text = one.as_string();
      const bool number = one.is_integer() && one.value_or<std::int64_t>(-1) >= 0;
      if (text != nullptr ? text->get().empty() : !number) return refuse(key, node, "has an entry that is no name");
      names.push_back(text != nullptr ? text->get() : node_text(one));
    }
  }

  // Reads two numbers, the first not above the second, and stores each times `factor`.
  void take_range(const std::string& key, const toml::node& node, double factor, std::optional<Range>& range) const {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->size() != 2) return refuse(key, node, "is no pair of numbers");
    double bounds[2];
    for (std::size_t i = 0; i < 2; ++i) {
      const toml::node& one = (*array)[i];
      const double value = one.is_number() ? one.value_or(-1.0) * factor : -1;
      if (!(value >= 0 && value <= 4e9)) return refuse(key, node, "has an entry that is no number");
      bounds[i] = std::round(value);
    }
    if (bounds[0] > bounds[1]) return refuse(key, node, "has a minimum above its maximum");
    range = Range{static_cast<std::uint32_t>(bounds[0]), static_cast<std::uint32_t>(bounds[1])};
  }

  void take(const std::string& key, const toml::node& node, PowerGrant& grant) const {
    if (key == "users") return take_names(key, node, grant.users);
    if (key == "groups") return take_names(key, node, grant.groups);
    if (key == "gpus") return take_names(key, node, grant.gpus);
    if (key == "watts") return take_range(key, node, 1000, grant.milliwatts);
    if (key == "mhz") return take_range(key, node, 1, grant.mhz);
    if (key == "memory_mhz") return take_range(key, node, 1, grant.memory_mhz);
    if (key != "persistence") return refuse(key, node, "is not known");
    if (!node.is_boolean()) return refuse(key, node, "is neither true nor false");
    grant.persistence = node.value_or(false);
  }
};

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

void read_power_grants(const toml::node& node, const std::string& file, std::vector<PowerGrant>& grants,
                       std::vector<Error>& errors) {
  const GrantReader reader{file, errors};
  const toml::array* array = node.as_array();
  if (array == nullptr) return reader.refuse("", node, "is no array of tables: write [[power.grant]]");
  for (const toml::node& entry : *array) {
    const toml::table* table = entry.as_table();
    if (table == nullptr) return reader.refuse("", entry, "is no table: write [[power.grant]]");
    PowerGrant grant;
    grant.origin = reader.at(entry);
    const std::size_t before = errors.size();
    for (const auto& [key, value] : *table) reader.take(std::string(key.str()), value, grant);
    if (errors.size() > before) continue;
    if (grant.users.empty() && grant.groups.empty()) {
      errors.push_back(
          {ErrorCode::usage, grant.origin + ": this power.grant names neither users nor groups", kAccepted});
    } else if (!grant.milliwatts && !grant.mhz && !grant.memory_mhz && !grant.persistence) {
      errors.push_back({ErrorCode::usage, grant.origin + ": this power.grant grants nothing", kAccepted});
    } else {
      grants.push_back(std::move(grant));
    }
  }
}

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
