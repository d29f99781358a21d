// `headgate sim`: the simulated node.
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/share/daemon.hpp"
#include "cli/share/order.hpp"
#include "install/source.hpp"
#include "sim/faults.hpp"
#include "sim/profile.hpp"
#include "sim/truth.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> directory_of(const Call& call) {
  return install::simulated_node(call.simulate.value_or(""), call.configuration.config["sim.profile"].value);
}

// The node that a daemon of this user looks at; without one, or with --sim, that of directory_of().
Result<std::string> directory_of_truth(const Call& call) {
  const auto daemon = call.simulate ? std::nullopt : find_daemon().value_or(std::nullopt);
  const auto snapshot = daemon ? snapshot_of(*daemon) : snapshot::Snapshot();
  std::vector<std::string> uuids;
  if (snapshot)
    for (const auto& gpu : snapshot->gpus) uuids.push_back(gpu.uuid);
  if (const auto source = install::simulated_source_with(uuids)) return source->simulated_directory;
  return directory_of(call);
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

Result<int> sim_list(const Call& call) {
  const auto nodes = install::simulated_nodes();
  if (call.voice.format == Format::json) {
    Json json = {
        {"schema", "headgate.sim_list/v1"}, {"simulated", true}, {"profiles", Json::array()}, {"nodes", nodes}};
    for (const auto& profile : sim::built_in_profiles())
      json["profiles"].push_back({{"name", profile.name},
                                  {"model", profile.model},
                                  {"gpus", profile.count},
                                  {"memory_total_bytes", profile.memory_bytes},
                                  {"sm_count", profile.sm_count}});
    return show(pretty_json(json));
  }
  std::vector<std::vector<std::string>> rows = {{"PROFILE", "\tGPUS", "MODEL", "\tMEMORY", "\tSMS"}};
  for (const auto& profile : sim::built_in_profiles())
    rows.push_back({profile.name, "\t" + std::to_string(profile.count), profile.model,
                    "\t" + bytes_text(profile.memory_bytes), "\t" + std::to_string(profile.sm_count)});
  std::string text = table(rows, call.voice);
  for (const auto& node : nodes) text += "node  " + harmless(node) + "\n";
  return show(text);
}

Result<int> sim_truth(const Call& call) {
  const std::string directory = TRY(directory_of_truth(call));
  const sim::Truth truth = TRY(sim::read_truth(directory));
  if (call.voice.format == Format::json) {
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
    for (const auto& setting : truth.settings)
      json["nvml_settings"].push_back({{"at_ns", setting.at_ns},
                                       {"pid", setting.pid},
                                       {"uid", setting.uid},
                                       {"gpu", setting.device},
                                       {"function", setting.function},
                                       {"value", setting.value},
                                       {"second_value", setting.second_value},
                                       {"answer", setting.answer}});
    return show(pretty_json(json));
  }
  std::string text = "SIMULATED node " + harmless(directory) + ", profile " + harmless(truth.profile) + "\n";
  for (const auto& device : truth.devices) {
    text += bold("GPU " + std::to_string(device.index) + "  " + device.model + "  " + bytes_text(device.used_bytes) +
                     " of " + bytes_text(device.memory_bytes) + "  busy for " + duration_text(device.busy_ns),
                 call.voice) +
            "\n";
    std::vector<std::vector<std::string>> rows = {
        {"  PID", "COMMAND", "\tMEM", "\tPEAK", "\tHELD", "\tCOPIES", "\tKERNELS", "STATE"}};
    for (const auto& process : device.processes)
      rows.push_back({"  " + std::to_string(process.pid), harmless(process.comm), "\t" + bytes_text(process.bytes),
                      "\t" + bytes_text(process.peak_bytes), "\t" + duration_text(process.held_ns),
                      "\t" + duration_text(process.copy_ns), "\t" + std::to_string(process.kernels),
                      process.alive ? "alive" : "ended"});
    text += rows.size() == 1 ? "  no process so far\n" : table(rows, call.voice, false);
  }
  return show(text);
}

Result<int> sim_reset(const Call& call) {
  const std::string directory = TRY(directory_of(call));
  TRY(sim::reset_truth(directory));
  return 0;
}

Result<int> sim_fault(const Call& call, const std::string& asked) {
  const std::string directory = TRY(directory_of(call));
  const std::string rules = asked == "clear" ? "" : asked;
  TRY(sim::write_faults(directory, rules));
  if (call.voice.format == Format::json)
    return show(pretty_json(
        {{"schema", "headgate.sim_fault/v1"}, {"simulated", true}, {"directory", directory}, {"rules", rules}}));
  return 0;
}

Result<int> sim_path(const Call& call) {
  const std::string directory = TRY(directory_of(call));
  if (call.voice.format == Format::json)
    return show(pretty_json({{"schema", "headgate.sim_path/v1"}, {"simulated", true}, {"directory", directory}}));
  return show(directory + "\n");
}

}  // namespace

Commands sim_commands() {
  const auto simulated = [](Options& options) { options.simulated(); };
  const auto plain = [&](const char* name, const char* summary, Result<int> (*run)(const Call&)) {
    return plain_command(kCommands, name, summary, run, Reads::sound, simulated);
  };
  return {parent_command(kPlumbing, "sim", "inspect and disturb the simulated node"),
          plain("sim list", "list profiles and the nodes that exist", sim_list),
          plain("sim truth", "show what really happened on the node: time held, memory", sim_truth),
          plain("sim reset", "forget totals and ended processes", sim_reset),
          plain("sim path", "print the node's directory", sim_path),
          command<std::string>(
              kCommands, "sim fault", "make the node's driver and NVML fail, wait or lose a GPU",
              [](Options& options, std::string& rules) {
                options.simulated();
                options.operand("RULES",
                                "cuMemAlloc_v2:fail=2:after=3,nvml*:delay_us=100,device0:lost ...; 'clear' ends all "
                                "faults",
                                rules);
              },
              sim_fault)};
}

}  // namespace headgate::cli
