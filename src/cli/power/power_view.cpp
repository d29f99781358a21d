#include "cli/power/power_view.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/joined.hpp"
#include "base/json.hpp"
#include "base/units.hpp"
#include "cli/term/frame.hpp"
#include "cli/view/names.hpp"
#include "config/power_settings.hpp"

namespace headgate::cli {
namespace {

using Json = PowerJson;

std::string watts_cell(const Json& gpu, const char* key) {
  const auto milliwatts = number_at(gpu, key);
  return "\t" + (milliwatts ? watts(*milliwatts) : std::string("-"));
}

std::string clocks_cell(const Json& gpu, const char* key) {
  return format_clocks(clocks_at(gpu, key).value_or(ClockSpan{}));
}

std::string range_cell(const Json& gpu) {
  const auto least = number_at(gpu, "min_limit_mw"), most = number_at(gpu, "max_limit_mw");
  if (!least || !most) return "-";
  const std::string from = watts(*least);
  return from.substr(0, from.find(' ')) + "-" + watts(*most);
}

std::string number_cell(std::optional<std::uint64_t> number, const char* unit = "") {
  return "\t" + (number ? std::to_string(*number) + unit : "-");
}

snapshot::Gpu named_gpu(const Json& gpu) {
  return {.index = static_cast<std::uint32_t>(number_at(gpu, "index").value_or(0)), .model = text_at(gpu, "model")};
}

std::vector<std::string> gpu_row(const Json& gpu, bool wide) {
  const snapshot::Gpu name = named_gpu(gpu);
  const auto persistence = flag_at(gpu, "persistence");
  std::vector<std::string> row = {// The first column is the one that is cut where the terminal is narrow.
                                  std::to_string(name.index) + "  " + short_model(name.model),
                                  watts_cell(gpu, "power_mw"),
                                  watts_cell(gpu, "requested_limit_mw"),
                                  watts_cell(gpu, "enforced_limit_mw"),
                                  range_cell(gpu),
                                  clocks_cell(gpu, "gpu_clocks_mhz"),
                                  persistence ? (*persistence ? "on" : "off") : "-"};
  if (!wide) return row;
  const auto energy = number_at(gpu, "energy_mj");
  row.insert(row.end(),
             {clocks_cell(gpu, "mem_clocks_mhz"), number_cell(number_at(gpu, "sm_clock_mhz")),
              number_cell(number_at(gpu, "memory_clock_mhz")), or_dash(text_at(gpu, "compute_mode")),
              number_cell(energy ? std::optional(*energy / 1'000'000) : energy, " kJ"), text_at(gpu, "uuid")});
  return row;
}

// Returns remarks on what the GPU's row does not show.
std::vector<std::string> remarks_on(const Json& gpu, std::uint64_t now_unix_ns, bool wide) {
  std::vector<std::string> remarks;
  if (const std::string error = text_at(gpu, "error"); !error.empty()) remarks.push_back(error);
  const auto requested = number_at(gpu, "requested_limit_mw"), enforced = number_at(gpu, "enforced_limit_mw");
  if (requested && enforced && *requested != *enforced)
    remarks.push_back("the driver enforces " + watts(*enforced) + ", not the " + watts(*requested) +
                      " that were asked for");
  const auto mem_clocks = clocks_at(gpu, "mem_clocks_mhz");
  if (mem_clocks && !wide) remarks.push_back("memory clocks locked at " + format_clocks(*mem_clocks));
  const std::string mode = text_at(gpu, "compute_mode");
  if (!wide && !mode.empty() && mode != "default") remarks.push_back("compute mode: " + mode);
  const auto reasons = texts_at(gpu, "throttle_reasons");
  if (!reasons.empty()) remarks.push_back("slowed down by: " + joined(reasons, ", "));
  const auto usual = number_at(gpu, "default_limit_mw");
  const bool is_limited = requested && usual && *requested != *usual;
  if (flag_at(gpu, "persistence") == false && (is_limited || clocks_at(gpu, "gpu_clocks_mhz") || mem_clocks))
    remarks.push_back("without persistence mode the driver forgets these settings with its last client");
  for (const Json& lease : list_at(gpu, "leases")) {
    const auto ends_at_s = static_cast<std::int64_t>(number_at(lease, "ends_at_s").value_or(0));
    remarks.push_back(joined(texts_at(lease, "controls"), ", ") + ": held by " + text_at(lease, "holder") +
                      (ends_at_s != 0 ? ", " + format_end(ends_at_s, now_unix_ns) : "") +
                      (flag_at(lease, "paused") == true ? "; paused while the GPU is released" : ""));
  }
  return remarks;
}

// Wraps a remark at the terminal's width, with an indent.
std::string remark_text(const std::string& line, std::size_t columns) {
  constexpr std::string_view kIndent = "       ";
  if (columns <= 2 * kIndent.size()) return line + "\n";
  std::string text;
  for (const std::string& part : wrapped(line, static_cast<unsigned>(columns - kIndent.size())))
    text += (text.empty() ? "" : std::string(kIndent)) + part + "\n";
  return text;
}

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

std::string format_end(std::int64_t ends_at_s, std::uint64_t now_unix_ns) {
  const std::int64_t left_s = ends_at_s - static_cast<std::int64_t>(now_unix_ns / 1'000'000'000);
  if (left_s <= 0) return "ends now";
  return "ends in " + short_duration_text(static_cast<std::uint64_t>(left_s) * 1'000'000'000);
}

std::string power_status_text(const Json& state, std::uint64_t now_unix_ns, const Voice& voice) {
  const Json& gpus = list_at(state, "gpus");
  if (gpus.empty()) return "there are no GPUs\n";
  const bool wide = voice.format == Format::wide;
  std::vector<std::vector<std::string>> rows = {
      {"GPU", "\tDRAWS", "\tLIMIT", "\tENFORCED", "RANGE", "LOCKED CLOCKS", "PERSISTENCE"}};
  if (wide)
    rows[0].insert(rows[0].end(), {"MEMORY LOCKED", "\tMHZ", "\tMEMORY MHZ", "COMPUTE MODE", "\tENERGY", "UUID"});
  std::string remarks;
  for (const Json& gpu : gpus) {
    rows.push_back(gpu_row(gpu, wide));
    for (const std::string& remark : remarks_on(gpu, now_unix_ns, wide))
      remarks += remark_text("GPU " + std::to_string(named_gpu(gpu).index) + ": " + harmless(remark), voice.columns);
  }
  return table(rows, voice) + remarks;
}

std::string power_profiles_text(const Json& profiles, const Voice& voice) {
  if (profiles.empty()) return "there are no profiles: [power.profile.NAME] in the configuration makes one\n";
  std::vector<std::vector<std::string>> rows = {{"PROFILE", "SETTINGS", "FROM"}};
  for (const Json& profile : profiles)
    rows.push_back({text_at(profile, "name"), or_dash(format_settings(profile.value("settings", Json()))),
                    or_dash(text_at(profile, "origin"))});
  return table(rows, voice);
}

std::string name_of_gpu(const Json& state, const std::string& uuid) {
  for (const Json& gpu : list_at(state, "gpus"))
    if (text_at(gpu, "uuid") == uuid) return snapshot::gpu_name(named_gpu(gpu));
  return "GPU " + uuid.substr(0, 12);
}

std::string power_changes_text(const std::vector<GpuChanges>& changes, const Json& state, const Voice& voice) {
  std::vector<std::vector<std::string>> rows = {{"GPU", "CONTROL", "\tFROM", "\tTO"}};
  std::string errors;
  for (const GpuChanges& gpu : changes) {
    const std::string name = name_of_gpu(state, gpu.uuid);
    for (const PowerChange& change : gpu.changes)
      if (change.from != change.to)
        rows.push_back({name.substr(4), change.control, "\t" + or_dash(change.from), "\t" + or_dash(change.to)});
    if (gpu.error) errors += harmless(name + ": " + *gpu.error) + "\n";
  }
  return (rows.size() == 1 ? (errors.empty() ? std::string("nothing differs from what is set\n") : "")
                           : table(rows, voice)) +
         errors;
}

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
  Json json = parse_json(text);
  if (!json.is_object() || !json.contains("gpus")) return not_understood();
  return json;
}

Result<Json> power_profiles_from(const std::string& text) {
  Json json = parse_json(text);
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
  const Json json = parse_json(text);
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
