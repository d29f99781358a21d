#include "cli/share/share_commands.hpp"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "base/user_name.hpp"
#include "cli/run/low_ceiling.hpp"
#include "cli/share/container_lines.hpp"
#include "cli/share/daemon.hpp"
#include "cli/term/records.hpp"
#include "cli/top/top.hpp"
#include "cli/view/names.hpp"
#include "cli/view/views.hpp"
#include "cli/view/why_memory.hpp"
#include "guest/grant/text.hpp"
#include "http/codec.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

// The key that accepts voiding promises; the daemon's refusal names it.
constexpr const char* kConsent = "void_promises";

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    if (comma > at) parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

// Returns the options as the API's body: flags as booleans, lists as lists, all else as text that the daemon parses.
std::string body_of(const Invocation& invocation) {
  Json body = Json::object();
  for (const auto& [key, value] : invocation.order) {
    if (key == "overcommit" || key == "oversubscribe" || key == "everyone" || key == kConsent)
      body[key] = value == "true";
    else if (key == "users" || key == "groups") body[key] = parts_of(value);
    else body[key] = value;
  }
  return body.dump(-1, ' ', true, Json::error_handler_t::replace);
}

bool wants_consent(const Error& error) {
  return error.code == ErrorCode::conflict && error.hint.find(kConsent) != std::string::npos;
}

// Asks on the terminal. Errors: usage if there is no terminal or the answer is no.
Result<void> consent(const Error& refusal) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1)
    return fail(ErrorCode::usage, refusal.message, "nothing was changed; --yes goes on without asking");
  std::cerr << "headgate: " << harmless(refusal.message) << "\ngo on? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return {};
  return fail(ErrorCode::usage, "nothing was changed", "--yes goes on without asking");
}

// Makes a change that the daemon may refuse because it voids promises. `body` builds it with or without consent
// (kConsent).
template <typename Body>
Result<std::string> ask_for_change(const Invocation& invocation, const http::Endpoint& daemon,
                                   const std::string& method, const std::string& target, Body body) {
  auto reply = ask(daemon, method, target, TRY(body(invocation.yes)));
  if (reply || invocation.yes || !wants_consent(reply.error())) return reply;
  if (auto agreed = consent(reply.error()); !agreed) return std::unexpected(agreed.error());
  return ask(daemon, method, target, TRY(body(true)));
}

Result<std::string> ask_for_change(const Invocation& invocation, const http::Endpoint& daemon,
                                   const std::string& method, const std::string& target) {
  return ask_for_change(invocation, daemon, method, target, [&](bool agreed) -> Result<std::string> {
    Invocation said = invocation;
    if (agreed) said.order[kConsent] = "true";
    return body_of(said);
  });
}

Result<snapshot::Snapshot> snapshot_of(const http::Endpoint& daemon) {
  const std::string reply = TRY(ask(daemon, "GET", "/v1/snapshot"));
  return snapshot::from_json<snapshot::Snapshot>(reply);
}

std::string lines(const Records& records, const Origin& origin, const Voice& voice) {
  return voice.format == Format::csv ? csv(records, origin, true) : jsonl(records, origin);
}

std::string simulated_text(const snapshot::Snapshot& snapshot, const Voice& voice) {
  return snapshot.node.simulated ? warning("SIMULATED", voice) + "\n" : "";
}

// Returns the output of a command that has only its success to report.
std::string done(const Invocation& invocation, const char* schema, const std::string& text) {
  return invocation.voice.format == Format::json ? Json{{"schema", schema}}.dump() + "\n" : text;
}

Result<std::string> shown(const Invocation& invocation, const http::Endpoint& daemon, const std::string& reply) {
  const auto snapshot = TRY(snapshot_of(daemon));
  if (invocation.voice.format == Format::json) return enclosed("headgate.share/v1", "share", reply, snapshot);
  const auto share = TRY(snapshot::from_json<snapshot::Share>(reply));
  if (!is_table(invocation.voice.format))
    return lines(records_of("headgate.share/v1", std::vector{share}), origin_of(snapshot), invocation.voice);
  return simulated_text(snapshot, invocation.voice) + shares_text({share}, snapshot, invocation.voice);
}

