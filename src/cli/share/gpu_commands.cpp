// `headgate gpu ls`, `policy` and `release`. Its modes and time slices are power/ commands.
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/run/run_request.hpp"
#include "cli/share/daemon.hpp"
#include "cli/share/order.hpp"
#include "cli/view/names.hpp"
#include "cli/view/view_command.hpp"
#include "http/codec.hpp"
#include "runtime/node_facts.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

// dockerd's device drivers on this node, and how each is selected.
Result<int> show_drivers(const Voice& voice) {
  const auto drivers = oci::device_drivers(runtime::this_node());
  if (voice.format == Format::json) {
    nlohmann::ordered_json json = {{"schema", "headgate.device_drivers/v1"},
                                   {"drivers", nlohmann::ordered_json::array()}};
    for (const auto& driver : drivers)
      json["drivers"].push_back({{"name", driver.name}, {"capabilities", driver.capabilities}});
    return show(pretty_json(json));
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

Result<int> gpu_ls(const Call& call, bool drivers) {
  const Format format = call.voice.format;
  if (drivers && format != Format::table && format != Format::json)
    return fail(ErrorCode::usage, "gpu ls --drivers: output format '" + format_name(format) + "' is not supported",
                "accepted: table or json");
  if (drivers) return show_drivers(call.voice);
  return show_view(call, TRY(choose_source(call)), gpus_view);
}

struct PolicyOptions {
  std::string gpu;
  Order order;
  bool yes = false;
};

Result<int> gpu_policy(const Call& call, const PolicyOptions& own) {
  const http::Endpoint daemon = TRY(need_daemon());
  const auto snapshot = TRY(snapshot_of(daemon));
  const auto uuids = TRY(choose_uuids("gpu policy", own.gpu, snapshot));
  if (uuids.size() != 1 || uuids.front().empty() || own.gpu == "auto")
    return fail(ErrorCode::usage, "gpu policy: '" + harmless(own.gpu) + "' names no single GPU",
                "accepted: 0, GPU-9c2f, 0000:1b:00.0");
  const std::string& uuid = uuids.front();
  const auto body = [&own](bool agreed) -> Result<std::string> {
    Order order = own.order;
    if (agreed) order[kConsent] = "true";
    return body_of(order);
  };
  const std::string reply = TRY(ask_for_change(daemon, "PATCH", "/v1/gpus/" + http::escape(uuid), own.yes, body));
  if (call.voice.format == Format::json) return show(enclosed_text("headgate.gpu/v1", "gpu", reply, snapshot));
  const auto gpu = TRY(snapshot::from_json<snapshot::Gpu>(reply));
  return show(
      "GPU " + uuid.substr(0, 12) + " has the policy " + gpu.policy +
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
          command<bool>(
              kCommands, "gpu ls", "list the GPUs",
              [](Options& options, bool& drivers) {
                options.flag("--drivers",
                             "list the drivers that dockerd has for GPU requests here, and their capabilities",
                             drivers);
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
