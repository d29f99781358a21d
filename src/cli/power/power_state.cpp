#include "cli/power/power_state.hpp"

#include <nlohmann/json.hpp>

#include "config/power_settings.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

std::unexpected<Error> not_understood() {
  return fail(ErrorCode::failed, "headgated: its answer about power is not understood",
              "command and daemon may be of different releases: headgate version");
}

// A missing value, or one of another type, counts as null.
std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}
std::optional<std::uint64_t> number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_unsigned() ? std::optional(found->get<std::uint64_t>()) : std::nullopt;
}
std::optional<bool> flag_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() ? std::optional(found->get<bool>()) : std::nullopt;
}
const Json& list_at(const Json& json, const char* key) {
  static const Json kNone = Json::array();
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? *found : kNone;
}
std::vector<std::string> texts_at(const Json& json, const char* key) {
  std::vector<std::string> all;
  for (const Json& one : list_at(json, key))
    if (one.is_string()) all.push_back(one.get<std::string>());
  return all;
}
std::optional<ClockSpan> clocks_at(const Json& json, const char* key) {
  const Json& span = list_at(json, key);
  if (span.size() != 2 || !span[0].is_number_unsigned() || !span[1].is_number_unsigned()) return std::nullopt;
  return ClockSpan{span[0].get<std::uint32_t>(), span[1].get<std::uint32_t>()};
}

std::int64_t seconds_at(const Json& json, const char* key) {
  return static_cast<std::int64_t>(number_at(json, key).value_or(0));
}

PowerGpu gpu_from(const Json& json) {
  PowerGpu gpu;
  gpu.index = static_cast<std::uint32_t>(number_at(json, "index").value_or(0));
  gpu.uuid = text_at(json, "uuid");
  gpu.model = text_at(json, "model");
  for (const auto& [key, into] : {std::pair{"power_mw", &gpu.power_mw},
                                  {"energy_mj", &gpu.energy_mj},
                                  {"requested_limit_mw", &gpu.requested_limit_mw},
                                  {"enforced_limit_mw", &gpu.enforced_limit_mw},
                                  {"min_limit_mw", &gpu.min_limit_mw},
                                  {"max_limit_mw", &gpu.max_limit_mw},
                                  {"default_limit_mw", &gpu.default_limit_mw},
                                  {"sm_clock_mhz", &gpu.sm_clock_mhz},
                                  {"memory_clock_mhz", &gpu.memory_clock_mhz}})
    *into = number_at(json, key);
  gpu.persistence = flag_at(json, "persistence");
  gpu.compute_mode = text_at(json, "compute_mode");
  gpu.gpu_clocks = clocks_at(json, "gpu_clocks_mhz");
  gpu.mem_clocks = clocks_at(json, "mem_clocks_mhz");
  gpu.throttle_reasons = texts_at(json, "throttle_reasons");
  for (const Json& lease : list_at(json, "leases"))
    gpu.leases.push_back({.id = text_at(lease, "id"),
                          .holder = text_at(lease, "holder"),
                          .controls = texts_at(lease, "controls"),
                          .ends_at_s = seconds_at(lease, "ends_at_s"),
                          .paused = flag_at(lease, "paused").value_or(false)});
  gpu.error = text_at(json, "error");
  return gpu;
}

std::string plain(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (!value.is_array()) return value.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string text;
  for (const Json& one : value) text += (text.empty() ? "" : "-") + plain(one);
  return text;
}

// The keys of settings in leases and profiles, and their display names.
struct Control {
  const char *key, *name;
};
constexpr Control kControls[] = {{"power_limit_mw", "power limit"},
                                 {"power_limit", "power limit"},
                                 {"gpu_clocks_mhz", "GPU clocks"},
                                 {"gpu_clocks", "GPU clocks"},
                                 {"mem_clocks_mhz", "memory clocks"},
                                 {"mem_clocks", "memory clocks"},
                                 {"persistence", "persistence mode"},
                                 {"compute_mode", "compute mode"},
                                 {"time_slice", "time slice"},
                                 {"budget", "budget"},
                                 {"weights", "weights"}};

