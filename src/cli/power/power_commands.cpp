// `headgate power`, `gpu mode` and `gpu timeslice`: limits, clocks and modes, which headgated sets within its policy.
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "base/now.hpp"
#include "cli/commands.hpp"
#include "cli/power/power_request.hpp"
#include "cli/power/power_view.hpp"
#include "cli/run/run_request.hpp"
#include "cli/share/daemon.hpp"
#include "cli/share/order.hpp"
#include "cli/term/output.hpp"
#include "cli/term/records.hpp"
#include "cli/view/names.hpp"
#include "cli/view/snapshot_source.hpp"
#include "cli/view/view_command.hpp"
#include "http/client.hpp"
#include "http/codec.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

// Caveats about simulated GPUs, printed above every table.
std::string heading(const snapshot::Snapshot& snapshot, const Voice& voice) {
  const std::string all = caveats(snapshot, voice);
  return all.empty() ? "" : all.substr(2) + "\n";
}

constexpr std::string_view kPowerFields =
    "index uuid model power_mw energy_mj requested_limit_mw enforced_limit_mw min_limit_mw max_limit_mw "
    "default_limit_mw persistence compute_mode gpu_clocks_mhz mem_clocks_mhz sm_clock_mhz memory_clock_mhz "
    "throttle_reasons leases waiting error";

Result<std::string> status(const http::Endpoint& daemon, const snapshot::Snapshot& snapshot, const Voice& voice,
                           bool columns) {
  const std::string reply = TRY(ask(daemon, "GET", "/v1/power"));
  if (voice.format == Format::json) return enclosed_text("headgate.power/v1", "power", reply, snapshot);
  const auto state = TRY(power_state_from(reply));
  if (is_table(voice.format)) return heading(snapshot, voice) + power_status_text(state, unix_now_ns(), voice);
  Records records{
      .schema = "headgate.power_gpu/v1", .pattern = compact_json(picked(Json::object(), kPowerFields)), .objects = {}};
  const Json all = parse_json(reply);
  for (const Json& gpu : all["gpus"]) records.objects.push_back(compact_json(gpu));
  return lines(records, origin_of(snapshot), voice, columns);
}

Result<int> watched(const http::Endpoint& daemon, const Call& call, std::uint64_t interval_ms) {
  const auto draw = [&daemon](const Look& look, const Voice& voice, bool columns) -> Result<std::string> {
    if (!look.snapshot) return std::unexpected(look.snapshot.error());
    return status(daemon, *look.snapshot, voice, columns);
  };
  return watch({.title = "headgate " + call.command,
                .interval = std::chrono::milliseconds(interval_ms),
                .source = daemon_source(daemon),
                .draw = draw},
               call.voice);
}

// Returns the UUIDs chosen by --gpu. On a node with several GPUs, --gpu is required.
Result<std::vector<std::string>> chosen_uuids(const std::string& command, const std::string& gpu,
                                              const snapshot::Snapshot& snapshot) {
  if (gpu == "auto")
    return fail(ErrorCode::usage, command + ": --gpu 'auto' names no GPU", "accepted: 0, 0,2-3, GPU-9c2f, all");
  if (const std::size_t all = snapshot.gpus.size(); gpu.empty() && all > 1)
    return fail(ErrorCode::usage, command + ": no GPU was named, and there are " + std::to_string(all),
                "name some: --gpu 0, --gpu 0,2-3, --gpu GPU-9c2f, --gpu all");
  return choose_uuids("--gpu", gpu.empty() ? "all" : gpu, snapshot);
}

