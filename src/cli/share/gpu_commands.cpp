// `headgate gpu ls`, `policy` and `release`. Its modes and time slices are power/ commands.
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/share/daemon.hpp"
#include "cli/share/order.hpp"
#include "cli/view/names.hpp"
#include "cli/view/view_command.hpp"
#include "guest/grant/text.hpp"
#include "http/codec.hpp"
#include "runtime/node_facts.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

struct GpuListOptions {
  bool drivers = false;
};

// dockerd's device drivers on this node, and how each is selected.
Result<int> show_drivers(const Voice& voice) {
  const auto drivers = oci::device_drivers(runtime::this_node());
  if (voice.format == Format::json) {
    nlohmann::ordered_json json = {{"schema", "headgate.device_drivers/v1"},
                                   {"drivers", nlohmann::ordered_json::array()}};
    for (const auto& driver : drivers)
      json["drivers"].push_back({{"name", driver.name}, {"capabilities", driver.capabilities}});
    return show(json.dump(2) + "\n");
  }
  std::vector<std::vector<std::string>> rows = {{"DRIVER", "CAPABILITIES"}};
  for (const auto& driver : drivers) rows.push_back({driver.name, or_dash(joined(driver.capabilities, ","))});
  return show(table(rows, voice));
}

Result<Shown> gpus_view(const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
  if (!snapshot.no_gpus.empty())
    return fail(ErrorCode::unreachable, snapshot.no_gpus, "'headgate gpu ls --sim' looks at a simulated node");
  if (is_table(voice.format)) return Shown{.text = gpus_text(snapshot, voice)};
  if (voice.format == Format::json) return Shown{.text = gpus_json(snapshot)};
  return Shown{
      .text = TRY(lines(records_of("headgate.gpu/v1", snapshot.now.gpus), origin_of(snapshot.now), voice, heading))};
}

Result<int> gpu_ls(const Call& call, const GpuListOptions& own) {
  const Format format = call.voice.format;
  if (own.drivers && format != Format::table && format != Format::json)
    return fail(ErrorCode::usage, "gpu ls --drivers: output format '" + format_name(format) + "' is not supported",
                "accepted: table or json");
  if (own.drivers) return show_drivers(call.voice);
  return show_view(call, TRY(choose_source(call)), gpus_view);
}

struct PolicyOptions {
  std::string gpu;
  Order order;
  bool yes = false;
};

// Finds a GPU of the daemon by index or by UUID prefix, in any case.
Result<std::string> uuid_of(const http::Endpoint& daemon, const std::string& text) {
  const std::string reply = TRY(ask(daemon, "GET", "/v1/gpus"));
  const auto gpus = TRY(snapshot::from_json<std::vector<snapshot::Gpu>>(reply));
  std::string found, known;
  for (const auto& gpu : gpus) {
    known += (known.empty() ? "" : ", ") + std::to_string(gpu.index) + " (" + gpu.uuid.substr(0, 12) + ")";
    if (text != std::to_string(gpu.index) && (text.size() < 5 || !grant::starts_ignoring_case(gpu.uuid, text)))
      continue;
    if (!found.empty()) return fail(ErrorCode::usage, "several GPUs begin with '" + text + "'", "GPUs here: " + known);
    found = gpu.uuid;
  }
  if (found.empty()) return fail(ErrorCode::not_found, "there is no GPU '" + text + "'", "GPUs here: " + known);
  return found;
}

Result<int> gpu_policy(const Call& call, const PolicyOptions& own) {
  const http::Endpoint daemon = TRY(need_daemon());
  const std::string uuid = TRY(uuid_of(daemon, own.gpu));
  const std::string reply = TRY(ask_for_change(daemon, "PATCH", "/v1/gpus/" + http::escape(uuid), own.yes, own.order));
  if (call.voice.format == Format::json)
    return show(enclosed("headgate.gpu/v1", "gpu", reply, TRY(snapshot_of(daemon))));
  const auto gpu = TRY(snapshot::from_json<snapshot::Gpu>(reply));
  return show(
      "GPU " + uuid.substr(0, 12) + " is now given by the policy " + gpu.policy +
      (gpu.policy_from == "command"
           ? ", which is kept; back to the configuration's: headgate gpu policy " + own.gpu + " default"
           : ", as the configuration says") +
      (gpu.policy_in_force == gpu.policy
           ? "\n"
           : "; it is " + gpu.policy_in_force + " while programs of shares are clients of an MPS server there\n"));
}

Result<int> gpu_release(const Call& call) {
  const http::Endpoint daemon = TRY(need_daemon());
  TRY(ask(daemon, "POST", "/v1/gpus/all/release"));
  return show_done(call, "headgate.gpu_release/v1",
                   "headgated has closed the driver for 60 s: GPUs can be reset, drivers unloaded\n");
}

}  // namespace

Commands gpu_commands() {
  return {parent_command(kManage, "gpu", "list GPUs, set their policy and mode, release them"),
          command<GpuListOptions>(
              kCommands, "gpu ls", "list the GPUs",
              [](Options& options, GpuListOptions& own) {
                options.flag("--drivers",
                             "list the drivers that dockerd has for GPU requests here, and their capabilities",
                             own.drivers);
                options.simulated();
                options.watch();
                options.lists();
              },
              gpu_ls),
          command<PolicyOptions>(
              kCommands, "gpu policy", "set how shares that want a GPU divide it (administrators)",
              [](Options& options, PolicyOptions& own) {
                options.operand("GPU", "its number, or the beginning of its UUID", own.gpu);
                order_option(options, own.order,
                             {"POLICY", "policy", "", "fair, priority, off, or default: as the configuration says"})
                    .required = true;
                add_yes(options, own.yes);
              },
              gpu_policy),
          plain_command(kCommands, "gpu release",
                        "make headgated close the driver for a minute, so that a GPU can be reset", gpu_release)};
}

}  // namespace headgate::cli
