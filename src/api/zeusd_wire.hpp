// The zeusd API's wire: parameters of requests, and bodies and status codes of replies. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "http/message.hpp"
#include "power/control_queues.hpp"
#include "power/power_feed.hpp"
#include "power/rapl.hpp"
#include "power/token.hpp"

namespace headgate::api {

// Maps denied to 403; usage, unsupported and not_found to 400; busy to 503; all others to 500.
[[nodiscard]] int zeusd_status(ErrorCode code);

// {"error": TEXT}
[[nodiscard]] http::Response zeusd_error(int status, const std::string& text);
[[nodiscard]] http::Response zeusd_error(const Error& error);
// Returns 401 with the header that asks for a token.
[[nodiscard]] http::Response zeusd_unauthorised(const std::string& text);

// Returns 200 if every GPU succeeded: empty for a write, else the readings by index. Otherwise {"errors": {INDEX:
// TEXT}} with the greatest status of the failed ones.
[[nodiscard]] http::Response zeusd_answer(power::Operation operation, const power::Answers& answers,
                                          std::uint64_t unix_ms);

struct ZeusdFacts {
  std::vector<power::GpuIdentity> gpus;
  std::vector<power::Rapl::Package> cpus;
  std::vector<power::ApiGroup> groups;
  bool auth_required = false;
  std::string version;
};
// Returns /discover with the keys of zeusd 0.6, the flat ones of 0.3 and 0.4, and `uuid` and `version`.
[[nodiscard]] http::Response zeusd_discovery(const ZeusdFacts& facts);

[[nodiscard]] http::Response zeusd_identity(const power::TokenClaims& claims);
[[nodiscard]] http::Response zeusd_time(std::uint64_t unix_ms);

struct CpuReading {
  std::uint32_t cpu = 0;
  power::CpuEnergy energy;
};
// Figures that were not requested are null.
[[nodiscard]] http::Response zeusd_cpu_energy(const std::vector<CpuReading>& readings, bool cpu, bool dram);
[[nodiscard]] http::Response zeusd_cpu_power(const std::vector<power::PowerSample>& samples, std::uint64_t unix_ms);

// One event of a power stream.
[[nodiscard]] std::string zeusd_gpu_event(const power::PowerSample& sample);
[[nodiscard]] std::string zeusd_cpu_event(const power::PowerSample& sample);

// Parses the query of a zeusd request as strictly as zeusd does: unknown, repeated, missing and ill-typed parameters
// are refused. Pure.

struct ZeusdParameter {
  enum class Kind {
    ids,     // "0,1": integers separated by commas; sorted, no duplicates
    flag,    // "true" or "false", exactly
    number,  // a 32-bit unsigned integer
  };
  std::string_view name;
  Kind kind;
  bool required;
};

struct ZeusdQuery {
  std::map<std::string, std::vector<std::uint32_t>, std::less<>> ids;
  std::map<std::string, bool, std::less<>> flags;
  std::map<std::string, std::uint32_t, std::less<>> numbers;

  // Returns the parameter; if it was not given: nothing, false or 0.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> list(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] std::uint32_t number(std::string_view name) const;
};

// Errors: usage; the message contains zeusd's words "missing field", "unknown field", "duplicate field" or "invalid".
[[nodiscard]] Result<ZeusdQuery> parse_zeusd_query(const http::Fields& query, std::span<const ZeusdParameter> accepted);

}  // namespace headgate::api
