#include "power/lease.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <concepts>
#include <nlohmann/json.hpp>

#include "base/whole_file.hpp"

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

template <typename Value>
bool take(const Ordered& json, Value& value) {
  const bool fits = std::same_as<Value, bool>          ? json.is_boolean()
                    : std::same_as<Value, std::string> ? json.is_string()
                                                       : json.is_number_integer();
  if (fits) value = json.get<Value>();
  return fits;
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

Result<void> read_field(const Ordered& json, const char* key, auto& value) {
  return take(json, value) ? Result<void>{} : damaged(key);
}
Result<void> read_field(const Ordered& json, const char* key, SettingsByGpu& all) {
  if (!json.is_object() || json.size() > kMaxGpus) return damaged(key);
  for (const auto& [uuid, settings] : json.items()) all[uuid] = TRY(settings_from(settings));
  return {};
}

Ordered json_of(const auto& value) { return value; }
Ordered json_of(const ClockRange& clocks) { return {clocks.min_mhz, clocks.max_mhz}; }
Ordered json_of(const SettingsByGpu& all) {
  Ordered json = Ordered::object();
  for (const auto& [uuid, settings] : all) {
    Ordered& one = json[uuid] = Ordered::object();
    each_control([&](auto member, unsigned, const char*, const char* key, Operation) {
      if (const auto& value = settings.*member) one[key] = json_of(*value);
    });
  }
  return json;
}

// Calls visit(key, field) for each field of the JSON, in its order, until it returns an error.
Result<void> each_field(auto& lease, auto&& visit) {
  TRY(visit("id", lease.id));
  TRY(visit("settings", lease.wanted));
  TRY(visit("saved", lease.saved));
  TRY(visit("owner_uid", lease.owner_uid));
  TRY(visit("holder_pid", lease.holder_pid));
  TRY(visit("holder_start_time", lease.holder_start_time));
  TRY(visit("ttl_s", lease.ttl_s));
  TRY(visit("ends_at_s", lease.ends_at_s));
  TRY(visit("ending", lease.ending));
  TRY(visit("session", lease.session));
  return visit("paused", lease.pauses);
}

Ordered json_of(const Lease& lease) {
  Ordered json = {{"id", lease.id}, {"gpus", lease.uuids()}};
  (void)each_field(lease, [&json](const char* key, const auto& value) -> Result<void> {
    json[key] = json_of(value);
    return {};
  });
  return json;
}

// Parses a lease from the file; every key is required.
Result<Lease> lease_from(const Ordered& json) {
  if (!json.is_object()) return damaged("object");
  Lease lease;
  TRY(each_field(lease, [&json](const char* key, auto& value) -> Result<void> {
    const auto found = json.find(key);
    return found == json.end() ? damaged(key) : read_field(*found, key, value);
  }));
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

Result<std::vector<Lease>> load_leases(const std::string& path) {
  constexpr std::size_t kMaxBytes = 16 << 20;
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::vector<Lease>{};
  return parse_leases(TRY(read_whole_file(path, kMaxBytes)).text);
}

Result<void> save_leases(const std::string& path, const std::vector<Lease>& leases) {
  return replace_whole_file(path, leases_json(leases), {});
}

}  // namespace headgate::power