// Shows the GPUs that were changed even if others failed.
Result<Shown> changed(const http::Endpoint& daemon, const snapshot::Snapshot& snapshot, const Voice& voice,
                      const std::string& target, const std::string& body) {
  const auto reply =
      TRY(http::exchange(daemon, {.method = "POST", .target = target, .body = body}, std::chrono::seconds(30)));
  Shown outcome;
  if (reply.status / 100 != 2) {
    outcome.trouble = http::error_of(reply.status, reply.body);
    const Json parsed = parse_json(reply.body);
    if (!parsed.is_object() || !parsed.contains("gpus")) return std::unexpected(*outcome.trouble);
  }
  const bool dry_run = parse_json(body)["dry_run"] == true;
  if (voice.format == Format::json) {
    outcome.text = enclosed_text("headgate.power_changes/v1", "answer", reply.body, snapshot);
    return outcome;
  }
  const auto changes = TRY(power_changes_from(reply.body));
  const std::string now = TRY(ask(daemon, "GET", "/v1/power"));
  const auto state = TRY(power_state_from(now));
  outcome.text = heading(snapshot, voice) + power_changes_text(changes, state, voice) +
                 (dry_run ? "nothing was set: --dry-run\n" : "");
  return outcome;
}

Result<Shown> leased(const Voice& voice, const Order& order, const http::Endpoint& daemon,
                     const snapshot::Snapshot& snapshot, const std::string& body) {
  const std::string reply = TRY(ask(daemon, "POST", "/v1/power/leases", body, std::chrono::seconds(30)));
  const auto lease = TRY(lease_from(reply));
  const std::string now = TRY(ask(daemon, "GET", "/v1/power"));
  const auto state = TRY(power_state_from(now));
  const bool json = voice.format == Format::json;
  Shown outcome{.text = json ? enclosed_text("headgate.power_lease/v1", "lease", reply, snapshot)
                             : heading(snapshot, voice) + power_changes_text(lease.gpus, state, voice)};
  const std::string end = "headgate power end " + lease.id;
  if (!order.contains("confirm")) {
    if (!json)
      outcome.text += "lease " + lease.id + " holds them" +
                      (lease.holder_pid != 0 ? " while process " + std::to_string(lease.holder_pid) + " lives" : "") +
                      (lease.ends_at_s != 0
                           ? (lease.holder_pid != 0 ? ", and " : "; it ") + format_end(lease.ends_at_s, unix_now_ns())
                           : "") +
                      "\n" + end + " puts the former values back at once\n";
    return outcome;
  }
  const auto seconds = static_cast<std::uint64_t>(parse_json(body)["ttl_s"]);
  if (!can_ask()) {
    if (!json)
      outcome.text += "not confirmed: the former values are back in " + std::to_string(seconds) +
                      " s, unless: headgate power keep " + lease.id + "\n";
    return outcome;
  }
  TRY(show(std::exchange(outcome.text, "")));
  const std::string question = "keep these settings? They are put back in " + std::to_string(seconds) + " s.";
  if (const Answer answer = ask_user(question, std::chrono::seconds(seconds)); answer == Answer::yes) {
    TRY(ask(daemon, "POST", "/v1/power/leases/" + lease.id + "/keep"));
    if (!json) outcome.text = "the settings stay\n";
  } else {
    // The lease may have expired, so that the daemon ended it first.
    if (auto ended = ask(daemon, "DELETE", "/v1/power/leases/" + lease.id);
        !ended && ended.error().code != ErrorCode::not_found)
      return std::unexpected(ended.error());
    outcome.trouble = {
        ErrorCode::failed,
        std::string(answer == Answer::no ? "not confirmed" : "not confirmed in time") + ": the former values are back",
        ""};
  }
  return outcome;
}

// `power set`, `apply`, `reset`, `gpu mode` and `gpu timeslice`.
Result<int> change_power(const Call& call, const PowerOptions& own) {
  const http::Endpoint daemon = TRY(need_daemon());
  TRY(power_body(call.command, own, {}));  // reports malformed values before unknown GPUs
  const auto snapshot = TRY(snapshot_of(daemon));
  const auto uuids = TRY(chosen_uuids(call.command, own.gpu, snapshot));
  const std::string body = TRY(power_body(call.command, own, uuids));
  const bool lease = wants_lease(own.order);
  const char* target = call.command == "power reset" ? "/v1/power/reset"
                       : lease                       ? "/v1/power/leases"
                                                     : "/v1/power/settings";
  const Shown outcome = TRY(lease && !own.dry_run ? leased(call.voice, own.order, daemon, snapshot, body)
                                                  : changed(daemon, snapshot, call.voice, target, body));
  TRY(show(outcome.text));
  if (outcome.trouble) return std::unexpected(*outcome.trouble);
  return 0;
}