std::string format_setting(const Json& settings, const std::string& key) {
  const auto found = settings.find(key);
  if (found == settings.end() || found->is_null()) return "";
  if (key == "power_limit_mw" && found->is_number_unsigned()) return watts(found->get<std::uint64_t>());
  if (const auto clocks = clocks_at(settings, key.c_str()); clocks && key.ends_with("clocks_mhz"))
    return format_clocks(*clocks);
  if (key == "compute_mode" && found->is_number_unsigned()) {
    const auto mode = found->get<std::uint32_t>();
    return mode == 0 ? "default" : mode == 2 ? "prohibited" : mode == 3 ? "exclusive process" : plain(*found);
  }
  if (key == "time_slice" && found->is_number_unsigned())
    return std::string(config::format_time_slice(found->get<std::uint32_t>()));
  return plain(*found);
}

}  // namespace

std::string watts(std::uint64_t milliwatts) {
  const std::uint64_t tenths = (milliwatts + 50) / 100;
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " W";
}

std::string format_clocks(const ClockSpan& clocks) {
  if (clocks.second == 0) return "none";
  const std::string most = std::to_string(clocks.second) + " MHz";
  return clocks.first == clocks.second ? most : std::to_string(clocks.first) + " to " + most;
}

Result<PowerState> power_state_from(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("gpus")) return not_understood();
  PowerState state{.gpus = {}, .drift = text_at(json, "drift"), .at_start = text_at(json, "at_start")};
  for (const Json& gpu : list_at(json, "gpus")) state.gpus.push_back(gpu_from(gpu));
  return state;
}

Result<std::vector<PowerProfile>> power_profiles_from(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array()) return not_understood();
  std::vector<PowerProfile> all;
  for (const Json& one : json) {
    if (!one.is_object()) return not_understood();
    PowerProfile profile{.name = text_at(one, "name"), .settings = {}, .origin = text_at(one, "origin")};
    const auto settings = one.find("settings");
    for (const auto& [key, name] : kControls) {
      if (settings == one.end() || !settings->is_object()) break;
      const std::string value = format_setting(*settings, key);
      if (!value.empty()) profile.settings += (profile.settings.empty() ? "" : ", ") + std::string(name) + " " + value;
    }
    all.push_back(std::move(profile));
  }
  return all;
}

Result<std::vector<GpuChanges>> power_changes_from(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("gpus")) return not_understood();
  std::vector<GpuChanges> all;
  for (const Json& gpu : list_at(json, "gpus")) {
    GpuChanges one{.index = static_cast<std::uint32_t>(number_at(gpu, "index").value_or(0)),
                   .uuid = text_at(gpu, "uuid"),
                   .changes = {},
                   .error = {}};
    for (const Json& change : list_at(gpu, "changes"))
      one.changes.push_back({text_at(change, "control"), text_at(change, "from"), text_at(change, "to")});
    if (const auto error = gpu.find("error"); error != gpu.end() && error->is_object()) {
      const std::string hint = text_at(*error, "hint");
      one.error = text_at(*error, "message") + (hint.empty() ? "" : " (" + hint + ")");
    }
    all.push_back(std::move(one));
  }
  return all;
}

Result<LeaseMade> lease_from(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || text_at(json, "id").empty()) return not_understood();
  LeaseMade made{.id = text_at(json, "id"),
                 .ends_at_s = seconds_at(json, "ends_at_s"),
                 .holder_pid = static_cast<std::uint32_t>(number_at(json, "holder_pid").value_or(0)),
                 .gpus = {}};
  const auto settings = json.find("settings"), saved = json.find("saved");
  if (settings == json.end() || !settings->is_object()) return not_understood();
  for (const auto& [uuid, wanted] : settings->items()) {
    GpuChanges one{.index = 0, .uuid = uuid, .changes = {}, .error = {}};
    for (const auto& [key, name] : kControls) {
      const std::string to = wanted.is_object() ? format_setting(wanted, key) : "";
      if (to.empty()) continue;
      const bool known = saved != json.end() && saved->is_object() && saved->contains(uuid);
      one.changes.push_back({name, known ? format_setting(saved->at(uuid), key) : "", to});
    }
    made.gpus.push_back(std::move(one));
  }
  return made;
}

}  // namespace headgate::cli