// The TTL counts from creation, so the new one is the time passed plus the time left plus the extension.
Result<std::string> extended(const Invocation& invocation, const http::Endpoint& daemon, const std::string& target) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::uint64_t more_ns = TRY(time_option("share extend: the time", invocation.order.at("time")));
  TRY(ask(daemon, "GET", target));  // reports an unknown share
  const auto snapshot = TRY(snapshot_of(daemon));
  const auto share = std::ranges::find(snapshot.shares, invocation.share, &snapshot::Share::name);
  if (share == snapshot.shares.end() || !share->ttl_ns) {
    return fail(ErrorCode::usage, "the share '" + harmless(invocation.share) + "' has no end that could be put off",
                "it stays until it is removed, or its last program ends");
  }
  const std::uint64_t end_ns = snapshot.taken_unix_ns + *share->ttl_ns + more_ns;
  const Json body = {{"ttl", std::to_string((end_ns - std::min(end_ns, share->created_unix_ns)) / kSecond) + "s"}};
  return shown(invocation, daemon, TRY(ask(daemon, "PATCH", target, body.dump())));
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
Result<std::string> changed(const Invocation& invocation, const http::Endpoint& daemon, const std::string& reply) {
  const bool said = invocation.order.contains("compute") || invocation.order.contains("burst");
  const auto share = snapshot::from_json<snapshot::Share>(reply);
  if (share && said) remark_on_low_ceiling(*share, invocation.voice);
  // The share works without a CDI file. If the node has no directory for such files, there is nothing to report.
  if (share && invocation.voice.talk && !share->cdi_file.empty() && !share->cdi_problem.empty())
    say("the share '" + harmless(share->name) + "' has no CDI file: " + harmless(share->cdi_problem));
  const std::string row = TRY(shown(invocation, daemon, reply));
  if (!is_table(invocation.voice.format)) return row;
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
  return body.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<std::string> rebalanced(const Invocation& invocation, const http::Endpoint& daemon) {
  const std::string reply = TRY(ask_for_change(invocation, daemon, "PATCH", "/v1/shares",
                                               [&](bool agreed) { return rebalance_body(invocation.parts, agreed); }));
  const auto snapshot = TRY(snapshot_of(daemon));
  if (invocation.voice.format == Format::json) return enclosed("headgate.shares/v1", "shares", reply, snapshot);
  const auto shares = TRY(snapshot::from_json<std::vector<snapshot::Share>>(reply));
  for (const auto& share : shares) remark_on_low_ceiling(share, invocation.voice);
  return simulated_text(snapshot, invocation.voice) + shares_text(shares, snapshot, invocation.voice);
}

std::string after_text(const std::optional<std::uint64_t>& ns) { return ns ? duration_text(*ns) : "never"; }

std::string people(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + harmless(word);
  return text.empty() ? "-" : text;
}

// Lists all settings of a share, one per line, by option name. Empty if its pages cannot be read.
// nothing.
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
  const std::string others = "users " + people(share.users) + "; groups " + people(share.groups);
  rows.push_back({"may enter", share.everyone ? "everyone" : "its owner; " + others});
  rows.push_back({"admit", share.admit});
  rows.push_back({"on-oom", share.on_oom});
  rows.push_back({"fail-policy", share.fail_policy});
  rows.push_back({"freeze-after", after_text(share.freeze_after_ns)});
  rows.push_back({"idle-notice", after_text(share.idle_notice_ns)});
  rows.push_back({"ends", share.expired   ? "now: its time is over, and it goes with its last program"
                          : share.ttl_ns  ? "in " + duration_text(*share.ttl_ns)
                          : share.created ? "when it is removed"
                                          : "with its last program"});
  rows.push_back({"overcommit", share.overcommit ? "yes: promised nothing" : "no"});
  rows.push_back({"oversubscribe", share.oversubscribe ? "yes" : "no"});
  if (!share.gang.empty()) rows.push_back({"gang", share.gang});
  if (!share.isolation.empty()) rows.push_back({"isolation", share.isolation});
  Voice plain = voice;
  plain.colour = false;
  return table(rows, plain);
}

