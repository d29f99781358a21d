#include "power/lease.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.hpp"

namespace headgate::power {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr const char* kAcceptedSettings =
    "accepted in settings: power_limit_mw, persistence, gpu_clocks_mhz = [min, max], mem_clocks_mhz = [min, max], "
    "compute_mode (0, 2, 3)";
constexpr std::size_t kMaxGpus = 64, kMaxLeases = 4096;

std::unexpected<Error> wrong(const std::string& what, const char* accepted = kAcceptedSettings) {
  return fail(ErrorCode::usage, what, accepted);
}

std::optional<std::uint32_t> number_of(const Ordered& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto value = json.get<std::uint64_t>();
  return value <= UINT32_MAX ? std::optional(static_cast<std::uint32_t>(value)) : std::nullopt;
}

std::optional<ClockRange> range_of(const Ordered& json) {
  if (!json.is_array() || json.size() != 2) return std::nullopt;
  const auto least = number_of(json[0]), most = number_of(json[1]);
  if (!least || !most || *least > *most) return std::nullopt;
  return ClockRange{*least, *most};
}

Result<Settings> settings_from(const Ordered& json) {
  if (!json.is_object()) return wrong("settings is no object");
  Settings settings;
  for (const auto& [key, value] : json.items()) {
    bool taken = false;
    if (key == "power_limit_mw") taken = (settings.power_limit_mw = number_of(value)).has_value();
    else if (key == "gpu_clocks_mhz") taken = (settings.gpu_clocks = range_of(value)).has_value();
    else if (key == "mem_clocks_mhz") taken = (settings.mem_clocks = range_of(value)).has_value();
    else if (key == "persistence") {
      taken = value.is_boolean();
      if (taken) settings.persistence = value.get<bool>();
    } else if (key == "compute_mode") {
      settings.compute_mode = number_of(value);
      taken = settings.compute_mode == 0u || settings.compute_mode == 2u || settings.compute_mode == 3u;
    } else {
      return wrong("settings has the unknown key '" + printable(key, 80) + "'");
    }
    if (!taken)
      return wrong("settings." + key + " = " +
                   value.dump(-1, ' ', true, Ordered::error_handler_t::replace).substr(0, 80) + " is not accepted");
  }
  return settings;
}

Ordered json_of(const Settings& settings) {
  Ordered json = Ordered::object();
  if (settings.power_limit_mw) json["power_limit_mw"] = *settings.power_limit_mw;
  if (settings.persistence) json["persistence"] = *settings.persistence;
  if (settings.gpu_clocks) json["gpu_clocks_mhz"] = {settings.gpu_clocks->min_mhz, settings.gpu_clocks->max_mhz};
  if (settings.mem_clocks) json["mem_clocks_mhz"] = {settings.mem_clocks->min_mhz, settings.mem_clocks->max_mhz};
  if (settings.compute_mode) json["compute_mode"] = *settings.compute_mode;
  return json;
}

Ordered json_of(const Lease& lease) {
  Ordered saved = Ordered::object();
  for (const auto& [uuid, settings] : lease.saved) saved[uuid] = json_of(settings);
  return {{"id", lease.id},
          {"gpus", lease.uuids},
          {"settings", json_of(lease.wanted)},
          {"saved", saved},
          {"owner_uid", lease.owner_uid},
          {"holder_pid", lease.holder_pid},
          {"holder_start_time", lease.holder_start_time},
          {"ttl_s", lease.ttl_s},
          {"ends_at_s", lease.ends_at_s},
          {"ending", lease.ending}};
}

void add_clocks(const std::optional<ClockRange>& clocks, Operation set, Operation reset,
                std::vector<Command>& commands) {
  if (!clocks) return;
  const bool locked = clocks->max_mhz != 0;
  commands.push_back({.operation = locked ? set : reset, .clocks = *clocks});
}

void add_all_but_persistence(const Settings& settings, std::vector<Command>& commands) {
  add_clocks(settings.gpu_clocks, Operation::set_gpu_locked_clocks, Operation::reset_gpu_locked_clocks, commands);
  add_clocks(settings.mem_clocks, Operation::set_mem_locked_clocks, Operation::reset_mem_locked_clocks, commands);
  if (settings.power_limit_mw)
    commands.push_back({.operation = Operation::set_power_limit, .power_limit_mw = *settings.power_limit_mw});
  if (settings.compute_mode)
    commands.push_back({.operation = Operation::set_compute_mode, .mode = *settings.compute_mode});
}

void add_persistence(const Settings& settings, std::vector<Command>& commands) {
  if (settings.persistence)
    commands.push_back({.operation = Operation::set_persistence_mode, .enabled = *settings.persistence});
}

// A lease out of the file, which must have every key.
Result<Lease> lease_from(const Ordered& json) {
  const auto damaged = [](const char* key) {
    return fail(ErrorCode::failed, std::string("a stored lease has no good '") + key + "'");
  };
  if (!json.is_object()) return damaged("object");
  Lease lease;
  const auto text = json.find("id");
  if (text == json.end() || !text->is_string()) return damaged("id");
  lease.id = text->get<std::string>();
  const auto number = [&json](const char* key) {
    const auto found = json.find(key);
    return found == json.end() ? std::nullopt : number_of(*found);
  };
  for (const auto& [key, into] :
       {std::pair{"owner_uid", &lease.owner_uid}, std::pair{"holder_pid", &lease.holder_pid},
        std::pair{"holder_start_time", &lease.holder_start_time}, std::pair{"ttl_s", &lease.ttl_s}}) {
    const auto value = number(key);
    if (!value) return damaged(key);
    *into = *value;
  }
  const auto end = json.find("ends_at_s"), ending = json.find("ending"), gpus = json.find("gpus");
  if (end == json.end() || !end->is_number_integer()) return damaged("ends_at_s");
  lease.ends_at_s = end->get<std::int64_t>();
  if (ending == json.end() || !ending->is_boolean()) return damaged("ending");
  lease.ending = ending->get<bool>();
  if (gpus == json.end() || !gpus->is_array() || gpus->size() > kMaxGpus) return damaged("gpus");
  for (const Ordered& gpu : *gpus) {
    if (!gpu.is_string()) return damaged("gpus");
    lease.uuids.push_back(gpu.get<std::string>());
  }
  const auto wanted = json.find("settings"), saved = json.find("saved");
  if (wanted == json.end()) return damaged("settings");
  lease.wanted = TRY(settings_from(*wanted));
  if (saved == json.end() || !saved->is_object()) return damaged("saved");
  for (const auto& [uuid, settings] : saved->items()) lease.saved[uuid] = TRY(settings_from(settings));
  return lease;
}

}  // namespace

