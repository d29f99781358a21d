#include "http/router.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/joined.hpp"
#include "http/codec.hpp"

namespace headgate::http {
namespace {

bool is_parameter(std::string_view segment) { return segment.starts_with('{') && segment.ends_with('}'); }

std::vector<std::string> split(std::string_view pattern) {
  std::vector<std::string> segments;
  for (const auto part : std::views::split(pattern, '/'))
    if (!part.empty()) segments.emplace_back(part.begin(), part.end());
  return segments;
}

std::optional<Fields> match(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  Fields parameters;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_parameter(pattern[i])) {
      if (path[i].empty()) return std::nullopt;
      parameters.push_back({pattern[i].substr(1, pattern[i].size() - 2), path[i]});
    } else if (pattern[i] != path[i]) {
      return std::nullopt;
    }
  }
  return parameters;
}

std::optional<Response> strange_query(const Router::Route& route, const Request& request) {
  if (!route.query) return std::nullopt;
  for (const Field& field : request.query) {
    const std::string name = "query parameter '" + field.name.substr(0, 80) + "'";
    if (std::ranges::find(*route.query, field.name) == route.query->end()) {
      const std::string known = joined(*route.query, ", ");
      return error_response(400, "usage", "unknown " + name + " for " + request.path,
                            known.empty() ? "it takes no parameters" : "accepted: " + known);
    }
    // Parsers differ: some would take the first value, others the last.
    if (std::ranges::count(request.query, field.name, &Field::name) > 1)
      return error_response(400, "usage", name + " is given twice", "give each once");
  }
  return std::nullopt;
}

}  // namespace

Router& Router::add(std::string_view method, std::string_view pattern, Handler handler, Runs runs) {
  auto at_once = [handler = std::move(handler)](const Request& request, const Reply& reply) {
    reply(handler(request));
  };
  routes_.push_back({std::string(method), split(pattern), std::move(at_once), false, runs, {}});
  return *this;
}

Router& Router::add_later(std::string_view method, std::string_view pattern, LaterHandler handler) {
  routes_.push_back({std::string(method), split(pattern), std::move(handler), true, Runs::on_loop, {}});
  return *this;
}

Router& Router::otherwise(Handler handler) {
  otherwise_ = std::move(handler);
  return *this;
}

bool Router::accept_only(std::string_view method, std::string_view pattern,
                         std::optional<std::vector<std::string>> query) {
  const auto segments = split(pattern);
  const auto found = std::ranges::find_if(
      routes_, [&](const Route& route) { return route.method == method && route.segments == segments; });
  if (found == routes_.end()) return false;
  found->query = std::move(query);
  return true;
}

std::variant<const Router::Route*, Response> Router::find(Request& request) const {
  std::vector<std::string> allowed;
  for (const auto& route : routes_) {
    auto parameters = match(route.segments, request.segments);
    if (!parameters) continue;
    // Routes that answer later wait, follow or consume something, which is useless for a HEAD request.
    const bool head = request.method == "HEAD" && route.method == "GET" && !route.answers_later;
    if (route.method == request.method || head) {
      if (auto refused = strange_query(route, request)) return std::move(*refused);
      request.parameters = std::move(*parameters);
      return &route;
    }
    if (std::ranges::find(allowed, route.method) == allowed.end()) allowed.push_back(route.method);
  }
  if (otherwise_) return otherwise_(request);
  if (allowed.empty()) {
    return error_response(404, "not_found", "there is nothing at " + request.path, "see /v1/openapi.json");
  }
  const std::string list = joined(allowed, ", ");
  auto response = error_response(405, "method_not_allowed", request.method + " is not possible at " + request.path,
                                 "accepted: " + list);
  response.headers.push_back({"Allow", list});
  return response;
}

Reply::Reply(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {
  last_copy_ = std::shared_ptr<void>(nullptr, [held = slot_](void*) {
    held->give(error_response(500, "failed", "the handler of this request gave no answer", "see the server's log"));
  });
}

void Reply::Slot::give(Response response) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(given_, true) || detached_) {
    if (response.stream) response.stream->close();
    return;
  }
  response_ = std::move(response);
  // Called under the lock, because after detach() the connection behind `wake_` may be gone.
  if (wake_) wake_();
}

std::optional<Response> Reply::Slot::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(response_, std::nullopt);
}

void Reply::Slot::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      if (!detached_) gone_callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

bool Reply::Slot::waits() {
  const std::lock_guard lock(mutex_);
  return !detached_;
}

void Reply::Slot::detach() {
  std::function<void()> dropped;  // destroyed after the unlock, because it may hold the last copy of a Reply
  const std::lock_guard lock(mutex_);
  detached_ = true;
  wake_ = nullptr;
  dropped = std::exchange(gone_callback_, nullptr);
  if (response_ && response_->stream) response_->stream->close();
}

void Reply::Slot::client_gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    callback = std::exchange(gone_callback_, nullptr);
  }
  detach();
  if (callback) callback();
}

}  // namespace headgate::http
