#include "daemon/power_settings.hpp"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <string>

#include "base/whole_number.hpp"

namespace headgate::daemon {
namespace {

std::optional<power::Bounds> bounds_of(const std::optional<config::Range>& range) {
  if (!range) return std::nullopt;
  return power::Bounds{range->least, range->most};
}

Result<power::Grant> grant_of(const config::PowerGrant& from) {
  power::Grant grant;
  const auto unknown = [&from](const char* what, const std::string& name) {
    return fail(ErrorCode::usage, from.origin + ": power.grant: '" + name + "' is no " + what + " of this machine",
                std::string("accepted: a ") + what + "'s name or number");
  };
  for (const std::string& name : from.users) {
    grant.users.push_back(name);
    if (const auto uid = whole_number<std::uint32_t>(name)) grant.uids.push_back(*uid);
    else if (const passwd* entry = ::getpwnam(name.c_str())) grant.uids.push_back(entry->pw_uid);
    else return unknown("user", name);
  }
  for (const std::string& name : from.groups) {
    if (const auto gid = whole_number<std::uint32_t>(name)) grant.gids.push_back(*gid);
    else if (const ::group* entry = ::getgrnam(name.c_str())) grant.gids.push_back(entry->gr_gid);
    else return unknown("group", name);
  }
  grant.gpus = from.gpus;
  grant.milliwatts = bounds_of(from.milliwatts);
  grant.mhz = bounds_of(from.mhz);
  grant.memory_mhz = bounds_of(from.memory_mhz);
  grant.persistence = from.persistence;
  return grant;
}

}  // namespace

Result<std::vector<power::Grant>> grants_of(const config::Config& config) {
  std::vector<power::Grant> grants;
  for (const config::PowerGrant& one : config.power_grants) grants.push_back(TRY(grant_of(one)));
  return grants;
}

Result<config::CommandOverrides> overrides_of(const config::Config& config) {
  const std::string& path = config["zeusd.command_overrides"].value;
  if (path.empty()) return config::CommandOverrides{};
  return TRY(config::load_command_overrides(path)).overrides;
}

Result<std::optional<config::PowerProfile>> site_of(const config::Config& config) {
  const config::Setting& named = config["power.at_start"];
  if (named.value.empty()) return std::optional<config::PowerProfile>{};
  const auto found = std::ranges::find(config.power_profiles, named.value, &config::PowerProfile::name);
  if (found != config.power_profiles.end()) return std::optional(*found);
  return fail(ErrorCode::usage, named.origin + ": power.at_start = '" + named.value + "' names no profile",
              "write [power.profile." + named.value + "], or name one that is there");
}

Result<void> check_power_settings(const config::Config& config) {
  TRY(site_of(config));
  TRY(grants_of(config));
  TRY(overrides_of(config));
  return {};
}

}  // namespace headgate::daemon