std::vector<Command> commands_to_apply(const Settings& settings) {
  std::vector<Command> commands;
  add_persistence(settings, commands);
  add_all_but_persistence(settings, commands);
  return commands;
}

std::vector<Command> commands_to_restore(const Settings& saved) {
  std::vector<Command> commands;
  add_all_but_persistence(saved, commands);
  add_persistence(saved, commands);
  return commands;
}

std::optional<std::string> common_control(const Settings& a, const Settings& b) {
  if (a.power_limit_mw && b.power_limit_mw) return "power limit";
  if (a.persistence && b.persistence) return "persistence mode";
  if (a.gpu_clocks && b.gpu_clocks) return "GPU clocks";
  if (a.mem_clocks && b.mem_clocks) return "memory clocks";
  if (a.compute_mode && b.compute_mode) return "compute mode";
  return std::nullopt;
}

bool touches(const Settings& settings, const Command& command) {
  switch (command.operation) {
    case Operation::set_power_limit: return settings.power_limit_mw.has_value();
    case Operation::set_persistence_mode: return settings.persistence.has_value();
    case Operation::set_gpu_locked_clocks:
    case Operation::reset_gpu_locked_clocks: return settings.gpu_clocks.has_value();
    case Operation::set_mem_locked_clocks:
    case Operation::reset_mem_locked_clocks: return settings.mem_clocks.has_value();
    case Operation::reset_locked_clocks: return settings.gpu_clocks || settings.mem_clocks;
    case Operation::set_compute_mode: return settings.compute_mode.has_value();
    default: return false;
  }
}

Result<LeaseRequest> parse_lease_request(std::string_view text) {
  constexpr const char* kAccepted = "accepted: gpus, settings, and holder_pid or ttl_s or both";
  const Ordered json = Ordered::parse(text, nullptr, false);
  if (!json.is_object()) return wrong("the body is no JSON object", kAccepted);
  LeaseRequest request;
  for (const auto& [key, value] : json.items()) {
    if (key == "settings") {
      request.wanted = TRY(settings_from(value));
    } else if (key == "gpus") {
      if (!value.is_array() || value.empty() || value.size() > kMaxGpus)
        return wrong("gpus is no list of GPUs", kAccepted);
      for (const Ordered& gpu : value) {
        if (!gpu.is_string() && !number_of(gpu))
          return wrong("gpus has an entry that is no index and no UUID", kAccepted);
        request.gpus.push_back(gpu.is_string() ? gpu.get<std::string>() : std::to_string(*number_of(gpu)));
      }
    } else if (key == "holder_pid" || key == "ttl_s") {
      const auto number = number_of(value);
      if (!number || *number == 0 || (key == "ttl_s" && *number > kMaxTtlS) || *number > INT32_MAX)
        return wrong(key + " is no number from 1" + (key == "ttl_s" ? " to 2592000" : ""), kAccepted);
      (key == "ttl_s" ? request.ttl_s : request.holder_pid) = *number;
    } else {
      return wrong("unknown key '" + printable(key, 80) + "'", kAccepted);
    }
  }
  if (request.gpus.empty()) return wrong("gpus is missing", kAccepted);
  if (request.wanted.empty()) return wrong("settings names nothing");
  if (request.holder_pid == 0 && request.ttl_s == 0)
    return wrong("a lease needs a holder: neither holder_pid nor ttl_s is there", kAccepted);
  return request;
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
