// `headgate share`: shares, which headgated keeps.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/run/engine_run.hpp"
#include "cli/run/run_daemon.hpp"
#include "cli/share/daemon.hpp"
#include "cli/share/order.hpp"
#include "cli/view/names.hpp"
#include "cli/view/view_command.hpp"
#include "cli/view/views.hpp"
#include "http/codec.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ExtendOptions {
  std::string name, time;
};
struct RebalanceOptions {
  std::vector<std::string> parts;  // NAME=PART
  bool yes = false;
};

std::string share_target(const std::string& name) { return "/v1/shares/" + http::escape(name); }

std::string simulated_text(const snapshot::Snapshot& snapshot, const Voice& voice) {
  return snapshot.node.simulated ? warning("SIMULATED", voice) + "\n" : "";
}

Result<std::string> shown(const Voice& voice, const http::Endpoint& daemon, const std::string& reply) {
  const auto snapshot = TRY(snapshot_of(daemon));
  if (voice.format == Format::json) return enclosed_text("headgate.share/v1", "share", reply, snapshot);
  const auto share = TRY(snapshot::from_json<snapshot::Share>(reply));
  if (!is_table(voice.format))
    return lines(records_of("headgate.share/v1", std::vector{share}), origin_of(snapshot), voice, true);
  return simulated_text(snapshot, voice) + shares_text({share}, snapshot, voice);
}

// The TTL counts from creation, so the new one is the time passed plus the time left plus the extension.
Result<std::string> extended(const Voice& voice, const http::Endpoint& daemon, const ExtendOptions& own) {
  const std::string target = share_target(own.name);
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::uint64_t more_ns = TRY(time_option("share extend: the time", own.time));
  TRY(ask(daemon, "GET", target));  // reports an unknown share
  const auto snapshot = TRY(snapshot_of(daemon));
  const auto share = std::ranges::find(snapshot.shares, own.name, &snapshot::Share::name);
  if (share == snapshot.shares.end() || !share->ttl_ns)
    return fail(ErrorCode::usage, "the share '" + harmless(own.name) + "' has no end that could be put off",
                "it stays until it is removed, or its last program ends");
  const std::uint64_t end_ns = snapshot.taken_unix_ns + *share->ttl_ns + more_ns;
  const Json body = {{"ttl", std::to_string((end_ns - std::min(end_ns, share->created_unix_ns)) / kSecond) + "s"}};
  return shown(voice, daemon, TRY(ask(daemon, "PATCH", target, compact_json(body))));
}

// Returns how many processes fit the tightest memory limit, if the size of a context is known.
std::string process_room_text(const snapshot::Share& share) {
  const auto room_on = [](const snapshot::ShareDevice& device) {
    return *device.memory_limit_bytes / device.context_bytes;
  };
  const snapshot::ShareDevice* tightest = nullptr;
  for (const auto& device : share.devices) {
    if (!device.memory_limit_bytes || device.context_bytes == 0) continue;
    if (tightest == nullptr || room_on(device) < room_on(*tightest)) tightest = &device;
  }
  if (tightest == nullptr) return "";
  const std::uint64_t room = room_on(*tightest);
  return "its memory has room for " +
         (room == 0   ? "no process"
          : room == 1 ? "1 process"
                      : std::to_string(room) + " processes") +
         ": a CUDA context takes " + bytes_text(tightest->context_bytes) + "\n";
}

// Shows the share after a change, with remarks on its new limits and its CDI file.
Result<std::string> changed(const Voice& voice, const http::Endpoint& daemon, const ShareOptions& own,
                            const std::string& reply) {
  const bool said = own.request.compute || own.request.burst;
  const auto share = snapshot::from_json<snapshot::Share>(reply);
  if (share && said) remark_on_low_ceiling(*share, voice);
  // The share works without a CDI file. If the node has no directory for such files, there is nothing to report.
  if (share && voice.talk && !share->cdi_file.empty() && !share->cdi_problem.empty())
    say("the share '" + harmless(share->name) + "' has no CDI file: " + harmless(share->cdi_problem));
  if (share && voice.talk && own.request.isolation && share->mps_users == "all")
    say("the share '" + harmless(share->name) +
        "' has its MPS server with those of all users on the GPU: a fault in one program ends the programs of all");
  const std::string row = TRY(shown(voice, daemon, reply));
  if (!is_table(voice.format)) return row;
  return row + process_room_text(TRY(snapshot::from_json<snapshot::Share>(reply)));
}

