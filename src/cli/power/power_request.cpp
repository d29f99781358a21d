#include "cli/power/power_request.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/whole_number.hpp"
#include "cli/top/top.hpp"
#include "guest/grant/text.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kValues = "accepted: 300W, 80%, default (power limit); 1200MHz, 210-1200MHz, none (GPU clocks)";

bool ends_with_ignoring_case(std::string_view text, std::string_view end) {
  return text.size() > end.size() && grant::same_ignoring_case(text.substr(text.size() - end.size()), end);
}

std::optional<std::string> option_of(const Invocation& invocation, const std::string& name) {
  const auto found = invocation.order.find(name);
  return found == invocation.order.end() ? std::nullopt : std::optional(found->second);
}

// Adds a value; its unit decides which control it sets.
Result<void> add_value(const std::string& value, const std::string& command, Json& settings) {
  const char* key = value == "default" || ends_with_ignoring_case(value, "W") || value.ends_with('%') ? "power_limit"
                    : value == "none" || ends_with_ignoring_case(value, "MHz")                        ? "gpu_clocks"
                                                                                                      : nullptr;
  if (key == nullptr) {
    const bool bare = value.find_first_not_of("0123456789") == std::string::npos;
    return fail(ErrorCode::usage, command + ": '" + harmless(value) + "' is not understood",
                (bare ? "did you mean " + value + "W or " + value + "MHz? " : std::string()) + kValues);
  }
  if (settings.contains(key))
    return fail(ErrorCode::usage,
                command + ": '" + harmless(value) + "' sets the " +
                    (std::string(key) == "power_limit" ? "power limit" : "GPU clocks") + " a second time",
                "name each control once");
  settings[key] = value;
  return {};
}

Result<Json> weights_from(const std::string& text) {
  Json weights = Json::array();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const auto weight = whole_number<std::uint32_t>(std::string_view(text).substr(at, comma - at));
    if (!weight || *weight == 0)
      return fail(ErrorCode::usage, "power set: --weights '" + harmless(text) + "' is not understood",
                  "accepted: a whole number for each GPU of --gpu, such as 2,1");
    weights.push_back(*weight);
    at = comma + 1;
  }
  return weights;
}

Result<Json> settings_of(const Invocation& invocation) {
  Json settings = Json::object();
  for (const std::string& value : invocation.parts)
    if (auto added = add_value(value, invocation.command, settings); !added) return std::unexpected(added.error());
  if (const auto clocks = option_of(invocation, "mem_clocks")) settings["mem_clocks"] = *clocks;
  if (const auto on = option_of(invocation, "persistence")) {
    if (*on != "on" && *on != "off")
      return fail(ErrorCode::usage, "power set: --persistence '" + harmless(*on) + "' is not understood",
                  "accepted: on, off");
    settings["persistence"] = *on == "on";
  }
  if (const auto mode = option_of(invocation, "compute_mode"))
    settings["compute_mode"] = *mode == "exclusive" ? "exclusive process" : *mode;
  if (const auto length = option_of(invocation, "time_slice")) settings["time_slice"] = *length;
  if (const auto budget = option_of(invocation, "budget")) settings["budget"] = *budget;
  if (const auto weights = option_of(invocation, "weights")) {
    if (!settings.contains("budget"))
      return fail(ErrorCode::usage, "power set: --weights without --budget", "such as: --budget 500W --weights 2,1");
    settings["weights"] = TRY(weights_from(*weights));
  }
  if (settings.empty())
    return fail(ErrorCode::usage, "power set: nothing to set was named",
                "such as: headgate power set 300W --gpu 0; headgate power set 80% 1200MHz --gpu all --for 2h");
  return settings;
}

// "2h" as whole seconds.
Result<std::uint64_t> seconds_from(const std::string& option, const std::string& text) {
  const std::uint64_t ns = TRY(time_option(option, text));
  constexpr std::uint64_t kSecond = 1'000'000'000, kMaxTtlS = 30 * 86'400;
  if (ns / kSecond > kMaxTtlS)
    return fail(ErrorCode::usage, option + " '" + harmless(text) + "' is too long", "accepted: up to 30d");
  return ns / kSecond;
}

}  // namespace

bool wants_lease(const Invocation& invocation) {
  return invocation.order.contains("for") || invocation.order.contains("pid") || invocation.order.contains("confirm");
}

Result<std::string> power_body(const Invocation& invocation, const std::vector<std::string>& uuids) {
  Json body = {{"gpus", uuids}};
  if (invocation.command == "power apply") body["profile"] = invocation.share;
  else if (invocation.command == "power set" || invocation.command == "gpu mode" ||
           invocation.command == "gpu timeslice")
    body["settings"] = TRY(settings_of(invocation));
  const auto time = option_of(invocation, "for"), process = option_of(invocation, "pid"),
             confirm = option_of(invocation, "confirm");
  if (confirm && (time || process))
    return fail(ErrorCode::usage,
                invocation.command + ": --confirm and --" + (time ? "for" : "pid") + " exclude each other",
                "settings that are confirmed stay; those of --for and --pid end");
  if (time) body["ttl_s"] = TRY(seconds_from("--for", *time));
  if (confirm) body["ttl_s"] = TRY(seconds_from("--confirm", *confirm));
  if (process) {
    const auto pid = whole_number<std::uint32_t>(*process);
    if (!pid || *pid == 0 || *pid > INT32_MAX)
      return fail(ErrorCode::usage, invocation.command + ": --pid '" + harmless(*process) + "' is no process's number",
                  "accepted: 1 to 2147483647");
    body["holder_pid"] = *pid;
  }
  if (invocation.dry_run) body["dry_run"] = true;
  return body.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace headgate::cli
