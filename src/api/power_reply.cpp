#include "api/power_reply.hpp"

#include <nlohmann/json.hpp>
#include <optional>

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
                    {"settings", Json::parse(power::settings_json(profile.settings))},
                    {"origin", profile.origin}});
  return reply_text(list);
}

http::Response outcomes_response(const std::vector<power::GpuOutcome>& outcomes, bool dry_run) {
  http::Response response;
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
    const int status = http::error_response(*outcome.error).status;
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

}  // namespace headgate::api
