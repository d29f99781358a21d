#include "api/service.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <utility>

#include "api/body.hpp"
#include "api/event_feed.hpp"
#include "api/fresh_snapshots.hpp"
#include "api/metrics.hpp"
#include "api/openapi.hpp"
#include "api/page.hpp"
#include "api/readiness.hpp"
#include "api/routes.hpp"
#include "api/share_request_json.hpp"
#include "api/share_routes.hpp"
#include "base/now.hpp"
#include "guest/grant/text.hpp"
#include "snapshot/json.hpp"

namespace headgate::api {
namespace {

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

  // Runs `answer`, of this or of `shares`, for a caller that does not ask too fast.
  template <typename Owner, typename... More>
  Served known(Result<Response> (Owner::*answer)(const Request&, const Caller&, More...),
               std::type_identity_t<More>... more) {
    const auto run = [self = shared_from_this(), answer, more...](const Request& request,
                                                                  const Caller& caller) -> Result<Response> {
      if (auto refusal = self->too_fast(request, caller)) return std::move(*refusal);
      if constexpr (std::is_same_v<Owner, Impl>) return (self.get()->*answer)(request, caller, more...);
      else return (self->shares.get()->*answer)(request, caller, more...);
    };
    return {with_caller(access, run)};
  }

  std::optional<Response> too_fast(const Request& request, const Caller& caller) {
    if (caller.administrator || request.method == "GET" || request.method == "HEAD") return std::nullopt;
    const auto taken = rate.take(caller.uid, steady_now_ns());
    if (taken) return std::nullopt;
    Response refusal = error_response(429, "busy", taken.error().message, taken.error().hint);
    refusal.headers.push_back({"Retry-After", "1"});
    return refusal;
  }

  // Shows the part of a fresh snapshot that the caller may see.
  Served see(Response (*show)(const Impl&, const Snapshot&)) {
    const auto run = [self = shared_from_this(), show](const Request&, const Caller& caller) {
      return show(*self, visible(*self->fresh.get(), caller));
    };
    return {with_caller(access, run), http::Runs::on_pool};
  }

