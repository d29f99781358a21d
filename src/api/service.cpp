#include "api/service.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <utility>

#include "api/event_followers.hpp"
#include "api/event_history.hpp"
#include "api/fresh_snapshots.hpp"
#include "api/lines.hpp"
#include "api/metrics.hpp"
#include "api/mps_routes.hpp"
#include "api/openapi.hpp"
#include "api/operation_rate.hpp"
#include "api/query.hpp"
#include "api/readiness.hpp"
#include "api/routes.hpp"
#include "api/share_request_json.hpp"
#include "api/share_routes.hpp"
#include "api/visible.hpp"
#include "base/now.hpp"
#include "guest/grant/text.hpp"
#include "snapshot/json.hpp"

namespace headgate::api {
namespace {

using http::error_response;
using http::json_reply;
using http::Request;
using http::Response;
using snapshot::Snapshot;

Response page_of(std::string text) {
  Response response;
  response.content_type = kMetricsType;
  response.body = std::move(text);
  return response;
}

}  // namespace

struct Service::Impl : std::enable_shared_from_this<Impl> {
  Impl(http::Loop& l, node::Node& n, observe::Observer& o, observe::EventLog& e, tenancy::EventStore* h, Tally& t,
       const CurrentAccess& a)
      : loop(l),
        node(n),
        observer(o),
        events(e),
        history(h),
        tally(t),
        access(a),
        fresh(o),
        shares(std::make_shared<ShareRoutes>(l, n, o, fresh)) {}

  struct Served {
    http::Handler handler;
    http::Runs runs = http::Runs::on_loop;
  };

  // Identifies the caller, then runs `answer`, of this or of `shares`.
  template <typename Owner>
  Served known(Result<Response> (Owner::*answer)(const Request&, const node::Caller&),
               http::Runs runs = http::Runs::on_loop) {
    return {[self = shared_from_this(), answer](const Request& request) -> Response {
              const auto caller = caller_of(request, *self->access.now());
              if (!caller) return error_response(caller.error());
              if (auto refusal = self->too_fast(request, *caller)) return std::move(*refusal);
              Owner* owner = nullptr;
              if constexpr (std::is_same_v<Owner, Impl>) owner = self.get();
              else owner = self->shares.get();
              auto done = (owner->*answer)(request, *caller);
              return done ? std::move(*done) : error_response(done.error());
            },
            runs};
  }

  std::optional<Response> too_fast(const Request& request, const node::Caller& caller) {
    if (caller.administrator || request.method == "GET" || request.method == "HEAD") return std::nullopt;
    const auto taken = rate.take(caller.uid, steady_now_ns());
    if (taken) return std::nullopt;
    Response refusal = error_response(429, "busy", taken.error().message, taken.error().hint);
    refusal.headers.push_back({"Retry-After", "1"});
    return refusal;
  }

  // Shows the part of a fresh snapshot that the caller may see.
  Served see(Response (*show)(const Impl&, const Snapshot&)) {
    return {[self = shared_from_this(), show](const Request& request) -> Response {
              const auto caller = caller_of(request, *self->access.now());
              if (!caller) return error_response(caller.error());
              return show(*self, visible(*self->fresh.get(), *caller));
            },
            http::Runs::on_pool};
  }

