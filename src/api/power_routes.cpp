#include "api/power_routes.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "power/request.hpp"

namespace headgate::api {
namespace {

using Json = nlohmann::ordered_json;

template <typename Number>
Json maybe(const std::optional<Number>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json clocks_json(const power::ClockRange& clocks) {
  return clocks.max_mhz == 0 ? Json(nullptr) : Json{clocks.min_mhz, clocks.max_mhz};
}

// Returns the lease's settings for one GPU, which is what another writer needs to know.
std::optional<Json> lease_on(const std::string& uuid, const power::Lease& lease) {
  const auto wanted = lease.wanted.find(uuid);
  const auto saved = lease.saved.find(uuid);
  if (wanted == lease.wanted.end() && saved == lease.saved.end()) return std::nullopt;
  Json controls = Json::array();
  for (const power::Control& control :
       power::controls_of(wanted != lease.wanted.end() ? wanted->second : saved->second))
    controls.push_back(control.name);
  return Json{{"id", lease.id},
              {"controls", controls},
              {"holder", power::describe(lease)},
              {"owner_uid", lease.owner_uid},
              {"holder_pid", lease.holder_pid},
              {"ttl_s", lease.ttl_s},
              {"ends_at_s", lease.ends_at_s},
              {"paused", lease.pauses}};
}

Json gpu_json(const GpuPower& on, const std::vector<power::Lease>& leases) {
  const snapshot::Gpu& gpu = *on.gpu;
  Json held = Json::array();
  for (const power::Lease& lease : leases)
    if (const auto one = lease_on(gpu.uuid, lease)) held.push_back(*one);
  return {{"index", gpu.index},
          {"uuid", gpu.uuid},
          {"model", gpu.model},
          {"power_mw", maybe(gpu.power_mw)},
          {"energy_mj", maybe(gpu.energy_mj)},
          {"requested_limit_mw", maybe(gpu.power_limit_requested_mw)},
          {"enforced_limit_mw", maybe(gpu.power_limit_mw)},
          {"min_limit_mw", maybe(gpu.power_limit_min_mw)},
          {"max_limit_mw", maybe(gpu.power_limit_max_mw)},
          {"default_limit_mw", maybe(gpu.power_limit_default_mw)},
          {"persistence", maybe(gpu.persistence)},
          {"compute_mode", gpu.compute_mode},
          {"gpu_clocks_mhz", clocks_json(on.gpu_clocks)},
          {"mem_clocks_mhz", clocks_json(on.mem_clocks)},
          {"sm_clock_mhz", maybe(gpu.sm_clock_mhz)},
          {"memory_clock_mhz", maybe(gpu.memory_clock_mhz)},
          {"throttle_reasons", gpu.throttle_reasons},
          {"leases", held},
          {"waiting", on.waiting}};
}

Json error_json(const Error& error) {
  return {{"code", error_word(error.code)}, {"message", error.message}, {"hint", error.hint}};
}

std::string reply_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string power_json(const std::vector<GpuPower>& gpus, const std::vector<power::Lease>& leases,
                       const std::string& drift, const std::string& at_start) {
  Json list = Json::array();
  for (const GpuPower& gpu : gpus) list.push_back(gpu_json(gpu, leases));
  return reply_text({{"gpus", list}, {"drift", drift}, {"at_start", at_start}});
}

std::string profiles_json(const std::vector<power::Profile>& profiles) {
  Json list = Json::array();
  for (const power::Profile& profile : profiles)
    list.push_back({{"name", profile.name},
                    {"settings", parse_json(power::settings_json(profile.settings))},
                    {"origin", profile.origin}});
  return reply_text(list);
}

Response outcomes_response(const std::vector<power::GpuOutcome>& outcomes, bool dry_run) {
  Response response;
  std::optional<Error> worst;
  Json gpus = Json::array();
  for (const power::GpuOutcome& outcome : outcomes) {
    Json changes = Json::array();
    for (const power::Change& change : outcome.changes)
      changes.push_back({{"control", change.control}, {"from", change.from}, {"to", change.to}});
    gpus.push_back({{"index", outcome.index},
                    {"uuid", outcome.uuid},
                    {"changes", changes},
                    {"error", outcome.error ? error_json(*outcome.error) : Json(nullptr)}});
    if (!outcome.error) continue;
    const int status = error_response(*outcome.error).status;
    if (!worst || status > response.status) {
      worst = outcome.error;
      response.status = status;
    }
  }
  Json body = worst ? error_json(*worst) : Json::object();
  body["dry_run"] = dry_run;
  body["gpus"] = gpus;
  response.body = reply_text(body) + "\n";
  return response;
}

namespace {

using power::RequestKind;

constexpr std::chrono::milliseconds kPatience{4'500};

// A validated write: caller, GPUs and values.
struct Wanted {
  Caller caller;
  power::PowerRequest request;
  power::SettingsByGpu settings;
};

struct PowerApi : std::enable_shared_from_this<PowerApi> {
  PowerApi(http::Loop& l, PowerSources s) : loop(l), sources(std::move(s)) {}

  // Reads and resolves a write without applying it. Errors: denied, usage, not_found.
  Result<Wanted> wanted(RequestKind kind, const Request& from, const Caller& caller) const {
    Wanted all{.caller = caller, .request = {}, .settings = {}};
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

  Response status() const {
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
  Result<std::string> own_lease(const Request& request, const Caller& caller) const {
    const std::string id = *request.parameter("id");
    const auto lease = sources.keeper.find(id);
    if (lease && caller.owns(lease->owner_uid)) return id;
    return fail(ErrorCode::not_found, "there is no lease '" + printable(id, 80) + "' of yours",
                "GET /v1/power/leases lists them");
  }

  Response leases(const Caller& caller) const {
    std::vector<power::Lease> own = sources.keeper.list();
    std::erase_if(own, [&](const power::Lease& lease) { return !caller.owns(lease.owner_uid); });
    return json_reply(power::leases_json(own));
  }

  void write(RequestKind kind, const Request& request, const Caller& caller, const http::Reply& reply) {
    auto what = wanted(kind, request, caller);
    if (!what) return reply(error_response(what.error()));
    if (kind != RequestKind::lease || what->request.dry_run) return set(*what, kind == RequestKind::reset, reply);
    sources.keeper.create(
        {.wanted = std::move(what->settings), .holder_pid = what->request.holder_pid, .ttl_s = what->request.ttl_s},
        caller.uid, [changed = sources.changed, reply](const Result<power::Lease>& lease) {
          changed();
          reply(lease ? json_reply(power::lease_json(*lease), 201) : error_response(lease.error()));
        });
  }

  using Ending = void (power::LeaseKeeper::*)(const std::string&, std::function<void(Result<void>)>);
  void finish_lease(Ending ending, const Request& request, const Caller& caller, const http::Reply& reply) const {
    const auto id = own_lease(request, caller);
    if (!id) return reply(error_response(id.error()));
    (sources.keeper.*ending)(*id, [changed = sources.changed, reply](const Result<void>& done) {
      changed();
      reply(done ? json_reply("{}") : error_response(done.error()));
    });
  }

  http::Loop& loop;
  const PowerSources sources;
  std::map<std::uint64_t, http::Timer> deadlines;  // of waiting requests
  std::uint64_t last_ticket = 0;
};

}  // namespace

void add_power_routes(http::Router& router, http::Loop& loop, PowerSources sources) {
  const auto api = std::make_shared<PowerApi>(loop, std::move(sources));
  const auto add = [&](const char* method, const char* path, auto answer, http::Runs runs = http::Runs::on_loop) {
    router.add(method, path, with_caller(api->sources.access, CallerHandler(answer)), runs);
  };
  const auto add_write = [&](const char* path, RequestKind kind) {
    router.add_later("POST", path,
                     with_caller(api->sources.access,
                                 [api, kind](const Request& request, const Caller& caller, const http::Reply& reply) {
                                   api->write(kind, request, caller, reply);
                                 }));
  };
  const auto add_ending = [&](const char* method, const char* path, PowerApi::Ending ending) {
    router.add_later(method, path,
                     with_caller(api->sources.access,
                                 [api, ending](const Request& request, const Caller& caller, const http::Reply& reply) {
                                   api->finish_lease(ending, request, caller, reply);
                                 }));
  };
  // On the pool, because it may take a snapshot.
  add("GET", "/v1/power", [api](const Request&, const Caller&) { return api->status(); }, http::Runs::on_pool);
  add("GET", "/v1/power/profiles",
      [api](const Request&, const Caller&) { return json_reply(profiles_json(api->sources.profiles())); });
  add_write("/v1/power/settings", RequestKind::settings);
  add_write("/v1/power/reset", RequestKind::reset);
  add("GET", "/v1/power/leases", [api](const Request&, const Caller& caller) { return api->leases(caller); });
  add_write("/v1/power/leases", RequestKind::lease);
  add_ending("DELETE", "/v1/power/leases/{id}", &power::LeaseKeeper::end);
  add_ending("POST", "/v1/power/leases/{id}/keep", &power::LeaseKeeper::keep);
  // On the pool, because it writes a file.
  add(
      "POST", "/v1/power/leases/{id}/heartbeat",
      [api](const Request& request, const Caller& caller) -> Result<Response> {
        const std::string id = TRY(api->own_lease(request, caller));
        return json_reply(power::lease_json(TRY(api->sources.keeper.prolong(id))));
      },
      http::Runs::on_pool);
}

}  // namespace headgate::api
