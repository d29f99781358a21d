#include "power/lease.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace headgate::power {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::size_t kMaxGpus = 64, kMaxLeases = 4096;

std::unexpected<Error> damaged(const std::string& key) {
  return fail(ErrorCode::failed, "a stored lease has no good '" + key + "'");
}

std::optional<std::uint32_t> number_of(const Ordered& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto value = json.get<std::uint64_t>();
  return value <= UINT32_MAX ? std::optional(static_cast<std::uint32_t>(value)) : std::nullopt;
}

std::optional<ClockRange> range_from(const Ordered& json) {
  if (!json.is_array() || json.size() != 2) return std::nullopt;
  const auto least = number_of(json[0]), most = number_of(json[1]);
  if (!least || !most || *least > *most) return std::nullopt;
  return ClockRange{*least, *most};
}

Result<Settings> settings_from(const Ordered& json) {
  if (!json.is_object()) return damaged("settings");
  Settings settings;
  for (const auto& [key, value] : json.items()) {
    bool taken = false;
    if (key == "power_limit_mw") taken = (settings.power_limit_mw = number_of(value)).has_value();
    else if (key == "gpu_clocks_mhz") taken = (settings.gpu_clocks = range_from(value)).has_value();
    else if (key == "mem_clocks_mhz") taken = (settings.mem_clocks = range_from(value)).has_value();
    else if (key == "compute_mode") taken = (settings.compute_mode = number_of(value)).has_value();
    else if (key == "time_slice") taken = (settings.time_slice = number_of(value)).has_value();
    else if (key == "persistence" && value.is_boolean()) {
      settings.persistence = value.get<bool>();
      taken = true;
    }
    if (!taken) return damaged(key);
  }
  return settings;
}

Result<SettingsByGpu> settings_by_gpu(const Ordered& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object() || found->size() > kMaxGpus) return damaged(key);
  SettingsByGpu all;
  for (const auto& [uuid, settings] : found->items()) all[uuid] = TRY(settings_from(settings));
  return all;
}

Ordered json_of(const Settings& settings) {
  Ordered json = Ordered::object();
  if (settings.power_limit_mw) json["power_limit_mw"] = *settings.power_limit_mw;
  if (settings.persistence) json["persistence"] = *settings.persistence;
  if (settings.gpu_clocks) json["gpu_clocks_mhz"] = {settings.gpu_clocks->min_mhz, settings.gpu_clocks->max_mhz};
  if (settings.mem_clocks) json["mem_clocks_mhz"] = {settings.mem_clocks->min_mhz, settings.mem_clocks->max_mhz};
  if (settings.compute_mode) json["compute_mode"] = *settings.compute_mode;
  if (settings.time_slice) json["time_slice"] = *settings.time_slice;
  return json;
}

Ordered json_of(const SettingsByGpu& all) {
  Ordered json = Ordered::object();
  for (const auto& [uuid, settings] : all) json[uuid] = json_of(settings);
  return json;
}

Ordered json_of(const Lease& lease) {
  Ordered gpus = Ordered::array();
  for (const std::string& uuid : lease.uuids()) gpus.push_back(uuid);
  return {{"id", lease.id},
          {"gpus", gpus},
          {"settings", json_of(lease.wanted)},
          {"saved", json_of(lease.saved)},
          {"owner_uid", lease.owner_uid},
          {"holder_pid", lease.holder_pid},
          {"holder_start_time", lease.holder_start_time},
          {"ttl_s", lease.ttl_s},
          {"ends_at_s", lease.ends_at_s},
          {"ending", lease.ending},
          {"session", lease.session},
          {"paused", lease.pauses}};
}

// Parses a lease from the file; every key is required.
Result<Lease> lease_from(const Ordered& json) {
  if (!json.is_object()) return damaged("object");
  Lease lease;
  const auto text = json.find("id");
  if (text == json.end() || !text->is_string()) return damaged("id");
  lease.id = text->get<std::string>();
  for (const auto& [key, into] :
       {std::pair{"owner_uid", &lease.owner_uid}, std::pair{"holder_pid", &lease.holder_pid},
        std::pair{"holder_start_time", &lease.holder_start_time}, std::pair{"ttl_s", &lease.ttl_s}}) {
    const auto found = json.find(key);
    const auto value = found == json.end() ? std::nullopt : number_of(*found);
    if (!value) return damaged(key);
    *into = *value;
  }
  for (const auto& [key, into] :
       {std::pair{"ending", &lease.ending}, std::pair{"session", &lease.session}, std::pair{"paused", &lease.pauses}}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_boolean()) return damaged(key);
    *into = found->get<bool>();
  }
  const auto end = json.find("ends_at_s");
  if (end == json.end() || !end->is_number_integer()) return damaged("ends_at_s");
  lease.ends_at_s = end->get<std::int64_t>();
  lease.wanted = TRY(settings_by_gpu(json, "settings"));
  lease.saved = TRY(settings_by_gpu(json, "saved"));
  return lease;
}

}  // namespace

std::set<std::string> Lease::uuids() const {
  std::set<std::string> all;
  for (const SettingsByGpu* part : {&wanted, &saved})
    for (const auto& [uuid, settings] : *part) all.insert(uuid);
  return all;
}

bool Lease::holds(const std::string& uuid, const Command& command) const {
  return std::ranges::any_of(std::array{&wanted, &saved}, [&](const SettingsByGpu* all) {
    const auto found = all->find(uuid);
    return found != all->end() && touches(found->second, command);
  });
}

std::optional<std::string> Lease::shared_control(const std::string& uuid, const Settings& settings) const {
  for (const SettingsByGpu* all : {&wanted, &saved}) {
    const auto found = all->find(uuid);
    if (found == all->end()) continue;
    if (auto control = common_control(found->second, settings)) return control;
  }
  return std::nullopt;
}

std::string describe(const Lease& lease) {
  return (lease.session ? "session " : "lease ") + lease.id + " of uid " + std::to_string(lease.owner_uid) +
         (lease.holder_pid != 0 ? " (process " + std::to_string(lease.holder_pid) + ")" : "");
}

std::string lease_json(const Lease& lease) {
  return json_of(lease).dump(-1, ' ', true, Ordered::error_handler_t::replace);
}

std::string leases_json(const std::vector<Lease>& leases) {
  Ordered all = Ordered::array();
  for (const Lease& lease : leases) all.push_back(json_of(lease));
  return all.dump(-1, ' ', true, Ordered::error_handler_t::replace);
}

Result<std::vector<Lease>> parse_leases(std::string_view text) {
  const Ordered json = Ordered::parse(text, nullptr, false);
  if (!json.is_array() || json.size() > kMaxLeases)
    return fail(ErrorCode::failed, "the stored leases are no JSON array");
  std::vector<Lease> leases;
  for (const Ordered& one : json) leases.push_back(TRY(lease_from(one)));
  return leases;
}

}  // namespace headgate::power
