// Reads [power.profile.NAME] tables; for config.cpp, which has included config/toml.hpp.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/power_settings.hpp"
#include "config/toml.hpp"

namespace headgate::config {

// Adds the tables of `node`, by their names, to `profiles`; a later one replaces an earlier one of its name. Each
// mistake goes to `errors`. `file`: for messages.
void read_power_profiles(const toml::node& node, const std::string& file, std::vector<PowerProfile>& profiles,
                         std::vector<Error>& errors);

}  // namespace headgate::config