Result<int> power_status(const Call& call) {
  const http::Endpoint daemon = TRY(need_daemon());
  const auto every = call.command == "power watch" ? std::optional(call.interval_ms.value_or(1000)) : call.watch_ms;
  if (every) return watched(daemon, call, *every);
  return show(status(daemon, TRY(snapshot_of(daemon)), call.voice, true));
}

Result<int> power_profiles(const Call& call) {
  const http::Endpoint daemon = TRY(need_daemon());
  const std::string reply = TRY(ask(daemon, "GET", "/v1/power/profiles"));
  if (call.voice.format == Format::json)
    return show(enclosed_text("headgate.power_profiles/v1", "profiles", reply, TRY(snapshot_of(daemon))));
  return show(power_profiles_text(TRY(power_profiles_from(reply)), call.voice));
}

Result<int> end_lease(const Call& call, const std::string& id) {
  const http::Endpoint daemon = TRY(need_daemon());
  const bool keep = call.command == "power keep";
  const std::string lease = "/v1/power/leases/" + http::escape(id);
  TRY(ask(daemon, keep ? "POST" : "DELETE", keep ? lease + "/keep" : lease, {}, std::chrono::seconds(30)));
  return show_done(call, keep ? "headgate.power_keep/v1" : "headgate.power_end/v1",
                   keep ? "the settings stay\n" : "the former values are back\n");
}

// A command below `gpu` that sets one thing, to stay or as a lease.
Command gpu_setting(const std::string& name, const char* summary, const OrderOption& value, const char* footer) {
  return command<PowerOptions>(
      kCommands, name, summary,
      [value, footer](Options& options, PowerOptions& own) {
        add_gpu_setting(options, own, value);
        options.footer = footer;
      },
      change_power);
}

Command lease_command(const char* name, const char* summary) {
  return command<std::string>(
      kCommands, name, summary,
      [](Options& options, std::string& id) { options.operand("LEASE", "its id, as power status shows it", id); },
      end_lease);
}

}  // namespace

Commands power_commands() {
  return {
      parent_command(kManage, "power", "show and set power limits, clocks and modes of GPUs"),
      plain_command(kCommands, "power status", "show limits, locked clocks, modes and the leases that hold them",
                    power_status, Reads::sound,
                    [](Options& options) {
                      options.watch();
                      options.lists();
                    }),
      plain_command(kCommands, "power watch", "repeat power status until Ctrl-C or q", power_status, Reads::sound,
                    [](Options& options) {
                      options.interval("time between refreshes", "1s");
                      options.lists();
                    }),
      command<PowerOptions>(kCommands, "power set", "set a power limit, clocks or a mode, permanently or for a time",
                            add_power_set, change_power),
      command<PowerOptions>(kCommands, "power apply", "apply a named profile of the configuration", add_power_apply,
                            change_power),
      command<PowerOptions>(kCommands, "power reset",
                            "set the site's values (power.at_start), else the driver's defaults", add_power_reset,
                            change_power),
      gpu_setting("gpu mode", "set which programs may have a context on a GPU, permanently or for a time",
                  {"MODE", "compute_mode", "",
                   "default: all, by time slices; exclusive: one process, or an MPS server; prohibited: none"},
                  "headgate gpu mode exclusive --gpu 0 --for 2h\n"
                  "headgate gpu mode default --gpu 0"),
      gpu_setting("gpu timeslice", "set the length of the driver's time slices, permanently or for a time",
                  {"LENGTH", "time_slice", "", "of the driver's time slices: default, short, medium, long"},
                  "headgate gpu timeslice long --gpu 0 --for 2h\n"
                  "headgate gpu timeslice default --gpu 0"),
      plain_command(kCommands, "power profiles", "list the named profiles", power_profiles),
      lease_command("power keep", "end a lease and keep its settings, also to confirm --confirm"),
      lease_command("power end", "end a lease and restore the former values"),
  };
}

}  // namespace headgate::cli
