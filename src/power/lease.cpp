#include "power/lease.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <nlohmann/json.hpp>

namespace headgate::power {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::size_t kMaxGpus = 64, kMaxLeases = 4096;

std::unexpected<Error> damaged(const std::string& key) {
  return fail(ErrorCode::failed, "a stored lease has no good '" + key + "'");
}

bool take(const Ordered& json, std::uint32_t& number) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > UINT32_MAX) return false;
  number = json.get<std::uint32_t>();
  return true;
}

bool take(const Ordered& json, bool& flag) {
  if (json.is_boolean()) flag = json.get<bool>();
  return json.is_boolean();
}

bool take(const Ordered& json, std::int64_t& number) {
  if (json.is_number_integer()) number = json.get<std::int64_t>();
  return json.is_number_integer();
}

bool take(const Ordered& json, std::string& text) {
  if (json.is_string()) text = json.get<std::string>();
  return json.is_string();
}

bool take(const Ordered& json, ClockRange& range) {
  return json.is_array() && json.size() == 2 && take(json[0], range.min_mhz) && take(json[1], range.max_mhz) &&
         range.min_mhz <= range.max_mhz;
}

Result<Settings> settings_from(const Ordered& json) {
  if (!json.is_object()) return damaged("settings");
  Settings settings;
  for (const auto& [key, value] : json.items()) {
    bool taken = false;
    each_control([&](auto member, unsigned, const char*, std::string_view known, Operation) {
      if (key == known) taken = take(value, (settings.*member).emplace());
    });
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

Ordered json_of(const ClockRange& clocks) { return {clocks.min_mhz, clocks.max_mhz}; }
template <std::integral Value>
Ordered json_of(Value value) {
  return value;
}

Ordered json_of(const Settings& settings) {
  Ordered json = Ordered::object();
  each_control([&](auto member, unsigned, const char*, const char* key, Operation) {
    if (const auto& value = settings.*member) json[key] = json_of(*value);
  });
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
  const auto need = [&json](const char* key, auto& into) -> Result<void> {
    const auto found = json.find(key);
    if (found == json.end() || !take(*found, into)) return damaged(key);
    return {};
  };
  TRY(need("id", lease.id));
  TRY(need("owner_uid", lease.owner_uid));
  TRY(need("holder_pid", lease.holder_pid));
  TRY(need("holder_start_time", lease.holder_start_time));
  TRY(need("ttl_s", lease.ttl_s));
  TRY(need("ending", lease.ending));
  TRY(need("session", lease.session));
  TRY(need("paused", lease.pauses));
  TRY(need("ends_at_s", lease.ends_at_s));
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
