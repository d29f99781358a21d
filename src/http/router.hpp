// Method and path -> handler. A pattern is a path whose {name} segments match any one segment: "/v1/shares/{name}".
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
  on_pool,  // on a small pool of threads: may block on a file, a database, NVML
};

class Router {
 public:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    std::variant<Handler, LaterHandler> handler;
    Runs runs;
    std::optional<std::vector<std::string>> query;  // the names that may stand behind the '?'; none: any
  };

  // Where several patterns match, the one added first answers: add "/v1/shares/new" before "/v1/shares/{name}".
  Router& add(std::string_view method, std::string_view pattern, Handler handler, Runs runs = Runs::on_loop);
  // For answers that come later (long polls); runs on the loop's thread.
  Router& add_later(std::string_view method, std::string_view pattern, LaterHandler handler);

  // Of a route that was added: a name in the query that is none of these is refused, not passed over.
  void accept_only(std::string_view method, std::string_view pattern, std::vector<std::string> query);

  // Answers what no route matches, instead of 404 and 405; on the loop's thread.
  Router& otherwise(Handler handler);

  // The route, with request.parameters filled; or the answer: 404, 405 with Allow, or 400 for its query. HEAD finds the
  // GET route.
  [[nodiscard]] std::variant<const Route*, Response> find(Request& request) const;

 private:
  std::vector<Route> routes_;
  Handler otherwise_;
};

}  // namespace headgate::http
