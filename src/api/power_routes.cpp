#include "api/power_routes.hpp"

#include <map>
#include <utility>

#include "api/power_reply.hpp"
#include "base/utf8.hpp"
#include "power/resolve.hpp"
#include "power/set_now.hpp"

namespace headgate::api {
namespace {

using http::json_reply;
using http::Request;
using http::Response;
using power::RequestKind;

constexpr std::chrono::milliseconds kPatience{4'500};

// A validated write: caller, GPUs and values.
struct Wanted {
  node::Caller caller;
  power::PowerRequest request;
  power::SettingsByGpu settings;
};

}  // namespace

struct PowerRoutes::Impl : std::enable_shared_from_this<Impl> {
  Impl(http::Loop& l, PowerSources s) : loop(l), sources(std::move(s)) {}

  // Reads and resolves a write without applying it. Errors: denied, usage, not_found.
  Result<Wanted> wanted(RequestKind kind, const Request& from) const {
    Wanted all;
    all.caller = TRY(caller_of(from, *sources.access.now()));
    if (!all.caller.known())
      return fail(ErrorCode::denied, "setting a GPU needs a known caller", "ask over the control socket");
    all.request = TRY(power::parse_power_request(kind, from.body));
    if (!all.request.profile.empty()) all.request.wanted = TRY(profile(all.request.profile)).settings;
    const auto gpus = TRY(limits_of(all.request.gpus));
    if (kind == RequestKind::reset) {
      config::PowerSettings site;
      if (!sources.at_start.empty()) site = TRY(profile(sources.at_start)).settings;
      all.settings = TRY(power::reset_settings(site, gpus));
    } else {
      all.settings = TRY(power::resolve(all.request.wanted, gpus));
    }
    if (all.request.holder_pid != 0) TRY(sources.may_hold(all.caller, all.request.holder_pid));
    TRY(sources.may_set(from.peer, all.caller, all.settings, kind == RequestKind::lease));
    return all;
  }

  Result<power::Profile> profile(const std::string& name) const {
    for (const power::Profile& one : sources.profiles())
      if (one.name == name) return one;
    return fail(ErrorCode::not_found, "there is no profile '" + printable(name, 80) + "'",
                "GET /v1/power/profiles lists them; [power.profile.NAME] in the configuration makes one");
  }

  // Returns the GPUs' limits in the order in which the caller names them, without duplicates.
  Result<std::vector<power::GpuLimits>> limits_of(const std::vector<std::string>& names) const {
    std::vector<std::uint32_t> indices;
    for (const std::string& name : names) {
      for (std::uint32_t index = 0; name == "all" && index < sources.queues.count(); ++index) indices.push_back(index);
      if (name == "all") continue;
      const auto index = power::SettingsIo(sources.queues).index_of(name);
      if (!index)
        return fail(ErrorCode::not_found, "there is no GPU '" + printable(name, 80) + "'", "GET /v1/gpus lists them");
      if (std::ranges::find(indices, *index) == indices.end()) indices.push_back(*index);
    }
    std::vector<power::GpuLimits> gpus;
    for (const std::uint32_t index : indices) gpus.push_back(power::limits_of(sources.queues, index));
    return gpus;
  }

  Response status(const Request& request) const {
    if (const auto caller = caller_of(request, *sources.access.now()); !caller)
      return http::error_response(caller.error());
    const auto snapshot = sources.fresh();
    std::vector<GpuPower> gpus;
    for (const snapshot::Gpu& gpu : snapshot->gpus) {
      GpuPower& on = gpus.emplace_back();
      on.gpu = &gpu;
      const auto index = power::SettingsIo(sources.queues).index_of(gpu.uuid);
      if (!index) continue;
      on.gpu_clocks = sources.queues.locked_clocks(*index, power::Operation::set_gpu_locked_clocks);
      on.mem_clocks = sources.queues.locked_clocks(*index, power::Operation::set_mem_locked_clocks);
      on.waiting = sources.queues.waiting(*index);
    }
    return json_reply(power_json(gpus, sources.keeper.list(), sources.drift, sources.at_start));
  }

  Response profiles(const Request& request) const {
    const auto caller = caller_of(request, *sources.access.now());
    return caller ? json_reply(profiles_json(sources.profiles())) : http::error_response(caller.error());
  }

  void set(RequestKind kind, const Request& request, const http::Reply& reply) {
    auto what = wanted(kind, request);
    if (!what) return reply(http::error_response(what.error()));
    set(*what, kind == RequestKind::reset, reply);
  }

