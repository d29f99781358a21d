#include "cli/power/power_request.hpp"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/split.hpp"
#include "base/whole_number.hpp"
#include "guest/grant/text.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kValues = "accepted: 300W, 80%, default (power limit); 1200MHz, 210-1200MHz, none (GPU clocks)";

bool ends_with_ignoring_case(std::string_view text, std::string_view end) {
  return text.size() > end.size() && grant::same_ignoring_case(text.substr(text.size() - end.size()), end);
}

std::optional<std::string> option_of(const Order& order, const std::string& name) {
  const auto found = order.find(name);
  return found == order.end() ? std::nullopt : std::optional(found->second);
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
  for (const std::string& part : split(text, ',')) {
    const auto weight = whole_number<std::uint32_t>(part);
    if (!weight || *weight == 0)
      return fail(ErrorCode::usage, "power set: --weights '" + harmless(text) + "' is not understood",
                  "accepted: a whole number for each GPU of --gpu, such as 2,1");
    weights.push_back(*weight);
  }
  return weights;
}

Result<Json> settings_of(const std::string& command, const PowerOptions& own) {
  Json settings = Json::object();
  for (const std::string& value : own.values) TRY(add_value(value, command, settings));
  if (const auto clocks = option_of(own.order, "mem_clocks")) settings["mem_clocks"] = *clocks;
  if (const auto on = option_of(own.order, "persistence")) {
    if (*on != "on" && *on != "off")
      return fail(ErrorCode::usage, "power set: --persistence '" + harmless(*on) + "' is not understood",
                  "accepted: on, off");
    settings["persistence"] = *on == "on";
  }
  if (const auto mode = option_of(own.order, "compute_mode"))
    settings["compute_mode"] = *mode == "exclusive" ? "exclusive process" : *mode;
  if (const auto length = option_of(own.order, "time_slice")) settings["time_slice"] = *length;
  if (const auto budget = option_of(own.order, "budget")) settings["budget"] = *budget;
  if (const auto weights = option_of(own.order, "weights")) {
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

// Options for the holder of the settings, and for a dry run.
void add_ends(Options& options, PowerOptions& own) {
  order_option(options, own.order, {"--for", "for", "TIME", "restore the former values after this time: 30m, 2h, 7d"});
  order_option(options, own.order,
               {"--pid", "pid", "PID", "restore the former values when this process of yours ends"});
  order_option(options, own.order,
               {"--confirm", "confirm", "TIME",
                "restore the former values after this time unless you confirm: here, or with power keep"});
}

void add_which_gpus(Options& options, PowerOptions& own) {
  options.text("-i,--gpu", "GPUS", "which GPUs: 0, 0,2-3, GPU-9c2f, 0000:1b:00.0, all", own.gpu);
}

void add_dry_run(Options& options, PowerOptions& own) {
  options.flag("-n,--dry-run", "say what would change, and set nothing", own.dry_run);
}

}  // namespace

void add_power_set(Options& options, PowerOptions& own) {
  options.list("VALUE", "", "power limit: 300W, 80%, default; GPU clocks: 1200MHz, 210-1200MHz, none", Takes::any,
               own.values);
  add_which_gpus(options, own);
  for (const OrderOption& option : std::initializer_list<OrderOption>{
           {"--mem-clocks", "mem_clocks", "CLOCKS", "lock memory clocks: 5001MHz, 405-5001MHz, none"},
           {"--persistence", "persistence", "ON|OFF", "persistence mode: on, off"},
           {"--compute-mode", "compute_mode", "MODE", "default, exclusive, prohibited"},
           {"--budget", "budget", "WATTS", "set power limits that add up to this: 500W"},
           {"--weights", "weights", "N,...", "parts of the budget, in the order of the GPUs (all 1)"}})
    order_option(options, own.order, option);
  add_ends(options, own);
  add_dry_run(options, own);
  options.footer =
      "headgate power set 300W --gpu 0\n"
      "headgate power set 80% 1200MHz --gpu all --for 2h\n"
      "headgate power set --budget 500W --weights 2,1 --gpu 0,1 --confirm 30s";
}

void add_power_apply(Options& options, PowerOptions& own) {
  options.operand("PROFILE", "its name; power profiles lists them", own.profile).required = true;
  add_which_gpus(options, own);
  add_ends(options, own);
  add_dry_run(options, own);
}

void add_power_reset(Options& options, PowerOptions& own) {
  add_which_gpus(options, own);
  add_dry_run(options, own);
}

void add_gpu_setting(Options& options, PowerOptions& own, const OrderOption& value) {
  order_option(options, own.order, value).required = true;
  add_which_gpus(options, own);
  add_ends(options, own);
  add_dry_run(options, own);
}

bool wants_lease(const Order& order) {
  return order.contains("for") || order.contains("pid") || order.contains("confirm");
}

Result<std::string> power_body(const std::string& command, const PowerOptions& own,
                               const std::vector<std::string>& uuids) {
  Json body = {{"gpus", uuids}};
  if (command == "power apply") body["profile"] = own.profile;
  else if (command != "power reset") body["settings"] = TRY(settings_of(command, own));
  const auto time = option_of(own.order, "for"), process = option_of(own.order, "pid"),
             confirm = option_of(own.order, "confirm");
  if (confirm && (time || process))
    return fail(ErrorCode::usage, command + ": --confirm and --" + (time ? "for" : "pid") + " exclude each other",
                "settings that are confirmed stay; those of --for and --pid end");
  if (time) body["ttl_s"] = TRY(seconds_from("--for", *time));
  if (confirm) body["ttl_s"] = TRY(seconds_from("--confirm", *confirm));
  if (process) {
    const auto pid = whole_number<std::uint32_t>(*process);
    if (!pid || *pid == 0 || *pid > INT32_MAX)
      return fail(ErrorCode::usage, command + ": --pid '" + harmless(*process) + "' is no process's number",
                  "accepted: 1 to 2147483647");
    body["holder_pid"] = *pid;
  }
  if (own.dry_run) body["dry_run"] = true;
  return compact_json(body);
}

}  // namespace headgate::cli