Result<std::string> quota_lines(const http::Endpoint& daemon, const std::string& reply, const Voice& voice) {
  const Json list = Json::parse(reply, nullptr, false);
  const Json pattern = {{"user", 0},   {"group", 0},  {"everyone", true}, {"memory_bytes", 0}, {"compute_ratio", 0},
                        {"shares", 0}, {"ttl_ns", 0}, {"weight", 0},      {"class", ""}};
  Records records{.schema = "headgate.quota/v1", .pattern = pattern.dump(), .objects = {}};
  for (const Json& quota : list) records.objects.push_back(quota.dump());
  return lines(records, origin_of(TRY(snapshot_of(daemon))), voice);
}

Result<std::string> quota_text(const http::Endpoint& daemon, const Invocation& invocation, const std::string& reply) {
  const auto snapshot = TRY(snapshot_of(daemon));
  if (invocation.voice.format == Format::json) return enclosed("headgate.quotas/v1", "quotas", reply, snapshot);
  const std::string heading = stamp(snapshot, invocation.voice);
  const Json json = Json::parse(reply, nullptr, false);
  std::vector<std::vector<std::string>> rows = {
      {"FOR", "\tMEMORY", "\tCOMPUTE", "\tSHARES", "\tENDS AFTER", "\tWEIGHT", "CLASS"}};
  for (const Json& quota : json) {
    const std::string who = quota.contains("user")    ? "user " + user_name(quota["user"].get<std::uint32_t>())
                            : quota.contains("group") ? "group " + group_name(quota["group"].get<std::uint32_t>())
                                                      : "everyone";
    const auto cell = [&](const char* key, auto&& text) {
      return "\t" + (quota.contains(key) && quota[key].is_number() ? text(quota[key]) : std::string("-"));
    };
    rows.push_back({who, cell("memory_bytes", [](const Json& v) { return bytes_text(v.get<std::uint64_t>()); }),
                    cell("compute_ratio", [](const Json& v) { return percent_of(v.get<double>()); }),
                    cell("shares", [](const Json& v) { return v.dump(); }),
                    cell("ttl_ns", [](const Json& v) { return duration_text(v.get<std::uint64_t>()); }),
                    cell("weight", [](const Json& v) { return v.dump(); }),
                    quota.contains("class") && quota["class"].is_string() ? quota["class"].get<std::string>() : "-"});
  }
  return heading + (rows.size() == 1 ? "there are no quotas\n" : table(rows, invocation.voice));
}

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

}  // namespace