  Handlers handlers() {
    using Naming = node::QuotaService::Naming;
    using node::ShareService;
    using snapshot::to_json;
    const auto on_pool = [](Served served) {
      served.runs = http::Runs::on_pool;
      return served;
    };
    const auto self = shared_from_this();
    const auto enter = [self](const Request& request, const Caller& caller, const http::Reply& reply) {
      self->shares->enter_share(request, caller, reply);
    };
    const auto list = [self](const Request& request, const Caller& caller, const http::Reply& reply) {
      self->list_events(request, caller, reply);
    };
    const auto document = [text = openapi(observer.latest()->node.version)](const Request&) {
      return json_reply(text);
    };
    return {
        {"getNode", see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.node)); })},
        {"getSnapshot", see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s)); })},
        {"listGpus", see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.gpus)); })},
        {"getGpu", on_pool(known(&Impl::get_gpu))},
        {"changeGpu", known(&Impl::change_gpu)},
        {"releaseDriver", on_pool(known(&Impl::release_driver))},
        {"listShares", see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.shares)); })},
        {"createShare", known(&ShareRoutes::create_share)},
        {"changeShares", known(&ShareRoutes::change_shares)},
        {"listWaiting", see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.waiting)); })},
        {"waitForRoom", known(&ShareRoutes::wait_for_room)},
        {"getShare", on_pool(known(&ShareRoutes::get_share))},
        {"changeShare", known(&ShareRoutes::change_share)},
        {"removeShare", known(&ShareRoutes::remove_share)},
        {"pauseShare", known(&ShareRoutes::command, &ShareService::pause)},
        {"resumeShare", known(&ShareRoutes::command, &ShareService::resume)},
        {"drainShare", known(&ShareRoutes::command, &ShareService::drain)},
        {"reclaimShare", known(&ShareRoutes::command, &ShareService::reclaim)},
        {"enterShare", {with_caller(access, enter)}},
        {"checkContainer", known(&ShareRoutes::check_container)},
        {"listProcesses", see([](const Impl&, const Snapshot& s) { return json_reply(to_json(s.processes)); })},
        {"listEvents", {with_caller(access, list)}},
        {"listQuotas", known(&ShareRoutes::list_quotas)},
        {"setQuota", known(&ShareRoutes::put_quota, Naming::all)},
        {"changeQuota", known(&ShareRoutes::put_quota, Naming::some)},
        {"removeQuota", known(&ShareRoutes::remove_quota)},
        {"health", {http::Handler([](const Request&) { return json_reply("{\"status\":\"ok\"}"); })}},
        {"readiness", {http::Handler([self](const Request& request) { return self->ready(request); })}},
        {"metrics", see([](const Impl& own, const Snapshot& s) { return own.metrics_of(s); })},
        {"dcgmMetrics", see([](const Impl&, const Snapshot& s) { return page_of(dcgm_page(s)); })},
        {"influxMetrics", see([](const Impl& own, const Snapshot& s) { return own.lines_of(s, LineForm::influx); })},
        {"jsonMetrics", see([](const Impl& own, const Snapshot& s) { return own.lines_of(s, LineForm::json); })},
        {"document", {http::Handler(document)}},
    };
  }

  Response metrics_of(const Snapshot& snapshot) const {
    const std::uint64_t began_ns = steady_now_ns();
    Response response = page_of(metrics_page(snapshot, daemon_figures(node, observer, tally)));
    tally.set(&Tally::Sums::scrape_seconds, static_cast<double>(steady_now_ns() - began_ns) / 1e9);
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

  Result<Response> get_gpu(const Request& request, const Caller&) {
    return gpu_in(fresh.get()->gpus, *request.parameter("uuid"));
  }

  Result<Response> change_gpu(const Request& request, const Caller& caller) {
    const std::string uuid = *request.parameter("uuid");
    const PolicyChange change = TRY(policy_change_from(request.body));
    TRY(node.policies.set(uuid, change.policy, change.void_promises, caller));
    fresh.changed();
    Snapshot snapshot;
    snapshot.gpus = observer.latest()->gpus;
    node.snapshots.finish(snapshot);
    return gpu_in(snapshot.gpus, uuid);
  }

  Result<Response> release_driver(const Request& request, const Caller& caller) {
    if (!caller.administrator)
      return fail(ErrorCode::denied, "only an administrator releases the driver", "root, or the control group");
    const std::string uuid = *request.parameter("uuid");
    if (uuid != "all") TRY(gpu_in(observer.latest()->gpus, uuid));
    if (!observer.release_driver(std::chrono::seconds(60)))
      return fail(ErrorCode::unreachable, "a call into the driver hangs, so it cannot be released",
                  "only the daemon's end releases it: kill -9 it; tenants run on under their limits");
    if (released) released(uuid);
    fresh.changed();
    events.add({.kind = "gpu.released",
                .severity = "warn",
                .uid = caller.uid,
                .text = "the driver is released for a minute: what it reports of GPUs is unknown meanwhile"});
    return json_reply("{\"released_s\":60}");
  }

  void list_events(const Request& request, const Caller& caller, const http::Reply& reply) {
    const auto goes_on = flag_in(request, "follow");
    if (!goes_on) return reply(error_response(goes_on.error()));
    if (*goes_on) return reply(followers.add(request, caller, events, history, access.now()->streams_per_user));
    answer_events(request, caller, events, history, reply);
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
    if (auto room = node.shares().runtime().check_room(); !room) health.room = room.error();
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
    impl->fresh.event();
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

void Service::process_ended() { impl_->fresh.event(); }

void Service::close() {
  impl_->followers.finish();
  impl_->shares->close();
}

Result<void> Service::add_routes(http::Router& router) { return api::add_routes(router, routes(), impl_->handlers()); }

}  // namespace headgate::api
