#include "cli/support/sim_commands.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "install/paths.hpp"
#include "install/source.hpp"
#include "sim/faults.hpp"
#include "sim/profile.hpp"
#include "sim/truth.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

// ASCII only, because names of processes and directories are untrusted.
std::string dumped(const Json& json) { return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n"; }

Result<std::string> directory_of(const Invocation& invocation, const config::Config& config) {
  return install::simulated_node(invocation.simulate.value_or(""), config["sim.profile"].value);
}

Json json_of(const sim::ProcessTruth& process) {
  return {{"pid", process.pid},
          {"command", process.comm},
          {"alive", process.alive},
          {"memory_bytes", process.bytes},
          {"memory_peak_bytes", process.peak_bytes},
          {"slack_bytes", process.slack_bytes},
          {"context_bytes", process.context_bytes},
          {"held_ns", process.held_ns},
          {"sm_ns", process.sm_ns},
          {"copy_ns", process.copy_ns},
          {"spin_ns", process.spin_ns},
          {"kernels", process.kernels},
          {"launches", process.launches},
          {"event_records", process.records},
          {"event_queries", process.event_queries},
          {"stream_queries", process.stream_queries},
          {"synchronisations", process.synchronisations},
          {"copies", process.copies},
          {"allocations", process.allocations}};
}

}  // namespace

Result<std::string> sim_list(const Invocation& invocation) {
  const auto nodes = install::simulated_nodes();
  if (invocation.voice.format == Format::json) {
    Json json = {
        {"schema", "headgate.sim_list/v1"}, {"simulated", true}, {"profiles", Json::array()}, {"nodes", nodes}};
    for (const auto& profile : sim::built_in_profiles()) {
      json["profiles"].push_back({{"name", profile.name},
                                  {"model", profile.model},
                                  {"gpus", profile.count},
                                  {"memory_total_bytes", profile.memory_bytes},
                                  {"sm_count", profile.sm_count}});
    }
    return dumped(json);
  }
  std::vector<std::vector<std::string>> rows = {{"PROFILE", "\tGPUS", "MODEL", "\tMEMORY", "\tSMS"}};
  for (const auto& profile : sim::built_in_profiles()) {
    rows.push_back({profile.name, "\t" + std::to_string(profile.count), profile.model,
                    "\t" + bytes_text(profile.memory_bytes), "\t" + std::to_string(profile.sm_count)});
  }
  std::string text = table(rows, invocation.voice);
  for (const auto& node : nodes) text += "node  " + harmless(node) + "\n";
  return text;
}

Result<std::string> sim_truth(const Invocation& invocation, const config::Config& config) {
  const std::string directory = TRY(directory_of(invocation, config));
  const sim::Truth truth = TRY(sim::read_truth(directory));
  if (invocation.voice.format == Format::json) {
    Json json = {{"schema", "headgate.sim_truth/v1"}, {"simulated", true},      {"directory", directory},
                 {"profile", truth.profile},          {"now_ns", truth.now_ns}, {"gpus", Json::array()}};
    for (const auto& device : truth.devices) {
      Json one = {{"index", device.index},
                  {"uuid", device.uuid},
                  {"model", device.model},
                  {"memory_total_bytes", device.memory_bytes},
                  {"memory_used_bytes", device.used_bytes},
                  {"busy_ns", device.busy_ns},
                  {"processes", Json::array()}};
      for (const auto& process : device.processes) one["processes"].push_back(json_of(process));
      json["gpus"].push_back(one);
    }
    json["nvml_settings"] = Json::array();
    for (const auto& setting : truth.settings) {
      json["nvml_settings"].push_back({{"at_ns", setting.at_ns},
                                       {"pid", setting.pid},
                                       {"uid", setting.uid},
                                       {"gpu", setting.device},
                                       {"function", setting.function},
                                       {"value", setting.value},
                                       {"second_value", setting.second_value},
                                       {"answer", setting.answer}});
    }
    return dumped(json);
  }
  std::string text = "SIMULATED node " + harmless(directory) + ", profile " + harmless(truth.profile) + "\n";
  for (const auto& device : truth.devices) {
    text += bold("GPU " + std::to_string(device.index) + "  " + device.model + "  " + bytes_text(device.used_bytes) +
                     " of " + bytes_text(device.memory_bytes) + "  busy for " + duration_text(device.busy_ns),
                 invocation.voice) +
            "\n";
    std::vector<std::vector<std::string>> rows = {
        {"  PID", "COMMAND", "\tMEM", "\tPEAK", "\tHELD", "\tCOPIES", "\tKERNELS", "STATE"}};
    for (const auto& process : device.processes) {
      rows.push_back({"  " + std::to_string(process.pid), harmless(process.comm), "\t" + bytes_text(process.bytes),
                      "\t" + bytes_text(process.peak_bytes), "\t" + duration_text(process.held_ns),
                      "\t" + duration_text(process.copy_ns), "\t" + std::to_string(process.kernels),
                      process.alive ? "alive" : "ended"});
    }
    Voice plain = invocation.voice;
    plain.colour = false;
    text += rows.size() == 1 ? "  no process so far\n" : table(rows, plain);
  }
  return text;
}

Result<std::string> sim_reset(const Invocation& invocation, const config::Config& config) {
  const std::string directory = TRY(directory_of(invocation, config));
  if (auto done = sim::reset_truth(directory); !done) return std::unexpected(done.error());
  return std::string();
}

Result<std::string> sim_fault(const Invocation& invocation, const config::Config& config) {
  const std::string directory = TRY(directory_of(invocation, config));
  const std::string rules = invocation.rules == "clear" ? "" : invocation.rules;
  if (auto done = sim::write_faults(directory, rules); !done) return std::unexpected(done.error());
  if (invocation.voice.format == Format::json)
    return dumped(
        {{"schema", "headgate.sim_fault/v1"}, {"simulated", true}, {"directory", directory}, {"rules", rules}});
  return std::string();
}

Result<std::string> sim_path(const Invocation& invocation, const config::Config& config) {
  const std::string directory = TRY(directory_of(invocation, config));
  if (invocation.voice.format == Format::json)
    return dumped({{"schema", "headgate.sim_path/v1"}, {"simulated", true}, {"directory", directory}});
  return directory + "\n";
}

}  // namespace headgate::cli
