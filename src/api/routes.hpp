// The table of headgated's HTTP routes. The service (service.hpp) has a handler for each row; the OpenAPI document
// (openapi.hpp) is made from it.
#pragma once

#include <string_view>
#include <vector>

#include "api/body.hpp"

namespace headgate::api {

// One value per row; the service switches over it, so that the compiler reports a row without a handler.
enum class Operation {
  get_node,
  get_snapshot,
  list_gpus,
  get_gpu,
  change_gpu,
  release_driver,
  list_shares,
  create_share,
  change_shares,
  list_waiting,
  wait_for_room,
  get_share,
  change_share,
  remove_share,
  pause_share,
  resume_share,
  drain_share,
  reclaim_share,
  enter_share,
  check_container,
  list_processes,
  list_events,
  list_quotas,
  set_quota,
  change_quota,
  remove_quota,
  get_power,
  list_power_profiles,
  set_power,
  reset_power,
  list_leases,
  create_lease,
  end_lease,
  keep_lease,
  prolong_lease,
  list_mps,
  take_off_mps,
  channel_clients,
  channel_client,
  pull_tasks,
  acknowledge_task,
  settle_task,
  health,
  readiness,
  metrics,
  dcgm_metrics,
  influx_metrics,
  json_metrics,
  document,
};

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
  Operation operation = {};
  std::string_view id = {};      // "createShare": operationId, also used in logs
  std::string_view method = {};  // GET, POST, PUT, PATCH, DELETE
  std::string_view path = {};    // a pattern of http::Router
  std::string_view summary = {};
  std::vector<Parameter> parameters = {};
  BodyKind body = BodyKind::none;
  std::vector<Reply> replies = {};
  std::vector<int> errors = {};  // expected HTTP statuses, each with an Error body; unlisted errors have that body too
};

// True if the task channel answers it (channel::Channel::add_routes) instead of the service.
[[nodiscard]] constexpr bool is_of_channel(Operation operation) {
  return operation >= Operation::channel_clients && operation <= Operation::settle_task;
}

// True if PowerRoutes answers it instead of the service.
[[nodiscard]] constexpr bool is_of_power(Operation operation) {
  return operation >= Operation::get_power && operation <= Operation::prolong_lease;
}

// True if MpsRoutes answers it instead of the service.
[[nodiscard]] constexpr bool is_of_mps(Operation operation) {
  return operation == Operation::list_mps || operation == Operation::take_off_mps;
}

// In the order of the document; each method and path occurs once.
[[nodiscard]] const std::vector<Route>& routes();

}  // namespace headgate::api
