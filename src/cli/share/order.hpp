// Options that headgated parses, and changes that may have to be confirmed.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "cli/command.hpp"
#include "http/endpoint.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Option values under the API's names.
using Order = std::map<std::string, std::string>;

// An option of `order`, declared by its row.
struct OrderOption {
  const char *names, *key, *type, *summary;
};
Option& order_option(Options& options, Order& order, const OrderOption& option);
// --option, or --option=no to turn it off again: a share keeps the setting until it is turned off.
Option& order_flag(Options& options, Order& order, const char* name, const char* key, const char* summary);
// --yes: go on without asking.
void add_yes(Options& options, bool& yes);

// The options of `headgate share create` and `set`.
struct ShareOptions {
  std::string name;
  Order order;
  bool yes = false;
};

void add_create_options(Options& options, ShareOptions& own);
void add_set_options(Options& options, ShareOptions& own);

// Returns the API's body: flags as booleans, lists as lists, all else as text that the daemon parses.
[[nodiscard]] std::string body_of(const Order& order);

// Makes a change that the daemon may refuse because it voids promises: asks the user, unless `yes`. `body` builds it
// with or without consent. Errors: the daemon's; usage if there is no terminal or the answer is no.
[[nodiscard]] Result<std::string> ask_for_change(const http::Endpoint& daemon, const std::string& method,
                                                 const std::string& target, bool yes,
                                                 const std::function<Result<std::string>(bool agreed)>& body);
[[nodiscard]] Result<std::string> ask_for_change(const http::Endpoint& daemon, const std::string& method,
                                                 const std::string& target, bool yes, Order order);
// The key in a body that accepts voiding promises; the daemon's refusal names it.
inline constexpr const char* kConsent = "void_promises";

[[nodiscard]] Result<snapshot::Snapshot> snapshot_of(const http::Endpoint& daemon);

// Prints the output of a command that has only its success to report.
[[nodiscard]] Result<int> show_done(const Call& call, const std::string& schema, const std::string& text = {});

}  // namespace headgate::cli
