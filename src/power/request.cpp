#include "power/request.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/joined.hpp"
#include "base/utf8.hpp"

namespace headgate::power {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::size_t kMaxAskedGpus = 64;
constexpr std::size_t kMaxAskedShown = 80;  // bytes of a caller's text in a message

std::optional<std::uint32_t> asked_number(const Ordered& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto value = json.get<std::uint64_t>();
  return value <= UINT32_MAX ? std::optional(static_cast<std::uint32_t>(value)) : std::nullopt;
}

std::string shown(const Ordered& json) {
  return printable(json.dump(-1, ' ', true, Ordered::error_handler_t::replace), kMaxAskedShown);
}

// Each reads one setting, and returns false if the value is not accepted. `parse` and `read` give nothing for that.
using config::PowerSettings;
template <auto member, auto parse>
bool take_text(const Ordered& json, PowerSettings& to) {
  if (json.is_string()) to.*member = parse(json.get_ref<const std::string&>());
  return json.is_string() && to.*member;
}
template <auto member, auto read>
bool take_value(const Ordered& json, PowerSettings& to) {
  to.*member = read(json);
  return (to.*member).has_value();
}

std::optional<config::Range> asked_range(const Ordered& json) {
  if (!json.is_array() || json.size() != 2) return std::nullopt;
  const auto least = asked_number(json[0]), most = asked_number(json[1]);
  if (!least || !most || *least > *most) return std::nullopt;
  return config::Range{*least, *most};
}

std::optional<std::uint32_t> mode_from(const Ordered& json) {
  if (json.is_string()) return config::parse_compute_mode(json.get<std::string>());
  const auto number = asked_number(json);
  return number == 0u || number == 2u || number == 3u ? number : std::nullopt;
}

bool take_milliwatts(const Ordered& json, PowerSettings& to) {
  const std::uint32_t number = asked_number(json).value_or(0);
  if (number != 0) to.power_limit = config::PowerLimit{config::PowerLimit::Kind::milliwatts, number};
  return number != 0;
}

bool take_persistence(const Ordered& json, PowerSettings& to) {
  if (json.is_boolean()) to.persistence = json.get<bool>();
  return json.is_boolean();
}

bool take_weights(const Ordered& json, PowerSettings& to) {
  if (!json.is_array() || json.empty()) return false;
  for (const Ordered& one : json) {
    const auto number = asked_number(one);
    if (!number) return false;
    to.weights.push_back(*number);
  }
  return true;
}

// One key of "settings": what is accepted, and its reader.
constexpr std::string_view kAcceptedRange = "[least, greatest]; [0, 0]: not locked";
struct SettingKey {
  std::string_view name, accepted;
  bool (*take)(const Ordered&, PowerSettings&);
};
constexpr SettingKey kSettingKeys[] = {
    {"power_limit", config::kAcceptedPowerLimit, take_text<&PowerSettings::power_limit, config::parse_power_limit>},
    {"power_limit_mw", "milliwatts", take_milliwatts},
    {"gpu_clocks", config::kAcceptedClocks, take_text<&PowerSettings::gpu_mhz, config::parse_clocks>},
    {"gpu_clocks_mhz", kAcceptedRange, take_value<&PowerSettings::gpu_mhz, asked_range>},
    {"mem_clocks", config::kAcceptedClocks, take_text<&PowerSettings::mem_mhz, config::parse_clocks>},
    {"mem_clocks_mhz", kAcceptedRange, take_value<&PowerSettings::mem_mhz, asked_range>},
    {"persistence", "true or false", take_persistence},
    {"compute_mode", config::kAcceptedComputeMode, take_value<&PowerSettings::compute_mode, mode_from>},
    {"time_slice", config::kAcceptedTimeSlice, take_text<&PowerSettings::time_slice, config::parse_time_slice>},
    {"budget", config::kAcceptedWatts, take_text<&PowerSettings::budget_mw, config::parse_milliwatts>},
    {"weights", "a list of numbers from 1 to 1000, one for each GPU", take_weights},
};

std::string names_of_settings() { return joined(kSettingKeys, ", ", &SettingKey::name); }

Result<PowerSettings> asked_settings(const Ordered& json) {
  if (!json.is_object())
    return fail(ErrorCode::usage, "settings is no object", "accepted in settings: " + names_of_settings());
  PowerSettings settings;
  for (const auto& [key, value] : json.items()) {
    const SettingKey* known = nullptr;
    for (const SettingKey& one : kSettingKeys)
      if (one.name == key) known = &one;
    if (known == nullptr)
      return fail(ErrorCode::usage, "settings has the unknown key '" + printable(key, kMaxAskedShown) + "'",
                  "accepted in settings: " + names_of_settings());
    if (!known->take(value, settings))
      return fail(ErrorCode::usage, "settings." + key + " = " + shown(value) + " is not accepted",
                  "accepted: " + std::string(known->accepted));
  }
  for (const std::string_view name : {"power_limit", "gpu_clocks", "mem_clocks"}) {
    const std::string with_unit = std::string(name) + (name == "power_limit" ? "_mw" : "_mhz");
    if (json.contains(name) && json.contains(with_unit))
      return fail(ErrorCode::usage, "settings has both " + std::string(name) + " and " + with_unit, "name one of them");
  }
  if (auto sound = config::check_power_settings(settings); !sound)
    return fail(ErrorCode::usage, sound.error().message,
                sound.error().hint.empty() ? "accepted in settings: " + names_of_settings() : sound.error().hint);
  return settings;
}

const char* accepted_keys(RequestKind kind) {
  switch (kind) {
    case RequestKind::settings: return "accepted: gpus, settings or profile, dry_run";
    case RequestKind::reset: return "accepted: gpus, dry_run";
    case RequestKind::lease: break;
  }
  return "accepted: gpus, settings or profile, holder_pid or ttl_s or both, dry_run";
}

Result<std::vector<std::string>> gpus_from(const Ordered& json, const char* accepted) {
  if (json == "all") return std::vector<std::string>{"all"};
  if (!json.is_array() || json.empty() || json.size() > kMaxAskedGpus)
    return fail(ErrorCode::usage, "gpus is no list of GPUs", accepted);
  std::vector<std::string> gpus;
  for (const Ordered& gpu : json) {
    if (!gpu.is_string() && !asked_number(gpu))
      return fail(ErrorCode::usage, "gpus has an entry that is no index and no UUID", accepted);
    gpus.push_back(gpu.is_string() ? gpu.get<std::string>() : std::to_string(*asked_number(gpu)));
  }
  return gpus;
}

Result<std::uint32_t> holder_number(const std::string& key, const Ordered& json, const char* accepted) {
  const bool is_time = key == "ttl_s";
  const auto number = asked_number(json);
  if (!number || *number == 0 || *number > (is_time ? kMaxTtlS : INT32_MAX))
    return fail(ErrorCode::usage, key + " is no number from 1" + (is_time ? " to " + std::to_string(kMaxTtlS) : ""),
                accepted);
  return *number;
}

std::string gpu_name(const GpuLimits& gpu) { return "GPU " + std::to_string(gpu.index); }

Result<PowerRange> range_of(const GpuLimits& gpu) {
  if (gpu.range) return *gpu.range;
  return fail(ErrorCode::unsupported, gpu_name(gpu) + ": the driver does not tell the range of its power limit",
              "give the limit in watts");
}

std::string range_text(const PowerRange& range) { return watts_text(range.min_mw) + " to " + watts_text(range.max_mw); }

Result<std::uint32_t> limit_of(const config::PowerLimit& wanted, const GpuLimits& gpu) {
  std::uint64_t limit_mw = wanted.value;
  if (wanted.kind == config::PowerLimit::Kind::of_maximum)
    limit_mw = (TRY(range_of(gpu)).max_mw * std::uint64_t{wanted.value} + 50'000) / 100'000;
  if (wanted.kind == config::PowerLimit::Kind::standard) {
    if (!gpu.default_mw)
      return fail(ErrorCode::unsupported, gpu_name(gpu) + ": the driver does not tell the default of its power limit",
                  "give the limit in watts");
    limit_mw = *gpu.default_mw;
  }
  if (gpu.range && (limit_mw < gpu.range->min_mw || limit_mw > gpu.range->max_mw))
    return fail(ErrorCode::usage, gpu_name(gpu) + ": power limit " + watts_text(limit_mw) + " is out of range",
                "accepted: " + range_text(*gpu.range));
  return static_cast<std::uint32_t>(limit_mw);
}

std::optional<ClockRange> clocks_of(const std::optional<config::Range>& mhz) {
  return mhz ? std::optional(ClockRange{mhz->least, mhz->most}) : std::nullopt;
}

}  // namespace

Result<PowerRequest> parse_power_request(RequestKind kind, std::string_view text) {
  const char* accepted = accepted_keys(kind);
  // The parser would keep the last of duplicate keys, but which one was meant is unknown.
  std::vector<std::vector<std::string>> seen;
  std::optional<std::string> twice;
  const Ordered json = Ordered::parse(
      text,
      [&](int, Ordered::parse_event_t event, Ordered& parsed) {
        if (event == Ordered::parse_event_t::object_start) seen.emplace_back();
        if (event == Ordered::parse_event_t::object_end && !seen.empty()) seen.pop_back();
        if (event != Ordered::parse_event_t::key || seen.empty()) return true;
        const auto key = parsed.get<std::string>();
        for (const std::string& one : seen.back())
          if (one == key) twice = key;
        seen.back().push_back(key);
        return true;
      },
      false);
  if (!json.is_object()) return fail(ErrorCode::usage, "the body is no JSON object", accepted);
  if (twice)
    return fail(ErrorCode::usage, "the key '" + printable(*twice, kMaxAskedShown) + "' is there twice", accepted);
  PowerRequest request;
  for (const auto& [key, value] : json.items()) {
    if (key == "gpus") {
      request.gpus = TRY(gpus_from(value, accepted));
    } else if (key == "dry_run" && value.is_boolean()) {
      request.dry_run = value.get<bool>();
    } else if (key == "settings" && kind != RequestKind::reset) {
      request.wanted = TRY(asked_settings(value));
    } else if (key == "profile" && kind != RequestKind::reset && value.is_string()) {
      request.profile = value.get<std::string>();
    } else if ((key == "holder_pid" || key == "ttl_s") && kind == RequestKind::lease) {
      (key == "ttl_s" ? request.ttl_s : request.holder_pid) = TRY(holder_number(key, value, accepted));
    } else if (key == "dry_run" || (key == "profile" && kind != RequestKind::reset)) {
      return fail(ErrorCode::usage, key + " = " + shown(value) + " is not accepted", accepted);
    } else {
      return fail(ErrorCode::usage, "unknown key '" + printable(key, kMaxAskedShown) + "'", accepted);
    }
  }
  if (request.gpus.empty()) return fail(ErrorCode::usage, "gpus is missing", accepted);
  if (kind != RequestKind::reset && request.wanted.empty() == request.profile.empty())
    return fail(
        ErrorCode::usage,
        request.wanted.empty() ? "neither settings nor profile is there" : "settings and profile exclude each other",
        accepted);
  if (kind == RequestKind::lease && request.holder_pid == 0 && request.ttl_s == 0)
    return fail(ErrorCode::usage, "a lease needs a holder: neither holder_pid nor ttl_s is there", accepted);
  return request;
}

std::string settings_json(const config::PowerSettings& settings) {
  Ordered json = Ordered::object();
  if (settings.power_limit) json["power_limit"] = config::format_power_limit(*settings.power_limit);
  if (settings.gpu_mhz) json["gpu_clocks"] = config::format_clocks(*settings.gpu_mhz);
  if (settings.mem_mhz) json["mem_clocks"] = config::format_clocks(*settings.mem_mhz);
  if (settings.persistence) json["persistence"] = *settings.persistence;
  if (settings.compute_mode) json["compute_mode"] = config::format_compute_mode(*settings.compute_mode);
  if (settings.time_slice) json["time_slice"] = config::format_time_slice(*settings.time_slice);
  if (settings.budget_mw)
    json["budget"] = config::format_power_limit({config::PowerLimit::Kind::milliwatts, *settings.budget_mw});
  if (!settings.weights.empty()) json["weights"] = settings.weights;
  return json.dump();
}

Result<std::vector<std::uint32_t>> split_budget(std::uint32_t budget_mw, const std::vector<BudgetPart>& parts) {
  std::uint64_t least = 0;
  for (const BudgetPart& part : parts) least += part.range.min_mw;
  if (least > budget_mw)
    return fail(ErrorCode::usage, "a budget of " + watts_text(budget_mw) + " is less than these GPUs can be held to",
                "accepted: at least " + watts_text(least));
  // Each GPU gets its weight times a common factor, clamped to its range. Bisects for the greatest factor within
  // budget.
  const auto limits_at = [&parts](double per_weight) {
    std::vector<std::uint32_t> limits;
    for (const BudgetPart& part : parts)
      limits.push_back(static_cast<std::uint32_t>(
          std::clamp<double>(per_weight * part.weight, part.range.min_mw, part.range.max_mw)));
    return limits;
  };
  double low = 0, high = UINT32_MAX;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    const auto limits = limits_at(middle);
    (std::accumulate(limits.begin(), limits.end(), std::uint64_t{0}) <= budget_mw ? low : high) = middle;
  }
  return limits_at(low);
}