// {"alice": {"compute": "80%"}, ...}. Errors: usage.
Result<std::string> rebalance_body(const std::vector<std::string>& parts, bool agreed) {
  Json body = Json::object();
  for (const std::string& part : parts) {
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == part.size())
      return fail(ErrorCode::usage, "share rebalance: '" + harmless(part) + "' is no NAME=PART",
                  "such as: headgate share rebalance alice=80% bob=20%");
    const std::string name = part.substr(0, equals);
    if (body.contains(name))
      return fail(ErrorCode::usage, "share rebalance: the share '" + harmless(name) + "' is named twice",
                  "name each share once");
    body[name] = {{"compute", part.substr(equals + 1)}};
    if (agreed) body[name][kConsent] = true;
  }
  return compact_json(body);
}

Result<std::string> rebalanced(const Voice& voice, const http::Endpoint& daemon, const RebalanceOptions& own) {
  const std::string reply = TRY(ask_for_change(daemon, "PATCH", "/v1/shares", own.yes,
                                               [&](bool agreed) { return rebalance_body(own.parts, agreed); }));
  const auto snapshot = TRY(snapshot_of(daemon));
  if (voice.format == Format::json) return enclosed_text("headgate.shares/v1", "shares", reply, snapshot);
  const auto shares = TRY(snapshot::from_json<std::vector<snapshot::Share>>(reply));
  for (const auto& share : shares) remark_on_low_ceiling(share, voice);
  return simulated_text(snapshot, voice) + shares_text(shares, snapshot, voice);
}

// Lists all settings of a share, one per line, by option name. Empty if its pages cannot be read.
std::string settings_text(const snapshot::Share& share, const Voice& voice) {
  if (share.admit.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const auto& device : share.devices) {
    const std::string on = share.devices.size() > 1 ? " (" + device.uuid + ")" : "";
    rows.push_back({"weight" + on, device.weight == 0 ? "-" : std::to_string(device.weight)});
    rows.push_back({"class" + on, device.priority_class.empty() ? "-" : device.priority_class});
    rows.push_back({"host-mem" + on, device.host_limit_bytes == 0 ? "none"
                                     : share.oversubscribe
                                         ? bytes_text(device.host_limit_bytes) + ", which programs see as the card's"
                                         : bytes_text(device.host_limit_bytes)});
  }
  const std::string others =
      "users " + or_dash(joined(share.users, ", ")) + "; groups " + or_dash(joined(share.groups, ", "));
  rows.push_back({"may enter", share.everyone ? "everyone" : "its owner; " + others});
  rows.push_back({"ends", share.expired   ? "now: its time is over, and it goes with its last program"
                          : share.ttl_ns  ? "in " + duration_text(*share.ttl_ns)
                          : share.created ? "when it is removed"
                                          : "with its last program"});
  for (const auto& [name, value, is_time] : shown_attributes(share, duration_text))
    if (is_time || !value.empty()) rows.push_back({name, value.empty() ? "never" : value});
  if (!share.mps_users.empty())
    rows.push_back({"MPS server", share.mps_users == "all" ? "one for all users' shares on the GPU"
                                                           : "its owner's, for one user at a time"});
  return table(rows, voice, false);
}

Result<int> share_show(const Call& call, const std::string& name) {
  const http::Endpoint daemon = TRY(need_daemon());
  const std::string reply = TRY(ask(daemon, "GET", share_target(name)));
  const std::string row = TRY(shown(call.voice, daemon, reply));
  if (!is_table(call.voice.format)) return show(row);
  const auto share = TRY(snapshot::from_json<snapshot::Share>(reply));
  std::string limits = driver_problem_text(share);
  for (const auto& device : share.devices) limits += driver_limit_text(device);
  return show(row + settings_text(share, call.voice) + limits + container_lines(share));
}

Result<int> share_create(const Call& call, const ShareOptions& own) {
  const http::Endpoint daemon = TRY(need_daemon());
  snapshot::ShareRequest request = own.request;
  request.name = own.name;
  return show(changed(call.voice, daemon, own, TRY(ask_for_change(daemon, "POST", "/v1/shares", request))));
}

