#include "cli/share/order.hpp"

#include <nlohmann/json.hpp>

#include "base/split.hpp"
#include "cli/share/daemon.hpp"
#include "cli/term/output.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

bool wants_consent(const Error& error) {
  return error.code == ErrorCode::conflict && error.hint.find(kConsent) != std::string::npos;
}

// Asks on the terminal. Errors: usage if there is no terminal or the answer is no.
Result<void> consent(const Error& refusal) {
  if (!can_ask()) return fail(ErrorCode::usage, refusal.message, "nothing was changed; --yes goes on without asking");
  if (ask_user("headgate: " + harmless(refusal.message) + "\ngo on?") == Answer::yes) return {};
  return fail(ErrorCode::usage, "nothing was changed", "--yes goes on without asking");
}

using snapshot::ShareAttribute, snapshot::ShareRequest;

Option& add_attribute(Options& options, const ShareAttribute& is, ShareRequest::Text& field) {
  return options.text(is.option, is.type, is.help, field);
}

Option& add_attribute(Options& options, const ShareAttribute& is, ShareRequest::Names& field) {
  return options.value(is.option, is.type, is.help, [&field](const std::string& names) -> Result<void> {
    field = split(names, ',');
    std::erase(*field, "");
    return {};
  });
}

// A flag, of the share or of the request. --option=no turns it off again, because a share keeps what was not named.
Option& add_attribute(Options& options, const ShareAttribute& is, auto& field) {
  return options.flag(is.option, is.help, [&field](bool on) { field = on; });
}

// `share set` accepts attributes that are fixed for life too, so that the daemon explains why they cannot be changed;
// help and completion leave them out.
void add_attributes(Options& options, ShareRequest& request, bool is_new) {
  snapshot::each_attribute(request, [&](const ShareAttribute& attribute, auto& field) {
    if (*attribute.option != '\0') add_attribute(options, attribute, field).hidden = attribute.fixed && !is_new;
  });
  options.flag("--over-sell", "", [&request](bool on) { request.overcommit = on; }).renamed_to = "--overcommit";
}

}  // namespace

Option& order_option(Options& options, Order& order, const OrderOption& option) {
  const auto store = [&order, key = option.key](const std::string& value) -> Result<void> {
    order[key] = value;
    return {};
  };
  return options.value(option.names, option.type, option.summary, store);
}

void add_yes(Options& options, bool& yes) {
  options.flag("-y,--yes", "do not ask whether promises may become void", yes);
}

void add_create_options(Options& options, ShareOptions& own) {
  options.operand("NAME", "the share's name", own.name);
  add_attributes(options, own.request, true);
  options.footer =
      "headgate share create alice --mem 8GiB --compute 50%\n"
      "headgate share create batch --mem 16GiB --compute 20% --burst 100% --class best-effort";
}

void add_set_options(Options& options, ShareOptions& own) {
  options.operand("NAME", "the share's name", own.name).completes = ":share";
  add_attributes(options, own.request, false);
  options.footer = "headgate share set alice --mem 12GiB --compute 60%";
  options.for_several = "one share at a time; for promises of several: headgate share rebalance alice=80% bob=20%";
}

std::vector<ShownAttribute> shown_attributes(const snapshot::Share& share, std::string (*time_text)(std::uint64_t ns)) {
  std::vector<ShownAttribute> all;
  ShareRequest any;
  snapshot::each_attribute(any, [&](const ShareAttribute& attribute, const auto&) {
    std::string name = attribute.option;
    name.erase(0, 2);
    if (const auto* text = std::get_if<std::string snapshot::Share::*>(&attribute.shown))
      all.push_back({name, share.**text});
    if (const auto* flag = std::get_if<bool snapshot::Share::*>(&attribute.shown))
      all.push_back({name, share.**flag ? "yes" : "no"});
    if (const auto* time = std::get_if<std::optional<std::uint64_t> snapshot::Share::*>(&attribute.shown))
      all.push_back({name, share.**time ? time_text(*(share.**time)) : "", true});
  });
  return all;
}

std::string body_of(const ShareRequest& request) {
  Json body = Json::object();
  snapshot::each_attribute(request, [&](const ShareAttribute& attribute, const auto& field) {
    if constexpr (requires { *field; }) {
      if (field) body[std::string(attribute.key)] = *field;
    } else if (field) {
      body[std::string(attribute.key)] = true;
    }
  });
  return compact_json(body);
}

std::string body_of(const Order& order) {
  Json body = Json::object();
  for (const auto& [key, value] : order) {
    const bool flag = (key == "everyone" || key == kConsent) && (value == "true" || value == "false");
    body[key] = flag ? Json(value == "true") : Json(value);  // the daemon refuses other words
  }
  return compact_json(body);
}

Result<std::string> ask_for_change(const http::Endpoint& daemon, const std::string& method, const std::string& target,
                                   bool yes, const std::function<Result<std::string>(bool agreed)>& body) {
  auto reply = ask(daemon, method, target, TRY(body(yes)));
  if (reply || yes || !wants_consent(reply.error())) return reply;
  TRY(consent(reply.error()));
  return ask(daemon, method, target, TRY(body(true)));
}

Result<std::string> ask_for_change(const http::Endpoint& daemon, const std::string& method, const std::string& target,
                                   ShareRequest request) {
  return ask_for_change(daemon, method, target, request.void_promises, [&](bool agreed) -> Result<std::string> {
    request.void_promises = agreed;
    return body_of(request);
  });
}

Result<snapshot::Snapshot> snapshot_of(const http::Endpoint& daemon) {
  return snapshot::from_json<snapshot::Snapshot>(TRY(ask(daemon, "GET", "/v1/snapshot")));
}

Result<int> show_done(const Call& call, const std::string& schema, const std::string& text) {
  return show(call.voice.format == Format::json ? compact_json(Json{{"schema", schema}}) + "\n" : text);
}

}  // namespace headgate::cli
