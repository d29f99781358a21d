#include "cli/power/power_view.hpp"

#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/term/text_width.hpp"
#include "cli/view/names.hpp"

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

}  // namespace headgate::cli