Result<int> share_set(const Call& call, const ShareOptions& own) {
  const http::Endpoint daemon = TRY(need_daemon());
  snapshot::ShareRequest nothing;
  nothing.void_promises = own.request.void_promises;
  if (own.request == nothing)
    return fail(ErrorCode::usage, "share set: nothing to change was named",
                "such as: headgate share set NAME --mem 12GiB");
  return show(
      changed(call.voice, daemon, own, TRY(ask_for_change(daemon, "PATCH", share_target(own.name), own.request))));
}

Result<int> share_rm(const Call& call, const std::string& name) {
  const http::Endpoint daemon = TRY(need_daemon());
  TRY(ask(daemon, "DELETE", share_target(name)));
  return show_done(call, "headgate.share_rm/v1");
}

// share pause, resume, drain, reclaim: the operation has the command's name.
Result<int> share_operation(const Call& call, const std::string& name) {
  const http::Endpoint daemon = TRY(need_daemon());
  const std::string target = share_target(name) + "/" + call.command.substr(call.command.find(' ') + 1);
  return show(shown(call.voice, daemon, TRY(ask(daemon, "POST", target))));
}

Result<Shown> shares_view(const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
  if (is_table(voice.format))
    return Shown{.text = stamp(snapshot.now, voice) + shares_text(snapshot.now.shares, snapshot.now, voice) +
                         waiting_text(snapshot.now, voice)};
  if (voice.format == Format::json)
    return Shown{
        .text = enclosed_text("headgate.shares/v1", "shares", snapshot::to_json(snapshot.now.shares), snapshot.now)};
  return Shown{.text = TRY(lines(records_of("headgate.share/v1", snapshot.now.shares), origin_of(snapshot.now), voice,
                                 heading))};
}

// Only a daemon keeps shares that can be listed.
Result<int> share_ls(const Call& call) {
  const http::Endpoint daemon = TRY(need_daemon());
  return show_view(call, {daemon_source(daemon), daemon}, shares_view);
}

void add_name(Options& options, std::string& name) {
  options.operand("NAME", "the share's name", name).completes = ":share";
}

Command named_command(const char* name, const char* summary,
                      Result<int> (*run)(const Call&, const std::string&) = share_operation) {
  return command<std::string>(kCommands, name, summary, add_name, run);
}

}  // namespace

Commands share_commands() {
  return {
      parent_command(kManage, "share", "create, change and list shares (needs the daemon)"),
      command<ShareOptions>(kCommands, "share create", "create a share; it stays until it is removed",
                            add_create_options, share_create),
      command<ShareOptions>(kCommands, "share set",
                            "change a share and its running programs at once; its GPUs, gang and fail policy stay",
                            add_set_options, share_set),
      command<RebalanceOptions>(
          kCommands, "share rebalance", "change the promises of several shares in one step",
          [](Options& options, RebalanceOptions& own) {
            options
                .list("PART", "", "NAME=PART, such as alice=80% bob=20%; what --compute takes", Takes::some, own.parts)
                .required = true;
            add_yes(options, own.yes);
            options.footer =
                "The daemon checks for room after all the changes: headgate share rebalance alice=80% bob=20%";
          },
          [](const Call& call, const RebalanceOptions& own) -> Result<int> {
            return show(rebalanced(call.voice, TRY(need_daemon()), own));
          }),
      command<ExtendOptions>(
          kCommands, "share extend", "extend a share's time to live",
          [](Options& options, ExtendOptions& own) {
            options.operand("NAME", "the share's name", own.name).completes = ":share";
            options.operand("TIME", "time to add: 30m, 8h, 2d", own.time);
          },
          [](const Call& call, const ExtendOptions& own) -> Result<int> {
            return show(extended(call.voice, TRY(need_daemon()), own));
          }),
      command<std::string>(
          kCommands, "share show", "show one share",
          [](Options& options, std::string& name) {
            add_name(options, name);
            options.lists();
          },
          share_show),
      plain_command(kCommands, "share ls", "list the shares that you may see", share_ls, Reads::sound,
                    [](Options& options) {
                      options.watch();
                      options.lists();
                    }),
      named_command("share rm", "remove an empty share", share_rm),
      named_command("share pause", "hold all launches of its programs until resume"),
      named_command("share resume", "end pause or drain"),
      named_command("share drain", "admit no process and grant no memory until resume"),
      named_command("share reclaim", "make its programs return unused pool memory, once"),
  };
}

}  // namespace headgate::cli