Result<SettingsByGpu> resolve(const config::PowerSettings& wanted, const std::vector<GpuLimits>& gpus) {
  TRY(config::check_power_settings(wanted));
  std::vector<std::uint32_t> parts;
  if (wanted.budget_mw) {
    if (wanted.weights.size() > gpus.size())
      return fail(ErrorCode::usage, "weights has more entries than GPUs", "one for each GPU, in their order");
    std::vector<BudgetPart> of;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      of.push_back({.weight = i < wanted.weights.size() ? wanted.weights[i] : 1, .range = TRY(range_of(gpus[i]))});
    parts = TRY(split_budget(*wanted.budget_mw, of));
  }
  SettingsByGpu all;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    Settings& settings = all[gpus[i].uuid];
    if (wanted.budget_mw) settings.power_limit_mw = parts[i];
    if (wanted.power_limit) settings.power_limit_mw = TRY(limit_of(*wanted.power_limit, gpus[i]));
    settings.persistence = wanted.persistence;
    settings.compute_mode = wanted.compute_mode;
    settings.time_slice = wanted.time_slice;
    settings.gpu_clocks = clocks_of(wanted.gpu_mhz);
    settings.mem_clocks = clocks_of(wanted.mem_mhz);
  }
  return all;
}

Result<SettingsByGpu> reset_settings(const config::PowerSettings& site, const std::vector<GpuLimits>& gpus) {
  SettingsByGpu all;
  if (!site.empty()) all = TRY(resolve(site, gpus));
  for (const GpuLimits& gpu : gpus) {
    Settings& settings = all[gpu.uuid];
    if (!settings.power_limit_mw) settings.power_limit_mw = gpu.default_mw;
    if (!settings.gpu_clocks) settings.gpu_clocks = ClockRange{};
    if (!settings.mem_clocks) settings.mem_clocks = ClockRange{};
  }
  return all;
}

GpuLimits limits_of(const ControlQueues& queues, std::uint32_t index) {
  const GpuIdentity& gpu = queues.gpu(index).identity();
  return {.index = index, .uuid = gpu.uuid, .range = gpu.limit_range, .default_mw = gpu.default_limit_mw};
}

}  // namespace headgate::power
