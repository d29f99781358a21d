#include "api/zeusd_wire.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/joined.hpp"
#include "base/trimmed.hpp"
#include "base/utf8.hpp"
#include "base/whole_number.hpp"

namespace headgate::api {
namespace {

using Json = nlohmann::ordered_json;

http::Response zeusd_json(const Json& body, int status = 200) {
  http::Response response;
  response.status = status;
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

std::string zeusd_text(const Error& error) {
  return error.message + (error.hint.empty() ? "" : " (" + error.hint + ")");
}

Json or_null(const std::optional<std::uint64_t>& value) { return value ? Json(*value) : Json(nullptr); }

Json reading_of(power::Operation operation, const power::Reading& reading) {
  switch (operation) {
    case power::Operation::get_power: return reading.value;
    case power::Operation::get_cumulative_energy: return {{"energy_mj", reading.value}};
    case power::Operation::get_power_limit: return {{"power_limit_mw", reading.value}};
    case power::Operation::get_power_limit_constraints:
      return {{"min_power_limit_mw", reading.value}, {"max_power_limit_mw", reading.second}};
    case power::Operation::get_persistence_mode: return {{"enabled", reading.value != 0}};
    default: return nullptr;
  }
}

}  // namespace

int zeusd_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::denied: return 403;
    case ErrorCode::usage:
    case ErrorCode::unsupported:
    case ErrorCode::not_found: return 400;
    case ErrorCode::busy: return 503;
    default: return 500;
  }
}

http::Response zeusd_error(int status, const std::string& text) { return zeusd_json({{"error", text}}, status); }

http::Response zeusd_error(const Error& error) { return zeusd_error(zeusd_status(error.code), zeusd_text(error)); }

http::Response zeusd_unauthorised(const std::string& text) {
  auto response = zeusd_error(401, text);
  response.headers.push_back({"WWW-Authenticate", "Bearer realm=\"zeusd\""});
  return response;
}

http::Response zeusd_answer(power::Operation operation, const power::Answers& answers, std::uint64_t unix_ms) {
  Json errors = Json::object(), readings = Json::object();
  int status = 200;
  for (const auto& [gpu, result] : answers) {
    const std::string index = std::to_string(gpu);
    if (result) {
      readings[index] = reading_of(operation, *result);
      continue;
    }
    errors[index] = zeusd_text(result.error());
    status = std::max(status, zeusd_status(result.error().code));
  }
  if (!errors.empty()) return zeusd_json({{"errors", errors}}, status);
  if (power::is_write(operation)) {
    http::Response done;
    done.content_type = "text/plain; charset=utf-8";
    return done;
  }
  if (operation == power::Operation::get_power) return zeusd_json({{"timestamp_ms", unix_ms}, {"power_mw", readings}});
  return zeusd_json(readings);
}

http::Response zeusd_discovery(const ZeusdFacts& facts) {
  Json gpus = Json::array(), cpus = Json::array(), groups = Json::array();
  Json gpu_ids = Json::array(), cpu_ids = Json::array(), dram = Json::array();
  for (std::size_t index = 0; index < facts.gpus.size(); ++index) {
    const power::GpuIdentity& gpu = facts.gpus[index];
    gpus.push_back({{"id", index},
                    {"name", gpu.name},
                    {"pci_address", gpu.pci_address},
                    {"cumulative_energy_available", gpu.has_energy_counter},
                    {"uuid", gpu.uuid}});
    gpu_ids.push_back(index);
  }
  for (const power::Rapl::Package& cpu : facts.cpus) {
    cpus.push_back({{"id", cpu.number}, {"dram_available", cpu.has_dram}});
    cpu_ids.push_back(cpu.number);
    dram.push_back(cpu.has_dram);
  }
  for (const power::ApiGroup group : facts.groups) groups.push_back(power::name_of(group));
  return zeusd_json({{"gpus", gpus},
                     {"cpus", cpus},
                     {"enabled_api_groups", groups},
                     {"auth_required", facts.auth_required},
                     {"gpu_ids", gpu_ids},
                     {"cpu_ids", cpu_ids},
                     {"dram_available", dram},
                     {"version", facts.version}});
}

http::Response zeusd_identity(const power::TokenClaims& claims) {
  Json scopes = Json::array();
  for (const power::ApiGroup scope : claims.scopes) scopes.push_back(power::name_of(scope));
  Json body = {{"sub", claims.user}, {"scopes", scopes}};
  if (claims.expires_s) body["exp"] = *claims.expires_s;
  return zeusd_json(body);
}

http::Response zeusd_time(std::uint64_t unix_ms) { return zeusd_json({{"timestamp_ms", unix_ms}}); }

http::Response zeusd_cpu_energy(const std::vector<CpuReading>& readings, bool cpu, bool dram) {
  Json body = Json::object();
  for (const auto& [number, energy] : readings)
    body[std::to_string(number)] = {{"cpu_energy_uj", cpu ? Json(energy.package_uj) : Json(nullptr)},
                                    {"dram_energy_uj", dram ? or_null(energy.dram_uj) : Json(nullptr)}};
  return zeusd_json(body);
}

