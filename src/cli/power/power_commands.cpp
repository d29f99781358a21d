#include "cli/power/power_commands.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/power/confirm.hpp"
#include "cli/power/power_request.hpp"
#include "cli/power/power_state.hpp"
#include "cli/power/power_view.hpp"
#include "cli/run/run_request.hpp"
#include "cli/share/daemon.hpp"
#include "cli/term/records.hpp"
#include "cli/top/top.hpp"
#include "cli/view/names.hpp"
#include "cli/view/snapshot_source.hpp"
#include "cli/view/watch.hpp"
#include "http/client.hpp"
#include "http/codec.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

// Text for stdout, and an error printed beside it that decides the exit status.
struct Outcome {
  std::string text;
  std::optional<Error> trouble = {};
};

Result<snapshot::Snapshot> snapshot_of(const http::Endpoint& daemon) {
  return snapshot::from_json<snapshot::Snapshot>(TRY(ask(daemon, "GET", "/v1/snapshot")));
}

// Caveats about simulated GPUs, printed above every table.
std::string heading(const snapshot::Snapshot& snapshot, const Voice& voice) {
  const std::string all = caveats(snapshot, voice);
  return all.empty() ? "" : all.substr(2) + "\n";
}

Result<std::string> status(const http::Endpoint& daemon, const snapshot::Snapshot& snapshot, const Voice& voice,
                           bool columns) {
  const std::string reply = TRY(ask(daemon, "GET", "/v1/power"));
  if (voice.format == Format::json) return enclosed("headgate.power/v1", "power", reply, snapshot);
  const auto state = TRY(power_state_from(reply));
  if (is_table(voice.format)) return heading(snapshot, voice) + power_status_text(state, now_unix_ns(), voice);
  const Json pattern = {{"index", 0},
                        {"uuid", ""},
                        {"model", ""},
                        {"power_mw", 0},
                        {"energy_mj", 0},
                        {"requested_limit_mw", 0},
                        {"enforced_limit_mw", 0},
                        {"min_limit_mw", 0},
                        {"max_limit_mw", 0},
                        {"default_limit_mw", 0},
                        {"persistence", true},
                        {"compute_mode", ""},
                        {"gpu_clocks_mhz", Json::array()},
                        {"mem_clocks_mhz", Json::array()},
                        {"sm_clock_mhz", 0},
                        {"memory_clock_mhz", 0},
                        {"throttle_reasons", Json::array()},
                        {"leases", Json::array()},
                        {"waiting", 0},
                        {"error", ""}};
  Records records{.schema = "headgate.power_gpu/v1", .pattern = pattern.dump(), .objects = {}};
  const Json all = Json::parse(reply, nullptr, false);
  for (const Json& gpu : all["gpus"])
    records.objects.push_back(gpu.dump(-1, ' ', true, Json::error_handler_t::replace));
  const Origin origin = origin_of(snapshot);
  return voice.format == Format::csv ? csv(records, origin, columns) : jsonl(records, origin);
}

Result<int> watched(const http::Endpoint& daemon, const Invocation& invocation) {
  const auto draw = [&daemon](const Look& look, const Voice& voice, bool columns) -> Result<std::string> {
    if (!look.snapshot) return std::unexpected(look.snapshot.error());
    return status(daemon, *look.snapshot, voice, columns);
  };
  return watch({.title = "headgate " + invocation.command,
                .interval = std::chrono::milliseconds(invocation.watch_ms.value_or(1000)),
                .source = daemon_source(daemon),
                .draw = draw},
               invocation.voice);
}

// Returns the UUIDs chosen by --gpu. On a node with several GPUs, --gpu is required.
Result<std::vector<std::string>> chosen_uuids(const Invocation& invocation, const snapshot::Snapshot& snapshot) {
  const auto& gpus = snapshot.gpus;
  if (invocation.gpu == "auto")
    return fail(ErrorCode::usage, invocation.command + ": --gpu 'auto' names no GPU",
                "accepted: 0, 0,2-3, GPU-9c2f, all");
  if (invocation.gpu.empty() && gpus.size() > 1)
    return fail(ErrorCode::usage,
                invocation.command + ": no GPU was named, and there are " + std::to_string(gpus.size()),
                "name some: --gpu 0, --gpu 0,2-3, --gpu GPU-9c2f, --gpu all");
  const auto chosen = TRY(choose_gpus("--gpu", invocation.gpu.empty() ? "all" : invocation.gpu,
                                      {gpus, snapshot.node.driver_version, snapshot.node.simulated}));
  std::vector<std::string> uuids;
  for (const std::size_t index : chosen) uuids.push_back(gpus[index].uuid);
  return uuids;
}

// Shows the GPUs that were changed even if others failed.
Result<Outcome> changed(const http::Endpoint& daemon, const snapshot::Snapshot& snapshot, const Voice& voice,
                        const std::string& target, const std::string& body) {
  const auto reply =
      TRY(http::exchange(daemon, {.method = "POST", .target = target, .body = body}, std::chrono::seconds(30)));
  Outcome outcome;
  if (reply.status / 100 != 2) {
    outcome.trouble = http::error_of(reply.status, reply.body);
    const Json parsed = Json::parse(reply.body, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("gpus")) return std::unexpected(*outcome.trouble);
  }
  const bool dry_run = Json::parse(body)["dry_run"] == true;
  if (voice.format == Format::json) {
    outcome.text = enclosed("headgate.power_changes/v1", "answer", reply.body, snapshot);
    return outcome;
  }
  const auto changes = TRY(power_changes_from(reply.body));
  const std::string now = TRY(ask(daemon, "GET", "/v1/power"));
  const auto state = TRY(power_state_from(now));
  outcome.text = heading(snapshot, voice) + power_changes_text(changes, state, voice) +
                 (dry_run ? "nothing was set: --dry-run\n" : "");
  return outcome;
}

