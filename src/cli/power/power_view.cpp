#include "cli/power/power_view.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "cli/term/text_width.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

std::string watts_cell(const std::optional<std::uint64_t>& milliwatts) {
  return "\t" + (milliwatts ? watts(*milliwatts) : std::string("-"));
}

std::string clocks_cell(const std::optional<ClockSpan>& clocks) { return format_clocks(clocks.value_or(ClockSpan{})); }

std::string range_cell(const PowerGpu& gpu) {
  if (!gpu.min_limit_mw || !gpu.max_limit_mw) return "-";
  const std::string least = watts(*gpu.min_limit_mw);
  return least.substr(0, least.find(' ')) + "-" + watts(*gpu.max_limit_mw);
}

std::string mhz_cell(const std::optional<std::uint64_t>& mhz) { return "\t" + (mhz ? std::to_string(*mhz) : "-"); }

std::vector<std::string> gpu_row(const PowerGpu& gpu, bool wide) {
  std::vector<std::string> row = {// The first column is the one that is cut where the terminal is narrow.
                                  std::to_string(gpu.index) + "  " + short_model(gpu.model),
                                  watts_cell(gpu.power_mw),
                                  watts_cell(gpu.requested_limit_mw),
                                  watts_cell(gpu.enforced_limit_mw),
                                  range_cell(gpu),
                                  clocks_cell(gpu.gpu_clocks),
                                  gpu.persistence ? (*gpu.persistence ? "on" : "off") : "-"};
  if (!wide) return row;
  row.push_back(clocks_cell(gpu.mem_clocks));
  row.push_back(mhz_cell(gpu.sm_clock_mhz));
  row.push_back(mhz_cell(gpu.memory_clock_mhz));
  row.push_back(or_dash(gpu.compute_mode));
  row.push_back("\t" + (gpu.energy_mj ? std::to_string(*gpu.energy_mj / 1'000'000) + " kJ" : std::string("-")));
  row.push_back(gpu.uuid);
  return row;
}

// Returns remarks on what the GPU's row does not show.
std::vector<std::string> remarks_on(const PowerGpu& gpu, std::uint64_t now_unix_ns, bool wide) {
  std::vector<std::string> remarks;
  if (!gpu.error.empty()) remarks.push_back(gpu.error);
  if (gpu.requested_limit_mw && gpu.enforced_limit_mw && *gpu.requested_limit_mw != *gpu.enforced_limit_mw)
    remarks.push_back("the driver enforces " + watts(*gpu.enforced_limit_mw) + ", not the " +
                      watts(*gpu.requested_limit_mw) + " that were asked for");
  if (gpu.mem_clocks && !wide) remarks.push_back("memory clocks locked at " + format_clocks(*gpu.mem_clocks));
  if (!wide && !gpu.compute_mode.empty() && gpu.compute_mode != "default")
    remarks.push_back("compute mode: " + gpu.compute_mode);
  if (!gpu.throttle_reasons.empty()) remarks.push_back("slowed down by: " + joined(gpu.throttle_reasons, ", "));
  const bool is_limited =
      gpu.requested_limit_mw && gpu.default_limit_mw && *gpu.requested_limit_mw != *gpu.default_limit_mw;
  if (gpu.persistence == false && (is_limited || gpu.gpu_clocks || gpu.mem_clocks))
    remarks.push_back("without persistence mode the driver forgets these settings with its last client");
  for (const PowerLease& lease : gpu.leases)
    remarks.push_back(joined(lease.controls, ", ") + ": held by " + lease.holder +
                      (lease.ends_at_s != 0 ? ", " + format_end(lease.ends_at_s, now_unix_ns) : "") +
                      (lease.paused ? "; paused while the GPU is released" : ""));
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

std::string power_status_text(const PowerState& state, std::uint64_t now_unix_ns, const Voice& voice) {
  if (state.gpus.empty()) return "there are no GPUs\n";
  const bool wide = voice.format == Format::wide;
  std::vector<std::vector<std::string>> rows = {
      {"GPU", "\tDRAWS", "\tLIMIT", "\tENFORCED", "RANGE", "LOCKED CLOCKS", "PERSISTENCE"}};
  if (wide)
    for (const char* more : {"MEMORY LOCKED", "\tMHZ", "\tMEMORY MHZ", "COMPUTE MODE", "\tENERGY", "UUID"})
      rows[0].emplace_back(more);
  std::string remarks;
  for (const PowerGpu& gpu : state.gpus) {
    rows.push_back(gpu_row(gpu, wide));
    for (const std::string& remark : remarks_on(gpu, now_unix_ns, wide))
      remarks += remark_text("GPU " + std::to_string(gpu.index) + ": " + harmless(remark), voice.columns);
  }
  return table(rows, voice) + remarks;
}

std::string power_profiles_text(const std::vector<PowerProfile>& profiles, const Voice& voice) {
  if (profiles.empty()) return "there are no profiles: [power.profile.NAME] in the configuration makes one\n";
  std::vector<std::vector<std::string>> rows = {{"PROFILE", "SETTINGS", "FROM"}};
  for (const PowerProfile& profile : profiles)
    rows.push_back({profile.name, or_dash(profile.settings), or_dash(profile.origin)});
  return table(rows, voice);
}

std::string name_of_gpu(const PowerState& state, const std::string& uuid) {
  const auto gpu = std::ranges::find(state.gpus, uuid, &PowerGpu::uuid);
  if (gpu == state.gpus.end()) return "GPU " + uuid.substr(0, 12);
  return snapshot::gpu_name({.index = gpu->index, .model = gpu->model});
}

std::string power_changes_text(const std::vector<GpuChanges>& changes, const PowerState& state, const Voice& voice) {
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
