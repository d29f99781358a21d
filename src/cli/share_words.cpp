#include "cli/share_words.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/daemon.hpp"
#include "cli/low_ceiling.hpp"
#include "cli/names.hpp"
#include "guest/grant/text.hpp"
#include "http/codec.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    if (comma > at) parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

// The options as the API's body: flags are true, lists are lists, all else is text that the daemon reads.
std::string body_of(const Invocation& invocation) {
  Json body = Json::object();
  for (const auto& [key, value] : invocation.order) {
    if (key == "over_sell" || key == "everyone") body[key] = true;
    else if (key == "users" || key == "groups") body[key] = parts_of(value);
    else if (key == "shares") body[key] = Json::parse(value, nullptr, false);
    else body[key] = value;
  }
  return body.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string part_text(double ratio) { return percent_text(ppm_of(ratio)); }

std::string compute_text(const snapshot::ShareDevice& device) {
  if (device.compute_guarantee_ratio == 0)
    return device.compute_ceiling_ratio >= 1 ? "no limit" : "at most " + part_text(device.compute_ceiling_ratio);
  const std::string promised = part_text(device.compute_guarantee_ratio);
  return device.compute_ceiling_ratio > device.compute_guarantee_ratio
             ? promised + ", at most " + part_text(device.compute_ceiling_ratio)
             : promised;
}

std::string memory_text(const snapshot::ShareDevice& device) {
  return bytes_text(device.memory_used_bytes) +
         (device.memory_limit_bytes ? " of " + bytes_text(*device.memory_limit_bytes) : ", no limit");
}

std::string shares_text(const std::vector<snapshot::Share>& shares, const std::vector<snapshot::Gpu>& gpus,
                        const Voice& voice) {
  if (shares.empty()) return "there are no shares; make one: headgate share create NAME --mem 8GiB --compute 50%\n";
  std::vector<std::vector<std::string>> rows = {
      {"SHARE", "OWNER", "GPU", "\tMEMORY", "COMPUTE", "\tUSES", "\tPROCS", "LEVEL", "STATE"}};
  for (const auto& share : shares) {
    if (share.devices.empty())
      rows.push_back(
          {share.name, share.owner, "-", "-", "-", "-", "-", share.level, share.state + ": " + share.problem});
    for (const auto& device : share.devices) {
      const auto gpu = std::ranges::find(gpus, device.uuid, &snapshot::Gpu::uuid);
      rows.push_back({share.name, share.owner, gpu == gpus.end() ? device.uuid : std::to_string(gpu->index),
                      "\t" + memory_text(device), compute_text(device),
                      "\t" + (device.held_ratio ? rate_text(ppm_of(*device.held_ratio)) : "-"),
                      "\t" + std::to_string(share.processes), share.level, share.state});
    }
  }
  return table(rows, voice);
}

std::string simulated_text(const snapshot::Snapshot& picture, const Voice& voice) {
  return picture.node.simulated ? warning("SIMULATED", voice) + "\n" : "";
}

Result<std::string> list(const Invocation& invocation, const http::Endpoint& daemon) {
  if (invocation.voice.format == Format::json) return TRY(ask(daemon, "GET", "/v1/shares")) + "\n";
  const std::string reply = TRY(ask(daemon, "GET", "/v1/snapshot"));
  const auto picture = TRY(snapshot::from_json<snapshot::Snapshot>(reply));
  return simulated_text(picture, invocation.voice) + shares_text(picture.shares, picture.gpus, invocation.voice);
}

// The share that a verb left, as one row.
Result<std::string> shown(const Invocation& invocation, const http::Endpoint& daemon, const std::string& reply) {
  if (invocation.voice.format == Format::json) return reply + "\n";
  const auto share = TRY(snapshot::from_json<snapshot::Share>(reply));
  const std::string rest = TRY(ask(daemon, "GET", "/v1/snapshot"));
  const auto picture = TRY(snapshot::from_json<snapshot::Snapshot>(rest));
  return simulated_text(picture, invocation.voice) + shares_text({share}, picture.gpus, invocation.voice);
}

// As above, of limits that were just said.
Result<std::string> changed(const Invocation& invocation, const http::Endpoint& daemon, const std::string& reply) {
  const bool said = invocation.order.contains("compute") || invocation.order.contains("burst");
  if (const auto share = snapshot::from_json<snapshot::Share>(reply); share && said)
    remark_on_low_ceiling(*share, invocation.voice);
  return shown(invocation, daemon, reply);
}

// What the row has no room for; nothing of a share whose pages tell nothing.
std::string settings_text(const snapshot::Share& share) {
  return share.admit.empty() ? "" : "admit " + share.admit + ", on-oom " + share.on_oom + "\n";
}

Result<std::string> quota_text(const Invocation& invocation, const std::string& reply) {
  if (invocation.voice.format == Format::json) return reply + "\n";
  const Json json = Json::parse(reply, nullptr, false);
  std::vector<std::vector<std::string>> rows = {{"WHO", "\tMEMORY", "\tCOMPUTE", "\tSHARES", "\tENDS AFTER"}};
  for (const Json& quota : json) {
    const std::string who = quota.contains("user")    ? "user " + quota["user"].dump()
                            : quota.contains("group") ? "group " + quota["group"].dump()
                                                      : "everyone";
    const auto cell = [&](const char* key, auto&& text) {
      return "\t" + (quota.contains(key) && quota[key].is_number() ? text(quota[key]) : std::string("-"));
    };
    rows.push_back({who, cell("memory_bytes", [](const Json& v) { return bytes_text(v.get<std::uint64_t>()); }),
                    cell("compute_ratio", [](const Json& v) { return part_text(v.get<double>()); }),
                    cell("shares", [](const Json& v) { return v.dump(); }),
                    cell("ttl_ns", [](const Json& v) { return duration_text(v.get<std::uint64_t>()); })});
  }
  return rows.size() == 1 ? "there are no quotas\n" : table(rows, invocation.voice);
}

// "0" or the beginning of a UUID in any case, among the daemon's GPUs.
Result<std::string> uuid_of(const http::Endpoint& daemon, const std::string& text) {
  const auto gpus = TRY(snapshot::from_json<std::vector<snapshot::Gpu>>(TRY(ask(daemon, "GET", "/v1/gpus"))));
  std::string found, known;
  for (const auto& gpu : gpus) {
    known += (known.empty() ? "" : ", ") + std::to_string(gpu.index) + " (" + gpu.uuid.substr(0, 12) + ")";
    if (text != std::to_string(gpu.index) && (text.size() < 5 || !grant::starts_ignoring_case(gpu.uuid, text)))
      continue;
    if (!found.empty()) return fail(ErrorCode::usage, "several GPUs begin with '" + text + "'", "GPUs here: " + known);
    found = gpu.uuid;
  }
  if (found.empty()) return fail(ErrorCode::usage, "there is no GPU '" + text + "'", "GPUs here: " + known);
  return found;
}

}  // namespace

