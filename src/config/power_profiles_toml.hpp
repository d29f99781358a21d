// Parses [power.profile.NAME] tables. For config.cpp, which must include config/toml.hpp first.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/power_settings.hpp"
#include "config/toml.hpp"

namespace headgate::config {

// Adds the tables of `node` to `profiles`, replacing profiles of the same name, and mistakes to `errors`. `file`: for
// messages.
void read_power_profiles(const toml::node& node, const std::string& file, std::vector<PowerProfile>& profiles,
                         std::vector<Error>& errors);

}  // namespace headgate::config