  Served handler_of(Operation operation) {
    using http::Runs;
    using snapshot::to_json;
    switch (operation) {
      case Operation::get_node: return see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.node)); });
      case Operation::get_snapshot: return see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s)); });
      case Operation::list_gpus: return see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.gpus)); });
      case Operation::list_shares:
        return see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.shares)); });
      case Operation::list_processes:
        return see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.processes)); });
      case Operation::metrics: return see([](const Impl& self, const Snapshot& s) { return self.metrics_of(s); });
      case Operation::dcgm_metrics: return see([](const Impl&, const Snapshot& s) { return page_of(dcgm_page(s)); });
      case Operation::influx_metrics:
        return see([](const Impl& self, const Snapshot& s) { return self.lines_of(s, LineForm::influx); });
      case Operation::json_metrics:
        return see([](const Impl& self, const Snapshot& s) { return self.lines_of(s, LineForm::json); });
      case Operation::get_gpu: return known(&Impl::get_gpu, Runs::on_pool);
      case Operation::list_waiting:
        return see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.waiting)); });
      case Operation::wait_for_room: return known(&ShareRoutes::wait_for_room);
      case Operation::get_share: return known(&ShareRoutes::get_share, Runs::on_pool);
      case Operation::change_gpu: return known(&Impl::change_gpu);
      case Operation::release_driver: return known(&Impl::release_driver, Runs::on_pool);
      case Operation::create_share: return known(&ShareRoutes::create_share);
      case Operation::change_share: return known(&ShareRoutes::change_share);
      case Operation::change_shares: return known(&ShareRoutes::change_shares);
      case Operation::remove_share: return known(&ShareRoutes::remove_share);
      case Operation::pause_share: return known(&ShareRoutes::pause_share);
      case Operation::resume_share: return known(&ShareRoutes::resume_share);
      case Operation::drain_share: return known(&ShareRoutes::drain_share);
      case Operation::reclaim_share: return known(&ShareRoutes::reclaim_share);
      case Operation::check_container: return known(&ShareRoutes::check_container);
      case Operation::list_quotas: return known(&ShareRoutes::list_quotas);
      case Operation::set_quota: return known(&ShareRoutes::set_quota);
      case Operation::change_quota: return known(&ShareRoutes::change_quota);
      case Operation::remove_quota: return known(&ShareRoutes::remove_quota);
      case Operation::list_events:
      case Operation::enter_share: break;  // answered later
      case Operation::list_mps:
      case Operation::take_off_mps: break;  // of MpsRoutes
      case Operation::get_power:
      case Operation::list_power_profiles:
      case Operation::set_power:
      case Operation::reset_power:
      case Operation::list_leases:
      case Operation::create_lease:
      case Operation::end_lease:
      case Operation::keep_lease:
      case Operation::prolong_lease:  // of PowerRoutes
      case Operation::channel_clients:
      case Operation::channel_client:
      case Operation::pull_tasks:
      case Operation::acknowledge_task:
      case Operation::settle_task: break;  // the channel's
      case Operation::health: return {[](const Request&) { return json_reply("{\"status\":\"ok\"}"); }};
      case Operation::readiness:
        return {[self = shared_from_this()](const Request& request) { return self->ready(request); }};
      case Operation::document:
        return {[text = openapi(observer.latest()->node.version)](const Request&) { return json_reply(text); }};
    }
    return {};
  }

  Response metrics_of(const Snapshot& snapshot) const {
    const std::uint64_t began_ns = steady_now_ns();
    Response response = page_of(metrics_page(snapshot, daemon_figures(node, observer, tally)));
    tally.scraped(static_cast<double>(steady_now_ns() - began_ns) / 1e9);
    return response;
  }

  Response lines_of(const Snapshot& snapshot, LineForm form) const {
    Response response;
    response.content_type = form == LineForm::influx ? "text/plain; charset=utf-8" : "application/x-ndjson";
    response.body = metric_lines(families_of(snapshot, daemon_figures(node, observer, tally)), snapshot.node.name,
                                 snapshot.taken_unix_ns, form);
    return response;
  }

  static Result<Response> gpu_in(const std::vector<snapshot::Gpu>& gpus, const std::string& uuid) {
    for (const auto& gpu : gpus)
      if (grant::same_ignoring_case(gpu.uuid, uuid)) return json_reply(snapshot::to_json(gpu));
    return fail(ErrorCode::not_found, "there is no GPU " + tenancy::escape_untrusted(uuid),
                "GET /v1/gpus (headgate status) lists them");
  }

  Result<Response> get_gpu(const Request& request, const node::Caller&) {
    return gpu_in(fresh.get()->gpus, *request.parameter("uuid"));
  }

  Result<Response> change_gpu(const Request& request, const node::Caller& caller) {
    const std::string uuid = *request.parameter("uuid");
    const PolicyChange change = TRY(policy_change_from(request.body));
    TRY(node.policies.set(uuid, change.policy, change.void_promises, caller));
    fresh.changed();
    Snapshot snapshot;
    snapshot.gpus = observer.latest()->gpus;
    node.snapshots.finish(snapshot);
    return gpu_in(snapshot.gpus, uuid);
  }

  Result<Response> release_driver(const Request& request, const node::Caller& caller) {
    if (!caller.administrator)
      return fail(ErrorCode::denied, "only an administrator releases the driver", "root, or the control group");
    const std::string uuid = *request.parameter("uuid");
    if (uuid != "all") TRY(gpu_in(observer.latest()->gpus, uuid));
    if (!observer.release_driver(std::chrono::seconds(60)))
      return fail(ErrorCode::unreachable, "a call into the driver hangs, so it cannot be let go of",
                  "nothing but the daemon's end lets go of it: kill -9 it; tenants run on under their limits");
    if (released) released(uuid);
    fresh.changed();
    events.add({.kind = "gpu.released",
                .severity = "warn",
                .uid = caller.uid,
                .text = "the driver is let go of for a minute: what it says of GPUs is not known meanwhile"});
    return json_reply("{\"released_s\":60}");
  }

  void enter_share(const Request& request, const http::Reply& reply) {
    const auto caller = caller_of(request, *access.now());
    if (!caller) return reply(error_response(caller.error()));
    shares->enter_share(request, *caller, reply);
  }

  void list_events(const Request& request, const http::Reply& reply) {
    const auto caller = caller_of(request, *access.now());
    if (!caller) return reply(error_response(caller.error()));
    const auto goes_on = flag_in(request, "follow");
    if (!goes_on) return reply(error_response(goes_on.error()));
    if (*goes_on) return reply(followers.add(request, *caller, events, history, access.now()->streams_per_user));
    answer_events(request, *caller, events, history, reply);
  }

  // Probes send no token and still get an answer.
  Response ready(const Request& request) {
    const auto caller = caller_of(request, *access.now());
    auto outcome = look_at_readiness(caller && caller->administrator);
    if (outcome) return json_reply("{\"status\":\"ready\"}");
    outcome.error().code = ErrorCode::unreachable;  // answered with 503 whatever the cause
    return error_response(outcome.error());
  }

  Result<void> look_at_readiness(bool tells_names) {
    const observe::NodeSnapshot latest = observer.latest();
    const std::uint64_t now_ns = steady_now_ns(), answered_ns = std::min(observer.driver_answered_ns(), now_ns);
    Health health{.driver_silence = std::chrono::nanoseconds(now_ns - answered_ns),
                  .driver_answered = !latest->node.nvml_released,
                  .gpus = latest->gpus.size(),
                  .silent_gpus = static_cast<std::size_t>(
                      std::ranges::count_if(latest->gpus, [](const auto& gpu) { return gpu.uuid.empty(); })),
                  .shut = shut_doors ? shut_doors() : std::vector<std::string>(),
                  .tells_names = tells_names,
                  .store = {},
                  .room = {},
                  .arbiter_silence = std::chrono::nanoseconds(node.arbiter_silence_ns())};
    if (auto writable = node.shares().check_store(); !writable) health.store = writable.error();
    if (auto room = node.shares().check_room(); !room) health.room = room.error();
    return readiness(health);
  }

  // Sends each follower its new events. On the loop's thread.
  void wake_followers() {
    waking = false;
    followers.wake();
  }

  http::Loop& loop;
  node::Node& node;
  observe::Observer& observer;
  observe::EventLog& events;
  tenancy::EventStore* history;
  Tally& tally;
  const CurrentAccess& access;
  FreshSnapshots fresh;
  std::shared_ptr<ShareRoutes> shares;  // shared with streams that may end later
  std::function<std::vector<std::string>()> shut_doors;
  std::function<void(const std::string&)> released;
  OperationRate rate;
  EventFollowers followers;
  std::atomic<bool> waking = false;  // already posted to the loop
};