Result<std::string> share_word(const Invocation& invocation) {
  const http::Endpoint daemon = TRY(need_daemon());
  const std::string& word = invocation.word;
  const std::string share = "/v1/shares/" + http::escape(invocation.share);
  if (word == "share ls") return list(invocation, daemon);
  if (word == "share show") {
    const std::string reply = TRY(ask(daemon, "GET", share));
    const std::string row = TRY(shown(invocation, daemon, reply));
    if (invocation.voice.format == Format::json) return row;
    return row + settings_text(TRY(snapshot::from_json<snapshot::Share>(reply)));
  }
  if (word == "share create") {
    Invocation named = invocation;
    named.order["name"] = invocation.share;
    return changed(invocation, daemon, TRY(ask(daemon, "POST", "/v1/shares", body_of(named))));
  }
  if (word == "share set") {
    if (invocation.order.empty())
      return fail(ErrorCode::usage, "share set: nothing to change was named",
                  "such as: headgate share set NAME --mem 12GiB");
    return changed(invocation, daemon, TRY(ask(daemon, "PATCH", share, body_of(invocation))));
  }
  if (word == "share rm") {
    TRY(ask(daemon, "DELETE", share));
    return std::string(invocation.voice.format == Format::json ? "{}\n" : "");
  }
  if (word == "share pause" || word == "share resume" || word == "share drain" || word == "share reclaim")
    return shown(invocation, daemon, TRY(ask(daemon, "POST", share + "/" + word.substr(word.find(' ') + 1))));
  if (word == "quota ls") return quota_text(invocation, TRY(ask(daemon, "GET", "/v1/quotas")));
  if (word == "quota set") {
    const std::string reply = TRY(ask(daemon, "PUT", "/v1/quotas", body_of(invocation)));
    return quota_text(invocation, invocation.voice.format == Format::json ? reply : "[" + reply + "]");
  }
  if (word == "gpu policy") {
    const std::string uuid = TRY(uuid_of(daemon, invocation.share));
    const std::string reply = TRY(ask(daemon, "PATCH", "/v1/gpus/" + http::escape(uuid), body_of(invocation)));
    if (invocation.voice.format == Format::json) return reply;
    return "GPU " + uuid.substr(0, 12) + " is now given by the policy " + invocation.order.at("policy") + "\n";
  }
  if (word == "quota rm") {
    std::string query;
    for (const auto& [key, value] : invocation.order)
      query += (query.empty() ? "?" : "&") + key + "=" + http::escape(value);
    TRY(ask(daemon, "DELETE", "/v1/quotas" + query));
    return std::string(invocation.voice.format == Format::json ? "{}\n" : "");
  }
  if (word == "metrics") return TRY(ask(daemon, "GET", "/metrics")) + "\n";
  if (word == "api schema") return TRY(ask(daemon, "GET", "/v1/openapi.json")) + "\n";
  if (word == "gpu release") {
    TRY(ask(daemon, "POST", "/v1/gpus/all/release"));
    return std::string(invocation.voice.format == Format::json
                           ? "{}\n"
                           : "headgated has closed the driver for 60 s: GPUs can be reset, drivers unloaded\n");
  }
  return fail(ErrorCode::usage, "unknown word '" + word + "'", "see 'headgate --help'");
}

}  // namespace headgate::cli