Result<Outcome> leased(const Invocation& invocation, const http::Endpoint& daemon, const snapshot::Snapshot& snapshot,
                       const std::string& body) {
  const Voice& voice = invocation.voice;
  const std::string reply = TRY(ask(daemon, "POST", "/v1/power/leases", body, std::chrono::seconds(30)));
  const auto lease = TRY(lease_from(reply));
  const std::string now = TRY(ask(daemon, "GET", "/v1/power"));
  const auto state = TRY(power_state_from(now));
  const bool json = voice.format == Format::json;
  Outcome outcome{.text = json ? enclosed("headgate.power_lease/v1", "lease", reply, snapshot)
                               : heading(snapshot, voice) + power_changes_text(lease.gpus, state, voice)};
  const std::string end = "headgate power end " + lease.id;
  if (!invocation.order.contains("confirm")) {
    if (!json)
      outcome.text += "lease " + lease.id + " holds them" +
                      (lease.holder_pid != 0 ? " while process " + std::to_string(lease.holder_pid) + " lives" : "") +
                      (lease.ends_at_s != 0
                           ? (lease.holder_pid != 0 ? ", and " : "; it ") + format_end(lease.ends_at_s, now_unix_ns())
                           : "") +
                      "\n" + end + " puts the former values back at once\n";
    return outcome;
  }
  const auto seconds = static_cast<std::uint64_t>(Json::parse(body)["ttl_s"]);
  if (!can_ask()) {
    if (!json)
      outcome.text += "not confirmed: the former values are back in " + std::to_string(seconds) +
                      " s, unless: headgate power keep " + lease.id + "\n";
    return outcome;
  }
  if (!print(std::exchange(outcome.text, ""))) return fail(ErrorCode::failed, "cannot write to standard output");
  if (const Answer answer = ask_within(std::chrono::seconds(seconds)); answer == Answer::yes) {
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

Result<Outcome> perform_change(const Invocation& invocation, const http::Endpoint& daemon) {
  TRY(power_body(invocation, {}));  // reports malformed values before unknown GPUs
  const auto snapshot = TRY(snapshot_of(daemon));
  const auto uuids = TRY(chosen_uuids(invocation, snapshot));
  const std::string body = TRY(power_body(invocation, uuids));
  const bool dry_run = invocation.dry_run;
  if (wants_lease(invocation) && !dry_run) return leased(invocation, daemon, snapshot, body);
  const char* target = invocation.command == "power reset" ? "/v1/power/reset"
                       : wants_lease(invocation)           ? "/v1/power/leases"
                                                           : "/v1/power/settings";
  return changed(daemon, snapshot, invocation.voice, target, body);
}

Result<Outcome> profiles(const http::Endpoint& daemon, const Voice& voice) {
  const std::string reply = TRY(ask(daemon, "GET", "/v1/power/profiles"));
  if (voice.format == Format::json)
    return Outcome{.text = enclosed("headgate.power_profiles/v1", "profiles", reply, TRY(snapshot_of(daemon)))};
  return Outcome{.text = power_profiles_text(TRY(power_profiles_from(reply)), voice)};
}

Result<Outcome> end_lease(const Invocation& invocation, const http::Endpoint& daemon) {
  const bool keep = invocation.command == "power keep";
  const std::string lease = "/v1/power/leases/" + http::escape(invocation.share);
  TRY(ask(daemon, keep ? "POST" : "DELETE", keep ? lease + "/keep" : lease, {}, std::chrono::seconds(30)));
  if (invocation.voice.format == Format::json)
    return Outcome{.text = Json{{"schema", keep ? "headgate.power_keep/v1" : "headgate.power_end/v1"}}.dump() + "\n"};
  return Outcome{.text = keep ? "the settings stay\n" : "the former values are back\n"};
}

Result<Outcome> outcome_of(const Invocation& invocation, const http::Endpoint& daemon) {
  const std::string& command = invocation.command;
  if (command == "power status") {
    const auto snapshot = TRY(snapshot_of(daemon));
    return Outcome{.text = TRY(status(daemon, snapshot, invocation.voice, true))};
  }
  if (command == "power profiles") return profiles(daemon, invocation.voice);
  if (command == "power keep" || command == "power end") return end_lease(invocation, daemon);
  return perform_change(invocation, daemon);
}

Result<int> performed(const Invocation& invocation) {
  const http::Endpoint daemon = TRY(need_daemon());
  if (invocation.command == "power watch" || (invocation.command == "power status" && invocation.watch_ms))
    return watched(daemon, invocation);
  const auto outcome = TRY(outcome_of(invocation, daemon));
  if (!print(outcome.text)) return fail(ErrorCode::failed, "cannot write to standard output");
  if (!outcome.trouble) return 0;
  return std::unexpected(*outcome.trouble);
}

}  // namespace

int power_command(const Invocation& invocation) {
  const auto status = performed(invocation);
  if (status) return *status;
  complain(status.error(), invocation.voice);
  return exit_status(status.error().code);
}

}  // namespace headgate::cli