Service::Service(http::Loop& loop, node::Node& node, observe::Observer& observer, observe::EventLog& events,
                 tenancy::EventStore* history, Tally& tally, const CurrentAccess& access)
    : impl_(std::make_shared<Impl>(loop, node, observer, events, history, tally, access)) {
  for (const auto& event : events.after(events.began_after())) tally.note(event);  // events of the daemon's start
  events.listen([weak = std::weak_ptr(impl_)](const snapshot::Event& event) {
    const auto impl = weak.lock();
    if (impl == nullptr) return;
    impl->tally.note(event);
    if (impl->waking.exchange(true)) return;
    impl->loop.post([weak] {
      if (const auto still = weak.lock()) still->wake_followers();
    });
  });
}

Service::~Service() { close(); }

void Service::watch_release(std::function<void(const std::string&)> released) { impl_->released = std::move(released); }
void Service::prepare_entries(Prepare prepare) { impl_->shares->set_prepare(std::move(prepare)); }
void Service::watch_doors(std::function<std::vector<std::string>()> shut) { impl_->shut_doors = std::move(shut); }

observe::NodeSnapshot Service::fresh() { return impl_->fresh.get(); }
void Service::changed() { impl_->fresh.changed(); }
bool Service::is_ready() { return impl_->look_at_readiness(false).has_value(); }
void Service::keep_history(tenancy::EventStore* history) { impl_->history = history; }

