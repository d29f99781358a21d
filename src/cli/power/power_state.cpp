#include "cli/power/power_view.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/joined.hpp"
#include "cli/term/output.hpp"
#include "config/power_settings.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

std::unexpected<Error> not_understood() {
  return fail(ErrorCode::failed, "headgated: its answer about power is not understood",
              "command and daemon may be of different releases: headgate version");
}

std::string plain(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  return value.is_array() ? joined(value, "-", plain) : compact_json(value);
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
  if (!settings.is_object()) return "";
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

std::string watts(std::uint64_t milliwatts) {
  const std::uint64_t tenths = (milliwatts + 50) / 100;
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " W";
}

std::string format_clocks(const ClockSpan& clocks) {
  if (clocks.second == 0) return "none";
  const std::string most = std::to_string(clocks.second) + " MHz";
  return clocks.first == clocks.second ? most : std::to_string(clocks.first) + " to " + most;
}

Result<Json> power_state_from(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("gpus")) return not_understood();
  return json;
}

Result<Json> power_profiles_from(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_array() || !std::ranges::all_of(json, [](const Json& one) { return one.is_object(); }))
    return not_understood();
  return json;
}

std::string format_settings(const Json& settings) {
  std::vector<std::string> all;
  for (const auto& [key, name] : kControls)
    if (const std::string value = format_setting(settings, key); !value.empty())
      all.push_back(std::string(name) + " " + value);
  return joined(all, ", ");
}

Result<std::vector<GpuChanges>> power_changes_from(const std::string& text) {
  const Json json = TRY(power_state_from(text));
  std::vector<GpuChanges> all;
  for (const Json& gpu : list_at(json, "gpus")) {
    GpuChanges one{.uuid = text_at(gpu, "uuid"), .changes = {}, .error = {}};
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
                 .ends_at_s = static_cast<std::int64_t>(number_at(json, "ends_at_s").value_or(0)),
                 .holder_pid = static_cast<std::uint32_t>(number_at(json, "holder_pid").value_or(0)),
                 .gpus = {}};
  const auto settings = json.find("settings"), saved = json.find("saved");
  if (settings == json.end() || !settings->is_object()) return not_understood();
  for (const auto& [uuid, wanted] : settings->items()) {
    GpuChanges one{.uuid = uuid, .changes = {}, .error = {}};
    for (const auto& [key, name] : kControls) {
      const std::string to = format_setting(wanted, key);
      if (to.empty()) continue;
      const bool known = saved != json.end() && saved->is_object() && saved->contains(uuid);
      one.changes.push_back({name, known ? format_setting(saved->at(uuid), key) : "", to});
    }
    made.gpus.push_back(std::move(one));
  }
  return made;
}

}  // namespace headgate::cli
