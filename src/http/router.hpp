// Maps method and path to a handler. A pattern's {name} segments match any one segment: "/v1/shares/{name}".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/reply.hpp"

namespace headgate::http {

using Handler = std::function<Response(const Request&)>;
using LaterHandler = std::function<void(const Request&, Reply)>;

enum class Runs {
  on_loop,  // on the loop's thread: must not block
  on_pool,  // on a small thread pool: may block on a file, a database, NVML
};

class Router {
 public:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    LaterHandler handler;
    bool answers_later;
    Runs runs;
    std::optional<std::vector<std::string>> query;  // accepted query parameters; none: any
  };

  // If several patterns match, the first added wins: add "/v1/shares/new" before "/v1/shares/{name}".
  Router& add(std::string_view method, std::string_view pattern, Handler handler, Runs runs = Runs::on_loop);
  // Adds a handler that answers later (long polls); it runs on the loop's thread.
  Router& add_later(std::string_view method, std::string_view pattern, LaterHandler handler);

  // Restricts the query of an added route: other parameter names are refused instead of ignored. Returns false if there
  // is no such route.
  bool accept_only(std::string_view method, std::string_view pattern, std::optional<std::vector<std::string>> query);

  // Handles requests that match no route, instead of 404 and 405; on the loop's thread.
  Router& otherwise(Handler handler);

  // Returns the route, with request.parameters set, or the error reply: 404, 405 with Allow, or 400 for its query. HEAD
  // uses the GET route.
  [[nodiscard]] std::variant<const Route*, Response> find(Request& request) const;

 private:
  std::vector<Route> routes_;
  Handler otherwise_;
};

}  // namespace headgate::http
