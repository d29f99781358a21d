#include "api/routes.hpp"

#include "guest/grant/environment.hpp"
#include "http/message.hpp"
#include "tenancy/share.hpp"

namespace headgate::api {
namespace {

constexpr std::string_view kStream = "text/event-stream";

Reply one(std::string_view schema, int status = 200) { return {.status = status, .schema = schema}; }
Reply list(std::string_view schema) { return {.schema = schema, .list = true}; }

Route route(std::string_view id, std::string_view method, std::string_view path, std::string_view summary, Route rest) {
  rest.id = id, rest.method = method, rest.path = path, rest.summary = summary;
  return rest;
}

Parameter share_name() { return {"name", Place::path, "the share's name", grant::accepted(grant::Syntax::share_name)}; }

Parameter gpu_uuid() {
  return {"uuid", Place::path, "the GPU's UUID", "GPU-9c2f..., as nvidia-smi -L writes it, in any case"};
}

std::vector<Route> node_and_gpus() {
  return {
      route("getNode", "GET", "/v1/node", "The node, in figures", {.replies = {one("Node")}}),
      route("getSnapshot", "GET", "/v1/snapshot", "One snapshot of everything: node, GPUs, shares, processes",
            {.replies = {one("Snapshot")}}),
      route("listGpus", "GET", "/v1/gpus", "All GPUs, in nvidia-smi's order", {.replies = {list("Gpu")}}),
      route("getGpu", "GET", "/v1/gpus/{uuid}", "One GPU",
            {.parameters = {gpu_uuid()}, .replies = {one("Gpu")}, .errors = {404}}),
      route("changeGpu", "PATCH", "/v1/gpus/{uuid}",
            "Change how shares that want the GPU divide it; kept until the next change",
            {.parameters = {gpu_uuid()},
             .body = BodyKind::gpu_change,
             .replies = {one("Gpu")},
             .errors = {400, 403, 404, 409}}),
      route("releaseDriver", "POST", "/v1/gpus/{uuid}/release",
            "Release the driver's library for a while, so that a GPU can be reset or the driver replaced",
            {.parameters = {{"uuid", Place::path, "any of them: NVML is released as a whole", "a GPU's UUID, or all"}},
             .replies = {one("Released")},
             .errors = {400, 403, 404, 503}}),
  };
}

std::vector<Route> shares() {
  return {
      route("listShares", "GET", "/v1/shares", "The shares that the caller may see in full",
            {.replies = {list("Share")}}),
      route("createShare", "POST", "/v1/shares", "Make a share",
            {.body = BodyKind::share_request, .replies = {one("Share", 201)}, .errors = {400, 403, 409}}),
      route("changeShares", "PATCH", "/v1/shares",
            "Change several shares in one step: room is looked for as all of them will be, and after an error none has "
            "changed",
            {.body = BodyKind::share_changes, .replies = {list("Share")}, .errors = {400, 403, 404, 409}}),
      route("listWaiting", "GET", "/v1/queue",
            "Requests for shares that wait for room, in their order; of other users' only how many stand before one's "
            "own",
            {.replies = {list("Waiting")}}),
      route(
          "waitForRoom", "POST", "/v1/queue",
          "Make a share as soon as there is room, first come first served: a stream of queue.waiting {place, reason}, "
          "then one of queue.made (the share) and queue.refused (an Error); closing the connection ends the wait",
          {.parameters = {{"wait", Place::query, "for how long at most; without it, until there is room",
                           "30s, 5m, 2h"}},
           .body = BodyKind::share_request,
           .replies = {{.content_type = kStream}},
           .errors = {400, 403, 409}}),
      route("getShare", "GET", "/v1/shares/{name}", "One share",
            {.parameters = {share_name()}, .replies = {one("Share")}, .errors = {404}}),
      route("changeShare", "PATCH", "/v1/shares/{name}",
            "Change limits; what is not named stays, and running processes are held to the new ones at once",
            {.parameters = {share_name()},
             .body = BodyKind::share_change,
             .replies = {one("Share")},
             .errors = {400, 403, 404, 409}}),
      route("removeShare", "DELETE", "/v1/shares/{name}", "Remove a share in which no process runs",
            {.parameters = {share_name()}, .replies = {one("Nothing")}, .errors = {400, 403, 404, 409}}),
      route("pauseShare", "POST", "/v1/shares/{name}/pause",
            "Shut its gates: what was launched ends, nothing more is launched",
            {.parameters = {share_name()}, .replies = {one("Share")}, .errors = {400, 403, 404}}),
      route("resumeShare", "POST", "/v1/shares/{name}/resume", "Open its gates again",
            {.parameters = {share_name()}, .replies = {one("Share")}, .errors = {400, 403, 404}}),
      route("drainShare", "POST", "/v1/shares/{name}/drain",
            "Let no more processes in and give no more memory until it is resumed; work goes on",
            {.parameters = {share_name()}, .replies = {one("Share")}, .errors = {400, 403, 404}}),
      route("reclaimShare", "POST", "/v1/shares/{name}/reclaim",
            "Ask its programs, once, to give back what their pools hold unused",
            {.parameters = {share_name()}, .replies = {one("Share")}, .errors = {400, 403, 404}}),
      route("enterShare", "GET", "/v1/shares/{name}/entry",
            "The environment that a program needs to join the share, for callers that may",
            {.parameters = {share_name(),
                            {"stay", Place::query,
                             "over the control socket: the share cannot be removed while the caller's process lives",
                             kAcceptedFlag}},
             .replies = {one("Entry")},
             .errors = {400, 404, 500}}),
      route("checkContainer", "GET", "/v1/shares/{name}/container",
            "Whether a container may start in the share now: not in one that is paused, drained, full, or shut to the "
            "container's user",
            {.parameters = {share_name(),
                            {"uid", Place::query, "the container's user on the host; without it, the caller",
                             "a number; another user's from administrators only", true},
                            {"gid", Place::query, "that user's group on the host", "a number", true},
                            {"groups", Place::query, "further groups", "numbers with commas"},
                            {"user_namespace_owner", Place::query,
                             "uid that made the container's user namespace, if it has one", "a number", true}},
             .replies = {one("Nothing")},
             .errors = {400, 403, 404, 409}}),
  };
}

std::vector<Route> processes_and_events() {
  return {
      route("listProcesses", "GET", "/v1/processes", "Processes that use a GPU, in a share or outside",
            {.replies = {list("Process")}}),
      route(
          "listEvents", "GET", "/v1/events",
          "What happened, oldest first: at most 4,096, without a choice the newest of them, else those that come first "
          "(ask again after the last); kept over restarts. With follow=1 as a stream of server-sent events that goes "
          "on, in which events.missed tells of those that were gone before they could be sent",
          {.parameters = {{"after", Place::query, "only those with a greater sequence number", {}, true},
                          {"since_unix_ns", Place::query, "only those that happened then or later", {}, true},
                          {"share", Place::query, "only those that concern this share", "a share's name"},
                          {"kind", Place::query, "only kinds that begin so", "memory, share.created, audit"},
                          {"follow", Place::query, "go on as a stream", kAcceptedFlag},
                          {"Last-Event-ID",
                           Place::header,
                           "with follow=1, in place of after: the id of the last event that was had, as an EventSource "
                           "that connects again says it",
                           {},
                           true}},
           .replies = {list("Event"), {.content_type = kStream}},
           .errors = {400, 429}}),
  };
}

std::vector<Route> quotas() {
  return {
      route("listQuotas", "GET", "/v1/quotas",
            "What users and groups may have; those that concern the caller, for an administrator all",
            {.replies = {list("Quota")}}),
      route("setQuota", "PUT", "/v1/quotas",
            "Set the whole quota of a user, a group or everyone; what is not named is not bounded from now on",
            {.body = BodyKind::quota, .replies = {one("Quota")}, .errors = {400, 403}}),
      route("changeQuota", "PATCH", "/v1/quotas",
            "Change the quota of a user, a group or everyone, or make it; what is not named stays as it is",
            {.body = BodyKind::quota, .replies = {one("Quota")}, .errors = {400, 403}}),
      route("removeQuota", "DELETE", "/v1/quotas",
            "Remove the quota of a user, a group or everyone: exactly one of the three is named",
            {.parameters = {{"user", Place::query, "of this user", "a name of the machine, or a uid"},
                            {"group", Place::query, "of this group", "a name of the machine, or a gid"},
                            {"everyone", Place::query,
                             "the one that bounds each user but root, unless the user has another", kAcceptedFlag}},
             .replies = {one("Nothing")},
             .errors = {400, 403, 404}}),
  };
}

// Replies for power changes. A GPU that fails is listed among those that were set.
std::vector<Reply> power_outcomes() {
  std::vector<Reply> replies = {one("PowerOutcome")};
  for (const int status : {400, 403, 404, 409, 500, 501, 503}) replies.push_back(one("PowerError", status));
  return replies;
}

std::vector<Route> mps_groups() {
  return {
      route("listMps", "GET", "/v1/mps",
            "MPS control daemons of the caller's shares, with their clients; an administrator's answer has all",
            {.replies = {list("MpsGroup")}}),
      route("terminateMpsClient", "POST", "/v1/mps/clients/{pid}/terminate",
            "Take a process off its MPS server, so that it can be ended without harm to the server's other clients",
            {.parameters = {{"pid", Place::path, "the process, as the host numbers it"}},
             .replies = {one("MpsClient")},
             .errors = {400, 403, 404, 500, 503}}),
  };
}

Parameter lease_id() { return {"id", Place::path, "the lease's id"}; }

std::vector<Route> power_and_clocks() {
  return {
      route("getPower", "GET", "/v1/power", "What each GPU is set to, what holds now, and which leases have it",
            {.replies = {one("Power")}}),
      route("listPowerProfiles", "GET", "/v1/power/profiles",
            "Named settings of the configuration: [power.profile.NAME]", {.replies = {list("PowerProfile")}}),
      route("setPower", "POST", "/v1/power/settings",
            "Set GPUs, and leave them so; where one fails the others are set, and the answer names it",
            {.body = BodyKind::power_settings, .replies = power_outcomes()}),
      route("resetPower", "POST", "/v1/power/reset",
            "Set GPUs to the site's own settings (power.at_start), and what these do not name to the driver's defaults",
            {.body = BodyKind::power_reset, .replies = power_outcomes()}),
      route("listPowerLeases", "GET", "/v1/power/leases", "The caller's leases; an administrator's answer has all",
            {.replies = {list("PowerLease")}}),
      route("createPowerLease", "POST", "/v1/power/leases",
            "Set GPUs until a process ends or a time is over, and then put the former values back; with dry_run the "
            "answer is that of setPower",
            {.body = BodyKind::power_lease,
             .replies = {one("PowerOutcome"), one("PowerLease", 201)},
             .errors = {400, 403, 404, 409, 500, 503}}),
      route("endPowerLease", "DELETE", "/v1/power/leases/{id}", "End a lease: the former values are put back",
            {.parameters = {lease_id()}, .replies = {one("Nothing")}, .errors = {404, 500}}),
      route("keepPowerLease", "POST", "/v1/power/leases/{id}/keep",
            "End a lease and leave its settings: what was tried for a while is confirmed",
            {.parameters = {lease_id()}, .replies = {one("Nothing")}, .errors = {404, 500}}),
      route("prolongPowerLease", "POST", "/v1/power/leases/{id}/heartbeat",
            "Begin the time of a lease with ttl_s again",
            {.parameters = {lease_id()}, .replies = {one("PowerLease")}, .errors = {400, 404, 500}}),
  };
}

Parameter client_name() {
  return {"client", Place::path, "the client that the tasks are for; headgated's are for scheduler",
          "letters, digits, '.', '_', ':' and '-'"};
}
Parameter task_id() { return {"id", Place::path, "the task's id", {}, true}; }
Parameter attempt() { return {"attempt", Place::query, "the attempt that came with the task", {}, true, true}; }

std::vector<Route> task_channel() {
  return {
      route("listChannelClients", "GET", "/v1/channel", "The task channel: clients that have tasks or wait for some",
            {.replies = {one("ChannelClients")}, .errors = {403}}),
      route("getChannelClient", "GET", "/v1/channel/{client}", "One client's tasks, and how many agents listen for it",
            {.parameters = {client_name()}, .replies = {one("ChannelClient")}, .errors = {400, 403}}),
      route("pullTasks", "GET", "/v1/channel/{client}/tasks",
            "The next task, leased to the caller; with Accept: text/event-stream all of them as they come",
            {.parameters = {client_name(),
                            {"wait", Place::query, "for how long to wait for one", "30s, 500ms; at most 50s"}},
             .replies = {one("ChannelTasks"), {.content_type = kStream}},
             .errors = {400, 403}}),
      route("acknowledgeTask", "POST", "/v1/channel/{client}/tasks/{id}/ack",
            "I work on it: takes the task, or keeps it for longer",
            {.parameters = {client_name(), task_id(), attempt()},
             .replies = {one("ChannelLease")},
             .errors = {400, 403, 404, 409, 410}}),
      route(
          "settleTask", "POST", "/v1/channel/{client}/tasks/{id}/result",
          "The answer, any JSON as the body: {\"allow\": true} or {\"allow\": false, \"reason\": \"full until noon\"}",
          {.parameters = {client_name(),
                          task_id(),
                          attempt(),
                          {"ok", Place::query, "whether it was done; with false the body is any text", "true, false"}},
           .body = BodyKind::anything,
           .replies = {one("ChannelSettled")},
           .errors = {400, 403, 404, 409, 410}}),
  };
}

std::vector<Route> about_the_daemon() {
  return {
      route("health", "GET", "/healthz", "The daemon's loop answers", {.replies = {one("Status")}}),
      route("readiness", "GET", "/readyz",
            "The driver answers and has GPUs, shares can be entered and stored, the arbiter looks",
            {.replies = {one("Status")}, .errors = {503}}),
      route("metrics", "GET", "/metrics", "Figures for Prometheus", {.replies = {{.content_type = kMetricsType}}}),
      route("dcgmMetrics", "GET", "/metrics/dcgm", "Figures of GPUs under the names of NVIDIA's exporter",
            {.replies = {{.content_type = kMetricsType}}}),
      route("influxMetrics", "GET", "/metrics/influx", "The same figures in InfluxDB's line protocol",
            {.replies = {{.content_type = "text/plain; charset=utf-8"}}}),
      route("jsonMetrics", "GET", "/metrics/json", "The same figures as one JSON object a line",
            {.replies = {{.content_type = "application/x-ndjson"}}}),
      route("document", "GET", "/v1/openapi.json", "This document",
            {.replies = {{.content_type = "application/json"}}}),
  };
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> all = [] {
    std::vector<Route> table;
    for (auto* part : {node_and_gpus, shares, processes_and_events, quotas, power_and_clocks, mps_groups, task_channel,
                       about_the_daemon}) {
      for (Route& route : part()) table.push_back(std::move(route));
    }
    return table;
  }();
  return all;
}

namespace {

// A caller that sends an unused body would otherwise believe that it took effect.
http::Handler without_body(http::Handler handler) {
  return [handler = std::move(handler)](const http::Request& request) -> http::Response {
    if (request.body.empty()) return handler(request);
    return http::error_response(
        {ErrorCode::usage, "this request takes no body, and has '" + tenancy::escape_untrusted(request.body) + "'",
         "leave it out; GET /v1/openapi.json says what takes one"});
  };
}

// Third-party probes and scrapers may send parameters that we do not use: outside /v1 any are accepted.
std::optional<std::vector<std::string>> accepted_query(const Route& route) {
  if (!route.path.starts_with("/v1/")) return std::nullopt;
  std::vector<std::string> query;
  for (const Parameter& parameter : route.parameters)
    if (parameter.in == Place::query) query.emplace_back(parameter.name);
  return query;
}

}  // namespace

Result<void> add_routes(http::Router& router, const std::vector<Route>& table, Handlers handlers) {
  for (const Route& route : table) {
    if (const auto served = handlers.extract(route.id)) {
      auto& [handler, runs] = served.mapped();
      if (const auto* later = std::get_if<http::LaterHandler>(&handler)) {
        router.add_later(route.method, route.path, *later);
      } else {
        auto& at_once = std::get<http::Handler>(handler);
        if (route.method != "GET" && route.body == BodyKind::none) at_once = without_body(std::move(at_once));
        router.add(route.method, route.path, std::move(at_once), runs);
      }
    }
    if (!router.accept_only(route.method, route.path, accepted_query(route)))
      return fail(ErrorCode::failed, "the route " + std::string(route.id) + ": nothing answers " +
                                         std::string(route.method) + " " + std::string(route.path));
  }
  if (handlers.empty()) return {};
  return fail(ErrorCode::failed,
              "the handler " + std::string(handlers.begin()->first) + ": the table has no such route");
}

}  // namespace headgate::api