  void set(const Wanted& what, bool is_reset, const http::Reply& reply) {
    const std::uint64_t ticket = ++last_ticket;
    const bool dry_run = what.request.dry_run;
    const power::SetOptions options{
        .caller = {.text = "uid " + std::to_string(what.caller.uid), .uid = what.caller.uid},
        .dry_run = dry_run,
        .skip_unsupported = is_reset};
    http::Timer& deadline = deadlines.try_emplace(ticket, loop).first->second;
    const auto withdraw = power::set_now(
        sources.queues, what.settings, options,
        [weak = weak_from_this(), ticket, dry_run, reply](const std::vector<power::GpuOutcome>& outcomes) {
          if (const auto self = weak.lock()) {
            if (!dry_run) self->sources.changed();
            self->loop.post([weak, ticket] {
              if (const auto still = weak.lock()) still->deadlines.erase(ticket);
            });
          }
          reply(outcomes_response(outcomes, dry_run));
        });
    deadline.start(kPatience, [withdraw] { withdraw("4.5 s"); });
  }

  // Finds a lease of the caller. Leases of others look as if they did not exist.
  Result<std::string> own_lease(const Request& request) const {
    const node::Caller caller = TRY(caller_of(request, *sources.access.now()));
    const std::string id = *request.parameter("id");
    const auto lease = sources.keeper.find(id);
    if (!lease || !caller.owns(lease->owner_uid))
      return fail(ErrorCode::not_found, "there is no lease '" + printable(id, 80) + "' of yours",
                  "GET /v1/power/leases lists them");
    return id;
  }

  Response leases(const Request& request) const {
    const auto caller = caller_of(request, *sources.access.now());
    if (!caller) return http::error_response(caller.error());
    std::vector<power::Lease> own;
    for (power::Lease& lease : sources.keeper.list())
      if (caller->owns(lease.owner_uid)) own.push_back(std::move(lease));
    return json_reply(power::leases_json(own));
  }

  void create_lease(const Request& request, const http::Reply& reply) {
    auto what = wanted(RequestKind::lease, request);
    if (!what) return reply(http::error_response(what.error()));
    if (what->request.dry_run) return set(*what, false, reply);
    sources.keeper.create(
        {.wanted = std::move(what->settings), .holder_pid = what->request.holder_pid, .ttl_s = what->request.ttl_s},
        what->caller.uid, [changed = sources.changed, reply](const Result<power::Lease>& lease) {
          changed();
          reply(lease ? json_reply(power::lease_json(*lease), 201) : http::error_response(lease.error()));
        });
  }

  using Ending = void (power::LeaseKeeper::*)(const std::string&, std::function<void(Result<void>)>);
  void finish_lease(Ending ending, const Request& request, const http::Reply& reply) const {
    const auto id = own_lease(request);
    if (!id) return reply(http::error_response(id.error()));
    (sources.keeper.*ending)(*id, [changed = sources.changed, reply](const Result<void>& done) {
      changed();
      reply(done ? json_reply("{}") : http::error_response(done.error()));
    });
  }

  Response prolong(const Request& request) const {
    const auto id = own_lease(request);
    if (!id) return http::error_response(id.error());
    const auto lease = sources.keeper.prolong(*id);
    return lease ? json_reply(power::lease_json(*lease)) : http::error_response(lease.error());
  }

  http::Loop& loop;
  const PowerSources sources;
  std::map<std::uint64_t, http::Timer> deadlines;  // of waiting requests
  std::uint64_t last_ticket = 0;
};

PowerRoutes::PowerRoutes(http::Loop& loop, PowerSources sources)
    : impl_(std::make_shared<Impl>(loop, std::move(sources))) {}
PowerRoutes::~PowerRoutes() = default;

void PowerRoutes::add_routes(http::Router& router) {
  const auto self = impl_;
  // On the pool, because it may take a snapshot.
  router.add("GET", "/v1/power", [self](const Request& request) { return self->status(request); }, http::Runs::on_pool);
  router.add("GET", "/v1/power/profiles", [self](const Request& request) { return self->profiles(request); });
  router.add_later("POST", "/v1/power/settings", [self](const Request& request, const http::Reply& reply) {
    self->set(RequestKind::settings, request, reply);
  });
  router.add_later("POST", "/v1/power/reset", [self](const Request& request, const http::Reply& reply) {
    self->set(RequestKind::reset, request, reply);
  });
  router.add("GET", "/v1/power/leases", [self](const Request& request) { return self->leases(request); });
  router.add_later("POST", "/v1/power/leases",
                   [self](const Request& request, const http::Reply& reply) { self->create_lease(request, reply); });
  router.add_later("DELETE", "/v1/power/leases/{id}", [self](const Request& request, const http::Reply& reply) {
    self->finish_lease(&power::LeaseKeeper::end, request, reply);
  });
  router.add_later("POST", "/v1/power/leases/{id}/keep", [self](const Request& request, const http::Reply& reply) {
    self->finish_lease(&power::LeaseKeeper::keep, request, reply);
  });
  // On the pool, because it writes a file.
  router.add(
      "POST", "/v1/power/leases/{id}/heartbeat", [self](const Request& request) { return self->prolong(request); },
      http::Runs::on_pool);
}

}  // namespace headgate::api