void Service::process_ended() { impl_->fresh.process_ended(); }

void Service::close() {
  impl_->followers.finish();
  impl_->shares->close();
}

namespace {

// A caller that sends an unused body would otherwise believe that it took effect.
http::Handler without_body(http::Handler handler) {
  return [handler = std::move(handler)](const Request& request) -> Response {
    if (request.body.empty()) return handler(request);
    return error_response({ErrorCode::usage,
                           "this request takes no body, and has '" + tenancy::escape_untrusted(request.body) + "'",
                           "leave it out; GET /v1/openapi.json says what takes one"});
  };
}

}  // namespace

http::Router Service::routes(channel::Channel& channel, PowerRoutes* power, MpsRoutes* mps) {
  http::Router router;
  channel.add_routes(router);
  if (power != nullptr) power->add_routes(router);
  if (mps != nullptr) mps->add_routes(router);
  for (const Route& route : api::routes()) {
    if (is_of_channel(route.operation) || is_of_power(route.operation) || is_of_mps(route.operation)) continue;
    if (route.operation == Operation::enter_share) {
      router.add_later(route.method, route.path, [impl = impl_](const Request& request, http::Reply reply) {
        impl->enter_share(request, reply);
      });
      continue;
    }
    if (route.operation == Operation::list_events) {
      router.add_later(route.method, route.path, [impl = impl_](const Request& request, http::Reply reply) {
        impl->list_events(request, reply);
      });
      continue;
    }
    auto [handler, runs] = impl_->handler_of(route.operation);
    if (route.method != "GET" && route.body == BodyKind::none) handler = without_body(std::move(handler));
    router.add(route.method, route.path, std::move(handler), runs);
  }
  for (const Route& route : api::routes()) {
    // Third-party probes and scrapers may send parameters that we do not use.
    if (!route.path.starts_with("/v1/")) continue;
    std::vector<std::string> query;
    for (const Parameter& parameter : route.parameters) {
      if (parameter.in == Place::query) query.emplace_back(parameter.name);
    }
    router.accept_only(route.method, route.path, std::move(query));
  }
  return router;
}

}  // namespace headgate::api