Result<std::string> share_command(const Invocation& invocation) {
  const http::Endpoint daemon = TRY(need_daemon());
  const std::string& word = invocation.command;
  const std::string share = "/v1/shares/" + http::escape(invocation.share);
  if (word == "share show") {
    const std::string reply = TRY(ask(daemon, "GET", share));
    const std::string row = TRY(shown(invocation, daemon, reply));
    if (!is_table(invocation.voice.format)) return row;
    const auto shown_share = TRY(snapshot::from_json<snapshot::Share>(reply));
    std::string limits = driver_problem_text(shown_share);
    for (const auto& device : shown_share.devices) limits += driver_limit_text(device);
    return row + settings_text(shown_share, invocation.voice) + limits + container_lines(shown_share);
  }
  if (word == "share create") {
    Invocation named = invocation;
    named.order["name"] = invocation.share;
    return changed(invocation, daemon, TRY(ask_for_change(named, daemon, "POST", "/v1/shares")));
  }
  if (word == "share set") {
    if (invocation.order.empty())
      return fail(ErrorCode::usage, "share set: nothing to change was named",
                  "such as: headgate share set NAME --mem 12GiB");
    return changed(invocation, daemon, TRY(ask_for_change(invocation, daemon, "PATCH", share)));
  }
  if (word == "share rebalance") return rebalanced(invocation, daemon);
  if (word == "share extend") return extended(invocation, daemon, share);
  if (word == "share rm") {
    TRY(ask(daemon, "DELETE", share));
    return done(invocation, "headgate.share_rm/v1", "");
  }
  if (word == "share pause" || word == "share resume" || word == "share drain" || word == "share reclaim")
    return shown(invocation, daemon, TRY(ask(daemon, "POST", share + "/" + word.substr(word.find(' ') + 1))));
  if (word == "quota ls") {
    const std::string reply = TRY(ask(daemon, "GET", "/v1/quotas"));
    const Voice& voice = invocation.voice;
    if (voice.format == Format::jsonl || voice.format == Format::csv) return quota_lines(daemon, reply, voice);
    return quota_text(daemon, invocation, reply);
  }
  if (word == "quota set") {
    const bool names_a_limit = std::ranges::any_of(invocation.order, [](const auto& said) {
      return said.first != "user" && said.first != "group" && said.first != "everyone";
    });
    if (!names_a_limit)
      return fail(ErrorCode::usage, "quota set: no limit was named",
                  "such as: headgate quota set --user NAME --mem 24GiB; none takes one back, quota rm all of them");
    const std::string reply = TRY(ask(daemon, "PATCH", "/v1/quotas", body_of(invocation)));
    return quota_text(daemon, invocation, "[" + reply + "]");
  }
  if (word == "gpu policy") {
    const std::string uuid = TRY(uuid_of(daemon, invocation.share));
    const std::string reply = TRY(ask_for_change(invocation, daemon, "PATCH", "/v1/gpus/" + http::escape(uuid)));
    if (invocation.voice.format == Format::json)
      return enclosed("headgate.gpu/v1", "gpu", reply, TRY(snapshot_of(daemon)));
    const auto gpu = TRY(snapshot::from_json<snapshot::Gpu>(reply));
    return "GPU " + uuid.substr(0, 12) + " is now given by the policy " + gpu.policy +
           (gpu.policy_from == "command"
                ? ", which is kept; back to the configuration's: headgate gpu policy " + invocation.share + " default"
                : ", as the configuration says") +
           (gpu.policy_in_force == gpu.policy
                ? "\n"
                : "; it is " + gpu.policy_in_force + " while programs of shares are clients of an MPS server there\n");
  }
  if (word == "quota rm") {
    std::string query;
    for (const auto& [key, value] : invocation.order)
      query += (query.empty() ? "?" : "&") + key + "=" + http::escape(value);
    TRY(ask(daemon, "DELETE", "/v1/quotas" + query));
    return done(invocation, "headgate.quota_rm/v1", "");
  }
  if (word == "metrics" && invocation.voice.format == Format::jsonl)
    return TRY(ask(daemon, "GET", "/metrics/json")) + "\n";
  if (word == "metrics") return TRY(ask(daemon, "GET", "/metrics")) + "\n";
  if (word == "api schema") return TRY(ask(daemon, "GET", "/v1/openapi.json")) + "\n";
  if (word == "gpu release") {
    TRY(ask(daemon, "POST", "/v1/gpus/all/release"));
    return done(invocation, "headgate.gpu_release/v1",
                "headgated has closed the driver for 60 s: GPUs can be reset, drivers unloaded\n");
  }
  return fail(ErrorCode::usage, "unknown word '" + word + "'", "see 'headgate --help'");
}

}  // namespace headgate::cli
