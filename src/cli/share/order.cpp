#include "cli/share/order.hpp"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/share/daemon.hpp"
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

constexpr OrderOption kLimits[] = {
    {"-m,--mem", "mem", "SIZE", "memory limit on each GPU: 8GiB, 8GB, 50%, none"},
    {"--host-mem", "host_mem", "SIZE", "host memory that stands in for the GPU's past --mem"},
    {"-c,--compute", "compute", "PART", "promised part of each GPU's time: 50%, 40TFLOPS, none"},
    {"--burst", "burst", "PART", "use up to this while no other share wants it: 80%, none"},
    {"--weight", "weight", "N", "part of what is left over, beside other shares: 1 to 1000 (users: to 100)"},
    {"--class", "class", "CLASS", "best-effort, normal, or latency (which administrators give)"},
    {"--admit", "admit", "WHEN", "now, or ask: an outside scheduler decides on each process"},
    {"--on-oom", "on_oom", "WHAT", "allocations without room: fail, wait (30s), wait=5m"},
    {"--ttl", "ttl", "TIME", "time to live; then no process may join, and the share ends with its last: 8h, 7d, none"},
    {"--freeze-after", "freeze_after", "TIME",
     "move memory of idle programs to the host until their next call: 10m, none"},
    {"--idle-notice", "idle_notice", "TIME", "event when it has used no GPU for this time: 2h, none"},
    {"--user", "users", "USERS", "users that may join beside the owner: names or numbers, with commas; none"},
    {"--group", "groups", "GROUPS", "groups whose members may join; none"},
};
// For the life of a share.
constexpr OrderOption kFixed[] = {
    {"-i,--gpu", "gpu", "GPUS", "which GPUs: 0, 0,2-3, GPU-9c2f, all, auto"},
    {"--gang", "gang", "NAME", "run at the same time as your other shares of that gang"},
    {"--isolation", "isolation", "HOW",
     "hook: in turns; mps: kernels run at once; timeslice: in the driver's time slices"},
    {"--fail-policy", "fail_policy", "POLICY", "if it cannot be measured: open (run without limits) or closed"},
};

void add_limits(Options& options, ShareOptions& own) {
  for (const OrderOption& option : kLimits) order_option(options, own.order, option);
  order_flag(options, own.order, "--everyone", "everyone",
             "all processes that reach its directory may join (containers); =no");
  order_flag(options, own.order, "--overcommit", "overcommit",
             "allow it beyond the card's memory; it is promised nothing; =no");
  order_flag(options, own.order, "--oversubscribe", "oversubscribe",
             "--mem may be more than the card: the rest is host memory, which programs see as the card's; =no");
  order_flag(options, own.order, "--over-sell", "overcommit", "").renamed_to = "--overcommit";
  add_yes(options, own.yes);
}

}  // namespace

Option& order_option(Options& options, Order& order, const OrderOption& option) {
  return options.add({.names = option.names,
                      .type = option.type,
                      .summary = option.summary,
                      .store = [&order, key = option.key](const std::vector<std::string>& values) -> Result<void> {
                        order[key] = values.front();
                        return {};
                      }});
}

Option& order_flag(Options& options, Order& order, const char* name, const char* key, const char* summary) {
  return options.flag(name, summary, [&order, key](bool on) { order[key] = on ? "true" : "false"; });
}

void add_yes(Options& options, bool& yes) {
  options.flag("-y,--yes", "do not ask whether promises may become void", yes);
}

void add_create_options(Options& options, ShareOptions& own) {
  options.operand("NAME", "the share's name", own.name);
  for (const OrderOption& option : kFixed) order_option(options, own.order, option);
  add_limits(options, own);
}

void add_set_options(Options& options, ShareOptions& own) {
  options.operand("NAME", "the share's name", own.name).completes = ":share";
  add_limits(options, own);
  // These cannot be changed. They are accepted so that the daemon explains why; help and completion leave them out.
  for (const auto& [names, key, type, summary] : kFixed)
    order_option(options, own.order, {names, key, "", ""}).hidden = true;
}

std::string body_of(const Order& order) {
  Json body = Json::object();
  for (const auto& [key, value] : order) {
    if (key == "overcommit" || key == "oversubscribe" || key == "everyone" || key == kConsent)
      body[key] = value == "true";
    else if (key == "users" || key == "groups") body[key] = parts_of(value);
    else body[key] = value;
  }
  return body.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<std::string> ask_for_change(const http::Endpoint& daemon, const std::string& method, const std::string& target,
                                   bool yes, const std::function<Result<std::string>(bool agreed)>& body) {
  auto reply = ask(daemon, method, target, TRY(body(yes)));
  if (reply || yes || !wants_consent(reply.error())) return reply;
  TRY(consent(reply.error()));
  return ask(daemon, method, target, TRY(body(true)));
}

Result<std::string> ask_for_change(const http::Endpoint& daemon, const std::string& method, const std::string& target,
                                   bool yes, Order order) {
  return ask_for_change(daemon, method, target, yes, [&order](bool agreed) -> Result<std::string> {
    if (agreed) order[kConsent] = "true";
    return body_of(order);
  });
}

Result<snapshot::Snapshot> snapshot_of(const http::Endpoint& daemon) {
  return snapshot::from_json<snapshot::Snapshot>(TRY(ask(daemon, "GET", "/v1/snapshot")));
}

Result<int> show_done(const Call& call, const std::string& schema, const std::string& text) {
  return show(call.voice.format == Format::json ? Json{{"schema", schema}}.dump() + "\n" : text);
}

}  // namespace headgate::cli
