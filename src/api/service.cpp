#include "api/service.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "api/container_check.hpp"
#include "api/event_followers.hpp"
#include "api/event_history.hpp"
#include "api/lines.hpp"
#include "api/metrics.hpp"
#include "api/mps_routes.hpp"
#include "api/openapi.hpp"
#include "api/operation_rate.hpp"
#include "api/query.hpp"
#include "api/readiness.hpp"
#include "api/routes.hpp"
#include "api/share_request_json.hpp"
#include "api/visible.hpp"
#include "base/now.hpp"
#include "guest/grant/text.hpp"
#include "snapshot/json.hpp"

namespace headgate::api {
namespace {

using http::error_response;
using http::Request;
using http::Response;
using snapshot::Snapshot;

Response json(std::string body, int status = 200) {
  Response response;
  response.status = status;
  response.body = std::move(body) + "\n";
  return response;
}

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
      : loop(l), node(n), observer(o), events(e), history(h), tally(t), access(a) {}

  // A client waiting for room; `time` is its deadline.
  struct Waiter {
    explicit Waiter(http::Loop& on) : time(on) {}
    std::shared_ptr<http::EventStream> stream = std::make_shared<http::EventStream>();
    http::Timer time;
    std::string reason;  // why there is no room, as the node said last
  };

  struct Served {
    http::Handler handler;
    http::Runs runs = http::Runs::on_loop;
  };

  // Identifies the caller, then runs `answer`.
  Served known(Response (Impl::*answer)(const Request&, const node::Caller&), http::Runs runs = http::Runs::on_loop) {
    return {[self = shared_from_this(), answer](const Request& request) -> Response {
              const auto caller = caller_of(request, *self->access.now());
              if (!caller) return error_response(caller.error());
              if (auto refusal = self->too_fast(request, *caller)) return std::move(*refusal);
              return (*self.*answer)(request, *caller);
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
              return show(*self, visible(*self->fresh(), *caller));
            },
            http::Runs::on_pool};
  }

