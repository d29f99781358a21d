// What the configuration says of power: which users may set which GPU, the site's own settings, command overrides.
#pragma once

#include <optional>
#include <vector>

#include "base/result.hpp"
#include "config/command_overrides.hpp"
#include "config/config.hpp"
#include "power/permission.hpp"

namespace headgate::daemon {

// Errors: usage, for a user or group that this machine does not know.
[[nodiscard]] Result<std::vector<power::Grant>> grants_of(const config::Config& config);
// Errors: of the file zeusd.command_overrides.
[[nodiscard]] Result<config::CommandOverrides> overrides_of(const config::Config& config);
// Returns the profile of power.at_start; empty: none is named. Errors: usage, if there is none of that name.
[[nodiscard]] Result<std::optional<config::PowerProfile>> site_of(const config::Config& config);
// Checks all three.
[[nodiscard]] Result<void> check_power_settings(const config::Config& config);

}  // namespace headgate::daemon
