// The table of headgated's HTTP routes. Each row names its handler: in the service (service.hpp), the task channel,
// power or MPS. The OpenAPI document (openapi.hpp) is made from this table.
#pragma once

#include <map>
#include <string_view>
#include <variant>
#include <vector>

#include "api/body.hpp"
#include "base/result.hpp"
#include "http/router.hpp"

namespace headgate::api {

enum class Place { path, query, header };

struct Parameter {
  std::string_view name;
  Place in = Place::query;
  std::string_view meaning;
  std::string_view accepted = {};
  bool number = false;    // a non-negative integer; otherwise text
  bool required = false;  // for query parameters; path parameters are always required
};

inline constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";  // Prometheus text format

struct Reply {
  int status = 200;
  std::string_view schema = {};  // a struct of snapshot/, or a small one of openapi.cpp; empty: not JSON
  bool list = false;             // an array of that schema
  std::string_view content_type = "application/json";
};

struct Route {
  std::string_view id = {};      // "createShare": operationId; its handler is found by it
  std::string_view method = {};  // GET, POST, PUT, PATCH, DELETE
  std::string_view path = {};    // a pattern of http::Router
  std::string_view summary = {};
  std::vector<Parameter> parameters = {};
  BodyKind body = BodyKind::none;
  std::vector<Reply> replies = {};
  std::vector<int> errors = {};  // expected HTTP statuses, each with an Error body; unlisted errors have that body too
};

// In the order of the document; each method and path occurs once.
[[nodiscard]] const std::vector<Route>& routes();

struct Served {
  std::variant<http::Handler, http::LaterHandler> handler;
  http::Runs runs = http::Runs::on_loop;
};
using Handlers = std::map<std::string_view, Served>;  // by Route::id

// Adds the handlers at their rows' places, and restricts the queries of all rows. Rows without a handler here must be
// in the router already. Errors: failed, naming a row that nothing answers, or a handler without a row.
[[nodiscard]] Result<void> add_routes(http::Router& router, const std::vector<Route>& table, Handlers handlers);

}  // namespace headgate::api