  Served handler_of(Operation operation) {
    using http::Runs;
    using snapshot::to_json;
    switch (operation) {
      case Operation::get_node: return see([](const Impl&, const Snapshot& s) { return json(to_json(s.node)); });
      case Operation::get_snapshot: return see([](const Impl&, const Snapshot& s) { return json(to_json(s)); });
      case Operation::list_gpus: return see([](const Impl&, const Snapshot& s) { return json(to_json(s.gpus)); });
      case Operation::list_shares: return see([](const Impl&, const Snapshot& s) { return json(to_json(s.shares)); });
      case Operation::list_processes:
        return see([](const Impl&, const Snapshot& s) { return json(to_json(s.processes)); });
      case Operation::metrics: return see([](const Impl& self, const Snapshot& s) { return self.metrics_of(s); });
      case Operation::dcgm_metrics: return see([](const Impl&, const Snapshot& s) { return page_of(dcgm_page(s)); });
      case Operation::influx_metrics:
        return see([](const Impl& self, const Snapshot& s) { return self.lines_of(s, LineForm::influx); });
      case Operation::json_metrics:
        return see([](const Impl& self, const Snapshot& s) { return self.lines_of(s, LineForm::json); });
      case Operation::get_gpu: return known(&Impl::get_gpu, Runs::on_pool);
      case Operation::list_waiting: return see([](const Impl&, const Snapshot& s) { return json(to_json(s.waiting)); });
      case Operation::wait_for_room: return known(&Impl::wait_for_room);
      case Operation::get_share: return known(&Impl::get_share, Runs::on_pool);
      case Operation::change_gpu: return known(&Impl::change_gpu);
      case Operation::release_driver: return known(&Impl::release_driver, Runs::on_pool);
      case Operation::create_share: return known(&Impl::create_share);
      case Operation::change_share: return known(&Impl::change_share);
      case Operation::change_shares: return known(&Impl::change_shares);
      case Operation::remove_share: return known(&Impl::remove_share);
      case Operation::pause_share: return known(&Impl::pause_share);
      case Operation::resume_share: return known(&Impl::resume_share);
      case Operation::drain_share: return known(&Impl::drain_share);
      case Operation::reclaim_share: return known(&Impl::reclaim_share);
      case Operation::check_container: return known(&Impl::check_container);
      case Operation::list_quotas: return known(&Impl::list_quotas);
      case Operation::set_quota: return known(&Impl::set_quota);
      case Operation::change_quota: return known(&Impl::change_quota);
      case Operation::remove_quota: return known(&Impl::remove_quota);
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
      case Operation::health: return {[](const Request&) { return json("{\"status\":\"ok\"}"); }};
      case Operation::readiness:
        return {[self = shared_from_this()](const Request& request) { return self->ready(request); }};
      case Operation::document:
        return {[text = openapi(observer.latest()->node.version)](const Request&) { return json(text); }};
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

  static Response gpu_in(const std::vector<snapshot::Gpu>& gpus, const std::string& uuid) {
    for (const auto& gpu : gpus) {
      if (grant::same_ignoring_case(gpu.uuid, uuid)) return json(snapshot::to_json(gpu));
    }
    return error_response({ErrorCode::not_found, "there is no GPU " + tenancy::escape_untrusted(uuid),
                           "GET /v1/gpus (headgate status) lists them"});
  }

  Response get_gpu(const Request& request, const node::Caller&) {
    return gpu_in(fresh()->gpus, *request.parameter("uuid"));
  }

  Response change_gpu(const Request& request, const node::Caller& caller) {
    const std::string uuid = *request.parameter("uuid");
    const auto change = policy_change_from(request.body);
    if (!change) return error_response(change.error());
    if (auto done = node.set_gpu_policy(uuid, change->policy, change->void_promises, caller); !done)
      return error_response(done.error());
    changed_ns = steady_now_ns();
    snapshot::Snapshot snapshot;
    snapshot.gpus = observer.latest()->gpus;
    node.finish(snapshot);
    return gpu_in(snapshot.gpus, uuid);
  }

  Response get_share(const Request& request, const node::Caller& caller) {
    return one_share(*request.parameter("name"), caller, *fresh());
  }

  Response release_driver(const Request& request, const node::Caller& caller) {
    if (!caller.administrator)
      return error_response(
          {ErrorCode::denied, "only an administrator releases the driver", "root, or the control group"});
    const std::string uuid = *request.parameter("uuid");
    if (auto known = gpu_in(observer.latest()->gpus, uuid); uuid != "all" && known.status != 200) return known;
    if (!observer.release_driver(std::chrono::seconds(60)))
      return error_response(
          {ErrorCode::unreachable, "a call into the driver hangs, so it cannot be let go of",
           "nothing but the daemon's end lets go of it: kill -9 it; tenants run on under their limits"});
    if (released) released(uuid);
    changed_ns = steady_now_ns();  // earlier snapshots do not show the change
    events.add({.kind = "gpu.released",
                .severity = "warn",
                .uid = caller.uid,
                .text = "the driver is let go of for a minute: what it says of GPUs is not known meanwhile"});
    return json("{\"released_s\":60}");
  }

  Response create_share(const Request& request, const node::Caller& caller) {
    const auto order = share_request_from(request.body);
    if (!order) return error_response(order.error());
    if (auto made = node.create(*order, caller, observer.latest()->gpus); !made) return error_response(made.error());
    return share_now(*order->name, caller, 201);
  }

  // The stream ends when the share is made, its time is over, or its client is gone.
  Response wait_for_room(const Request& request, const node::Caller& caller) {
    const auto order = share_request_from(request.body);
    if (!order) return error_response(order.error());
    std::optional<std::chrono::seconds> most;
    if (const std::string* text = request.query_value("wait")) {
      const auto time = node::parse_duration("wait", *text);
      if (!time) return error_response(time.error());
      most = *time;
    }
    const auto place = std::make_shared<Waiter>(loop);
    const auto end = [stream = place->stream](const char* name, const Response& how) {
      stream->push({.name = name, .data = how.body, .id = {}});
      stream->finish();
    };
    const auto ticket = node.wait_for_room(
        *order, caller, observer.latest()->gpus,
        {.moved =
             [place = std::weak_ptr(place)](std::size_t number, const std::string& reason) {
               const auto waiter = place.lock();
               if (waiter == nullptr) return;
               waiter->reason = reason;
               waiter->stream->push({.name = "queue.waiting", .data = place_json(number, reason), .id = {}});
             },
         .settled =
             [weak = weak_from_this(), end, name = order->name.value_or(""), caller](const Result<void>& made) {
               const auto self = weak.lock();
               if (self == nullptr) return;
               if (made) end("queue.made", self->share_now(name, caller, 201));
               else end("queue.refused", error_response(made.error()));
             }});
    if (!ticket) return error_response(ticket.error());
    const auto leave = [weak = weak_from_this(), number = *ticket] {
      const auto self = weak.lock();
      // Connections may outlive the node briefly while the daemon shuts down.
      if (self == nullptr || self->closed) return;
      self->node.leave_queue(number);
      self->waiters.erase(number);
    };
    if (most) {
      place->time.start(*most, [end, leave, waiter = std::weak_ptr(place), text = *request.query_value("wait")] {
        const auto left = waiter.lock();
        const std::string reason = left == nullptr || left->reason.empty() ? "" : ": " + left->reason;
        end("queue.refused",
            error_response({ErrorCode::no_capacity, "there was no room in " + tenancy::escape_untrusted(text) + reason,
                            "wait for longer, or ask for less (headgate free says what fits)"}));
        leave();
      });
    }
    Response response;
    response.stream = place->stream;
    waiters[*ticket] = place;
    place->stream->on_close(leave);
    return response;
  }

  Response change_share(const Request& request, const node::Caller& caller) {
    const auto order = share_request_from(request.body);
    if (!order) return error_response(order.error());
    return change(request, caller,
                  [&](const std::string& name) { return node.set(name, *order, caller, observer.latest()->gpus); });
  }

  Response change_shares(const Request& request, const node::Caller& caller) {
    const auto orders = share_requests_from(request.body);
    if (!orders) return error_response(orders.error());
    if (auto done = node.set(*orders, caller, observer.latest()->gpus); !done) return error_response(done.error());
    Snapshot snapshot = ledgers_now();
    std::erase_if(snapshot.shares, [&](const snapshot::Share& share) {
      return std::ranges::find(*orders, share.name, &node::Node::NamedRequest::first) == orders->end();
    });
    return json(snapshot::to_json(visible(snapshot, caller).shares));
  }

  Response remove_share(const Request& request, const node::Caller& caller) {
    if (auto done = node.remove(*request.parameter("name"), caller); !done) return error_response(done.error());
    changed_ns = steady_now_ns();
    return json("{}");
  }

  Response pause_share(const Request& request, const node::Caller& caller) {
    return change(request, caller, [&](const std::string& name) { return node.pause(name, caller); });
  }

  Response resume_share(const Request& request, const node::Caller& caller) {
    return change(request, caller, [&](const std::string& name) { return node.resume(name, caller); });
  }

  Response drain_share(const Request& request, const node::Caller& caller) {
    return change(request, caller, [&](const std::string& name) { return node.drain(name, caller); });
  }

  Response reclaim_share(const Request& request, const node::Caller& caller) {
    return change(request, caller, [&](const std::string& name) { return node.reclaim(name, caller); });
  }

  Response check_container(const Request& request, const node::Caller& caller) {
    return container_check(request, caller, node);
  }

  void enter_share(const Request& request, const http::Reply& reply) {
    const auto caller = caller_of(request, *access.now());
    if (!caller) return reply(error_response(caller.error()));
    const auto stay = flag_in(request, "stay");
    if (!stay) return reply(error_response(stay.error()));
    auto entry = node.entry(*request.parameter("name"), *caller, *stay);
    const auto answer = [reply](const Result<node::Entry>& ready) {
      reply(ready ? json(to_json(*ready)) : error_response(ready.error()));
    };
    if (entry && *stay && prepare) return prepare(std::move(*entry), *caller, answer);
    answer(entry);
  }

  void list_events(const Request& request, const http::Reply& reply) {
    const auto caller = caller_of(request, *access.now());
    if (!caller) return reply(error_response(caller.error()));
    const auto goes_on = flag_in(request, "follow");
    if (!goes_on) return reply(error_response(goes_on.error()));
    if (*goes_on) return reply(follow(request, *caller));
    answer_events(request, *caller, events, history, reply);
  }

  Response list_quotas(const Request&, const node::Caller& caller) {
    std::string list;
    for (const auto& quota : node.quotas()) {
      const bool own = quota.subject == tenancy::Quota::Subject::user ? quota.id == caller.uid
                       : quota.subject == tenancy::Quota::Subject::group
                           ? std::ranges::find(caller.gids, quota.id) != caller.gids.end()
                           : true;
      if (caller.administrator || own) list += (list.empty() ? "" : ",") + to_json(quota);
    }
    return json("[" + list + "]");
  }

  Response put_quota(const Request& request, const node::Caller& caller, node::Node::Naming naming) {
    const auto change = quota_change_from(request.body);
    if (!change) return error_response(change.error());
    const auto quota = node.set_quota(*change, naming, caller);
    return quota ? json(to_json(*quota)) : error_response(quota.error());
  }

  Response set_quota(const Request& request, const node::Caller& caller) {
    return put_quota(request, caller, node::Node::Naming::all);
  }

  Response change_quota(const Request& request, const node::Caller& caller) {
    return put_quota(request, caller, node::Node::Naming::some);
  }

  Response remove_quota(const Request& request, const node::Caller& caller) {
    const auto everyone = flag_in(request, "everyone");
    if (!everyone) return error_response(everyone.error());
    const auto named = quota_named(request.query_value("user"), request.query_value("group"), *everyone);
    if (!named) return error_response(named.error());
    if (auto done = node.remove_quota(named->subject, named->id, caller); !done) return error_response(done.error());
    return json("{}");
  }

  // Probes send no token and still get an answer.
  Response ready(const Request& request) {
    const auto caller = caller_of(request, *access.now());
    auto outcome = look_at_readiness(caller && caller->administrator);
    if (outcome) return json("{\"status\":\"ready\"}");
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

  // Returns the latest snapshot, or takes a new one if it is older than 100 ms, the last change or the last process
  // exit. Blocks: for the pool.
  observe::NodeSnapshot fresh() {
    constexpr std::uint64_t kOldNs = 100'000'000;
    // Rate limit for snapshots after process exits, against processes started and ended in a tight loop.
    constexpr std::uint64_t kBetweenEndsNs = 20'000'000;
    const observe::NodeSnapshot latest = observer.latest();
    const std::uint64_t age_ns = steady_now_ns() - latest->taken_ns;
    if (age_ns > kOldNs || latest->taken_ns <= changed_ns.load()) return observer.look();
    if (latest->taken_ns > ended_ns.load()) return latest;
    if (age_ns < kBetweenEndsNs) std::this_thread::sleep_for(std::chrono::nanoseconds(kBetweenEndsNs - age_ns));
    // Another waiting request may have taken a snapshot meanwhile.
    const observe::NodeSnapshot now = observer.latest();
    return now->taken_ns > ended_ns.load() ? now : observer.look();
  }

  Response one_share(const std::string& name, const node::Caller& caller, const snapshot::Snapshot& snapshot) {
    for (const auto& share : snapshot.shares) {
      if (share.name == name && caller.sees(share.owner_uid, share.uids, share.gids))
        return json(snapshot::to_json(share));
    }
    return error_response({ErrorCode::not_found, "there is no share '" + tenancy::escape_untrusted(name) + "' of yours",
                           "GET /v1/shares (headgate share ls) lists them"});
  }

  // Returns the shares as the ledgers show them after an operation, without waiting for the driver.
  Snapshot ledgers_now() {
    changed_ns = steady_now_ns();
    observe::JoinInput input;
    node.hand_ledgers(input);
    input.taken_unix_ns = unix_now_ns();
    input.driver.gpus = observer.latest()->gpus;
    snapshot::Snapshot snapshot = observe::join(input, {});
    node.finish(snapshot);
    return snapshot;
  }

  Response share_now(const std::string& name, const node::Caller& caller, int status) {
    Response response = one_share(name, caller, ledgers_now());
    if (response.status == 200) response.status = status;
    return response;
  }

  template <typename Operation>
  Response change(const Request& request, const node::Caller& caller, Operation operation) {
    const std::string name = *request.parameter("name");
    if (auto done = operation(name); !done) return error_response(done.error());
    return share_now(name, caller, 200);
  }

  Response follow(const Request& request, const node::Caller& caller) {
    return followers.add(request, caller, events, history, access.now()->streams_per_user);
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
  std::function<std::vector<std::string>()> shut_doors;
  Service::Prepare prepare;
  std::function<void(const std::string&)> released;
  OperationRate rate;
  EventFollowers followers;
  std::map<std::uint64_t, std::shared_ptr<Waiter>> waiters;  // by the node's ticket numbers
  bool closed = false;
  std::atomic<bool> waking = false;           // already posted to the loop
  std::atomic<std::uint64_t> changed_ns = 0;  // time of the last operation that changed something
  std::atomic<std::uint64_t> ended_ns = 0;    // time of the last exit of a share's process
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
void Service::prepare_entries(Prepare prepare) { impl_->prepare = std::move(prepare); }
void Service::watch_doors(std::function<std::vector<std::string>()> shut) { impl_->shut_doors = std::move(shut); }

observe::NodeSnapshot Service::fresh() { return impl_->fresh(); }
void Service::changed() { impl_->changed_ns = steady_now_ns(); }
bool Service::is_ready() { return impl_->look_at_readiness(false).has_value(); }
void Service::keep_history(tenancy::EventStore* history) { impl_->history = history; }

void Service::process_ended() { impl_->ended_ns = steady_now_ns(); }

void Service::close() {
  impl_->followers.finish();
  impl_->closed = true;
  for (const auto& [ticket, waiter] : std::exchange(impl_->waiters, {})) waiter->stream->finish();
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
