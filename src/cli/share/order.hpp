// Options that headgated parses, and changes that may have to be confirmed.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "http/endpoint.hpp"
#include "snapshot/share_request.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Option values under the API's names, for what is no share.
using Order = std::map<std::string, std::string>;

// An option of `order`, declared by its row.
struct OrderOption {
  const char *names, *key, *type, *summary;
};
Option& order_option(Options& options, Order& order, const OrderOption& option);

// The options of `headgate share create` and `set`.
struct ShareOptions {
  std::string name;
  snapshot::ShareRequest request;
};

void add_create_options(Options& options, ShareOptions& own);
void add_set_options(Options& options, ShareOptions& own);
// --yes: go on without asking.
void add_yes(Options& options, bool& yes);

// An attribute of a share in a view: the option's name without dashes, and the value. "": the share has none.
struct ShownAttribute {
  std::string name, value;
  bool is_time = false;
};
[[nodiscard]] std::vector<ShownAttribute> shown_attributes(const snapshot::Share& share,
                                                           std::string (*time_text)(std::uint64_t ns));

// Return the API's body, with what was written. Of an order all but flags is text, which the daemon parses.
[[nodiscard]] std::string body_of(const snapshot::ShareRequest& request);
[[nodiscard]] std::string body_of(const Order& order);

// Makes a change that the daemon may refuse because it voids promises: asks the user, unless `yes`. `body` builds it
// with or without consent. Errors: the daemon's; usage if there is no terminal or the answer is no.
[[nodiscard]] Result<std::string> ask_for_change(const http::Endpoint& daemon, const std::string& method,
                                                 const std::string& target, bool yes,
                                                 const std::function<Result<std::string>(bool agreed)>& body);
[[nodiscard]] Result<std::string> ask_for_change(const http::Endpoint& daemon, const std::string& method,
                                                 const std::string& target, snapshot::ShareRequest request);
// The key in a body that accepts voiding promises; the daemon's refusal names it.
inline constexpr const char* kConsent = "void_promises";

[[nodiscard]] Result<snapshot::Snapshot> snapshot_of(const http::Endpoint& daemon);

// Prints the output of a command that has only its success to report.
[[nodiscard]] Result<int> show_done(const Call& call, const std::string& schema, const std::string& text = {});

}  // namespace headgate::cli