http::Response zeusd_cpu_power(const std::vector<power::PowerSample>& samples, std::uint64_t unix_ms) {
  Json power = Json::object();
  for (const power::PowerSample& sample : samples)
    power[std::to_string(sample.device)] = {{"cpu_mw", sample.draw.mw}, {"dram_mw", or_null(sample.draw.dram_mw)}};
  return zeusd_json({{"timestamp_ms", unix_ms}, {"power_mw", power}});
}

// Formatted by hand: at 20 Hz to many clients, JSON formatting is most of an event's cost.
std::string zeusd_gpu_event(const power::PowerSample& sample) {
  return R"({"timestamp_ms":)" + std::to_string(sample.unix_ms) + R"(,"gpu_id":)" + std::to_string(sample.device) +
         R"(,"power_mw":)" + std::to_string(sample.draw.mw) + "}";
}

std::string zeusd_cpu_event(const power::PowerSample& sample) {
  return R"({"timestamp_ms":)" + std::to_string(sample.unix_ms) + R"(,"cpu_id":)" + std::to_string(sample.device) +
         R"(,"cpu_mw":)" + std::to_string(sample.draw.mw) + R"(,"dram_mw":)" +
         (sample.draw.dram_mw ? std::to_string(*sample.draw.dram_mw) : "null") + "}";
}

namespace {

constexpr std::size_t kMaxShown = 80;  // bytes of a caller's text in a message

std::string in_ticks(std::string_view text) { return "`" + printable(text, kMaxShown) + "`"; }

std::string names_of_parameters(std::span<const ZeusdParameter> accepted) {
  const auto names = joined(accepted, ", ", [](const ZeusdParameter& one) { return in_ticks(one.name); });
  return names.empty() ? "there are no fields" : "expected " + names;
}

Result<std::vector<std::uint32_t>> parse_id_list(std::string_view name, std::string_view text) {
  std::vector<std::uint32_t> ids;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view item = trimmed(rest.substr(0, comma));
    const auto id = whole_number<std::uint32_t>(item);
    if (!id)
      return fail(ErrorCode::usage, "invalid " + std::string(name) + " " + in_ticks(text) + ": " +
                                        (item.empty() ? "an index is missing" : in_ticks(item) + " is no index") +
                                        "; expected indices with commas, such as 0,1");
    ids.push_back(*id);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

}  // namespace

std::optional<std::vector<std::uint32_t>> ZeusdQuery::list(std::string_view name) const {
  const auto found = ids.find(name);
  return found == ids.end() ? std::nullopt : std::optional(found->second);
}

bool ZeusdQuery::flag(std::string_view name) const {
  const auto found = flags.find(name);
  return found != flags.end() && found->second;
}

std::uint32_t ZeusdQuery::number(std::string_view name) const {
  const auto found = numbers.find(name);
  return found == numbers.end() ? 0 : found->second;
}

Result<ZeusdQuery> parse_zeusd_query(const http::Fields& query, std::span<const ZeusdParameter> accepted) {
  ZeusdQuery parsed;
  std::map<std::string_view, std::string_view> lists;  // parsed last, so that ill-typed parameters are reported first
  for (const http::Field& field : query) {
    const auto parameter = std::ranges::find(accepted, field.name, &ZeusdParameter::name);
    if (parameter == accepted.end())
      return fail(ErrorCode::usage, "unknown field " + in_ticks(field.name) + ", " + names_of_parameters(accepted));
    if (std::ranges::count(query, field.name, &http::Field::name) > 1)
      return fail(ErrorCode::usage, "duplicate field " + in_ticks(field.name) + ": give it once");
    switch (parameter->kind) {
      case ZeusdParameter::Kind::ids: lists[parameter->name] = field.value; break;
      case ZeusdParameter::Kind::flag:
        if (field.value != "true" && field.value != "false")
          return fail(ErrorCode::usage,
                      "invalid value " + in_ticks(field.value) + " of " + field.name + ": expected `true` or `false`");
        parsed.flags[field.name] = field.value == "true";
        break;
      case ZeusdParameter::Kind::number: {
        const auto number = whole_number<std::uint32_t>(field.value);
        if (!number)
          return fail(ErrorCode::usage, "invalid value " + in_ticks(field.value) + " of " + field.name +
                                            ": expected a whole number from 0 to 4294967295");
        parsed.numbers[field.name] = *number;
        break;
      }
    }
  }
  for (const ZeusdParameter& parameter : accepted) {
    if (parameter.required && std::ranges::find(query, parameter.name, &http::Field::name) == query.end())
      return fail(ErrorCode::usage, "missing field " + in_ticks(parameter.name));
  }
  for (const auto& [name, text] : lists) parsed.ids[std::string(name)] = TRY(parse_id_list(name, text));
  return parsed;
}

}  // namespace headgate::api
